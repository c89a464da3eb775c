//! Why a model could not be loaded: one line that says what is wrong, where, and what to do.

use std::io;
use std::path::PathBuf;

use super::types::TypeFault;
use crate::ir::CycleError;

/// A model file that could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct LoadError {
    pub path: PathBuf,
    pub fault: Box<Fault>,
}

impl From<LoadError> for crate::Error {
    fn from(e: LoadError) -> Self {
        Self::input(e.to_string())
    }
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("no such file; check the path")]
    Missing,
    #[error("this is a directory; give the .onnx file in it")]
    Directory,
    #[error("not readable: permission denied; check the rights of the file and its folder")]
    Permission,
    #[error("cannot read the file: {0}")]
    Io(io::Error),
    #[error("the file is empty; export or download the model again")]
    Empty,
    #[error("not an ONNX model but {what}; {fix}")]
    Foreign { what: &'static str, fix: &'static str },
    #[error(
        "not a readable ONNX model (the file has {len} bytes): {detail}; it may be cut short or damaged, get it again"
    )]
    Damaged { len: usize, detail: String },
    #[error("the model has no graph; it may be cut short, or not an ONNX model at all")]
    NoGraph,
    #[error("the model does not import ai.onnx, but node {node:?} is of that domain; add an opset import for it")]
    NoOpset { node: String },
    #[error(
        "{user} is written for ai.onnx opset {version}, and the oldest that is read is {oldest}; \
         convert it first (python: onnx.version_converter.convert_version(model, 17))"
    )]
    OldOpset { user: String, version: i64, oldest: i64 },
    #[error("tensor {tensor:?} {place}: {detail}")]
    Tensor { tensor: String, place: String, detail: String },
    #[error("tensor {tensor:?}, whose data is in the external file {file:?}: {detail}")]
    External { tensor: String, file: String, detail: String },
    #[error("{what} {place} has no name; the model breaks the ONNX rules, export it again")]
    Nameless { what: &'static str, place: String },
    #[error("{place} defines the initializer {name:?} twice; remove one or export the model again")]
    DuplicateInitializer { name: String, place: String },
    #[error("value {name:?} {place} is made twice, by {first} and by {second}; every value has one producer in ONNX")]
    TwoProducers { name: String, place: String, first: String, second: String },
    #[error(
        "{reader} {place} reads the value {name:?}, which no node, input or initializer makes; \
         the model was cut wrongly, export it again"
    )]
    Undefined { name: String, place: String, reader: String },
    #[error("{place} has a cycle through {}; an ONNX graph has none, export the model again", cycle.0.join(" -> "))]
    Cycle { place: String, cycle: CycleError },
    #[error("{what} {place} has {fault}")]
    Type { what: String, place: String, fault: TypeFault },
    #[error("the functions {} call each other without end; a function of a model may not be recursive", .0.join(" -> "))]
    Recursion(Vec<String>),
    #[error("node {node:?} calls the function {function}: {detail}")]
    Call { node: String, function: String, detail: String },
    #[error("inlining the model's functions gives more than {limit} nodes (in {function}); flatten the model first")]
    TooManyNodes { function: String, limit: usize },
    #[error("graphs in graphs are nested deeper than {limit} ({place})")]
    TooDeep { place: String, limit: usize },
}

impl Fault {
    pub(super) fn io(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            io::ErrorKind::IsADirectory => Self::Directory,
            io::ErrorKind::PermissionDenied => Self::Permission,
            _ => Self::Io(e),
        }
    }
}

/// What a file that is not an ONNX model seems to be, judged by its first bytes, and what to do about it.
pub(super) fn foreign(head: &[u8]) -> Option<Fault> {
    let starts = |magic: &[u8]| head.starts_with(magic);
    let at = |offset: usize, magic: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let (what, fix) = if starts(b"version https://git-lfs") {
        ("a Git LFS pointer", "run `git lfs pull` to get the model itself")
    } else if starts(b"<!DOCTYPE") || starts(b"<!doctype") || starts(b"<html") {
        ("a web page", "the download went wrong; get the raw file")
    } else if starts(b"PK\x03\x04") {
        ("a zip archive (a PyTorch file or a packed model)", "unpack it, or export it to ONNX")
    } else if starts(b"\x1f\x8b") {
        ("a gzip archive", "unpack it first")
    } else if at(4, b"ORTM") {
        ("a model in ONNX Runtime's ORT format", "give the .onnx that it was converted from")
    } else if at(4, b"TFL3") {
        ("a TensorFlow Lite model", "export the model to ONNX")
    } else if starts(b"\x89HDF") {
        ("an HDF5 file (Keras)", "export the model to ONNX")
    } else if starts(b"GGUF") {
        ("a GGUF file", "export the model to ONNX")
    } else if starts(b"\x7fELF") {
        ("a program", "give the .onnx file")
    } else if looks_like_text(head) {
        ("a text file", "give the .onnx file itself (binary protobuf)")
    } else {
        return None;
    };
    Some(Fault::Foreign { what, fix })
}

fn looks_like_text(head: &[u8]) -> bool {
    let sample = head.get(..512).unwrap_or(head);
    !sample.is_empty() && sample.iter().all(|&b| b >= 0x20 && b != 0x7f || matches!(b, b'\n' | b'\r' | b'\t'))
}
