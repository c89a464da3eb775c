//! What a compile leaves behind: the EPContext model over the context binary, the manifest, and the bundle that holds
//! all files.
//!
//! The bundle appears whole or not at all, and what it held before of the same model goes with the same step.

mod bundle;
mod epcontext;
mod manifest;

#[cfg(test)]
mod bundle_tests;
#[cfg(test)]
mod epcontext_tests;

pub use bundle::{Bundle, FileEntry, hash_file};
pub use epcontext::{ContextModel, EmitError, EpPartition, ir_version};
pub use manifest::{Manifest, ManifestPartition, SourceFile, Wire};
