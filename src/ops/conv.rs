//! Conv over one to three spatial axes, with groups, dilations and any padding.
//!
//! One spatial axis becomes two, the first of size 1: the HTP has no Conv1d. Weights go from `[M, C/g, k...]` to
//! `[k..., C/g, M]`; constants are permuted when they are written.

use super::spatial::{self, Axis, Window};
use super::{InferCx, OpDef, OpError, invalid};
use crate::ir::{Attrs, Dim, Shape, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Conv", infer_conv).lower(lower_conv)];

/// The kernel sizes: attribute `kernel_shape`, or the spatial axes of the weights; an error if they disagree.
pub(super) fn kernel_of(attrs: &Attrs, weights: &[Dim]) -> Result<Vec<i64>, OpError> {
    let spatial = weights.get(2..).unwrap_or_default();
    let given = attrs.ints("kernel_shape").map(<[i64]>::to_vec);
    let known: Option<Vec<i64>> = spatial.iter().map(Dim::known).collect();
    match (given, known) {
        (Some(g), Some(k)) if g != k => {
            invalid(format!("attribute kernel_shape {g:?} is not the weights' spatial shape {k:?}"))
        }
        (Some(g), _) if g.len() != spatial.len() => {
            invalid(format!("attribute kernel_shape {g:?} has {} values for {} spatial axes", g.len(), spatial.len()))
        }
        (_, Some(k)) => Ok(k),
        (Some(g), None) => Ok(g),
        (None, None) => {
            Err(OpError::DataDependent(format!("the kernel sizes are not known: weights are {}", show_shape(weights))))
        }
    }
}

/// Attribute `group`, 1 or more.
pub(super) fn group_of(attrs: &Attrs) -> Result<i64, OpError> {
    match attrs.int_or("group", 1) {
        g if (1..=1 << 24).contains(&g) => Ok(g),
        g => invalid(format!("attribute group is {g}; it must be 1 or more")),
    }
}

/// The shape of a convolution's result; `x` and `w` as ONNX has them.
pub(super) fn conv_shape(attrs: &Attrs, x: &[Dim], w: &[Dim]) -> Result<Shape, OpError> {
    if x.len() < 3 || w.len() != x.len() {
        return invalid(format!(
            "input {} and weights {} must have the same rank, 3 or more",
            show_shape(x),
            show_shape(w)
        ));
    }
    let group = group_of(attrs)?;
    if let (Dim::Known(c), Dim::Known(per)) = (&x[1], &w[1])
        && per.checked_mul(group) != Some(*c)
    {
        return invalid(format!("{c} input channels, but weights for {group} groups of {per}"));
    }
    if let Dim::Known(m) = w[0]
        && m % group != 0
    {
        return invalid(format!("{m} output channels do not divide into {group} groups"));
    }
    let window = Window::read(attrs, &kernel_of(attrs, w)?)?;
    let mut out = vec![x[0].clone(), w[0].clone()];
    out.extend(window.out_dims(&x[2..], false)?);
    Ok(out)
}

fn infer_conv(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?, cx.ty(1)?);
    let shape = conv_shape(&cx.node.attrs, &x.shape, &w.shape)?;
    if cx.has(2)
        && let (Some(Dim::Known(b)), Some(Dim::Known(m))) = (cx.shape(2)?.first(), w.shape.first())
        && b != m
    {
        return invalid(format!("the bias has {b} elements for {m} output channels"));
    }
    cx.set(0, x.dtype, shape);
    Ok(())
}

/// A convolution ready to be emitted: `x` is channel last with `axes.len()` spatial axes (2 or 3).
pub(super) struct Convolution {
    pub x: TensorId,
    /// `[k..., C/group, M]`
    pub weights: TensorId,
    pub bias: Option<TensorId>,
    pub axes: Vec<Axis>,
    pub group: u32,
}

impl Convolution {
    /// Emits the QNN ops. Padding of a whole kernel or more is made real first: the HTP gets its corners wrong.
    pub fn emit(self, cx: &mut LowerCx<'_, '_>) -> TensorId {
        let Self { mut x, weights, bias, mut axes, group } = self;
        if axes.iter().any(|a| a.before >= a.extent() || a.used_after() >= a.extent()) {
            (x, axes) = spatial::pad_first(cx, x, &axes, 0.0);
        }
        let (xd, wd) = (cx.dims(x), cx.dims(weights));
        let n = axes.len();
        let (channels, per_group, m) = (xd[n + 1], wd[n], wd[n + 1]);
        let strided = axes.iter().any(|a| a.stride > 1);
        let dilated = axes.iter().any(|a| a.dilation > 1);
        // Several kernels per channel and strides together give wrong numbers in DepthWiseConv2d (2.47): 1 by 3 taps
        // with strides 1 and 2, or 3 and 3.
        let spaced = strided && (dilated || m > channels);
        let depthwise = n == 2 && group > 1 && group == channels && per_group == 1 && !spaced;
        let mut params = vec![
            ("stride", spatial::stride_param(&axes)),
            ("pad_amount", spatial::pad_param(&axes)),
            ("dilation", spatial::dilation_param(&axes)),
        ];
        if !depthwise {
            params.push(("group", Param::u32(group)));
        }
        let op = match (depthwise, n) {
            (true, _) => "DepthWiseConv2d",
            (false, 2) => "Conv2d",
            (false, _) => "Conv3d",
        };
        let mut inputs = vec![x, weights];
        inputs.extend(bias);
        let dims = spatial::out_dims(xd[0], &axes, m);
        let dtype = cx.qnn_type(x);
        cx.op_to(op, &inputs, dtype, &dims, &params)
    }
}

/// The order of axes that turns `[M, C/g, k...]` into `[k..., C/g, M]`.
fn weight_order(rank: usize) -> Vec<usize> {
    (2..rank).chain([1, 0]).collect()
}

/// Conv3d on the HTP takes a dilation only with stride 1, and none in depth.
fn conv3d_takes(axes: &[Axis]) -> bool {
    axes[0].dilation == 1 && (axes[1..].iter().all(|a| a.dilation == 1) || axes.iter().all(|a| a.stride == 1))
}

/// A constant kernel `[a, b, k...]` with zeros between its taps, so that it needs no dilation.
pub(super) fn spread(t: &Tensor, dilations: &[usize]) -> Option<Tensor> {
    let shape = t.shape();
    let size = t.dtype().bits() / 8;
    let mut to = shape.get(..2)?.to_vec();
    for (k, d) in shape[2..].iter().zip(dilations) {
        to.push((k.checked_sub(1)?).checked_mul(*d)?.checked_add(1)?);
    }
    let total = to.iter().try_fold(size, |a, &d| a.checked_mul(d)).filter(|&n| n <= 1 << 30)?;
    let (from, bytes) = (crate::ir::strides(&to), t.bytes());
    let mut out = vec![0u8; total];
    for (flat, element) in bytes.chunks_exact(size.max(1)).enumerate() {
        let (mut rest, mut at) = (flat, 0);
        for axis in (0..shape.len()).rev() {
            let step = if axis < 2 { 1 } else { dilations[axis - 2] };
            at += (rest % shape[axis]) * step * from[axis];
            rest /= shape[axis];
        }
        out[at * size..(at + 1) * size].copy_from_slice(element);
    }
    Tensor::from_raw(t.dtype(), to, out.into())
}

/// The axes of a kernel that was spread.
pub(super) fn without_dilation(axes: &[Axis]) -> Vec<Axis> {
    axes.iter().map(|a| Axis { kernel: a.extent(), dilation: 1, ..*a }).collect()
}

/// A constant as weights: axes in `order`, a unit kernel axis before a lone one.
pub(super) fn constant_weights(cx: &mut LowerCx<'_, '_>, t: &Tensor, order: &[usize]) -> TensorId {
    let mut dims: Vec<u32> = order.iter().map(|&a| t.shape()[a] as u32).collect();
    if dims.len() == 3 {
        dims.insert(0, 1);
    }
    cx.weight(t, Some(order), &dims)
}

/// Input `i` as weights, its axes in `order`, whether it is a constant or not.
pub(super) fn weights_input(cx: &mut LowerCx<'_, '_>, i: usize, order: &[usize]) -> Result<TensorId, Refusal> {
    // A static tensor takes any dims; a Reshape op would keep the backend from seeing constant weights.
    if let (3, Some(t)) = (order.len(), cx.constant(i)) {
        return Ok(constant_weights(cx, t, order));
    }
    let t = cx.ordered(i, &Layout::from_order(order.to_vec()))?;
    let shape = cx.shape(i)?;
    let physical: Vec<usize> = order.iter().map(|&a| shape[a]).collect();
    let dims = if physical.len() == 3 { [&[1], &physical[..]].concat() } else { physical };
    let dims: Vec<u32> = dims.into_iter().map(|d| d as u32).collect();
    Ok(cx.reshape(t, &dims))
}

pub(super) fn check_float(cx: &LowerCx<'_, '_>, i: usize) -> Result<(), Refusal> {
    let dtype = cx.dtype(i)?;
    if dtype.is_float() {
        return Ok(());
    }
    Err(Refusal::new(codes::DTYPE, format!("input {i} is {dtype}; the QNN op takes real numbers"))
        .fix("cast to float32 before and back after"))
}

fn lower_conv(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let y = convolve(cx)?;
    spatial::give_channel_last(cx, 0, y)
}

/// The convolution of inputs 0 to 2 (data, weights, optional bias) as ONNX defines it; the result is channel last.
pub(super) fn convolve(cx: &mut LowerCx<'_, '_>) -> Result<TensorId, Refusal> {
    check_float(cx, 0)?;
    let (shape, kernel) = (cx.shape(0)?, cx.shape(1)?);
    spatial::check_spatial(shape.len())?;
    let as_refusal = |e: OpError| Refusal::form(e.to_string());
    let group = group_of(cx.attrs()).map_err(as_refusal)? as u32;
    let sizes: Vec<i64> = kernel[2..].iter().map(|&k| k as i64).collect();
    let window = Window::read(cx.attrs(), &sizes).map_err(as_refusal)?;
    let mut axes = spatial::lifted_axes(window.axes(&shape[2..], false)?);
    let x = spatial::channel_last(cx, 0)?;
    let order = weight_order(kernel.len());
    // Several kernels per channel and a dilation together give wrong numbers on the HTP (2.47).
    let several = kernel[1] == 1 && group > 1 && kernel[0] as u32 > group && axes.iter().any(|a| a.dilation > 1);
    let weights = if (axes.len() == 3 && !conv3d_takes(&axes)) || several {
        let dilations: Vec<usize> = axes.iter().map(|a| a.dilation).collect();
        let given = &dilations[axes.len() - sizes.len()..];
        let w = cx.constant(1).and_then(|t| spread(t, given)).ok_or_else(|| {
            Refusal::form(format!("a Conv of {group} groups with dilations {given:?} and run-time weights"))
        })?;
        axes = without_dilation(&axes);
        constant_weights(cx, &w, &order)
    } else {
        weights_input(cx, 1, &order)?
    };
    let bias = if cx.has(2) { Some(cx.input(2)?) } else { None };
    Ok(Convolution { x, weights, bias, axes, group }.emit(cx))
}

/// Depthwise convolution of `x` (channel last, two spatial axes) with one kernel for all channels, row-major over the
/// two axes: a weighted sum over windows.
pub(super) fn window_sum(cx: &mut LowerCx<'_, '_>, x: TensorId, axes: &[Axis], kernel: &[f32]) -> TensorId {
    let channels = *cx.dims(x).last().unwrap_or(&1);
    let values: Vec<f32> = kernel.iter().flat_map(|&v| std::iter::repeat_n(v, channels as usize)).collect();
    let dims = [axes[0].kernel as u32, axes[1].kernel as u32, 1, channels];
    let weights = cx.float_constant(&dims, &values);
    Convolution { x, weights, bias: None, axes: axes.to_vec(), group: channels }.emit(cx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types};

    #[test]
    fn shapes_and_errors() {
        let n = node("Conv", 11).float(&[-1, 3, -2, 16]).float(&[8, 3, 3, 3]).int_list("pads", &[1, 1, 1, 1]);
        assert_eq!(n.types(), ["float32[d1, 8, d2, 16]"]);
        let n = |w: &[i64]| node("Conv", 11).float(&[1, 4, 8, 8]).float(w);
        assert!(n(&[8, 3, 3, 3]).error().contains("4 input channels, but weights for 1 groups of 3"));
        assert!(n(&[8, 4, 3]).error().contains("same rank"));
        assert!(n(&[3, 2, 3, 3]).int("group", 2).error().contains("3 output channels do not divide into 2"));
        assert!(n(&[8, 4, 3, 3]).int_list("kernel_shape", &[5, 5]).error().contains("[5, 5] is not the weights'"));
        assert!(n(&[8, 4, 3, 3]).float(&[7]).error().contains("the bias has 7 elements for 8"));
        assert!(n(&[8, 4, 9, 9]).error().contains("does not fit"));
        assert!(n(&[8, 4, 3, 3]).int("group", 0).error().contains("group is 0"));
    }

    #[test]
    fn op_choice() {
        let n = |w: &[i64], group: i64| {
            let n = node("Conv", 11).float(&[1, 4, 8, 8]).float(w).int("group", group);
            op_types(&n.lower().unwrap()).join(" ")
        };
        assert!(n(&[4, 1, 3, 3], 4).contains("DepthWiseConv2d"));
        assert!(n(&[8, 4, 3, 3], 1).contains("Conv2d"));
        let strided = |m: i64| {
            let n = node("Conv", 11).float(&[1, 4, 8, 8]).float(&[m, 1, 1, 3]).int("group", 4);
            op_types(&n.int_list("strides", &[1, 2]).lower().unwrap()).join(" ")
        };
        assert!(strided(4).contains("DepthWiseConv2d"));
        assert!(!strided(8).contains("DepthWiseConv2d"), "several kernels per channel, strided");
        let n = node("Conv", 11).float(&[1, 2, 3, 4, 5, 6]).float(&[1, 2, 1, 1, 1, 1]);
        assert!(n.refusal().contains("rank 6"));
    }

    #[test]
    fn spreading_puts_zeros_between_taps() {
        let t = Tensor::from_f32(vec![1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let s = spread(&t, &[1, 2]).unwrap();
        assert_eq!(s.shape(), [1, 1, 2, 3]);
        assert_eq!(s.to_f32s().unwrap(), [1.0, 0.0, 2.0, 3.0, 0.0, 4.0]);
    }
}
