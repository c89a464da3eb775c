//! Graphs that are right and come out wrong: patterns that the vendor's graph optimiser breaks, spelt another way.

use crate::qnn::graph::{QnnGraph, QnnOp, TensorId, TensorKind};

/// A constant added between two Reshapes, `[..] -> [B, K] -> [B, 1, K]` with B of 2 or more: in 16-bit floats the HTP
/// leaves the rows behind the first unwritten (SDK 2.47 and 2.51, every arch). Adding behind both Reshapes is right.
pub(super) fn avoid(graph: &mut QnnGraph) {
    let mut last = 0;
    while let Some(i) = (last..graph.ops.len()).find(|&i| broken_sum(graph, i).is_some()) {
        // Up to two ops before this one go.
        last = i.saturating_sub(2);
        let Some((source, constant, sum)) = broken_sum(graph, i) else { continue };
        let y = graph.ops[i].outputs[0];
        let dims = graph.tensor(y).dims.clone();
        let mut regrouped = graph.tensor(y).clone();
        regrouped.name = fresh(graph, &format!("{}.r", regrouped.name));
        regrouped.kind = TensorKind::Native;
        let x = push(graph, regrouped);
        let constant = if graph.tensor(constant).dims == [dims[0], dims[2]] {
            let mut c = graph.tensor(constant).clone();
            c.name = fresh(graph, &format!("{}.r", c.name));
            c.dims = dims;
            push(graph, c)
        } else {
            constant
        };
        let name = fresh_op(graph, &graph.ops[i].name);
        graph.ops[i].inputs = vec![source];
        graph.ops[i].outputs = vec![x];
        let add = QnnOp { name, inputs: vec![x, constant], outputs: vec![y], ..graph.ops[sum].clone() };
        graph.ops.insert(i + 1, add);
        remove_unread(graph, sum);
    }
}

/// The pattern that ends in the Reshape at `i`: what the first Reshape reads, the constant, and the op that adds it.
fn broken_sum(graph: &QnnGraph, i: usize) -> Option<(TensorId, TensorId, usize)> {
    let op = &graph.ops[i];
    let (from, to) = (graph.tensor(*op.inputs.first()?), graph.tensor(*op.outputs.first()?));
    let (&[b, k], &[c, 1, l]) = (from.dims.as_slice(), to.dims.as_slice()) else { return None };
    if op.op_type != "Reshape" || b < 2 || (b, k) != (c, l) || !from.dtype.is_float() {
        return None;
    }
    let sum = maker(graph, op.inputs[0], i)?;
    if graph.ops[sum].op_type != "ElementWiseAdd" {
        return None;
    }
    let &[p, q] = graph.ops[sum].inputs.as_slice() else { return None };
    let is_static = |t: TensorId| graph.tensor(t).kind == TensorKind::Static;
    let (x, constant) = if is_static(q) { (p, q) } else { (q, p) };
    let first = maker(graph, x, sum)?;
    let reshaped = graph.ops[first].op_type == "Reshape" && graph.tensor(x).dims == from.dims;
    (is_static(constant) && reshaped).then(|| (graph.ops[first].inputs[0], constant, sum))
}

/// The op before `end` that writes `t`.
fn maker(graph: &QnnGraph, t: TensorId, end: usize) -> Option<usize> {
    (0..end).rev().find(|&i| graph.ops[i].outputs.contains(&t))
}

/// Removes the op at `i` if nobody reads its outputs, and then those that only it read.
fn remove_unread(graph: &mut QnnGraph, i: usize) {
    let read =
        |t: &TensorId| graph.tensor(*t).kind == TensorKind::AppRead || graph.ops.iter().any(|op| op.inputs.contains(t));
    if graph.ops[i].outputs.iter().any(read) {
        return;
    }
    let gone = graph.ops.remove(i);
    for t in gone.inputs {
        if let Some(before) = maker(graph, t, i) {
            remove_unread(graph, before);
        }
    }
}

fn push(graph: &mut QnnGraph, tensor: crate::qnn::graph::QnnTensor) -> TensorId {
    graph.tensors.push(tensor);
    TensorId(graph.tensors.len() as u32 - 1)
}

fn fresh(graph: &QnnGraph, stem: &str) -> String {
    let free = |n: &String| graph.tensors.iter().all(|t| t.name != *n);
    std::iter::once(stem.to_string())
        .chain((1..usize::MAX).map(|i| format!("{stem}{i}")))
        .find(free)
        .unwrap_or_default()
}

fn fresh_op(graph: &QnnGraph, stem: &str) -> String {
    (1..usize::MAX)
        .map(|i| format!("{stem}.r{i}"))
        .find(|n| graph.ops.iter().all(|op| op.name != *n))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{NodeId, Tensor};
    use crate::ops::testing::{evaluate, op_types, ramp};
    use crate::qnn::graph::{QnnTensor, QnnType, Quant, StaticData};

    fn graph(constant: &[u32], keep_sum: bool) -> QnnGraph {
        let mut g = QnnGraph::default();
        let n: u32 = constant.iter().product();
        let data = Tensor::from_f64(
            crate::ir::DataType::F32,
            constant.iter().map(|&d| d as usize).collect(),
            &ramp(n as usize, 0.5, 1.0),
        );
        let mut add = |name: &str, kind: TensorKind, dims: &[u32]| {
            let data = (kind == TensorKind::Static)
                .then(|| StaticData::Constant { tensor: data.clone().unwrap(), perm: None });
            let dtype = QnnType::FLOAT_32;
            g.tensors.push(QnnTensor { name: name.into(), kind, dtype, dims: dims.to_vec(), quant: Quant::None, data });
            TensorId(g.tensors.len() as u32 - 1)
        };
        let x = add("x", TensorKind::AppWrite, &[2, 2, 3]);
        let m = add("m", TensorKind::Native, &[2, 6]);
        let c = add("c", TensorKind::Static, constant);
        let a = add("a", if keep_sum { TensorKind::AppRead } else { TensorKind::Native }, &[2, 6]);
        let y = add("y", TensorKind::AppRead, &[2, 1, 6]);
        for (name, op, ins, out) in
            [("r", "Reshape", vec![x], m), ("s", "ElementWiseAdd", vec![m, c], a), ("t", "Reshape", vec![a], y)]
        {
            g.ops.push(QnnOp {
                name: name.into(),
                package: String::new(),
                op_type: op.into(),
                inputs: ins,
                outputs: vec![out],
                params: vec![],
                node: NodeId(0),
            });
        }
        g.inputs = vec![x];
        g.outputs = if keep_sum { vec![y, a] } else { vec![y] };
        g
    }

    #[test]
    fn a_sum_between_reshapes_moves_behind_them() {
        for (constant, keep) in [(vec![6], false), (vec![2, 6], false), (vec![1], true), (vec![1, 6], true)] {
            let before = graph(&constant, keep);
            let mut after = before.clone();
            avoid(&mut after);
            let x = [ramp(12, 0.0, 1.0)];
            assert_eq!(evaluate(&before, &x), evaluate(&after, &x));
            if keep {
                assert_eq!(op_types(&after), ["Reshape", "ElementWiseAdd", "Reshape", "ElementWiseAdd"]);
            } else {
                assert_eq!(op_types(&after), ["Reshape", "ElementWiseAdd"]);
            }
        }
    }
}
