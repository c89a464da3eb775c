//! `manifest.json`: which files make up a bundle, what they were made from and for, and how tensors are wired.

use serde::{Deserialize, Serialize};

use super::bundle::FileEntry;
use super::epcontext::ContextModel;
use crate::ir::{ValueType, show_shape};
use crate::report::{Backend, PartitionTensor, Target, Tool};

/// Version of the JSON layout.
const SCHEMA: u32 = 1;
/// How the model's own inputs and outputs are called among the ends of a wire.
const MODEL: &str = "model";
/// How ops left to ONNX Runtime's CPU are called there.
const HOST: &str = "host";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u32,
    pub tool: Tool,
    pub target: Target,
    /// The name that the bundle's files begin with.
    pub stem: String,
    /// The model file, then files with external data.
    pub sources: Vec<SourceFile>,
    /// Every other file of the bundle.
    pub files: Vec<FileEntry>,
    pub partitions: Vec<ManifestPartition>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestPartition {
    /// Name of the graph in the binary.
    pub graph: String,
    pub backend: Backend,
    /// The file that holds the graph.
    pub binary: String,
    pub inputs: Vec<Wire>,
    pub outputs: Vec<Wire>,
}

/// A tensor at the edge of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wire {
    pub name: String,
    /// ONNX element type and shape.
    pub onnx_type: String,
    pub qnn_type: String,
    pub dims: Vec<u32>,
    /// What is at the other end: `model`, `host`, or names of partitions.
    pub ends: Vec<String>,
}

impl Manifest {
    /// A manifest of the partitions and wires of `model`.
    pub fn new(stem: &str, target: Target, sources: Vec<SourceFile>, model: &ContextModel<'_>) -> Self {
        let partitions = model.partitions.iter().map(|p| ManifestPartition {
            graph: p.partition.name.clone(),
            backend: p.partition.backend,
            binary: p.binary.into(),
            inputs: p.partition.inputs.iter().map(|t| wire(model, t, makers(model, &t.name))).collect(),
            outputs: p.partition.outputs.iter().map(|t| wire(model, t, readers(model, &t.name))).collect(),
        });
        Self {
            schema: SCHEMA,
            tool: Tool::default(),
            target,
            stem: stem.into(),
            sources,
            files: vec![],
            partitions: partitions.collect(),
        }
    }

    /// The manifest as indented JSON with a newline at the end.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn wire(model: &ContextModel<'_>, t: &PartitionTensor, ends: Vec<String>) -> Wire {
    let onnx_type = model.graph.value_named(&t.name).map(|v| match &model.graph.value(v).ty {
        ValueType::Tensor(ty) => format!("{}{}", ty.dtype, show_shape(&ty.shape)),
        ValueType::Unranked(d) => d.to_string(),
        ValueType::Other(text) => text.clone(),
        ValueType::Unknown => String::new(),
    });
    Wire {
        name: t.name.clone(),
        onnx_type: onnx_type.unwrap_or_default(),
        qnn_type: t.dtype.clone(),
        dims: t.dims.clone(),
        ends,
    }
}

fn makers(model: &ContextModel<'_>, name: &str) -> Vec<String> {
    let mut ends = vec![];
    if model.graph.inputs.iter().any(|v| model.graph.value(*v).name == name) {
        ends.push(MODEL.to_string());
    }
    let by_host = |id| {
        let node = model.graph.node(id);
        node.outputs.iter().flatten().any(|v| model.graph.value(*v).name == name)
    };
    if model.host.iter().any(|id| by_host(*id)) {
        ends.push(HOST.to_string());
    }
    ends.extend(partitions_with(model, name, |p| &p.outputs));
    ends
}

fn readers(model: &ContextModel<'_>, name: &str) -> Vec<String> {
    let mut ends = vec![];
    if model.graph.outputs.iter().any(|v| model.graph.value(*v).name == name) {
        ends.push(MODEL.to_string());
    }
    if model.host.iter().any(|id| model.graph.node(*id).reads().any(|v| model.graph.value(v).name == name)) {
        ends.push(HOST.to_string());
    }
    ends.extend(partitions_with(model, name, |p| &p.inputs));
    ends
}

fn partitions_with<'m>(
    model: &'m ContextModel<'_>,
    name: &'m str,
    side: fn(&crate::report::Partition) -> &Vec<PartitionTensor>,
) -> impl Iterator<Item = String> + 'm {
    model
        .partitions
        .iter()
        .filter(move |p| side(p.partition).iter().any(|t| t.name == name))
        .map(|p| p.partition.name.clone())
}
