//! What becomes of a worker whose library aborts, hangs, ends the process, talks over the channel or is no library.
//!
//! The libraries are made at test time: small cdylibs that export `QnnInterface_getProviders`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{dense, options};
use qnnc::qnn::channel::{memory_file, send};
use qnnc::qnn::protocol::{Cause, Hello, Progress, Stage};
use qnnc::qnn::{Backend, PrepareOptions, Worker, WorkerError};

/// Makes `libQnnCpu.so` whose `QnnInterface_getProviders` runs `body`; `None` when there is no rustc to make it with.
fn library(dir: &Path, body: &str) -> Option<PathBuf> {
    let source = dir.join("fake.rs");
    let text = format!(
        "#![allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub unsafe extern \"C\" fn QnnInterface_getProviders(list: *mut *const *const u64, count: *mut u32) -> u64 {{
            let _ = (list, count);
            {body}
        }}"
    );
    std::fs::write(&source, text).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let made = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-Cpanic=abort", "-o"])
        .arg(dir.join("libQnnCpu.so"))
        .arg(&source)
        .output();
    match made {
        Ok(out) if out.status.success() => Some(dir.to_path_buf()),
        Ok(out) => panic!("{}", String::from_utf8_lossy(&out.stderr)),
        Err(e) => {
            println!("skipped: no rustc to make the library with: {e}");
            None
        }
    }
}

/// What the first request of a worker with this library gives.
fn first_error(body: &str, timeout: Duration) -> Option<WorkerError> {
    let dir = tempfile::tempdir().unwrap();
    let lib_dir = library(dir.path(), body)?;
    let mut worker = Worker::spawn(options(lib_dir, Backend::Cpu).timeout(timeout)).unwrap();
    let out = dir.path().join("out.bin");
    let error = worker.prepare(&[&dense("g", 1, 4, 4)], &PrepareOptions::default(), &out).unwrap_err();
    assert!(!out.exists());
    Some(error)
}

const LONG: Duration = Duration::from_secs(60);

/// A provider of the given core API version with a table whose entries are all NULL.
fn provider(minor: u32) -> String {
    format!(
        "static mut PROVIDER: [u64; 80] = [0; 80];
        unsafe {{
            let p = &raw mut PROVIDER as *mut u64;
            *p = 3;
            *p.add(2) = 2 | ({minor}u64 << 32);
            *list = Box::leak(Box::new([p as *const u64])).as_ptr();
            *count = 1;
        }}
        0"
    )
}

#[test]
fn an_abort_is_an_error() {
    let body = "eprintln!(\"assertion failed: tensor != nullptr\"); std::process::abort()";
    let Some(e) = first_error(body, LONG) else { return };
    assert!(matches!(&e, WorkerError::Crashed { how, .. } if how == "SIGABRT"), "{e:?}");
    assert!(e.to_string().contains("loading the library") && e.to_string().contains("tensor != nullptr"), "{e}");
    assert_eq!(e.exit_code(), 4);
}

#[test]
fn a_segmentation_fault_is_an_error() {
    let Some(e) = first_error("unsafe { std::ptr::null::<u64>().read_volatile() }", LONG) else { return };
    assert!(matches!(&e, WorkerError::Crashed { how, .. } if how.starts_with("SIG")), "{e:?}");
}

#[test]
fn an_exit_is_an_error() {
    let Some(e) = first_error("std::process::exit(0)", LONG) else { return };
    assert!(matches!(&e, WorkerError::Crashed { how, .. } if how.contains("exit code 0")), "{e:?}");
}

#[test]
fn a_hang_ends_at_the_timeout() {
    let begin = Instant::now();
    let body = "loop { std::thread::sleep(std::time::Duration::from_secs(1)) }";
    let Some(e) = first_error(body, Duration::from_millis(500)) else { return };
    assert!(matches!(&e, WorkerError::TimedOut { place, .. } if place.stage == Stage::Loading), "{e:?}");
    assert!(begin.elapsed() < Duration::from_secs(50));
    assert_eq!(e.exit_code(), 4);
}

#[test]
fn garbage_on_the_channel_is_an_error() {
    // It writes to every descriptor that it finds.
    let body = "for fd in 0..64 { if let Ok(mut f) = std::fs::OpenOptions::new().write(true)
        .open(format!(\"/proc/self/fd/{fd}\")) { let _ = std::io::Write::write_all(&mut f, &[b'!'; 64]); } }
        unsafe extern \"C\" { fn write(fd: i32, data: *const u8, len: usize) -> isize; }
        for fd in 3..64 { unsafe { write(fd, [b'!'; 64].as_ptr(), 64) }; }
        loop { std::thread::sleep(std::time::Duration::from_secs(1)) }";
    let Some(e) = first_error(body, LONG) else { return };
    assert!(matches!(&e, WorkerError::Garbage { detail, .. } if detail.contains("!!!!")), "{e:?}");
}

#[test]
fn libraries_that_do_not_fit_say_what_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let g = dense("g", 1, 4, 4);
    let error = |lib_dir: &Path| {
        let mut worker = Worker::spawn(options(lib_dir, Backend::Cpu)).unwrap();
        let e = worker.validate(&g).unwrap_err();
        assert!(matches!(&e, WorkerError::Library(_)), "{e:?}");
        assert_eq!(e.exit_code(), 3);
        e.to_string()
    };
    let missing = error(dir.path());
    assert!(missing.contains("libQnnCpu.so does not exist") && missing.contains("qnnc sdk install"), "{missing}");
    std::fs::write(dir.path().join("libQnnCpu.so"), "no library").unwrap();
    assert!(error(dir.path()).contains("cannot be loaded"));
    for (minor, expected) in [(27, "core API 2.27.0"), (99, "core API 2.99.0")] {
        let dir = tempfile::tempdir().unwrap();
        let Some(lib_dir) = library(dir.path(), &provider(minor)) else { return };
        let text = error(&lib_dir);
        assert!(text.contains(expected) && text.contains("2.36 to 2.40"), "{text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(lib_dir) = library(dir.path(), "14") else { return };
    assert!(error(&lib_dir).contains("no QNN interface"));
}

#[test]
fn a_missing_function_is_named() {
    let Some(e) = first_error(&provider(36), LONG) else { return };
    assert!(e.to_string().contains("backendCreate does not exist"), "{e}");
}

#[test]
fn a_killed_worker_is_an_error_and_then_gone() {
    let dir = tempfile::tempdir().unwrap();
    let body = "loop { std::thread::sleep(std::time::Duration::from_secs(1)) }";
    let Some(lib_dir) = library(dir.path(), body) else { return };
    let mut worker = Worker::spawn(options(lib_dir, Backend::Cpu)).unwrap();
    let pid = worker.pid().unwrap().to_string();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        Command::new("kill").args(["-9", &pid]).status()
    });
    let e = worker.validate(&dense("g", 1, 4, 4)).unwrap_err();
    assert!(killer.join().unwrap().is_ok_and(|s| s.success()));
    assert!(matches!(&e, WorkerError::Crashed { how, .. } if how.contains("SIGKILL")), "{e:?}");
    let e = worker.validate(&dense("g", 1, 4, 4)).unwrap_err();
    assert!(matches!(e, WorkerError::Gone(_)), "{e:?}");
}

#[test]
fn an_op_that_kills_the_validator_costs_only_itself() {
    // Entries 1 and 25 make the backend and the logger, 7 validates: it dies of a Relu and refuses nothing.
    let body = format!(
        "extern \"C\" fn fine() -> u64 {{ 0 }}
        extern \"C\" fn validate(_: u64, op: [u64; 10]) -> u64 {{
            let name = unsafe {{ std::ffi::CStr::from_ptr(op[3] as *const std::ffi::c_char) }};
            if name.to_bytes() == b\"Relu\" {{ std::process::abort() }}
            0
        }}
        {}",
        provider(36).replace(
            "*count = 1;",
            "*count = 1;
            let table = p.add(5);
            *table.add(1) = fine as *const () as u64;
            *table.add(25) = fine as *const () as u64;
            *table.add(7) = validate as *const () as u64;"
        )
    );
    let dir = tempfile::tempdir().unwrap();
    let Some(lib_dir) = library(dir.path(), &body) else { return };
    let mut worker = Worker::spawn(options(lib_dir, Backend::Cpu)).unwrap();
    let mut g = dense("g", 1, 4, 4);
    for i in 0..100 {
        let op = g.ops[0].clone();
        g.ops.push(qnnc::qnn::graph::QnnOp { name: format!("fc{i}"), ..op });
    }
    g.ops.push(qnnc::qnn::graph::QnnOp { name: "relu again".into(), ..g.ops[1].clone() });
    let verdicts = worker.validate(&g).unwrap();
    assert_eq!(verdicts.len(), 103);
    for (op, verdict) in g.ops.iter().zip(&verdicts) {
        let expected = if op.op_type == "Relu" { Cause::Crash } else { Cause::Validator };
        assert_eq!(verdict.cause, expected, "{}: {verdict:?}", op.name);
    }
    assert!(verdicts[1].messages[0].contains("SIGABRT") && !verdicts[1].accepted());
}

#[test]
fn dropping_a_worker_ends_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let body = "loop { std::thread::sleep(std::time::Duration::from_secs(1)) }";
    let Some(lib_dir) = library(dir.path(), body) else { return };
    let worker = Worker::spawn(options(lib_dir, Backend::Cpu)).unwrap();
    let pid = worker.pid().unwrap();
    drop(worker);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn graphs_that_would_kill_the_library_are_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut worker = Worker::spawn(options(dir.path(), Backend::Cpu)).unwrap();
    let mut g = dense("flat", 1, 4, 4);
    g.tensors[0].dims.clear();
    let e = worker.prepare(&[&g], &PrepareOptions::default(), &dir.path().join("x.bin")).unwrap_err();
    assert!(matches!(&e, WorkerError::Refused { what, .. } if what == "tensor `x`"), "{e:?}");
}

#[test]
fn a_busy_worker_ends_with_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let body = "loop { std::thread::sleep(std::time::Duration::from_secs(1)) }";
    let Some(lib_dir) = library(dir.path(), body) else { return };
    // By hand, since dropping a `Worker` kills the process.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_qnnc"))
        .arg(qnnc::qnn::worker::SUBCOMMAND)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let progress = memory_file("progress").unwrap();
    let hello = Hello { backend: Backend::Cpu, lib_dir, soc_id: None, op_packages: vec![] };
    send(&ours, &hello, &[progress.as_fd()]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Progress::read(&progress).stage != Stage::Loading && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(ours);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the worker outlived its parent");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
