//! qnnc: puts ONNX models onto Qualcomm NPUs, and says why an op does not go there.
//!
//! ```text
//! ONNX bytes - onnx/ -> IR - infer -> typed, folded - rewrite -> legal ops - lower -> QNN ops
//!   - validate (worker, tables) -> verdicts - place -> partitions - prepare (worker, FFI) -> .bin - emit -> bundle
//! ```
//!
//! Invariants, for whoever changes this tomorrow:
//! - The vendor's libraries never run in this process: see [`qnn`]. A crash there is an error here.
//! - Only a graph that went through inference is lowered, and only QNN ops that were validated are prepared.
//! - Weights are slices of the mapped file until they are written for the worker.
//! - Same input, same bytes out: nothing printed or emitted iterates a hash map.
//! - The bundle appears whole or not at all.

pub mod compile;
pub mod emit;
pub mod encodings;
pub mod error;
pub mod finding;
pub mod infer;
pub mod inspect;
pub mod ir;
pub mod lower;
pub mod onnx;
pub mod ops;
pub mod options;
pub mod place;
pub mod progress;
pub mod qnn;
pub mod report;
pub mod rewrite;
pub mod sdk;
pub mod tables;
pub mod verdict;
pub mod verify;

pub use error::Error;
