//! The short summary for a terminal: plain text, no colour, a line or two per thing that matters.

use std::fmt::Write;

use indexmap::IndexMap;

use super::{Backend, Fix, Placement, Severity, count, human_bytes};

/// Entries of the list of nodes that are not on the NPU.
const MAX_GROUPS: usize = 10;
/// Entries of the list of what is worth fixing.
const MAX_FIXES: usize = 3;

/// The report in a few lines.
pub fn render(r: &Placement) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, r);
    out
}

fn write_all(out: &mut String, r: &Placement) -> std::fmt::Result {
    write!(out, "{} on {} (v{}", printable(&r.model.file), r.target.soc, r.target.arch)?;
    match &r.target.sdk {
        Some(v) => writeln!(out, ", QAIRT {v})")?,
        None => writeln!(out, ")")?,
    }
    let places: Vec<String> = Backend::ALL
        .into_iter()
        .filter(|b| r.totals.of(*b) > 0)
        .map(|b| format!("{} {}", r.totals.of(b), b.title()))
        .collect();
    write!(out, "  {}", count(r.totals.nodes, "node"))?;
    if !places.is_empty() {
        write!(out, ": {}", places.join(", "))?;
    }
    writeln!(out)?;
    for p in &r.partitions {
        writeln!(
            out,
            "  partition {} ({}): {}, {} in, {} out, {} of weights",
            printable(&p.name),
            p.backend,
            count(p.nodes, "node"),
            human_bytes(p.bytes_in),
            human_bytes(p.bytes_out),
            human_bytes(p.weight_bytes)
        )?;
    }
    if let Some(d) = &r.totals.ddr {
        writeln!(
            out,
            "  DDR per inference: {} read, {} written, {} spilled, {} filled",
            human_bytes(d.read_total_bytes),
            human_bytes(d.write_total_bytes),
            human_bytes(d.spill_bytes),
            human_bytes(d.fill_bytes)
        )?;
    }
    off_npu(out, r)?;
    for f in r.fixes.iter().filter(|f| f.merges()).take(MAX_FIXES) {
        writeln!(out, "  fix: {}", printable(&fix_line(f)))?;
    }
    for f in r.findings.iter().filter(|f| f.severity >= Severity::Warning) {
        writeln!(out, "  {} {}: {}", f.severity, f.code, printable(&f.message))?;
    }
    for f in &r.gate.failures {
        writeln!(out, "  gate: {}", printable(f))?;
    }
    Ok(())
}

fn off_npu(out: &mut String, r: &Placement) -> std::fmt::Result {
    let mut groups: IndexMap<(String, Backend, &str, &str), Vec<&str>> = IndexMap::new();
    for n in r.off_npu() {
        let (code, message) = n.reasons.first().map_or(("", ""), |x| (x.code.as_str(), x.message.as_str()));
        groups.entry((n.op_name(), n.backend, code, message)).or_default().push(&n.name);
    }
    for ((op, backend, code, message), names) in groups.iter().take(MAX_GROUPS) {
        let name = printable(names[0]);
        let who = if names.len() == 1 { name } else { format!("{name} and {} more", names.len() - 1) };
        writeln!(out, "  {backend}: {} ({who}): {code} {}", printable(op), printable(message))?;
    }
    if groups.len() > MAX_GROUPS {
        writeln!(out, "  ... and {} more kinds", groups.len() - MAX_GROUPS)?;
    }
    Ok(())
}

/// `Erf (a, b) on the NPU, or gone, merges 3 partitions into 1: ...`
fn fix_line(f: &Fix) -> String {
    let names = match f.nodes.as_slice() {
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a}, {b}, {c} and {} more", rest.len()),
        names => names.join(", "),
    };
    format!("{} ({names}) on the NPU, or gone, merges {}", f.op, merged(f))
}

/// `2 partitions into 1: 0 B instead of 32 B cross between NPU and CPU, in 0 instead of 2 tensors`
pub(super) fn merged(f: &Fix) -> String {
    format!(
        "{} into {}: {} instead of {} cross between NPU and CPU, in {} instead of {}",
        count(f.now.partitions, "partition"),
        f.then.partitions,
        human_bytes(f.then.boundary_bytes),
        human_bytes(f.now.boundary_bytes),
        f.then.boundary_tensors,
        count(f.now.boundary_tensors, "tensor"),
    )
}

/// Names come from the model: control characters must not reach the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{golden, sample};
    use super::*;

    #[test]
    fn golden_text() {
        golden("src/report/golden/split.txt", &render(&sample::split()));
        golden("src/report/golden/whole.txt", &render(&sample::whole()));
    }

    #[test]
    fn control_characters_are_taken_out() {
        let mut r = sample::whole();
        r.model.file = "a\u{1b}[31m.onnx".into();
        assert!(!render(&r).contains('\u{1b}'));
    }
}
