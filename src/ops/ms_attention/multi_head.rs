//! com.microsoft MultiHeadAttention: projections were made before.

use super::{divided, give_attended, give_cache, heads, padding, ranked, refuse_input};
use crate::ir::{Dim, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::ops::attention::core::{Heads, Known, Mask, split_heads};
use crate::ops::{InferCx, OpError, compose, invalid};
use crate::qnn::graph::TensorId;

pub(super) fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let n = heads(cx, "num_heads")?;
    let q = cx.shape(0)?;
    let [b, s, ..] = q.as_slice() else { return invalid(format!("the query is {}", show_shape(q))) };
    let (b, s) = (b.clone(), s.clone());
    let size = match q.len() {
        3 => divided(&q[2], n, "the query")?,
        5 => q[4].clone(),
        _ => return invalid(format!("the query must have rank 3 or 5, it is {}", show_shape(q))),
    };
    let (keys, value_size) = if cx.has(1) {
        let k = cx.shape(1)?;
        let length = match k.len() {
            4 => k[2].clone(),
            3 | 5 => k[1].clone(),
            _ => return invalid(format!("the key must have rank 3, 4 or 5, it is {}", show_shape(k))),
        };
        let value = if cx.has(2) {
            let v = cx.shape(2)?;
            if v.len() == 4 { v[3].clone() } else { divided(&ranked(cx, 2, 3, "the value")?[2], n, "the value")? }
        } else {
            size.clone()
        };
        (length, value)
    } else {
        (s.clone(), size.clone())
    };
    let mut total = keys;
    if cx.has(6) {
        total = total.add(&ranked(cx, 6, 4, "past_key")?[2]);
    }
    let n = Dim::Known(n);
    cx.set(0, dtype, vec![b.clone(), s.clone(), n.mul(&value_size)]);
    cx.set(1, dtype, vec![b.clone(), n.clone(), total.clone(), size]);
    cx.set(2, dtype, vec![b.clone(), n.clone(), total.clone(), value_size]);
    cx.set(3, dtype, vec![b, n, s, total]);
    Ok(())
}

/// `count` tensors packed along axis 3 of `[B, S, heads, count, size]`, each as `[B, heads, S, size]`.
fn unpack(cx: &mut LowerCx<'_, '_>, i: usize, count: usize) -> Result<Vec<TensorId>, Refusal> {
    let t = cx.input(i)?;
    let d = cx.dims(t);
    let t = cx.reshape(t, &[d[0] * d[1], d[2], d[3], d[4]]);
    let parts = compose::split_evenly(cx, t, 2, count);
    Ok(parts
        .into_iter()
        .map(|p| {
            let p = cx.reshape(p, &[d[0], d[1], d[2], d[4]]);
            cx.transpose(p, &[0, 2, 1, 3])
        })
        .collect())
}

/// Input `i` (`[B, S, heads * size]`) with columns `from..` of the bias added, as heads.
fn biased(cx: &mut LowerCx<'_, '_>, i: usize, from: u32, heads: u32) -> Result<TensorId, Refusal> {
    let mut t = cx.input(i)?;
    if cx.has(3) {
        let width = cx.dims(t)[2];
        let b = cx.input(3)?;
        let b = compose::slice(cx, b, 0, from, from + width);
        t = compose::add(cx, t, b);
    }
    Ok(split_heads(cx, t, heads))
}

fn operands(cx: &mut LowerCx<'_, '_>, n: u32) -> Result<Heads, Refusal> {
    let packed = cx.rank(0)? == 5 || (cx.has(1) && cx.rank(1)? == 5);
    if packed && cx.has(3) {
        return Err(Refusal::form("packed operands with a bias"));
    }
    if cx.rank(0)? == 5 {
        let parts = unpack(cx, 0, 3)?;
        return Ok(Heads { q: parts[0], k: parts[1], v: parts[2] });
    }
    let width = cx.shape(0)?[2] as u32;
    let q = biased(cx, 0, 0, n)?;
    if !cx.has(1) {
        return Err(Refusal::form("input key is omitted, and the query is not packed"));
    }
    match cx.rank(1)? {
        5 => {
            let parts = unpack(cx, 1, 2)?;
            Ok(Heads { q, k: parts[0], v: parts[1] })
        }
        4 => {
            if cx.has(3) {
                return Err(Refusal::form("a bias with keys that are in heads already"));
            }
            Ok(Heads { q, k: cx.input(1)?, v: cx.input(2)? })
        }
        _ => {
            let key_width = cx.shape(1)?[2] as u32;
            Ok(Heads { q, k: biased(cx, 1, width, n)?, v: biased(cx, 2, width + key_width, n)? })
        }
    }
}

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    refuse_input(cx, 8, "past_sequence_length")?;
    refuse_input(cx, 9, "cache_indirection")?;
    if cx.wants(3) {
        return Err(Refusal::form("output qk is not lowered").fix("leave output qk out"));
    }
    let n = cx.attrs().int_or("num_heads", 1).max(1) as u32;
    let mut h = operands(cx, n)?;
    let mut past = 0;
    if cx.has(6) {
        let (pk, pv) = (cx.input(6)?, cx.input(7)?);
        past = cx.dims(pk)[2] as usize;
        h.k = compose::concat(cx, &[pk, h.k], 2);
        h.v = compose::concat(cx, &[pv, h.v], 2);
    }
    let (d, keys) = (cx.dims(h.q), cx.dims(h.k)[2] as usize);
    let mut known = Known::all(d[2] as usize, keys);
    if cx.attrs().int_or("unidirectional", 0) != 0 {
        known = known.only(past, |p, j| j <= p)?;
    }
    let mut mask = Mask::new(cx, &known, &[]);
    if cx.has(4) {
        let m = padding(cx, 4, d[0] as usize, keys)?;
        mask.bias.push(m);
    }
    if cx.has(5) {
        let b = cx.input(5)?;
        mask.add(cx, b);
    }
    give_attended(cx, h, 0.0, &mask)?;
    give_cache(cx, h)
}
