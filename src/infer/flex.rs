//! FlexAttention of ai.onnx.preview: attention whose scores and weights are changed by graphs of the user's.

use super::splice::{NodeNames, Splice, provenance};
use crate::ir::{Attr, Graph, Node, NodeId, Tensor, Value, ValueId};

const REWRITE: &str = "expand-flex-attention";

/// Puts the ONNX ops that a FlexAttention stands for, with its modifiers, in the node's place. Inference must have run.
/// Gives how many went; one of unknown shape, or with modifiers of another form than ONNX has it, stays.
pub fn expand_flex_attention(graph: &mut Graph) -> usize {
    let ids: Vec<NodeId> = graph
        .nodes()
        .filter(|(_, n)| n.op_type == "FlexAttention" && n.domain == "ai.onnx.preview")
        .map(|(id, _)| id)
        .collect();
    let mut names = NodeNames::of(graph);
    let mut done = 0;
    for id in ids {
        let Some(plan) = Plan::of(graph, graph.node(id)) else { continue };
        if let Some(node) = graph.remove_node(id) {
            plan.run(graph, &node, &mut names);
            done += 1;
        }
    }
    done
}

struct Plan {
    inputs: [ValueId; 3],
    output: ValueId,
    /// Heads of the queries, and of keys and values.
    heads: [i64; 2],
    scale: f32,
    /// The element type that the product with the values is in.
    dtype: crate::ir::DataType,
    version: i64,
}

impl Plan {
    fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let inputs = [node.input(0)?, node.input(1)?, node.input(2)?];
        let dims = |v: ValueId| graph.value(v).ty.tensor().filter(|t| t.shape.len() == 4);
        let (q, k) = (dims(inputs[0])?, dims(inputs[1])?);
        let heads = [q.shape[1].known()?, k.shape[1].known()?];
        if heads[1] < 1 || heads[0] % heads[1] != 0 {
            return None;
        }
        let modifiers = ["score_mod", "prob_mod"].map(|name| node.attrs.graph(name));
        // Captures of two bodies would share one list; the modifiers of ONNX's own function capture nothing.
        let plain = |b: &&Graph| b.inputs.len() == 1 && b.outputs.len() == 1 && b.captured.is_empty();
        if !modifiers.iter().flatten().all(plain) || !node.captures.is_empty() {
            return None;
        }
        let scale = match node.attrs.float("scale") {
            Some(s) => s,
            None => 1.0 / (q.shape[3].known()? as f32).sqrt(),
        };
        let version = graph.opsets.get("").copied().unwrap_or(18);
        Some(Self { inputs, output: node.output(0)?, heads, scale, dtype: q.dtype, version })
    }

    fn run(self, graph: &mut Graph, node: &Node, names: &mut NodeNames) {
        let [q, mut k, mut v] = self.inputs;
        let [heads, shared] = self.heads;
        if heads != shared {
            let index: Vec<i64> = (0..heads).map(|h| h / (heads / shared)).collect();
            let index =
                graph.add_constant(&format!("{}.heads", node.name), Tensor::from_i64(vec![index.len()], &index));
            for t in [&mut k, &mut v] {
                *t = self.add(graph, node, names, "Gather", &[*t, index], &[("axis", Attr::Int(1))]);
            }
        }
        let k = self.add(graph, node, names, "Transpose", &[k], &[("perm", Attr::Ints(vec![0, 1, 3, 2]))]);
        let scores = self.add(graph, node, names, "MatMul", &[q, k], &[]);
        let factor = Tensor::from_f64(self.dtype, vec![], &[f64::from(self.scale)]);
        let factor = factor.unwrap_or_else(|| Tensor::from_f32(vec![], &[self.scale]));
        let factor = graph.add_constant(&format!("{}.scale", node.name), factor);
        let scores = self.add(graph, node, names, "Mul", &[scores, factor], &[]);
        let scores = self.modified(graph, node, names, "score_mod", scores);
        let weights = self.add(graph, node, names, "Softmax", &[scores], &[("axis", Attr::Int(-1))]);
        let weights = self.modified(graph, node, names, "prob_mod", weights);
        let weights = self.add(graph, node, names, "CastLike", &[weights, v], &[]);
        self.push(graph, node, names, "MatMul", &[weights, v], self.output, &[]);
    }

    /// What a modifier makes of `v`. Its element type is that of attribute softmax_precision, float32 by default.
    fn modified(&self, graph: &mut Graph, node: &Node, names: &mut NodeNames, name: &str, v: ValueId) -> ValueId {
        let Some(body) = node.attrs.graph(name).cloned() else { return v };
        let default = if self.dtype == crate::ir::DataType::F64 { 11 } else { 1 };
        let to = node.attrs.int_or("softmax_precision", default);
        let v = self.add(graph, node, names, "Cast", &[v], &[("to", Attr::Int(to))]);
        let given = std::iter::once((body.inputs[0], v)).collect();
        let out = Splice { given, targets: vec![None], owner: node, rewrite: REWRITE }.run(graph, &body, names);
        out.first().copied().unwrap_or(v)
    }

    fn add(
        &self,
        graph: &mut Graph,
        owner: &Node,
        names: &mut NodeNames,
        op: &str,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let out = graph.add_value(Value { name: format!("{}.t", owner.name), ..Value::default() });
        self.push(graph, owner, names, op, inputs, out, attrs);
        out
    }

    #[allow(clippy::too_many_arguments)]
    fn push(
        &self,
        graph: &mut Graph,
        owner: &Node,
        names: &mut NodeNames,
        op: &str,
        inputs: &[ValueId],
        output: ValueId,
        attrs: &[(&str, Attr)],
    ) {
        let mut node = Node {
            name: names.fresh(&format!("{}.{op}", owner.name)),
            op_type: op.into(),
            version: self.version,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            origin: provenance(owner, REWRITE),
            ..Node::default()
        };
        for (name, value) in attrs {
            node.attrs.set(*name, value.clone());
        }
        graph.add_node(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, TensorType};

    fn attention(heads: i64, shared: i64, modified: bool) -> Graph {
        let mut g = Graph::default();
        g.opsets.insert(String::new(), 21);
        let ty = |h: i64| TensorType::new(DataType::F32, [1, h, 3, 4].map(crate::ir::Dim::Known).to_vec());
        let inputs = [("q", heads), ("k", shared), ("v", shared)].map(|(n, h)| g.add_typed(n, ty(h)));
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        let mut node = Node {
            name: "a".into(),
            domain: "ai.onnx.preview".into(),
            op_type: "FlexAttention".into(),
            version: 1,
            inputs: inputs.map(Some).to_vec(),
            outputs: vec![Some(y)],
            ..Node::default()
        };
        if modified {
            let mut b = Graph::default();
            let s = b.add_typed("s", ty(heads));
            let t = b.add_typed("t", ty(heads));
            b.add_node(Node {
                name: "tanh".into(),
                op_type: "Tanh".into(),
                version: 13,
                inputs: vec![Some(s)],
                outputs: vec![Some(t)],
                ..Node::default()
            });
            (b.inputs, b.outputs) = (vec![s], vec![t]);
            node.attrs.set("score_mod", Attr::Graph(Box::new(b)));
        }
        g.add_node(node);
        (g.inputs, g.outputs) = (inputs.to_vec(), vec![y]);
        g
    }

    fn ops(g: &Graph) -> String {
        let order = g.topological_order().unwrap();
        order.into_iter().map(|id| g.node(id).op_type.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_it_stands_for() {
        let mut g = attention(2, 2, false);
        assert_eq!(expand_flex_attention(&mut g), 1);
        assert_eq!(ops(&g), "Transpose MatMul Mul Softmax CastLike MatMul");
        let mut g = attention(4, 2, true);
        expand_flex_attention(&mut g);
        assert_eq!(ops(&g), "Gather Gather Transpose MatMul Mul Cast Tanh Softmax CastLike MatMul");
        assert_eq!(g.value(g.outputs[0]).producer.map(|p| p.1), Some(0));
        assert_eq!(expand_flex_attention(&mut attention(3, 2, false)), 0);
    }
}
