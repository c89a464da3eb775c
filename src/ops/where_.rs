//! Where: elements of one tensor or another.

use super::{FoldCx, InferCx, OpDef, OpError, broadcast, cast, compose, elementwise, invalid};
use crate::ir::{DataType, Tensor, broadcast_indices};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Where", infer).fold(fold).lower(lower)];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    if cx.dtype(0)? != DataType::Bool {
        return invalid(format!("the condition is {}, but must be bool", cx.dtype(0)?));
    }
    let dtype = elementwise::infer_dtype(cx, &[1, 2])?;
    let shape = broadcast(&elementwise::infer_shape(cx, &[0, 1])?, cx.shape(2)?)?;
    cx.set(0, dtype, shape);
    if dtype.is_int() || dtype == DataType::Bool {
        elementwise::infer_elements(cx, &[0, 1, 2], |v| {
            if v[1] == v[2] {
                return Some(v[1].clone());
            }
            v[0].known().map(|c| if c != 0 { v[1].clone() } else { v[2].clone() })
        });
    }
    Ok(())
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let (condition, a, b) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let size = dtype.bits() / 8;
    if size == 0 || shape.iter().try_fold(size, |n, &d| n.checked_mul(d))? > 1 << 28 {
        return None;
    }
    let pick = |t: &Tensor| broadcast_indices(t.shape(), &shape);
    let (pc, pa, pb) = (pick(condition)?, pick(a)?, pick(b)?);
    let (c, a, b) = (condition.bytes(), a.bytes(), b.bytes());
    let mut out = Vec::with_capacity(pc.len() * size);
    for ((i, j), k) in pc.into_iter().zip(pa).zip(pb) {
        let (from, at) = if *c.get(i)? != 0 { (&a, j) } else { (&b, k) };
        out.extend_from_slice(from.get(at * size..(at + 1) * size)?);
    }
    Some(vec![Tensor::from_raw(dtype, shape, out.into())?])
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(1)?;
    if dtype.is_float() {
        return elementwise::lower(cx, &[0, 1, 2], 5, |cx, ids| Ok(compose::select(cx, ids[0], ids[1], ids[2])));
    }
    elementwise::lower(cx, &[0, 1, 2], 4, |cx, ids| {
        let [c, a, b] = [ids[0], ids[1], ids[2]];
        if dtype == DataType::Bool {
            return Ok(select_bool(cx, c, a, b));
        }
        let (a, b) = (cast::to_int32(cx, a, dtype)?, cast::to_int32(cx, b, dtype)?);
        // The HTP writes garbage where an integer branch broadcasts (QAIRT 2.47).
        let branches = compose::broadcast_dims(&cx.dims(a), &cx.dims(b));
        let dims = compose::broadcast_dims(&branches, &cx.dims(c));
        let (a, b) = (elementwise::spread(cx, a, &dims), elementwise::spread(cx, b, &dims));
        let y = compose::select(cx, c, a, b);
        // Both branches were of the type, so nothing wraps.
        Ok(match dtype {
            DataType::U8 => cx.cast(y, crate::qnn::graph::QnnType::UINT_8),
            _ => cast::convert(cx, y, DataType::I32, dtype)?,
        })
    })
}

/// `c and a, or not c and b`: the HTP selects no booleans.
fn select_bool(cx: &mut LowerCx<'_, '_>, c: TensorId, a: TensorId, b: TensorId) -> TensorId {
    let taken = compose::binary(cx, "ElementWiseAnd", c, a);
    let not = compose::unary(cx, "ElementWiseNot", c);
    let other = compose::binary(cx, "ElementWiseAnd", not, b);
    compose::binary(cx, "ElementWiseOr", taken, other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Dim;
    use crate::ops::testing::{assert_close, node, op_types};

    #[test]
    fn types_and_elements() {
        let n = node("Where", 16).input(DataType::Bool, &[2, 1]).float(&[1, -1]).floats(&[], &[0.0]);
        assert_eq!(n.types(), ["float32[2, d1]"]);
        let n = node("Where", 16).constant(Tensor::from_bools(vec![2], &[true, false]));
        let n = n.ints(&[7, 7]).elements(DataType::I64, &[2], vec![Dim::Known(1), Dim::symbol("s")]);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::Known(7), Dim::symbol("s")]));
        assert!(node("Where", 9).float(&[1]).float(&[1]).float(&[1]).error().contains("must be bool"));
    }

    #[test]
    fn values() {
        let n = node("Where", 9).constant(Tensor::from_bools(vec![2, 1], &[true, false]));
        let f = n.floats(&[2], &[1.0, 2.0]).floats(&[], &[9.0]).fold().unwrap();
        assert_eq!(f[0].to_f64s().unwrap(), [1.0, 2.0, 9.0, 9.0]);
    }

    #[test]
    fn integer_branches_are_spread() {
        let n = node("Where", 16).input(DataType::Bool, &[2]).input(DataType::I32, &[2]);
        let n = n.constant(Tensor::from_i32(vec![], &[7]));
        let g = n.lower().unwrap();
        assert_eq!(op_types(&g), ["ElementWiseSelect"]);
        assert_eq!(g.tensor(g.ops[0].inputs[2]).dims, [2]);
        assert_close(&n.run(&[vec![1.0, 0.0], vec![4.0, 5.0]])[0], &[4.0, 7.0], 0.0);
        let n =
            node("Where", 16).input(DataType::Bool, &[2, 2]).input(DataType::I32, &[2]).input(DataType::I32, &[2, 2]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "Tile", "ElementWiseSelect"]);
        let x = vec![1.0, 0.0, 0.0, 1.0];
        assert_close(&n.run(&[x, vec![4.0, 5.0], vec![0.0, 1.0, 2.0, 3.0]])[0], &[4.0, 1.0, 2.0, 5.0], 0.0);
    }

    #[test]
    fn booleans_are_composed() {
        let b = |n: crate::ops::testing::OneNode| n.input(DataType::Bool, &[4]);
        let n = b(b(b(node("Where", 16))));
        let y = n.run(&[vec![1.0, 1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0, 1.0], vec![1.0, 0.0, 1.0, 0.0]]);
        assert_close(&y[0], &[0.0, 1.0, 1.0, 0.0], 0.0);
    }
}
