//! Range, OneHot, and the ops whose output size depends on data: NonZero, Compress, Unique.

use super::movement::{ELEMENTS_LIMIT, carried, dims_u32, offsets, take, whole};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{DataType, Dim, Tensor, strides};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Range", infer_range).fold(fold_range).lower(|cx| refuse(cx, "the number of elements")),
    OpDef::new("OneHot", infer_one_hot).fold(fold_one_hot).lower(lower_one_hot),
    OpDef::new("NonZero", infer_non_zero).fold(fold_non_zero).lower(|cx| refuse(cx, "the number of indices")),
    OpDef::new("Compress", infer_compress).fold(fold_compress).lower(lower_compress),
    OpDef::new("Unique", infer_unique).fold(fold_unique).lower(|cx| refuse(cx, "the number of unique elements")),
];

fn refuse(cx: &mut LowerCx<'_, '_>, what: &str) -> Result<(), Refusal> {
    let message = format!("{what} of {} depends on data, and QNN graphs have static shapes", cx.node.op_type);
    Err(Refusal::new(codes::DATA_DEPENDENT, message))
}

/// How many steps of `delta` there are in `distance`, the last one begun counted; `None` if there is no number.
fn range_len(distance: f64, delta: f64) -> Option<usize> {
    let n = (distance / delta).ceil();
    if delta == 0.0 || n.is_nan() || n > f64::from(i32::MAX) { None } else { Some(n.max(0.0) as usize) }
}

fn infer_range(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    if dtype.is_int() {
        let one = |i: usize| -> Result<Dim, OpError> {
            match cx.need_elements(i)?.as_slice() {
                [v] => Ok(v.clone()),
                v => invalid(format!("input {i} has {} elements, and it is to be one number", v.len())),
            }
        };
        let (start, limit, delta) = (one(0)?, one(1)?, one(2)?);
        let Some(step) = delta.known() else { return Err(cx.data_dependent(2)) };
        if step == 0 {
            return invalid("delta is 0");
        }
        let distance = limit.sub(&start);
        let distance = if step < 0 { distance.neg() } else { distance };
        let by = Dim::Known(step.saturating_abs());
        let count = match distance.known() {
            Some(d) => Dim::Known(
                ((i128::from(d) + i128::from(step.saturating_abs()) - 1) / i128::from(step.saturating_abs())).max(0)
                    as i64,
            ),
            None => distance.add(&by).sub(&Dim::Known(1)).floor_div(&by).unwrap_or(Dim::Known(0)),
        };
        cx.set(0, dtype, vec![count.clone()]);
        if let Some(n) = count.known().filter(|n| *n <= ELEMENTS_LIMIT as i64) {
            cx.set_elements(0, (0..n).map(|i| start.add(&Dim::Known(i).mul(&delta))).collect());
        }
        return Ok(());
    }
    let one = |i: usize| cx.constant(i).and_then(Tensor::scalar_f64).ok_or_else(|| cx.data_dependent(i));
    let (start, limit, delta) = (one(0)?, one(1)?, one(2)?);
    // In the element type, as ONNX Runtime has it.
    let distance = if dtype == DataType::F32 { f64::from(limit as f32 - start as f32) } else { limit - start };
    let count = range_len(distance, delta)
        .ok_or_else(|| OpError::Invalid(format!("a range from {start} to {limit} by {delta} has no end")))?;
    cx.set(0, dtype, vec![count.into()]);
    Ok(())
}

fn fold_range(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let n = *shape.first()?;
    if dtype.is_int() {
        let (start, delta) = (*cx.input(0)?.to_i128s()?.first()?, *cx.input(2)?.to_i128s()?.first()?);
        let v: Vec<i128> = (0..n as i128).map(|i| start + i * delta).collect();
        return Some(vec![Tensor::from_i128(dtype, shape, &v)?]);
    }
    let (start, delta) = (cx.input(0)?.scalar_f64()?, cx.input(2)?.scalar_f64()?);
    let v: Vec<f64> = if dtype == DataType::F32 {
        let (start, delta) = (start as f32, delta as f32);
        (0..n).map(|i| f64::from(start + i as f32 * delta)).collect()
    } else {
        (0..n).map(|i| start + i as f64 * delta).collect()
    };
    Some(vec![Tensor::from_f64(dtype, shape, &v)?])
}

fn infer_one_hot(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let index = cx.shape(0)?.clone();
    let dtype = cx.dtype(2)?;
    let axis = cx.axis("axis", -1, index.len() + 1)?;
    let depth = match cx.constant(1).and_then(Tensor::scalar_f64) {
        Some(d) => Dim::Known(d as i64),
        None => match cx.need_elements(1)?.as_slice() {
            [d] => d.clone(),
            d => return invalid(format!("depth has {} elements, and it is to be one number", d.len())),
        },
    };
    if depth.known().is_some_and(|d| d < 1) {
        return invalid(format!("depth is {depth}, and it must be at least 1"));
    }
    if let Ok(values) = cx.ty(2)
        && values.static_shape().is_some_and(|s| s.iter().product::<usize>() != 2)
    {
        return invalid(format!("values are {values}, and they are to be two numbers: off and on"));
    }
    let mut shape = index;
    shape.insert(axis, depth);
    cx.set(0, dtype, shape);
    Ok(())
}

fn fold_one_hot(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (_, shape) = cx.out_type(0)?;
    let (index, values) = (cx.input(0)?, cx.input(2)?);
    let axis = normalise_axis(cx.node.attrs.int_or("axis", -1), shape.len()).ok()?;
    let depth = shape[axis] as i64;
    let inner: usize = shape[axis + 1..].iter().product();
    // Indices of a float type are whole numbers; what is beyond 2^53 is out of range either way.
    let index: Vec<i64> = index.to_f64s()?.into_iter().map(|x| x as i64).collect();
    let on: Vec<usize> = (0..shape.iter().product())
        .map(|flat: usize| {
            let (outer, rest) = (flat / (inner * depth as usize), flat % (inner * depth as usize));
            let (class, at) = ((rest / inner) as i64, rest % inner);
            let i = index.get(outer * inner + at).copied().unwrap_or(i64::MIN);
            usize::from(i == class || i.checked_add(depth) == Some(class))
        })
        .collect();
    Some(vec![take(values, shape, &on)?])
}

/// Equal against 0, 1, ... and against the same less the depth (negative indices count from the end), then a choice.
fn lower_one_hot(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.out_shape(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", -1), shape.len()).map_err(Refusal::form)?;
    let values = cx.need_constant(2, "values")?.clone();
    let depth = shape[axis];
    // Whole numbers below this are exact in 16 bits, and larger ones stay out of range.
    if cx.dtype(0)?.is_float() && depth >= 2048 {
        return Err(Refusal::form(format!("the indices are {}, and depth is {depth}", cx.dtype(0)?))
            .fix("give int32 or int64 indices"));
    }
    let (outer, inner) = (shape[..axis].iter().product::<usize>(), shape[axis + 1..].iter().product::<usize>());
    let rank = cx.rank(0)?;
    let index = cx.ordered(0, &Layout::identity(rank))?;
    let index = cx.cast(index, QnnType::INT_32);
    let dims = [outer as u32, depth as u32, inner as u32];
    let index = cx.reshape(index, &[outer as u32, 1, inner as u32]);
    let hit = |cx: &mut LowerCx<'_, '_>, first: i64| -> TensorId {
        let classes: Vec<i32> = (0..depth as i64).map(|i| (first + i) as i32).collect();
        let classes = cx.i32_constant(&[1, depth as u32, 1], &classes);
        cx.op_to("ElementWiseEqual", &[index, classes], QnnType::BOOL_8, &dims, &[])
    };
    let mut mask = hit(cx, 0);
    if !matches!(cx.dtype(0)?, DataType::U8 | DataType::U16 | DataType::U32 | DataType::U64) {
        let negative = hit(cx, -(depth as i64));
        mask = cx.op_to("ElementWiseOr", &[mask, negative], QnnType::BOOL_8, &dims, &[]);
    }
    let numbers = values.to_f64s().filter(|v| v.len() == 2);
    let Some([off, on]) = numbers.as_deref() else {
        return Err(Refusal::form(format!("values of {} are not numbers", values.dtype())));
    };
    let out = cx.held_as(values.dtype());
    let y = if (*off, *on) == (0.0, 1.0) {
        cx.cast(mask, out)
    } else {
        // Filled constants: the HTP's integer Select does not broadcast them.
        let fill = |cx: &mut LowerCx<'_, '_>, which: usize| -> Option<TensorId> {
            let t = take(&values, dims.iter().map(|&d| d as usize).collect(), &vec![which; outer * depth * inner])?;
            Some(cx.weight(&t, None, &dims))
        };
        let (Some(on), Some(off)) = (fill(cx, 1), fill(cx, 0)) else {
            return Err(Refusal::form(format!("values of {} are not held", values.dtype())));
        };
        let (on, off) = (carried(cx, on, &[]), carried(cx, off, &[]));
        let carrier = cx.qnn_type(on);
        let y = cx.op_to("ElementWiseSelect", &[mask, on, off], carrier, &dims, &[]);
        cx.cast(y, out)
    };
    cx.alias(0, y, Layout::identity(shape.len()))
}

/// Is each element other than 0?
fn truths(t: &Tensor) -> Option<Vec<bool>> {
    Some(t.to_f64s()?.into_iter().map(|v| v != 0.0).collect())
}

fn infer_non_zero(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let rank = cx.rank(0)?;
    let Some(mask) = cx.constant(0).and_then(truths) else { return Err(cx.data_dependent(0)) };
    let count = mask.iter().filter(|m| **m).count();
    cx.set(0, DataType::I64, vec![rank.into(), count.into()]);
    Ok(())
}

fn fold_non_zero(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let hits: Vec<usize> = truths(x)?.into_iter().enumerate().filter(|(_, m)| *m).map(|(i, _)| i).collect();
    let steps = strides(x.shape());
    let v: Vec<i64> =
        x.shape().iter().zip(steps).flat_map(|(&d, s)| hits.iter().map(move |h| (h / s % d) as i64)).collect();
    Some(vec![Tensor::from_i64(vec![x.rank(), hits.len()], &v)])
}

/// The axis of Compress; `None`: over the flattened input.
fn compress_axis(node: &crate::ir::Node, rank: usize) -> Result<Option<usize>, String> {
    node.attrs.int("axis").map(|a| normalise_axis(a, rank).map_err(|e| format!("attribute axis: {e}"))).transpose()
}

/// Positions where the condition, cut to `size` elements, holds.
fn chosen(condition: &Tensor, size: usize) -> Option<Vec<usize>> {
    Some(truths(condition)?.into_iter().take(size).enumerate().filter(|(_, c)| *c).map(|(i, _)| i).collect())
}

fn infer_compress(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let axis = compress_axis(cx.node, t.shape.len()).map_err(OpError::Invalid)?;
    let size = match axis {
        Some(a) => t.shape[a].clone(),
        None => super::movement::product(&t.shape),
    };
    let Some(condition) = cx.constant(1) else { return Err(cx.data_dependent(1)) };
    let Some(size) = size.known().and_then(|n| usize::try_from(n).ok()) else { return Err(cx.data_dependent(0)) };
    if condition.len() > size {
        return invalid(format!("condition has {} elements, and there are {size} to choose from", condition.len()));
    }
    let Some(count) = chosen(condition, size) else { return Err(cx.data_dependent(1)) };
    let mut shape = if axis.is_some() { t.shape.clone() } else { vec![Dim::Known(0)] };
    shape[axis.unwrap_or(0)] = count.len().into();
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn fold_compress(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, condition) = (cx.input(0)?, cx.input(1)?);
    let (_, shape) = cx.out_type(0)?;
    let from = match compress_axis(cx.node, x.rank()).ok()? {
        Some(a) => {
            let mut tables = whole(x.shape());
            tables[a] = chosen(condition, x.shape()[a])?.into_iter().map(|i| i * strides(x.shape())[a]).collect();
            offsets(&tables)
        }
        None => chosen(condition, x.len())?,
    };
    Some(vec![take(x, shape, &from)?])
}

/// A Gather with the positions where the constant condition holds.
fn lower_compress(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let axis = compress_axis(cx.node, shape.len()).map_err(Refusal::form)?;
    let condition = cx.need_constant(1, "condition")?;
    let (outer, size, inner) = match axis {
        Some(a) => (shape[..a].iter().product(), shape[a], shape[a + 1..].iter().product()),
        None => (1usize, shape.iter().product(), 1usize),
    };
    let picked = chosen(condition, size).ok_or_else(|| Refusal::form("the condition is not boolean"))?;
    let x = cx.ordered(0, &Layout::identity(shape.len()))?;
    let x = cx.reshape(x, &dims_u32(&[outer, size, inner]));
    let dtype = cx.qnn_type(x);
    let x = carried(cx, x, &[]);
    let index: Vec<i32> = picked.iter().map(|&i| i as i32).collect();
    let index = cx.i32_constant(&[picked.len() as u32], &index);
    let carrier = cx.qnn_type(x);
    let out = dims_u32(&[outer, picked.len(), inner]);
    let y = cx.op_to("Gather", &[x, index], carrier, &out, &[("axis", Param::i32(1))]);
    let y = cx.cast(y, dtype);
    let rank = cx.out_shape(0)?.len();
    cx.alias(0, y, Layout::identity(rank))
}

/// What Unique finds: for every unique slice the position of its first occurrence and its count, and for every slice
/// the number of its unique one.
struct Uniques {
    first: Vec<usize>,
    counts: Vec<i64>,
    inverse: Vec<i64>,
}

/// `None` for values that have no order here (strings, 4-bit and 8-bit floats).
fn uniques(x: &Tensor, axis: Option<usize>, sorted: bool) -> Option<Uniques> {
    let (outer, size, inner) = match axis {
        Some(a) => (x.shape()[..a].iter().product(), x.shape()[a], x.shape()[a + 1..].iter().product()),
        None => (1usize, x.len(), 1usize),
    };
    // Integers compare exactly; floats by their total order, with equal zeros.
    let keys: Vec<i128> = match x.to_i128s() {
        Some(v) => v,
        None => x.to_f64s()?.into_iter().map(|v| order_key(v + 0.0)).collect(),
    };
    let slice = |i: usize| -> Vec<i128> {
        (0..outer).flat_map(|o| (0..inner).map(move |k| (o * size + i) * inner + k)).map(|at| keys[at]).collect()
    };
    let slices: Vec<Vec<i128>> = (0..size).map(slice).collect();
    let mut found: Vec<(usize, Vec<usize>)> = vec![];
    let mut index: std::collections::BTreeMap<&[i128], usize> = std::collections::BTreeMap::new();
    for (i, s) in slices.iter().enumerate() {
        let next = found.len();
        let at = *index.entry(s.as_slice()).or_insert(next);
        if at == next {
            found.push((i, vec![]));
        }
        found[at].1.push(i);
    }
    if sorted {
        found.sort_by(|a, b| slices[a.0].cmp(&slices[b.0]));
    }
    let mut inverse = vec![0; size];
    for (number, (_, members)) in found.iter().enumerate() {
        for &m in members {
            inverse[m] = number as i64;
        }
    }
    Some(Uniques {
        counts: found.iter().map(|f| f.1.len() as i64).collect(),
        first: found.into_iter().map(|f| f.0).collect(),
        inverse,
    })
}

/// Whole numbers in the order of the floats.
fn order_key(v: f64) -> i128 {
    let bits = v.to_bits() as i64;
    i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
}

fn unique_of(node: &crate::ir::Node, x: &Tensor) -> Result<Option<(Option<usize>, Uniques)>, String> {
    let axis = compress_axis(node, x.rank())?;
    Ok(uniques(x, axis, node.attrs.int_or("sorted", 1) != 0).map(|u| (axis, u)))
}

fn infer_unique(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let Some(x) = cx.constant(0) else { return Err(cx.data_dependent(0)) };
    let Some((axis, u)) = unique_of(cx.node, x).map_err(OpError::Invalid)? else { return Err(cx.data_dependent(0)) };
    let mut shape = if axis.is_some() { t.shape.clone() } else { vec![Dim::Known(0)] };
    shape[axis.unwrap_or(0)] = u.first.len().into();
    cx.set(0, t.dtype, shape);
    for (slot, len) in [(1, u.first.len()), (2, u.inverse.len()), (3, u.counts.len())] {
        cx.set(slot, DataType::I64, vec![len.into()]);
    }
    Ok(())
}

fn fold_unique(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (_, shape) = cx.out_type(0)?;
    let (axis, u) = unique_of(cx.node, x).ok()??;
    let from = match axis {
        Some(a) => {
            let mut tables = whole(x.shape());
            tables[a] = u.first.iter().map(|i| i * strides(x.shape())[a]).collect();
            offsets(&tables)
        }
        None => u.first.clone(),
    };
    let list = |v: &[i64]| Tensor::from_i64(vec![v.len()], v);
    let first: Vec<i64> = u.first.iter().map(|&i| i as i64).collect();
    Some(vec![take(x, shape, &from)?, list(&first), list(&u.inverse), list(&u.counts)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types, ramp};

    fn scalar(v: i64) -> Tensor {
        Tensor::from_i64(vec![], &[v])
    }

    #[test]
    fn ranges() {
        let n = node("Range", 11).constant(scalar(3)).constant(scalar(-4)).constant(scalar(-3));
        assert_eq!(n.types(), ["int64[3]"]);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [3, 0, -3]);
        let f = |v: f32| Tensor::from_f32(vec![], &[v]);
        let n = node("Range", 11).constant(f(1.0)).constant(f(2.0)).constant(f(0.3));
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 1.3, 1.6, 1.0 + 3.0 * 0.3]);
        let n = node("Range", 11)
            .constant(scalar(0))
            .elements(DataType::I64, &[], vec![Dim::symbol("seq")])
            .constant(scalar(1));
        assert_eq!(n.types(), ["int64[seq]"]);
        let n = node("Range", 11)
            .elements(DataType::I64, &[], vec![Dim::symbol("past")])
            .elements(DataType::I64, &[], vec![Dim::symbol("past").add(&Dim::Known(2))])
            .constant(scalar(1));
        let fact = n.infer().unwrap().remove(0);
        assert_eq!(fact.elements.unwrap()[1].to_string(), "past + 1");
        assert_eq!(node("Range", 11).constant(scalar(0)).constant(scalar(1)).constant(scalar(0)).error(), "delta is 0");
    }

    #[test]
    fn one_hot_counts_negative_indices_from_the_end() {
        let n = node("OneHot", 11).ints(&[0, -1, 7]).constant(scalar(3)).floats(&[2], &[2.0, 5.0]);
        assert_eq!(n.types(), ["float32[3, 3]"]);
        let want = [5.0, 2.0, 2.0, 2.0, 2.0, 5.0, 2.0, 2.0, 2.0];
        assert_eq!(n.fold().unwrap()[0].to_f64s().unwrap(), want);
        let n = node("OneHot", 11).input(DataType::I64, &[3]).constant(scalar(3)).floats(&[2], &[2.0, 5.0]);
        assert_eq!(n.run(&[vec![0.0, -1.0, 7.0]])[0], want);
        let n = node("OneHot", 11).input(DataType::I64, &[2]).constant(scalar(3)).floats(&[2], &[0.0, 1.0]);
        let n = n.int("axis", 0);
        assert_eq!(n.types(), ["float32[3, 2]"]);
        assert_eq!(n.run(&[vec![2.0, 0.0]])[0], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn non_zero() {
        let n = node("NonZero", 13).floats(&[2, 3], &[0.0, 1.0, 0.0, 2.0, 0.0, -3.0]);
        assert_eq!(n.types(), ["int64[2, 3]"]);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [0, 1, 1, 1, 0, 2]);
        assert!(matches!(node("NonZero", 13).float(&[2]).infer(), Err(OpError::DataDependent(_))));
    }

    #[test]
    fn compress_with_a_constant_condition_is_a_gather() {
        let condition = Tensor::from_bools(vec![3], &[true, false, true]);
        let n = node("Compress", 11).float(&[2, 3]).constant(condition).int("axis", 1);
        assert_eq!(n.types(), ["float32[2, 2]"]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "Gather", "Reshape"]);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0)])[0], [0.0, 2.0, 3.0, 5.0]);
        let condition = Tensor::from_bools(vec![2], &[false, true]);
        let n = node("Compress", 11).floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).constant(condition);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [2.0]);
    }

    #[test]
    fn unique() {
        let x = [2.0, 1.0, 1.0, 3.0, 4.0, 3.0];
        let n = node("Unique", 11).floats(&[6], &x).int("sorted", 0).outputs(4);
        let out: Vec<Vec<f64>> = n.fold().unwrap().iter().map(|t| t.to_f64s().unwrap()).collect();
        assert_eq!(out[0], [2.0, 1.0, 3.0, 4.0]);
        assert_eq!(out[1], [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(out[2], [0.0, 1.0, 1.0, 2.0, 3.0, 2.0]);
        assert_eq!(out[3], [1.0, 2.0, 2.0, 1.0]);
        let n = node("Unique", 11).floats(&[3, 3], &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 4.0]).int("axis", 0);
        let n = n.outputs(4);
        assert_eq!(n.types()[0], "float32[2, 3]");
        let out: Vec<Vec<f64>> = n.fold().unwrap().iter().map(|t| t.to_f64s().unwrap()).collect();
        assert_eq!(out[0], [1.0, 0.0, 0.0, 2.0, 3.0, 4.0]);
        assert_eq!(out[2], [0.0, 0.0, 1.0]);
        let n = node("Unique", 11).floats(&[3], &[1.0, -2.0, -1.0]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [-2.0, -1.0, 1.0]);
    }
}
