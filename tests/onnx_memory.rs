//! Loading does not touch the weights: a model of 1 GiB costs a few pages and milliseconds.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

use std::io::Write;
use std::time::Instant;

use onnx_common::{model, node, relu, value};
use prost::Message;
use prost::encoding::encode_varint;

/// A field of the wire format: tag, length, and the bytes so far. The rest of `len` is left for the file's end.
fn open_field(tag: u8, content: &[u8], rest: usize) -> Vec<u8> {
    let mut out = vec![tag];
    encode_varint((content.len() + rest) as u64, &mut out);
    out.extend_from_slice(content);
    out
}

/// A line of `/proc/self/status`, in KiB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_gigabyte_of_weights_is_not_read() {
    let weights = 1usize << 30;
    // The initializer comes last, its data at the very end: the file is extended by a hole.
    let mut graph = relu();
    graph.node = vec![node("Add", &["x", "w"], &["y"])];
    graph.input = vec![value("x", &[1 << 28])];
    let tensor = onnx_common::floats("w", &[1 << 28], &[]);
    let mut bytes = onnx_common::with_raw(tensor, None).encode_to_vec();
    bytes.extend(open_field(0x4a, &[], weights));
    let mut graph_bytes = graph.encode_to_vec();
    graph_bytes.extend(open_field(0x2a, &bytes, weights));
    let mut whole = model(relu());
    whole.graph = None;
    let mut file_bytes = whole.encode_to_vec();
    file_bytes.extend(open_field(0x3a, &graph_bytes, weights));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.onnx");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&file_bytes).unwrap();
    file.set_len((file_bytes.len() + weights) as u64).unwrap();

    let (resident, start) = (status("VmRSS"), Instant::now());
    let m = qnnc::onnx::load(&path).unwrap();
    let took = start.elapsed();
    let grown = status("VmRSS").saturating_sub(resident);
    println!("1 GiB: {grown} KiB more in memory, {:.1} ms", took.as_secs_f64() * 1e3);
    let w = m.graph.value_named("w").unwrap();
    assert_eq!(m.graph.value(w).data.as_ref().unwrap().byte_len(), weights);
    assert!(grown < 16 << 10, "{grown} KiB more in memory");
}
