//! Lowerings of the trigonometric and hyperbolic functions that the HTP lacks, composed so that no step loses what
//! 16-bit floats can hold.

use std::f32::consts::{FRAC_PI_2, LN_2};

use super::elementwise;
use super::elementwise_unary::float_composition;
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

/// Near its poles a tangent of 16-bit operands has no correct digits.
pub(super) fn tan(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_approximate(cx, "Tan has no QNN equivalent; as sine over cosine it is wrong near its poles")?;
    float_composition(cx, |cx, x| {
        let (s, c) = (compose::unary(cx, "ElementWiseSin", x), compose::unary(cx, "ElementWiseCos", x));
        compose::div(cx, s, c)
    })
}

/// `value + x`
fn plus(cx: &mut LowerCx<'_, '_>, x: TensorId, value: f32) -> TensorId {
    let c = cx.float_scalar(value);
    compose::add(cx, x, c)
}

/// `value - x`
fn from_constant(cx: &mut LowerCx<'_, '_>, value: f32, x: TensorId) -> TensorId {
    let c = cx.float_scalar(value);
    let (dtype, dims) = (cx.qnn_type(x), cx.dims(x));
    cx.op_to("ElementWiseSubtract", &[c, x], dtype, &dims, &[])
}

/// `atan(x / sqrt((1 - x)(1 + x)))`: the differences are exact near 1 and -1.
fn asin_of(cx: &mut LowerCx<'_, '_>, x: TensorId) -> TensorId {
    let below = from_constant(cx, 1.0, x);
    let above = plus(cx, x, 1.0);
    let product = compose::mul(cx, below, above);
    let root = compose::unary(cx, "ElementWiseSquareRoot", product);
    let ratio = compose::div(cx, x, root);
    compose::atan(cx, ratio)
}

pub(super) fn asin(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, asin_of)
}

pub(super) fn acos(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let a = asin_of(cx, x);
        from_constant(cx, FRAC_PI_2, a)
    })
}

fn cosh_of(cx: &mut LowerCx<'_, '_>, x: TensorId) -> TensorId {
    let up = compose::exp(cx, x);
    let minus = compose::unary(cx, "ElementWiseNeg", x);
    let down = compose::exp(cx, minus);
    let up = compose::scale(cx, up, 0.5);
    let down = compose::scale(cx, down, 0.5);
    compose::add(cx, up, down)
}

pub(super) fn cosh(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, cosh_of)
}

/// `tanh(x) cosh(x)`: the difference of two exponentials would lose every digit near 0.
pub(super) fn sinh(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let t = compose::unary(cx, "Tanh", x);
        let c = cosh_of(cx, x);
        compose::mul(cx, t, c)
    })
}

/// `sign(x) (log m + log(a/m + sqrt(1 + (min(a, 1)/m)^2)))` with `a = |x|`, `m = max(a, 1)`: no square overflows.
pub(super) fn asinh(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let a = compose::unary(cx, "ElementWiseAbs", x);
        let one = cx.float_scalar(1.0);
        let m = compose::binary(cx, "ElementWiseMaximum", a, one);
        let low = compose::binary(cx, "ElementWiseMinimum", a, one);
        let ratio = compose::div(cx, low, m);
        let square = compose::mul(cx, ratio, ratio);
        let sum = plus(cx, square, 1.0);
        let root = compose::unary(cx, "ElementWiseSquareRoot", sum);
        let share = compose::div(cx, a, m);
        let sum = compose::add(cx, share, root);
        let (outer, inner) = (compose::unary(cx, "ElementWiseLog", m), compose::unary(cx, "ElementWiseLog", sum));
        let size = compose::add(cx, outer, inner);
        let sign = compose::unary(cx, "ElementWiseSign", x);
        compose::mul(cx, size, sign)
    })
}

/// `log((x + sqrt(x - 1) sqrt(x + 1))/2) + log 2`: no square overflows, and the difference is exact near 1.
pub(super) fn acosh(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let (below, above) = (plus(cx, x, -1.0), plus(cx, x, 1.0));
        let below = compose::unary(cx, "ElementWiseSquareRoot", below);
        let above = compose::unary(cx, "ElementWiseSquareRoot", above);
        let below = compose::scale(cx, below, 0.5);
        let root = compose::mul(cx, below, above);
        let half = compose::scale(cx, x, 0.5);
        let sum = compose::add(cx, half, root);
        let log = compose::unary(cx, "ElementWiseLog", sum);
        plus(cx, log, LN_2)
    })
}

/// `log((1 + x)/(1 - x))/2`
pub(super) fn atanh(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let (above, below) = (plus(cx, x, 1.0), from_constant(cx, 1.0, x));
        let ratio = compose::div(cx, above, below);
        let log = compose::unary(cx, "ElementWiseLog", ratio);
        compose::scale(cx, log, 0.5)
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node};

    #[test]
    fn compositions_agree_with_the_functions() {
        let run = |op: &str, x: &[f64], f: fn(f64) -> f64| {
            let n = node(op, 9).float(&[x.len() as i64]);
            let got = n.run(&[x.to_vec()]);
            assert_close(&got[0], &x.iter().map(|&v| f(v)).collect::<Vec<_>>(), 2e-7);
        };
        let inner = [-0.99, -0.5, -0.001, 0.001, 0.3, 0.9];
        run("Asin", &inner, f64::asin);
        run("Acos", &inner, f64::acos);
        run("Atanh", &inner, f64::atanh);
        let all = [-3.0, -0.5, -0.001, 0.001, 0.3, 2.5];
        run("Sinh", &all, f64::sinh);
        run("Cosh", &all, f64::cosh);
        run("Asinh", &[-1000.0, -3.0, -0.001, 0.5, 1.0, 40000.0], f64::asinh);
        run("Acosh", &[1.001, 1.5, 2.0, 1000.0, 40000.0], f64::acosh);
        assert!(node("Tan", 7).float(&[2]).refusal().contains("poles"));
    }
}
