//! The `qnnc` command.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|a| a == qnnc::qnn::worker::SUBCOMMAND) {
        return ExitCode::from(u8::try_from(qnnc::qnn::worker::worker_main()).unwrap_or(1));
    }
    cli::main()
}
