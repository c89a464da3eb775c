//! `qnnc verify` and `qnnc inspect` from outside. What needs the runtime or ONNX Runtime is skipped without them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn qnnc(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qnnc"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

#[track_caller]
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("qnnc starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// Is everything here that verifying needs? Says so if not.
fn can_verify() -> bool {
    let missing = match (qnnc::sdk::find(None), qnnc::sdk::ort::find_ort(None)) {
        (Err(_), _) => "no runtime (qnnc sdk install --accept-license)",
        (_, Err(_)) => "no ONNX Runtime (pip install onnxruntime==1.27.0)",
        _ => return true,
    };
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    false
}

#[test]
fn wrong_arguments() {
    for arguments in [
        &["verify"][..],
        &["verify", "m.onnx", "--soc", "sm8650", "--cosine", "2"],
        &["verify", "m.onnx", "--soc", "sm8650", "--seed", "x"],
        &["verify", "m.onnx", "--soc", "sm8650", "--seed", "1", "--inputs", "x.npz"],
        &["inspect"],
        &["inspect", "m.onnx", "--format", "xml"],
    ] {
        let (code, stdout, stderr) = run(&mut qnnc(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
    }
}

#[test]
fn without_onnx_runtime() {
    let model = fixture("cnn.onnx");
    let (code, stdout, stderr) =
        run(qnnc(&["verify", "--soc", "sm8650", "--ort", "/nonexistent/libonnxruntime.so"]).arg(model));
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
    assert!(stderr.contains("--ort: there is no ONNX Runtime library at /nonexistent/libonnxruntime.so"), "{stderr}");
    assert!(stderr.contains("\nhelp: pip install onnxruntime"), "{stderr}");
}

#[test]
fn a_model_agrees_with_onnx_runtime() {
    if !can_verify() {
        return;
    }
    for (model, extra) in
        [("cnn", &[][..]), ("transformer", &["--dim", "batch=1"]), ("reshaped_sum", &[]), ("recurrent", &[])]
    {
        let mut command = qnnc(&["verify", "--soc", "sm8650", "--format", "json"]);
        let (code, stdout, stderr) = run(command.args(extra).arg(fixture(&format!("{model}.onnx"))));
        assert_eq!(code, 0, "{model}: {stderr}{stdout}");
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(report["passed"], true, "{model}: {stdout}");
    }
}

#[test]
fn a_model_that_is_not_wholly_on_the_npu() {
    if !can_verify() {
        return;
    }
    let (code, stdout, stderr) = run(qnnc(&["verify", "--soc", "sm8650"]).arg(fixture("custom_op.onnx")));
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
}

#[test]
fn inspect_says_what_is_in_a_model() {
    let (code, stdout, stderr) = run(qnnc(&["inspect"]).arg(fixture("transformer.onnx")));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["ONNX model", "tokens", "float32[batch, 12, 32]", "LayerNormalization"] {
        assert!(stdout.contains(part), "{part} is not in\n{stdout}");
    }
    let (code, stdout, _) = run(qnnc(&["inspect", "--format", "json"]).arg(fixture("qdq_cnn.onnx")));
    let value: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &value["kind"]), (0, &serde_json::json!("model")));
}

#[test]
fn inspect_refuses_what_is_no_model() {
    for name in [
        "broken/text.onnx",
        "broken/empty.onnx",
        "broken/lfs_pointer.onnx",
        "broken/truncated.onnx",
        "missing.onnx",
        "",
    ] {
        let (code, stdout, stderr) = run(qnnc(&["inspect"]).arg(fixture(name)));
        assert_eq!((code, stdout.as_str()), (2, ""), "{name}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.lines().count() <= 2, "{name}: {stderr}");
    }
}

#[test]
fn inspect_reads_what_compile_wrote() {
    if qnnc::sdk::find(None).is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: no runtime (qnnc sdk install --accept-license)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (code, _, stderr) =
        run(qnnc(&["compile", "--soc", "sm8650", "-o"]).arg(dir.path()).arg(fixture("custom_op.onnx")));
    assert_eq!(code, 0, "{stderr}");
    let (code, stdout, stderr) = run(qnnc(&["inspect"]).arg(dir.path().join("custom_op.ctx.onnx")));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("EPContext") && stdout.contains("Mystery"), "{stdout}");
    let (code, stdout, stderr) = run(qnnc(&["inspect"]).arg(dir.path().join("custom_op.bin")));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("arch v75"), "{stdout}");
}
