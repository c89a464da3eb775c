//! com.microsoft Attention: the projections are part of the op.

use super::{divided, give_attended, heads, padding, ranked, refuse_input};
use crate::ir::Dim;
use crate::lower::{LowerCx, Refusal};
use crate::ops::attention::core::{Heads, Known, Mask, split_heads};
use crate::ops::{InferCx, OpError, compose, invalid};
use crate::qnn::graph::TensorId;

/// Columns of queries, keys and values in the weights.
fn columns(sizes: Option<&[i64]>, total: &Dim) -> Result<[Dim; 3], String> {
    match sizes {
        Some(&[q, k, v]) if q > 0 && k == q && v > 0 => Ok([q, k, v].map(Dim::Known)),
        Some(other) => Err(format!("attribute qkv_hidden_sizes is {other:?}")),
        None => {
            let part = total.floor_div(&Dim::Known(3)).unwrap_or(Dim::Known(0));
            Ok([part.clone(), part.clone(), part])
        }
    }
}

pub(super) fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let n = heads(cx, "num_heads")?;
    let [b, s, inner] = ranked(cx, 0, 3, "the input")? else { return invalid("the input must have rank 3") };
    let [rows, all] = ranked(cx, 1, 2, "the weights")? else { return invalid("the weights must have rank 2") };
    if let (Dim::Known(x), Dim::Known(y)) = (inner, rows)
        && x != y
    {
        return invalid(format!("the input has {x} columns, and the weights {y} rows"));
    }
    let [q, _, v] = columns(cx.node.attrs.ints("qkv_hidden_sizes"), all).map_err(OpError::Invalid)?;
    if let (Dim::Known(q), Dim::Known(v), Dim::Known(all)) = (&q, &v, all)
        && q.checked_mul(2).and_then(|k| k.checked_add(*v)) != Some(*all)
    {
        return invalid(format!("the weights have {all} columns, not the {q} + {q} + {v} of queries, keys and values"));
    }
    let size = divided(&q, n, "the projection of queries")?;
    let (b, s, v) = (b.clone(), s.clone(), v.clone());
    let mut total = s.clone();
    if cx.has(4) {
        total = total.add(&ranked(cx, 4, 5, "past")?[3]);
    }
    cx.set(0, dtype, vec![b.clone(), s, v]);
    cx.set(1, dtype, vec![Dim::Known(2), b, Dim::Known(n), total, size]);
    Ok(())
}

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    refuse_input(cx, 6, "past_sequence_length")?;
    if cx.attrs().int_or("do_rotary", 0) != 0 {
        return Err(Refusal::form("attribute do_rotary is 1"));
    }
    let shape = cx.shape(0)?;
    let (batch, steps) = (shape[0], shape[1]);
    let n = cx.attrs().int_or("num_heads", 1).max(1) as u32;
    let all = cx.shape(1)?[1];
    let parts = columns(cx.attrs().ints("qkv_hidden_sizes"), &Dim::from(all)).map_err(Refusal::form)?;
    let sizes: Vec<u32> = parts.iter().filter_map(|d| u32::try_from(d.known()?).ok()).collect();
    let x = cx.input(0)?;
    let y = if let Some(w) = cx.constant(1) {
        let w = cx.weight(w, Some(&[1, 0]), &[all as u32, shape[2] as u32]);
        let bias = if cx.has(2) && cx.constant(2).is_some() { Some(cx.input(2)?) } else { None };
        let y = compose::fully_connected(cx, x, w, bias);
        if bias.is_none() && cx.has(2) { plus(cx, y, 2)? } else { y }
    } else {
        let w = cx.input(1)?;
        let y = compose::matmul(cx, x, w, false);
        if cx.has(2) { plus(cx, y, 2)? } else { y }
    };
    let parts = compose::split(cx, y, 2, &sizes);
    let q = split_heads(cx, parts[0], n);
    let mut k = split_heads(cx, parts[1], n);
    let mut v = split_heads(cx, parts[2], n);
    let mut past = 0;
    if cx.has(4) {
        let t = cx.input(4)?;
        past = cx.dims(t)[3] as usize;
        let halves = compose::split_evenly(cx, t, 0, 2);
        let dims = cx.dims(t)[1..].to_vec();
        let (pk, pv) = (cx.reshape(halves[0], &dims), cx.reshape(halves[1], &dims));
        k = compose::concat(cx, &[pk, k], 2);
        v = compose::concat(cx, &[pv, v], 2);
    }
    let keys = past + steps;
    let mut known = Known::all(steps, keys);
    if cx.attrs().int_or("unidirectional", 0) != 0 {
        known = known.only(past, |p, j| j <= p)?;
    }
    let mut mask = Mask::new(cx, &known, &[]);
    if cx.has(3) {
        let m = padding(cx, 3, batch, keys)?;
        mask.bias.push(m);
    }
    if cx.has(5) {
        let b = cx.input(5)?;
        mask.add(cx, b);
    }
    give_attended(cx, Heads { q, k, v }, 0.0, &mask)?;
    if cx.wants(1) {
        let mut dims = vec![1];
        dims.extend(cx.dims(k));
        let (k, v) = (cx.reshape(k, &dims), cx.reshape(v, &dims));
        let both = compose::concat(cx, &[k, v], 0);
        compose::give(cx, 1, both)?;
    }
    Ok(())
}

fn plus(cx: &mut LowerCx<'_, '_>, t: TensorId, i: usize) -> Result<TensorId, Refusal> {
    let b = cx.input(i)?;
    Ok(compose::add(cx, t, b))
}
