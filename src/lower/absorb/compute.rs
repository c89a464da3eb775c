//! Ops on encoded tensors: all operands dequantised, the result quantised.

use std::collections::HashMap;

use super::statics::{self, WeightCodes};
use super::{Encoding, Work, redirect};
use crate::qnn::graph::{QnnOp, QnnType, TensorId, TensorKind};

/// Which operands of an op are what.
struct Form {
    /// Activations, which may be constants too.
    data: &'static [usize],
    /// Constant weights: their scales may run along an axis, and they may have fewer bits than the activations.
    weight: Option<usize>,
    /// A constant in 32-bit integers, its scale the product of those of the activation and the weights.
    bias: Option<usize>,
}

/// The ops that the HTP computes on encoded tensors as the model means it; each was compared on the emulation.
fn form(op_type: &str) -> Option<Form> {
    Some(match op_type {
        "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected" => {
            Form { data: &[0], weight: Some(1), bias: Some(2) }
        }
        "MatMul" | "ElementWiseAdd" | "ElementWiseSubtract" | "ElementWiseMultiply" | "ElementWiseDivide"
        | "ElementWiseMaximum" | "ElementWiseMinimum" => Form { data: &[0, 1], weight: None, bias: None },
        "LayerNorm" => Form { data: &[0], weight: Some(1), bias: Some(2) },
        "Sigmoid" | "Tanh" | "Gelu" | "HardSwish" | "Softmax" | "PoolAvg2d" | "ReduceMean" | "ReduceSum"
        | "ReduceMax" | "ReduceMin" | "ResizeBilinear" | "Resize" | "ElementWiseNeuron" | "Elu" => {
            Form { data: &[0], weight: None, bias: None }
        }
        _ => return None,
    })
}

/// Computes on the integers wherever that is possible.
pub(super) fn absorb(work: &mut Work<'_>) {
    let readers = work.readers();
    let coded: HashMap<TensorId, TensorId> = work
        .graph
        .ops
        .iter()
        .filter(|op| op.op_type == "Dequantize")
        .map(|op| (op.outputs[0], op.inputs[0]))
        .collect();
    let mut aliases = HashMap::new();
    let mut dropped: Vec<bool> = vec![false; work.graph.ops.len()];
    for i in 0..work.graph.ops.len() {
        let op = work.graph.ops[i].clone();
        if work.is_plain(&op) {
            continue;
        }
        let Some(form) = form(&op.op_type) else { continue };
        let &[y] = op.outputs.as_slice() else { continue };
        let Some((e, quantizes)) = work.wanted(y, &readers) else { continue };
        let Some(inputs) = operands(work, &op, &form, &e, &coded) else { continue };
        let Some(result) = work.one_result(&quantizes, &mut aliases) else { continue };
        for q in quantizes {
            dropped[q] = true;
        }
        work.graph.ops[i] = QnnOp { inputs, outputs: vec![result], ..op };
    }
    let mut at = dropped.iter();
    work.graph.ops.retain(|_| at.next() != Some(&true));
    redirect(&mut work.graph.ops, &aliases);
}

/// The operands in integers for a result of encoding `e`.
fn operands(
    work: &mut Work<'_>,
    op: &QnnOp,
    form: &Form,
    e: &Encoding,
    coded: &HashMap<TensorId, TensorId>,
) -> Option<Vec<TensorId>> {
    if !matches!(e.dtype, QnnType::UFIXED_POINT_8 | QnnType::UFIXED_POINT_16) {
        return None;
    }
    let mut inputs = op.inputs.clone();
    let mut real = false;
    for &s in form.data {
        let t = *op.inputs.get(s)?;
        inputs[s] = match coded.get(&t) {
            Some(&c) => {
                real = true;
                c
            }
            None if work.graph.tensor(t).kind == TensorKind::Static => statics::operand(work, t, e.dtype)?,
            None => return None,
        };
        // The second operand of a product may have fewer bits.
        let narrower = op.op_type == "MatMul" && s == 1 && work.graph.tensor(inputs[s]).dtype.size() <= e.dtype.size();
        if work.encoding(inputs[s]).dtype != e.dtype && !narrower {
            return None;
        }
    }
    if !real {
        return None;
    }
    let (scale, _) = work.encoding(inputs[form.data[0]]).scalar()?;
    let mut scales = vec![scale];
    if let Some(s) = form.weight
        && let Some(&t) = op.inputs.get(s)
    {
        let codes = WeightCodes::of(work.graph.tensor(t))?;
        if codes.bits() > e.dtype.size() * 8 {
            return None;
        }
        scales = codes.scales.iter().map(|w| scale * w).collect();
        inputs[s] = codes.add(work, t);
    }
    if let Some(s) = form.bias
        && let Some(&t) = op.inputs.get(s)
    {
        inputs[s] = statics::rounded_32(work, t, &scales)?;
    }
    Some(inputs)
}
