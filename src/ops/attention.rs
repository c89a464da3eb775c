//! Attention and RotaryEmbedding of ai.onnx, composed of products, masks and a Softmax.

use super::{InferCx, OpDef, OpError, compose, invalid};
use crate::ir::{Dim, Shape, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{QnnType, StaticData, TensorId};

pub(super) mod core;
pub(super) mod rotary;

use self::core::{Heads, Known, Mask, attend, join_heads, ones, split_heads};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Attention", infer_attention).lower(lower_attention),
    OpDef::new("RotaryEmbedding", infer_rotary).lower(lower_rotary),
];

/// Queries, keys or values of rank 4 or 3 as `[B, heads, length, size]`.
fn as_heads(cx: &InferCx<'_>, i: usize, attribute: &str) -> Result<[Dim; 4], OpError> {
    let shape = cx.shape(i)?;
    match shape.as_slice() {
        [b, h, s, d] => Ok([b.clone(), h.clone(), s.clone(), d.clone()]),
        [b, s, hidden] => {
            let heads = match cx.node.attrs.int(attribute) {
                Some(n) if n >= 1 => n,
                Some(n) => return invalid(format!("attribute {attribute} is {n}; it must be positive")),
                None => return invalid(format!("attribute {attribute} is missing: input {i} has rank 3")),
            };
            if let Dim::Known(n) = hidden
                && n % heads != 0
            {
                return invalid(format!("input {i} has {n} columns, which {heads} heads ({attribute}) do not divide"));
            }
            let size = hidden.floor_div(&Dim::Known(heads)).unwrap_or(Dim::Known(0));
            Ok([b.clone(), Dim::Known(heads), s.clone(), size])
        }
        _ => invalid(format!("input {i} must have rank 3 or 4, it is {}", show_shape(shape))),
    }
}

fn infer_attention(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let rank = cx.rank(0)?;
    let [b, heads, queries, size] = as_heads(cx, 0, "q_num_heads")?;
    let [_, groups, keys, key_size] = as_heads(cx, 1, "kv_num_heads")?;
    let [_, _, value_keys, value_size] = as_heads(cx, 2, "kv_num_heads")?;
    for (a, b, what) in [(&size, &key_size, "head sizes of Q and K"), (&keys, &value_keys, "lengths of K and V")] {
        if let (Dim::Known(x), Dim::Known(y)) = (a, b)
            && x != y
        {
            return invalid(format!("the {what} differ: {x} and {y}"));
        }
    }
    if let (Dim::Known(h), Dim::Known(g)) = (&heads, &groups)
        && (*g < 1 || h % g != 0)
    {
        return invalid(format!("{h} heads of queries do not share {g} heads of keys evenly"));
    }
    if cx.has(4) != cx.has(5) {
        return invalid("past_key and past_value come together or not at all");
    }
    let mut total = keys;
    if cx.has(4) {
        let past = cx.shape(4)?;
        if past.len() != 4 {
            return invalid(format!("past_key must have rank 4, it is {}", show_shape(past)));
        }
        total = total.add(&past[2]);
    }
    let y: Shape = if rank == 4 {
        vec![b.clone(), heads.clone(), queries.clone(), value_size.clone()]
    } else {
        vec![b.clone(), queries.clone(), heads.mul(&value_size)]
    };
    cx.set(0, dtype, y);
    cx.set(1, dtype, vec![b.clone(), groups.clone(), total.clone(), size]);
    cx.set(2, cx.dtype(2)?, vec![b.clone(), groups, total.clone(), value_size]);
    cx.set(3, dtype, vec![b, heads, queries, total]);
    Ok(())
}

/// Input `i` as `[B, heads, length, size]`.
fn heads_of(cx: &mut LowerCx<'_, '_>, i: usize, attribute: &str) -> Result<TensorId, Refusal> {
    let t = cx.input(i)?;
    if cx.rank(i)? == 4 {
        return Ok(t);
    }
    let heads = cx.attrs().int_or(attribute, 1).max(1) as u32;
    Ok(split_heads(cx, t, heads))
}

fn lower_attention(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let q = heads_of(cx, 0, "q_num_heads")?;
    let mut k = heads_of(cx, 1, "kv_num_heads")?;
    let mut v = heads_of(cx, 2, "kv_num_heads")?;
    let past = if cx.has(4) { cx.shape(4)?[2] } else { 0 };
    if cx.has(4) {
        let (pk, pv) = (cx.input(4)?, cx.input(5)?);
        k = compose::concat(cx, &[pk, k], 2);
        v = compose::concat(cx, &[pv, v], 2);
    }
    let (queries, keys) = (cx.dims(q)[2] as usize, cx.dims(k)[2] as usize);
    let mask = mask(cx, queries, keys, past)?;
    let size = cx.dims(q)[3];
    let scale = cx.attrs().float("scale").unwrap_or_else(|| 1.0 / (size as f32).sqrt());
    let softcap = cx.attrs().float_or("softcap", 0.0);
    let done = attend(cx, Heads { q, k, v }, scale, softcap, &mask);
    let y = if cx.rank(0)? == 4 { done.y } else { join_heads(cx, done.y) };
    compose::give(cx, 0, y)?;
    for (slot, t) in [(1, k), (2, v)] {
        if cx.wants(slot) {
            compose::give(cx, slot, t)?;
        }
    }
    if cx.wants(3) {
        let t = match cx.attrs().int_or("qk_matmul_output_mode", 0) {
            0 => done.scores,
            1 => done.capped,
            3 => done.probabilities,
            2 if mask.bias.is_empty() => done.capped,
            mode => {
                return Err(Refusal::form(format!(
                    "qk_matmul_output_mode {mode} with a mask: the scores hold minus infinity, which 16-bit floats of \
                     the HTP do not keep"
                ))
                .fix("leave output qk_matmul_output out"));
            }
        };
        compose::give(cx, 3, t)?;
    }
    Ok(())
}

/// The mask that the inputs and attributes ask for, with `past` earlier keys.
fn mask(cx: &mut LowerCx<'_, '_>, queries: usize, keys: usize, past: usize) -> Result<Mask, Refusal> {
    let causal = cx.attrs().int_or("is_causal", 0) != 0;
    let (left, right) = (cx.attrs().int_or("left_window_size", -1), cx.attrs().int_or("right_window_size", -1));
    let padded = cx.has(6);
    if padded && (left >= 0 || right >= 0) {
        return Err(Refusal::form("a sliding window with nonpad_kv_seqlen: where it lies depends on run-time lengths"));
    }
    let mut known = Known::all(queries, keys);
    // With lengths given at run time the causal rule depends on them.
    let causal_now = causal && !padded;
    if causal_now || left >= 0 || right >= 0 {
        known = known.only(past, |p, j| {
            let (p, j) = (p as i64, j as i64);
            (!causal_now || j <= p) && (left < 0 || p - j <= left) && (right < 0 || j - p <= right)
        })?;
    }
    let mut conditions = vec![];
    let mut added = None;
    if cx.has(3) {
        if keys > 1 && cx.shape(3)?.last() == Some(&1) {
            return Err(Refusal::form(
                "the last axis of attn_mask is 1: it may be meant to repeat, or to allow the first key only",
            )
            .fix("give the mask a column for every key"));
        }
        if let Some(m) = cx.constant(3) {
            known = known.with_constant(m).ok_or_else(|| {
                Refusal::form(format!(
                    "attn_mask {:?} does not broadcast to {queries} queries and {keys} keys",
                    m.shape()
                ))
            })?;
        } else {
            let real = cx.dtype(3)?.is_float();
            let mut m = cx.input(3)?;
            if !real {
                m = ones(cx, m);
            }
            let m = lengthened(cx, m, keys, if real { core::MASKED } else { 0.0 });
            if real {
                added = Some(m);
            } else {
                conditions.push(m);
            }
        }
    }
    if padded {
        conditions.push(within_length(cx, queries, keys, causal)?);
    }
    let mut mask = Mask::new(cx, &known, &conditions);
    if let Some(m) = added {
        mask.add(cx, m);
    }
    Ok(mask)
}

/// A run-time mask whose last axis is shorter than the keys, filled up.
fn lengthened(cx: &mut LowerCx<'_, '_>, mask: TensorId, keys: usize, fill: f32) -> TensorId {
    let mut dims = cx.dims(mask);
    let last = dims.len() - 1;
    let missing = (keys as u32).saturating_sub(dims[last]);
    if missing == 0 {
        return mask;
    }
    dims[last] = missing;
    let count: u32 = dims.iter().product();
    let rest = cx.float_constant(&dims, &vec![fill; count as usize]);
    compose::concat(cx, &[mask, rest], last)
}

/// 1 for keys within the run-time length of their batch (input 6), seen by the query: `[B, 1, queries or 1, keys]`.
fn within_length(cx: &mut LowerCx<'_, '_>, queries: usize, keys: usize, causal: bool) -> Result<TensorId, Refusal> {
    let lengths = cx.input(6)?;
    let lengths = cx.cast(lengths, QnnType::INT_32);
    let batch = cx.dims(lengths)[0];
    // Key j is within for query i if j < length, and causally if j + (queries - i) <= length.
    let rows = if causal { queries } else { 1 };
    let last: Vec<i32> =
        (0..rows).flat_map(|i| (0..keys).map(move |j| (j + if causal { queries - i } else { 1 }) as i32)).collect();
    let dims = [1, 1, rows as u32, keys as u32];
    let tensor = crate::ir::Tensor::from_i32(dims.iter().map(|&d| d as usize).collect(), &last);
    let last = cx.static_tensor(QnnType::INT_32, &dims, StaticData::Constant { tensor, perm: None });
    let lengths = cx.reshape(lengths, &[batch, 1, 1, 1]);
    let within = compose::compare(cx, "ElementWiseLessEqual", last, lengths);
    Ok(ones(cx, within))
}

fn infer_rotary(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let (heads, turned) = (cx.node.attrs.int_or("num_heads", 0), cx.node.attrs.int_or("rotary_embedding_dim", 0));
    let size = match t.shape.as_slice() {
        [_, _, _, d] => d.clone(),
        [_, _, hidden] if heads >= 1 => hidden.floor_div(&Dim::Known(heads)).unwrap_or(Dim::Known(0)),
        [_, _, _] => return invalid("attribute num_heads is missing: the input has rank 3"),
        _ => return invalid(format!("the input must have rank 3 or 4, it is {t}")),
    };
    let turned = if turned == 0 { size } else { Dim::Known(turned) };
    let want = if cx.has(3) { 2 } else { 3 };
    for (i, name) in [(1, "cos_cache"), (2, "sin_cache")] {
        let s = cx.shape(i)?;
        if s.len() != want {
            return invalid(format!("{name} is {}: its rank must be {want}", show_shape(s)));
        }
        if let (Some(Dim::Known(c)), Dim::Known(n)) = (s.last(), &turned)
            && c.checked_mul(2) != Some(*n)
        {
            return invalid(format!("{name} has {c} columns: {n} rotated elements need half of that"));
        }
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

fn lower_rotary(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let heads = cx.attrs().int_or("num_heads", 1).max(1) as u32;
    let r = rotary::Rotary {
        cos: 1,
        sin: 2,
        positions: cx.has(3).then_some(3),
        interleaved: cx.attrs().int_or("interleaved", 0) != 0,
    };
    rotary::lower(cx, r, heads)
}

#[cfg(test)]
mod tests;
