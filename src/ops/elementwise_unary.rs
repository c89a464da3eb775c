//! Elementwise functions of one operand that QNN has as ops of their own: Abs, Neg, Exp, Log, Sqrt, ...

use super::{FoldCx, InferCx, OpDef, OpError};
use crate::ir::Tensor;
use crate::lower::{LowerCx, Refusal};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Abs", infer_same).fold(|cx| map(cx, f64::abs)).lower(|cx| unary(cx, "ElementWiseAbs")),
    OpDef::new("Neg", infer_same).fold(|cx| map(cx, |x| -x)).lower(|cx| unary(cx, "ElementWiseNeg")),
    OpDef::new("Exp", infer_same).fold(|cx| map(cx, f64::exp)).lower(|cx| unary(cx, "ElementWiseExp")),
    OpDef::new("Log", infer_same).fold(|cx| map(cx, f64::ln)).lower(|cx| unary(cx, "ElementWiseLog")),
    OpDef::new("Sqrt", infer_same).fold(|cx| map(cx, f64::sqrt)).lower(|cx| unary(cx, "ElementWiseSquareRoot")),
];

/// Output 0 has the type and shape of input 0.
pub(super) fn infer_same(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// One QNN op without parameters, in whatever layout the input has.
pub(super) fn unary(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let y = cx.output(0, &layout)?;
    cx.op(op, &[x], &[y], &[]);
    Ok(())
}

/// Evaluates elementwise in 64-bit floats, rounded back to the element type.
pub(super) fn map(cx: &FoldCx<'_>, f: impl Fn(f64) -> f64) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let y: Vec<f64> = x.to_f64s()?.into_iter().map(f).collect();
    Some(vec![Tensor::from_f64(x.dtype(), x.shape().to_vec(), &y)?])
}
