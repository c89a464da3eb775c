//! Runs graphs on this machine: the CPU backend, or HTP's emulation.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use qnn_sys::Qnn_Tensor_t;

use super::build::{Uses, build, htp_options, map};
use super::ffi::{Graph, System, Vendor};
use super::inspect::{describe, open};
use super::marshal::{Store, tensor};
use super::state::{Fault, Tracker};
use crate::qnn::graph::{TensorId, TensorKind};
use crate::qnn::protocol::{Backend, Blob, Outputs, PrepareOptions, Stage, TensorInfo, WireGraph, WireTensor};

type NamedBlobs = [(String, Blob)];

/// Runs one graph of a binary.
pub fn execute(
    vendor: &Vendor,
    system: &System,
    binary: &Path,
    graph: &str,
    inputs: &NamedBlobs,
    files: &[File],
    tracker: &mut Tracker,
) -> Result<Outputs, Fault> {
    tracker.at(Stage::Inspecting, 0, 0);
    let mapped = open(binary)?;
    let info = describe(system, &mapped, binary)?;
    let wanted = info.graphs.iter().find(|g| g.name == graph).ok_or_else(|| {
        let names: Vec<&str> = info.graphs.iter().map(|g| g.name.as_str()).collect();
        Fault::request(format!("{} has no graph `{graph}`; it has {names:?}", binary.display()))
    })?;
    tracker.at(Stage::Executing, 0, 0);
    let context = vendor.context_from_binary(mapped.bytes())?;
    let handle = context.retrieve(graph)?;
    let mut store = Store::default();
    let mut side = |all: &[TensorInfo], kind| {
        all.iter().map(|t| Ok((t.clone(), with_id(&mut store, t, kind)?))).collect::<Result<Vec<_>, Fault>>()
    };
    let ins = side(&wanted.inputs, TensorKind::AppWrite)?;
    let outs = side(&wanted.outputs, TensorKind::AppRead)?;
    run_graph(handle, &ins, &outs, inputs, files)
}

/// Builds a graph and runs it.
pub fn run(
    vendor: &Vendor,
    backend: Backend,
    wire: &WireGraph,
    options: &PrepareOptions,
    inputs: &NamedBlobs,
    files: &[File],
    tracker: &mut Tracker,
) -> Result<Outputs, Fault> {
    let context = vendor.context(false)?;
    let mut configs = if backend == Backend::Htp { htp_options(options) } else { Vec::new() };
    let graph = context.graph(&wire.name, &mut configs, None)?;
    let built = build(graph, 0, wire, files, &mut Uses::of(std::slice::from_ref(wire)), tracker)?;
    tracker.at(Stage::Finalising, 0, 0);
    graph.finalise()?;
    tracker.at(Stage::Executing, 0, 0);
    let side = |ids: &[TensorId]| {
        ids.iter()
            .map(|id| {
                let missing = || Fault::request(format!("there is no tensor {}", id.0));
                let t = wire.tensors.get(id.0 as usize).ok_or_else(missing)?;
                let raw = built.tensors.get(id.0 as usize).ok_or_else(missing)?;
                let (name, dims, quant) = (t.name.clone(), t.dims.clone(), t.quant.clone());
                Ok((TensorInfo { id: id.0, name, dtype: t.dtype, dims, quant }, *raw))
            })
            .collect::<Result<Vec<_>, Fault>>()
    };
    run_graph(graph, &side(&wire.inputs)?, &side(&wire.outputs)?, inputs, files)
}

/// A tensor of a loaded graph: the library knows it by its id.
fn with_id(store: &mut Store, t: &TensorInfo, kind: TensorKind) -> Result<Qnn_Tensor_t, Fault> {
    let wire = WireTensor {
        name: t.name.clone(),
        kind,
        dtype: t.dtype,
        dims: t.dims.clone(),
        quant: t.quant.clone(),
        data: None,
    };
    let mut raw = tensor(store, &wire)?;
    super::ffi::set_id(&mut raw, t.id);
    Ok(raw)
}

fn byte_len(t: &TensorInfo) -> Result<usize, Fault> {
    t.dims
        .iter()
        .try_fold(t.dtype.size(), |a, &d| a.checked_mul(d as usize))
        .filter(|&n| u32::try_from(n).is_ok())
        .ok_or_else(|| Fault::request(format!("tensor `{}` is too large", t.name)))
}

fn run_graph(
    graph: Graph<'_>,
    ins: &[(TensorInfo, Qnn_Tensor_t)],
    outs: &[(TensorInfo, Qnn_Tensor_t)],
    inputs: &NamedBlobs,
    files: &[File],
) -> Result<Outputs, Fault> {
    let mut mapped = Vec::with_capacity(ins.len());
    for (t, raw) in ins {
        let (_, blob) = inputs
            .iter()
            .find(|(name, _)| *name == t.name)
            .ok_or_else(|| Fault::request(format!("the input `{}` is missing", t.name)))?;
        let need = byte_len(t)?;
        if blob.len != need as u64 {
            return Err(Fault::request(format!("the input `{}` has {} bytes, not {need}", t.name, blob.len)));
        }
        mapped.push((*raw, map(files, *blob)?));
    }
    let mut given: Vec<(Qnn_Tensor_t, &[u8])> = mapped.iter().map(|(raw, m)| (*raw, m.bytes())).collect();
    let mut made =
        outs.iter().map(|(t, raw)| Ok((*raw, vec![0u8; byte_len(t)?]))).collect::<Result<Vec<_>, Fault>>()?;
    graph.execute(&mut given, &mut made)?;
    // The last file takes the outputs.
    let file = files.last().ok_or_else(|| Fault::request("the request has no file for the outputs"))?;
    let failed = |e: std::io::Error| Fault::file("writing the outputs", &e);
    let mut at = file.metadata().map_err(failed)?.len();
    let index = (files.len() - 1) as u32;
    outs.iter()
        .zip(made)
        .map(|((t, _), (_, bytes))| {
            file.write_all_at(&bytes, at).map_err(failed)?;
            let blob = Blob { file: index, offset: at, len: bytes.len() as u64 };
            at += bytes.len() as u64;
            Ok((t.clone(), blob))
        })
        .collect()
}
