//! Files mapped into memory. The only `unsafe` of the loader.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// The files that are mapped now, with their addresses.
static MAPPED: Mutex<Vec<(Range<usize>, Arc<File>)>> = Mutex::new(Vec::new());

/// A mapping that is listed in [`MAPPED`] as long as it lives.
struct Listed(memmap2::Mmap);

impl AsRef<[u8]> for Listed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let start = self.0.as_ptr() as usize;
        if let Ok(mut all) = MAPPED.lock() {
            all.retain(|(range, _)| range.start != start);
        }
    }
}

/// The file that `bytes` is a slice of, and where in it; `None` for bytes that are not part of a mapping made here.
pub fn locate(bytes: &[u8]) -> Option<(Arc<File>, u64)> {
    let start = bytes.as_ptr() as usize;
    let end = start.checked_add(bytes.len())?;
    let all = MAPPED.lock().ok()?;
    let (range, file) = all.iter().find(|(range, _)| range.start <= start && end <= range.end)?;
    Some((file.clone(), (start - range.start) as u64))
}

/// Lets the pages of `bytes` go if they are part of a mapping made here: they are read from the file again when they are
/// touched. For those who have read a large constant and do not want to carry it.
pub fn release(bytes: &[u8]) {
    const PAGE: usize = 4096;
    if locate(bytes).is_none() {
        return;
    }
    let start = (bytes.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (bytes.as_ptr() as usize + bytes.len()) / PAGE * PAGE;
    if start < end {
        // SAFETY: whole pages of a private read-only mapping of a file, which `bytes` keeps alive: what is dropped comes
        // back from the file unchanged.
        let _ = unsafe { rustix::mm::madvise(start as *mut _, end - start, rustix::mm::Advice::LinuxDontNeed) };
    }
}

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
    let start = map.as_ptr() as usize;
    if let Ok(mut all) = MAPPED.lock() {
        all.push((start..start + map.len(), Arc::new(file)));
    }
    Ok(Bytes::from_owner(Listed(map)))
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
    fn slices_are_located_in_their_file_and_survive_a_release() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        let content: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let bytes = map(&path).unwrap();
        let part = bytes.slice(100..40_000);
        let (file, offset) = locate(&part).unwrap();
        assert_eq!((file.metadata().unwrap().len(), offset), (50_000, 100));
        release(&part);
        assert_eq!(part, &content[100..40_000]);
        assert!(locate(&content).is_none());
        drop(bytes);
        assert!(locate(&part).is_some());
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
