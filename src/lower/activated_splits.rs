//! A Split of an activation of a sum (Add, then Sigmoid, Tanh, Gelu, HardSwish, ReluMinMax, `x * Sigmoid(x)`; Reshapes may
//! lie between), in 16-bit floats, comes out as zeros from 32 channels a piece on (SDK 2.47). StridedSlices in its place
//! do not.

use std::collections::BTreeSet;

use crate::qnn::graph::{Param, QnnGraph, QnnOp, TensorId};

/// Makes StridedSlices of them.
pub(super) fn slice(graph: &mut QnnGraph) {
    const ACTIVATIONS: [&str; 10] =
        ["Sigmoid", "Tanh", "Gelu", "HardSwish", "ElementWiseNeuron", "ReluMinMax", "Relu", "Relu6", "Relu1", "Elu"];
    let mut maker = vec![None; graph.tensors.len()];
    for (i, op) in graph.ops.iter().enumerate() {
        for t in &op.outputs {
            maker[t.0 as usize] = Some(i);
        }
    }
    let behind_reshapes = |mut t: TensorId| loop {
        let op = &graph.ops[maker[t.0 as usize]?];
        match (op.op_type.as_str(), op.inputs.first()) {
            ("Reshape", Some(&x)) => t = x,
            _ => return Some(op),
        }
    };
    let is_sum = |t: TensorId| behind_reshapes(t).is_some_and(|op| op.op_type == "ElementWiseAdd");
    let activated = |op: &QnnOp, t: TensorId| ACTIVATIONS.contains(&op.op_type.as_str()) && is_sum(t);
    let is_activated_sum = |t: TensorId| {
        behind_reshapes(t).is_some_and(|op| match *op.inputs.as_slice() {
            [x] => activated(op, x),
            [a, b] if op.op_type == "ElementWiseMultiply" => [a, b]
                .into_iter()
                .any(|t| behind_reshapes(t).is_some_and(|op| op.inputs.first().is_some_and(|&x| activated(op, x)))),
            _ => false,
        })
    };
    let found: BTreeSet<usize> = (0..graph.ops.len())
        .filter(|&i| {
            let op = &graph.ops[i];
            op.op_type == "Split"
                && op.inputs.first().is_some_and(|&t| graph.tensor(t).dtype.is_float() && is_activated_sum(t))
        })
        .collect();
    if found.is_empty() {
        return;
    }
    let ops = std::mem::take(&mut graph.ops);
    for (i, op) in ops.into_iter().enumerate() {
        match found.contains(&i).then(|| slices(graph, &op)).flatten() {
            Some(slices) => graph.ops.extend(slices),
            None => graph.ops.push(op),
        }
    }
}

/// The StridedSlices that give what a Split gives.
fn slices(graph: &QnnGraph, split: &QnnOp) -> Option<Vec<QnnOp>> {
    let whole = &graph.tensor(*split.inputs.first()?).dims;
    let axis = split.outputs.iter().find_map(|&t| whole.iter().zip(&graph.tensor(t).dims).position(|(a, b)| a != b))?;
    let mut at = 0;
    let mut out = vec![];
    for (k, &t) in split.outputs.iter().enumerate() {
        let size = graph.tensor(t).dims.get(axis).copied()?;
        let mut ranges: Vec<[i32; 3]> = vec![];
        for &d in whole {
            ranges.push([0, i32::try_from(d).ok()?, 1]);
        }
        ranges[axis] = [i32::try_from(at).ok()?, i32::try_from(at + size).ok()?, 1];
        at += size;
        out.push(QnnOp {
            name: format!("{}_slice_{k}", split.name),
            op_type: "StridedSlice".into(),
            outputs: vec![t],
            params: vec![("ranges".into(), Param::triples(&ranges))],
            ..split.clone()
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{evaluate, ramp};
    use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, TensorId, TensorKind};

    fn graph(activation: &str) -> QnnGraph {
        let mut g = QnnGraph::default();
        for (name, kind, dims) in [
            ("x", TensorKind::AppWrite, [1, 6]),
            ("sum", TensorKind::Native, [1, 6]),
            ("flat", TensorKind::Native, [6, 1]),
            ("activated", TensorKind::Native, [6, 1]),
            ("a", TensorKind::AppRead, [4, 1]),
            ("b", TensorKind::AppRead, [2, 1]),
        ] {
            let (name, dtype, dims) = (name.into(), QnnType::FLOAT_32, dims.to_vec());
            g.tensors.push(QnnTensor { name, kind, dtype, dims, quant: Quant::None, data: None });
        }
        let split = vec![("axis".into(), Param::u32(0)), ("split_index".into(), Param::u32s(&[4]))];
        for (op, inputs, outputs, params) in [
            ("ElementWiseAdd", vec![0, 0], vec![1], vec![]),
            ("Reshape", vec![1], vec![2], vec![]),
            (activation, vec![2], vec![3], vec![]),
            ("Split", vec![3], vec![4, 5], split),
        ] {
            g.ops.push(QnnOp {
                name: op.into(),
                package: String::new(),
                op_type: op.into(),
                inputs: inputs.into_iter().map(TensorId).collect(),
                outputs: outputs.into_iter().map(TensorId).collect(),
                params,
                node: crate::ir::NodeId(0),
            });
        }
        g.inputs = vec![TensorId(0)];
        g.outputs = vec![TensorId(4), TensorId(5)];
        g
    }

    #[test]
    fn slices_give_what_the_split_gave() {
        let before = graph("Tanh");
        let mut after = before.clone();
        super::slice(&mut after);
        let ops: Vec<&str> = after.ops[3..].iter().map(|op| op.op_type.as_str()).collect();
        assert_eq!(ops, ["StridedSlice", "StridedSlice"]);
        let x = [ramp(6, -1.0, 0.3)];
        assert_eq!(evaluate(&before, &x), evaluate(&after, &x));
    }

    #[test]
    fn other_splits_stay() {
        let mut g = graph("ElementWiseAbs");
        super::slice(&mut g);
        assert_eq!(g.ops[3].op_type, "Split");
    }
}
