//! What each backend of a runtime answers to a graph of one op, asked through workers.

use super::Sdk;
use crate::ir::NodeId;
use crate::qnn::graph::{QnnGraph, QnnOp, QnnTensor, QnnType, Quant, TensorId, TensorKind};
use crate::qnn::{Backend, OpVerdict, PrepareOptions, Worker, WorkerError, WorkerOptions, inspect_binary};
use std::path::Path;
use std::time::Duration;

/// Long enough for a slow disk; a library that does not come back at all is reported.
const PATIENCE: Duration = Duration::from_secs(60);
/// SM8650, which every tested release knows.
const SOC: u32 = 57;

/// Backends that are asked, when their library is there.
pub(crate) const BACKENDS: [Backend; 4] = [Backend::Htp, Backend::Ir, Backend::System, Backend::Cpu];

/// What `backend` did, or why it did not.
pub(crate) fn ask(sdk: &Sdk, backend: Backend) -> Result<String, WorkerError> {
    if backend == Backend::System {
        return ask_reader(sdk);
    }
    let mut options = WorkerOptions::new(&sdk.lib_dir, backend).timeout(PATIENCE);
    if backend == Backend::Htp {
        options = options.soc(SOC);
    }
    let graph = relu(if backend == Backend::Cpu { QnnType::FLOAT_32 } else { QnnType::FLOAT_16 });
    let mut worker = Worker::spawn(options)?;
    let verdicts = worker.validate(&graph)?;
    if let Some(refused) = verdicts.iter().find(|v| !v.accepted()) {
        return Ok(format!("answers, but refuses a Relu ({})", why(refused)));
    }
    if backend != Backend::Htp {
        return Ok("answers".to_owned());
    }
    let failed = |source| WorkerError::File { what: "making a temporary folder".to_owned(), source };
    let dir = tempfile::tempdir().map_err(failed)?;
    let prepared = worker.prepare(&[&graph], &PrepareOptions::default(), &dir.path().join("relu.bin"))?;
    Ok(format!("answers and prepares a graph (core API {})", prepared.core_version))
}

/// The reader of binaries is asked about a file that is none: its saying so is an answer.
fn ask_reader(sdk: &Sdk) -> Result<String, WorkerError> {
    let file = std::env::current_exe().unwrap_or_else(|_| Path::new("/dev/null").to_owned());
    match inspect_binary(&sdk.lib_dir, &file) {
        Ok(_) | Err(WorkerError::Request(_)) => Ok("answers".to_owned()),
        Err(e) => Err(e),
    }
}

fn why(verdict: &OpVerdict) -> String {
    verdict.messages.first().cloned().unwrap_or_else(|| format!("code {}", verdict.code))
}

fn relu(dtype: QnnType) -> QnnGraph {
    let tensor = |name: &str, kind| QnnTensor {
        name: name.to_owned(),
        kind,
        dtype,
        dims: vec![1, 4, 4, 8],
        quant: Quant::None,
        data: None,
    };
    QnnGraph {
        name: "doctor".to_owned(),
        tensors: vec![tensor("x", TensorKind::AppWrite), tensor("y", TensorKind::AppRead)],
        ops: vec![QnnOp {
            name: "relu".to_owned(),
            package: "qti.aisw".to_owned(),
            op_type: "Relu".to_owned(),
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(1)],
            params: Vec::new(),
            node: NodeId(0),
        }],
        inputs: vec![TensorId(0)],
        outputs: vec![TensorId(1)],
    }
}

/// What usually helps, by what the loader of libraries said.
pub(crate) fn help(message: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("libatomic.so") {
        "install libatomic (Debian, Ubuntu: apt install libatomic1; Fedora: dnf install libatomic)".to_owned()
    } else if has("GLIBC_") {
        "the runtime needs glibc 2.35 or newer: use a newer distribution, or a container of one".to_owned()
    } else if has("cannot open shared object file") {
        "install the library that is named".to_owned()
    } else {
        "install the runtime again (remove its folder first), or try another version".to_owned()
    }
}
