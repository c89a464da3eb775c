//! Ops on encoded tensors: all operands dequantised, the result quantised.

use std::collections::{HashMap, HashSet};

use super::statics::{self, WeightCodes};
use super::{Encoding, Work, param, redirect};
use crate::qnn::graph::{Param, QnnOp, QnnType, Quant, Scalar, TensorId, TensorKind};

/// The operation of ElementWiseNeuron that is HardSigmoid.
const HARD_SIGMOID: u32 = 2;

/// Which operands of an op are what.
struct Form {
    /// Activations, which may be constants too.
    data: &'static [usize],
    /// Constant weights: their scales may run along an axis, and they may have fewer bits than the activations.
    weight: Option<usize>,
    /// A constant factor of its own encoding, unsigned, of as many bits or fewer.
    factor: Option<usize>,
    /// A constant in 32-bit integers, its scale the product of those of the activation and the weights.
    bias: Option<usize>,
}

/// The ops that the HTP computes on encoded tensors as the model means it; each was compared on the emulation.
fn form(op_type: &str) -> Option<Form> {
    Some(match op_type {
        "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected" => {
            Form { data: &[0], weight: Some(1), factor: None, bias: Some(2) }
        }
        "MatMul"
        | "ElementWiseAdd"
        | "ElementWiseSubtract"
        | "ElementWiseMultiply"
        | "ElementWiseDivide"
        | "ElementWiseMaximum"
        | "ElementWiseMinimum" => Form { data: &[0, 1], weight: None, factor: None, bias: None },
        // Signed factors are taken by the validator and come out wrong (2.47).
        "LayerNorm" => Form { data: &[0], weight: None, factor: Some(1), bias: Some(2) },
        "Prelu" => Form { data: &[0], weight: None, factor: Some(1), bias: None },
        "Sigmoid" | "Tanh" | "Gelu" | "HardSwish" | "Softmax" | "PoolAvg2d" | "ReduceMean" | "ReduceSum"
        | "ReduceMax" | "ReduceMin" | "ResizeBilinear" | "Resize" | "ElementWiseNeuron" | "Elu" => {
            Form { data: &[0], weight: None, factor: None, bias: None }
        }
        _ => return None,
    })
}

/// Ops whose 8-bit form is coarse (errors of ten codes and more on the emulation, 2.47, and the same in real numbers
/// between Dequantize and Quantize, which the vendor's optimiser makes one op): they are computed in 16 bits.
fn is_coarse(op_type: &str) -> bool {
    op_type == "LayerNorm"
}

/// Forms that are taken and come out wrong (2.47).
fn is_wrong(op: &QnnOp, e: &Encoding) -> bool {
    match op.op_type.as_str() {
        // The zero point of 8-bit results is not added.
        "Softmax" => e.dtype == QnnType::UFIXED_POINT_8 && e.scalar().is_none_or(|(_, zero)| zero != 0),
        // 16-bit codes are far off.
        "ElementWiseNeuron" => {
            let hard = matches!(param(op, "operation"), Some(Param::Scalar(Scalar::U32(HARD_SIGMOID))));
            hard && e.dtype == QnnType::UFIXED_POINT_16
        }
        _ => false,
    }
}

/// Computes on the integers wherever that is possible.
pub(super) fn absorb(work: &mut Work<'_>) {
    let readers = work.readers();
    let coded: HashMap<TensorId, TensorId> =
        work.graph.ops.iter().filter(|op| op.op_type == "Dequantize").map(|op| (op.outputs[0], op.inputs[0])).collect();
    let mut aliases = HashMap::new();
    let mut dropped: HashSet<usize> = HashSet::new();
    let mut replaced: HashMap<usize, Vec<QnnOp>> = HashMap::new();
    for i in 0..work.graph.ops.len() {
        let op = work.graph.ops[i].clone();
        if work.is_plain(&op) {
            continue;
        }
        let Some(form) = form(&op.op_type) else { continue };
        let &[y] = op.outputs.as_slice() else { continue };
        let Some((e, quantizes)) = work.wanted(y, &readers) else { continue };
        if is_wrong(&op, &e) {
            continue;
        }
        let made = if is_coarse(&op.op_type) && e.dtype == QnnType::UFIXED_POINT_8 {
            widened(work, &op, &form, &e, &coded)
        } else {
            operands(work, &op, &form, &e, &coded).map(|(mut ops, inputs)| {
                ops.push(QnnOp { inputs, ..op.clone() });
                (ops, None)
            })
        };
        let Some((mut ops, behind)) = made else { continue };
        let Some(result) = work.one_result(&quantizes, &mut aliases) else { continue };
        if let Some(op) = ops.last_mut() {
            op.outputs = vec![behind.unwrap_or(result)];
        }
        if let Some(wide) = behind {
            ops.push(work.op("Convert", wide, result, &op));
        }
        dropped.extend(quantizes);
        replaced.insert(i, ops);
    }
    let mut ops = vec![];
    for (i, op) in std::mem::take(&mut work.graph.ops).into_iter().enumerate() {
        match replaced.remove(&i) {
            Some(new) => ops.extend(new),
            None if dropped.contains(&i) => {}
            None => ops.push(op),
        }
    }
    redirect(&mut ops, &aliases);
    work.graph.ops = ops;
}

/// The op on 8-bit operands in 16 bits: each code 256 times as large, the scale a 256th. Gives the ops up to the one
/// that computes, and the tensor that its result goes to before it is narrowed.
fn widened(
    work: &mut Work<'_>,
    op: &QnnOp,
    form: &Form,
    e: &Encoding,
    coded: &HashMap<TensorId, TensorId>,
) -> Option<(Vec<QnnOp>, Option<TensorId>)> {
    let e = wide(e)?;
    let mut ops = vec![];
    let mut coded = coded.clone();
    for &s in form.data {
        let t = *op.inputs.get(s)?;
        let codes = *coded.get(&t)?;
        if work.graph.tensor(codes).dtype != QnnType::UFIXED_POINT_8 {
            return None;
        }
        let to = wide(&work.encoding(codes))?;
        let more = work.tensor(codes, to.dtype, to.quant);
        ops.push(work.op("Convert", codes, more, op));
        coded.insert(t, more);
    }
    let (before, inputs) = operands(work, op, form, &e, &coded)?;
    ops.extend(before);
    let &y = op.outputs.first()?;
    let result = work.tensor(y, e.dtype, e.quant);
    ops.push(QnnOp { inputs, ..op.clone() });
    Some((ops, Some(result)))
}

/// 16-bit codes that stand for the same range with zero in the middle, as the HTP wants the second operand of a product.
fn symmetric(e: &Encoding) -> Option<Encoding> {
    let (low, high) = e.range()?;
    let scale = low.abs().max(high.abs()) / 32_767.0;
    Some(Encoding { dtype: QnnType::SFIXED_POINT_16, quant: Quant::PerTensor { scale, offset: 0 } })
}

fn wide(e: &Encoding) -> Option<Encoding> {
    let (scale, zero) = e.scalar()?;
    let quant = Quant::PerTensor { scale: scale / 256.0, offset: -zero * 256 };
    Some(Encoding { dtype: QnnType::UFIXED_POINT_16, quant })
}

/// The operands in integers for a result of encoding `e`, and the ops that make them.
fn operands(
    work: &mut Work<'_>,
    op: &QnnOp,
    form: &Form,
    e: &Encoding,
    coded: &HashMap<TensorId, TensorId>,
) -> Option<(Vec<QnnOp>, Vec<TensorId>)> {
    if !matches!(e.dtype, QnnType::UFIXED_POINT_8 | QnnType::UFIXED_POINT_16) {
        return None;
    }
    let mut inputs = op.inputs.clone();
    let mut real = false;
    let mut before = vec![];
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
        let second = op.op_type == "MatMul" && s == 1;
        let off_middle = work.encoding(inputs[s]).scalar().is_none_or(|(_, zero)| zero != 128);
        if second && e.dtype == QnnType::UFIXED_POINT_8 && work.graph.tensor(t).kind == TensorKind::Static && off_middle
        {
            return None;
        }
        if second && work.encoding(inputs[s]).dtype == QnnType::UFIXED_POINT_16 {
            let to = symmetric(&work.encoding(inputs[s]))?;
            let narrowed = work.tensor(inputs[s], to.dtype, to.quant);
            before.push(work.op("Convert", inputs[s], narrowed, op));
            inputs[s] = narrowed;
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
        // Beside 8-bit activations the HTP rounds weights with a zero point again (2.47); as blocks of real products
        // they stay what they are.
        if op.op_type == "FullyConnected" && e.dtype == QnnType::UFIXED_POINT_8 && !codes.is_signed_8() {
            return None;
        }
        if codes.is_in_blocks() || codes.bits() > e.dtype.size() * 8 {
            return None;
        }
        scales = codes.scales.iter().map(|w| scale * w).collect();
        inputs[s] = codes.add(work, t);
    }
    if let Some(s) = form.factor
        && let Some(&t) = op.inputs.get(s)
    {
        inputs[s] =
            statics::operand(work, t, QnnType::UFIXED_POINT_8).or_else(|| statics::operand(work, t, e.dtype))?;
        let (factor, _) = work.encoding(inputs[s]).scalar()?;
        scales = vec![scale * factor];
    }
    if let Some(s) = form.bias
        && let Some(&t) = op.inputs.get(s)
    {
        inputs[s] = statics::rounded_32(work, t, &scales)?;
    }
    Some((before, inputs))
}
