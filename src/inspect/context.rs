//! EPContext models: nodes that point into context binaries.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::binary::{self, BinaryReport};
use super::model::{OpCount, ValueDesc, op_name, opsets, value};
use crate::Error;
use crate::ir::Graph;
use crate::onnx::proto::{ModelProto, NodeProto};
use crate::report::OpsetImport;

const MS_DOMAIN: &str = "com.microsoft";
const OP: &str = "EPContext";

#[derive(Clone, Debug, Serialize)]
pub struct ContextReport {
    pub file: String,
    pub ir_version: i64,
    pub producer: String,
    pub opsets: Vec<OpsetImport>,
    pub inputs: Vec<ValueDesc>,
    pub outputs: Vec<ValueDesc>,
    pub contexts: Vec<ContextNode>,
    /// Ops left to ONNX Runtime's CPU; constants are not work.
    pub host_ops: Vec<OpCount>,
    /// The binaries that the nodes name and that could be read.
    pub binaries: Vec<BinaryReport>,
    /// Why binaries were not read, if there was no runtime to read them with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// What an EPContext node says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContextNode {
    /// Also the name of the graph in the binary.
    pub name: String,
    pub source: String,
    pub main_context: bool,
    /// The binary is in the model itself.
    pub embedded: bool,
    /// The binary's file as the node names it; empty if embedded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub binary: String,
    /// Size of the binary; None if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary_bytes: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partition_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sdk_version: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

impl ContextNode {
    fn of(node: &NodeProto, folder: &Path) -> Self {
        let attr = |name: &str| node.attribute.iter().find(|a| a.name == name);
        let bytes = |name: &str| attr(name).and_then(|a| a.s.clone()).unwrap_or_default();
        let text = |name: &str| String::from_utf8_lossy(&bytes(name)).into_owned();
        let int = |name: &str| attr(name).and_then(|a| a.i);
        // The op's own defaults: embedded, and the main node.
        let embedded = int("embed_mode").unwrap_or(1) != 0;
        let binary = if embedded { String::new() } else { text("ep_cache_context") };
        let size = || std::fs::metadata(folder.join(&binary)).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
        let binary_bytes = match embedded {
            true => Some(bytes("ep_cache_context").len() as u64),
            false if binary.is_empty() => None,
            false => size(),
        };
        Self {
            name: node.name.clone(),
            source: text("source"),
            main_context: int("main_context").unwrap_or(1) != 0,
            embedded,
            binary_bytes,
            binary,
            partition_name: text("partition_name"),
            sdk_version: text("ep_sdk_version"),
            inputs: node.input.clone(),
            outputs: node.output.clone(),
        }
    }

    fn problem(&self) -> Option<String> {
        let inside =
            Path::new(&self.binary).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if self.embedded {
            None
        } else if self.binary.is_empty() {
            self.main_context.then(|| format!("node {:?} names no binary", self.name))
        } else if !inside {
            Some(format!("node {:?} points to {:?}, which is outside of the model's folder", self.name, self.binary))
        } else if self.binary_bytes.is_none() {
            Some(format!("node {:?} points to {:?}, which is missing", self.name, self.binary))
        } else {
            None
        }
    }
}

fn is_context(node: &NodeProto) -> bool {
    node.op_type == OP && node.domain == MS_DOMAIN
}

/// The report, if the model has EPContext nodes.
pub(super) fn describe(path: &Path, model: &ModelProto, sdk: Option<&str>) -> Option<ContextReport> {
    let graph = model.graph.as_ref()?;
    if !graph.node.iter().any(is_context) {
        return None;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let contexts: Vec<ContextNode> =
        graph.node.iter().filter(|n| is_context(n)).map(|n| ContextNode::of(n, folder)).collect();
    let mut host: Vec<OpCount> = vec![];
    for node in graph.node.iter().filter(|n| !is_context(n) && n.op_type != "Constant") {
        let op = op_name(&node.domain, &node.op_type);
        match host.iter_mut().find(|c| c.op == op) {
            Some(c) => c.count += 1,
            None => host.push(OpCount { op, count: 1 }),
        }
    }
    host.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.op.cmp(&b.op)));
    let mut problems: Vec<String> = contexts.iter().filter_map(ContextNode::problem).collect();
    let mut binaries: Vec<BinaryReport> = vec![];
    let mut note = None;
    if problems.is_empty() {
        let embedded: Vec<&NodeProto> = graph.node.iter().filter(|n| is_context(n)).collect();
        match read_binaries(folder, &contexts, &embedded, sdk) {
            Ok(found) => binaries = found,
            Err(e) if e.exit_code() == 3 => note = Some(format!("the binaries were not read: {e}")),
            Err(e) => problems.push(e.to_string()),
        }
        check_graphs(&contexts, &binaries, &mut problems);
    }
    Some(ContextReport {
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        ir_version: model.ir_version,
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().into(),
        opsets: opsets(model),
        inputs: graph.input.iter().map(value).collect(),
        outputs: graph.output.iter().map(value).collect(),
        contexts,
        host_ops: host,
        binaries,
        note,
        problems,
    })
}

/// Every binary once, in the order of the nodes.
fn read_binaries(
    folder: &Path,
    contexts: &[ContextNode],
    protos: &[&NodeProto],
    sdk: Option<&str>,
) -> Result<Vec<BinaryReport>, Error> {
    let mut out: Vec<BinaryReport> = vec![];
    for (c, proto) in contexts.iter().zip(protos) {
        if c.embedded {
            let data = proto.attribute.iter().find(|a| a.name == "ep_cache_context").and_then(|a| a.s.clone());
            let no_room = |e| Error::environment(format!("no temporary file for an embedded binary: {e}"));
            let mut file = tempfile::NamedTempFile::new().map_err(no_room)?;
            file.write_all(&data.unwrap_or_default()).map_err(no_room)?;
            out.push(BinaryReport { file: embedded_name(c), ..binary::inspect(file.path(), sdk)? });
        } else if !c.binary.is_empty() && !out.iter().any(|b| b.file == c.binary) {
            out.push(BinaryReport { file: c.binary.clone(), ..binary::inspect(&folder.join(&c.binary), sdk)? });
        }
    }
    Ok(out)
}

fn embedded_name(c: &ContextNode) -> String {
    format!("(in node {:?})", c.name)
}

/// Every node's name is that of a graph in its binary.
fn check_graphs(contexts: &[ContextNode], binaries: &[BinaryReport], problems: &mut Vec<String>) {
    let by_file: HashMap<&str, &BinaryReport> = binaries.iter().map(|b| (b.file.as_str(), b)).collect();
    for c in contexts {
        let file = if c.embedded { embedded_name(c) } else { c.binary.clone() };
        let Some(b) = by_file.get(file.as_str()) else { continue };
        if !b.graphs.iter().any(|g| g.name == c.name) {
            let names: Vec<&str> = b.graphs.iter().map(|g| g.name.as_str()).collect();
            problems.push(format!("node {:?} names no graph of {file}, which has {}", c.name, names.join(", ")));
        }
    }
}

/// Refuses a model that is compiled already: its nodes are binaries, and nothing about them can be placed.
///
/// # Errors
/// The model has EPContext nodes (2); the text says what the first one says, and whether its binary is there.
pub fn refuse_precompiled(path: &Path, graph: &Graph) -> Result<(), Error> {
    let Some((_, node)) = graph.nodes().find(|(_, n)| n.op_type == OP && n.domain == MS_DOMAIN) else { return Ok(()) };
    let mut text = format!("{} is compiled already: node {:?} is an EPContext node", path.display(), node.name);
    let said = [("source", "source"), ("ep_sdk_version", "SDK")].into_iter().filter_map(|(key, title)| {
        let value = node.attrs.str(key).filter(|v| !v.is_empty())?;
        Some(format!("{title} {value}"))
    });
    let said: Vec<String> = said.collect();
    if !said.is_empty() {
        text = format!("{text} ({})", said.join(", "));
    }
    if node.attrs.int_or("embed_mode", 1) == 0 {
        let file = node.attrs.str_or("ep_cache_context", "");
        let there: PathBuf = path.parent().unwrap_or(Path::new("")).join(file);
        let state = if there.is_file() { "which is there" } else { "which is missing" };
        text = format!("{text} that points to {file:?}, {state}");
    }
    Err(Error::input(text).help("compile the model that it was made from; `qnnc inspect` shows what is in this one"))
}
