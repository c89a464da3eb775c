//! Elementwise functions of one operand: roundings, powers, logarithms, trigonometry, tests for NaN, negations.

use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, invalid, trigonometric};
use crate::ir::{DataType, Dim, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Abs", infer_number).fold(fold_abs).lower(lower_abs),
    OpDef::new("Neg", infer_neg).fold(fold_neg).lower(lower_neg),
    OpDef::new("Sign", infer_number).fold(fold_sign).lower(lower_sign),
    OpDef::new("Exp", elementwise::infer_float).fold(|cx| map(cx, f64::exp)).lower(lower_exp),
    OpDef::new("Log", elementwise::infer_float)
        .fold(|cx| map(cx, f64::ln))
        .lower(|cx| float_op(cx, "ElementWiseLog", 4)),
    OpDef::new("Sqrt", elementwise::infer_float)
        .fold(|cx| map(cx, f64::sqrt))
        .lower(|cx| float_op(cx, "ElementWiseSquareRoot", 4)),
    OpDef::new("Reciprocal", elementwise::infer_float).fold(|cx| map(cx, |x| 1.0 / x)).lower(lower_reciprocal),
    OpDef::new("Ceil", elementwise::infer_float)
        .fold(|cx| map(cx, f64::ceil))
        .lower(|cx| float_op(cx, "ElementWiseCeil", 4)),
    OpDef::new("Floor", elementwise::infer_float)
        .fold(|cx| map(cx, f64::floor))
        .lower(|cx| float_op(cx, "ElementWiseFloor", 4)),
    OpDef::new("Round", elementwise::infer_float)
        .fold(|cx| map(cx, f64::round_ties_even))
        .lower(|cx| float_op(cx, "ElementWiseRound", 4)),
    OpDef::new("Erf", infer_same).fold(|cx| map(cx, erf)).lower(lower_erf),
    OpDef::new("Sin", elementwise::infer_float)
        .fold(|cx| map(cx, f64::sin))
        .lower(|cx| float_op(cx, "ElementWiseSin", 4)),
    OpDef::new("Cos", elementwise::infer_float)
        .fold(|cx| map(cx, f64::cos))
        .lower(|cx| float_op(cx, "ElementWiseCos", 4)),
    OpDef::new("Atan", elementwise::infer_float)
        .fold(|cx| map(cx, f64::atan))
        .lower(|cx| float_composition(cx, compose::atan)),
    OpDef::new("Tan", elementwise::infer_float).fold(|cx| map(cx, f64::tan)).lower(trigonometric::tan),
    OpDef::new("Asin", elementwise::infer_float).fold(|cx| map(cx, f64::asin)).lower(trigonometric::asin),
    OpDef::new("Acos", elementwise::infer_float).fold(|cx| map(cx, f64::acos)).lower(trigonometric::acos),
    OpDef::new("Sinh", elementwise::infer_float).fold(|cx| map(cx, f64::sinh)).lower(trigonometric::sinh),
    OpDef::new("Cosh", elementwise::infer_float).fold(|cx| map(cx, f64::cosh)).lower(trigonometric::cosh),
    OpDef::new("Asinh", elementwise::infer_float).fold(|cx| map(cx, f64::asinh)).lower(trigonometric::asinh),
    OpDef::new("Acosh", elementwise::infer_float).fold(|cx| map(cx, f64::acosh)).lower(trigonometric::acosh),
    OpDef::new("Atanh", elementwise::infer_float).fold(|cx| map(cx, f64::atanh)).lower(trigonometric::atanh),
    OpDef::new("IsNaN", infer_test).fold(fold_is_nan).lower(lower_is_nan),
    OpDef::new("IsInf", infer_test).fold(fold_is_inf).lower(lower_is_inf),
    OpDef::new("Not", infer_not).fold(fold_not).lower(|cx| elementwise::lower_op(cx, "ElementWiseNot", &[0], 4, &[])),
    OpDef::new("BitwiseNot", infer_bitwise_not).fold(fold_bitwise_not).lower(lower_bitwise_not),
];

/// Output 0 has the type and shape of input 0.
pub(super) fn infer_same(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// As [`infer_same`], and the type must be numeric.
fn infer_number(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    if !(dtype.is_float() || dtype.is_int()) {
        return invalid(format!("input 0 is {dtype}, but must be numeric"));
    }
    infer_same(cx)
}

fn infer_neg(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    infer_number(cx)?;
    if cx.dtype(0)?.is_int() {
        elementwise::infer_elements(cx, &[0], |v| Some(v[0].neg()));
    }
    Ok(())
}

fn infer_test(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise::infer_float(cx)?;
    let shape = cx.shape(0)?.clone();
    cx.set(0, DataType::Bool, shape);
    Ok(())
}

fn infer_not(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if t.dtype != DataType::Bool {
        return invalid(format!("input 0 is {}, but must be bool", t.dtype));
    }
    cx.set(0, t.dtype, t.shape);
    elementwise::infer_elements(cx, &[0], |v| v[0].known().map(|n| Dim::Known(i64::from(n == 0))));
    Ok(())
}

fn infer_bitwise_not(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    if !dtype.is_int() {
        return invalid(format!("input 0 is {dtype}, but must be an integer type"));
    }
    infer_same(cx)
}

/// One QNN op without parameters that takes floats of rank up to 5, in whatever layout the input has.
pub(super) fn unary(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    float_op(cx, op, 5)
}

/// One QNN op without parameters that takes floats of rank up to `max_rank`.
pub(super) fn float_op(cx: &mut LowerCx<'_, '_>, op: &str, max_rank: usize) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower_op(cx, op, &[0], max_rank, &[])
}

/// A composition of float ops that take rank up to 4.
pub(super) fn float_composition(
    cx: &mut LowerCx<'_, '_>,
    f: impl FnOnce(&mut LowerCx<'_, '_>, TensorId) -> TensorId,
) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower(cx, &[0], 4, |cx, ids| Ok(f(cx, ids[0])))
}

/// Evaluates elementwise in 64-bit floats, rounded back to the element type.
pub(super) fn map(cx: &FoldCx<'_>, f: impl Fn(f64) -> f64) -> Option<Vec<Tensor>> {
    elementwise::fold_float(cx, f)
}

fn fold_abs(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0], |v| Some(v[0].abs()), |v| Some(v[0].abs()))
}

fn fold_neg(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0], |v| Some(-v[0]), |v| Some(-v[0]))
}

fn fold_sign(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let sign = |x: f64| if x == 0.0 || x.is_nan() { x } else { x.signum() };
    elementwise::fold(cx, &[0], |v| Some(sign(v[0])), |v| Some(v[0].signum()))
}

fn fold_is_nan(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    map(cx, |x| f64::from(u8::from(x.is_nan())))
}

fn fold_is_inf(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (negative, positive) = infinities(&cx.node.attrs);
    map(cx, |x| f64::from(u8::from(x.is_infinite() && if x < 0.0 { negative } else { positive })))
}

fn fold_not(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0], |_| None, |v| Some(i128::from(v[0] == 0)))
}

fn fold_bitwise_not(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0], |_| None, |v| Some(!v[0]))
}

/// Which infinities IsInf looks for: negative, positive.
fn infinities(attrs: &crate::ir::Attrs) -> (bool, bool) {
    (attrs.int_or("detect_negative", 1) != 0, attrs.int_or("detect_positive", 1) != 0)
}

fn lower_abs(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    match dtype {
        DataType::I32 | DataType::I64 => elementwise::lower_op(cx, "ElementWiseAbs", &[0], 5, &[]),
        d if d.is_int() && !d.is_signed_int() => elementwise::lower(cx, &[0], 5, |_, ids| Ok(ids[0])),
        _ => unary(cx, "ElementWiseAbs"),
    }
}

fn lower_neg(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    match cx.dtype(0)? {
        DataType::I32 | DataType::I64 => subtract_from(cx, 0),
        _ => float_op(cx, "ElementWiseNeg", 4),
    }
}

/// `value - x` in INT_32, converted back to the type of the input.
fn subtract_from(cx: &mut LowerCx<'_, '_>, value: i32) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    elementwise::lower(cx, &[0], 5, |cx, ids| {
        let x = cast::to_int32(cx, ids[0], dtype)?;
        let c = cx.i32_constant(&[1], &[value]);
        let dims = cx.dims(x);
        let y = cx.op_to("ElementWiseSubtract", &[c, x], QnnType::INT_32, &dims, &[]);
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

fn lower_sign(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    if dtype.is_float() {
        return float_op(cx, "ElementWiseSign", 4);
    }
    if matches!(dtype, DataType::U32 | DataType::U64) {
        return Err(Refusal::new(codes::DTYPE, format!("Sign of {dtype} has no exact QNN equivalent")));
    }
    elementwise::lower(cx, &[0], 4, |cx, ids| {
        let x = cast::to_int32(cx, ids[0], dtype)?;
        let (low, high) = (cx.i32_constant(&[1], &[-1]), cx.i32_constant(&[1], &[1]));
        let y = compose::binary(cx, "ElementWiseMaximum", x, low);
        let y = compose::binary(cx, "ElementWiseMinimum", y, high);
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

fn lower_reciprocal(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower(cx, &[0], 5, |cx, ids| {
        let one = cx.float_scalar(1.0);
        let (dtype, dims) = (cx.qnn_type(ids[0]), cx.dims(ids[0]));
        Ok(cx.op_to("ElementWiseDivide", &[one, ids[0]], dtype, &dims, &[]))
    })
}

/// HTP has no Erf. `tanh(x p(x^2))` with this `p`, fitted to atanh(erf(x))/x, is within 6e-5 of erf, relatively; rounded
/// to 16 bits at each step it stays within 1.4e-3, one and a half units in the last place.
const ERF_AS_TANH: [f32; 3] = [1.128_313_9, 0.103_640_8, -0.001_615_15];

fn lower_exp(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower(cx, &[0], 5, |cx, ids| Ok(compose::exp(cx, ids[0])))
}

fn lower_erf(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, erf_of)
}

/// The error function of a float tensor of rank up to 4.
pub(super) fn erf_of(cx: &mut LowerCx<'_, '_>, x: TensorId) -> TensorId {
    let x = compose::clamp(cx, x, -4.0, 4.0);
    let s = compose::mul(cx, x, x);
    let [c0, c1, c2] = ERF_AS_TANH.map(|c| cx.float_scalar(c));
    let p = compose::mul(cx, s, c2);
    let p = compose::add(cx, p, c1);
    let p = compose::mul(cx, p, s);
    let p = compose::add(cx, p, c0);
    let p = compose::mul(cx, p, x);
    compose::unary(cx, "Tanh", p)
}

/// The input of IsNaN or IsInf as FLOAT_16. Values that enter as FLOAT_32 lose NaN and infinities on the way: the HTP
/// reads both as large numbers (QAIRT 2.47).
fn half(cx: &mut LowerCx<'_, '_>, t: TensorId) -> Result<TensorId, Refusal> {
    let dtype = cx.dtype(0)?;
    if dtype != DataType::F16 {
        let op = &cx.node.op_type;
        return Err(Refusal::fault(
            "no-infinities",
            format!("{op} of {dtype}: the HTP keeps neither NaN nor infinity"),
        )
        .fix("export the model with float16 at this place, or leave the test to the CPU"));
    }
    Ok(cx.cast(t, QnnType::FLOAT_16))
}

fn lower_is_nan(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower(cx, &[0], 5, |cx, ids| {
        let x = half(cx, ids[0])?;
        let dims = cx.dims(x);
        Ok(cx.op_to("IsNan", &[x], QnnType::BOOL_8, &dims, &[]))
    })
}

fn lower_is_inf(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let (negative, positive) = infinities(cx.attrs());
    elementwise::lower(cx, &[0], 5, |cx, ids| {
        let x = half(cx, ids[0])?;
        let dims = cx.dims(x);
        let params = [("detect_negative", Param::bool(negative)), ("detect_positive", Param::bool(positive))];
        Ok(cx.op_to("IsInf", &[x], QnnType::BOOL_8, &dims, &params))
    })
}

fn lower_bitwise_not(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    // In two's complement the complement is -1 - x, in which nothing overflows.
    match cx.dtype(0)? {
        DataType::U8 => subtract_from(cx, 255),
        _ => subtract_from(cx, -1),
    }
}

/// The error function in 64-bit floats: its Taylor series, and the continued fraction of its complement far out.
pub(super) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let v = if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..100 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        let tail = (1..60).rev().fold(a, |f, k| a + f64::from(k) / 2.0 / f);
        1.0 - (-a * a).exp() / tail / std::f64::consts::PI.sqrt()
    } else {
        1.0
    };
    v.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{OneNode, assert_close, node, op_types};

    fn fold(op: &str, x: &[f32]) -> Vec<f64> {
        node(op, 20).floats(&[x.len()], x).fold().unwrap()[0].to_f64s().unwrap()
    }

    #[test]
    fn types() {
        assert_eq!(node("Exp", 13).float(&[2, -1]).types(), ["float32[2, d1]"]);
        assert_eq!(node("IsNaN", 13).float(&[2]).types(), ["bool[2]"]);
        assert!(node("Exp", 13).input(DataType::I32, &[2]).error().contains("float type"));
        assert!(node("Not", 1).float(&[2]).error().contains("must be bool"));
    }

    #[test]
    fn values() {
        assert_close(&fold("Round", &[0.5, 1.5, -0.5, -2.5, 2.3]), &[0.0, 2.0, 0.0, -2.0, 2.0], 0.0);
        assert_close(&fold("Sign", &[-2.0, 0.0, 3.0]), &[-1.0, 0.0, 1.0], 0.0);
        assert_close(&fold("Reciprocal", &[4.0, -0.5]), &[0.25, -2.0], 0.0);
        let erf = [-0.8427008, 0.0, 0.5204999, 0.9953223, 0.9999779, 1.0];
        assert_close(&fold("Erf", &[-1.0, 0.0, 0.5, 2.0, 3.0, 7.0]), &erf, 1e-7);
        let inf = [f32::NEG_INFINITY, 0.0, f32::INFINITY, f32::NAN];
        assert_close(&fold("IsInf", &inf), &[1.0, 0.0, 1.0, 0.0], 0.0);
        assert_close(&fold("IsNaN", &inf), &[0.0, 0.0, 0.0, 1.0], 0.0);
        let n = node("BitwiseNot", 18).constant(Tensor::from_pod(DataType::U8, vec![2], &[0u8, 200]));
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [255, 55]);
        let n = node("Neg", 13).ints(&[i64::MIN, 5]);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [i64::MIN, -5]);
    }

    #[test]
    fn repeated_elements_stay_one() {
        let t =
            Tensor::splat(DataType::F32, vec![1 << 20, 1 << 20], bytes::Bytes::copy_from_slice(&4f32.to_le_bytes()));
        let y = node("Sqrt", 13).constant(t).fold().unwrap();
        assert_eq!(y[0].uniform_f64(), Some(2.0));
    }

    #[test]
    fn erf_is_close() {
        let x: Vec<f64> = (-45..=45).map(|i| f64::from(i) / 10.0).collect();
        let want: Vec<f64> = x.iter().map(|&v| erf(v)).collect();
        assert_close(&node("Erf", 13).float(&[91]).run(&[x])[0], &want, 6e-5);
    }

    #[test]
    fn integers_take_exact_ways() {
        let i = |op: &str, d: DataType| node(op, 18).input(d, &[3]);
        let x = [vec![-2.0, 0.0, 7.0]];
        assert_close(&i("Neg", DataType::I32).run(&x)[0], &[2.0, 0.0, -7.0], 0.0);
        assert_close(&i("Sign", DataType::I64).run(&x)[0], &[-1.0, 0.0, 1.0], 0.0);
        assert_close(&i("BitwiseNot", DataType::I32).run(&x)[0], &[1.0, -1.0, -8.0], 0.0);
        assert_eq!(op_types(&i("Neg", DataType::I32).lower().unwrap()), ["ElementWiseSubtract"]);
        assert!(i("Neg", DataType::I8).refusal().contains("int8"));
        assert!(i("Sign", DataType::U32).refusal().contains("uint32"));
    }

    #[test]
    fn rank_5_is_merged_for_ops_of_four_axes() {
        let ops = |n: OneNode| op_types(&n.lower().unwrap()).join(" ");
        assert_eq!(ops(node("Log", 13).float(&[1, 2, 3, 4, 5])), "Reshape ElementWiseLog Reshape");
        assert_eq!(ops(node("Exp", 13).float(&[1, 2, 3, 4, 5])), "ElementWiseExp");
        assert!(ops(node("IsInf", 20).input(DataType::F16, &[3])).ends_with("Cast IsInf"));
        assert!(node("IsNaN", 20).float(&[3]).refusal().contains("neither NaN"));
    }
}
