//! Normalisations along axes: LayerNormalization, RMSNormalization and its older spelling, LpNormalization,
//! MeanVarianceNormalization.
//!
//! The HTP normalises the last axis of a tensor of rank 4 at most. Several trailing axes are exactly one after a Reshape.

use super::elementwise_unary::infer_same;
use super::{InferCx, OpDef, OpError, compose, conv, invalid, movement, normalise_axis};
use crate::ir::{DataType, Dim, Graph, Node, Shape, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("LayerNormalization", infer_layer).lower(|cx| lower_layer(cx, Statistic::Layer)).remark(remark),
    OpDef::new("RMSNormalization", infer_rms).lower(|cx| lower_layer(cx, Statistic::Rms)).remark(remark),
    OpDef::new("SimplifiedLayerNormalization", infer_rms).lower(|cx| lower_layer(cx, Statistic::Rms)),
    OpDef::ms("SimplifiedLayerNormalization", infer_rms).lower(|cx| lower_layer(cx, Statistic::Rms)),
    OpDef::new("LpNormalization", infer_lp).lower(lower_lp),
    OpDef::new("MeanVarianceNormalization", infer_mean_variance).lower(lower_mean_variance),
];

/// Several axes are one row on the HTP.
fn remark(graph: &Graph, node: &Node) -> Option<String> {
    let shape = graph.value(node.input(0)?).ty.tensor()?.static_shape()?;
    let axis = normalise_axis(node.attrs.int_or("axis", -1), shape.len()).ok()?;
    let (rows, n): (usize, usize) = (shape[..axis].iter().product(), shape[axis..].iter().product());
    (axis + 1 < shape.len()).then(|| {
        format!(
            "{} over the axes from {axis} on of {shape:?}: the HTP normalises the last axis only, so it is computed on \
             [{rows}, {n}] between two Reshapes, which gives the same numbers",
            node.op_type
        )
    })
}

/// What a row is divided by.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Statistic {
    /// The standard deviation, after the mean was taken off.
    Layer,
    /// The root of the mean of squares.
    Rms,
}

/// Checks that input `i` broadcasts to the normalised axes (or, from the left, to the whole input).
fn check_parameter(cx: &InferCx<'_>, i: usize, what: &str, x: &[Dim]) -> Result<(), OpError> {
    if !cx.has(i) {
        return Ok(());
    }
    let s = cx.shape(i)?;
    let fits = s.len() <= x.len()
        && s.iter().rev().zip(x.iter().rev()).all(|(a, b)| match (a, b) {
            (Dim::Known(a), Dim::Known(b)) => *a == 1 || a == b,
            _ => true,
        });
    if fits {
        return Ok(());
    }
    invalid(format!("{what} has shape {}, which does not broadcast to {}", show_shape(s), show_shape(x)))
}

fn infer_rows(cx: &mut InferCx<'_>, statistics: usize) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let axis = cx.axis("axis", -1, t.shape.len())?;
    check_parameter(cx, 1, "scale", &t.shape)?;
    check_parameter(cx, 2, "the bias", &t.shape)?;
    let mut kept: Shape = t.shape[..axis].to_vec();
    kept.resize(t.shape.len(), Dim::Known(1));
    let stash = movement::dtype_attr(&cx.node.attrs, "stash_type", DataType::F32)?;
    for i in 1..=statistics {
        cx.set(i, stash, kept.clone());
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

fn infer_layer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    infer_rows(cx, 2)
}

fn infer_rms(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    infer_rows(cx, 1)
}

/// Input `i` as `[n]` if it has one element per normalised element.
fn parameter(cx: &mut LowerCx<'_, '_>, i: usize, normalised: &[usize]) -> Result<Option<TensorId>, Refusal> {
    let shape = cx.shape(i)?;
    let bare = |s: &[usize]| s.iter().copied().skip_while(|&d| d == 1).collect::<Vec<_>>();
    if bare(&shape) != bare(normalised) {
        return Ok(None);
    }
    let n = normalised.iter().product::<usize>() as u32;
    if let Some(t) = cx.constant(i) {
        return Ok(Some(cx.weight(t, None, &[n])));
    }
    let t = cx.input(i)?;
    Ok(Some(cx.reshape(t, &[n])))
}

fn constant_row(cx: &mut LowerCx<'_, '_>, n: u32, value: f32) -> TensorId {
    cx.float_constant(&[n], &vec![value; n as usize])
}

/// Normalises the last axis of `x` (rank 4 at most), times `gamma`, plus `beta`; both are `[n]`.
pub(super) fn normalise_last(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    statistic: Statistic,
    gamma: Option<TensorId>,
    beta: Option<TensorId>,
    epsilon: f32,
) -> TensorId {
    let (whole, dtype) = (cx.dims(x), cx.qnn_type(x));
    let n = whole[whole.len() - 1];
    // RmsNorm of 2 or more batches of 16 rows or more is wrong from the second batch on (2.47); rows alone are right.
    let x = match statistic {
        Statistic::Rms if whole[..whole.len().saturating_sub(2)].iter().any(|&d| d > 1) => {
            cx.reshape(x, &[whole[..whole.len() - 1].iter().product(), n])
        }
        _ => x,
    };
    let dims = cx.dims(x);
    let last = dims.len() - 1;
    let gamma = gamma.unwrap_or_else(|| constant_row(cx, n, 1.0));
    // RmsNorm cannot be prepared without a bias (2.47), and ignores the bias it is given.
    let bias = match statistic {
        Statistic::Layer => beta,
        Statistic::Rms => Some(constant_row(cx, n, 0.0)),
    };
    let mut inputs = vec![x, gamma];
    inputs.extend(bias);
    let y = cx.op_to(
        if statistic == Statistic::Layer { "LayerNorm" } else { "RmsNorm" },
        &inputs,
        dtype,
        &dims,
        &[("epsilon", Param::f32(epsilon)), ("axes", Param::u32s(&[last as u32]))],
    );
    let y = cx.reshape(y, &whole);
    match (statistic, beta) {
        (Statistic::Rms, Some(b)) => compose::add(cx, y, b),
        _ => y,
    }
}

fn lower_layer(cx: &mut LowerCx<'_, '_>, statistic: Statistic) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let shape = cx.shape(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", -1), shape.len()).map_err(Refusal::form)?;
    let epsilon = cx.attrs().float_or("epsilon", 1e-5);
    let normalised = &shape[axis..];
    let n = normalised.iter().product::<usize>() as u32;
    let rows = shape[..axis].iter().product::<usize>() as u32;
    let gamma = if cx.has(1) { parameter(cx, 1, normalised)? } else { None };
    let beta = if cx.has(2) { parameter(cx, 2, normalised)? } else { None };
    // A scale that broadcasts otherwise is a product of its own, and the bias a sum after it.
    let apart = (cx.has(1) && gamma.is_none()) || (cx.has(2) && beta.is_none());
    let x = cx.input(0)?;
    let flat = if normalised.len() == 1 && shape.len() <= 4 { x } else { cx.reshape(x, &[rows, n]) };
    if apart {
        let y = normalise_last(cx, flat, statistic, None, None, epsilon);
        let mut y = cx.reshape(y, &movement::dims_u32(&shape));
        let layout = Layout::identity(shape.len());
        if cx.has(1) {
            let g = cx.broadcast_input(1, &layout)?;
            y = compose::mul(cx, y, g);
        }
        if cx.has(2) {
            let b = cx.broadcast_input(2, &layout)?;
            y = compose::add(cx, y, b);
        }
        compose::give(cx, 0, y)?;
    } else {
        let y = normalise_last(cx, flat, statistic, gamma, beta, epsilon);
        compose::give(cx, 0, y)?;
    }
    let flat = cx.reshape(flat, &[rows, n]);
    give_statistics(cx, flat, statistic, epsilon)
}

/// The statistics of the rows of `x` (`[rows, n]`) as outputs: the mean and the inverse deviation, or the latter alone.
pub(super) fn give_statistics(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    statistic: Statistic,
    epsilon: f32,
) -> Result<(), Refusal> {
    let inverse_at = if statistic == Statistic::Layer { 2 } else { 1 };
    let wants_mean = statistic == Statistic::Layer && cx.wants(1);
    if !wants_mean && !cx.wants(inverse_at) {
        return Ok(());
    }
    let mut centred = x;
    if statistic == Statistic::Layer {
        let mean = compose::reduce_keep(cx, "ReduceMean", x, &[1]);
        if wants_mean {
            compose::give(cx, 1, mean)?;
        }
        centred = compose::sub(cx, x, mean);
    }
    if cx.wants(inverse_at) {
        let square = compose::mul(cx, centred, centred);
        let variance = compose::reduce_keep(cx, "ReduceMean", square, &[1]);
        let e = cx.float_scalar(epsilon);
        let floor = compose::add(cx, variance, e);
        let inverse = compose::unary(cx, "ElementWiseRsqrt", floor);
        compose::give(cx, inverse_at, inverse)?;
    }
    Ok(())
}

fn infer_lp(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    cx.axis("axis", -1, cx.rank(0)?)?;
    match cx.node.attrs.int_or("p", 2) {
        1 | 2 => infer_same(cx),
        p => invalid(format!("attribute p is {p}; it is 1 or 2")),
    }
}

fn lower_lp(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let rank = cx.rank(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", -1), rank).map_err(Refusal::form)?;
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let dims = cx.dims(x);
    let at = layout.physical(axis);
    let (before, after): (u32, u32) = (dims[..at].iter().product(), dims[at + 1..].iter().product());
    let x = cx.reshape(x, &[before, dims[at], after]);
    let size = compose::unary(cx, "ElementWiseAbs", x);
    let y = if cx.attrs().int_or("p", 2) == 1 {
        let sum = compose::reduce_keep(cx, "ReduceSum", size, &[1]);
        // A row of zeros stays zero.
        let tiny = cx.float_scalar(SMALLEST);
        let norm = compose::binary(cx, "ElementWiseMaximum", sum, tiny);
        compose::div(cx, x, norm)
    } else {
        // Divided by its largest element first, no row overflows or vanishes when it is squared.
        let peak = compose::reduce_keep(cx, "ReduceMax", size, &[1]);
        let tiny = cx.float_scalar(SMALLEST);
        let peak = compose::binary(cx, "ElementWiseMaximum", peak, tiny);
        let scaled = compose::div(cx, x, peak);
        let square = compose::mul(cx, scaled, scaled);
        let sum = compose::reduce_keep(cx, "ReduceSum", square, &[1]);
        let sum = compose::binary(cx, "ElementWiseMaximum", sum, tiny);
        let inverse = compose::unary(cx, "ElementWiseRsqrt", sum);
        compose::mul(cx, scaled, inverse)
    };
    let y = cx.reshape(y, &dims);
    cx.alias(0, y, layout)
}

/// The smallest normal 16-bit float.
const SMALLEST: f32 = 6.103_515_6e-5;

/// Attribute `axes` of MeanVarianceNormalization, or the deprecated `across_channels`.
fn mean_axes(attrs: &crate::ir::Attrs, rank: usize) -> Result<Vec<usize>, OpError> {
    movement::normalise_axes(attrs.ints("axes").unwrap_or(&[0, 2, 3]), rank, "attribute axes")
}

fn infer_mean_variance(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    mean_axes(&cx.node.attrs, cx.rank(0)?)?;
    infer_same(cx)
}

fn lower_mean_variance(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let axes = mean_axes(cx.attrs(), cx.rank(0)?).map_err(|e| Refusal::form(e.to_string()))?;
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let mut axes: Vec<usize> = axes.iter().map(|&a| layout.physical(a)).collect();
    axes.sort_unstable();
    let mean = compose::reduce_keep(cx, "ReduceMean", x, &axes);
    let centred = compose::sub(cx, x, mean);
    let square = compose::mul(cx, centred, centred);
    let variance = compose::reduce_keep(cx, "ReduceMean", square, &axes);
    // ElementWiseMaximum takes up to four axes.
    let kept = cx.dims(variance);
    let flat = cx.reshape(variance, &[kept.iter().product()]);
    let tiny = cx.float_scalar(1e-7);
    let floor = compose::binary(cx, "ElementWiseMaximum", flat, tiny);
    let inverse = compose::unary(cx, "ElementWiseRsqrt", floor);
    let inverse = cx.reshape(inverse, &kept);
    let y = compose::mul(cx, centred, inverse);
    cx.alias(0, y, layout)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::node;

    #[test]
    fn rms_norm_sees_rows_only() {
        let shape_of = |shape: &[i64]| {
            let n = node("RMSNormalization", 23).float(shape).floats(&[8], &[1.0; 8]);
            let g = n.lower().unwrap();
            let norm = g.ops.iter().find(|o| o.op_type == "RmsNorm").unwrap();
            g.tensor(norm.outputs[0]).dims.clone()
        };
        assert_eq!(shape_of(&[2, 16, 8]), [32, 8]);
        assert_eq!(shape_of(&[1, 16, 8]), [1, 16, 8]);
    }
}
