//! Inference: types, shapes, and every value that can be computed at compile time.
//!
//! One forward pass in topological order. It never stops at the first problem: what a node breaks of its op's rules is
//! collected, and what stands behind an unknown op stays untyped.

mod backward;
mod bind;
mod edges;
mod flex;
mod infinite;
mod inline;
mod log_sum_exp;
mod relate;
mod select;
mod splice;
mod unroll;

pub use backward::backward;
pub use bind::{BindError, Bindings, bind, input_symbols};
pub use edges::packed_edges;
pub use flex::expand_flex_attention;
pub use infinite::{constant_within, escaping_constants};
pub use inline::inline_constant_ifs;
pub use log_sum_exp::join_log_sum_exp;
pub use relate::{Derived, Relation, derive, independent, relations};
pub use select::{OneWay, select_between_branches, take_possible_branches};
pub(crate) use unroll::bind_captures;
pub use unroll::{UNROLL_LIMIT, unroll_loops};

use crate::ir::{DataType, Dim, Graph, NodeId, Tensor, TensorType, ValueType};
use crate::ops::{self, FoldCx, InferCx, OpError, OutFact};

/// Constants larger than this are not computed at compile time unless they are no larger than the inputs together.
const FOLD_LIMIT: usize = 16 << 20;

/// A node that breaks the rules of its op: the model is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("node {node:?} ({op}): {message}")]
pub struct NodeError {
    pub node: String,
    pub op: String,
    pub message: String,
}

/// What inference found, apart from the types that it wrote into the graph.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    /// Nodes that break the rules of their op.
    pub errors: Vec<NodeError>,
    /// Nodes whose output shape depends on data, with the reason: the roots of what stays untyped behind them.
    pub data_dependent: Vec<(NodeId, String)>,
    /// Ifs of which only one branch can run with these shapes; it stands in their place.
    pub one_way: Vec<OneWay>,
}

/// Infers the whole graph. The graph must have no cycle.
pub fn infer(graph: &mut Graph) -> Result<Inference, crate::ir::CycleError> {
    let mut found = Inference::default();
    for v in graph.inputs.clone() {
        let value = graph.value_mut(v);
        if value.data.is_none() {
            value.data = empty(&value.ty);
        }
    }
    for id in graph.topological_order()? {
        node(graph, id, &mut found);
    }
    Ok(found)
}

/// Infers the outputs of one node, and their values where they are known.
///
/// # Errors
/// The node breaks the rules of its op, or is of an op that nobody knows.
pub(crate) fn infer_node(graph: &mut Graph, id: NodeId) -> Result<(), String> {
    let mut found = Inference::default();
    let op = graph.node(id).op_name();
    node(graph, id, &mut found);
    if let Some(e) = found.errors.first() {
        return Err(e.message.clone());
    }
    let typed = graph.node(id).outputs.iter().flatten().all(|v| graph.value(*v).ty.dtype().is_some());
    if typed { Ok(()) } else { Err(format!("the result of {op} has no type")) }
}

fn node(graph: &mut Graph, id: NodeId, found: &mut Inference) {
    let node = graph.node(id);
    let Some(def) = ops::find(&node.domain, &node.op_type) else { return };
    let mut cx = InferCx::new(graph, node);
    let done = (def.infer)(&mut cx);
    let facts = match done {
        Ok(()) => cx.out,
        Err(OpError::UnknownInput(_)) => return,
        Err(OpError::DataDependent(why)) => {
            found.data_dependent.push((id, why));
            return;
        }
        Err(OpError::Invalid(message)) => {
            found.errors.push(NodeError { node: node.name.clone(), op: node.op_name(), message });
            return;
        }
    };
    let folded = fold(graph, id, def, &facts);
    let outputs = graph.node(id).outputs.clone();
    for (slot, (out, fact)) in outputs.iter().zip(facts).enumerate() {
        let Some(v) = *out else { continue };
        let data = match &folded {
            Some(t) => t.get(slot).cloned(),
            None => from_elements(&fact),
        };
        let value = graph.value_mut(v);
        if fact.ty != ValueType::Unknown {
            value.ty = merge(&value.ty, fact.ty);
        }
        if let Some(t) = data.or_else(|| empty(&value.ty)) {
            let shape = t.shape().iter().map(|&d| d.into()).collect();
            value.ty = ValueType::Tensor(TensorType::new(t.dtype(), shape));
            value.data = Some(t);
        }
        value.elements = fact.elements;
    }
}

/// What is inferred wins; a declared number replaces an inferred symbol that nobody else can resolve.
fn merge(declared: &ValueType, inferred: ValueType) -> ValueType {
    match (declared.tensor(), inferred) {
        (Some(d), ValueType::Tensor(mut t)) if d.shape.len() == t.shape.len() => {
            for (known, dim) in d.shape.iter().zip(&mut t.shape) {
                if matches!(dim, Dim::Expr(_)) && matches!(known, Dim::Known(_)) {
                    *dim = known.clone();
                }
            }
            ValueType::Tensor(t)
        }
        (Some(d), ValueType::Unranked(dtype)) if d.dtype == dtype => declared.clone(),
        (_, inferred) => inferred,
    }
}

/// The value of a tensor without elements: it is known before anything runs.
fn empty(ty: &ValueType) -> Option<Tensor> {
    let ty = ty.tensor()?;
    let shape = ty.static_shape()?;
    if !shape.contains(&0) || ty.dtype == DataType::String {
        return None;
    }
    Tensor::from_raw(ty.dtype, shape, bytes::Bytes::new())
}

/// Shape arithmetic whose elements all turned out to be numbers is a constant.
fn from_elements(fact: &OutFact) -> Option<Tensor> {
    let ty = fact.ty.tensor()?;
    let shape = ty.static_shape()?;
    let values: Vec<i128> = fact.elements.as_ref()?.iter().map(|d| d.known().map(i128::from)).collect::<Option<_>>()?;
    let fits = ty.dtype.is_int() || ty.dtype == DataType::Bool;
    if !fits || values.len() != shape.iter().product::<usize>() {
        return None;
    }
    Tensor::from_i128(ty.dtype, shape, &values)
}

fn fold(graph: &Graph, id: NodeId, def: &ops::OpDef, facts: &[OutFact]) -> Option<Vec<Tensor>> {
    let evaluate = def.fold?;
    let node = graph.node(id);
    let mut budget = FOLD_LIMIT;
    // Of its second input, CastLike reads the type alone; EyeLike reads the shape of its first.
    let unread = match node.op_type.as_str() {
        "CastLike" => node.input(1).filter(|&v| node.input(0) != Some(v)),
        "EyeLike" => node.input(0),
        _ => None,
    };
    for v in node.reads().filter(|v| Some(*v) != unread) {
        let data = graph.value(v).data.as_ref()?;
        budget = budget.max(if data.splat_element().is_some() { 0 } else { data.byte_len() });
    }
    // What these give costs nothing until it is written out.
    let splat = node.is("ConstantOfShape") || node.op_type == "DequantizeLinear";
    for fact in facts {
        if let Some(t) = fact.ty.tensor()
            && let Some(shape) = t.static_shape()
            && !splat
            && shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d)).is_none_or(|n| t.dtype.bytes_for(n) > budget)
        {
            return None;
        }
    }
    let out = evaluate(&FoldCx { graph, node, out: facts })?;
    (out.len() >= node.outputs.iter().filter(|o| o.is_some()).count()).then_some(out)
}
