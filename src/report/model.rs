//! The data of a placement report. Serialised, it is `placement.json`; its schema is versioned.

use serde::{Deserialize, Serialize};

use crate::qnn::graph::{QnnGraph, QnnTensor, TensorId, TensorKind};
use crate::verdict::Reason;

/// Version of the JSON layout. It grows when a field changes its meaning or goes; new fields do not change it.
pub const SCHEMA: u32 = 1;

/// Where a node of the user's model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The NPU.
    Htp,
    Gpu,
    /// The QNN CPU backend.
    Cpu,
    /// Left to ONNX Runtime's CPU provider.
    Host,
    /// Computed at compile time or merged into another node: it costs nothing at run time.
    Folded,
}

impl From<crate::options::Backend> for Backend {
    fn from(b: crate::options::Backend) -> Self {
        match b {
            crate::options::Backend::Htp => Self::Htp,
            crate::options::Backend::Gpu => Self::Gpu,
            crate::options::Backend::Cpu => Self::Cpu,
        }
    }
}

impl Backend {
    pub const ALL: [Self; 5] = [Self::Htp, Self::Gpu, Self::Cpu, Self::Host, Self::Folded];

    /// The name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Htp => "htp",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::Host => "host",
            Self::Folded => "folded",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Htp => "NPU (HTP)",
            Self::Gpu => "GPU",
            Self::Cpu => "CPU (QNN)",
            Self::Host => "CPU (ONNX Runtime)",
            Self::Folded => "folded at compile time",
        }
    }

    /// Does the node's work happen on the NPU, or not at all?
    pub fn is_npu_or_free(self) -> bool {
        matches!(self, Self::Htp | Self::Folded)
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a "yes" rests on, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// A table row from documents.
    Documented,
    /// The backend's validator took the op on this SoC.
    Validated,
    /// The graph with it was finalised for this SoC.
    Prepared,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Documented => "documented",
            Self::Validated => "validated",
            Self::Prepared => "prepared",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Note,
    Warning,
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// The whole report on one compile of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    pub schema: u32,
    pub tool: Tool,
    pub model: Model,
    pub target: Target,
    pub gate: Gate,
    pub totals: Totals,
    /// Inputs, then outputs, each in the model's order.
    pub io: Vec<Io>,
    pub partitions: Vec<Partition>,
    /// Every node of the user's model, in the model's order.
    pub nodes: Vec<NodePlacement>,
    /// What it would be worth to have refused nodes on the NPU, the most worth first.
    #[serde(default)]
    pub fixes: Vec<Fix>,
    #[serde(default)]
    pub findings: Vec<Finding>,
    #[serde(default)]
    pub rewrites: Vec<Rewrite>,
}

impl Placement {
    /// The nodes whose work is neither on the NPU nor gone.
    pub fn off_npu(&self) -> impl Iterator<Item = &NodePlacement> {
        self.nodes.iter().filter(|n| !n.backend.is_npu_or_free())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

impl Default for Tool {
    fn default() -> Self {
        Self { name: "qnnc".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// The model that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// File name, without its folder.
    pub file: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<String>,
    pub ir_version: i64,
    pub opsets: Vec<OpsetImport>,
    /// Producer's name and version; empty if the model does not say.
    pub producer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpsetImport {
    /// `ai.onnx` for the standard domain.
    pub domain: String,
    pub version: i64,
}

/// What was compiled for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Marketing id (`sm8650`).
    pub soc: String,
    /// The SDK's number of the SoC.
    pub soc_id: u32,
    /// Hexagon architecture (75 for v75).
    pub arch: u32,
    /// Version of the SDK that validated and prepared; `None` if none was used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sdk: Option<String>,
    /// Backends that might be used besides the host.
    pub backends: Vec<Backend>,
}

/// The gate's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub passed: bool,
    /// One sentence for each threshold or rule that was broken.
    #[serde(default)]
    pub failures: Vec<String>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { passed: true, failures: vec![] }
    }
}

/// Sums over the model. Counts are of nodes of the user's model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub nodes: usize,
    pub htp: usize,
    pub gpu: usize,
    pub cpu: usize,
    pub host: usize,
    pub folded: usize,
    pub partitions: usize,
    /// QNN ops in all partitions.
    pub qnn_ops: usize,
    /// Multiply-accumulate operations of one inference, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub macs: Option<u64>,
    /// Bytes of constants in the partitions, in the type in which they are stored.
    pub weight_bytes: u64,
    /// Bytes of all tensors between ops of the partitions.
    pub activation_bytes: u64,
    /// Bytes that cross between a partition and anything else, both ways, in one inference.
    pub boundary_bytes: u64,
    /// Size of the context binaries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub binary_bytes: Option<u64>,
    /// Sum over the partitions; absent if nothing was prepared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ddr: Option<Ddr>,
}

impl Totals {
    /// What follows from nodes and partitions; `macs` and `binary_bytes` are left out.
    pub fn count(nodes: &[NodePlacement], partitions: &[Partition]) -> Self {
        let of = |b: Backend| nodes.iter().filter(|n| n.backend == b).count();
        let mut ddr: Option<Ddr> = None;
        for d in partitions.iter().filter_map(|p| p.ddr.as_ref()) {
            ddr.get_or_insert_default().add(d);
        }
        Self {
            nodes: nodes.len(),
            htp: of(Backend::Htp),
            gpu: of(Backend::Gpu),
            cpu: of(Backend::Cpu),
            host: of(Backend::Host),
            folded: of(Backend::Folded),
            partitions: partitions.len(),
            qnn_ops: partitions.iter().map(|p| p.qnn_ops).sum(),
            weight_bytes: partitions.iter().fold(0, |sum, p| sum.saturating_add(p.weight_bytes)),
            activation_bytes: partitions.iter().fold(0, |sum, p| sum.saturating_add(p.activation_bytes)),
            boundary_bytes: partitions
                .iter()
                .fold(0, |sum, p| sum.saturating_add(p.bytes_in).saturating_add(p.bytes_out)),
            ddr,
            ..Self::default()
        }
    }

    pub fn of(&self, backend: Backend) -> usize {
        match backend {
            Backend::Htp => self.htp,
            Backend::Gpu => self.gpu,
            Backend::Cpu => self.cpu,
            Backend::Host => self.host,
            Backend::Folded => self.folded,
        }
    }
}

/// What preparation reports about DDR traffic of one inference, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ddr {
    pub read_total_bytes: u64,
    pub write_total_bytes: u64,
    /// Written because the tightly coupled memory was full.
    pub spill_bytes: u64,
    /// Read back after a spill.
    pub fill_bytes: u64,
}

impl Ddr {
    pub fn add(&mut self, other: &Self) {
        self.read_total_bytes = self.read_total_bytes.saturating_add(other.read_total_bytes);
        self.write_total_bytes = self.write_total_bytes.saturating_add(other.write_total_bytes);
        self.spill_bytes = self.spill_bytes.saturating_add(other.spill_bytes);
        self.fill_bytes = self.fill_bytes.saturating_add(other.fill_bytes);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoKind {
    Input,
    Output,
}

/// An input or output of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Io {
    pub kind: IoKind,
    pub name: String,
    /// ONNX element type (`float32`).
    pub onnx_type: String,
    /// As compiled; symbolic dimensions by name.
    pub shape: Vec<String>,
    /// Type of the QNN tensor at the edge (`FLOAT_32`); `None` if no partition touches it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qnn_type: Option<String>,
}

/// One QNN graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// Name of the QNN graph.
    pub name: String,
    pub backend: Backend,
    /// Number of nodes of the user's model in it.
    pub nodes: usize,
    pub qnn_ops: usize,
    pub inputs: Vec<PartitionTensor>,
    pub outputs: Vec<PartitionTensor>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Bytes of constants, in the type in which they are stored.
    pub weight_bytes: u64,
    /// Bytes of all tensors between ops.
    pub activation_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ddr: Option<Ddr>,
}

impl Partition {
    /// The partition that `graph` is, with `nodes` of the user's nodes in it. Sizes are those of the QNN tensors.
    pub fn of(graph: &QnnGraph, backend: Backend, nodes: usize) -> Self {
        let tensors = |ids: &[TensorId]| -> Vec<PartitionTensor> {
            ids.iter().map(|id| PartitionTensor::of(graph.tensor(*id))).collect()
        };
        let (inputs, outputs) = (tensors(&graph.inputs), tensors(&graph.outputs));
        let sum = |ts: &[PartitionTensor]| ts.iter().fold(0u64, |s, t| s.saturating_add(t.bytes));
        Self {
            name: graph.name.clone(),
            backend,
            nodes,
            qnn_ops: graph.ops.len(),
            bytes_in: sum(&inputs),
            bytes_out: sum(&outputs),
            inputs,
            outputs,
            weight_bytes: bytes_of(graph, TensorKind::Static),
            activation_bytes: bytes_of(graph, TensorKind::Native),
            ddr: None,
        }
    }
}

fn bytes_of(graph: &QnnGraph, kind: TensorKind) -> u64 {
    graph.tensors.iter().filter(|t| t.kind == kind).fold(0, |s: u64, t| s.saturating_add(tensor_bytes(t)))
}

fn tensor_bytes(t: &QnnTensor) -> u64 {
    t.dims.iter().fold(t.dtype.size() as u64, |n, &d| n.saturating_mul(u64::from(d)))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionTensor {
    pub name: String,
    /// QNN type.
    pub dtype: String,
    pub dims: Vec<u32>,
    pub bytes: u64,
}

impl PartitionTensor {
    pub fn of(t: &QnnTensor) -> Self {
        Self { name: t.name.clone(), dtype: t.dtype.to_string(), dims: t.dims.clone(), bytes: tensor_bytes(t) }
    }
}

/// What became of one node of the user's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePlacement {
    pub name: String,
    pub op_type: String,
    /// Empty for ai.onnx.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub domain: String,
    pub backend: Backend,
    /// `None` for a node that is on no backend of ours.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<Evidence>,
    /// The partition that holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partition: Option<String>,
    /// The QNN ops that it became.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub qnn_ops: Vec<QnnOpRef>,
    /// Why it is not on the NPU (or, for a folded node, may be empty).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reasons: Vec<Reason>,
    /// Rewrites that it went through, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rewrites: Vec<String>,
}

impl NodePlacement {
    /// `Conv`, `com.microsoft::Gelu`
    pub fn op_name(&self) -> String {
        if self.domain.is_empty() { self.op_type.clone() } else { format!("{}::{}", self.domain, self.op_type) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QnnOpRef {
    pub name: String,
    pub op_type: String,
}

/// What would change if some refused nodes were on the NPU, or gone from the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fix {
    /// The op that all of them are: `Erf`, `acme::Unfoldify`.
    pub op: String,
    /// Codes of the reasons that would have to go.
    pub codes: Vec<String>,
    /// The user's nodes; those that are refused only because of them are not listed and come with them.
    pub nodes: Vec<String>,
    pub now: Cut,
    /// With these nodes alone.
    pub then: Cut,
    /// With these nodes and those of all rows above.
    pub with_all_above: Cut,
}

impl Fix {
    /// Would fewer partitions be left?
    pub fn merges(&self) -> bool {
        self.then.partitions < self.now.partitions
    }
}

/// How a model is cut between the NPU and the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub partitions: usize,
    /// The user's nodes on the host.
    pub host_nodes: usize,
    /// Tensors that pass between partitions and other nodes; inputs and outputs of the model are not among them.
    pub boundary_tensors: usize,
    pub boundary_bytes: u64,
}

/// Something to know about the model as a whole, a tensor or a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `QNNxxx`
    pub code: String,
    pub severity: Severity,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tensor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

impl From<crate::finding::Finding> for Finding {
    fn from(f: crate::finding::Finding) -> Self {
        let severity = match f.severity {
            crate::finding::Severity::Note => Severity::Note,
            crate::finding::Severity::Warning => Severity::Warning,
            crate::finding::Severity::Error => Severity::Error,
        };
        Self { code: f.code.into(), severity, message: f.message, node: f.node, tensor: None, fix: f.fix }
    }
}

/// A rewrite that was applied, or that looked applicable and was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    pub name: String,
    pub applied: bool,
    /// The user's nodes that it matched.
    pub nodes: Vec<String>,
    /// Why it was not applied, or what it did.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub message: String,
}
