//! Small QNN compositions that several op families share. They work on QNN tensors in the model's own axis order, and
//! take and give tensors of the type in which the graph computes, unless a function says otherwise.

use crate::ir::Tensor;
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, StaticData, TensorId};

/// Output `slot` is `t` under the output's own dims.
pub(crate) fn give(cx: &mut LowerCx<'_, '_>, slot: usize, t: TensorId) -> Result<(), Refusal> {
    let shape = cx.out_shape(slot)?;
    let layout = Layout::identity(shape.len());
    let dims = if shape.is_empty() { vec![1] } else { shape.iter().map(|&d| d as u32).collect() };
    let t = cx.reshape(t, &dims);
    cx.alias(slot, t, layout)
}

/// The dims of two tensors broadcast against each other, trailing axes aligned.
pub(crate) fn broadcast_dims(a: &[u32], b: &[u32]) -> Vec<u32> {
    let rank = a.len().max(b.len());
    let at = |d: &[u32], i: usize| (i + d.len()).checked_sub(rank).map_or(1, |j| d[j]);
    (0..rank).map(|i| at(a, i).max(at(b, i))).collect()
}

/// An elementwise op of two operands that broadcast; the result has the type of the first.
pub(crate) fn binary(cx: &mut LowerCx<'_, '_>, op: &str, a: TensorId, b: TensorId) -> TensorId {
    let dims = broadcast_dims(&cx.dims(a), &cx.dims(b));
    let dtype = cx.qnn_type(a);
    cx.op_to(op, &[a, b], dtype, &dims, &[])
}

pub(crate) fn add(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    binary(cx, "ElementWiseAdd", a, b)
}

pub(crate) fn sub(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    binary(cx, "ElementWiseSubtract", a, b)
}

pub(crate) fn mul(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    binary(cx, "ElementWiseMultiply", a, b)
}

pub(crate) fn div(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    binary(cx, "ElementWiseDivide", a, b)
}

/// An int32 tensor divided by a number other than 0, rounded towards 0. Divided by a power of two, the HTP rounds down
/// (QAIRT 2.47); by its negative it does not.
pub(crate) fn quotient(cx: &mut LowerCx<'_, '_>, t: TensorId, by: i32) -> TensorId {
    if by < 2 || !by.unsigned_abs().is_power_of_two() {
        let c = cx.i32_constant(&[1], &[by]);
        return div(cx, t, c);
    }
    let c = cx.i32_constant(&[1], &[-by]);
    let minus = div(cx, t, c);
    let zero = cx.i32_constant(&[1], &[0]);
    let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
    cx.op_to("ElementWiseSubtract", &[zero, minus], dtype, &dims, &[])
}

/// A comparison of two operands that broadcast; the result is boolean.
pub(crate) fn compare(cx: &mut LowerCx<'_, '_>, op: &str, a: TensorId, b: TensorId) -> TensorId {
    let dims = broadcast_dims(&cx.dims(a), &cx.dims(b));
    cx.op_to(op, &[a, b], QnnType::BOOL_8, &dims, &[])
}

/// `t * factor`, or `t` itself when the factor is 1.
pub(crate) fn scale(cx: &mut LowerCx<'_, '_>, t: TensorId, factor: f32) -> TensorId {
    if factor == 1.0 {
        return t;
    }
    let c = cx.float_scalar(factor);
    mul(cx, t, c)
}

/// An elementwise op of one operand.
pub(crate) fn unary(cx: &mut LowerCx<'_, '_>, op: &str, t: TensorId) -> TensorId {
    let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
    cx.op_to(op, &[t], dtype, &dims, &[])
}

/// The parameters of a ReluMinMax.
pub(crate) fn clamp_params(low: f32, high: f32) -> [(&'static str, Param); 2] {
    [("min_value", Param::f32(low)), ("max_value", Param::f32(high))]
}

/// Values below `low` become `low`, values above `high` become `high`.
pub(crate) fn clamp(cx: &mut LowerCx<'_, '_>, t: TensorId, low: f32, high: f32) -> TensorId {
    let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
    cx.op_to("ReluMinMax", &[t], dtype, &dims, &clamp_params(low, high))
}

/// `e^t`. Below -88 and above 88 the HTP's own gives large numbers of either sign (QAIRT 2.47). In 16 bits the power is 0
/// from -20 down and too large from 12 up, so what lies beyond is brought to these.
pub(crate) fn exp(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let t = if cx.float() == QnnType::FLOAT_16 { clamp(cx, t, -20.0, 12.0) } else { t };
    unary(cx, "ElementWiseExp", t)
}

/// The angle whose tangent is `t`. From 16384 up the HTP's own gives large numbers of either sign (QAIRT 2.47); in 16
/// bits the angle is that of 10000 from there on.
pub(crate) fn atan(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let t = if cx.float() == QnnType::FLOAT_16 { clamp(cx, t, -10000.0, 10000.0) } else { t };
    unary(cx, "ElementWiseAtan", t)
}

/// `a` where `condition` holds, else `b`; the result has the type of `a`.
pub(crate) fn select(cx: &mut LowerCx<'_, '_>, condition: TensorId, a: TensorId, b: TensorId) -> TensorId {
    let dims = broadcast_dims(&broadcast_dims(&cx.dims(condition), &cx.dims(a)), &cx.dims(b));
    let dtype = cx.qnn_type(a);
    cx.op_to("ElementWiseSelect", &[condition, a, b], dtype, &dims, &[])
}

/// Softmax over the last axis.
pub(crate) fn softmax_last(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
    let axis = dims.len().saturating_sub(1) as u32;
    cx.op_to("Softmax", &[t], dtype, &dims, &[("axis", Param::u32(axis)), ("beta", Param::f32(1.0))])
}

/// A reduction over `axes`, which stay with size 1.
pub(crate) fn reduce_keep(cx: &mut LowerCx<'_, '_>, op: &str, t: TensorId, axes: &[usize]) -> TensorId {
    if axes.is_empty() {
        return t;
    }
    let mut dims = cx.dims(t);
    for &a in axes {
        dims[a] = 1;
    }
    let axes: Vec<u32> = axes.iter().map(|&a| a as u32).collect();
    let dtype = cx.qnn_type(t);
    cx.op_to(op, &[t], dtype, &dims, &[("axes", Param::u32s(&axes)), ("keep_dims", Param::bool(true))])
}

/// The elements `begin..end` along `axis`.
pub(crate) fn slice(cx: &mut LowerCx<'_, '_>, t: TensorId, axis: usize, begin: u32, end: u32) -> TensorId {
    let mut dims = cx.dims(t);
    if begin == 0 && end == dims[axis] {
        return t;
    }
    let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
    ranges[axis] = [begin as i32, end as i32, 1];
    dims[axis] = end - begin;
    let dtype = cx.qnn_type(t);
    cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))])
}

/// Cut along `axis` into pieces of these sizes, which sum to the size of the axis.
pub(crate) fn split(cx: &mut LowerCx<'_, '_>, t: TensorId, axis: usize, sizes: &[u32]) -> Vec<TensorId> {
    if sizes.len() < 2 {
        return vec![t];
    }
    let mut outputs = vec![];
    let mut starts = vec![];
    let mut at = 0;
    for &size in sizes {
        let mut dims = cx.dims(t);
        dims[axis] = size;
        outputs.push(cx.temp_like(t, &dims));
        at += size;
        starts.push(at);
    }
    starts.pop();
    cx.op("Split", &[t], &outputs, &[("axis", Param::u32(axis as u32)), ("split_index", Param::u32s(&starts))]);
    outputs
}

/// Cut along `axis` into `n` pieces of equal size.
pub(crate) fn split_evenly(cx: &mut LowerCx<'_, '_>, t: TensorId, axis: usize, n: usize) -> Vec<TensorId> {
    let size = cx.dims(t)[axis] / n.max(1) as u32;
    split(cx, t, axis, &vec![size; n])
}

/// Joined along `axis`; a lone piece stays itself.
pub(crate) fn concat(cx: &mut LowerCx<'_, '_>, pieces: &[TensorId], axis: usize) -> TensorId {
    if let [one] = pieces {
        return *one;
    }
    let mut dims = cx.dims(pieces[0]);
    dims[axis] = pieces.iter().map(|p| cx.dims(*p)[axis]).sum();
    let dtype = cx.qnn_type(pieces[0]);
    cx.op_to("Concat", pieces, dtype, &dims, &[("axis", Param::u32(axis as u32))])
}

/// Repeated `multiples[i]` times along axis `i`.
pub(crate) fn tile(cx: &mut LowerCx<'_, '_>, t: TensorId, multiples: &[u32]) -> TensorId {
    if multiples.iter().all(|&m| m == 1) {
        return t;
    }
    let dims: Vec<u32> = cx.dims(t).iter().zip(multiples).map(|(d, m)| d * m).collect();
    let dtype = cx.qnn_type(t);
    cx.op_to("Tile", &[t], dtype, &dims, &[("multiples", Param::u32s(multiples))])
}

/// Broadcast to `dims`, which have the same rank.
pub(crate) fn expand(cx: &mut LowerCx<'_, '_>, t: TensorId, dims: &[u32]) -> TensorId {
    let multiples: Vec<u32> =
        cx.dims(t).iter().zip(dims).map(|(&have, &want)| if have == want { 1 } else { want }).collect();
    tile(cx, t, &multiples)
}

/// The product of two tensors of matrices (rank 2 or more; leading axes broadcast); `transpose_b` if the matrices of
/// `b` are stored transposed.
pub(crate) fn matmul(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId, transpose_b: bool) -> TensorId {
    let (da, db) = (cx.dims(a), cx.dims(b));
    let rank = da.len().max(db.len());
    let pad = |d: &[u32]| {
        let mut full = vec![1; rank - d.len()];
        full.extend(d);
        full
    };
    let (da, db) = (pad(&da), pad(&db));
    let a = cx.reshape(a, &da);
    let b = cx.reshape(b, &db);
    let mut dims = broadcast_dims(&da[..rank - 2], &db[..rank - 2]);
    dims.extend([da[rank - 2], db[if transpose_b { rank - 2 } else { rank - 1 }]]);
    let dtype = cx.qnn_type(a);
    cx.op_to(
        "MatMul",
        &[a, b],
        dtype,
        &dims,
        &[("transpose_in0", Param::bool(false)), ("transpose_in1", Param::bool(transpose_b))],
    )
}

/// `x W^T + b` over the last axis of `x` (rank 1 or more): `weight` is `[out, in]`, `bias` is `[out]`.
pub(crate) fn fully_connected(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    weight: TensorId,
    bias: Option<TensorId>,
) -> TensorId {
    let mut dims = cx.dims(x);
    let inner = dims.pop().unwrap_or(1);
    let out = cx.dims(weight)[0];
    let rows: u32 = dims.iter().product();
    let flat = cx.reshape(x, &[rows, inner]);
    let dtype = cx.qnn_type(x);
    let mut inputs = vec![flat, weight];
    inputs.extend(bias);
    let y = cx.op_to("FullyConnected", &inputs, dtype, &[rows, out], &[]);
    dims.push(out);
    cx.reshape(y, &dims)
}

/// A static tensor of booleans.
pub(crate) fn bool_constant(cx: &mut LowerCx<'_, '_>, dims: &[u32], values: &[bool]) -> TensorId {
    let shape = dims.iter().map(|&d| d as usize).collect();
    let tensor = Tensor::from_bools(shape, values);
    cx.static_tensor(QnnType::BOOL_8, dims, StaticData::Constant { tensor, perm: None })
}
