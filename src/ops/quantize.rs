//! QuantizeLinear, DequantizeLinear and the ops on quantised operands (QLinearConv, MatMulInteger, ...): inference, and
//! the values of constants. Constants that are dequantised become real weights.

use super::{FoldCx, InferCx, OpDef, OpError, invalid};
use crate::ir::{Attrs, DataType, Dim, Encoded, Shape, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};

mod grain;
mod integer;
mod runtime;
mod small_float;

pub(super) use grain::Grain;
pub(super) use integer::{infer_conv_integer, infer_matmul_integer, infer_qlinear_conv, infer_qlinear_matmul};
pub(super) use runtime::{lower_dequantize, lower_quantize};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("QuantizeLinear", infer_quantize).fold(fold_quantize).lower(lower_quantize),
    OpDef::new("DequantizeLinear", infer_dequantize).fold(fold_dequantize).lower(lower_dequantize),
    OpDef::new("DynamicQuantizeLinear", infer_dynamic).fold(fold_dynamic).lower(runtime::lower_dynamic),
    OpDef::new("QLinearConv", infer_qlinear_conv).lower(refuse),
    OpDef::new("QLinearMatMul", infer_qlinear_matmul).lower(refuse),
    OpDef::new("ConvInteger", infer_conv_integer).lower(refuse),
    OpDef::new("MatMulInteger", infer_matmul_integer).fold(integer::fold_matmul_integer).lower(refuse),
];

/// How scale and zero point spread over the tensor, for input 0 with scale in input 1 and zero point in input 2.
fn grain_of(cx: &InferCx<'_>) -> Result<Grain, OpError> {
    let (x, scale) = (cx.shape(0)?, cx.shape(1)?);
    let grain = Grain::of(x, scale, &cx.node.attrs, cx.node.version, &cx.node.domain).map_err(OpError::Invalid)?;
    if cx.has(2) {
        let zero = cx.shape(2)?;
        let same_count = |a: &[Dim], b: &[Dim]| a == b || (count(a) == Some(1) && count(b) == Some(1));
        if count(zero).is_some() && count(scale).is_some() && !same_count(zero, scale) {
            return invalid(format!(
                "the zero point is {}, and the scale {}: they must have one shape",
                show_shape(zero),
                show_shape(scale)
            ));
        }
    }
    Ok(grain)
}

/// Number of elements of a static shape.
fn count(shape: &[Dim]) -> Option<i64> {
    shape.iter().try_fold(1i64, |a, d| a.checked_mul(d.known()?))
}

pub(super) fn infer_quantize(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape: Shape = cx.shape(0)?.clone();
    grain_of(cx)?;
    let named = cx.node.attrs.int_or("output_dtype", 0);
    let named = match named {
        0 => None,
        n => Some(
            i32::try_from(n)
                .ok()
                .and_then(DataType::from_onnx)
                .ok_or_else(|| OpError::Invalid(format!("attribute output_dtype is {n}, which is no element type")))?,
        ),
    };
    let dtype = match (cx.has(2), named) {
        (true, Some(d)) if d != cx.dtype(2)? => {
            return invalid(format!("attribute output_dtype is {d}, and the zero point is {}", cx.dtype(2)?));
        }
        (true, _) => cx.dtype(2)?,
        (false, d) => d.unwrap_or(DataType::U8),
    };
    cx.set(0, dtype, shape);
    Ok(())
}

pub(super) fn infer_dequantize(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let x = cx.ty(0)?.clone();
    grain_of(cx)?;
    if cx.has(2) && cx.dtype(2)? != x.dtype {
        return invalid(format!(
            "the input is {}, and its zero point {}: they must have one type",
            x.dtype,
            cx.dtype(2)?
        ));
    }
    let dtype = match cx.node.attrs.int_or("output_dtype", 0) {
        0 => cx.dtype(1)?,
        n => match i32::try_from(n).ok().and_then(DataType::from_onnx) {
            Some(d) => d,
            None => return invalid(format!("attribute output_dtype is {n}, which is no element type")),
        },
    };
    cx.set(0, dtype, x.shape);
    Ok(())
}

fn infer_dynamic(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = cx.shape(0)?.clone();
    cx.set(0, DataType::U8, shape);
    cx.set(1, DataType::F32, vec![]);
    cx.set(2, DataType::U8, vec![]);
    Ok(())
}

/// Real values of a quantised constant: `(x - zero point) * scale`, in 32-bit floats. `None` when the shapes do not fit.
pub(super) fn dequantised(
    x: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
    attrs: &Attrs,
    version: i64,
    domain: &str,
) -> Option<Vec<f32>> {
    let dims = |t: &Tensor| -> Shape { t.shape().iter().map(|&d| d.into()).collect() };
    let grain = Grain::of(&dims(x), &dims(scale), attrs, version, domain).ok()?;
    let scales: Vec<f32> = small_float::values(scale)?.into_iter().map(|v| v as f32).collect();
    let zeros = zero.map(small_float::values).map_or(Some(vec![0.0]), |z| z)?;
    if zeros.len() != 1 && zeros.len() != scales.len() {
        return None;
    }
    let index = grain.index(x.shape());
    let values = small_float::values(x)?;
    values
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let at = index.of(i);
            let zero = zeros.get(if zeros.len() == 1 { 0 } else { at })?;
            Some((v - zero) as f32 * scales.get(at)?)
        })
        .collect()
}

pub(super) fn fold_dequantize(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let zero = cx.node.input(2).map(|_| cx.input(2)).map_or(Some(None), |z| z.map(Some))?;
    let node = cx.node;
    if let Some(e) = encoded(cx.input(0)?, cx.input(1)?, zero, &node.attrs, node.version, &node.domain) {
        return Some(vec![Tensor::encoded(dtype, e)]);
    }
    let y = dequantised(cx.input(0)?, cx.input(1)?, zero, &node.attrs, node.version, &node.domain)?;
    let wide: Vec<f64> = y.into_iter().map(f64::from).collect();
    Some(vec![Tensor::from_f64(dtype, shape, &wide)?])
}

/// A quantised constant as the integers that it is.
fn encoded(
    x: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
    attrs: &Attrs,
    version: i64,
    domain: &str,
) -> Option<Encoded> {
    let dims = |t: &Tensor| -> Shape { t.shape().iter().map(|&d| d.into()).collect() };
    let grain = Grain::of(&dims(x), &dims(scale), attrs, version, domain).ok()?;
    if !x.dtype().is_int() || !matches!(scale.dtype(), DataType::F32 | DataType::F16) {
        return None;
    }
    let scales = scale.to_f32s()?;
    let zeros: Vec<i32> = match zero {
        None => vec![0; scales.len()],
        Some(z) => z.to_i64s()?.into_iter().map(|v| i32::try_from(v).ok()).collect::<Option<_>>()?,
    };
    let zeros = if zeros.len() == 1 { vec![zeros[0]; scales.len()] } else { zeros };
    match grain {
        Grain::Tensor => Encoded::new(x.clone(), scales, zeros, None),
        Grain::Axis(a) => Encoded::new(x.clone(), scales, zeros, Some(a)),
        Grain::Block { axis, size } => Encoded::in_blocks(x.clone(), scales, zeros, axis, size),
    }
}

pub(super) fn fold_quantize(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let (low, high) = dtype.int_range()?;
    let (x, scale) = (cx.input(0)?, cx.input(1)?);
    // Another precision than that of the scale, or of 16 bits, divides differently.
    if cx.node.attrs.int_or("precision", 0) != 0 || scale.dtype() != DataType::F32 || x.dtype() != DataType::F32 {
        return None;
    }
    let dims = |t: &Tensor| -> Shape { t.shape().iter().map(|&d| d.into()).collect() };
    let grain = Grain::of(&dims(x), &dims(scale), &cx.node.attrs, cx.node.version, &cx.node.domain).ok()?;
    let index = grain.index(x.shape());
    let scales = scale.to_f32s()?;
    let zeros = match cx.node.input(2) {
        Some(_) => cx.input(2)?.to_i128s()?,
        None => vec![0; scales.len()],
    };
    let y: Option<Vec<i128>> = x
        .to_f32s()?
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let at = index.of(i);
            let zero = zeros.get(if zeros.len() == 1 { 0 } else { at })?;
            let q = (v / scales.get(at)?).round_ties_even();
            Some(((q as i128).saturating_add(*zero)).clamp(low, high))
        })
        .collect();
    Some(vec![Tensor::from_i128(dtype, shape, &y?)?])
}

fn fold_dynamic(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let values = x.to_f32s()?;
    let low = values.iter().copied().fold(0.0, f32::min);
    let high = values.iter().copied().fold(0.0, f32::max);
    let scale = if high == low { 1.0 } else { (high - low) / 255.0 };
    let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
    let y: Vec<i128> =
        values.iter().map(|v| ((v / scale).round_ties_even() as i128 + zero as i128).clamp(0, 255)).collect();
    Some(vec![
        Tensor::from_i128(DataType::U8, x.shape().to_vec(), &y)?,
        Tensor::from_f32(vec![], &[scale]),
        Tensor::from_i128(DataType::U8, vec![], &[zero as i128])?,
    ])
}

/// Output 0 is the dequantised constant in inputs `x`, `scale` and `zero`, made at compile time.
pub(super) fn dequantise_constant(
    cx: &mut LowerCx<'_, '_>,
    x: usize,
    scale: usize,
    zero: usize,
) -> Result<(), Refusal> {
    let (Some(data), Some(scales)) = (cx.constant(x), cx.constant(scale)) else {
        return refuse(cx);
    };
    let zeros = if cx.has(zero) { Some(cx.need_constant(zero, "the zero point")?) } else { None };
    let node = cx.node;
    let values = dequantised(data, scales, zeros, &node.attrs, node.version, &node.domain)
        .ok_or_else(|| Refusal::form(format!("a constant of type {} is not dequantised here", data.dtype())))?;
    let dims: Vec<u32> = if data.rank() == 0 { vec![1] } else { data.shape().iter().map(|&d| d as u32).collect() };
    let t = cx.float_constant(&dims, &values);
    cx.alias(0, t, Layout::identity(data.rank()))
}

/// Tensors that are quantised at run time have no exact form in a graph of 16-bit floats.
pub(super) fn refuse(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::form(format!(
        "{} of values computed at run time: its integers cannot be kept exact in 16-bit floats",
        cx.node.op_name()
    ))
    .fix("export the model with real weights, or leave only weights quantised"))
}

#[cfg(test)]
mod tests;
