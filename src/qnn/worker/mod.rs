//! The worker process: the hidden subcommand that owns the vendor's libraries.
//!
//! It speaks [`super::protocol`] over the socket that is its standard input, serves one backend and one SoC, and ends
//! when the parent does. Its standard output and error are a file of the parent's, into which the libraries print.

mod build;
mod ddr;
mod execute;
mod ffi;
mod inspect;
mod marshal;
mod prepare;
mod serve;
mod state;
mod validate;

/// The argument that makes `qnnc` a worker.
pub const SUBCOMMAND: &str = "__worker";

/// Serves the parent until it hangs up, then ends the process without running the libraries' destructors, which are slow
/// and may crash. The return type is for `main`; it does return when the parent never spoke.
pub fn worker_main() -> i32 {
    let code = serve::run();
    qnn_sys::process::exit_now(code)
}
