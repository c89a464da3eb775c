//! What ops with a sliding window share: kernel, strides, dilations and padding read from the attributes, output sizes,
//! and tensors with the channel last and at least two spatial axes, as QNN's spatial ops take them.

use super::OpError;
use crate::ir::{Attrs, Dim, Shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// Attributes beyond this are refused, so that no size computed from them overflows.
const LIMIT: i64 = 1 << 24;

/// How `auto_pad` and `pads` say what is added around the input.
#[derive(Clone, Debug, PartialEq)]
pub enum Padding {
    /// Before and after, for every spatial axis.
    Explicit(Vec<[i64; 2]>),
    /// Enough that the output size is the input size over the stride; the odd one goes to the end.
    SameUpper,
    /// The same; the odd one goes to the beginning.
    SameLower,
}

/// A window that slides over the spatial axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pub padding: Padding,
}

/// One spatial axis with all sizes known: the padding in effect and the output size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    pub size: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
    pub out: usize,
}

impl Axis {
    /// Elements from the first to the last tap.
    pub fn extent(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The padding at the end that the windows really touch.
    pub fn used_after(&self) -> usize {
        ((self.out - 1) * self.stride + self.extent()).saturating_sub(self.size + self.before)
    }
}

/// An attribute with one number per spatial axis, each in `low..=LIMIT`.
fn per_axis(attrs: &Attrs, name: &str, count: usize, low: i64, default: i64) -> Result<Vec<i64>, String> {
    let values = attrs.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec);
    if values.len() != count {
        return Err(format!("attribute {name} {values:?} has {} values, {count} are needed", values.len()));
    }
    match values.iter().find(|v| !(low..=LIMIT).contains(*v)) {
        Some(v) => Err(format!("attribute {name} {values:?}: {v} is outside {low} to {LIMIT}")),
        None => Ok(values),
    }
}

impl Window {
    /// Reads `strides`, `dilations`, `pads` and `auto_pad` for a kernel of these sizes.
    pub fn read(attrs: &Attrs, kernel: &[i64]) -> Result<Self, OpError> {
        Self::parse(attrs, kernel).map_err(OpError::Invalid)
    }

    fn parse(attrs: &Attrs, kernel: &[i64]) -> Result<Self, String> {
        let n = kernel.len();
        if let Some(k) = kernel.iter().find(|k| !(1..=LIMIT).contains(*k)) {
            return Err(format!("kernel {kernel:?}: {k} is outside 1 to {LIMIT}"));
        }
        let padding = match attrs.str_or("auto_pad", "NOTSET") {
            "SAME_UPPER" => Padding::SameUpper,
            "SAME_LOWER" => Padding::SameLower,
            "VALID" => Padding::Explicit(vec![[0, 0]; n]),
            "NOTSET" | "" => {
                let pads = per_axis(attrs, "pads", 2 * n, 0, 0)?;
                Padding::Explicit((0..n).map(|i| [pads[i], pads[i + n]]).collect())
            }
            other => {
                return Err(format!("attribute auto_pad is {other:?}; it is NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
            }
        };
        Ok(Self {
            kernel: kernel.to_vec(),
            strides: per_axis(attrs, "strides", n, 1, 1)?,
            dilations: per_axis(attrs, "dilations", n, 1, 1)?,
            padding,
        })
    }

    fn extent(&self, i: usize) -> i64 {
        (self.kernel[i] - 1).saturating_mul(self.dilations[i]).saturating_add(1)
    }

    /// Sizes of the output's spatial axes. `ceil`: a last window that does not fit whole counts, unless it starts in
    /// the padding at the end.
    pub fn out_dims(&self, spatial: &[Dim], ceil: bool) -> Result<Shape, OpError> {
        spatial.iter().enumerate().map(|(i, d)| self.out_dim(i, d, ceil).map_err(OpError::Invalid)).collect()
    }

    fn out_dim(&self, i: usize, size: &Dim, ceil: bool) -> Result<Dim, String> {
        if let Dim::Known(n) = size {
            return self.axis(i, *n, ceil).map(|a| Dim::from(a.out));
        }
        let stride = Dim::Known(self.strides[i]);
        let Padding::Explicit(pads) = &self.padding else {
            let up = size.add(&Dim::Known(self.strides[i] - 1));
            return Ok(up.floor_div(&stride).unwrap_or(up));
        };
        let [before, after] = pads[i];
        let slack = before + after - self.extent(i);
        let more = if ceil { self.strides[i] - 1 } else { 0 };
        let steps = size.add(&Dim::Known(slack.saturating_add(more)));
        if ceil && after + self.strides[i] > self.extent(i) {
            return Ok(Dim::symbol(format!("pooled({steps}, {stride})")));
        }
        Ok(steps.floor_div(&stride).unwrap_or(steps).add(&Dim::Known(1)))
    }

    /// Axis `i` for an input of `size` elements.
    fn axis(&self, i: usize, size: i64, ceil: bool) -> Result<Axis, String> {
        let (stride, extent) = (self.strides[i], self.extent(i));
        if !(1..=i64::from(u32::MAX >> 1)).contains(&size) {
            return Err(format!("spatial axis {i} has {size} elements"));
        }
        let (before, after, out) = match &self.padding {
            Padding::Explicit(pads) => {
                let [before, after] = pads[i];
                let room = size + before + after - extent;
                if room < 0 {
                    return Err(format!(
                        "a window over {extent} elements does not fit spatial axis {i} of {size} with pads {before} and {after}"
                    ));
                }
                let mut out = if ceil { (room + stride - 1) / stride } else { room / stride } + 1;
                if ceil && (out - 1) * stride >= size + before {
                    out -= 1;
                }
                (before, after, out)
            }
            same => {
                let out = (size + stride - 1) / stride;
                let total = ((out - 1) * stride + extent - size).max(0);
                let small = total / 2;
                let [before, after] =
                    if *same == Padding::SameUpper { [small, total - small] } else { [total - small, small] };
                (before, after, out)
            }
        };
        let u = |v: i64| v as usize;
        Ok(Axis {
            size: u(size),
            kernel: u(self.kernel[i]),
            stride: u(stride),
            dilation: u(self.dilations[i]),
            before: u(before),
            after: u(after),
            out: u(out),
        })
    }

    /// All axes, for an input of these spatial sizes.
    pub fn axes(&self, spatial: &[usize], ceil: bool) -> Result<Vec<Axis>, Refusal> {
        spatial.iter().enumerate().map(|(i, &n)| self.axis(i, n as i64, ceil).map_err(Refusal::form)).collect()
    }
}

/// Refuses more than three spatial axes.
pub fn check_spatial(rank: usize) -> Result<(), Refusal> {
    if (3..=5).contains(&rank) {
        return Ok(());
    }
    let mut r = Refusal::form(format!("the input has rank {rank}; QNN's spatial ops take one to three spatial axes"));
    r.0[0] = r.0[0].clone().expected("rank 3 to 5", format!("rank {rank}"));
    Err(r)
}

/// Input `i` with the channel last and at least two spatial axes (a lone one gets an axis of size 1 before it).
pub fn channel_last(cx: &mut LowerCx<'_, '_>, i: usize) -> Result<TensorId, Refusal> {
    let shape = cx.shape(i)?;
    check_spatial(shape.len())?;
    let layout = Layout::channel_last(shape.len());
    let t = cx.ordered(i, &layout)?;
    let dims = lifted(&layout.apply(&shape));
    Ok(cx.reshape(t, &dims))
}

/// Physical dims `[N, W, C]` with a unit axis before `W`; others as they are.
pub fn lifted(physical: &[usize]) -> Vec<u32> {
    let mut dims: Vec<u32> = physical.iter().map(|&d| d as u32).collect();
    if dims.len() == 3 {
        dims.insert(1, 1);
    }
    dims
}

/// Output `slot` is `t`, whose elements are in channel-last order.
pub fn give_channel_last(cx: &mut LowerCx<'_, '_>, slot: usize, t: TensorId) -> Result<(), Refusal> {
    let rank = cx.out_shape(slot)?.len();
    cx.alias(slot, t, Layout::channel_last(rank))
}

/// `axes` with a unit axis before a lone one.
pub fn lifted_axes(mut axes: Vec<Axis>) -> Vec<Axis> {
    if axes.len() == 1 {
        axes.insert(0, Axis { size: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, out: 1 });
    }
    axes
}

/// The dims of a result with these output sizes and `channels`, channel last.
pub fn out_dims(batch: u32, axes: &[Axis], channels: u32) -> Vec<u32> {
    let mut dims = vec![batch];
    dims.extend(axes.iter().map(|a| a.out as u32));
    dims.push(channels);
    dims
}

/// Parameter `stride`.
pub fn stride_param(axes: &[Axis]) -> Param {
    Param::u32s(&axes.iter().map(|a| a.stride as u32).collect::<Vec<_>>())
}

/// Parameter `dilation`.
pub fn dilation_param(axes: &[Axis]) -> Param {
    Param::u32s(&axes.iter().map(|a| a.dilation as u32).collect::<Vec<_>>())
}

/// Parameter `pad_amount`: no more at the end than the windows touch.
pub fn pad_param(axes: &[Axis]) -> Param {
    Param::pairs(&axes.iter().map(|a| [a.before as u32, a.used_after() as u32]).collect::<Vec<_>>())
}

/// `t` (channel last) with the padding of `axes` made real by a Pad of `value`; the axes are then without padding.
pub fn pad_first(cx: &mut LowerCx<'_, '_>, t: TensorId, axes: &[Axis], value: f32) -> (TensorId, Vec<Axis>) {
    let mut amount = vec![[0u32, 0]];
    amount.extend(axes.iter().map(|a| [a.before as u32, a.used_after() as u32]));
    amount.push([0, 0]);
    let bare =
        axes.iter().map(|a| Axis { size: a.size + a.before + a.used_after(), before: 0, after: 0, ..*a }).collect();
    if amount.iter().all(|p| *p == [0, 0]) {
        return (t, bare);
    }
    (pad_constant(cx, t, &amount, value), bare)
}

/// `t` with `amount` elements of `value` before and after each of its axes.
pub fn pad_constant(cx: &mut LowerCx<'_, '_>, t: TensorId, amount: &[[u32; 2]], value: f32) -> TensorId {
    let dims: Vec<u32> = cx.dims(t).iter().zip(amount).map(|(d, [b, a])| d + b + a).collect();
    let dtype = cx.qnn_type(t);
    cx.op_to(
        "Pad",
        &[t],
        dtype,
        &dims,
        &[("scheme", Param::u32(0)), ("pad_amount", Param::pairs(amount)), ("pad_constant_value", Param::f32(value))],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Attr;

    fn window(kernel: &[i64], attrs: &[(&str, Attr)]) -> Result<Window, OpError> {
        let mut a = Attrs::default();
        for (n, v) in attrs {
            a.set(*n, v.clone());
        }
        Window::read(&a, kernel)
    }

    fn ints(v: &[i64]) -> Attr {
        Attr::Ints(v.to_vec())
    }

    #[test]
    fn output_sizes() {
        let text = |s: &str| Attr::Str(s.to_string().into());
        let w = window(&[3], &[("strides", ints(&[2])), ("pads", ints(&[1, 1]))]).unwrap();
        assert_eq!(w.out_dims(&[Dim::Known(7)], false).unwrap(), [Dim::Known(4)]);
        assert_eq!(w.out_dims(&[Dim::symbol("w")], false).unwrap()[0].to_string(), "floor((w - 1)/(2)) + 1");
        let w = window(&[3], &[("strides", ints(&[2])), ("auto_pad", text("SAME_UPPER"))]).unwrap();
        let a = w.axes(&[6], false).unwrap()[0];
        assert_eq!((a.before, a.after, a.out), (0, 1, 3));
        let w = window(&[3], &[("strides", ints(&[2])), ("auto_pad", text("SAME_LOWER"))]).unwrap();
        let a = w.axes(&[6], false).unwrap()[0];
        assert_eq!((a.before, a.after, a.out), (1, 0, 3));
        let w = window(&[3], &[("dilations", ints(&[2])), ("auto_pad", text("VALID"))]).unwrap();
        assert_eq!(w.out_dims(&[Dim::Known(7)], false).unwrap(), [Dim::Known(3)]);
    }

    #[test]
    fn ceil_drops_a_window_that_starts_in_the_padding() {
        // The node test averagepool_2d_ceil_last_window_starts_on_pad: 2x2 input, kernel 3, stride 3, pads 1.
        let w = window(&[3], &[("strides", ints(&[3])), ("pads", ints(&[1, 1]))]).unwrap();
        assert_eq!(w.axes(&[2], true).unwrap()[0].out, 1);
        let w = window(&[3], &[("strides", ints(&[2]))]).unwrap();
        assert_eq!(w.axes(&[4], true).unwrap()[0].out, 2);
        assert_eq!(w.axes(&[4], true).unwrap()[0].used_after(), 1);
    }

    #[test]
    fn user_errors_name_the_values() {
        let e = |r: Result<Window, OpError>| r.unwrap_err().to_string();
        assert!(e(window(&[3, 3], &[("strides", ints(&[2]))])).contains("strides [2] has 1 values, 2 are needed"));
        assert!(e(window(&[3], &[("pads", ints(&[0, -1]))])).contains("-1 is outside 0"));
        assert!(e(window(&[0], &[])).contains("kernel [0]"));
        assert!(e(window(&[1], &[("dilations", ints(&[i64::MAX]))])).contains("dilations"));
        let w = window(&[7], &[]).unwrap();
        assert!(w.out_dims(&[Dim::Known(5)], false).unwrap_err().to_string().contains("over 7 elements does not fit"));
    }
}
