//! The parent's side: starts a worker, sends it work, and turns whatever happens there into a value.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::arena::{Arena, wire_graph};
use super::channel::{memory_file, receive, send};
use super::error::{Place, VendorLog, WorkerError};
use super::graph::{QnnGraph, StaticData, TensorKind};
use super::guard;
use super::link::Link;
use super::protocol::{
    Backend, BinaryInfo, Blob, Cause, Failure, FailureKind, OpPackage, OpVerdict, Outputs, PrepareOptions,
    PrepareReply, Progress, Reply, Request, Stage, TensorInfo,
};

/// How many ops may kill the validator before the caller is told that it does not work.
const MOST_CRASHES: usize = 16;

/// What a worker is started with.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The folder with libQnnHtp.so and its siblings.
    pub lib_dir: PathBuf,
    pub backend: Backend,
    /// Qualcomm's number of the SoC; HTP only. One worker serves one SoC.
    pub soc_id: Option<u32>,
    /// The worker is killed when it makes no progress for so long.
    pub timeout: Duration,
    pub op_packages: Vec<OpPackage>,
    /// The program that has the worker's subcommand; `None` is the running one.
    pub program: Option<PathBuf>,
}

impl WorkerOptions {
    pub fn new(lib_dir: impl Into<PathBuf>, backend: Backend) -> Self {
        Self {
            lib_dir: lib_dir.into(),
            backend,
            soc_id: None,
            timeout: Duration::from_secs(600),
            op_packages: Vec::new(),
            program: None,
        }
    }

    pub fn soc(mut self, id: u32) -> Self {
        self.soc_id = Some(id);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// What preparation gave; the binary itself is in the file that was asked for.
pub type Prepared = PrepareReply;

/// Called with every change of the worker's place.
pub type OnProgress = Box<dyn FnMut(Progress) + Send>;

/// A worker process. Dropping it kills the process.
pub struct Worker {
    options: WorkerOptions,
    link: Option<Link>,
    /// Processes that have done their work and were told to end; their memory takes time to go.
    retired: Vec<Link>,
    on_progress: Option<OnProgress>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).field("link", &self.link).finish_non_exhaustive()
    }
}

/// Names of the graph and ops of a running request, to say where a failure was.
type Names<'a> = &'a [&'a QnnGraph];

impl Worker {
    /// Starts the process and returns at once: it loads the library meanwhile. A library that does not fit is reported
    /// by the first request.
    pub fn spawn(options: WorkerOptions) -> Result<Self, WorkerError> {
        let link = Link::start(&options)?;
        Ok(Self { options, link: Some(link), retired: Vec::new(), on_progress: None })
    }

    /// What is told about the worker's progress, at most every 0.1 s.
    pub fn set_progress(&mut self, on_progress: Option<OnProgress>) {
        self.on_progress = on_progress;
    }

    pub fn options(&self) -> &WorkerOptions {
        &self.options
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.link.as_ref().map(Link::pid)
    }

    /// One verdict per op of the graph, in order. An op that crashes the validator gets a verdict that says so, and the
    /// rest is asked of a new process.
    pub fn validate(&mut self, graph: &QnnGraph) -> Result<Vec<OpVerdict>, WorkerError> {
        let mut verdicts: Vec<Option<OpVerdict>> = graph
            .ops
            .iter()
            .map(|op| {
                let why = guard::check_op(graph, op, self.options.backend)?;
                Some(OpVerdict { code: 0, messages: vec![why], cause: Cause::Guard })
            })
            .collect();
        let Ok(wire) = wire_graph(graph, |_| Ok::<_, std::convert::Infallible>(None));
        let mut crashes = 0;
        loop {
            let mut todo: VecDeque<u32> =
                (0..graph.ops.len() as u32).filter(|&i| verdicts[i as usize].is_none()).collect();
            if todo.is_empty() {
                return Ok(verdicts.into_iter().flatten().collect());
            }
            let request = Request::Validate { graph: wire.clone(), ops: todo.iter().copied().collect() };
            let names = [graph];
            let result = self.send_request(&request, &[], &names).and_then(|()| {
                while !todo.is_empty() {
                    let Reply::Verdicts(some) = self.reply(&names)?.0 else {
                        return Err(self.garbage("another answer than verdicts", &names));
                    };
                    for verdict in some {
                        let slot = todo.pop_front().and_then(|i| verdicts.get_mut(i as usize));
                        *slot.ok_or(WorkerError::Gone(self.options.backend))? = Some(verdict);
                    }
                }
                Ok(())
            });
            let Err(error) = result else { continue };
            let cause = match &error {
                WorkerError::Crashed { .. } => Cause::Crash,
                WorkerError::TimedOut { .. } => Cause::Hang,
                _ => return Err(error),
            };
            let at = last_op(&error, graph).filter(|i| todo.contains(&(*i as u32)));
            crashes += 1;
            match at.and_then(|i| verdicts.get_mut(i)) {
                Some(slot) if crashes <= MOST_CRASHES => {
                    *slot = Some(OpVerdict { code: 0, messages: vec![error.to_string()], cause });
                    self.link = Some(Link::start(&self.options)?);
                }
                _ => return Err(error),
            }
        }
    }

    /// Makes one binary of the graphs in `out` (with the IR backend: a .dlc of one graph). A file that is there is
    /// overwritten; after an error it does not exist.
    ///
    /// The same graphs give the same bytes. Binaries hold numbers that count on within a process, so every preparation
    /// after the first begins with a new process, and the one that prepared ends at once.
    pub fn prepare(
        &mut self,
        graphs: &[&QnnGraph],
        options: &PrepareOptions,
        out: &Path,
    ) -> Result<Prepared, WorkerError> {
        for graph in graphs {
            self.check(graph)?;
        }
        if self.link.as_ref().is_some_and(|link| link.used) {
            self.retire();
        }
        let result = self.prepare_checked(graphs, options, out);
        self.retire();
        if result.is_err() {
            let _ = std::fs::remove_file(out);
        }
        result
    }

    fn prepare_checked(
        &mut self,
        graphs: &[&QnnGraph],
        options: &PrepareOptions,
        out: &Path,
    ) -> Result<Prepared, WorkerError> {
        let unwritable = |source| WorkerError::File { what: format!("writing {}", out.display()), source };
        let output =
            File::options().read(true).write(true).create(true).truncate(true).open(out).map_err(unwritable)?;
        if self.options.backend == Backend::Ir {
            // The library makes the file itself, and leaves one alone that is there already.
            std::fs::remove_file(out).map_err(unwritable)?;
        }
        let mut arena = Arena::default();
        let wires = graphs.iter().map(|g| arena.graph(g)).collect::<Result<Vec<_>, _>>()?;
        let files = arena.write()?;
        let absolute = std::path::absolute(out).map_err(unwritable)?;
        let request = Request::Prepare { graphs: wires, options: options.clone(), out: absolute };
        let mut fds = files.fds();
        if self.options.backend != Backend::Ir {
            fds.push(output.as_fd());
        }
        self.send_request(&request, &fds, graphs)?;
        // The worker has the weights; what it has read leaves memory with it.
        drop(request);
        drop(files);
        match self.reply(graphs)?.0 {
            Reply::Prepared(prepared) => Ok(prepared),
            _ => Err(self.garbage("another answer than a binary", graphs)),
        }
    }

    /// What is inside a context binary.
    pub fn inspect(&mut self, binary: &Path) -> Result<BinaryInfo, WorkerError> {
        self.send_request(&Request::Inspect { binary: binary.to_path_buf() }, &[], &[])?;
        match self.reply(&[])?.0 {
            Reply::Inspected(info) => Ok(info),
            _ => Err(self.garbage("another answer than a description", &[])),
        }
    }

    /// Runs a graph of a binary on this machine. Inputs are row-major bytes in the tensors' own types, by name; outputs
    /// come in the graph's order.
    pub fn execute(
        &mut self,
        binary: &Path,
        graph: &str,
        inputs: &[(&str, &[u8])],
    ) -> Result<Vec<(TensorInfo, Vec<u8>)>, WorkerError> {
        let file = memory_file("qnnc-inputs").map_err(in_memory)?;
        let inputs = write_inputs(&file, 0, 0, inputs)?;
        let request = Request::Execute { binary: binary.to_path_buf(), graph: graph.into(), inputs };
        self.live()?.used = true;
        // Only for messages.
        let named = QnnGraph { name: graph.into(), ..QnnGraph::default() };
        self.send_request(&request, &[file.as_fd()], &[&named])?;
        let outputs = self.outputs(&[&named])?;
        read_outputs(outputs, |_| Some(&file))
    }

    /// Builds a graph and runs it on this machine: on the CPU backend, or on HTP's emulation.
    pub fn run(
        &mut self,
        graph: &QnnGraph,
        options: &PrepareOptions,
        inputs: &[(&str, &[u8])],
    ) -> Result<Vec<(TensorInfo, Vec<u8>)>, WorkerError> {
        self.check(graph)?;
        self.live()?.used = true;
        let mut arena = Arena::default();
        let wire = arena.graph(graph)?;
        let files = arena.write()?;
        let io = memory_file("qnnc-inputs").map_err(in_memory)?;
        let mut fds = files.fds();
        let index = fds.len() as u32;
        fds.push(io.as_fd());
        let inputs = write_inputs(&io, index, 0, inputs)?;
        let request = Request::Run { graph: wire, options: options.clone(), inputs };
        self.send_request(&request, &fds, &[graph])?;
        let outputs = self.outputs(&[graph])?;
        read_outputs(outputs, |i| (i == index).then_some(&io))
    }

    /// The process; a new one if the last was retired.
    fn live(&mut self) -> Result<&mut Link, WorkerError> {
        if self.link.is_none() && !self.retired.is_empty() {
            self.retired.clear();
            self.link = Some(Link::start(&self.options)?);
        }
        self.link.as_mut().ok_or(WorkerError::Gone(self.options.backend))
    }

    /// Ends the process without waiting until its memory is gone.
    fn retire(&mut self) {
        if let Some(mut link) = self.link.take() {
            link.kill();
            self.retired.push(link);
        }
    }

    fn outputs(&mut self, names: Names<'_>) -> Result<Outputs, WorkerError> {
        match self.reply(names)?.0 {
            Reply::Outputs(outputs) => Ok(outputs),
            _ => Err(self.garbage("another answer than outputs", names)),
        }
    }

    /// Refuses what must never be sent.
    fn check(&self, graph: &QnnGraph) -> Result<(), WorkerError> {
        let refused = |what: String, reason: String| WorkerError::Refused { graph: graph.name.clone(), what, reason };
        if let Some((what, reason)) = guard::check_tensors(graph) {
            return Err(refused(what, reason));
        }
        for t in &graph.tensors {
            if t.kind == TensorKind::Static && matches!(&t.data, Some(StaticData::Raw(b)) if b.len() != t.byte_len()) {
                return Err(refused(format!("tensor `{}`", t.name), "its data does not fit its dims".into()));
            }
        }
        match graph.ops.iter().find_map(|op| Some((op, guard::check_op(graph, op, self.options.backend)?))) {
            Some((op, reason)) => Err(refused(format!("op {}", op_text(op)), reason)),
            None => Ok(()),
        }
    }

    fn send_request(
        &mut self,
        request: &Request,
        files: &[BorrowedFd<'_>],
        names: Names<'_>,
    ) -> Result<(), WorkerError> {
        match send(&self.live()?.socket, request, files) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Err(self.died(names))
            }
            Err(e) => Err(WorkerError::Spawn(e)),
        }
    }

    /// Waits for an answer.
    fn reply(&mut self, names: Names<'_>) -> Result<(Reply, Vec<OwnedFd>), WorkerError> {
        let mut last = Progress::default();
        let mut since = Instant::now();
        loop {
            let link = self.link.as_ref().ok_or(WorkerError::Gone(self.options.backend))?;
            match receive::<Reply>(&link.socket) {
                Ok((Reply::Failed(failure), _)) => return Err(self.failed(failure, names)),
                Ok(reply) => return Ok(reply),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    return Err(self.garbage(&e.to_string(), names));
                }
                Err(_) => return Err(self.died(names)),
            }
            let now = link.progress();
            if now != last {
                (last, since) = (now, Instant::now());
                if let Some(tell) = &mut self.on_progress {
                    tell(now);
                }
            } else if since.elapsed() >= self.options.timeout {
                let (backend, after) = (self.options.backend, self.options.timeout);
                let (place, log) = self.last_words(names);
                self.link = None;
                return Err(WorkerError::TimedOut { backend, after, place, log });
            }
        }
    }

    fn failed(&mut self, failure: Failure, names: Names<'_>) -> WorkerError {
        let Failure { kind, message, code, log, progress } = failure;
        match kind {
            FailureKind::Library => WorkerError::Library(message),
            FailureKind::Request => WorkerError::Request(message),
            FailureKind::File => WorkerError::WorkerFile(message),
            FailureKind::Vendor => WorkerError::Vendor {
                backend: self.options.backend,
                place: place(progress, names),
                code,
                message,
                log: VendorLog::tail(log),
            },
        }
    }

    /// The channel is closed: what became of the process?
    fn died(&mut self, names: Names<'_>) -> WorkerError {
        let backend = self.options.backend;
        let (place, log) = self.last_words(names);
        match self.link.take() {
            Some(link) => WorkerError::Crashed { backend, how: link.end(), place, log },
            None => WorkerError::Gone(backend),
        }
    }

    fn garbage(&mut self, detail: &str, names: Names<'_>) -> WorkerError {
        let backend = self.options.backend;
        let (place, log) = self.last_words(names);
        self.link = None;
        WorkerError::Garbage { backend, detail: detail.into(), place, log }
    }

    /// Where the process was, and what it printed.
    fn last_words(&self, names: Names<'_>) -> (Place, VendorLog) {
        match &self.link {
            Some(link) => (place(link.progress(), names), link.printed()),
            None => (Place::default(), VendorLog::default()),
        }
    }
}

/// Index of the op at which validation ended.
fn last_op(error: &WorkerError, graph: &QnnGraph) -> Option<usize> {
    let place = error.place().filter(|p| p.stage == Stage::Validating)?;
    graph.ops.iter().position(|op| place.op.as_deref() == Some(op_text(op).as_str()))
}

fn op_text(op: &super::graph::QnnOp) -> String {
    format!("{} ({})", op.name, op.op_type)
}

fn place(progress: Progress, names: Names<'_>) -> Place {
    let graph = names.get(progress.graph as usize);
    let op = matches!(progress.stage, Stage::Validating | Stage::Ops)
        .then(|| graph.and_then(|g| g.ops.get(progress.op as usize)).map(op_text))
        .flatten();
    Place { stage: progress.stage, graph: graph.filter(|_| progress.stage.of_graph()).map(|g| g.name.clone()), op }
}

fn in_memory(source: io::Error) -> WorkerError {
    WorkerError::File { what: "writing the inputs for the worker".into(), source }
}

fn write_inputs(
    file: &File,
    index: u32,
    mut at: u64,
    inputs: &[(&str, &[u8])],
) -> Result<Vec<(String, Blob)>, WorkerError> {
    inputs
        .iter()
        .map(|(name, bytes)| {
            file.write_all_at(bytes, at).map_err(in_memory)?;
            let blob = Blob { file: index, offset: at, len: bytes.len() as u64 };
            at += blob.len;
            Ok(((*name).to_owned(), blob))
        })
        .collect()
}

fn read_outputs<'a>(
    outputs: Outputs,
    file: impl Fn(u32) -> Option<&'a File>,
) -> Result<Vec<(TensorInfo, Vec<u8>)>, WorkerError> {
    outputs
        .into_iter()
        .map(|(info, blob)| {
            let unreadable = |source| WorkerError::File { what: "reading the outputs of the worker".into(), source };
            let file = file(blob.file).ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
            let fits = file.metadata().is_ok_and(|m| blob.offset.checked_add(blob.len).is_some_and(|e| e <= m.len()));
            if !fits {
                return Err(unreadable(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut bytes = vec![0; blob.len as usize];
            file.read_exact_at(&mut bytes, blob.offset).map_err(unreadable)?;
            Ok((info, bytes))
        })
        .collect()
}

/// Describes a context binary with a worker of its own.
pub fn inspect_binary(lib_dir: &Path, binary: &Path) -> Result<BinaryInfo, WorkerError> {
    let absolute = std::path::absolute(binary)
        .map_err(|source| WorkerError::File { what: format!("reading {}", binary.display()), source })?;
    let options = WorkerOptions::new(lib_dir, Backend::System).timeout(Duration::from_secs(60));
    Worker::spawn(options)?.inspect(&absolute)
}
