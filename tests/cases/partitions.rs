//! A node that splits the model: what the report says about it, and what is written.

use std::fs;

use crate::kit::*;
use qnnc::ir::DataType;
use serde_json::json;

fn entries(run: &Run) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(&run.out)
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Relu, an op nobody knows, Relu. Nothing says what type the op gives, unless `declared`.
fn split(declared: bool) -> Net {
    let mut net = Net::new(13);
    net.input("x", &[1, 4]);
    if declared {
        net.graph.add_typed("b", qnnc::ir::TensorType::new(DataType::F32, vec![1usize.into(), 4usize.into()]));
    }
    net.graph.add_typed("y", qnnc::ir::TensorType::new(DataType::F32, vec![1usize.into(), 4usize.into()]));
    net.op("Relu", &["x"], &["a"], &[]).op("acme::Unfoldify", &["a"], &["b"], &[]).op("Relu", &["b"], &["y"], &[]);
    net.outputs(&["y"]);
    net
}

#[test]
fn one_bad_node_makes_two_partitions() {
    for declared in [true, false] {
        let Some(run) = split(declared).compile(&[]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        let t = &run.report["totals"];
        assert_eq!((t["htp"].as_u64(), t["host"].as_u64(), t["partitions"].as_u64()), (Some(2), Some(1), Some(2)));
        assert_eq!(run.backend("b"), "host");
        assert!(run.reasons("b").contains("acme"), "{}", run.reasons("b"));
        let fix = &run.report["fixes"][0];
        assert_eq!(fix["nodes"], json!(["n_b"]));
        // a goes out of the first partition and b into the second: 4 numbers of float32 each.
        let now = json!({"partitions": 2, "host_nodes": 1, "boundary_tensors": 2, "boundary_bytes": 32});
        let then = json!({"partitions": 1, "host_nodes": 0, "boundary_tensors": 0, "boundary_bytes": 0});
        assert_eq!((&fix["now"], &fix["then"]), (&now, &then));
        assert!(run.stdout.contains("2 partitions into 1"), "{}", run.stdout);
        let markdown = fs::read_to_string(run.out.join("placement.md")).unwrap();
        assert!(markdown.contains("2 partitions into 1") && markdown.contains("n_b"), "{markdown}");
    }
}

#[test]
fn the_bundle_holds_both_contexts() {
    let Some(run) = split(true).compile(&[]) else { return };
    let model = qnnc::onnx::load(&run.out.join("case.ctx.onnx")).unwrap();
    let ops: Vec<&str> = model.graph.nodes().map(|(_, n)| n.op_type.as_str()).collect();
    assert_eq!(ops, ["EPContext", "Unfoldify", "EPContext"]);
    let names: Vec<&str> =
        model.graph.nodes().filter(|(_, n)| n.op_type == "EPContext").map(|(_, n)| &*n.name).collect();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_qnnc"))
        .args(["inspect", "--format", "json"])
        .arg(run.out.join("case.bin"))
        .output()
        .unwrap();
    let inside: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let graphs: Vec<&str> = inside["graphs"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(names, graphs);
}

#[test]
fn the_gate_writes_no_context_at_all() {
    for backends in ["htp", "htp,gpu", "htp,cpu,gpu"] {
        let Some(run) = split(true).compile(&["--max-cpu-nodes", "0", "--backends", backends]) else { return };
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert_eq!(run.report["gate"]["passed"], json!(false));
        assert_eq!(entries(&run), ["placement.json", "placement.md"]);
        assert_eq!(run.report["fixes"][0]["nodes"], json!(["n_b"]));
        let Some(run) = split(true).compile(&["--max-cpu-nodes", "1", "--backends", backends]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.report["gate"]["passed"], json!(true));
    }
}

#[test]
fn fixes_are_ranked_by_what_they_merge() {
    // Two ops of one kind cut the chain twice; another one at its end cuts nothing.
    let mut net = Net::new(13);
    net.input("x", &[1, 4]);
    for name in ["b", "d"] {
        net.graph.add_typed(name, qnnc::ir::TensorType::new(DataType::F32, vec![1usize.into(), 4usize.into()]));
    }
    net.op("Relu", &["x"], &["a"], &[]).op("acme::Odd", &["a"], &["b"], &[]);
    net.op("Relu", &["b"], &["c"], &[]).op("acme::Odd", &["c"], &["d"], &[]).op("Relu", &["d"], &["e"], &[]);
    net.op("acme::End", &["e"], &["end"], &[]).outputs(&["end"]);
    let Some(run) = net.compile(&[]) else { return };
    let fixes = run.report["fixes"].as_array().unwrap();
    assert_eq!(fixes[0]["nodes"], json!(["n_b", "n_d"]));
    let partitions = |f: &serde_json::Value| (f["now"]["partitions"].as_u64(), f["then"]["partitions"].as_u64());
    assert_eq!(partitions(&fixes[0]), (Some(3), Some(1)));
    assert!(fixes[1..].iter().any(|f| f["nodes"] == json!(["n_b"]) && partitions(f) == (Some(3), Some(2))));
    assert!(fixes.iter().all(|f| f["nodes"] != json!(["n_end"]) || partitions(f) == (Some(3), Some(3))));
}

#[test]
fn nodes_behind_an_unknown_type_come_with_their_cause() {
    // Nothing says what shape the odd op gives, so Relu and Add cannot be judged: they are consequences.
    let mut net = Net::new(13);
    net.input("x", &[1, 4]).op("Relu", &["x"], &["a"], &[]).op("acme::Odd", &["a"], &["b"], &[]);
    net.op("Relu", &["b"], &["c"], &[]).op("Add", &["c", "c"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    assert_eq!(run.report["totals"]["host"].as_u64(), Some(3), "{}", run.stdout);
    let fix = &run.report["fixes"][0];
    assert_eq!(fix["nodes"], json!(["n_b"]));
    assert_eq!(fix["then"]["host_nodes"], json!(0));
}
