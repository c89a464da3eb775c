//! Comparisons and the logic of booleans.

use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, invalid, word};
use crate::infer::constant_within;
use crate::ir::{DataType, Dim, Tensor};
use crate::lower::{LowerCx, Refusal};

/// The largest finite 16-bit float.
const HALF_MAX: f64 = 65504.0;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Equal", infer_compare)
        .fold(|cx| compare(cx, |a, b| a == b, |a, b| a == b))
        .lower(|cx| lower_compare(cx, "ElementWiseEqual")),
    OpDef::new("Less", infer_compare)
        .fold(|cx| compare(cx, |a, b| a < b, |a, b| a < b))
        .lower(|cx| lower_compare(cx, "ElementWiseLess")),
    OpDef::new("LessOrEqual", infer_compare)
        .fold(|cx| compare(cx, |a, b| a <= b, |a, b| a <= b))
        .lower(|cx| lower_compare(cx, "ElementWiseLessEqual")),
    OpDef::new("Greater", infer_compare)
        .fold(|cx| compare(cx, |a, b| a > b, |a, b| a > b))
        .lower(|cx| lower_compare(cx, "ElementWiseGreater")),
    OpDef::new("GreaterOrEqual", infer_compare)
        .fold(|cx| compare(cx, |a, b| a >= b, |a, b| a >= b))
        .lower(|cx| lower_compare(cx, "ElementWiseGreaterEqual")),
    OpDef::new("And", infer_logical)
        .fold(|cx| logical(cx, |a, b| a & b))
        .lower(|cx| lower_logical(cx, "ElementWiseAnd")),
    OpDef::new("Or", infer_logical).fold(|cx| logical(cx, |a, b| a | b)).lower(|cx| lower_logical(cx, "ElementWiseOr")),
    OpDef::new("Xor", infer_logical)
        .fold(|cx| logical(cx, |a, b| a ^ b))
        .lower(|cx| lower_logical(cx, "ElementWiseXor")),
];

fn infer_compare(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    let shape = elementwise::infer_shape(cx, &[0, 1])?;
    cx.set(0, DataType::Bool, shape);
    if dtype.is_int() {
        let op = cx.node.op_type.clone();
        elementwise::infer_elements(cx, &[0, 1], |v| compare_dims(&op, v[0], v[1]).map(|b| Dim::Known(i64::from(b))));
    }
    Ok(())
}

/// The truth of a comparison of elements, if it is known.
fn compare_dims(op: &str, a: &Dim, b: &Dim) -> Option<bool> {
    let difference = a.sub(b);
    let sign = match difference.known() {
        Some(d) => d.signum(),
        // Certainly above: one more than something that is not negative.
        None if difference.sub(&Dim::Known(1)).is_nonnegative() => 1,
        None if b.sub(a).sub(&Dim::Known(1)).is_nonnegative() => -1,
        None if difference.is_nonnegative() && op == "GreaterOrEqual" => return Some(true),
        None if difference.is_nonnegative() && op == "Less" => return Some(false),
        None => return None,
    };
    Some(match op {
        "Equal" => sign == 0,
        "Less" => sign < 0,
        "LessOrEqual" => sign <= 0,
        "Greater" => sign > 0,
        _ => sign >= 0,
    })
}

fn infer_logical(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    if dtype != DataType::Bool {
        return invalid(format!("the inputs are {dtype}, but must be bool"));
    }
    let shape = elementwise::infer_shape(cx, &[0, 1])?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn compare(
    cx: &FoldCx<'_>,
    float: impl Fn(&f64, &f64) -> bool,
    int: impl Fn(&i128, &i128) -> bool,
) -> Option<Vec<Tensor>> {
    elementwise::fold(
        cx,
        &[0, 1],
        |v| Some(f64::from(u8::from(float(&v[0], &v[1])))),
        |v| Some(i128::from(int(&v[0], &v[1]))),
    )
}

fn logical(cx: &FoldCx<'_>, f: impl Fn(bool, bool) -> bool) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |_| None, |v| Some(i128::from(f(v[0] != 0, v[1] != 0))))
}

fn lower_logical(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    elementwise::lower_op(cx, op, &[0, 1], 4, &[])
}

fn lower_compare(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    for i in [1, 0] {
        if let Some(infinity) = infinity(cx, i)
            && cx.shape(1 - i)? == cx.out_shape(0)?
        {
            return lower_infinite(cx, op, i, infinity);
        }
    }
    match dtype {
        DataType::Bool => elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
            // The HTP's comparisons take no booleans.
            let differ = compose::binary(cx, "ElementWiseXor", ids[0], ids[1]);
            Ok(compose::unary(cx, "ElementWiseNot", differ))
        }),
        DataType::U32 | DataType::U64 if op != "ElementWiseEqual" => elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
            let (a, b) = (cast::to_int32(cx, ids[0], dtype)?, cast::to_int32(cx, ids[1], dtype)?);
            Ok(word::unsigned_order(cx, op, a, b))
        }),
        d if d.is_float() => elementwise::lower(cx, &[0, 1], 5, |cx, ids| Ok(compose::compare(cx, op, ids[0], ids[1]))),
        _ => elementwise::lower(cx, &[0, 1], 5, |cx, ids| {
            let (a, b) = (cast::to_int32(cx, ids[0], dtype)?, cast::to_int32(cx, ids[1], dtype)?);
            Ok(compose::compare(cx, op, a, b))
        }),
    }
}

/// An infinity compared with: `x == -inf` is `x <= -65504`, because the HTP keeps infinity as some number beyond that, and
/// as just that after a ReduceMax (QAIRT 2.47: the largest of `[-inf, -inf]` is -65504). A quarter of both sides is
/// compared, because the HTP's comparisons take numbers from 65536 up for NaN, which its products do not (QAIRT 2.47:
/// `-70016 <= -65504` is false).
fn lower_infinite(cx: &mut LowerCx<'_, '_>, op: &str, at: usize, infinity: f64) -> Result<(), Refusal> {
    // The op as seen from the other operand.
    let (x, op) = match (at, op) {
        (1, op) => (0, op),
        (_, "ElementWiseLess") => (1, "ElementWiseGreater"),
        (_, "ElementWiseLessEqual") => (1, "ElementWiseGreaterEqual"),
        (_, "ElementWiseGreater") => (1, "ElementWiseLess"),
        (_, "ElementWiseGreaterEqual") => (1, "ElementWiseLessEqual"),
        (_, op) => (1, op),
    };
    let below = infinity < 0.0;
    let inner = if below { "ElementWiseLessEqual" } else { "ElementWiseGreaterEqual" };
    let negated = match op {
        "ElementWiseEqual" => false,
        op if op == inner => false,
        "ElementWiseGreater" if below => true,
        "ElementWiseLess" if !below => true,
        _ => {
            return Err(Refusal::form(format!(
                "{} with {infinity} has the same result for every number",
                cx.node.op_type
            )));
        }
    };
    let beyond = |v: f64| v.is_finite() && if below { v <= -HALF_MAX } else { v >= HALF_MAX };
    if let Some((name, v)) = cx.node.input(x).and_then(|v| constant_within(cx.graph(), v, &beyond)) {
        return Err(Refusal::form(format!(
            "compares with {infinity}, and constant {name:?} is {v}: in 16-bit floats the two are one"
        )));
    }
    elementwise::lower(cx, &[x], 4, |cx, ids| {
        let quarter = compose::scale(cx, ids[0], 0.25);
        let bound = cx.float_scalar(if below { -HALF_MAX / 4.0 } else { HALF_MAX / 4.0 } as f32);
        let y = compose::compare(cx, inner, quarter, bound);
        Ok(if negated { compose::unary(cx, "ElementWiseNot", y) } else { y })
    })
}

/// The infinity that every element of constant input `i` is.
fn infinity(cx: &LowerCx<'_, '_>, i: usize) -> Option<f64> {
    let values = cx.constant(i).filter(|t| t.dtype().is_float() && t.len() <= 4096)?.to_f64s()?;
    let first = *values.first()?;
    (first.is_infinite() && values.iter().all(|v| *v == first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types};

    #[test]
    fn types() {
        assert_eq!(node("Less", 13).float(&[-1, 1]).float(&[3]).types(), ["bool[d1, 3]"]);
        assert!(node("And", 7).float(&[1]).float(&[1]).error().contains("must be bool"));
        assert!(node("Equal", 13).float(&[2]).float(&[3]).error().contains("2 against 3"));
    }

    #[test]
    fn dimensions_are_compared() {
        let n = || vec![Dim::symbol("n"), Dim::Known(4)];
        let e = |op: &str, c: &[i64]| {
            let out = node(op, 13).elements(DataType::I64, &[2], n()).ints(c).infer().unwrap();
            out[0].elements.clone().map(|e| e.iter().filter_map(Dim::known).collect::<Vec<_>>())
        };
        assert_eq!(e("Equal", &[-1, 4]), Some(vec![0, 1]));
        assert_eq!(e("Equal", &[1, 4]), None);
        assert_eq!(e("Greater", &[-1, 4]), Some(vec![1, 0]));
        assert_eq!(e("Less", &[0, 5]), Some(vec![0, 1]));
    }

    #[test]
    fn values() {
        let f = node("Less", 13).floats(&[3], &[1.0, 2.0, f32::NAN]).floats(&[1], &[2.0]).fold().unwrap();
        assert_eq!(f[0].to_i64s().unwrap(), [1, 0, 0]);
        let f = node("GreaterOrEqual", 13).ints(&[1, 2, 3]).ints(&[2]).fold().unwrap();
        assert_eq!(f[0].to_i64s().unwrap(), [0, 1, 1]);
        let b = |v: &[bool]| Tensor::from_bools(vec![v.len()], v);
        let f = node("Xor", 7).constant(b(&[true, false])).constant(b(&[true])).fold().unwrap();
        assert_eq!(f[0].to_i64s().unwrap(), [0, 1]);
    }

    #[test]
    fn infinity_is_what_lies_beyond_the_range() {
        let n = |op: &str, v: f32| node(op, 13).float(&[3]).floats(&[1], &[v]);
        let inf = f32::INFINITY;
        let x = vec![-65504.0, 0.0, 65504.0];
        let run = |op: &str, v: f32| n(op, v).run(std::slice::from_ref(&x))[0].clone();
        assert_eq!(run("Equal", -inf), [1.0, 0.0, 0.0]);
        assert_eq!(run("Equal", inf), [0.0, 0.0, 1.0]);
        assert_eq!(run("Greater", -inf), [0.0, 1.0, 1.0]);
        assert_eq!(run("Less", inf), [1.0, 1.0, 0.0]);
        assert!(n("Less", -inf).refusal().contains("same result"));
        let turned = node("Less", 13).floats(&[1], &[-inf]).float(&[3]);
        assert_eq!(turned.run(&[x])[0], [0.0, 1.0, 1.0]);
    }

    #[test]
    fn booleans_and_unsigned_numbers_are_composed() {
        let b = node("Equal", 13).input(DataType::Bool, &[4]).input(DataType::Bool, &[4]);
        assert_eq!(op_types(&b.lower().unwrap()), ["ElementWiseXor", "ElementWiseNot"]);
        let y = b.run(&[vec![0.0, 0.0, 1.0, 1.0], vec![0.0, 1.0, 0.0, 1.0]]);
        assert_close(&y[0], &[1.0, 0.0, 0.0, 1.0], 0.0);
        let g = node("Less", 13).input(DataType::U8, &[4]).input(DataType::U8, &[4]).lower().unwrap();
        assert_eq!(op_types(&g), ["Cast", "Cast", "ElementWiseLess"]);
        let g = node("Less", 13).input(DataType::I64, &[4]).ints(&[3]).lower().unwrap();
        assert_eq!(op_types(&g), ["Cast", "ElementWiseLess"]);
    }
}
