//! Tile and Expand: elements repeated along axes.

use super::movement::{carried, dims_u32, follow, merged, offsets, take, whole};
use super::{FoldCx, InferCx, OpDef, OpError, broadcast, invalid};
use crate::ir::{Dim, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal, reshaped_layout};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Tile", infer_tile).fold(fold_repeated).lower(lower_tile),
    OpDef::new("Expand", infer_expand).fold(fold_repeated).lower(lower_expand),
];

fn infer_tile(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let repeats = cx.need_elements(1)?;
    if repeats.len() != t.shape.len() {
        return invalid(format!("repeats has {} elements, and input 0 is {t}", repeats.len()));
    }
    if repeats.iter().any(|d| d.known().is_some_and(|n| n < 0)) {
        return invalid(format!("repeats {} has a negative number", show_shape(&repeats)));
    }
    let shape: Vec<Dim> = t.shape.iter().zip(&repeats).map(|(d, r)| d.mul(r)).collect();
    cx.set(0, t.dtype, shape);
    follow_repeated(cx);
    Ok(())
}

fn infer_expand(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let wanted = cx.need_elements(1)?;
    if wanted.iter().any(|d| d.known().is_some_and(|n| n < 0)) {
        return invalid(format!("shape {} has a negative dimension", show_shape(&wanted)));
    }
    let shape = broadcast(&t.shape, &wanted)?;
    cx.set(0, t.dtype, shape);
    follow_repeated(cx);
    Ok(())
}

fn follow_repeated(cx: &mut InferCx<'_>) {
    let (Ok(t), Some(out)) = (cx.ty(0), cx.out.first().and_then(|o| o.ty.tensor().cloned())) else { return };
    let (Some(from), Some(to)) = (t.static_shape(), out.static_shape()) else { return };
    if to.iter().try_fold(1usize, |a, &d| a.checked_mul(d)).is_some_and(|n| n <= super::movement::ELEMENTS_LIMIT) {
        follow(cx, 0, || Some(repeated(&from, &to)));
    }
}

/// Offsets of the elements of a tensor of shape `from`, repeated to fill `to` (trailing axes aligned).
fn repeated(from: &[usize], to: &[usize]) -> Vec<usize> {
    let missing = to.len() - from.len().min(to.len());
    let tables = whole(from);
    let filled: Vec<Vec<usize>> = to
        .iter()
        .enumerate()
        .map(|(i, &d)| match i.checked_sub(missing).map(|a| &tables[a]) {
            Some(table) => (0..d).filter_map(|k| table.get(k % table.len().max(1)).copied()).collect(),
            None => vec![0; d],
        })
        .collect();
    offsets(&filled)
}

fn fold_repeated(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (_, shape) = cx.out_type(0)?;
    if x.splat_element().is_some() {
        return Some(vec![take(x, shape, &[])?]);
    }
    let offsets = repeated(x.shape(), &shape);
    Some(vec![take(x, shape, &offsets)?])
}

/// Output 0 is `t`, whose dims are in `layout`, repeated along its axes.
fn give_repeated(
    cx: &mut LowerCx<'_, '_>,
    t: TensorId,
    dims: &[u32],
    multiples: &[u32],
    layout: Layout,
) -> Result<(), Refusal> {
    let keys: Vec<Option<u32>> = multiples.iter().map(|&m| (m != 1).then_some(m)).collect();
    // The HTP's Tile takes rank 4 for integers: axes that are not repeated are joined.
    let (dims, keys) = if dims.len() > 4 { merged(dims, &keys) } else { (dims.to_vec(), keys) };
    let t = cx.reshape(t, &dims);
    let dtype = cx.qnn_type(t);
    let t = carried(cx, t, &[QnnType::BOOL_8]);
    let multiples: Vec<u32> = keys.iter().map(|k| k.unwrap_or(1)).collect();
    let out: Vec<u32> = dims.iter().zip(&multiples).map(|(d, m)| d.saturating_mul(*m)).collect();
    let carrier = cx.qnn_type(t);
    let y = cx.op_to("Tile", &[t], carrier, &out, &[("multiples", Param::u32s(&multiples))]);
    let y = cx.cast(y, dtype);
    cx.alias(0, y, layout)
}

fn give_same(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (from, to) = (cx.shape(0)?, cx.out_shape(0)?);
    for (layout, t) in cx.places(0)? {
        if let Some(layout) = reshaped_layout(&from, &layout, &to) {
            cx.alias(0, t, layout)?;
        }
    }
    Ok(())
}

fn lower_tile(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let repeats = cx.need_ints(1, "repeats")?;
    if repeats.iter().all(|&r| r == 1) {
        return give_same(cx);
    }
    let layout = cx.any_layout(0)?;
    let dims = dims_u32(&layout.apply(&cx.shape(0)?));
    let multiples: Vec<u32> = layout.apply(&repeats).iter().map(|&r| r as u32).collect();
    let t = cx.ordered(0, &layout)?;
    give_repeated(cx, t, &dims, &multiples, layout)
}

fn lower_expand(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (from, to) = (cx.shape(0)?, cx.out_shape(0)?);
    if from.iter().product::<usize>() == to.iter().product::<usize>() {
        return give_same(cx);
    }
    let mut full = vec![1; to.len() - from.len().min(to.len())];
    full.extend(&from);
    let (before, layout) = cx
        .places(0)?
        .into_iter()
        .find_map(|(l, _)| Some((l.clone(), reshaped_layout(&from, &l, &full)?)))
        .ok_or_else(|| Refusal::form(format!("{from:?} does not expand to {to:?}")))?;
    let t = cx.ordered(0, &before)?;
    let dims = dims_u32(&layout.apply(&full));
    let wanted = dims_u32(&layout.apply(&to));
    let multiples: Vec<u32> = dims.iter().zip(&wanted).map(|(&d, &w)| if d == w { 1 } else { w }).collect();
    give_repeated(cx, t, &dims, &multiples, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::testing::{node, op_types, param};

    #[test]
    fn tile() {
        let n = node("Tile", 13).float(&[2, -1]).ints(&[2, 3]);
        assert_eq!(n.types(), ["float32[4, 3*d1]"]);
        assert_eq!(
            node("Tile", 13).float(&[2, 2]).ints(&[2]).error(),
            "repeats has 1 elements, and input 0 is float32[2, 2]"
        );
        let n = node("Tile", 13).floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).ints(&[1, 2]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
        let n = node("Tile", 13).float(&[2, 2]).ints(&[1, 2]);
        let g = n.lower().unwrap();
        assert_eq!(param(&g, 0, "multiples"), Some(Param::u32s(&[1, 2])));
        assert_eq!(n.run(&[vec![1.0, 2.0, 3.0, 4.0]])[0], [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    }

    #[test]
    fn expand() {
        let n = node("Expand", 13).float(&[3, 1]).ints(&[2, 1, 4]);
        assert_eq!(n.types(), ["float32[2, 3, 4]"]);
        let n = node("Expand", 13).float(&[1, -1]).elements(DataType::I64, &[2], vec![Dim::symbol("b"), Dim::Known(1)]);
        assert_eq!(n.types(), ["float32[b, d1]"]);
        assert!(node("Expand", 13).float(&[3]).ints(&[4]).error().contains("do not broadcast"));
        let n = node("Expand", 13).floats(&[2, 1], &[1.0, 2.0]).ints(&[1, 2, 3]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        let n = node("Expand", 13).float(&[2, 1]).ints(&[2, 2, 3]);
        assert_eq!(n.run(&[vec![1.0, 2.0]])[0], [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    }

    #[test]
    fn what_repeats_nothing_is_no_op() {
        let n = node("Expand", 13).float(&[3, 1]).ints(&[1, 1, 1]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape"]);
    }

    #[test]
    fn integers_of_rank_five_repeat_in_rank_four() {
        let n = node("Tile", 13).input(DataType::I32, &[2, 2, 2, 1, 2]).ints(&[1, 1, 1, 3, 1]);
        let g = n.lower().unwrap();
        let tile = g.ops.iter().find(|o| o.op_type == "Tile").unwrap();
        assert_eq!(g.tensor(tile.inputs[0]).dims, [8, 1, 2]);
    }

    #[test]
    fn expanded_shapes_stay_expressions() {
        let n = node("Expand", 13).elements(DataType::I64, &[1], vec![Dim::symbol("b")]).ints(&[2]);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::symbol("b"); 2]));
    }
}
