//! `Log(ReduceSum(Exp(x)))` in one op, which stays in range where `exp(x)` does not.

use crate::ir::{Attr, Graph, Node, NodeId, ValueId};

/// Makes a ReduceLogSumExp of every Log of a ReduceSum of an Exp: the exponential of 12 is beyond 16-bit floats already.
/// Casts between float types in between change nothing, because the HTP computes in one. Gives how many were joined; the
/// other nodes stay for those who read them.
pub fn join_log_sum_exp(graph: &mut Graph) -> usize {
    let ids: Vec<NodeId> = graph.nodes().filter(|(_, n)| n.is("Log")).map(|(id, _)| id).collect();
    let mut done = 0;
    for id in ids {
        if let Some((x, sum)) = matched(graph, graph.node(id)) {
            let node = graph.node_mut(id);
            node.op_type = "ReduceLogSumExp".into();
            node.inputs = vec![Some(x)];
            node.inputs.extend(sum.inputs.get(1).copied());
            // Axes are an input of ReduceSum from opset 13 on, and of ReduceLogSumExp from 18 on.
            node.version = if sum.version >= 13 { sum.version.max(18) } else { sum.version };
            for name in ["axes", "keepdims", "noop_with_empty_axes"] {
                if let Some(value) = sum.attrs.get(name) {
                    node.attrs.set(name, Attr::clone(value));
                }
            }
            node.origin.rewrites.push("join-log-sum-exp");
            done += 1;
        }
    }
    done
}

fn matched(graph: &Graph, log: &Node) -> Option<(ValueId, Node)> {
    let sum = producer(graph, log.input(0)?)?;
    if !sum.is("ReduceSum") || sum.attrs.int_or("noop_with_empty_axes", 0) != 0 {
        return None;
    }
    let exp = producer(graph, sum.input(0)?)?;
    let x = exp.input(0)?;
    // The op gives the type of its input, and Log gave that of Exp's.
    let same =
        graph.value(x).ty.dtype().is_some() && graph.value(x).ty.dtype() == graph.value(log.output(0)?).ty.dtype();
    (exp.is("Exp") && same && graph.value(x).data.is_none()).then(|| (x, sum.clone()))
}

/// The node that makes `v`, seen through casts between float types.
fn producer(graph: &Graph, mut v: ValueId) -> Option<&Node> {
    loop {
        let node = graph.node(graph.value(v).producer?.0);
        let float = |v: ValueId| graph.value(v).ty.dtype().is_some_and(crate::ir::DataType::is_float);
        match node.input(0) {
            Some(from) if (node.is("Cast") || node.is("CastLike")) && float(from) && float(v) => v = from,
            _ => return Some(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, TensorType};

    #[test]
    fn the_three_become_one() {
        let mut g = Graph::default();
        let ty = || TensorType::new(DataType::F32, vec![2usize.into()]);
        let [x, e, s, y] = ["x", "e", "s", "y"].map(|n| g.add_typed(n, ty()));
        for (op, from, to) in [("Exp", x, e), ("ReduceSum", e, s), ("Log", s, y)] {
            let mut node = Node {
                name: op.into(),
                op_type: op.into(),
                version: 13,
                inputs: vec![Some(from)],
                outputs: vec![Some(to)],
                ..Node::default()
            };
            if op == "ReduceSum" {
                node.attrs.set("keepdims", Attr::Int(0));
            }
            g.add_node(node);
        }
        (g.inputs, g.outputs) = (vec![x], vec![y]);
        assert_eq!(join_log_sum_exp(&mut g), 1);
        g.remove_dead();
        let (_, node) = g.nodes().next().unwrap();
        assert_eq!((node.op_type.as_str(), node.version, node.input(0)), ("ReduceLogSumExp", 18, Some(x)));
        assert_eq!(node.attrs.int("keepdims"), Some(0));
        assert_eq!(g.node_count(), 1);
    }
}
