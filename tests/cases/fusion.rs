//! Activations that are spelt out, and what only looks like them.

use crate::kit::*;
use qnnc::verify::Named;

const X: [f32; 8] = [-3.0, -1.5, -0.5, 0.0, 0.25, 1.0, 2.0, 4.0];

fn x8() -> Vec<Named> {
    vec![feed("x", &[1, 8], &X)]
}

/// GELU with the divisor or factor of Erf's input as named, in one of several orders.
fn gelu(way: usize, divisor: f32, lone: bool) -> Net {
    let mut net = Net::new(13);
    net.input("x", &[1, 8]).number("d", divisor).number("m", 1.0 / divisor).number("one", 1.0).number("half", 0.5);
    match way {
        0 | 3 => net.op("Div", &["x", "d"], &["s"], &[]),
        1 => net.op("Mul", &["x", "m"], &["s"], &[]),
        _ => net.op("Mul", &["m", "x"], &["s"], &[]),
    };
    net.op("Erf", &["s"], &["e"], &[]);
    let sum = if way == 2 { ["one", "e"] } else { ["e", "one"] };
    net.op("Add", &sum, &["a"], &[]);
    match way {
        0 => net.op("Mul", &["x", "a"], &["p"], &[]).op("Mul", &["p", "half"], &["y"], &[]),
        1 => net.op("Mul", &["half", "x"], &["p"], &[]).op("Mul", &["p", "a"], &["y"], &[]),
        2 => net.op("Mul", &["a", "x"], &["p"], &[]).op("Mul", &["half", "p"], &["y"], &[]),
        _ => net.op("Mul", &["a", "half"], &["p"], &[]).op("Mul", &["x", "p"], &["y"], &[]),
    };
    if lone {
        net.op("Erf", &["x"], &["z"], &[]).outputs(&["y", "z"]);
    } else {
        net.outputs(&["y"]);
    }
    net
}

#[test]
fn gelu_in_every_order_is_one_op() {
    let expected = [-0.004050, -0.100211, -0.154269, 0.0, 0.149677, 0.841345, 1.954500, 3.999873];
    for way in 0..4 {
        let Some(run) = gelu(way, std::f32::consts::SQRT_2, false).compile(&[]) else { return };
        assert_eq!(run.qnn_ops("y").iter().filter(|o| *o != "Cast").collect::<Vec<_>>(), ["Gelu"], "{way}");
        assert_eq!(run.node("e")["rewrites"][0].as_str(), Some("fuse-gelu-erf"));
        run.gives(&x8(), &expected, 4e-3);
    }
}

#[test]
fn a_lone_erf_is_judged_apart() {
    for way in 0..4 {
        let Some(run) = gelu(way, std::f32::consts::SQRT_2, true).compile(&[]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.node("e")["rewrites"][0].as_str(), Some("fuse-gelu-erf"));
        // The HTP has no Erf; it is composed of what it has, and gives ONNX Runtime's numbers in 16 bits.
        if run.backend("z") == "host" {
            assert_eq!(run.report["totals"]["host"].as_u64(), Some(1), "{}", run.stdout);
            assert!(run.reasons("z").contains("Erf"), "{}", run.reasons("z"));
        } else {
            run.agrees(&x8(), 4e-3);
        }
    }
}

#[test]
fn gelu_with_another_constant_is_not_fused() {
    let Some(run) = gelu(0, 1.5, false).compile(&[]) else { return };
    assert!(!run.qnn_ops("y").iter().any(|o| o == "Gelu"));
    assert_eq!(run.node("e")["rewrites"], serde_json::Value::Null);
    run.agrees(&x8(), 4e-3);
    assert!(run.notes().contains("looks like GELU; not fused"), "{}", run.notes());
}

#[test]
fn gelu_of_two_tensors_is_not_fused() {
    let mut net = Net::new(13);
    net.input("x", &[1, 8]).input("w", &[1, 8]).number("d", std::f32::consts::SQRT_2);
    net.number("one", 1.0).number("half", 0.5).op("Div", &["x", "d"], &["s"], &[]).op("Erf", &["s"], &["e"], &[]);
    net.op("Add", &["e", "one"], &["a"], &[]).op("Mul", &["w", "a"], &["p"], &[]);
    net.op("Mul", &["p", "half"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    assert!(!run.report.to_string().contains("\"Gelu\""));
}

#[test]
fn gelu_ops_by_name() {
    for (op, opset, attrs) in [
        ("Gelu", 20, vec![]),
        ("Gelu", 20, vec![("approximate", text("tanh"))]),
        ("com.microsoft::Gelu", 13, vec![]),
        ("com.microsoft::FastGelu", 13, vec![]),
        ("com.microsoft::QuickGelu", 13, vec![("alpha", float(1.702))]),
    ] {
        let mut net = Net::new(opset);
        net.input("x", &[1, 8]).op(op, &["x"], &["y"], &attrs).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        run.agrees(&x8(), 4e-3);
    }
}

const WIDE: [f32; 6] = [-100.0, -1.0, 0.0, 1.0, 20.0, 100.0];
const MISH: [f64; 6] = [0.0, -0.3034, 0.0, 0.8651, 20.0, 100.0];

#[test]
fn mish_in_two_spellings() {
    let mut net = Net::new(13);
    net.input("x", &[1, 6]).op("Softplus", &["x"], &["s"], &[]).op("Tanh", &["s"], &["t"], &[]);
    net.op("Mul", &["x", "t"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    assert_eq!(run.node("s")["rewrites"][0].as_str(), Some("fuse-mish"));
    run.gives(&[feed("x", &[1, 6], &WIDE)], &MISH, 2e-3);
    let mut net = Net::new(18);
    net.input("x", &[1, 6]).op("Mish", &["x"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[feed("x", &[1, 6], &WIDE)], &MISH, 2e-3);
}

#[test]
fn mish_with_exp_and_log_or_the_operands_swapped() {
    let mut net = Net::new(13);
    net.input("x", &[1, 6]).op("Softplus", &["x"], &["s"], &[]).op("Tanh", &["s"], &["t"], &[]);
    net.op("Mul", &["t", "x"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[feed("x", &[1, 6], &WIDE)], &MISH, 2e-3);
    // Exp, Add, Log: with the exponential itself it would be infinite from 11.1 up in half precision.
    let mut net = Net::new(13);
    net.input("x", &[1, 6]).number("one", 1.0).op("Exp", &["x"], &["e"], &[]).op("Add", &["one", "e"], &["a"], &[]);
    net.op("Log", &["a"], &["s"], &[]).op("Tanh", &["s"], &["t"], &[]).op("Mul", &["x", "t"], &["y"], &[]);
    net.outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    assert_eq!(run.node("e")["rewrites"], serde_json::json!(["fuse-softplus", "fuse-mish"]));
    let got = run.on_npu().emulate(&[feed("x", &[1, 6], &WIDE)]);
    near(&got[0].1.to_f64s().unwrap(), &MISH, 2e-3);
    // Softplus as it stands must not overflow where exp does in half precision.
    let mut net = Net::new(13);
    net.input("x", &[1, 6]).op("Softplus", &["x"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[feed("x", &[1, 6], &WIDE)], &[0.0, 0.31326, std::f64::consts::LN_2, 1.31326, 20.0, 100.0], 2e-3);
}

#[test]
fn an_op_of_a_foreign_domain_is_not_its_namesake() {
    for op in ["acme.ops::Mish", "acme.ops::Relu", "com.microsoft::Relu"] {
        let mut net = Net::new(18);
        net.input("x", &[1, 6]).op(op, &["x"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        assert_eq!((run.code, run.backend("y")), (0, "host"), "{}", run.stderr);
        let (domain, name) = op.rsplit_once("::").unwrap();
        let says = run.reasons("y");
        assert!(says.starts_with("QNN102") && says.contains(domain) && says.contains("domain"), "{says}");
        assert!(says.contains(&format!("not taken for the {name} of ai.onnx")), "{says}");
    }
}

const SIX: [f32; 6] = [-4.0, -2.8, -1.0, 1.0, 2.8, 4.0];

/// `HardSigmoid(x) * other`
fn hard_swish(alpha: f32, beta: f32, other: &str, swapped: bool) -> Net {
    let mut net = Net::new(13);
    net.input("x", &[1, 6]);
    if other != "x" {
        net.input(other, &[1, 6]);
    }
    net.op("HardSigmoid", &["x"], &["h"], &[("alpha", float(alpha)), ("beta", float(beta))]);
    let operands = if swapped { [other, "h"] } else { ["h", other] };
    net.op("Mul", &operands, &["y"], &[]).outputs(&["y"]);
    net
}

fn fused(run: &Run) -> bool {
    run.report["rewrites"].as_array().unwrap().iter().any(|r| r["name"] == "fuse-hard-swish" && r["applied"] == true)
}

#[test]
fn hard_swish_is_fused_and_a_near_miss_is_not() {
    let feeds = [feed("x", &[1, 6], &SIX)];
    for swapped in [false, true] {
        let Some(run) = hard_swish(1.0 / 6.0, 0.5, "x", swapped).compile(&[]) else { return };
        assert!(fused(&run), "{}", run.notes());
        run.gives(&feeds, &[0.0, -0.09333, -0.33333, 0.66667, 2.70667, 4.0], 2e-3);
        let Some(run) = hard_swish(0.2, 0.5, "x", swapped).compile(&[]) else { return };
        assert!(!fused(&run));
        assert!(run.notes().contains("not fused"), "{}", run.notes());
        run.gives(&feeds, &[0.0, 0.0, -0.3, 0.7, 2.8, 4.0], 2e-3);
    }
}

#[test]
fn more_near_misses_of_hard_swish() {
    let feeds = [feed("x", &[1, 6], &SIX), feed("w", &[1, 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    for (alpha, beta, other) in
        [(1.0 / 6.0, 0.4, "x"), (1.0 / 6.0, 0.5, "w"), (0.16, 0.5, "x"), (0.17, 0.5, "x"), (1.0 / 6.0, 0.51, "x")]
    {
        let Some(run) = hard_swish(alpha, beta, other, false).compile(&[]) else { return };
        assert!(!fused(&run), "{alpha} {beta} {other}");
        run.agrees(&feeds[..if other == "x" { 1 } else { 2 }], 3e-3);
    }
    // Spelt with Clip: the upper bound decides.
    for (top, is) in [(6.0, true), (5.0, false)] {
        let mut net = Net::new(13);
        net.input("x", &[1, 6]).number("three", 3.0).number("zero", 0.0).number("top", top).number("six", 6.0);
        net.op("Add", &["x", "three"], &["a"], &[]).op("Clip", &["a", "zero", "top"], &["c"], &[]);
        net.op("Mul", &["x", "c"], &["m"], &[]).op("Div", &["m", "six"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        assert_eq!(fused(&run), is);
        run.agrees(&feeds[..1], 3e-3);
    }
}

/// Far from 0, where 16 bits end: the HTP's own exponential is a large number of either sign below -88.
#[test]
fn activations_far_from_zero() {
    let x = [-60000.0, -1000.0, -300.0, -104.0, -89.0, -88.0, -20.0, -17.0, 17.0, 20.0, 89.0, 104.0, 1000.0, 60000.0];
    for op in ["Softplus", "Mish", "Sigmoid", "Tanh", "Elu", "Gelu", "HardSwish", "Erf", "Atan", "HardSigmoid"] {
        let mut net = Net::new(20);
        net.input("x", &[1, 14]).op(op, &["x"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        run.agrees(&[feed("x", &[1, 14], &x)], 3e-3);
    }
    let low: Vec<f32> = x.iter().copied().filter(|v| *v < 0.0).chain([10.0]).collect();
    let mut net = Net::new(13);
    net.input("x", &[1, low.len()]).op("Exp", &["x"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.agrees(&[feed("x", &[1, low.len()], &low)], 3e-3);
}
