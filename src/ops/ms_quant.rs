//! Quantisation ops of com.microsoft: weights of 2, 4 and 8 bits, and the ops on quantised operands.
//!
//! Weight-only ops keep their weights as integers where the HTP takes their blocks, else they are made real at compile
//! time. What is quantised at run time is rewritten before it comes here, or refused.

use super::quantize::{
    fold_dequantize, fold_quantize, infer_dequantize, infer_quantize, lower_dequantize, lower_quantize, refuse,
};
use super::{InferCx, OpDef, OpError, broadcast, compose, invalid, normalise_axis};
use crate::ir::{DataType, Dim, Shape, Tensor, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::Param;
use crate::verdict::codes;

mod qlinear;
mod weights;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::ms("QuantizeLinear", infer_quantize).fold(fold_quantize).lower(lower_quantize),
    OpDef::ms("DequantizeLinear", infer_dequantize).fold(fold_dequantize).lower(lower_dequantize),
    OpDef::ms("MatMulNBits", infer_matmul_nbits).lower(lower_matmul_nbits),
    OpDef::ms("MatMulBnb4", infer_matmul_bnb4),
    OpDef::ms("GatherBlockQuantized", infer_gather).lower(lower_gather),
    OpDef::ms("DynamicQuantizeMatMul", infer_float_product).lower(lower_dynamic_matmul),
    OpDef::ms("MatMulIntegerToFloat", infer_integer_to_float).lower(refuse),
    OpDef::ms("MatMulInteger16", infer_matmul_integer16).lower(refuse),
    OpDef::ms("DynamicQuantizeLSTM", infer_dynamic_lstm).lower(refuse),
    OpDef::ms("QGemm", qlinear::infer_gemm).lower(refuse),
    OpDef::ms("QAttention", qlinear::infer_attention).lower(refuse),
    OpDef::ms("QLinearConv", qlinear::infer_conv).lower(refuse),
    OpDef::ms("QLinearAdd", qlinear::infer_binary).lower(refuse),
    OpDef::ms("QLinearMul", qlinear::infer_binary).lower(refuse),
    OpDef::ms("QLinearSigmoid", qlinear::infer_unary).lower(refuse),
    OpDef::ms("QLinearLeakyRelu", qlinear::infer_unary).lower(refuse),
    OpDef::ms("QLinearSoftmax", qlinear::infer_unary).lower(refuse),
    OpDef::ms("QLinearAveragePool", qlinear::infer_pool).lower(refuse),
    OpDef::ms("QLinearGlobalAveragePool", qlinear::infer_global_pool).lower(refuse),
    OpDef::ms("QLinearReduceMean", qlinear::infer_reduce).lower(refuse),
    OpDef::ms("QLinearConcat", qlinear::infer_concat).lower(refuse),
    OpDef::ms("QLinearWhere", qlinear::infer_where).lower(refuse),
];

/// A required attribute that must be positive.
fn positive(cx: &InferCx<'_>, name: &str) -> Result<i64, OpError> {
    match cx.node.attrs.int(name) {
        Some(n) if n >= 1 => Ok(n),
        Some(n) => invalid(format!("attribute {name} is {n}; it must be positive")),
        None => invalid(format!("attribute {name} is missing")),
    }
}

fn infer_matmul_nbits(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let a = cx.ty(0)?.clone();
    let (k, n, block) = (positive(cx, "K")?, positive(cx, "N")?, positive(cx, "block_size")?);
    let bits = cx.node.attrs.int_or("bits", 4);
    if ![2, 4, 8].contains(&bits) {
        return invalid(format!("attribute bits is {bits}; it must be 2, 4 or 8"));
    }
    let mut shape = a.shape.clone();
    let Some(last) = shape.last_mut() else { return invalid("the input is a scalar") };
    if let Dim::Known(d) = *last
        && d != k
    {
        return invalid(format!("the input has {d} columns, and attribute K is {k}"));
    }
    *last = Dim::Known(n);
    let blocks = (k - 1) / block + 1;
    if let Some(scales) = cx.shape(2)?.iter().try_fold(1i64, |c, d| c.checked_mul(d.known()?))
        && n.checked_mul(blocks) != Some(scales)
    {
        return invalid(format!("{scales} scales for {n} columns of {blocks} blocks"));
    }
    cx.set(0, a.dtype, shape);
    Ok(())
}

fn lower_matmul_nbits(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.has(4) {
        return Err(Refusal::form(format!(
            "input g_idx ({:?}) is given: columns would have to be reordered",
            cx.input_name(4)
        )));
    }
    let of = |name: &str| usize::try_from(cx.attrs().int_or(name, 0)).unwrap_or(0);
    let layout = weights::Blocks {
        rows: of("N"),
        columns: of("K"),
        block: of("block_size"),
        bits: cx.attrs().int_or("bits", 4) as usize,
    };
    let b = cx.need_constant(1, "the weight")?;
    let scales = cx.need_floats(2, "the scales")?;
    let zeros = if cx.has(3) { Some(cx.need_constant(3, "the zero points")?) } else { None };
    let (n, k) = (layout.rows as u32, layout.columns as u32);
    let w = if let Some(e) = layout.encoded(b, &scales, zeros) {
        Tensor::encoded(DataType::F32, e)
    } else {
        let values = layout.dequantise(b, &scales, zeros).map_err(Refusal::form)?;
        Tensor::from_f32(vec![layout.rows, layout.columns], &values)
    };
    let w = cx.weight(&w, None, &[n, k]);
    let x = cx.input(0)?;
    let bias = if cx.has(5) && cx.constant(5).is_some() { Some(cx.input(5)?) } else { None };
    let mut y = compose::fully_connected(cx, x, w, bias);
    if cx.has(5) && bias.is_none() {
        let b = cx.input(5)?;
        y = compose::add(cx, y, b);
    }
    compose::give(cx, 0, y)
}

fn infer_matmul_bnb4(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let a = cx.ty(0)?.clone();
    let n = positive(cx, "N")?;
    let mut shape = a.shape;
    let Some(last) = shape.last_mut() else { return invalid("the input is a scalar") };
    *last = Dim::Known(n);
    cx.set(0, a.dtype, shape);
    Ok(())
}

/// Elements that one byte of the table of GatherBlockQuantized holds.
fn packed(dtype: DataType, bits: i64) -> i64 {
    if dtype == DataType::U8 && (1..=8).contains(&bits) { 8 / bits } else { 1 }
}

fn infer_gather(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let data = cx.ty(0)?.clone();
    let rank = data.shape.len();
    let axis = cx.axis("gather_axis", 0, rank)?;
    cx.axis("quantize_axis", 1, rank)?;
    let dtype = cx.dtype(2)?;
    let mut shape: Shape = data.shape;
    if let Some(last) = shape.last_mut() {
        *last = last.mul(&Dim::Known(packed(data.dtype, cx.node.attrs.int_or("bits", 4))));
    }
    let indices = cx.shape(1)?.clone();
    let shape = [&shape[..axis], &indices, &shape[axis + 1..]].concat();
    cx.set(0, dtype, shape);
    Ok(())
}

fn lower_gather(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let data = cx.need_constant(0, "the table")?;
    let scales = cx.need_constant(2, "the scales")?;
    let zeros = if cx.has(3) { Some(cx.need_constant(3, "the zero points")?) } else { None };
    let rank = data.rank();
    let at = |name: &str, default: i64| {
        normalise_axis(cx.attrs().int_or(name, default), rank)
            .map_err(|e| Refusal::form(format!("attribute {name}: {e}")))
    };
    let (axis, along) = (at("gather_axis", 0)?, at("quantize_axis", 1)?);
    let bits = cx.attrs().int_or("bits", 4);
    let table = weights::Table {
        along,
        block: usize::try_from(cx.attrs().int_or("block_size", 128)).unwrap_or(0),
        packed: packed(data.dtype(), bits) as usize,
        bits: bits as usize,
    };
    let (shape, values) = table.dequantise(data, scales, zeros).map_err(Refusal::form)?;
    let dims: Vec<u32> = shape.iter().map(|&d| d as u32).collect();
    let t = Tensor::from_f32(shape, &values);
    let t = cx.weight(&t, None, &dims);
    let index = cx.input(1)?;
    let index_dims = if cx.rank(1)? == 0 { vec![] } else { cx.dims(index) };
    let out = [&dims[..axis], &index_dims, &dims[axis + 1..]].concat();
    let scalar = index_dims.is_empty();
    let full = if scalar { [&dims[..axis], &[1], &dims[axis + 1..]].concat() } else { out };
    let dtype = cx.qnn_type(t);
    let y = cx.op_to("Gather", &[t, index], dtype, &full, &[("axis", Param::i32(axis as i32))]);
    compose::give(cx, 0, y)
}

fn infer_float_product(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = super::matmul::matmul_shape(cx.shape(0)?, cx.shape(1)?)?;
    cx.set(0, DataType::F32, shape);
    Ok(())
}

fn infer_integer_to_float(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = super::matmul::matmul_shape(cx.shape(0)?, cx.shape(1)?)?;
    let dtype = cx.dtype(2)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn infer_matmul_integer16(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = super::matmul::matmul_shape(cx.shape(0)?, cx.shape(1)?)?;
    let unsigned = cx.dtype(0)? == DataType::U16;
    cx.set(0, if unsigned { DataType::U32 } else { DataType::I32 }, shape);
    Ok(())
}

/// The product with real weights: what the op approximates by rounding its first operand to 8 bits.
fn lower_dynamic_matmul(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if !cx.target().allow_approximate {
        return Err(Refusal::new(
            codes::APPROXIMATE,
            "DynamicQuantizeMatMul rounds its first operand to 8 bits at run time; the product of the unrounded \
             operand is close, but not equal",
        )
        .fix("allow approximate lowerings with --allow-approximate, or export the model with real weights"));
    }
    let b = cx.need_constant(1, "the weight")?;
    let scales = cx.need_floats(2, "the scale")?;
    let zeros = if cx.has(3) { Some(cx.need_constant(3, "the zero point")?) } else { None };
    let [k, n] = b.shape()[..] else {
        return Err(Refusal::form(format!("a weight of shape {:?}", b.shape())));
    };
    let values = weights::by_column(b, &scales, zeros).map_err(Refusal::form)?;
    let w = Tensor::from_f32(vec![k, n], &values);
    let w = cx.weight(&w, Some(&[1, 0]), &[n as u32, k as u32]);
    let x = cx.input(0)?;
    let mut y = compose::fully_connected(cx, x, w, None);
    if cx.has(4) {
        let b = cx.input(4)?;
        y = compose::add(cx, y, b);
    }
    compose::give(cx, 0, y)
}

fn infer_dynamic_lstm(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let x = cx.ty(0)?.clone();
    let [steps, batch, _] = x.shape.as_slice() else {
        return invalid(format!("input 0 (X) must have rank 3, it is {x}"));
    };
    let r = cx.shape(2)?;
    let [directions, hidden, _] = r.as_slice() else {
        return invalid(format!("input 2 (R) must have rank 3, it is {}", show_shape(r)));
    };
    let (d, h) = (directions.clone(), hidden.clone());
    cx.set(0, x.dtype, vec![steps.clone(), d.clone(), batch.clone(), h.clone()]);
    for i in [1, 2] {
        cx.set(i, x.dtype, vec![d.clone(), batch.clone(), h.clone()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
