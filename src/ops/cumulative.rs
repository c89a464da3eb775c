//! CumSum and CumProd: running sums and products along one axis.

use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, elementwise_unary, normalise_axis};
use crate::ir::{Attrs, DataType, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("CumSum", infer).fold(|cx| fold(cx, false)).lower(|cx| lower(cx, false)),
    OpDef::new("CumProd", infer).fold(|cx| fold(cx, true)).lower(|cx| lower(cx, true)),
];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise_unary::infer_same(cx)?;
    if let Some(axis) = cx.ints(1) {
        let [axis] = axis.as_slice() else {
            return super::invalid(format!("input axis must be one number, but has {}", axis.len()));
        };
        normalise_axis(*axis, cx.rank(0)?).map_err(|e| OpError::Invalid(format!("input axis: {e}")))?;
    }
    Ok(())
}

/// Exclusive, reverse.
fn direction(attrs: &Attrs) -> (bool, bool) {
    (attrs.int_or("exclusive", 0) != 0, attrs.int_or("reverse", 0) != 0)
}

fn fold(cx: &FoldCx<'_>, product: bool) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let axis = normalise_axis(cx.input(1)?.scalar_i64()?, x.rank()).ok()?;
    let way = direction(&cx.node.attrs);
    let (dtype, shape) = (x.dtype(), x.shape().to_vec());
    if let Some(v) = x.to_i128s() {
        let step =
            |a: i128, b: i128| elementwise::wrap(dtype, if product { a.wrapping_mul(b) } else { a.wrapping_add(b) });
        let out = scan(&v, &shape, axis, i128::from(product), way, step);
        return Some(vec![Tensor::from_i128(dtype, shape, &out)?]);
    }
    let step = |a: f64, b: f64| if product { a * b } else { a + b };
    let out = scan(&x.to_f64s()?, &shape, axis, f64::from(u8::from(product)), way, step);
    Some(vec![Tensor::from_f64(dtype, shape, &out)?])
}

fn scan<T: Copy>(
    x: &[T],
    shape: &[usize],
    axis: usize,
    start: T,
    (exclusive, reverse): (bool, bool),
    step: impl Fn(T, T) -> T,
) -> Vec<T> {
    let (n, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let mut out = x.to_vec();
    for (block, from) in out.chunks_mut((n * inner).max(1)).zip(x.chunks((n * inner).max(1))) {
        for at in 0..inner {
            let mut sum = start;
            for k in 0..n {
                let i = if reverse { n - 1 - k } else { k } * inner + at;
                let next = step(sum, from[i]);
                block[i] = if exclusive { sum } else { next };
                sum = next;
            }
        }
    }
    out
}

fn lower(cx: &mut LowerCx<'_, '_>, product: bool) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    if !dtype.is_float() {
        elementwise::need_signed(cx, dtype)?;
    }
    let given = cx.need_ints(1, "axis")?;
    let rank = cx.rank(0)?;
    let axis = normalise_axis(given.first().copied().unwrap_or(0), rank).map_err(Refusal::form)?;
    let (exclusive, reverse) = direction(cx.attrs());
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let axis = layout.physical(axis);
    let dims = cx.dims(x);
    if dtype.is_float() && !product && !exclusive && !reverse && dims.len() <= 4 {
        let y = cx.output(0, &layout)?;
        cx.op(
            "CumulativeSum",
            &[x],
            &[y],
            &[("axis", Param::u32(axis as u32)), ("exclusive", Param::bool(false)), ("reverse", Param::bool(false))],
        );
        return Ok(());
    }
    let mut t = if dtype.is_float() { x } else { cast::to_int32(cx, x, dtype)? };
    let (outer, inner) = (dims[..axis].iter().product(), dims[axis + 1..].iter().product());
    t = cx.reshape(t, &[outer, dims[axis], inner]);
    t = doubling(cx, t, product, exclusive, reverse);
    t = cx.reshape(t, &dims);
    if !dtype.is_float() {
        t = cast::convert(cx, t, DataType::I32, dtype)?;
    }
    cx.alias(0, t, layout)
}

/// Running sums or products along axis 1 of three, in steps of 1, 2, 4, ... The HTP's own running sum goes through
/// floats for integers, and does not prepare for floats when exclusive or reverse (QAIRT 2.47).
fn doubling(cx: &mut LowerCx<'_, '_>, x: TensorId, product: bool, exclusive: bool, reverse: bool) -> TensorId {
    let op = if product { "ElementWiseMultiply" } else { "ElementWiseAdd" };
    let n = cx.dims(x)[1];
    let mut t = if exclusive { shifted(cx, x, 1, product, reverse) } else { x };
    let mut step = 1;
    while step < n {
        let before = shifted(cx, t, step, product, reverse);
        t = compose::binary(cx, op, t, before);
        step *= 2;
    }
    t
}

/// Moved by `step` along axis 1 towards its end (its start if `reverse`); what comes in is the neutral element.
fn shifted(cx: &mut LowerCx<'_, '_>, x: TensorId, step: u32, product: bool, reverse: bool) -> TensorId {
    let mut dims = cx.dims(x);
    let n = dims[1];
    dims[1] = step.min(n);
    let count = dims.iter().map(|&d| d as usize).product();
    let fill = if cx.qnn_type(x).is_float() {
        let v = if product { 1.0 } else { 0.0 };
        cx.float_constant(&dims, &vec![v; count])
    } else {
        cx.i32_constant(&dims, &vec![i32::from(product); count])
    };
    if step >= n {
        return fill;
    }
    if reverse {
        let rest = compose::slice(cx, x, 1, step, n);
        compose::concat(cx, &[rest, fill], 1)
    } else {
        let rest = compose::slice(cx, x, 1, 0, n - step);
        compose::concat(cx, &[fill, rest], 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types, ramp};

    #[test]
    fn values() {
        let f = |op: &str, exclusive, reverse| {
            let n = node(op, 26).ints(&[1, 2, 3]).constant(Tensor::from_i64(vec![], &[0]));
            let n = n.int("exclusive", exclusive).int("reverse", reverse);
            n.fold().unwrap()[0].to_i64s().unwrap()
        };
        assert_eq!(f("CumSum", 0, 0), [1, 3, 6]);
        assert_eq!(f("CumSum", 1, 0), [0, 1, 3]);
        assert_eq!(f("CumSum", 0, 1), [6, 5, 3]);
        assert_eq!(f("CumSum", 1, 1), [5, 3, 0]);
        assert_eq!(f("CumProd", 0, 0), [1, 2, 6]);
        assert_eq!(f("CumProd", 1, 1), [6, 3, 1]);
    }

    #[test]
    fn lowered_values_are_the_folded_ones() {
        let x = ramp(30, 1.0, 1.0);
        let data: Vec<f32> = x.iter().map(|&v| v as f32).collect();
        for (op, axis) in [("CumSum", 1), ("CumSum", -1), ("CumProd", 1)] {
            for way in 0..4 {
                let n =
                    |n: crate::ops::testing::OneNode| n.ints(&[axis]).int("exclusive", way % 2).int("reverse", way / 2);
                let want = n(node(op, 26).floats(&[2, 5, 3], &data)).fold().unwrap()[0].to_f64s().unwrap();
                let got = n(node(op, 26).float(&[2, 5, 3])).run(std::slice::from_ref(&x));
                let scale = want.iter().fold(1.0, |a: f64, v| a.max(v.abs()));
                assert_close(&got[0], &want, 1e-6 * scale);
            }
        }
    }

    #[test]
    fn the_plain_sum_of_floats_is_one_op() {
        let g = node("CumSum", 14).float(&[2, 3]).ints(&[1]).lower().unwrap();
        assert_eq!(op_types(&g), ["CumulativeSum"]);
        let g = node("CumSum", 14).input(DataType::I32, &[2, 3]).ints(&[1]).lower().unwrap();
        assert!(!op_types(&g).contains(&"CumulativeSum"));
        assert!(node("CumSum", 14).float(&[2]).input(DataType::I32, &[]).refusal().contains("axis"));
        assert!(node("CumSum", 14).float(&[2]).ints(&[3]).error().contains("axis 3"));
    }
}
