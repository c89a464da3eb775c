//! Rewrites of the graph: one file per rewrite, collected in [`ALL`].
//!
//! A rewrite looks at one node (the root of its pattern) and answers with a [`Patch`], with a refusal that says why a
//! near miss was left alone, or with nothing. A patch is type-checked before it is spliced in: a value is only ever
//! replaced by one of the same type and shape. Names of untouched nodes and of the graph's inputs and outputs stay.

mod affine;
mod conv_affine;
mod dequantise_early;
mod dynamic_lstm;
mod dynamic_product;
mod gelu_erf;
mod group_norm;
mod hard_swish;
mod merge_affine;
mod no_effect;
mod norm;
mod pattern;
mod qoperator;
mod safe_softmax;
mod softplus_mish;
#[cfg(test)]
mod testing;

pub use pattern::Pattern;

use crate::infer::infer_node;
use crate::ir::{Attr, CycleError, Graph, Node, NodeId, Origin, Tensor, Value, ValueId};

/// How faithful a rewrite is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Bit-equal, or within 2 ulp of the original order of operations.
    Exact,
    /// Within the bound that the rewrite's documentation states.
    Tolerance,
}

/// What a rewrite says about a node.
#[derive(Debug)]
pub enum Outcome {
    /// Not the pattern.
    NoMatch,
    /// Looks like the pattern and is not: why.
    Refused(String),
    Matched(Patch),
    /// The node stays, its outputs too, and is another op.
    Respelt(NewNode),
}

#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// Names the rewrite in the provenance of nodes and in reports.
    pub name: &'static str,
    pub class: Class,
    pub look: fn(&Pattern<'_>, NodeId) -> Outcome,
}

/// Every rewrite, in the order in which they are tried.
pub const ALL: &[Rewrite] = &[
    qoperator::REWRITE,
    dynamic_product::REWRITE,
    dynamic_lstm::REWRITE,
    dequantise_early::REWRITE,
    no_effect::REWRITE,
    gelu_erf::REWRITE,
    hard_swish::REWRITE,
    softplus_mish::SOFTPLUS,
    softplus_mish::MISH,
    norm::REWRITE,
    group_norm::FUSE,
    group_norm::AFFINE,
    safe_softmax::REWRITE,
    conv_affine::REWRITE,
    merge_affine::REWRITE,
];

/// An input of a new node.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A value that the graph has.
    Value(ValueId),
    /// Output 0 of an earlier node of the patch.
    New(usize),
    /// A new constant.
    Constant(Tensor),
    /// An optional input that is not given.
    Omitted,
}

/// A node to be.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub domain: &'static str,
    pub op_type: &'static str,
    pub version: i64,
    pub inputs: Vec<Operand>,
    pub attrs: Vec<(&'static str, Attr)>,
}

/// Nodes that take the place of others.
#[derive(Clone, Debug)]
pub struct Patch {
    /// In topological order; each has one output.
    pub nodes: Vec<NewNode>,
    /// The value that the last node's output replaces.
    pub replaces: ValueId,
    /// The matched nodes, for the provenance of the new ones.
    pub covers: Vec<NodeId>,
}

/// One thing that happened, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub rewrite: &'static str,
    pub applied: bool,
    /// Names of the user's nodes that were matched.
    pub nodes: Vec<String>,
    /// Why it was not applied; empty if it was.
    pub message: String,
}

/// Applies rewrites to a fixed point. A typed graph stays one.
pub fn rewrite(graph: &mut Graph, rewrites: &[Rewrite]) -> Result<Vec<Event>, CycleError> {
    let mut events: Vec<Event> = vec![];
    graph.remove_dead();
    // The bound is against a pair of rewrites that undo each other.
    for _ in 0..16 {
        let mut changed = false;
        for r in rewrites {
            changed |= one(graph, r, &mut events)?;
        }
        if !changed {
            break;
        }
    }
    graph.remove_dead();
    Ok(events)
}

fn one(graph: &mut Graph, r: &Rewrite, events: &mut Vec<Event>) -> Result<bool, CycleError> {
    let mut changed = false;
    let mut consumers = graph.consumers();
    for id in graph.topological_order()? {
        if graph.get(id).is_none() {
            continue;
        }
        match (r.look)(&Pattern::new(graph, &consumers), id) {
            Outcome::NoMatch => {}
            Outcome::Refused(message) => {
                let event = Event { rewrite: r.name, applied: false, nodes: origin_names(graph, &[id]), message };
                if !events.contains(&event) {
                    events.push(event);
                }
            }
            Outcome::Respelt(new) => {
                let nodes = origin_names(graph, &[id]);
                respell(graph, r.name, id, &new);
                consumers = graph.consumers();
                let message = match infer_node(graph, id) {
                    Ok(()) => String::new(),
                    Err(why) => why,
                };
                changed = true;
                events.push(Event { rewrite: r.name, applied: message.is_empty(), nodes, message });
            }
            Outcome::Matched(patch) => {
                let nodes = origin_names(graph, &patch.covers);
                let done = splice(graph, r.name, &patch);
                let message = match done {
                    Ok(made) => {
                        changed = true;
                        settle(graph, &mut consumers, &patch, &made);
                        String::new()
                    }
                    Err(why) => {
                        graph.remove_dead();
                        consumers = graph.consumers();
                        why
                    }
                };
                events.push(Event { rewrite: r.name, applied: message.is_empty(), nodes, message });
            }
        }
    }
    Ok(changed)
}

/// Brings `consumers` up to date after a patch and removes the covered nodes that nobody needs any more.
fn settle(graph: &mut Graph, consumers: &mut Vec<Vec<(NodeId, usize)>>, patch: &Patch, made: &[NodeId]) {
    consumers.resize(graph.values().count(), vec![]);
    for id in made {
        for (slot, v) in graph.node(*id).inputs.iter().enumerate() {
            if let Some(v) = v {
                consumers[v.0 as usize].push((*id, slot));
            }
        }
    }
    let new = made.last().and_then(|id| graph.node(*id).output(0));
    let moved = std::mem::take(&mut consumers[patch.replaces.0 as usize]);
    if let Some(new) = new {
        graph.redirect(patch.replaces, new, &moved);
        consumers[new.0 as usize].extend(moved);
    }
    let mut gone = true;
    while std::mem::take(&mut gone) {
        for id in &patch.covers {
            let Some(node) = graph.get(*id) else { continue };
            let needed = |v: &ValueId| !consumers[v.0 as usize].is_empty() || graph.outputs.contains(v);
            if node.outputs.iter().flatten().any(needed) {
                continue;
            }
            let Some(node) = graph.remove_node(*id) else { continue };
            for v in node.reads() {
                consumers[v.0 as usize].retain(|(n, _)| n != id);
            }
            gone = true;
        }
    }
}

fn origin_names(graph: &Graph, nodes: &[NodeId]) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for name in nodes.iter().flat_map(|id| graph.node(*id).user_nodes()) {
        if !names.iter().any(|n| n == name) {
            names.push(name.into());
        }
    }
    names
}

/// Adds the patch's nodes, the last of which makes what is to replace the old value. Nobody reads it yet.
fn splice(graph: &mut Graph, name: &'static str, patch: &Patch) -> Result<Vec<NodeId>, String> {
    let old = graph.value(patch.replaces).clone();
    let mut rewrites: Vec<&'static str> = vec![];
    for r in patch.covers.iter().flat_map(|id| &graph.node(*id).origin.rewrites).chain([&name]) {
        if !rewrites.contains(r) {
            rewrites.push(r);
        }
    }
    let origin = Origin { nodes: origin_names(graph, &patch.covers), rewrites };
    let mut made: Vec<ValueId> = vec![];
    let mut nodes: Vec<NodeId> = vec![];
    for new in &patch.nodes {
        let mut inputs = vec![];
        for operand in &new.inputs {
            inputs.push(match operand {
                Operand::Value(v) => Some(*v),
                Operand::New(i) => Some(*made.get(*i).ok_or("a patch reads a node that comes later")?),
                Operand::Constant(t) => Some(graph.add_constant(&format!("{}.c", old.name), t.clone())),
                Operand::Omitted => None,
            });
        }
        let out = graph.add_value(Value { name: format!("{}.{name}", old.name), ..Value::default() });
        let mut node = Node {
            name: format!("{}/{name}.{}", origin.nodes.first().map_or("", String::as_str), made.len()),
            domain: new.domain.into(),
            op_type: new.op_type.into(),
            version: new.version,
            inputs,
            outputs: vec![Some(out)],
            origin: origin.clone(),
            ..Node::default()
        };
        for (k, v) in &new.attrs {
            node.attrs.set(*k, v.clone());
        }
        let id = graph.add_node(node);
        infer_node(graph, id)?;
        made.push(out);
        nodes.push(id);
    }
    let last = *made.last().ok_or("an empty patch")?;
    if graph.value(last).ty != old.ty {
        return Err(format!("the result would be {:?} instead of {:?}", graph.value(last).ty, old.ty));
    }
    Ok(nodes)
}

/// Makes a node another op, in place.
fn respell(graph: &mut Graph, name: &'static str, id: NodeId, new: &NewNode) {
    let stem = graph.node(id).name.clone();
    let mut inputs = vec![];
    for operand in &new.inputs {
        inputs.push(match operand {
            Operand::Value(v) => Some(*v),
            Operand::Constant(t) => Some(graph.add_constant(&format!("{stem}.c"), t.clone())),
            Operand::New(_) | Operand::Omitted => None,
        });
    }
    let names = origin_names(graph, &[id]);
    let node = graph.node_mut(id);
    node.domain = new.domain.into();
    node.op_type = new.op_type.into();
    node.version = new.version;
    node.inputs = inputs;
    node.attrs = crate::ir::Attrs::default();
    for (k, v) in &new.attrs {
        node.attrs.set(*k, v.clone());
    }
    node.origin.nodes = names;
    node.origin.rewrites.push(name);
}
