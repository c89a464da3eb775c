//! CausalConvWithState: a depthwise convolution over one axis that sees the past alone, and hands its tail on.

use super::conv::{self, Convolution};
use super::spatial::{self, Axis};
use super::{InferCx, OpDef, OpError, compose, invalid};
use crate::ir::{Dim, show_shape};
use crate::lower::{LowerCx, Refusal};

/// The rows of this family.
pub const OPS: &[OpDef] =
    &[OpDef::new("CausalConvWithState", infer).lower(lower), OpDef::ms("CausalConvWithState", infer).lower(lower)];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?.clone(), cx.shape(1)?);
    let ([batch, channels, _], [m, _, k]) = (x.shape.as_slice(), w.as_slice()) else {
        return invalid(format!("input {} and weight {} must have rank 3", show_shape(&x.shape), show_shape(w)));
    };
    if let (Dim::Known(c), Dim::Known(m)) = (channels, m)
        && c != m
    {
        return invalid(format!("{c} channels, but weights for {m}"));
    }
    match cx.node.attrs.str_or("activation", "none") {
        "none" | "silu" | "swish" => {}
        other => return invalid(format!("attribute activation is {other:?}; it is none, silu or swish")),
    }
    cx.set(1, x.dtype, vec![batch.clone(), channels.clone(), k.sub(&Dim::Known(1))]);
    cx.set(0, x.dtype, x.shape);
    Ok(())
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let (shape, kernel) = (cx.shape(0)?, cx.shape(1)?);
    let (channels, length, k) = (shape[1], shape[2], kernel[2]);
    if kernel[1] != 1 {
        return Err(Refusal::form(format!("weights of shape {kernel:?}; the middle axis must be 1")));
    }
    let mut x = spatial::channel_last(cx, 0)?;
    let past = k - 1;
    if past > 0 {
        x = if cx.has(3) {
            let state = spatial::channel_last(cx, 3)?;
            compose::concat(cx, &[state, x], 2)
        } else {
            spatial::pad_constant(cx, x, &[[0, 0], [0, 0], [past as u32, 0], [0, 0]], 0.0)
        };
    }
    if past == 0 && cx.wants(1) {
        // Nothing is handed on. A value without elements is a constant, and nobody reads its tensor.
        cx.alias(1, x, crate::lower::Layout::identity(3))?;
    } else if cx.wants(1) {
        let state = compose::slice(cx, x, 2, length as u32, (length + past) as u32);
        spatial::give_channel_last(cx, 1, state)?;
    }
    let weights = conv::weights_input(cx, 1, &[2, 1, 0])?;
    let bias = if cx.has(2) { Some(cx.input(2)?) } else { None };
    let axis = Axis { size: length + past, kernel: k, stride: 1, dilation: 1, before: 0, after: 0, out: length };
    let axes = spatial::lifted_axes(vec![axis]);
    let mut y = Convolution { x, weights, bias, axes, group: channels as u32 }.emit(cx);
    if cx.attrs().str_or("activation", "none") != "none" {
        let gate = compose::unary(cx, "Sigmoid", y);
        y = compose::mul(cx, y, gate);
    }
    spatial::give_channel_last(cx, 0, y)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node};

    #[test]
    fn the_past_is_seen_and_handed_on() {
        let n = node("CausalConvWithState", 27)
            .float(&[1, 2, 3])
            .floats(&[2, 1, 2], &[1.0, 10.0, 2.0, 20.0])
            .floats(&[2], &[0.5, 0.0])
            .float(&[1, 2, 1])
            .outputs(2);
        assert_eq!(n.types(), ["float32[1, 2, 3]", "float32[1, 2, 1]"]);
        let y = n.run(&[vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![7.0, 8.0]]);
        assert_close(&y[0], &[17.5, 21.5, 32.5, 96.0, 108.0, 130.0], 1e-6);
        assert_eq!(y[1], [3.0, 6.0]);
    }

    #[test]
    fn without_a_past_there_are_zeros() {
        let n = node("CausalConvWithState", 27)
            .float(&[1, 1, 1])
            .floats(&[1, 1, 3], &[1.0, 2.0, 3.0])
            .text("activation", "silu")
            .outputs(2);
        let y = n.run(&[vec![1.0]]);
        assert_close(&y[0], &[3.0 / (1.0 + (-3f64).exp())], 1e-6);
        assert_eq!(y[1], [0.0, 1.0]);
    }
}
