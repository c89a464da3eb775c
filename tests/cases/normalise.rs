//! LayerNormalization over several axes, and Softmax on both sides of opset 13.

use crate::kit::*;

fn layer_norm(shape: &[usize], axis: i64, bias: bool) -> Option<Run> {
    let rank = shape.len() as i64;
    let at = (if axis < 0 { axis + rank } else { axis }) as usize;
    let n = shape[at..].iter().product();
    let mut net = Net::new(17);
    net.input("x", shape).floats("scale", &shape[at..], &noise(n)).floats("bias", &shape[at..], &noise(n + 9)[9..]);
    let inputs: &[&str] = if bias { &["x", "scale", "bias"] } else { &["x", "scale"] };
    net.op("LayerNormalization", inputs, &["y"], &[("axis", int(axis))]).outputs(&["y"]);
    let run = net.compile(&[])?;
    let count: usize = shape.iter().product();
    run.agrees(&[feed("x", shape, &noise(count + 3)[3..])], 6e-3);
    Some(run)
}

#[test]
fn layer_norm_over_trailing_axes_is_one_row() {
    let Some(run) = layer_norm(&[1, 4, 8, 8], 1, true) else { return };
    assert_eq!(run.qnn_ops("y"), ["Cast", "Reshape", "LayerNorm", "Reshape", "Cast"]);
    let notes = run.notes();
    assert!(notes.contains("last axis") && notes.contains("[1, 256]"), "{notes}");
}

#[test]
fn layer_norm_elsewhere() {
    for (shape, axis, bias) in [
        (&[1, 4, 8, 8][..], 1, false),
        (&[2, 3, 4, 8], 2, true),
        (&[2, 3, 4, 8], -2, false),
        (&[2, 3, 4, 8], 0, true),
        (&[2, 3, 8], -1, false),
        (&[2, 3, 2, 2, 4], 2, true),
    ] {
        layer_norm(shape, axis, bias);
    }
}

/// Softmax of `0, 1, 2, ...`
fn softmax(op: &str, opset: i64, axis: Option<i64>, shape: &[usize]) -> Option<(Run, Vec<f64>)> {
    let mut net = Net::new(opset);
    let attrs: Vec<_> = axis.iter().map(|a| ("axis", int(*a))).collect();
    net.input("x", shape).op(op, &["x"], &["y"], &attrs).outputs(&["y"]);
    let run = net.compile(&[])?;
    let x: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
    let got = run.agrees(&[feed("x", shape, &x)], 5e-3);
    let values = got[0].1.to_f64s().unwrap();
    Some((run, values))
}

#[test]
fn softmax_before_opset_13_flattens() {
    let Some((old, got)) = softmax("Softmax", 11, Some(1), &[1, 2, 3]) else { return };
    near(&got[..3], &[0.00427, 0.01161, 0.03155], 1e-4);
    assert!(old.notes().contains("opset 11") && old.notes().contains("[1, 6]"), "{}", old.notes());
    let Some((new, got)) = softmax("Softmax", 13, Some(1), &[1, 2, 3]) else { return };
    near(&got, &[0.04743, 0.04743, 0.04743, 0.95257, 0.95257, 0.95257], 1e-3);
    assert!(new.notes().contains("opset 13"), "{}", new.notes());
    assert_ne!(old.qnn_ops("y"), new.qnn_ops("y"));
}

#[test]
fn softmax_along_every_axis() {
    for op in ["Softmax", "LogSoftmax", "Hardmax"] {
        for (opset, axis) in [(11, Some(0)), (11, Some(2)), (11, Some(-2)), (11, None), (13, Some(0)), (13, None)] {
            softmax(op, opset, axis, &[2, 2, 3]);
        }
    }
}
