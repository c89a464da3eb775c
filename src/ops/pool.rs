//! Pooling: MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool.

use super::spatial::Window;
use super::{InferCx, OpDef, OpError, invalid};
use crate::ir::{Attrs, DataType, Dim, Shape, show_shape};
use crate::lower::{LowerCx, Refusal};

mod average;
mod global;
mod max;
#[cfg(test)]
mod tests;
mod unpool;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("MaxPool", infer_max).lower(max::lower),
    OpDef::new("AveragePool", infer_pool).lower(average::lower),
    OpDef::new("LpPool", infer_pool).lower(average::lower_lp),
    OpDef::new("GlobalMaxPool", infer_global).lower(global::lower_max),
    OpDef::new("GlobalAveragePool", infer_global).lower(global::lower_average),
    OpDef::new("GlobalLpPool", infer_global).lower(global::lower_lp),
    OpDef::new("MaxUnpool", unpool::infer).lower(unpool::lower),
];

fn window_of(attrs: &Attrs, spatial: usize) -> Result<Window, OpError> {
    let Some(kernel) = attrs.ints("kernel_shape") else {
        return invalid("attribute kernel_shape is required");
    };
    if kernel.len() != spatial {
        return invalid(format!(
            "attribute kernel_shape {kernel:?} has {} values for {spatial} spatial axes",
            kernel.len()
        ));
    }
    Window::read(attrs, kernel)
}

fn ceil(attrs: &Attrs) -> bool {
    attrs.int_or("ceil_mode", 0) != 0
}

pub(super) fn pooled(attrs: &Attrs, x: &[Dim]) -> Result<Shape, OpError> {
    if x.len() < 3 {
        return invalid(format!("the input has shape {}; it must have rank 3 or more", show_shape(x)));
    }
    let mut shape = x[..2].to_vec();
    shape.extend(window_of(attrs, x.len() - 2)?.out_dims(&x[2..], ceil(attrs))?);
    Ok(shape)
}

fn infer_pool(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    let shape = pooled(&cx.node.attrs, &t.shape)?;
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn infer_max(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    let shape = pooled(&cx.node.attrs, &t.shape)?;
    cx.set(0, t.dtype, shape.clone());
    cx.set(1, DataType::I64, shape);
    Ok(())
}

fn infer_global(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    if t.shape.len() < 2 {
        return invalid(format!("the input has shape {}; it must have rank 2 or more", show_shape(&t.shape)));
    }
    let mut shape = t.shape[..2].to_vec();
    shape.resize(t.shape.len(), Dim::Known(1));
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// The window of a node that inference accepted.
fn window(cx: &LowerCx<'_, '_>) -> Result<Window, Refusal> {
    let spatial = cx.rank(0)?.saturating_sub(2);
    window_of(cx.attrs(), spatial).map_err(|e| Refusal::form(e.to_string()))
}
