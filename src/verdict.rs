//! Verdicts: why an op does or does not run somewhere. Reasons are data, rendered by `report`.

use serde::{Deserialize, Serialize};

/// One reason why a node does not run on a backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// `QNN1xx`; see [`codes`].
    pub code: String,
    /// One sentence that names the thing and the values.
    pub message: String,
    /// The QNN op that was refused, if it got that far.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qnn_op: Option<String>,
    /// The operand or parameter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operand: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub required: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<String>,
    /// Where the constraint comes from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

impl Reason {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), ..Self::default() }
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub fn expected(mut self, required: impl Into<String>, found: impl Into<String>) -> Self {
        self.required = Some(required.into());
        self.found = Some(found.into());
        self
    }
}

/// The codes of reasons. A code is never used twice.
pub mod codes {
    /// qnnc has no lowering for this op.
    pub const NO_LOWERING: &str = "QNN101";
    /// Nobody here knows the op.
    pub const UNKNOWN_OP: &str = "QNN102";
    /// The form of the op (attributes, optional inputs) has no exact QNN equivalent.
    pub const FORM: &str = "QNN103";
    /// A datatype that the backend does not hold.
    pub const DTYPE: &str = "QNN104";
    /// The rank is over the backend's limit.
    pub const RANK: &str = "QNN105";
    /// The backend's own validator refused a QNN op.
    pub const VALIDATOR: &str = "QNN106";
    /// An input that must be a compile-time constant is not one.
    pub const NOT_CONSTANT: &str = "QNN107";
    /// An int64 value does not fit int32.
    pub const INT64: &str = "QNN108";
    /// A dimension of size 0.
    pub const ZERO_SIZE: &str = "QNN109";
    /// A known fault of the vendor's library: it would crash or give wrong numbers.
    pub const VENDOR_FAULT: &str = "QNN110";
    /// The op is only expressible by an approximation that was not allowed.
    pub const APPROXIMATE: &str = "QNN111";
    /// The node stands behind one that is not on the NPU, or its types are unknown because of one.
    pub const CONSEQUENCE: &str = "QNN201";
    /// A partition that is not worth its hand-overs.
    pub const NOT_WORTH: &str = "QNN202";
    /// The user pinned or banned it.
    pub const PINNED: &str = "QNN203";
    /// A shape depends on data.
    pub const DATA_DEPENDENT: &str = "QNN301";
}
