//! The LSTM cell.

use super::{Direction, Kind, States, clipped, initial, recur, rows};
use crate::lower::{LowerCx, Refusal};
use crate::ops::compose;
use crate::qnn::graph::TensorId;

pub(super) const KIND: Kind = Kind { gates: 4, activations: &["Sigmoid", "Tanh", "Tanh"], run };

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
    let size = d.hidden as u32;
    let mut states = vec![];
    for (t, &z) in d.steps.iter().enumerate() {
        let z = recur(cx, z, h, d.recurrent);
        let (input, mut output, forget, candidate);
        if let Some(p) = &peepholes {
            let parts = compose::split_evenly(cx, z, 1, 4);
            output = parts[1];
            input = gate(cx, parts[0], p.input, c, d, f);
            forget = gate(cx, parts[2], p.forget, c, d, f);
            candidate = parts[3];
        } else {
            let parts = compose::split(cx, z, 1, &[3 * size, size]);
            let z = clipped(cx, parts[0], d.clip);
            let gates = f.apply(cx, z);
            let gates = compose::split_evenly(cx, gates, 1, 3);
            (input, output, forget) = (gates[0], gates[1], gates[2]);
            candidate = parts[1];
        }
        let candidate = clipped(cx, candidate, d.clip);
        let candidate = g.apply(cx, candidate);
        let fresh = compose::mul(cx, input, candidate);
        let cell = match c {
            Some(c) => {
                let forget = if coupled {
                    let one = cx.float_scalar(1.0);
                    compose::sub(cx, one, input)
                } else {
                    forget
                };
                let kept = compose::mul(cx, forget, c);
                compose::add(cx, kept, fresh)
            }
            None => fresh,
        };
        if let Some(p) = &peepholes {
            output = gate(cx, output, p.output, Some(cell), d, f);
        }
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
    peephole: TensorId,
    cell: Option<TensorId>,
    d: &Direction,
    f: &super::Activation,
) -> TensorId {
    let z = match cell {
        Some(c) => {
            let p = compose::mul(cx, c, peephole);
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
