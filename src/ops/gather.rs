//! Gather, GatherElements, GatherND: elements picked by index.

use super::movement::{carried, dims_u32, follow, merged, offsets, take, whole, wrapped_by, wrapped_index};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{Dim, Shape, Tensor, show_shape, strides};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Gather", infer_gather).fold(fold_gather).lower(lower_gather),
    OpDef::new("GatherElements", infer_elements).fold(fold_elements).lower(lower_elements),
    OpDef::new("GatherND", infer_nd).fold(fold_nd).lower(lower_nd),
];

/// An index within `-size..size`, made non-negative.
pub(super) fn wrap(index: i64, size: usize) -> Result<usize, String> {
    let n = size as i64;
    if (-n..n).contains(&index) {
        Ok((if index < 0 { index + n } else { index }) as usize)
    } else {
        Err(format!("index {index} is outside an axis of {size} elements"))
    }
}

/// Indices into an axis of `size` elements, made non-negative.
pub(super) fn wrap_all(indices: &[i64], size: usize) -> Result<Vec<usize>, String> {
    indices.iter().map(|&i| wrap(i, size)).collect()
}

/// Fails if a constant index in input `i` is outside of the axis of `size`.
pub(super) fn check_indices(cx: &InferCx<'_>, i: usize, size: &Dim) -> Result<(), OpError> {
    if let (Some(t), Some(n)) = (cx.constant(i), size.known())
        && let Some(v) = t.to_i64s()
        && n >= 0
    {
        wrap_all(&v, n as usize).map_err(OpError::Invalid)?;
    }
    Ok(())
}

fn infer_gather(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let index = cx.shape(1)?.clone();
    let axis = cx.axis("axis", 0, t.shape.len())?;
    check_indices(cx, 1, &t.shape[axis])?;
    let shape = [&t.shape[..axis], &index, &t.shape[axis + 1..]].concat();
    cx.set(0, t.dtype, shape);
    let indices = cx.ints(1);
    follow(cx, 0, || {
        let from = t.static_shape()?;
        gather_offsets(&from, axis, &indices?)
    });
    Ok(())
}

fn gather_offsets(from: &[usize], axis: usize, indices: &[i64]) -> Option<Vec<usize>> {
    let mut tables = whole(from);
    let step = *strides(from).get(axis)?;
    tables[axis] = wrap_all(indices, from[axis]).ok()?.into_iter().map(|i| i * step).collect();
    Some(offsets(&tables))
}

fn fold_gather(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, index) = (cx.input(0)?, cx.input(1)?);
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 0), x.rank()).ok()?;
    let (_, shape) = cx.out_type(0)?;
    Some(vec![take(x, shape, &gather_offsets(x.shape(), axis, &index.to_i64s()?)?)?])
}

/// The layout of Gather's result: the index's axes stand where the gathered axis stood.
fn gathered_layout(layout: &Layout, axis: usize, k: usize) -> Layout {
    let order = layout.order().iter().flat_map(|&a| match a.cmp(&axis) {
        std::cmp::Ordering::Less => a..a + 1,
        std::cmp::Ordering::Equal => axis..axis + k,
        std::cmp::Ordering::Greater => a + k - 1..a + k,
    });
    Layout::from_order(order.collect())
}

/// `first, first + step, ...` with a positive step, or a single index.
fn progression(indices: &[usize]) -> Option<(usize, usize)> {
    let first = *indices.first()?;
    let step = match indices.get(1) {
        None => 1,
        Some(second) => second.checked_sub(first).filter(|s| *s > 0)?,
    };
    indices.windows(2).all(|w| w[0] + step == w[1]).then_some((first, step))
}

/// One Gather over a flat index, in whatever layout there is; a StridedSlice where constant indices are evenly spaced.
fn lower_gather(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let index_shape = cx.shape(1)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", 0), shape.len()).map_err(Refusal::form)?;
    let layout = cx.any_layout(0)?;
    let constant = match cx.constant(1) {
        Some(_) => Some(wrap_all(&cx.need_ints(1, "indices")?, shape[axis]).map_err(Refusal::form)?),
        None => None,
    };
    let count: usize = index_shape.iter().product();
    let x = cx.ordered(0, &layout)?;
    let dims = dims_u32(&layout.apply(&shape));
    let keys: Vec<Option<()>> = layout.order().iter().map(|&a| (a == axis).then_some(())).collect();
    let (dims, keys) = if dims.len() > 4 { merged(&dims, &keys) } else { (dims, keys) };
    let at = keys.iter().position(Option::is_some).unwrap_or(0);
    let x = cx.reshape(x, &dims);
    let dtype = cx.qnn_type(x);
    let x = carried(cx, x, &[]);
    let carrier = cx.qnn_type(x);
    let mut out = dims.clone();
    out[at] = count as u32;
    let y = if dims == out && constant.as_deref().and_then(progression) == Some((0, 1)) {
        x
    } else if let Some((first, step)) = constant.as_deref().and_then(progression) {
        let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
        ranges[at] = [first as i32, (first + (count - 1) * step + 1) as i32, step as i32];
        cx.op_to("StridedSlice", &[x], carrier, &out, &[("ranges", Param::triples(&ranges))])
    } else {
        let index = if let Some(v) = &constant {
            let v: Vec<i32> = v.iter().map(|&i| i as i32).collect();
            cx.i32_constant(&[count as u32], &v)
        } else {
            let t = cx.ordered(1, &Layout::identity(index_shape.len()))?;
            let t = cx.reshape(t, &[count as u32]);
            wrapped_index(cx, 1, t, shape[axis])?
        };
        cx.op_to("Gather", &[x, index], carrier, &out, &[("axis", Param::i32(at as i32))])
    };
    let y = cx.cast(y, dtype);
    cx.alias(0, y, gathered_layout(&layout, axis, index_shape.len()))
}

fn infer_elements(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let index = cx.shape(1)?.clone();
    if index.len() != t.shape.len() {
        return invalid(format!("indices have rank {}, and input 0 is {t}", index.len()));
    }
    let axis = cx.axis("axis", 0, t.shape.len())?;
    check_indices(cx, 1, &t.shape[axis])?;
    for (a, (i, d)) in index.iter().zip(&t.shape).enumerate() {
        if let (Some(i), Some(d)) = (i.known(), d.known())
            && a != axis
            && i > d
        {
            return invalid(format!("indices {} are larger than input 0, {t}, in dimension {a}", show_shape(&index)));
        }
    }
    cx.set(0, t.dtype, index.clone());
    let indices = cx.ints(1);
    follow(cx, 0, || elements_offsets(&t.static_shape()?, &crate::ir::static_shape(&index)?, axis, &indices?));
    Ok(())
}

/// For every element of `index`: the offset in a tensor of shape `from` with its index put in place on `axis`.
pub(super) fn elements_offsets(from: &[usize], index: &[usize], axis: usize, indices: &[i64]) -> Option<Vec<usize>> {
    let steps = strides(from);
    let mut tables: Vec<Vec<usize>> =
        index.iter().zip(&steps).map(|(&d, &s)| (0..d).map(|i| i * s).collect()).collect();
    tables[axis] = vec![0; index[axis]];
    offsets(&tables).into_iter().zip(indices).map(|(o, &i)| Some(o + wrap(i, from[axis]).ok()? * steps[axis])).collect()
}

fn fold_elements(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, index) = (cx.input(0)?, cx.input(1)?);
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 0), x.rank()).ok()?;
    let offsets = elements_offsets(x.shape(), index.shape(), axis, &index.to_i64s()?)?;
    Some(vec![take(x, index.shape().to_vec(), &offsets)?])
}

fn lower_elements(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let axis = normalise_axis(cx.attrs().int_or("axis", 0), shape.len()).map_err(Refusal::form)?;
    let layout = cx.common_layout(&[0, 1])?;
    let keys: Vec<Option<()>> =
        layout.order().iter().map(|&a| (a == axis || shape[a] != index_shape[a]).then_some(())).collect();
    let squeeze = shape.len() > 4;
    let dims = dims_u32(&layout.apply(&shape));
    let index_dims = dims_u32(&layout.apply(&index_shape));
    let (x_dims, kept) = if squeeze { merged(&dims, &keys) } else { (dims, keys.clone()) };
    let (i_dims, _) = if squeeze { merged(&index_dims, &keys) } else { (index_dims, keys.clone()) };
    // The joined position of the axis: blocks before it, counted over the keys of the axes up to it.
    let physical = layout.physical(axis);
    let at = if squeeze { merged(&vec![1; physical + 1], &keys[..=physical]).0.len() - 1 } else { physical };
    debug_assert_eq!(kept.len(), x_dims.len());
    let x = cx.ordered(0, &layout)?;
    let x = cx.reshape(x, &x_dims);
    let dtype = cx.qnn_type(x);
    let x = carried(cx, x, &[]);
    let index = index_in(cx, 1, &layout, &i_dims, shape[axis])?;
    let carrier = cx.qnn_type(x);
    let y = cx.op_to("GatherElements", &[x, index], carrier, &i_dims, &[("axis", Param::u32(at as u32))]);
    let y = cx.cast(y, dtype);
    cx.alias(0, y, layout)
}

/// Indices in input `i` into an axis of `size` elements, in `layout`, made non-negative.
pub(super) fn index_in(
    cx: &mut LowerCx<'_, '_>,
    i: usize,
    layout: &Layout,
    dims: &[u32],
    size: usize,
) -> Result<TensorId, Refusal> {
    if let Some(t) = cx.constant(i) {
        let v = wrap_all(&cx.need_ints(i, "indices")?, size).map_err(Refusal::form)?;
        let v: Vec<i32> = v.into_iter().map(|i| i as i32).collect();
        let index = Tensor::from_i32(t.shape().to_vec(), &v);
        return Ok(cx.weight(&index, Some(layout.order()), dims));
    }
    let t = cx.ordered(i, layout)?;
    let t = cx.reshape(t, dims);
    wrapped_index(cx, i, t, size)
}

/// `batch_dims` and the length of the index tuples.
fn nd_form(batch: i64, data: usize, index: &[Dim]) -> Result<(usize, usize), OpError> {
    let Some(last) = index.last() else {
        return invalid("indices are a scalar, and GatherND takes rank 1 or more");
    };
    let Some(k) = last.known().and_then(|k| usize::try_from(k).ok()) else {
        return Err(OpError::DataDependent(format!("the length of the index tuples is {last}, which is not known")));
    };
    let batch = match usize::try_from(batch) {
        Ok(b) if b < index.len() && b < data => b,
        _ => return invalid(format!("attribute batch_dims is {batch}; it is 0 to {}", index.len().min(data) - 1)),
    };
    if k == 0 || batch + k > data {
        return invalid(format!("index tuples of {k} into rank {data} after {batch} batch dimensions"));
    }
    Ok((batch, k))
}

fn infer_nd(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let index = cx.shape(1)?.clone();
    if t.shape.is_empty() {
        return invalid("input 0 is a scalar");
    }
    let (batch, k) = nd_form(cx.node.attrs.int_or("batch_dims", 0), t.shape.len(), &index)?;
    for (a, (d, i)) in t.shape.iter().zip(&index).take(batch).enumerate() {
        if let (Some(x), Some(y)) = (d.known(), i.known())
            && x != y
        {
            return invalid(format!("batch dimension {a} is {x} in input 0 and {y} in the indices"));
        }
    }
    let shape: Shape = [&index[..index.len() - 1], &t.shape[batch + k..]].concat();
    cx.set(0, t.dtype, shape);
    if let (Some(from), Some(to), Some(v)) = (t.static_shape(), crate::ir::static_shape(&index), cx.ints(1)) {
        let rows = nd_rows(&from, &to, batch, k, &v).map_err(OpError::Invalid)?;
        follow(cx, 0, || Some(row_offsets(&rows, &from[batch + k..])));
    }
    Ok(())
}

/// For every index tuple: the number of the row that it names, over the leading `batch + k` axes of `from`.
fn nd_rows(from: &[usize], index: &[usize], batch: usize, k: usize, v: &[i64]) -> Result<Vec<usize>, String> {
    let per_batch: usize = index[batch..index.len() - 1].iter().product::<usize>().max(1);
    let lead: usize = from[batch..batch + k].iter().product();
    v.chunks(k)
        .enumerate()
        .map(|(i, tuple)| {
            let mut row = 0;
            for (&d, &p) in from[batch..batch + k].iter().zip(tuple) {
                row = row * d + wrap(p, d)?;
            }
            Ok(i / per_batch * lead + row)
        })
        .collect()
}

fn row_offsets(rows: &[usize], inner: &[usize]) -> Vec<usize> {
    let size: usize = inner.iter().product();
    offsets(&[rows.iter().map(|r| r * size).collect(), (0..size).collect()])
}

fn fold_nd(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, index) = (cx.input(0)?, cx.input(1)?);
    let (_, shape) = cx.out_type(0)?;
    let dims: Vec<Dim> = index.shape().iter().map(|&d| d.into()).collect();
    let (batch, k) = nd_form(cx.node.attrs.int_or("batch_dims", 0), x.rank(), &dims).ok()?;
    let rows = nd_rows(x.shape(), index.shape(), batch, k, &index.to_i64s()?).ok()?;
    Some(vec![take(x, shape, &row_offsets(&rows, &x.shape()[batch + k..]))?])
}

/// Constant indices: a Gather of whole rows. Run-time ones: GatherNd over tuples, with the rest of the axes joined.
fn lower_nd(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let index_dims: Vec<Dim> = index_shape.iter().map(|&d| d.into()).collect();
    let (batch, k) = nd_form(cx.attrs().int_or("batch_dims", 0), shape.len(), &index_dims)
        .map_err(|e| Refusal::form(e.to_string()))?;
    let inner: usize = shape[batch + k..].iter().product();
    let x = cx.ordered(0, &Layout::identity(shape.len()))?;
    let rows = index_shape[..index_shape.len() - 1].iter().product::<usize>();
    let out_rank = cx.out_shape(0)?.len();
    let dtype = cx.qnn_type(x);
    if cx.constant(1).is_some() {
        let v = cx.need_ints(1, "indices")?;
        let picked = nd_rows(&shape, &index_shape, batch, k, &v).map_err(Refusal::form)?;
        let lead: usize = shape[..batch + k].iter().product();
        let x = cx.reshape(x, &[lead as u32, inner as u32]);
        let x = carried(cx, x, &[]);
        let picked: Vec<i32> = picked.into_iter().map(|r| r as i32).collect();
        let index = cx.i32_constant(&[rows as u32], &picked);
        let carrier = cx.qnn_type(x);
        let y = cx.op_to("Gather", &[x, index], carrier, &[rows as u32, inner as u32], &[("axis", Param::i32(0))]);
        let y = cx.cast(y, dtype);
        return cx.alias(0, y, Layout::identity(out_rank));
    }
    let lead: usize = shape[..batch].iter().product();
    let mut dims = if batch > 0 { vec![lead as u32] } else { vec![] };
    dims.extend(dims_u32(&shape[batch..batch + k]));
    dims.push(inner as u32);
    let mut tuples = if batch > 0 { vec![lead as u32, (rows / lead) as u32] } else { vec![rows as u32] };
    let mut out = tuples.clone();
    tuples.push(k as u32);
    out.push(inner as u32);
    let x = cx.reshape(x, &dims);
    let x = carried(cx, x, &[]);
    let index = cx.ordered(1, &Layout::identity(index_shape.len()))?;
    let index = cx.reshape(index, &tuples);
    let sizes: Vec<i32> = shape[batch..batch + k].iter().map(|&d| d as i32).collect();
    let index = if sizes.iter().all(|s| *s == sizes[0]) {
        wrapped_index(cx, 1, index, sizes[0] as usize)?
    } else {
        let mut full = vec![1; tuples.len() - 1];
        full.push(k as u32);
        let sizes = cx.i32_constant(&full, &sizes);
        wrapped_by(cx, index, sizes)
    };
    let carrier = cx.qnn_type(x);
    let params = [("batch_dims", Param::u32(u32::from(batch > 0)))];
    let y = cx.op_to("GatherNd", &[x, index], carrier, &out, &params);
    let y = cx.cast(y, dtype);
    cx.alias(0, y, Layout::identity(out_rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::testing::{node, op_types, param, ramp};

    #[test]
    fn shapes() {
        let n = node("Gather", 13).float(&[2, 3, 4]).input(DataType::I64, &[5, 6]).int("axis", 1);
        assert_eq!(n.types(), ["float32[2, 5, 6, 4]"]);
        let n = node("Gather", 13).float(&[-1, 3]).constant(Tensor::from_i64(vec![], &[0])).int("axis", -1);
        assert_eq!(n.types(), ["float32[d1]"]);
        assert_eq!(node("Gather", 13).float(&[2, 3]).ints(&[2]).error(), "index 2 is outside an axis of 2 elements");
        let n = node("GatherND", 13).float(&[2, 3, 4]).input(DataType::I64, &[2, 5, 1]).int("batch_dims", 1);
        assert_eq!(n.types(), ["float32[2, 5, 4]"]);
        assert!(node("GatherND", 13).float(&[2]).input(DataType::I64, &[5, 2]).error().contains("tuples of 2"));
    }

    #[test]
    fn one_element_of_a_shape() {
        let dims = vec![Dim::symbol("b"), Dim::Known(8)];
        let n = node("Gather", 13).elements(DataType::I64, &[2], dims).constant(Tensor::from_i64(vec![], &[-2]));
        let fact = n.infer().unwrap().remove(0);
        assert_eq!((fact.elements, fact.ty.tensor().unwrap().shape.len()), (Some(vec![Dim::symbol("b")]), 0));
    }

    #[test]
    fn folding() {
        let x: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let n = node("Gather", 13).floats(&[2, 3], &x).ints(&[-1, 0]).int("axis", 1);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [2.0, 0.0, 5.0, 3.0]);
        let n = node("GatherElements", 13).floats(&[2, 3], &x).constant(Tensor::from_i64(vec![1, 2], &[-1, 0]));
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [3.0, 1.0]);
        let n = node("GatherND", 13).floats(&[2, 3], &x).constant(Tensor::from_i64(vec![2, 2], &[0, 1, -1, -1]));
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 5.0]);
        let n = node("GatherND", 13).floats(&[2, 3], &x).constant(Tensor::from_i64(vec![2, 1], &[2, 0]));
        assert_eq!(n.int("batch_dims", 1).fold().unwrap()[0].to_f32s().unwrap(), [2.0, 3.0]);
    }

    #[test]
    fn constant_indices_that_are_evenly_spaced_are_a_slice() {
        let n = node("Gather", 13).float(&[2, 5]).ints(&[0, 2, -1]).int("axis", 1);
        let g = n.lower().unwrap();
        assert_eq!(op_types(&g), ["StridedSlice"]);
        assert_eq!(param(&g, 0, "ranges"), Some(Param::triples(&[[0, 2, 1], [0, 5, 2]])));
        let n = node("Gather", 13).float(&[2, 5]).ints(&[3, 0]).int("axis", 1);
        assert_eq!(op_types(&n.lower().unwrap()), ["Gather"]);
        assert_eq!(n.run(&[ramp(10, 0.0, 1.0)])[0], [3.0, 0.0, 8.0, 5.0]);
    }

    #[test]
    fn run_time_indices_may_be_negative() {
        let n = node("Gather", 13).float(&[3, 2]).input(DataType::I64, &[1, 2]);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0), vec![-1.0, 0.0]])[0], [4.0, 5.0, 0.0, 1.0]);
        let n = node("GatherElements", 13).float(&[3, 2]).input(DataType::I64, &[1, 2]).int("axis", 0);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0), vec![-1.0, 0.0]])[0], [4.0, 1.0]);
    }

    #[test]
    fn constant_tuples_pick_rows() {
        let n = node("GatherND", 13).float(&[2, 3, 2]).constant(Tensor::from_i64(vec![2, 2], &[1, 0, 0, -1]));
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "Gather"]);
        assert_eq!(n.run(&[ramp(12, 0.0, 1.0)])[0], [6.0, 7.0, 4.0, 5.0]);
    }

    #[test]
    fn elements_of_rank_five() {
        let n = node("GatherElements", 13)
            .float(&[2, 1, 2, 2, 2])
            .constant(Tensor::from_i64(vec![2, 1, 1, 2, 2], &[0, 1, 1, 0, 0, 0, 1, 1]));
        let n = n.int("axis", 2);
        let want = [0.0, 5.0, 6.0, 3.0, 8.0, 9.0, 14.0, 15.0];
        assert_eq!(n.run(&[ramp(16, 0.0, 1.0)])[0], want);
        let g = n.lower().unwrap();
        let op = g.ops.iter().find(|o| o.op_type == "GatherElements").unwrap();
        assert_eq!(g.tensor(op.inputs[0]).dims, [2, 2, 4]);
    }
}
