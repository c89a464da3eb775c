//! Concat, Split, and the sequences that Split makes.

use bytes::Bytes;

use super::movement::{carried, dims_u32, merged, offsets, take, whole};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{Dim, Shape, Tensor, ValueType, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Concat", infer_concat).fold(fold_concat).lower(lower_concat),
    OpDef::new("Split", infer_split).fold(fold_split).lower(lower_split),
    OpDef::new("SplitToSequence", infer_to_sequence).lower(refuse_sequence),
    OpDef::new("SequenceAt", infer_sequence_at).lower(refuse_sequence),
];

/// Types that the HTP's Concat and Split take besides real numbers.
const TAKES: [QnnType; 1] = [QnnType::BOOL_8];

fn infer_concat(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let n = cx.node.inputs.len();
    let first = cx.ty(0)?.clone();
    let rank = first.shape.len();
    let axis = concat_axis(cx)?;
    let mut shape = first.shape.clone();
    for i in 1..n {
        let t = cx.ty(i)?;
        if t.dtype != first.dtype {
            return invalid(format!("input 0 is {}, and input {i} is {}", first.dtype, t.dtype));
        }
        if t.shape.len() != rank {
            return invalid(format!("input 0 is {first}, and input {i} is {t}: the ranks differ"));
        }
        for (a, (have, d)) in shape.iter_mut().zip(&t.shape).enumerate() {
            if a == axis {
                *have = have.add(d);
            } else if let (Some(x), Some(y)) = (have.known(), d.known()) {
                if x != y {
                    return invalid(format!(
                        "dimension {a} is {x} in input 0 ({first}) and {y} in input {i} ({t}), and only axis {axis} may differ"
                    ));
                }
            } else if d.known().is_some() {
                *have = d.clone();
            }
        }
    }
    cx.set(0, first.dtype, shape);
    if axis == 0 {
        let parts: Option<Vec<Vec<Dim>>> = (0..n).map(|i| cx.elements(i)).collect();
        if let Some(parts) = parts {
            cx.set_elements(0, parts.concat());
        }
    }
    Ok(())
}

fn concat_axis(cx: &InferCx<'_>) -> Result<usize, OpError> {
    let rank = cx.rank(0)?;
    if cx.node.attrs.int("axis").is_none() && cx.node.version >= 4 {
        return invalid("attribute axis is required");
    }
    if rank == 0 {
        return invalid("scalars cannot be joined; Unsqueeze them first");
    }
    cx.axis("axis", 1, rank)
}

fn fold_concat(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let parts: Vec<&Tensor> = (0..cx.node.inputs.len()).map(|i| cx.input(i)).collect::<Option<_>>()?;
    let first = *parts.first()?;
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 1), first.rank()).ok()?;
    let mut shape = first.shape().to_vec();
    shape[axis] = parts.iter().map(|p| p.shape()[axis]).sum();
    let outer: usize = shape[..axis].iter().product();
    let bits = first.dtype().bits();
    if bits < 8 {
        let inner: usize = shape[axis + 1..].iter().product();
        let values: Vec<Vec<i128>> = parts.iter().map(|p| p.to_i128s()).collect::<Option<_>>()?;
        let mut out = vec![];
        for o in 0..outer {
            for (p, v) in parts.iter().zip(&values) {
                let row = p.shape()[axis] * inner;
                out.extend_from_slice(v.get(o * row..(o + 1) * row)?);
            }
        }
        return Some(vec![Tensor::from_i128(first.dtype(), shape, &out)?]);
    }
    let bytes: Vec<Bytes> = parts.iter().map(|p| p.bytes()).collect();
    let mut out = Vec::with_capacity(bytes.iter().map(Bytes::len).sum());
    for o in 0..outer {
        for b in &bytes {
            let row = b.len() / outer;
            out.extend_from_slice(b.get(o * row..(o + 1) * row)?);
        }
    }
    Some(vec![Tensor::from_raw(first.dtype(), shape, out.into())?])
}

/// One Concat in the layout that most inputs have. Constant inputs of size 0 add nothing.
fn lower_concat(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let rank = cx.rank(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", 1), rank).map_err(Refusal::form)?;
    let mut inputs = vec![];
    for i in 0..cx.node.inputs.len() {
        if !cx.shape(i)?.contains(&0) {
            inputs.push(i);
        }
    }
    if let [one] = inputs[..] {
        for (layout, t) in cx.places(one)? {
            cx.alias(0, t, layout)?;
        }
        return Ok(());
    }
    let layout = cx.common_layout(&inputs)?;
    let keys: Vec<Option<()>> = layout.order().iter().map(|&a| (a == axis).then_some(())).collect();
    let mut pieces = vec![];
    let mut out: Vec<u32> = vec![];
    let mut at = 0;
    let mut dtype = cx.float();
    for i in inputs {
        let dims = dims_u32(&layout.apply(&cx.shape(i)?));
        let t = if rank > 5 { cx.ordered(i, &layout)? } else { cx.input_in(i, &layout)? };
        let (dims, keys) = if rank > 5 { merged(&dims, &keys) } else { (dims, keys.clone()) };
        let t = cx.reshape(t, &dims);
        dtype = cx.qnn_type(t);
        pieces.push(carried(cx, t, &TAKES));
        at = keys.iter().position(Option::is_some).unwrap_or(0);
        let sum = out.get(at).copied().unwrap_or(0).saturating_add(dims[at]);
        out = dims;
        out[at] = sum;
    }
    let carrier = pieces.first().map_or(dtype, |p| cx.qnn_type(*p));
    let y = cx.op_to("Concat", &pieces, carrier, &out, &[("axis", Param::u32(at as u32))]);
    let y = cx.cast(y, dtype);
    cx.alias(0, y, layout)
}

/// Sizes of the pieces of an axis of `size`: given, or equal for `n` pieces (the last may be smaller from opset 18 on).
fn pieces(size: &Dim, given: Option<&[i64]>, n: usize, version: i64) -> Result<Vec<Dim>, String> {
    if n == 0 {
        return Err("a Split into no outputs".into());
    }
    if let Some(sizes) = given {
        let sum: i64 = sizes.iter().fold(0, |a, s| a.saturating_add(*s));
        if let Some(s) = sizes.iter().find(|s| **s < 0) {
            return Err(format!("split {sizes:?} has the negative size {s}"));
        }
        if let Some(size) = size.known().filter(|size| *size != sum) {
            return Err(format!("split {sizes:?} sums to {sum}, and the axis has {size} elements"));
        }
        if sizes.len() != n {
            return Err(format!("split {sizes:?} has {} elements for {n} outputs", sizes.len()));
        }
        return Ok(sizes.iter().map(|&s| Dim::Known(s)).collect());
    }
    let count = n as i64;
    let Some(size) = size.known() else {
        let each = size.floor_div(&Dim::Known(count)).unwrap_or(Dim::Known(0));
        if each.mul(&Dim::Known(count)) == *size || version < 18 {
            return Ok(vec![each; n]);
        }
        let each = size.add(&Dim::Known(count - 1)).floor_div(&Dim::Known(count)).unwrap_or(Dim::Known(0));
        let last = size.sub(&each.mul(&Dim::Known(count - 1)));
        let mut out = vec![each; n];
        out[n - 1] = last;
        return Ok(out);
    };
    if version < 18 && size % count != 0 {
        return Err(format!("an axis of {size} elements does not split evenly into {n} outputs"));
    }
    let each = size.saturating_add(count - 1) / count;
    let mut out = vec![Dim::Known(each); n];
    let last = size - each.saturating_mul(count - 1);
    if last < 0 {
        return Err(format!("an axis of {size} elements does not split into {n} outputs of {each}"));
    }
    out[n - 1] = Dim::Known(last);
    Ok(out)
}

/// How many pieces a Split node makes.
fn piece_count(node: &crate::ir::Node) -> usize {
    let asked = if node.version >= 18 { node.attrs.int("num_outputs") } else { None };
    asked.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= 1 << 16).unwrap_or(node.outputs.len())
}

fn infer_split(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let axis = cx.axis("axis", 0, t.shape.len())?;
    let given = if cx.node.version < 13 {
        cx.node.attrs.ints("split").map(<[i64]>::to_vec)
    } else if cx.has(1) {
        Some(cx.need_ints(1)?)
    } else {
        None
    };
    let n = given.as_ref().map_or_else(|| piece_count(cx.node), Vec::len);
    if cx.node.outputs.len() > n {
        return invalid(format!("{} outputs, and the axis is split into {n}", cx.node.outputs.len()));
    }
    let sizes = pieces(&t.shape[axis], given.as_deref(), n, cx.node.version).map_err(OpError::Invalid)?;
    let known = cx.elements(0).filter(|_| axis == 0 && t.shape.len() == 1);
    let mut at = 0usize;
    for (slot, size) in sizes.into_iter().enumerate() {
        if let (Some(all), Some(count)) = (&known, size.known()) {
            let end = at.saturating_add(count as usize);
            if let Some(part) = all.get(at..end) {
                cx.set_elements(slot, part.to_vec());
            }
            at = end;
        }
        let mut shape = t.shape.clone();
        shape[axis] = size;
        cx.set(slot, t.dtype, shape);
    }
    Ok(())
}

fn fold_split(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 0), x.rank()).ok()?;
    let all = whole(x.shape());
    let mut at = 0;
    let mut out = vec![];
    for slot in 0..cx.node.outputs.len() {
        let (_, shape) = cx.out_type(slot)?;
        let mut tables = all.clone();
        tables[axis] = all[axis].get(at..at + shape[axis])?.to_vec();
        at += shape[axis];
        out.push(take(x, shape, &offsets(&tables))?);
    }
    Some(out)
}

/// One Split in whatever layout there is; StridedSlices where only some of the pieces are wanted.
fn lower_split(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", 0), shape.len()).map_err(Refusal::form)?;
    let given = if cx.version() < 13 {
        cx.attrs().ints("split").map(<[i64]>::to_vec)
    } else if cx.has(1) {
        Some(cx.need_ints(1, "split")?)
    } else {
        None
    };
    let n = given.as_ref().map_or_else(|| piece_count(cx.node), Vec::len);
    let sizes = pieces(&shape[axis].into(), given.as_deref(), n, cx.version()).map_err(Refusal::form)?;
    let sizes: Vec<u32> = sizes.iter().filter_map(|d| u32::try_from(d.known()?).ok()).collect();
    if n == 1 {
        for (layout, t) in cx.places(0)? {
            cx.alias(0, t, layout)?;
        }
        return Ok(());
    }
    let layout = cx.any_layout(0)?;
    let dims = dims_u32(&layout.apply(&shape));
    let x = cx.ordered(0, &layout)?;
    let keys: Vec<Option<()>> = layout.order().iter().map(|&a| (a == axis).then_some(())).collect();
    let (dims, keys) = if dims.len() > 5 { merged(&dims, &keys) } else { (dims, keys) };
    let at = keys.iter().position(Option::is_some).unwrap_or(0);
    let x = cx.reshape(x, &dims);
    let dtype = cx.qnn_type(x);
    let x = carried(cx, x, &TAKES);
    let mut outputs = vec![];
    for &size in &sizes {
        let mut dims = dims.clone();
        dims[at] = size;
        outputs.push(dims);
    }
    let wanted: Vec<usize> = (0..n).filter(|&s| cx.wants(s)).collect();
    if wanted.len() == n && !sizes.contains(&0) {
        let pieces: Vec<TensorId> = outputs.iter().map(|d| cx.temp_like(x, d)).collect();
        let starts: Vec<u32> = sizes
            .iter()
            .scan(0, |sum, s| {
                *sum += s;
                Some(*sum)
            })
            .take(n - 1)
            .collect();
        cx.op("Split", &[x], &pieces, &[("axis", Param::u32(at as u32)), ("split_index", Param::u32s(&starts))]);
        for (slot, piece) in pieces.into_iter().enumerate() {
            let y = cx.cast(piece, dtype);
            cx.alias(slot, y, layout.clone())?;
        }
        return Ok(());
    }
    // StridedSlice takes no booleans; bytes are as good.
    let x = if cx.qnn_type(x) == QnnType::BOOL_8 { cx.cast(x, QnnType::UINT_8) } else { x };
    for slot in wanted {
        if sizes[slot] == 0 {
            // A value without elements is a constant, and nobody reads its tensor.
            cx.alias(slot, x, layout.clone())?;
            continue;
        }
        let start: u32 = sizes[..slot].iter().sum();
        let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
        ranges[at] = [start as i32, (start + sizes[slot]) as i32, 1];
        let carrier = cx.qnn_type(x);
        let y = cx.op_to("StridedSlice", &[x], carrier, &outputs[slot], &[("ranges", Param::triples(&ranges))]);
        let y = cx.cast(y, dtype);
        cx.alias(slot, y, layout.clone())?;
    }
    Ok(())
}

fn infer_to_sequence(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.axis("axis", 0, t.shape.len())?;
    if let Some(o) = cx.out.first_mut() {
        o.ty = ValueType::Other(format!("sequence of {} pieces of {t}", t.dtype));
    }
    Ok(())
}

/// The element of a sequence that a SplitToSequence node makes.
fn infer_sequence_at(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let Some((producer, _)) = cx.node.input(0).and_then(|v| cx.graph.value(v).producer) else {
        return Err(OpError::UnknownInput(0));
    };
    let source = cx.graph.node(producer);
    if !source.is("SplitToSequence") {
        return Err(OpError::UnknownInput(0));
    }
    let split = InferCx::new(cx.graph, source);
    let (dtype, shape) = (split.dtype(0)?, split.shape(0)?.clone());
    let index = cx.need_ints(1)?.first().copied().unwrap_or(0);
    let shape = piece_shape(&split, &shape, index)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The shape of piece `index` of a SplitToSequence node.
fn piece_shape(split: &InferCx<'_>, shape: &Shape, index: i64) -> Result<Shape, OpError> {
    let axis = split.axis("axis", 0, shape.len())?;
    let size = &shape[axis];
    let mut out = shape.clone();
    if !split.has(1) {
        if split.node.attrs.int_or("keepdims", 1) == 0 {
            out.remove(axis);
        } else {
            out[axis] = Dim::Known(1);
        }
        return Ok(out);
    }
    let scalar = split.rank(1)? == 0;
    let given = split.need_ints(1)?;
    let sizes = if scalar {
        let each = given.first().copied().unwrap_or(0);
        let (Some(size), true) = (size.known(), each > 0) else {
            return Err(OpError::DataDependent(format!(
                "pieces of {each} of an axis of {size} elements are not known at compile time"
            )));
        };
        (0..(size / each).min(1 << 16)).map(|_| each).chain((size % each != 0).then_some(size % each)).collect()
    } else {
        given
    };
    let at = if index < 0 { index.saturating_add(sizes.len() as i64) } else { index };
    match usize::try_from(at).ok().and_then(|i| sizes.get(i)) {
        Some(&s) => out[axis] = Dim::Known(s),
        None => {
            return invalid(format!(
                "position {index} of a sequence of {} pieces of {}",
                sizes.len(),
                show_shape(shape)
            ));
        }
    }
    Ok(out)
}

fn refuse_sequence(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::form(format!("{} works on a sequence, and QNN has only tensors", cx.node.op_type))
        .fix("use Split, whose outputs are tensors"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::testing::{node, op_types, param, ramp};

    #[test]
    fn sizes_add_up_along_the_axis() {
        let n = node("Concat", 13).float(&[1, 2, -1, 8]).float(&[1, 2, -2, 8]).int("axis", 2);
        assert_eq!(n.types(), ["float32[1, 2, d1 + d2, 8]"]);
        let n = node("Concat", 13).float(&[-1, 2]).float(&[3, 2]).int("axis", -1);
        assert_eq!(n.types(), ["float32[3, 4]"]);
        assert_eq!(
            node("Concat", 13).float(&[1, 2]).float(&[3, 2]).int("axis", 1).error(),
            "dimension 0 is 1 in input 0 (float32[1, 2]) and 3 in input 1 (float32[3, 2]), and only axis 1 may differ"
        );
        assert_eq!(node("Concat", 13).float(&[1]).error(), "attribute axis is required");
    }

    #[test]
    fn shape_arithmetic_is_joined() {
        let n = node("Concat", 13).elements(DataType::I64, &[1], vec![Dim::symbol("b")]).ints(&[-1]).int("axis", 0);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::symbol("b"), Dim::Known(-1)]));
    }

    #[test]
    fn constants_are_joined() {
        let n = node("Concat", 13).floats(&[2, 1], &[1.0, 2.0]).floats(&[2, 2], &[3.0, 4.0, 5.0, 6.0]).int("axis", 1);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
        let t = |v: &[i128]| Tensor::from_i128(DataType::U4, vec![v.len(), 1], v).unwrap();
        let n = node("Concat", 21).constant(t(&[1, 2, 3])).constant(t(&[15])).int("axis", 0);
        assert_eq!(n.fold().unwrap()[0].to_i128s().unwrap(), [1, 2, 3, 15]);
    }

    #[test]
    fn one_concat_and_nothing_for_an_empty_piece() {
        let n = node("Concat", 13).float(&[2, 1]).floats(&[2, 2], &[3.0, 4.0, 5.0, 6.0]).int("axis", 1);
        assert_eq!(op_types(&n.lower().unwrap()), ["Concat"]);
        assert_eq!(n.run(&[vec![1.0, 2.0]])[0], [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
        let n = node("Concat", 13).float(&[2, 1]).floats(&[2, 0], &[]).int("axis", 1);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape"]);
    }

    #[test]
    fn bytes_are_joined_as_integers() {
        let n = node("Concat", 13).input(DataType::U8, &[2]).input(DataType::U8, &[1]).int("axis", 0);
        assert_eq!(op_types(&n.lower().unwrap()), ["Cast", "Cast", "Concat", "Cast"]);
    }

    #[test]
    fn pieces_of_an_axis() {
        assert_eq!(node("Split", 11).float(&[6, 2]).outputs(3).types(), ["float32[2, 2]"; 3]);
        let n = node("Split", 11).float(&[6]).int_list("split", &[2, 4]).outputs(2);
        assert_eq!(n.types(), ["float32[2]", "float32[4]"]);
        let n = node("Split", 18).float(&[7]).int("num_outputs", 3).outputs(3);
        assert_eq!(n.types(), ["float32[3]", "float32[3]", "float32[1]"]);
        let n = node("Split", 13).float(&[1, -1]).int("axis", 1).outputs(2);
        assert_eq!(n.types()[0], "float32[1, floor((d1)/(2))]");
        assert_eq!(
            node("Split", 13).float(&[6]).ints(&[2, 3]).outputs(2).error(),
            "split [2, 3] sums to 5, and the axis has 6 elements"
        );
        assert!(node("Split", 13).float(&[7]).outputs(2).error().contains("does not split evenly"));
    }

    #[test]
    fn constants_are_split() {
        let n =
            node("Split", 13).floats(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).ints(&[1, 2]).int("axis", -1).outputs(2);
        let out = n.fold().unwrap();
        assert_eq!(out[0].to_f32s().unwrap(), [0.0, 3.0]);
        assert_eq!(out[1].to_f32s().unwrap(), [1.0, 2.0, 4.0, 5.0]);
    }

    #[test]
    fn one_split_or_slices_of_what_is_wanted() {
        let n = node("Split", 13).float(&[2, 3]).ints(&[1, 2]).int("axis", 1).outputs(2);
        let g = n.lower().unwrap();
        assert_eq!(op_types(&g), ["Split"]);
        assert_eq!(param(&g, 0, "split_index"), Some(Param::u32s(&[1])));
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0)]), [vec![0.0, 3.0], vec![1.0, 2.0, 4.0, 5.0]]);
        let n = n.no_output(0);
        assert_eq!(op_types(&n.lower().unwrap()), ["StridedSlice"]);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0)]), [vec![1.0, 2.0, 4.0, 5.0]]);
    }
}
