//! Findings: what was noticed about a model on the way, as data. `report` and `lint` render them.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing to do.
    Note,
    /// Worth a look: the result may not be what the author meant.
    Warning,
    /// Wrong; the result cannot be relied on.
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `QNNxxx`; see [`codes`].
    pub code: &'static str,
    pub severity: Severity,
    /// One sentence that names the thing and the values.
    pub message: String,
    /// The node it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { code, severity, message: message.into(), node: None, fix: None }
    }

    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, message)
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    pub fn at(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity.name(), self.code, self.message)?;
        if let Some(node) = &self.node {
            write!(f, " (node {node})")?;
        }
        if let Some(fix) = &self.fix {
            write!(f, "; {fix}")?;
        }
        Ok(())
    }
}

/// The codes of findings about a model. A code is never used twice.
pub mod codes {
    /// 64-bit integers are computed with in 32 bits.
    pub const NARROWED: &str = "QNN112";
    /// A dimension was derived from others.
    pub const DERIVED: &str = "QNN302";
    /// Only one branch of an If can run with the given shapes.
    pub const ONE_WAY: &str = "QNN303";
    /// A node between quantised values that the NPU computes in real numbers.
    pub const REAL_ISLAND: &str = "QNN401";
    /// A file of encodings names a tensor that is not there.
    pub const ENCODING_UNUSED: &str = "QNN402";
    /// A file of encodings names a tensor that the model quantises itself.
    pub const ENCODING_CONFLICT: &str = "QNN403";
    /// An encoding that the NPU does not have, or that does not fit the tensor.
    pub const ENCODING_UNUSABLE: &str = "QNN404";
    /// An op is computed in a form that its text does not show.
    pub const FORM: &str = "QNN501";
    /// The model imports an opset newer than this build knows.
    pub const NEW_OPSET: &str = "QNN910";
    /// A node is of a domain whose version the model does not import.
    pub const NO_IMPORT: &str = "QNN911";
    /// A graph input has an initializer and was made a constant.
    pub const INPUT_DEFAULT: &str = "QNN912";
    /// The IR version is newer than this build knows.
    pub const NEW_IR: &str = "QNN913";
    /// Training or multi-device parts of the model were left out.
    pub const LEFT_OUT: &str = "QNN914";
    /// Two nodes have one name; one was renamed.
    pub const NODE_NAME: &str = "QNN915";
    /// A model-local function is written for another opset version than the model.
    pub const FUNCTION_OPSET: &str = "QNN916";
    /// A declared type could not be read.
    pub const TYPE_HINT: &str = "QNN917";
    /// A part of the model is given twice and the copies differ.
    pub const REPEATED: &str = "QNN918";
}
