//! What the parent and the worker say to each other. [`super::channel`] carries it.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::graph::{Param, QnnType, Quant, TensorId, TensorKind};

/// Index of the memory file with converted weights among the files of a request; the model's files follow.
pub const MEMORY: u32 = 0;
/// Which of the vendor's backends a worker loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backend {
    Htp,
    Cpu,
    Ir,
    /// Only libQnnSystem, for looking into binaries.
    System,
}

impl Backend {
    /// File name of its library.
    pub fn library(self) -> &'static str {
        match self {
            Self::Htp => "libQnnHtp.so",
            Self::Cpu => "libQnnCpu.so",
            Self::Ir => "libQnnIr.so",
            Self::System => SYSTEM_LIBRARY,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Htp => "HTP",
            Self::Cpu => "CPU",
            Self::Ir => "IR",
            Self::System => "System",
        }
    }
}

pub const SYSTEM_LIBRARY: &str = "libQnnSystem.so";

/// A library of user-defined ops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpPackage {
    pub path: PathBuf,
    /// Name of the function that provides its interface.
    pub provider: String,
    /// `CPU`, `HTP`; `None` leaves the choice to the library.
    pub target: Option<String>,
}

/// The parent's first words. Attached: the progress file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub backend: Backend,
    pub lib_dir: PathBuf,
    pub soc_id: Option<u32>,
    pub op_packages: Vec<OpPackage>,
}

/// Where the elements of a static tensor lie: bytes of an attached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub file: u32,
    pub offset: u64,
    pub len: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireTensor {
    pub name: String,
    pub kind: TensorKind,
    pub dtype: QnnType,
    pub dims: Vec<u32>,
    pub quant: Quant,
    pub data: Option<Blob>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireOp {
    pub name: String,
    pub package: String,
    pub op_type: String,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
    pub params: Vec<(String, Param)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireGraph {
    pub name: String,
    pub tensors: Vec<WireTensor>,
    pub ops: Vec<WireOp>,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
}

/// How graphs are prepared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrepareOptions {
    /// Store equal weights of several graphs once.
    pub weight_sharing: bool,
    /// Megabytes of VTCM; `None` is the most that the SoC has.
    pub vtcm_mb: Option<u32>,
    /// Compute FLOAT_32 graphs in 16 bit.
    pub float16: bool,
    /// 1 to 3; `None` leaves it to the library.
    pub optimisation: Option<u8>,
    pub hvx_threads: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Answered by [`Reply::Verdicts`] in portions, in the order of `ops`, until all are given.
    Validate {
        graph: WireGraph,
        ops: Vec<u32>,
    },
    /// Attached: files of the weights, then the output file (not for the IR backend, which writes `out` itself).
    Prepare {
        graphs: Vec<WireGraph>,
        options: PrepareOptions,
        out: PathBuf,
    },
    Inspect {
        binary: PathBuf,
    },
    /// Attached: one file with the inputs, to which the outputs are appended.
    Execute {
        binary: PathBuf,
        graph: String,
        inputs: Vec<(String, Blob)>,
    },
    /// Attached: files of the weights, then as for `Execute`.
    Run {
        graph: WireGraph,
        options: PrepareOptions,
        inputs: Vec<(String, Blob)>,
    },
}

/// What the backend's validator said about one op.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpVerdict {
    /// The vendor's error code (low 16 bits); 0 is a yes.
    pub code: u64,
    /// What it logged at error level, in its own words; or why the op was not sent at all.
    pub messages: Vec<String>,
    pub cause: Cause,
}

/// Who gave a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The backend's validator.
    #[default]
    Validator,
    /// [`super::guard`]: the op would crash or hang the library, so it was not asked.
    Guard,
    /// The validator crashed on it.
    Crash,
    /// The validator did not come back from it.
    Hang,
}

impl OpVerdict {
    pub fn accepted(&self) -> bool {
        self.code == 0 && self.cause == Cause::Validator
    }
}

/// Bytes moved between DDR and VTCM per inference, as HTP preparation estimates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DdrBytes {
    pub spill: u64,
    pub fill: u64,
    pub write_total: u64,
    pub read_total: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedGraph {
    pub name: String,
    /// `None` when the library printed no summary.
    pub ddr: Option<DdrBytes>,
    /// Microseconds.
    pub build_us: u64,
    pub finalise_us: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareReply {
    pub graphs: Vec<PreparedGraph>,
    pub binary_bytes: u64,
    /// Microseconds: loading the library, making backend and device (both before the request), writing the binary.
    pub load_us: u64,
    pub device_us: u64,
    pub serialise_us: u64,
    pub build_id: String,
    pub core_version: String,
    /// Most memory that the process had at once, in KiB.
    pub peak_rss_kib: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorInfo {
    pub id: u32,
    pub name: String,
    pub dtype: QnnType,
    pub dims: Vec<u32>,
    pub quant: Quant,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphInfo {
    pub name: String,
    pub inputs: Vec<TensorInfo>,
    pub outputs: Vec<TensorInfo>,
    pub vtcm_bytes: Option<u32>,
    pub optimisation: Option<u32>,
    pub hvx_threads: Option<u64>,
    pub spill_fill_bytes: Option<u64>,
}

/// What is inside a context binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryInfo {
    pub backend_id: u32,
    pub build_id: String,
    pub core_version: String,
    pub backend_version: String,
    pub blob_version: String,
    pub blob_bytes: u64,
    pub soc_model: Option<u32>,
    pub dsp_arch: Option<u32>,
    pub graphs: Vec<GraphInfo>,
}

/// Outputs in the attached file, in the graph's order.
pub type Outputs = Vec<(TensorInfo, Blob)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    Verdicts(Vec<OpVerdict>),
    Prepared(PrepareReply),
    Inspected(BinaryInfo),
    Outputs(Outputs),
    Failed(Failure),
}

/// What went wrong in the worker, other than its death.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// The vendor's error code.
    pub code: Option<u16>,
    /// What the library logged or printed last.
    pub log: Vec<String>,
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A library is missing, of the wrong kind or of an unknown version.
    Library,
    /// The vendor's code returned an error.
    Vendor,
    /// The request does not fit (no such graph in the binary, an input is missing).
    Request,
    /// Reading or writing a file.
    File,
}

/// Where the worker is. It writes this into the shared progress file before every call into the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub stage: Stage,
    /// Index of the graph in the request.
    pub graph: u32,
    /// Index of the op, in the stages that go op by op.
    pub op: u32,
    /// Counts every change.
    pub tick: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Stage {
    #[default]
    Starting,
    Loading,
    Device,
    Idle,
    Validating,
    Tensors,
    Ops,
    Finalising,
    Serialising,
    Inspecting,
    Executing,
}

impl Stage {
    const ALL: [Self; 11] = [
        Self::Starting,
        Self::Loading,
        Self::Device,
        Self::Idle,
        Self::Validating,
        Self::Tensors,
        Self::Ops,
        Self::Finalising,
        Self::Serialising,
        Self::Inspecting,
        Self::Executing,
    ];

    /// As the end of a sentence, "while ...", to which the graph's name may be added where [`Stage::of_graph`] holds.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Loading => "loading the library",
            Self::Device => "creating the backend and the device",
            Self::Idle => "waiting for work",
            Self::Validating => "validating",
            Self::Tensors => "creating the tensors of",
            Self::Ops => "adding the ops of",
            Self::Finalising => "finalising",
            Self::Serialising => "writing the binary of",
            Self::Inspecting => "reading the binary",
            Self::Executing => "executing",
        }
    }
}

impl Stage {
    /// Is it about a graph?
    pub fn of_graph(self) -> bool {
        use Stage::{Executing, Finalising, Ops, Serialising, Tensors, Validating};
        matches!(self, Validating | Tensors | Ops | Finalising | Serialising | Executing)
    }
}

impl Progress {
    /// As it lies in the progress file.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        for (slot, v) in out.chunks_exact_mut(4).zip([self.stage as u32, self.graph, self.op, self.tick]) {
            slot.copy_from_slice(&v.to_le_bytes());
        }
        out
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Self {
            stage: Stage::ALL.get(word(0) as usize).copied().unwrap_or_default(),
            graph: word(4),
            op: word(8),
            tick: word(12),
        }
    }

    /// Reads the progress file; all zero when nothing was written yet.
    pub fn read(file: &std::fs::File) -> Self {
        let mut bytes = [0; 16];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Self::from_bytes(bytes),
            Err(_) => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_survives_its_file() {
        let p = Progress { stage: Stage::Finalising, graph: 2, op: 77, tick: 9 };
        assert_eq!(Progress::from_bytes(p.to_bytes()), p);
    }
}
