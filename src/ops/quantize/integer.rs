//! Inference of the ops whose operands are quantised.

use super::super::matmul::{matmul_shape, multiply};
use super::super::{FoldCx, InferCx, OpError, invalid};
use crate::ir::{DataType, Dim, Shape, Tensor, show_shape};

/// The spatial sizes that a convolution gives.
fn conv_shape(cx: &InferCx<'_>, x: &Shape, w: &Shape) -> Result<Shape, OpError> {
    if x.len() < 3 || w.len() != x.len() {
        return invalid(format!("input {} and weight {} are not those of a convolution", show_shape(x), show_shape(w)));
    }
    let attrs = &cx.node.attrs;
    let group = Dim::Known(attrs.int_or("group", 1));
    if let (Dim::Known(c), Dim::Known(want)) = (&x[1], w[1].mul(&group))
        && *c != want
    {
        return invalid(format!("the input has {c} channels, and the weight takes {want}"));
    }
    let spatial = x.len() - 2;
    let list = |name: &str, default: i64, n: usize| -> Result<Vec<i64>, OpError> {
        match attrs.ints(name) {
            Some(v) if v.len() == n => Ok(v.to_vec()),
            Some(v) => invalid(format!("attribute {name} has {} numbers; {n} are needed", v.len())),
            None => Ok(vec![default; n]),
        }
    };
    let (strides, dilations) = (list("strides", 1, spatial)?, list("dilations", 1, spatial)?);
    let pads = list("pads", 0, 2 * spatial)?;
    let kernel = match attrs.ints("kernel_shape") {
        Some(_) => list("kernel_shape", 1, spatial)?.into_iter().map(Dim::Known).collect(),
        None => w[2..].to_vec(),
    };
    let auto = attrs.str_or("auto_pad", "NOTSET");
    let mut out = vec![x[0].clone(), w[0].clone()];
    for i in 0..spatial {
        if strides[i] < 1 || dilations[i] < 1 {
            return invalid(format!(
                "stride {} or dilation {} of axis {} is not positive",
                strides[i],
                dilations[i],
                i + 2
            ));
        }
        let stride = Dim::Known(strides[i]);
        let one = Dim::Known(1);
        let reach = kernel[i].sub(&one).mul(&Dim::Known(dilations[i])).add(&one);
        let steps = |room: Dim| room.floor_div(&stride).unwrap_or(Dim::Known(0)).add(&one);
        let size = match auto {
            "SAME_UPPER" | "SAME_LOWER" => steps(x[i + 2].sub(&one)),
            "VALID" => steps(x[i + 2].sub(&reach)),
            _ => steps(x[i + 2].add(&Dim::Known(pads[i].saturating_add(pads[i + spatial]))).sub(&reach)),
        };
        if let Dim::Known(n) = size
            && n < 1
        {
            return invalid(format!("the kernel is larger than the padded input along axis {}", i + 2));
        }
        out.push(size);
    }
    Ok(out)
}

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
    let shape = conv_shape(cx, &x, &w)?;
    check_channels(cx, 4, &w[0], "w_scale")?;
    check_channels(cx, 5, &w[0], "w_zero_point")?;
    let dtype = cx.dtype(7)?;
    cx.set(0, dtype, shape);
    Ok(())
}

pub(in crate::ops) fn infer_conv_integer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.shape(0)?.clone(), cx.shape(1)?.clone());
    let shape = conv_shape(cx, &x, &w)?;
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
