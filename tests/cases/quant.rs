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
