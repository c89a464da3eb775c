//! ONNX files: reading into the IR, and writing back.
//!
//! [`load`] maps the file and decodes it without copying a weight: tensors are slices of the map. It reads opsets from 7
//! on, every element type and every way to store elements (external data included), makes sparse initializers dense and
//! inlines model-local functions; ops that nobody knows are kept. What analysis can go on with becomes a finding; what
//! cannot be read is a [`LoadError`]. No bytes make it panic.

mod attr;
mod build;
mod error;
mod external;
mod function;
mod load;
pub mod map;
pub mod proto;
mod tensor;
mod types;
mod write;

pub use error::{Fault, LoadError};
pub use load::{Model, NEWEST_OPSET, OLDEST_OPSET, QuantAnnotation, decode, load, load_bytes};
pub use types::{TypeFault, type_text};
pub use write::{DataFile, Header, WriteError, encode, write};
