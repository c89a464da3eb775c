//! Inspections for a terminal.

use std::fmt::Write;

use super::{BinaryReport, ContextReport, Inspection, ModelReport, OpCount, TensorDesc, ValueDesc};
use crate::qnn::graph::Quant;
use crate::report::{OpsetImport, count, human_bytes};

/// Rows of a list before it is cut.
const MAX_ROWS: usize = 60;

pub(super) fn render(i: &Inspection) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match i {
        Inspection::Model(m) => model(&mut out, m),
        Inspection::Context(c) => context(&mut out, c),
        Inspection::Binary(b) => binary(&mut out, b),
    };
    // Names come from the file: control characters must not reach the terminal.
    out.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// A name on one line.
fn line(text: &str) -> String {
    text.replace('\n', " ")
}

fn model(out: &mut String, m: &ModelReport) -> std::fmt::Result {
    writeln!(out, "{}: ONNX model, {}", line(&m.file), human_bytes(m.bytes))?;
    head(out, m.ir_version, &m.producer, &m.opsets)?;
    values(out, "input", &m.inputs)?;
    values(out, "output", &m.outputs)?;
    write!(out, "  {}", count(m.nodes, "node"))?;
    if m.inner_nodes > 0 {
        write!(out, ", {} more in bodies and functions", m.inner_nodes)?;
    }
    writeln!(out)?;
    ops(out, &m.ops)?;
    if !m.functions.is_empty() {
        writeln!(out, "  functions: {}", line(&m.functions.join(", ")))?;
    }
    writeln!(out, "  weights: {}", human_bytes(m.weight_bytes))?;
    for w in &m.weights {
        writeln!(
            out,
            "    {:<14} {}, {} elements, {}",
            w.dtype,
            count(w.tensors, "tensor"),
            w.elements,
            human_bytes(w.bytes)
        )?;
    }
    for e in &m.external {
        let size = e.size.map_or("missing".into(), human_bytes);
        writeln!(
            out,
            "  external data: {} ({size}): {}, {}",
            line(&e.file),
            count(e.tensors, "tensor"),
            human_bytes(e.bytes)
        )?;
    }
    for p in m.metadata.iter().take(MAX_ROWS) {
        let short: String = p.value.chars().take(100).collect();
        writeln!(out, "  metadata {}: {}", line(&p.key), line(&short))?;
    }
    more(out, m.metadata.len())?;
    problems(out, &m.problems)
}

fn context(out: &mut String, c: &ContextReport) -> std::fmt::Result {
    writeln!(out, "{}: EPContext model (compiled already)", line(&c.file))?;
    head(out, c.ir_version, &c.producer, &c.opsets)?;
    values(out, "input", &c.inputs)?;
    values(out, "output", &c.outputs)?;
    for n in &c.contexts {
        writeln!(out, "  EPContext node {}", line(&n.name))?;
        writeln!(out, "    source: {}", line(&n.source))?;
        let size = n.binary_bytes.map_or("missing".into(), human_bytes);
        if n.embedded {
            writeln!(out, "    binary: in the model ({size})")?;
        } else {
            writeln!(out, "    binary: {} ({size})", line(&n.binary))?;
        }
        let role = if n.main_context { "loads the binary" } else { "uses the binary that another node loads" };
        writeln!(out, "    main_context: {} ({role})", u8::from(n.main_context))?;
        for (title, text) in [("partition", &n.partition_name), ("SDK", &n.sdk_version)] {
            if !text.is_empty() {
                writeln!(out, "    {title}: {}", line(text))?;
            }
        }
        writeln!(out, "    {} -> {}", line(&n.inputs.join(", ")), line(&n.outputs.join(", ")))?;
    }
    if c.host_ops.is_empty() {
        writeln!(out, "  nothing is left to the CPU")?;
    } else {
        writeln!(out, "  left to the CPU:")?;
        ops(out, &c.host_ops)?;
    }
    if let Some(note) = &c.note {
        writeln!(out, "  {note}")?;
    }
    for b in &c.binaries {
        binary(out, b)?;
    }
    problems(out, &c.problems)
}

fn binary(out: &mut String, b: &BinaryReport) -> std::fmt::Result {
    writeln!(out, "{}: context binary, {}", line(&b.file), human_bytes(b.bytes))?;
    writeln!(out, "  SDK build {}, core API {}, backend API {}", b.sdk_build, b.core_api, b.backend_api)?;
    let or_unknown = |n: Option<u32>| n.map_or("unknown".to_string(), |n| n.to_string());
    let arch = b.arch.map_or("unknown".to_string(), |a| format!("v{a}"));
    writeln!(out, "  SoC {}, arch {arch}", or_unknown(b.soc_id))?;
    for g in &b.graphs {
        writeln!(out, "  graph {}", line(&g.name))?;
        if let Some(v) = g.vtcm_bytes {
            writeln!(out, "    VTCM {}", human_bytes(u64::from(v)))?;
        }
        if let Some(v) = g.spill_fill_bytes {
            writeln!(out, "    spill and fill buffer {}", human_bytes(v))?;
        }
        for (kind, tensors) in [("input", &g.inputs), ("output", &g.outputs)] {
            for t in tensors.iter().take(MAX_ROWS) {
                writeln!(out, "    {kind} {}", tensor(t))?;
            }
            more(out, tensors.len())?;
        }
    }
    Ok(())
}

fn tensor(t: &TensorDesc) -> String {
    let dims: Vec<String> = t.dims.iter().map(ToString::to_string).collect();
    let quant = match &t.quant {
        Quant::None => String::new(),
        Quant::PerTensor { scale, offset } => format!(", scale {scale}, offset {offset}"),
        Quant::BitWidth { bits, scale, offset } => format!(", {bits} bits, scale {scale}, offset {offset}"),
        Quant::PerAxis { axis, scales, .. } => format!(", {} scales on axis {axis}", scales.len()),
        Quant::BitWidthPerAxis { bits, axis, scales, .. } => {
            format!(", {bits} bits, {} scales on axis {axis}", scales.len())
        }
        Quant::FloatBlock { bits, block, scales, .. } => {
            format!(", {bits} bits, {} scales for blocks of {block:?}", scales.len())
        }
        Quant::Blockwise { axis, scales, blocks_per_axis, .. } => {
            format!(", {} scales on axis {axis} with {blocks_per_axis} blocks each", scales.len())
        }
    };
    format!("{}: {}[{}]{quant}", line(&t.name), t.dtype, dims.join(", "))
}

fn head(out: &mut String, ir: i64, producer: &str, opsets: &[OpsetImport]) -> std::fmt::Result {
    let sets: Vec<String> = opsets.iter().map(|o| format!("{} {}", line(&o.domain), o.version)).collect();
    write!(out, "  IR version {ir}, opsets: {}", sets.join(", "))?;
    if !producer.is_empty() {
        write!(out, ", made by {}", line(producer))?;
    }
    writeln!(out)
}

fn values(out: &mut String, kind: &str, list: &[ValueDesc]) -> std::fmt::Result {
    for v in list.iter().take(MAX_ROWS) {
        let ty = if v.ty.is_empty() { "of unknown type".to_string() } else { line(&v.ty) };
        writeln!(out, "  {kind} {}: {ty}", line(&v.name))?;
    }
    more(out, list.len())
}

fn ops(out: &mut String, list: &[OpCount]) -> std::fmt::Result {
    for o in list.iter().take(MAX_ROWS) {
        writeln!(out, "    {:>6} {}", o.count, line(&o.op))?;
    }
    more(out, list.len())
}

fn more(out: &mut String, n: usize) -> std::fmt::Result {
    if n > MAX_ROWS { writeln!(out, "    ... and {} more", n - MAX_ROWS) } else { Ok(()) }
}

fn problems(out: &mut String, list: &[String]) -> std::fmt::Result {
    for p in list.iter().take(MAX_ROWS) {
        writeln!(out, "  problem: {}", line(p))?;
    }
    more(out, list.len())
}
