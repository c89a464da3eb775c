//! Steps of stochastic gradient descent: Momentum and Adagrad of ai.onnx.preview.training.

use super::{InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::DataType;
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

const DOMAIN: &str = "ai.onnx.preview.training";

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef { domain: DOMAIN, ..OpDef::new("Momentum", infer).lower(lower_momentum) },
    OpDef { domain: DOMAIN, ..OpDef::new("Adagrad", infer).lower(lower_adagrad) },
];

/// Inputs are the rate, the step count, and then values, gradients and states of all variables; outputs are new values
/// and new states.
fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let count = variables(cx.node.inputs.len()).map_err(OpError::Invalid)?;
    for i in 0..count {
        let value = cx.ty(2 + i)?.clone();
        for other in [2 + count + i, 2 + 2 * count + i] {
            let ty = cx.ty(other)?;
            if ty.shape.len() != value.shape.len() {
                return invalid(format!(
                    "input {other} is {ty}, and the variable's value, input {}, is {value}",
                    2 + i
                ));
            }
        }
        cx.set(i, value.dtype, value.shape.clone());
        cx.set(count + i, value.dtype, value.shape);
    }
    Ok(())
}

/// How many variables a node with this many inputs updates.
fn variables(inputs: usize) -> Result<usize, String> {
    match inputs.checked_sub(2) {
        Some(n) if n > 0 && n % 3 == 0 => Ok(n / 3),
        _ => Err(format!("{inputs} inputs; there are the rate, the step count and three per variable")),
    }
}

fn required(cx: &LowerCx<'_, '_>, name: &str) -> Result<f32, Refusal> {
    cx.attrs().float(name).ok_or_else(|| Refusal::form(format!("attribute {name} is missing")))
}

/// The gradient of variable `i` with that of half the squared norm, times `norm_coefficient`, added.
fn gradient(cx: &mut LowerCx<'_, '_>, value: TensorId, i: usize) -> Result<TensorId, Refusal> {
    let norm = cx.attrs().float_or("norm_coefficient", 0.0);
    let g = cx.input(i)?;
    if norm == 0.0 {
        return Ok(g);
    }
    let pull = compose::scale(cx, value, norm);
    Ok(compose::add(cx, pull, g))
}

/// `V' = alpha V + beta G` (beta is 1 in the first step), then `X - R V'` or, after Nesterov, `X - R (G + alpha V')`.
fn lower_momentum(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let count = variables(cx.node.inputs.len()).map_err(Refusal::form)?;
    let (alpha, beta) = (required(cx, "alpha")?, required(cx, "beta")?);
    let nesterov = match cx.attrs().str_or("mode", "standard") {
        "nesterov" => true,
        "standard" => false,
        other => return Err(Refusal::form(format!("attribute mode is {other:?}; it is nesterov or standard"))),
    };
    let rate = cx.input(0)?;
    let share = later(cx, beta)?;
    for i in 0..count {
        elementwise::need_float(cx, 2 + i)?;
        let (x, v) = (cx.input(2 + i)?, cx.input(2 + 2 * count + i)?);
        let g = gradient(cx, x, 2 + count + i)?;
        let kept = compose::scale(cx, v, alpha);
        let fresh = match share {
            Some(s) => compose::mul(cx, g, s),
            None => g,
        };
        let v = compose::add(cx, kept, fresh);
        let mut step = v;
        if nesterov {
            let ahead = compose::scale(cx, v, alpha);
            step = compose::add(cx, g, ahead);
        }
        let step = compose::mul(cx, step, rate);
        let x = compose::sub(cx, x, step);
        compose::give(cx, i, x)?;
        compose::give(cx, count + i, v)?;
    }
    Ok(())
}

/// One number: `beta` if the step count is above 0, else 1. `None` if it is 1 either way.
fn later(cx: &mut LowerCx<'_, '_>, beta: f32) -> Result<Option<TensorId>, Refusal> {
    if beta == 1.0 {
        return Ok(None);
    }
    if let Some(t) = cx.constant(1).and_then(crate::ir::Tensor::scalar_i64) {
        return Ok((t > 0).then(|| cx.float_scalar(beta)));
    }
    if !matches!(cx.dtype(1)?, DataType::I64 | DataType::I32) {
        return Err(Refusal::form(format!("the step count is {}", cx.dtype(1)?)));
    }
    let t = cx.input(1)?;
    let zero = cx.i32_constant(&[1], &[0]);
    let above = compose::compare(cx, "ElementWiseGreater", t, zero);
    let (beta, one) = (cx.float_scalar(beta), cx.float_scalar(1.0));
    Ok(Some(compose::select(cx, above, beta, one)))
}

/// `H' = H + G^2`, then `X - R / (1 + T decay) G / (sqrt(H') + epsilon)`.
fn lower_adagrad(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let count = variables(cx.node.inputs.len()).map_err(Refusal::form)?;
    let epsilon = cx.attrs().float_or("epsilon", 0.0);
    let decay = cx.attrs().float_or("decay_factor", 0.0);
    let mut rate = cx.input(0)?;
    if decay != 0.0 {
        let t = cx.input(1)?;
        let float = cx.float();
        let t = cx.cast(t, float);
        let t = compose::scale(cx, t, decay);
        let one = cx.float_scalar(1.0);
        let slower = compose::add(cx, t, one);
        rate = compose::div(cx, rate, slower);
    }
    for i in 0..count {
        elementwise::need_float(cx, 2 + i)?;
        let (x, h) = (cx.input(2 + i)?, cx.input(2 + 2 * count + i)?);
        let g = gradient(cx, x, 2 + count + i)?;
        let square = compose::mul(cx, g, g);
        let h = compose::add(cx, h, square);
        let mut size = compose::unary(cx, "ElementWiseSquareRoot", h);
        if epsilon != 0.0 {
            let least = cx.float_scalar(epsilon);
            size = compose::add(cx, size, least);
        }
        let step = compose::div(cx, g, size);
        let step = compose::mul(cx, step, rate);
        let x = compose::sub(cx, x, step);
        compose::give(cx, i, x)?;
        compose::give(cx, count + i, h)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ir::DataType;
    use crate::ops::testing::{OneNode, assert_close, node};

    fn step(op: &str) -> OneNode {
        let n = node(&format!("ai.onnx.preview.training::{op}"), 1).float(&[]).input(DataType::I64, &[]);
        n.float(&[2]).float(&[2]).float(&[2]).outputs(2)
    }

    fn run(n: OneNode, t: f64) -> Vec<Vec<f64>> {
        n.run(&[vec![0.1], vec![t], vec![1.2, 2.8], vec![-0.94, -2.5], vec![1.7, 3.6]])
    }

    #[test]
    fn momentum() {
        let n = |mode| {
            step("Momentum").real("alpha", 0.95).real("beta", 0.5).real("norm_coefficient", 0.5).text("mode", mode)
        };
        assert_eq!(n("standard").types(), ["float32[2]", "float32[2]"]);
        // G = 0.5 X + grad = [-0.34, -1.1]
        let y = run(n("standard"), 1.0);
        assert_close(&y[1], &[1.615 - 0.17, 3.42 - 0.55], 1e-6);
        assert_close(&y[0], &[1.2 - 0.1445, 2.8 - 0.287], 1e-6);
        let y = run(n("standard"), 0.0);
        assert_close(&y[1], &[1.615 - 0.34, 3.42 - 1.1], 1e-6);
        let y = run(n("nesterov"), 1.0);
        assert_close(&y[0], &[1.2 - 0.1 * (-0.34 + 0.95 * 1.445), 2.8 - 0.1 * (-1.1 + 0.95 * 2.87)], 1e-6);
        assert!(node("ai.onnx.preview.training::Momentum", 1).float(&[]).error().contains("1 inputs"));
    }

    #[test]
    fn adagrad() {
        let y = run(step("Adagrad").real("decay_factor", 1.0), 1.0);
        assert_close(&y[1], &[1.7 + 0.8836, 3.6 + 6.25], 1e-6);
        let root = |v: f64| v.sqrt();
        assert_close(&y[0], &[1.2 + 0.05 * 0.94 / root(2.5836), 2.8 + 0.05 * 2.5 / root(9.85)], 1e-6);
    }
}
