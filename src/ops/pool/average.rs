//! AveragePool and LpPool.
//!
//! PoolAvg2d is right on the HTP (2.47) only without padding; with it, even windows give zeros or crash, large ones are
//! inexact. So whatever has padding, a ragged end or a dilation is a depthwise convolution with `1 / window size`,
//! corrected where a window counts fewer elements.

use super::{ceil, window};
use crate::lower::{LowerCx, Refusal};
use crate::ops::spatial::{self, Axis};
use crate::ops::{compose, conv};
use crate::qnn::graph::{Param, TensorId};

const UNIT: Axis = Axis { size: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, out: 1 };

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let shape = cx.shape(0)?;
    spatial::check_spatial(shape.len())?;
    let axes = spatial::lifted_axes(window(cx)?.axes(&shape[2..], ceil(cx.attrs()))?);
    let include_pad = cx.attrs().int_or("count_include_pad", 0) != 0;
    let counts: Vec<Vec<usize>> = axes.iter().map(|a| counts(a, include_pad)).collect();
    let x = spatial::channel_last(cx, 0)?;
    let plain = axes.iter().all(|a| a.before == 0 && a.used_after() == 0 && (a.dilation == 1 || a.kernel == 1));
    let y = if plain { native(cx, x, &axes) } else { weighted(cx, x, &axes, Some(&counts)) };
    spatial::give_channel_last(cx, 0, y)
}

/// How many elements each window of an axis counts: those of the input, or of the input and its padding. What a last
/// ragged window sees beyond that never counts.
fn counts(a: &Axis, include_pad: bool) -> Vec<usize> {
    let (low, high) = if include_pad { (-(a.before as i64), (a.size + a.after) as i64) } else { (0, a.size as i64) };
    (0..a.out)
        .map(|o| {
            let start = (o * a.stride) as i64 - a.before as i64;
            (0..a.kernel).filter(|k| (low..high).contains(&(start + (k * a.dilation) as i64))).count().max(1)
        })
        .collect()
}

/// The average of whole windows without padding.
fn native(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis]) -> TensorId {
    let (d, dtype) = (cx.dims(x), cx.qnn_type(x));
    let out = spatial::out_dims(d[0], axes, d[d.len() - 1]);
    if axes.iter().all(|a| a.kernel == a.size) {
        let over: Vec<usize> = (1..=axes.len()).collect();
        return compose::reduce_keep(cx, "ReduceMean", x, &over);
    }
    let filter: Vec<u32> = axes.iter().map(|a| a.kernel as u32).collect();
    cx.op_to(
        if axes.len() == 2 { "PoolAvg2d" } else { "PoolAvg3d" },
        &[x],
        dtype,
        &out,
        &[
            ("filter_size", Param::u32s(&filter)),
            ("stride", spatial::stride_param(axes)),
            ("pad_amount", spatial::pad_param(axes)),
            ("count_pad_for_edges", Param::bool(true)),
        ],
    )
}

/// Sums over windows by depthwise convolution, divided by `counts` (per axis and output position) if they are given.
/// `x` is channel last; three spatial axes are summed in two steps.
fn weighted(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis], counts: Option<&[Vec<usize>]>) -> TensorId {
    let d = cx.dims(x);
    let channels = d[d.len() - 1];
    if let [depth, h, w] = axes {
        let planes = cx.reshape(x, &[d[0] * d[1], d[2], d[3], channels]);
        let planes = weighted(cx, planes, &[*h, *w], counts.map(|c| &c[1..]));
        let inner = (h.out * w.out) as u32;
        let columns = cx.reshape(planes, &[d[0], d[1], inner, channels]);
        let across = Axis { size: inner as usize, out: inner as usize, ..UNIT };
        let ones = vec![1; inner as usize];
        let y = weighted(cx, columns, &[*depth, across], counts.map(|c| vec![c[0].clone(), ones]).as_deref());
        return cx.reshape(y, &spatial::out_dims(d[0], axes, channels));
    }
    let taps = axes[0].kernel * axes[1].kernel;
    let share = if counts.is_some() { 1.0 / taps as f32 } else { 1.0 };
    let sum = conv::window_sum(cx, x, axes, &vec![share; taps]);
    let Some([rows, columns]) = counts else { return sum };
    if rows.iter().all(|&c| c == axes[0].kernel) && columns.iter().all(|&c| c == axes[1].kernel) {
        return sum;
    }
    let mut factors = vec![];
    for r in rows {
        for c in columns {
            factors.push(taps as f32 / (r * c) as f32);
        }
    }
    let map = cx.float_constant(&[1, rows.len() as u32, columns.len() as u32, 1], &factors);
    compose::mul(cx, sum, map)
}

/// Attribute `p` of a norm, 1 or more.
pub(super) fn order(cx: &LowerCx<'_, '_>) -> Result<f32, Refusal> {
    match cx.attrs().int_or("p", 2) {
        p if (1..=64).contains(&p) => Ok(p as f32),
        p => Err(Refusal::form(format!("attribute p is {p}"))),
    }
}

/// `|x|^p`.
pub(super) fn powered(cx: &mut LowerCx<'_, '_>, x: TensorId, p: f32) -> TensorId {
    if p == 2.0 {
        return compose::mul(cx, x, x);
    }
    let size = compose::unary(cx, "ElementWiseAbs", x);
    if p == 1.0 {
        return size;
    }
    let exponent = cx.float_scalar(p);
    compose::binary(cx, "ElementWisePower", size, exponent)
}

/// `x^(1/p)` for `x` of 0 or more.
pub(super) fn root(cx: &mut LowerCx<'_, '_>, x: TensorId, p: f32) -> TensorId {
    if p == 1.0 {
        return x;
    }
    if p == 2.0 {
        return compose::unary(cx, "ElementWiseSquareRoot", x);
    }
    let exponent = cx.float_scalar(1.0 / p);
    compose::binary(cx, "ElementWisePower", x, exponent)
}

pub(super) fn lower_lp(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let shape = cx.shape(0)?;
    spatial::check_spatial(shape.len())?;
    let p = order(cx)?;
    let axes = spatial::lifted_axes(window(cx)?.axes(&shape[2..], ceil(cx.attrs()))?);
    let x = spatial::channel_last(cx, 0)?;
    let powers = powered(cx, x, p);
    let sum = weighted(cx, powers, &axes, None);
    let y = root(cx, sum, p);
    spatial::give_channel_last(cx, 0, y)
}
