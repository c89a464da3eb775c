//! The model on the QNN CPU backend, lowered as for the NPU but in 32-bit floats: where it agrees with ONNX Runtime and
//! the HTP does not, the difference is the HTP's arithmetic and not the lowering.

use super::{CpuRunner, InputSpec, Named};
use crate::Error;
use crate::compile::prepare_graph;
use crate::infer::Bindings;
use crate::ir::{TensorType, ValueId};
use crate::lower::Target;
use crate::onnx;
use crate::options::CompileOptions;
use crate::place::{Known, Validator, solve};
use crate::qnn::graph::{QnnGraph, QnnType};
use crate::qnn::{Backend, Worker, WorkerOptions};
use crate::sdk::Sdk;
use crate::tables::soc::find_soc;
use crate::verdict::{Reason, codes};

/// A model that is ready to run on the QNN CPU backend.
#[derive(Debug)]
pub(super) struct CpuModel {
    pub runner: CpuRunner,
    pub inputs: Vec<InputSpec>,
    pub output_names: Vec<String>,
}

/// Lowers the whole model for the CPU backend.
///
/// # Errors
/// As those of compiling; a model that the CPU backend does not take whole (2).
pub(super) fn lower(options: &CompileOptions, sdk: &Sdk) -> Result<CpuModel, Error> {
    let soc = find_soc(&options.soc)?;
    let worker = Worker::spawn(WorkerOptions::new(&sdk.lib_dir, Backend::Cpu).timeout(options.timeout))?;
    let mut cpu = Cpu { worker, sdk: &sdk.version };
    let model = onnx::load(&options.model)?;
    let output_names: Vec<String> = model.graph.outputs.iter().map(|v| model.graph.value(*v).name.clone()).collect();
    let bindings = Bindings { dims: options.dims.clone(), shapes: options.input_shapes.clone() };
    let prepared = prepare_graph(model, &bindings, &[])?;
    let target = Target {
        soc: options.soc.clone(),
        arch: soc.arch,
        float: QnnType::FLOAT_32,
        allow_approximate: options.allow_approximate,
    };
    let graph = &prepared.graph;
    let mut solution = solve(graph, &prepared.order, &target, "model", Known::default(), &mut cpu)?;
    if let Some((id, reasons)) = solution.refused.first_key_value() {
        let why = reasons.first().map(|r| r.message.as_str()).unwrap_or_default();
        let more = match solution.refused.len() - 1 {
            0 => String::new(),
            n => format!(" ({n} more nodes are not either)"),
        };
        return Err(Error::input(format!(
            "node {:?} is not for the QNN CPU backend: {why}{more}",
            graph.node(*id).name
        )));
    }
    let placed = match (solution.placed.pop(), solution.placed.len()) {
        (Some(only), 0) => only,
        (None, _) => return Err(Error::input("the model computes nothing at run time; there is nothing to verify")),
        (Some(_), n) => {
            return Err(Error::input(format!("only models of one partition are verified; this one has {}", n + 1)));
        }
    };
    let typed = |v: ValueId| {
        let value = graph.value(v);
        let ty = value.ty.tensor().ok_or_else(|| Error::input(format!("the type of {:?} is not known", value.name)))?;
        Ok::<(String, TensorType), Error>((value.name.clone(), ty.clone()))
    };
    let outputs = graph.outputs.iter().map(|v| typed(*v)).collect::<Result<Vec<_>, _>>()?;
    let constants: Vec<Named> = graph
        .outputs
        .iter()
        .map(|v| graph.value(*v))
        .filter_map(|value| Some((value.name.clone(), value.data.clone()?)))
        .collect();
    let mut inputs = vec![];
    for &v in &graph.inputs {
        let (name, ty) = typed(v)?;
        let shape = ty.static_shape().ok_or_else(|| Error::input(format!("input {name:?} has no static shape")))?;
        inputs.push(InputSpec { name, dtype: ty.dtype, shape });
    }
    Ok(CpuModel { runner: CpuRunner::new(cpu.worker, placed.qnn, outputs, constants), inputs, output_names })
}

/// The validator of the CPU backend.
#[derive(Debug)]
struct Cpu<'a> {
    worker: Worker,
    sdk: &'a str,
}

impl Validator for Cpu<'_> {
    fn validate(&mut self, graph: &QnnGraph) -> Result<Vec<Vec<Reason>>, Error> {
        let verdicts = self.worker.validate(graph)?;
        let rows = graph.ops.iter().zip(verdicts).map(|(op, verdict)| {
            if verdict.accepted() {
                return vec![];
            }
            let said = verdict.messages.first().map(|m| format!(": {m}")).unwrap_or_default();
            let message = format!("the CPU backend of SDK {} refuses {}{said}", self.sdk, op.op_type);
            vec![Reason::new(codes::VALIDATOR, message)]
        });
        Ok(rows.collect())
    }
}
