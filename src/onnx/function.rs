//! Model-local functions: every call is replaced by the function's body, on the level of the wire format.
//!
//! Values and nodes of a body get names under the calling node's (`call/name`), attributes by reference take the
//! caller's value or the function's default, and each node remembers the opset versions it was written for.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use indexmap::IndexMap;

use super::error::Fault;
use super::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, SparseTensorProto, ValueInfoProto,
};

/// Opset version by domain ("" is ai.onnx).
pub(super) type Opsets = Rc<IndexMap<String, i64>>;

/// More nodes than this do not come out of inlining.
const NODE_LIMIT: usize = 250_000;
/// Calls in calls are followed to this depth.
const CALL_LIMIT: usize = 128;

/// "ai.onnx" and "" are one domain.
pub(super) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// Where a node stands: what its op type means, and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub opsets: Opsets,
    /// The user's node that called the function in which it stands.
    pub origin: Option<String>,
    /// The call in whose function it stands.
    call: Option<Rc<Call>>,
}

/// A call of a function, and the call in whose function that stands.
#[derive(Debug)]
struct Call {
    key: Key,
    around: Option<Rc<Call>>,
    depth: usize,
}

impl Call {
    /// The function, and those around it, innermost first.
    fn stack(call: Option<&Rc<Self>>) -> impl Iterator<Item = &Key> {
        std::iter::successors(call.map(Rc::as_ref), |c| c.around.as_deref()).map(|c| &c.key)
    }
}

impl Scope {
    pub(super) fn of_model(opsets: Opsets) -> Self {
        Self { opsets, origin: None, call: None }
    }

    pub(super) fn in_function(&self) -> bool {
        self.call.is_some()
    }
}

/// A node after inlining. Its name is unique in its graph.
#[derive(Debug)]
pub(super) struct FlatNode {
    pub proto: NodeProto,
    pub scope: Scope,
}

/// The nodes of one graph after inlining, and the type hints of inlined values.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub nodes: Vec<FlatNode>,
    pub hints: Vec<ValueInfoProto>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    domain: String,
    name: String,
    overload: String,
}

impl Key {
    fn called_by(node: &NodeProto) -> Self {
        Self { domain: domain(&node.domain).into(), name: node.op_type.clone(), overload: node.overload.clone() }
    }

    fn text(&self) -> String {
        let overload = if self.overload.is_empty() { String::new() } else { format!(":{}", self.overload) };
        format!("{}::{}{overload}", self.domain, self.name)
    }
}

/// The functions of a model.
#[derive(Debug, Default)]
pub(super) struct Functions {
    by_key: HashMap<Key, Rc<(FunctionProto, Opsets)>>,
    /// Every value name of the model: what inlining makes up must differ from all of them.
    value_names: HashSet<String>,
    inlined: usize,
    /// Calls in the model's own graphs: domain and function by the call's name.
    calls: IndexMap<String, (String, String)>,
    /// Nodes that a call of a function comes to, and those that all calls so far came to.
    sizes: HashMap<Key, usize>,
    nodes: usize,
}

impl Functions {
    /// `graph` is the model's main graph, `opsets` what the model imports (a function that imports nothing for a domain
    /// takes the model's version).
    pub(super) fn new(functions: Vec<FunctionProto>, graph: &GraphProto, opsets: &Opsets) -> Self {
        let mut out = Self::default();
        if functions.is_empty() {
            return out;
        }
        collect_names(graph, &mut out.value_names);
        for f in functions {
            let key = Key { domain: domain(&f.domain).into(), name: f.name.clone(), overload: f.overload.clone() };
            let mut own = (**opsets).clone();
            for import in &f.opset_import {
                own.insert(domain(&import.domain).into(), import.version.unwrap_or(1));
            }
            out.by_key.entry(key).or_insert_with(|| Rc::new((f, Rc::new(own))));
        }
        out
    }

    /// Functions whose own opset version of a domain is not the model's, as (function, domain, own, model's).
    pub(super) fn other_opsets(functions: &[FunctionProto], opsets: &Opsets) -> Vec<(String, String, i64, i64)> {
        let differs = |f: &FunctionProto, import: &OperatorSetIdProto| {
            let d = domain(&import.domain);
            let (own, models) = (import.version.unwrap_or(1), *opsets.get(d)?);
            (own != models).then(|| (format!("{}::{}", f.domain, f.name), d.to_string(), own, models))
        };
        functions.iter().flat_map(|f| f.opset_import.iter().filter_map(|i| differs(f, i))).collect()
    }

    /// Calls in the model's own graphs that were replaced: domain and function by the call's name.
    pub(super) fn calls(&self) -> &IndexMap<String, (String, String)> {
        &self.calls
    }

    /// How many calls were replaced.
    pub(super) fn inlined(&self) -> usize {
        self.inlined
    }

    /// The nodes of a graph with unique names and without calls. `renamed` learns of names that were given twice.
    pub(super) fn flatten(
        &mut self,
        nodes: Vec<NodeProto>,
        scope: &Scope,
        renamed: &mut Vec<(String, String)>,
    ) -> Result<Flat, Fault> {
        let mut out = Flat::default();
        let mut names = NodeNames::of(&nodes);
        for (i, mut node) in nodes.into_iter().enumerate() {
            let given_name = node.name.clone();
            node.name = names.unique(&given_name, || format!("{}_{i}", node.op_type));
            if !given_name.is_empty() && given_name != node.name {
                renamed.push((given_name.clone(), node.name.clone()));
            }
            self.place(FlatNode { proto: node, scope: scope.clone() }, &mut names, &mut out)?;
        }
        Ok(out)
    }

    /// Puts a node into `out`, or the body of the function that it calls.
    fn place(&mut self, node: FlatNode, names: &mut NodeNames, out: &mut Flat) -> Result<(), Fault> {
        let key = Key::called_by(&node.proto);
        let Some(function) = self.by_key.get(&key).cloned() else {
            out.nodes.push(node);
            return Ok(());
        };
        let (f, opsets) = &*function;
        self.inlined += 1;
        if !node.scope.in_function() {
            self.nodes = self.nodes.saturating_add(self.size(&key, 0));
        }
        if self.nodes.max(self.inlined) > NODE_LIMIT {
            return Err(Fault::TooManyNodes { function: key.text(), limit: NODE_LIMIT });
        }
        let depth = node.scope.call.as_ref().map_or(0, |c| c.depth + 1);
        if depth >= CALL_LIMIT || Call::stack(node.scope.call.as_ref()).any(|k| *k == key) {
            let mut stack: Vec<String> = Call::stack(node.scope.call.as_ref()).map(Key::text).collect();
            stack.reverse();
            stack.push(key.text());
            return Err(Fault::Recursion(stack));
        }
        let call = node.proto;
        if !node.scope.in_function() {
            let called = (domain(&call.domain).to_string(), call.op_type.clone());
            self.calls.insert(call.name.clone(), called);
        }
        for (given, takes, what) in
            [(call.input.len(), f.input.len(), "inputs"), (call.output.len(), f.output.len(), "outputs")]
        {
            if given > takes {
                return Err(Fault::Call {
                    node: call.name,
                    function: key.text(),
                    detail: format!("it has {given} {what}, and the function takes {takes}; export the model again"),
                });
            }
        }
        let scope = Scope {
            opsets: opsets.clone(),
            origin: Some(node.scope.origin.clone().unwrap_or_else(|| call.name.clone())),
            call: Some(Rc::new(Call { key, around: node.scope.call.clone(), depth })),
        };

        // Names of the body -> names of the graph.
        let mut map: HashMap<String, String> = HashMap::new();
        for (i, formal) in f.input.iter().enumerate() {
            map.insert(formal.clone(), call.input.get(i).cloned().unwrap_or_default());
        }
        // Outputs that are inputs, or one value twice: copied by an Identity.
        let mut copies = vec![];
        for (i, formal) in f.output.iter().enumerate() {
            let actual = call.output.get(i).filter(|a| !a.is_empty()).cloned();
            match (map.get(formal), actual) {
                (Some(from), Some(to)) => copies.push((from.clone(), to)),
                (Some(_), None) => {}
                (None, actual) => {
                    let actual = actual.unwrap_or_else(|| self.fresh_value(&call.name, formal));
                    map.insert(formal.clone(), actual);
                }
            }
        }
        for output in f.node.iter().flat_map(|n| &n.output).filter(|o| !o.is_empty()) {
            if !map.contains_key(output) {
                let fresh = self.fresh_value(&call.name, output);
                map.insert(output.clone(), fresh);
            }
        }
        out.hints.extend(
            f.value_info
                .iter()
                .filter_map(|v| Some(ValueInfoProto { name: map.get(&v.name)?.clone(), r#type: v.r#type.clone() })),
        );
        let attributes = Arguments { call: &call, function: f };
        for (i, node) in f.node.iter().enumerate() {
            let given_name = node.name.clone();
            let mut proto = node.clone();
            self.bind(&mut proto, &map, &attributes, &call.name);
            let stem = if given_name.is_empty() { format!("{}_{i}", proto.op_type) } else { given_name.clone() };
            proto.name = names.unique(&format!("{}/{stem}", call.name), String::new);
            self.place(FlatNode { proto, scope: scope.clone() }, names, out)?;
        }
        for (i, (from, to)) in copies.into_iter().enumerate() {
            let name = names.unique(&format!("{}/Identity_{i}", call.name), String::new);
            let proto = NodeProto {
                name,
                op_type: "Identity".into(),
                input: vec![from],
                output: vec![to],
                ..NodeProto::default()
            };
            out.nodes.push(FlatNode { proto, scope: scope.clone() });
        }
        Ok(())
    }

    /// How many nodes a call of the function comes to. Too deep or recursive ones count for nothing: placing finds them.
    fn size(&mut self, key: &Key, depth: usize) -> usize {
        if let Some(size) = self.sizes.get(key) {
            return *size;
        }
        let Some(function) = self.by_key.get(key).cloned().filter(|_| depth < CALL_LIMIT) else { return 0 };
        self.sizes.insert(key.clone(), 0);
        let size = self.size_of(&function.0.node, depth + 1);
        self.sizes.insert(key.clone(), size);
        size
    }

    fn size_of(&mut self, nodes: &[NodeProto], depth: usize) -> usize {
        let mut total = 0usize;
        for node in nodes {
            let key = Key::called_by(node);
            let own = if self.by_key.contains_key(&key) { self.size(&key, depth) } else { 1 };
            total = total.saturating_add(own);
            for body in node.attribute.iter().flat_map(|a| a.g.iter().map(Box::as_ref).chain(&a.graphs)) {
                total = total.saturating_add(self.size_of(&body.node, depth));
            }
        }
        total
    }

    fn fresh_value(&mut self, caller: &str, name: &str) -> String {
        let wanted = format!("{caller}/{name}");
        let mut fresh = wanted.clone();
        let mut i = 0usize;
        while !self.value_names.insert(fresh.clone()) {
            i += 1;
            fresh = format!("{wanted}_{i}");
        }
        fresh
    }

    /// Renames the values of a body's node and fills in its attributes, in graphs within it, too.
    fn bind(&mut self, node: &mut NodeProto, map: &HashMap<String, String>, arguments: &Arguments, caller: &str) {
        for name in node.input.iter_mut().chain(&mut node.output).filter(|n| !n.is_empty()) {
            // A name that nobody made stays recognisable in the error about it.
            *name = map.get(name).cloned().unwrap_or_else(|| format!("{caller}/{name}"));
        }
        let attributes = std::mem::take(&mut node.attribute);
        node.attribute = attributes.into_iter().filter_map(|a| self.bound(a, map, arguments, caller)).collect();
    }

    fn bound(
        &mut self,
        mut attribute: AttributeProto,
        map: &HashMap<String, String>,
        arguments: &Arguments,
        caller: &str,
    ) -> Option<AttributeProto> {
        if !attribute.ref_attr_name.is_empty() {
            // The caller's value is in the caller's names already.
            return Some(AttributeProto { name: attribute.name, ..arguments.get(&attribute.ref_attr_name)?.clone() });
        }
        for body in attribute.g.iter_mut().map(Box::as_mut).chain(&mut attribute.graphs) {
            self.bind_graph(body, map, arguments, caller);
        }
        Some(attribute)
    }

    fn bind_graph(
        &mut self,
        body: &mut GraphProto,
        map: &HashMap<String, String>,
        arguments: &Arguments,
        caller: &str,
    ) {
        let mut map = map.clone();
        for name in local_names(body) {
            let fresh = self.fresh_value(caller, &name);
            map.insert(name, fresh);
        }
        let rename = |name: &mut String| {
            if let Some(to) = map.get(name) {
                to.clone_into(name);
            }
        };
        body.initializer.iter_mut().for_each(|t| rename(&mut t.name));
        body.sparse_initializer.iter_mut().filter_map(|s| s.values.as_mut()).for_each(|t| rename(&mut t.name));
        body.input.iter_mut().chain(&mut body.output).chain(&mut body.value_info).for_each(|v| rename(&mut v.name));
        for node in &mut body.node {
            self.bind(node, &map, arguments, caller);
        }
    }
}

/// The attributes of a call.
struct Arguments<'a> {
    call: &'a NodeProto,
    function: &'a FunctionProto,
}

impl Arguments<'_> {
    fn get(&self, name: &str) -> Option<&AttributeProto> {
        let find = |list: &'_ [AttributeProto]| list.iter().position(|a| a.name == name);
        match find(&self.call.attribute) {
            Some(i) => self.call.attribute.get(i),
            None => self.function.attribute_proto.get(find(&self.function.attribute_proto)?),
        }
    }
}

/// Names of the values that a graph defines itself.
fn local_names(graph: &GraphProto) -> Vec<String> {
    let sparse = |s: &SparseTensorProto| s.values.as_ref().map(|v| v.name.clone());
    let all = graph.input.iter().map(|v| v.name.clone());
    let all = all.chain(graph.initializer.iter().map(|t| t.name.clone()));
    let all = all.chain(graph.sparse_initializer.iter().filter_map(sparse));
    let all = all.chain(graph.node.iter().flat_map(|n| n.output.iter().cloned()));
    let mut seen = HashSet::new();
    all.filter(|n| !n.is_empty() && seen.insert(n.clone())).collect()
}

fn collect_names(graph: &GraphProto, names: &mut HashSet<String>) {
    names.extend(local_names(graph));
    for node in &graph.node {
        names.extend(node.input.iter().cloned());
        for body in node.attribute.iter().flat_map(|a| a.g.iter().map(Box::as_ref).chain(&a.graphs)) {
            collect_names(body, names);
        }
    }
}

/// Names of the nodes of one graph.
struct NodeNames {
    /// Given by the model and not met yet, or taken.
    reserved: HashSet<String>,
    taken: HashSet<String>,
}

impl NodeNames {
    fn of(nodes: &[NodeProto]) -> Self {
        Self { reserved: nodes.iter().map(|n| n.name.clone()).collect(), taken: HashSet::new() }
    }

    /// `given` if it is free, else a free name; `made_up` is for nodes without a name.
    fn unique(&mut self, given: &str, made_up: impl Fn() -> String) -> String {
        let name = if !given.is_empty() && !self.taken.contains(given) {
            given.to_string()
        } else {
            let stem = if given.is_empty() { made_up() } else { given.to_string() };
            let mut name = stem.clone();
            let mut i = 0usize;
            while self.taken.contains(&name) || self.reserved.contains(&name) {
                i += 1;
                name = format!("{stem}_{i}");
            }
            name
        };
        self.taken.insert(name.clone());
        name
    }
}
