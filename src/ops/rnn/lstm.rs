//! The LSTM cell.

use super::{Activation, Direction, Kind, States, clipped, initial, recur, rows};
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

pub(super) const KIND: Kind = Kind { gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"], bias_apart: |_| false, run };

/// The peephole weights `[H]` for the input, output and forget gates.
struct Peepholes {
    input: TensorId,
    output: TensorId,
    forget: TensorId,
}

/// Gates lie in the order input, output, forget, cell. Clipping is applied to the inputs of the gates' activations and
/// not to that of the cell state's, as ONNX Runtime has it.
fn run(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<States, Refusal> {
    let layout = cx.attrs().int_or("layout", 0);
    let coupled = cx.attrs().int_or("input_forget", 0) != 0;
    let mut h = d.h;
    let mut c = initial(cx, 6, d.index, layout)?;
    let peepholes = peepholes(cx, d)?;
    let [f, g, act_h] = &d.activations[..] else {
        return Err(Refusal::form("an LSTM has three activations"));
    };
    let recurrent = d.recurrent(cx, 0, 4 * d.hidden)?;
    let mut states = vec![];
    for (t, z) in d.per_step(cx, d.z).into_iter().enumerate() {
        let z = recur(cx, z, h, recurrent);
        let parts = compose::split_evenly(cx, z, 1, 4);
        let weight = |of: fn(&Peepholes) -> TensorId| peepholes.as_ref().map(of);
        let input = gate(cx, parts[0], weight(|p| p.input).zip(c), d, f);
        let candidate = clipped(cx, parts[3], d.clip);
        let candidate = g.apply(cx, candidate);
        let fresh = compose::mul(cx, input, candidate);
        let cell = match c {
            Some(old) => {
                let forget = if coupled {
                    let one = cx.float_scalar(1.0);
                    compose::sub(cx, one, input)
                } else {
                    gate(cx, parts[2], weight(|p| p.forget).zip(c), d, f)
                };
                let kept = compose::mul(cx, forget, old);
                compose::add(cx, kept, fresh)
            }
            None => fresh,
        };
        let output = gate(cx, parts[1], weight(|p| p.output).map(|p| (p, cell)), d, f);
        let squashed = act_h.apply(cx, cell);
        let state = compose::mul(cx, output, squashed);
        let (state, cell) = (d.state(cx, t, state, h), d.state(cx, t, cell, c));
        states.push(state);
        (h, c) = (Some(state), Some(cell));
    }
    Ok((states, c))
}

/// `f(z + peephole * cell)`
fn gate(
    cx: &mut LowerCx<'_, '_>,
    z: TensorId,
    peephole: Option<(TensorId, TensorId)>,
    d: &Direction,
    f: &Activation,
) -> TensorId {
    let z = match peephole {
        Some((weight, cell)) => {
            let p = compose::mul(cx, cell, weight);
            compose::add(cx, z, p)
        }
        None => z,
    };
    let z = clipped(cx, z, d.clip);
    f.apply(cx, z)
}

fn peepholes(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<Option<Peepholes>, Refusal> {
    if !cx.has(7) || cx.constant(7).is_some_and(|t| t.uniform_f64() == Some(0.0)) {
        return Ok(None);
    }
    let n = d.hidden;
    Ok(Some(Peepholes {
        input: rows(cx, 7, d.index, 0, n)?.tensor,
        output: rows(cx, 7, d.index, n, 2 * n)?.tensor,
        forget: rows(cx, 7, d.index, 2 * n, 3 * n)?.tensor,
    }))
}
