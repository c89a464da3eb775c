//! LinearAttention: a recurrence over the tokens that keeps one matrix per key/value head.

use super::{InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{Dim, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("LinearAttention", infer).lower(lower)];

/// Each token becomes its own few QNN ops; more tokens than this are refused.
const TOKEN_LIMIT: usize = 128;

/// What attribute `update_rule` switches on.
#[derive(Clone, Copy, Debug)]
struct Rule {
    gated: bool,
    delta: bool,
}

fn rule(node: &crate::ir::Node) -> Result<Rule, String> {
    let name = node.attrs.str_or("update_rule", "gated_delta");
    let rule = match name {
        "linear" => Rule { gated: false, delta: false },
        "gated" => Rule { gated: true, delta: false },
        "delta" => Rule { gated: false, delta: true },
        "gated_delta" => Rule { gated: true, delta: true },
        _ => return Err(format!("attribute update_rule is {name:?}; it is linear, gated, delta or gated_delta")),
    };
    for (input, what, wanted) in [(4, "decay", rule.gated), (5, "beta", rule.delta)] {
        if node.input(input).is_some() != wanted {
            let verb = if wanted { "needs" } else { "takes no" };
            return Err(format!("update_rule {name:?} {verb} input {input}, {what}"));
        }
    }
    Ok(rule)
}

/// Numbers of query heads and of key/value heads.
fn heads(node: &crate::ir::Node) -> Result<[i64; 2], String> {
    let [q, kv] = ["q_num_heads", "kv_num_heads"].map(|n| node.attrs.int_or(n, 0));
    if q < 1 || kv < 1 || q % kv != 0 {
        return Err(format!("q_num_heads is {q} and kv_num_heads is {kv}; the first is a multiple of the second"));
    }
    Ok([q, kv])
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    rule(cx.node).map_err(OpError::Invalid)?;
    let [q_heads, kv_heads] = heads(cx.node).map_err(OpError::Invalid)?;
    let dtype = cx.dtype(0)?;
    let mut packed = vec![];
    for (i, n) in [(0, q_heads), (1, kv_heads), (2, kv_heads)] {
        let shape = cx.shape(i)?;
        let [batch, tokens, width] = shape.as_slice() else {
            return invalid(format!("input {i} is {}, and must be of rank 3", show_shape(shape)));
        };
        if let Dim::Known(w) = width
            && w % n != 0
        {
            return invalid(format!("input {i} is {}, which {n} heads do not share", show_shape(shape)));
        }
        let Some(each) = width.floor_div(&Dim::Known(n)) else {
            return invalid(format!("input {i} is shared by {n} heads"));
        };
        packed.push((batch.clone(), tokens.clone(), each));
    }
    let (batch, tokens, key) = packed[0].clone();
    let value = packed[2].2.clone();
    let state = if cx.has(3) { cx.dtype(3)? } else { dtype };
    cx.set(0, dtype, vec![batch.clone(), tokens, value.mul(&Dim::Known(q_heads))]);
    cx.set(1, state, vec![batch, Dim::Known(kv_heads), key, value]);
    Ok(())
}

/// The state is `[B, H, dk, dv]`. Query heads that share a key/value head are rows of one product with its state.
fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let rule = rule(cx.node).map_err(Refusal::form)?;
    let [q_heads, heads] = heads(cx.node).map_err(Refusal::form)?.map(|n| n as u32);
    let (shape, value) = (cx.shape(0)?, cx.shape(2)?);
    let tokens = shape[1];
    if tokens > TOKEN_LIMIT {
        return Err(Refusal::form(format!("the recurrence has {tokens} tokens, and each becomes its own QNN ops"))
            .fix(format!("feed at most {TOKEN_LIMIT} tokens at once, and hand the state on")));
    }
    let b = shape[0] as u32;
    let (dk, dv) = (shape[2] as u32 / q_heads, value[2] as u32 / heads);
    let scale = match cx.attrs().float_or("scale", 0.0) {
        0.0 => 1.0 / (dk as f32).sqrt(),
        s => s,
    };
    let query = {
        let t = cx.input(0)?;
        compose::scale(cx, t, scale)
    };
    let (key, value) = (cx.input(1)?, cx.input(2)?);
    let decay = if rule.gated {
        let t = cx.input(4)?;
        Some(compose::unary(cx, "ElementWiseExp", t))
    } else {
        None
    };
    let beta = if rule.delta { Some(cx.input(5)?) } else { None };
    let mut state = if cx.has(3) { Some(cx.input(3)?) } else { None };
    let mut rows = vec![];
    for at in 0..tokens as u32 {
        // One token, its last axis cut into pieces for the heads, with dims for a product per head.
        let token = |cx: &mut LowerCx<'_, '_>, t: TensorId, dims: &[u32]| {
            let t = compose::slice(cx, t, 1, at, at + 1);
            cx.reshape(t, dims)
        };
        let k_row = token(cx, key, &[b, heads, 1, dk]);
        let k_column = cx.reshape(k_row, &[b, heads, dk, 1]);
        let mut v = token(cx, value, &[b, heads, 1, dv]);
        if let (Some(decay), Some(s)) = (decay, state) {
            let width = cx.dims(decay)[2] / heads;
            let g = token(cx, decay, &[b, heads, width, 1]);
            state = Some(compose::mul(cx, s, g));
        }
        if let Some(beta) = beta {
            if let Some(s) = state {
                let known = compose::matmul(cx, k_row, s, false);
                v = compose::sub(cx, v, known);
            }
            let width = cx.dims(beta)[2];
            let rate = token(cx, beta, &[b, width, 1, 1]);
            v = compose::mul(cx, v, rate);
        }
        let written = compose::mul(cx, k_column, v);
        let next = match state {
            Some(s) => compose::add(cx, s, written),
            None => written,
        };
        state = Some(next);
        let q = token(cx, query, &[b, heads, q_heads / heads, dk]);
        let read = compose::matmul(cx, q, next, false);
        rows.push(cx.reshape(read, &[b, 1, q_heads * dv]));
    }
    let y = compose::concat(cx, &rows, 1);
    compose::give(cx, 0, y)?;
    if cx.wants(1)
        && let Some(s) = state
    {
        compose::give(cx, 1, s)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node};

    #[test]
    fn shapes() {
        let n = node("LinearAttention", 27)
            .float(&[-1, -2, 8])
            .float(&[-1, -2, 4])
            .float(&[-1, -2, 6])
            .text("update_rule", "linear")
            .int("q_num_heads", 4)
            .int("kv_num_heads", 2)
            .outputs(2);
        assert_eq!(n.types(), ["float32[d1, d2, 12]", "float32[d1, 2, 2, 3]"]);
    }

    #[test]
    fn a_rule_names_its_inputs() {
        let n = node("LinearAttention", 27).float(&[1, 2, 2]).float(&[1, 2, 2]).float(&[1, 2, 2]);
        let n = n.int("q_num_heads", 1).int("kv_num_heads", 1);
        assert!(n.error().contains("decay"), "{}", n.error());
    }

    #[test]
    fn the_gated_delta_rule() {
        // S = exp(g) S; v = beta (v - S k); S = S + k v; o = q S, over two tokens of one head.
        let n = node("LinearAttention", 27)
            .float(&[1, 2, 2])
            .float(&[1, 2, 2])
            .float(&[1, 2, 1])
            .float(&[1, 1, 2, 1])
            .float(&[1, 2, 1])
            .float(&[1, 2, 1])
            .real("scale", 1.0)
            .int("q_num_heads", 1)
            .int("kv_num_heads", 1)
            .outputs(2);
        let half = 0.5f64.ln();
        let y = n.run(&[
            vec![1.0, 0.0, 1.0, 1.0],
            vec![1.0, 2.0, 0.0, 1.0],
            vec![3.0, 4.0],
            vec![2.0, 4.0],
            vec![half, 0.0],
            vec![0.5, 1.0],
        ]);
        // Token 1: S = [1, 2], v = 0.5 (3 - 5) = -1, S = [0, 0]; token 2: v = 4, S = [0, 4].
        assert_close(&y[0], &[0.0, 4.0], 1e-6);
        assert_close(&y[1], &[0.0, 4.0], 1e-6);
    }
}
