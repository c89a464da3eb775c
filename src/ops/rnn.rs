//! LSTM, GRU and RNN: the recurrence unrolled into one matrix product over all steps, and one small cell per step.

use super::{InferCx, OpDef, OpError, compose, invalid};
use crate::ir::{DataType, Dim, Shape, Tensor, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{QnnType, TensorId};

mod activation;
mod gru;
mod lstm;
mod simple;

use activation::Activation;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("LSTM", |cx| infer(cx, 4, 3)).lower(|cx| lower(cx, &lstm::KIND)),
    OpDef::new("GRU", |cx| infer(cx, 3, 2)).lower(|cx| lower(cx, &gru::KIND)),
    OpDef::new("RNN", |cx| infer(cx, 1, 2)).lower(|cx| lower(cx, &simple::KIND)),
];

/// Cells (steps times directions) up to which a recurrence is unrolled.
const MAX_CELLS: usize = 512;

/// Number of directions, or the message that says that the attribute is wrong.
fn directions(direction: &str) -> Result<usize, String> {
    match direction {
        "forward" | "reverse" => Ok(1),
        "bidirectional" => Ok(2),
        other => Err(format!("attribute direction is {other:?}; it must be forward, reverse or bidirectional")),
    }
}

fn expect(shape: &[Dim], axis: usize, want: &Dim, what: &str) -> Result<(), OpError> {
    match (shape.get(axis), want) {
        (Some(Dim::Known(a)), Dim::Known(b)) if a != b => {
            invalid(format!("{what} is {}: dimension {axis} must be {b}", show_shape(shape)))
        }
        (Some(_), _) => Ok(()),
        (None, _) => invalid(format!("{what} is {}: its rank is too low", show_shape(shape))),
    }
}

fn infer(cx: &mut InferCx<'_>, gates: i64, outputs: usize) -> Result<(), OpError> {
    let attrs = &cx.node.attrs;
    let d = directions(attrs.str_or("direction", "forward")).map_err(OpError::Invalid)?;
    let layout = attrs.int_or("layout", 0);
    if !(0..=1).contains(&layout) {
        return invalid(format!("attribute layout is {layout}; it must be 0 or 1"));
    }
    let x = cx.ty(0)?.clone();
    if x.shape.len() != 3 {
        return invalid(format!("input 0 (X) must have rank 3, it is {x}"));
    }
    let (t, n) = if layout == 0 { (0, 1) } else { (1, 0) };
    let (steps, batch, d) = (x.shape[t].clone(), x.shape[n].clone(), Dim::from(d));
    let (w, r) = (cx.shape(1)?, cx.shape(2)?);
    let hidden = match attrs.int("hidden_size") {
        Some(h) if h < 1 => return invalid(format!("attribute hidden_size is {h}; it must be at least 1")),
        Some(h) => Dim::Known(h),
        None => r.last().cloned().ok_or_else(|| OpError::Invalid("input 2 (R) must have rank 3".into()))?,
    };
    let rows = hidden.mul(&Dim::Known(gates));
    for (axis, want) in [&d, &rows, &x.shape[2]].into_iter().enumerate() {
        expect(w, axis, want, "input 1 (W)")?;
    }
    for (axis, want) in [&d, &rows, &hidden].into_iter().enumerate() {
        expect(r, axis, want, "input 2 (R)")?;
    }
    if cx.has(3) {
        expect(cx.shape(3)?, 0, &d, "input 3 (B)")?;
        expect(cx.shape(3)?, 1, &rows.mul(&Dim::Known(2)), "input 3 (B)")?;
    }
    let state: Shape = if layout == 0 {
        vec![d.clone(), batch.clone(), hidden.clone()]
    } else {
        vec![batch.clone(), d.clone(), hidden.clone()]
    };
    for (i, what) in [(5, "input 5 (initial_h)"), (6, "input 6 (initial_c)")] {
        if cx.has(i) {
            for (axis, want) in state.iter().enumerate() {
                expect(cx.shape(i)?, axis, want, what)?;
            }
        }
    }
    let all = if layout == 0 { vec![steps, d, batch, hidden] } else { vec![batch, steps, d, hidden] };
    cx.set(0, x.dtype, all);
    for i in 1..outputs {
        cx.set(i, x.dtype, state.clone());
    }
    Ok(())
}

/// What is particular to one of the three ops.
struct Kind {
    gates: usize,
    /// Activations per direction, with their defaults.
    activations: &'static [&'static str],
    /// Must the recurrent bias of the last gate stay apart?
    bias_apart: fn(&LowerCx<'_, '_>) -> bool,
    run: fn(&mut LowerCx<'_, '_>, &Direction) -> Result<States, Refusal>,
}

/// What one direction gives: the states of all steps, in the order in which they were computed, and the last cell
/// state.
type States = (Vec<TensorId>, Option<TensorId>);

/// One direction of a recurrence, ready to be unrolled.
struct Direction {
    /// The index along the directions axis.
    index: usize,
    hidden: usize,
    steps: usize,
    batch: usize,
    reverse: bool,
    /// `X W^T` and the biases that can be added beforehand: `[T * N, gates * H]`.
    z: TensorId,
    /// The recurrent bias `[H]` of the last gate, if the op wants it apart.
    apart: Option<TensorId>,
    /// Initial state `[N, H]`; absent: zeros.
    h: Option<TensorId>,
    activations: Vec<Activation>,
    clip: Option<f32>,
    /// Per step in the order of computation, `[N, 1]`: does it lie within the sequence? Absent: all do.
    within: Option<Vec<TensorId>>,
}

impl Direction {
    /// The state after step `t`: the new one, or the old one behind the end of the sequence.
    fn state(&self, cx: &mut LowerCx<'_, '_>, t: usize, new: TensorId, old: Option<TensorId>) -> TensorId {
        let Some(within) = self.within.as_ref().and_then(|w| w.get(t)).copied() else { return new };
        match old {
            Some(old) => compose::select(cx, within, new, old),
            None => keep_or_zero(cx, within, new),
        }
    }

    /// The rows `[N, columns]` of each step, in the order of computation, of a tensor `[T * N, columns]`.
    fn per_step(&self, cx: &mut LowerCx<'_, '_>, t: TensorId) -> Vec<TensorId> {
        let mut pieces = compose::split_evenly(cx, t, 0, self.steps);
        if self.reverse {
            pieces.reverse();
        }
        pieces
    }

    /// Rows `from..to` of the recurrent weights: `[to - from, H]`.
    fn recurrent(&self, cx: &mut LowerCx<'_, '_>, from: usize, to: usize) -> Result<Matrix, Refusal> {
        rows(cx, 2, self.index, from, to)
    }
}

/// `t` where the condition (`[N, 1]`) holds, else 0.
fn keep_or_zero(cx: &mut LowerCx<'_, '_>, condition: TensorId, t: TensorId) -> TensorId {
    let dims = cx.dims(t);
    let zero = cx.float_constant(&dims, &vec![0.0; dims.iter().product::<u32>() as usize]);
    compose::select(cx, condition, t, zero)
}

/// A matrix of weights `[out, in]`.
#[derive(Clone, Copy)]
struct Matrix {
    tensor: TensorId,
    is_static: bool,
}

impl Matrix {
    /// `x W^T + bias`
    fn apply(self, cx: &mut LowerCx<'_, '_>, x: TensorId, bias: Option<TensorId>) -> TensorId {
        if self.is_static {
            return compose::fully_connected(cx, x, self.tensor, bias);
        }
        let y = compose::matmul(cx, x, self.tensor, true);
        match bias {
            Some(b) => compose::add(cx, y, b),
            None => y,
        }
    }
}

/// Rows `from..to` of slice `index` along the leading axis of constant `t`, as a tensor of shape `[to - from, rest]`.
fn constant_rows(t: &Tensor, index: usize, from: usize, to: usize) -> Option<Tensor> {
    let [_, rows, rest @ ..] = t.shape() else { return None };
    let width: usize = rest.iter().product();
    let at = |row: usize| t.dtype().bytes_for((index * rows + row) * width);
    let bytes = t.bytes();
    if t.dtype().bits() < 8 || to > *rows || at(to) > bytes.len() {
        return None;
    }
    let mut shape = vec![to - from];
    shape.extend(rest);
    Tensor::from_raw(t.dtype(), shape, bytes.slice(at(from)..at(to)))
}

/// Rows `from..to` of direction `index` of weight input `i` (`[D, rows, columns]` or `[D, rows]`).
fn rows(cx: &mut LowerCx<'_, '_>, i: usize, index: usize, from: usize, to: usize) -> Result<Matrix, Refusal> {
    if let Some(t) = cx.constant(i) {
        let part = constant_rows(t, index, from, to)
            .ok_or_else(|| Refusal::form(format!("weight {:?} has an unexpected form", cx.input_name(i))))?;
        let dims: Vec<u32> = part.shape().iter().map(|&d| d as u32).collect();
        return Ok(Matrix { tensor: cx.weight(&part, None, &dims), is_static: true });
    }
    let t = cx.input(i)?;
    let t = compose::slice(cx, t, 0, index as u32, index as u32 + 1);
    let dims = cx.dims(t)[1..].to_vec();
    let t = cx.reshape(t, &dims);
    Ok(Matrix { tensor: compose::slice(cx, t, 0, from as u32, to as u32), is_static: false })
}

/// The sum of both biases `[rows]`, and the recurrent bias of the last `apart` rows, which the sum does not hold.
fn biases(cx: &mut LowerCx<'_, '_>, index: usize, rows: usize, apart: usize) -> Result<[Option<TensorId>; 2], Refusal> {
    if !cx.has(3) {
        return Ok([None, None]);
    }
    let shared = rows - apart;
    let alone = match apart {
        0 => None,
        _ => Some(self::rows(cx, 3, index, rows + shared, 2 * rows)?.tensor),
    };
    if let Some(t) = cx.constant(3)
        && let (Some(w), Some(r)) = (constant_rows(t, index, 0, rows), constant_rows(t, index, rows, 2 * rows))
        && let (Some(mut sum), Some(r)) = (w.to_f32s(), r.to_f32s())
    {
        for (a, b) in sum.iter_mut().zip(&r).take(shared) {
            *a += b;
        }
        return Ok([Some(cx.float_constant(&[rows as u32], &sum)), alone]);
    }
    let w = self::rows(cx, 3, index, 0, shared)?.tensor;
    let r = self::rows(cx, 3, index, rows, rows + shared)?.tensor;
    let mut sum = compose::add(cx, w, r);
    if apart > 0 {
        let rest = self::rows(cx, 3, index, shared, rows)?.tensor;
        sum = compose::concat(cx, &[sum, rest], 0);
    }
    Ok([Some(sum), alone])
}

/// Slice `index` of an initial state as `[N, H]`; absent or zero: `None`.
fn initial(cx: &mut LowerCx<'_, '_>, i: usize, index: usize, layout: i64) -> Result<Option<TensorId>, Refusal> {
    if !cx.has(i) || cx.constant(i).is_some_and(|t| t.uniform_f64() == Some(0.0)) {
        return Ok(None);
    }
    let t = cx.input(i)?;
    let axis = usize::from(layout == 1);
    let t = compose::slice(cx, t, axis, index as u32, index as u32 + 1);
    let mut dims = cx.dims(t);
    dims.remove(axis);
    Ok(Some(cx.reshape(t, &dims)))
}

/// Per step: does it lie within the sequence? `[N, 1]` each; `None` if all sequences have full length.
fn within_lengths(cx: &mut LowerCx<'_, '_>, steps: usize, batch: usize) -> Result<Option<Vec<TensorId>>, Refusal> {
    if !cx.has(4) {
        return Ok(None);
    }
    if let Some(lengths) = cx.constant(4).and_then(Tensor::to_i64s)
        && lengths.iter().all(|&l| l >= steps as i64)
    {
        return Ok(None);
    }
    let lengths = cx.input(4)?;
    let lengths = cx.cast(lengths, QnnType::INT_32);
    let lengths = cx.reshape(lengths, &[batch as u32, 1]);
    let mut within = vec![];
    for step in 0..steps {
        let step = cx.i32_constant(&[1], &[step as i32]);
        within.push(compose::compare(cx, "ElementWiseGreater", lengths, step));
    }
    Ok(Some(within))
}

fn lower(cx: &mut LowerCx<'_, '_>, kind: &Kind) -> Result<(), Refusal> {
    if !matches!(cx.dtype(0)?, DataType::F32 | DataType::F16 | DataType::F64 | DataType::BF16) {
        return Err(Refusal::form(format!("{} of {}", cx.node.op_type, cx.dtype(0)?)));
    }
    let layout = cx.attrs().int_or("layout", 0);
    let direction = cx.attrs().str_or("direction", "forward");
    let count = directions(direction).map_err(Refusal::form)?;
    let shape = cx.shape(0)?;
    let (steps, batch) = if layout == 0 { (shape[0], shape[1]) } else { (shape[1], shape[0]) };
    let hidden = cx.shape(2)?[2];
    if steps * count > MAX_CELLS {
        return Err(Refusal::form(format!(
            "the recurrence would be unrolled into {} cells ({steps} steps, {count} direction(s)); the limit is {MAX_CELLS}",
            steps * count
        ))
        .fix("run the model on shorter pieces of the sequence, and feed the state back"));
    }
    let within = within_lengths(cx, steps, batch)?;
    let activations = activation::of_node(cx.attrs(), kind.activations, count)?;
    let clip = cx.attrs().float("clip").filter(|c| *c > 0.0);
    let x = {
        let x = cx.input(0)?;
        if layout == 1 { cx.transpose(x, &[1, 0, 2]) } else { x }
    };
    let rows_count = kind.gates * hidden;
    let apart = if (kind.bias_apart)(cx) { hidden } else { 0 };
    let flat = cx.reshape(x, &[(steps * batch) as u32, shape[2] as u32]);
    let mut states = vec![];
    let mut last = vec![];
    let mut cells = vec![];
    for (index, activations) in activations.into_iter().enumerate() {
        let reverse = direction == "reverse" || index == 1;
        let w = rows(cx, 1, index, 0, rows_count)?;
        let [bias, apart] = biases(cx, index, rows_count, apart)?;
        let z = w.apply(cx, flat, bias);
        let h = initial(cx, 5, index, layout)?;
        let within = within.as_ref().map(|w| {
            let mut w = w.clone();
            if reverse {
                w.reverse();
            }
            w
        });
        let direction = Direction { index, hidden, steps, batch, reverse, z, apart, h, activations, clip, within };
        let (mut h, c) = (kind.run)(cx, &direction)?;
        last.push(h[h.len() - 1]);
        if let Some(within) = &direction.within {
            h = h.into_iter().zip(within).map(|(h, w)| keep_or_zero(cx, *w, h)).collect();
        }
        cells.extend(c);
        if reverse {
            h.reverse();
        }
        states.push(h);
    }
    let (n, h) = (batch as u32, hidden as u32);
    if cx.wants(0) {
        let mut directions = vec![];
        for pieces in states {
            directions.push(sequence(cx, &pieces, layout));
        }
        // Layout 0: [T, D, N, H]; layout 1: [N, T, D, H].
        let y = compose::concat(cx, &directions, if layout == 0 { 1 } else { 2 });
        compose::give(cx, 0, y)?;
    }
    for (slot, tensors) in [(1, last), (2, cells)] {
        if cx.wants(slot) {
            let (one, axis) = if layout == 0 { ([1, n, h], 0) } else { ([n, 1, h], 1) };
            let pieces: Vec<TensorId> = tensors.into_iter().map(|t| cx.reshape(t, &one)).collect();
            let y = compose::concat(cx, &pieces, axis);
            compose::give(cx, slot, y)?;
        }
    }
    Ok(())
}

/// The states `[N, H]` of all steps as `[T, 1, N, H]`, or `[N, T, 1, H]` in layout 1.
fn sequence(cx: &mut LowerCx<'_, '_>, pieces: &[TensorId], layout: i64) -> TensorId {
    let (t, dims) = (pieces.len() as u32, cx.dims(pieces[0]));
    let (n, h) = (dims[0], dims[1]);
    if layout == 0 || n == 1 {
        let y = compose::concat(cx, pieces, 0);
        let dims = if layout == 0 { [t, 1, n, h] } else { [1, t, 1, h] };
        return cx.reshape(y, &dims);
    }
    let pieces: Vec<TensorId> = pieces.iter().map(|&p| cx.reshape(p, &[n, 1, 1, h])).collect();
    compose::concat(cx, &pieces, 1)
}

/// `z` plus the recurrent product of the state; just `z` while the state is zero. A lone row of `z` is the product's
/// bias: an Add apart takes the HTP two to three times as long to prepare.
fn recur(cx: &mut LowerCx<'_, '_>, z: TensorId, h: Option<TensorId>, recurrent: Matrix) -> TensorId {
    let Some(h) = h else { return z };
    let &[batch, width] = cx.dims(z).as_slice() else { return z };
    if batch == 1 && recurrent.is_static {
        let bias = cx.reshape(z, &[width]);
        return recurrent.apply(cx, h, Some(bias));
    }
    let r = recurrent.apply(cx, h, None);
    compose::add(cx, z, r)
}

/// The input of an activation, clipped.
fn clipped(cx: &mut LowerCx<'_, '_>, t: TensorId, clip: Option<f32>) -> TensorId {
    match clip {
        Some(c) => compose::clamp(cx, t, -c, c),
        None => t,
    }
}

#[cfg(test)]
mod tests;
