//! int64 on an NPU that computes with int32.

use crate::kit::*;
use qnnc::ir::{DataType, Tensor};
use qnnc::verify::Named;

fn ids(values: &[i64]) -> Named {
    ("ids".into(), Tensor::from_i64(vec![1, values.len()], values))
}

/// `table[(ids + offset) mod 10]`
fn lookup(offset: i64) -> Net {
    let mut net = Net::new(13);
    let table: Vec<f32> = (0..80).map(|i| i as f32).collect();
    net.typed("ids", DataType::I64, &[1, 4]).constant("offset", Tensor::from_i64(vec![], &[offset]));
    net.constant("ten", Tensor::from_i64(vec![], &[10])).floats("table", &[10, 8], &table);
    net.op("Add", &["ids", "offset"], &["sum"], &[]).op("Mod", &["sum", "ten"], &["row"], &[]);
    net.op("Gather", &["table", "row"], &["y"], &[("axis", int(0))]).outputs(&["y"]);
    net
}

#[test]
fn a_constant_beyond_int32_is_not_narrowed() {
    let Some(run) = lookup(1 << 33).compile(&[]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.backend("sum"), "host");
    assert!(run.reasons("sum").starts_with("QNN108") && run.reasons("sum").contains("8589934592"));
    // What comes out of it does not fit either, so whoever reads it stays with it.
    assert_eq!(run.backend("row"), "host");
    assert!(run.reasons("row").contains("\"sum\""), "{}", run.reasons("row"));
    // Rows are below 10: they fit again.
    assert_eq!(run.backend("y"), "htp", "{}", run.reasons("y"));
}

#[test]
fn narrowed_inputs_are_in_the_report() {
    let Some(run) = lookup(2).compile(&[]) else { return };
    run.on_npu();
    let input = &run.report["io"][0];
    assert_eq!((input["name"].as_str(), input["onnx_type"].as_str()), (Some("ids"), Some("int64")));
    assert!(run.notes().contains("\"ids\"") && run.notes().contains("int32"), "{}", run.notes());
    let expected: Vec<f64> = [2, 3, 9, 0].iter().flat_map(|r| (0..8).map(move |c| f64::from(r * 8 + c))).collect();
    run.gives(&[ids(&[0, 1, 7, 8])], &expected, 0.0);
}

#[test]
fn int32_just_fits() {
    for (k, fits) in
        [(i64::from(i32::MAX), true), (i64::from(i32::MIN), true), (1 << 31, false), (-(1 << 31) - 1, false)]
    {
        let mut net = Net::new(13);
        net.typed("ids", DataType::I64, &[1, 4]).ints("k", &[k]);
        net.op("Equal", &["ids", "k"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        if run.backend("y") == "host" {
            assert!(!fits && run.reasons("y").contains(&k.to_string()), "{k}: {}", run.reasons("y"));
        } else {
            let low = if fits { k } else { 0 };
            run.agrees(&[ids(&[0, low, 1, -1])], 0.0);
        }
    }
}

#[test]
fn the_chain_ends_where_values_are_bounded() {
    let mut net = Net::new(13);
    net.typed("ids", DataType::I64, &[1, 4]).ints("big", &[1 << 40]).ints("zero", &[0]);
    net.op("Mul", &["ids", "big"], &["a"], &[]).op("Neg", &["a"], &["b"], &[]);
    net.op("Less", &["b", "zero"], &["c"], &[]).op("Not", &["c"], &["d"], &[]).outputs(&["d"]);
    let Some(run) = net.compile(&[]) else { return };
    let at: Vec<&str> = ["a", "b", "c", "d"].iter().map(|n| run.backend(n)).collect();
    assert_eq!(at, ["host", "host", "host", "htp"]);
}

#[test]
fn parameters_at_the_ends_of_int64_are_no_data() {
    let mut net = Net::new(13);
    net.typed("ids", DataType::I64, &[1, 4]).ints("s", &[1]).ints("e", &[i64::MAX]).ints("a", &[1]);
    net.op("Slice", &["ids", "s", "e", "a"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[ids(&[5, -6, 7, 8])], &[-6.0, 7.0, 8.0], 0.0);
}

/// The HTP rounds down where it divides by a scalar power of two; ONNX rounds towards 0.
#[test]
fn quotients_round_towards_zero() {
    let x: Vec<i32> = (-9..=9).chain([-1000, 1000, 123456789, -123456789]).collect();
    let n = x.len();
    let feeds = [("x".to_string(), Tensor::from_i32(vec![1, n], &x))];
    for k in [1, 2, 3, 4, 8, 10, 64, -1, -2, -3, -8] {
        for (op, attrs) in [("Div", vec![]), ("Mod", vec![]), ("Mod", vec![("fmod", int(1))])] {
            let mut net = Net::new(13);
            net.typed("x", DataType::I32, &[1, n]).constant("k", Tensor::from_i32(vec![], &[k]));
            net.op(op, &["x", "k"], &["y"], &attrs).outputs(&["y"]);
            let Some(run) = net.compile(&[]) else { return };
            run.agrees(&feeds, 0.0);
        }
    }
    let mut net = Net::new(13);
    net.typed("x", DataType::I32, &[1, 4]).op("ReduceMean", &["x"], &["y"], &[("axes", ints(&[1]))]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[("x".into(), Tensor::from_i32(vec![1, 4], &[3, -5, -7, 0]))], &[-2.0], 0.0);
}
