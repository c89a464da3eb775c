//! From a file to a [`Model`].

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use indexmap::IndexMap;
use prost::Message;

use super::build::Builder;
use super::error::{Fault, LoadError, foreign};
use super::external::External;
use super::function::{Functions, Opsets, Scope, domain};
use super::map::map;
use super::proto::{FunctionProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, TensorAnnotation};
use super::tensor::KNOWN_IR;
use super::write::Header;
use crate::finding::{Finding, codes};
use crate::ir::Graph;

/// The newest opset of ai.onnx that this build knows.
pub const NEWEST_OPSET: i64 = 28;
/// The oldest opset of ai.onnx that is read.
pub const OLDEST_OPSET: i64 = 7;

/// A loaded model.
#[derive(Clone, Debug)]
pub struct Model {
    pub graph: Graph,
    pub path: PathBuf,
    pub ir_version: i64,
    pub producer_name: String,
    pub producer_version: String,
    pub domain: String,
    pub model_version: i64,
    pub doc: String,
    /// What the model imports: version by domain ("" is ai.onnx).
    pub opsets: IndexMap<String, i64>,
    pub metadata: IndexMap<String, String>,
    pub quantization: Vec<QuantAnnotation>,
    /// Calls of model-local functions that were inlined.
    pub inlined_calls: usize,
    /// Those of them that stood in the model's own graphs: domain and function by the name of the call.
    pub calls: IndexMap<String, (String, String)>,
    /// Files with external data, in the order of first use.
    pub data_files: Vec<PathBuf>,
    /// What was noticed on the way.
    pub findings: Vec<Finding>,
}

impl Model {
    /// `pytorch 2.4.0`; empty if the model does not say.
    pub fn producer(&self) -> String {
        format!("{} {}", self.producer_name, self.producer_version).trim().to_string()
    }

    /// What the model says about itself, for writing it again.
    pub fn header(&self) -> Header {
        Header {
            ir_version: self.ir_version,
            producer_name: self.producer_name.clone(),
            producer_version: self.producer_version.clone(),
            domain: self.domain.clone(),
            model_version: self.model_version,
            doc: self.doc.clone(),
            metadata: self.metadata.clone(),
            quantization: self.quantization.clone(),
        }
    }
}

/// Which tensors hold the quantisation parameters of a tensor, as the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantAnnotation {
    pub tensor: String,
    /// Tensor name by role (`SCALE_TENSOR`, `ZERO_POINT_TENSOR`).
    pub parameters: IndexMap<String, String>,
}

/// Reads the model at `path`; weights stay in the mapped file.
///
/// # Errors
/// A file that cannot be read as an ONNX model, or a model whose values cannot be read or break the rules of a graph.
pub fn load(path: &Path) -> Result<Model, LoadError> {
    let fail = |fault| LoadError { path: path.to_path_buf(), fault: Box::new(fault) };
    let bytes = map(path).map_err(|e| fail(Fault::io(e)))?;
    load_bytes(path, bytes)
}

/// As [`load`], of the content of a file; external data is looked for beside `path`.
pub fn load_bytes(path: &Path, bytes: Bytes) -> Result<Model, LoadError> {
    read(path, bytes).map_err(|fault| LoadError { path: path.to_path_buf(), fault: Box::new(fault) })
}

/// Decodes the model file at `path` and reads nothing of it: no tensor, no type, no external data.
///
/// # Errors
/// A file that is not an ONNX model with a graph.
pub fn decode(path: &Path) -> Result<ModelProto, LoadError> {
    let fail = |fault| LoadError { path: path.to_path_buf(), fault: Box::new(fault) };
    let bytes = map(path).map_err(|e| fail(Fault::io(e)))?;
    decode_bytes(bytes).map_err(fail)
}

fn decode_bytes(bytes: Bytes) -> Result<ModelProto, Fault> {
    if bytes.is_empty() {
        return Err(Fault::Empty);
    }
    let head = bytes.slice(..bytes.len().min(512));
    let len = bytes.len();
    let proto = ModelProto::decode(bytes)
        .map_err(|e| foreign(&head).unwrap_or_else(|| Fault::Damaged { len, detail: decoding(&e) }))?;
    if proto.graph.is_none() {
        return Err(foreign(&head).unwrap_or(Fault::NoGraph));
    }
    Ok(proto)
}

fn read(path: &Path, bytes: Bytes) -> Result<Model, Fault> {
    let proto = decode_bytes(bytes)?;
    let ModelProto { graph: Some(graph), .. } = proto else { return Err(Fault::NoGraph) };

    let (opsets, mut findings) = imports(&proto.opset_import);
    check_versions(&opsets, &proto.functions)?;
    if let Some(v) = opsets.get("").filter(|v| **v > NEWEST_OPSET) {
        findings.push(
            Finding::warning(
                codes::NEW_OPSET,
                format!("the model imports opset {v} of ai.onnx; the newest known is {NEWEST_OPSET}"),
            )
            .fix("ops that changed since may be judged by their older form"),
        );
    }
    if proto.ir_version > KNOWN_IR {
        let message = format!("the model is of IR version {}; the newest known is {KNOWN_IR}", proto.ir_version);
        findings.push(Finding::warning(codes::NEW_IR, message));
    }
    let opsets: Opsets = Rc::new(opsets);
    for (function, domain, own, models) in Functions::other_opsets(&proto.functions, &opsets) {
        let domain = if domain.is_empty() { "ai.onnx".into() } else { domain };
        let message = format!("function {function} is written for {domain} {own}, the model for {models}");
        findings.push(Finding::note(codes::FUNCTION_OPSET, message));
    }

    let quantization = graph.quantization_annotation.iter().map(annotation).collect();
    let functions = Functions::new(proto.functions, &graph, &opsets);
    let mut builder = Builder::new(External::beside(path), functions, proto.ir_version);
    builder.findings = findings;
    if !proto.training_info.is_empty() {
        builder.left_out("the training part of the model");
    }
    if !proto.configuration.is_empty() {
        builder.left_out("the multi-device configuration of the model");
    }
    let graph = builder.main(graph, &Scope::of_model(opsets.clone()))?;
    Ok(Model {
        graph,
        path: path.to_path_buf(),
        ir_version: proto.ir_version,
        producer_name: proto.producer_name,
        producer_version: proto.producer_version,
        domain: proto.domain,
        model_version: proto.model_version,
        doc: String::from_utf8_lossy(&proto.doc_string).into_owned(),
        opsets: (*opsets).clone(),
        metadata: entries(&proto.metadata_props),
        quantization,
        inlined_calls: builder.functions.inlined(),
        calls: builder.functions.calls().clone(),
        data_files: builder.files.paths(),
        findings: builder.findings,
    })
}

/// What the decoder stumbled over, and in which field.
fn decoding(e: &prost::DecodeError) -> String {
    let text = e.to_string();
    text.strip_prefix("failed to decode Protobuf message: ").unwrap_or(&text).to_string()
}

fn entries(list: &[StringStringEntryProto]) -> IndexMap<String, String> {
    list.iter().map(|e| (e.key.clone(), e.value.clone())).collect()
}

fn annotation(a: &TensorAnnotation) -> QuantAnnotation {
    QuantAnnotation { tensor: a.tensor_name.clone(), parameters: entries(&a.quant_parameter_tensor_names) }
}

/// Versions by domain. Of a domain that is imported twice, the newer version counts.
fn imports(list: &[OperatorSetIdProto]) -> (IndexMap<String, i64>, Vec<Finding>) {
    let mut opsets: IndexMap<String, i64> = IndexMap::new();
    let mut findings = vec![];
    for import in list {
        let (domain, version) = (domain(&import.domain).to_string(), import.version.unwrap_or(1));
        match opsets.get_mut(&domain) {
            Some(known) if *known != version => {
                let shown = if domain.is_empty() { "ai.onnx" } else { &domain };
                let message = format!("{shown} is imported in versions {known} and {version}; the newer is taken");
                findings.push(Finding::warning(codes::REPEATED, message));
                *known = version.max(*known);
            }
            Some(_) => {}
            None => {
                opsets.insert(domain, version);
            }
        }
    }
    (opsets, findings)
}

fn check_versions(opsets: &IndexMap<String, i64>, functions: &[FunctionProto]) -> Result<(), Fault> {
    let too_old = |user: String, version: i64| Fault::OldOpset { user, version, oldest: OLDEST_OPSET };
    if let Some(v) = opsets.get("").filter(|v| **v < OLDEST_OPSET) {
        return Err(too_old("the model".into(), *v));
    }
    for f in functions {
        for import in f.opset_import.iter().filter(|i| domain(&i.domain).is_empty()) {
            let version = import.version.unwrap_or(1);
            if version < OLDEST_OPSET {
                return Err(too_old(format!("the model's function {}", f.name), version));
            }
        }
    }
    Ok(())
}
