//! The GRU cell.

use super::{Direction, Kind, Matrix, States, clipped, rows};
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

pub(super) const KIND: Kind = Kind { gates: 3, activations: &["Sigmoid", "Tanh"], run };

/// Gates lie in the order update, reset, hidden.
fn run(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<States, Refusal> {
    let after = cx.attrs().int_or("linear_before_reset", 0) != 0;
    let [f, g] = &d.activations[..] else {
        return Err(Refusal::form("a GRU has two activations"));
    };
    let n = d.hidden;
    let size = n as u32;
    // With the reset applied to the state itself, the hidden gate's product cannot be shared with the others'.
    let parts = if after { None } else { Some((rows(cx, 2, d.index, 0, 2 * n)?, rows(cx, 2, d.index, 2 * n, 3 * n)?)) };
    let bias = match d.recurrent_bias {
        Some(_) => Some([rows(cx, 3, d.index, 3 * n, 5 * n)?.tensor, rows(cx, 3, d.index, 5 * n, 6 * n)?.tensor]),
        None => None,
    };
    let mut h = d.h;
    let mut states = vec![];
    for (t, &z) in d.steps.iter().enumerate() {
        let pieces = compose::split(cx, z, 1, &[2 * size, size]);
        let (gates, own) = (pieces[0], pieces[1]);
        let (gates, hidden_product) = match (h, &parts) {
            (Some(h), None) => {
                let r = d.recurrent.apply(cx, h, d.recurrent_bias);
                let r = compose::split(cx, r, 1, &[2 * size, size]);
                (compose::add(cx, gates, r[0]), Some(r[1]))
            }
            (Some(h), Some((zr, _))) => {
                let r = zr.apply(cx, h, bias.map(|b| b[0]));
                (compose::add(cx, gates, r), None)
            }
            (None, _) => (plus(cx, gates, bias.map(|b| b[0])), if after { bias.map(|b| b[1]) } else { None }),
        };
        let gates = clipped(cx, gates, d.clip);
        let gates = f.apply(cx, gates);
        let gates = compose::split_evenly(cx, gates, 1, 2);
        let (update, reset) = (gates[0], gates[1]);
        let candidate = match (hidden_product, h, &parts) {
            (Some(product), _, _) => {
                let product = compose::mul(cx, reset, product);
                compose::add(cx, own, product)
            }
            (None, Some(h), Some((_, hidden))) => reset_first(cx, own, reset, h, *hidden, bias.map(|b| b[1])),
            _ => plus(cx, own, if after { None } else { bias.map(|b| b[1]) }),
        };
        let candidate = clipped(cx, candidate, d.clip);
        let candidate = g.apply(cx, candidate);
        let one = cx.float_scalar(1.0);
        let rest = compose::sub(cx, one, update);
        let fresh = compose::mul(cx, rest, candidate);
        let state = match h {
            Some(h) => {
                let kept = compose::mul(cx, update, h);
                compose::add(cx, fresh, kept)
            }
            None => fresh,
        };
        let state = d.state(cx, t, state, h);
        states.push(state);
        h = Some(state);
    }
    Ok((states, None))
}

/// `own + (reset * h) R^T + bias`
fn reset_first(
    cx: &mut LowerCx<'_, '_>,
    own: TensorId,
    reset: TensorId,
    h: TensorId,
    hidden: Matrix,
    bias: Option<TensorId>,
) -> TensorId {
    let kept = compose::mul(cx, reset, h);
    let r = hidden.apply(cx, kept, bias);
    compose::add(cx, own, r)
}

fn plus(cx: &mut LowerCx<'_, '_>, t: TensorId, bias: Option<TensorId>) -> TensorId {
    match bias {
        Some(b) => compose::add(cx, t, b),
        None => t,
    }
}
