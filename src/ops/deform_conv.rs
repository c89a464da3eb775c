//! DeformConv: each tap of each window is sampled at its own offset; the samples then go through one matrix product.

use super::sampling::{self, Taps};
use super::spatial::{self, Window};
use super::{InferCx, OpDef, OpError, compose, conv};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("DeformConv", infer).lower(lower)];

/// More sampled elements than this are refused.
const SAMPLES_LIMIT: usize = 1 << 26;

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?, cx.shape(1)?);
    let shape = conv::conv_shape(&cx.node.attrs, &x.shape, w)?;
    cx.set(0, x.dtype, shape);
    Ok(())
}

/// Elements `[N, groups * K, P]` of group `g`, as `[N * K * P]`.
fn of_group(cx: &mut LowerCx<'_, '_>, t: TensorId, g: u32, taps: u32) -> TensorId {
    let part = compose::slice(cx, t, 1, g * taps, (g + 1) * taps);
    let count = cx.dims(part).iter().product();
    cx.reshape(part, &[count])
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let (shape, kernel, out) = (cx.shape(0)?, cx.shape(1)?, cx.out_shape(0)?);
    let (&[n, c, h, w], &[m, per_group, kh, kw]) = (&shape[..], &kernel[..]) else {
        return Err(Refusal::form(format!("DeformConv of rank {}; images of rank 4 are sampled", shape.len())));
    };
    let as_refusal = |e: OpError| Refusal::form(e.to_string());
    let group = conv::group_of(cx.attrs()).map_err(as_refusal)? as usize;
    let offset_groups = cx.attrs().int_or("offset_group", 1).clamp(1, 1 << 16) as usize;
    let axes = Window::read(cx.attrs(), &[kh as i64, kw as i64]).map_err(as_refusal)?.axes(&shape[2..], false)?;
    let (taps, places) = (kh * kw, out[2] * out[3]);
    let offsets = cx.shape(2)?;
    let wanted = [n, 2 * offset_groups * taps, out[2], out[3]];
    if offsets != wanted || c % offset_groups != 0 || c % group != 0 {
        return Err(Refusal::form(format!(
            "offsets of shape {offsets:?}; {wanted:?} is needed for {offset_groups} offset groups of {c} channels"
        )));
    }
    let samples = n.saturating_mul(taps).saturating_mul(places);
    if samples.saturating_mul(c) > SAMPLES_LIMIT {
        return Err(Refusal::form(format!("DeformConv samples {samples} positions of {c} channels")));
    }
    let d = |v: usize| v as u32;

    let offset = cx.input(2)?;
    let offset = cx.reshape(offset, &[d(n), d(offset_groups * taps), 2, d(places)]);
    let image = spatial::channel_last(cx, 0)?;
    let table = cx.reshape(image, &[d(n * h * w), d(c)]);
    let mask = if cx.has(4) {
        let t = cx.input(4)?;
        Some(cx.reshape(t, &[d(n), d(offset_groups * taps), d(places)]))
    } else {
        None
    };
    let image_start: Vec<i32> = (0..n).flat_map(|i| std::iter::repeat_n((i * h * w) as i32, taps * places)).collect();
    let base = if n > 1 { Some(cx.i32_constant(&[d(samples)], &image_start)) } else { None };
    // Where each tap of each window stands without its offset.
    let standing = |axis: usize| -> Vec<i32> {
        let (a, width) = (axes[axis], out[3]);
        let one = (0..taps).flat_map(|k| {
            let k = if axis == 0 { k / kw } else { k % kw };
            (0..places).map(move |p| {
                let p = if axis == 0 { p / width } else { p % width };
                (p * a.stride + k * a.dilation) as i32 - a.before as i32
            })
        });
        let one: Vec<i32> = one.collect();
        one.repeat(n)
    };
    let standing = [standing(0), standing(1)].map(|v| cx.i32_constant(&[d(samples)], &v));

    let mut values = vec![];
    for g in 0..d(offset_groups) {
        let channels = d(c / offset_groups);
        let rows = compose::slice(cx, table, 1, g * channels, (g + 1) * channels);
        let mut taps_of = vec![];
        for (axis, size) in [(0, h), (1, w)] {
            let along = compose::slice(cx, offset, 2, axis, axis + 1);
            let along = cx.reshape(along, &[d(n), d(offset_groups * taps), d(places)]);
            let along = of_group(cx, along, g, d(taps));
            let (whole, rest) = sampling::split(cx, along);
            let first = compose::add(cx, whole, standing[axis as usize]);
            taps_of.push(Taps { first, weights: sampling::linear(cx, rest), size: d(size) });
        }
        let mut sampled = sampling::sample(cx, rows, base, &taps_of, true);
        if let Some(mask) = mask {
            let part = of_group(cx, mask, g, d(taps));
            let column = cx.reshape(part, &[d(samples), 1]);
            sampled = compose::mul(cx, sampled, column);
        }
        values.push(cx.reshape(sampled, &[d(n), d(taps), d(places), channels]));
    }
    let all = compose::concat(cx, &values, 3);
    let by_place = cx.transpose(all, &[0, 2, 1, 3]);
    let bias = if cx.has(3) { Some(cx.input(3)?) } else { None };
    let weights = cx.ordered(1, &Layout::from_order(vec![2, 3, 1, 0]))?;
    let weights = cx.reshape(weights, &[d(taps * per_group), d(m)]);
    let mut results = vec![];
    for g in 0..d(group) {
        let inputs = compose::slice(cx, by_place, 3, g * d(per_group), (g + 1) * d(per_group));
        let rows = cx.reshape(inputs, &[d(n * places), d(taps * per_group)]);
        let filters = compose::slice(cx, weights, 1, g * d(m / group), (g + 1) * d(m / group));
        results.push(compose::matmul(cx, rows, filters, false));
    }
    let mut y = compose::concat(cx, &results, 1);
    if let Some(b) = bias {
        y = compose::add(cx, y, b);
    }
    spatial::give_channel_last(cx, 0, y)
}
