//! Copying a body (a graph inside a node) into the graph around it.

use std::collections::{HashMap, HashSet};

use crate::ir::{Graph, Node, Origin, Value, ValueId};

/// Names of nodes, to make new ones unique.
#[derive(Debug)]
pub(super) struct NodeNames(HashSet<String>);

impl NodeNames {
    pub(super) fn of(graph: &Graph) -> Self {
        Self(graph.nodes().map(|(_, n)| n.name.clone()).collect())
    }

    /// `wanted`, or `wanted` with a number.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_string();
        let mut i = 1usize;
        while !self.0.insert(name.clone()) {
            name = format!("{wanted}.{i}");
            i += 1;
        }
        name
    }
}

/// What a splice needs beside the two graphs.
pub(super) struct Splice<'a> {
    /// Values of the body that stand for values of the graph: its inputs and captured values.
    pub(super) given: HashMap<ValueId, ValueId>,
    /// Parallel to the body's outputs: the value of the graph that the output becomes.
    pub(super) targets: Vec<Option<ValueId>>,
    /// The node that the body belongs to.
    pub(super) owner: &'a Node,
    /// Recorded in the provenance of the copied nodes.
    pub(super) rewrite: &'static str,
}

impl Splice<'_> {
    /// Copies the nodes of `body` into `graph`. Gives the values that the body's outputs are in the graph.
    pub(super) fn run(self, graph: &mut Graph, body: &Graph, names: &mut NodeNames) -> Vec<ValueId> {
        let mut map = self.given;
        for (out, target) in body.outputs.iter().zip(&self.targets) {
            if let Some(t) = target
                && body.value(*out).producer.is_some()
                && !map.contains_key(out)
            {
                map.insert(*out, *t);
            }
        }
        for (_, node) in body.nodes() {
            for v in node.outputs.iter().flatten().copied().chain(node.reads()) {
                enter(graph, body, v, &mut map);
            }
            let get = |v: &ValueId| map.get(v).copied();
            let mut copy = node.clone();
            copy.name = names.fresh(&node.name);
            copy.inputs = node.inputs.iter().map(|v| v.as_ref().and_then(get)).collect();
            copy.outputs = node.outputs.iter().map(|v| v.as_ref().and_then(get)).collect();
            copy.captures = node.captures.iter().filter_map(get).collect();
            copy.origin.rewrites.push(self.rewrite);
            graph.add_node(copy);
        }
        let mut outputs = vec![];
        for (i, out) in body.outputs.iter().enumerate() {
            let from = enter(graph, body, *out, &mut map);
            match self.targets.get(i).copied().flatten() {
                Some(to) if to != from => {
                    graph.add_node(identity(self.owner, from, to, names, self.rewrite));
                    outputs.push(to);
                }
                _ => outputs.push(from),
            }
        }
        outputs
    }
}

/// The value of the graph that body value `v` is; made if there is none yet.
fn enter(graph: &mut Graph, body: &Graph, v: ValueId, map: &mut HashMap<ValueId, ValueId>) -> ValueId {
    if let Some(id) = map.get(&v) {
        return *id;
    }
    let value = body.value(v);
    let id = graph.add_value(Value { producer: None, ..value.clone() });
    map.insert(v, id);
    id
}

/// A node that makes `to` out of `from`.
pub(super) fn identity(owner: &Node, from: ValueId, to: ValueId, names: &mut NodeNames, rewrite: &'static str) -> Node {
    Node {
        name: names.fresh(&format!("{}.out", owner.name)),
        op_type: "Identity".into(),
        version: owner.version,
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
        origin: provenance(owner, rewrite),
        ..Node::default()
    }
}

/// The provenance of a node that a rewrite made for `owner`.
pub(super) fn provenance(owner: &Node, rewrite: &'static str) -> Origin {
    let mut origin = owner.origin.clone();
    if origin.nodes.is_empty() {
        origin.nodes.push(owner.name.clone());
    }
    origin.rewrites.push(rewrite);
    origin
}
