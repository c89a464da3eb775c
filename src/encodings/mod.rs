//! Quantisation encodings from a file, for a float model: what AIMET exports (0.6.1 and 1.0.0) and the SDK's overrides.
//!
//! An activation's encoding puts QuantizeLinear and DequantizeLinear behind the tensor; a parameter's rounds the constant
//! to integers. What the file names and the model does not have, or has quantised already, is a finding.

mod apply;
mod parse;

pub use apply::{apply_to_activations, apply_to_constants};
pub use parse::load;

/// The encoding of one tensor: `real = (code - zero) * scale`, codes from 0 to `2^bits - 1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub name: String,
    /// An activation, or a constant.
    pub activation: bool,
    pub bits: u32,
    /// One, or one for each output channel.
    pub scales: Vec<f32>,
    /// As many as there are scales.
    pub zeros: Vec<i64>,
}
