//! The GRU cell.

use super::{Activation, Direction, Kind, Matrix, States, clipped, recur};
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

pub(super) const KIND: Kind = Kind { gates: 3, activations: &["Sigmoid", "Tanh"], bias_apart: reset_after, run };

/// Is the reset gate applied to the hidden gate's recurrent product (and not to the state that goes into it)?
fn reset_after(cx: &LowerCx<'_, '_>) -> bool {
    cx.attrs().int_or("linear_before_reset", 0) != 0
}

/// The weights of the recurrence.
enum Recurrent {
    /// One product serves all gates, and the hidden gate's is reset.
    After(Matrix),
    /// The reset state needs a product of its own.
    Before { gates: Matrix, hidden: Matrix },
}

/// Gates lie in the order update, reset, hidden. They are taken apart before their activations: a Split of a Sigmoid of
/// a sum comes out empty on the HTP.
fn run(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<States, Refusal> {
    let [f, g] = &d.activations[..] else {
        return Err(Refusal::form("a GRU has two activations"));
    };
    let n = d.hidden;
    let size = n as u32;
    let [gates, own] = compose::split(cx, d.z, 1, &[2 * size, size])[..] else {
        return Err(Refusal::form("a GRU has three gates"));
    };
    let (recurrent, gates) = if reset_after(cx) {
        // What is added to the product of all gates: for the hidden one, its recurrent bias.
        let rows = (d.steps * d.batch) as u32;
        let hidden = match d.apart {
            Some(bias) => {
                let bias = cx.reshape(bias, &[1, size]);
                compose::tile(cx, bias, &[rows, 1])
            }
            None => cx.float_constant(&[rows, size], &vec![0.0; d.steps * d.batch * n]),
        };
        (Recurrent::After(d.recurrent(cx, 0, 3 * n)?), compose::concat(cx, &[gates, hidden], 1))
    } else {
        let (gates_r, hidden) = (d.recurrent(cx, 0, 2 * n)?, d.recurrent(cx, 2 * n, 3 * n)?);
        (Recurrent::Before { gates: gates_r, hidden }, gates)
    };
    let gates = d.per_step(cx, gates);
    let own = d.per_step(cx, own);
    let mut h = d.h;
    let mut states = vec![];
    for (t, (gates, own)) in gates.into_iter().zip(own).enumerate() {
        let (update, candidate) = match &recurrent {
            Recurrent::After(r) => {
                let z = recur(cx, gates, h, *r);
                let parts = compose::split_evenly(cx, z, 1, 3);
                let reset = squash(cx, parts[1], f, d);
                let product = compose::mul(cx, reset, parts[2]);
                (parts[0], compose::add(cx, own, product))
            }
            Recurrent::Before { gates: r, hidden } => {
                let z = recur(cx, gates, h, *r);
                let parts = compose::split_evenly(cx, z, 1, 2);
                let kept = h.map(|h| {
                    let reset = squash(cx, parts[1], f, d);
                    compose::mul(cx, reset, h)
                });
                (parts[0], recur(cx, own, kept, *hidden))
            }
        };
        let update = squash(cx, update, f, d);
        let candidate = squash(cx, candidate, g, d);
        // update * h + (1 - update) * candidate
        let state = if let Some(h) = h {
            let step = compose::sub(cx, h, candidate);
            let kept = compose::mul(cx, update, step);
            compose::add(cx, candidate, kept)
        } else {
            let lost = compose::mul(cx, update, candidate);
            compose::sub(cx, candidate, lost)
        };
        let state = d.state(cx, t, state, h);
        states.push(state);
        h = Some(state);
    }
    Ok((states, None))
}

/// The activation of a gate's clipped input.
fn squash(cx: &mut LowerCx<'_, '_>, z: TensorId, f: &Activation, d: &Direction) -> TensorId {
    let z = clipped(cx, z, d.clip);
    f.apply(cx, z)
}
