//! Activation functions.

use super::elementwise_unary::{erf, float_composition, float_op, infer_same, map, unary};
use super::{FoldCx, InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{Attrs, DataType, Dim, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Relu", infer_same).fold(fold_relu).lower(lower_relu),
    OpDef::new("LeakyRelu", elementwise::infer_float).fold(fold_leaky_relu).lower(lower_leaky_relu),
    OpDef::new("ThresholdedRelu", elementwise::infer_float).fold(fold_thresholded).lower(lower_thresholded),
    OpDef::new("Sigmoid", elementwise::infer_float).fold(|cx| map(cx, sigmoid)).lower(lower_sigmoid),
    OpDef::new("Tanh", elementwise::infer_float).fold(|cx| map(cx, f64::tanh)).lower(|cx| float_op(cx, "Tanh", 4)),
    OpDef::new("Elu", elementwise::infer_float).fold(fold_elu).lower(lower_elu),
    OpDef::new("Selu", elementwise::infer_float).fold(fold_selu).lower(lower_selu),
    OpDef::new("Celu", infer_celu).fold(fold_celu).lower(lower_celu),
    OpDef::new("HardSigmoid", elementwise::infer_float).fold(fold_hard_sigmoid).lower(lower_hard_sigmoid),
    OpDef::new("HardSwish", elementwise::infer_float)
        .fold(|cx| map(cx, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)))
        .lower(|cx| float_op(cx, "HardSwish", 4)),
    OpDef::new("Softplus", elementwise::infer_float)
        .fold(|cx| map(cx, softplus))
        .lower(|cx| float_composition(cx, softplus_of)),
    OpDef::new("Softsign", elementwise::infer_float).fold(|cx| map(cx, |x| x / (1.0 + x.abs()))).lower(lower_softsign),
    OpDef::new("Shrink", infer_same).fold(fold_shrink).lower(lower_shrink),
    OpDef::new("Mish", elementwise::infer_float).fold(|cx| map(cx, |x| x * softplus(x).tanh())).lower(lower_mish),
    OpDef::new("Gelu", infer_gelu).fold(fold_gelu).lower(lower_gelu),
    OpDef::new("Swish", elementwise::infer_float).fold(fold_swish).lower(|cx| {
        let alpha = alpha(cx.attrs(), 1.0);
        lower_swish(cx, alpha)
    }),
    OpDef::new("SwiGLU", infer_swiglu).fold(fold_swiglu).lower(lower_swiglu),
];

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn alpha(attrs: &Attrs, default: f32) -> f32 {
    attrs.float_or("alpha", default)
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

pub(super) fn gelu_erf(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

pub(super) fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

fn infer_celu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    if alpha(&cx.node.attrs, 1.0) == 0.0 {
        return invalid("attribute alpha must not be 0");
    }
    elementwise::infer_float(cx)
}

/// True for the approximation by tanh.
fn gelu_is_tanh(attrs: &Attrs) -> Result<bool, String> {
    match attrs.str_or("approximate", "none") {
        "none" => Ok(false),
        "tanh" => Ok(true),
        other => Err(format!("attribute approximate must be none or tanh, not {other:?}")),
    }
}

fn infer_gelu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    gelu_is_tanh(&cx.node.attrs).map_err(OpError::Invalid)?;
    elementwise::infer_float(cx)
}

fn fold_relu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0], |v| Some(if v[0] < 0.0 { 0.0 } else { v[0] }), |v| Some(v[0].max(0)))
}

fn fold_leaky_relu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 0.01));
    map(cx, |x| if x < 0.0 { a * x } else { x })
}

fn fold_thresholded(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 1.0));
    map(cx, |x| if x > a { x } else { 0.0 })
}

fn fold_elu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 1.0));
    map(cx, |x| elu(x, a))
}

/// Alpha and gamma of Selu.
fn selu_factors(attrs: &Attrs) -> (f32, f32) {
    (alpha(attrs, 1.673_263_2), attrs.float_or("gamma", 1.050_701))
}

fn fold_selu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (a, g) = selu_factors(&cx.node.attrs);
    map(cx, |x| f64::from(g) * elu(x, a.into()))
}

fn fold_celu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 1.0));
    map(cx, |x| x.max(0.0) + (a * (x / a).exp_m1()).min(0.0))
}

/// Alpha and beta of HardSigmoid.
fn hard_sigmoid_factors(attrs: &Attrs) -> (f32, f32) {
    (alpha(attrs, 0.2), attrs.float_or("beta", 0.5))
}

fn fold_hard_sigmoid(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (a, b) = hard_sigmoid_factors(&cx.node.attrs);
    map(cx, |x| (f64::from(a) * x + f64::from(b)).clamp(0.0, 1.0))
}

/// Bias and lambda of Shrink.
fn shrink_factors(attrs: &Attrs) -> (f32, f32) {
    (attrs.float_or("bias", 0.0), attrs.float_or("lambd", 0.5))
}

fn fold_shrink(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (b, l) = shrink_factors(&cx.node.attrs);
    let (b, l) = (f64::from(b), f64::from(l));
    let f = |x: f64| {
        if x < -l {
            x + b
        } else if x > l {
            x - b
        } else {
            0.0
        }
    };
    elementwise::fold(cx, &[0], |v| Some(f(v[0])), |v| Some(f(v[0] as f64) as i128))
}

fn fold_gelu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    if gelu_is_tanh(&cx.node.attrs).ok()? { map(cx, gelu_tanh) } else { map(cx, gelu_erf) }
}

fn fold_swish(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 1.0));
    map(cx, |x| x * sigmoid(a * x))
}

fn lower_relu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    match cx.dtype(0)? {
        DataType::I32 | DataType::I64 => elementwise::lower(cx, &[0], 4, |cx, ids| {
            let zero = cx.i32_constant(&[1], &[0]);
            Ok(compose::binary(cx, "ElementWiseMaximum", ids[0], zero))
        }),
        _ => unary(cx, "Relu"),
    }
}

fn lower_leaky_relu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let a = alpha(cx.attrs(), 0.01);
    elementwise::lower(cx, &[0], 5, |cx, ids| {
        let slope = cx.float_scalar(a);
        let (dtype, dims) = (cx.qnn_type(ids[0]), cx.dims(ids[0]));
        Ok(cx.op_to("Prelu", &[ids[0], slope], dtype, &dims, &[]))
    })
}

fn lower_thresholded(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let a = alpha(cx.attrs(), 1.0);
    float_composition(cx, |cx, x| {
        let (threshold, zero) = (cx.float_scalar(a), cx.float_scalar(0.0));
        let above = compose::compare(cx, "ElementWiseGreater", x, threshold);
        compose::select(cx, above, x, zero)
    })
}

/// `alpha (exp(x) - 1)` below 0, `x` above.
fn elu_of(cx: &mut LowerCx<'_, '_>, x: TensorId, alpha: f32) -> TensorId {
    let (dtype, dims) = (cx.qnn_type(x), cx.dims(x));
    cx.op_to("Elu", &[x], dtype, &dims, &[("alpha", Param::f32(alpha))])
}

fn lower_elu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let a = alpha(cx.attrs(), 1.0);
    float_composition(cx, |cx, x| elu_of(cx, x, a))
}

fn lower_selu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (a, g) = selu_factors(cx.attrs());
    float_composition(cx, |cx, x| {
        let y = elu_of(cx, x, a);
        compose::scale(cx, y, g)
    })
}

/// `alpha elu(x / alpha)`
fn lower_celu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let a = alpha(cx.attrs(), 1.0);
    if a < 0.0 {
        return Err(Refusal::form(format!("attribute alpha of Celu is {a}; only positive values are expressed")));
    }
    float_composition(cx, |cx, x| {
        let scaled = compose::scale(cx, x, 1.0 / a);
        let y = elu_of(cx, scaled, 1.0);
        compose::scale(cx, y, a)
    })
}

fn lower_hard_sigmoid(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let (a, b) = hard_sigmoid_factors(cx.attrs());
    let params = [("operation", Param::u32(2)), ("alpha", Param::f32(a)), ("beta", Param::f32(b))];
    elementwise::lower_op(cx, "ElementWiseNeuron", &[0], 4, &params)
}

/// Elements up to which a Sigmoid that leaves the model is computed in a finer form.
const FINE_SIGMOID: usize = 1 << 16;

/// The HTP's own Sigmoid is right to 6e-4 (QAIRT 2.47), which is all of a small probability. One that the model gives out
/// is `exp(min(x, 0)) / (1 + exp(-|x|))`, right to a part in a thousand of itself, unless it is large.
fn lower_sigmoid(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let small = cx.out_shape(0)?.iter().product::<usize>() <= FINE_SIGMOID;
    if !small || cx.float() != QnnType::FLOAT_16 || !cx.leaves(0) {
        return unary(cx, "Sigmoid");
    }
    float_composition(cx, |cx, x| {
        let below = compose::clamp(cx, x, -20.0, 0.0);
        let over = compose::exp(cx, below);
        let size = compose::unary(cx, "ElementWiseAbs", x);
        let minus = compose::unary(cx, "ElementWiseNeg", size);
        let e = compose::exp(cx, minus);
        let one = cx.float_scalar(1.0);
        let under = compose::add(cx, e, one);
        compose::div(cx, over, under)
    })
}

/// `max(x, 0) + log(1 + exp(-|x|))`. The HTP's own softplus is 0 below -20 and NaN at -100 (QAIRT 2.47).
pub(super) fn softplus_of(cx: &mut LowerCx<'_, '_>, x: TensorId) -> TensorId {
    let size = compose::unary(cx, "ElementWiseAbs", x);
    let minus = compose::unary(cx, "ElementWiseNeg", size);
    let e = compose::exp(cx, minus);
    let one = cx.float_scalar(1.0);
    let sum = compose::add(cx, e, one);
    let log = compose::unary(cx, "ElementWiseLog", sum);
    let positive = compose::unary(cx, "Relu", x);
    compose::add(cx, positive, log)
}

/// In 16-bit floats the value is 1 from 4096 on, and a divisor beyond 16384 makes the HTP's quotient wrong (QAIRT 2.47).
fn lower_softsign(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let x = if cx.float() == QnnType::FLOAT_16 { compose::clamp(cx, x, -8192.0, 8192.0) } else { x };
        let size = compose::unary(cx, "ElementWiseAbs", x);
        let one = cx.float_scalar(1.0);
        let sum = compose::add(cx, size, one);
        compose::div(cx, x, sum)
    })
}

fn lower_shrink(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (b, l) = shrink_factors(cx.attrs());
    if l < 0.0 {
        return Err(Refusal::form(format!("attribute lambd of Shrink is {l}; only 0 and above are expressed")));
    }
    float_composition(cx, |cx, x| {
        let (low, high, zero) = (cx.float_scalar(-l), cx.float_scalar(l), cx.float_scalar(0.0));
        let below = compose::compare(cx, "ElementWiseLess", x, low);
        let above = compose::compare(cx, "ElementWiseGreater", x, high);
        let (up, down) = if b == 0.0 {
            (x, x)
        } else {
            let bias = cx.float_scalar(b);
            (compose::add(cx, x, bias), compose::sub(cx, x, bias))
        };
        let rest = compose::select(cx, above, down, zero);
        compose::select(cx, below, up, rest)
    })
}

fn lower_mish(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    float_composition(cx, |cx, x| {
        let s = softplus_of(cx, x);
        let t = compose::unary(cx, "Tanh", s);
        // The result is 0 in 16 bits from -20 down; the HTP's tanh of 0 is 3e-5 now and then (QAIRT 2.47).
        let x = compose::clamp(cx, x, -20.0, f32::MAX);
        compose::mul(cx, x, t)
    })
}

/// `x sigmoid(alpha x)`
pub(super) fn swish_of(cx: &mut LowerCx<'_, '_>, x: TensorId, alpha: f32) -> TensorId {
    let scaled = compose::scale(cx, x, alpha);
    let s = compose::unary(cx, "Sigmoid", scaled);
    compose::mul(cx, x, s)
}

pub(super) fn lower_swish(cx: &mut LowerCx<'_, '_>, alpha: f32) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower(cx, &[0], 5, |cx, ids| Ok(swish_of(cx, ids[0], alpha)))
}

/// The gate and the value have one shape: they do not broadcast.
fn infer_swiglu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (gate, value) = (cx.ty(0)?, cx.ty(1)?);
    let differ = |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
    if gate.shape.len() != value.shape.len() || gate.shape.iter().zip(&value.shape).any(differ) {
        return invalid(format!("the gate is {gate} and the value is {value}; both need one shape"));
    }
    elementwise::infer_float(cx)
}

fn fold_swiglu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(alpha(&cx.node.attrs, 1.0));
    elementwise::fold(cx, &[0, 1], |v| Some(v[0] * sigmoid(a * v[0]) * v[1]), |_| None)
}

fn lower_swiglu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let a = alpha(cx.attrs(), 1.0);
    elementwise::lower(cx, &[0, 1], 5, |cx, ids| {
        let gate = swish_of(cx, ids[0], a);
        Ok(compose::mul(cx, gate, ids[1]))
    })
}

/// `x sigmoid(2 sqrt(2/pi) x (1 + 0.044715 x^2))`, which is GELU's approximation by tanh without the cancellation in
/// `1 + tanh`.
pub(super) fn gelu_tanh_of(cx: &mut LowerCx<'_, '_>, x: TensorId) -> TensorId {
    let outer = 2.0 * (2.0 / std::f32::consts::PI).sqrt();
    let square = compose::mul(cx, x, x);
    let (inner, constant) = (cx.float_scalar(outer * 0.044715), cx.float_scalar(outer));
    let p = compose::mul(cx, square, inner);
    let p = compose::add(cx, p, constant);
    let p = compose::mul(cx, p, x);
    let s = compose::unary(cx, "Sigmoid", p);
    compose::mul(cx, x, s)
}

fn lower_gelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if gelu_is_tanh(cx.attrs()).map_err(Refusal::form)? && !cx.target().allow_approximate {
        elementwise::need_float(cx, 0)?;
        return elementwise::lower(cx, &[0], 5, |cx, ids| Ok(gelu_tanh_of(cx, ids[0])));
    }
    unary(cx, "Gelu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{OneNode, assert_close, node, op_types};

    const X: [f32; 7] = [-30.0, -3.0, -0.5, 0.0, 0.7, 2.0, 30.0];

    fn check(n: impl Fn(OneNode) -> OneNode, op: &str, version: i64, want: &[f64]) {
        let folded = n(node(op, version).floats(&[7], &X)).fold().unwrap()[0].to_f64s().unwrap();
        assert_close(&folded, want, 2e-6);
        let x = X.iter().map(|&v| f64::from(v)).collect();
        assert_close(&n(node(op, version).float(&[7])).run(&[x])[0], want, 2e-6);
    }

    #[test]
    fn values() {
        let same = |n: OneNode| n;
        check(same, "Relu", 14, &[0.0, 0.0, 0.0, 0.0, 0.7, 2.0, 30.0]);
        check(same, "LeakyRelu", 16, &[-0.3, -0.03, -0.005, 0.0, 0.7, 2.0, 30.0]);
        check(|n| n.real("alpha", 1.0), "ThresholdedRelu", 10, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 30.0]);
        check(same, "Sigmoid", 13, &[0.0, 0.0474259, 0.3775407, 0.5, 0.6681878, 0.8807971, 1.0]);
        check(|n| n.real("alpha", 2.0), "Elu", 6, &[-2.0, -1.9004259, -0.7869387, 0.0, 0.7, 2.0, 30.0]);
        check(same, "Selu", 6, &[-1.7580993, -1.6705687, -0.6917582, 0.0, 0.7354907, 2.101402, 31.52103]);
        check(|n| n.real("alpha", 2.0), "Celu", 12, &[-1.9999994, -1.5537397, -0.4423984, 0.0, 0.7, 2.0, 30.0]);
        check(same, "HardSigmoid", 6, &[0.0, 0.0, 0.4, 0.5, 0.64, 0.9, 1.0]);
        check(same, "Softplus", 1, &[0.0, 0.0485874, 0.474077, std::f64::consts::LN_2, 1.1031861, 2.126928, 30.0]);
        check(same, "Softsign", 1, &[-0.9677419, -0.75, -0.3333333, 0.0, 0.4117647, 0.6666667, 0.9677419]);
        check(|n| n.real("lambd", 0.6).real("bias", 0.1), "Shrink", 9, &[-29.9, -2.9, 0.0, 0.0, 0.6, 1.9, 29.9]);
        check(same, "Mish", 18, &[0.0, -0.1456475, -0.2207438, 0.0, 0.5611483, 1.943959, 30.0]);
        check(
            |n| n.text("approximate", "tanh"),
            "Gelu",
            20,
            &[0.0, -0.0036374, -0.1542860, 0.0, 0.5305701, 1.9545977, 30.0],
        );
        check(|n| n.real("alpha", 1.5), "Swish", 24, &[0.0, -0.0329608, -0.1604107, 0.0, 0.5185424, 1.9051483, 30.0]);
    }

    #[test]
    fn a_gated_pair() {
        let want = [0.5 * 2.0 * 0.7310585786, -0.25 * 0.3775406688 * 4.0];
        let n = |n: OneNode| n.real("alpha", 2.0);
        let folded = n(node("SwiGLU", 28).floats(&[2], &[0.5, -0.25]).floats(&[2], &[2.0, 4.0])).fold().unwrap();
        assert_close(&folded[0].to_f64s().unwrap(), &want, 1e-6);
        let y = n(node("SwiGLU", 28).float(&[2]).float(&[2])).run(&[vec![0.5, -0.25], vec![2.0, 4.0]]);
        assert_close(&y[0], &want, 1e-6);
        assert!(node("SwiGLU", 28).float(&[2]).float(&[1]).error().contains("one shape"));
    }

    #[test]
    fn ops() {
        let ops = |n: OneNode| op_types(&n.lower().unwrap()).join(" ");
        assert_eq!(ops(node("Gelu", 20).float(&[2])), "Gelu");
        assert_eq!(ops(node("HardSwish", 14).float(&[2])), "HardSwish");
        assert_eq!(ops(node("HardSigmoid", 6).float(&[2])), "ElementWiseNeuron");
        assert_eq!(ops(node("Relu", 14).input(DataType::I32, &[2])), "ElementWiseMaximum");
        assert!(node("Gelu", 20).float(&[2]).text("approximate", "sin").error().contains("sin"));
        assert!(node("Celu", 12).float(&[2]).real("alpha", -1.0).refusal().contains("-1"));
    }
}
