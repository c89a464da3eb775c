//! Clip: limits as attributes (before opset 11) or inputs, either of them optional.

use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, elementwise_binary, invalid};
use crate::ir::{DataType, Dim, Tensor, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Clip", infer).fold(fold).lower(lower)];

/// The largest finite 16-bit float: a limit from there on limits nothing that the HTP can hold.
const HALF_MAX: f64 = 65504.0;

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    for i in 1..=2 {
        if !cx.has(i) {
            continue;
        }
        if cx.dtype(i)? != t.dtype {
            return invalid(format!("input {i} is {}, but input 0 is {}", cx.dtype(i)?, t.dtype));
        }
        if let Ok(limit) = cx.ty(i)
            && !limit.shape.iter().all(Dim::is_one)
        {
            return invalid(format!("input {i} must be a scalar, but has shape {}", show_shape(&limit.shape)));
        }
    }
    cx.set(0, t.dtype, t.shape);
    if t.dtype.is_int() {
        let limit = |i: usize| cx.elements(i).and_then(|e| e.into_iter().next());
        let (low, high) = (limit(1), limit(2));
        if low.is_some() == cx.has(1) && high.is_some() == cx.has(2) {
            elementwise::infer_elements(cx, &[0], |v| {
                let v = low.as_ref().map_or_else(|| Some(v[0].clone()), |l| elementwise_binary::max_dims(v[0], l))?;
                high.as_ref().map_or_else(|| Some(v.clone()), |h| elementwise_binary::min_dims(&v, h))
            });
        }
    }
    Ok(())
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let float = cx.node.attrs.float("min").map(f64::from);
    let limits = [cx.input(1), cx.input(2)];
    let f = |i: usize, attr: Option<f64>| limits[i].and_then(Tensor::scalar_f64).or(attr);
    let (low, high) = (f(0, float), f(1, cx.node.attrs.float("max").map(f64::from)));
    let int = |i: usize| limits[i].and_then(|t: &Tensor| t.to_i128s()?.first().copied());
    let (int_low, int_high) = (int(0), int(1));
    elementwise::fold(
        cx,
        &[0],
        |v| {
            let v = low.map_or(v[0], |l| if v[0] < l { l } else { v[0] });
            Some(high.map_or(v, |h| if v > h { h } else { v }))
        },
        |v| {
            let v = int_low.map_or(v[0], |l| v[0].max(l));
            Some(int_high.map_or(v, |h| v.min(h)))
        },
    )
}

/// One limit of a float Clip.
enum Limit {
    None,
    Constant(f32),
    Input(usize),
}

fn float_limit(cx: &LowerCx<'_, '_>, i: usize, attr: &str, holds: impl Fn(f64) -> bool) -> Result<Limit, Refusal> {
    let value = if cx.has(i) {
        match cx.constant(i) {
            Some(t) => t.to_f64s().and_then(|v| v.first().copied()),
            None => return Ok(Limit::Input(i)),
        }
    } else {
        cx.attrs().float(attr).map(f64::from)
    };
    match value {
        Some(v) if v.is_nan() => Err(Refusal::form(format!("{attr} is NaN"))),
        Some(v) if holds(v) => Ok(Limit::Constant(v as f32)),
        _ => Ok(Limit::None),
    }
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    if !dtype.is_float() {
        return lower_int(cx, dtype);
    }
    let low = float_limit(cx, 1, "min", |v| v > -HALF_MAX)?;
    let high = float_limit(cx, 2, "max", |v| v < HALF_MAX)?;
    match (low, high) {
        (Limit::None, Limit::None) => {
            let layout = cx.any_layout(0)?;
            let x = cx.input_in(0, &layout)?;
            cx.alias(0, x, layout)
        }
        (Limit::Constant(0.0), Limit::None) => elementwise::lower_op(cx, "Relu", &[0], 5, &[]),
        (Limit::Constant(a), Limit::Constant(b)) if a <= b => {
            let params = compose::clamp_params(a, b);
            elementwise::lower_op(cx, "ReluMinMax", &[0], 5, &params)
        }
        (low, high) => elementwise::lower(cx, &[0], 4, |cx, ids| {
            let y = limit(cx, ids[0], "ElementWiseMaximum", &low)?;
            limit(cx, y, "ElementWiseMinimum", &high)
        }),
    }
}

fn limit(cx: &mut LowerCx<'_, '_>, x: TensorId, op: &str, limit: &Limit) -> Result<TensorId, Refusal> {
    let bound = match limit {
        Limit::None => return Ok(x),
        Limit::Constant(v) => cx.float_scalar(*v),
        Limit::Input(i) => scalar_input(cx, *i)?,
    };
    Ok(compose::binary(cx, op, x, bound))
}

fn scalar_input(cx: &mut LowerCx<'_, '_>, i: usize) -> Result<TensorId, Refusal> {
    let t = cx.input(i)?;
    Ok(cx.reshape(t, &[1]))
}

fn lower_int(cx: &mut LowerCx<'_, '_>, dtype: DataType) -> Result<(), Refusal> {
    elementwise::need_signed(cx, dtype)?;
    elementwise::lower(cx, &[0], 4, |cx, ids| {
        let mut y = cast::to_int32(cx, ids[0], dtype)?;
        for (i, op) in [(1, "ElementWiseMaximum"), (2, "ElementWiseMinimum")] {
            if !cx.has(i) {
                continue;
            }
            let constant = cx.constant(i).and_then(Tensor::to_i128s).and_then(|v| v.first().copied());
            let bound = if let Some(v) = constant {
                // The values are int32, so a limit outside of that range is as good as its end.
                let v = v.clamp(i32::MIN.into(), i32::MAX.into());
                cx.i32_constant(&[1], &[v as i32])
            } else {
                let t = scalar_input(cx, i)?;
                cast::to_int32(cx, t, dtype)?
            };
            y = compose::binary(cx, op, y, bound);
        }
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types};

    fn clip(low: Option<f32>, high: Option<f32>) -> crate::ops::testing::OneNode {
        let n = node("Clip", 13).float(&[4]);
        let n = if let Some(v) = low { n.floats(&[], &[v]) } else { n.omit() };
        if let Some(v) = high { n.floats(&[], &[v]) } else { n }
    }

    #[test]
    fn the_op_follows_the_limits() {
        let ops = |l, h| op_types(&clip(l, h).lower().unwrap()).join(" ");
        assert_eq!(ops(Some(0.0), Some(6.0)), "ReluMinMax");
        assert_eq!(ops(Some(0.0), None), "Relu");
        assert_eq!(ops(Some(-1.0), None), "ElementWiseMaximum");
        assert_eq!(ops(None, Some(1.0)), "ElementWiseMinimum");
        assert_eq!(ops(Some(0.0), Some(f32::MAX)), "Relu");
        assert_eq!(ops(None, None), "Reshape");
        assert_eq!(ops(Some(2.0), Some(1.0)), "ElementWiseMaximum ElementWiseMinimum");
        let x = vec![-3.0, -0.5, 0.5, 3.0];
        assert_close(&clip(Some(2.0), Some(1.0)).run(std::slice::from_ref(&x))[0], &[1.0; 4], 0.0);
        assert_close(&clip(Some(-1.0), None).run(&[x])[0], &[-1.0, -0.5, 0.5, 3.0], 0.0);
    }

    #[test]
    fn limits_as_attributes() {
        let n = node("Clip", 6).float(&[2]).real("min", -1.0).real("max", 1.0);
        assert_eq!(op_types(&n.lower().unwrap()), ["ReluMinMax"]);
    }

    #[test]
    fn integers() {
        let n = node("Clip", 12).input(DataType::I64, &[3]);
        let n = n.constant(Tensor::from_i64(vec![], &[-5])).constant(Tensor::from_i64(vec![], &[i64::MAX]));
        assert_close(&n.run(&[vec![-9.0, 0.0, 9.0]])[0], &[-5.0, 0.0, 9.0], 0.0);
        let e = node("Clip", 12).elements(DataType::I64, &[1], vec![Dim::symbol("n")]);
        let e = e.constant(Tensor::from_i64(vec![], &[0])).infer().unwrap();
        assert_eq!(e[0].elements.as_ref().unwrap()[0], Dim::symbol("n"));
    }

    #[test]
    fn values() {
        let f = node("Clip", 13).floats(&[3], &[-2.0, f32::NAN, 2.0]).floats(&[], &[-1.0]).floats(&[], &[1.0]);
        let v = f.fold().unwrap()[0].to_f64s().unwrap();
        assert!(v[0] == -1.0 && v[1].is_nan() && v[2] == 1.0);
        assert!(node("Clip", 13).float(&[3]).floats(&[2], &[0.0, 1.0]).error().contains("scalar"));
    }
}
