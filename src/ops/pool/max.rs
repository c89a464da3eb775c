//! MaxPool.
//!
//! QNN has two spatial axes and no dilation. A maximum over a box is a maximum along one axis after the other, so the
//! rest is made of maxima of strided slices, which is exact. Padding with an even window and a stride of 2 gives wrong
//! numbers on the HTP (2.47): it is then made real first, with the lowest 16-bit float.

use super::{ceil, window};
use crate::ir::DataType;
use crate::lower::{Layout, LowerCx, Refusal};
use crate::ops::spatial::{self, Axis};
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// Lower than any 16-bit float that the graph holds, without being infinite.
const LOWEST: f32 = -65504.0;
/// With indices, the window is unrolled tap by tap: no more taps than this.
const TAPS_LIMIT: usize = 64;

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    spatial::check_spatial(shape.len())?;
    let axes = spatial::lifted_axes(window(cx)?.axes(&shape[2..], ceil(cx.attrs()))?);
    let mut x = spatial::channel_last(cx, 0)?;
    let dtype = cx.dtype(0)?;
    if !dtype.is_float() {
        if !matches!(dtype, DataType::U8 | DataType::I8) {
            return Err(Refusal::new(codes::DTYPE, format!("MaxPool of {dtype}; the HTP pools real numbers")));
        }
        // Bytes are exact in 16-bit floats.
        x = to_float(cx, x);
    }
    let y = if cx.wants(1) { with_indices(cx, x, &axes)? } else { maximum(cx, x, axes) };
    let y = if dtype.is_float() { y } else { from_float(cx, y, dtype) };
    spatial::give_channel_last(cx, 0, y)
}

fn to_float(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let wide = cx.cast(t, QnnType::INT_32);
    cx.cast(wide, cx.float())
}

fn from_float(cx: &mut LowerCx<'_, '_>, t: TensorId, dtype: DataType) -> TensorId {
    let (dims, float) = (cx.dims(t), cx.qnn_type(t));
    let whole = cx.op_to("ElementWiseRound", &[t], float, &dims, &[]);
    let int = cx.cast(whole, QnnType::INT_32);
    cx.cast(int, if dtype == DataType::U8 { QnnType::UINT_8 } else { QnnType::INT_8 })
}

/// The maximum over the windows of `axes`; `x` is channel last.
fn maximum(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: Vec<Axis>) -> TensorId {
    let padded = axes.iter().any(|a| a.before > 0 || a.used_after() > 0);
    let dilated = axes.iter().any(|a| a.dilation > 1 && a.kernel > 1);
    let even = axes.iter().any(|a| a.kernel % 2 == 0);
    let beyond = axes.iter().any(|a| a.before >= a.kernel || a.used_after() >= a.kernel);
    let (x, axes) = if padded && (dilated || axes.len() == 3 || even || beyond) {
        spatial::pad_first(cx, x, &axes, LOWEST)
    } else {
        (x, axes)
    };
    let dims = cx.dims(x);
    if dilated {
        return (0..axes.len()).fold(x, |t, i| along(cx, t, i + 1, &axes[i]));
    }
    let [.., channels] = dims[..] else { return x };
    if axes.len() == 2 {
        return pool2d(cx, x, &axes);
    }
    // Depth is merged into the batch for the two inner axes, then the inner axes into one for depth.
    let (batch, depth) = (dims[0], dims[1]);
    let planes = cx.reshape(x, &[batch * depth, dims[2], dims[3], channels]);
    let planes = pool2d(cx, planes, &axes[1..]);
    let inner = axes[1].out as u32 * axes[2].out as u32;
    let y = if axes[0].kernel == 1 && axes[0].stride == 1 {
        planes
    } else {
        let columns = cx.reshape(planes, &[batch, depth, inner, channels]);
        let across =
            Axis { size: inner as usize, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, out: inner as usize };
        pool2d(cx, columns, &[axes[0], across])
    };
    cx.reshape(y, &spatial::out_dims(batch, &axes, channels))
}

fn pool2d(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis]) -> TensorId {
    let (d, dtype) = (cx.dims(x), cx.qnn_type(x));
    let filter: Vec<u32> = axes.iter().map(|a| a.kernel as u32).collect();
    cx.op_to(
        "PoolMax2d",
        &[x],
        dtype,
        &spatial::out_dims(d[0], axes, d[3]),
        &[
            ("filter_size", Param::u32s(&filter)),
            ("stride", spatial::stride_param(axes)),
            ("pad_amount", spatial::pad_param(axes)),
        ],
    )
}

/// The elements that tap `tap` of each window of `axis` sees, along physical axis `at` of `t`, which has no padding.
pub(super) fn tap(cx: &mut LowerCx<'_, '_>, t: TensorId, at: usize, axis: &Axis, tap: usize) -> TensorId {
    let mut dims = cx.dims(t);
    let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
    let start = tap * axis.dilation;
    let end = start + (axis.out - 1) * axis.stride + 1;
    if start == 0 && axis.stride == 1 && end == dims[at] as usize {
        return t;
    }
    ranges[at] = [start as i32, end as i32, axis.stride as i32];
    dims[at] = axis.out as u32;
    let dtype = cx.qnn_type(t);
    cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))])
}

/// The maximum along one axis, as maxima of strided slices.
fn along(cx: &mut LowerCx<'_, '_>, t: TensorId, at: usize, axis: &Axis) -> TensorId {
    // Axes around the pooled one are merged: ElementWiseMaximum takes up to four.
    let dims = cx.dims(t);
    let before: u32 = dims[..at].iter().product();
    let after: u32 = dims[at + 1..].iter().product();
    let flat = cx.reshape(t, &[before, dims[at], after]);
    let mut best = tap(cx, flat, 1, axis, 0);
    for k in 1..axis.kernel {
        let next = tap(cx, flat, 1, axis, k);
        let (d, dtype) = (cx.dims(best), cx.qnn_type(best));
        best = cx.op_to("ElementWiseMaximum", &[best, next], dtype, &d, &[]);
    }
    let mut out = dims;
    out[at] = axis.out as u32;
    cx.reshape(best, &out)
}

/// The maximum and, as output 1, where it was: the first maximum of each window counts.
fn with_indices(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis]) -> Result<TensorId, Refusal> {
    let taps: usize = axes.iter().map(|a| a.kernel).product();
    let shape = cx.shape(0)?;
    let total: usize = shape.iter().product();
    if axes.len() != 2 || taps > TAPS_LIMIT || total > 1 << 24 {
        return Err(Refusal::form(format!(
            "the indices of MaxPool are read, for a window of {taps} elements over {} spatial axes",
            axes.len()
        ))
        .fix("drop output Indices if nothing needs it"));
    }
    let column_major = cx.attrs().int_or("storage_order", 0) != 0;
    let (x, bare) = spatial::pad_first(cx, x, axes, LOWEST);
    let mut best: Option<(TensorId, TensorId)> = None;
    for row in 0..bare[0].kernel {
        for column in 0..bare[1].kernel {
            let t = tap(cx, x, 1, &bare[0], row);
            let t = tap(cx, t, 2, &bare[1], column);
            let (dims, float) = (cx.dims(t), cx.float());
            // Tap numbers are small: exact as real numbers, which the HTP selects best.
            let number = (row * bare[1].kernel + column) as f32;
            best = Some(match best {
                None => (t, cx.float_constant(&dims, &vec![0.0; dims.iter().product::<u32>() as usize])),
                Some((max, at)) => {
                    let greater = cx.op_to("ElementWiseGreater", &[t, max], QnnType::BOOL_8, &dims, &[]);
                    let n = cx.float_scalar(number);
                    let at = cx.op_to("ElementWiseSelect", &[greater, n, at], float, &dims, &[]);
                    (cx.op_to("ElementWiseMaximum", &[max, t], float, &dims, &[]), at)
                }
            });
        }
    }
    let Some((max, at)) = best else { return Err(Refusal::form("MaxPool with an empty window")) };
    let dims = cx.dims(max);
    let at = if taps == 1 {
        cx.cast(at, QnnType::INT_32)
    } else {
        let half = cx.float_scalar(0.25);
        let at = cx.op_to("ElementWiseAdd", &[at, half], cx.float(), &dims, &[]);
        cx.cast(at, QnnType::INT_32)
    };
    // The offset of each tap within the input, and of each window.
    let (height, width) = (axes[0].size, axes[1].size);
    let step = |r: i64, c: i64| if column_major { c * height as i64 + r } else { r * width as i64 + c };
    let mut offsets = vec![];
    for r in 0..axes[0].kernel {
        for c in 0..axes[1].kernel {
            offsets.push(step((r * axes[0].dilation) as i64, (c * axes[1].dilation) as i64) as i32);
        }
    }
    let (n, channels) = (shape[0], shape[1]);
    let mut base = vec![];
    for b in 0..n {
        for r in 0..axes[0].out {
            for c in 0..axes[1].out {
                let corner = step(
                    (r * axes[0].stride) as i64 - axes[0].before as i64,
                    (c * axes[1].stride) as i64 - axes[1].before as i64,
                );
                for channel in 0..channels {
                    base.push(((b * channels + channel) * height * width) as i32 + corner as i32);
                }
            }
        }
    }
    let table = cx.i32_constant(&[offsets.len() as u32], &offsets);
    let flat: u32 = dims.iter().product();
    let index = cx.reshape(at, &[flat]);
    let offset = cx.op_to("Gather", &[table, index], QnnType::INT_32, &[flat], &[("axis", Param::i32(0))]);
    let base = cx.i32_constant(&[flat], &base);
    let out = cx.op_to("ElementWiseAdd", &[offset, base], QnnType::INT_32, &[flat], &[]);
    let rank = cx.out_shape(1)?.len();
    cx.alias(1, out, Layout::channel_last(rank))?;
    Ok(max)
}
