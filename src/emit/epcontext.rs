//! The EPContext model: partitions are nodes that name their graph in a context binary, the rest stays plain ONNX.
//!
//! ONNX Runtime finds a graph in the binary by the *node's* name, and its tensors by the names of the node's inputs and
//! outputs; so both are those of the QNN graph. Exactly one node per binary has `main_context` 1 and loads it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use indexmap::IndexMap;

use crate::Error;
use crate::ir::{Attr, Attrs, Graph, Node, NodeId, Tensor, Value, ValueId};
use crate::report::{Partition, PartitionTensor};

/// The domain of the EPContext op.
const MS_DOMAIN: &str = "com.microsoft";
/// Highest IR version that ONNX Runtime 1.27 loads.
const MAX_IR_VERSION: i64 = 11;
/// From this IR version on, initializers need not be graph inputs, and all element types in use have numbers.
const MIN_IR_VERSION: i64 = 8;
/// The opset of a model without ONNX nodes: any will do, and an old one is loaded by more runtimes.
const PLAIN_OPSET: i64 = 21;

/// A partition and the binary that holds its graph.
#[derive(Clone, Copy, Debug)]
pub struct EpPartition<'a> {
    /// Its tensors have the names of values of the graph.
    pub partition: &'a Partition,
    /// File name of the context binary, next to the model.
    pub binary: &'a str,
}

/// What an EPContext model is made of.
#[derive(Clone, Copy, Debug)]
pub struct ContextModel<'a> {
    pub graph: &'a Graph,
    /// The nodes that are left to the host.
    pub host: &'a [NodeId],
    pub partitions: &'a [EpPartition<'a>],
    /// The user's names of the graph's outputs, in order.
    pub output_names: &'a [String],
    /// Version of the SDK that made the binaries.
    pub sdk_version: &'a str,
}

/// A model that cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    #[error("{reader:?} reads {value:?}, which nothing makes")]
    NoProducer { value: String, reader: String },
    #[error("{value:?} is made by both {first:?} and {second:?}")]
    TwoProducers { value: String, first: String, second: String },
    #[error("partition {partition:?} names {tensor:?}, which is not in the model")]
    UnknownTensor { partition: String, tensor: String },
    #[error("partitions and host nodes wait for each other: {}", .0.join(", "))]
    Cycle(Vec<String>),
    #[error("the name of output {0:?} is taken by another value")]
    OutputName(String),
    #[error("node {node:?} left to the CPU is of opset {version} of {domain:?}, the model of {model}")]
    Opset { node: String, domain: String, version: i64, model: i64 },
}

impl From<EmitError> for Error {
    fn from(e: EmitError) -> Self {
        Self::input(format!("the context model cannot be written: {e}"))
            .help("this is a fault of qnnc; please report it with the model")
    }
}

/// The IR version of the emitted model: the user's as far as ONNX Runtime reads it.
pub fn ir_version(of_model: i64) -> i64 {
    of_model.clamp(MIN_IR_VERSION, MAX_IR_VERSION)
}

/// A node of the emitted model.
#[derive(Debug)]
struct Item<'a> {
    name: &'a str,
    kind: Kind<'a>,
    reads: Vec<ValueId>,
    makes: Vec<ValueId>,
}

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Partition(EpPartition<'a>),
    Host(&'a Node),
}

impl<'a> ContextModel<'a> {
    /// The model as a graph, its nodes in an order in which producers come before readers.
    pub fn build(&self) -> Result<Graph, EmitError> {
        let items = self.items()?;
        let order = self.order(&items)?;
        let mut out = Graph::default();
        out.name.clone_from(&self.graph.name);
        out.opsets = self.opsets(&items)?;
        let mut map: HashMap<ValueId, ValueId> = HashMap::new();
        for &v in self.graph.inputs.iter().chain(items.iter().flat_map(|i| &i.makes)) {
            map.entry(v).or_insert_with(|| copy_value(self.graph, v, &mut out));
        }
        let ends = self.ends(&mut map, &mut out)?;
        for item in &items {
            for &v in &item.reads {
                if let Entry::Vacant(entry) = map.entry(v) {
                    entry.insert(self.constant(v, item.name, &mut out)?);
                }
            }
        }
        out.inputs = self.graph.inputs.iter().map(|v| map[v]).collect();
        let mut loaded = HashSet::new();
        for &i in &order {
            let node = match items[i].kind {
                Kind::Partition(p) => self.ep_node(p, &items[i], loaded.insert(p.binary), &map),
                Kind::Host(n) => Node {
                    inputs: n.inputs.iter().map(|v| v.map(|v| map[&v])).collect(),
                    outputs: n.outputs.iter().map(|v| v.map(|v| map[&v])).collect(),
                    captures: n.captures.iter().map(|v| map[v]).collect(),
                    ..n.clone()
                },
            };
            out.add_node(node);
        }
        for end in ends {
            let version = out.opsets.get("").copied().unwrap_or(PLAIN_OPSET);
            let v = end.add(&mut out, version);
            out.outputs.push(v);
        }
        Ok(out)
    }

    fn value_of(&self, p: &Partition, t: &PartitionTensor) -> Result<ValueId, EmitError> {
        self.graph
            .value_named(&t.name)
            .ok_or_else(|| EmitError::UnknownTensor { partition: p.name.clone(), tensor: t.name.clone() })
    }

    fn items(&self) -> Result<Vec<Item<'a>>, EmitError> {
        let mut items = Vec::with_capacity(self.partitions.len() + self.host.len());
        for p in self.partitions {
            let values = |tensors: &[PartitionTensor]| -> Result<Vec<ValueId>, EmitError> {
                tensors.iter().map(|t| self.value_of(p.partition, t)).collect()
            };
            items.push(Item {
                name: &p.partition.name,
                reads: values(&p.partition.inputs)?,
                makes: values(&p.partition.outputs)?,
                kind: Kind::Partition(*p),
            });
        }
        for &id in self.host {
            let node = self.graph.node(id);
            items.push(Item {
                name: &node.name,
                reads: node.reads().collect(),
                makes: node.outputs.iter().flatten().copied().collect(),
                kind: Kind::Host(node),
            });
        }
        Ok(items)
    }

    /// Indices of `items` with producers first; among those that are ready, the first comes first.
    fn order(&self, items: &[Item<'_>]) -> Result<Vec<usize>, EmitError> {
        let mut maker: HashMap<ValueId, usize> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            for &v in &item.makes {
                if let Some(first) = maker.insert(v, i) {
                    return Err(EmitError::TwoProducers {
                        value: self.graph.value(v).name.clone(),
                        first: items[first].name.into(),
                        second: item.name.into(),
                    });
                }
            }
        }
        let mut readers = vec![vec![]; items.len()];
        let mut waiting = vec![0usize; items.len()];
        for (i, item) in items.iter().enumerate() {
            for from in item.reads.iter().filter_map(|v| maker.get(v)) {
                readers[*from].push(i);
                waiting[i] += 1;
            }
        }
        let mut ready: BTreeSet<usize> = (0..items.len()).filter(|i| waiting[*i] == 0).collect();
        let mut order = Vec::with_capacity(items.len());
        while let Some(i) = ready.pop_first() {
            order.push(i);
            for &r in &readers[i] {
                waiting[r] -= 1;
                if waiting[r] == 0 {
                    ready.insert(r);
                }
            }
        }
        if order.len() < items.len() {
            let stuck = items.iter().zip(&waiting).filter(|(_, w)| **w > 0).map(|(i, _)| i.name.to_string());
            return Err(EmitError::Cycle(stuck.collect()));
        }
        Ok(order)
    }

    /// The imports: those of host nodes as in the model, and com.microsoft for EPContext.
    fn opsets(&self, items: &[Item<'_>]) -> Result<IndexMap<String, i64>, EmitError> {
        let model = &self.graph.opsets;
        let mut used: IndexMap<String, i64> = IndexMap::new();
        for item in items {
            let Kind::Host(node) = item.kind else { continue };
            let version = model.get(&node.domain).copied().unwrap_or(node.version);
            if version != node.version {
                return Err(EmitError::Opset {
                    node: node.name.clone(),
                    domain: node.domain.clone(),
                    version: node.version,
                    model: version,
                });
            }
            used.insert(node.domain.clone(), version);
            collect_domains(&node.attrs, &mut used, model);
        }
        let mut out = IndexMap::new();
        let plain = model.get("").copied().unwrap_or(PLAIN_OPSET);
        out.insert(String::new(), used.get("").copied().unwrap_or(plain.min(PLAIN_OPSET)));
        out.insert(MS_DOMAIN.to_string(), used.get(MS_DOMAIN).copied().unwrap_or(1));
        // In the model's order, so that the result does not depend on where nodes went.
        for domain in model.keys().chain(used.keys()) {
            if let (false, Some(v)) = (out.contains_key(domain), used.get(domain)) {
                out.insert(domain.clone(), *v);
            }
        }
        Ok(out)
    }

    /// What stands for each output. Names that need a node of their own are reserved now.
    fn ends(&self, map: &mut HashMap<ValueId, ValueId>, out: &mut Graph) -> Result<Vec<End>, EmitError> {
        let mut ends = vec![];
        let mut taken = HashSet::new();
        for (i, &v) in self.graph.outputs.iter().enumerate() {
            let value = self.graph.value(v);
            let name = self.output_names.get(i).unwrap_or(&value.name);
            match map.get(&v) {
                Some(&new) if value.name == *name && taken.insert(new) => ends.push(End::Value(new)),
                source => {
                    if out.value_named(name).is_some() {
                        return Err(EmitError::OutputName(name.clone()));
                    }
                    let to = out.add_value(Value { name: name.clone(), ty: value.ty.clone(), ..Value::default() });
                    ends.push(match (source, &value.data) {
                        (Some(&from), _) => End::Copy { from, to },
                        (None, Some(data)) => End::Constant { data: data.clone(), to },
                        (None, None) => {
                            return Err(EmitError::NoProducer {
                                value: value.name.clone(),
                                reader: "the model's outputs".into(),
                            });
                        }
                    });
                }
            }
        }
        Ok(ends)
    }

    fn constant(&self, v: ValueId, reader: &str, out: &mut Graph) -> Result<ValueId, EmitError> {
        let value = self.graph.value(v);
        match &value.data {
            Some(data) => Ok(out.add_constant(&value.name, data.clone())),
            None => Err(EmitError::NoProducer { value: value.name.clone(), reader: reader.into() }),
        }
    }

    fn ep_node(&self, p: EpPartition<'_>, item: &Item<'_>, main: bool, map: &HashMap<ValueId, ValueId>) -> Node {
        let text = |s: &str| Attr::Str(Bytes::copy_from_slice(s.as_bytes()));
        let mut attrs = Attrs::default();
        attrs.set("source", text("QNNExecutionProvider"));
        attrs.set("embed_mode", Attr::Int(0));
        attrs.set("main_context", Attr::Int(i64::from(main)));
        attrs.set("ep_cache_context", text(p.binary));
        attrs.set("partition_name", text(&p.partition.name));
        attrs.set("ep_sdk_version", text(self.sdk_version));
        Node {
            name: p.partition.name.clone(),
            domain: MS_DOMAIN.into(),
            op_type: "EPContext".into(),
            version: 1,
            attrs,
            inputs: item.reads.iter().map(|v| Some(map[v])).collect(),
            outputs: item.makes.iter().map(|v| Some(map[v])).collect(),
            ..Node::default()
        }
    }
}

/// What stands at an output of the model.
#[derive(Debug)]
enum End {
    /// A value that something makes under the output's own name.
    Value(ValueId),
    /// A value of another name, or one that is an output already.
    Copy { from: ValueId, to: ValueId },
    /// Known at compile time.
    Constant { data: Tensor, to: ValueId },
}

impl End {
    fn add(self, out: &mut Graph, version: i64) -> ValueId {
        let (op_type, inputs, attrs, to) = match self {
            Self::Value(v) => return v,
            Self::Copy { from, to } => ("Identity", vec![Some(from)], Attrs::default(), to),
            Self::Constant { data, to } => {
                let mut attrs = Attrs::default();
                attrs.set("value", Attr::Tensor(data));
                ("Constant", vec![], attrs, to)
            }
        };
        let name = format!("{}/{}", op_type, out.value(to).name);
        out.add_node(Node {
            name,
            op_type: op_type.into(),
            version,
            attrs,
            inputs,
            outputs: vec![Some(to)],
            ..Node::default()
        });
        to
    }
}

/// A value without its content: name and type.
fn copy_value(graph: &Graph, v: ValueId, out: &mut Graph) -> ValueId {
    let value = graph.value(v);
    out.add_value(Value { name: value.name.clone(), ty: value.ty.clone(), ..Value::default() })
}

/// Domains that bodies of If, Loop and Scan use.
fn collect_domains(attrs: &Attrs, used: &mut IndexMap<String, i64>, model: &IndexMap<String, i64>) {
    for attr in attrs.0.values() {
        let Attr::Graph(body) = attr else { continue };
        for (_, node) in body.nodes() {
            let version = model.get(&node.domain).copied().unwrap_or(node.version);
            used.entry(node.domain.clone()).or_insert(version);
            collect_domains(&node.attrs, used, model);
        }
    }
}
