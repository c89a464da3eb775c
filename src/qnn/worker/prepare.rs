//! Makes a context binary (or, with the IR backend, a .dlc) from graphs.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use super::build::{Uses, build, htp_options};
use super::ddr;
use super::ffi::{Level, MappedMut, Vendor, take_log};
use super::serve::Started;
use super::state::{Capture, Fault, Tracker};
use crate::qnn::protocol::{Backend, PrepareOptions, PrepareReply, PreparedGraph, Stage, WireGraph};

/// Core API minor version from which the DDR summary comes through the log at level 3, not on standard output.
const SUMMARY_IN_LOG: u32 = 39;

pub fn prepare(
    started: &Started,
    graphs: &[WireGraph],
    options: &PrepareOptions,
    files: &[File],
    out: &Path,
    tracker: &mut Tracker,
    capture: &mut Capture,
) -> Result<PrepareReply, Fault> {
    let vendor = &started.vendor;
    let ir = started.backend == Backend::Ir;
    if ir && graphs.len() != 1 {
        return Err(Fault::request("a .dlc is made from exactly one graph"));
    }
    let htp = started.backend == Backend::Htp;
    let (weights, output) = match files.split_last() {
        Some((output, weights)) if !ir => (weights, Some(output)),
        _ => (files, None),
    };
    let context = vendor.context(htp && options.weight_sharing)?;
    let mut reply = PrepareReply {
        graphs: Vec::with_capacity(graphs.len()),
        binary_bytes: 0,
        load_us: started.load_us,
        device_us: started.device_us,
        serialise_us: 0,
        build_id: vendor.build_id(),
        core_version: vendor.interface().core.to_string(),
        peak_rss_kib: 0,
    };
    let mut uses = Uses::of(graphs);
    for (index, wire) in graphs.iter().enumerate() {
        let mut configs = if htp { htp_options(options) } else { Vec::new() };
        let begin = Instant::now();
        tracker.at(Stage::Tensors, index, 0);
        let graph = context.graph(&wire.name, &mut configs, ir.then_some(out))?;
        build(graph, index, wire, weights, &mut uses, tracker)?;
        let build_us = begin.elapsed().as_micros() as u64;
        let begin = Instant::now();
        tracker.at(Stage::Finalising, index, 0);
        let summary = finalise(vendor, htp, capture, || graph.finalise().map_err(Fault::from))?;
        reply.graphs.push(PreparedGraph {
            name: wire.name.clone(),
            ddr: summary.as_deref().and_then(ddr::parse),
            build_us,
            finalise_us: begin.elapsed().as_micros() as u64,
        });
    }
    tracker.at(Stage::Serialising, graphs.len().saturating_sub(1), 0);
    let begin = Instant::now();
    if let Some(file) = output {
        let failed = |e: std::io::Error| Fault::file("writing the binary", &e);
        let mut map = MappedMut::whole(file, context.binary_size()?).map_err(failed)?;
        reply.binary_bytes = map.fill(|bytes| context.binary(bytes))?;
        drop(map);
        file.set_len(reply.binary_bytes).map_err(failed)?;
    } else {
        let meta = std::fs::metadata(out).map_err(|e| Fault::file(&format!("reading {}", out.display()), &e))?;
        reply.binary_bytes = meta.len();
    }
    reply.serialise_us = begin.elapsed().as_micros() as u64;
    reply.peak_rss_kib = peak_rss_kib();
    Ok(reply)
}

/// 0 when the system does not say.
fn peak_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs `step` and gives what the library printed or logged meanwhile.
fn finalise(
    vendor: &Vendor,
    htp: bool,
    capture: &mut Capture,
    step: impl FnOnce() -> Result<(), Fault>,
) -> Result<Option<String>, Fault> {
    let in_log = htp && vendor.interface().core.minor >= SUMMARY_IN_LOG;
    capture.take();
    if in_log {
        take_log();
        vendor.set_log_level(Level::Info);
    }
    let result = step();
    if !in_log {
        return result.map(|()| Some(capture.take()));
    }
    vendor.set_log_level(Level::Error);
    match result {
        Ok(()) => Ok(Some(take_log().into_iter().map(|(_, line)| line + "\n").collect())),
        Err(e) => Err(e),
    }
}
