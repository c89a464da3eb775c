//! The compiler's own graph, at the level of ONNX: it can be written back as ONNX, names, domains and attributes intact.
//!
//! Values and nodes live in arenas and are named by small ids that stay valid while the graph changes. Order, cycles and
//! reachability are asked of a petgraph view ([`Graph::topology`]).

mod attr;
mod dim;
mod dtype;
mod encoded;
mod graph;
mod tensor;

pub use attr::{Attr, Attrs};
pub use dim::{Dim, Expr, Shape, show_shape, static_shape};
pub use dtype::DataType;
pub use encoded::{Encoded, same_axis};
pub use graph::{CycleError, Graph, Node, NodeId, Origin, Value, ValueId};
pub use tensor::{Tensor, broadcast_indices, strides, transpose_bytes};

/// The type of a tensor value: element type and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    pub dtype: DataType,
    pub shape: Shape,
}

impl TensorType {
    pub fn new(dtype: DataType, shape: Shape) -> Self {
        Self { dtype, shape }
    }

    /// All dimensions as numbers, or `None` if one is symbolic.
    pub fn static_shape(&self) -> Option<Vec<usize>> {
        static_shape(&self.shape)
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.dtype, show_shape(&self.shape))
    }
}

/// What is known of a value's type.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ValueType {
    /// Nothing: behind an op that nobody knows, or of a kind that ONNX does not type.
    #[default]
    Unknown,
    Tensor(TensorType),
    /// A tensor of unknown rank.
    Unranked(DataType),
    /// A sequence, optional, map or sparse tensor; the text names it.
    Other(String),
}

impl ValueType {
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Self::Tensor(t) => Some(t),
            _ => None,
        }
    }

    pub fn dtype(&self) -> Option<DataType> {
        match self {
            Self::Tensor(t) => Some(t.dtype),
            Self::Unranked(d) => Some(*d),
            _ => None,
        }
    }
}
