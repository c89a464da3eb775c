//! Shape arithmetic that vanishes, and dimensions that depend on each other.

use crate::kit::*;

#[test]
fn shape_arithmetic_is_one_reshape() {
    let mut net = Net::new(13);
    net.input("x", &[1, 8, 32]).ints("zero", &[0]).ints("m1", &[-1]).ints("four", &[4]).ints("eight", &[8]);
    net.constant("first", qnnc::ir::Tensor::from_i64(vec![], &[0]));
    net.op("Shape", &["x"], &["s"], &[]).op("Gather", &["s", "first"], &["n"], &[("axis", int(0))]);
    net.op("Unsqueeze", &["n", "zero"], &["n1"], &[]);
    net.op("Concat", &["n1", "m1", "four", "eight"], &["t"], &[("axis", int(0))]);
    net.op("Reshape", &["x", "t"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&["--max-cpu-nodes", "0"]) else { return };
    run.on_npu();
    let t = &run.report["totals"];
    assert_eq!((t["htp"].as_u64(), t["folded"].as_u64(), t["host"].as_u64()), (Some(1), Some(4), Some(0)));
    let x = noise(256);
    run.gives(&[feed("x", &[1, 8, 32], &x)], &x.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), 2e-3);
    assert_eq!(run.report["io"][1]["shape"], serde_json::json!(["1", "8", "4", "8"]));
}

/// Attention over a cache: keys and values are `past` and `cur` together, and the mask covers `total`.
fn cached() -> Net {
    let mut net = Net::new(13);
    net.open("q", "batch 2 seq 8").open("cur", "batch 2 seq 8").open("past", "batch 2 past 8");
    net.open("mask", "batch 1 seq total");
    net.op("Concat", &["past", "cur"], &["kv"], &[("axis", int(2))]);
    net.op("Transpose", &["kv"], &["kt"], &[("perm", ints(&[0, 1, 3, 2]))]);
    net.op("MatMul", &["q", "kt"], &["s"], &[]).op("Add", &["s", "mask"], &["m"], &[]);
    net.op("Softmax", &["m"], &["p"], &[("axis", int(-1))]).op("MatMul", &["p", "kv"], &["y"], &[]).outputs(&["y"]);
    net
}

#[test]
fn every_open_dimension_is_named_at_once() {
    let Some(run) = cached().compile(&[]) else { return };
    run.refused();
    for name in ["batch", "seq", "past", "total"] {
        assert!(run.stderr.contains(name), "{name}: {}", run.stderr);
    }
    assert!(run.stderr.contains("total = past + seq"), "{}", run.stderr);
    let Some(run) = cached().compile(&["--dim", "batch=1"]) else { return };
    run.refused();
    assert!(run.stderr.contains("--dim seq=N --dim past=N"), "{}", run.stderr);
}

#[test]
fn total_follows_from_past_and_seq() {
    for seq in ["128", "256", "512", "1024"] {
        let total = (64 + seq.parse::<i64>().unwrap()).to_string();
        let dim = format!("seq={seq}");
        let Some(run) = cached().compile(&["--dim", "batch=1", "--dim", "past=64", "--dim", &dim]) else { return };
        run.on_npu();
        assert_eq!(run.report["io"][3]["shape"], serde_json::json!(["1", "1", seq, total]));
        assert!(run.notes().contains(&format!("total = past + seq = {total}")), "{}", run.notes());
    }
}

#[test]
fn any_of_the_three_follows_from_the_others() {
    let fixed = ["--dim", "batch=1", "--dim", "total=12", "--dim", "seq=4"];
    let Some(run) = cached().compile(&fixed) else { return };
    run.on_npu();
    assert_eq!(run.report["io"][2]["shape"], serde_json::json!(["1", "2", "8", "8"]));
    let (q, cur, past) = (noise(64), noise(96)[32..].to_vec(), noise(160)[32..].to_vec());
    let feeds = [
        feed("q", &[1, 2, 4, 8], &q),
        feed("cur", &[1, 2, 4, 8], &cur),
        feed("past", &[1, 2, 8, 8], &past),
        feed("mask", &[1, 1, 4, 12], &[0.0; 48]),
    ];
    run.agrees(&feeds, 4e-3);
}

#[test]
fn a_total_that_does_not_fit_names_both_numbers() {
    let fixed = ["--dim", "batch=1", "--dim", "past=64", "--dim", "seq=128"];
    for (extra, fits) in [("total=192", true), ("total=200", false), ("total=1", true)] {
        let arguments: Vec<&str> = fixed.iter().copied().chain(["--dim", extra]).collect();
        let Some(run) = cached().compile(&arguments) else { return };
        if fits {
            run.on_npu();
        } else {
            let says = run.refused();
            assert!(says.contains("200") && says.contains("192") && says.contains("total"), "{says}");
        }
    }
    let arguments: Vec<&str> = fixed.iter().copied().chain(["--input-shape", "mask:1,1,128,200"]).collect();
    let Some(run) = cached().compile(&arguments) else { return };
    assert!(run.refused().contains("200") && run.stderr.contains("192"), "{}", run.stderr);
}

#[test]
fn dimensions_are_positive() {
    for value in ["0", "-1", "x", "9223372036854775808"] {
        let dim = format!("seq={value}");
        let Some(run) = cached().compile(&["--dim", "batch=1", "--dim", "past=64", "--dim", &dim]) else { return };
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(value), "{}", run.stderr);
    }
    // total = past + seq would make past negative, or nothing.
    for seq in ["20", "12"] {
        let seq = format!("seq={seq}");
        let Some(run) = cached().compile(&["--dim", "batch=1", "--dim", "total=12", "--dim", &seq]) else { return };
        assert!(run.refused().contains("past"), "{}", run.stderr);
    }
}

#[test]
fn related_by_a_matrix_product_or_a_second_name() {
    let mut net = Net::new(13);
    net.open("a", "n k").open("b", "depth 8").open("c", "rows 8");
    net.op("MatMul", &["a", "b"], &["p"], &[]).op("Add", &["p", "c"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&["--dim", "n=4", "--dim", "k=6"]) else { return };
    run.on_npu();
    assert_eq!(run.report["io"][1]["shape"], serde_json::json!(["6", "8"]));
    assert_eq!(run.report["io"][2]["shape"], serde_json::json!(["4", "8"]));
    let Some(run) = net.compile(&["--dim", "n=4", "--dim", "k=6", "--dim", "depth=5"]) else { return };
    assert!(run.refused().contains('6') && run.stderr.contains('5'), "{}", run.stderr);
}
