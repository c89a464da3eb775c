//! One run of `compile`: the order of things, and who is asked for what.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use super::causes::{narrowed, unknown_ops, wide_integers};
use super::fixes::fixes;
use super::htp::{Htp, refused_by_preparation};
use super::passes::{Prepared, prepare_graph};
use super::placement;
use crate::emit::{Bundle, ContextModel, EpPartition, Manifest, SourceFile, hash_file, ir_version};
use crate::infer::{Bindings, packed_edges};
use crate::inspect::refuse_precompiled;
use crate::ir::{Graph, NodeId, ValueId, ValueType};
use crate::lower::Target;
use crate::options::CompileOptions;
use crate::place::{Known, Solution, solve};
use crate::progress::{Event, Progress};
use crate::qnn::WorkerError;
use crate::qnn::graph::{QnnGraph, QnnOp, QnnType};
use crate::report::{self, Ddr, Evidence, Placement};
use crate::sdk::{self, Sdk};
use crate::tables::soc::{Soc, find_soc};
use crate::verdict::Reason;
use crate::{Error, encodings, onnx};

/// What a compile came to.
#[derive(Debug)]
pub struct Outcome {
    pub placement: Placement,
    /// The files of the bundle, in the order in which they were written.
    pub files: Vec<PathBuf>,
}

/// Compiles a model into a bundle. When the gate says no, the outcome says so and only the report files are written.
///
/// # Errors
/// The user's input, the environment, or the vendor's backend; nothing is written then.
pub fn run(options: &CompileOptions, progress: Progress<'_>) -> Result<Outcome, Error> {
    let soc = find_soc(&options.soc)?;
    let stem = stem(&options.model)?;
    let mut bundle = Bundle::create(&options.out, &stem)?;
    if !options.model.exists() {
        return Err(Error::input(format!("cannot read {}: no such file", options.model.display())));
    }
    if !options.backends.contains(&crate::options::Backend::Htp) {
        return Err(Error::input("nothing can be compiled without the htp backend").help("--backends htp"));
    }
    if let Some(other) = options.backends.iter().find(|b| **b != crate::options::Backend::Htp) {
        progress(Event::Note(&format!("no node is placed on the {other} backend: this version places on htp alone")));
    }
    let given = options.encodings.as_deref().map(encodings::load).transpose()?.unwrap_or_default();
    let sdk = sdk::find(options.sdk.as_deref())?;
    if !soc.known_to(&sdk.version) {
        let text = format!("{} needs QAIRT {} or newer, and this is {}", soc.describe(), soc.since, sdk.version);
        return Err(Error::input(text).help("take a newer one: qnnc sdk install --version 2.51, and --sdk 2.51"));
    }
    // The library is large: it loads while the model is read.
    let mut htp = Htp::start(&sdk, soc, options.timeout)?;
    progress(Event::Stage("reading"));
    let model = onnx::load(&options.model).map_err(|e| Error::input(e.to_string()))?;
    refuse_precompiled(&options.model, &model.graph)?;
    let sources: Vec<PathBuf> = std::iter::once(model.path.clone()).chain(model.data_files.clone()).collect();
    bundle.protect(&sources)?;
    let hashing = thread::spawn(move || sources.iter().map(|p| source_file(p)).collect::<Result<Vec<_>, Error>>());
    let head = Head::of(&model);
    let bindings = Bindings { dims: options.dims.clone(), shapes: options.input_shapes.clone() };
    let mut prepared = prepare_graph(model, &bindings, &given)?;

    progress(Event::Stage("placing"));
    let target = Target {
        soc: options.soc.clone(),
        arch: soc.arch,
        float: QnnType::FLOAT_16,
        allow_approximate: options.allow_approximate,
    };
    let name = graph_name(&stem);
    let binary = format!("{stem}.bin");
    let mut known = Known { refused: unknown_ops(&prepared.graph, &prepared.order), ..Known::default() };
    known.refused.extend(placement::data_dependent(&prepared.data_dependent));
    known.refused.extend(placement::escaping(&prepared.escaping));
    let mut tries = 0;
    let mut packing = Packing::default();
    let (solution, ddr) = loop {
        let mut solution = solve(&prepared.graph, &prepared.order, &target, &name, known, &mut htp)?;
        let wide = wide_integers(&prepared.graph, &prepared.order, &solution.refused);
        if !wide.is_empty() {
            known = Known { refused: solution.refused, plain: solution.plain };
            known.refused.extend(wide);
            continue;
        }
        if !solution.refused.is_empty()
            && let Some(other) = packing.attempt(&mut prepared, &solution, &target, &name, &mut htp)?
        {
            solution = other;
        }
        let report = Report { options, soc, sdk: &sdk, head: &head, prepared: &prepared, solution: &solution };
        let draft = report.placement(Evidence::Validated, &BTreeMap::new(), None);
        let failures = gate(options, &draft);
        if !failures.is_empty() {
            let placement = Placement { gate: report::Gate { passed: false, failures }, ..draft };
            let files = write_reports(bundle, &placement)?;
            return Ok(Outcome { placement, files });
        }
        if solution.placed.is_empty() {
            break (solution, BTreeMap::new());
        }
        progress(Event::Stage("preparing"));
        let graphs: Vec<&QnnGraph> = solution.placed.iter().map(|p| &p.qnn).collect();
        let failed = match htp.prepare(&graphs, &bundle.path(&binary), progress) {
            Ok(ddr) => break (solution, ddr),
            Err(e @ (WorkerError::Vendor { .. } | WorkerError::Crashed { .. })) if tries < MOST_RETRIES => e,
            Err(WorkerError::WorkerFile(text)) => {
                let what = text.strip_prefix("writing the binary: ").unwrap_or(&text);
                let what = what.split(" (os error").next().unwrap_or(what).to_lowercase();
                let path = bundle.final_path(&binary);
                return Err(Error::input(format!("cannot write {}: {what}", path.display())));
            }
            Err(e) => return Err(e.into()),
        };
        tries += 1;
        progress(Event::Stage("looking for the op that cannot be prepared"));
        let no = unpreparable(&htp, &solution, &sdk)?;
        if no.is_empty() {
            return Err(failed.into());
        }
        known = if let Some(plain) = packing.undo(&mut prepared) {
            plain
        } else {
            let mut known = Known { refused: solution.refused.clone(), plain: solution.plain.clone() };
            for (qnn, op, reason) in no {
                known.refuse(qnn, op, vec![reason]);
            }
            known
        };
        htp = Htp::start(&sdk, soc, options.timeout)?;
    };
    packing.finish(&mut prepared);
    let binary_bytes = if solution.placed.is_empty() { None } else { Some(bundle.seal(&binary)?.bytes) };
    let report = Report { options, soc, sdk: &sdk, head: &head, prepared: &prepared, solution: &solution };
    drop(htp);
    progress(Event::Stage("writing"));
    let mut placement = report.placement(Evidence::Prepared, &ddr, binary_bytes);
    let sources = hashing.join().map_err(|_| Error::environment("the hashing of the sources ended early"))??;
    placement.model.sha256 = sources.first().map(|s| s.sha256.clone());
    let files = write_bundle(bundle, &placement, sources, &report, &binary)?;
    Ok(Outcome { placement, files })
}

/// Inputs and outputs of types that the HTP has no tensors of, held as bits: tried once, if the model is not wholly on the
/// NPU without, and kept if it then is.
#[derive(Default)]
struct Packing {
    tried: bool,
    plain: Option<(Graph, Vec<NodeId>, Known)>,
    outside: Vec<(ValueId, ValueType)>,
}

impl Packing {
    fn attempt(
        &mut self,
        prepared: &mut Prepared,
        solution: &Solution,
        target: &Target,
        name: &str,
        htp: &mut Htp,
    ) -> Result<Option<Solution>, Error> {
        if std::mem::replace(&mut self.tried, true) {
            return Ok(None);
        }
        let Some(packed) = packed_edges(&prepared.graph, &prepared.order) else { return Ok(None) };
        let Ok(order) = packed.graph.topological_order() else { return Ok(None) };
        let folded = |id: &NodeId| {
            let node = packed.graph.node(*id);
            node.outputs.iter().flatten().all(|v| packed.graph.value(*v).data.is_some())
        };
        let order: Vec<NodeId> = order.into_iter().filter(|id| !folded(id)).collect();
        let hopeless = !prepared.data_dependent.is_empty() || !prepared.escaping.is_empty();
        if hopeless || !unknown_ops(&packed.graph, &order).is_empty() {
            return Ok(None);
        }
        let other = solve(&packed.graph, &order, target, name, Known::default(), htp)?;
        if !other.refused.is_empty() || !wide_integers(&packed.graph, &order, &other.refused).is_empty() {
            return Ok(None);
        }
        let graph = std::mem::replace(&mut prepared.graph, packed.graph);
        let order = std::mem::replace(&mut prepared.order, order);
        let known = Known { refused: solution.refused.clone(), plain: solution.plain.clone() };
        self.plain = Some((graph, order, known));
        self.outside = packed.outside;
        Ok(Some(other))
    }

    /// Back to the graph without packed edges, and what is known of it.
    fn undo(&mut self, prepared: &mut Prepared) -> Option<Known> {
        let (graph, order, known) = self.plain.take()?;
        (prepared.graph, prepared.order) = (graph, order);
        self.outside.clear();
        Some(known)
    }

    /// The model's own types at its inputs and outputs, for what is written.
    fn finish(self, prepared: &mut Prepared) {
        for (v, ty) in self.outside {
            prepared.graph.value_mut(v).ty = ty;
        }
    }
}

/// How often nodes that cannot be prepared are taken off before the error is the answer.
const MOST_RETRIES: usize = 8;

/// The QNN ops that a preparation fails on, one per partition that cannot be prepared.
fn unpreparable<'a>(
    htp: &Htp,
    solution: &'a Solution,
    sdk: &Sdk,
) -> Result<Vec<(&'a QnnGraph, &'a QnnOp, Reason)>, Error> {
    let mut no = vec![];
    for placed in &solution.placed {
        if let Some((i, how)) = htp.first_unpreparable(&placed.qnn)? {
            let op = &placed.qnn.ops[i];
            no.push((&placed.qnn, op, refused_by_preparation(op, &how, &sdk.version)));
        }
    }
    Ok(no)
}

/// The stem of the bundle's files: the model's file name without `.onnx`.
fn stem(model: &Path) -> Result<String, Error> {
    let name = model.file_name().and_then(|n| n.to_str());
    let stem = name.map(|n| n.strip_suffix(".onnx").unwrap_or(n)).filter(|s| !s.is_empty());
    stem.map(Into::into).ok_or_else(|| Error::input(format!("{} is not the name of a model file", model.display())))
}

/// A name for QNN graphs: letters, digits and underscores, not starting with a digit.
fn graph_name(stem: &str) -> String {
    let clean: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) { format!("g_{clean}") } else { clean }
}

fn source_file(path: &Path) -> Result<SourceFile, Error> {
    let (bytes, sha256) = hash_file(path).map_err(|e| Error::unreadable(path, &e))?;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(SourceFile { name, bytes, sha256 })
}

/// One sentence for each threshold that is broken.
fn gate(options: &CompileOptions, placement: &Placement) -> Vec<String> {
    let host = placement.totals.host;
    match options.max_cpu_nodes {
        Some(max) if host > max => {
            vec![format!("{host} nodes are left to the CPU, and at most {max} may be (--max-cpu-nodes)")]
        }
        _ => vec![],
    }
}

/// What a report says about the model file.
#[derive(Debug)]
struct Head {
    model: report::Model,
    findings: Vec<report::Finding>,
    output_names: Vec<String>,
    ir_version: i64,
}

impl Head {
    fn of(model: &onnx::Model) -> Self {
        let opsets = model.opsets.iter().map(|(domain, version)| report::OpsetImport {
            domain: if domain.is_empty() { "ai.onnx".into() } else { domain.clone() },
            version: *version,
        });
        let file = model.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            model: report::Model {
                file,
                sha256: None,
                ir_version: model.ir_version,
                opsets: opsets.collect(),
                producer: model.producer(),
            },
            findings: model.findings.iter().map(placement::finding).collect(),
            output_names: model.graph.outputs.iter().map(|v| model.graph.value(*v).name.clone()).collect(),
            ir_version: model.ir_version,
        }
    }
}

/// Everything that the report is made from.
#[derive(Debug)]
struct Report<'a> {
    options: &'a CompileOptions,
    soc: &'a Soc,
    sdk: &'a Sdk,
    head: &'a Head,
    prepared: &'a Prepared,
    solution: &'a Solution,
}

impl Report<'_> {
    fn placement(&self, evidence: Evidence, ddr: &BTreeMap<String, Ddr>, binary_bytes: Option<u64>) -> Placement {
        let graph = &self.prepared.graph;
        let nodes = placement::nodes(&self.prepared.user, graph, self.solution, evidence);
        let partitions = placement::partitions(self.solution, ddr);
        let mut totals = placement::totals(&nodes, &partitions, self.solution);
        totals.binary_bytes = binary_bytes;
        let inputs = self.solution.placed.iter().flat_map(|p| &p.partition.inputs);
        let remarks = placement::remarks(graph, self.solution);
        let found = self.prepared.findings.iter().chain(&remarks).map(placement::finding);
        let findings = self.head.findings.iter().cloned().chain(found);
        let findings = findings.chain(narrowed(graph, inputs).iter().map(placement::finding)).collect();
        Placement {
            schema: report::SCHEMA,
            tool: report::Tool::default(),
            model: self.head.model.clone(),
            target: report::Target {
                soc: self.options.soc.to_lowercase(),
                soc_id: self.soc.id,
                arch: self.soc.arch,
                sdk: Some(self.sdk.build_id.clone()),
                backends: self.options.backends.iter().map(|b| (*b).into()).collect(),
            },
            gate: report::Gate::default(),
            totals,
            io: placement::io(graph, self.solution),
            partitions,
            nodes,
            fixes: fixes(graph, &self.prepared.order, &self.solution.refused),
            findings,
            rewrites: self.prepared.rewrites.iter().map(placement::rewrite).collect(),
        }
    }
}

fn write_reports(mut bundle: Bundle, placement: &Placement) -> Result<Vec<PathBuf>, Error> {
    bundle.write("placement.json", report::json::render(placement).as_bytes())?;
    bundle.write("placement.md", report::markdown::render(placement).as_bytes())?;
    bundle.commit()
}

fn write_bundle(
    mut bundle: Bundle,
    placement: &Placement,
    sources: Vec<SourceFile>,
    report: &Report<'_>,
    binary: &str,
) -> Result<Vec<PathBuf>, Error> {
    let partitions: Vec<EpPartition<'_>> =
        placement.partitions.iter().map(|partition| EpPartition { partition, binary }).collect();
    let host: Vec<NodeId> =
        report.prepared.order.iter().copied().filter(|id| report.solution.refused.contains_key(id)).collect();
    let model = ContextModel {
        graph: &report.prepared.graph,
        host: &host,
        partitions: &partitions,
        output_names: &report.head.output_names,
        sdk_version: &report.sdk.build_id,
    };
    let built = model.build()?;
    let header = onnx::Header {
        ir_version: ir_version(report.head.ir_version),
        producer_name: "qnnc".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        ..onnx::Header::default()
    };
    bundle.write_model(&format!("{}.ctx.onnx", bundle.stem().to_owned()), &built, &header)?;
    bundle.write("placement.json", report::json::render(placement).as_bytes())?;
    bundle.write("placement.md", report::markdown::render(placement).as_bytes())?;
    let stem = bundle.stem().to_owned();
    bundle.write_manifest(Manifest::new(&stem, placement.target.clone(), sources, &model))?;
    bundle.commit()
}
