//! Dequantize, compute, Quantize: computed on the integers where the HTP can, and where that is what the model says.
//!
//! A lowering knows nothing of quantisation: QuantizeLinear and DequantizeLinear become QNN's Quantize and Dequantize,
//! and what is between them is computed in real numbers. Then, on the QNN graph:
//!
//! 1. ops that only move elements commute with both, so Dequantize sinks below them and Quantize rises above them;
//! 2. a Dequantize that meets a Quantize is nothing, or a requantisation;
//! 3. an op whose operands are all dequantised and whose result is quantised is that op on the encoded tensors;
//! 4. a product of real numbers with encoded weights keeps the weights as 8-bit integers.
//!
//! What the backend refuses in integers stays in real numbers: the node is named in `plain`, and nothing is done here to
//! the ops that it was lowered to.

mod compute;
mod moving;
mod saturate;
mod statics;
mod weights;

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::ir::NodeId;
use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, TensorId, TensorKind};

/// Nodes whose ops are left in real numbers.
pub(super) type Plain = BTreeSet<NodeId>;

/// Rewrites the graph as the module says.
pub(super) fn absorb(graph: &mut QnnGraph, plain: &Plain) {
    let concerned = graph.ops.iter().any(|op| matches!(op.op_type.as_str(), "Quantize" | "Dequantize"))
        || graph.tensors.iter().any(statics::is_encoded);
    if !concerned {
        return;
    }
    let mut work = Work::new(std::mem::take(graph), plain);
    moving::sink(&mut work);
    while moving::rise(&mut work) {}
    moving::sink(&mut work);
    compute::absorb(&mut work);
    weights::keep(&mut work);
    work.graph = pruned(work.graph);
    saturate::clamp(&mut work);
    *graph = work.graph;
}

/// The graph under work.
struct Work<'a> {
    graph: QnnGraph,
    plain: &'a Plain,
    tensor_names: HashSet<String>,
    op_names: HashSet<String>,
}

impl<'a> Work<'a> {
    fn new(graph: QnnGraph, plain: &'a Plain) -> Self {
        let tensor_names = graph.tensors.iter().map(|t| t.name.clone()).collect();
        let op_names = graph.ops.iter().map(|op| op.name.clone()).collect();
        Self { graph, plain, tensor_names, op_names }
    }

    fn is_plain(&self, op: &QnnOp) -> bool {
        self.plain.contains(&op.node)
    }

    /// A tensor called after another one.
    fn tensor(&mut self, like: TensorId, dtype: QnnType, quant: Quant) -> TensorId {
        let source = self.graph.tensor(like);
        let (stem, dims) = (source.name.clone(), source.dims.clone());
        self.named_tensor(&format!("{stem}.q"), dtype, dims, quant)
    }

    fn named_tensor(&mut self, stem: &str, dtype: QnnType, dims: Vec<u32>, quant: Quant) -> TensorId {
        let name = fresh(&mut self.tensor_names, stem);
        self.graph.tensors.push(QnnTensor { name, kind: TensorKind::Native, dtype, dims, quant, data: None });
        TensorId(self.graph.tensors.len() as u32 - 1)
    }

    /// An op of one operand and one result, made for the node of `like`.
    fn op(&mut self, op_type: &str, from: TensorId, to: TensorId, like: &QnnOp) -> QnnOp {
        QnnOp {
            name: fresh(&mut self.op_names, &like.name),
            package: like.package.clone(),
            op_type: op_type.into(),
            inputs: vec![from],
            outputs: vec![to],
            params: vec![],
            node: like.node,
        }
    }

    /// How a tensor of integers stands for real numbers.
    fn encoding(&self, t: TensorId) -> Encoding {
        let t = self.graph.tensor(t);
        Encoding { dtype: t.dtype, quant: t.quant.clone() }
    }

    /// The ops that read each tensor, by their place.
    fn readers(&self) -> HashMap<TensorId, Vec<usize>> {
        let mut out: HashMap<TensorId, Vec<usize>> = HashMap::new();
        for (i, op) in self.graph.ops.iter().enumerate() {
            for &t in &op.inputs {
                let list = out.entry(t).or_default();
                if list.last() != Some(&i) {
                    list.push(i);
                }
            }
        }
        out
    }

    /// The one encoding in which all readers of `t` quantise it, and those readers. `None` if somebody reads the real
    /// numbers, or nobody reads at all.
    fn wanted(&self, t: TensorId, readers: &HashMap<TensorId, Vec<usize>>) -> Option<(Encoding, Vec<usize>)> {
        if self.graph.tensor(t).kind != TensorKind::Native {
            return None;
        }
        let list = readers.get(&t)?;
        let mut found: Option<Encoding> = None;
        for &i in list {
            let op = &self.graph.ops[i];
            if op.op_type != "Quantize" || self.is_plain(op) {
                return None;
            }
            let e = self.encoding(op.outputs[0]);
            if found.as_ref().is_some_and(|f| *f != e) {
                return None;
            }
            found = Some(e);
        }
        Some((found?, list.clone()))
    }

    /// The tensor that stands for the results of these Quantize ops: one that leaves the graph, if there is one; the
    /// others are read from it instead. `None` if two leave the graph. The ops themselves are to be dropped.
    fn one_result(&self, quantizes: &[usize], aliases: &mut HashMap<TensorId, TensorId>) -> Option<TensorId> {
        let results: Vec<TensorId> = quantizes.iter().map(|&i| self.graph.ops[i].outputs[0]).collect();
        let leaves = |t: &&TensorId| self.graph.tensor(**t).kind == TensorKind::AppRead;
        if results.iter().filter(leaves).count() > 1 {
            return None;
        }
        let chosen = *results.iter().find(leaves).or(results.first())?;
        aliases.extend(results.into_iter().filter(|t| *t != chosen).map(|t| (t, chosen)));
        Some(chosen)
    }
}

/// A datatype and what its integers stand for.
#[derive(Clone, Debug, PartialEq)]
struct Encoding {
    dtype: QnnType,
    quant: Quant,
}

impl Encoding {
    /// Scale and zero point of a tensor-wide encoding.
    fn scalar(&self) -> Option<(f32, i32)> {
        match self.quant {
            Quant::PerTensor { scale, offset } => Some((scale, -offset)),
            _ => None,
        }
    }

    /// The real numbers that the smallest and the largest code stand for.
    fn range(&self) -> Option<(f32, f32)> {
        let (scale, zero) = self.scalar()?;
        let (low, high) = code_range(self.dtype)?;
        Some(((low - zero) as f32 * scale, (high - zero) as f32 * scale))
    }
}

/// The smallest and the largest code of an 8- or 16-bit type.
fn code_range(dtype: QnnType) -> Option<(i32, i32)> {
    match dtype {
        QnnType::UFIXED_POINT_8 => Some((0, 255)),
        QnnType::SFIXED_POINT_8 => Some((-128, 127)),
        QnnType::UFIXED_POINT_16 => Some((0, 65_535)),
        QnnType::SFIXED_POINT_16 => Some((-32_768, 32_767)),
        _ => None,
    }
}

/// Replaces what ops read.
fn redirect(ops: &mut [QnnOp], aliases: &HashMap<TensorId, TensorId>) {
    if aliases.is_empty() {
        return;
    }
    for t in ops.iter_mut().flat_map(|op| &mut op.inputs) {
        while let Some(to) = aliases.get(t) {
            *t = *to;
        }
    }
}

fn fresh(taken: &mut HashSet<String>, stem: &str) -> String {
    let name = if taken.contains(stem) {
        let tries = (taken.len()..usize::MAX).map(|i| format!("{stem}#{i}"));
        tries.into_iter().find(|n| !taken.contains(n)).unwrap_or_default()
    } else {
        stem.to_string()
    };
    taken.insert(name.clone());
    name
}

/// A parameter by its name.
fn param<'a>(op: &'a QnnOp, name: &str) -> Option<&'a Param> {
    op.params.iter().find(|(n, _)| n == name).map(|(_, p)| p)
}

/// Without ops whose results nobody reads, and without tensors that no op touches.
pub(super) fn pruned(mut graph: QnnGraph) -> QnnGraph {
    loop {
        let read: HashSet<TensorId> = graph.ops.iter().flat_map(|op| op.inputs.iter().copied()).collect();
        let needed = |t: &TensorId| read.contains(t) || graph.tensors[t.0 as usize].kind == TensorKind::AppRead;
        let before = graph.ops.len();
        let ops = std::mem::take(&mut graph.ops);
        graph.ops = ops.into_iter().filter(|op| op.outputs.iter().any(needed)).collect();
        if graph.ops.len() == before {
            break;
        }
    }
    let mut used: HashSet<TensorId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    used.extend(graph.ops.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs).copied()));
    let mut renumbered: HashMap<TensorId, TensorId> = HashMap::new();
    let tensors = std::mem::take(&mut graph.tensors);
    for (i, t) in tensors.into_iter().enumerate() {
        let old = TensorId(i as u32);
        if used.contains(&old) {
            renumbered.insert(old, TensorId(graph.tensors.len() as u32));
            graph.tensors.push(t);
        }
    }
    let renumber = |ids: &mut Vec<TensorId>| ids.iter_mut().for_each(|t| *t = renumbered[t]);
    for op in &mut graph.ops {
        renumber(&mut op.inputs);
        renumber(&mut op.outputs);
    }
    renumber(&mut graph.inputs);
    renumber(&mut graph.outputs);
    graph
}

#[cfg(test)]
mod tests;
