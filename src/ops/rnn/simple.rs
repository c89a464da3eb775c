//! The plain recurrent cell.

use super::{Direction, Kind, clipped, recur};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

pub(super) const KIND: Kind = Kind { gates: 1, activations: &["Tanh"], run };

fn run(cx: &mut LowerCx<'_, '_>, d: &Direction) -> Result<(Vec<TensorId>, Option<TensorId>), Refusal> {
    let [f] = &d.activations[..] else {
        return Err(Refusal::form("an RNN has one activation"));
    };
    let mut h = d.h;
    let mut states = vec![];
    for &z in &d.steps {
        let z = recur(cx, z, h, d.recurrent);
        let z = clipped(cx, z, d.clip);
        let state = f.apply(cx, z);
        states.push(state);
        h = Some(state);
    }
    Ok((states, None))
}
