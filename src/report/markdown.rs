//! `placement.md`: the report for people, in GitHub's Markdown.

use std::fmt::Write;

use indexmap::IndexMap;

use super::text::merged;
use super::{Backend, Ddr, Fix, IoKind, NodePlacement, Placement, count, human_bytes};
use crate::verdict::Reason;

/// Rows of the per-node table; the rest is left to `placement.json`.
const MAX_ROWS: usize = 500;
/// Entries of the list of nodes that are not on the NPU.
const MAX_GROUPS: usize = 40;
/// Names given per entry of that list.
const MAX_NAMES: usize = 5;

/// The report as Markdown.
pub fn render(r: &Placement) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, r);
    out
}

fn write_all(out: &mut String, r: &Placement) -> std::fmt::Result {
    writeln!(out, "# Placement of {} on {}\n", code(&r.model.file), code(&r.target.soc))?;
    writeln!(out, "{}\n", verdict(r))?;
    if !r.gate.passed {
        writeln!(out, "**The gate said no.**\n")?;
        for f in &r.gate.failures {
            writeln!(out, "- {}", escape(f))?;
        }
        writeln!(out)?;
    }
    counts(out, r)?;
    off_npu(out, r)?;
    fixes(out, r)?;
    findings(out, r)?;
    partitions(out, r)?;
    memory(out, r)?;
    io(out, r)?;
    rewrites(out, r)?;
    node_table(out, r)?;
    footer(out, r)
}

/// One sentence that says how much of the model is on the NPU.
pub fn verdict(r: &Placement) -> String {
    let off = r.off_npu().count();
    let parts = count(r.partitions.len(), "partition");
    if off == 0 {
        return format!("**All {} on the NPU**, in {parts}.", count(r.totals.nodes, "node"));
    }
    let verb = if off == 1 { "is" } else { "are" };
    format!("**{off} of {} {verb} not on the NPU**; the rest is in {parts}.", count(r.totals.nodes, "node"))
}

fn counts(out: &mut String, r: &Placement) -> std::fmt::Result {
    writeln!(out, "| where | nodes |\n|---|---:|")?;
    for b in Backend::ALL {
        if r.totals.of(b) > 0 {
            writeln!(out, "| {} | {} |", b.title(), r.totals.of(b))?;
        }
    }
    writeln!(out, "| **all** | **{}** |\n", r.totals.nodes)
}

/// Nodes with the same op and the same reasons are one entry.
fn off_npu(out: &mut String, r: &Placement) -> std::fmt::Result {
    let mut groups: IndexMap<(String, Vec<String>), Vec<&NodePlacement>> = IndexMap::new();
    for n in r.off_npu() {
        let why = n.reasons.iter().map(|x| format!("{} {}", x.code, x.message)).collect();
        groups.entry((n.op_name(), why)).or_default().push(n);
    }
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Not on the NPU, and why\n")?;
    for ((op, _), nodes) in groups.iter().take(MAX_GROUPS) {
        let mut names: Vec<String> = nodes.iter().take(MAX_NAMES).map(|n| code(&n.name)).collect();
        if nodes.len() > MAX_NAMES {
            names.push(format!("and {} more", nodes.len() - MAX_NAMES));
        }
        let first = nodes[0];
        writeln!(out, "- **{}** ({}): {}", escape(op), first.backend.title(), names.join(", "))?;
        for reason in &first.reasons {
            writeln!(out, "  - {}", reason_line(reason))?;
        }
    }
    if groups.len() > MAX_GROUPS {
        writeln!(out, "- {} more kinds are in `placement.json`", groups.len() - MAX_GROUPS)?;
    }
    writeln!(out)
}

/// What would merge partitions; the other rows are left to `placement.json`.
fn fixes(out: &mut String, r: &Placement) -> std::fmt::Result {
    let merging: Vec<&Fix> = r.fixes.iter().filter(|f| f.merges()).collect();
    let Some(first) = merging.first() else { return Ok(()) };
    writeln!(out, "## What is worth fixing\n")?;
    writeln!(out, "Having {} on the NPU, or out of the model, merges {}.\n", escape(&first.op), merged(first))?;
    writeln!(out, "| op | nodes | partitions | nodes on the CPU | over boundaries | with all above |")?;
    writeln!(out, "|---|---|---:|---:|---:|---:|")?;
    for f in merging {
        let mut names: Vec<String> = f.nodes.iter().take(MAX_NAMES).map(|n| cell(&code(n))).collect();
        if f.nodes.len() > MAX_NAMES {
            names.push(format!("and {} more", f.nodes.len() - MAX_NAMES));
        }
        writeln!(
            out,
            "| {} | {} | {} to {} | {} to {} | {} to {} | {} |",
            escape(&f.op),
            names.join(", "),
            f.now.partitions,
            f.then.partitions,
            f.now.host_nodes,
            f.then.host_nodes,
            human_bytes(f.now.boundary_bytes),
            human_bytes(f.then.boundary_bytes),
            count(f.with_all_above.partitions, "partition"),
        )?;
    }
    writeln!(out)
}

fn reason_line(x: &Reason) -> String {
    let mut s = format!("{}: {}", x.code, escape(&x.message));
    if let (Some(want), Some(have)) = (&x.required, &x.found) {
        let _ = write!(s, " (required {}, found {})", escape(want), escape(have));
    }
    if let Some(source) = &x.source {
        let _ = write!(s, " [{}]", escape(source));
    }
    if let Some(fix) = &x.fix {
        let _ = write!(s, ". **Fix:** {}", escape(fix));
    }
    s
}

fn findings(out: &mut String, r: &Placement) -> std::fmt::Result {
    if r.findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Findings\n")?;
    for f in &r.findings {
        write!(out, "- {} {}: {}", f.severity, f.code, escape(&f.message))?;
        if let Some(place) = f.node.as_ref().or(f.tensor.as_ref()) {
            write!(out, " ({})", code(place))?;
        }
        if let Some(fix) = &f.fix {
            write!(out, ". **Fix:** {}", escape(fix))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn partitions(out: &mut String, r: &Placement) -> std::fmt::Result {
    if r.partitions.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Partitions\n")?;
    writeln!(out, "| partition | backend | nodes | QNN ops | weights | in | out | DDR read | DDR write |")?;
    writeln!(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|")?;
    for p in &r.partitions {
        let ddr = |f: fn(&Ddr) -> u64| p.ddr.as_ref().map_or("-".into(), |d| human_bytes(f(d)));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell(&code(&p.name)),
            p.backend,
            p.nodes,
            p.qnn_ops,
            human_bytes(p.weight_bytes),
            human_bytes(p.bytes_in),
            human_bytes(p.bytes_out),
            ddr(|d| d.read_total_bytes),
            ddr(|d| d.write_total_bytes),
        )?;
    }
    writeln!(out)
}

fn memory(out: &mut String, r: &Placement) -> std::fmt::Result {
    let t = &r.totals;
    writeln!(out, "## Bytes of one inference\n\n| | |\n|---|---:|")?;
    if let Some(d) = &t.ddr {
        writeln!(out, "| DDR read | {} |", human_bytes(d.read_total_bytes))?;
        writeln!(out, "| DDR write | {} |", human_bytes(d.write_total_bytes))?;
        writeln!(out, "| spilled to DDR | {} |", human_bytes(d.spill_bytes))?;
        writeln!(out, "| filled back | {} |", human_bytes(d.fill_bytes))?;
    }
    writeln!(out, "| weights | {} |", human_bytes(t.weight_bytes))?;
    writeln!(out, "| activations | {} |", human_bytes(t.activation_bytes))?;
    writeln!(out, "| over partition boundaries | {} |", human_bytes(t.boundary_bytes))?;
    if let Some(b) = t.binary_bytes {
        writeln!(out, "| context binary (on disk) | {} |", human_bytes(b))?;
    }
    if let Some(m) = t.macs {
        writeln!(out, "\nMultiply-accumulates of one inference: {m}.")?;
    }
    writeln!(out)
}

fn io(out: &mut String, r: &Placement) -> std::fmt::Result {
    if r.io.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Inputs and outputs\n\n| | name | ONNX type | shape | QNN type |\n|---|---|---|---|---|")?;
    for x in &r.io {
        let kind = if x.kind == IoKind::Input { "in" } else { "out" };
        let qnn = x.qnn_type.as_deref().unwrap_or("-");
        let shape = x.shape.join(", ");
        writeln!(out, "| {kind} | {} | {} | [{}] | {qnn} |", cell(&code(&x.name)), x.onnx_type, escape(&shape))?;
    }
    writeln!(out)
}

fn rewrites(out: &mut String, r: &Placement) -> std::fmt::Result {
    if r.rewrites.is_empty() {
        return Ok(());
    }
    let mut applied: IndexMap<&str, usize> = IndexMap::new();
    for x in r.rewrites.iter().filter(|x| x.applied) {
        *applied.entry(&x.name).or_default() += 1;
    }
    writeln!(out, "## Rewrites\n")?;
    for (name, times) in applied {
        writeln!(out, "- {}: applied {}", code(name), count(times, "time"))?;
    }
    for x in r.rewrites.iter().filter(|x| !x.applied).take(MAX_GROUPS) {
        let at = x.nodes.first().map(|n| format!(" at {}", code(n))).unwrap_or_default();
        writeln!(out, "- {}: not applied{at}: {}", code(&x.name), escape(&x.message))?;
    }
    let refused = r.rewrites.iter().filter(|x| !x.applied).count();
    if refused > MAX_GROUPS {
        writeln!(out, "- {} more that were not applied are in `placement.json`", refused - MAX_GROUPS)?;
    }
    writeln!(out)
}

fn node_table(out: &mut String, r: &Placement) -> std::fmt::Result {
    writeln!(out, "<details>\n<summary>All nodes</summary>\n")?;
    writeln!(out, "| node | op | where | evidence | partition | becomes |\n|---|---|---|---|---|---|")?;
    let shown = shown_rows(r);
    for n in r.nodes.iter().zip(&shown).filter(|(_, s)| **s).map(|(n, _)| n) {
        let evidence = n.evidence.map_or("-".into(), |e| e.to_string());
        let partition = n.partition.as_deref().map_or("-".into(), code);
        let ops: Vec<&str> = n.qnn_ops.iter().map(|o| o.op_type.as_str()).collect();
        let becomes =
            if ops.is_empty() { n.reasons.first().map(|x| x.code.clone()).unwrap_or_default() } else { runs(&ops) };
        writeln!(
            out,
            "| {} | {} | {} | {evidence} | {} | {} |",
            cell(&code(&n.name)),
            escape(&n.op_name()),
            n.backend,
            cell(&partition),
            escape(&becomes)
        )?;
    }
    let hidden = shown.iter().filter(|s| !**s).count();
    if hidden > 0 {
        writeln!(out, "\n{hidden} more, on the NPU or folded, are in `placement.json`.")?;
    }
    writeln!(out, "\n</details>\n")
}

/// Which nodes the table lists: all of a small model; of a large one those off the NPU first, then from the start.
fn shown_rows(r: &Placement) -> Vec<bool> {
    let mut left = MAX_ROWS;
    let mut shown = vec![false; r.nodes.len()];
    for off in [true, false] {
        for (n, s) in r.nodes.iter().zip(&mut shown) {
            if left > 0 && n.backend.is_npu_or_free() != off {
                *s = true;
                left -= 1;
            }
        }
    }
    shown
}

/// Runs of equal names are counted: `Cast, Conv2d x3`.
fn runs(ops: &[&str]) -> String {
    let parts: Vec<String> = ops
        .chunk_by(|a, b| a == b)
        .map(|run| if run.len() == 1 { run[0].into() } else { format!("{} x{}", run[0], run.len()) })
        .collect();
    match parts.len() {
        0..=8 => parts.join(", "),
        n => format!("{}, and {} more", parts[..8].join(", "), n - 8),
    }
}

fn footer(out: &mut String, r: &Placement) -> std::fmt::Result {
    let opsets: Vec<String> = r.model.opsets.iter().map(|o| format!("{} {}", o.domain, o.version)).collect();
    write!(out, "{} {}", r.tool.name, r.tool.version)?;
    write!(out, " · {} (SoC {}, v{})", r.target.soc, r.target.soc_id, r.target.arch)?;
    match &r.target.sdk {
        Some(v) => write!(out, " · QAIRT {v}")?,
        None => write!(out, " · no SDK was asked")?,
    }
    write!(out, " · IR version {} · {}", r.model.ir_version, escape(&opsets.join(", ")))?;
    if !r.model.producer.is_empty() {
        write!(out, " · {}", escape(&r.model.producer))?;
    }
    writeln!(out)
}

/// Text with the characters that Markdown reads specially taken literally.
fn escape(text: &str) -> String {
    let mut s = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => s.push(' '),
            '&' => s.push_str("&amp;"),
            '<' => s.push_str("&lt;"),
            '>' => s.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '|' | '[' | ']' => {
                s.push('\\');
                s.push(c);
            }
            _ => s.push(c),
        }
    }
    s
}

/// A code span, whatever the text holds.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// In a table a `|` ends the cell even within a code span.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::{golden, sample};
    use super::*;

    #[test]
    fn golden_markdown() {
        golden("src/report/golden/split.md", &render(&sample::split()));
        golden("src/report/golden/whole.md", &render(&sample::whole()));
    }

    #[test]
    fn large_models_are_shortened_but_every_off_node_counts() {
        let text = render(&sample::large());
        assert!(text.len() < 60_000, "{}", text.len());
        assert!(text.contains("`loop0`, `loop1`, `loop2`, `loop3`, `loop4`, and 95 more"));
        assert!(text.contains("| `loop99` |"));
        assert!(text.contains("2600 more, on the NPU or folded"));
    }

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`x"), "`` `x ``");
        assert_eq!(cell(&code("a|b")), "`a\\|b`");
        assert_eq!(escape("<b>*x*\n"), "&lt;b&gt;\\*x\\* ");
    }

    #[test]
    fn runs_are_counted() {
        assert_eq!(runs(&["Cast", "Conv2d", "Conv2d", "Cast"]), "Cast, Conv2d x2, Cast");
    }
}
