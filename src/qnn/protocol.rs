//! What the parent and the worker say to each other: messages, and how they travel.
//!
//! A frame is a header of 8 bytes (magic, number of attached files, payload length), then the payload in postcard form.
//! Files are attached to the header (`SCM_RIGHTS`). A payload over [`INLINE`] bytes lies in the last attached file, so
//! that the sender never waits for a reader that is still loading a library.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::graph::{Param, QnnType, Quant, TensorId, TensorKind};

/// Largest payload that goes through the socket itself.
const INLINE: usize = 64 << 10;
/// Largest payload at all; a longer one is garbage.
const LIMIT: usize = 1 << 30;
/// Most files that one frame can carry.
pub const MAX_FILES: usize = 200;
/// Index of the memory file with converted weights among the files of a request; the model's files follow.
pub const MEMORY: u32 = 0;
const MAGIC: [u8; 2] = *b"qW";
/// Set in the file count when the payload lies in the last file.
const IN_FILE: u16 = 0x8000;

/// Which of the vendor's backends a worker loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backend {
    Htp,
    Cpu,
    Ir,
    /// Only libQnnSystem, for looking into binaries.
    System,
}

impl Backend {
    /// File name of its library.
    pub fn library(self) -> &'static str {
        match self {
            Self::Htp => "libQnnHtp.so",
            Self::Cpu => "libQnnCpu.so",
            Self::Ir => "libQnnIr.so",
            Self::System => SYSTEM_LIBRARY,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Htp => "HTP",
            Self::Cpu => "CPU",
            Self::Ir => "IR",
            Self::System => "System",
        }
    }
}

pub const SYSTEM_LIBRARY: &str = "libQnnSystem.so";

/// A library of user-defined ops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpPackage {
    pub path: PathBuf,
    /// Name of the function that provides its interface.
    pub provider: String,
    /// `CPU`, `HTP`; `None` leaves the choice to the library.
    pub target: Option<String>,
}

/// The parent's first words. Attached: the progress file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub backend: Backend,
    pub lib_dir: PathBuf,
    pub soc_id: Option<u32>,
    pub op_packages: Vec<OpPackage>,
}

/// Where the elements of a static tensor lie: bytes of an attached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub file: u32,
    pub offset: u64,
    pub len: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireTensor {
    pub name: String,
    pub kind: TensorKind,
    pub dtype: QnnType,
    pub dims: Vec<u32>,
    pub quant: Quant,
    pub data: Option<Blob>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireOp {
    pub name: String,
    pub package: String,
    pub op_type: String,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
    pub params: Vec<(String, Param)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireGraph {
    pub name: String,
    pub tensors: Vec<WireTensor>,
    pub ops: Vec<WireOp>,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
}

/// How graphs are prepared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrepareOptions {
    /// Store equal weights of several graphs once.
    pub weight_sharing: bool,
    /// Megabytes of VTCM; `None` is the most that the SoC has.
    pub vtcm_mb: Option<u32>,
    /// Compute FLOAT_32 graphs in 16 bit.
    pub float16: bool,
    /// 1 to 3; `None` leaves it to the library.
    pub optimisation: Option<u8>,
    pub hvx_threads: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Answered by [`Reply::Verdicts`] in portions, in the order of `ops`, until all are given.
    Validate {
        graph: WireGraph,
        ops: Vec<u32>,
    },
    /// Attached: files of the weights, then the output file (not for the IR backend, which writes `out` itself).
    Prepare {
        graphs: Vec<WireGraph>,
        options: PrepareOptions,
        out: PathBuf,
    },
    Inspect {
        binary: PathBuf,
    },
    /// Attached: one file with the inputs, to which the outputs are appended.
    Execute {
        binary: PathBuf,
        graph: String,
        inputs: Vec<(String, Blob)>,
    },
    /// Attached: files of the weights, then as for `Execute`.
    Run {
        graph: WireGraph,
        options: PrepareOptions,
        inputs: Vec<(String, Blob)>,
    },
}

/// What the backend's validator said about one op.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpVerdict {
    /// The vendor's error code (low 16 bits); 0 is a yes.
    pub code: u64,
    /// What it logged at error level, in its own words; or why the op was not sent at all.
    pub messages: Vec<String>,
    pub cause: Cause,
}

/// Who gave a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The backend's validator.
    #[default]
    Validator,
    /// [`super::guard`]: the op would crash or hang the library, so it was not asked.
    Guard,
    /// The validator crashed on it.
    Crash,
    /// The validator did not come back from it.
    Hang,
}

impl OpVerdict {
    pub fn accepted(&self) -> bool {
        self.code == 0 && self.cause == Cause::Validator
    }
}

/// Bytes moved between DDR and VTCM per inference, as HTP preparation estimates them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DdrBytes {
    pub spill: u64,
    pub fill: u64,
    pub write_total: u64,
    pub read_total: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedGraph {
    pub name: String,
    /// `None` when the library printed no summary.
    pub ddr: Option<DdrBytes>,
    /// Microseconds.
    pub build_us: u64,
    pub finalise_us: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareReply {
    pub graphs: Vec<PreparedGraph>,
    pub binary_bytes: u64,
    /// Microseconds: loading the library, making backend and device (both before the request), writing the binary.
    pub load_us: u64,
    pub device_us: u64,
    pub serialise_us: u64,
    pub build_id: String,
    pub core_version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorInfo {
    pub id: u32,
    pub name: String,
    pub dtype: QnnType,
    pub dims: Vec<u32>,
    pub quant: Quant,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GraphInfo {
    pub name: String,
    pub inputs: Vec<TensorInfo>,
    pub outputs: Vec<TensorInfo>,
    pub vtcm_bytes: Option<u32>,
    pub optimisation: Option<u32>,
    pub hvx_threads: Option<u64>,
    pub spill_fill_bytes: Option<u64>,
}

/// What is inside a context binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryInfo {
    pub backend_id: u32,
    pub build_id: String,
    pub core_version: String,
    pub backend_version: String,
    pub blob_version: String,
    pub blob_bytes: u64,
    pub soc_model: Option<u32>,
    pub dsp_arch: Option<u32>,
    pub graphs: Vec<GraphInfo>,
}

/// Outputs in the attached file, in the graph's order.
pub type Outputs = Vec<(TensorInfo, Blob)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    Verdicts(Vec<OpVerdict>),
    Prepared(PrepareReply),
    Inspected(BinaryInfo),
    Outputs(Outputs),
    Failed(Failure),
}

/// What went wrong in the worker, other than its death.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// The vendor's error code.
    pub code: Option<u16>,
    /// What the library logged or printed last.
    pub log: Vec<String>,
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// A library is missing, of the wrong kind or of an unknown version.
    Library,
    /// The vendor's code returned an error.
    Vendor,
    /// The request does not fit (no such graph in the binary, an input is missing).
    Request,
    /// Reading or writing a file.
    File,
}

/// Where the worker is. It writes this into the shared progress file before every call into the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub stage: Stage,
    /// Index of the graph in the request.
    pub graph: u32,
    /// Index of the op, in the stages that go op by op.
    pub op: u32,
    /// Counts every change.
    pub tick: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u32)]
pub enum Stage {
    #[default]
    Starting,
    Loading,
    Device,
    Idle,
    Validating,
    Tensors,
    Ops,
    Finalising,
    Serialising,
    Inspecting,
    Executing,
}

impl Stage {
    const ALL: [Self; 11] = [
        Self::Starting,
        Self::Loading,
        Self::Device,
        Self::Idle,
        Self::Validating,
        Self::Tensors,
        Self::Ops,
        Self::Finalising,
        Self::Serialising,
        Self::Inspecting,
        Self::Executing,
    ];

    /// As the end of a sentence, "while ...", to which the graph's name may be added where [`Stage::of_graph`] holds.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Loading => "loading the library",
            Self::Device => "creating the backend and the device",
            Self::Idle => "waiting for work",
            Self::Validating => "validating",
            Self::Tensors => "creating the tensors of",
            Self::Ops => "adding the ops of",
            Self::Finalising => "finalising",
            Self::Serialising => "writing the binary of",
            Self::Inspecting => "reading the binary",
            Self::Executing => "executing",
        }
    }
}

impl Stage {
    /// Is it about a graph?
    pub fn of_graph(self) -> bool {
        use Stage::{Executing, Finalising, Ops, Serialising, Tensors, Validating};
        matches!(self, Validating | Tensors | Ops | Finalising | Serialising | Executing)
    }
}

impl Progress {
    /// As it lies in the progress file.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        for (slot, v) in out.chunks_exact_mut(4).zip([self.stage as u32, self.graph, self.op, self.tick]) {
            slot.copy_from_slice(&v.to_le_bytes());
        }
        out
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Self {
            stage: Stage::ALL.get(word(0) as usize).copied().unwrap_or_default(),
            graph: word(4),
            op: word(8),
            tick: word(12),
        }
    }

    /// Reads the progress file; all zero when nothing was written yet.
    pub fn read(file: &std::fs::File) -> Self {
        let mut bytes = [0; 16];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Self::from_bytes(bytes),
            Err(_) => Self::default(),
        }
    }
}

/// An anonymous file in memory.
pub fn memory_file(name: &str) -> io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Sends a message with files attached.
pub fn send<T: Serialize>(socket: &UnixStream, message: &T, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let payload = postcard::to_stdvec(message).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let large = if payload.len() > INLINE {
        let file = memory_file("qnnc-message")?;
        file.write_all_at(&payload, 0)?;
        Some(file)
    } else {
        None
    };
    let mut files = files.to_vec();
    files.extend(large.as_ref().map(AsFd::as_fd));
    if files.len() > MAX_FILES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} files in one message", files.len())));
    }
    let count = files.len() as u16 | if large.is_some() { IN_FILE } else { 0 };
    let mut header = [0u8; 8];
    header[..2].copy_from_slice(&MAGIC);
    header[2..4].copy_from_slice(&count.to_le_bytes());
    header[4..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("too many files in one message"));
    }
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[io::IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    let mut writer = socket;
    writer.write_all(&header[sent..])?;
    if large.is_none() {
        writer.write_all(&payload)?;
    }
    Ok(())
}

/// Receives a message and its files. `UnexpectedEof` when the other side is gone, `InvalidData` when what came is not a
/// message, `WouldBlock` when nothing came before the socket's read timeout.
pub fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut header = [0u8; 8];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [io::IoSliceMut::new(&mut header)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds);
        }
    }
    read_all(socket, &mut header[got.bytes..])?;
    let count = u16::from_le_bytes([header[2], header[3]]);
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if header[..2] != MAGIC || len > LIMIT || files.len() != (count & !IN_FILE) as usize {
        return Err(bad(format!("{:?} is not the header of a message", String::from_utf8_lossy(&header))));
    }
    let mut payload = vec![0; len];
    if count & IN_FILE == 0 {
        read_all(socket, &mut payload)?;
    } else {
        let file = files.pop().ok_or_else(|| bad("a message without its file".into()))?;
        std::fs::File::from(file).read_exact_at(&mut payload, 0)?;
    }
    let message = postcard::from_bytes(&payload).map_err(|e| bad(format!("a message that cannot be read: {e}")))?;
    Ok((message, files))
}

/// As `read_exact`, but a timeout inside a message is not the same as none having come.
fn read_all(mut socket: &UnixStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    let mut patience = 300;
    while at < buffer.len() {
        match socket.read(&mut buffer[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && patience > 0 => patience -= 1,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "half a message"));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_files_arrive() {
        let (a, b) = UnixStream::pair().unwrap();
        let file = memory_file("test").unwrap();
        file.write_all_at(b"weights", 0).unwrap();
        for size in [0, INLINE * 3] {
            let sent = vec![7u8; size];
            send(&a, &sent, &[file.as_fd()]).unwrap();
            let (got, files): (Vec<u8>, _) = receive(&b).unwrap();
            assert_eq!(got, sent);
            let mut text = [0; 7];
            std::fs::File::from(files.into_iter().next().unwrap()).read_exact_at(&mut text, 0).unwrap();
            assert_eq!(&text, b"weights");
        }
    }

    #[test]
    fn garbage_is_not_a_message() {
        let (a, b) = UnixStream::pair().unwrap();
        (&a).write_all(b"hello, world: not a frame").unwrap();
        let error = receive::<Vec<u8>>(&b).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(a);
    }

    #[test]
    fn progress_survives_its_file() {
        let p = Progress { stage: Stage::Finalising, graph: 2, op: 77, tick: 9 };
        assert_eq!(Progress::from_bytes(p.to_bytes()), p);
    }
}
