//! Runs the compiled graph and ONNX Runtime's CPU provider on the same inputs, and compares what comes out.
//!
//! The compiled side is behind [`Runner`]: the HTP emulation or the QNN CPU backend in a worker process. ONNX Runtime is
//! loaded as a shared library of the user's and reads the model as the user gave it.

mod compare;
mod cpu;
mod feed;
mod npy;
mod reference;
mod report;
mod runner;

pub use compare::{Difference, compare};
pub use feed::{InputSpec, generate, load_inputs};
pub use npy::{NpyError, read_npy};
pub use reference::Reference;
pub use report::{OutputReport, VerifyReport};
pub use runner::{Compiled, CpuRunner, HtpRunner};

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::compile;
use crate::ir::Tensor;
use crate::options::{Backend, CompileOptions};
use crate::progress::{Event, Progress};
use crate::sdk::{self, Sdk};

/// A tensor with the name of the model's input or output that it is for.
pub type Named = (String, Tensor);

/// What is compared, and how strictly.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// The user's model.
    pub model: PathBuf,
    /// `.npz` with an array per input, or `.npy` for a model of one input. None: made from the seed.
    pub inputs: Option<PathBuf>,
    pub seed: u64,
    /// Lowest cosine similarity that passes.
    pub cosine: f64,
    /// The library of ONNX Runtime; see [`crate::sdk::ort::find_ort`].
    pub ort: Option<PathBuf>,
}

impl VerifyOptions {
    pub const DEFAULT_COSINE: f64 = 0.999;

    pub fn new(model: impl Into<PathBuf>) -> Self {
        Self { model: model.into(), inputs: None, seed: 0, cosine: Self::DEFAULT_COSINE, ort: None }
    }
}

/// What the compiled graph is run on.
pub trait Runner {
    /// As the report calls it: `HTP emulation`.
    fn name(&self) -> String;

    /// The graph's outputs for these inputs. Inputs that the graph does not have are ignored.
    ///
    /// # Errors
    /// The backend failed, or an input of the graph is missing.
    fn run(&mut self, inputs: &[Named]) -> Result<Vec<Named>, Error>;
}

/// Runs both sides. `inputs` are those of the model with the shapes that it was compiled for; `output_names` are the
/// outputs to compare, those that `runner` does not give are listed as computed at compile time.
///
/// # Errors
/// Inputs that do not fit the model (2), no ONNX Runtime (3), a backend that fails (4). A difference is not an error:
/// see [`VerifyReport::passed`].
pub fn run(
    options: &VerifyOptions,
    inputs: &[InputSpec],
    output_names: &[String],
    runner: &mut dyn Runner,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    let feeds = match &options.inputs {
        Some(path) => load_inputs(path, inputs)?,
        None => generate(inputs, options.seed)?,
    };
    progress(Event::Stage("running ONNX Runtime"));
    let mut reference = Reference::load(options.ort.as_deref(), &options.model)?;
    let want = reference.run(&feeds, output_names)?;
    progress(Event::Stage("running the compiled graph"));
    let got = runner.run(&feeds)?;

    let known: HashSet<&str> = got.iter().map(|(n, _)| n.as_str()).collect();
    let constant = output_names.iter().filter(|n| !known.contains(n.as_str())).cloned().collect();
    let outputs = want
        .iter()
        .filter_map(|(name, want)| {
            let (_, got) = got.iter().find(|(n, _)| n == name)?;
            Some(OutputReport::new(name, compare(got, want), options.cosine))
        })
        .collect();
    Ok(VerifyReport::new(options, runner.name(), reference.version(), outputs, constant))
}

/// Compiles the model into a folder that is removed afterwards, and verifies what came out on the HTP emulation. With
/// the QNN CPU backend as the only one, the model is lowered for that and nothing is compiled.
///
/// # Errors
/// As [`compile::run`] and [`run`]; a model that is not wholly one partition on the NPU (2).
pub fn run_model(
    options: &VerifyOptions,
    compile: &CompileOptions,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    // A missing reference is said before the long part.
    sdk::ort::find_ort(options.ort.as_deref())?;
    if compile.backends == [Backend::Cpu] {
        let mut cpu = cpu::lower(compile, &sdk::find(compile.sdk.as_deref())?)?;
        return run(options, &cpu.inputs, &cpu.output_names, &mut cpu.runner, progress);
    }
    let folder = tempfile::tempdir().map_err(|e| Error::environment(format!("no temporary folder: {e}")))?;
    let compile = CompileOptions { out: folder.path().join("bundle"), ..compile.clone() };
    let outcome = compile::run(&compile, progress)?;
    let gate = &outcome.placement.gate;
    if !gate.passed {
        return Err(Error::input(format!("there is nothing to verify: {}", gate.failures.join("; "))));
    }
    let is_model = |p: &&PathBuf| p.to_string_lossy().ends_with(".ctx.onnx");
    let Some(context) = outcome.files.iter().find(is_model) else {
        return Err(Error::input("there is nothing to verify: no context model was written"));
    };
    let off: Vec<&str> = outcome.placement.off_npu().map(|n| n.name.as_str()).take(5).collect();
    if !off.is_empty() || outcome.placement.partitions.len() != 1 {
        let message = format!(
            "only models that are wholly one partition on the NPU are verified; this one has {} partitions",
            outcome.placement.partitions.len()
        );
        return Err(Error::input(if off.is_empty() {
            message
        } else {
            format!("{message} and leaves nodes to the CPU: {}", off.join(", "))
        }));
    }
    run_context(options, context, &sdk::find(compile.sdk.as_deref())?, compile.timeout, progress)
}

/// Verifies a bundle that is there already: the `.ctx.onnx` at `context` against the model of `options`.
///
/// # Errors
/// As [`run`] and [`Compiled::open`].
pub fn run_context(
    options: &VerifyOptions,
    context: &Path,
    sdk: &Sdk,
    timeout: Duration,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    let compiled = Compiled::open(context)?;
    let (inputs, names) = (compiled.inputs.clone(), compiled.output_names());
    let mut runner = HtpRunner::start(compiled, sdk, timeout)?;
    run(options, &inputs, &names, &mut runner, progress)
}
