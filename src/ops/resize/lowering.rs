//! Lowering and folding of Resize: native ops where they are exact, Gather or MatMul along each axis elsewhere.

use super::axis::{Axis, Coordinates, Interpolation, Plan};
use super::{Form, axes_of, common_scale, scales_input};
use crate::ir::{Tensor, strides};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::ops::pad::pick;
use crate::ops::{FoldCx, compose, spatial};
use crate::qnn::graph::{Param, TensorId};

/// All axes of a node whose scales, sizes and crop are constants.
fn axes(
    form: &Form,
    attrs: &crate::ir::Attrs,
    from: &[usize],
    to: &[usize],
    constant: impl Fn(usize) -> Option<Tensor>,
) -> Option<Vec<Axis>> {
    let listed = axes_of(attrs, from.len()).ok()?;
    let not_empty = |i: usize| constant(i).filter(|t| !t.is_empty());
    let scales = match attrs.floats("scales") {
        Some(s) => Some(s.to_vec()),
        None => not_empty(scales_input(form.old)).and_then(|t| t.to_f32s()),
    };
    let sizes = if form.old { None } else { not_empty(3).and_then(|t| t.to_i64s()) };
    let roi = if form.old { None } else { not_empty(1).and_then(|t| t.to_f32s()) };
    let mut out: Vec<Axis> = from
        .iter()
        .zip(to)
        .map(|(&size, &out)| Axis { size, out, scale: out as f32 / size as f32, roi: [0.0, 1.0] })
        .collect();
    let common = match (form.keep_aspect, &sizes) {
        (Some(policy), Some(sizes)) => {
            let from: Vec<i64> = listed.iter().map(|&a| from[a] as i64).collect();
            Some(common_scale(policy, sizes, &from))
        }
        _ => None,
    };
    for (i, &a) in listed.iter().enumerate() {
        if let Some(s) = common {
            out[a].scale = s;
        } else if let Some(s) = &scales {
            out[a].scale = *s.get(i)?;
        }
        if let Some(r) = &roi {
            out[a].roi = [*r.get(i)?, *r.get(i + listed.len())?];
        }
    }
    Some(out)
}

fn plans(form: &Form, axes: &[Axis]) -> Option<Vec<Plan>> {
    // A matrix of weights per axis: beyond this it would be larger than any image.
    if axes.iter().any(|a| a.size.saturating_mul(a.out) > 1 << 26) {
        let flat = axes.iter().all(|a| a.size == a.out || matches!(form.mode, Interpolation::Nearest(_)));
        if !flat {
            return None;
        }
    }
    Some(
        axes.iter()
            .map(|a| {
                if a.size == a.out && a.is_quotient() && form.coordinates != Coordinates::Crop {
                    return Plan::Keep;
                }
                a.plan(form.mode, form.coordinates)
            })
            .collect(),
    )
}

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let form = Form::read(&cx.node.op_type, cx.version(), cx.attrs()).map_err(|e| Refusal::form(e.to_string()))?;
    let (from, to) = (cx.shape(0)?, cx.out_shape(0)?);
    if !form.old && form.coordinates == Coordinates::Crop {
        cx.need_constant(1, "roi")?;
    }
    let axes = axes(&form, cx.attrs(), &from, &to, |i| cx.constant(i).cloned())
        .ok_or_else(|| Refusal::form("scales, sizes or roi do not fit the axes"))?;
    let real = cx.dtype(0)?.is_float();
    if !real && !matches!(form.mode, Interpolation::Nearest(_)) {
        return Err(Refusal::form(format!("interpolation of {}", cx.dtype(0)?)).fix("cast to float32 before"));
    }
    if form.coordinates == Coordinates::AlignCorners
        && let Some(a) = axes.iter().find(|a| a.size != a.out && !a.scale_is_whole())
    {
        return Err(Refusal::form(format!(
            "align_corners with scale {} of {} elements, {} elements: ONNX divides by the latter, ONNX Runtime by {}",
            a.scale,
            a.size,
            a.scale * a.size as f32,
            a.out
        ))
        .fix("give sizes instead of scales"));
    }
    let plans = plans(&form, &axes).ok_or_else(|| Refusal::form("the interpolation weights would be too large"))?;
    let outside: Vec<Vec<bool>> = axes.iter().map(|a| a.outside(form.coordinates)).collect();
    let cropped = outside.iter().flatten().any(|&o| o);
    if cropped && !real {
        return Err(Refusal::form(format!("extrapolation of {}", cx.dtype(0)?)));
    }
    if real && !cropped && (native_nearest(cx, &plans, &from, &to)? || native_interpolation(cx, &form, &axes, &plans)?)
    {
        return Ok(());
    }
    let layout = cx.any_layout(0)?;
    let mut t = cx.input_in(0, &layout)?;
    let own = cx.qnn_type(t);
    if !real {
        t = crate::ops::movement::carried(cx, t, &[]);
    }
    for (axis, plan) in plans.iter().enumerate() {
        let at = layout.physical(axis);
        t = match plan {
            Plan::Keep => t,
            Plan::Pick(index) => pick(cx, t, at, index),
            Plan::Weights(w) => weigh(cx, t, at, w, axes[axis].out),
        };
    }
    if cropped {
        t = extrapolate(cx, t, &layout, &outside, form.extrapolation);
    }
    if !real {
        t = cx.cast(t, own);
    }
    cx.alias(0, t, layout)
}

/// Whole-number growth of spatial axes is pixel repetition, which ResizeNearestNeighbor does.
fn native_nearest(cx: &mut LowerCx<'_, '_>, plans: &[Plan], from: &[usize], to: &[usize]) -> Result<bool, Refusal> {
    let rank = from.len();
    if !(3..=5).contains(&rank) || plans[..2].iter().any(|p| *p != Plan::Keep) {
        return Ok(false);
    }
    let factors: Option<Vec<u32>> = (2..rank).map(|a| plans[a].repeats(from[a], to[a])).collect();
    let Some(factors) = factors else { return Ok(false) };
    if factors.iter().all(|&f| f == 1) {
        let layout = cx.any_layout(0)?;
        let t = cx.input_in(0, &layout)?;
        cx.alias(0, t, layout)?;
        return Ok(true);
    }
    let x = spatial::channel_last(cx, 0)?;
    let d = cx.dims(x);
    let channels = d[d.len() - 1];
    let y = match factors[..] {
        [w] => repeat(cx, x, 1, w),
        [h, w] => repeat(cx, x, h, w),
        [depth, h, w] => {
            let planes = cx.reshape(x, &[d[0] * d[1], d[2], d[3], channels]);
            let planes = repeat(cx, planes, h, w);
            let columns = cx.reshape(planes, &[d[0], d[1], d[2] * h * d[3] * w, channels]);
            let columns = repeat(cx, columns, depth, 1);
            cx.reshape(columns, &[d[0], d[1] * depth, d[2] * h, d[3] * w, channels])
        }
        _ => return Ok(false),
    };
    spatial::give_channel_last(cx, 0, y)?;
    Ok(true)
}

fn repeat(cx: &mut LowerCx<'_, '_>, x: TensorId, rows: u32, columns: u32) -> TensorId {
    if rows == 1 && columns == 1 {
        return x;
    }
    let mut dims = cx.dims(x);
    dims[1] *= rows;
    dims[2] *= columns;
    let dtype = cx.qnn_type(x);
    cx.op_to(
        "ResizeNearestNeighbor",
        &[x],
        dtype,
        &dims,
        &[("align_corners", Param::bool(false)), ("half_pixel_centers", Param::bool(false))],
    )
}

/// The HTP's Resize is exact for images in the usual coordinate modes, when scales are the quotients of sizes.
fn native_interpolation(cx: &mut LowerCx<'_, '_>, form: &Form, axes: &[Axis], plans: &[Plan]) -> Result<bool, Refusal> {
    let (interpolation, antialias) = match form.mode {
        Interpolation::Linear { antialias, .. } => (1, antialias),
        Interpolation::Cubic { a: -0.75, antialias, exclude_outside: false } => (2, antialias),
        _ => return Ok(false),
    };
    let [_, _, h, w] = axes else { return Ok(false) };
    let transformation = match form.coordinates {
        Coordinates::HalfPixel | Coordinates::HalfPixelSymmetric | Coordinates::PytorchHalfPixel => 0,
        Coordinates::AlignCorners => 2,
        Coordinates::Asymmetric => 3,
        Coordinates::TfHalfPixel | Coordinates::Crop => return Ok(false),
    };
    let plain = |a: &Axis| a.out > 1 && (a.is_quotient() || transformation == 2) && !(antialias && a.scale < 1.0);
    if plans[..2].iter().any(|p| *p != Plan::Keep) || !plain(h) || !plain(w) {
        return Ok(false);
    }
    let x = spatial::channel_last(cx, 0)?;
    let y = cx.output(0, &Layout::channel_last(4))?;
    cx.op(
        "Resize",
        &[x],
        &[y],
        &[("transformation_mode", Param::u32(transformation)), ("interpolation_mode", Param::u32(interpolation))],
    );
    Ok(true)
}

/// Weighted sums along physical axis `at`: a product with a constant matrix `[out, size]`.
fn weigh(cx: &mut LowerCx<'_, '_>, t: TensorId, at: usize, weights: &[f32], out: usize) -> TensorId {
    let mut dims = cx.dims(t);
    let (size, out) = (dims[at], out as u32);
    let before: u32 = dims[..at].iter().product();
    let after: u32 = dims[at + 1..].iter().product();
    let y = if after == 1 {
        let rows = cx.reshape(t, &[before, size]);
        let matrix = cx.float_constant(&[out, size], weights);
        compose::matmul(cx, rows, matrix, true)
    } else {
        let planes = cx.reshape(t, &[before, size, after]);
        let matrix = cx.float_constant(&[1, out, size], weights);
        compose::matmul(cx, matrix, planes, false)
    };
    dims[at] = out;
    cx.reshape(y, &dims)
}

/// `value` wherever one of the axes is outside.
fn extrapolate(cx: &mut LowerCx<'_, '_>, t: TensorId, layout: &Layout, outside: &[Vec<bool>], value: f32) -> TensorId {
    let per_axis = layout.apply(outside);
    let dims: Vec<u32> = per_axis.iter().map(|o| if o.iter().any(|&b| b) { o.len() as u32 } else { 1 }).collect();
    let mut inside = vec![true];
    for (o, &d) in per_axis.iter().zip(&dims) {
        inside = inside.iter().flat_map(|&i| o[..d as usize].iter().map(move |&b| i && !b)).collect();
    }
    let mask: Vec<f32> = inside.iter().map(|&i| if i { 1.0 } else { 0.0 }).collect();
    let mask = cx.float_constant(&dims, &mask);
    let t = compose::mul(cx, t, mask);
    if value == 0.0 {
        return t;
    }
    let fill: Vec<f32> = inside.iter().map(|&i| if i { 0.0 } else { value }).collect();
    let fill = cx.float_constant(&dims, &fill);
    compose::add(cx, t, fill)
}

pub(super) fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let form = Form::read(&cx.node.op_type, cx.node.version, &cx.node.attrs).ok()?;
    let x = cx.input(0)?;
    let (dtype, to) = cx.out_type(0)?;
    if !dtype.is_float() && !matches!(form.mode, Interpolation::Nearest(_)) {
        return None;
    }
    let work = to.iter().chain(x.shape()).try_fold(1usize, |a, &d| a.checked_mul(d))?;
    if x.len() > 1 << 22 || to.iter().product::<usize>() > 1 << 22 || work == 0 {
        return None;
    }
    let axes = axes(&form, &cx.node.attrs, x.shape(), &to, |i| cx.input(i).cloned())?;
    if axes.iter().any(|a| a.outside(form.coordinates).contains(&true)) {
        return None;
    }
    let plans = plans(&form, &axes)?;
    let mut data = x.to_f64s()?;
    let mut shape = x.shape().to_vec();
    for (axis, plan) in plans.iter().enumerate() {
        if *plan == Plan::Keep {
            continue;
        }
        let (size, out) = (shape[axis], axes[axis].out);
        let inner = strides(&shape)[axis];
        let outer: usize = shape[..axis].iter().product();
        let mut next = Vec::with_capacity(outer * out * inner);
        for o in 0..outer {
            for i in 0..out {
                for k in 0..inner {
                    let at = |j: usize| data[(o * size + j) * inner + k];
                    next.push(match plan {
                        Plan::Pick(index) => at(index[i] as usize),
                        Plan::Weights(w) => {
                            (0..size).map(|j| f64::from(w[i * size + j])).enumerate().map(|(j, w)| w * at(j)).sum()
                        }
                        Plan::Keep => at(i),
                    });
                }
            }
        }
        data = next;
        shape[axis] = out;
    }
    Some(vec![Tensor::from_f64(dtype, to, &data)?])
}
