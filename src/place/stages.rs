//! Partitions by stages.
//!
//! A node's stage is the number of changes of side (NPU to host or back) on the longest path to it. Nodes of one side
//! and one stage form one partition. Such partitions are convex: a path that leaves a partition enters a later stage,
//! and stages never fall along a path, so it cannot come back.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Graph, NodeId, ValueId};

/// Nodes that run as one QNN graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// In topological order.
    pub nodes: Vec<NodeId>,
    /// Values that it reads from outside, constants not counted, in the order of first use.
    pub inputs: Vec<ValueId>,
    /// Values that others (or the graph's outputs) read from it: graph outputs first, in their order.
    pub outputs: Vec<ValueId>,
}

/// Groups the nodes for which `on_npu` holds. `order` is a topological order of the nodes that are to be run at all:
/// nodes whose results are known at compile time are not in it.
pub fn partition(graph: &Graph, order: &[NodeId], on_npu: &dyn Fn(NodeId) -> bool) -> Vec<Partition> {
    let mut stage: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut groups: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for &id in order {
        let here = on_npu(id);
        let s = graph
            .node(id)
            .reads()
            .filter_map(|v| graph.value(v).producer)
            .filter_map(|(p, _)| Some(stage.get(&p)? + u32::from(on_npu(p) != here)))
            .max()
            // Even stages are the host's when it comes first, so that sides never share a number.
            .unwrap_or(u32::from(here));
        stage.insert(id, s);
        if here {
            groups.entry(s).or_default().push(id);
        }
    }
    groups.into_values().map(|nodes| wire(graph, nodes)).collect()
}

fn wire(graph: &Graph, nodes: Vec<NodeId>) -> Partition {
    let inside: BTreeSet<NodeId> = nodes.iter().copied().collect();
    let made_here = |v: ValueId| graph.value(v).producer.is_some_and(|(p, _)| inside.contains(&p));
    let mut inputs = vec![];
    for v in nodes.iter().flat_map(|n| graph.node(*n).reads()) {
        if graph.value(v).data.is_none() && !made_here(v) && !inputs.contains(&v) {
            inputs.push(v);
        }
    }
    let mut outputs: Vec<ValueId> = vec![];
    for v in &graph.outputs {
        if made_here(*v) && graph.value(*v).data.is_none() && !outputs.contains(v) {
            outputs.push(*v);
        }
    }
    for (id, node) in graph.nodes() {
        if inside.contains(&id) {
            continue;
        }
        for v in node.reads() {
            if made_here(v) && graph.value(v).data.is_none() && !outputs.contains(&v) {
                outputs.push(v);
            }
        }
    }
    Partition { nodes, inputs, outputs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Node, Value};

    fn graph(edges: &[(&str, &[&str], &str)]) -> Graph {
        let mut g = Graph::default();
        for (name, ins, out) in edges {
            let mut id =
                |n: &str| g.value_named(n).unwrap_or_else(|| g.add_value(Value { name: n.into(), ..Value::default() }));
            let inputs = ins.iter().map(|n| Some(id(n))).collect();
            let outputs = vec![Some(id(out))];
            g.add_node(Node { name: (*name).into(), inputs, outputs, ..Node::default() });
        }
        g
    }

    fn names(g: &Graph, ids: &[ValueId]) -> Vec<String> {
        ids.iter().map(|v| g.value(*v).name.clone()).collect()
    }

    #[test]
    fn a_hole_makes_two_partitions_and_no_cycle() {
        // a -> b -> c, and a -> c: with b on the host, a and c cannot be one partition.
        let mut g = graph(&[("a", &["x"], "p"), ("b", &["p"], "q"), ("c", &["p", "q"], "y")]);
        g.outputs = vec![g.value_named("y").unwrap()];
        let order = g.topological_order().unwrap();
        let parts = partition(&g, &order, &|n| g.node(n).name != "b");
        assert_eq!(parts.len(), 2);
        assert_eq!(names(&g, &parts[0].outputs), ["p"]);
        assert_eq!(names(&g, &parts[1].inputs), ["p", "q"]);
    }

    #[test]
    fn independent_branches_are_one_partition() {
        let mut g = graph(&[("h", &["x"], "p"), ("a", &["p"], "q"), ("b", &["x"], "r"), ("c", &["r", "q"], "y")]);
        g.outputs = vec![g.value_named("y").unwrap()];
        let order = g.topological_order().unwrap();
        let parts = partition(&g, &order, &|n| g.node(n).name != "h");
        let sizes: Vec<usize> = parts.iter().map(|p| p.nodes.len()).collect();
        assert_eq!(sizes, [3]);
    }
}
