//! The command line: one file per subcommand, each thin over the library. Exit codes are in [`qnnc::Error::exit_code`];
//! besides those, 0 is clean and 1 is the gate's no.

mod compile;
mod inspect;
mod out;
mod progress;
mod sdk;
mod verify;

use clap::{Parser, Subcommand};
use qnnc::tables::soc::find_soc;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Puts ONNX models onto Qualcomm NPUs (HTP), and says why an op does not go there.
#[derive(Debug, Parser)]
#[command(name = "qnnc", version, arg_required_else_help = true, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  qnnc sdk install --accept-license                 fetch the vendor's runtime, once
  qnnc compile model.onnx --soc sm8650 -o out/      compile for a Snapdragon 8 Gen 3
  qnnc compile model.onnx --soc sm8650 -o out/ --max-cpu-nodes 0
                                                    fail when a node does not go onto the NPU
  qnnc verify model.onnx --soc sm8650               compare with ONNX Runtime
  qnnc inspect out/model.bin                        what is inside
  qnnc sdk doctor                                   what is wrong with the installation

Exit codes: 0 clean, 1 the gate said no, 2 wrong input, 3 runtime or environment, 4 the vendor's backend failed";

#[derive(Debug, Subcommand)]
enum Command {
    Compile(compile::Compile),
    Verify(verify::Verify),
    Inspect(inspect::Inspect),
    Sdk(sdk::Sdk),
}

/// What a subcommand comes to: its exit code, or an error.
type Run = Result<u8, qnnc::Error>;

const CLEAN: u8 = 0;
const GATE: u8 = 1;

/// For `--install-sdk`: what is cheap to check comes before a download.
fn install_if_missing(
    model: &Path,
    target: &compile::Target,
    licence: sdk::Licence,
    progress: qnnc::progress::Progress<'_>,
) -> Result<(), qnnc::Error> {
    find_soc(target.soc())?;
    std::fs::metadata(model).map_err(|e| qnnc::Error::unreadable(model, &e))?;
    if qnnc::sdk::find(target.sdk()).is_err() {
        let version = target.sdk().unwrap_or(qnnc::sdk::DEFAULT_VERSION);
        qnnc::sdk::install::install(version, licence.accept, progress)?;
    }
    Ok(())
}

pub fn main() -> ExitCode {
    run(std::env::args_os())
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, with code 0. A closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let result = match cli.command {
        Command::Compile(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Sdk(command) => command.run(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out::error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
