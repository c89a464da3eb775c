//! External data: tensors whose elements are in a file beside the model. Each file is mapped once.

use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use indexmap::IndexMap;

use super::error::Fault;
use super::map::map;
use super::proto::StringStringEntryProto;

/// The data files of one model.
#[derive(Debug)]
pub(super) struct External {
    folder: PathBuf,
    files: IndexMap<String, Bytes>,
}

impl External {
    /// For the model at `model`: locations are relative to its folder.
    pub(super) fn beside(model: &Path) -> Self {
        Self { folder: model.parent().unwrap_or(Path::new("")).to_path_buf(), files: IndexMap::new() }
    }

    /// The files that were mapped, in the order of first use.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.keys().map(|location| self.folder.join(location)).collect()
    }

    /// The `expected` bytes of `tensor`, a slice of the mapped file.
    pub(super) fn read(
        &mut self,
        tensor: &str,
        entries: &[StringStringEntryProto],
        expected: usize,
    ) -> Result<Bytes, Fault> {
        let entry = |key: &str| entries.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let location = entry("location").unwrap_or_default();
        let fail = |detail: String| Fault::External { tensor: tensor.into(), file: location.into(), detail };
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => text
                .trim()
                .parse::<u64>()
                .map(Some)
                .map_err(|_| fail(format!("its {key} {text:?} is not a number of bytes; the model is damaged"))),
        };
        if location.is_empty() {
            return Err(fail("the tensor names no file; the model is damaged".into()));
        }
        let inside = Path::new(location).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !inside {
            return Err(fail(
                "the file must lie inside the model's folder; move it there and correct the model".into(),
            ));
        }
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(expected as u64);
        if length != expected as u64 {
            return Err(fail(format!(
                "the model says {length} bytes, but its shape and type take {expected}; export the model again"
            )));
        }
        let data = if let Some(data) = self.files.get(location) {
            data.clone()
        } else {
            let data = map(&self.folder.join(location)).map_err(|e| {
                fail(match Fault::io(e) {
                    Fault::Missing => "the file is missing; put it beside the model".into(),
                    Fault::Directory => "this is a directory".into(),
                    other => other.to_string(),
                })
            })?;
            self.files.insert(location.into(), data.clone());
            data
        };
        let end = offset.checked_add(length).filter(|end| *end <= data.len() as u64).ok_or_else(|| {
            fail(format!(
                "offset {offset} + {length} bytes is beyond the end of the file, which has {} bytes; \
                 it is cut short or belongs to another model",
                data.len()
            ))
        })?;
        Ok(data.slice(offset as usize..end as usize))
    }
}
