//! Pooling over all spatial axes: reductions, in whatever layout the input has.

use super::average::{order, powered, root};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::ops::{compose, conv};
use crate::qnn::graph::TensorId;

/// Input 0, its layout, and the physical positions of the spatial axes.
fn input(cx: &mut LowerCx<'_, '_>) -> Result<(TensorId, Layout, Vec<usize>), Refusal> {
    conv::check_float(cx, 0)?;
    let rank = cx.rank(0)?;
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    let mut axes: Vec<usize> = (2..rank).map(|a| layout.physical(a)).collect();
    axes.sort_unstable();
    Ok((x, layout, axes))
}

fn reduce(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let (x, layout, axes) = input(cx)?;
    let y = compose::reduce_keep(cx, op, x, &axes);
    cx.alias(0, y, layout)
}

pub(super) fn lower_max(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    reduce(cx, "ReduceMax")
}

pub(super) fn lower_average(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    reduce(cx, "ReduceMean")
}

pub(super) fn lower_lp(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let p = order(cx)?;
    let (x, layout, axes) = input(cx)?;
    let powers = powered(cx, x, p);
    let sum = compose::reduce_keep(cx, "ReduceSum", powers, &axes);
    let y = root(cx, sum, p);
    cx.alias(0, y, layout)
}
