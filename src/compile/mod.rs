//! `qnnc compile`: the whole way from an ONNX file to a bundle.

mod causes;
mod fixes;
mod htp;
mod passes;
mod placement;
mod session;

pub use htp::Htp;
pub use passes::{Prepared, prepare_graph};
pub use placement::UserNode;
pub use session::{Outcome, run};
