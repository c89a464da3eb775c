//! The libraries' log, collected line by line.

use std::ffi::c_char;
use std::sync::Mutex;

use qnn_sys::{Qnn_VaList_t, QnnLog_Level_t};

/// How much the libraries log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Info,
}

/// Longest line that is kept.
const LINE: usize = 4096;
/// Most lines that are kept between two readings.
const LINES: usize = 512;

static LOG: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Called by the libraries, from any of their threads.
pub(super) unsafe extern "C" fn callback(
    format: *const c_char,
    level: QnnLog_Level_t,
    _timestamp: u64,
    args: Qnn_VaList_t,
) {
    let Ok(mut log) = LOG.lock() else { return };
    if log.len() >= LINES {
        log.drain(..LINES / 2);
    }
    // SAFETY: these are the callback's own arguments, used once.
    let line = unsafe { qnn_sys::process::format(format, args, LINE) };
    let line = line.trim().trim_start_matches("<E>").trim_start().to_owned();
    let level = if level == QnnLog_Level_t::QNN_LOG_LEVEL_ERROR { Level::Error } else { Level::Info };
    if level == Level::Error {
        // A crash takes this memory with it; what is printed stays.
        let mut text = line.clone();
        text.push('\n');
        let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    }
    log.push((level, line));
}

/// What was logged since the last call, oldest first.
pub fn take_log() -> Vec<(Level, String)> {
    LOG.lock().map(|mut log| std::mem::take(&mut *log)).unwrap_or_default()
}
