//! The worker's loop: start the backend, then answer requests until the parent hangs up.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use qnn_sys::LoadError;

use super::execute;
use super::ffi::{System, Vendor, WATCHER, drop_zero_pages, take_log};
use super::inspect;
use super::prepare::prepare;
use super::state::{Capture, Fault, Tracker};
use super::validate::validate;
use crate::qnn::channel::{receive, send};
use crate::qnn::protocol::{Backend, Hello, Reply, Request, SYSTEM_LIBRARY, Stage};

/// A backend that is ready, and what that took.
#[derive(Debug)]
pub struct Started {
    pub backend: Backend,
    pub vendor: Vendor,
    pub load_us: u64,
    pub device_us: u64,
}

/// What is loaded. libQnnSystem only when something needs it.
#[derive(Debug)]
struct Libraries {
    hello: Hello,
    started: Option<Started>,
    system: Option<System>,
    warm: bool,
}

/// The exit code: 0 when the parent hung up, 1 when there was no parent to talk to.
pub fn run() -> i32 {
    let Ok(socket) = rustix::io::dup(rustix::stdio::stdin()).map(UnixStream::from) else { return 1 };
    let Ok((hello, files)) = receive::<Hello>(&socket) else { return 1 };
    let Some(progress) = files.into_iter().next() else { return 1 };
    // The libraries must not find the socket.
    if let Ok(null) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
    qnn_sys::process::line_buffer_stdout();
    end_with_the_parent(&socket);
    let mut tracker = Tracker::new(File::from(progress));
    let mut capture = Capture::default();
    let mut libraries = Libraries { hello, started: None, system: None, warm: false };
    let mut failed = libraries.start(&mut tracker).err();
    let mut shrunk = false;
    loop {
        tracker.at(Stage::Idle, 0, 0);
        if failed.is_none() {
            libraries.warm_up();
        }
        if !shrunk && failed.is_none() && !has_request(&socket) {
            libraries.shrink();
            shrunk = true;
        }
        let Ok((request, files)) = receive::<Request>(&socket) else { return 0 };
        let files: Vec<File> = files.into_iter().map(File::from).collect();
        let answer = match failed.take() {
            Some(fault) => Err(fault),
            None => libraries.answer(request, &files, &socket, &mut tracker, &mut capture),
        };
        let sent = match answer {
            Ok(Some(reply)) => send(&socket, &reply, &[]),
            Ok(None) => Ok(()),
            Err(fault) => {
                let progress = tracker.now();
                // Logged errors are printed too: see the callback.
                take_log();
                let log: Vec<String> = capture.take().lines().map(str::to_owned).collect();
                send(&socket, &Reply::Failed(fault.report(progress, log)), &[])
            }
        };
        if sent.is_err() {
            return 0;
        }
    }
}

/// Has the parent said something that was not read yet?
fn has_request(socket: &UnixStream) -> bool {
    let mut fds = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Ends the process when the parent is gone, even in the middle of a call into the library.
fn end_with_the_parent(socket: &UnixStream) {
    let Ok(socket) = socket.try_clone() else { return };
    let watch = move || {
        loop {
            let mut fds = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::RDHUP)];
            if rustix::event::poll(&mut fds, None).is_ok()
                && fds[0].revents().intersects(rustix::event::PollFlags::HUP | rustix::event::PollFlags::RDHUP)
            {
                qnn_sys::process::exit_now(0);
            }
        }
    };
    // Without the thread the worker still ends at its next message.
    let _ = std::thread::Builder::new().name(WATCHER.into()).stack_size(64 << 10).spawn(watch);
}

impl Libraries {
    fn start(&mut self, tracker: &mut Tracker) -> Result<(), Fault> {
        let hello = &self.hello;
        if hello.backend == Backend::System {
            return Ok(());
        }
        tracker.at(Stage::Loading, 0, 0);
        let begin = Instant::now();
        let library = hello.lib_dir.join(hello.backend.library());
        let interface = Vendor::load(&library).map_err(|e| match e {
            LoadError::Missing { path } if hello.lib_dir.join(Backend::Htp.library()).exists() => {
                let name = hello.backend.name();
                Fault::library(format!("this SDK comes without the {name} backend ({}); 2.47 has it", path.display()))
            }
            e => Fault::library(e.to_string()),
        })?;
        let load_us = begin.elapsed().as_micros() as u64;
        tracker.at(Stage::Device, 0, 0);
        let begin = Instant::now();
        let vendor = Vendor::start(interface, hello.soc_id).map_err(|e| {
            let soc = hello.soc_id.map(|soc| format!("SoC {soc}"));
            Fault::from(e).about(&soc.unwrap_or_else(|| "the backend".into()))
        })?;
        for package in &hello.op_packages {
            let path = package.path.display().to_string();
            vendor
                .register_package(&path, &package.provider, package.target.as_deref())
                .map_err(|e| Fault::library(format!("op package {path}: {e}")))?;
        }
        let device_us = begin.elapsed().as_micros() as u64;
        self.started = Some(Started { backend: hello.backend, vendor, load_us, device_us });
        Ok(())
    }

    /// Uses the time until the next request: gives back memory that holds nothing.
    fn shrink(&self) {
        if self.hello.backend == Backend::Htp {
            drop_zero_pages();
        }
    }

    /// Done first in any case: binaries hold the number of graphs that the process had made before, and the padding of
    /// weights in them is what lies on the heap, so that every run must do the same in the same order.
    fn warm_up(&mut self) {
        if let Some(started) = self.started.as_ref().filter(|s| s.backend == Backend::Htp && !self.warm) {
            started.vendor.warm_up();
            started.vendor.free_dropped();
        }
        self.warm = true;
    }

    fn load_system(&mut self) -> Result<(), Fault> {
        if self.system.is_none() {
            let library = self.hello.lib_dir.join(SYSTEM_LIBRARY);
            self.system = Some(System::load(&library).map_err(|e| Fault::library(e.to_string()))?);
        }
        Ok(())
    }

    /// `None` when the answer was sent already.
    fn answer(
        &mut self,
        request: Request,
        files: &[File],
        socket: &UnixStream,
        tracker: &mut Tracker,
        capture: &mut Capture,
    ) -> Result<Option<Reply>, Fault> {
        if matches!(request, Request::Inspect { .. } | Request::Execute { .. }) {
            tracker.at(Stage::Inspecting, 0, 0);
            self.load_system()?;
        }
        let no_system = || Fault::library("libQnnSystem is not loaded");
        if let Request::Inspect { binary } = &request {
            let system = self.system.as_ref().ok_or_else(no_system)?;
            return Ok(Some(Reply::Inspected(inspect::describe(system, &inspect::open(binary)?, binary)?)));
        }
        let started = self.started.as_ref().ok_or_else(|| Fault::request("this worker has no backend"))?;
        started.vendor.free_dropped();
        Ok(Some(match request {
            Request::Validate { graph, ops } => {
                let mut sink =
                    |verdicts| send(socket, &Reply::Verdicts(verdicts), &[]).map_err(|e| Fault::file("answering", &e));
                validate(&started.vendor, &graph, &ops, tracker, &mut sink)?;
                return Ok(None);
            }
            Request::Prepare { graphs, options, out } => {
                Reply::Prepared(prepare(started, &graphs, &options, files, &out, tracker, capture)?)
            }
            Request::Execute { binary, graph, inputs } => {
                let system = self.system.as_ref().ok_or_else(no_system)?;
                Reply::Outputs(execute::execute(&started.vendor, system, &binary, &graph, &inputs, files, tracker)?)
            }
            Request::Run { graph, options, inputs } => Reply::Outputs(execute::run(
                &started.vendor,
                started.backend,
                &graph,
                &options,
                &inputs,
                files,
                tracker,
            )?),
            Request::Inspect { .. } => return Err(no_system()),
        }))
    }
}
