//! Products of real numbers with encoded weights: the weights stay 8-bit integers, with a scale for each output.

use super::Work;
use super::statics::WeightCodes;
use crate::qnn::graph::{Param, QnnType, Scalar, TensorKind};

/// The axis of the weights that counts outputs; `None` for an op that takes no integer weights with real activations.
fn output_axis(op: &crate::qnn::graph::QnnOp, rank: usize) -> Option<usize> {
    let turned = |name: &str| matches!(super::param(op, name), Some(Param::Scalar(Scalar::Bool(true))));
    match op.op_type.as_str() {
        "Conv2d" => Some(3),
        "FullyConnected" => Some(0),
        "MatMul" => rank.checked_sub(if turned("transpose_in1") { 2 } else { 1 }),
        _ => None,
    }
}

pub(super) fn keep(work: &mut Work<'_>) {
    for i in 0..work.graph.ops.len() {
        let op = &work.graph.ops[i];
        let (Some(&x), Some(&w)) = (op.inputs.first(), op.inputs.get(1)) else { continue };
        let (data, weights) = (work.graph.tensor(x), work.graph.tensor(w));
        if work.is_plain(op) || data.dtype != QnnType::FLOAT_16 || weights.kind != TensorKind::Static {
            continue;
        }
        let Some(axis) = output_axis(op, weights.dims.len()) else { continue };
        let Some(&count) = weights.dims.get(axis) else { continue };
        let Some(codes) = WeightCodes::of(weights) else { continue };
        if codes.is_in_blocks() {
            // Blocks run along the inputs of each output.
            if op.op_type == "FullyConnected" && codes.axis == Some(1) {
                let w = codes.add(work, w);
                work.graph.ops[i].inputs[1] = w;
            }
            continue;
        }
        if !codes.is_signed_8() && op.op_type == "FullyConnected" {
            if let Some(rows) = WeightCodes::in_rows(weights) {
                let w = rows.add(work, w);
                work.graph.ops[i].inputs[1] = w;
            }
            continue;
        }
        if !codes.is_signed_8() || codes.axis.is_some_and(|a| a as usize != axis) {
            continue;
        }
        let w = codes.along(axis as u32, count as usize).add(work, w);
        work.graph.ops[i].inputs[1] = w;
    }
}
