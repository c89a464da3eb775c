//! `qnnc inspect`, `qnnc verify` and the bundle on a full disk, with the vendor's real libraries and ONNX Runtime.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use qnnc::sdk::ort::find_ort;

fn qnnc(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qnnc")).args(arguments).output().expect("qnnc starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name).to_string_lossy().into_owned()
}

fn has_runtime() -> bool {
    let found = qnnc::sdk::find(None);
    if let Err(e) = &found {
        println!("skipped: {e}");
    }
    found.is_ok()
}

/// A bundle of `integers.onnx`, which is wholly on the NPU.
fn bundle(dir: &Path) -> PathBuf {
    let out = dir.join("out");
    let o = qnnc(&["compile", &fixture("integers.onnx"), "--soc", "sm8650", "-o", &out.to_string_lossy(), "-q"]);
    assert!(o.status.success(), "{}", text(&o.stderr));
    out
}

#[test]
fn inspect_reads_what_compile_wrote() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = bundle(dir.path());
    let file = |name: &str| out.join(name).to_string_lossy().into_owned();

    let o = qnnc(&["inspect", &file("integers.ctx.onnx")]);
    let said = text(&o.stdout);
    assert!(o.status.success(), "{}", text(&o.stderr));
    assert!(said.contains("EPContext node integers") && said.contains("graph integers"), "{said}");
    assert!(said.contains("nothing is left to the CPU"), "{said}");

    let o = qnnc(&["inspect", "--format", "json", &file("integers.bin")]);
    let json: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&json["kind"], &json["soc_id"], &json["arch"]), (&"binary".into(), &57.into(), &75.into()));
    assert_eq!(json["graphs"][0]["name"], "integers");

    std::fs::rename(out.join("integers.bin"), out.join("other.bin")).unwrap();
    let o = qnnc(&["inspect", &file("integers.ctx.onnx")]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stdout).contains("EPContext node integers"));
    assert!(text(&o.stderr).contains("\"integers.bin\", which is missing"), "{}", text(&o.stderr));

    std::fs::write(out.join("integers.bin"), vec![7; 4096]).unwrap();
    let o = qnnc(&["inspect", &file("integers.bin")]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).contains("is not a context binary"), "{}", text(&o.stderr));
}

#[test]
fn a_compiled_model_is_not_compiled_again() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let model = bundle(dir.path()).join("integers.ctx.onnx").to_string_lossy().into_owned();
    let again = dir.path().join("again");
    let o = qnnc(&["compile", &model, "--soc", "sm8650", "-o", &again.to_string_lossy()]);
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).contains("is compiled already"), "{}", text(&o.stderr));
    assert!(!again.exists());
}

#[test]
fn verify_compares_with_onnx_runtime() {
    if !has_runtime() {
        return;
    }
    if let Err(e) = find_ort(None) {
        println!("skipped: {e}");
        return;
    }
    let model = fixture("integers.onnx");
    let o = qnnc(&["verify", &model, "--soc", "sm8650"]);
    assert!(o.status.success(), "{}{}", text(&o.stdout), text(&o.stderr));
    assert!(text(&o.stdout).contains("every output has a cosine of at least 0.999"), "{}", text(&o.stdout));

    let o = qnnc(&["verify", &fixture("cnn.onnx"), "--soc", "sm8650", "--backends", "cpu", "--cosine", "0.9999999"]);
    assert!(o.status.success(), "{}{}", text(&o.stdout), text(&o.stderr));
    assert!(text(&o.stdout).contains("QNN CPU against ONNX Runtime"), "{}", text(&o.stdout));

    let o = qnnc(&["verify", &model, "--soc", "sm8650", "--ort", "/nonexistent.so"]);
    assert_eq!(o.status.code(), Some(3));
    assert!(text(&o.stderr).contains("/nonexistent.so"), "{}", text(&o.stderr));
}

#[test]
fn a_full_disk_leaves_nothing_and_is_named() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    // The limit holds for the worker too; the binary alone is larger than it.
    let o = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$0\" compile \"$1\" --soc sm8650 -q -o \"$2\""])
        .args([env!("CARGO_BIN_EXE_qnnc"), &fixture("integers.onnx")])
        .arg(&out)
        .output()
        .unwrap();
    let said = text(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{said}");
    assert!(said.contains("out/integers.bin: file too large"), "{said}");
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}
