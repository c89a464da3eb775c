//! ConvTranspose over one to three spatial axes.
//!
//! Every form comes down to a stride, a kernel without dilation and a number of elements cut at the beginning and the
//! end; where the output reaches beyond the full result, it is padded with zeros (or the bias) afterwards, since
//! `output_padding` gives wrong numbers on the HTP (2.47) when it is not inside the full result.

use super::conv::{check_float, constant_weights, group_of, kernel_of, spread, weights_input};
use super::{InferCx, OpDef, OpError, compose, invalid, spatial};
use crate::ir::{Attrs, Dim, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("ConvTranspose", infer).lower(lower)];

/// Attributes beyond this are refused, so that no size computed from them overflows.
const LIMIT: i64 = 1 << 24;

/// The attributes of one node, checked.
struct Form {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<[i64; 2]>,
    output_padding: Vec<i64>,
    output_shape: Option<Vec<i64>>,
    auto_pad: Auto,
}

#[derive(Clone, Copy, PartialEq)]
enum Auto {
    NotSet,
    Valid,
    SameUpper,
    SameLower,
}

/// One spatial axis: the output is elements `cut .. cut + out` of the full result of `full` elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub before: i64,
    pub out: i64,
    pub full: i64,
}

impl Form {
    fn read(attrs: &Attrs, weights: &[Dim]) -> Result<Self, OpError> {
        let kernel = kernel_of(attrs, weights)?;
        let n = kernel.len();
        let list = |name: &str, count: usize, low: i64, default: i64| {
            let v = attrs.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec);
            if v.len() != count {
                return invalid(format!("attribute {name} {v:?} has {} values, {count} are needed", v.len()));
            }
            match v.iter().find(|x| !(low..=LIMIT).contains(*x)) {
                Some(x) => invalid(format!("attribute {name} {v:?}: {x} is outside {low} to {LIMIT}")),
                None => Ok(v),
            }
        };
        let pads = list("pads", 2 * n, 0, 0)?;
        // Some exporters give the whole output shape, batch and channels included.
        let output_shape = attrs.ints("output_shape").filter(|s| !s.is_empty()).map(|s| match s.len() {
            m if m == n + 2 => Ok(s[2..].to_vec()),
            m if m == n => Ok(s.to_vec()),
            m => invalid(format!("attribute output_shape {s:?} has {m} values for {n} spatial axes")),
        });
        let output_shape = output_shape.transpose()?;
        if let Some(bad) = output_shape.iter().flatten().find(|v| !(1..=LIMIT).contains(*v)) {
            return invalid(format!("attribute output_shape: {bad} is outside 1 to {LIMIT}"));
        }
        if let Some(k) = kernel.iter().find(|k| !(1..=LIMIT).contains(*k)) {
            return invalid(format!("kernel {kernel:?}: {k} is outside 1 to {LIMIT}"));
        }
        let auto_pad = match attrs.str_or("auto_pad", "NOTSET") {
            "NOTSET" | "" => Auto::NotSet,
            "VALID" => Auto::Valid,
            "SAME_UPPER" => Auto::SameUpper,
            "SAME_LOWER" => Auto::SameLower,
            other => {
                return invalid(format!("attribute auto_pad is {other:?}"));
            }
        };
        Ok(Self {
            strides: list("strides", n, 1, 1)?,
            dilations: list("dilations", n, 1, 1)?,
            pads: (0..n).map(|i| [pads[i], pads[i + n]]).collect(),
            output_padding: list("output_padding", n, 0, 0)?,
            output_shape,
            auto_pad,
            kernel,
        })
    }

    fn extent(&self, i: usize) -> i64 {
        (self.kernel[i] - 1).saturating_mul(self.dilations[i]).saturating_add(1)
    }

    /// Output size of axis `i`.
    fn out_dim(&self, i: usize, size: &Dim) -> Dim {
        if let Some(shape) = &self.output_shape {
            return Dim::Known(shape[i]);
        }
        let stride = Dim::Known(self.strides[i]);
        match self.auto_pad {
            Auto::SameUpper | Auto::SameLower => size.mul(&stride),
            auto => {
                let [before, after] = if auto == Auto::Valid { [0, 0] } else { self.pads[i] };
                let rest = self.extent(i) - self.strides[i] + self.output_padding[i] - before - after;
                size.mul(&stride).add(&Dim::Known(rest))
            }
        }
    }

    /// Which part of the full result axis `i` of the output is, for an input of `size`.
    fn cut(&self, i: usize, size: i64) -> Cut {
        let full = (size - 1).saturating_mul(self.strides[i]).saturating_add(self.extent(i));
        let out = self.out_dim(i, &Dim::Known(size)).known().unwrap_or(0);
        let total = (full + self.output_padding[i] - out).max(0);
        let before = match (&self.output_shape, self.auto_pad) {
            (None, Auto::NotSet) => self.pads[i][0],
            (None, Auto::Valid) => 0,
            (_, Auto::SameUpper) => total / 2,
            _ => total - total / 2,
        };
        Cut { before, out, full }
    }
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?, cx.ty(1)?);
    if x.shape.len() < 3 || w.shape.len() != x.shape.len() {
        return invalid(format!(
            "input {} and weights {} must have the same rank, 3 or more",
            show_shape(&x.shape),
            show_shape(&w.shape)
        ));
    }
    let attrs = &cx.node.attrs;
    let group = group_of(attrs)?;
    if let (Dim::Known(c), Dim::Known(d)) = (&x.shape[1], &w.shape[0])
        && c != d
    {
        return invalid(format!("{c} input channels, but weights for {d}"));
    }
    if let Dim::Known(c) = w.shape[0]
        && c % group != 0
    {
        return invalid(format!("{c} input channels do not divide into {group} groups"));
    }
    let form = Form::read(attrs, &w.shape)?;
    let mut shape = vec![x.shape[0].clone(), w.shape[1].mul(&Dim::Known(group))];
    for (i, d) in x.shape[2..].iter().enumerate() {
        let out = form.out_dim(i, d);
        if let Dim::Known(n) = out
            && n < 1
        {
            return invalid(format!("spatial axis {i} of the output would have {n} elements"));
        }
        shape.push(out);
    }
    if cx.has(2)
        && let (Some(Dim::Known(b)), Dim::Known(m)) = (cx.shape(2)?.first(), &shape[1])
        && b != m
    {
        return invalid(format!("the bias has {b} elements for {m} output channels"));
    }
    cx.set(0, x.dtype, shape);
    Ok(())
}

/// Weights `[C, M/g, k...]` of a grouped op as weights `[C, M, k...]` of one without groups: zeros between groups.
fn dense(t: &Tensor, group: usize) -> Option<Tensor> {
    let shape = t.shape();
    let (c, m) = (*shape.first()?, *shape.get(1)?);
    let block = shape[2..].iter().product::<usize>() * t.dtype().bits() / 8 * m;
    let total = block.checked_mul(c)?.checked_mul(group).filter(|&n| n <= 1 << 28)?;
    let bytes = t.bytes();
    let mut out = vec![0u8; total];
    for channel in 0..c {
        let at = (channel * group + channel / (c / group).max(1)) * block;
        out.get_mut(at..at + block)?.copy_from_slice(bytes.get(channel * block..(channel + 1) * block)?);
    }
    let mut to = shape.to_vec();
    to[1] = m * group;
    Tensor::from_raw(t.dtype(), to, out.into())
}

/// A transposed convolution ready to be emitted.
pub(super) struct Transposed {
    /// Channel last, with two or three spatial axes.
    pub x: TensorId,
    /// `[k..., C, M/group]`, with as many spatial axes.
    pub weights: TensorId,
    /// Per spatial axis of the model: a lone one gets an axis of size 1 before it.
    pub strides: Vec<u32>,
    pub cuts: Vec<Cut>,
    pub group: u32,
}

impl Transposed {
    /// Emits the QNN ops; the result is channel last.
    pub fn emit(self, cx: &mut LowerCx<'_, '_>, bias: Option<TensorId>) -> Result<TensorId, Refusal> {
        let Self { x, weights, mut strides, cuts, group } = self;
        let (xd, wd) = (cx.dims(x), cx.dims(weights));
        let (mut amount, mut beyond) = (vec![], vec![]);
        for (i, c) in cuts.iter().enumerate() {
            if c.before >= c.full {
                return Err(Refusal::form(format!("pads cut all {} elements of spatial axis {i}", c.full)));
            }
            let after = c.full - c.before - c.out;
            amount.push([c.before as u32, after.max(0) as u32]);
            beyond.push([0, (-after).max(0) as u32]);
        }
        if cuts.len() == 1 {
            strides.insert(0, 1);
            amount.insert(0, [0, 0]);
            beyond.insert(0, [0, 0]);
        }
        let n = strides.len();
        let mut dims = vec![xd[0]];
        for i in 0..n {
            dims.push((xd[1 + i] - 1) * strides[i] + wd[i] - amount[i][0] - amount[i][1]);
            // A stride that is never taken may be larger than what the backend holds.
            if xd[1 + i] == 1 {
                strides[i] = 1;
            }
        }
        if let [_, high, wide] = strides.as_mut_slice()
            && high != wide
        {
            if xd[2] == 1 {
                *high = *wide;
            } else if xd[3] == 1 {
                *wide = *high;
            }
        }
        dims.push(wd[n + 1] * group);
        let extends = beyond.iter().any(|b| b[1] > 0);
        let mut inputs = vec![x, weights];
        inputs.extend(bias.filter(|_| !extends));
        let dtype = cx.qnn_type(x);
        let y = cx.op_to(
            if n == 2 { "TransposeConv2d" } else { "TransposeConv3d" },
            &inputs,
            dtype,
            &dims,
            &[("stride", Param::u32s(&strides)), ("pad_amount", Param::pairs(&amount)), ("group", Param::u32(group))],
        );
        if !extends {
            return Ok(y);
        }
        beyond.insert(0, [0, 0]);
        beyond.push([0, 0]);
        let y = spatial::pad_constant(cx, y, &beyond, 0.0);
        Ok(match bias {
            Some(b) => compose::add(cx, y, b),
            None => y,
        })
    }
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    check_float(cx, 0)?;
    let (shape, kernel) = (cx.shape(0)?, cx.shape(1)?);
    spatial::check_spatial(shape.len())?;
    let as_refusal = |e: OpError| Refusal::form(e.to_string());
    let dims: Vec<Dim> = kernel.iter().map(|&d| d.into()).collect();
    let form = Form::read(cx.attrs(), &dims).map_err(as_refusal)?;
    let mut group = group_of(cx.attrs()).map_err(as_refusal)? as usize;
    let strides: Vec<u32> = form.strides.iter().map(|&s| s as u32).collect();
    let axes = spatial_order(&strides, &shape[2..])?;
    let order: Vec<usize> = axes.iter().map(|a| a + 2).chain([0, 1]).collect();
    let dilations: Vec<usize> = form.dilations.iter().map(|&d| d as usize).collect();
    let dilated = dilations.iter().any(|&d| d > 1);
    // Groups of TransposeConv3d give wrong numbers on the HTP (2.47).
    let to_dense = shape.len() == 5 && group > 1;
    let weights = if dilated || to_dense {
        let Some(t) = cx.constant(1) else {
            return Err(Refusal::form(format!("dilations {dilations:?}, group {group} and run-time weights"))
                .fix("make the weights an initializer"));
        };
        let t = if dilated { spread(t, &dilations) } else { Some(t.clone()) };
        let t = t.and_then(|t| if to_dense { dense(&t, group) } else { Some(t) });
        let t =
            t.ok_or_else(|| Refusal::form(format!("weights of {group} groups spread by {dilations:?} are too large")))?;
        if to_dense {
            group = 1;
        }
        constant_weights(cx, &t, &order)
    } else {
        weights_input(cx, 1, &order)?
    };
    let layout = Layout::from_order([0].into_iter().chain(axes.iter().map(|a| a + 2)).chain([1]).collect());
    let x = if axes.len() == 3 { cx.input_in(0, &layout)? } else { spatial::channel_last(cx, 0)? };
    let bias = if cx.has(2) { Some(cx.input(2)?) } else { None };

    let cuts: Vec<Cut> = axes.iter().map(|&i| form.cut(i, shape[2 + i] as i64)).collect();
    let strides = axes.iter().map(|&i| strides[i]).collect();
    let y = Transposed { x, weights, strides, cuts, group: group as u32 }.emit(cx, bias)?;
    if axes.len() == 3 { cx.alias(0, y, layout) } else { spatial::give_channel_last(cx, 0, y) }
}

/// The spatial axes in an order in which the last two of three have one stride: TransposeConv3d gives wrong numbers if
/// they have not (QAIRT 2.47). The stride of an axis of size 1 is never taken.
fn spatial_order(strides: &[u32], sizes: &[usize]) -> Result<Vec<usize>, Refusal> {
    let same = |a: usize, b: usize| strides[a] == strides[b] || sizes[a] == 1 || sizes[b] == 1;
    match strides.len() {
        3 if !same(1, 2) => {
            let found = [[1, 0, 2], [2, 0, 1]].into_iter().find(|o| same(o[1], o[2]));
            let why = || {
                let text =
                    format!("strides {strides:?}: with three different ones TransposeConv3d gives wrong numbers");
                Refusal::new(codes::VENDOR_FAULT, text)
            };
            found.map(Vec::from).ok_or_else(why)
        }
        n => Ok((0..n).collect()),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{node, param, ramp};
    use crate::qnn::graph::Param;

    fn with_output_shape(auto_pad: &str) -> Vec<f64> {
        let weights: Vec<f32> = ramp(9, 1.0, 1.0).iter().map(|&v| v as f32).collect();
        let n = node("ConvTranspose", 11)
            .float(&[1, 1, 3, 3])
            .floats(&[1, 1, 3, 3], &weights)
            .int_list("strides", &[2, 2])
            .int_list("output_shape", &[6, 6])
            .text("auto_pad", auto_pad);
        assert_eq!(n.types(), ["float32[1, 1, 6, 6]"]);
        n.run(&[ramp(9, 1.0, 1.0)])[0].clone()
    }

    #[test]
    fn pads_from_the_output_shape() {
        assert_eq!(with_output_shape("NOTSET")[..4], [5.0, 14.0, 10.0, 24.0]);
        assert_eq!(with_output_shape("SAME_UPPER")[..4], [1.0, 2.0, 5.0, 4.0]);
    }

    #[test]
    fn output_padding_within_the_full_result_cuts_less() {
        let n = node("ConvTranspose", 11)
            .float(&[1, 2, 3, 3])
            .floats(&[2, 4, 3, 3], &[0.5; 72])
            .int_list("strides", &[2, 2])
            .int_list("pads", &[1, 1, 1, 1])
            .int_list("output_padding", &[1, 1]);
        assert_eq!(n.types(), ["float32[1, 4, 6, 6]"]);
        let g = n.lower().unwrap();
        let at = g.ops.iter().position(|o| o.op_type == "TransposeConv2d").unwrap();
        assert_eq!(param(&g, at, "pad_amount"), Some(Param::pairs(&[[1, 0], [1, 0]])));
    }

    #[test]
    fn user_errors_and_refusals() {
        let n = |w: &[i64]| node("ConvTranspose", 11).float(&[1, 2, 3, 3]).float(w);
        assert!(n(&[3, 4, 2, 2]).error().contains("2 input channels, but weights for 3"));
        assert!(n(&[2, 4, 2, 2]).int_list("output_shape", &[6]).error().contains("output_shape [6] has 1 values"));
        assert!(n(&[2, 4, 2, 2]).int_list("pads", &[3, 3, 3, 3]).error().contains("would have -2 elements"));
        assert!(n(&[2, 4, 2, 2]).int_list("dilations", &[2, 2]).refusal().contains("run-time weights"));
    }
}
