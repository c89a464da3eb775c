//! `qnnc inspect`.

use super::sdk::Format;
use super::{CLEAN, Run, out};
use clap::Args;
use std::path::PathBuf;

/// What is inside an ONNX model, an EPContext model or a context binary
///
/// Binaries are read by the runtime (qnnc sdk install); models need nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  qnnc inspect model.onnx\n  qnnc inspect out/model.bin --format json")]
pub struct Inspect {
    /// The file: .onnx, .ctx.onnx or .bin
    file: PathBuf,
    /// Version of QAIRT that reads a binary, such as 2.47
    #[arg(long, value_name = "VERSION")]
    sdk: Option<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Inspect {
    pub fn run(self) -> Run {
        let inspection = qnnc::inspect::inspect(&self.file, self.sdk.as_deref())?;
        match self.format {
            Format::Json => out::print(&inspection.json())?,
            Format::Text => out::print(&inspection.text())?,
        }
        inspection.error().map_or(Ok(CLEAN), Err)
    }
}
