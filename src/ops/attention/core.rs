//! Scaled dot products, their masks, and the probabilities: what every attention op is made of.

use crate::ir::Tensor;
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

/// Added to the score of a key that must not be attended. Far below any score, and twice it still fits 16-bit floats;
/// `exp` of it is 0.
pub(in crate::ops) const MASKED: f32 = -30000.0;

/// Elements of a mask up to which it is made at compile time.
const MASK_LIMIT: usize = 1 << 26;

/// What is known at compile time of who attends whom.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Known {
    /// Leading axes, then queries and keys.
    dims: Vec<usize>,
    /// Absent: everybody everything.
    allowed: Option<Vec<bool>>,
    /// Absent: zero.
    bias: Option<Vec<f32>>,
}

impl Known {
    /// Every query attends every key.
    pub(in crate::ops) fn all(queries: usize, keys: usize) -> Self {
        Self { dims: vec![queries, keys], allowed: None, bias: None }
    }

    fn queries_and_keys(&self) -> (usize, usize) {
        match self.dims[..] {
            [.., queries, keys] => (queries, keys),
            _ => (1, 1),
        }
    }

    fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Query `i` of those after `offset` earlier keys attends key `j` only where `rule(offset + i, j)` holds.
    pub(in crate::ops) fn only(mut self, offset: usize, rule: impl Fn(usize, usize) -> bool) -> Result<Self, Refusal> {
        let (queries, keys) = self.queries_and_keys();
        if self.len() > MASK_LIMIT {
            return Err(Refusal::form(format!(
                "a mask of {queries} queries and {keys} keys is too large to be a constant"
            ))
            .fix("run the model on shorter pieces of the sequence"));
        }
        let mut allowed = self.allowed.take().unwrap_or_else(|| vec![true; self.len()]);
        for (at, a) in allowed.iter_mut().enumerate() {
            *a &= rule(offset + at / keys % queries, at % keys);
        }
        self.allowed = Some(allowed);
        Ok(self)
    }

    /// A constant mask that broadcasts to `[..., queries, keys]`: booleans that allow, or numbers that are added.
    /// Its last axis may be shorter than the keys: the rest is not attended. `None` if it does not broadcast.
    pub(in crate::ops) fn with_constant(self, mask: &Tensor) -> Option<Self> {
        let (queries, keys) = self.queries_and_keys();
        let boolean = !mask.dtype().is_float();
        let values = mask.to_f64s()?;
        let mut shape = mask.shape().to_vec();
        while shape.len() < 2 {
            shape.insert(0, 1);
        }
        let (own_keys, own_queries) = (*shape.last()?, shape[shape.len() - 2]);
        if ![1, queries].contains(&own_queries) || own_keys > keys {
            return None;
        }
        let lead: usize = shape[..shape.len() - 2].iter().product();
        let mut dims = shape[..shape.len() - 2].to_vec();
        dims.extend([queries, keys]);
        let (mut allowed, mut bias) = (vec![], vec![]);
        for l in 0..lead {
            for i in 0..queries {
                for j in 0..keys {
                    let at = i * keys + j;
                    let row = if own_queries == 1 { 0 } else { i };
                    let v =
                        if j < own_keys { values.get((l * own_queries + row) * own_keys + j).copied() } else { None };
                    let ok = v.is_some_and(|v| if boolean { v != 0.0 } else { v != f64::NEG_INFINITY });
                    allowed.push(ok && self.allowed.as_ref().is_none_or(|a| a[at]));
                    let base = self.bias.as_ref().map_or(0.0, |b| b[at]);
                    bias.push(base + if boolean { 0.0 } else { v.unwrap_or(0.0) as f32 });
                }
            }
        }
        Some(Self { dims, allowed: Some(allowed), bias: (!boolean).then_some(bias) })
    }

    fn all_allowed(&self) -> bool {
        self.allowed.as_ref().is_none_or(|a| a.iter().all(|a| *a))
    }

    fn qnn_dims(&self) -> Vec<u32> {
        self.dims.iter().map(|&d| d as u32).collect()
    }

    /// The bias as a constant; `None` if there is nothing to add.
    fn bias(&self, cx: &mut LowerCx<'_, '_>) -> Option<TensorId> {
        let zero = self.bias.as_ref().is_none_or(|b| b.iter().all(|b| *b == 0.0));
        if self.all_allowed() && zero {
            return None;
        }
        let at = |i: usize| self.bias.as_ref().map_or(0.0, |b| b[i].max(MASKED));
        let ok = |i: usize| self.allowed.as_ref().is_none_or(|a| a[i]);
        let values: Vec<f32> = (0..self.len()).map(|i| if ok(i) { at(i) } else { MASKED }).collect();
        Some(cx.float_constant(&self.qnn_dims(), &values))
    }

    /// 1 where a query attends a key, 0 elsewhere; `None` if all do.
    fn ones(&self, cx: &mut LowerCx<'_, '_>) -> Option<TensorId> {
        if self.all_allowed() {
            return None;
        }
        let values: Vec<f32> = self.allowed.as_ref()?.iter().map(|a| f32::from(u8::from(*a))).collect();
        Some(cx.float_constant(&self.qnn_dims(), &values))
    }

    /// 1 for queries that attend something, 0 for others; `None` if all do.
    fn rows(&self, cx: &mut LowerCx<'_, '_>) -> Option<TensorId> {
        let keys = self.queries_and_keys().1;
        let rows: Vec<f32> =
            self.allowed.as_ref()?.chunks(keys.max(1)).map(|r| f32::from(u8::from(r.iter().any(|a| *a)))).collect();
        if rows.iter().all(|r| *r == 1.0) {
            return None;
        }
        let mut dims = self.qnn_dims();
        *dims.last_mut()? = 1;
        Some(cx.float_constant(&dims, &rows))
    }
}

/// What is added to the scores, and what the probabilities are multiplied with.
#[derive(Clone, Debug, Default)]
pub(in crate::ops) struct Mask {
    pub(in crate::ops) bias: Vec<TensorId>,
    /// 1 for queries that attend something, 0 for those whose result is zero.
    rows: Option<TensorId>,
    /// A score per head that takes its share of the probability and belongs to no key.
    pub(in crate::ops) sink: Option<Vec<f32>>,
}

impl Mask {
    /// The mask of `known` and run-time conditions: tensors of 0 and 1 that all must be 1 for a key to be attended.
    pub(in crate::ops) fn new(cx: &mut LowerCx<'_, '_>, known: &Known, conditions: &[TensorId]) -> Self {
        let Some((first, rest)) = conditions.split_first() else {
            return Self { bias: known.bias(cx).into_iter().collect(), rows: known.rows(cx), sink: None };
        };
        let mut all = *first;
        for c in rest.iter().copied().chain(known.ones(cx)) {
            all = compose::mul(cx, all, c);
        }
        // 0 and 1 become MASKED and 0, exactly.
        let up = compose::scale(cx, all, -MASKED);
        let low = cx.float_scalar(MASKED);
        let mut bias = vec![compose::add(cx, up, low)];
        let additive = Known { allowed: None, ..known.clone() };
        bias.extend(additive.bias(cx));
        let last = cx.dims(all).len() - 1;
        let rows = if cx.dims(all)[last] == 1 { all } else { compose::reduce_keep(cx, "ReduceMax", all, &[last]) };
        Self { bias, rows: Some(rows), sink: None }
    }

    /// A run-time tensor that is added to the scores; what is below [`MASKED`] is as good as that.
    pub(in crate::ops) fn add(&mut self, cx: &mut LowerCx<'_, '_>, bias: TensorId) {
        let low = cx.float_scalar(MASKED);
        let t = compose::binary(cx, "ElementWiseMaximum", bias, low);
        self.bias.push(t);
    }
}

/// A boolean tensor as 0 and 1.
pub(in crate::ops) fn ones(cx: &mut LowerCx<'_, '_>, condition: TensorId) -> TensorId {
    let float = cx.float();
    cx.cast(condition, float)
}

/// Queries, keys and values of equal batch: `[B, heads, length, size]`. Several heads of queries may share one of keys.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Heads {
    pub(in crate::ops) q: TensorId,
    pub(in crate::ops) k: TensorId,
    pub(in crate::ops) v: TensorId,
}

/// The stages of an attention, `[B, heads, queries, keys]` each, and the result `[B, heads, queries, value size]`.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Attended {
    pub(in crate::ops) scores: TensorId,
    pub(in crate::ops) capped: TensorId,
    pub(in crate::ops) probabilities: TensorId,
    pub(in crate::ops) y: TensorId,
}

/// `softmax(cap(q k^T scale) + mask) v`. The scale is applied to the queries, which keeps the products small.
pub(in crate::ops) fn attend(cx: &mut LowerCx<'_, '_>, h: Heads, scale: f32, softcap: f32, mask: &Mask) -> Attended {
    let (dq, dk, dv) = (cx.dims(h.q), cx.dims(h.k), cx.dims(h.v));
    let (batch, heads, queries, size) = (dq[0], dq[1], dq[2], dq[3]);
    let (groups, keys) = (dk[1], dk[2]);
    let q = compose::scale(cx, h.q, scale);
    // Heads that share keys lie next to each other: they become more queries of one head.
    let rows = heads / groups.max(1) * queries;
    let q = cx.reshape(q, &[batch, groups, rows, size]);
    let s = compose::matmul(cx, q, h.k, true);
    let scores = cx.reshape(s, &[batch, heads, queries, keys]);
    let capped = if softcap > 0.0 {
        let s = compose::scale(cx, scores, 1.0 / softcap);
        let s = compose::unary(cx, "Tanh", s);
        compose::scale(cx, s, softcap)
    } else {
        scores
    };
    let mut s = capped;
    for &b in &mask.bias {
        s = compose::add(cx, s, b);
    }
    let mut probabilities = match &mask.sink {
        Some(sink) => {
            let values: Vec<f32> =
                (0..batch).flat_map(|_| sink.iter().flat_map(|v| std::iter::repeat_n(*v, queries as usize))).collect();
            let column = cx.float_constant(&[batch, heads, queries, 1], &values);
            let s = compose::concat(cx, &[s, column], 3);
            let p = compose::softmax_last(cx, s);
            compose::slice(cx, p, 3, 0, keys)
        }
        None => compose::softmax_last(cx, s),
    };
    if let Some(rows) = mask.rows {
        probabilities = compose::mul(cx, probabilities, rows);
    }
    let p = cx.reshape(probabilities, &[batch, groups, rows, keys]);
    let y = compose::matmul(cx, p, h.v, false);
    let y = cx.reshape(y, &[batch, heads, queries, dv[3]]);
    Attended { scores, capped, probabilities, y }
}

/// `[B, length, heads * size]` as `[B, heads, length, size]`.
pub(in crate::ops) fn split_heads(cx: &mut LowerCx<'_, '_>, t: TensorId, heads: u32) -> TensorId {
    let d = cx.dims(t);
    let t = cx.reshape(t, &[d[0], d[1], heads, d[2] / heads.max(1)]);
    cx.transpose(t, &[0, 2, 1, 3])
}

/// `[B, heads, length, size]` as `[B, length, heads * size]`.
pub(in crate::ops) fn join_heads(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let d = cx.dims(t);
    let t = cx.transpose(t, &[0, 2, 1, 3]);
    cx.reshape(t, &[d[0], d[2], d[1] * d[3]])
}
