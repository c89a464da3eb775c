//! Plain ONNX models, at the level of the file.

use std::path::{Component, Path};

use indexmap::IndexMap;
use serde::Serialize;

use crate::ir::DataType;
use crate::onnx::proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto};
use crate::onnx::type_text;
use crate::report::OpsetImport;

/// How deep bodies of If, Loop and Scan are followed.
const DEPTH: usize = 32;

#[derive(Clone, Debug, Serialize)]
pub struct ModelReport {
    pub file: String,
    pub bytes: u64,
    pub ir_version: i64,
    pub producer: String,
    pub opsets: Vec<OpsetImport>,
    pub graph: String,
    pub inputs: Vec<ValueDesc>,
    pub outputs: Vec<ValueDesc>,
    /// Nodes of the main graph.
    pub nodes: usize,
    /// Nodes in bodies of If, Loop and Scan and in model-local functions.
    pub inner_nodes: usize,
    /// Ops of all of them, the most frequent first.
    pub ops: Vec<OpCount>,
    /// Model-local functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// By element type, the most bytes first.
    pub weights: Vec<Weights>,
    pub weight_bytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<ExternalFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<Property>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A pair of the model's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueDesc {
    pub name: String,
    /// `float32[1, 3, h, w]`; empty if the model does not say.
    #[serde(rename = "type")]
    pub ty: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpCount {
    /// `Conv`, `com.microsoft::Gelu`
    pub op: String,
    pub count: usize,
}

/// Initializers of one element type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Weights {
    pub dtype: String,
    pub tensors: usize,
    pub elements: u64,
    pub bytes: u64,
}

/// A file with external data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExternalFile {
    pub file: String,
    pub tensors: usize,
    /// Sum over the tensors.
    pub bytes: u64,
    /// Where the last tensor ends.
    pub needed: u64,
    /// Size of the file; None if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

pub(super) fn describe(path: &Path, model: &ModelProto) -> ModelReport {
    let empty = GraphProto::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let mut walk = Walk::default();
    walk.graph(graph, DEPTH);
    let nodes = graph.node.len();
    for f in &model.functions {
        walk.nodes(&f.node, DEPTH);
    }
    let mut ops: Vec<OpCount> = walk.ops.into_iter().map(|(op, count)| OpCount { op, count }).collect();
    ops.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.op.cmp(&b.op)));
    let mut weights: Vec<Weights> = walk.weights.into_values().collect();
    weights.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.dtype.cmp(&b.dtype)));
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut problems = walk.problems;
    let mut external: Vec<ExternalFile> = walk.external.into_values().collect();
    for e in &mut external {
        check_external(folder, e, &mut problems);
    }
    let inits: std::collections::HashSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
    ModelReport {
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes: std::fs::metadata(path).map_or(0, |m| m.len()),
        ir_version: model.ir_version,
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().into(),
        opsets: opsets(model),
        graph: graph.name.clone(),
        inputs: graph.input.iter().filter(|v| !inits.contains(v.name.as_str())).map(value).collect(),
        outputs: graph.output.iter().map(value).collect(),
        nodes,
        inner_nodes: walk.nodes - nodes,
        ops,
        functions: model.functions.iter().map(|f| op_name(&f.domain, &f.name)).collect(),
        weight_bytes: weights.iter().fold(0, |sum, w| sum.saturating_add(w.bytes)),
        weights,
        external,
        metadata: model.metadata_props.iter().map(property).collect(),
        problems,
    }
}

fn property(p: &StringStringEntryProto) -> Property {
    Property { key: p.key.clone(), value: p.value.clone() }
}

pub(super) fn opsets(model: &ModelProto) -> Vec<OpsetImport> {
    let name = |d: &str| if d.is_empty() { "ai.onnx".to_string() } else { d.to_string() };
    let of = model.opset_import.iter();
    of.map(|o| OpsetImport { domain: name(&o.domain), version: o.version.unwrap_or_default() }).collect()
}

pub(super) fn value(v: &ValueInfoProto) -> ValueDesc {
    ValueDesc { name: v.name.clone(), ty: v.r#type.as_ref().map(|t| type_text(t, &v.name)).unwrap_or_default() }
}

pub(super) fn op_name(domain: &str, op: &str) -> String {
    if domain.is_empty() || domain == "ai.onnx" { op.into() } else { format!("{domain}::{op}") }
}

fn check_external(folder: &Path, e: &mut ExternalFile, problems: &mut Vec<String>) {
    let inside = Path::new(&e.file).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if !inside || e.file.is_empty() {
        problems.push(format!("external data in {:?}, which is outside of the model's folder", e.file));
        return;
    }
    e.size = std::fs::metadata(folder.join(&e.file)).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    match e.size {
        None => problems.push(format!("the file {:?} with the data of {} tensors is missing", e.file, e.tensors)),
        Some(size) if size < e.needed => {
            problems.push(format!("the file {:?} has {size} bytes, and its tensors need {}", e.file, e.needed));
        }
        Some(_) => {}
    }
}

/// Sums over a model.
#[derive(Debug, Default)]
struct Walk {
    nodes: usize,
    ops: IndexMap<String, usize>,
    weights: IndexMap<i32, Weights>,
    external: IndexMap<String, ExternalFile>,
    problems: Vec<String>,
}

impl Walk {
    fn graph(&mut self, graph: &GraphProto, depth: usize) {
        for t in &graph.initializer {
            self.tensor(t);
        }
        for t in graph.sparse_initializer.iter().flat_map(|s| s.values.iter().chain(&s.indices)) {
            self.tensor(t);
        }
        self.nodes(&graph.node, depth);
    }

    fn nodes(&mut self, nodes: &[NodeProto], depth: usize) {
        for node in nodes {
            self.nodes += 1;
            *self.ops.entry(op_name(&node.domain, &node.op_type)).or_default() += 1;
            for a in &node.attribute {
                for t in a.t.iter().map(AsRef::as_ref).chain(&a.tensors) {
                    self.tensor(t);
                }
                if depth > 0 {
                    for g in a.g.iter().map(AsRef::as_ref).chain(&a.graphs) {
                        self.graph(g, depth - 1);
                    }
                }
            }
        }
    }

    fn tensor(&mut self, t: &TensorProto) {
        let elements = t.dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?));
        let Some(elements) = elements else {
            self.problems.push(format!("tensor {:?} has the shape {:?}", t.name, t.dims));
            return;
        };
        let dtype = DataType::from_onnx(t.data_type);
        let bytes = match dtype {
            Some(DataType::String) => t.string_data.iter().fold(0, |n: u64, s| n.saturating_add(s.len() as u64)),
            Some(d) => elements.saturating_mul(d.bits() as u64).div_ceil(8),
            None => 0,
        };
        let w = self.weights.entry(t.data_type).or_insert_with(|| Weights {
            dtype: dtype.map_or_else(|| format!("element type {}", t.data_type), |d| d.name().into()),
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        w.tensors += 1;
        w.elements = w.elements.saturating_add(elements);
        w.bytes = w.bytes.saturating_add(bytes);
        if t.data_location == 1 {
            let entry = |key: &str| t.external_data.iter().find(|e| e.key == key).map(|e| e.value.trim());
            let file = entry("location").unwrap_or_default();
            let offset = entry("offset").and_then(|v| v.parse().ok()).unwrap_or(0u64);
            let length = entry("length").and_then(|v| v.parse().ok()).unwrap_or(bytes);
            let e = self.external.entry(file.into()).or_insert_with(|| ExternalFile {
                file: file.into(),
                tensors: 0,
                bytes: 0,
                needed: 0,
                size: None,
            });
            e.tensors += 1;
            e.bytes = e.bytes.saturating_add(length);
            e.needed = e.needed.max(offset.saturating_add(length));
        }
    }
}
