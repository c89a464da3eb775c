//! What it is worth to fix a node: the model is partitioned anew with the node assumed to be on the NPU.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use crate::ir::{Graph, NodeId, ValueId};
use crate::place::{Partition, partition};
use crate::report::{Cut, Fix};
use crate::verdict::{Reason, codes};

/// Groups of causes that are looked at, and nodes that are looked at one by one.
const MOST_GROUPS: usize = 64;
const MOST_SINGLE: usize = 64;
/// Rows of the list.
const MOST_ROWS: usize = 20;

/// The refused nodes by cause, the cause that merges most first. Nodes of one op with the same codes are one cause, and
/// each of them is one, too. A node that is refused only because of others goes with them.
pub fn fixes(graph: &Graph, order: &[NodeId], refused: &BTreeMap<NodeId, Vec<Reason>>) -> Vec<Fix> {
    let roots = roots(graph, order, refused);
    let mut groups: IndexMap<(String, Vec<&str>), Vec<NodeId>> = IndexMap::new();
    for id in order.iter().filter(|id| roots.get(id).is_some_and(|r| r.contains(id))) {
        let mut codes: Vec<&str> = refused[id].iter().map(|r| r.code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        groups.entry((graph.node(*id).op_name(), codes)).or_default().push(*id);
    }
    let cut = |fixed: &BTreeSet<NodeId>| {
        let still = |id: &NodeId| roots.get(id).is_some_and(|r| !r.is_subset(fixed));
        let parts = partition(graph, order, &|id| !still(&id));
        let names: BTreeSet<&str> = order.iter().filter(|id| still(id)).flat_map(|id| user_names(graph, *id)).collect();
        measure(graph, &parts, names.len())
    };
    let now = cut(&BTreeSet::new());
    let mut rows: Vec<(BTreeSet<NodeId>, Fix)> = vec![];
    let mut singles = 0;
    for ((op, codes), ids) in groups.iter().take(MOST_GROUPS) {
        let mut sets: Vec<Vec<NodeId>> = vec![ids.clone()];
        if ids.len() > 1 {
            sets.extend(ids.iter().take(MOST_SINGLE.saturating_sub(singles)).map(|id| vec![*id]));
            singles += ids.len();
        }
        for ids in sets {
            let mut nodes: Vec<String> = vec![];
            for name in ids.iter().flat_map(|id| user_names(graph, *id)) {
                if !nodes.iter().any(|n| n == name) {
                    nodes.push(name.into());
                }
            }
            let set: BTreeSet<NodeId> = ids.into_iter().collect();
            let then = cut(&set);
            let codes = codes.iter().map(|c| (*c).to_string()).collect();
            rows.push((set, Fix { op: op.clone(), nodes, codes, now, then, with_all_above: then }));
        }
    }
    // The sort is stable: on a tie the model's order stands.
    rows.sort_by_key(|(_, f)| (f.then.partitions, f.then.boundary_bytes, f.nodes.len()));
    let mut all = BTreeSet::new();
    for (set, fix) in rows.iter_mut().take(MOST_ROWS) {
        all.extend(set.iter().copied());
        fix.with_all_above = cut(&all);
    }
    rows.into_iter().take(MOST_ROWS).map(|(_, f)| f).collect()
}

fn user_names(graph: &Graph, id: NodeId) -> impl Iterator<Item = &str> {
    graph.node(id).user_nodes()
}

/// For every refused node, the refused nodes that must be fixed for it: itself, or those before it if it is refused
/// only because of them.
fn roots(
    graph: &Graph,
    order: &[NodeId],
    refused: &BTreeMap<NodeId, Vec<Reason>>,
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut roots: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for &id in order {
        let Some(reasons) = refused.get(&id) else { continue };
        let before = graph.node(id).reads().filter_map(|v| graph.value(v).producer);
        let before: BTreeSet<NodeId> = before.filter_map(|(n, _)| roots.get(&n)).flatten().copied().collect();
        let follows = reasons.iter().all(|r| r.code == codes::CONSEQUENCE) && !before.is_empty();
        roots.insert(id, if follows { before } else { BTreeSet::from([id]) });
    }
    roots
}

/// Values that pass between a partition and another node of the model.
fn measure(graph: &Graph, parts: &[Partition], host_nodes: usize) -> Cut {
    let consumers = graph.consumers();
    let is_read = |v: &ValueId| consumers.get(v.0 as usize).is_some_and(|c| !c.is_empty());
    let mut crossing: BTreeSet<ValueId> = BTreeSet::new();
    for p in parts {
        crossing.extend(p.inputs.iter().filter(|v| graph.value(**v).producer.is_some()));
        // An output of the model may be read inside its partition as well.
        let inside: BTreeSet<NodeId> = p.nodes.iter().copied().collect();
        let leaves = |v: &&ValueId| is_read(v) && consumers[v.0 as usize].iter().any(|(n, _)| !inside.contains(n));
        crossing.extend(p.outputs.iter().filter(leaves));
    }
    let bytes = |v: &ValueId| {
        let ty = graph.value(*v).ty.tensor()?;
        let count = ty.static_shape()?.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        Some(ty.dtype.bytes_for(count) as u64)
    };
    Cut {
        partitions: parts.len(),
        host_nodes,
        boundary_tensors: crossing.len(),
        boundary_bytes: crossing.iter().filter_map(bytes).fold(0, u64::saturating_add),
    }
}
