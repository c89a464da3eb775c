//! The operator-placement report: its data model and its renderers.
//!
//! [`Placement`] holds everything that is said about one compile; it is saved as `placement.json`. Renderers are pure
//! functions of it, so a saved report renders the same as a fresh one, byte for byte.

mod bytes;
pub mod json;
pub mod markdown;
mod model;
pub mod text;

#[cfg(test)]
mod sample;

pub use bytes::{count, human_bytes};
pub use model::{
    Backend, Cut, Ddr, Evidence, Finding, Fix, Gate, Io, IoKind, Model, NodePlacement, OpsetImport, Partition,
    PartitionTensor, Placement, QnnOpRef, Rewrite, SCHEMA, Severity, Target, Tool, Totals,
};

/// Compares rendered text with a committed file; `QNNC_BLESS=1` writes the file instead.
#[cfg(test)]
pub(crate) fn golden(path: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("QNNC_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{} differs; run with QNNC_BLESS=1 to accept", path.display());
}
