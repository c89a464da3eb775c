//! Reshape, Flatten, Squeeze, Unsqueeze: the same elements under other dimensions.

use super::movement::{normalise_axes, product};
use super::{FoldCx, InferCx, OpDef, OpError, invalid};
use crate::ir::{Dim, Shape, Tensor, show_shape};
use crate::lower::{LowerCx, Refusal, gathering_layouts, reshaped_layout};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Reshape", infer_reshape).fold(fold).lower(lower),
    OpDef::new("Flatten", infer_flatten).fold(fold).lower(lower),
    OpDef::new("Squeeze", infer_squeeze).fold(fold).lower(lower),
    OpDef::new("Unsqueeze", infer_unsqueeze).fold(fold).lower(lower),
];

/// Output 0 has the elements of input 0 under `shape`.
fn set_regrouped(cx: &mut InferCx<'_>, shape: Shape) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    cx.set(0, dtype, shape);
    if let Some(e) = cx.elements(0) {
        cx.set_elements(0, e);
    }
    Ok(())
}

fn infer_reshape(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let from = cx.shape(0)?.clone();
    let wanted = cx.need_elements(1)?;
    let keeps_zero = cx.node.version >= 14 && cx.node.attrs.int_or("allowzero", 0) != 0;
    let shape = reshape(&from, &wanted, keeps_zero).map_err(OpError::Invalid)?;
    set_regrouped(cx, shape)
}

/// The result of ONNX's Reshape of `from` to `wanted`; the error says what does not fit.
fn reshape(from: &[Dim], wanted: &[Dim], keeps_zero: bool) -> Result<Shape, String> {
    let mut shape = vec![];
    let mut free = None;
    for (i, d) in wanted.iter().enumerate() {
        match d {
            Dim::Known(0) if !keeps_zero => match from.get(i) {
                Some(d) => shape.push(d.clone()),
                None => {
                    return Err(format!(
                        "shape {}: 0 at {i} copies a dimension of {}",
                        show_shape(wanted),
                        show_shape(from)
                    ));
                }
            },
            Dim::Known(-1) => {
                if free.replace(i).is_some() {
                    return Err(format!("shape {} has more than one -1", show_shape(wanted)));
                }
                shape.push(Dim::Known(1));
            }
            Dim::Known(n) if *n < 0 => return Err(format!("shape {} has the dimension {n}", show_shape(wanted))),
            d => shape.push(d.clone()),
        }
    }
    let misfit = || format!("{} has not as many elements as shape {}", show_shape(from), show_shape(wanted));
    let (left, right) = without_common(from, &shape);
    let Some(free) = free else {
        return match (product(&left).known(), product(&right).known()) {
            (Some(a), Some(b)) if a != b => Err(misfit()),
            _ => Ok(shape),
        };
    };
    if keeps_zero && shape.contains(&Dim::Known(0)) {
        return Err(format!("shape {} has both 0 and -1, and allowzero is 1", show_shape(wanted)));
    }
    let (left, right) = (product(&left), product(&right));
    let Some(quotient) = left.floor_div(&right) else { return Err(misfit()) };
    if let (Some(a), Some(b)) = (left.known(), right.known())
        && a % b != 0
    {
        return Err(misfit());
    }
    shape[free] = quotient;
    Ok(shape)
}

/// Both lists without the dimensions that they share; a 0 is never struck out.
fn without_common(a: &[Dim], b: &[Dim]) -> (Shape, Shape) {
    let mut left = a.to_vec();
    let mut right = vec![];
    for d in b {
        match left.iter().position(|x| x == d && *d != Dim::Known(0)) {
            Some(i) => {
                left.remove(i);
            }
            None => right.push(d.clone()),
        }
    }
    (left, right)
}

fn infer_flatten(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let from = cx.shape(0)?.clone();
    let rank = from.len() as i64;
    let axis = cx.node.attrs.int_or("axis", 1);
    let low = if cx.node.version >= 11 { -rank } else { 0 };
    if axis < low || axis > rank {
        return invalid(format!("attribute axis is {axis}; for rank {rank} it is {low} to {rank}"));
    }
    let (outer, inner) = from.split_at(if axis < 0 { axis + rank } else { axis } as usize);
    set_regrouped(cx, vec![product(outer), product(inner)])
}

/// The axes of Squeeze and Unsqueeze: an attribute before opset 13, an input since.
fn axes(cx: &InferCx<'_>) -> Result<Option<Vec<i64>>, OpError> {
    if cx.node.version < 13 {
        return Ok(cx.node.attrs.ints("axes").map(<[i64]>::to_vec));
    }
    if cx.has(1) { cx.need_ints(1).map(Some) } else { Ok(None) }
}

fn infer_squeeze(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let from = cx.shape(0)?.clone();
    let gone = if let Some(axes) = axes(cx)? {
        normalise_axes(&axes, from.len(), "axes")?
    } else {
        if let Some(d) = from.iter().find(|d| d.known().is_none()) {
            return Err(OpError::DataDependent(format!(
                "Squeeze without axes drops the dimensions of size 1, and it is not known whether {d} is 1"
            )));
        }
        (0..from.len()).filter(|&i| from[i].is_one()).collect()
    };
    if let Some(&a) = gone.iter().find(|&&a| from[a].known().is_some_and(|n| n != 1)) {
        return invalid(format!(
            "axis {a} of {} is {}, and only a dimension of 1 can be squeezed",
            show_shape(&from),
            from[a]
        ));
    }
    let shape = from.iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, d)| d.clone()).collect();
    set_regrouped(cx, shape)
}

fn infer_unsqueeze(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let mut shape = cx.shape(0)?.clone();
    let Some(axes) = axes(cx)? else {
        return invalid("axes are required");
    };
    for a in normalise_axes(&axes, shape.len() + axes.len(), "axes")? {
        shape.insert(a, Dim::Known(1));
    }
    set_regrouped(cx, shape)
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (_, shape) = cx.out_type(0)?;
    Some(vec![cx.input(0)?.reshaped(shape)?])
}

/// No op of its own: every copy of the input is the output, too, under the layout that follows. Where none does, the
/// elements move once. The dims are brought about when somebody needs the tensor.
fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    cx.check_rank(0)?;
    let (from, to) = (cx.shape(0)?, cx.out_shape(0)?);
    let places = cx.places(0)?;
    let mut found = false;
    for (layout, t) in &places {
        if let Some(out) = reshaped_layout(&from, layout, &to) {
            cx.alias(0, *t, out)?;
            found = true;
        }
    }
    if found {
        return Ok(());
    }
    let misfit = || Refusal::form(format!("{from:?} has not as many elements as {to:?}"));
    let (layout, _) = places.first().ok_or_else(misfit)?;
    let (inner, outer) = gathering_layouts(&from, layout, &to).ok_or_else(misfit)?;
    let t = cx.ordered(0, &inner)?;
    cx.alias(0, t, outer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::testing::{node, op_types};

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    #[test]
    fn zero_copies_and_minus_one_is_what_is_left() {
        let n = node("Reshape", 13).float(&[2, 3, 4]).ints(&[0, -1]);
        assert_eq!(n.types(), ["float32[2, 12]"]);
        let n = node("Reshape", 13).float(&[-1, 8, -2]).ints(&[0, 0, -1]);
        assert_eq!(n.types(), ["float32[d1, 8, d2]"]);
        let n = node("Reshape", 13).float(&[-1, -2, 64]).ints(&[-1, 64]);
        assert_eq!(n.types(), ["float32[d1*d2, 64]"]);
        let n = node("Reshape", 14).float(&[0, 3]).ints(&[3, 0]).int("allowzero", 1);
        assert_eq!(n.types(), ["float32[3, 0]"]);
        let n = node("Reshape", 13).float(&[]).ints(&[1, 1]);
        assert_eq!(n.types(), ["float32[1, 1]"]);
    }

    #[test]
    fn symbols_in_the_shape_cancel() {
        let total = s("d1").add(&s("d2"));
        let n = node("Reshape", 13).float(&[-1, -2, 8]).elements(
            DataType::I64,
            &[3],
            vec![s("d1"), Dim::Known(-1), Dim::Known(4)],
        );
        assert_eq!(n.types(), ["float32[d1, 2*d2, 4]"]);
        assert_eq!(
            reshape(&[s("b"), total.clone(), Dim::Known(8)], &[s("b"), total, Dim::Known(2), Dim::Known(-1)], false)
                .unwrap()[3],
            Dim::Known(4)
        );
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(
            node("Reshape", 13).float(&[2, 3]).ints(&[4, -1]).error(),
            "[2, 3] has not as many elements as shape [4, -1]"
        );
        assert_eq!(node("Reshape", 13).float(&[2, 3]).ints(&[-1, -1]).error(), "shape [-1, -1] has more than one -1");
        assert_eq!(
            node("Reshape", 13).float(&[2, 3]).ints(&[2, 3, 0]).error(),
            "shape [2, 3, 0]: 0 at 2 copies a dimension of [2, 3]"
        );
        assert_eq!(
            node("Reshape", 13).float(&[2, 3]).ints(&[7]).error(),
            "[2, 3] has not as many elements as shape [7]"
        );
    }

    #[test]
    fn flatten_squeeze_unsqueeze() {
        assert_eq!(node("Flatten", 13).float(&[2, 3, 4]).types(), ["float32[2, 12]"]);
        assert_eq!(node("Flatten", 13).float(&[2, 3, 4]).int("axis", -1).types(), ["float32[6, 4]"]);
        assert_eq!(node("Flatten", 13).float(&[2, 3, 4]).int("axis", 0).types(), ["float32[1, 24]"]);
        assert!(node("Flatten", 9).float(&[2, 3]).int("axis", -1).error().contains("0 to 2"));
        assert_eq!(node("Squeeze", 13).float(&[1, 3, 1]).types(), ["float32[3]"]);
        assert_eq!(node("Squeeze", 11).float(&[1, 3, 1]).int_list("axes", &[-1]).types(), ["float32[1, 3]"]);
        assert_eq!(node("Squeeze", 13).float(&[1, -1]).ints(&[0]).types(), ["float32[d1]"]);
        assert_eq!(
            node("Squeeze", 13).float(&[1, 3]).ints(&[1]).error(),
            "axis 1 of [1, 3] is 3, and only a dimension of 1 can be squeezed"
        );
        assert_eq!(node("Unsqueeze", 11).float(&[3]).int_list("axes", &[0, 2]).types(), ["float32[1, 3, 1]"]);
        assert_eq!(node("Unsqueeze", 13).float(&[3]).ints(&[-1]).types(), ["float32[3, 1]"]);
        assert!(node("Unsqueeze", 13).float(&[3]).ints(&[2]).error().starts_with("axes: axis 2"));
    }

    #[test]
    fn a_constant_is_regrouped_without_a_copy() {
        let n = node("Reshape", 13).floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).ints(&[4]);
        assert_eq!(n.fold().unwrap()[0].shape(), [4]);
    }

    #[test]
    fn one_reshape_op_on_an_input() {
        let n = node("Reshape", 13).float(&[1, 8, 32]).ints(&[1, 8, 4, 8]);
        let g = n.lower().unwrap();
        assert_eq!(op_types(&g), ["Reshape"]);
        assert_eq!(g.tensor(g.outputs[0]).dims, [1, 8, 4, 8]);
    }

    #[test]
    fn a_result_of_rank_six_that_leaves_is_refused() {
        let n = node("Reshape", 13).float(&[64]).ints(&[2, 2, 2, 2, 2, 2]);
        assert_eq!(n.refusal(), "the graph's output needs \"y0\" as a tensor of rank 6");
    }
}
