//! Elements cut, masked, turned round or written along axes: Trilu, CenterCropPad, ReverseSequence, TensorScatter; and
//! BitCast, which rereads them.

use super::compose;
use super::movement::{carried, dims_u32, dtype_attr, offsets, take};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{DataType, Dim, Node, Shape, Tensor, show_shape, strides};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Trilu", infer_trilu).fold(fold_trilu).lower(lower_trilu),
    OpDef::new("CenterCropPad", infer_centre).fold(fold_centre).lower(lower_centre),
    OpDef::new("ReverseSequence", infer_reverse).fold(fold_reverse).lower(lower_reverse),
    OpDef::new("TensorScatter", infer_cache).fold(fold_cache).lower(lower_cache),
    OpDef::new("BitCast", infer_bits).fold(fold_bits).lower(lower_bits),
    OpDef::new("ImageDecoder", infer_image).lower(refuse_image),
];

fn infer_trilu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if t.shape.len() < 2 {
        return invalid(format!("input 0 is {t}, and Trilu takes matrices"));
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// Is element `(row, col)` kept?
fn kept(upper: bool, k: i64, row: usize, col: usize) -> bool {
    let beyond = (col as i64 - row as i64).cmp(&k);
    if upper { beyond.is_ge() } else { beyond.is_le() }
}

/// The elements at `from`; zero where it is `None`.
fn take_or_zero(x: &Tensor, shape: Vec<usize>, from: &[Option<usize>]) -> Option<Tensor> {
    let bits = x.dtype().bits();
    if bits < 8 {
        let all = x.to_i128s()?;
        let picked: Vec<i128> =
            from.iter().map(|f| f.map_or(Some(0), |i| all.get(i).copied())).collect::<Option<_>>()?;
        return Tensor::from_i128(x.dtype(), shape, &picked);
    }
    let (size, bytes) = (bits / 8, x.bytes());
    let mut out = Vec::with_capacity(from.len() * size);
    for f in from {
        match f {
            Some(i) => out.extend_from_slice(bytes.get(i * size..(i + 1) * size)?),
            None => out.resize(out.len() + size, 0),
        }
    }
    Tensor::from_raw(x.dtype(), shape, out.into())
}

fn fold_trilu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let k = if cx.node.input(1).is_some() { cx.input(1)?.scalar_i64()? } else { 0 };
    let upper = cx.node.attrs.int_or("upper", 1) != 0;
    let &[.., rows, cols] = x.shape() else { return None };
    let from: Vec<Option<usize>> =
        (0..x.len()).map(|i| Some(i).filter(|i| kept(upper, k, i / cols % rows, i % cols))).collect();
    Some(vec![take_or_zero(x, x.shape().to_vec(), &from)?])
}

/// A choice between the input and zero by a constant mask: exact for infinities and NaN, which a product is not.
fn lower_trilu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let k = if cx.has(1) { cx.need_ints(1, "k")?.first().copied().unwrap_or(0) } else { 0 };
    let upper = cx.attrs().int_or("upper", 1) != 0;
    let &[.., rows, cols] = shape.as_slice() else { return Err(Refusal::form("Trilu takes matrices")) };
    let batch = shape.iter().product::<usize>() / (rows * cols);
    let dims = dims_u32(&[batch, rows, cols]);
    let x = cx.ordered(0, &Layout::identity(shape.len()))?;
    let x = cx.reshape(x, &dims);
    let held = cx.qnn_type(x);
    let real = held.is_float();
    let x = carried(cx, x, &[]);
    // Filled for integers: the HTP's integer Select does not broadcast constants.
    let copies = if real { 1 } else { batch };
    let mask: Vec<bool> = (0..copies * rows * cols).map(|i| kept(upper, k, i / cols % rows, i % cols)).collect();
    let mask = compose::bool_constant(cx, &dims_u32(&[copies, rows, cols]), &mask);
    let zero = if real {
        cx.float_constant(&[1, 1, 1], &[0.0])
    } else {
        cx.i32_constant(&dims, &vec![0; batch * rows * cols])
    };
    let carrier = cx.qnn_type(x);
    let y = cx.op_to("ElementWiseSelect", &[mask, x, zero], carrier, &dims, &[]);
    let y = cx.cast(y, held);
    cx.alias(0, y, Layout::identity(shape.len()))
}

/// The axes that CenterCropPad changes; all of them unless the attribute says otherwise.
fn centre_axes(node: &Node, rank: usize) -> Result<Vec<usize>, String> {
    match node.attrs.ints("axes") {
        Some(axes) => {
            axes.iter().map(|&a| normalise_axis(a, rank).map_err(|e| format!("attribute axes: {e}"))).collect()
        }
        None => Ok((0..rank).collect()),
    }
}

fn infer_centre(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let wanted = cx.need_elements(1)?;
    let axes = centre_axes(cx.node, t.shape.len()).map_err(OpError::Invalid)?;
    if axes.len() != wanted.len() {
        return invalid(format!("shape has {} elements for {} axes", wanted.len(), axes.len()));
    }
    let mut shape = t.shape;
    for (a, d) in axes.into_iter().zip(wanted) {
        if d.known().is_some_and(|n| n < 0) {
            return invalid(format!("shape asks for {d} elements along axis {a}"));
        }
        shape[a] = d;
    }
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn fold_centre(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (_, shape) = cx.out_type(0)?;
    let mut from: Vec<Option<usize>> = vec![Some(0)];
    for ((&have, &want), step) in x.shape().iter().zip(&shape).zip(strides(x.shape())) {
        let position = |i: usize| {
            if want <= have {
                Some((have - want) / 2 + i)
            } else {
                i.checked_sub((want - have) / 2).filter(|p| *p < have)
            }
        };
        from = from.iter().flat_map(|base| (0..want).map(move |i| Some((*base)? + position(i)? * step))).collect();
    }
    Some(vec![take_or_zero(x, shape, &from)?])
}

/// A StridedSlice for what is cut, a Concat with zeros for each axis that grows.
fn lower_centre(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (from, to) = (cx.shape(0)?, cx.out_shape(0)?);
    let layout = cx.any_layout(0)?;
    let (from, to) = (dims_u32(&layout.apply(&from)), dims_u32(&layout.apply(&to)));
    let mut x = cx.input_in(0, &layout)?;
    let held = cx.qnn_type(x);
    x = carried(cx, x, &[]);
    for (axis, (&have, &want)) in from.iter().zip(&to).enumerate() {
        if want < have {
            let start = (have - want) / 2;
            x = compose::slice(cx, x, axis, start, start + want);
        } else if want > have {
            let before = (want - have) / 2;
            let mut pieces = vec![];
            for (place, size) in [(0, before), (1, want - have - before)] {
                if place == 1 {
                    pieces.push(x);
                }
                if size > 0 {
                    let mut dims = cx.dims(x);
                    dims[axis] = size;
                    pieces.push(zeros(cx, x, &dims));
                }
            }
            x = compose::concat(cx, &pieces, axis);
        }
    }
    let x = cx.cast(x, held);
    cx.alias(0, x, layout)
}

/// A constant of zeros in the type of `like`.
fn zeros(cx: &mut LowerCx<'_, '_>, like: TensorId, dims: &[u32]) -> TensorId {
    let count = dims.iter().map(|&d| d as usize).product();
    if cx.qnn_type(like).is_float() {
        cx.float_constant(dims, &vec![0.0; count])
    } else {
        cx.i32_constant(dims, &vec![0; count])
    }
}

/// The batch axis and the time axis.
fn sequence_axes(node: &Node) -> Result<(usize, usize), String> {
    match (node.attrs.int_or("batch_axis", 1), node.attrs.int_or("time_axis", 0)) {
        (0, 1) => Ok((0, 1)),
        (1, 0) => Ok((1, 0)),
        (b, t) => Err(format!("batch_axis is {b} and time_axis is {t}; they are 0 and 1, one each")),
    }
}

fn infer_reverse(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if t.shape.len() < 2 {
        return invalid(format!("input 0 is {t}, and ReverseSequence takes rank 2 or more"));
    }
    let (batch, time) = sequence_axes(cx.node).map_err(OpError::Invalid)?;
    if let (Some(lens), Some(size), Some(steps)) = (cx.ints(1), t.shape[batch].known(), t.shape[time].known()) {
        if lens.len() as i64 != size {
            return invalid(format!("sequence_lens has {} elements for a batch of {size}", lens.len()));
        }
        if let Some(l) = lens.iter().find(|l| **l < 0 || **l > steps) {
            return invalid(format!("a sequence length is {l}, and there are {steps} steps"));
        }
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// For every row over the two leading axes: the row that comes in its place.
fn reversed_rows(shape: &[usize], batch: usize, lens: &[i64]) -> Option<Vec<usize>> {
    let (a, b) = (*shape.first()?, *shape.get(1)?);
    (0..a * b)
        .map(|row| {
            let (i, j) = (row / b, row % b);
            let (n, t) = if batch == 0 { (i, j) } else { (j, i) };
            let len = *lens.get(n)?;
            let t = if (t as i64) < len { len as usize - 1 - t } else { t };
            Some(if batch == 0 { n * b + t } else { t * b + n })
        })
        .collect()
}

fn fold_reverse(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (batch, _) = sequence_axes(cx.node).ok()?;
    let rows = reversed_rows(x.shape(), batch, &cx.input(1)?.to_i64s()?)?;
    let inner: usize = x.shape()[2..].iter().product();
    let from = offsets(&[rows.iter().map(|r| r * inner).collect(), (0..inner).collect()]);
    Some(vec![take(x, x.shape().to_vec(), &from)?])
}

/// A Gather of rows; for run-time lengths the rows are computed in 32-bit integers.
fn lower_reverse(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let (batch, time) = sequence_axes(cx.node).map_err(Refusal::form)?;
    let (a, b) = (shape[0], shape[1]);
    let inner: usize = shape[2..].iter().product();
    let index = if cx.constant(1).is_some() {
        let rows = reversed_rows(&shape, batch, &cx.need_ints(1, "sequence_lens")?)
            .ok_or_else(|| Refusal::form("sequence_lens has not one length per sequence"))?;
        let rows: Vec<i32> = rows.into_iter().map(|r| r as i32).collect();
        cx.i32_constant(&[(a * b) as u32], &rows)
    } else {
        let lens = cx.input(1)?;
        let along = |axis: usize, n: usize| if axis == 0 { [n as u32, 1] } else { [1, n as u32] };
        let lens = cx.reshape(lens, &along(batch, shape[batch]));
        let iota = |n: usize, step: usize| (0..n).map(|i| (i * step) as i32).collect::<Vec<i32>>();
        let steps = cx.i32_constant(&along(time, shape[time]), &iota(shape[time], 1));
        let one = cx.i32_constant(&[1, 1], &[1]);
        let inside = compose::compare(cx, "ElementWiseLess", steps, lens);
        let last = compose::sub(cx, lens, one);
        let back = compose::sub(cx, last, steps);
        // Both branches in full: the HTP's integer Select does not broadcast constants.
        let zeros = cx.i32_constant(&dims_u32(&[a, b]), &vec![0; a * b]);
        let full = compose::add(cx, zeros, steps);
        let t = compose::select(cx, inside, back, full);
        let row = if time == 1 {
            let base = cx.i32_constant(&[a as u32, 1], &iota(a, b));
            compose::add(cx, t, base)
        } else {
            let width = cx.i32_constant(&[1, 1], &[b as i32]);
            let scaled = compose::mul(cx, t, width);
            let base = cx.i32_constant(&[1, b as u32], &iota(b, 1));
            compose::add(cx, scaled, base)
        };
        cx.reshape(row, &[(a * b) as u32])
    };
    let x = cx.ordered(0, &Layout::identity(shape.len()))?;
    let dims = dims_u32(&[a * b, inner]);
    let x = cx.reshape(x, &dims);
    let held = cx.qnn_type(x);
    let x = carried(cx, x, &[]);
    let carrier = cx.qnn_type(x);
    let y = cx.op_to("Gather", &[x, index], carrier, &dims, &[("axis", Param::i32(0))]);
    let y = cx.cast(y, held);
    cx.alias(0, y, Layout::identity(shape.len()))
}

/// The axis of a cache and whether positions wrap round.
fn cache_form(node: &Node, rank: usize) -> Result<(usize, bool), String> {
    let axis = normalise_axis(node.attrs.int_or("axis", -2), rank).map_err(|e| format!("attribute axis: {e}"))?;
    if axis == 0 {
        return Err("attribute axis is the batch axis".into());
    }
    match node.attrs.str_or("mode", "linear") {
        "linear" => Ok((axis, false)),
        "circular" => Ok((axis, true)),
        other => Err(format!("attribute mode is {other:?}; it is linear or circular")),
    }
}

fn infer_cache(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let update = cx.shape(1)?;
    let (axis, circular) = cache_form(cx.node, t.shape.len()).map_err(OpError::Invalid)?;
    let differ = |a: &Dim, b: &Dim| matches!((a.known(), b.known()), (Some(x), Some(y)) if x != y);
    let fits = update.len() == t.shape.len()
        && update.iter().zip(&t.shape).enumerate().all(|(i, (u, d))| i == axis || !differ(u, d));
    if !fits {
        return invalid(format!(
            "the cache is {t}, and the update is {}: only axis {axis} may differ",
            show_shape(update)
        ));
    }
    if let (Some(n), Some(size)) = (update[axis].known(), t.shape[axis].known()) {
        let first = cx.ints(2).unwrap_or_default();
        if let Some(at) = first.iter().find(|w| !circular && (**w < 0 || w.saturating_add(n) > size)) {
            return invalid(format!("{n} elements at {at} are outside a cache of {size}"));
        }
        if n > size {
            return invalid(format!("{n} elements do not fit a cache of {size}"));
        }
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// For every row of the update (axes up to and with `axis`): the row of the cache that it goes to.
fn cache_rows(shape: &[usize], update: &[usize], axis: usize, circular: bool, at: &[i64]) -> Option<Vec<usize>> {
    let (size, count) = (shape[axis], update[axis]);
    let lead: usize = shape[..axis].iter().product();
    let per_batch = lead / shape[0].max(1);
    let mut out = vec![];
    for p in 0..lead {
        let first = if at.is_empty() { 0 } else { *at.get(p / per_batch.max(1))? };
        for i in 0..count as i64 {
            let mut to = first.checked_add(i)?;
            if circular {
                to = to.rem_euclid(size as i64);
            }
            out.push(p * size + usize::try_from(to).ok().filter(|t| *t < size)?);
        }
    }
    Some(out)
}

fn fold_cache(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (x, update) = (cx.input(0)?, cx.input(1)?);
    let (axis, circular) = cache_form(cx.node, x.rank()).ok()?;
    let at = if cx.node.input(2).is_some() { cx.input(2)?.to_i64s()? } else { vec![] };
    let rows = cache_rows(x.shape(), update.shape(), axis, circular, &at)?;
    let bits = x.dtype().bits();
    let size = x.shape()[axis + 1..].iter().product::<usize>() * bits / 8;
    if bits < 8 || x.dtype() != update.dtype() {
        return None;
    }
    let (mut out, new) = (x.bytes().to_vec(), update.bytes());
    for (i, row) in rows.into_iter().enumerate() {
        out.get_mut(row * size..(row + 1) * size)?.copy_from_slice(new.get(i * size..(i + 1) * size)?);
    }
    Some(vec![Tensor::from_raw(x.dtype(), x.shape().to_vec(), out.into())?])
}

/// Slices and a Concat for one constant position; otherwise ScatterNd over rows, whose numbers are computed.
fn lower_cache(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, update) = (cx.shape(0)?, cx.shape(1)?);
    let (axis, circular) = cache_form(cx.node, shape.len()).map_err(Refusal::form)?;
    let (size, count) = (shape[axis], update[axis]);
    let at = match (cx.has(2), cx.constant(2).is_some()) {
        (false, _) => Some(vec![0]),
        (true, true) => Some(cx.need_ints(2, "write_indices")?),
        (true, false) => None,
    };
    if let Some(first) = at.as_ref().and_then(|v| v.first()).filter(|f| at.iter().flatten().all(|v| v == *f)) {
        let first = if circular { first.rem_euclid(size as i64) } else { *first };
        if let Some(end) = usize::try_from(first).ok().and_then(|f| f.checked_add(count)).filter(|e| *e <= size) {
            return lower_cache_in_place(cx, axis, end - count, end);
        }
    }
    let lead: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let rows = lead * count;
    let index = if let Some(at) = at {
        let targets = cache_rows(&shape, &update, axis, circular, &at)
            .ok_or_else(|| Refusal::form(format!("write_indices {at:?} are outside a cache of {size}")))?;
        let v: Vec<i32> = targets.into_iter().map(|t| t as i32).collect();
        cx.i32_constant(&[rows as u32, 1], &v)
    } else {
        if circular {
            return Err(Refusal::form("mode is circular, and write_indices are computed at run time")
                .fix("keep write_indices below the cache's size and use mode linear"));
        }
        let batch = shape[0];
        let base: Vec<i32> = (0..rows).map(|r| (r / count * size + r % count) as i32).collect();
        let base = cx.i32_constant(&dims_u32(&[batch, lead / batch, count]), &base);
        let first = cx.input(2)?;
        let first = cx.reshape(first, &[batch as u32, 1, 1]);
        let index = compose::add(cx, base, first);
        cx.reshape(index, &[rows as u32, 1])
    };
    let identity = Layout::identity(shape.len());
    let (x, new) = (cx.ordered(0, &identity)?, cx.ordered(1, &identity)?);
    let dims = dims_u32(&[lead * size, inner]);
    let x = cx.reshape(x, &dims);
    let new = cx.reshape(new, &dims_u32(&[rows, inner]));
    let held = cx.qnn_type(x);
    let takes = [QnnType::BOOL_8];
    let (x, new) = (carried(cx, x, &takes), carried(cx, new, &takes));
    let carrier = cx.qnn_type(x);
    let y = cx.op_to("ScatterNd", &[x, index, new], carrier, &dims, &[("reduction", Param::u32(0))]);
    let y = cx.cast(y, held);
    cx.alias(0, y, identity)
}

/// `start..end` of `axis` replaced.
fn lower_cache_in_place(cx: &mut LowerCx<'_, '_>, axis: usize, start: usize, end: usize) -> Result<(), Refusal> {
    let size = cx.shape(0)?[axis];
    let layout = cx.common_layout(&[0, 1])?;
    let at = layout.physical(axis);
    let (x, new) = (cx.input_in(0, &layout)?, cx.input_in(1, &layout)?);
    let held = cx.qnn_type(x);
    let (x, new) = (carried(cx, x, &[]), carried(cx, new, &[]));
    let mut pieces = vec![];
    if start > 0 {
        pieces.push(compose::slice(cx, x, at, 0, start as u32));
    }
    pieces.push(new);
    if end < size {
        pieces.push(compose::slice(cx, x, at, end as u32, size as u32));
    }
    let y = compose::concat(cx, &pieces, at);
    let y = cx.cast(y, held);
    cx.alias(0, y, layout)
}

fn infer_bits(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if cx.node.attrs.int("to").is_none() {
        return invalid("attribute to is required");
    }
    let to = dtype_attr(&cx.node.attrs, "to", t.dtype)?;
    if to.bits() != t.dtype.bits() || to == DataType::String {
        return invalid(format!("{} has {} bits, and {to} has {}", t.dtype, t.dtype.bits(), to.bits()));
    }
    cx.set(0, to, t.shape);
    Ok(())
}

fn fold_bits(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (to, shape) = cx.out_type(0)?;
    Some(vec![Tensor::from_raw(to, shape, cx.input(0)?.bytes())?])
}

fn lower_bits(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (from, to) = (cx.dtype(0)?, cx.out_dtype(0)?);
    // Short integers are held as int32 (see `infer::packed_edges`), so that int8 read as uint8 is int32 to uint8 here.
    let as_cast = [
        (DataType::Bool, DataType::U8),
        (DataType::U32, DataType::I32),
        (DataType::I32, DataType::U32),
        (DataType::I32, DataType::U8),
    ];
    if as_cast.contains(&(from, to)) {
        let layout = cx.any_layout(0)?;
        let x = cx.input_in(0, &layout)?;
        let y = super::cast::convert(cx, x, from, to)?;
        return cx.alias(0, y, layout);
    }
    if from != to {
        return Err(Refusal::form(format!("the bits of {from} are read as {to}, and QNN has no op for that")));
    }
    for (layout, t) in cx.places(0)? {
        cx.alias(0, t, layout)?;
    }
    Ok(())
}

fn infer_image(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let channels = if cx.node.attrs.str_or("pixel_format", "RGB") == "Grayscale" { 1 } else { 3 };
    let size = |what: &str| Dim::symbol(format!("{}.{what}", cx.node.name));
    let shape: Shape = vec![size("height"), size("width"), Dim::Known(channels)];
    cx.set(0, DataType::U8, shape);
    Ok(())
}

fn refuse_image(_: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::form("image files are decoded on the CPU").fix("decode the image before the model"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types, ramp};

    #[test]
    fn triangles() {
        let x: Vec<f32> = (1..=6).map(|i| i as f32).collect();
        let n = node("Trilu", 14).floats(&[2, 3], &x);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
        let n = node("Trilu", 14).float(&[2, 2, 2]).constant(Tensor::from_i64(vec![], &[-1])).int("upper", 0);
        let got = n.run(&[vec![f64::INFINITY, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]);
        assert_eq!(got[0], [0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 7.0, 0.0]);
    }

    #[test]
    fn centre() {
        let x: Vec<f32> = (0..5).map(|i| i as f32).collect();
        let n = node("CenterCropPad", 18).floats(&[5], &x).ints(&[2]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 2.0]);
        let n = node("CenterCropPad", 18).floats(&[1, 2], &[1.0, 2.0]).ints(&[2, 5]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let n = node("CenterCropPad", 18).float(&[3, 2]).ints(&[2, 3]);
        assert_eq!(n.run(&[ramp(6, 1.0, 1.0)])[0], [1.0, 2.0, 0.0, 3.0, 4.0, 0.0]);
        let n = node("CenterCropPad", 18).float(&[3, -1]).ints(&[2]).int_list("axes", &[-1]);
        assert_eq!(n.types(), ["float32[3, 2]"]);
    }

    #[test]
    fn sequences() {
        let want = [3.0, 6.0, 9.0, 12.0, 2.0, 5.0, 8.0, 13.0, 1.0, 4.0, 10.0, 14.0, 0.0, 7.0, 11.0, 15.0];
        let x = [0.0, 4.0, 8.0, 12.0, 1.0, 5.0, 9.0, 13.0, 2.0, 6.0, 10.0, 14.0, 3.0, 7.0, 11.0, 15.0];
        let wide: Vec<f64> = x.iter().map(|v: &f32| f64::from(*v)).collect();
        let n = node("ReverseSequence", 10).floats(&[4, 4], &x).ints(&[4, 3, 2, 1]);
        assert_eq!(n.fold().unwrap()[0].to_f64s().unwrap(), want);
        let n = node("ReverseSequence", 10).float(&[4, 4]).ints(&[4, 3, 2, 1]);
        assert_eq!(n.run(std::slice::from_ref(&wide))[0], want);
        let n = node("ReverseSequence", 10).float(&[4, 4]).input(DataType::I64, &[4]);
        assert_eq!(n.run(&[wide, vec![4.0, 3.0, 2.0, 1.0]])[0], want);
        let n = node("ReverseSequence", 10).float(&[2, 3]).input(DataType::I64, &[2]);
        let n = n.int("batch_axis", 0).int("time_axis", 1);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0), vec![2.0, 3.0]])[0], [1.0, 0.0, 2.0, 5.0, 4.0, 3.0]);
    }

    #[test]
    fn caches() {
        let n = node("TensorScatter", 24).floats(&[1, 4, 1], &[0.0; 4]).floats(&[1, 2, 1], &[1.0, 2.0]).ints(&[3]);
        assert!(n.error().contains("outside a cache of 4"));
        let n = n.text("mode", "circular");
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [2.0, 0.0, 0.0, 1.0]);
        let n = node("TensorScatter", 24).float(&[1, 4, 1]).float(&[1, 2, 1]).ints(&[1]);
        assert_eq!(op_types(&n.lower().unwrap()), ["StridedSlice", "StridedSlice", "Concat"]);
        assert_eq!(n.run(&[vec![0.0; 4], vec![1.0, 2.0]])[0], [0.0, 1.0, 2.0, 0.0]);
        let n = node("TensorScatter", 24).float(&[2, 3, 4, 2]).float(&[2, 3, 1, 2]).input(DataType::I64, &[2]);
        assert!(op_types(&n.lower().unwrap()).contains(&"ScatterNd"));
    }

    #[test]
    fn bits() {
        let n = node("BitCast", 26).floats(&[1], &[1.0]).int("to", 6);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [0x3f80_0000]);
        let n = node("BitCast", 26).input(DataType::Bool, &[2]).int("to", 2);
        assert_eq!(n.run(&[vec![1.0, 0.0]])[0], [1.0, 0.0]);
        assert!(node("BitCast", 26).float(&[1]).int("to", 6).refusal().contains("bits of float32"));
        assert_eq!(node("BitCast", 26).float(&[1]).int("to", 7).error(), "float32 has 32 bits, and int64 has 64");
    }
}
