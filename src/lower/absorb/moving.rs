//! Ops that only move elements: Dequantize goes below them, Quantize above.

use std::collections::HashMap;

use super::{Encoding, Work, code_range, param, redirect, statics};
use crate::qnn::graph::{Param, QnnOp, QnnType, Scalar, TensorId, TensorKind};

/// The operands whose elements the op moves; `None` for an op that computes. Every element of a result is an element of
/// one of them (the largest of a window counts: order is kept by an encoding).
pub(super) fn moved(op: &QnnOp) -> Option<Vec<usize>> {
    match op.op_type.as_str() {
        "Concat" | "Pack" => Some((0..op.inputs.len()).collect()),
        "Reshape"
        | "Transpose"
        | "StridedSlice"
        | "Split"
        | "UnPack"
        | "Gather"
        | "GatherElements"
        | "GatherNd"
        | "Tile"
        | "PoolMax2d"
        | "DepthToSpace"
        | "SpaceToDepth"
        | "ChannelShuffle"
        | "ExpandDims"
        | "Squeeze"
        | "ResizeNearestNeighbor"
        | "Relu"
        | "Pad" => Some(vec![0]),
        "Resize" if matches!(param(op, "interpolation_mode"), Some(Param::Scalar(Scalar::U32(0)))) => Some(vec![0]),
        _ => None,
    }
}

/// The parameters of a moving op when it moves codes: what Pad fills in is a code too. `None` if it has none.
fn params_on_codes(op: &QnnOp, e: &Encoding) -> Option<Vec<(String, Param)>> {
    let mut params = op.params.clone();
    for (name, value) in &mut params {
        if op.op_type == "Pad" && name == "pad_constant_value" {
            let Param::Scalar(Scalar::F32(real)) = *value else { return None };
            let (scale, zero) = e.scalar()?;
            let code = real / scale + zero as f32;
            let (low, high) = code_range(e.dtype)?;
            if code.fract() != 0.0 || code < low as f32 || code > high as f32 {
                return None;
            }
            *value = Param::i32(code as i32);
        }
    }
    Some(params)
}

/// Dequantize sinks: an op that moves dequantised elements moves their codes, and its result is dequantised. Where a
/// Quantize is met, the two are nothing or a Convert.
pub(super) fn sink(work: &mut Work<'_>) {
    let ops = std::mem::take(&mut work.graph.ops);
    let mut done: Vec<QnnOp> = Vec::with_capacity(ops.len());
    // Real tensors and the codes that they stand for; halves and the 32-bit floats that they were cast from.
    let mut coded: HashMap<TensorId, TensorId> = HashMap::new();
    let mut wide: HashMap<TensorId, TensorId> = HashMap::new();
    let mut aliases: HashMap<TensorId, TensorId> = HashMap::new();
    for mut op in ops {
        redirect(std::slice::from_mut(&mut op), &aliases);
        let (x, y) = (op.inputs.first().copied(), op.outputs.first().copied());
        let (Some(x), Some(y)) = (x, y) else {
            done.push(op);
            continue;
        };
        match op.op_type.as_str() {
            "Dequantize" => {
                coded.insert(y, x);
            }
            "Quantize" if !work.is_plain(&op) => {
                if let Some(&c) = coded.get(&x) {
                    if work.encoding(c) == work.encoding(y) && work.graph.tensor(y).kind == TensorKind::Native {
                        aliases.insert(y, c);
                        continue;
                    }
                    op = QnnOp { op_type: "Convert".into(), inputs: vec![c], ..op };
                } else if let Some(&w) = wide.get(&x) {
                    op.inputs[0] = w;
                }
            }
            "Cast" if work.graph.tensor(y).dtype.is_float() => {
                if let Some(&c) = coded.get(&x) {
                    coded.insert(y, c);
                    op = QnnOp { op_type: "Dequantize".into(), inputs: vec![c], ..op };
                } else if work.graph.tensor(x).dtype == QnnType::FLOAT_32 {
                    wide.insert(y, x);
                }
            }
            _ => {
                if let Some((codes, back)) = moved_codes(work, &op, &coded) {
                    coded.extend(back.iter().map(|d| (d.outputs[0], d.inputs[0])));
                    done.push(codes);
                    done.extend(back);
                    continue;
                }
            }
        }
        done.push(op);
    }
    work.graph.ops = done;
}

/// The op on codes, and the Dequantize ops for its results, if every operand that it moves is dequantised alike.
fn moved_codes(work: &mut Work<'_>, op: &QnnOp, coded: &HashMap<TensorId, TensorId>) -> Option<(QnnOp, Vec<QnnOp>)> {
    let slots = moved(op)?;
    if work.is_plain(op) {
        return None;
    }
    let mut encoding: Option<Encoding> =
        slots.iter().find_map(|&s| coded.get(&op.inputs[s])).map(|c| work.encoding(*c));
    let mut inputs = op.inputs.clone();
    for s in slots {
        let t = op.inputs[s];
        let codes = match coded.get(&t) {
            Some(c) => *c,
            None => statics::moved(work, t, encoding.as_ref())?,
        };
        let e = work.encoding(codes);
        if encoding.as_ref().is_some_and(|f| *f != e) {
            return None;
        }
        encoding = Some(e);
        inputs[s] = codes;
    }
    let e = encoding?;
    e.scalar()?;
    let params = params_on_codes(op, &e)?;
    let mut outputs = vec![];
    let mut back = vec![];
    for &y in &op.outputs {
        let codes = work.tensor(y, e.dtype, e.quant.clone());
        outputs.push(codes);
        back.push(work.op("Dequantize", codes, y, op));
    }
    Some((QnnOp { inputs, outputs, params, ..op.clone() }, back))
}

/// What Quantize can rise above.
enum Above {
    /// An op that moves these operands.
    Moving(Vec<usize>),
    /// A clamp that the encoding does anyway.
    Nothing,
}

fn above(op: &QnnOp, e: &Encoding) -> Option<Above> {
    let bound = |name: &str| match param(op, name) {
        Some(Param::Scalar(Scalar::F32(v))) => Some(*v),
        _ => None,
    };
    let (low, high) = e.range()?;
    match op.op_type.as_str() {
        "Relu" if low >= 0.0 => Some(Above::Nothing),
        "ReluMinMax" => (bound("min_value")? <= low && bound("max_value")? >= high).then_some(Above::Nothing),
        _ => moved(op).map(Above::Moving),
    }
}

/// Quantize rises above one op, if it can anywhere.
pub(super) fn rise(work: &mut Work<'_>) -> bool {
    let readers = work.readers();
    for i in (0..work.graph.ops.len()).rev() {
        let op = work.graph.ops[i].clone();
        if work.is_plain(&op) || moved(&op).is_none() && op.op_type != "ReluMinMax" {
            continue;
        }
        if risen(work, i, &op, &readers).is_some() {
            return true;
        }
    }
    false
}

fn risen(work: &mut Work<'_>, at: usize, op: &QnnOp, readers: &HashMap<TensorId, Vec<usize>>) -> Option<()> {
    let mut encoding: Option<Encoding> = None;
    let mut aliases = HashMap::new();
    let mut dropped: Vec<usize> = vec![];
    let mut outputs: Vec<TensorId> = vec![];
    let mut node = None;
    for &y in &op.outputs {
        let (e, quantizes) = work.wanted(y, readers)?;
        if encoding.as_ref().is_some_and(|f| *f != e) {
            return None;
        }
        encoding = Some(e);
        outputs.push(work.one_result(&quantizes, &mut aliases)?);
        node = node.or(quantizes.first().copied());
        dropped.extend(quantizes);
    }
    let e = encoding?;
    let like = work.graph.ops[node?].clone();
    let mut before = vec![];
    let moved = match above(op, &e)? {
        Above::Nothing => {
            let mut quantize = work.op("Quantize", op.inputs[0], outputs[0], &like);
            quantize.node = like.node;
            quantize
        }
        Above::Moving(slots) => {
            let mut inputs = op.inputs.clone();
            for s in slots {
                let t = op.inputs[s];
                if work.graph.tensor(t).kind == TensorKind::Static {
                    inputs[s] = statics::moved(work, t, Some(&e))?;
                    continue;
                }
                let codes = work.tensor(t, e.dtype, e.quant.clone());
                before.push(work.op("Quantize", t, codes, &like));
                inputs[s] = codes;
            }
            let params = params_on_codes(op, &e)?;
            QnnOp { inputs, outputs, params, ..op.clone() }
        }
    };
    let mut ops = vec![];
    for (i, other) in std::mem::take(&mut work.graph.ops).into_iter().enumerate() {
        if i == at {
            ops.append(&mut before);
            ops.push(moved.clone());
        } else if !dropped.contains(&i) {
            ops.push(other);
        }
    }
    redirect(&mut ops, &aliases);
    work.graph.ops = ops;
    Some(())
}
