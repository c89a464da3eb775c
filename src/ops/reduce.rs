//! Reductions: ReduceSum, ReduceMean, ReduceMax and their kin. Axes are an attribute or, in newer opsets, an input.

use super::elementwise_binary::{max_dims, min_dims};
use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, invalid, normalise_axis};
use crate::ir::{Attrs, DataType, Dim, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("ReduceSum", infer).fold(|cx| fold(cx, Kind::Sum)).lower(|cx| lower(cx, Kind::Sum)),
    OpDef::new("ReduceMean", infer).fold(|cx| fold(cx, Kind::Mean)).lower(|cx| lower(cx, Kind::Mean)),
    OpDef::new("ReduceMax", infer).fold(|cx| fold(cx, Kind::Max)).lower(|cx| lower(cx, Kind::Max)),
    OpDef::new("ReduceMin", infer).fold(|cx| fold(cx, Kind::Min)).lower(|cx| lower(cx, Kind::Min)),
    OpDef::new("ReduceProd", infer).fold(|cx| fold(cx, Kind::Prod)).lower(|cx| lower(cx, Kind::Prod)),
    OpDef::new("ReduceSumSquare", infer).fold(|cx| fold(cx, Kind::SumSquare)).lower(|cx| lower(cx, Kind::SumSquare)),
    OpDef::new("ReduceL1", infer).fold(|cx| fold(cx, Kind::L1)).lower(|cx| lower(cx, Kind::L1)),
    OpDef::new("ReduceL2", infer).fold(|cx| fold(cx, Kind::L2)).lower(|cx| lower(cx, Kind::L2)),
    OpDef::new("ReduceLogSum", infer).fold(|cx| fold(cx, Kind::LogSum)).lower(|cx| lower(cx, Kind::LogSum)),
    OpDef::new("ReduceLogSumExp", infer).fold(|cx| fold(cx, Kind::LogSumExp)).lower(|cx| lower(cx, Kind::LogSumExp)),
];

/// Factors up to which a product of floats is taken to stay in the range of 16 bits.
const FACTORS: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    SumSquare,
    L1,
    L2,
    LogSum,
    LogSumExp,
}

/// The axes to reduce, sorted. `given`: the attribute or the input, if there is one.
fn axes(given: Option<&[i64]>, attrs: &Attrs, rank: usize) -> Result<Vec<usize>, String> {
    match given {
        Some(v) if !v.is_empty() => {
            let mut axes = v.iter().map(|&a| normalise_axis(a, rank)).collect::<Result<Vec<_>, _>>()?;
            axes.sort_unstable();
            axes.dedup();
            if axes.len() != v.len() {
                return Err(format!("axes {v:?} name an axis twice"));
            }
            Ok(axes)
        }
        _ if attrs.int_or("noop_with_empty_axes", 0) != 0 => Ok(vec![]),
        _ => Ok((0..rank).collect()),
    }
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let given = if cx.has(1) { Some(cx.need_ints(1)?) } else { cx.node.attrs.ints("axes").map(<[i64]>::to_vec) };
    let axes = axes(given.as_deref(), &cx.node.attrs, t.shape.len()).map_err(OpError::Invalid)?;
    if t.dtype == DataType::Bool && !matches!(cx.node.op_type.as_str(), "ReduceMax" | "ReduceMin") {
        return invalid("input 0 is bool, but must be numeric");
    }
    let keep = cx.node.attrs.int_or("keepdims", 1) != 0;
    let shape = kept(&t.shape, &axes, keep, &Dim::Known(1));
    cx.set(0, t.dtype, shape);
    if t.dtype.is_int() && t.shape.len() == 1 && axes == [0] {
        let reduced = cx.elements(0).and_then(|e| reduce_dims(&cx.node.op_type, &e));
        if let Some(v) = reduced {
            cx.set_elements(0, vec![v]);
        }
    }
    Ok(())
}

/// The dims after a reduction.
fn kept<T: Clone>(dims: &[T], axes: &[usize], keep: bool, one: &T) -> Vec<T> {
    let pick = |(i, d): (usize, &T)| match (axes.contains(&i), keep) {
        (false, _) => Some(d.clone()),
        (true, true) => Some(one.clone()),
        (true, false) => None,
    };
    dims.iter().enumerate().filter_map(pick).collect()
}

/// The reduction of all elements of a vector.
fn reduce_dims(op: &str, elements: &[Dim]) -> Option<Dim> {
    let (first, rest) = elements.split_first()?;
    rest.iter().try_fold(first.clone(), |a, b| match op {
        "ReduceSum" => Some(a.add(b)),
        "ReduceProd" => Some(a.mul(b)),
        "ReduceMax" => max_dims(&a, b),
        "ReduceMin" => min_dims(&a, b),
        _ => None,
    })
}

fn fold(cx: &FoldCx<'_>, kind: Kind) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let x = cx.input(0)?;
    let given = match cx.input(1) {
        Some(t) => Some(t.to_i64s()?),
        None => cx.node.attrs.ints("axes").map(<[i64]>::to_vec),
    };
    let axes = axes(given.as_deref(), &cx.node.attrs, x.rank()).ok()?;
    let groups = kept(x.shape(), &axes, true, &1);
    let target = crate::ir::broadcast_indices(&groups, x.shape())?;
    let count: usize = groups.iter().product();
    let size = x.len().checked_div(count).unwrap_or(0);
    if !dtype.is_float()
        && let Some(v) = x.to_i128s()
        && let Some((start, step)) = integer_step(kind, dtype)
    {
        let mut out = vec![start; count];
        for (v, at) in v.into_iter().zip(target) {
            out[at] = step(out[at], v);
        }
        if kind == Kind::Mean {
            for v in &mut out {
                *v = v.checked_div(size as i128)?;
            }
        }
        let out: Vec<i128> = out.into_iter().map(|v| elementwise::wrap(dtype, v)).collect();
        return Some(vec![Tensor::from_i128(dtype, shape, &out)?]);
    }
    let mut rows = vec![Vec::with_capacity(size); count];
    for (v, at) in x.to_f64s()?.into_iter().zip(target) {
        rows[at].push(v);
    }
    let out: Vec<f64> = rows.iter().map(|row| reduce(kind, row)).collect();
    Some(vec![Tensor::from_f64(dtype, shape, &out)?])
}

type Step = fn(i128, i128) -> i128;

/// The neutral element and the step of a reduction that is exact on integers; the mean's is that of the sum.
fn integer_step(kind: Kind, dtype: DataType) -> Option<(i128, Step)> {
    let (low, high) = dtype.int_range().unwrap_or((0, 1));
    Some(match kind {
        Kind::Sum | Kind::Mean => (0, |a, b| a.wrapping_add(b)),
        Kind::Prod => (1, |a, b| a.wrapping_mul(b)),
        Kind::Max => (low, |a, b| a.max(b)),
        Kind::Min => (high, |a, b| a.min(b)),
        Kind::SumSquare => (0, |a, b| a.wrapping_add(b.wrapping_mul(b))),
        Kind::L1 => (0, |a, b| a.wrapping_add(b.abs())),
        Kind::L2 | Kind::LogSum | Kind::LogSumExp => return None,
    })
}

fn reduce(kind: Kind, row: &[f64]) -> f64 {
    let sum = || row.iter().sum::<f64>();
    let extreme = |start: f64, better: fn(f64, f64) -> bool| {
        row.iter().fold(start, |a, &b| if a.is_nan() || better(a, b) { a } else { b })
    };
    match kind {
        Kind::Sum => sum(),
        Kind::Mean => sum() / row.len() as f64,
        Kind::Max => extreme(f64::NEG_INFINITY, |a, b| a > b),
        Kind::Min => extreme(f64::INFINITY, |a, b| a < b),
        Kind::Prod => row.iter().product(),
        Kind::SumSquare => row.iter().map(|v| v * v).sum(),
        Kind::L1 => row.iter().map(|v| v.abs()).sum(),
        Kind::L2 => row.iter().map(|v| v * v).sum::<f64>().sqrt(),
        Kind::LogSum => sum().ln(),
        Kind::LogSumExp => {
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if max.is_infinite() { max } else { max + row.iter().map(|v| (v - max).exp()).sum::<f64>().ln() }
        }
    }
}

fn lower(cx: &mut LowerCx<'_, '_>, kind: Kind) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    let rank = cx.rank(0)?;
    let given = if cx.has(1) { Some(cx.need_ints(1, "axes")?) } else { cx.attrs().ints("axes").map(<[i64]>::to_vec) };
    let axes = axes(given.as_deref(), cx.attrs(), rank).map_err(Refusal::form)?;
    let keep = cx.attrs().int_or("keepdims", 1) != 0;
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let mut physical: Vec<usize> = axes.iter().map(|&a| layout.physical(a)).collect();
    physical.sort_unstable();
    let out_layout = if keep { layout.clone() } else { without(&layout, &axes) };
    if dtype.is_float()
        && !physical.is_empty()
        && let Some(op) = native(kind)
    {
        let y = cx.output(0, &out_layout)?;
        let list: Vec<u32> = physical.iter().map(|&a| a as u32).collect();
        cx.op(op, &[x], &[y], &[("axes", Param::u32s(&list)), ("keep_dims", Param::bool(keep))]);
        return Ok(());
    }
    if dtype.is_float() && kind == Kind::Prod {
        let shape = cx.dims(x);
        let factors: usize = physical.iter().map(|&a| shape[a] as usize).product();
        if factors > FACTORS {
            let why = format!("the product of {factors} factors leaves the range of 16-bit floats easily");
            elementwise::need_approximate(cx, &why)?;
        }
    }
    let y = match dtype {
        d if d.is_float() => reduce_float(cx, kind, x, &physical),
        DataType::Bool => reduce_bool(cx, kind, x, &physical),
        _ => reduce_int(cx, kind, x, dtype, &physical)?,
    };
    let shape = cx.out_shape(0)?;
    let dims: Vec<u32> =
        if shape.is_empty() { vec![1] } else { out_layout.apply(&shape).iter().map(|&d| d as u32).collect() };
    let y = cx.reshape(y, &dims);
    cx.alias(0, y, out_layout)
}

/// The order in which the axes that are left lie.
fn without(layout: &Layout, axes: &[usize]) -> Layout {
    let left = layout.order().iter().filter(|a| !axes.contains(a));
    Layout::from_order(left.map(|&a| a - axes.iter().filter(|&&r| r < a).count()).collect())
}

/// The QNN op that does the whole reduction, for floats. The HTP has no product.
fn native(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Sum => Some("ReduceSum"),
        Kind::Mean => Some("ReduceMean"),
        Kind::Max => Some("ReduceMax"),
        Kind::Min => Some("ReduceMin"),
        _ => None,
    }
}

/// A reduction of floats; the axes stay with size 1. With no axes, only the elementwise part is done.
fn reduce_float(cx: &mut LowerCx<'_, '_>, kind: Kind, x: TensorId, axes: &[usize]) -> TensorId {
    match kind {
        Kind::Sum | Kind::Mean | Kind::Max | Kind::Min => {
            native(kind).map_or(x, |op| compose::reduce_keep(cx, op, x, axes))
        }
        Kind::Prod => tree(cx, "ElementWiseMultiply", x, axes),
        Kind::SumSquare => {
            let s = compose::mul(cx, x, x);
            compose::reduce_keep(cx, "ReduceSum", s, axes)
        }
        Kind::L1 => {
            let a = compose::unary(cx, "ElementWiseAbs", x);
            compose::reduce_keep(cx, "ReduceSum", a, axes)
        }
        Kind::L2 => {
            // Squares of 16-bit floats overflow from 256 on and vanish below 2^-12: they are taken of shares of the
            // largest magnitude.
            let size = compose::unary(cx, "ElementWiseAbs", x);
            if axes.is_empty() {
                return size;
            }
            let max = compose::reduce_keep(cx, "ReduceMax", size, axes);
            let max = compose::clamp(cx, max, 1.0 / 16384.0, 65504.0);
            let share = compose::div(cx, x, max);
            let square = compose::mul(cx, share, share);
            let sum = compose::reduce_keep(cx, "ReduceSum", square, axes);
            let root = elementwise::unary_any_rank(cx, "ElementWiseSquareRoot", sum);
            compose::mul(cx, root, max)
        }
        Kind::LogSum => {
            let s = compose::reduce_keep(cx, "ReduceSum", x, axes);
            elementwise::unary_any_rank(cx, "ElementWiseLog", s)
        }
        Kind::LogSumExp => {
            if axes.is_empty() {
                return x;
            }
            let max = compose::reduce_keep(cx, "ReduceMax", x, axes);
            let below = compose::sub(cx, x, max);
            let e = compose::exp(cx, below);
            let sum = compose::reduce_keep(cx, "ReduceSum", e, axes);
            let log = elementwise::unary_any_rank(cx, "ElementWiseLog", sum);
            compose::add(cx, log, max)
        }
    }
}

/// ReduceMax and ReduceMin of booleans: 0 and 1 are exact in any float.
fn reduce_bool(cx: &mut LowerCx<'_, '_>, kind: Kind, x: TensorId, axes: &[usize]) -> TensorId {
    let float = cx.float();
    let t = cx.cast(x, float);
    let t = reduce_float(cx, kind, t, axes);
    let zero = cx.float_scalar(0.0);
    compose::compare(cx, "ElementWiseNotEqual", t, zero)
}

/// A reduction of integers in INT_32. The HTP's own reductions go through floats: sums are off above 2^24, and
/// ReduceMax and ReduceMean refuse integers (QAIRT 2.47). Elementwise ops are exact.
fn reduce_int(
    cx: &mut LowerCx<'_, '_>,
    kind: Kind,
    x: TensorId,
    dtype: DataType,
    axes: &[usize],
) -> Result<TensorId, Refusal> {
    elementwise::need_signed(cx, dtype)?;
    let x = cast::to_int32(cx, x, dtype)?;
    let y = match kind {
        Kind::Sum => tree(cx, "ElementWiseAdd", x, axes),
        Kind::Prod => tree(cx, "ElementWiseMultiply", x, axes),
        Kind::Max => tree(cx, "ElementWiseMaximum", x, axes),
        Kind::Min => tree(cx, "ElementWiseMinimum", x, axes),
        Kind::L1 => {
            let a = compose::unary(cx, "ElementWiseAbs", x);
            tree(cx, "ElementWiseAdd", a, axes)
        }
        Kind::SumSquare => {
            let s = compose::mul(cx, x, x);
            tree(cx, "ElementWiseAdd", s, axes)
        }
        Kind::Mean => {
            let dims = cx.dims(x);
            let n: u32 = axes.iter().map(|&a| dims[a]).product();
            let sum = tree(cx, "ElementWiseAdd", x, axes);
            compose::quotient(cx, sum, n as i32)
        }
        Kind::L2 | Kind::LogSum | Kind::LogSumExp => {
            return Err(Refusal::new(codes::DTYPE, format!("{} of {dtype} has no QNN equivalent", cx.node.op_type))
                .fix("cast to a float type before it"));
        }
    };
    if dtype == DataType::U8 && matches!(kind, Kind::Max | Kind::Min) {
        return Ok(cx.cast(y, QnnType::UINT_8));
    }
    cast::convert(cx, y, DataType::I32, dtype)
}

/// Reduces each of `axes` with an associative elementwise op by halving it; the axes stay with size 1.
fn tree(cx: &mut LowerCx<'_, '_>, op: &str, x: TensorId, axes: &[usize]) -> TensorId {
    let mut dims = cx.dims(x);
    let mut t = x;
    for &axis in axes {
        let outer: u32 = dims[..axis].iter().product();
        let inner: u32 = dims[axis + 1..].iter().product();
        t = cx.reshape(t, &[outer, dims[axis], inner]);
        let mut rest = vec![];
        let mut n = dims[axis];
        while n > 1 {
            if n % 2 == 1 {
                rest.push(compose::slice(cx, t, 1, n - 1, n));
            }
            let half = n / 2;
            let (low, high) = (compose::slice(cx, t, 1, 0, half), compose::slice(cx, t, 1, half, 2 * half));
            t = compose::binary(cx, op, low, high);
            n = half;
        }
        for r in rest {
            t = compose::binary(cx, op, t, r);
        }
        dims[axis] = 1;
    }
    cx.reshape(t, &dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types, param, ramp};

    #[test]
    fn types() {
        assert_eq!(node("ReduceMean", 11).float(&[2, -1, 4]).int_list("axes", &[1, -1]).types(), ["float32[2, 1, 1]"]);
        assert_eq!(node("ReduceSum", 13).float(&[2, 3]).ints(&[0]).int("keepdims", 0).types(), ["float32[3]"]);
        assert_eq!(node("ReduceSum", 13).float(&[2, 3]).int("keepdims", 0).types(), ["float32[]"]);
        let noop = node("ReduceSum", 13).float(&[2, 3]).ints(&[]).int("noop_with_empty_axes", 1);
        assert_eq!(noop.types(), ["float32[2, 3]"]);
        assert!(node("ReduceMax", 18).float(&[2]).ints(&[1]).error().contains("axis 1 is outside"));
        assert!(node("ReduceMax", 18).float(&[2, 2]).ints(&[1, -1]).error().contains("twice"));
    }

    #[test]
    fn products_of_shapes() {
        let e = || vec![Dim::symbol("n"), Dim::Known(3)];
        let p = node("ReduceProd", 13).elements(DataType::I64, &[2], e()).infer().unwrap();
        assert_eq!(p[0].elements, Some(vec![Dim::symbol("n").mul(&Dim::Known(3))]));
    }

    #[test]
    fn values() {
        let x = [1.0, -2.0, 3.0, 4.0, 5.0, -6.0];
        let f = |op: &str| {
            let n = node(op, 18).floats(&[2, 3], &x).ints(&[1]).int("keepdims", 0);
            n.fold().unwrap()[0].to_f64s().unwrap()
        };
        assert_close(&f("ReduceSum"), &[2.0, 3.0], 0.0);
        assert_close(&f("ReduceMean"), &[0.6666667, 1.0], 1e-6);
        assert_close(&f("ReduceMax"), &[3.0, 5.0], 0.0);
        assert_close(&f("ReduceMin"), &[-2.0, -6.0], 0.0);
        assert_close(&f("ReduceProd"), &[-6.0, -120.0], 0.0);
        assert_close(&f("ReduceSumSquare"), &[14.0, 77.0], 0.0);
        assert_close(&f("ReduceL1"), &[6.0, 15.0], 0.0);
        assert_close(&f("ReduceL2"), &[3.7416574, 8.774964], 1e-6);
        assert_close(&f("ReduceLogSum"), &[2f64.ln(), 3f64.ln()], 1e-6);
        assert_close(&f("ReduceLogSumExp"), &[3.1328452, 5.3132739], 1e-6);
        let i = node("ReduceMean", 18).ints(&[-1, -2, 1]).fold().unwrap();
        assert_eq!(i[0].to_i64s().unwrap(), [0]);
        let empty = node("ReduceMax", 18).constant(Tensor::from_f32(vec![0, 2], &[])).ints(&[0]).fold().unwrap();
        assert_eq!(empty[0].to_f64s().unwrap(), [f64::NEG_INFINITY; 2]);
    }

    #[test]
    fn lowered_values_are_the_folded_ones() {
        let x = ramp(24, -3.0, 0.37);
        let data: Vec<f32> = x.iter().map(|&v| v as f32).collect();
        for op in ["Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSumExp"] {
            for axes in [vec![1], vec![0, 2], vec![0, 1, 2]] {
                if op == "Prod" && axes.len() == 3 {
                    assert!(node("ReduceProd", 18).float(&[2, 3, 4]).refusal().contains("24 factors"));
                    continue;
                }
                for keep in [0, 1] {
                    let n = |n: crate::ops::testing::OneNode| n.ints(&axes).int("keepdims", keep);
                    let op = format!("Reduce{op}");
                    let want = n(node(&op, 18).floats(&[2, 3, 4], &data)).fold().unwrap()[0].to_f64s().unwrap();
                    let got = n(node(&op, 18).float(&[2, 3, 4])).run(std::slice::from_ref(&x));
                    let scale = want.iter().fold(1.0, |a: f64, v| a.max(v.abs()));
                    assert_close(&got[0], &want, 1e-5 * scale);
                }
            }
        }
    }

    #[test]
    fn integers_are_reduced_exactly() {
        let n = node("ReduceSum", 13).input(DataType::I32, &[2, 5]).ints(&[1]);
        let y = n.run(&[vec![16777217.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 5.0]]);
        assert_close(&y[0], &[16777227.0, 15.0], 0.0);
        assert!(!op_types(&n.lower().unwrap()).contains(&"ReduceSum"));
        let n = node("ReduceMax", 20).input(DataType::Bool, &[2, 2]).ints(&[1]);
        assert_close(&n.run(&[vec![0.0, 1.0, 0.0, 0.0]])[0], &[1.0, 0.0], 0.0);
    }

    #[test]
    fn parameters_are_explicit() {
        let g = node("ReduceMean", 18).float(&[2, 3, 4]).ints(&[-1]).lower().unwrap();
        assert_eq!(param(&g, 0, "axes"), Some(Param::u32s(&[2])));
        assert_eq!(param(&g, 0, "keep_dims"), Some(Param::bool(true)));
    }

    #[test]
    fn left_over_axes_keep_their_order() {
        let l = Layout::channel_last(4);
        assert_eq!(without(&l, &[2, 3]).order(), [0, 1]);
        assert_eq!(without(&l, &[0]).order(), [1, 2, 0]);
    }
}
