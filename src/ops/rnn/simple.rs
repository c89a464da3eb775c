//! The plain recurrent cell.

use super::{Direction, Kind, States, clipped, recur};
use crate::lower::{LowerCx, Refusal};

pub(super) const KIND: Kind = Kind { gates: 1, activations: &["Tanh"], bias_apart: |_| false, run };

fn run(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<States, Refusal> {
    let [f] = &d.activations[..] else {
        return Err(Refusal::form("an RNN has one activation"));
    };
    let mut h = d.h;
    let recurrent = d.recurrent(cx, 0, d.hidden)?;
    let mut states = vec![];
    for (t, z) in d.per_step(cx, d.z).into_iter().enumerate() {
        let z = recur(cx, z, h, recurrent);
        let z = clipped(cx, z, d.clip);
        let state = f.apply(cx, z);
        let state = d.state(cx, t, state, h);
        states.push(state);
        h = Some(state);
    }
    Ok((states, None))
}
