//! What patterns are made of: looking at values through the spellings that exporters use.

use crate::ir::{Graph, Node, NodeId, ValueId};

/// Read-only view of a graph for matching.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    pub graph: &'a Graph,
    consumers: &'a [Vec<(NodeId, usize)>],
}

/// A product `scale * factors[0] * factors[1] * ...`, and the nodes that spell it.
#[derive(Clone, Debug, Default)]
pub struct Product {
    pub scale: f64,
    pub factors: Vec<ValueId>,
    pub nodes: Vec<NodeId>,
}

impl<'a> Pattern<'a> {
    /// `consumers` is what [`Graph::consumers`] says of `graph` as it is.
    pub fn new(graph: &'a Graph, consumers: &'a [Vec<(NodeId, usize)>]) -> Self {
        Self { graph, consumers }
    }

    pub fn node(&self, id: NodeId) -> &'a Node {
        self.graph.node(id)
    }

    /// The nodes that read `v`.
    pub fn readers(&self, v: ValueId) -> impl Iterator<Item = NodeId> + 'a {
        self.consumers[v.0 as usize].iter().map(|(n, _)| *n)
    }

    /// The value behind Identity nodes and behind Casts to the type that is there already.
    pub fn source(&self, mut v: ValueId) -> ValueId {
        while let Some(x) = self.copied(v) {
            v = x;
        }
        v
    }

    /// The value that `v` is a plain copy of.
    fn copied(&self, v: ValueId) -> Option<ValueId> {
        let value = self.graph.value(v);
        let node = self.graph.node(value.producer?.0);
        let x = node.input(0)?;
        let same_type = value.ty.dtype().is_some() && value.ty.dtype() == self.graph.value(x).ty.dtype();
        (node.is("Identity") || (node.is("Cast") && same_type)).then_some(x)
    }

    /// Does anything but one node read `v`, or what it is a copy of?
    pub fn shared(&self, v: ValueId) -> bool {
        let here = self.readers(v).count() != 1 || self.graph.outputs.contains(&v);
        here || self.copied(v).is_some_and(|x| self.shared(x))
    }

    /// The node that makes `v`, Identity nodes skipped.
    pub fn producer(&self, v: ValueId) -> Option<(NodeId, &'a Node)> {
        let (id, _) = self.graph.value(self.source(v)).producer?;
        Some((id, self.graph.node(id)))
    }

    /// The node that makes `v`, if it is the ai.onnx op `op`.
    pub fn made_by(&self, v: ValueId, op: &str) -> Option<(NodeId, &'a Node)> {
        self.producer(v).filter(|(_, n)| n.is(op))
    }

    /// The number in a constant of one element.
    pub fn number(&self, v: ValueId) -> Option<f64> {
        self.graph.value(self.source(v)).data.as_ref()?.scalar_f64()
    }

    /// The operands of a binary node as (number, other), whichever side the number is on.
    pub fn with_number(&self, node: &Node) -> Option<(f64, ValueId)> {
        let (a, b) = (node.input(0)?, node.input(1)?);
        match (self.number(a), self.number(b)) {
            (Some(k), None) => Some((k, b)),
            (None, Some(k)) => Some((k, a)),
            _ => None,
        }
    }

    /// `v` as `k * x`: Mul by a number, Div by a number, Neg, nested; `v` itself with `k` = 1 if it is none of these.
    pub fn scaled(&self, v: ValueId) -> (f64, ValueId, Vec<NodeId>) {
        let step = self.producer(v).and_then(|(id, node)| {
            let (k, x) = match node.op_type.as_str() {
                _ if !node.domain.is_empty() => return None,
                "Mul" => self.with_number(node)?,
                "Div" => (1.0 / self.number(node.input(1)?).filter(|d| *d != 0.0)?, node.input(0)?),
                "Neg" => (-1.0, node.input(0)?),
                _ => return None,
            };
            Some((id, k, x))
        });
        let Some((id, k, x)) = step else { return (1.0, self.source(v), vec![]) };
        let (inner, x, mut nodes) = self.scaled(x);
        nodes.push(id);
        (k * inner, x, nodes)
    }

    /// Is this node a factor's place in a product: Mul, or Div by a number?
    fn multiplies(&self, node: &Node) -> bool {
        node.is("Mul") || (node.is("Div") && node.input(1).is_some_and(|d| self.number(d).is_some()))
    }

    /// The product tree whose outermost node is `root`, however it is associated. `None` for a node inside a larger
    /// product: that one is met at its own root.
    pub fn product(&self, root: NodeId) -> Option<Product> {
        let node = self.node(root);
        if !self.multiplies(node) {
            return None;
        }
        let y = node.output(0)?;
        let mut readers = self.readers(y);
        let inside = readers.next().is_some_and(|r| self.multiplies(self.node(r))) && readers.next().is_none();
        if inside && !self.graph.outputs.contains(&y) {
            return None;
        }
        let mut out = Product { scale: 1.0, ..Product::default() };
        self.collect(root, &mut out)?;
        Some(out)
    }

    fn collect(&self, id: NodeId, out: &mut Product) -> Option<()> {
        let node = self.node(id);
        out.nodes.push(id);
        let mut operands = vec![node.input(0)?];
        if node.is("Div") {
            out.scale /= self.number(node.input(1)?)?;
        } else {
            operands.push(node.input(1)?);
        }
        for v in operands {
            if let Some(k) = self.number(v) {
                out.scale *= k;
                continue;
            }
            // A product that others read as well is a factor of its own; it need not be computed twice.
            let shared = self.readers(v).count() > 1;
            match self.producer(v) {
                Some((inner, n)) if !shared && self.multiplies(n) => self.collect(inner, out)?,
                _ => out.factors.push(self.source(v)),
            }
        }
        Some(())
    }
}

/// Equal within what storing a constant as float16 loses.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 5e-4 * b.abs()
}
