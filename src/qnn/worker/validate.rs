//! Asks the backend's validator about ops.

use super::ffi::{Level, Vendor, take_log};
use super::marshal::{Op, Store, tensor};
use super::state::{Fault, Tracker};
use crate::qnn::protocol::{Cause, OpVerdict, Stage, WireGraph};

/// Verdicts of the ops named by `indices`, handed to `sink` in portions: what is sent survives a crash.
pub fn validate(
    vendor: &Vendor,
    wire: &WireGraph,
    indices: &[u32],
    tracker: &mut Tracker,
    sink: &mut dyn FnMut(Vec<OpVerdict>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    const PORTION: usize = 64;
    let mut store = Store::default();
    let tensors = wire.tensors.iter().map(|t| tensor(&mut store, t)).collect::<Result<Vec<_>, _>>()?;
    for portion in indices.chunks(PORTION) {
        let mut verdicts = Vec::with_capacity(portion.len());
        for &index in portion {
            let op = wire.ops.get(index as usize).ok_or_else(|| Fault::request(format!("there is no op {index}")))?;
            tracker.at(Stage::Validating, 0, index as usize);
            let mut raw = Op::new(op, &tensors)?;
            take_log();
            let code = match vendor.validate(&mut raw) {
                Ok(()) => 0,
                Err(e) => e.code().ok_or_else(|| Fault::from(e))?,
            };
            let messages = if code == 0 { Vec::new() } else { errors() };
            verdicts.push(OpVerdict { code: u64::from(code), messages, cause: Cause::Validator });
        }
        sink(verdicts)?;
    }
    Ok(())
}

/// Error lines since the last reading.
fn errors() -> Vec<String> {
    take_log().into_iter().filter(|(level, line)| *level == Level::Error && !line.is_empty()).map(|(_, l)| l).collect()
}
