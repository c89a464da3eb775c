//! What the worker knows about itself: its progress file, its captured output, its failures.

use std::fs::File;
use std::os::unix::fs::FileExt;

use qnn_sys::CallError;

use crate::qnn::protocol::{Failure, FailureKind, Progress, Stage};

/// Where the worker is, for the parent to read at any time, even after a crash.
#[derive(Debug)]
pub struct Tracker {
    file: File,
    now: Progress,
}

impl Tracker {
    pub fn new(file: File) -> Self {
        Self { file, now: Progress::default() }
    }

    /// Notes that a stage (of a graph, at an op) begins.
    pub fn at(&mut self, stage: Stage, graph: usize, op: usize) {
        self.now = Progress { stage, graph: graph as u32, op: op as u32, tick: self.now.tick.wrapping_add(1) };
        // Without the file the parent knows less after a crash; the work itself can go on.
        let _ = self.file.write_all_at(&self.now.to_bytes(), 0);
    }

    pub fn now(&self) -> Progress {
        self.now
    }
}

/// The text that the libraries print: standard output is a file that both processes have open.
#[derive(Debug, Default)]
pub struct Capture {
    at: u64,
}

impl Capture {
    /// What was printed since the last call.
    pub fn take(&mut self) -> String {
        qnn_sys::process::flush_stdout();
        let mut text = Vec::new();
        let mut buffer = vec![0u8; 16 << 10];
        while let Ok(n) = rustix::io::pread(rustix::stdio::stdout(), &mut buffer, self.at) {
            if n == 0 {
                break;
            }
            self.at += n as u64;
            text.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A failure inside a request; [`Fault::report`] makes it a message.
#[derive(Debug)]
pub struct Fault {
    kind: FailureKind,
    message: String,
    code: Option<u16>,
}

impl Fault {
    pub fn request(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Request, message: message.into(), code: None }
    }

    pub fn library(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Library, message: message.into(), code: None }
    }

    pub fn file(what: &str, error: &std::io::Error) -> Self {
        Self { kind: FailureKind::File, message: format!("{what}: {error}"), code: None }
    }

    /// Says what the failure is about.
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub fn report(self, progress: Progress, log: Vec<String>) -> Failure {
        Failure { kind: self.kind, message: self.message, code: self.code, log, progress }
    }
}

impl From<CallError> for Fault {
    fn from(e: CallError) -> Self {
        let code = e.code();
        let message = match code.and_then(meaning) {
            Some(meaning) => format!("{e} ({meaning})"),
            None => e.to_string(),
        };
        Self { kind: FailureKind::Vendor, message, code }
    }
}

/// What the codes mean that come up in practice.
fn meaning(code: u16) -> Option<&'static str> {
    Some(match code {
        1000 => "not supported",
        1001 => "out of memory",
        1002 | 1100 => "the library gives no reason",
        3110 => "the op was refused",
        4005 => "no such op",
        5000 => "the context cannot be made into a binary",
        6003 => "no such graph, or the name exists already",
        6005 => "an op that does not fit its tensors",
        6007 => "an op before the producer of its input",
        6020 => "an output that no op writes",
        6022 => "an empty graph",
        7003 => "two tensors of one name",
        7004 => "a tensor of an impossible form",
        14001 => "no such device: the SoC is not known to this version of the SDK",
        30001 => "not a context binary",
        30010 => "a damaged context binary",
        _ => return None,
    })
}
