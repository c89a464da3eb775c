//! What is inside a file: a context binary, an EPContext model, or a plain ONNX model.
//!
//! Models are read at the level of the file: nothing is inferred, no weight is read, and external data need not be
//! there. What is wrong is listed, and does not hide the rest.

mod binary;
mod context;
mod model;
mod text;

#[cfg(test)]
mod tests;

pub use binary::{BinaryReport, GraphDesc, TensorDesc};
pub use context::{ContextNode, ContextReport, refuse_precompiled};
pub use model::{ExternalFile, ModelReport, OpCount, Property, ValueDesc, Weights};

use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::Error;
use crate::onnx;

/// What a file is, and what is in it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Inspection {
    Model(ModelReport),
    Context(ContextReport),
    Binary(BinaryReport),
}

impl Inspection {
    /// What is wrong with the file, if something is: to be shown after the rest.
    pub fn error(&self) -> Option<Error> {
        let problems = match self {
            Self::Model(m) => &m.problems,
            Self::Context(c) => &c.problems,
            Self::Binary(_) => return None,
        };
        (!problems.is_empty()).then(|| Error::input(problems.join("; ")))
    }

    /// The inspection as indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The inspection for a terminal.
    pub fn text(&self) -> String {
        text::render(self)
    }
}

/// Looks into the file at `path`. `sdk` is the version of the runtime that reads binaries (None: the default one); an
/// EPContext model is described without one.
///
/// # Errors
/// A file that cannot be read or is of no known kind (2), a binary and no runtime to read it (3).
pub fn inspect(path: &Path, sdk: Option<&str>) -> Result<Inspection, Error> {
    match kind(path)? {
        Kind::Binary => Ok(Inspection::Binary(binary::inspect(path, sdk)?)),
        Kind::Dlc => Err(Error::input(format!("{} is a DLC, and DLC files are not read", path.display()))
            .help("inspect the .ctx.onnx, the .bin or the model that it was made from")),
        Kind::Other => {
            let proto = onnx::decode(path).map_err(|e| {
                Error::from(e)
                    .help("inspect reads ONNX models, EPContext models (.ctx.onnx) and context binaries (.bin)")
            })?;
            let model = model::describe(path, &proto);
            Ok(match context::describe(path, &proto, sdk) {
                Some(context) => Inspection::Context(context),
                None => Inspection::Model(model),
            })
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Binary,
    Dlc,
    /// An ONNX model, or something that its decoder will name.
    Other,
}

/// Judged by the content first: files are renamed.
fn kind(path: &Path) -> Result<Kind, Error> {
    let fail = |e| Error::unreadable(path, &e);
    let meta = std::fs::metadata(path).map_err(fail)?;
    if meta.is_dir() {
        return Err(Error::input(format!("{} is a folder; give a file in it", path.display())));
    }
    let mut head = vec![];
    std::fs::File::open(path).and_then(|f| f.take(64).read_to_end(&mut head)).map_err(fail)?;
    let ends = |e: &str| path.extension().is_some_and(|x| x.eq_ignore_ascii_case(e));
    Ok(match () {
        () if head.starts_with(b"PK\x03\x04") && ends("dlc") => Kind::Dlc,
        () if ends("bin") || binary::looks_like(&head) => Kind::Binary,
        () => Kind::Other,
    })
}
