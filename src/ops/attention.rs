use super::OpDef;

/// The rows of this family.
pub const OPS: &[OpDef] = &[];
