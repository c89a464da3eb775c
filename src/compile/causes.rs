//! Nodes that stay on the host whatever their own lowering says.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{DataType, Graph, Node, NodeId, ValueId};
use crate::ops;
use crate::verdict::{Reason, codes};

/// Nodes with an op that nobody knows.
pub fn unknown_ops(graph: &Graph, order: &[NodeId]) -> BTreeMap<NodeId, Vec<Reason>> {
    let unknown = |id: &NodeId| {
        let node = graph.node(*id);
        ops::find(&node.domain, &node.op_type).is_none().then(|| (*id, vec![unknown(node)]))
    };
    order.iter().filter_map(unknown).collect()
}

fn unknown(node: &Node) -> Reason {
    let mut text = format!("no op {} is known", node.op_name());
    if !node.domain.is_empty() {
        let known = ops::all().any(|d| d.domain == node.domain);
        let what = if known { "has no such op here" } else { "is not known here" };
        text = format!("{text}: the domain {} {what}", node.domain);
        if ops::find("", &node.op_type).is_some() {
            text = format!("{text}, and it is not taken for the {} of ai.onnx", node.op_type);
        }
    }
    Reason::new(codes::UNKNOWN_OP, text).fix("spell it with ONNX ops, or define it as a function of the model")
}

/// Nodes that read 64-bit integers made by a node that was refused because they do not fit 32 bits: what it makes does
/// not fit either. A chain ends where an op bounds its result.
pub fn wide_integers(
    graph: &Graph,
    order: &[NodeId],
    refused: &BTreeMap<NodeId, Vec<Reason>>,
) -> BTreeMap<NodeId, Vec<Reason>> {
    let is_wide = |reasons: &Vec<Reason>| reasons.iter().any(|r| r.code == codes::INT64);
    let mut found = BTreeMap::new();
    // Wide values, and the node where it began.
    let mut wide: BTreeMap<ValueId, NodeId> = BTreeMap::new();
    for &id in order {
        let node = graph.node(id);
        let source = if refused.get(&id).is_some_and(is_wide) {
            Some((id, None))
        } else {
            node.reads().find_map(|v| wide.get(&v).map(|root| (*root, Some(v))))
        };
        let Some((root, through)) = source else { continue };
        if let Some(v) = through.filter(|_| !refused.contains_key(&id)) {
            let (name, root) = (&graph.value(v).name, &graph.node(root).name);
            let text =
                format!("it reads the 64-bit integers {name:?}, which do not fit 32 bits because of node {root:?}");
            found.insert(id, vec![Reason::new(codes::CONSEQUENCE, text)]);
        }
        if !is_bounded(graph, node) {
            let outputs = node.outputs.iter().flatten().copied();
            wide.extend(outputs.filter(|v| is_64_bit(graph, *v)).map(|v| (v, root)));
        }
    }
    found
}

fn is_64_bit(graph: &Graph, v: ValueId) -> bool {
    matches!(graph.value(v).ty.dtype(), Some(DataType::I64 | DataType::U64))
}

/// Does the result fit 32 bits whatever the inputs are?
fn is_bounded(graph: &Graph, node: &Node) -> bool {
    let fits = |i: usize| {
        let data = node.input(i).and_then(|v| graph.value(v).data.as_ref()).and_then(crate::ir::Tensor::to_i64s);
        data.is_some_and(|d| d.iter().all(|n| i32::try_from(*n).is_ok()))
    };
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => false,
        "ArgMax" | "ArgMin" | "Shape" | "Size" | "NonZero" | "Sign" => true,
        "Mod" => fits(1),
        "Clip" => fits(1) && fits(2),
        _ => false,
    }
}

/// Wide inputs of partitions: the HTP computes with their lower 32 bits.
pub fn narrowed<'a>(graph: &'a Graph, inputs: impl Iterator<Item = &'a ValueId>) -> Vec<crate::finding::Finding> {
    let distinct: BTreeSet<ValueId> = inputs.copied().filter(|v| is_64_bit(graph, *v)).collect();
    let note = |v: ValueId| {
        let value = graph.value(v);
        let (from, to) = match value.ty.dtype() {
            Some(DataType::U64) => ("uint64", "uint32, so its values must be from 0 to 4294967295"),
            _ => ("int64", "int32, so its values must be from -2147483648 to 2147483647"),
        };
        let text = format!("{:?} is {from} and is computed with as {to}", value.name);
        crate::finding::Finding::note(crate::finding::codes::NARROWED, text)
    };
    distinct.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{TensorType, Value};

    #[test]
    fn wide_integers_reach_as_far_as_nothing_bounds_them() {
        let mut g = Graph::default();
        let ty = |d| crate::ir::ValueType::Tensor(TensorType::new(d, vec![4usize.into()]));
        let mut value = |n: &str, d| g.add_value(Value { name: n.into(), ty: ty(d), ..Value::default() });
        let [x, a, b, c] = ["x", "a", "b", "c"].map(|n| value(n, DataType::I64));
        let d = value("d", DataType::Bool);
        let mut node = |op: &str, x, y| {
            let inputs = vec![Some(x)];
            g.add_node(Node { name: op.into(), op_type: op.into(), inputs, outputs: vec![Some(y)], ..Node::default() })
        };
        let ids = [node("Mul", x, a), node("Neg", a, b), node("Sign", b, c), node("Not", c, d)];
        let refused = BTreeMap::from([(ids[0], vec![Reason::new(codes::INT64, "too large")])]);
        let found = wide_integers(&g, &ids, &refused);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ids[1..3]);
        assert!(found[&ids[2]][0].message.contains("\"b\"") && found[&ids[2]][0].message.contains("\"Mul\""));
    }
}
