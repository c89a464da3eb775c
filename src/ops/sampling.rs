//! Sampling of an image at positions known at run time, as gathers of whole rows of channels.
//!
//! A position is kept as a whole number and a remainder: the whole number counts in 32-bit integers, so that it is exact
//! however large the image, and only the remainder lives in 16 bits.

use super::compose;
use crate::lower::LowerCx;
use crate::qnn::graph::{Param, QnnType, TensorId};

/// One spatial axis of `rows` samples: taps `first`, `first + 1`, ... with their weights.
pub(super) struct Taps {
    /// INT_32 `[rows]`.
    pub first: TensorId,
    /// Per tap, `[rows]`; `None` is 1.
    pub weights: Vec<Option<TensorId>>,
    pub size: u32,
}

/// One tap of one axis, ready to be combined: its part of the row number, and its weight.
#[derive(Clone, Copy)]
struct Tap {
    index: TensorId,
    weight: Option<TensorId>,
}

fn product(cx: &mut LowerCx<'_, '_>, a: Option<TensorId>, b: Option<TensorId>) -> Option<TensorId> {
    match (a, b) {
        (Some(a), Some(b)) => Some(compose::mul(cx, a, b)),
        (a, b) => a.or(b),
    }
}

/// Weighted sums of rows of `table` (`[N * space, C]`): `[rows, C]`. `base` is where each sample's image starts, if
/// there are several. Outside of the image there are zeros, or the elements at its edge.
pub(super) fn sample(
    cx: &mut LowerCx<'_, '_>,
    table: TensorId,
    base: Option<TensorId>,
    axes: &[Taps],
    zeros: bool,
) -> TensorId {
    let mut combined: Vec<Tap> = vec![];
    for (i, axis) in axes.iter().enumerate() {
        let step: u32 = axes[i + 1..].iter().map(|a| a.size).product();
        let taps: Vec<Tap> = (0..axis.weights.len()).map(|t| tap(cx, axis, t, step, zeros)).collect();
        combined = if combined.is_empty() {
            taps
        } else {
            let mut next = vec![];
            for a in &combined {
                for b in &taps {
                    let index = compose::add(cx, a.index, b.index);
                    next.push(Tap { index, weight: product(cx, a.weight, b.weight) });
                }
            }
            next
        };
    }
    let channels = cx.dims(table)[1];
    let dtype = cx.qnn_type(table);
    let mut sum: Option<TensorId> = None;
    for t in combined {
        let index = base.map_or(t.index, |b| compose::add(cx, t.index, b));
        let rows = cx.dims(index)[0];
        let mut value = cx.op_to("Gather", &[table, index], dtype, &[rows, channels], &[("axis", Param::i32(0))]);
        if let Some(w) = t.weight {
            let w = cx.reshape(w, &[rows, 1]);
            value = compose::mul(cx, value, w);
        }
        sum = Some(sum.map_or(value, |s| compose::add(cx, s, value)));
    }
    sum.unwrap_or(table)
}

fn tap(cx: &mut LowerCx<'_, '_>, axis: &Taps, t: usize, step: u32, zeros: bool) -> Tap {
    let mut at = axis.first;
    if t > 0 {
        let offset = cx.i32_constant(&[1], &[t as i32]);
        at = compose::add(cx, at, offset);
    }
    let low = cx.i32_constant(&[1], &[0]);
    let high = cx.i32_constant(&[1], &[axis.size as i32 - 1]);
    let inside = compose::binary(cx, "ElementWiseMaximum", at, low);
    let inside = compose::binary(cx, "ElementWiseMinimum", inside, high);
    let mut weight = axis.weights[t];
    if zeros {
        let valid = compose::compare(cx, "ElementWiseEqual", at, inside);
        let valid = cx.cast(valid, cx.float());
        weight = product(cx, weight, Some(valid));
    }
    let index = if step == 1 {
        inside
    } else {
        let step = cx.i32_constant(&[1], &[step as i32]);
        compose::mul(cx, inside, step)
    };
    Tap { index, weight }
}

/// The whole number below each position and what is left, in 0 to 1.
pub(super) fn split(cx: &mut LowerCx<'_, '_>, position: TensorId) -> (TensorId, TensorId) {
    let floor = compose::unary(cx, "ElementWiseFloor", position);
    let rest = compose::sub(cx, position, floor);
    (cx.cast(floor, QnnType::INT_32), rest)
}

/// The weights of linear interpolation for remainders `rest`.
pub(super) fn linear(cx: &mut LowerCx<'_, '_>, rest: TensorId) -> Vec<Option<TensorId>> {
    let one = cx.float_scalar(1.0);
    let dims = cx.dims(rest);
    let dtype = cx.qnn_type(rest);
    let below = cx.op_to("ElementWiseSubtract", &[one, rest], dtype, &dims, &[]);
    vec![Some(below), Some(rest)]
}

/// The weights of cubic convolution with constant `a`: taps one before to two after the whole number.
pub(super) fn cubic(cx: &mut LowerCx<'_, '_>, rest: TensorId, a: f32) -> Vec<Option<TensorId>> {
    // Polynomials in the remainder r, highest power first.
    let polynomials = [
        [a, -2.0 * a, a, 0.0],
        [a + 2.0, -(a + 3.0), 0.0, 1.0],
        [-(a + 2.0), 2.0 * a + 3.0, -a, 0.0],
        [-a, a, 0.0, 0.0],
    ];
    polynomials
        .iter()
        .map(|p| {
            let mut y = compose::scale(cx, rest, p[0]);
            for (i, c) in p[1..].iter().enumerate() {
                if *c != 0.0 {
                    let c = cx.float_scalar(*c);
                    y = compose::add(cx, y, c);
                }
                if i < 2 {
                    y = compose::mul(cx, y, rest);
                }
            }
            Some(y)
        })
        .collect()
}
