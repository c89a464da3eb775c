//! The few C library functions that the worker needs and the standard library does not have.

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::Qnn_VaList_t;

unsafe extern "C" {
    static stdout: *mut c_void;
    fn fflush(stream: *mut c_void) -> c_int;
    fn setvbuf(stream: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
    fn vsnprintf(buffer: *mut c_char, size: usize, format: *const c_char, args: Qnn_VaList_t) -> c_int;
    fn _exit(code: c_int) -> !;
    fn malloc_trim(pad: usize) -> c_int;
    fn mallopt(param: c_int, value: c_int) -> c_int;
}

/// glibc's `M_ARENA_MAX`.
const M_ARENA_MAX: c_int = -8;

/// Ends the process at once: no handlers, no destructors of the vendor's libraries.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: has no preconditions.
    unsafe { _exit(code) }
}

/// Writes out what C code printed to its buffered standard output.
pub fn flush_stdout() {
    // SAFETY: NULL stands for all output streams.
    unsafe {
        fflush(std::ptr::null_mut());
    }
}

/// Makes C's standard output line-buffered, so that a crash loses at most one line of it.
pub fn line_buffer_stdout() {
    const IOLBF: c_int = 1;
    // SAFETY: called before anything was printed; NULL lets the C library allocate.
    unsafe {
        setvbuf(stdout, std::ptr::null_mut(), IOLBF, 1024);
    }
}

/// Gives free memory back to the system.
pub fn trim_heap() {
    // SAFETY: has no preconditions.
    unsafe {
        malloc_trim(0);
    }
}

/// Limits the number of heap arenas: a worker has few threads that allocate, and each arena keeps memory.
pub fn limit_arenas(count: i32) {
    // SAFETY: has no preconditions.
    unsafe {
        mallopt(M_ARENA_MAX, count);
    }
}

/// Formats what a log callback was given; at most `limit` bytes.
///
/// # Safety
/// `format` and `args` are those of the running callback, and `args` has not been used yet.
pub unsafe fn format(format: *const c_char, args: Qnn_VaList_t, limit: usize) -> String {
    if format.is_null() {
        return String::new();
    }
    let mut buffer = vec![0u8; limit.saturating_add(1)];
    // SAFETY: the buffer has the size that is given; the rest is the caller's promise.
    let wanted = unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, args) };
    buffer.truncate(usize::try_from(wanted).unwrap_or(0).min(limit));
    String::from_utf8_lossy(&buffer).trim_end().to_owned()
}
