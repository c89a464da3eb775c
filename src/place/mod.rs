//! Placement: which nodes run together on the NPU.

mod solve;
mod stages;

pub use solve::{Known, Placed, Solution, Validator, refused_by_validator, solve};
pub use stages::{Partition, partition};
