//! The HTP of one SoC behind a worker process, as the placement and the preparation see it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::place::{Validator, refused_by_validator};
use crate::progress::{Event, Progress};
use crate::qnn::graph::{QnnGraph, QnnOp};
use crate::qnn::prefix::prefix;
use crate::qnn::protocol::Cause;
use crate::qnn::{self, Backend, OpVerdict, PrepareOptions, Stage, Worker, WorkerError, WorkerOptions};
use crate::report::Ddr;
use crate::sdk::Sdk;
use crate::tables::soc::Soc;
use crate::verdict::{Reason, codes};

/// A worker that has the HTP library of one SDK and the device of one SoC.
#[derive(Debug)]
pub struct Htp {
    worker: Worker,
    sdk: String,
}

impl Htp {
    /// Starts the worker and returns at once; it loads the library meanwhile.
    pub fn start(sdk: &Sdk, soc: &Soc, timeout: Duration) -> Result<Self, Error> {
        let options = WorkerOptions::new(&sdk.lib_dir, Backend::Htp).soc(soc.id).timeout(timeout);
        Ok(Self { worker: Worker::spawn(options)?, sdk: sdk.version.clone() })
    }

    /// Prepares the graphs into one context binary at `out`; returns the DDR figures by graph.
    pub fn prepare(
        &mut self,
        graphs: &[&QnnGraph],
        out: &Path,
        progress: Progress<'_>,
    ) -> Result<BTreeMap<String, Ddr>, WorkerError> {
        let done = thread::scope(|scope| {
            let (tell, told) = mpsc::channel::<qnn::Progress>();
            scope.spawn(move || {
                for at in told {
                    show(graphs, at, progress);
                }
            });
            self.worker.set_progress(Some(Box::new(move |at| {
                // Nobody listens any more: then nobody needs to be told.
                let _ = tell.send(at);
            })));
            let done = self.worker.prepare(graphs, &PrepareOptions::default(), out);
            self.worker.set_progress(None);
            done
        })?;
        let rows = done.graphs.into_iter().filter_map(|g| {
            let d = g.ddr?;
            let ddr = Ddr {
                read_total_bytes: d.read_total,
                write_total_bytes: d.write_total,
                spill_bytes: d.spill,
                fill_bytes: d.fill,
            };
            Some((g.name, ddr))
        });
        Ok(rows.collect())
    }
}

impl Htp {
    /// The op of `graph` with which its preparation begins to fail, and how: found by halving, each try in a worker of
    /// its own. `None` if every single op can be prepared alone or after those before it.
    pub fn first_unpreparable(&self, graph: &QnnGraph) -> Result<Option<(usize, String)>, Error> {
        let folder = tempfile::tempdir().map_err(|e| Error::environment(format!("no temporary folder: {e}")))?;
        let fails = |n: usize| -> Result<Option<String>, Error> {
            let mut worker = Worker::spawn(self.worker.options().clone())?;
            match worker.prepare(&[&prefix(graph, n)], &PrepareOptions::default(), &folder.path().join("try.bin")) {
                Ok(_) => Ok(None),
                Err(e @ (WorkerError::Spawn(_) | WorkerError::Library(_))) => Err(e.into()),
                Err(e) => Ok(Some(e.to_string())),
            }
        };
        let (mut good, mut bad) = (0, graph.ops.len());
        let Some(mut how) = fails(bad)? else { return Ok(None) };
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match fails(middle)? {
                Some(text) => (bad, how) = (middle, text),
                None => good = middle,
            }
        }
        Ok(Some((bad - 1, how)))
    }
}

/// The reason for an op that the validator takes and preparation does not.
pub fn refused_by_preparation(op: &QnnOp, how: &str, sdk: &str) -> Reason {
    let first = how.lines().next().unwrap_or_default();
    let mut reason = Reason::new(
        codes::VENDOR_FAULT,
        format!("the HTP of SDK {sdk} validates {} and then fails to prepare it: {first}", op.op_type),
    );
    reason.qnn_op = Some(op.op_type.clone());
    reason.source = Some(format!("preparation with SDK {sdk}"));
    reason
}

fn show(graphs: &[&QnnGraph], at: qnn::Progress, progress: Progress<'_>) {
    let Some(graph) = graphs.get(at.graph as usize) else { return };
    match at.stage {
        Stage::Tensors | Stage::Ops => {
            progress(Event::Op { graph: &graph.name, done: at.op as usize, total: graph.ops.len() });
        }
        stage => progress(Event::Stage(stage.doing())),
    }
}

impl Validator for Htp {
    fn validate(&mut self, graph: &QnnGraph) -> Result<Vec<Vec<Reason>>, Error> {
        let verdicts = self.worker.validate(graph)?;
        let rows = graph.ops.iter().zip(verdicts).map(|(op, verdict)| match verdict {
            v if v.accepted() => vec![],
            OpVerdict { cause: Cause::Validator, code, messages } => {
                vec![refused_by_validator(graph, op, code, &messages, &self.sdk)]
            }
            OpVerdict { messages, cause, .. } => {
                let how = match cause {
                    Cause::Crash => "the validator crashes on it",
                    Cause::Hang => "the validator does not come back from it",
                    _ => "it is not sent to the library",
                };
                let detail = messages.first().map(|m| format!(": {m}")).unwrap_or_default();
                let mut reason = Reason::new(codes::VENDOR_FAULT, format!("{}: {how}{detail}", op.op_type));
                reason.qnn_op = Some(op.op_type.clone());
                vec![reason]
            }
        });
        Ok(rows.collect())
    }
}

impl From<WorkerError> for Error {
    fn from(e: WorkerError) -> Self {
        match e.exit_code() {
            2 => Self::input(e.to_string()),
            3 => Self::environment(e.to_string()).help("`qnnc sdk doctor` says what is wrong with the SDK"),
            _ => Self::vendor(e.to_string()),
        }
    }
}
