//! Fourier transforms, as products with constant matrices; window functions and mel filter banks, which are constants.

use std::f64::consts::PI;

use super::movement::{dims_u32, dtype_attr, offsets};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{DataType, Dim, Node, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("HannWindow", infer_window).fold(|cx| window(cx, [0.5, 0.5, 0.0])).lower(refuse_window),
    OpDef::new("HammingWindow", infer_window)
        .fold(|cx| window(cx, [25.0 / 46.0, 21.0 / 46.0, 0.0]))
        .lower(refuse_window),
    OpDef::new("BlackmanWindow", infer_window).fold(|cx| window(cx, [0.42, 0.5, 0.08])).lower(refuse_window),
    OpDef::new("MelWeightMatrix", infer_mel).fold(fold_mel).lower(refuse_window),
    OpDef::new("DFT", infer_dft).fold(fold_dft).lower(lower_dft),
    OpDef::new("STFT", infer_stft).fold(fold_stft).lower(lower_stft),
];

/// More elements than this in a transform's matrix are refused.
const MATRIX_LIMIT: usize = 1 << 24;

fn refuse_window(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::form(format!("{} with operands that are not constants", cx.node.op_type))
        .fix("make its operands initializers: it is then computed at compile time"))
}

fn infer_window(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = dtype_attr(&cx.node.attrs, "output_datatype", DataType::F32)?;
    let size = match cx.need_elements(0)?.as_slice() {
        [n] => n.clone(),
        n => return invalid(format!("size has {} elements, and it is to be one number", n.len())),
    };
    if size.known().is_some_and(|n| n < 1) {
        return invalid(format!("size is {size}"));
    }
    cx.set(0, dtype, vec![size]);
    Ok(())
}

/// `a - b cos(2 pi i / n) + c cos(4 pi i / n)`
fn window(cx: &FoldCx<'_>, [a, b, c]: [f64; 3]) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let size = *shape.first()?;
    let n = if cx.node.attrs.int_or("periodic", 1) == 0 { size - 1 } else { size };
    if n == 0 {
        return None;
    }
    let at = |i: usize| 2.0 * PI * i as f64 / n as f64;
    let v: Vec<f64> = (0..size).map(|i| a - b * at(i).cos() + c * (2.0 * at(i)).cos()).collect();
    Some(vec![Tensor::from_f64(dtype, shape, &v)?])
}

fn infer_mel(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = dtype_attr(&cx.node.attrs, "output_datatype", DataType::F32)?;
    let one = |i: usize| match cx.need_ints(i)?.as_slice() {
        [n] if *n > 0 => Ok(*n),
        n => invalid(format!("input {i} is {n:?}, and it is to be one positive number")),
    };
    let (bins, length) = (one(0)?, one(1)?);
    cx.set(0, dtype, vec![Dim::Known(length / 2 + 1), Dim::Known(bins)]);
    Ok(())
}

/// Triangles over the bins of a spectrum, evenly spaced on the mel scale.
fn fold_mel(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let &[rows, cols] = shape.as_slice() else { return None };
    let number = |i: usize| cx.input(i)?.scalar_f64();
    let (length, rate, low, high) = (number(1)?, number(2)?, number(3)?, number(4)?);
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln();
    let step = (mel(high) - mel(low)) / (cols + 2) as f64;
    let bin = |i: usize| {
        let hertz = 700.0 * ((i as f64 * step + mel(low)) / 2595.0 * 10f64.ln()).exp_m1();
        ((length + 1.0) * hertz / rate).floor()
    };
    let mut out = vec![0.0; rows.checked_mul(cols)?];
    let mut put = |row: f64, col: usize, v: f64| -> Option<()> {
        *out.get_mut((row as usize).checked_mul(cols)? + col)? = v;
        Some(())
    };
    for i in 0..cols {
        let (left, centre, right) = (bin(i), bin(i + 1), bin(i + 2));
        if !(left >= 0.0 && right.is_finite() && right <= rows as f64) {
            return None;
        }
        if centre == left {
            put(centre, i, 1.0)?;
        } else {
            for j in left as usize..=centre as usize {
                put(j as f64, i, (j as f64 - left) / (centre - left))?;
            }
        }
        for j in centre as usize..right as usize {
            put(j as f64, i, (right - j as f64) / (right - centre))?;
        }
    }
    Some(vec![Tensor::from_f64(dtype, shape, &out)?])
}

/// A Fourier transform of lines of `have` numbers (`from` parts each: 1 real, 2 complex).
#[derive(Clone, Copy, Debug)]
struct Transform {
    have: usize,
    from: usize,
    length: usize,
    inverse: bool,
    onesided: bool,
}

impl Transform {
    /// Numbers out, and parts of each.
    fn out(self) -> (usize, usize) {
        match (self.inverse, self.onesided) {
            (true, true) => (self.length, 1),
            (_, false) => (self.length, 2),
            (false, true) => (self.length / 2 + 1, 2),
        }
    }

    /// Rows are the parts in, columns the parts out. `None` if it is too large. `weight` scales each number in.
    fn matrix(self, weight: Option<&[f64]>) -> Option<Vec<f64>> {
        let (count, to) = self.out();
        let (rows, cols) = (self.have.checked_mul(self.from)?, count.checked_mul(to)?);
        if rows.checked_mul(cols)? > MATRIX_LIMIT || self.length == 0 {
            return None;
        }
        let half = self.inverse && self.onesided;
        let mut out = vec![0.0; rows * cols];
        // What is beyond the transform's length is cut off, what is short of it counts as zero.
        let used = self.have.min(if half { self.length / 2 + 1 } else { self.length });
        for n in 0..used {
            for k in 0..count {
                let angle = 2.0 * PI * ((n * k) % self.length) as f64 / self.length as f64;
                let mut scale = if self.inverse { 1.0 / self.length as f64 } else { 1.0 };
                if half && n != 0 && 2 * n != self.length {
                    scale *= 2.0;
                }
                scale *= weight.map_or(1.0, |w| w.get(n).copied().unwrap_or(0.0));
                let (re, im) = (scale * angle.cos(), if self.inverse { 1.0 } else { -1.0 } * scale * angle.sin());
                // (a + bi)(re + im i)
                let parts = [[re, im], [-im, re]];
                for (a, part) in parts.iter().enumerate().take(self.from) {
                    for (b, v) in part.iter().enumerate().take(to) {
                        out[(n * self.from + a) * cols + k * to + b] = *v;
                    }
                }
            }
        }
        Some(out)
    }
}

/// The axis of a DFT over a tensor of rank `rank`: never the last, which holds the parts.
fn dft_axis(axis: i64, rank: usize) -> Result<usize, String> {
    match normalise_axis(axis, rank) {
        Ok(a) if a + 1 < rank => Ok(a),
        _ => Err(format!("axis {axis} of rank {rank} is no signal axis")),
    }
}

fn default_axis(node: &Node) -> i64 {
    if node.version < 20 { node.attrs.int_or("axis", 1) } else { -2 }
}

/// The transform of a DFT node; sizes that are expressions stay so: axis, length out, parts out.
fn infer_dft(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let rank = t.shape.len();
    let axis = if cx.node.version >= 20 && cx.has(2) {
        cx.need_ints(2)?.first().copied().unwrap_or(-2)
    } else {
        default_axis(cx.node)
    };
    let axis = dft_axis(axis, rank).map_err(OpError::Invalid)?;
    let (inverse, onesided) = (cx.node.attrs.int_or("inverse", 0) != 0, cx.node.attrs.int_or("onesided", 0) != 0);
    let parts = t.shape.last().and_then(Dim::known);
    if !matches!(parts, Some(1 | 2) | None) {
        return invalid(format!("the last dimension of {t} holds real and imaginary parts, and must be 1 or 2"));
    }
    if onesided && !inverse && parts == Some(2) {
        return invalid("onesided is 1, and the input is complex: only the spectrum of real numbers is symmetric");
    }
    let length = if cx.has(1) {
        cx.need_elements(1)?.first().cloned().unwrap_or(Dim::Known(0))
    } else if inverse && onesided {
        t.shape[axis].sub(&Dim::Known(1)).mul(&Dim::Known(2))
    } else {
        t.shape[axis].clone()
    };
    if length.known().is_some_and(|n| n < 1) {
        return invalid(format!("the length of the transform is {length}"));
    }
    let mut shape = t.shape;
    shape[axis] = if onesided && !inverse { half(&length) } else { length };
    shape[rank - 1] = Dim::Known(if onesided && inverse { 1 } else { 2 });
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// `floor(n / 2) + 1`
fn half(n: &Dim) -> Dim {
    n.floor_div(&Dim::Known(2)).unwrap_or(Dim::Known(0)).add(&Dim::Known(1))
}

/// Axis and transform of a DFT node; `ints` gives the elements of a constant input.
fn dft_form(
    node: &Node,
    shape: &[usize],
    ints: impl Fn(usize) -> Result<Vec<i64>, Refusal>,
) -> Result<(usize, Transform), Refusal> {
    let given = |i: usize| -> Result<Option<i64>, Refusal> {
        if node.input(i).is_some() { Ok(ints(i)?.first().copied()) } else { Ok(None) }
    };
    let axis = if node.version >= 20 { given(2)?.unwrap_or(-2) } else { default_axis(node) };
    let axis = dft_axis(axis, shape.len()).map_err(Refusal::form)?;
    let (inverse, onesided) = (node.attrs.int_or("inverse", 0) != 0, node.attrs.int_or("onesided", 0) != 0);
    let have = shape[axis];
    let default = if inverse && onesided { 2 * have.saturating_sub(1) } else { have } as i64;
    let length = given(1)?.unwrap_or(default);
    let length = usize::try_from(length).ok().filter(|n| *n > 0 && *n <= MATRIX_LIMIT);
    let length = length.ok_or_else(|| Refusal::form("the length of the transform"))?;
    Ok((axis, Transform { have, from: *shape.last().unwrap_or(&1), length, inverse, onesided }))
}

/// Lines times a matrix, in 64-bit floats.
fn product(lines: &[f64], inner: usize, matrix: &[f64], cols: usize) -> Option<Vec<f64>> {
    let rows = lines.len() / inner.max(1);
    if rows.checked_mul(inner)?.checked_mul(cols)? > 1 << 28 {
        return None;
    }
    let mut out = vec![0.0; rows * cols];
    for (line, out) in lines.chunks(inner).zip(out.chunks_mut(cols)) {
        for (x, row) in line.iter().zip(matrix.chunks(cols)) {
            for (o, m) in out.iter_mut().zip(row) {
                *o += x * m;
            }
        }
    }
    Some(out)
}

/// All axes but the last two places, then `axis`, then the parts.
fn axis_last(rank: usize, axis: usize) -> Vec<usize> {
    (0..rank - 1).filter(|&a| a != axis).chain([axis, rank - 1]).collect()
}

fn fold_dft(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (dtype, shape) = cx.out_type(0)?;
    let ints = |i: usize| cx.input(i).and_then(Tensor::to_i64s).ok_or_else(|| Refusal::form("not constant"));
    let (axis, t) = dft_form(cx.node, x.shape(), ints).ok()?;
    let order = axis_last(x.rank(), axis);
    let (count, to) = t.out();
    let lines = x.transposed(&order)?.to_f64s()?;
    let y = product(&lines, t.have * t.from, &t.matrix(None)?, count * to)?;
    let back: Vec<usize> = (0..order.len()).filter_map(|a| order.iter().position(|&o| o == a)).collect();
    let moved: Vec<usize> = order.iter().map(|&a| shape[a]).collect();
    Some(vec![Tensor::from_f64(dtype, moved, &y)?.transposed(&back)?])
}

/// One MatMul with the constant matrix of the transform.
fn lower_dft(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let (axis, t) = dft_form(cx.node, &shape, |i| cx.need_ints(i, if i == 1 { "dft_length" } else { "axis" }))?;
    let layout = Layout::from_order(axis_last(shape.len(), axis));
    let inner = t.have * t.from;
    let lines = shape.iter().product::<usize>() / inner;
    let x = cx.ordered(0, &layout)?;
    let x = cx.reshape(x, &dims_u32(&[lines, inner]));
    let y = transformed(cx, x, t, None)?;
    cx.alias(0, y, layout)
}

/// Lines of `t.have * t.from` numbers through the transform.
fn transformed(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    t: Transform,
    weight: Option<&[f64]>,
) -> Result<TensorId, Refusal> {
    let (count, to) = t.out();
    let matrix = t.matrix(weight).ok_or_else(|| {
        Refusal::form(format!("a transform of length {} needs a matrix of more than {MATRIX_LIMIT} elements", t.length))
    })?;
    let (rows, cols) = (t.have * t.from, count * to);
    let matrix: Vec<f32> = matrix.into_iter().map(|v| v as f32).collect();
    let m = cx.float_constant(&dims_u32(&[rows, cols]), &matrix);
    let lines = cx.dims(x)[0];
    let params = [("transpose_in0", Param::bool(false)), ("transpose_in1", Param::bool(false))];
    let float = cx.float();
    Ok(cx.op_to("MatMul", &[x, m], float, &[lines, cols as u32], &params))
}

/// Frames of an STFT: step, length, and the window's elements if they are constant.
struct Frames {
    step: usize,
    length: usize,
    count: usize,
}

impl Frames {
    fn new(signal: usize, step: i64, length: i64) -> Result<Self, String> {
        match (usize::try_from(step), usize::try_from(length)) {
            (Ok(step), Ok(length)) if step > 0 && length > 0 && length <= signal => {
                Ok(Self { step, length, count: (signal - length) / step + 1 })
            }
            _ => Err(format!("frames of {length} every {step} over a signal of {signal}")),
        }
    }

    fn positions(&self) -> Vec<usize> {
        offsets(&[(0..self.count).map(|f| f * self.step).collect(), (0..self.length).collect()])
    }
}

/// The frame length: given, or the window's, or the whole signal.
fn frame_length<E>(
    node: &Node,
    window: Option<i64>,
    signal: i64,
    ints: impl Fn(usize) -> Result<Vec<i64>, E>,
) -> Result<i64, E> {
    match (node.input(3).is_some(), window) {
        (true, _) => Ok(ints(3)?.first().copied().unwrap_or(0)),
        (false, Some(n)) => Ok(n),
        (false, None) => Ok(signal),
    }
}

fn infer_stft(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if t.shape.len() != 3 && t.shape.len() != 2 {
        return invalid(format!("the signal is {t}, and must be [batch, length, 1 or 2]"));
    }
    let Some(signal) = t.shape[1].known() else {
        return Err(OpError::DataDependent(format!("the signal's length in {} is not known", show_shape(&t.shape))));
    };
    let step = cx.need_ints(1)?.first().copied().unwrap_or(0);
    let window = if cx.has(2) { cx.shape(2)?.first().and_then(Dim::known) } else { None };
    let length = frame_length(cx.node, window, signal, |i| cx.need_ints(i))?;
    if let Some(w) = window.filter(|w| *w != length) {
        return invalid(format!("the window has {w} elements, and frame_length is {length}"));
    }
    let frames = Frames::new(usize::try_from(signal).unwrap_or(0), step, length).map_err(OpError::Invalid)?;
    let complex = t.shape.get(2).and_then(Dim::known) == Some(2);
    let onesided = cx.node.attrs.int_or("onesided", 1) != 0 && !complex;
    let bins = if onesided { frames.length / 2 + 1 } else { frames.length };
    cx.set(0, t.dtype, vec![t.shape[0].clone(), frames.count.into(), bins.into(), Dim::Known(2)]);
    Ok(())
}

/// Frames and transform of an STFT node over a signal of a static shape.
fn stft_form(
    node: &Node,
    shape: &[usize],
    window: Option<usize>,
    ints: impl Fn(usize) -> Result<Vec<i64>, Refusal>,
) -> Result<(Frames, Transform), Refusal> {
    let signal = shape.get(1).copied().unwrap_or(0);
    let step = ints(1)?.first().copied().unwrap_or(0);
    let length = frame_length(node, window.map(|w| w as i64), signal as i64, ints)?;
    let frames = Frames::new(signal, step, length).map_err(Refusal::form)?;
    let from = shape.get(2).copied().unwrap_or(1);
    let onesided = node.attrs.int_or("onesided", 1) != 0 && from == 1;
    let t = Transform { have: frames.length, from, length: frames.length, inverse: false, onesided };
    Ok((frames, t))
}

fn fold_stft(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (dtype, shape) = cx.out_type(0)?;
    let window = if cx.node.input(2).is_some() { Some(cx.input(2)?.to_f64s()?) } else { None };
    let ints = |i: usize| cx.input(i).and_then(Tensor::to_i64s).ok_or_else(|| Refusal::form("not constant"));
    let (frames, t) = stft_form(cx.node, x.shape(), window.as_ref().map(Vec::len), ints).ok()?;
    let all = x.to_f64s()?;
    let row = x.shape()[1] * t.from;
    let mut lines = vec![];
    for signal in all.chunks(row.max(1)) {
        for p in frames.positions() {
            lines.extend_from_slice(signal.get(p * t.from..(p + 1) * t.from)?);
        }
    }
    let (count, to) = t.out();
    let y = product(&lines, t.have * t.from, &t.matrix(window.as_deref())?, count * to)?;
    Some(vec![Tensor::from_f64(dtype, shape, &y)?])
}

/// Frames by a Gather with constant positions, then one MatMul with the window and the transform in its matrix.
fn lower_stft(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let window: Option<Vec<f64>> =
        if cx.has(2) { Some(cx.need_floats(2, "window")?.into_iter().map(f64::from).collect()) } else { None };
    let ints = |i: usize| cx.need_ints(i, if i == 1 { "frame_step" } else { "frame_length" });
    let (frames, t) = stft_form(cx.node, &shape, window.as_ref().map(Vec::len), ints)?;
    let (batch, signal) = (shape[0], shape[1]);
    let x = cx.ordered(0, &Layout::identity(shape.len()))?;
    let x = cx.reshape(x, &dims_u32(&[batch, signal, t.from]));
    let lines = dims_u32(&[batch * frames.count, frames.length * t.from]);
    let x = if frames.step == frames.length && frames.count * frames.length == signal {
        x
    } else {
        let positions: Vec<i32> = frames.positions().into_iter().map(|p| p as i32).collect();
        let n = positions.len();
        let index = cx.i32_constant(&[n as u32], &positions);
        let float = cx.float();
        cx.op_to("Gather", &[x, index], float, &dims_u32(&[batch, n, t.from]), &[("axis", Param::i32(1))])
    };
    let x = cx.reshape(x, &lines);
    let y = transformed(cx, x, t, window.as_deref())?;
    cx.alias(0, y, Layout::identity(4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node, op_types};

    fn scalar(v: i64) -> Tensor {
        Tensor::from_i64(vec![], &[v])
    }

    fn folded(n: &crate::ops::testing::OneNode) -> Vec<f64> {
        n.fold().unwrap()[0].to_f64s().unwrap()
    }

    #[test]
    fn windows() {
        let n = node("HannWindow", 17).constant(scalar(4));
        assert_close(&folded(&n), &[0.0, 0.5, 1.0, 0.5], 1e-7);
        let n = node("HammingWindow", 17).constant(scalar(3)).int("periodic", 0);
        assert_close(&folded(&n), &[0.08695652, 1.0, 0.08695652], 1e-7);
        let n = node("BlackmanWindow", 17).constant(scalar(4)).int("output_datatype", 11);
        assert_close(&folded(&n), &[0.0, 0.34, 1.0, 0.34], 1e-15);
    }

    #[test]
    fn mel_filters() {
        let f = |v: f32| Tensor::from_f32(vec![], &[v]);
        let n = node("MelWeightMatrix", 17).constant(scalar(4)).constant(scalar(16)).constant(scalar(8192));
        let n = n.constant(f(0.0)).constant(f(4096.0));
        assert_eq!(n.types(), ["float32[9, 4]"]);
        let mut want = vec![0.0; 36];
        for (at, v) in [(0, 1.0), (5, 1.0), (10, 1.0), (15, 1.0), (19, 0.5)] {
            want[at] = v;
        }
        assert_close(&folded(&n), &want, 1e-7);
    }

    #[test]
    fn a_dft_and_its_inverse() {
        let n = node("DFT", 20).floats(&[1, 4, 1], &[1.0, 2.0, 3.0, 4.0]);
        assert_close(&folded(&n), &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0], 1e-6);
        let n = n.int("onesided", 1);
        assert_eq!(n.types(), ["float32[1, 3, 2]"]);
        let n = node("DFT", 20).floats(&[1, 3, 2], &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
        let n = n.int("onesided", 1).int("inverse", 1);
        assert_eq!(n.types(), ["float32[1, 4, 1]"]);
        assert_close(&folded(&n), &[1.0, 2.0, 3.0, 4.0], 1e-6);
        let n = node("DFT", 17).floats(&[1, 4, 2], &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0]).int("inverse", 1);
        assert_close(&folded(&n), &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0], 1e-6);
    }

    #[test]
    fn a_dft_is_one_matmul() {
        let n = node("DFT", 20).float(&[1, 4, 1]).constant(scalar(2));
        let got = n.run(&[vec![1.0, 2.0, 3.0, 4.0]]);
        assert_close(&got[0], &[3.0, 0.0, -1.0, 0.0], 1e-6);
        let n = node("DFT", 17).float(&[2, 3, 1]).int("axis", 0);
        assert_eq!(op_types(&n.lower().unwrap()).iter().filter(|o| **o == "MatMul").count(), 1);
        let got = n.run(&[vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]);
        assert_close(&got[0], &[5.0, 0.0, 7.0, 0.0, 9.0, 0.0, -3.0, 0.0, -3.0, 0.0, -3.0, 0.0], 1e-6);
        assert!(node("DFT", 20).float(&[1, 4, 1]).omit().constant(scalar(-1)).error().contains("no signal axis"));
    }

    #[test]
    fn stft() {
        let n = node("STFT", 17).float(&[1, 6, 1]).constant(scalar(2)).floats(&[4], &[0.0, 0.5, 1.0, 0.5]);
        assert_eq!(n.types(), ["float32[1, 2, 3, 2]"]);
        let x = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        // numpy: rfft of [0, 1, 3, 2] and of [0, 2, 5, 3]
        let want = [6.0, 0.0, -3.0, 1.0, 0.0, 0.0, 10.0, 0.0, -5.0, 1.0, 0.0, 0.0];
        assert_close(&n.run(std::slice::from_ref(&x))[0], &want, 1e-6);
        let floats: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        let n = node("STFT", 17).floats(&[1, 6, 1], &floats).constant(scalar(2)).floats(&[4], &[0.0, 0.5, 1.0, 0.5]);
        assert_close(&folded(&n), &want, 1e-6);
    }
}
