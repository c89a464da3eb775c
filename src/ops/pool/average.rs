//! AveragePool and LpPool.
//!
//! PoolAvg2d is right on the HTP (2.47) only without padding; with it, even windows give zeros or crash, large ones are
//! inexact. So whatever has padding, a ragged end or a dilation is a depthwise convolution with `1 / window size`,
//! corrected where a window counts fewer elements; small windows with a stride are sums of slices.

use super::{ceil, max, window};
use crate::lower::{LowerCx, Refusal};
use crate::ops::spatial::{self, Axis};
use crate::ops::{compose, conv};
use crate::qnn::graph::{Param, TensorId};

/// Along an axis with more runs of equal window sizes than this, a map of factors is multiplied with. Such a map has one
/// channel, and the HTP (2.47) fills the other lanes of its tiles with whatever is there: equal inputs then give unequal
/// binaries.
const PIECES: usize = 7;

/// No more taps along an axis than this for a window that is summed slice by slice.
const FEW: usize = 3;

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
    let few = |a: &Axis| a.kernel <= FEW && a.dilation == 1;
    let y = if plain {
        native(cx, x, &axes)
    } else if axes.len() == 2 && axes.iter().all(few) && axes.iter().any(|a| a.stride > 1) {
        tapped(cx, x, &axes, &counts)
    } else {
        weighted(cx, x, &axes, Some(&counts))
    };
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

/// The mean over small windows that step over the image, one axis after the other, as sums of strided slices. For a
/// depthwise convolution with a stride, and PoolAvg2d too, the HTP (2.47) stores blocks of 32 x 32 weights per tap.
fn tapped(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis], counts: &[Vec<usize>]) -> TensorId {
    let (padded, bare) = spatial::pad_first(cx, x, axes, 0.0);
    bare.iter().zip(counts).enumerate().fold(padded, |t, (i, (axis, counts))| {
        // Scaled before it is summed: the sum of large halves would overflow.
        let share = compose::scale(cx, t, 1.0 / axis.kernel as f32);
        let first = max::tap(cx, share, i + 1, axis, 0);
        let sum = (1..axis.kernel).fold(first, |sum, k| {
            let next = max::tap(cx, share, i + 1, axis, k);
            compose::add(cx, sum, next)
        });
        rescaled(cx, sum, i + 1, &border_factors(counts, axis.kernel))
    })
}

/// What a mean over `kernel` elements is multiplied with to be one over `counts`.
fn border_factors(counts: &[usize], kernel: usize) -> Vec<f32> {
    counts.iter().map(|&c| kernel as f32 / c as f32).collect()
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
    let by_axis = [(1, border_factors(rows, axes[0].kernel)), (2, border_factors(columns, axes[1].kernel))];
    if by_axis.iter().all(|(_, f)| f.chunk_by(|a, b| a == b).count() <= PIECES) {
        return by_axis.iter().fold(sum, |t, (at, f)| rescaled(cx, t, *at, f));
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

/// `t` with the elements at each position along physical axis `at` multiplied by a factor: runs of equal factors are cut
/// out, scaled and joined again.
fn rescaled(cx: &mut LowerCx<'_, '_>, t: TensorId, at: usize, factors: &[f32]) -> TensorId {
    let (whole, dtype) = (cx.dims(t), cx.qnn_type(t));
    let runs: Vec<&[f32]> = factors.chunk_by(|a, b| a == b).collect();
    if runs.len() == 1 {
        return compose::scale(cx, t, factors[0]);
    }
    let (mut begin, mut pieces) = (0, vec![]);
    for run in runs {
        let end = begin + run.len();
        let mut dims = whole.clone();
        let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
        dims[at] = run.len() as u32;
        ranges[at] = [begin as i32, end as i32, 1];
        let piece = cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))]);
        pieces.push(compose::scale(cx, piece, run[0]));
        begin = end;
    }
    cx.op_to("Concat", &pieces, dtype, &whole, &[("axis", Param::u32(at as u32))])
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
