//! ConvTranspose whose pads follow from `output_shape`.

use crate::kit::*;

fn convolve(opset: i64, w: &[usize], attrs: &[(&str, qnnc::ir::Attr)]) -> Net {
    let mut net = Net::new(opset);
    let weights: Vec<f32> = (1..=w.iter().product::<usize>()).map(|i| i as f32).collect();
    net.input("x", &[1, w[0], 3, 3]).floats("w", w, &weights);
    net.op("ConvTranspose", &["x", "w"], &["y"], attrs).outputs(&["y"]);
    net
}

fn nine() -> Vec<f32> {
    (1..=9).map(|i| i as f32).collect()
}

/// The first numbers of the output.
fn starts(attrs: &[(&str, qnnc::ir::Attr)], expected: &[f64]) {
    let Some(run) = convolve(11, &[1, 1, 3, 3], attrs).compile(&[]) else { return };
    let got = run.agrees(&[feed("x", &[1, 1, 3, 3], &nine())], 2e-3);
    near(&got[0].1.to_f64s().unwrap()[..expected.len()], expected, 2e-3);
}

#[test]
fn pads_follow_from_output_shape() {
    let shape = || ("output_shape", ints(&[6, 6]));
    let strides = || ("strides", ints(&[2, 2]));
    starts(&[strides(), shape()], &[5.0, 14.0, 10.0, 24.0]);
    starts(&[strides(), shape(), ("auto_pad", text("NOTSET"))], &[5.0, 14.0, 10.0, 24.0]);
    starts(&[strides(), shape(), ("auto_pad", text("SAME_UPPER"))], &[1.0, 2.0, 5.0, 4.0]);
    starts(&[strides(), shape(), ("auto_pad", text("SAME_LOWER"))], &[5.0, 14.0, 10.0, 24.0]);
    // Explicit pads do not count beside output_shape.
    starts(&[strides(), shape(), ("pads", ints(&[1, 1, 1, 1]))], &[5.0, 14.0, 10.0, 24.0]);
}

#[test]
fn other_ways_to_say_the_size() {
    let strides = || ("strides", ints(&[2, 2]));
    starts(&[strides(), ("pads", ints(&[0, 0, 1, 1]))], &[1.0, 2.0, 5.0, 4.0]);
    starts(&[strides(), ("pads", ints(&[1, 1, 1, 1])), ("output_padding", ints(&[1, 1]))], &[5.0, 14.0, 10.0, 24.0]);
    starts(&[strides(), ("auto_pad", text("SAME_UPPER"))], &[1.0, 2.0, 5.0, 4.0]);
    starts(&[strides(), ("auto_pad", text("VALID"))], &[1.0, 2.0, 5.0, 4.0]);
    starts(&[strides(), ("output_shape", ints(&[8, 8]))], &[1.0, 2.0]);
    starts(&[("dilations", ints(&[2, 2])), strides(), ("output_shape", ints(&[8, 8]))], &[]);
    starts(&[("output_shape", ints(&[4, 5]))], &[]);
}

#[test]
fn groups_and_uneven_pads() {
    let attrs = [("strides", ints(&[2, 1])), ("group", int(2)), ("output_shape", ints(&[6, 4]))];
    let Some(run) = convolve(11, &[4, 3, 3, 2], &attrs).compile(&[]) else { return };
    // Products of up to 36 cancel.
    run.agrees(&[feed("x", &[1, 4, 3, 3], &noise(36))], 2e-2);
}

/// TransposeConv3d gives wrong numbers where the strides of the last two axes differ.
#[test]
fn three_axes_with_different_strides() {
    for (strides, on_npu) in
        [([2, 2, 2], true), ([1, 2, 1], true), ([2, 2, 1], true), ([2, 1, 2], true), ([1, 2, 3], false)]
    {
        let mut net = Net::new(11);
        net.input("x", &[1, 2, 3, 3, 3]).floats("w", &[2, 3, 3, 2, 3], &noise(108));
        net.op("ConvTranspose", &["x", "w"], &["y"], &[("strides", ints(&strides))]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        if on_npu {
            run.agrees(&[feed("x", &[1, 2, 3, 3, 3], &noise(54))], 6e-3);
        } else {
            assert_eq!(run.backend("y"), "host");
            assert!(run.reasons("y").contains("[1, 2, 3]"), "{}", run.reasons("y"));
        }
    }
}
