//! The attention ops of com.microsoft, composed of the same parts as Attention of ai.onnx.

use super::{InferCx, OpDef, OpError, invalid};
use crate::ir::{Dim, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{QnnType, TensorId};

mod grouped;
mod multi_head;
mod plain;

use super::attention::core::{Heads, MASKED, Mask, attend, join_heads, ones};
use super::attention::rotary::{self, Rotary};
use super::compose;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::ms("Attention", plain::infer).lower(plain::lower),
    OpDef::ms("MultiHeadAttention", multi_head::infer).lower(multi_head::lower),
    OpDef::ms("GroupQueryAttention", grouped::infer).lower(grouped::lower),
    OpDef::ms("RotaryEmbedding", infer_rotary).lower(lower_rotary),
    OpDef::ms("PackedAttention", infer_packed),
    OpDef::ms("PackedMultiHeadAttention", infer_packed_heads),
];

/// Attribute `name`, which must be positive.
fn heads(cx: &InferCx<'_>, name: &str) -> Result<i64, OpError> {
    match cx.node.attrs.int(name) {
        Some(n) if n >= 1 => Ok(n),
        Some(n) => invalid(format!("attribute {name} is {n}; it must be positive")),
        None => invalid(format!("attribute {name} is missing")),
    }
}

/// Shape of input `i`, which must have this rank.
fn ranked<'a>(cx: &InferCx<'a>, i: usize, rank: usize, what: &str) -> Result<&'a [Dim], OpError> {
    let shape = cx.shape(i)?;
    if shape.len() == rank {
        Ok(shape)
    } else {
        invalid(format!("{what} must have rank {rank}, it is {}", show_shape(shape)))
    }
}

/// `columns / parts`; an error if they do not divide.
fn divided(columns: &Dim, parts: i64, what: &str) -> Result<Dim, OpError> {
    match columns {
        Dim::Known(n) if n % parts != 0 => {
            invalid(format!("{what} has {n} columns, which {parts} heads do not divide"))
        }
        d => Ok(d.floor_div(&Dim::Known(parts)).unwrap_or(Dim::Known(0))),
    }
}

/// The bias that a mask input of `MultiHeadAttention` and `Attention` stands for, ready to be added to scores
/// `[B, heads, queries, keys]`: the filter value where a key is masked. Lengths per batch, or 0 and 1 per key, or 0
/// and 1 per query and key.
fn padding(cx: &mut LowerCx<'_, '_>, i: usize, batch: usize, keys: usize) -> Result<TensorId, Refusal> {
    let shape = cx.shape(i)?;
    let filter = cx.attrs().float_or("mask_filter_value", -10000.0).max(MASKED);
    let mask = cx.input(i)?;
    let mask = cx.cast(mask, QnnType::INT_32);
    let (b, t) = (batch as u32, keys as u32);
    let attended = match shape[..] {
        [n] if n == batch => {
            let lengths = cx.reshape(mask, &[b, 1, 1, 1]);
            let positions: Vec<i32> = (0..keys as i32).collect();
            let positions = cx.i32_constant(&[1, 1, 1, t], &positions);
            compose::compare(cx, "ElementWiseLess", positions, lengths)
        }
        [n, k] if n == batch && k == keys => positive(cx, mask, &[b, 1, 1, t]),
        [n, s, k] if n == batch && k == keys => positive(cx, mask, &[b, 1, s as u32, t]),
        _ => {
            return Err(Refusal::form(format!(
                "the mask {:?} has shape {shape:?}: only [batch], [batch, keys] and [batch, queries, keys] are lowered \
                 ({batch} and {keys} here)",
                cx.input_name(i)
            )));
        }
    };
    // 0 and 1 become the filter value and 0, exactly.
    let m = ones(cx, attended);
    let up = compose::scale(cx, m, -filter);
    let low = cx.float_scalar(filter);
    Ok(compose::add(cx, up, low))
}

fn positive(cx: &mut LowerCx<'_, '_>, mask: TensorId, dims: &[u32]) -> TensorId {
    let mask = cx.reshape(mask, dims);
    let zero = cx.i32_constant(&[1], &[0]);
    compose::compare(cx, "ElementWiseGreater", mask, zero)
}

/// Refuses an input that nothing here reads.
fn refuse_input(cx: &LowerCx<'_, '_>, i: usize, what: &str) -> Result<(), Refusal> {
    if cx.has(i) { Err(Refusal::form(format!("input {what} ({:?}) is not lowered", cx.input_name(i)))) } else { Ok(()) }
}

fn infer_packed(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let tokens = ranked(cx, 0, 2, "the input")?[0].clone();
    let columns = ranked(cx, 1, 2, "the weights")?[1].clone();
    let hidden = match cx.node.attrs.ints("qkv_hidden_sizes") {
        Some([_, _, v]) => Dim::Known(*v),
        _ => columns.floor_div(&Dim::Known(3)).unwrap_or(columns),
    };
    cx.set(0, dtype, vec![tokens, hidden]);
    Ok(())
}

fn infer_packed_heads(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let q = cx.shape(0)?.clone();
    let tokens = q.first().cloned().unwrap_or(Dim::Known(1));
    let hidden = match (q.as_slice(), cx.has(2)) {
        (_, true) => cx.shape(2)?.last().cloned().unwrap_or(Dim::Known(1)),
        ([_, n, _, h], false) => n.mul(h),
        (_, false) => q.last().cloned().unwrap_or(Dim::Known(1)),
    };
    cx.set(0, dtype, vec![tokens, hidden]);
    Ok(())
}

fn infer_rotary(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if !(3..=4).contains(&t.shape.len()) {
        return invalid(format!("the input must have rank 3 or 4, it is {t}"));
    }
    for (i, name) in [(2, "cos_cache"), (3, "sin_cache")] {
        ranked(cx, i, 2, name)?;
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

fn lower_rotary(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.attrs().int_or("is_packed_batching", 0) != 0 {
        return Err(Refusal::form("attribute is_packed_batching is 1"));
    }
    let factor = cx.attrs().float_or("scale", 1.0);
    if factor != 1.0 {
        return Err(Refusal::form(format!("attribute scale is {factor}")));
    }
    let shape = cx.shape(0)?;
    let columns = cx.shape(2)?[1];
    let turned = cx.attrs().int_or("rotary_embedding_dim", 0);
    let named = cx.attrs().int_or("num_heads", 0);
    let heads = match shape[..] {
        [_, _, hidden] if named == 0 && turned == 0 => hidden / (2 * columns).max(1),
        _ => named.max(1) as usize,
    };
    if shape.len() == 3 && (heads == 0 || shape[2] % heads != 0) {
        return Err(Refusal::form(format!("{} columns are not {heads} heads", shape[2])));
    }
    let interleaved = cx.attrs().int_or("interleaved", 0) != 0;
    let positions = cx.shape(1)?;
    if positions.len() == 2 {
        return rotary::lower(cx, Rotary { cos: 2, sin: 3, positions: Some(1), interleaved }, heads as u32);
    }
    // A single number: the position of the first element, of all batches.
    let steps = if shape.len() == 4 { shape[2] } else { shape[1] };
    let first = cx.input(1)?;
    let first = cx.reshape(first, &[1, 1]);
    let numbers: Vec<i32> = (0..steps as i32).collect();
    let numbers = cx.i32_constant(&[1, steps as u32], &numbers);
    let at = compose::add(cx, numbers, first);
    let x = cx.input(0)?;
    let heads_first = shape.len() == 4;
    let (cos, sin) = (rows(cx, 2, at, heads_first)?, rows(cx, 3, at, heads_first)?);
    let y = if heads_first {
        rotary::rotate(cx, x, cos, sin, interleaved)
    } else {
        let (b, s, hidden) = (shape[0] as u32, shape[1] as u32, shape[2] as u32);
        let x = cx.reshape(x, &[b, s, heads as u32, hidden / heads as u32]);
        rotary::rotate(cx, x, cos, sin, interleaved)
    };
    compose::give(cx, 0, y)
}

/// Output 0 is the attention of these heads, scaled by the attribute `scale` or by one over the root of their size.
fn give_attended(cx: &mut LowerCx<'_, '_>, h: Heads, softcap: f32, mask: &Mask) -> Result<(), Refusal> {
    let size = cx.dims(h.q)[3];
    let scale = cx.attrs().float("scale").filter(|s| *s != 0.0).unwrap_or_else(|| 1.0 / (size as f32).sqrt());
    let done = attend(cx, h, scale, softcap, mask);
    let y = join_heads(cx, done.y);
    compose::give(cx, 0, y)
}

/// Outputs 1 and 2, where they are asked for, are the keys and the values.
fn give_cache(cx: &mut LowerCx<'_, '_>, h: Heads) -> Result<(), Refusal> {
    for (slot, t) in [(1, h.k), (2, h.v)] {
        if cx.wants(slot) {
            compose::give(cx, slot, t)?;
        }
    }
    Ok(())
}

/// Rows `at` (`[B or 1, S]`) of the table in input `i`, with an axis for heads: `[B, 1, S, columns]` with heads first,
/// else `[B, S, 1, columns]`.
fn rows(cx: &mut LowerCx<'_, '_>, i: usize, at: TensorId, heads_first: bool) -> Result<TensorId, Refusal> {
    let t = cx.input(i)?;
    let (columns, at_dims) = (cx.dims(t)[1], cx.dims(at));
    let (b, s) = (at_dims[0], at_dims[1]);
    let dtype = cx.qnn_type(t);
    let params = [("axis", crate::qnn::graph::Param::i32(0))];
    let y = cx.op_to("Gather", &[t, at], dtype, &[b, s, columns], &params);
    Ok(cx.reshape(y, &if heads_first { [b, 1, s, columns] } else { [b, s, 1, columns] }))
}

#[cfg(test)]
mod tests;
