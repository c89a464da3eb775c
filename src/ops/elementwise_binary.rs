//! Arithmetic of several operands that broadcast: Add, Sub, Mul, Div, Mod, Max, Min, Sum, Mean, PRelu.

use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, invalid, power, word};
use crate::ir::{DataType, Dim, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Add", |cx| infer_numbers(cx, |a, b| Some(a.add(b)))).fold(fold_add).lower(|cx| arithmetic(cx, ADD)),
    OpDef::new("Sub", |cx| infer_numbers(cx, |a, b| Some(a.sub(b))))
        .fold(fold_sub)
        .lower(|cx| arithmetic(cx, SUBTRACT)),
    OpDef::new("Mul", |cx| infer_numbers(cx, |a, b| Some(a.mul(b))))
        .fold(fold_mul)
        .lower(|cx| arithmetic(cx, MULTIPLY)),
    OpDef::new("Div", |cx| infer_numbers(cx, divide_dims))
        .fold(fold_div)
        .lower(|cx| arithmetic(cx, "ElementWiseDivide")),
    OpDef::new("Mod", infer_mod).fold(fold_mod).lower(lower_mod),
    OpDef::new("Pow", power::infer).fold(power::fold).lower(power::lower),
    OpDef::new("Max", |cx| infer_variadic(cx, max_dims)).fold(fold_max).lower(|cx| extremum(cx, "ElementWiseMaximum")),
    OpDef::new("Min", |cx| infer_variadic(cx, min_dims)).fold(fold_min).lower(|cx| extremum(cx, "ElementWiseMinimum")),
    OpDef::new("Sum", infer_float_variadic).fold(fold_sum).lower(|cx| lower_sum(cx, false)),
    OpDef::new("Mean", infer_float_variadic).fold(fold_mean).lower(|cx| lower_sum(cx, true)),
    OpDef::new("PRelu", infer_prelu).fold(fold_prelu).lower(lower_prelu),
];

const ADD: &str = "ElementWiseAdd";
const SUBTRACT: &str = "ElementWiseSubtract";
const MULTIPLY: &str = "ElementWiseMultiply";

/// Two operands of one type that broadcast; `f` is what the op does to elements that are expressions.
pub(super) fn infer_numbers(cx: &mut InferCx<'_>, f: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    if !(dtype.is_float() || dtype.is_int()) {
        return invalid(format!("the inputs are {dtype}, but must be numeric"));
    }
    let shape = elementwise::infer_shape(cx, &[0, 1])?;
    cx.set(0, dtype, shape);
    if dtype.is_int() {
        elementwise::infer_elements(cx, &[0, 1], |v| f(v[0], v[1]));
    }
    Ok(())
}

fn infer_mod(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let fmod = cx.node.attrs.int_or("fmod", 0);
    if fmod == 0 && cx.dtype(0)?.is_float() {
        return invalid(format!("attribute fmod must be 1 for {}", cx.dtype(0)?));
    }
    infer_numbers(cx, |a, b| match (a.known()?, b.known()?) {
        (_, 0) => None,
        (a, b) => Some(Dim::Known(if fmod == 1 { a.checked_rem(b)? } else { floor_mod(a.into(), b.into()) as i64 })),
    })
}

fn infer_variadic(cx: &mut InferCx<'_>, f: impl Fn(&Dim, &Dim) -> Option<Dim>) -> Result<(), OpError> {
    let inputs = elementwise::given(cx.node);
    let dtype = elementwise::infer_dtype(cx, &inputs)?;
    let shape = elementwise::infer_shape(cx, &inputs)?;
    cx.set(0, dtype, shape);
    if dtype.is_int() {
        elementwise::infer_elements(cx, &inputs, |v| {
            let mut all = v.iter();
            let first = (*all.next()?).clone();
            all.try_fold(first, |a, b| f(&a, b))
        });
    }
    Ok(())
}

fn infer_float_variadic(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let inputs = elementwise::given(cx.node);
    let dtype = elementwise::infer_dtype(cx, &inputs)?;
    if !dtype.is_float() {
        return invalid(format!("the inputs are {dtype}, but must be of a float type"));
    }
    let shape = elementwise::infer_shape(cx, &inputs)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The slope broadcasts to the shape of the input, not the other way.
fn infer_prelu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    let shape = elementwise::infer_shape(cx, &[0, 1])?;
    let x = cx.shape(0)?.clone();
    if shape.len() > x.len() {
        return invalid(format!("the slope has rank {}, more than the input's {}", shape.len(), x.len()));
    }
    cx.set(0, dtype, x);
    Ok(())
}

/// Truncating division of elements. Floor division of an expression is the same where neither side is negative.
fn divide_dims(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(a), Dim::Known(b)) => a.checked_div(*b).map(Dim::Known),
        _ if a.is_nonnegative() && b.is_nonnegative() => a.floor_div(b),
        _ => a.exact_div(b),
    }
}

/// The larger of two elements, if it is known which one that is.
pub(super) fn max_dims(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a.known(), b.known()) {
        (Some(x), Some(y)) => Some(Dim::Known(x.max(y))),
        _ if a.sub(b).is_nonnegative() => Some(a.clone()),
        _ if b.sub(a).is_nonnegative() => Some(b.clone()),
        _ => None,
    }
}

/// The smaller of two elements, if it is known which one that is.
pub(super) fn min_dims(a: &Dim, b: &Dim) -> Option<Dim> {
    let larger = max_dims(a, b)?;
    Some(if larger == *a { b.clone() } else { a.clone() })
}

fn fold_add(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |v| Some(v[0] + v[1]), |v| Some(v[0].wrapping_add(v[1])))
}

fn fold_sub(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |v| Some(v[0] - v[1]), |v| Some(v[0].wrapping_sub(v[1])))
}

fn fold_mul(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |v| Some(v[0] * v[1]), |v| Some(v[0].wrapping_mul(v[1])))
}

fn fold_div(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |v| Some(v[0] / v[1]), |v| v[0].checked_div(v[1]))
}

/// The remainder with the sign of the divisor.
fn floor_mod(a: i128, b: i128) -> i128 {
    let r = a.wrapping_rem(b);
    if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
}

fn fold_mod(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let fmod = cx.node.attrs.int_or("fmod", 0) == 1;
    elementwise::fold(
        cx,
        &[0, 1],
        |v| Some(v[0] % v[1]),
        |v| match (v[0], v[1]) {
            (_, 0) => None,
            (a, b) => Some(if fmod { a.wrapping_rem(b) } else { floor_mod(a, b) }),
        },
    )
}

/// numpy's maximum: NaN if either is.
fn fold_max(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let larger = |a: f64, b: &f64| if a.is_nan() || a > *b { a } else { *b };
    fold_variadic(cx, |v| v.iter().skip(1).fold(v[0], larger), |v| v.iter().max().copied())
}

fn fold_min(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let smaller = |a: f64, b: &f64| if a.is_nan() || a < *b { a } else { *b };
    fold_variadic(cx, |v| v.iter().skip(1).fold(v[0], smaller), |v| v.iter().min().copied())
}

fn fold_sum(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    fold_variadic(cx, |v| v.iter().sum(), |_| None)
}

fn fold_mean(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    fold_variadic(cx, |v| v.iter().sum::<f64>() / v.len() as f64, |_| None)
}

fn fold_variadic(
    cx: &FoldCx<'_>,
    float: impl Fn(&[f64]) -> f64,
    int: impl Fn(&[i128]) -> Option<i128>,
) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &elementwise::given(cx.node), |v| Some(float(v)), int)
}

fn fold_prelu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let int = |v: &[i128]| if v[0] < 0 { v[0].checked_mul(v[1]) } else { Some(v[0]) };
    elementwise::fold(cx, &[0, 1], |v| Some(if v[0] < 0.0 { v[0] * v[1] } else { v[0] }), int)
}

/// An op of two operands: floats directly, integers in INT_32.
fn arithmetic(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    if dtype.is_float() && op == ADD && broadcasts_over_rows(cx)? && feeds_normalisation(cx) {
        return elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
            let [a, b] = spread_over_rows(cx, [ids[0], ids[1]]);
            Ok(compose::add(cx, a, b))
        });
    }
    let divides = op == "ElementWiseDivide" && !dtype.is_float();
    if !divides && (dtype.is_float() || matches!(dtype, DataType::I32 | DataType::I64)) {
        return elementwise::lower_op(cx, op, &[0, 1], 5, &[]);
    }
    if dtype == DataType::U32 {
        return unsigned(cx, |cx, a, b| match op {
            ADD => word::sum(cx, a, b, false),
            SUBTRACT => word::sum(cx, a, b, true),
            MULTIPLY => word::product(cx, a, b),
            _ => word::unsigned_division(cx, a, b)[0],
        });
    }
    elementwise::need_signed(cx, dtype)?;
    elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
        let (a, b) = (cast::to_int32(cx, ids[0], dtype)?, cast::to_int32(cx, ids[1], dtype)?);
        let y = if divides { int_quotient(cx, a, b) } else { compose::binary(cx, op, a, b) };
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

/// An op of two operands of uint32, computed on their bits as INT_32.
fn unsigned(
    cx: &mut LowerCx<'_, '_>,
    f: impl FnOnce(&mut LowerCx<'_, '_>, TensorId, TensorId) -> TensorId,
) -> Result<(), Refusal> {
    elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
        let dims = compose::broadcast_dims(&cx.dims(ids[0]), &cx.dims(ids[1]));
        let [a, b] = [cast::to_int32(cx, ids[0], DataType::U32)?, cast::to_int32(cx, ids[1], DataType::U32)?];
        let [a, b] = [elementwise::spread(cx, a, &dims), elementwise::spread(cx, b, &dims)];
        let y = f(cx, a, b);
        cast::convert(cx, y, DataType::I32, DataType::U32)
    })
}

/// The quotient of the node's operands as int32 tensors, rounded towards 0.
fn int_quotient(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    let single = cx.constant(1).and_then(Tensor::scalar_i64).and_then(|k| i32::try_from(k).ok());
    match single {
        Some(k) if k != 0 => compose::quotient(cx, a, k),
        _ => compose::div(cx, a, b),
    }
}

/// Is one operand repeated along an axis before the last two, of which it has more than one row? In any layout.
fn broadcasts_over_rows(cx: &LowerCx<'_, '_>) -> Result<bool, Refusal> {
    let out = cx.out_shape(0)?;
    let repeated = |i: usize| -> Result<bool, Refusal> {
        let shape = cx.shape(i)?;
        Ok(out.len() > 2 && shape.iter().product::<usize>() > 1 && shape.as_slice() != out.as_slice())
    };
    Ok(repeated(0)? || repeated(1)?)
}

/// Is output 0 read by a normalisation, directly or under another shape?
fn feeds_normalisation(cx: &LowerCx<'_, '_>) -> bool {
    const RENAMING: [&str; 8] =
        ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout", "Cast"];
    let graph = cx.graph();
    let mut values: Vec<_> = cx.node.output(0).into_iter().collect();
    let mut next = 0;
    while let Some(&v) = values.get(next) {
        next += 1;
        for (_, node) in graph.nodes().filter(|(_, n)| n.reads().any(|r| r == v)) {
            if node.op_type.contains("Norm") {
                return true;
            }
            if RENAMING.contains(&node.op_type.as_str()) {
                values.extend(node.output(0));
            }
        }
    }
    false
}

/// Operands of which neither is repeated along the axis before the last two. The HTP fuses such an Add with a
/// LayerNorm after it, and then is wrong from the second repetition on, for 16 rows or more (QAIRT 2.47).
pub(super) fn spread_over_rows(cx: &mut LowerCx<'_, '_>, operands: [TensorId; 2]) -> [TensorId; 2] {
    let out = compose::broadcast_dims(&cx.dims(operands[0]), &cx.dims(operands[1]));
    let Some(axis) = out.len().checked_sub(3) else { return operands };
    operands.map(|t| {
        let own = cx.dims(t);
        let mut full = vec![1; out.len().saturating_sub(own.len())];
        full.extend(own);
        if full[axis] == out[axis] || full[axis + 1] == 1 {
            return t;
        }
        let mut dims = full.clone();
        dims[axis] = out[axis];
        elementwise::spread(cx, t, &dims)
    })
}

fn lower_mod(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    let fmod = cx.attrs().int_or("fmod", 0) == 1;
    if dtype.is_float() {
        elementwise::need_approximate(
            cx,
            "the remainder of floats jumps by a whole divisor where the 16-bit quotient rounds across an integer",
        )?;
        return elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
            let q = compose::div(cx, ids[0], ids[1]);
            let size = compose::unary(cx, "ElementWiseAbs", q);
            let whole = compose::unary(cx, "ElementWiseFloor", size);
            let sign = compose::unary(cx, "ElementWiseSign", q);
            let whole = compose::mul(cx, whole, sign);
            let part = compose::mul(cx, whole, ids[1]);
            Ok(compose::sub(cx, ids[0], part))
        });
    }
    if dtype == DataType::U32 {
        return unsigned(cx, |cx, a, b| word::unsigned_division(cx, a, b)[1]);
    }
    elementwise::need_signed(cx, dtype)?;
    elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
        let (a, b) = (cast::to_int32(cx, ids[0], dtype)?, cast::to_int32(cx, ids[1], dtype)?);
        let y = if fmod {
            let q = int_quotient(cx, a, b);
            let part = compose::mul(cx, q, b);
            compose::sub(cx, a, part)
        } else {
            compose::binary(cx, "ElementWiseMod", a, b)
        };
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

/// Max and Min of any number of inputs.
fn extremum(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    let inputs = elementwise::given(cx.node);
    if dtype == DataType::U32 {
        let larger = op == "ElementWiseMaximum";
        return elementwise::lower(cx, &inputs, 4, |cx, ids| {
            let mut y = cast::to_int32(cx, ids[0], dtype)?;
            for &t in &ids[1..] {
                let t = cast::to_int32(cx, t, dtype)?;
                let less = word::below(cx, y, t);
                y = if larger { word::choose(cx, less, t, y) } else { word::choose(cx, less, y, t) };
            }
            cast::convert(cx, y, DataType::I32, dtype)
        });
    }
    if !dtype.is_float() {
        elementwise::need_signed(cx, dtype)?;
    } else if inputs.len() == 2 {
        return elementwise::lower_op(cx, op, &inputs, 4, &[]);
    }
    elementwise::lower(cx, &inputs, 4, |cx, ids| {
        let mut y = to_compute(cx, ids[0], dtype)?;
        for &t in &ids[1..] {
            let t = to_compute(cx, t, dtype)?;
            y = compose::binary(cx, op, y, t);
        }
        if dtype.is_float() { Ok(y) } else { cast::convert(cx, y, DataType::I32, dtype) }
    })
}

fn to_compute(cx: &mut LowerCx<'_, '_>, t: TensorId, dtype: DataType) -> Result<TensorId, Refusal> {
    if dtype.is_float() { Ok(t) } else { cast::to_int32(cx, t, dtype) }
}

fn lower_sum(cx: &mut LowerCx<'_, '_>, mean: bool) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let inputs = elementwise::given(cx.node);
    elementwise::lower(cx, &inputs, 5, |cx, ids| {
        let sum = ids[1..].iter().fold(ids[0], |y, &t| compose::add(cx, y, t));
        Ok(if mean { compose::scale(cx, sum, 1.0 / ids.len() as f32) } else { sum })
    })
}

fn lower_prelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    elementwise::lower_op(cx, "Prelu", &[0, 1], 5, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{OneNode, assert_close, node, op_types, ramp};

    #[test]
    fn types() {
        assert_eq!(node("Add", 14).float(&[2, -1, 1]).float(&[3]).types(), ["float32[2, d1, 3]"]);
        assert_eq!(node("Max", 13).float(&[2, 1]).float(&[3]).float(&[]).types(), ["float32[2, 3]"]);
        assert!(node("Add", 14).float(&[2]).input(DataType::I64, &[2]).error().contains("input 1 is int64"));
        assert!(node("Mul", 14).float(&[2, 3]).float(&[2]).error().contains("3 against 2"));
        assert!(node("PRelu", 16).float(&[2]).float(&[2, 2]).error().contains("slope"));
        assert!(node("Mod", 13).float(&[2]).float(&[2]).error().contains("fmod must be 1"));
    }

    #[test]
    fn shape_arithmetic() {
        let e = |op: &str, by: i64| {
            let n = node(op, 13).elements(DataType::I64, &[1], vec![Dim::symbol("n").mul(&Dim::Known(4))]).ints(&[by]);
            n.infer().unwrap()[0].elements.as_ref().map_or("?".into(), |e| e[0].to_string())
        };
        assert_eq!(e("Add", 1), "4*n + 1");
        assert_eq!(e("Sub", 1), "4*n - 1");
        assert_eq!(e("Mul", 2), "8*n");
        assert_eq!(e("Div", 2), "2*n");
        assert_eq!(e("Div", 3), "floor((4*n)/(3))");
        assert_eq!(e("Max", 0), "4*n");
        assert_eq!(e("Min", -1), "-1");
        assert_eq!(e("Max", 7), "?");
    }

    #[test]
    fn values() {
        let i = |op: &str, a: &[i64], b: &[i64]| node(op, 13).ints(a).ints(b).fold().map(|t| t[0].to_i64s().unwrap());
        assert_eq!(i("Div", &[-7, 7, 7], &[2, -2, 2]), Some(vec![-3, -3, 3]));
        assert_eq!(i("Div", &[1], &[0]), None);
        assert_eq!(i("Mod", &[-7, 7, -7], &[2, -2, -2]), Some(vec![1, -1, -1]));
        assert_eq!(i("Add", &[i64::MAX], &[1]), Some(vec![i64::MIN]));
        let fmod = node("Mod", 13).ints(&[-7, 7]).ints(&[2, -2]).int("fmod", 1).fold().unwrap();
        assert_eq!(fmod[0].to_i64s().unwrap(), [-1, 1]);
        let f = node("Mod", 13).floats(&[2], &[-4.3, 7.2]).floats(&[2], &[2.1, -3.4]).int("fmod", 1).fold().unwrap();
        assert_close(&f[0].to_f64s().unwrap(), &[-0.1, 0.4], 1e-6);
        let m = node("Mean", 13).floats(&[2], &[1.0, 2.0]).floats(&[1], &[4.0]).floats(&[], &[1.0]).fold().unwrap();
        assert_close(&m[0].to_f64s().unwrap(), &[2.0, 2.3333333], 1e-6);
    }

    #[test]
    fn variadic_ops_chain() {
        let n = node("Sum", 13).float(&[2, 2]).float(&[2]).float(&[1]);
        assert_eq!(op_types(&n.lower().unwrap()), ["ElementWiseAdd", "ElementWiseAdd"]);
        assert_close(&n.run(&[ramp(4, 0.0, 1.0), vec![1.0, 2.0], vec![10.0]])[0], &[11.0, 13.0, 13.0, 15.0], 0.0);
        let n = node("Mean", 13).float(&[2]).float(&[2]);
        assert_close(&n.run(&[vec![1.0, 2.0], vec![3.0, 5.0]])[0], &[2.0, 3.5], 1e-7);
        assert_eq!(op_types(&node("Max", 13).float(&[2]).lower().unwrap()), ["Reshape"]);
        let n = node("Min", 13).input(DataType::I64, &[2]).ints(&[0, 3]).ints(&[2]);
        assert_close(&n.run(&[vec![5.0, 1.0]])[0], &[0.0, 1.0], 0.0);
    }

    #[test]
    fn integers_are_computed_in_32_bits() {
        let i = |op: &str, d: DataType| node(op, 13).input(d, &[2]).input(d, &[2]);
        assert_eq!(op_types(&i("Div", DataType::I32).lower().unwrap()), ["ElementWiseDivide"]);
        let by = |k: i64| node("Div", 13).input(DataType::I64, &[2]).constant(Tensor::from_i64(vec![], &[k]));
        assert_eq!(op_types(&by(6).lower().unwrap()), ["Cast", "ElementWiseDivide", "Cast"]);
        assert_eq!(op_types(&by(-4).lower().unwrap()), ["Cast", "ElementWiseDivide", "Cast"]);
        assert_eq!(op_types(&by(4).lower().unwrap())[1..3], ["ElementWiseDivide", "ElementWiseSubtract"]);
        let ops = op_types(&i("Add", DataType::U8).lower().unwrap()).join(" ");
        assert_eq!(ops, "Cast Cast ElementWiseAdd ElementWiseMod Cast");
        assert!(i("Add", DataType::U64).refusal().contains("uint64"));
        let n = node("Mod", 13).input(DataType::I32, &[2]).input(DataType::I32, &[2]).int("fmod", 1);
        assert_eq!(op_types(&n.lower().unwrap()), ["ElementWiseDivide", "ElementWiseMultiply", "ElementWiseSubtract"]);
        let n = node("Mod", 13).float(&[2]).float(&[2]).int("fmod", 1);
        assert!(n.refusal().contains("remainder"));
    }

    #[test]
    fn unsigned_words_wrap() {
        const X: [u32; 9] = [0, 1, 2, 7, 65536, 0x1234_5678, i32::MAX as u32, 1 << 31, u32::MAX];
        let (a, b): (Vec<u32>, Vec<u32>) = X.iter().flat_map(|&a| X.iter().map(move |&b| (a, b))).unzip();
        let signed = |v: &[u32]| v.iter().map(|&v| f64::from(v as i32)).collect::<Vec<f64>>();
        let shape = [a.len() as i64];
        for (op, f) in [
            ("Add", u32::wrapping_add as fn(u32, u32) -> u32),
            ("Sub", u32::wrapping_sub),
            ("Mul", u32::wrapping_mul),
            ("Div", |a, b| a.checked_div(b).unwrap_or(0)),
            ("Mod", |a, b| a.checked_rem(b).unwrap_or(0)),
            ("Max", u32::max),
            ("Min", u32::min),
        ] {
            let divides = op == "Div" || op == "Mod";
            let n = node(op, 13).input(DataType::U32, &shape).input(DataType::U32, &shape);
            // Division by zero is not defined.
            let b: Vec<u32> = b.iter().map(|&b| if divides { b.max(1) } else { b }).collect();
            let want: Vec<u32> = a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect();
            assert_close(&n.run(&[signed(&a), signed(&b)])[0], &signed(&want), 0.0);
        }
    }

    #[test]
    fn rows_are_repeated_before_a_normalisation() {
        use crate::ir::{Graph, Node, TensorType};
        use crate::lower::{Lowering, Target};
        use crate::qnn::graph::QnnType;
        let build = |reader: &str| {
            let mut g = Graph::default();
            let ty = |s: &[i64]| TensorType::new(DataType::F32, s.iter().map(|&d| d.into()).collect());
            let a = g.add_typed("a", ty(&[2, 64, 32]));
            let b = g.add_typed("b", ty(&[64, 32]));
            let [s, r, y] = ["s", "r", "y"].map(|n| g.add_typed(n, ty(&[2, 64, 32])));
            let node = |op: &str, inputs: Vec<_>, out| Node {
                name: op.into(),
                op_type: op.into(),
                version: 17,
                inputs,
                outputs: vec![Some(out)],
                ..Node::default()
            };
            let add = g.add_node(node("Add", vec![Some(a), Some(b)], s));
            g.add_node(node("Identity", vec![Some(s)], r));
            g.add_node(node(reader, vec![Some(r)], y));
            let target = Target { soc: "sm8650".into(), arch: 75, float: QnnType::FLOAT_16, allow_approximate: false };
            let mut low = Lowering::new(&g, &target, "g");
            low.node(add).unwrap();
            op_types(low.qnn()).join(" ")
        };
        assert!(
            build("LayerNormalization").ends_with("Reshape Tile ElementWiseAdd"),
            "{}",
            build("LayerNormalization")
        );
        assert!(!build("Softmax").contains("Tile"));
    }

    #[test]
    fn slopes_per_channel() {
        let n: OneNode = node("PRelu", 16).float(&[1, 2, 1, 2]).floats(&[2, 1, 1], &[0.5, 0.25]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Prelu"]);
        let f = node("PRelu", 16).floats(&[1, 2, 1, 2], &[-1.0, 2.0, -4.0, 8.0]).floats(&[2, 1, 1], &[0.5, 0.25]);
        assert_eq!(f.fold().unwrap()[0].to_f64s().unwrap(), [-0.5, 2.0, -1.0, 8.0]);
    }
}
