//! `qnnc verify`.

use super::compile::{Shapes, Target};
use super::progress::Drawing;
use super::sdk::{Format, Licence};
use super::{Run, install_if_missing, out};
use clap::Args;
use qnnc::options::CompileOptions;
use qnnc::verify::{VerifyOptions, run_model};
use std::path::PathBuf;

/// Compare a compiled model with ONNX Runtime on the same inputs
///
/// Compiles the model, runs it on the runtime's emulation of the NPU, and compares every output with what ONNX Runtime's
/// CPU provider gives. Only a model that is wholly on the NPU is compared.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// The ONNX file
    model: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shapes: Shapes,
    /// Inputs: .npz with an array per input, or .npy for a model of one input [default: made from the seed]
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    inputs: Option<PathBuf>,
    /// Seed of made-up inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Lowest cosine similarity that passes
    #[arg(long, value_name = "C", default_value_t = VerifyOptions::DEFAULT_COSINE, value_parser = cosine)]
    cosine: f64,
    /// Library of ONNX Runtime, or the folder that holds it [default: ORT_DYLIB_PATH, else Python's onnxruntime]
    #[arg(long, value_name = "PATH")]
    ort: Option<PathBuf>,
    /// Allow replacements of ops that are not exact
    #[arg(long)]
    allow_approximate: bool,
    /// Install the runtime first if it is not there (needs --accept-license)
    #[arg(long)]
    install_sdk: bool,
    #[command(flatten)]
    licence: Licence,
    /// How the result is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  qnnc verify model.onnx --soc sm8650
  qnnc verify model.onnx --soc sm8650 --input-shape x:1,3,224,224 --inputs real.npz --cosine 0.9999

Exit codes: 0 every output is close enough, 1 one is not, 2 wrong input, 3 runtime or environment,
4 the vendor's backend failed";

fn cosine(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(c) if (-1.0..=1.0).contains(&c) => Ok(c),
        _ => Err(format!("{text:?} is not a number from -1 to 1")),
    }
}

impl Verify {
    pub fn run(self) -> Run {
        let drawing = Drawing::new(self.quiet);
        let progress = |event: qnnc::progress::Event<'_>| drawing.show(event);
        if self.install_sdk {
            install_if_missing(&self.model, &self.target, self.licence, &progress)?;
        }
        let options = VerifyOptions {
            inputs: self.inputs,
            seed: self.seed,
            cosine: self.cosine,
            ort: self.ort,
            ..VerifyOptions::new(&self.model)
        };
        // The library compiles into a folder of its own; this one is not written to.
        let compile =
            CompileOptions { allow_approximate: self.allow_approximate, ..CompileOptions::new(self.model, "", "") };
        let compile = self.shapes.onto(self.target.onto(compile));
        let report = run_model(&options, &compile, &progress)?;
        drop(drawing);
        match self.format {
            _ if self.quiet => {}
            Format::Json => out::print(&report.json())?,
            Format::Text => out::print(&report.text())?,
        }
        Ok(report.exit_code())
    }
}
