//! Rank 6: rearrangements that need no tensor of that rank, elementwise ops that collapse, and what is refused.

use crate::kit::*;
use serde_json::Value as Json;

/// The largest rank of a tensor of the partitions' edges, and of every dims list in the report.
fn ranks(report: &Json) -> usize {
    let edges = report["partitions"].as_array().into_iter().flatten();
    let tensors = edges.flat_map(|p| ["inputs", "outputs"].into_iter().flat_map(|k| p[k].as_array().unwrap()));
    tensors.map(|t| t["dims"].as_array().unwrap().len()).max().unwrap_or(0)
}

#[test]
fn depth_to_space_spelt_with_rank_6() {
    let mut net = Net::new(13);
    net.input("x", &[1, 16, 3, 3]).ints("s", &[1, 2, 2, 4, 3, 3]).ints("t", &[1, 4, 6, 6]);
    net.op("Reshape", &["x", "s"], &["a"], &[]);
    net.op("Transpose", &["a"], &["b"], &[("perm", ints(&[0, 3, 4, 1, 5, 2]))]);
    net.op("Reshape", &["b", "t"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    let x: Vec<f32> = (0..144).map(|i| i as f32).collect();
    run.on_npu();
    assert!(ranks(&run.report) <= 5);
    let mut expected = vec![0.0; 144];
    for (c, h, w, i, j) in (0..144).map(|n| (n / 36, n / 12 % 3, n / 4 % 3, n / 2 % 2, n % 2)) {
        expected[c * 36 + (h * 2 + i) * 6 + w * 2 + j] = f64::from(x[(i * 2 + j) * 36 + c * 9 + h * 3 + w]);
    }
    run.gives(&[feed("x", &[1, 16, 3, 3], &x)], &expected, 0.0);
}

#[test]
fn at_the_edge_rank_6_is_refused_and_the_rest_compiles() {
    let mut net = Net::new(13);
    net.input("a", &[1, 2, 3, 2, 3, 4]).input("b", &[1, 2, 3, 2, 3, 4]).input("c", &[1, 4]);
    net.op("Add", &["a", "b"], &["y"], &[]).op("Relu", &["c"], &["z"], &[]).outputs(&["y", "z"]);
    let Some(run) = net.compile(&[]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.backend("z"), "htp");
    if run.backend("y") == "host" {
        assert!(run.reasons("y").starts_with("QNN105") && run.reasons("y").contains('6'), "{}", run.reasons("y"));
        let reason = &run.node("y")["reasons"][0];
        assert!(reason["required"].is_string() && reason["found"].is_string(), "{reason}");
    }
}

/// Reshape to rank 6, what `ops` puts there, Reshape back; `b` is a second input that is reshaped to `b6`.
fn inside(b6: &[i64], ops: impl Fn(&mut Net)) -> Option<Run> {
    let mut net = Net::new(13);
    let b_len = b6.iter().product::<i64>() as usize;
    net.input("x", &[2, 72]).input("b", &[b_len]);
    net.ints("s", &[1, 2, 3, 2, 3, 4]).ints("sb", b6).ints("t", &[2, 72]);
    net.op("Reshape", &["x", "s"], &["x6"], &[]).op("Reshape", &["b", "sb"], &["b6"], &[]);
    ops(&mut net);
    net.op("Reshape", &["y6", "t"], &["y"], &[]).outputs(&["y"]);
    let run = net.compile(&[])?;
    run.agrees(&[feed("x", &[2, 72], &noise(144)), feed("b", &[b_len], &noise(b_len + 3)[3..])], 3e-3);
    Some(run)
}

#[test]
fn elementwise_ops_of_rank_6_collapse() {
    inside(&[1, 2, 3, 2, 3, 4], |n| {
        n.op("Add", &["x6", "b6"], &["y6"], &[]);
    });
    inside(&[1, 2, 3, 1, 1, 1], |n| {
        n.op("Mul", &["x6", "b6"], &["y6"], &[]);
    });
    inside(&[3, 1, 3, 4], |n| {
        n.op("Sub", &["b6", "x6"], &["y6"], &[]);
    });
    inside(&[4], |n| {
        n.op("Max", &["b6", "x6", "b6"], &["m"], &[]).op("Relu", &["m"], &["y6"], &[]);
    });
    inside(&[1, 2, 3, 2, 3, 4], |n| {
        n.op("Less", &["x6", "b6"], &["c"], &[]).op("Where", &["c", "x6", "b6"], &["y6"], &[]);
    });
    inside(&[1, 2, 3, 2, 3, 4], |n| {
        n.number("lo", -0.5).number("hi", 0.5).op("Clip", &["x6", "lo", "hi"], &["k"], &[]);
        n.op("Sigmoid", &["k"], &["g"], &[]).op("Div", &["b6", "g"], &["y6"], &[]);
    });
}

#[test]
fn a_broadcast_that_does_not_collapse_is_exact_or_refused() {
    // Ones alternate: no two neighbouring axes can be merged.
    let mut net = Net::new(13);
    net.input("a", &[2, 2]).ints("sa", &[2, 1, 2, 1, 1, 1]).input("b", &[2, 2]).ints("sb", &[1, 2, 1, 2, 1, 1]);
    net.op("Reshape", &["a", "sa"], &["a6"], &[]).op("Reshape", &["b", "sb"], &["b6"], &[]);
    net.op("Add", &["a6", "b6"], &["c"], &[]).ints("t", &[16]).op("Reshape", &["c", "t"], &["y"], &[]);
    net.outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    if run.backend("c") == "host" {
        assert!(run.reasons("c").starts_with("QNN105"), "{}", run.reasons("c"));
    } else {
        run.agrees(&[feed("a", &[2, 2], &noise(4)), feed("b", &[2, 2], &noise(9)[5..])], 2e-3);
    }
}

#[test]
fn space_to_depth_and_pixel_shuffle_of_rank_6() {
    for (first, perm, last) in [
        ([1, 2, 3, 2, 3, 2], [0, 3, 5, 1, 2, 4], [1, 8, 3, 3]),
        ([1, 2, 2, 3, 3, 2], [0, 1, 3, 5, 2, 4], [1, 12, 2, 3]),
        ([1, 2, 2, 3, 2, 3], [0, 2, 4, 5, 1, 3], [2, 2, 3, 6]),
    ] {
        let mut net = Net::new(13);
        net.input("x", &[72]).ints("s", &first).ints("t", &last);
        net.op("Reshape", &["x", "s"], &["a"], &[]).op("Transpose", &["a"], &["b"], &[("perm", ints(&perm))]);
        net.op("Reshape", &["b", "t"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        run.agrees(&[feed("x", &[72], &(0..72).map(|i| i as f32).collect::<Vec<_>>())], 0.0);
    }
}
