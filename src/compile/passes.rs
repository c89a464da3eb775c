//! From a loaded model to a static, typed, legal graph.

use std::collections::BTreeMap;

use crate::Error;
use crate::compile::UserNode;
use crate::encodings::{Given, apply_to_activations, apply_to_constants};
use crate::finding::{Finding, codes};
use crate::infer::{
    Bindings, Inference, OneWay, Relation, UNROLL_LIMIT, backward, bind, derive, independent, infer,
    inline_constant_ifs, input_symbols, relations, select_between_branches, take_possible_branches, unroll_loops,
};
use crate::infer::{escaping_constants, expand_flex_attention, join_log_sum_exp};
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
    /// Nodes that would hand a constant beyond 16-bit floats on to an output.
    pub escaping: Vec<(NodeId, String)>,
    pub rewrites: Vec<rewrite::Event>,
    /// Dimensions that followed from others.
    pub findings: Vec<Finding>,
}

/// Binds dimensions, infers, folds, resolves control flow and rewrites.
///
/// # Errors
/// Bindings that do not fit or contradict each other, dimensions left free, and nodes that break the rules of their ops: all of them in one
/// message.
pub fn prepare_graph(model: Model, bindings: &Bindings, encodings: &[Given]) -> Result<Prepared, Error> {
    let user = super::placement::user_nodes(&model);
    let mut graph = model.graph;
    let open = (!input_symbols(&graph).is_empty()).then(|| graph.clone());
    let known = bind(&mut graph, bindings).map_err(|e| Error::input(e.to_string()))?;
    let free = input_symbols(&graph);
    let mut findings = vec![];
    if let Some(open) = open.as_ref().filter(|_| !free.is_empty()) {
        let related = related(open.clone())?;
        findings = bind_derived(&mut graph, &related, &known, &free)?;
        let free = input_symbols(&graph);
        if !free.is_empty() {
            typed(&mut graph)?;
            return Err(free_dims(&graph, &free, &related, &known));
        }
    }
    let found = typed(&mut graph).map_err(|e| match open {
        // Two dimensions that contradict each other are said by name.
        Some(open) => related(open).and_then(|r| contradiction(&r, &known)).err().unwrap_or(e),
        None => e,
    })?;
    findings.extend(found.one_way.iter().map(taken_branch));
    findings.extend(apply_to_constants(&mut graph, encodings));
    let rewrites = rewrite::rewrite(&mut graph, rewrite::ALL).map_err(|e| Error::input(e.to_string()))?;
    findings.extend(apply_to_activations(&mut graph, encodings));
    graph.remove_dead();
    let order = graph.topological_order().map_err(|e| Error::input(e.to_string()))?;
    let order = order.into_iter().filter(|id| !is_folded(&graph, *id)).collect();
    let data_dependent =
        found.data_dependent.into_iter().filter(|(id, _)| graph.nodes().any(|(n, _)| n == *id)).collect();
    let escaping = escaping_constants(&graph);
    Ok(Prepared { graph, order, user, data_dependent, escaping, rewrites, findings })
}

/// What inference of the open graph says about its dimensions.
fn related(mut open: Graph) -> Result<Vec<Relation>, Error> {
    infer(&mut open).map_err(|e| Error::input(e.to_string()))?;
    Ok(relations(&open))
}

fn contradiction(related: &[Relation], known: &BTreeMap<String, i64>) -> Result<(), Error> {
    derive(related, known, &std::collections::BTreeSet::new()).map(|_| ()).map_err(Error::input)
}

/// Binds what follows from the dimensions that are known; a note on each.
fn bind_derived(
    graph: &mut Graph,
    related: &[Relation],
    known: &BTreeMap<String, i64>,
    free: &[String],
) -> Result<Vec<Finding>, Error> {
    let found = derive(related, known, &free.iter().cloned().collect()).map_err(Error::input)?;
    let dims = found.iter().map(|d| (d.name.clone(), d.value)).collect();
    bind(graph, &Bindings { dims, shapes: vec![] }).map_err(|e| Error::input(e.to_string()))?;
    let note = |d: &crate::infer::Derived| {
        let (name, value) = (&d.name, d.value);
        let text = match d.relation.strip_prefix(&format!("{name} = ")) {
            Some(_) => format!("{} = {value}", d.relation),
            None => format!("{name} = {value}, since {}", d.relation),
        };
        Finding::note(codes::DERIVED, format!("{text}: node {} needs it", d.node))
    };
    Ok(found.iter().map(note).collect())
}

/// Infers and inlines constant Ifs until there is nothing left to inline.
fn typed(graph: &mut Graph) -> Result<Inference, Error> {
    let mut one_way = vec![];
    loop {
        let mut found = infer(graph).map_err(|e| Error::input(e.to_string()))?;
        if let Some(first) = found.errors.first() {
            let more = match found.errors.len() - 1 {
                0 => String::new(),
                n => format!(" (and {n} more such nodes)"),
            };
            return Err(Error::input(format!("{first}{more}")));
        }
        if inline_constant_ifs(graph)
            + unroll_loops(graph, UNROLL_LIMIT)
            + expand_flex_attention(graph)
            + join_log_sum_exp(graph)
            + select_between_branches(graph)
            > 0
        {
            continue;
        }
        let taken = take_possible_branches(graph);
        if !taken.is_empty() {
            one_way.extend(taken);
            continue;
        }
        if !backward(graph).map_err(|e| Error::input(e.to_string()))? {
            found.one_way = one_way;
            return Ok(found);
        }
    }
}

/// Says which branch is compiled, and what the other one breaks.
fn taken_branch(taken: &OneWay) -> Finding {
    let (kept, other) = match taken.taken {
        "then_branch" => ("then_branch", "else_branch"),
        _ => ("else_branch", "then_branch"),
    };
    Finding::warning(
        codes::ONE_WAY,
        format!(
            "only {kept} is compiled: with these shapes {other} cannot run ({}); a run whose condition asks for it fails \
             in ONNX Runtime, and is computed as {kept} here",
            taken.error
        ),
    )
    .at(&taken.node)
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

fn free_dims(graph: &Graph, free: &[String], related: &[Relation], known: &BTreeMap<String, i64>) -> Error {
    let inputs: Vec<String> = graph
        .inputs
        .iter()
        .map(|v| graph.value(*v))
        .filter_map(|v| v.ty.tensor().filter(|t| t.static_shape().is_none()).map(|t| format!("{:?} {t}", v.name)))
        .collect();
    let given = independent(related, known, free);
    let dims: Vec<String> = given.iter().map(|d| fix_for(graph, d)).collect();
    let mut help = format!("fix them: {}", distinct(dims).join(" "));
    if given.len() < free.len() {
        let follows = |r: &&Relation| {
            let named = [&r.left, &r.right].into_iter().flat_map(|d| d.symbols());
            named.into_iter().any(|s| free.iter().any(|f| f == s) && !given.iter().any(|g| g == s))
        };
        let texts: Vec<String> = related.iter().filter(follows).map(Relation::text).collect();
        help = format!("{help} (the rest follows: {})", distinct(texts).join(", "));
    }
    Error::input(format!("the NPU needs static shapes, and dimensions are left free: {}", inputs.join(", "))).help(help)
}
