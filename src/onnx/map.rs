//! Files mapped into memory. The only `unsafe` of the loader.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

/// The content of a regular file, as a read-only private mapping: pages are read when they are touched, and slices of
/// the result keep the mapping alive. An empty file gives empty bytes.
///
/// The file must not be shortened while the mapping lives: the system ends a process that reads past the new end. That
/// is the price of not copying weights, and what every tool that maps models asks of its user.
pub fn map(path: &Path) -> io::Result<Bytes> {
    // Asked before opening: opening a pipe would wait for a writer.
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is private and read-only, and nothing in this process writes to model files that are open.
    // Another process that writes to the file can change what is read (every value is a valid `u8`, and no reference to
    // anything but bytes is made from it).
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{GraphProto, ModelProto, TensorProto};
    use prost::Message;

    #[test]
    fn decoding_a_map_copies_no_weights() {
        let weight = TensorProto {
            dims: vec![1000],
            data_type: 1,
            name: "w".into(),
            raw_data: Some(vec![7u8; 4000].into()),
            ..TensorProto::default()
        };
        let model = ModelProto {
            ir_version: 8,
            graph: Some(GraphProto { initializer: vec![weight], ..GraphProto::default() }),
            ..ModelProto::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, model.encode_to_vec()).unwrap();

        let bytes = map(&path).unwrap();
        let range = bytes.as_ptr_range();
        let back = ModelProto::decode(bytes.clone()).unwrap();
        let raw = back.graph.unwrap().initializer[0].raw_data.clone().unwrap();
        assert_eq!(raw.len(), 4000);
        assert!(range.contains(&raw.as_ptr()), "the weights were copied out of the map");
    }

    #[test]
    fn directories_and_missing_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(map(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(map(&dir.path().join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(dir.path().join("empty"), []).unwrap();
        assert!(map(&dir.path().join("empty")).unwrap().is_empty());
    }
}
