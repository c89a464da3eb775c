//! Inference of the ops whose operands are quantised.

use super::super::conv::conv_shape;
use super::super::matmul::{matmul_shape, multiply};
use super::super::{FoldCx, InferCx, OpError, invalid};
use crate::ir::{DataType, Dim, Tensor};

/// A per-channel parameter has one element, or one for each of `channels`.
fn check_channels(cx: &InferCx<'_>, i: usize, channels: &Dim, what: &str) -> Result<(), OpError> {
    if !cx.has(i) {
        return Ok(());
    }
    let shape = cx.shape(i)?;
    match (shape.as_slice(), channels) {
        ([Dim::Known(n)], Dim::Known(c)) if *n != 1 && n != c => {
            invalid(format!("{what} has {n} elements for {c} output channels"))
        }
        _ => Ok(()),
    }
}

pub(in crate::ops) fn infer_qlinear_conv(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.shape(0)?.clone(), cx.shape(3)?.clone());
    let shape = conv_shape(&cx.node.attrs, &x, &w)?;
    check_channels(cx, 4, &w[0], "w_scale")?;
    check_channels(cx, 5, &w[0], "w_zero_point")?;
    let dtype = cx.dtype(7)?;
    cx.set(0, dtype, shape);
    Ok(())
}

pub(in crate::ops) fn infer_conv_integer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.shape(0)?.clone(), cx.shape(1)?.clone());
    let shape = conv_shape(&cx.node.attrs, &x, &w)?;
    check_channels(cx, 3, &w[0], "w_zero_point")?;
    cx.set(0, DataType::I32, shape);
    Ok(())
}

pub(in crate::ops) fn infer_qlinear_matmul(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = matmul_shape(cx.shape(0)?, cx.shape(3)?)?;
    let dtype = cx.dtype(7)?;
    cx.set(0, dtype, shape);
    Ok(())
}

pub(in crate::ops) fn infer_matmul_integer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = matmul_shape(cx.shape(0)?, cx.shape(1)?)?;
    cx.set(0, DataType::I32, shape);
    Ok(())
}

/// Products of 8-bit integers are exact in 64-bit floats.
pub(super) fn fold_matmul_integer(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let operand = |i: usize, zero: usize| {
        let t = cx.input(i)?;
        let z = match cx.node.input(zero) {
            Some(_) => cx.input(zero)?.scalar_f64()?,
            None => 0.0,
        };
        Some((t.to_f64s()?.into_iter().map(|v| v - z).collect::<Vec<_>>(), t.shape()))
    };
    let ((a, sa), (b, sb)) = (operand(0, 2)?, operand(1, 3)?);
    let y = multiply(&a, sa, &b, sb)?;
    Some(vec![Tensor::from_i128(dtype, shape, &y.iter().map(|v| *v as i128).collect::<Vec<_>>())?])
}
