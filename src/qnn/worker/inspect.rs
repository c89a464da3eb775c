//! Describes a context binary.

use std::fs::File;
use std::path::Path;

use super::ffi::{Mapped, System};
use super::state::Fault;
use crate::qnn::protocol::BinaryInfo;

/// Maps a whole binary.
pub fn open(binary: &Path) -> Result<Mapped, Fault> {
    let failed = |e: std::io::Error| Fault::file(&format!("reading {}", binary.display()), &e);
    let file = File::open(binary).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    Mapped::part(&file, 0, len).map_err(failed)
}

/// Reads the description of a mapped binary; `binary` is its name for messages.
pub fn describe(system: &System, mapped: &Mapped, binary: &Path) -> Result<BinaryInfo, Fault> {
    let not_one = || Fault::request(format!("{} is not a context binary", binary.display()));
    if mapped.bytes().len() < 64 {
        return Err(not_one());
    }
    let info = system.binary_info(mapped.bytes()).map_err(|e| match e.code() {
        // Not a binary, or a damaged one.
        Some(30001 | 30010) => not_one(),
        _ => Fault::from(e).about(&binary.display().to_string()),
    })?;
    if info.graphs.is_empty() && info.build_id.is_empty() {
        return Err(not_one());
    }
    Ok(info)
}
