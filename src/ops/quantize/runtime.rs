//! QuantizeLinear and DequantizeLinear of tensors that are computed at run time.
//!
//! With one constant scale and zero point the integers have an encoding, and later ops may compute on them. Other scales
//! (one for each index of an axis, one for each block, computed at run time) are arithmetic.

use super::{Grain, dequantise_constant};
use crate::ir::{DataType, Shape, Tensor};
use crate::lower::{Coding, Layout, LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::{QnnType, TensorId};
use crate::verdict::codes;

/// Refuses scales that no calibration gives.
fn check_scale(cx: &LowerCx<'_, '_>) -> Result<(), Refusal> {
    let bad = |v: &&f32| !(v.is_normal() && **v > 0.0);
    let Some(scales) = cx.constant(1).and_then(Tensor::to_f32s) else { return Ok(()) };
    match scales.iter().find(bad) {
        None => Ok(()),
        Some(v) => {
            Err(Refusal::form(format!("the scale {:?} holds {v}; it must be a positive number", cx.input_name(1)))
                .fix("calibrate again: this range is empty or not finite"))
        }
    }
}

/// Refuses integers that the HTP has no tensors of.
fn check_integers(dtype: DataType) -> Result<(), Refusal> {
    match dtype {
        DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => Ok(()),
        _ => Err(Refusal::new(codes::DTYPE, format!("activations of {dtype}: the HTP has 8- and 16-bit integers"))
            .fix("quantise to uint8, int8, uint16 or int16")),
    }
}

pub(in crate::ops) fn lower_quantize(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.out_dtype(0)?;
    check_integers(dtype)?;
    check_scale(cx)?;
    if let Some(coding) = Coding::of(cx.graph(), cx.node, dtype) {
        let layout = cx.any_layout(0)?;
        let x = cx.input_in(0, &layout)?;
        let y = cx.output_codes(0, &layout, coding)?;
        cx.op("Quantize", &[x], &[y], &[]);
        return Ok(());
    }
    if cx.constant(1).is_none() {
        computed_scale(cx)?;
    }
    let x = cx.input(0)?;
    let scale = operand(cx, 1)?;
    let steps = compose::div(cx, x, scale);
    let mut codes = compose::unary(cx, "ElementWiseRound", steps);
    if cx.has(2) && cx.constant(2).and_then(Tensor::uniform_f64) != Some(0.0) {
        let zero = operand(cx, 2)?;
        codes = compose::add(cx, codes, zero);
    }
    give_integers(cx, 0, codes)
}

/// Refuses a scale that is computed in 16-bit floats, unless approximations are allowed: values half-way between two
/// integers of the exact scale fall to either side.
fn computed_scale(cx: &LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.target().allow_approximate {
        return Ok(());
    }
    Err(Refusal::new(
        codes::APPROXIMATE,
        format!(
            "the scale of {} is computed at run time, in 16-bit floats: its integers may be one off",
            cx.node.op_name()
        ),
    )
    .fix("allow approximate lowerings with --allow-approximate, or quantise with a constant scale"))
}

/// Output `slot` is `t`, whole numbers, saturated to the output's integer type.
pub(in crate::ops) fn give_integers(cx: &mut LowerCx<'_, '_>, slot: usize, t: TensorId) -> Result<(), Refusal> {
    let dtype = cx.out_dtype(slot)?;
    let shape = cx.out_shape(slot)?;
    let dims: Vec<u32> = if shape.is_empty() { vec![1] } else { shape.iter().map(|&d| d as u32).collect() };
    let t = cx.reshape(t, &dims);
    let y = cx.output_codes(slot, &Layout::identity(shape.len()), Coding { dtype, scale: 1.0, zero: 0 })?;
    cx.op("Quantize", &[t], &[y], &[]);
    Ok(())
}

pub(in crate::ops) fn lower_dequantize(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.constant(0).is_some() && cx.constant(1).is_some() {
        return dequantise_constant(cx, 0, 1, 2);
    }
    check_integers(cx.dtype(0)?)?;
    check_scale(cx)?;
    if let Some(coding) = Coding::of(cx.graph(), cx.node, cx.dtype(0)?)
        && let Some((layout, x)) = cx.codes(0)?
        && *cx.quant(x) == coding.unsigned().quant()
    {
        let y = cx.output(0, &layout)?;
        cx.op("Dequantize", &[x], &[y], &[]);
        return Ok(());
    }
    let x = cx.input(0)?;
    // Differences of 16-bit integers need 17 bits.
    let x = cx.cast(x, QnnType::INT_32);
    let mut steps = x;
    if cx.has(2) && cx.constant(2).and_then(Tensor::uniform_f64) != Some(0.0) {
        let zero = spread(cx, 2)?;
        let zero = cx.cast(zero, QnnType::INT_32);
        steps = compose::sub(cx, x, zero);
    }
    let float = cx.float();
    let steps = cx.cast(steps, float);
    let scale = operand(cx, 1)?;
    let y = compose::mul(cx, steps, scale);
    compose::give(cx, 0, y)
}

/// Scale or zero point (input `i`) as real numbers that broadcast against input 0.
fn operand(cx: &mut LowerCx<'_, '_>, i: usize) -> Result<TensorId, Refusal> {
    let t = spread(cx, i)?;
    let float = cx.float();
    Ok(cx.cast(t, float))
}

/// Scale or zero point (input `i`) with dims that broadcast against input 0.
fn spread(cx: &mut LowerCx<'_, '_>, i: usize) -> Result<TensorId, Refusal> {
    let shape = cx.shape(0)?;
    let symbolic = |s: &[usize]| -> Shape { s.iter().map(|&d| d.into()).collect() };
    let scale = cx.shape(1)?;
    let node = cx.node;
    let grain = Grain::of(&symbolic(&shape), &symbolic(&scale), &node.attrs, node.version, &node.domain)
        .map_err(Refusal::form)?;
    let ones = vec![1u32; shape.len().max(1)];
    let dims = match grain {
        Grain::Tensor => vec![1],
        Grain::Axis(a) => {
            let mut dims = ones;
            dims[a] = shape[a] as u32;
            dims
        }
        Grain::Block { .. } => return each(cx, i, &shape, grain),
    };
    if let Some(t) = cx.constant(i) {
        let values = t.to_f32s().ok_or_else(|| Refusal::form(format!("{:?} is not numeric", cx.input_name(i))))?;
        return Ok(cx.float_constant(&dims, &values));
    }
    let t = cx.input(i)?;
    Ok(cx.reshape(t, &dims))
}

/// A constant of blocks, repeated for every element.
fn each(cx: &mut LowerCx<'_, '_>, i: usize, shape: &[usize], grain: Grain) -> Result<TensorId, Refusal> {
    let values = cx.need_floats(i, if i == 1 { "the scale" } else { "the zero point" })?;
    let index = grain.index(shape);
    let count: usize = shape.iter().product();
    let short =
        || Refusal::form(format!("{:?} has {} elements, too few for its blocks", cx.input_name(i), values.len()));
    let all: Vec<f32> =
        (0..count).map(|e| values.get(index.of(e)).copied().ok_or_else(short)).collect::<Result<_, _>>()?;
    let dims: Vec<u32> = shape.iter().map(|&d| d as u32).collect();
    Ok(cx.float_constant(&dims, &all))
}

/// The scale `(max - min) / 255` with zero inside the range, the zero point `round(-min / scale)`, and the codes.
pub(in crate::ops) fn lower_dynamic(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    computed_scale(cx)?;
    let x = cx.input(0)?;
    let dims = cx.dims(x);
    let axes: Vec<usize> = (0..dims.len()).collect();
    let zero = cx.float_scalar(0.0);
    let mut bound = |reduce: &str, op: &str| {
        let t = compose::reduce_keep(cx, reduce, x, &axes);
        let t = cx.reshape(t, &[1]);
        compose::binary(cx, op, t, zero)
    };
    let (high, low) = (bound("ReduceMax", "ElementWiseMaximum"), bound("ReduceMin", "ElementWiseMinimum"));
    let range = compose::sub(cx, high, low);
    let steps = cx.float_scalar(255.0);
    let scale = compose::div(cx, range, steps);
    let below = compose::sub(cx, zero, low);
    let at = compose::div(cx, below, scale);
    let at = compose::unary(cx, "ElementWiseRound", at);
    let codes = compose::div(cx, x, scale);
    let codes = compose::unary(cx, "ElementWiseRound", codes);
    let codes = compose::add(cx, codes, at);
    give_integers(cx, 0, codes)?;
    if cx.wants(1) {
        compose::give(cx, 1, scale)?;
    }
    if cx.wants(2) { give_integers(cx, 2, at) } else { Ok(()) }
}
