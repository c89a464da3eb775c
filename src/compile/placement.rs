//! The report of a compile: what became of every node of the user's model.

use std::collections::{BTreeMap, HashMap};

use crate::ir::{Graph, NodeId, ValueId};
use crate::ops;
use crate::place::{Placed, Solution};
use crate::qnn::cost;
use crate::report::{Backend, Ddr, Evidence, Io, IoKind, NodePlacement, Partition, QnnOpRef, Totals};
use crate::verdict::{Reason, codes};

/// A node as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNode {
    pub name: String,
    pub op_type: String,
    /// "" is ai.onnx.
    pub domain: String,
}

/// One row per user's node. `graph` is the graph after all passes and `solution` its placement; a user's node that no
/// node of `graph` stands for was computed at compile time, merged, or is not needed.
pub fn nodes(user: &[UserNode], graph: &Graph, solution: &Solution, evidence: Evidence) -> Vec<NodePlacement> {
    let mut rows: Vec<NodePlacement> = user.iter().map(row).collect();
    let mut at: HashMap<String, usize> = user.iter().enumerate().map(|(i, u)| (u.name.clone(), i)).collect();
    let mut partition_of: BTreeMap<NodeId, &Placed> = BTreeMap::new();
    for p in &solution.placed {
        partition_of.extend(p.partition.nodes.iter().map(|n| (*n, p)));
    }
    for (id, node) in graph.nodes() {
        let on_host = solution.refused.contains_key(&id);
        if !on_host && !partition_of.contains_key(&id) {
            continue;
        }
        for name in node.user_nodes() {
            let i = *at.entry(name.into()).or_insert_with(|| {
                // A node out of the body of an If or a Loop that was inlined.
                rows.push(row(&UserNode {
                    name: name.into(),
                    op_type: node.op_type.clone(),
                    domain: node.domain.clone(),
                }));
                rows.len() - 1
            });
            let row = &mut rows[i];
            for r in &node.origin.rewrites {
                if !row.rewrites.iter().any(|have| have == r) {
                    row.rewrites.push((*r).into());
                }
            }
            if let Some(reasons) = solution.refused.get(&id) {
                row.backend = Backend::Host;
                row.evidence = None;
                row.partition = None;
                for r in reasons {
                    if !row.reasons.contains(r) {
                        row.reasons.push(r.clone());
                    }
                }
            } else if let Some(p) = partition_of.get(&id) {
                if row.backend != Backend::Host {
                    row.backend = Backend::Htp;
                    row.evidence = Some(evidence);
                    row.partition = Some(p.qnn.name.clone());
                }
                row.qnn_ops.extend(
                    p.qnn
                        .ops
                        .iter()
                        .filter(|op| op.node == id)
                        .map(|op| QnnOpRef { name: op.name.clone(), op_type: op.op_type.clone() }),
                );
            }
        }
    }
    rows
}

fn row(user: &UserNode) -> NodePlacement {
    NodePlacement {
        name: user.name.clone(),
        op_type: user.op_type.clone(),
        domain: user.domain.clone(),
        backend: Backend::Folded,
        evidence: None,
        partition: None,
        qnn_ops: vec![],
        reasons: vec![],
        rewrites: vec![],
    }
}

/// One row per partition; `ddr` has the figures of those that were prepared, by name.
pub fn partitions(solution: &Solution, ddr: &BTreeMap<String, Ddr>) -> Vec<Partition> {
    let row = |p: &Placed| Partition {
        ddr: ddr.get(&p.qnn.name).copied(),
        ..Partition::of(&p.qnn, Backend::Htp, p.partition.nodes.len())
    };
    solution.placed.iter().map(row).collect()
}

/// Inputs and outputs of the model, with the QNN type at the edge where a partition touches them.
pub fn io(graph: &Graph, solution: &Solution) -> Vec<Io> {
    let qnn_type = |name: &str| {
        solution.placed.iter().find_map(|p| {
            let edges = p.qnn.inputs.iter().chain(&p.qnn.outputs);
            edges.map(|t| p.qnn.tensor(*t)).find(|t| t.name == name).map(|t| t.dtype.to_string())
        })
    };
    let row = |kind: IoKind, v: &ValueId| {
        let value = graph.value(*v);
        Io {
            kind,
            name: value.name.clone(),
            onnx_type: value.ty.dtype().map_or_else(|| "unknown".into(), |d| d.to_string()),
            shape: value.ty.tensor().map(|t| t.shape.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            qnn_type: qnn_type(&value.name),
        }
    };
    let inputs = graph.inputs.iter().map(|v| row(IoKind::Input, v));
    inputs.chain(graph.outputs.iter().map(|v| row(IoKind::Output, v))).collect()
}

/// The sums.
pub fn totals(nodes: &[NodePlacement], partitions: &[Partition], solution: &Solution) -> Totals {
    let qnn = || solution.placed.iter().map(|p| &p.qnn);
    let macs = qnn().flat_map(|q| q.ops.iter().map(|op| cost::macs(q, op))).fold(0, u64::saturating_add);
    Totals { macs: Some(macs), ..Totals::count(nodes, partitions) }
}

/// Reasons for nodes that inference found to have shapes that depend on data.
pub fn data_dependent(found: &[(NodeId, String)]) -> BTreeMap<NodeId, Vec<Reason>> {
    found.iter().map(|(id, why)| (*id, vec![Reason::new(codes::DATA_DEPENDENT, why.clone())])).collect()
}

/// What the user should know about the form in which nodes on the NPU are computed.
pub fn remarks(graph: &Graph, solution: &Solution) -> Vec<crate::finding::Finding> {
    let mut ids: Vec<NodeId> = solution.placed.iter().flat_map(|p| p.partition.nodes.iter().copied()).collect();
    ids.sort_unstable();
    let remark = |id: NodeId| {
        let node = graph.node(id);
        let text = ops::find(&node.domain, &node.op_type)?.remark?(graph, node)?;
        let name = node.user_nodes().next().unwrap_or(&node.name);
        Some(crate::finding::Finding::note(crate::finding::codes::FORM, text).at(name))
    };
    let island = |(id, reasons): (&NodeId, &Vec<Reason>)| {
        let node = graph.node(*id);
        let why = reasons.first().map(|r| r.message.clone()).unwrap_or_default();
        let text = format!("{} is computed in 16-bit floats between quantised values: {why}", node.op_name());
        let name = node.user_nodes().next().unwrap_or(&node.name);
        crate::finding::Finding::note(crate::finding::codes::REAL_ISLAND, text).at(name)
    };
    let islands = solution.plain.iter().map(island);
    ids.into_iter().filter_map(remark).chain(islands).collect()
}

/// Reasons for nodes that would hand a constant beyond 16-bit floats on to an output.
pub fn escaping(found: &[(NodeId, String)]) -> BTreeMap<NodeId, Vec<Reason>> {
    let reason = |why: &String| Reason::new(codes::FORM, why.clone()).fix("use numbers that 16-bit floats hold");
    found.iter().map(|(id, why)| (*id, vec![reason(why)])).collect()
}

/// The nodes of the model as the user wrote them, in the model's order: a call of a model-local function is one node.
pub fn user_nodes(model: &crate::onnx::Model) -> Vec<UserNode> {
    let mut nodes: Vec<UserNode> = vec![];
    for (_, node) in model.graph.nodes() {
        for name in node.user_nodes() {
            // Nodes that were inlined from one call stand next to each other.
            if nodes.last().is_some_and(|last| last.name == name) {
                continue;
            }
            let (domain, op_type) = match model.calls.get(name) {
                Some((domain, function)) => (domain.clone(), function.clone()),
                None => (node.domain.clone(), node.op_type.clone()),
            };
            nodes.push(UserNode { name: name.into(), op_type, domain });
        }
    }
    nodes
}

/// A finding of the reader as a row of the report.
pub fn finding(f: &crate::finding::Finding) -> crate::report::Finding {
    crate::report::Finding {
        code: f.code.into(),
        severity: match f.severity {
            crate::finding::Severity::Note => crate::report::Severity::Note,
            crate::finding::Severity::Warning => crate::report::Severity::Warning,
            crate::finding::Severity::Error => crate::report::Severity::Error,
        },
        message: f.message.clone(),
        node: f.node.clone(),
        tensor: None,
        fix: f.fix.clone(),
    }
}

/// A rewrite's event as a row of the report.
pub fn rewrite(event: &crate::rewrite::Event) -> crate::report::Rewrite {
    crate::report::Rewrite {
        name: event.rewrite.into(),
        applied: event.applied,
        nodes: event.nodes.clone(),
        message: event.message.clone(),
    }
}
