//! Small graphs for the tests of rewrites, built call by call; types are inferred when the rewrites run.

use crate::infer::infer;
use crate::ir::{Attr, DataType, Dim, Graph, Node, Tensor, TensorType, Value, ValueId};
use crate::rewrite::{Event, Rewrite, rewrite};

#[derive(Debug, Default)]
pub struct Build {
    pub graph: Graph,
}

impl Build {
    pub fn new() -> Self {
        let mut graph = Graph::default();
        graph.opsets.insert(String::new(), 17);
        Self { graph }
    }

    pub fn input(&mut self, name: &str, shape: &[i64]) -> ValueId {
        let shape = shape.iter().map(|&d| Dim::Known(d)).collect();
        let v = self.graph.add_typed(name, TensorType::new(DataType::F32, shape));
        self.graph.inputs.push(v);
        v
    }

    pub fn input_of(&mut self, name: &str, dtype: DataType, shape: &[i64]) -> ValueId {
        let shape = shape.iter().map(|&d| Dim::Known(d)).collect();
        let v = self.graph.add_typed(name, TensorType::new(dtype, shape));
        self.graph.inputs.push(v);
        v
    }

    /// A constant of integers.
    pub fn ints(&mut self, dtype: DataType, shape: &[usize], values: &[i128]) -> ValueId {
        self.graph.add_constant("c", Tensor::from_i128(dtype, shape.to_vec(), values).unwrap())
    }

    /// A scale and a zero point.
    pub fn coding(&mut self, scale: f32, dtype: DataType, zero: i128) -> [ValueId; 2] {
        [self.number(scale), self.ints(dtype, &[], &[zero])]
    }

    pub fn constant(&mut self, shape: &[usize], values: &[f32]) -> ValueId {
        self.graph.add_constant("c", Tensor::from_f32(shape.to_vec(), values))
    }

    pub fn number(&mut self, value: f32) -> ValueId {
        self.constant(&[], &[value])
    }

    pub fn op(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        self.op_with(op, inputs, &[])
    }

    pub fn op_with(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let out = self.graph.add_value(Value { name: format!("{op}_out"), ..Value::default() });
        let mut node = Node {
            name: format!("n{}", self.graph.node_count()),
            op_type: op.into(),
            version: 17,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(out)],
            ..Node::default()
        };
        for (k, v) in attrs {
            node.attrs.set(*k, v.clone());
        }
        self.graph.add_node(node);
        out
    }

    /// An op of com.microsoft.
    pub fn ms(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let y = self.op_with(op, inputs, attrs);
        let (id, _) = self.graph.value(y).producer.unwrap();
        let node = self.graph.node_mut(id);
        (node.domain, node.version) = ("com.microsoft".into(), 1);
        y
    }

    /// One more output of the node that makes `v`.
    pub fn more(&mut self, v: ValueId) -> ValueId {
        let (id, _) = self.graph.value(v).producer.unwrap();
        let n = self.graph.node(id).outputs.len();
        let out = self.graph.add_value(Value { name: format!("more{n}"), producer: Some((id, n)), ..Value::default() });
        self.graph.node_mut(id).outputs.push(Some(out));
        out
    }

    /// Runs one rewrite over the graph with `output` as its output: the ops that are left, in order, and what happened.
    pub fn run(&mut self, r: Rewrite, output: ValueId) -> (Vec<String>, Vec<Event>) {
        self.graph.outputs = vec![output];
        let found = infer(&mut self.graph).unwrap();
        assert_eq!(found.errors, []);
        let events = rewrite(&mut self.graph, &[r]).unwrap();
        let order = self.graph.topological_order().unwrap();
        (order.into_iter().map(|n| self.graph.node(n).op_type.clone()).collect(), events)
    }

    /// The node that makes the graph's output.
    pub fn last(&self) -> &Node {
        let (id, _) = self.graph.value(self.graph.outputs[0]).producer.unwrap();
        self.graph.node(id)
    }
}
