//! Slice: bounds at the ends of int64, negative steps, omitted optional inputs.

use crate::kit::*;

/// Slice of `0, 1, 2, ...` of `shape`; `None` is an omitted input.
fn slice(shape: &[usize], starts: &[i64], ends: &[i64], axes: Option<&[i64]>, steps: Option<&[i64]>) -> Net {
    let mut net = Net::new(13);
    net.input("x", shape).ints("starts", starts).ints("ends", ends);
    let mut inputs = vec!["x", "starts", "ends"];
    inputs.push(axes.map_or("", |v| {
        net.ints("axes", v);
        "axes"
    }));
    if let Some(v) = steps {
        net.ints("steps", v);
        inputs.push("steps");
    }
    net.op("Slice", &inputs, &["y"], &[]).outputs(&["y"]);
    net
}

fn counted(shape: &[usize]) -> Vec<f32> {
    (0..shape.iter().product::<usize>()).map(|i| i as f32).collect()
}

#[test]
fn a_negative_step_to_the_end_of_int64() {
    let Some(run) = slice(&[1, 6], &[-1], &[i64::MIN], Some(&[1]), Some(&[-2])).compile(&[]) else { return };
    if run.backend("y") == "host" {
        assert!(run.reasons("y").contains("step"), "{}", run.reasons("y"));
    } else {
        run.gives(&[feed("x", &[1, 6], &counted(&[1, 6]))], &[5.0, 3.0, 1.0], 0.0);
    }
}

#[test]
fn an_omitted_input_is_not_a_dynamic_one() {
    let Some(run) = slice(&[4, 6], &[0, 1], &[4, 6], None, Some(&[2, 2])).compile(&[]) else { return };
    run.gives(&[feed("x", &[4, 6], &counted(&[4, 6]))], &[1.0, 3.0, 5.0, 13.0, 15.0, 17.0], 0.0);
}

#[test]
fn bounds_are_clamped_without_overflow() {
    const MAX: i64 = i64::MAX;
    const MIN: i64 = i64::MIN;
    for (starts, ends, axes, steps) in [
        (&[0][..], &[MAX][..], Some(&[1][..]), None),
        (&[MIN], &[MAX], Some(&[-1]), Some(&[1][..])),
        (&[MIN, 1], &[MAX, MAX], None, Some(&[1, 3])),
        (&[MAX], &[MIN], Some(&[1]), Some(&[-1])),
        (&[-2, 4], &[MIN, -7], Some(&[0, 1]), Some(&[-1, -3])),
        (&[2], &[1 << 31], Some(&[1]), None),
        (&[-1], &[-(1 << 32)], Some(&[1]), Some(&[-1])),
        (&[0], &[6], Some(&[1]), Some(&[MAX])),
        (&[5], &[MIN], Some(&[1]), Some(&[MIN + 1])),
        (&[0], &[6], Some(&[1]), Some(&[1 << 32])),
    ] {
        let Some(run) = slice(&[4, 6], starts, ends, axes, steps).compile(&[]) else { return };
        run.agrees(&[feed("x", &[4, 6], &counted(&[4, 6]))], 0.0);
    }
}

#[test]
fn a_step_of_zero_and_axes_out_of_range_are_the_users_error() {
    for (axes, steps, says) in [(&[1][..], &[0][..], "step"), (&[2], &[1], "axis 2"), (&[1, 1], &[1, 1], "axis 1")] {
        let n = axes.len();
        let Some(run) = slice(&[4, 6], &vec![0; n], &vec![2; n], Some(axes), Some(steps)).compile(&[]) else { return };
        assert!(run.refused().contains(says), "{}", run.stderr);
    }
}

#[test]
fn the_older_form_has_attributes() {
    let mut net = Net::new(9);
    let attrs = [("starts", ints(&[1, -3])), ("ends", ints(&[i64::MAX, -1])), ("axes", ints(&[0, 1]))];
    net.input("x", &[4, 6]).op("Slice", &["x"], &["y"], &attrs).outputs(&["y"]);
    let Some(run) = net.compile(&[]) else { return };
    run.gives(&[feed("x", &[4, 6], &counted(&[4, 6]))], &[9.0, 10.0, 15.0, 16.0, 21.0, 22.0], 0.0);
}
