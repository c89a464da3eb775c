//! Pow. The HTP's own power gives 0 for 0^0, so constant exponents become products, roots and quotients where they can.

use super::{FoldCx, InferCx, OpError, cast, compose, elementwise, invalid};
use crate::ir::{DataType, Tensor, broadcast_indices};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;
use crate::verdict::codes;

/// The result has the type of the base; before opset 12 both have the same type.
pub(super) fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (base, exponent) = (cx.dtype(0)?, cx.dtype(1)?);
    for (i, d) in [base, exponent].into_iter().enumerate() {
        if !(d.is_float() || d.is_int()) {
            return invalid(format!("input {i} is {d}, but must be numeric"));
        }
    }
    let shape = elementwise::infer_shape(cx, &[0, 1])?;
    cx.set(0, base, shape);
    if base.is_int() && exponent.is_int() {
        elementwise::infer_elements(cx, &[0, 1], |v| {
            let n = v[1].known().filter(|n| (0..=8).contains(n))?;
            Some((0..n).fold(crate::ir::Dim::Known(1), |p, _| p.mul(v[0])))
        });
    }
    Ok(())
}

pub(super) fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (base, exponent) = (cx.input(0)?, cx.input(1)?);
    if base.dtype().is_int() && exponent.dtype().is_int() {
        return elementwise::fold(cx, &[0, 1], |_| None, |v| wrapping_pow(v[0], v[1]));
    }
    let (dtype, shape) = cx.out_type(0)?;
    let (a, b) = (base.to_f64s()?, exponent.to_f64s()?);
    let picks = [broadcast_indices(base.shape(), &shape)?, broadcast_indices(exponent.shape(), &shape)?];
    let y: Vec<f64> = picks[0].iter().zip(&picks[1]).map(|(&i, &j)| a[i].powf(b[j])).collect();
    Some(vec![Tensor::from_f64(dtype, shape, &y)?])
}

fn wrapping_pow(base: i128, exponent: i128) -> Option<i128> {
    let n = u32::try_from(exponent).ok()?;
    Some(base.wrapping_pow(n))
}

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (base, exponent) = (cx.dtype(0)?, cx.dtype(1)?);
    let constant = cx.constant(1).and_then(Tensor::to_f64s);
    let uniform = constant.as_ref().and_then(|v| v.first().copied().filter(|f| v.iter().all(|x| x == f)));
    if !base.is_float() {
        let whole = constant.filter(|v| v.iter().all(|n| n.fract() == 0.0 && (0.0..=31.0).contains(n)));
        let (DataType::I32 | DataType::I64, Some(exponents)) = (base, whole) else {
            return Err(Refusal::new(
                codes::DTYPE,
                format!("Pow of {base} is exact only for int32 and int64 with constant whole exponents of 0 to 31"),
            )
            .fix("cast the base to a float type"));
        };
        return lower_int(cx, &exponents, uniform);
    }
    if let Some(n) = uniform.filter(|&n| is_special(n))
        && cx.out_shape(0)? == cx.shape(0)?
    {
        return elementwise::lower(cx, &[0], 5, |cx, ids| Ok(special(cx, ids[0], n)));
    }
    elementwise::lower(cx, &[0, 1], 5, |cx, ids| {
        let e = cast::convert(cx, ids[1], exponent, DataType::F32)?;
        let y = compose::binary(cx, "ElementWisePower", ids[0], e);
        if constant.is_some_and(|v| v.iter().all(|&n| n != 0.0)) {
            return Ok(y);
        }
        let (zero, one) = (cx.float_scalar(0.0), cx.float_scalar(1.0));
        let no_power = compose::compare(cx, "ElementWiseEqual", e, zero);
        let dims = cx.dims(y);
        let dtype = cx.qnn_type(y);
        Ok(cx.op_to("ElementWiseSelect", &[no_power, one, y], dtype, &dims, &[]))
    })
}

/// Powers of integers. Exponents that differ are taken apart into bits: a square counts where its bit is set, else 1.
fn lower_int(cx: &mut LowerCx<'_, '_>, exponents: &[f64], uniform: Option<f64>) -> Result<(), Refusal> {
    if let Some(n) = uniform.filter(|&n| n >= 1.0)
        && cx.out_shape(0)? == cx.shape(0)?
    {
        return elementwise::lower(cx, &[0], 5, |cx, ids| Ok(repeated(cx, ids[0], n as u32)));
    }
    let bits = exponents.iter().fold(0u32, |all, &n| all | n as u32);
    let exponent = cx.need_constant(1, "the exponent")?.shape().to_vec();
    let shape = cx.shape(0)?;
    if exponent.len() > shape.len().max(1) {
        return Err(Refusal::form("the exponent of an integer Pow has a higher rank than the base"));
    }
    let x = cx.input(0)?;
    let dims: Vec<u32> = if exponent.is_empty() { vec![1] } else { exponent.iter().map(|&d| d as u32).collect() };
    let one = cx.i32_constant(&[1], &[1]);
    let (mut square, mut y) = (x, None);
    for bit in 0..u32::BITS - bits.leading_zeros() {
        if bit > 0 {
            square = compose::mul(cx, square, square);
        }
        let set: Vec<i32> = exponents.iter().map(|&n| (n as i32 >> bit) & 1).collect();
        let set = cx.i32_constant(&dims, &set);
        let rest = compose::sub(cx, square, one);
        let counted = compose::mul(cx, rest, set);
        let factor = compose::add(cx, counted, one);
        y = Some(y.map_or(factor, |y| compose::mul(cx, y, factor)));
    }
    let y = y.unwrap_or_else(|| {
        let nothing = compose::sub(cx, x, x);
        let ones = cx.i32_constant(&dims, &vec![1; exponents.len()]);
        compose::add(cx, nothing, ones)
    });
    compose::give(cx, 0, y)
}

/// Has [`special`] a way for this exponent?
fn is_special(n: f64) -> bool {
    (n.fract() == 0.0 && ((1.0..=8.0).contains(&n) || (-4.0..=-1.0).contains(&n))) || [0.5, 1.5, -0.5].contains(&n)
}

/// `x^n` without the HTP's power, more precisely.
fn special(cx: &mut LowerCx<'_, '_>, x: TensorId, n: f64) -> TensorId {
    if n == -0.5 {
        return compose::unary(cx, "ElementWiseRsqrt", x);
    }
    if n.fract() != 0.0 {
        let root = elementwise::unary_any_rank(cx, "ElementWiseSquareRoot", x);
        return if n < 1.0 { root } else { compose::mul(cx, x, root) };
    }
    if n > 0.0 {
        return repeated(cx, x, n as u32);
    }
    // The power of the inverse: that of x itself could overflow where the result does not.
    let one = cx.float_scalar(1.0);
    let (dtype, dims) = (cx.qnn_type(x), cx.dims(x));
    let inverse = cx.op_to("ElementWiseDivide", &[one, x], dtype, &dims, &[]);
    repeated(cx, inverse, -n as u32)
}

/// `x^n` for `n` of 1 or more, by squaring.
fn repeated(cx: &mut LowerCx<'_, '_>, x: TensorId, n: u32) -> TensorId {
    let (mut square, mut rest) = (x, n);
    let mut y = None;
    loop {
        if rest % 2 == 1 {
            y = Some(y.map_or(square, |y| compose::mul(cx, y, square)));
        }
        rest /= 2;
        if rest == 0 {
            return y.unwrap_or(x);
        }
        square = compose::mul(cx, square, square);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types};

    fn pow(n: f32) -> crate::ops::testing::OneNode {
        node("Pow", 13).float(&[3]).floats(&[], &[n])
    }

    #[test]
    fn constant_exponents_choose_the_precise_op() {
        let ops = |n: f32| op_types(&pow(n).lower().unwrap()).join(" ");
        assert_eq!(ops(1.0), "Reshape");
        assert_eq!(ops(2.0), "ElementWiseMultiply");
        assert_eq!(ops(3.0), "ElementWiseMultiply ElementWiseMultiply");
        assert_eq!(ops(0.5), "ElementWiseSquareRoot");
        assert_eq!(ops(-0.5), "ElementWiseRsqrt");
        assert_eq!(ops(-1.0), "ElementWiseDivide");
        assert_eq!(ops(2.5), "ElementWisePower");
        assert_eq!(ops(0.0), "ElementWisePower ElementWiseEqual ElementWiseSelect");
        for n in [1.0, 2.0, 3.0, 5.0, 8.0, 0.5, 1.5, -0.5, -1.0, -3.0, 2.5, 0.0] {
            let want: Vec<f64> = [0.5f64, 1.0, 3.0].iter().map(|x| x.powf(f64::from(n))).collect();
            assert_close(&pow(n).run(&[vec![0.5, 1.0, 3.0]])[0], &want, 1e-9);
        }
    }

    #[test]
    fn run_time_exponents_give_1_for_0() {
        let n = node("Pow", 13).float(&[3]).input(DataType::I64, &[3]);
        assert_close(&n.run(&[vec![0.0, 2.0, 3.0], vec![0.0, 3.0, 0.0]])[0], &[1.0, 8.0, 1.0], 0.0);
    }

    #[test]
    fn integers() {
        let n = node("Pow", 15).input(DataType::I32, &[3]).ints(&[3]);
        assert_close(&n.run(&[vec![-2.0, 3.0, 0.0]])[0], &[-8.0, 27.0, 0.0], 0.0);
        let n = node("Pow", 15).input(DataType::I32, &[3]).ints(&[0, 5, 6]);
        assert_close(&n.run(&[vec![-2.0, 3.0, -2.0]])[0], &[1.0, 243.0, 64.0], 0.0);
        let n = node("Pow", 15).input(DataType::I32, &[2]).ints(&[0]);
        assert_close(&n.run(&[vec![-2.0, 0.0]])[0], &[1.0, 1.0], 0.0);
        let said = node("Pow", 15).input(DataType::I32, &[3]).floats(&[], &[0.5]).refusal();
        assert!(said.contains("Pow of int32"), "{said}");
        let f = node("Pow", 15).ints(&[1, 2, 3]).ints(&[4, 5, 6]).fold().unwrap();
        assert_eq!(f[0].to_i64s().unwrap(), [1, 32, 729]);
        let f = node("Pow", 15).ints(&[1, 2, 3]).floats(&[3], &[4.0, 5.0, 6.0]).fold().unwrap();
        assert_eq!(f[0].to_i64s().unwrap(), [1, 32, 729]);
    }
}
