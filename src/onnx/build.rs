//! `GraphProto` as a graph of the IR, bodies of If / Loop / Scan included.

use std::collections::HashMap;

use super::attr::{Read, read};
use super::error::Fault;
use super::external::External;
use super::function::{Flat, FlatNode, Functions, Scope, domain};
use super::proto::{GraphProto, ValueInfoProto};
use super::tensor::{densified, tensor};
use super::types;
use crate::finding::{Finding, codes};
use crate::ir::{Attr, Attrs, Graph, Node, Origin, Tensor, Value, ValueId, ValueType};

/// Bodies in bodies are read to this depth.
const BODY_LIMIT: usize = 64;

/// Looks a name up in the graphs around a body; gives the value's type and content.
type Outer<'a> = &'a mut dyn FnMut(&str) -> Option<Value>;

/// Builds the graphs of one model.
pub(super) struct Builder {
    pub files: External,
    pub functions: Functions,
    pub findings: Vec<Finding>,
    pub ir_version: i64,
    /// Domains whose missing import was reported.
    unimported: Vec<String>,
    depth: usize,
}

/// Where a graph stands, for messages.
#[derive(Clone)]
enum Place {
    Main,
    Body { attribute: String, node: String },
}

impl Place {
    /// "of the graph", "in the body then_branch of node c"
    fn of(&self) -> String {
        match self {
            Self::Main => "of the graph".into(),
            Self::Body { attribute, node } => format!("in the body {attribute} of node {node:?}"),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Main => "the graph".into(),
            Self::Body { attribute, node } => format!("the body {attribute} of node {node:?}"),
        }
    }
}

impl Builder {
    pub(super) fn new(files: External, functions: Functions, ir_version: i64) -> Self {
        Self { files, functions, findings: vec![], ir_version, unimported: vec![], depth: 0 }
    }

    /// The main graph.
    pub(super) fn main(&mut self, proto: GraphProto, scope: &Scope) -> Result<Graph, Fault> {
        self.graph(proto, scope, &Place::Main, &mut |_| None)
    }

    fn graph(&mut self, proto: GraphProto, scope: &Scope, place: &Place, outer: Outer<'_>) -> Result<Graph, Fault> {
        let mut g = Graph::default();
        g.name = proto.name;
        g.opsets.clone_from(&scope.opsets);
        for init in proto.initializer {
            let name = init.name.clone();
            let data = tensor(init, &place.of(), &mut self.files)?;
            add_initializer(&mut g, &name, data, place)?;
        }
        for init in proto.sparse_initializer {
            let (name, data) = densified(init, &place.of(), &mut self.files)?;
            add_initializer(&mut g, &name, data, place)?;
        }
        self.add_inputs(&mut g, &proto.input, scope, place)?;

        let mut renamed = vec![];
        let Flat { nodes, hints } = self.functions.flatten(proto.node, scope, &mut renamed)?;
        for (old, new) in renamed {
            let message = format!("two nodes are named {old:?} {}; the later one is now {new:?}", place.of());
            self.findings.push(Finding::note(codes::NODE_NAME, message).at(new));
        }
        let mut types: HashMap<String, ValueType> = HashMap::new();
        for (list, own_params) in [(&proto.value_info, false), (&proto.output, false), (&hints, true)] {
            for v in list {
                let own_params = own_params || scope.in_function();
                let known = types.get(&v.name).is_some_and(|t| *t != ValueType::Unknown);
                if !known && let Some(ty) = self.hint(v, own_params, place) {
                    types.insert(v.name.clone(), ty);
                }
            }
        }
        let outputs = add_outputs(&mut g, &nodes, types, place)?;
        for (node, outputs) in nodes.into_iter().zip(outputs) {
            self.add_node(&mut g, node, outputs, place, outer)?;
        }
        for v in &proto.output {
            let id = find(&mut g, outer, &v.name).ok_or_else(|| Fault::Undefined {
                name: v.name.clone(),
                place: place.of(),
                reader: "the list of outputs".into(),
            })?;
            g.outputs.push(id);
        }
        g.topological_order().map_err(|cycle| Fault::Cycle { place: place.name(), cycle })?;
        Ok(g)
    }

    fn add_inputs(
        &mut self,
        g: &mut Graph,
        inputs: &[ValueInfoProto],
        scope: &Scope,
        place: &Place,
    ) -> Result<(), Fault> {
        let mut with_default = vec![];
        for v in inputs {
            if v.name.is_empty() {
                return Err(Fault::Nameless { what: "an input", place: place.of() });
            }
            if let Some(id) = g.value_named(&v.name) {
                if g.inputs.contains(&id) {
                    let input = || "an input of the graph".to_string();
                    return Err(two_producers(&v.name, place, input(), input()));
                }
                with_default.push(v.name.clone());
                continue;
            }
            let ty = match &v.r#type {
                None => ValueType::Unknown,
                Some(t) => types::from_proto(t, &v.name, scope.in_function()).map_err(|fault| Fault::Type {
                    what: format!("input {:?}", v.name),
                    place: place.of(),
                    fault,
                })?,
            };
            let id = g.add_value(Value { name: v.name.clone(), ty, ..Value::default() });
            g.inputs.push(id);
        }
        // Before IR version 4 every initializer had to be listed as an input, so that says nothing.
        if !with_default.is_empty() && self.ir_version >= 4 {
            self.findings.push(
                Finding::note(
                    codes::INPUT_DEFAULT,
                    format!(
                        "inputs {} that have a default value became constants: {}",
                        place.of(),
                        shortened(&with_default)
                    ),
                )
                .fix("remove the initializer of an input that is to be given at run time"),
            );
        }
        Ok(())
    }

    /// The declared type of a value, if it can be read.
    fn hint(&mut self, v: &ValueInfoProto, own_params: bool, place: &Place) -> Option<ValueType> {
        match types::from_proto(v.r#type.as_ref()?, &v.name, own_params) {
            Ok(ty) => Some(ty),
            Err(fault) => {
                let message = format!("value {:?} {} is declared with {fault}; that is left out", v.name, place.of());
                self.findings.push(Finding::warning(codes::TYPE_HINT, message));
                None
            }
        }
    }

    fn add_node(
        &mut self,
        g: &mut Graph,
        node: FlatNode,
        outputs: Vec<Option<ValueId>>,
        place: &Place,
        outer: Outer<'_>,
    ) -> Result<(), Fault> {
        let FlatNode { proto, scope } = node;
        let mut inputs = Vec::with_capacity(proto.input.len());
        for name in &proto.input {
            if name.is_empty() {
                inputs.push(None);
                continue;
            }
            let id = find(g, outer, name).ok_or_else(|| Fault::Undefined {
                name: name.clone(),
                place: place.of(),
                reader: format!("node {:?} ({})", proto.name, proto.op_type),
            })?;
            inputs.push(Some(id));
        }
        let domain = domain(&proto.domain).to_string();
        let version = self.version(&domain, &proto.name, &scope)?;
        if !proto.device_configurations.is_empty() {
            self.left_out("the multi-device sharding of nodes");
        }

        let mut attrs = Attrs::default();
        // Per body: the values of this graph that it reads, parallel to its `captured`.
        let mut read_by: Vec<(String, Vec<ValueId>)> = vec![];
        for a in proto.attribute {
            let name = a.name.clone();
            if attrs.get(&name).is_some() {
                let message = format!("attribute {name} is given twice; the first is taken");
                self.findings.push(Finding::warning(codes::REPEATED, message).at(&proto.name));
                continue;
            }
            let value = match read(a, &proto.name, &mut self.files)? {
                Read::Value(v) => v,
                Read::Body(body) => {
                    let inner = Place::Body { attribute: name.clone(), node: proto.name.clone() };
                    let (body, captures) = self.body(g, *body, &scope, &inner, outer)?;
                    read_by.push((name.clone(), captures));
                    Attr::Graph(Box::new(body))
                }
            };
            attrs.set(name, value);
        }
        let captures = align_captures(g, &mut attrs, &read_by);
        let origin = scope.origin.unwrap_or_else(|| proto.name.clone());
        let origin = Origin { nodes: vec![origin], rewrites: vec![] };
        let (name, op_type) = (proto.name, proto.op_type);
        g.add_node(Node { name, domain, op_type, version, attrs, inputs, outputs, captures, origin });
        Ok(())
    }

    /// A body of a node of `g`, and the values of `g` that it reads, parallel to its `captured`.
    fn body(
        &mut self,
        g: &mut Graph,
        body: GraphProto,
        scope: &Scope,
        place: &Place,
        outer: Outer<'_>,
    ) -> Result<(Graph, Vec<ValueId>), Fault> {
        if self.depth >= BODY_LIMIT {
            return Err(Fault::TooDeep { place: place.name(), limit: BODY_LIMIT });
        }
        self.depth += 1;
        let mut captures = vec![];
        let built = self.graph(body, scope, place, &mut |name| {
            let id = find(g, outer, name)?;
            captures.push(id);
            let v = g.value(id);
            Some(Value { name: name.into(), ty: v.ty.clone(), data: v.data.clone(), ..Value::default() })
        });
        self.depth -= 1;
        Ok((built?, captures))
    }

    fn version(&mut self, domain: &str, node: &str, scope: &Scope) -> Result<i64, Fault> {
        match scope.opsets.get(domain) {
            Some(v) => Ok(*v),
            None if domain.is_empty() => Err(Fault::NoOpset { node: node.into() }),
            None => {
                if !self.unimported.iter().any(|d| d == domain) {
                    self.unimported.push(domain.into());
                    let message =
                        format!("the model uses the domain {domain} but does not import it; version 1 is assumed");
                    self.findings.push(Finding::warning(codes::NO_IMPORT, message).at(node));
                }
                Ok(1)
            }
        }
    }

    /// Reports once that a part of the model is not kept.
    pub(super) fn left_out(&mut self, what: &str) {
        let finding = Finding::note(codes::LEFT_OUT, format!("{what} is left out: it plays no part in inference here"));
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// The value `name` of `g`; one of a graph around it becomes a captured value.
fn find(g: &mut Graph, outer: Outer<'_>, name: &str) -> Option<ValueId> {
    if let Some(id) = g.value_named(name) {
        return Some(id);
    }
    let id = g.add_value(outer(name)?);
    g.captured.push(id);
    Some(id)
}

fn add_initializer(g: &mut Graph, name: &str, data: Tensor, place: &Place) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::Nameless { what: "an initializer", place: place.of() });
    }
    if g.value_named(name).is_some() {
        return Err(Fault::DuplicateInitializer { name: name.into(), place: place.name() });
    }
    g.add_constant(name, data);
    Ok(())
}

/// Adds the values that the nodes make, before any is read: a node may stand before its producer.
fn add_outputs(
    g: &mut Graph,
    nodes: &[FlatNode],
    mut types: HashMap<String, ValueType>,
    place: &Place,
) -> Result<Vec<Vec<Option<ValueId>>>, Fault> {
    let mut makers: HashMap<ValueId, usize> = HashMap::new();
    let mut all = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        let mut outputs = Vec::with_capacity(node.proto.output.len());
        for name in &node.proto.output {
            if name.is_empty() {
                outputs.push(None);
                continue;
            }
            if let Some(id) = g.value_named(name) {
                let first = match makers.get(&id).and_then(|i| nodes.get(*i)) {
                    Some(n) => format!("node {:?}", n.proto.name),
                    None if g.inputs.contains(&id) => "an input of the graph".into(),
                    None => "an initializer".into(),
                };
                return Err(two_producers(name, place, first, format!("node {:?}", node.proto.name)));
            }
            let ty = types.remove(name).unwrap_or_default();
            let id = g.add_value(Value { name: name.clone(), ty, ..Value::default() });
            makers.insert(id, i);
            outputs.push(Some(id));
        }
        all.push(outputs);
    }
    Ok(all)
}

/// Makes the `captured` of every body of a node parallel to one list, which it gives.
fn align_captures(g: &Graph, attrs: &mut Attrs, read_by: &[(String, Vec<ValueId>)]) -> Vec<ValueId> {
    let mut all: Vec<ValueId> = vec![];
    let mut slots: HashMap<ValueId, usize> = HashMap::new();
    for id in read_by.iter().flat_map(|(_, ids)| ids) {
        slots.entry(*id).or_insert_with(|| {
            all.push(*id);
            all.len() - 1
        });
    }
    for (name, ids) in read_by {
        let Some(Attr::Graph(body)) = attrs.0.get_mut(name) else { continue };
        let mut local: Vec<Option<ValueId>> = vec![None; all.len()];
        for (outer, inner) in ids.iter().zip(std::mem::take(&mut body.captured)) {
            if let Some(slot) = slots.get(outer).and_then(|i| local.get_mut(*i)) {
                *slot = Some(inner);
            }
        }
        let captured = local.into_iter().zip(&all).map(|(inner, outer)| {
            inner.unwrap_or_else(|| {
                let v = g.value(*outer);
                let copy = Value { name: v.name.clone(), ty: v.ty.clone(), data: v.data.clone(), ..Value::default() };
                body.add_value(copy)
            })
        });
        let captured = captured.collect();
        body.captured = captured;
    }
    all
}

fn two_producers(name: &str, place: &Place, first: String, second: String) -> Fault {
    Fault::TwoProducers { name: name.into(), place: place.of(), first, second }
}

/// The first few names of a list.
fn shortened(names: &[String]) -> String {
    match names.get(..5) {
        Some(first) if names.len() > 6 => format!("{} and {} more", first.join(", "), names.len() - 5),
        _ => names.join(", "),
    }
}
