//! Rotary position embedding.

use crate::ir::Tensor;
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::{Param, TensorId};

/// Which inputs of a node hold what, and how pairs lie.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Rotary {
    pub(in crate::ops) cos: usize,
    pub(in crate::ops) sin: usize,
    /// Input with the positions; `None`: the tables have a row per position of the batch already.
    pub(in crate::ops) positions: Option<usize>,
    pub(in crate::ops) interleaved: bool,
}

/// The rows of a table for the node's positions: `[B or 1, S, columns]`.
pub(in crate::ops) fn table(cx: &mut LowerCx<'_, '_>, i: usize, positions: Option<usize>) -> Result<TensorId, Refusal> {
    let Some(p) = positions else { return cx.input(i) };
    if let (Some(t), Some(at)) = (cx.constant(i), cx.constant(p))
        && let Some(rows) = gathered(t, at)
    {
        let dims: Vec<u32> = rows.shape().iter().map(|&d| d as u32).collect();
        return Ok(cx.weight(&rows, None, &dims));
    }
    let (t, at) = (cx.input(i)?, cx.input(p)?);
    let (columns, mut dims) = (cx.dims(t)[1], cx.dims(at));
    dims.push(columns);
    let dtype = cx.qnn_type(t);
    Ok(cx.op_to("Gather", &[t, at], dtype, &dims, &[("axis", Param::i32(0))]))
}

fn gathered(t: &Tensor, at: &Tensor) -> Option<Tensor> {
    let values = t.to_f32s()?;
    let columns = *t.shape().get(1)?;
    let mut out = vec![];
    for row in at.to_i64s()? {
        let row = usize::try_from(row).ok()?;
        out.extend_from_slice(values.get(row * columns..(row + 1) * columns)?);
    }
    let mut shape = at.shape().to_vec();
    shape.push(columns);
    Some(Tensor::from_f32(shape, &out))
}

/// Turns the first `2 * columns` elements of the last axis of `x` (rank 4) by the angles whose cosines and sines are
/// in tables that broadcast to it; `columns` is the tables' last dimension.
pub(in crate::ops) fn rotate(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    cos: TensorId,
    sin: TensorId,
    interleaved: bool,
) -> TensorId {
    let dims = cx.dims(x);
    let size = dims[3];
    let half = cx.dims(cos).last().copied().unwrap_or(0);
    let turned = 2 * half;
    let parts = if turned == size { vec![x] } else { compose::split(cx, x, 3, &[turned, size - turned]) };
    let (a, b) = if interleaved {
        (every_other(cx, parts[0], 0), every_other(cx, parts[0], 1))
    } else {
        let halves = compose::split_evenly(cx, parts[0], 3, 2);
        (halves[0], halves[1])
    };
    let (ca, sb) = (compose::mul(cx, a, cos), compose::mul(cx, b, sin));
    let (sa, cb) = (compose::mul(cx, a, sin), compose::mul(cx, b, cos));
    let (real, imaginary) = (compose::sub(cx, ca, sb), compose::add(cx, sa, cb));
    let mut pieces = if interleaved {
        let rows: u32 = dims[..3].iter().product();
        let real = cx.reshape(real, &[rows, half, 1]);
        let imaginary = cx.reshape(imaginary, &[rows, half, 1]);
        let both = compose::concat(cx, &[real, imaginary], 2);
        vec![cx.reshape(both, &[dims[0], dims[1], dims[2], turned])]
    } else {
        vec![real, imaginary]
    };
    pieces.extend(parts.get(1));
    compose::concat(cx, &pieces, 3)
}

/// Elements `first`, `first + 2`, ... of the last axis of a tensor of rank 4.
fn every_other(cx: &mut LowerCx<'_, '_>, t: TensorId, first: i32) -> TensorId {
    let mut dims = cx.dims(t);
    let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
    ranges[3] = [first, dims[3] as i32, 2];
    dims[3] /= 2;
    let dtype = cx.qnn_type(t);
    cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))])
}

/// The embedding of input 0, of rank 4 (`[B, heads, S, size]`) or 3 (`[B, S, heads * size]`), as output 0.
pub(in crate::ops) fn lower(cx: &mut LowerCx<'_, '_>, r: Rotary, heads: u32) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let x = cx.input(0)?;
    let (mut cos, mut sin) = (table(cx, r.cos, r.positions)?, table(cx, r.sin, r.positions)?);
    let d = cx.dims(cos);
    let (rows, steps, columns) = (d[0], d[1], d[2]);
    let y = if shape.len() == 4 {
        cos = cx.reshape(cos, &[rows, 1, steps, columns]);
        sin = cx.reshape(sin, &[rows, 1, steps, columns]);
        rotate(cx, x, cos, sin, r.interleaved)
    } else {
        cos = cx.reshape(cos, &[rows, steps, 1, columns]);
        sin = cx.reshape(sin, &[rows, steps, 1, columns]);
        let (batch, steps, hidden) = (shape[0] as u32, shape[1] as u32, shape[2] as u32);
        let x = cx.reshape(x, &[batch, steps, heads, hidden / heads.max(1)]);
        rotate(cx, x, cos, sin, r.interleaved)
    };
    compose::give(cx, 0, y)
}
