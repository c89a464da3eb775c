//! From a graph of the IR to an ONNX file.
//!
//! Names, domains and attributes are written as they stand; nodes in topological order; initializers that nothing reads
//! are left out. Values of a body whose name is taken in a graph around it get another one, since ONNX has one name
//! space for both.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use indexmap::IndexMap;
use prost::Message;

use super::load::QuantAnnotation;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorAnnotation,
    TensorProto, ValueInfoProto, attribute_type as kind,
};
use super::types;
use crate::ir::{Attr, CycleError, Graph, Node, Tensor, ValueId};

/// Initializers of at least this many bytes in all go to a data file by themselves: protobuf ends at 2 GiB.
const INLINE_LIMIT: usize = 1 << 30;
/// Smaller tensors stay in the model even when there is a data file.
const SMALL: usize = 1024;
/// Tensors start at a multiple of this in a data file, so that they can be mapped one by one.
const PAGE: u64 = 4096;
/// The first IR version in which an initializer need not be an input.
const OLDEST_IR: i64 = 4;

/// What a model says about itself.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// At least 4 is written.
    pub ir_version: i64,
    pub producer_name: String,
    pub producer_version: String,
    pub domain: String,
    pub model_version: i64,
    pub doc: String,
    pub metadata: IndexMap<String, String>,
    /// Written for tensors that are still there.
    pub quantization: Vec<QuantAnnotation>,
}

/// Where the elements of large initializers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataFile {
    /// Into the model, or beside it if they take 1 GiB or more.
    #[default]
    Auto,
    /// Into `<model>.data`.
    Always,
}

/// Why a graph could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is not the name of a file", .0.display())]
    NoFile(PathBuf),
    #[error("{0}")]
    Cycle(#[from] CycleError),
    #[error("{reader} reads the value {value:?}, which nothing in the graph makes")]
    Undefined { value: String, reader: String },
    #[error(
        "nodes {first:?} and {second:?} are written for versions {one} and {other} of the domain {domain:?}, \
         and an ONNX graph imports one version of a domain"
    )]
    MixedOpsets { domain: String, first: String, one: i64, second: String, other: i64 },
    #[error("attribute {attribute} of node {node:?} is kept as bytes that are not an attribute")]
    Attribute { node: String, attribute: String },
    #[error("the model takes {0} bytes, and protobuf ends at 2 GiB; write it with a data file")]
    TooLarge(usize),
}

impl From<WriteError> for crate::Error {
    fn from(e: WriteError) -> Self {
        match &e {
            WriteError::Io { path, error } => Self::unwritable(path, error),
            _ => Self::input(e.to_string()),
        }
    }
}

/// The graph as the bytes of a model file, initializers included.
pub fn encode(graph: &Graph, header: &Header) -> Result<Vec<u8>, WriteError> {
    encoded(&Writer::default().model(graph, header)?)
}

/// Writes the graph as a model file at `path`, replacing one that is there only when the new one is whole. Returns the
/// files written, the model first.
pub fn write(path: &Path, graph: &Graph, header: &Header, data: DataFile) -> Result<Vec<PathBuf>, WriteError> {
    let name = path.file_name().ok_or_else(|| WriteError::NoFile(path.into()))?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let weights: usize = graph.values().filter_map(|(_, v)| Some(v.data.as_ref()?.byte_len())).sum();
    let mut files = vec![path.to_path_buf()];
    let mut writer = Writer::default();
    let mut data_file = None;
    if data == DataFile::Always || weights >= INLINE_LIMIT {
        let mut data_name = name.to_os_string();
        data_name.push(".data");
        let data_path = path.with_file_name(&data_name);
        let io = |error| WriteError::Io { path: data_path.clone(), error };
        let file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        let handle = file.reopen().map_err(io)?;
        writer.data = Some(Data {
            location: data_name.to_string_lossy().into_owned(),
            path: data_path.clone(),
            file: io::BufWriter::new(handle),
            len: 0,
        });
        data_file = Some((file, data_path));
    }
    let bytes = encoded(&writer.model(graph, header)?)?;
    if let (Some((file, data_path)), Some(mut data)) = (data_file, writer.data.take()) {
        let io = |error| WriteError::Io { path: data_path.clone(), error };
        data.file.flush().map_err(io)?;
        drop(data);
        persist(file, &data_path)?;
        files.push(data_path);
    }
    let io = |error| WriteError::Io { path: path.into(), error };
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
    file.write_all(&bytes).map_err(io)?;
    persist(file, path)?;
    Ok(files)
}

fn encoded(model: &ModelProto) -> Result<Vec<u8>, WriteError> {
    let len = model.encoded_len();
    if len > i32::MAX as usize { Err(WriteError::TooLarge(len)) } else { Ok(model.encode_to_vec()) }
}

/// Gives a temporary file its name, and the rights that a file made in the ordinary way has.
fn persist(file: tempfile::NamedTempFile, path: &Path) -> Result<(), WriteError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let rights = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(rights).map_err(|error| WriteError::Io { path: path.into(), error })?;
    }
    file.persist(path).map_err(|e| WriteError::Io { path: path.into(), error: e.error })?;
    Ok(())
}

/// A data file that is being written.
struct Data {
    location: String,
    path: PathBuf,
    file: io::BufWriter<std::fs::File>,
    len: u64,
}

impl Data {
    /// Appends the elements of a tensor; gives the entries that say where they are.
    fn append(&mut self, bytes: &Bytes) -> io::Result<Vec<StringStringEntryProto>> {
        let start = self.len.next_multiple_of(PAGE);
        let gap = (start - self.len) as usize;
        self.file.write_all(&[0; PAGE as usize][..gap])?;
        self.file.write_all(bytes)?;
        self.len = start + bytes.len() as u64;
        let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
        Ok(vec![
            entry("location", self.location.clone()),
            entry("offset", start.to_string()),
            entry("length", bytes.len().to_string()),
        ])
    }
}

#[derive(Default)]
struct Writer {
    data: Option<Data>,
    /// Version by domain as the nodes have it, and the first node that has it.
    versions: IndexMap<String, (i64, String)>,
}

impl Writer {
    fn model(&mut self, graph: &Graph, header: &Header) -> Result<ModelProto, WriteError> {
        let mut main = self.graph(graph, &HashSet::new(), &[])?;
        main.quantization_annotation = header
            .quantization
            .iter()
            .filter(|a| graph.value_named(&a.tensor).is_some())
            .map(|a| TensorAnnotation {
                tensor_name: a.tensor.clone(),
                quant_parameter_tensor_names: entries(&a.parameters),
            })
            .collect();
        let mut opsets = graph.opsets.clone();
        for (domain, (version, _)) in &self.versions {
            opsets.insert(domain.clone(), *version);
        }
        Ok(ModelProto {
            ir_version: header.ir_version.max(OLDEST_IR),
            producer_name: header.producer_name.clone(),
            producer_version: header.producer_version.clone(),
            domain: header.domain.clone(),
            model_version: header.model_version,
            doc_string: Bytes::from(header.doc.clone()),
            graph: Some(main),
            opset_import: opsets
                .into_iter()
                .map(|(domain, version)| OperatorSetIdProto { domain, version: Some(version) })
                .collect(),
            metadata_props: entries(&header.metadata),
            ..ModelProto::default()
        })
    }

    /// `around` has the names of the graphs around a body, `captured` those of the values that it captures.
    fn graph(&mut self, g: &Graph, around: &HashSet<String>, captured: &[String]) -> Result<GraphProto, WriteError> {
        let names = Names::of(g, around, captured);
        let order = g.topological_order()?;

        let mut used = vec![false; g.values().count()];
        let mut mark = |id: ValueId| {
            if let Some(slot) = used.get_mut(id.0 as usize) {
                *slot = true;
            }
        };
        order.iter().flat_map(|n| g.node(*n).reads()).for_each(&mut mark);
        g.outputs.iter().copied().for_each(&mut mark);

        let mut out = GraphProto { name: g.name.clone(), ..GraphProto::default() };
        if out.name.is_empty() {
            out.name = "graph".into();
        }
        let given: HashSet<ValueId> = g.inputs.iter().chain(&g.captured).copied().collect();
        for (id, v) in g.values() {
            let read = used.get(id.0 as usize).copied().unwrap_or_default();
            if v.producer.is_some() || given.contains(&id) || !read {
                continue;
            }
            let Some(data) = &v.data else {
                let reader = order.iter().map(|n| g.node(*n)).find(|n| n.reads().any(|r| r == id));
                let reader = reader.map_or_else(|| "the list of outputs".into(), |n| format!("node {:?}", n.name));
                return Err(WriteError::Undefined { value: v.name.clone(), reader });
            };
            out.initializer.push(self.initializer(names.get(id), data)?);
        }
        let info =
            |id: ValueId| ValueInfoProto { name: names.get(id).into(), r#type: types::to_proto(&g.value(id).ty) };
        out.input = g.inputs.iter().map(|id| info(*id)).collect();
        out.output = g.outputs.iter().map(|id| info(*id)).collect();
        let is_output: HashSet<ValueId> = g.outputs.iter().copied().collect();
        out.value_info = g
            .values()
            .filter(|(id, v)| v.producer.is_some() && !is_output.contains(id))
            .map(|(id, _)| info(id))
            .filter(|v| v.r#type.is_some())
            .collect();
        let inner: HashSet<String> = around.iter().cloned().chain(names.0.iter().cloned()).collect();
        for id in order {
            let node = self.node(g.node(id), &names, &inner)?;
            out.node.push(node);
        }
        Ok(out)
    }

    fn node(&mut self, node: &Node, names: &Names, inner: &HashSet<String>) -> Result<NodeProto, WriteError> {
        let (known, first) =
            self.versions.entry(node.domain.clone()).or_insert_with(|| (node.version, node.name.clone()));
        if *known != node.version {
            return Err(WriteError::MixedOpsets {
                domain: node.domain.clone(),
                first: first.clone(),
                one: *known,
                second: node.name.clone(),
                other: node.version,
            });
        }
        let list = |ids: &[Option<ValueId>]| {
            ids.iter().map(|v| v.map_or_else(String::new, |id| names.get(id).into())).collect::<Vec<String>>()
        };
        let mut attribute = Vec::with_capacity(node.attrs.0.len());
        for (name, value) in &node.attrs.0 {
            attribute.push(self.attribute(name, value, node, names, inner)?);
        }
        Ok(NodeProto {
            input: list(&node.inputs),
            output: list(&node.outputs),
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            attribute,
            ..NodeProto::default()
        })
    }

    fn attribute(
        &mut self,
        name: &str,
        value: &Attr,
        node: &Node,
        names: &Names,
        inner: &HashSet<String>,
    ) -> Result<AttributeProto, WriteError> {
        let base = |kind| AttributeProto { name: name.into(), r#type: kind, ..AttributeProto::default() };
        Ok(match value {
            Attr::Int(i) => AttributeProto { i: Some(*i), ..base(kind::INT) },
            Attr::Float(f) => AttributeProto { f: Some(*f), ..base(kind::FLOAT) },
            Attr::Str(s) => AttributeProto { s: Some(s.clone()), ..base(kind::STRING) },
            Attr::Ints(v) => AttributeProto { ints: v.clone(), ..base(kind::INTS) },
            Attr::Floats(v) => AttributeProto { floats: v.clone(), ..base(kind::FLOATS) },
            Attr::Strs(v) => AttributeProto { strings: v.clone(), ..base(kind::STRINGS) },
            Attr::Tensor(t) => AttributeProto { t: Some(Box::new(inline(name, t))), ..base(kind::TENSOR) },
            Attr::Graph(body) => {
                let captured: Vec<String> = node.captures.iter().map(|id| names.get(*id).to_string()).collect();
                let body = self.graph(body, inner, &captured)?;
                AttributeProto { g: Some(Box::new(body)), ..base(kind::GRAPH) }
            }
            Attr::Opaque(bytes) => AttributeProto::decode(bytes.clone())
                .map(|a| AttributeProto { name: name.into(), ..a })
                .map_err(|_| WriteError::Attribute { node: node.name.clone(), attribute: name.into() })?,
            Attr::Ref(of) => AttributeProto { ref_attr_name: of.clone(), ..base(kind::UNDEFINED) },
        })
    }

    fn initializer(&mut self, name: &str, tensor: &Tensor) -> Result<TensorProto, WriteError> {
        match &mut self.data {
            Some(data) if tensor.strings().is_none() && tensor.byte_len() >= SMALL => {
                let path = data.path.clone();
                let external_data = data.append(&tensor.bytes()).map_err(|error| WriteError::Io { path, error })?;
                Ok(TensorProto { external_data, data_location: 1, ..bare(name, tensor) })
            }
            _ => Ok(inline(name, tensor)),
        }
    }
}

fn bare(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: tensor.dtype().to_onnx(),
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        ..TensorProto::default()
    }
}

fn inline(name: &str, tensor: &Tensor) -> TensorProto {
    match tensor.strings() {
        Some(strings) => TensorProto { string_data: strings.to_vec(), ..bare(name, tensor) },
        None => TensorProto { raw_data: Some(tensor.bytes()), ..bare(name, tensor) },
    }
}

fn entries(map: &IndexMap<String, String>) -> Vec<StringStringEntryProto> {
    map.iter().map(|(key, value)| StringStringEntryProto { key: key.clone(), value: value.clone() }).collect()
}

/// The names under which the values of a graph are written, by value.
struct Names(Vec<String>);

impl Names {
    fn of(g: &Graph, around: &HashSet<String>, captured: &[String]) -> Self {
        let mut names: Vec<String> = g.values().map(|(_, v)| v.name.clone()).collect();
        let captures: IndexMap<ValueId, &String> = g.captured.iter().copied().zip(captured).collect();
        let own: HashSet<String> = names.iter().cloned().collect();
        let mut made: HashSet<String> = HashSet::new();
        for (i, name) in names.iter_mut().enumerate() {
            if let Some(outer) = captures.get(&ValueId(i as u32)) {
                outer.as_str().clone_into(name);
                continue;
            }
            if !around.contains(name) {
                continue;
            }
            let mut k = 0usize;
            let mut fresh = format!("{name}_inner");
            while around.contains(&fresh) || own.contains(&fresh) || !made.insert(fresh.clone()) {
                k += 1;
                fresh = format!("{name}_inner_{k}");
            }
            *name = fresh;
        }
        Self(names)
    }

    fn get(&self, id: ValueId) -> &str {
        self.0.get(id.0 as usize).map_or("", String::as_str)
    }
}
