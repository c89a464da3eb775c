//! Ifs whose condition is known at compile time.

use std::collections::HashMap;

use super::splice::{NodeNames, Splice};
use crate::ir::{Graph, NodeId, ValueId};

/// Puts the taken branch of every If with a constant condition in the If's place, those inside of taken branches
/// included. Gives how many Ifs went.
///
/// Values of the branch keep their names where these are free; the If's outputs keep theirs.
pub fn inline_constant_ifs(graph: &mut Graph) -> usize {
    let mut done = 0;
    let mut names = NodeNames::of(graph);
    while let Some((id, taken)) = next(graph) {
        let body = graph.node(id).attrs.graph(taken).cloned();
        let (Some(body), Some(node)) = (body, graph.remove_node(id)) else { return done };
        let given: HashMap<ValueId, ValueId> =
            body.captured.iter().copied().zip(node.captures.iter().copied()).collect();
        let targets = (0..body.outputs.len()).map(|i| node.output(i)).collect();
        Splice { given, targets, owner: &node, rewrite: "inline-if" }.run(graph, &body, &mut names);
        done += 1;
    }
    done
}

fn next(graph: &Graph) -> Option<(NodeId, &'static str)> {
    graph.nodes().find_map(|(id, _)| Some((id, branch(graph, id)?)))
}

/// The attribute that holds the branch that an If takes, if that is known and its form is as ONNX has it.
fn branch(graph: &Graph, id: NodeId) -> Option<&'static str> {
    let node = graph.node(id);
    if !node.is("If") {
        return None;
    }
    let condition = graph.value(node.input(0)?).data.as_ref()?.scalar_f64()?;
    let name = if condition == 0.0 { "else_branch" } else { "then_branch" };
    let body = node.attrs.graph(name)?;
    let fits = body.captured.len() == node.captures.len() && body.outputs.len() >= node.outputs.len();
    (fits && body.inputs.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, DataType, Dim, Node, Tensor, TensorType, Value};

    fn ty() -> TensorType {
        TensorType::new(DataType::F32, vec![Dim::Known(2)])
    }

    /// A branch that captures `x` and gives `op(x)`, or `x` itself, or a constant.
    fn branch(op: &str) -> Graph {
        let mut g = Graph::default();
        let x = g.add_typed("x", ty());
        g.captured = vec![x];
        g.outputs = vec![match op {
            "" => x,
            "constant" => g.add_constant("k", Tensor::from_f32(vec![2], &[1.0, 2.0])),
            _ => {
                let y = g.add_value(Value { name: "y".into(), ..Value::default() });
                g.add_node(Node {
                    name: "inner".into(),
                    op_type: op.into(),
                    version: 13,
                    inputs: vec![Some(x)],
                    outputs: vec![Some(y)],
                    ..Node::default()
                });
                y
            }
        }];
        g
    }

    fn graph(condition: bool, then: Graph, other: Graph) -> Graph {
        let mut g = Graph::default();
        let x = g.add_typed("x", ty());
        let c = g.add_constant("c", Tensor::from_bools(vec![], &[condition]));
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        let mut node = Node {
            name: "if".into(),
            op_type: "If".into(),
            version: 13,
            inputs: vec![Some(c)],
            outputs: vec![Some(y)],
            captures: vec![x],
            ..Node::default()
        };
        node.attrs.set("then_branch", Attr::Graph(Box::new(then)));
        node.attrs.set("else_branch", Attr::Graph(Box::new(other)));
        g.add_node(node);
        g.inputs = vec![x];
        g.outputs = vec![y];
        g
    }

    fn ops(g: &Graph) -> Vec<(String, String, String)> {
        let name = |v: Option<ValueId>| v.map(|v| g.value(v).name.clone()).unwrap_or_default();
        g.nodes().map(|(_, n)| (n.op_type.clone(), name(n.input(0)), name(n.output(0)))).collect()
    }

    #[test]
    fn the_taken_branch_stands_in_for_the_if() {
        for (condition, op) in [(true, "Abs"), (false, "Neg")] {
            let mut g = graph(condition, branch("Abs"), branch("Neg"));
            assert_eq!(inline_constant_ifs(&mut g), 1);
            assert_eq!(ops(&g), [(op.into(), "x".into(), "y".into())]);
            assert_eq!(g.value(g.outputs[0]).producer.map(|p| p.1), Some(0));
            let (_, n) = g.nodes().next().unwrap();
            assert_eq!(n.origin.rewrites, ["inline-if"]);
        }
    }

    #[test]
    fn a_branch_without_nodes_becomes_an_identity() {
        let mut g = graph(true, branch(""), branch("Neg"));
        inline_constant_ifs(&mut g);
        assert_eq!(ops(&g), [("Identity".into(), "x".into(), "y".into())]);
        let mut g = graph(false, branch("Neg"), branch("constant"));
        inline_constant_ifs(&mut g);
        assert_eq!(ops(&g), [("Identity".into(), "k".into(), "y".into())]);
    }

    #[test]
    fn nested_ifs_go_too() {
        // The outer branch captures x only; the inner If has a constant condition of its own.
        let mut inner = graph(true, branch("Abs"), branch("Neg"));
        inner.captured = std::mem::take(&mut inner.inputs);
        let mut g = graph(false, branch("Neg"), inner);
        assert_eq!(inline_constant_ifs(&mut g), 2);
        assert_eq!(ops(&g), [("Abs".into(), "x".into(), "y".into())]);
    }

    #[test]
    fn an_unknown_condition_stays() {
        let mut g = graph(true, branch("Abs"), branch("Neg"));
        let c = g.value_named("c").unwrap();
        g.value_mut(c).data = None;
        assert_eq!(inline_constant_ifs(&mut g), 0);
        assert_eq!(g.node_count(), 1);
    }
}
