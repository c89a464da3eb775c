//! Files that are not there, not whole, or not what is wanted.

use std::fs;

use crate::kit::*;
use prost::Message;
use qnnc::ir::{DataType, Tensor};
use qnnc::onnx::proto::{ModelProto, StringStringEntryProto, TensorProto};

#[test]
fn a_model_that_is_compiled_already() {
    let mut net = Net::new(17);
    let attrs = [
        ("source", text("QNN")),
        ("embed_mode", int(0)),
        ("ep_cache_context", text("./missing.bin")),
        ("ep_sdk_version", text("2.30")),
        ("main_context", int(1)),
    ];
    net.input("x", &[1, 4]).op("com.microsoft::EPContext", &["x"], &["y"], &attrs).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    let says = run.refused();
    for what in ["compiled already", "EPContext", "QNN", "2.30", "./missing.bin", "missing"] {
        assert!(says.contains(what), "{what}: {says}");
    }
    assert!(!says.contains("no op"), "{says}");
}

/// A MatMul whose weight is in an external file with these entries.
fn external(entries: &[(&str, &str)]) -> Saved {
    let mut net = Net::new(13);
    net.input("x", &[1, 4]).constant("w", Tensor::splat(DataType::F32, vec![4, 4], vec![0, 0, 0, 0].into()));
    net.op("MatMul", &["x", "w"], &["y"], &[]).outputs(&["y"]);
    let saved = net.save();
    let mut model = ModelProto::decode(fs::read(&saved.path).unwrap().as_slice()).unwrap();
    let entry = |(k, v): &(&str, &str)| StringStringEntryProto { key: (*k).into(), value: (*v).into() };
    model.graph.as_mut().unwrap().initializer = vec![TensorProto {
        name: "w".into(),
        data_type: 1,
        dims: vec![4, 4],
        data_location: 1,
        external_data: entries.iter().map(entry).collect(),
        ..TensorProto::default()
    }];
    fs::write(&saved.path, model.encode_to_vec()).unwrap();
    saved
}

#[test]
fn missing_external_data() {
    let saved = external(&[("location", "gone.bin"), ("offset", "0"), ("length", "64")]);
    let Some(run) = saved.compile(&[]) else { return };
    let says = run.refused();
    assert!(says.contains("\"w\"") && says.contains("gone.bin") && says.contains("missing"), "{says}");
    assert!(!says.contains("opset") && !says.contains("version"), "{says}");
    // What needs no values goes on, and says what is missing.
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_qnnc")).arg("inspect").arg(&run.model).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("MatMul") && stderr.contains("gone.bin"), "{stdout}{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn paths_that_leave_the_folder() {
    for location in ["../gone.bin", "a/../../gone.bin", "/etc/hostname", "..", "sub/../../x"] {
        let saved = external(&[("location", location), ("length", "64")]);
        let Some(run) = saved.compile(&[]) else { return };
        let says = run.refused();
        assert!(says.contains(location) && says.contains("inside the model's folder"), "{says}");
    }
}

#[test]
fn a_link_that_leaves_the_folder() {
    let saved = external(&[("location", "w.bin"), ("length", "64")]);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("w.bin"), [0; 64]).unwrap();
    std::os::unix::fs::symlink(outside.path().join("w.bin"), saved.dir.path().join("w.bin")).unwrap();
    // A link that the user made is the user's business: model stores are made of links.
    let Some(run) = saved.compile(&[]) else { return };
    run.on_npu();
}

#[test]
fn a_data_file_that_is_too_short_or_lengths_that_do_not_fit() {
    for (entries, size, says) in [
        (&[("location", "w.bin"), ("offset", "0"), ("length", "64")][..], 60, "60 bytes"),
        (&[("location", "w.bin"), ("offset", "8"), ("length", "64")], 64, "offset 8"),
        (&[("location", "w.bin"), ("offset", "0"), ("length", "60")], 64, "60 bytes"),
        (&[("location", "w.bin"), ("offset", "18446744073709551615"), ("length", "64")], 64, "18446744073709551615"),
        (&[("location", "w.bin"), ("offset", "-4"), ("length", "64")], 64, "-4"),
    ] {
        let saved = external(entries);
        fs::write(saved.dir.path().join("w.bin"), vec![0; size]).unwrap();
        let Some(run) = saved.compile(&[]) else { return };
        let error = run.refused();
        assert!(error.contains(says) && error.contains("\"w\"") && error.contains("w.bin"), "{error}");
    }
}
