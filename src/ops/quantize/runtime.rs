//! QuantizeLinear and DequantizeLinear of tensors that are computed at run time.

use crate::lower::{Coding, Layout, LowerCx, Refusal};
use crate::ops::quantize::dequantise_constant;
use crate::qnn::graph::QnnType;
use crate::verdict::codes;

/// The coding of the node's integers, or why they have none on the HTP.
fn coding(cx: &LowerCx<'_, '_>, dtype: crate::ir::DataType) -> Result<Coding, Refusal> {
    let scale = cx.need_constant(1, "the scale")?;
    if cx.has(2) {
        cx.need_constant(2, "the zero point")?;
    }
    if scale.len() != 1 {
        return Err(Refusal::form(format!(
            "{} scales ({:?}) for values computed at run time: the HTP has one for a tensor of activations",
            scale.len(),
            cx.input_name(1)
        ))
        .fix("quantise activations per tensor, and only weights per channel"));
    }
    if let Some(v) = scale.scalar_f64()
        && !((v as f32).is_normal() && v > 0.0)
    {
        return Err(Refusal::form(format!("the scale {:?} is {v}; it must be a positive number", cx.input_name(1)))
            .fix("calibrate again: this range is empty or not finite"));
    }
    Coding::of(cx.graph(), cx.node, dtype).ok_or_else(|| {
        Refusal::new(codes::DTYPE, format!("activations of {dtype}: the HTP has 8- and 16-bit integers"))
            .fix("quantise to uint8, int8, uint16 or int16")
    })
}

pub(in crate::ops) fn lower_quantize(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let coding = coding(cx, cx.out_dtype(0)?)?;
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let y = cx.output_codes(0, &layout, coding)?;
    cx.op("Quantize", &[x], &[y], &[]);
    Ok(())
}

pub(in crate::ops) fn lower_dequantize(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.constant(0).is_some() {
        return dequantise_constant(cx, 0, 1, 2);
    }
    let coding = coding(cx, cx.dtype(0)?)?;
    if let Some((layout, x)) = cx.codes(0)?
        && *cx.quant(x) == coding.unsigned().quant()
    {
        let y = cx.output(0, &layout)?;
        cx.op("Dequantize", &[x], &[y], &[]);
        return Ok(());
    }
    // Integers that were not made for this encoding: by arithmetic.
    let layout: Layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let x = cx.cast(x, QnnType::INT_32);
    let dims = cx.dims(x);
    let zero = cx.i32_constant(&[1], &[coding.zero]);
    let x = cx.op_to("ElementWiseSubtract", &[x, zero], QnnType::INT_32, &dims, &[]);
    let float = cx.float();
    let x = cx.cast(x, float);
    let scale = cx.float_scalar(coding.scale);
    let y = cx.output(0, &layout)?;
    cx.op("ElementWiseMultiply", &[x, scale], &[y], &[]);
    Ok(())
}
