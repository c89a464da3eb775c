//! The weights of one request: which bytes of which file hold each static tensor, and the memory file for those that
//! are not in the model's own files as they are needed.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::channel::{MAX_FILES, memory_file};
use super::graph::{QnnGraph, QnnTensor, StaticData, TensorKind};
use super::protocol::{Blob, MEMORY, WireGraph, WireOp, WireTensor};
use super::weights::{Elements, WeightError};
use crate::ir::DataType;
use crate::onnx::map::{locate, release};

/// Below this a tensor is copied even if it lies in a file: naming it would cost the worker a mapping.
const WORTH_MAPPING: usize = 64 << 10;
/// Every tensor of the memory file begins at a multiple of this.
const ALIGN: u64 = 64;

/// Collects the weights of a request, then writes them.
#[derive(Debug, Default)]
pub struct Arena<'a> {
    /// The model's files in use, in the order of their index in the request (from 1).
    sources: Vec<Arc<File>>,
    /// What is written into the memory file: one tensor each, and where.
    jobs: Vec<(&'a QnnTensor, u64)>,
    /// Equal constants (same bytes, permutation, type) are written once.
    written: HashMap<Key, Blob>,
    len: u64,
}

/// Address, length, source type, permutation with shape, target type.
type Key = (usize, usize, Option<DataType>, Option<Vec<usize>>, u32);

impl<'a> Arena<'a> {
    /// The graph as it is sent; its static tensors get their places here.
    pub fn graph(&mut self, graph: &'a QnnGraph) -> Result<WireGraph, WeightError> {
        wire_graph(graph, |t| if t.kind == TensorKind::Static { self.place(t).map(Some) } else { Ok(None) })
    }

    fn place(&mut self, tensor: &'a QnnTensor) -> Result<Blob, WeightError> {
        let elements = Elements::new(tensor)?;
        let len = tensor.byte_len() as u64;
        if let Some((file, offset)) = elements.in_place().filter(|bytes| bytes.len() >= WORTH_MAPPING).and_then(locate)
            && let Some(file) = self.source(file)
        {
            return Ok(Blob { file, offset, len });
        }
        let key = key(tensor);
        if let Some(blob) = key.as_ref().and_then(|k| self.written.get(k)) {
            return Ok(*blob);
        }
        let blob = self.reserve(len);
        self.jobs.push((tensor, blob.offset));
        if let Some(key) = key {
            self.written.insert(key, blob);
        }
        Ok(blob)
    }

    /// A place of `len` bytes in the memory file.
    pub fn reserve(&mut self, len: u64) -> Blob {
        let offset = self.len.next_multiple_of(ALIGN);
        self.len = offset + len;
        Blob { file: MEMORY, offset, len }
    }

    /// The request's index of a source file; `None` when a message cannot carry more files.
    fn source(&mut self, file: Arc<File>) -> Option<u32> {
        if let Some(i) = self.sources.iter().position(|f| Arc::ptr_eq(f, &file)) {
            return Some(i as u32 + 1);
        }
        if self.sources.len() + 4 >= MAX_FILES {
            return None;
        }
        self.sources.push(file);
        Some(self.sources.len() as u32)
    }

    /// Writes the memory file, with as many threads as there are processors (four at most).
    pub fn write(self) -> Result<Files, WeightError> {
        let memory = memory_file("qnnc-weights")?;
        memory.set_len(self.len)?;
        let mut work = Vec::with_capacity(self.jobs.len());
        for (tensor, offset) in &self.jobs {
            let elements = Elements::new(tensor)?;
            let pieces = AtomicUsize::new(elements.pieces());
            work.push((elements, *offset, pieces));
        }
        let pieces: Vec<(usize, usize)> =
            work.iter().enumerate().flat_map(|(i, (e, ..))| (0..e.pieces()).map(move |p| (i, p))).collect();
        let next = AtomicUsize::new(0);
        let run = || -> Result<(), WeightError> {
            while let Some(&(i, piece)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (elements, offset, left) = &work[i];
                elements.write(piece, &mut |at, bytes| memory.write_all_at(bytes, offset + at))?;
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    release(elements.source());
                }
            }
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        if threads == 1 || self.len < 8 << 20 {
            run()?;
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
                let first = run();
                handles.into_iter().fold(first, |result, h| {
                    result.and(h.join().unwrap_or_else(|_| {
                        Err(WeightError::Io(std::io::Error::other("a thread that wrote weights ended early")))
                    }))
                })
            })?;
        }
        Ok(Files { memory, sources: self.sources })
    }
}

/// Two static tensors with the same key hold the same bytes. `None`: not worth comparing.
fn key(tensor: &QnnTensor) -> Option<Key> {
    let (bytes, from, perm) = match tensor.data.as_ref()? {
        StaticData::Raw(bytes) => (bytes.clone(), None, None),
        StaticData::Constant { tensor, .. } if tensor.splat_element().is_some() => return None,
        StaticData::Constant { tensor, perm } => {
            // The permutation means the same only for the same shape.
            let perm = perm.as_ref().map(|p| p.iter().chain(tensor.shape()).copied().collect());
            (tensor.bytes(), Some(tensor.dtype()), perm)
        }
    };
    Some((bytes.as_ptr() as usize, bytes.len(), from, perm, tensor.dtype.0))
}

/// The files of a written [`Arena`], in the order of the request's indices.
#[derive(Debug)]
pub struct Files {
    pub memory: File,
    sources: Vec<Arc<File>>,
}

impl Files {
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(self.memory.as_fd()).chain(self.sources.iter().map(|f| f.as_fd())).collect()
    }
}

/// The graph as it is sent, with `data` saying where the elements of each tensor are.
pub fn wire_graph<'a, E>(
    graph: &'a QnnGraph,
    mut data: impl FnMut(&'a QnnTensor) -> Result<Option<Blob>, E>,
) -> Result<WireGraph, E> {
    let tensors = graph
        .tensors
        .iter()
        .map(|t| {
            Ok(WireTensor {
                name: t.name.clone(),
                kind: t.kind,
                dtype: t.dtype,
                dims: t.dims.clone(),
                quant: t.quant.clone(),
                data: data(t)?,
            })
        })
        .collect::<Result<_, E>>()?;
    let ops = graph
        .ops
        .iter()
        .map(|op| WireOp {
            name: op.name.clone(),
            package: op.package.clone(),
            op_type: op.op_type.clone(),
            inputs: op.inputs.clone(),
            outputs: op.outputs.clone(),
            params: op.params.clone(),
        })
        .collect();
    Ok(WireGraph {
        name: graph.name.clone(),
        tensors,
        ops,
        inputs: graph.inputs.clone(),
        outputs: graph.outputs.clone(),
    })
}
