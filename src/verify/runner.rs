//! Compiled graphs behind a worker process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{InputSpec, Named, Runner};
use crate::Error;
use crate::ir::{DataType, Tensor, TensorType};
use crate::onnx;
use crate::qnn::graph::QnnGraph;
use crate::qnn::protocol::TensorInfo;
use crate::qnn::{Backend, PrepareOptions, Worker, WorkerOptions, inspect_binary};
use crate::sdk::Sdk;

/// An EPContext model that is wholly one graph of a context binary.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub binary: PathBuf,
    /// Name of the graph in the binary.
    pub graph: String,
    pub inputs: Vec<InputSpec>,
    /// All outputs of the model, in order.
    pub outputs: Vec<(String, TensorType)>,
    /// Outputs that are known without running.
    pub constants: Vec<Named>,
}

impl Compiled {
    /// Reads a `.ctx.onnx`.
    ///
    /// # Errors
    /// A model that is not one partition without nodes for the CPU, a missing binary, open shapes (all 2).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let model = onnx::load(path)?;
        let g = &model.graph;
        let mut host: Vec<String> = vec![];
        let mut contexts = vec![];
        for (_, n) in g.nodes() {
            match n.op_type.as_str() {
                "EPContext" if n.domain == "com.microsoft" => contexts.push(n),
                "Constant" | "Identity" if n.domain.is_empty() => {}
                _ => host.push(n.op_name()),
            }
        }
        if !host.is_empty() {
            host.sort();
            host.dedup();
            return Err(Error::input(format!(
                "{} leaves nodes to the CPU ({}), and only models that are wholly on the NPU are verified",
                path.display(),
                host.join(", ")
            )));
        }
        let [node] = contexts.as_slice() else {
            let n = contexts.len();
            return Err(Error::input(format!(
                "{} has {n} partitions, and only models of one partition are verified",
                path.display()
            )));
        };
        if node.attrs.int_or("embed_mode", 1) != 0 {
            return Err(Error::input(format!("{} has its binary embedded; only files are verified", path.display())));
        }
        let file = node.attrs.str_or("ep_cache_context", "");
        let binary = path.parent().unwrap_or(Path::new("")).join(file);
        if !binary.is_file() {
            return Err(Error::input(format!("{} points to {}, which is not there", path.display(), binary.display())));
        }
        let typed = |v| {
            let value = g.value(v);
            let open = || Error::input(format!("{}: {:?} has no static shape", path.display(), value.name));
            let ty = value.ty.tensor().ok_or_else(open)?;
            let shape = ty.static_shape().ok_or_else(open)?;
            Ok::<_, Error>((value.name.clone(), ty.clone(), shape))
        };
        let mut inputs = vec![];
        for &v in &g.inputs {
            let (name, ty, shape) = typed(v)?;
            inputs.push(InputSpec { name, dtype: ty.dtype, shape });
        }
        let mut outputs = vec![];
        let mut constants = vec![];
        for &v in &g.outputs {
            let (name, ty, _) = typed(v)?;
            let made_by = g.value(v).producer.map(|(n, _)| g.node(n));
            let data = g.value(v).data.as_ref().or_else(|| made_by.and_then(|n| n.attrs.tensor("value")));
            if let Some(data) = data {
                constants.push((name.clone(), data.clone()));
            }
            outputs.push((name, ty));
        }
        Ok(Self { binary, graph: node.name.clone(), inputs, outputs, constants })
    }

    pub fn output_names(&self) -> Vec<String> {
        self.outputs.iter().map(|(n, _)| n.clone()).collect()
    }
}

/// A graph of a context binary on the HTP emulation of this machine.
#[derive(Debug)]
pub struct HtpRunner {
    worker: Worker,
    compiled: Compiled,
}

impl HtpRunner {
    /// Starts the worker. The SoC is the one that the binary says it is for.
    ///
    /// # Errors
    /// A binary that cannot be read (2), a runtime that does not fit (3).
    pub fn start(compiled: Compiled, sdk: &Sdk, timeout: Duration) -> Result<Self, Error> {
        let info = inspect_binary(&sdk.lib_dir, &compiled.binary)?;
        let mut options = WorkerOptions::new(&sdk.lib_dir, Backend::Htp).timeout(timeout);
        options.soc_id = info.soc_model;
        Ok(Self { worker: Worker::spawn(options)?, compiled })
    }
}

impl Runner for HtpRunner {
    fn name(&self) -> String {
        "HTP emulation".into()
    }

    fn run(&mut self, inputs: &[Named]) -> Result<Vec<Named>, Error> {
        let bytes: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t.bytes())).collect();
        let feeds: Vec<(&str, &[u8])> = bytes.iter().map(|(n, b)| (*n, b.as_ref())).collect();
        let absolute =
            std::path::absolute(&self.compiled.binary).map_err(|e| Error::unreadable(&self.compiled.binary, &e))?;
        let made = self.worker.execute(&absolute, &self.compiled.graph, &feeds)?;
        let mut out = self.compiled.constants.clone();
        out.extend(named(made, &self.compiled.outputs)?);
        Ok(out)
    }
}

/// A lowered graph on the QNN CPU backend.
#[derive(Debug)]
pub struct CpuRunner {
    worker: Worker,
    graph: QnnGraph,
    outputs: Vec<(String, TensorType)>,
    constants: Vec<Named>,
}

impl CpuRunner {
    /// `worker` is one of the CPU backend; `outputs` are the model's with their ONNX types, `constants` those that are
    /// known without running.
    pub fn new(worker: Worker, graph: QnnGraph, outputs: Vec<(String, TensorType)>, constants: Vec<Named>) -> Self {
        Self { worker, graph, outputs, constants }
    }
}

impl Runner for CpuRunner {
    fn name(&self) -> String {
        "QNN CPU".into()
    }

    fn run(&mut self, inputs: &[Named]) -> Result<Vec<Named>, Error> {
        let bytes: Vec<_> = inputs.iter().map(|(name, t)| (name.as_str(), t.bytes())).collect();
        let feeds: Vec<(&str, &[u8])> = bytes.iter().map(|(n, b)| (*n, b.as_ref())).collect();
        let made = self.worker.run(&self.graph, &PrepareOptions::default(), &feeds)?;
        let mut out = self.constants.clone();
        out.extend(named(made, &self.outputs)?);
        Ok(out)
    }
}

/// Outputs of a QNN graph as tensors of the model: the edge of a graph has ONNX's own types, and shapes that differ at
/// most in the single dimension of a scalar.
fn named(made: Vec<(TensorInfo, Vec<u8>)>, outputs: &[(String, TensorType)]) -> Result<Vec<Named>, Error> {
    made.into_iter()
        .map(|(info, bytes)| {
            let strange = |what: &str| Error::vendor(format!("output {:?} of the compiled graph {what}", info.name));
            let (_, ty) = outputs.iter().find(|(n, _)| *n == info.name).ok_or_else(|| strange("is not the model's"))?;
            let shape = ty.static_shape().ok_or_else(|| strange("has no static shape"))?;
            if info.dtype.size() * 8 != ty.dtype.bits() {
                return Err(strange(&format!("is {}, the model's is {}", info.dtype, ty.dtype)));
            }
            // Any byte but 0 is true, and 1 is what ONNX Runtime gives.
            let bytes =
                if ty.dtype == DataType::Bool { bytes.into_iter().map(|b| u8::from(b != 0)).collect() } else { bytes };
            let tensor = Tensor::from_raw(ty.dtype, shape, bytes.into());
            Ok((info.name.clone(), tensor.ok_or_else(|| strange(&format!("has dims {:?}, not {ty}", info.dims)))?))
        })
        .collect()
}
