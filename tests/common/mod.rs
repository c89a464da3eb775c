//! What the tests of the worker share: where the vendor's libraries are, and small graphs.
#![allow(dead_code, clippy::print_stdout)]

use std::path::PathBuf;

use qnnc::ir::{NodeId, Tensor};
use qnnc::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};
use qnnc::qnn::{Backend, WorkerOptions};

/// The folder with the vendor's libraries: `QNNC_TEST_SDK`, or what `qnnc sdk install` left in the cache.
pub fn sdk() -> Option<PathBuf> {
    let usable = |folder: PathBuf| folder.join("libQnnHtp.so").exists().then_some(folder);
    if let Some(folder) = std::env::var_os("QNNC_TEST_SDK") {
        return usable(folder.into());
    }
    let cache = std::env::var_os("QNNC_CACHE")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("XDG_CACHE_HOME").map(|d| PathBuf::from(d).join("qnnc")))
        .or_else(|| std::env::var_os("HOME").map(|d| PathBuf::from(d).join(".cache/qnnc")))?;
    let mut versions: Vec<PathBuf> =
        std::fs::read_dir(cache.join("sdk")).ok()?.flatten().map(|e| e.path().join("lib")).collect();
    versions.sort();
    versions.into_iter().find_map(usable)
}

/// Prints why a test does nothing.
pub fn skip_without_sdk() -> Option<PathBuf> {
    let found = sdk();
    if found.is_none() {
        println!("skipped: no QNN libraries (set QNNC_TEST_SDK, or run `qnnc sdk install`)");
    }
    found
}

/// A worker of the program under test.
pub fn options(lib_dir: impl Into<PathBuf>, backend: Backend) -> WorkerOptions {
    let mut options = WorkerOptions::new(lib_dir, backend);
    options.program = Some(env!("CARGO_BIN_EXE_qnnc").into());
    options
}

/// Builds graphs by hand.
#[derive(Default)]
pub struct Graph(pub QnnGraph);

impl Graph {
    pub fn new(name: &str) -> Self {
        Self(QnnGraph { name: name.into(), ..QnnGraph::default() })
    }

    pub fn tensor(&mut self, name: &str, kind: TensorKind, dtype: QnnType, dims: &[u32]) -> TensorId {
        let id = TensorId(self.0.tensors.len() as u32);
        self.0.tensors.push(QnnTensor {
            name: name.into(),
            kind,
            dtype,
            dims: dims.to_vec(),
            quant: Quant::None,
            data: None,
        });
        match kind {
            TensorKind::AppWrite => self.0.inputs.push(id),
            TensorKind::AppRead => self.0.outputs.push(id),
            _ => {}
        }
        id
    }

    pub fn constant(&mut self, name: &str, dtype: QnnType, value: Tensor, perm: Option<Vec<usize>>) -> TensorId {
        let dims: Vec<u32> = match &perm {
            Some(p) => p.iter().map(|&i| value.shape()[i] as u32).collect(),
            None => value.shape().iter().map(|&d| d as u32).collect(),
        };
        let id = self.tensor(name, TensorKind::Static, dtype, &dims);
        self.0.tensors[id.0 as usize].data = Some(StaticData::Constant { tensor: value, perm });
        id
    }

    pub fn op(
        &mut self,
        name: &str,
        op_type: &str,
        inputs: &[TensorId],
        outputs: &[TensorId],
        params: &[(&str, Param)],
    ) {
        self.0.ops.push(QnnOp {
            name: name.into(),
            package: "qti.aisw".into(),
            op_type: op_type.into(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            params: params.iter().map(|(n, p)| ((*n).to_owned(), p.clone())).collect(),
            node: NodeId(0),
        });
    }
}

/// `y = relu(x * w^T)`: x is `[1, inputs]`, w `[outputs, inputs]` with `w[o][i] = (o + i) % 5 - 2`.
pub fn dense(name: &str, rows: u32, inputs: usize, outputs: usize) -> QnnGraph {
    let mut g = Graph::new(name);
    let f = QnnType::FLOAT_32;
    let x = g.tensor("x", TensorKind::AppWrite, f, &[rows, inputs as u32]);
    // Stored the other way round, so that it is transposed on its way.
    let values: Vec<f32> = (0..inputs * outputs).map(|k| ((k / outputs + k % outputs) % 5) as f32 - 2.0).collect();
    let w = g.constant("w", f, Tensor::from_f32(vec![inputs, outputs], &values), Some(vec![1, 0]));
    let h = g.tensor("h", TensorKind::Native, f, &[rows, outputs as u32]);
    let y = g.tensor("y", TensorKind::AppRead, f, &[rows, outputs as u32]);
    g.op("fc", "FullyConnected", &[x, w], &[h], &[]);
    g.op("relu", "Relu", &[h], &[y], &[]);
    g.0
}

/// What [`dense`] computes for one row.
pub fn dense_expected(x: &[f32], outputs: usize) -> Vec<f32> {
    (0..outputs)
        .map(|o| x.iter().enumerate().map(|(i, v)| v * (((i + o) % 5) as f32 - 2.0)).sum::<f32>().max(0.0))
        .collect()
}

pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn f32_values(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}
