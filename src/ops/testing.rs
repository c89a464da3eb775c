//! One-node graphs for the tests of op families: inference, folding and lowering of a single node.

use crate::ir::{Attr, DataType, Dim, Graph, Node, Shape, Tensor, TensorType, Value, ValueId, ValueType};
use crate::lower::{Lowering, Refusal, Target};
use crate::ops::{self, FoldCx, InferCx, OpError, OutFact};
use crate::qnn::graph::{Param, QnnGraph, QnnType};

mod cases;
mod eval;

pub use eval::evaluate;

/// A graph of one node, built up call by call. Inputs are called `x0`, `x1`, ... and outputs `y0`, `y1`, ...
#[derive(Debug)]
pub struct OneNode {
    graph: Graph,
    node: Node,
}

/// `Add` of ai.onnx or `com.microsoft::Gelu`, in opset version `version`, with one output.
pub fn node(op: &str, version: i64) -> OneNode {
    let (domain, op_type) = op.rsplit_once("::").unwrap_or(("", op));
    let node = Node { name: "n".into(), domain: domain.into(), op_type: op_type.into(), version, ..Node::default() };
    let mut graph = Graph::default();
    graph.opsets.insert(domain.into(), version);
    OneNode { graph, node }.outputs(1)
}

impl OneNode {
    fn push(mut self, v: ValueId) -> Self {
        self.node.inputs.push(Some(v));
        self
    }

    /// A run-time input. Negative dimensions are free: -1 is the symbol `d1`, -2 is `d2`, ...
    pub fn input(mut self, dtype: DataType, shape: &[i64]) -> Self {
        let dims: Shape =
            shape.iter().map(|&d| if d < 0 { Dim::symbol(format!("d{}", -d)) } else { Dim::Known(d) }).collect();
        let name = format!("x{}", self.node.inputs.len());
        let v = self.graph.add_typed(&name, TensorType::new(dtype, dims));
        self.graph.inputs.push(v);
        self.push(v)
    }

    /// A run-time input of float32.
    pub fn float(self, shape: &[i64]) -> Self {
        self.input(DataType::F32, shape)
    }

    /// A run-time integer input whose elements are known as expressions.
    pub fn elements(mut self, dtype: DataType, shape: &[i64], elements: Vec<Dim>) -> Self {
        self = self.input(dtype, shape);
        if let Some(Some(v)) = self.node.inputs.last() {
            self.graph.value_mut(*v).elements = Some(elements);
        }
        self
    }

    pub fn constant(mut self, data: Tensor) -> Self {
        let name = format!("x{}", self.node.inputs.len());
        let v = self.graph.add_constant(&name, data);
        self.push(v)
    }

    pub fn floats(self, shape: &[usize], values: &[f32]) -> Self {
        self.constant(Tensor::from_f32(shape.to_vec(), values))
    }

    /// A constant int64 vector.
    pub fn ints(self, values: &[i64]) -> Self {
        self.constant(Tensor::from_i64(vec![values.len()], values))
    }

    /// An omitted optional input.
    pub fn omit(mut self) -> Self {
        self.node.inputs.push(None);
        self
    }

    /// The same value as input `i`, once more.
    pub fn again(mut self, i: usize) -> Self {
        let v = self.node.inputs[i];
        self.node.inputs.push(v);
        self
    }

    pub fn attr(mut self, name: &str, value: Attr) -> Self {
        self.node.attrs.set(name, value);
        self
    }

    pub fn int(self, name: &str, value: i64) -> Self {
        self.attr(name, Attr::Int(value))
    }

    pub fn int_list(self, name: &str, values: &[i64]) -> Self {
        self.attr(name, Attr::Ints(values.to_vec()))
    }

    pub fn real(self, name: &str, value: f32) -> Self {
        self.attr(name, Attr::Float(value))
    }

    pub fn text(self, name: &str, value: &str) -> Self {
        self.attr(name, Attr::Str(value.to_string().into()))
    }

    /// Asks for `n` outputs.
    pub fn outputs(mut self, n: usize) -> Self {
        for i in self.node.outputs.len()..n {
            let v = self.graph.add_value(Value { name: format!("y{i}"), ..Value::default() });
            self.node.outputs.push(Some(v));
            self.graph.outputs.push(v);
        }
        self
    }

    /// Output `i` is not asked for.
    pub fn no_output(mut self, i: usize) -> Self {
        if let Some(v) = self.node.outputs[i].take() {
            self.graph.outputs.retain(|o| *o != v);
        }
        self
    }

    /// What inference says about every output.
    pub fn infer(&self) -> Result<Vec<OutFact>, OpError> {
        let def = ops::find(&self.node.domain, &self.node.op_type).expect("the op is registered");
        let mut cx = InferCx::new(&self.graph, &self.node);
        (def.infer)(&mut cx)?;
        Ok(cx.out)
    }

    /// Types of the outputs in words: `float32[1, 3]`; `?` for an unknown one.
    pub fn types(&self) -> Vec<String> {
        let facts = self.infer().expect("inference succeeds");
        facts.iter().map(|f| f.ty.tensor().map_or("?".into(), ToString::to_string)).collect()
    }

    /// The message of the user's error that inference finds.
    pub fn error(&self) -> String {
        match self.infer() {
            Err(OpError::Invalid(m)) => m,
            other => panic!("expected a user error, got {other:?}"),
        }
    }

    /// The folded outputs.
    pub fn fold(&self) -> Option<Vec<Tensor>> {
        let out = self.infer().expect("inference succeeds");
        let def = ops::find(&self.node.domain, &self.node.op_type)?;
        (def.fold?)(&FoldCx { graph: &self.graph, node: &self.node, out: &out })
    }

    /// The lowered graph, for an SoC of v75 with real numbers in FLOAT_32.
    pub fn lower(&self) -> Result<QnnGraph, Refusal> {
        let facts = self.infer().expect("inference succeeds");
        let mut graph = self.graph.clone();
        for (out, fact) in self.node.outputs.iter().zip(facts) {
            if let Some(v) = out {
                graph.value_mut(*v).ty = fact.ty;
                graph.value_mut(*v).elements = fact.elements;
            }
        }
        let id = graph.add_node(self.node.clone());
        let target = Target { soc: "sm8650".into(), arch: 75, float: QnnType::FLOAT_32, allow_approximate: false };
        let mut low = Lowering::new(&graph, &target, "g");
        low.node(id)?;
        let (inputs, outputs) = (graph.inputs.clone(), graph.outputs.clone());
        for v in outputs {
            low.output(v)?;
        }
        Ok(low.finish(&inputs))
    }

    /// The messages of the refusal to lower.
    pub fn refusal(&self) -> String {
        match self.lower() {
            Err(r) => r.0.iter().map(|r| r.message.clone()).collect::<Vec<_>>().join("; "),
            Ok(g) => panic!("expected a refusal, got {:?}", op_types(&g)),
        }
    }

    /// Lowers, and evaluates the QNN graph on these values of the run-time inputs, in 64-bit floats.
    pub fn run(&self, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        evaluate(&self.lower().expect("the node is lowered"), inputs)
    }

    /// Types of the inputs, for tests that need to know them.
    pub fn input_type(&self, i: usize) -> ValueType {
        self.node.input(i).map(|v| self.graph.value(v).ty.clone()).unwrap_or_default()
    }
}

/// The op types, in order.
pub fn op_types(g: &QnnGraph) -> Vec<&str> {
    g.ops.iter().map(|op| op.op_type.as_str()).collect()
}

/// The parameter `name` of op `i`.
pub fn param(g: &QnnGraph, i: usize, name: &str) -> Option<Param> {
    g.ops[i].params.iter().find(|(n, _)| n == name).map(|(_, p)| p.clone())
}

/// Asserts that two lists of numbers agree within `tolerance`.
#[track_caller]
pub fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "number of elements");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance, "element {i}: got {g}, want {w}\ngot  {got:?}\nwant {want:?}");
    }
}

/// Numbers `first`, `first + step`, ... : inputs for tests that are easy to make in numpy, too.
pub fn ramp(n: usize, first: f64, step: f64) -> Vec<f64> {
    (0..n).map(|i| first + step * i as f64).collect()
}
