//! Encodings from a file for a float model.

use crate::kit::*;

fn net() -> Net {
    let mut net = Net::new(17);
    let w: Vec<f32> = (0..64 * 48).map(|i| (i * 37 % 255) as f32 / 127.0 - 1.0).collect();
    net.input("x", &[4, 64]).floats("w", &[64, 48], &w);
    net.op("MatMul", &["x", "w"], &["m"], &[]).op("Relu", &["m"], &["y"], &[]).outputs(&["y"]);
    net
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_float_model_runs_on_integers() {
    let encodings = file(
        r#"{"version": "0.6.1", "activation_encodings": {
            "x": [{"bitwidth": 8, "dtype": "int", "scale": 0.01, "offset": -128}],
            "y": [{"bitwidth": 8, "dtype": "int", "scale": 0.05, "offset": 0}]},
          "param_encodings": {"w": [{"bitwidth": 8, "dtype": "int", "scale": 0.00787, "offset": -128}]}}"#,
    );
    let Some(run) = net().compile(&["--encodings", &encodings.path().to_string_lossy()]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.report["totals"]["host"], 0);
    let told = run.report["findings"].as_array().unwrap().iter().any(|f| f["code"] == "QNN402");
    assert!(!told, "every encoding is used: {}", run.report["findings"]);
    // Half a step of the result, and what the rounding of both operands comes to in a sum of 64.
    run.agrees(&[feed("x", &[4, 64], &noise(256))], 0.2);
}

#[test]
fn a_name_that_is_not_there_is_told() {
    let encodings = file(r#"{"activation_encodings": {"z": [{"bitwidth": 8, "scale": 0.1, "offset": 0}]}}"#);
    let Some(run) = net().compile(&["--encodings", &encodings.path().to_string_lossy()]) else { return };
    let findings = run.report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f["code"] == "QNN402" && f["message"].as_str().unwrap().contains("\"z\"")));
}

#[test]
fn a_file_that_is_wrong_is_the_users_error() {
    for (text, want) in [
        ("{", "is no JSON"),
        ("{}", "neither activation_encodings nor param_encodings"),
        (r#"{"activation_encodings": {"x": [{"bitwidth": 8, "scale": -1.0, "offset": 0}]}}"#, "the scale is -1"),
    ] {
        let encodings = file(text);
        let Some(run) = net().compile(&["--encodings", &encodings.path().to_string_lossy()]) else { return };
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(want), "{}", run.stderr);
    }
    let Some(run) = net().compile(&["--encodings", "no-such-file.json"]) else { return };
    assert_eq!(run.code, 2, "{}", run.stderr);
}
