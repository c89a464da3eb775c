//! ONNX ops: one file per family, with shape inference, constant folding and lowering side by side.
//!
//! A family file exports `OPS`, one [`OpDef`] row per op; [`registry`] collects them. Adding an op means one row and its
//! functions. What a backend supports is not decided here: a lowering says which QNN ops compute the node, and the op
//! tables and the backend's validator say whether those are supported.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::ir::{DataType, Dim, Graph, Node, Shape, Tensor, TensorType, ValueType, show_shape};
use crate::lower::{LowerCx, Refusal};

mod activation;
mod attention;
mod bits;
mod cast;
mod causal_conv;
#[cfg(test)]
mod chains;
mod clip;
mod compare_logical;
pub(crate) mod compose;
mod concat_split;
mod control_flow;
mod conv;
mod conv_transpose;
mod cumulative;
mod deform_conv;
mod depth_space;
mod determinant;
mod edges;
mod einsum;
pub(crate) mod elementwise;
mod elementwise_binary;
mod elementwise_unary;
mod gather;
mod grid;
mod layer_norm;
mod linear_attention;
mod loss;
mod lrn;
mod machine_learning;
mod matmul;
mod misc;
mod movement;
mod ms_attention;
mod ms_fused;
mod ms_norm;
mod ms_quant;
mod nms_roi;
mod normalisation;
mod optimiser;
mod pad;
mod pool;
mod power;
mod quantize;
mod random;
mod range_onehot;
mod rearrange;
mod reduce;
mod registry;
mod reshape;
mod resize;
mod rnn;
mod sampling;
mod scatter;
mod shape_constant;
mod slice;
mod softmax;
mod spatial;
#[cfg(test)]
// Tests fail by panicking, and not every family uses every helper.
#[allow(dead_code, clippy::unwrap_used, clippy::panic)]
pub(crate) mod testing;
mod tile_expand;
mod topk_argmax;
mod transpose;
mod trigonometric;
mod where_;
mod window_dft;
mod word;

pub(crate) use edges::DOMAIN as EDGE_DOMAIN;

/// Shape inference of a node: sets the outputs of the context.
pub type InferFn = fn(&mut InferCx<'_>) -> Result<(), OpError>;
/// Evaluates a node whose inputs are all constants; one tensor per output. `None`: not evaluated at compile time.
pub type FoldFn = fn(&FoldCx<'_>) -> Option<Vec<Tensor>>;
/// Emits the QNN ops that compute a node, or says why not.
pub type LowerFn = fn(&mut LowerCx<'_, '_>) -> Result<(), Refusal>;

/// What the user should know about the form in which a node is computed, if there is something.
pub type RemarkFn = fn(&Graph, &Node) -> Option<String>;

/// One ONNX op.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// "" is ai.onnx.
    pub domain: &'static str,
    pub name: &'static str,
    pub infer: InferFn,
    pub fold: Option<FoldFn>,
    pub lower: Option<LowerFn>,
    pub remark: Option<RemarkFn>,
}

impl OpDef {
    /// A row of ai.onnx with inference only; add [`fold`](Self::fold) and [`lower`](Self::lower).
    pub const fn new(name: &'static str, infer: InferFn) -> Self {
        Self { domain: "", name, infer, fold: None, lower: None, remark: None }
    }

    /// A row of com.microsoft.
    pub const fn ms(name: &'static str, infer: InferFn) -> Self {
        let mut row = Self::new(name, infer);
        row.domain = "com.microsoft";
        row
    }

    pub const fn fold(mut self, fold: FoldFn) -> Self {
        self.fold = Some(fold);
        self
    }

    pub const fn lower(mut self, lower: LowerFn) -> Self {
        self.lower = Some(lower);
        self
    }

    pub const fn remark(mut self, remark: RemarkFn) -> Self {
        self.remark = Some(remark);
        self
    }
}

/// The row for an op; `None` for an op that nobody here knows.
pub fn find(domain: &str, name: &str) -> Option<&'static OpDef> {
    static INDEX: OnceLock<HashMap<(&str, &str), &OpDef>> = OnceLock::new();
    let domain = if domain == "ai.onnx" { "" } else { domain };
    INDEX.get_or_init(|| registry::all().map(|d| ((d.domain, d.name), d)).collect()).get(&(domain, name)).copied()
}

/// Every row, in the order of the registry.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    registry::all()
}

/// Why inference could not go on.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum OpError {
    /// The type of an input is not known (its producer is an op nobody knows, or its shape depends on data): the
    /// outputs are not either, and that is a consequence, not a cause.
    #[error("input {0} has no known type")]
    UnknownInput(usize),
    /// The shape of an output depends on the values of an input that are not known at compile time.
    #[error("{0}")]
    DataDependent(String),
    /// The node breaks the rules of its op: the model is wrong, not unsupported.
    #[error("{0}")]
    Invalid(String),
}

/// Shorthand for [`OpError::Invalid`].
pub fn invalid<T>(message: impl Into<String>) -> Result<T, OpError> {
    Err(OpError::Invalid(message.into()))
}

/// What inference found out about one output.
#[derive(Clone, Debug, Default)]
pub struct OutFact {
    pub ty: ValueType,
    /// Elements of a small integer tensor that holds shapes, as expressions.
    pub elements: Option<Vec<Dim>>,
}

/// What an op's shape inference sees and sets.
#[derive(Debug)]
pub struct InferCx<'a> {
    pub graph: &'a Graph,
    pub node: &'a Node,
    pub out: Vec<OutFact>,
}

impl<'a> InferCx<'a> {
    pub fn new(graph: &'a Graph, node: &'a Node) -> Self {
        Self { graph, node, out: vec![OutFact::default(); node.outputs.len()] }
    }

    /// Is input `i` given (not omitted)?
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    /// Type of input `i`; an error if it is omitted or not known.
    pub fn ty(&self, i: usize) -> Result<&'a TensorType, OpError> {
        let Some(v) = self.node.input(i) else {
            return invalid(format!("input {i} is required"));
        };
        self.graph.value(v).ty.tensor().ok_or(OpError::UnknownInput(i))
    }

    pub fn shape(&self, i: usize) -> Result<&'a Shape, OpError> {
        Ok(&self.ty(i)?.shape)
    }

    pub fn rank(&self, i: usize) -> Result<usize, OpError> {
        Ok(self.ty(i)?.shape.len())
    }

    /// Element type of input `i`; known for tensors of unknown rank, too.
    pub fn dtype(&self, i: usize) -> Result<DataType, OpError> {
        let Some(v) = self.node.input(i) else {
            return invalid(format!("input {i} is required"));
        };
        self.graph.value(v).ty.dtype().ok_or(OpError::UnknownInput(i))
    }

    /// The constant in input `i`, if it is one.
    pub fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph.value(self.node.input(i)?).data.as_ref()
    }

    /// The elements of integer input `i` as expressions, if they are known.
    pub fn elements(&self, i: usize) -> Option<Vec<Dim>> {
        let v = self.graph.value(self.node.input(i)?);
        match (&v.elements, &v.data) {
            (Some(e), _) => Some(e.clone()),
            (None, Some(t)) if t.len() <= 4096 => Some(t.to_i64s()?.into_iter().map(Dim::Known).collect()),
            _ => None,
        }
    }

    /// The elements of integer input `i` as numbers, if they are all known.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.elements(i)?.iter().map(Dim::known).collect()
    }

    /// The elements of input `i`, or the error that says that the output's shape depends on them.
    pub fn need_elements(&self, i: usize) -> Result<Vec<Dim>, OpError> {
        self.elements(i).ok_or_else(|| self.data_dependent(i))
    }

    /// The elements of input `i` as numbers, or the error that says that the output's shape depends on them.
    pub fn need_ints(&self, i: usize) -> Result<Vec<i64>, OpError> {
        self.ints(i).ok_or_else(|| self.data_dependent(i))
    }

    pub fn data_dependent(&self, i: usize) -> OpError {
        let name = self.node.input(i).map_or("(omitted)", |v| &self.graph.value(v).name);
        OpError::DataDependent(format!(
            "the shape of the output depends on the values of input {i}, {name:?}, which are not known at compile time"
        ))
    }

    /// An attribute `axis`, made non-negative for `rank`; an error if it is out of range.
    pub fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, OpError> {
        normalise_axis(self.node.attrs.int_or(name, default), rank)
            .map_err(|e| OpError::Invalid(format!("attribute {name}: {e}")))
    }

    /// Sets the type of output `i` (ignored if nobody asked for it).
    pub fn set(&mut self, i: usize, dtype: DataType, shape: Shape) {
        if let Some(o) = self.out.get_mut(i) {
            o.ty = ValueType::Tensor(TensorType::new(dtype, shape));
        }
    }

    /// Sets what is known of the elements of integer output `i`.
    pub fn set_elements(&mut self, i: usize, elements: Vec<Dim>) {
        if let Some(o) = self.out.get_mut(i) {
            o.elements = Some(elements);
        }
    }
}

/// `axis` in `-rank..rank` made non-negative.
pub fn normalise_axis(axis: i64, rank: usize) -> Result<usize, String> {
    let r = rank as i64;
    if (-r..r).contains(&axis) {
        Ok(if axis < 0 { axis + r } else { axis } as usize)
    } else {
        Err(format!("axis {axis} is outside the range -{r}..{r} of rank {rank}"))
    }
}

/// The shape that numpy broadcasting gives; an error names the two dimensions that do not fit.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Shape, OpError> {
    let rank = a.len().max(b.len());
    let at = |s: &[Dim], i: usize| {
        let missing = rank - s.len();
        if i < missing { Dim::Known(1) } else { s[i - missing].clone() }
    };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Ok(x),
            (x, y) if x.is_one() => Ok(y),
            (x, y) if y.is_one() => Ok(x),
            (Dim::Known(x), Dim::Known(y)) => {
                invalid(format!("shapes {} and {} do not broadcast: {x} against {y}", show_shape(a), show_shape(b)))
            }
            // A symbol against a number above 1: it must be that number, or 1 at run time; either way the result is it.
            (Dim::Known(n), Dim::Expr(_)) | (Dim::Expr(_), Dim::Known(n)) => Ok(Dim::Known(n)),
            (x, _) => Ok(x),
        })
        .collect()
}

/// What constant folding sees: every given input is a constant.
#[derive(Debug)]
pub struct FoldCx<'a> {
    pub graph: &'a Graph,
    pub node: &'a Node,
    /// Types of the outputs, as inferred.
    pub out: &'a [OutFact],
}

impl<'a> FoldCx<'a> {
    pub fn input(&self, i: usize) -> Option<&'a Tensor> {
        self.graph.value(self.node.input(i)?).data.as_ref()
    }

    /// Shape and element type of output `i`, if they are known and static.
    pub fn out_type(&self, i: usize) -> Option<(DataType, Vec<usize>)> {
        let t = self.out.get(i)?.ty.tensor()?;
        Some((t.dtype, t.static_shape()?))
    }
}
