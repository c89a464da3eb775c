//! com.microsoft GroupQueryAttention: rotary positions, a key-value buffer that is filled from the front, causal.
//!
//! How much of the buffer is filled is known at run time only: `past = max(0, seqlens_k + 1 - S)`. New keys go to rows
//! `past..past + S`, and query `i` attends rows up to `past + i`. What lies behind is never attended.

use super::{give_attended, give_cache, heads, ranked, refuse_input};
use crate::ir::{Dim, show_shape};
use crate::lower::{LowerCx, Refusal};
use crate::ops::attention::core::{Heads, Known, Mask, ones, split_heads};
use crate::ops::attention::rotary;
use crate::ops::{InferCx, OpError, compose, invalid};
use crate::qnn::graph::{Param, QnnType, TensorId};

pub(super) fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = cx.dtype(0)?;
    let (n, g) = (heads(cx, "num_heads")?, heads(cx, "kv_num_heads")?);
    if n % g != 0 {
        return invalid(format!("{n} heads of queries do not share {g} heads of keys evenly"));
    }
    let [b, s, width] = ranked(cx, 0, 3, "the query")? else { return invalid("the query must have rank 3") };
    let parts = if cx.has(1) { n } else { n + 2 * g };
    let size = super::divided(width, parts, "the query")?;
    if cx.has(1)
        && let (Some(Dim::Known(k)), Dim::Known(h)) = (cx.shape(1)?.last(), &size)
        && h.checked_mul(g) != Some(*k)
    {
        return invalid(format!("the key is {}: {g} heads of {h} are needed", show_shape(cx.shape(1)?)));
    }
    let (b, s) = (b.clone(), s.clone());
    let total = match (cx.has(3), cx.ints(6).and_then(|v| v.first().copied())) {
        (false, _) => s.clone(),
        (true, total) => {
            let past = &ranked(cx, 3, 4, "past_key")?[2];
            match (past, total) {
                (Dim::Known(p), Some(t)) => Dim::Known(t.max(*p)),
                _ => Dim::symbol(format!("{}.total", cx.node.name)),
            }
        }
    };
    let y = vec![b.clone(), s, Dim::Known(n).mul(&size)];
    let present = vec![b, Dim::Known(g), total, size];
    cx.set(0, dtype, y);
    cx.set(1, dtype, present.clone());
    cx.set(2, dtype, present);
    Ok(())
}

/// The run-time state of the buffer.
struct Buffer {
    /// Rows filled before this step, `[B, 1, 1, 1]`; absent: none.
    past: Option<TensorId>,
    /// Rows after this step.
    rows: usize,
    steps: usize,
    batch: usize,
}

pub(super) fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    refuse_input(cx, 12, "k_scale")?;
    refuse_input(cx, 13, "v_scale")?;
    if cx.wants(3) {
        return Err(Refusal::form("output output_qk is not lowered").fix("leave output output_qk out"));
    }
    let shape = cx.shape(0)?;
    let (n, g) = (cx.attrs().int_or("num_heads", 1).max(1) as u32, cx.attrs().int_or("kv_num_heads", 1).max(1) as u32);
    let (batch, steps) = (shape[0], shape[1]);
    let rows = if cx.wants(1) {
        cx.out_shape(1)?[2]
    } else if cx.has(3) {
        return Err(Refusal::form("past_key is given, and present_key is not asked for: its length is not known"));
    } else {
        steps
    };
    let past = past(cx, batch, steps)?;
    let buffer = Buffer { past, rows, steps, batch };
    let h = operands(cx, &buffer, n, g)?;
    let h = Heads { k: stored(cx, &buffer, h.k, 3)?, v: stored(cx, &buffer, h.v, 4)?, ..h };
    let mut mask = mask(cx, &buffer)?;
    if cx.has(10) {
        let b = cx.input(10)?;
        mask.add(cx, b);
    }
    mask.sink = if cx.has(11) {
        Some(cx.need_floats(11, "head_sink")?)
    } else if cx.attrs().int_or("smooth_softmax", 0) == 1 {
        Some(vec![0.0; n as usize])
    } else {
        None
    };
    give_attended(cx, h, cx.attrs().float_or("softcap", 0.0), &mask)?;
    give_cache(cx, h)
}

/// Rows filled before this step, `[B, 1, 1, 1]`.
fn past(cx: &mut LowerCx<'_, '_>, batch: usize, steps: usize) -> Result<Option<TensorId>, Refusal> {
    if !cx.has(3) {
        return Ok(None);
    }
    let last = cx.input(5)?;
    let last = cx.cast(last, QnnType::INT_32);
    let last = cx.reshape(last, &[batch as u32, 1, 1, 1]);
    if steps == 1 {
        return Ok(Some(last));
    }
    let before = cx.i32_constant(&[1], &[steps as i32 - 1]);
    let past = compose::sub(cx, last, before);
    let zero = cx.i32_constant(&[1], &[0]);
    Ok(Some(compose::binary(cx, "ElementWiseMaximum", past, zero)))
}

/// Queries, keys and values of this step as heads, turned by their positions if the node asks for it.
fn operands(cx: &mut LowerCx<'_, '_>, buffer: &Buffer, n: u32, g: u32) -> Result<Heads, Refusal> {
    let q = cx.input(0)?;
    let parts = if cx.has(1) {
        vec![q, cx.input(1)?, cx.input(2)?]
    } else {
        let size = cx.dims(q)[2] / (n + 2 * g);
        compose::split(cx, q, 2, &[n * size, g * size, g * size])
    };
    let h = Heads { q: split_heads(cx, parts[0], n), k: split_heads(cx, parts[1], g), v: split_heads(cx, parts[2], g) };
    if cx.attrs().int_or("do_rotary", 0) == 0 {
        return Ok(h);
    }
    let (cos, sin) = if cx.has(9) {
        let (cos, sin) = (rotary::table(cx, 7, Some(9))?, rotary::table(cx, 8, Some(9))?);
        let d = cx.dims(cos);
        let dims = [d[0], 1, d[1], d[2]];
        (cx.reshape(cos, &dims), cx.reshape(sin, &dims))
    } else {
        let s = buffer.steps as u32;
        let numbers: Vec<i32> = (0..s as i32).collect();
        let mut at = cx.i32_constant(&[1, s], &numbers);
        if let Some(p) = buffer.past {
            let p = cx.reshape(p, &[buffer.batch as u32, 1]);
            at = if s == 1 { p } else { compose::add(cx, at, p) };
        }
        (super::rows(cx, 7, at, true)?, super::rows(cx, 8, at, true)?)
    };
    let interleaved = cx.attrs().int_or("rotary_interleaved", 0) != 0;
    Ok(Heads {
        q: rotary::rotate(cx, h.q, cos, sin, interleaved),
        k: rotary::rotate(cx, h.k, cos, sin, interleaved),
        v: h.v,
    })
}

/// The buffer of input `i` with this step's rows written into it.
fn stored(cx: &mut LowerCx<'_, '_>, buffer: &Buffer, new: TensorId, i: usize) -> Result<TensorId, Refusal> {
    let Some(past) = buffer.past else { return Ok(new) };
    let mut old = cx.input(i)?;
    let d = cx.dims(old);
    let (rows, have, steps) = (buffer.rows as u32, d[2], buffer.steps as u32);
    if rows > have {
        let dims = [d[0], d[1], rows - have, d[3]];
        let zeros = vec![0.0; dims.iter().product::<u32>() as usize];
        let rest = cx.float_constant(&dims, &zeros);
        old = compose::concat(cx, &[old, rest], 2);
    }
    if steps > rows {
        return Err(Refusal::form(format!("{steps} steps do not fit a buffer of {rows} rows")));
    }
    let numbers: Vec<i32> = (0..rows as i32).collect();
    let numbers = cx.i32_constant(&[1, 1, rows, 1], &numbers);
    if steps == 1 {
        let here = compose::compare(cx, "ElementWiseEqual", numbers, past);
        let wide = compose::expand(cx, new, &[d[0], d[1], rows, d[3]]);
        return Ok(compose::select(cx, here, wide, old));
    }
    if buffer.batch > 1 {
        return Err(Refusal::form(format!(
            "{steps} new rows for a batch of {}: each batch would write to rows of its own",
            buffer.batch
        ))
        .fix("compile for batch 1, or for one step at a time"));
    }
    // Row j of the result is row j - past of the new ones, as far as there is one.
    let offset = compose::sub(cx, numbers, past);
    let zero = cx.i32_constant(&[1], &[0]);
    let low = compose::binary(cx, "ElementWiseMaximum", offset, zero);
    let high = cx.i32_constant(&[1], &[steps as i32 - 1]);
    let index = compose::binary(cx, "ElementWiseMinimum", low, high);
    let inside = compose::compare(cx, "ElementWiseEqual", index, offset);
    let index = cx.reshape(index, &[rows]);
    let dtype = cx.qnn_type(new);
    let moved = cx.op_to("Gather", &[new, index], dtype, &[d[0], d[1], rows, d[3]], &[("axis", Param::i32(2))]);
    Ok(compose::select(cx, inside, moved, old))
}

/// Query `i` attends rows up to `past + i`, within the window.
fn mask(cx: &mut LowerCx<'_, '_>, buffer: &Buffer) -> Result<Mask, Refusal> {
    let (steps, rows) = (buffer.steps, buffer.rows);
    let window = cx.attrs().int_or("local_window_size", -1);
    let known = Known::all(steps, rows);
    let Some(past) = buffer.past else {
        let known = known.only(0, |p, j| j <= p && (window < 0 || (j as i64) > p as i64 - window))?;
        return Ok(Mask::new(cx, &known, &[]));
    };
    let ahead: Vec<i32> = (0..steps as i32).flat_map(|i| (0..rows as i32).map(move |j| j - i)).collect();
    let ahead = cx.i32_constant(&[1, 1, steps as u32, rows as u32], &ahead);
    let seen = compose::compare(cx, "ElementWiseLessEqual", ahead, past);
    let mut conditions = vec![ones(cx, seen)];
    if window >= 0 {
        let window = cx.i32_constant(&[1], &[i32::try_from(window).unwrap_or(i32::MAX)]);
        let end = compose::sub(cx, past, window);
        let near = compose::compare(cx, "ElementWiseGreater", ahead, end);
        conditions.push(ones(cx, near));
    }
    Ok(Mask::new(cx, &known, &conditions))
}
