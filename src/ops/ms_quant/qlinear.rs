//! Inference of the ops whose operands come with a scale and a zero point each.

use super::{DataType, Dim, InferCx, OpError, Shape, broadcast, invalid, normalise_axis, show_shape};

pub(super) fn infer_unary(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// A, its scale and zero point, B, its scale and zero point.
pub(super) fn infer_binary(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = broadcast(cx.shape(0)?, cx.shape(3)?)?;
    let dtype = cx.dtype(0)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The condition, then X and Y as in [`infer_binary`].
pub(super) fn infer_where(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = broadcast(&broadcast(cx.shape(0)?, cx.shape(1)?)?, cx.shape(4)?)?;
    let dtype = cx.dtype(1)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// The shape with the channel second, whatever attribute `channels_last` says; and whether it moved.
fn channel_second(cx: &InferCx<'_>) -> Result<(Shape, bool), OpError> {
    let mut shape = cx.shape(0)?.clone();
    let last = cx.node.attrs.int_or("channels_last", 0) != 0 && shape.len() > 2;
    if last && let Some(c) = shape.pop() {
        shape.insert(1, c);
    }
    Ok((shape, last))
}

fn channel_back(mut shape: Shape, last: bool) -> Shape {
    if last {
        let c = shape.remove(1);
        shape.push(c);
    }
    shape
}

pub(super) fn infer_pool(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, last) = channel_second(cx)?;
    let shape = super::super::pool::pooled(&cx.node.attrs, &x)?;
    let dtype = cx.dtype(0)?;
    cx.set(0, dtype, channel_back(shape, last));
    Ok(())
}

pub(super) fn infer_global_pool(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, last) = channel_second(cx)?;
    if x.len() < 3 {
        return invalid(format!("the input has shape {}; it must have rank 3 or more", show_shape(&x)));
    }
    let mut shape = x[..2].to_vec();
    shape.resize(x.len(), Dim::Known(1));
    let dtype = cx.dtype(0)?;
    cx.set(0, dtype, channel_back(shape, last));
    Ok(())
}

pub(super) fn infer_conv(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, last) = channel_second(cx)?;
    let w = cx.shape(3)?.clone();
    let shape = super::super::conv::conv_shape(&cx.node.attrs, &x, &w)?;
    let dtype = cx.dtype(7)?;
    cx.set(0, dtype, channel_back(shape, last));
    Ok(())
}

pub(super) fn infer_reduce(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let rank = t.shape.len();
    let axes: Vec<usize> = match cx.node.attrs.ints("axes") {
        Some(v) => v
            .iter()
            .map(|&a| normalise_axis(a, rank).map_err(|e| OpError::Invalid(format!("attribute axes: {e}"))))
            .collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let keep = cx.node.attrs.int_or("keepdims", 1) != 0;
    let reduced = |i: &usize| axes.contains(i);
    let shape = (0..rank)
        .filter(|i| keep || !reduced(i))
        .map(|i| if reduced(&i) { Dim::Known(1) } else { t.shape[i].clone() })
        .collect();
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// The result's scale and zero point, then every piece with its own.
pub(super) fn infer_concat(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let first = cx.ty(2)?.clone();
    let axis = cx.axis("axis", 0, first.shape.len())?;
    let mut shape = first.shape;
    for i in (5..cx.node.inputs.len()).step_by(3) {
        let piece = cx.shape(i)?;
        if piece.len() != shape.len() {
            return invalid(format!("pieces {} and {} have different ranks", show_shape(&shape), show_shape(piece)));
        }
        shape[axis] = shape[axis].add(&piece[axis]);
    }
    cx.set(0, first.dtype, shape);
    Ok(())
}

pub(super) fn infer_gemm(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (a, b) = (cx.shape(0)?, cx.shape(3)?);
    let ([ar, ac], [br, bc]) = (a.as_slice(), b.as_slice()) else {
        return invalid(format!("A {} and B {} must have rank 2", show_shape(a), show_shape(b)));
    };
    let turned = |name: &str| cx.node.attrs.int_or(name, 0) != 0;
    let m = if turned("transA") { ac } else { ar }.clone();
    let n = if turned("transB") { br } else { bc }.clone();
    let dtype = if cx.has(8) { cx.dtype(8)? } else { DataType::F32 };
    cx.set(0, dtype, vec![m, n]);
    Ok(())
}

/// The projections are quantised; what comes out is real.
pub(super) fn infer_attention(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.shape(0)?.clone(), cx.shape(1)?.clone());
    let ([b, s, _], [_, columns]) = (x.as_slice(), w.as_slice()) else {
        return invalid(format!(
            "the input {} and the weights {} must have rank 3 and 2",
            show_shape(&x),
            show_shape(&w)
        ));
    };
    let heads = super::positive(cx, "num_heads")?;
    let hidden = columns.floor_div(&Dim::Known(3)).unwrap_or(Dim::Known(0));
    let size = hidden.floor_div(&Dim::Known(heads)).unwrap_or(Dim::Known(0));
    let mut total = s.clone();
    if cx.has(8)
        && let Some(past) = cx.shape(8)?.get(3)
    {
        total = total.add(past);
    }
    let dtype = cx.dtype(3)?;
    cx.set(0, dtype, vec![b.clone(), s.clone(), hidden]);
    cx.set(1, dtype, vec![Dim::Known(2), b.clone(), Dim::Known(heads), total, size]);
    Ok(())
}
