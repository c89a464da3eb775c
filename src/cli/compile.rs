//! `qnnc compile`.

use super::progress::Drawing;
use super::sdk::{Format, Licence};
use super::{CLEAN, GATE, Run, install_if_missing, out};
use clap::Args;
use qnnc::options::{Backend, CompileOptions, parse_dim, parse_input_shape};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Compile an ONNX model for an NPU
///
/// Writes a bundle into the output folder: the context binary, an ONNX model that ONNX Runtime's QNN provider loads,
/// and the report that says where every node runs and why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compile {
    /// The ONNX file
    model: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shapes: Shapes,
    /// Folder for the bundle
    #[arg(long, short, value_name = "FOLDER", default_value = "out")]
    out: PathBuf,
    /// Gate: fail, and write no binary, when more nodes than this stay on the CPU
    #[arg(long, value_name = "N")]
    max_cpu_nodes: Option<usize>,
    /// Allow replacements of ops that are not exact
    #[arg(long)]
    allow_approximate: bool,
    /// Quantise a float model by these encodings: AIMET's 0.6.1 or 1.0.0, or the SDK's overrides (JSON)
    #[arg(long, value_name = "FILE")]
    encodings: Option<PathBuf>,
    /// Install the runtime first if it is not there (needs --accept-license)
    #[arg(long)]
    install_sdk: bool,
    #[command(flatten)]
    licence: Licence,
    /// How the summary is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// What is compiled for, with which runtime.
#[derive(Debug, Args)]
pub struct Target {
    /// The chip, such as sm8650, qcs8550 or "Snapdragon 8 Gen 3"
    #[arg(long, value_name = "SOC")]
    soc: String,
    /// What may be used besides the host's CPU: htp, gpu, cpu
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "htp")]
    backends: Vec<Backend>,
    /// Version of QAIRT, such as 2.47
    #[arg(long, value_name = "VERSION")]
    sdk: Option<String>,
    /// Longest time that a call into the vendor's backend may take
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    backend_timeout: Option<Duration>,
}

/// Shapes that the model leaves open.
#[derive(Debug, Args)]
pub struct Shapes {
    /// Value of a symbolic dimension, such as batch=1 (repeatable)
    #[arg(long = "dim", value_name = "NAME=VALUE", value_parser = parse_dim)]
    dims: Vec<(String, i64)>,
    /// Shape of an input, such as x:1,3,224,224 (repeatable)
    #[arg(long = "input-shape", value_name = "NAME:DIMS", value_parser = parse_input_shape)]
    input_shapes: Vec<(String, Vec<i64>)>,
}

const EXAMPLES: &str = "\
Examples:
  qnnc compile model.onnx --soc sm8650 -o out/
  qnnc compile model.onnx --soc sm8750 --dim batch=1 --input-shape x:1,3,224,224 -o out/
  qnnc compile model.onnx --soc qcs8550 --max-cpu-nodes 0 --format json -o out/

Exit codes: 0 clean, 1 the gate said no, 2 wrong input, 3 runtime or environment, 4 the vendor's backend failed";

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(s) if s > 0 => Ok(Duration::from_secs(s)),
        _ => Err(format!("{text:?} is not a positive number of seconds")),
    }
}

impl Compile {
    pub fn run(self) -> Run {
        let drawing = Drawing::new(self.quiet);
        let progress = |event: qnnc::progress::Event<'_>| drawing.show(event);
        if self.install_sdk {
            install_if_missing(&self.model, &self.target, self.licence, &progress)?;
        }
        let (format, quiet) = (self.format, self.quiet);
        let outcome = qnnc::compile::run(&self.options(), &progress)?;
        drop(drawing);
        let report = &outcome.placement;
        match format {
            _ if quiet => {}
            Format::Json => out::print(&qnnc::report::json::render(report))?,
            Format::Text => {
                let mut text = qnnc::report::text::render(report);
                for file in &outcome.files {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "wrote {}", file.display());
                }
                out::print(&text)?;
            }
        }
        Ok(if report.gate.passed { CLEAN } else { GATE })
    }

    fn options(self) -> CompileOptions {
        let options = CompileOptions {
            max_cpu_nodes: self.max_cpu_nodes,
            allow_approximate: self.allow_approximate,
            encodings: self.encodings,
            ..CompileOptions::new(self.model, "", self.out)
        };
        self.shapes.onto(self.target.onto(options))
    }
}

impl Target {
    pub fn soc(&self) -> &str {
        &self.soc
    }

    pub fn sdk(&self) -> Option<&str> {
        self.sdk.as_deref()
    }

    /// `options` for this target.
    pub fn onto(self, options: CompileOptions) -> CompileOptions {
        let mut backends: Vec<Backend> = Vec::new();
        for backend in self.backends {
            if !backends.contains(&backend) {
                backends.push(backend);
            }
        }
        let timeout = self.backend_timeout.unwrap_or(options.timeout);
        CompileOptions { soc: self.soc, backends, sdk: self.sdk, timeout, ..options }
    }
}

impl Shapes {
    /// `options` with these shapes.
    pub fn onto(self, options: CompileOptions) -> CompileOptions {
        CompileOptions { dims: self.dims, input_shapes: self.input_shapes, ..options }
    }
}
