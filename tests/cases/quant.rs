//! Quantised models: scales along an axis, quantised activations, and the older ops with quantisation inside.

use crate::kit::*;
use qnnc::ir::{Attr, DataType, Tensor};

fn u8s(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::from_pod(DataType::U8, shape.to_vec(), values)
}

fn i8s(shape: &[usize], values: &[i8]) -> Tensor {
    Tensor::from_pod(DataType::I8, shape.to_vec(), values)
}

/// `count` scales: 0.01, 0.02, ...
fn scales(count: usize) -> Vec<f32> {
    (1..=count).map(|i| i as f32 / 100.0).collect()
}

/// DequantizeLinear of an int8 weight `[8, 4, 3, 3]` that a Conv reads.
fn per_axis(count: usize, axis: Option<i64>) -> Net {
    let mut net = Net::new(13);
    let w: Vec<i8> = (0..288).map(|i| (i * 7 % 201 - 100) as i8).collect();
    net.input("x", &[1, 4, 5, 5]).constant("w", i8s(&[8, 4, 3, 3], &w));
    net.floats("s", &[count], &scales(count)).constant("z", i8s(&[count], &vec![0; count]));
    let attrs: Vec<(&str, Attr)> = axis.iter().map(|a| ("axis", int(*a))).collect();
    net.op("DequantizeLinear", &["w", "s", "z"], &["d"], &attrs);
    net.op("Conv", &["x", "d"], &["y"], &[]).outputs(&["y"]);
    net
}

#[test]
fn scales_that_do_not_fit_their_axis() {
    let Some(run) = per_axis(8, None).compile(&[]) else { return };
    let says = run.refused();
    assert!(says.contains("8 scales") && says.contains("dimension of 4"), "{says}");
    for (count, axis) in [(4, Some(0)), (8, Some(1)), (8, Some(-3)), (3, Some(0)), (8, Some(2))] {
        let Some(run) = per_axis(count, axis).compile(&[]) else { return };
        assert!(run.refused().contains(&format!("{count} scales")), "{}", run.stderr);
    }
    for axis in [4, -5] {
        let Some(run) = per_axis(8, Some(axis)).compile(&[]) else { return };
        assert!(run.refused().contains(&format!("axis {axis}")), "{}", run.stderr);
    }
}

#[test]
fn channel_i_has_scale_i() {
    let feeds = [feed("x", &[1, 4, 5, 5], &noise(100))];
    let mut first: Option<Vec<f64>> = None;
    for axis in [0, -4] {
        let Some(run) = per_axis(8, Some(axis)).compile(&[]) else { return };
        let got = run.agrees(&feeds, 2e-2)[0].1.to_f64s().unwrap();
        near(&got, &first.get_or_insert_with(|| got.clone()).clone(), 0.0);
    }
    // As many scales as the default axis has entries: that is its own meaning.
    let Some(run) = per_axis(4, None).compile(&[]) else { return };
    run.agrees(&feeds, 2e-2);
}

#[test]
fn quantise_and_dequantise_along_an_axis_at_run_time() {
    for axis in [0, 1, -1, -3] {
        let shape = [2, 3, 4];
        let n = shape[(if axis < 0 { axis + 3 } else { axis }) as usize];
        let mut net = Net::new(13);
        net.input("x", &shape).floats("s", &[n], &scales(n)).constant("z", u8s(&[n], &vec![128; n]));
        net.op("QuantizeLinear", &["x", "s", "z"], &["q"], &[("axis", int(axis))]);
        net.op("DequantizeLinear", &["q", "s", "z"], &["y"], &[("axis", int(axis))]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        assert_eq!(run.code, 0, "{}", run.stderr);
        if run.report["totals"]["host"] == 0 {
            run.agrees(&[feed("x", &shape, &noise(24))], 1.1e-2);
        }
    }
}

fn u8_feed(name: &str, shape: &[usize], values: &[u8]) -> qnnc::verify::Named {
    (name.into(), u8s(shape, values))
}

/// Codes 0, 8, 16, ... 248 and a few more.
fn codes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 8 + i / 32 * 3) as u8).collect()
}

/// Every code is at most `off` from ONNX Runtime's.
fn codes_agree(run: &Run, feeds: &[qnnc::verify::Named], off: i64) -> Option<Vec<i64>> {
    let got = run.on_npu().emulate(feeds);
    let of = |t: &Tensor| t.to_i64s().unwrap();
    if let Some(want) = reference(&run.model, feeds, &got) {
        for (g, w) in of(&got[0].1).iter().zip(of(&want[0].1)) {
            assert!((g - w).abs() <= off, "{:?}\n{:?}", of(&got[0].1), of(&want[0].1));
        }
    }
    Some(of(&got[0].1))
}

#[test]
fn a_quantised_leaky_relu() {
    let mut net = Net::new(16);
    net.typed("x", DataType::U8, &[1, 2, 4, 4]).number("s", 0.05).constant("z", u8s(&[], &[128]));
    net.op("DequantizeLinear", &["x", "s", "z"], &["d"], &[]);
    net.op("LeakyRelu", &["d"], &["l"], &[("alpha", float(0.2))]);
    net.op("QuantizeLinear", &["l", "s", "z"], &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    let mut x = codes(32);
    x[5] = 100;
    let Some(y) = codes_agree(&run, &[u8_feed("x", &[1, 2, 4, 4], &x)], 1) else { return };
    assert!((y[5] - 122).abs() <= 1, "{y:?}");
}

#[test]
fn a_leaky_relu_in_half_precision() {
    let mut net = Net::new(16);
    net.typed("x", DataType::F16, &[1, 4]).op("LeakyRelu", &["x"], &["y"], &[("alpha", float(0.2))]).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    let x = Tensor::from_f64(DataType::F16, vec![1, 4], &[-2.0, -0.5, 0.0, 3.0]).unwrap();
    run.gives(&[("x".into(), x)], &[-0.4, -0.1, 0.0, 3.0], 1e-3);
}

/// MatMulNBits of K = 64 and N = 16 in blocks of 32 with 4 bits.
fn n_bits(zeros: bool) -> Net {
    let mut net = Net::new(17);
    let weights: Vec<u8> = (0..16 * 2 * 16).map(|i| (i * 37 % 251) as u8).collect();
    let scales: Vec<f32> = (0..32).map(|i| 0.01 + i as f32 / 1000.0).collect();
    net.input("x", &[1, 8, 64]).constant("w", u8s(&[16, 2, 16], &weights)).floats("s", &[32], &scales);
    let mut inputs = vec!["x", "w", "s"];
    if zeros {
        net.constant("z", u8s(&[16], &(0..16).map(|i| (i * 17 % 256) as u8).collect::<Vec<_>>()));
        inputs.push("z");
    }
    let attrs = [("K", int(64)), ("N", int(16)), ("bits", int(4)), ("block_size", int(32))];
    net.op("com.microsoft::MatMulNBits", &inputs, &["y"], &attrs).outputs(&["y"]);
    net
}

#[test]
fn weights_of_4_bits_with_and_without_zero_points() {
    for zeros in [false, true] {
        let Some(run) = n_bits(zeros).compile(&[]) else { return };
        run.agrees(&[feed("x", &[1, 8, 64], &noise(512))], 2e-2);
    }
}

#[test]
fn a_model_of_quantised_operators() {
    let mut net = Net::new(10);
    net.typed("x", DataType::U8, &[1, 3, 4, 4]).number("xs", 0.02).constant("xz", u8s(&[], &[120]));
    net.constant("w", i8s(&[2, 3, 1, 1], &[50, -30, 90, -100, 20, 127])).floats("ws", &[2], &[0.01, 0.03]);
    net.constant("wz", i8s(&[2], &[0, 0])).number("ys", 0.1).constant("yz", u8s(&[], &[130]));
    net.constant("b", Tensor::from_i32(vec![2], &[1000, -500]));
    let inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"];
    net.op("QLinearConv", &inputs, &["y"], &[]).outputs(&["y"]);
    let Some(run) = net.compile(&["--max-cpu-nodes", "0"]) else { return };
    codes_agree(&run, &[u8_feed("x", &[1, 3, 4, 4], &codes(48))], 1);
}
