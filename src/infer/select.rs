//! Ifs on a value that is known at run time only: where both branches are small and pure, both are computed, and one is
//! selected; where one cannot run with the shapes that the model is compiled for, the other is taken.

use std::collections::HashMap;

use super::splice::{NodeNames, Splice, provenance};
use super::{NodeError, infer, inline_constant_ifs};
use crate::ir::{Graph, Node, NodeId, TensorType, ValueId};

/// Nodes that the branches of an If may have together: beyond that, computing both is not cheap.
const MOST_NODES: usize = 64;
/// Elements that an output may have.
const MOST_ELEMENTS: usize = 1 << 20;

/// Ops that cost more than the hand-over that is saved, or that are not pure.
const COSTLY: &[&str] = &[
    "Attention",
    "Bernoulli",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DeformConv",
    "Dropout",
    "Einsum",
    "GRU",
    "Gemm",
    "If",
    "LSTM",
    "Loop",
    "MatMul",
    "MatMulInteger",
    "Multinomial",
    "NonMaxSuppression",
    "QLinearConv",
    "QLinearMatMul",
    "RNN",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Scan",
];

/// Replaces every If on a run-time condition whose branches are small, pure, and give the same types. Gives how many.
pub fn select_between_branches(graph: &mut Graph) -> usize {
    let ifs: Vec<NodeId> = graph.nodes().filter(|(_, n)| n.is("If") && is_open(graph, n)).map(|(id, _)| id).collect();
    let mut done = 0;
    for id in ifs {
        let mut tried = graph.clone();
        if selected(&mut tried, id).is_some() {
            *graph = tried;
            done += 1;
        }
    }
    done
}

/// An If of which only one branch can run.
#[derive(Clone, Debug, PartialEq)]
pub struct OneWay {
    /// The name of the If.
    pub node: String,
    /// The branch that was taken, `then_branch` or `else_branch`.
    pub taken: &'static str,
    /// What the other one breaks.
    pub error: NodeError,
}

/// Takes the branch of every If on a run-time condition whose other branch breaks the rules of an op, with the shapes
/// that the model is compiled for: a run that takes the other one fails in any case.
pub fn take_possible_branches(graph: &mut Graph) -> Vec<OneWay> {
    let ifs: Vec<NodeId> = graph.nodes().filter(|(_, n)| n.is("If") && is_open(graph, n)).map(|(id, _)| id).collect();
    let mut found = vec![];
    for id in ifs {
        let (Some(a), Some(b)) = (alone(graph, id, "then_branch"), alone(graph, id, "else_branch")) else { continue };
        let node = graph.node(id).name.clone();
        let (taken, error, new) = match (a, b) {
            (Err(error), Ok(new)) => ("else_branch", error, new),
            (Ok(new), Err(error)) => ("then_branch", error, new),
            _ => continue,
        };
        *graph = new;
        found.push(OneWay { node, taken, error });
    }
    found
}

/// The graph with one branch in the place of the If, or the first rule that it breaks. `None` for a form that ONNX does
/// not have.
fn alone(graph: &Graph, id: NodeId, name: &str) -> Option<Result<Graph, NodeError>> {
    let mut graph = graph.clone();
    let node = graph.remove_node(id)?;
    let body = node.attrs.graph(name)?.clone();
    if body.captured.len() != node.captures.len() || body.outputs.len() != node.outputs.len() {
        return None;
    }
    let given = body.captured.iter().copied().zip(node.captures.iter().copied()).collect();
    for out in node.outputs.iter().flatten() {
        graph.value_mut(*out).producer = None;
    }
    let mut names = NodeNames::of(&graph);
    let targets = node.outputs.clone();
    Splice { given, targets, owner: &node, rewrite: "only-branch" }.run(&mut graph, &body, &mut names);
    loop {
        let found = infer(&mut graph).ok()?;
        if let Some(error) = found.errors.into_iter().next() {
            return Some(Err(error));
        }
        if inline_constant_ifs(&mut graph) == 0 {
            return Some(Ok(graph));
        }
    }
}

/// Is the condition known at run time only, and one element?
fn is_open(graph: &Graph, node: &Node) -> bool {
    let Some(value) = node.input(0).map(|v| graph.value(v)) else { return false };
    let one = value.ty.tensor().and_then(TensorType::static_shape).is_some_and(|s| s.is_empty());
    value.data.is_none() && one
}

fn branch<'a>(node: &'a Node, name: &str) -> Option<&'a Graph> {
    let body = node.attrs.graph(name)?;
    let fits = body.captured.len() == node.captures.len() && body.outputs.len() == node.outputs.len();
    let cheap = body.nodes().all(|(_, n)| !COSTLY.contains(&n.op_type.as_str()));
    (fits && cheap && body.inputs.is_empty()).then_some(body)
}

/// Puts both branches and a Where for each output in the place of the If. `None`, and the graph in disorder, where that
/// does not come out typed.
fn selected(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id).clone();
    let (then, other) = (branch(&node, "then_branch")?.clone(), branch(&node, "else_branch")?.clone());
    if then.node_count() + other.node_count() > MOST_NODES {
        return None;
    }
    graph.remove_node(id)?;
    let mut names = NodeNames::of(graph);
    let mut results: Vec<Vec<ValueId>> = vec![];
    for body in [&then, &other] {
        let given: HashMap<ValueId, ValueId> =
            body.captured.iter().copied().zip(node.captures.iter().copied()).collect();
        let targets = vec![None; body.outputs.len()];
        results.push(Splice { given, targets, owner: &node, rewrite: "both-branches" }.run(graph, body, &mut names));
    }
    for (i, out) in node.outputs.iter().enumerate() {
        let Some(out) = *out else { continue };
        graph.value_mut(out).producer = None;
        let select = Node {
            name: names.fresh(&format!("{}.select", node.name)),
            op_type: "Where".into(),
            version: node.version.max(9),
            inputs: vec![node.input(0), Some(results[0][i]), Some(results[1][i])],
            outputs: vec![Some(out)],
            origin: provenance(&node, "both-branches"),
            ..Node::default()
        };
        graph.add_node(select);
    }
    let found = infer(graph).ok()?;
    if !found.errors.is_empty() {
        return None;
    }
    for (i, out) in node.outputs.iter().enumerate() {
        let Some(out) = *out else { continue };
        let ty = |v: ValueId| graph.value(v).ty.tensor().cloned();
        let (a, b) = (ty(results[0][i])?, ty(results[1][i])?);
        let small = a.static_shape()?.iter().product::<usize>() <= MOST_ELEMENTS;
        if a != b || ty(out)? != a || !small {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, DataType, Dim, Value};

    fn ty(n: i64) -> TensorType {
        TensorType::new(DataType::F32, vec![Dim::Known(n)])
    }

    /// A branch that captures `x` and gives `op(x)`, or its first half.
    fn body(op: &str) -> Graph {
        let mut g = Graph::default();
        let x = g.add_typed("x", ty(4));
        g.captured = vec![x];
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        let mut inputs = vec![Some(x)];
        let ints: &[i64] = match op {
            "Slice" => &[0, 2],
            "Reshape" => &[3],
            _ => &[],
        };
        for v in ints {
            inputs.push(Some(g.add_constant("k", crate::ir::Tensor::from_i64(vec![1], &[*v]))));
        }
        g.add_node(Node {
            name: "inner".into(),
            op_type: op.into(),
            version: 13,
            inputs,
            outputs: vec![Some(y)],
            ..Node::default()
        });
        g.outputs = vec![y];
        g
    }

    fn conditional(then: &str, other: &str) -> Graph {
        let mut g = Graph::default();
        g.opsets.insert(String::new(), 17);
        let x = g.add_typed("x", ty(4));
        let c = g.add_typed("c", TensorType::new(DataType::Bool, vec![]));
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        let mut node = Node {
            name: "if".into(),
            op_type: "If".into(),
            version: 16,
            inputs: vec![Some(c)],
            outputs: vec![Some(y)],
            captures: vec![x],
            ..Node::default()
        };
        node.attrs.set("then_branch", Attr::Graph(Box::new(body(then))));
        node.attrs.set("else_branch", Attr::Graph(Box::new(body(other))));
        g.add_node(node);
        g.inputs = vec![x, c];
        g.outputs = vec![y];
        g
    }

    fn ops(then: &str, other: &str) -> Vec<String> {
        let mut g = conditional(then, other);
        select_between_branches(&mut g);
        left(&g)
    }

    fn left(g: &Graph) -> Vec<String> {
        let order = g.topological_order().unwrap();
        order.into_iter().map(|n| g.node(n).op_type.clone()).collect()
    }

    #[test]
    fn small_branches_are_both_computed() {
        let mut both = ops("Abs", "Neg");
        assert_eq!(both.pop().as_deref(), Some("Where"));
        both.sort();
        assert_eq!(both, ["Abs", "Neg"]);
    }

    #[test]
    fn branches_of_other_shapes_or_cost_stay_an_if() {
        assert_eq!(ops("Abs", "Slice"), ["If"]);
        assert_eq!(ops("Abs", "RandomNormalLike"), ["If"]);
    }

    #[test]
    fn a_branch_that_cannot_run_leaves_the_other() {
        for (then, other, taken) in [("Abs", "Reshape", "then_branch"), ("Reshape", "Neg", "else_branch")] {
            let mut g = conditional(then, other);
            let found = take_possible_branches(&mut g);
            assert_eq!((found[0].node.as_str(), found[0].taken), ("if", taken));
            assert!(found[0].error.message.contains('3'), "{}", found[0].error);
            assert_eq!(left(&g), [if taken == "then_branch" { then } else { other }]);
        }
        let mut both = conditional("Abs", "Neg");
        assert!(take_possible_branches(&mut both).is_empty());
        let mut neither = conditional("Reshape", "Reshape");
        assert!(take_possible_branches(&mut neither).is_empty());
    }
}
