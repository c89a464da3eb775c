//! load -> write -> load gives the same graph, and the checker of the onnx package takes what is written.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use onnx_common::*;
use qnnc::ir::{Attr, Graph, Tensor, ValueId};
use qnnc::onnx::{DataFile, Model, encode, load, load_bytes, write};

fn name(g: &Graph, v: Option<ValueId>) -> Option<&str> {
    v.map(|v| g.value(v).name.as_str())
}

fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    (a.dtype(), a.shape(), a.bytes(), a.strings()) == (b.dtype(), b.shape(), b.bytes(), b.strings())
}

/// Panics where the graphs differ. Names of values in bodies may differ where one hid a value of a graph around it.
fn assert_same(a: &Graph, b: &Graph, place: &str) {
    let names = |g: &Graph, ids: &[ValueId]| ids.iter().map(|v| g.value(*v).name.clone()).collect::<Vec<_>>();
    assert_eq!(names(a, &a.inputs), names(b, &b.inputs), "inputs {place}");
    assert_eq!(names(a, &a.outputs), names(b, &b.outputs), "outputs {place}");
    assert_eq!(a.captured.len(), b.captured.len(), "captured {place}");
    let order = a.topological_order().unwrap();
    assert_eq!(order.len(), b.node_count(), "nodes {place}");
    let mut read = BTreeSet::new();
    for (id, (_, n)) in order.into_iter().zip(b.nodes()) {
        let m = a.node(id);
        let at = format!("{place} node {}", m.name);
        assert_eq!((&m.name, &m.domain, &m.op_type, m.version), (&n.name, &n.domain, &n.op_type, n.version), "{at}");
        let both = |x: &[Option<ValueId>], y: &[Option<ValueId>]| {
            let left: Vec<_> = x.iter().map(|v| name(a, *v).map(String::from)).collect();
            let right: Vec<_> = y.iter().map(|v| name(b, *v).map(String::from)).collect();
            assert_eq!(left, right, "{at}");
        };
        both(&m.inputs, &n.inputs);
        both(&m.outputs, &n.outputs);
        assert_eq!(names(a, &m.captures), names(b, &n.captures), "{at}");
        read.extend(m.reads());
        assert!(m.attrs.0.keys().eq(n.attrs.0.keys()), "attributes of {at}");
        for (key, value) in &m.attrs.0 {
            match (value, n.attrs.get(key).unwrap()) {
                (Attr::Graph(x), Attr::Graph(y)) => assert_same(x, y, &format!("{key} of {at}")),
                (Attr::Tensor(x), Attr::Tensor(y)) => assert!(same_tensor(x, y), "{key} of {at}"),
                (x, y) => assert_eq!(format!("{x:?}"), format!("{y:?}"), "{key} of {at}"),
            }
        }
    }
    read.extend(&a.outputs);
    for id in read {
        let v = a.value(id);
        if a.captured.contains(&id) {
            continue;
        }
        let w = b.value(b.value_named(&v.name).unwrap_or_else(|| panic!("value {} {place}", v.name)));
        assert_eq!(v.ty, w.ty, "type of {} {place}", v.name);
        match (&v.data, &w.data) {
            (Some(x), Some(y)) => assert!(same_tensor(x, y), "data of {} {place}", v.name),
            (x, y) => assert_eq!(x.is_some(), y.is_some(), "data of {} {place}", v.name),
        }
    }
}

fn again(m: &Model) -> Model {
    let bytes = encode(&m.graph, &m.header()).unwrap();
    load_bytes(&m.path, bytes.into()).unwrap()
}

/// A model whose parts are all of one opset, so that it can be written flat.
fn uniform() -> qnnc::onnx::proto::ModelProto {
    let mut m = rich();
    m.functions[0].opset_import[0].version = Some(21);
    m
}

/// A Python that has the onnx package: `$QNNC_PYTHON`, else `python3`.
fn python_with_onnx() -> Option<String> {
    let python = std::env::var("QNNC_PYTHON").unwrap_or_else(|_| "python3".into());
    let works = Command::new(&python).args(["-c", "import onnx"]).output().is_ok_and(|o| o.status.success());
    if !works {
        eprintln!("skipped: the onnx checker ({python} has no onnx package; set QNNC_PYTHON)");
    }
    works.then_some(python)
}

fn check(python: &str, paths: &[PathBuf]) {
    let script = "import sys, onnx\nfor p in sys.argv[1:]:\n  print(p, file=sys.stderr); onnx.checker.check_model(p)";
    let out = Command::new(python).args(["-c", script]).args(paths).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_rich_model_comes_back() {
    let m = read(&uniform()).unwrap();
    let back = again(&m);
    assert_same(&m.graph, &back.graph, "");
    assert_eq!(m.metadata, back.metadata);
    assert_eq!(m.opsets, back.opsets);
    assert_eq!(encode(&m.graph, &m.header()).unwrap(), encode(&back.graph, &back.header()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.onnx");
    write(&path, &m.graph, &m.header(), DataFile::Auto).unwrap();
    if let Some(python) = python_with_onnx() {
        check(&python, &[path]);
    }
}

#[test]
fn parts_of_different_opsets_are_not_mixed() {
    let m = read(&rich()).unwrap();
    let e = encode(&m.graph, &m.header()).unwrap_err().to_string();
    assert!(e.contains("17") && e.contains("21") && e.contains("call/LeakyRelu_0"), "{e}");
}

#[test]
fn weights_can_go_to_a_data_file() {
    let mut g = relu();
    g.node = vec![node("Add", &["x", "big"], &["h"]), node("Add", &["h", "small"], &["y"])];
    g.input = vec![value("x", &[1000])];
    let many: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    g.initializer = vec![floats("big", &[1000], &many), floats("small", &[1], &[1.0])];
    let m = read(&model(g)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.onnx");
    let files = write(&path, &m.graph, &m.header(), DataFile::Always).unwrap();
    assert_eq!(files, [path.clone(), dir.path().join("out.onnx.data")]);
    assert_eq!(std::fs::metadata(&files[1]).unwrap().len(), 4000);
    let back = load(&path).unwrap();
    assert_same(&m.graph, &back.graph, "");
    assert_eq!(back.data_files, files[1..]);
    if let Some(python) = python_with_onnx() {
        check(&python, &[path]);
    }
}

#[test]
fn a_value_that_nothing_makes_is_not_written() {
    let mut m = read(&model(relu())).unwrap();
    m.graph.inputs.clear();
    let e = encode(&m.graph, &m.header()).unwrap_err().to_string();
    assert!(e.contains("\"x\"") && e.contains("\"r\""), "{e}");
}

#[test]
fn every_model_at_hand_comes_back() {
    let python = python_with_onnx();
    let dir = tempfile::tempdir().unwrap();
    let mut written = vec![];
    for (i, path) in models_at_hand().into_iter().enumerate() {
        let m = load(&path).unwrap_or_else(|e| panic!("{e}"));
        let mixed = m.findings.iter().any(|f| f.code == "QNN916");
        if mixed {
            println!("skipped: {} mixes opsets", path.display());
            continue;
        }
        let out = dir.path().join(format!("{i}.onnx"));
        write(&out, &m.graph, &m.header(), DataFile::Auto).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let back = load(&out).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_same(&m.graph, &back.graph, &path.display().to_string());
        written.push(out);
    }
    if let Some(python) = &python {
        check(python, &written);
    }
}
