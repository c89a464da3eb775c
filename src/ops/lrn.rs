//! LRN: `y = x / (bias + alpha / size * sum)^beta`, the sum of squares over `size` neighbouring channels.

use super::elementwise_unary::infer_same;
use super::{InferCx, OpDef, OpError, compose, conv, invalid, spatial};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::Param;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("LRN", infer).lower(lower)];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    match cx.node.attrs.int("size") {
        Some(s) if s >= 1 => infer_same(cx),
        Some(s) => invalid(format!("attribute size is {s}; it must be 1 or more")),
        None => invalid("attribute size is required"),
    }
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let a = cx.attrs();
    let (alpha, beta, bias) = (a.float_or("alpha", 1e-4), a.float_or("beta", 0.75), a.float_or("bias", 1.0));
    let size = a.int_or("size", 1);
    let shape = cx.shape(0)?;
    if shape.len() < 3 {
        return Err(Refusal::form(format!("LRN of an input of rank {}", shape.len())));
    }
    let layout = Layout::channel_last(shape.len());
    let x = cx.ordered(0, &layout)?;
    // The sum runs over channels alone: all spatial axes are one.
    let channels = shape[1];
    let space: usize = shape[2..].iter().product();
    let x = cx.reshape(x, &[shape[0] as u32, 1, space as u32, channels as u32]);
    let (dims, dtype) = (cx.dims(x), cx.qnn_type(x));
    // A window beyond all channels sums the same as one that just holds them all.
    let size_used = size.min(2 * channels as i64 + 1);
    let y = if size % 2 == 1 {
        cx.op_to(
            "Lrn",
            &[x],
            dtype,
            &dims,
            &[
                ("alpha", Param::f32(alpha / size as f32)),
                ("beta", Param::f32(beta)),
                ("bias", Param::f32(bias)),
                ("radius", Param::i32(((size_used - 1) / 2) as i32)),
                ("region", Param::u32(0)),
            ],
        )
    } else {
        // An even window is not centred: the sum is a 1x1 convolution with a band of weights.
        let (before, after) = ((size - 1) / 2, size / 2);
        let mut band = vec![0f32; channels * channels];
        for from in 0..channels {
            for to in 0..channels {
                let offset = from as i64 - to as i64;
                if (-before..=after).contains(&offset) {
                    band[from * channels + to] = alpha / size as f32;
                }
            }
        }
        let square = compose::mul(cx, x, x);
        let weights = cx.float_constant(&[channels as u32, channels as u32], &band);
        let sum = compose::matmul(cx, square, weights, false);
        let bias = cx.float_scalar(bias);
        let base = compose::add(cx, sum, bias);
        let exponent = cx.float_scalar(-beta);
        let factor = compose::binary(cx, "ElementWisePower", base, exponent);
        compose::mul(cx, x, factor)
    };
    spatial::give_channel_last(cx, 0, y)
}
