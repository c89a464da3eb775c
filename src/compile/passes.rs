//! From a loaded model to a static, typed, legal graph.

use crate::Error;
use crate::compile::UserNode;
use crate::infer::{Bindings, Inference, UNROLL_LIMIT, bind, infer, inline_constant_ifs, input_symbols, unroll_loops};
use crate::ir::{Graph, NodeId};
use crate::onnx::Model;
use crate::rewrite;

/// A graph that can be placed.
#[derive(Debug)]
pub struct Prepared {
    pub graph: Graph,
    /// Nodes to be run, in topological order; nodes whose results are known at compile time are not among them.
    pub order: Vec<NodeId>,
    /// The user's nodes, in the model's order.
    pub user: Vec<UserNode>,
    /// Nodes whose output shape depends on data.
    pub data_dependent: Vec<(NodeId, String)>,
    pub rewrites: Vec<rewrite::Event>,
}

/// Binds dimensions, infers, folds, resolves control flow and rewrites.
///
/// # Errors
/// Bindings that do not fit, dimensions left free, and nodes that break the rules of their ops: all of them in one
/// message.
pub fn prepare_graph(model: Model, bindings: &Bindings) -> Result<Prepared, Error> {
    let user = super::placement::user_nodes(&model);
    let mut graph = model.graph;
    bind(&mut graph, bindings).map_err(|e| Error::input(e.to_string()))?;
    let free = input_symbols(&graph);
    let found = typed(&mut graph)?;
    if !free.is_empty() {
        return Err(free_dims(&graph, &free));
    }
    let rewrites = rewrite::rewrite(&mut graph, rewrite::ALL).map_err(|e| Error::input(e.to_string()))?;
    graph.remove_dead();
    let order = graph.topological_order().map_err(|e| Error::input(e.to_string()))?;
    let order = order.into_iter().filter(|id| !is_folded(&graph, *id)).collect();
    let data_dependent =
        found.data_dependent.into_iter().filter(|(id, _)| graph.nodes().any(|(n, _)| n == *id)).collect();
    Ok(Prepared { graph, order, user, data_dependent, rewrites })
}

/// Infers and inlines constant Ifs until there is nothing left to inline.
fn typed(graph: &mut Graph) -> Result<Inference, Error> {
    loop {
        let found = infer(graph).map_err(|e| Error::input(e.to_string()))?;
        if let Some(first) = found.errors.first() {
            let more = match found.errors.len() - 1 {
                0 => String::new(),
                n => format!(" (and {n} more such nodes)"),
            };
            return Err(Error::input(format!("{first}{more}")));
        }
        if inline_constant_ifs(graph) + unroll_loops(graph, UNROLL_LIMIT) == 0 {
            return Ok(found);
        }
    }
}

/// Are all outputs of the node known at compile time?
fn is_folded(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).outputs.iter().flatten().all(|v| graph.value(*v).data.is_some())
}

fn distinct(mut texts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    texts.retain(|t| seen.insert(t.clone()));
    texts
}

/// The flag that fixes a free dimension: one that the model does not name can only be fixed with its input's shape.
fn fix_for(graph: &Graph, dim: &str) -> String {
    for value in graph.inputs.iter().map(|v| graph.value(*v)) {
        let Some(ty) = value.ty.tensor() else { continue };
        if (0..ty.shape.len()).any(|axis| format!("{}.{axis}", value.name) == dim) {
            let shape: Vec<String> =
                ty.shape.iter().map(|d| d.known().map_or_else(|| "N".into(), |n| n.to_string())).collect();
            return format!("--input-shape {}:{}", value.name, shape.join(","));
        }
    }
    format!("--dim {dim}=N")
}

fn free_dims(graph: &Graph, free: &[String]) -> Error {
    let inputs: Vec<String> = graph
        .inputs
        .iter()
        .map(|v| graph.value(*v))
        .filter_map(|v| v.ty.tensor().filter(|t| t.static_shape().is_none()).map(|t| format!("{:?} {t}", v.name)))
        .collect();
    let dims: Vec<String> = free.iter().map(|d| fix_for(graph, d)).collect();
    Error::input(format!("the NPU needs static shapes, and dimensions are left free: {}", inputs.join(", ")))
        .help(format!("fix them: {}", distinct(dims).join(" ")))
}
