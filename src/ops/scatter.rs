//! Scatter, ScatterElements, ScatterND: elements written at indices, or combined with what is there.

use super::compose;
use super::gather::{check_indices, elements_offsets, index_in, wrap, wrap_all};
use super::movement::{carried, dims_u32, merged, wrapped_by, wrapped_index};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{Attrs, DataType, Dim, Tensor, show_shape, strides};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Scatter", infer_elements).fold(fold_elements).lower(lower_elements),
    OpDef::new("ScatterElements", infer_elements).fold(fold_elements).lower(lower_elements),
    OpDef::new("ScatterND", infer_nd).fold(fold_nd).lower(lower_nd),
];

/// How a written element meets the one that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reduction {
    None,
    Add,
    Mul,
    Min,
    Max,
}

impl Reduction {
    fn of(attrs: &Attrs) -> Result<Self, String> {
        Ok(match attrs.str_or("reduction", "none") {
            "none" => Self::None,
            "add" => Self::Add,
            "mul" => Self::Mul,
            "min" => Self::Min,
            "max" => Self::Max,
            other => return Err(format!("attribute reduction is {other:?}; it is none, add, mul, min or max")),
        })
    }

    /// QNN's number, where it has one.
    fn qnn(self) -> Option<u32> {
        match self {
            Self::None => Some(0),
            Self::Add => Some(1),
            Self::Mul => Some(2),
            Self::Max => Some(3),
            Self::Min => None,
        }
    }

    fn floats(self, a: f64, b: f64) -> f64 {
        match self {
            Self::None => b,
            Self::Add => a + b,
            Self::Mul => a * b,
            Self::Min => {
                if b < a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a || b.is_nan() {
                    b
                } else {
                    a
                }
            }
        }
    }

    fn ints(self, a: i128, b: i128) -> i128 {
        match self {
            Self::None => b,
            Self::Add => a.wrapping_add(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// `v` brought into the range of an integer type by dropping high bits.
fn wrapped(v: i128, dtype: DataType) -> i128 {
    match dtype.int_range() {
        Some((low, high)) => (v - low).rem_euclid(high - low + 1) + low,
        None => v,
    }
}

/// `data` with element `targets[i]` combined with element `i` of `updates`.
fn scattered(data: &Tensor, targets: &[usize], updates: &Tensor, reduction: Reduction) -> Option<Tensor> {
    let (dtype, shape) = (data.dtype(), data.shape().to_vec());
    if updates.len() != targets.len() {
        return None;
    }
    if let (Some(mut x), Some(u)) = (data.to_i128s(), updates.to_i128s()) {
        for (&t, u) in targets.iter().zip(u) {
            let slot = x.get_mut(t)?;
            *slot = wrapped(reduction.ints(*slot, u), dtype);
        }
        return Tensor::from_i128(dtype, shape, &x);
    }
    let (mut x, u) = (data.to_f64s()?, updates.to_f64s()?);
    for (&t, u) in targets.iter().zip(u) {
        let slot = x.get_mut(t)?;
        let v = reduction.floats(*slot, u);
        *slot = match dtype {
            DataType::F32 => f64::from(v as f32),
            DataType::F16 => half::f16::from_f64(v).to_f64(),
            _ => v,
        };
    }
    Tensor::from_f64(dtype, shape, &x)
}

fn infer_elements(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let (index, updates) = (cx.shape(1)?, cx.shape(2)?);
    Reduction::of(&cx.node.attrs).map_err(OpError::Invalid)?;
    let axis = cx.axis("axis", 0, t.shape.len())?;
    check_indices(cx, 1, &t.shape[axis])?;
    if index.len() != t.shape.len() {
        return invalid(format!("indices have rank {}, and input 0 is {t}", index.len()));
    }
    let differ = |a: &Dim, b: &Dim| matches!((a.known(), b.known()), (Some(x), Some(y)) if x != y);
    if index.len() != updates.len() || index.iter().zip(updates).any(|(a, b)| differ(a, b)) {
        return invalid(format!("indices are {}, and updates are {}", show_shape(index), show_shape(updates)));
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

fn fold_elements(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, index, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 0), x.rank()).ok()?;
    let targets = elements_offsets(x.shape(), index.shape(), axis, &index.to_i64s()?)?;
    Some(vec![scattered(x, &targets, updates, Reduction::of(&cx.node.attrs).ok()?)?])
}

fn no_such(reduction: Reduction, dtype: DataType) -> Refusal {
    Refusal::form(format!(
        "reduction {:?} on {dtype} with indices that are not constant: the HTP has no such scatter",
        format!("{reduction:?}").to_lowercase()
    ))
}

fn lower_elements(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let axis = normalise_axis(cx.attrs().int_or("axis", 0), shape.len()).map_err(Refusal::form)?;
    let reduction = Reduction::of(cx.attrs()).map_err(Refusal::form)?;
    let dtype = cx.dtype(0)?;
    let wide = matches!(dtype, DataType::I32 | DataType::I64);
    if index_shape.contains(&0) {
        return give_same(cx);
    }
    let native = reduction == Reduction::None || (wide && reduction != Reduction::Min);
    if !native {
        return lower_flat(cx, axis, reduction);
    }
    let layout = cx.common_layout(&[0, 1, 2])?;
    let keys: Vec<Option<()>> =
        layout.order().iter().map(|&a| (a == axis || shape[a] != index_shape[a]).then_some(())).collect();
    let join = shape.len() > 4;
    let group = |dims: Vec<u32>| if join { merged(&dims, &keys).0 } else { dims };
    let x_dims = group(dims_u32(&layout.apply(&shape)));
    let i_dims = group(dims_u32(&layout.apply(&index_shape)));
    let physical = layout.physical(axis);
    let at = if join { merged(&vec![1; physical + 1], &keys[..=physical]).0.len() - 1 } else { physical };
    let x = cx.ordered(0, &layout)?;
    let x = cx.reshape(x, &x_dims);
    let held = cx.qnn_type(x);
    let x = carried(cx, x, &[QnnType::UINT_8]);
    let updates = cx.ordered(2, &layout)?;
    let updates = cx.reshape(updates, &i_dims);
    let updates = carried(cx, updates, &[QnnType::UINT_8]);
    let index = index_in(cx, 1, &layout, &i_dims, shape[axis])?;
    let carrier = cx.qnn_type(x);
    let params = [("axis", Param::u32(at as u32)), ("reduction", Param::u32(reduction.qnn().unwrap_or(0)))];
    let y = cx.op_to("ScatterElements", &[x, index, updates], carrier, &x_dims, &params);
    let y = cx.cast(y, held);
    cx.alias(0, y, layout)
}

/// Nothing is written.
fn give_same(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    for (layout, t) in cx.places(0)? {
        cx.alias(0, t, layout)?;
    }
    Ok(())
}

/// Through positions in the flattened tensor: ScatterNd has sums and products of real numbers, ScatterElements has not.
fn lower_flat(cx: &mut LowerCx<'_, '_>, axis: usize, reduction: Reduction) -> Result<(), Refusal> {
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let dtype = cx.dtype(0)?;
    let steps = strides(&shape);
    let (size, count) = (shape.iter().product::<usize>(), index_shape.iter().product::<usize>());
    if i32::try_from(size).is_err() {
        return Err(Refusal::form(format!("{size} elements have no 32-bit positions")));
    }
    let x = cx.input(0)?;
    let x = cx.reshape(x, &[size as u32]);
    let updates = cx.input(2)?;
    let updates = cx.reshape(updates, &[count as u32]);
    let targets = match cx.constant(1) {
        Some(_) => {
            let v = cx.need_ints(1, "indices")?;
            wrap_all(&v, shape[axis]).map_err(Refusal::form)?;
            elements_offsets(&shape, &index_shape, axis, &v)
        }
        None => None,
    };
    let index = if let Some(targets) = &targets {
        let v: Vec<i32> = targets.iter().map(|&t| t as i32).collect();
        cx.i32_constant(&[count as u32, 1], &v)
    } else {
        let base = elements_offsets(&shape, &index_shape, axis, &vec![0; count])
            .ok_or_else(|| Refusal::form("an axis of size 0 is indexed"))?;
        let base: Vec<i32> = base.into_iter().map(|b| b as i32).collect();
        let base = cx.i32_constant(&[count as u32, 1], &base);
        let t = cx.input(1)?;
        let t = cx.reshape(t, &[count as u32, 1]);
        let t = wrapped_index(cx, 1, t, shape[axis])?;
        let step = cx.i32_constant(&[1, 1], &[steps[axis] as i32]);
        let t = compose::mul(cx, t, step);
        compose::add(cx, t, base)
    };
    let y = give_rows(cx, x, index, updates, reduction, targets.as_deref(), dtype)?;
    let rank = shape.len();
    cx.alias(0, y, Layout::identity(rank))
}

/// One ScatterNd over rows of `x`; `targets` are the rows if they are constant.
fn give_rows(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    index: TensorId,
    updates: TensorId,
    reduction: Reduction,
    targets: Option<&[usize]>,
    dtype: DataType,
) -> Result<TensorId, Refusal> {
    let real = dtype.is_float() || matches!(dtype, DataType::I32 | DataType::I64);
    let extreme = matches!(reduction, Reduction::Min | Reduction::Max);
    match (reduction, targets) {
        (Reduction::None, _) => {}
        (_, _) if !real => return Err(no_such(reduction, dtype)),
        (_, Some(targets)) if extreme => return give_extremes(cx, x, updates, reduction, targets),
        (_, None) if extreme => return Err(no_such(reduction, dtype)),
        _ => {}
    }
    let (carrier, dims) = (cx.qnn_type(x), cx.dims(x));
    let params = [("reduction", Param::u32(reduction.qnn().unwrap_or(0)))];
    Ok(cx.op_to("ScatterNd", &[x, index, updates], carrier, &dims, &params))
}

/// Minimum and maximum at constant rows: what is there is read, combined and written back; a row that is named several
/// times is met again in the next round.
fn give_extremes(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    updates: TensorId,
    reduction: Reduction,
    targets: &[usize],
) -> Result<TensorId, Refusal> {
    let mut rounds: Vec<Vec<usize>> = vec![];
    let mut met = std::collections::HashMap::new();
    for (i, t) in targets.iter().enumerate() {
        let round = met.entry(*t).or_insert(0usize);
        if *round == rounds.len() {
            rounds.push(vec![]);
        }
        rounds[*round].push(i);
        *round += 1;
    }
    if rounds.len() > 16 {
        return Err(Refusal::form(format!("an element is written {} times, one round each", rounds.len())));
    }
    let op = if reduction == Reduction::Min { "ElementWiseMinimum" } else { "ElementWiseMaximum" };
    let (carrier, dims, all) = (cx.qnn_type(x), cx.dims(x), cx.dims(updates));
    let mut x = x;
    for round in &rounds {
        let n = round.len() as u32;
        let mut some = all.clone();
        some[0] = n;
        let numbers = |v: Vec<usize>| v.into_iter().map(|i| i as i32).collect::<Vec<i32>>();
        let new = if round.len() == targets.len() {
            updates
        } else {
            let which = cx.i32_constant(&[n], &numbers(round.clone()));
            cx.op_to("Gather", &[updates, which], carrier, &some, &[("axis", Param::i32(0))])
        };
        let rows = numbers(round.iter().map(|&i| targets[i]).collect());
        let flat = cx.i32_constant(&[n], &rows);
        let there = cx.op_to("Gather", &[x, flat], carrier, &some, &[("axis", Param::i32(0))]);
        let new = cx.op_to(op, &[there, new], carrier, &some, &[]);
        let index = cx.i32_constant(&[n, 1], &rows);
        x = cx.op_to("ScatterNd", &[x, index, new], carrier, &dims, &[("reduction", Param::u32(0))]);
    }
    Ok(x)
}

/// The length of the index tuples.
fn tuple_len(data: usize, index: &[Dim]) -> Result<usize, OpError> {
    let Some(last) = index.last() else {
        return invalid("indices are a scalar, and ScatterND takes rank 1 or more");
    };
    match last.known() {
        Some(k) if k >= 1 && k as usize <= data => Ok(k as usize),
        Some(k) => invalid(format!("index tuples of {k} into rank {data}")),
        None => Err(OpError::DataDependent(format!("the length of the index tuples is {last}, which is not known"))),
    }
}

fn infer_nd(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let (index, updates) = (cx.shape(1)?, cx.shape(2)?);
    Reduction::of(&cx.node.attrs).map_err(OpError::Invalid)?;
    let k = tuple_len(t.shape.len(), index)?;
    let wanted = [&index[..index.len() - 1], &t.shape[k..]].concat();
    let differ = |a: &Dim, b: &Dim| matches!((a.known(), b.known()), (Some(x), Some(y)) if x != y);
    if wanted.len() != updates.len() || wanted.iter().zip(updates).any(|(a, b)| differ(a, b)) {
        return invalid(format!("updates are {}, and must be {}", show_shape(updates), show_shape(&wanted)));
    }
    if let (Some(v), Some(shape)) = (cx.ints(1), t.static_shape()) {
        rows(&v, &shape[..k]).map_err(OpError::Invalid)?;
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// For every tuple: the number of the row that it names, over axes of these sizes.
fn rows(v: &[i64], sizes: &[usize]) -> Result<Vec<usize>, String> {
    v.chunks(sizes.len())
        .map(|tuple| tuple.iter().zip(sizes).try_fold(0, |row, (&i, &d)| Ok(row * d + wrap(i, d)?)))
        .collect()
}

fn fold_nd(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, index, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let k = *index.shape().last()?;
    let inner: usize = x.shape().get(k..)?.iter().product();
    let targets: Vec<usize> =
        rows(&index.to_i64s()?, &x.shape()[..k]).ok()?.into_iter().flat_map(|r| r * inner..(r + 1) * inner).collect();
    Some(vec![scattered(x, &targets, updates, Reduction::of(&cx.node.attrs).ok()?)?])
}

/// Rows written over constant neighbouring rows: a Concat. Otherwise ScatterNd, with the axes behind the tuple joined.
fn lower_nd(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let reduction = Reduction::of(cx.attrs()).map_err(Refusal::form)?;
    let dims: Vec<Dim> = index_shape.iter().map(|&d| d.into()).collect();
    let k = tuple_len(shape.len(), &dims).map_err(|e| Refusal::form(e.to_string()))?;
    let dtype = cx.dtype(0)?;
    let (lead, inner) = (shape[..k].iter().product::<usize>(), shape[k..].iter().product::<usize>());
    let count: usize = index_shape[..index_shape.len() - 1].iter().product();
    if count == 0 {
        return give_same(cx);
    }
    let out = Layout::identity(shape.len());
    let x = cx.ordered(0, &out)?;
    let updates_rank = cx.rank(2)?;
    let updates = cx.ordered(2, &Layout::identity(updates_rank))?;
    let updates = cx.reshape(updates, &[count as u32, inner as u32]);
    let held = cx.qnn_type(x);
    let targets = match cx.constant(1) {
        Some(_) => Some(rows(&cx.need_ints(1, "indices")?, &shape[..k]).map_err(Refusal::form)?),
        None => None,
    };
    let in_a_row = |t: &[usize]| t.windows(2).all(|w| w[0] + 1 == w[1]);
    if let Some(first) =
        targets.as_ref().filter(|t| reduction == Reduction::None && in_a_row(t)).and_then(|t| t.first())
    {
        let y = overwritten(cx, x, updates, *first, [lead, count, inner])?;
        return cx.alias(0, y, out);
    }
    let (x_dims, index) = if let Some(targets) = &targets {
        let v: Vec<i32> = targets.iter().map(|&t| t as i32).collect();
        (dims_u32(&[lead, inner]), cx.i32_constant(&[count as u32, 1], &v))
    } else {
        let mut x_dims = dims_u32(&shape[..k]);
        if inner > 1 || k < 5 {
            x_dims.push(inner as u32);
        }
        let index = cx.ordered(1, &Layout::identity(index_shape.len()))?;
        let index = cx.reshape(index, &dims_u32(&[count, k]));
        let sizes: Vec<i32> = shape[..k].iter().map(|&d| d as i32).collect();
        let index = if sizes.iter().all(|s| *s == sizes[0]) {
            wrapped_index(cx, 1, index, sizes[0] as usize)?
        } else {
            let sizes = cx.i32_constant(&[1, k as u32], &sizes);
            wrapped_by(cx, index, sizes)
        };
        (x_dims, index)
    };
    let updates = if x_dims.len() == k && targets.is_none() { cx.reshape(updates, &[count as u32]) } else { updates };
    let x = cx.reshape(x, &x_dims);
    let takes = [QnnType::BOOL_8];
    let (x, updates) = (carried(cx, x, &takes), carried(cx, updates, &takes));
    let y = give_rows(cx, x, index, updates, reduction, targets.as_deref(), dtype)?;
    let y = cx.cast(y, held);
    cx.alias(0, y, out)
}

/// Rows `first..first + count` of `[lead, inner]` replaced.
fn overwritten(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    updates: TensorId,
    first: usize,
    [lead, count, inner]: [usize; 3],
) -> Result<TensorId, Refusal> {
    if count == lead {
        return Ok(updates);
    }
    let dtype = cx.qnn_type(x);
    let x = cx.reshape(x, &dims_u32(&[lead, inner]));
    // StridedSlice takes no booleans, and Concat no bytes.
    let through = |cx: &mut LowerCx<'_, '_>, t: TensorId| {
        if matches!(cx.qnn_type(t), QnnType::BOOL_8 | QnnType::UINT_8) { cx.cast(t, QnnType::INT_32) } else { t }
    };
    let (x, updates) = (through(cx, x), through(cx, updates));
    let mut pieces = vec![];
    if first > 0 {
        pieces.push(compose::slice(cx, x, 0, 0, first as u32));
    }
    pieces.push(updates);
    if first + count < lead {
        pieces.push(compose::slice(cx, x, 0, (first + count) as u32, lead as u32));
    }
    let y = compose::concat(cx, &pieces, 0);
    Ok(cx.cast(y, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types, ramp};

    fn index(shape: &[usize], v: &[i64]) -> Tensor {
        Tensor::from_i64(shape.to_vec(), v)
    }

    #[test]
    fn elements_are_folded() {
        let n = node("ScatterElements", 18).floats(&[1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let n = n.constant(index(&[1, 2], &[1, -2])).floats(&[1, 2], &[1.1, 2.1]).int("axis", 1);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 1.1, 3.0, 2.1, 5.0]);
        let n = node("ScatterElements", 18).constant(Tensor::from_i128(DataType::U8, vec![2], &[250, 1]).unwrap());
        let n = n.ints(&[0, 0]).constant(Tensor::from_i128(DataType::U8, vec![2], &[10, 3]).unwrap());
        assert_eq!(n.text("reduction", "add").fold().unwrap()[0].to_i64s().unwrap(), [7, 1]);
    }

    #[test]
    fn rows_are_folded() {
        let n = node("ScatterND", 16).floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let n = n.constant(index(&[2, 1], &[-1, 0])).floats(&[2, 2], &[7.0, 8.0, 9.0, 10.0]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [9.0, 10.0, 3.0, 4.0, 7.0, 8.0]);
        let n = n.text("reduction", "mul");
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [9.0, 20.0, 3.0, 4.0, 35.0, 48.0]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let n = node("ScatterND", 16).float(&[4, 2]).constant(index(&[2, 1], &[0, 1])).float(&[2, 3]);
        assert_eq!(n.error(), "updates are [2, 3], and must be [2, 2]");
        let n = node("ScatterElements", 16).float(&[4]).ints(&[4]).float(&[1]);
        assert_eq!(n.error(), "index 4 is outside an axis of 4 elements");
    }

    #[test]
    fn neighbouring_rows_are_a_concat() {
        let n = node("ScatterND", 16).float(&[4, 2]).constant(index(&[2, 1], &[1, 2])).float(&[2, 2]);
        assert_eq!(op_types(&n.lower().unwrap()), ["StridedSlice", "StridedSlice", "Concat"]);
        let got = n.run(&[ramp(8, 0.0, 1.0), ramp(4, 10.0, 1.0)]);
        assert_eq!(got[0], [0.0, 1.0, 10.0, 11.0, 12.0, 13.0, 6.0, 7.0]);
    }

    #[test]
    fn qnn_ops() {
        let n = node("ScatterND", 16).float(&[4, 2]).input(DataType::I64, &[2, 1]).float(&[2, 2]);
        assert_eq!(op_types(&n.lower().unwrap()).last(), Some(&"ScatterNd"));
        let n = node("ScatterElements", 16).float(&[4, 2]).constant(index(&[1, 2], &[1, 2])).float(&[1, 2]);
        assert_eq!(op_types(&n.lower().unwrap()), ["ScatterElements"]);
        let n = n.text("reduction", "add");
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "Reshape", "ScatterNd", "Reshape"]);
        let n = node("ScatterElements", 18).float(&[4]).input(DataType::I64, &[2]).float(&[2]).text("reduction", "max");
        assert!(n.refusal().contains("reduction \"max\" on float32"));
        let n = node("ScatterElements", 18).float(&[4]).ints(&[1, 1]).float(&[2]).text("reduction", "max");
        assert_eq!(op_types(&n.lower().unwrap()).iter().filter(|o| **o == "ScatterNd").count(), 2);
    }
}
