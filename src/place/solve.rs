//! Verdicts and partitions together: what may run on the NPU is asked of QNN ops as they stand in their partitions.
//!
//! Nodes start out on the NPU. A node that has no lowering, or one of whose QNN ops the backend refuses, goes to the
//! host with its reasons, the partitions are drawn anew, and so on until nothing more is refused. Every round takes at
//! least one node off, so it ends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Partition, partition};
use crate::Error;
use crate::ir::{Graph, NodeId};
use crate::lower::{Lowering, Refusal, Target};
use crate::qnn::graph::{QnnGraph, QnnOp};
use crate::verdict::{Reason, codes};

/// Answers whether a backend takes the ops of a QNN graph: an empty list for a yes, else the reasons, per op.
pub trait Validator {
    fn validate(&mut self, graph: &QnnGraph) -> Result<Vec<Vec<Reason>>, Error>;
}

/// A partition and the QNN graph that computes it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub partition: Partition,
    pub qnn: QnnGraph,
}

/// What is known before a placement begins, and more of it after.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Nodes that must not go to the NPU.
    pub refused: BTreeMap<NodeId, Vec<Reason>>,
    /// Nodes whose ops the NPU does not take on integers, and why: they are computed in real numbers.
    pub plain: BTreeMap<NodeId, Vec<Reason>>,
}

impl Known {
    /// An op that the backend refuses, for `reasons`. One on integers is tried in real numbers first.
    pub fn refuse(&mut self, qnn: &QnnGraph, op: &QnnOp, reasons: Vec<Reason>) {
        let on_integers = !matches!(op.op_type.as_str(), "Quantize" | "Dequantize")
            && op.inputs.iter().chain(&op.outputs).any(|t| qnn.tensor(*t).dtype.is_quantised());
        if on_integers && !self.plain.contains_key(&op.node) {
            self.plain.insert(op.node, reasons);
        } else {
            self.refused.entry(op.node).or_default().extend(reasons);
        }
    }

    fn len(&self) -> usize {
        self.refused.len() + self.plain.len()
    }
}

/// The outcome: every node that is to be run is in one partition or has reasons why not.
#[derive(Clone, Debug, Default)]
pub struct Solution {
    pub placed: Vec<Placed>,
    pub refused: BTreeMap<NodeId, Vec<Reason>>,
    /// Nodes that the model computes on quantised operands and the NPU in real numbers, since it takes no others: why.
    pub plain: BTreeMap<NodeId, Vec<Reason>>,
}

/// Places the nodes of `order` (see [`partition`]), given what is `known` from the start.
/// Partitions are named `name`, or `name_0`, `name_1`, ... if there are several.
pub fn solve(
    graph: &Graph,
    order: &[NodeId],
    target: &Target,
    name: &str,
    mut known: Known,
    validator: &mut dyn Validator,
) -> Result<Solution, Error> {
    loop {
        let parts = partition(graph, order, &|id| !known.refused.contains_key(&id));
        let before = known.len();
        let mut placed = vec![];
        let several = parts.len() > 1;
        for (i, part) in parts.into_iter().enumerate() {
            let name = if several { format!("{name}_{i}") } else { name.to_string() };
            match lower(graph, &part, target, &name, &known.plain.keys().copied().collect()) {
                Err(no) => known.refused.extend(no),
                Ok(qnn) => {
                    let verdicts = validator.validate(&qnn)?;
                    let plain: BTreeSet<NodeId> = known.plain.keys().copied().collect();
                    for (op, reasons) in qnn.ops.iter().zip(verdicts) {
                        // One answer for a node whose ops are to be lowered again.
                        if !reasons.is_empty() && (plain.contains(&op.node) || !known.plain.contains_key(&op.node)) {
                            known.refuse(&qnn, op, reasons);
                        }
                    }
                    placed.push(Placed { partition: part, qnn });
                }
            }
        }
        if known.len() == before {
            return Ok(Solution { placed, refused: known.refused, plain: known.plain });
        }
    }
}

type Refused = BTreeMap<NodeId, Vec<Reason>>;

/// One partition as a QNN graph, or the nodes of it that cannot be lowered, all of them.
fn lower(
    graph: &Graph,
    part: &Partition,
    target: &Target,
    name: &str,
    plain: &BTreeSet<NodeId>,
) -> Result<QnnGraph, Refused> {
    let mut low = Lowering::new(graph, target, name).plain(plain);
    let mut no: Refused = BTreeMap::new();
    for &id in &part.nodes {
        if let Err(Refusal(reasons)) = low.node(id) {
            no.insert(id, reasons);
        }
    }
    if !no.is_empty() {
        return Err(no);
    }
    for &v in &part.outputs {
        if let Err(Refusal(reasons)) = low.output(v)
            && let Some((producer, _)) = graph.value(v).producer
        {
            no.insert(producer, reasons);
        }
    }
    if no.is_empty() { Ok(low.finish(&part.inputs)) } else { Err(no) }
}

/// The reason for a "no" of the backend's own validator.
pub fn refused_by_validator(qnn: &QnnGraph, op: &QnnOp, code: u64, messages: &[String], sdk: &str) -> Reason {
    let shown = |ids: &[crate::qnn::graph::TensorId]| {
        let list: Vec<String> =
            ids.iter().map(|t| qnn.tensor(*t)).map(|t| format!("{}{:?}", t.dtype, t.dims)).collect();
        list.join(", ")
    };
    let said = messages.iter().map(|m| m.trim()).find(|m| !m.is_empty());
    let mut reason = Reason::new(
        codes::VALIDATOR,
        format!(
            "the HTP of SDK {sdk} refuses {} ({} -> {}) with code {code}{}",
            op.op_type,
            shown(&op.inputs),
            shown(&op.outputs),
            said.map(|m| format!(": {m}")).unwrap_or_default()
        ),
    );
    reason.qnn_op = Some(op.op_type.clone());
    reason.source = Some(format!("validator of SDK {sdk}"));
    reason
}
