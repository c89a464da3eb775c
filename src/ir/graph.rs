//! The graph: an arena of values, an arena of nodes, and the graph's inputs and outputs.

use indexmap::IndexMap;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Attrs, Dim, Tensor, TensorType, ValueType};

/// Names a value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Names a node of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A value: a graph input, a constant, or an output of a node.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Unique within the graph.
    pub name: String,
    pub ty: ValueType,
    /// The elements, if they are known at compile time.
    pub data: Option<Tensor>,
    /// The elements as expressions, for small integer tensors that hold shapes (row-major).
    pub elements: Option<Vec<Dim>>,
    /// The node and output slot that makes it; `None` for graph inputs and initializers.
    pub producer: Option<(NodeId, usize)>,
}

/// Where a node came from, for reports: every QNN op traces back to nodes of the user's model through this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Names of the user's nodes that this one stands for.
    pub nodes: Vec<String>,
    /// Rewrites it went through, in order.
    pub rewrites: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Unique within the graph (made up where the model gives none).
    pub name: String,
    /// "" is ai.onnx.
    pub domain: String,
    pub op_type: String,
    /// The opset version of `domain` that the node is to be read in.
    pub version: i64,
    pub attrs: Attrs,
    /// `None` is an omitted optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// `None` is an output nobody asked for.
    pub outputs: Vec<Option<ValueId>>,
    /// Values of this graph that the node's subgraphs read.
    pub captures: Vec<ValueId>,
    pub origin: Origin,
}

impl Node {
    /// `Conv`, `com.microsoft::Gelu`
    pub fn op_name(&self) -> String {
        if self.domain.is_empty() { self.op_type.clone() } else { format!("{}::{}", self.domain, self.op_type) }
    }

    /// Is this the ai.onnx op `op_type`?
    pub fn is(&self, op_type: &str) -> bool {
        self.domain.is_empty() && self.op_type == op_type
    }

    /// The names of the user's nodes that it stands for.
    pub fn user_nodes(&self) -> impl Iterator<Item = &str> {
        let own = self.origin.nodes.is_empty().then_some(self.name.as_str());
        self.origin.nodes.iter().map(String::as_str).chain(own)
    }

    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    pub fn output(&self, i: usize) -> Option<ValueId> {
        self.outputs.get(i).copied().flatten()
    }

    /// Every value it reads, captured ones included.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().flatten().chain(&self.captures).copied()
    }
}

/// A cycle: names of the nodes on it, in order.
#[derive(Debug, thiserror::Error)]
#[error("the graph has a cycle through {}", .0.join(" -> "))]
pub struct CycleError(pub Vec<String>);

/// An ONNX graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub name: String,
    values: Vec<Value>,
    /// `None` where a node was removed.
    nodes: Vec<Option<Node>>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// In a subgraph: local values that stand for values of the enclosing graph, parallel to the node's `captures`.
    pub captured: Vec<ValueId>,
    /// Opset version by domain ("" is ai.onnx).
    pub opsets: IndexMap<String, i64>,
    by_name: IndexMap<String, ValueId>,
}

impl Graph {
    /// Adds a value. If the name is taken or empty, a number is appended.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        let mut value = value;
        value.name = self.fresh_name(&value.name);
        self.by_name.insert(value.name.clone(), id);
        self.values.push(value);
        id
    }

    /// A value of type `ty` with no content yet.
    pub fn add_typed(&mut self, name: &str, ty: TensorType) -> ValueId {
        self.add_value(Value { name: name.into(), ty: ValueType::Tensor(ty), ..Value::default() })
    }

    /// A constant.
    pub fn add_constant(&mut self, name: &str, data: Tensor) -> ValueId {
        let shape = data.shape().iter().map(|&d| d.into()).collect();
        self.add_value(Value {
            name: name.into(),
            ty: ValueType::Tensor(TensorType::new(data.dtype(), shape)),
            data: Some(data),
            ..Value::default()
        })
    }

    fn fresh_name(&self, wanted: &str) -> String {
        if !wanted.is_empty() && !self.by_name.contains_key(wanted) {
            return wanted.into();
        }
        let stem = if wanted.is_empty() { "value" } else { wanted };
        (self.values.len()..usize::MAX)
            .map(|i| format!("{stem}_{i}"))
            .find(|n| !self.by_name.contains_key(n))
            .unwrap_or_default()
    }

    /// Adds a node and makes it the producer of its outputs.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        for (slot, out) in node.outputs.iter().enumerate() {
            if let Some(v) = out {
                self.values[v.0 as usize].producer = Some((id, slot));
            }
        }
        self.nodes.push(Some(node));
        id
    }

    /// Removes a node; its outputs stay as values without a producer.
    pub fn remove_node(&mut self, id: NodeId) -> Option<Node> {
        let node = self.nodes[id.0 as usize].take()?;
        for v in node.outputs.iter().flatten() {
            if self.values[v.0 as usize].producer.is_some_and(|(n, _)| n == id) {
                self.values[v.0 as usize].producer = None;
            }
        }
        Some(node)
    }

    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    pub fn value_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.values[id.0 as usize]
    }

    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    pub fn values(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(i, v)| (ValueId(i as u32), v))
    }

    /// # Panics
    /// If the node was removed.
    #[allow(clippy::panic)]
    pub fn node(&self, id: NodeId) -> &Node {
        match &self.nodes[id.0 as usize] {
            Some(n) => n,
            None => panic!("node {} was removed", id.0),
        }
    }

    /// # Panics
    /// If the node was removed.
    #[allow(clippy::panic)]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        match &mut self.nodes[id.0 as usize] {
            Some(n) => n,
            None => panic!("node {} was removed", id.0),
        }
    }

    /// The nodes that are left, in the order they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(i, n)| Some((NodeId(i as u32), n.as_ref()?)))
    }

    pub fn node_count(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// For every value: the nodes that read it, with the input slot (captures have slot `usize::MAX`).
    pub fn consumers(&self) -> Vec<Vec<(NodeId, usize)>> {
        let mut out = vec![vec![]; self.values.len()];
        for (id, node) in self.nodes() {
            for (slot, v) in node.inputs.iter().enumerate() {
                if let Some(v) = v {
                    out[v.0 as usize].push((id, slot));
                }
            }
            for v in &node.captures {
                out[v.0 as usize].push((id, usize::MAX));
            }
        }
        out
    }

    /// Makes the readers of `old` read `new`; `readers` are all of them, as [`Graph::consumers`] has them. A graph output
    /// keeps its name by giving it to `new`.
    pub fn redirect(&mut self, old: ValueId, new: ValueId, readers: &[(NodeId, usize)]) {
        for (id, slot) in readers {
            let Some(Some(node)) = self.nodes.get_mut(id.0 as usize) else { continue };
            if let Some(v) = node.inputs.get_mut(*slot) {
                *v = Some(new);
            }
            for v in node.captures.iter_mut().filter(|v| **v == old) {
                *v = new;
            }
        }
        if self.outputs.contains(&old) {
            for v in self.outputs.iter_mut().filter(|v| **v == old) {
                *v = new;
            }
            let (a, b) = (self.value(old).name.clone(), self.value(new).name.clone());
            self.by_name.insert(a.clone(), new);
            self.by_name.insert(b.clone(), old);
            self.value_mut(new).name = a;
            self.value_mut(old).name = b;
        }
    }

    /// The node, unless it was removed.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)?.as_ref()
    }

    /// The nodes as a petgraph graph: an edge runs from a producer to each reader.
    pub fn topology(&self) -> (DiGraph<NodeId, ValueId>, Vec<Option<NodeIndex>>) {
        let mut view = DiGraph::with_capacity(self.nodes.len(), self.nodes.len() * 2);
        let mut index = vec![None; self.nodes.len()];
        for (id, _) in self.nodes() {
            index[id.0 as usize] = Some(view.add_node(id));
        }
        for (id, node) in self.nodes() {
            for v in node.reads() {
                if let Some((from, _)) = self.value(v).producer
                    && let (Some(a), Some(b)) = (index[from.0 as usize], index[id.0 as usize])
                {
                    view.add_edge(a, b, v);
                }
            }
        }
        (view, index)
    }

    /// Nodes with producers before readers; among those that are ready, the order in which they were added.
    pub fn topological_order(&self) -> Result<Vec<NodeId>, CycleError> {
        let consumers = self.consumers();
        let mut waiting = vec![0usize; self.nodes.len()];
        let mut ready = std::collections::BTreeSet::new();
        for (id, node) in self.nodes() {
            let n = node.reads().filter(|v| self.value(*v).producer.is_some()).count();
            waiting[id.0 as usize] = n;
            if n == 0 {
                ready.insert(id);
            }
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for v in self.node(id).outputs.iter().flatten() {
                for (reader, _) in &consumers[v.0 as usize] {
                    let left = &mut waiting[reader.0 as usize];
                    *left -= 1;
                    if *left == 0 {
                        ready.insert(*reader);
                    }
                }
            }
        }
        if order.len() == self.node_count() {
            return Ok(order);
        }
        let (view, _) = self.topology();
        let cycle = petgraph::algo::tarjan_scc(&view)
            .into_iter()
            .find(|c| c.len() > 1 || view.contains_edge(c[0], c[0]))
            .unwrap_or_default();
        let mut ids: Vec<NodeId> = cycle.into_iter().map(|i| view[i]).collect();
        ids.sort();
        Err(CycleError(ids.into_iter().map(|n| self.node(n).name.clone()).collect()))
    }

    /// Removes nodes none of whose outputs reach a graph output, and nodes that are needed for known values alone.
    /// Returns how many went.
    pub fn remove_dead(&mut self) -> usize {
        let needs = |v: ValueId| {
            let value = self.value(v);
            if value.data.is_some() { None } else { value.producer.map(|p| p.0) }
        };
        let mut live = vec![false; self.nodes.len()];
        let mut stack: Vec<NodeId> = self.outputs.iter().filter_map(|v| needs(*v)).collect();
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut live[id.0 as usize], true) {
                continue;
            }
            stack.extend(self.node(id).reads().filter_map(needs));
        }
        let dead: Vec<NodeId> = self.nodes().map(|(id, _)| id).filter(|id| !live[id.0 as usize]).collect();
        for id in &dead {
            self.remove_node(*id);
        }
        dead.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(names: &[(&str, &[&str], &[&str])]) -> Graph {
        let mut g = Graph::default();
        let id = |g: &mut Graph, n: &str| {
            g.value_named(n).unwrap_or_else(|| g.add_value(Value { name: n.into(), ..Value::default() }))
        };
        for (name, ins, outs) in names {
            let inputs = ins.iter().map(|n| Some(id(&mut g, n))).collect();
            let outputs = outs.iter().map(|n| Some(id(&mut g, n))).collect();
            g.add_node(Node { name: (*name).into(), inputs, outputs, ..Node::default() });
        }
        g
    }

    #[test]
    fn order_is_producers_first_then_given_order() {
        let g =
            chain(&[("c", &["b1"], &["c1"]), ("a", &["x"], &["a1"]), ("b", &["a1"], &["b1"]), ("d", &["x"], &["d1"])]);
        let names: Vec<_> = g.topological_order().unwrap().into_iter().map(|n| g.node(n).name.clone()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_cycle_is_named() {
        let g = chain(&[("a", &["b1"], &["a1"]), ("b", &["a1"], &["b1"]), ("c", &["x"], &["y"])]);
        assert_eq!(g.topological_order().unwrap_err().0, ["a", "b"]);
    }

    #[test]
    fn dead_nodes_go() {
        let mut g = chain(&[("a", &["x"], &["y"]), ("b", &["x"], &["z"])]);
        g.outputs = vec![g.value_named("y").unwrap()];
        assert_eq!(g.remove_dead(), 1);
        assert_eq!(g.node_count(), 1);
    }
}
