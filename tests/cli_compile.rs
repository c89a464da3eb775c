//! `qnnc compile` from outside: exit codes, one-line messages, the files that appear. What needs the vendor's runtime is
//! skipped without it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn compile(model: impl AsRef<Path>, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qnnc"));
    command.arg("compile").arg(model.as_ref()).arg("-o").arg(out).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

#[track_caller]
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("qnnc starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// Exit code and message: nothing on stdout, `error:` and perhaps `help:` on stderr, each one line.
#[track_caller]
fn fails(command: &mut Command) -> (i32, String) {
    let (code, stdout, stderr) = run(command);
    assert_eq!(stdout, "", "{stderr}");
    let lines: Vec<&str> = stderr.lines().filter(|l| !l.starts_with("note: ")).collect();
    assert!(lines.len() <= 2 && lines.first().is_some_and(|l| l.starts_with("error: ")), "{stderr}");
    assert!(lines.get(1).is_none_or(|l| l.starts_with("help: ")), "{stderr}");
    (code, stderr)
}

fn has_runtime() -> bool {
    let found = qnnc::sdk::find(None).is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: no runtime (qnnc sdk install --accept-license)");
    }
    found
}

fn entries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn wrong_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let wrong: [&[&str]; 9] = [
        &[],
        &["--soc"],
        &["--soc", "sm8650", "--backends", "dsp"],
        &["--soc", "sm8650", "--dim", "batch"],
        &["--soc", "sm8650", "--dim", "batch=-1"],
        &["--soc", "sm8650", "--input-shape", "x:1,a"],
        &["--soc", "sm8650", "--max-cpu-nodes", "-1"],
        &["--soc", "sm8650", "--backend-timeout", "0"],
        &["--soc", "sm8650", "--format", "yaml"],
    ];
    for arguments in wrong {
        let (code, stdout, stderr) = run(compile(fixture("cnn.onnx"), dir.path()).args(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
    }
    assert_eq!(entries(dir.path()), [""; 0]);
}

#[test]
fn an_unknown_chip_gets_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let (code, message) = fails(compile(fixture("cnn.onnx"), dir.path()).args(["--soc", "sm8660"]));
    assert_eq!(code, 2);
    assert!(message.contains("unknown SoC \"sm8660\"") && message.contains("sm8650"), "{message}");
}

#[test]
fn a_missing_model_is_named_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    for extra in [&[][..], &["--install-sdk"], &["--install-sdk", "--accept-license"]] {
        let mut command = compile("/nonexistent/model.onnx", &dir.path().join("out"));
        command
            .args(["--soc", "sm8650"])
            .args(extra)
            .env("QNNC_CACHE", dir.path().join("cache"))
            .env_remove("QNN_SDK_ROOT");
        let (code, message) = fails(&mut command);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains("/nonexistent/model.onnx"), "{message}");
    }
    assert!(!dir.path().join("cache").exists());
}

#[test]
fn without_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let bare = || {
        let mut command = compile(fixture("cnn.onnx"), &dir.path().join("out"));
        command.args(["--soc", "sm8650"]).env("QNNC_CACHE", dir.path().join("cache")).env_remove("QNN_SDK_ROOT");
        command
    };
    let (code, message) = fails(&mut bare());
    assert_eq!(code, 3);
    assert!(message.contains("the QAIRT 2.47 runtime is not installed"), "{message}");
    assert!(message.contains("qnnc sdk install --version 2.47 --accept-license"), "{message}");
    let (code, message) = fails(bare().arg("--install-sdk"));
    assert_eq!(code, 2);
    assert!(message.contains("licence") && message.contains("--accept-license"), "{message}");
    let (code, message) = fails(bare().args(["--sdk", "nonsense"]));
    assert_eq!(code, 2);
    assert!(message.contains("\"nonsense\" is not a version"), "{message}");
    assert_eq!(entries(&dir.path().join("out")), [""; 0]);
}

#[test]
fn broken_models_are_the_users() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let models = fs::read_dir(fixture("broken")).unwrap().flatten().map(|e| e.path());
    let mut count = 0;
    for model in models.filter(|m| !m.ends_with("future_opset.onnx")) {
        let out = dir.path().join("out");
        let (code, message) = fails(compile(&model, &out).args(["--soc", "sm8650"]));
        assert_eq!(code, 2, "{}: {message}", model.display());
        assert!(!message.contains("panicked"), "{message}");
        assert_eq!(entries(&out), [""; 0], "{}", model.display());
        count += 1;
    }
    assert!(count >= 15);
}

#[test]
fn open_dimensions_are_named() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (code, message) = fails(compile(fixture("dynamic.onnx"), dir.path()).args(["--soc", "sm8650"]));
    assert_eq!(code, 2);
    assert!(message.contains("--dim batch=N --dim height=N --dim width=N"), "{message}");
    let (code, message) =
        fails(compile(fixture("dynamic.onnx"), dir.path()).args(["--soc", "sm8650", "--dim", "bach=1"]));
    assert_eq!(code, 2);
    assert!(message.contains("bach") && message.contains("batch"), "{message}");
}

#[test]
fn a_bundle_appears() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (model, extra) in [
        ("cnn", &[][..]),
        ("external", &[]),
        ("integers", &[]),
        ("conditional", &[]),
        ("transformer", &["--dim", "batch=1"]),
        ("dynamic", &["--input-shape", "x:1,3,8,8"]),
    ] {
        let out = dir.path().join(model);
        let mut command = compile(fixture(&format!("{model}.onnx")), &out);
        command.args(["--soc", "Snapdragon 8 Gen 3", "--format", "json"]).args(extra);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{model}: {stderr}");
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(report["target"]["arch"], 75);
        let saved: serde_json::Value =
            serde_json::from_slice(&fs::read(out.join("placement.json")).unwrap()).expect("JSON");
        assert_eq!(report, saved);
        let names = entries(&out);
        let context = format!("{model}.ctx.onnx");
        for name in [context.as_str(), "placement.json", "placement.md", "manifest.json"] {
            assert!(names.iter().any(|n| n == name), "{model}: {name} is not in {names:?}");
        }
    }
}

#[test]
fn quiet_prints_nothing() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let printed = run(compile(fixture("cnn.onnx"), dir.path()).args(["--soc", "sm8650", "-q"]));
    assert_eq!(printed, (0, String::new(), String::new()));
}

#[test]
fn the_gate_keeps_the_binary_back() {
    if !has_runtime() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let gated = ["--soc", "sm8650", "--max-cpu-nodes", "0"];
    let (code, stdout, stderr) = run(compile(fixture("custom_op.onnx"), dir.path()).args(gated));
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("Mystery"), "{stdout}");
    assert_eq!(entries(dir.path()), ["placement.json", "placement.md"]);
}
