//! MaxUnpool: a scatter of values into zeros.

use super::window_of;
use crate::ir::{Dim, Shape, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::ops::spatial::Padding;
use crate::ops::{InferCx, OpError, conv, invalid, spatial};
use crate::qnn::graph::Param;

/// The shape that undoes the pooling with these attributes.
fn undone(attrs: &crate::ir::Attrs, x: &[Dim]) -> Result<Shape, OpError> {
    if x.len() < 3 {
        return invalid(format!("the input has shape {}; it must have rank 3 or more", show_shape(x)));
    }
    let w = window_of(attrs, x.len() - 2)?;
    let mut out = x[..2].to_vec();
    for (i, d) in x[2..].iter().enumerate() {
        let pads = match &w.padding {
            Padding::Explicit(p) => p[i][0] + p[i][1],
            _ => return invalid("MaxUnpool has no auto_pad"),
        };
        out.push(d.sub(&Dim::Known(1)).mul(&Dim::Known(w.strides[i])).add(&Dim::Known(w.kernel[i] - pads)));
    }
    Ok(out)
}

pub(in crate::ops) fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let undone = undone(&cx.node.attrs, &t.shape)?;
    let shape = if cx.has(2) {
        let given = cx.need_elements(2)?;
        if given.len() != t.shape.len() {
            return invalid(format!("output_shape has {} values for rank {}", given.len(), t.shape.len()));
        }
        for (g, u) in given.iter().zip(&undone) {
            if let (Dim::Known(g), Dim::Known(u)) = (g, u)
                && g < u
            {
                return invalid(format!("output_shape has {g} where the pooled input had {u}"));
            }
        }
        given
    } else {
        undone
    };
    cx.set(0, t.dtype, shape);
    Ok(())
}

pub(in crate::ops) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let shape = cx.shape(0)?;
    let dims: Vec<Dim> = shape.iter().map(|&d| d.into()).collect();
    let inner = undone(cx.attrs(), &dims).ok().and_then(|s| crate::ir::static_shape(&s));
    let inner = inner.ok_or_else(|| Refusal::form("the size before pooling is not known"))?;
    let count = shape.iter().product::<usize>() as u32;
    let total = inner.iter().product::<usize>();
    if total > 1 << 24 {
        return Err(Refusal::form(format!("MaxUnpool into {total} elements")));
    }
    let (x, index) = (cx.input(0)?, cx.input(1)?);
    let (x, index) = (cx.reshape(x, &[1, 1, count]), cx.reshape(index, &[1, 1, count]));
    let zeros = cx.float_constant(&[1, 1, total as u32], &vec![0.0; total]);
    let float = cx.float();
    let flat = cx.op_to(
        "ScatterElements",
        &[zeros, index, x],
        float,
        &[1, 1, total as u32],
        &[("axis", Param::u32(2)), ("reduction", Param::u32(0))],
    );
    let dims: Vec<u32> = inner.iter().map(|&d| d as u32).collect();
    let mut y = cx.reshape(flat, &dims);
    // Indices count in the size before pooling; a larger output is filled up at the end of each axis.
    let out = cx.out_shape(0)?;
    let amount: Vec<[u32; 2]> = out.iter().zip(&inner).map(|(o, i)| [0, o.saturating_sub(*i) as u32]).collect();
    if amount.iter().any(|a| a[1] > 0) {
        y = spatial::pad_constant(cx, y, &amount, 0.0);
    }
    super::super::compose::give(cx, 0, y)
}
