//! DepthToSpace and SpaceToDepth.

use super::{FoldCx, InferCx, OpDef, OpError, conv, invalid, spatial};
use crate::ir::{Dim, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::Param;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("DepthToSpace", infer_depth_to_space).fold(|cx| fold(cx, true)).lower(|cx| lower(cx, "DepthToSpace")),
    OpDef::new("SpaceToDepth", infer_space_to_depth).fold(|cx| fold(cx, false)).lower(|cx| lower(cx, "SpaceToDepth")),
];

/// Attributes blocksize and mode; `true` for CRD, where the channel varies slower than the position in the block.
fn block_and_mode(attrs: &crate::ir::Attrs) -> Result<(i64, bool), OpError> {
    let block = match attrs.int("blocksize") {
        Some(b) if (1..=1 << 16).contains(&b) => b,
        Some(b) => return invalid(format!("attribute blocksize is {b}; it must be 1 or more")),
        None => return invalid("attribute blocksize is required"),
    };
    match attrs.str_or("mode", "DCR") {
        "DCR" => Ok((block, false)),
        "CRD" => Ok((block, true)),
        other => invalid(format!("attribute mode is {other:?}; it is DCR or CRD")),
    }
}

fn quotient(what: &str, d: &Dim, by: i64) -> Result<Dim, OpError> {
    match d {
        Dim::Known(n) if n % by != 0 => invalid(format!("{what} {n} does not divide by {by}")),
        d => Ok(d.floor_div(&Dim::Known(by)).unwrap_or_else(|| d.clone())),
    }
}

fn infer_depth_to_space(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    let (b, _) = block_and_mode(&cx.node.attrs)?;
    let [n, c, h, w] = t.shape.as_slice() else {
        return invalid(format!("the input has shape {}; it must have rank 4", show_shape(&t.shape)));
    };
    let block = Dim::Known(b);
    let shape = vec![n.clone(), quotient("the number of channels", c, b * b)?, h.mul(&block), w.mul(&block)];
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn infer_space_to_depth(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    let (b, _) = block_and_mode(&cx.node.attrs)?;
    let [n, c, h, w] = t.shape.as_slice() else {
        return invalid(format!("the input has shape {}; it must have rank 4", show_shape(&t.shape)));
    };
    let shape = vec![n.clone(), c.mul(&Dim::Known(b * b)), quotient("the height", h, b)?, quotient("the width", w, b)?];
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn fold(cx: &FoldCx<'_>, depth_to_space: bool) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (b, crd) = block_and_mode(&cx.node.attrs).ok()?;
    let b = b as usize;
    let (_, out) = cx.out_type(0)?;
    let &[n, c, h, w] = x.shape() else { return None };
    let (split, perm): (Vec<usize>, [usize; 6]) = match (depth_to_space, crd) {
        (true, false) => (vec![n, b, b, c / (b * b), h, w], [0, 3, 4, 1, 5, 2]),
        (true, true) => (vec![n, c / (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3]),
        (false, false) => (vec![n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4]),
        (false, true) => (vec![n, c, h / b, b, w / b, b], [0, 1, 3, 5, 2, 4]),
    };
    Some(vec![x.reshaped(split)?.transposed(&perm)?.reshaped(out)?])
}

fn lower(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let (block, crd) = block_and_mode(cx.attrs()).map_err(|e| Refusal::form(e.to_string()))?;
    let x = spatial::channel_last(cx, 0)?;
    let y = cx.output(0, &Layout::channel_last(4))?;
    let block = block as u32;
    cx.op(op, &[x], &[y], &[("block_size", Param::u32s(&[block, block])), ("mode", Param::u32(u32::from(crd)))]);
    Ok(())
}
