//! Lowering: from typed ONNX nodes to QNN ops, with the layout of every tensor decided on the way.
//!
//! A value may exist in several layouts at once; a lowering asks for the one it needs, and a Transpose is made only if
//! no copy of that layout exists. An ONNX Transpose costs nothing by itself: it renames axes. So transposes cancel by
//! construction, and the layout that spatial ops want flows through everything that does not care.
//!
//! A lowering either succeeds, or its traces are taken back and the node is left to another backend with a reason.

mod absorb;
mod activated_splits;
mod bias;
mod coding;
mod context;
mod faults;
mod layout;
mod regroup;
mod session;
mod shuffle;
mod wide_pads;

pub use coding::Coding;
pub use context::LowerCx;
pub use layout::{Layout, keeps_order};
pub use regroup::{gathering_layouts, reshaped_layout};
pub use session::{Lowering, Target};

use crate::verdict::{Reason, codes};

/// Why a node was not lowered: at least one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal(pub Vec<Reason>);

impl Refusal {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self(vec![Reason::new(code, message)])
    }

    /// The form of the op (attributes, optional inputs) has no exact QNN equivalent.
    pub fn form(message: impl Into<String>) -> Self {
        Self::new(codes::FORM, message)
    }

    /// What would be emitted runs into a known fault of the vendor's library (its id in `op-tables/faults.json`).
    pub fn fault(id: &str, message: impl Into<String>) -> Self {
        let mut r = Self::new(codes::VENDOR_FAULT, message);
        r.0[0].source = crate::tables::faults::find(id)
            .map(|f| format!("op-tables/faults.json, {}: QAIRT {}", f.id, f.sdk.join(", ")));
        r
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        if let Some(last) = self.0.last_mut() {
            last.fix = Some(fix.into());
        }
        self
    }
}
