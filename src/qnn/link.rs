//! The running worker process and what is shared with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::channel::{memory_file, send};
use super::client::WorkerOptions;
use super::error::{VendorLog, WorkerError};
use super::protocol::{Backend, Hello, Progress};
use super::worker::SUBCOMMAND;

/// How often a wait looks at the progress file.
const TICK: Duration = Duration::from_millis(100);
/// How much of the library's output is looked at after a failure.
const TAIL: u64 = 16 << 10;

/// A process. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Link {
    child: Child,
    pub socket: UnixStream,
    progress: File,
    /// What the process prints.
    output: File,
    /// It has made graphs already.
    pub used: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

impl Link {
    pub fn start(options: &WorkerOptions) -> Result<Self, WorkerError> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(WorkerError::Spawn)?,
        };
        let start = || -> io::Result<Self> {
            let (socket, theirs) = UnixStream::pair()?;
            let progress = memory_file("qnnc-progress")?;
            let output = memory_file("qnnc-output")?;
            let child = Command::new(program)
                .arg(SUBCOMMAND)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::from(output.try_clone()?))
                .stderr(Stdio::from(output.try_clone()?))
                .env("LD_LIBRARY_PATH", library_path(&options.lib_dir))
                .spawn()?;
            let link = Self { child, socket, progress, output, used: false };
            link.socket.set_read_timeout(Some(TICK))?;
            let hello = Hello {
                backend: options.backend,
                lib_dir: options.lib_dir.clone(),
                soc_id: options.soc_id.filter(|_| options.backend == Backend::Htp),
                op_packages: options.op_packages.clone(),
            };
            send(&link.socket, &hello, &[link.progress.as_fd()])?;
            Ok(link)
        };
        start().map_err(WorkerError::Spawn)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Where the process is.
    pub fn progress(&self) -> Progress {
        Progress::read(&self.progress)
    }

    /// The last lines that it printed.
    pub fn printed(&self) -> VendorLog {
        let len = self.output.metadata().map_or(0, |m| m.len());
        let mut text = vec![0; len.min(TAIL) as usize];
        let _ = self.output.read_exact_at(&mut text, len.saturating_sub(TAIL));
        VendorLog::tail(String::from_utf8_lossy(&text).lines())
    }

    /// How the process ended, after it has closed its channel.
    pub fn end(mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            match self.child.try_wait() {
                Ok(Some(s)) => {
                    return match (s.signal(), s.code()) {
                        (Some(signal), _) => signal_text(signal),
                        (None, Some(code)) => format!("it ended the process with exit code {code}"),
                        (None, None) => "it ended the process".into(),
                    };
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => return "it closed its channel".into(),
            }
        }
    }
}

/// The libraries load each other by name.
fn library_path(lib_dir: &Path) -> std::ffi::OsString {
    let mut path = lib_dir.as_os_str().to_owned();
    if let Some(old) = std::env::var_os("LD_LIBRARY_PATH").filter(|o| !o.is_empty()) {
        path.push(":");
        path.push(old);
    }
    path
}

fn signal_text(signal: i32) -> String {
    match signal {
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL: most likely the system ran out of memory".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        n => format!("signal {n}"),
    }
}
