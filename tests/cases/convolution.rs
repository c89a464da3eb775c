//! Convolutions that the HTP gets wrong as they stand: padding of a whole kernel, several kernels per channel with a
//! dilation.

use crate::kit::*;
use qnnc::ir::Attr;

fn check(x: &[usize], w: &[usize], attrs: &[(&str, Attr)]) -> Option<Run> {
    let mut net = Net::new(13);
    net.input("x", x).floats("w", w, &noise(w.iter().product())).floats("b", &w[..1], &noise(w[0] + 7)[7..]);
    net.op("Conv", &["x", "w", "b"], &["y"], attrs).outputs(&["y"]);
    let run = net.compile(&[])?;
    run.agrees(&[feed("x", x, &noise(x.iter().product::<usize>() + 40)[40..])], 1e-2);
    Some(run)
}

#[test]
fn padding_of_a_whole_kernel_and_more() {
    for pads in [[2, 2, 2, 2], [3, 3, 3, 3], [3, 1, 1, 1], [1, 1, 1, 3], [2, 4, 5, 0]] {
        check(&[1, 2, 6, 6], &[3, 2, 3, 3], &[("pads", ints(&pads))]);
    }
    let three = || ("pads", ints(&[3, 3, 3, 3]));
    check(&[1, 2, 6, 7], &[3, 2, 3, 3], &[three(), ("strides", ints(&[2, 2]))]);
    check(&[1, 2, 6, 7], &[3, 2, 2, 2], &[three(), ("strides", ints(&[2, 3])), ("dilations", ints(&[1, 2]))]);
    check(&[1, 4, 6, 6], &[4, 1, 3, 3], &[three(), ("group", int(4))]);
    check(&[1, 2, 6, 6], &[3, 2, 1, 1], &[three(), ("strides", ints(&[2, 2]))]);
    check(&[1, 2, 8], &[3, 2, 3], &[("pads", ints(&[3, 4]))]);
}

#[test]
fn a_pad_between_two_convolutions() {
    for p in [1, 3, 4] {
        let mut net = Net::new(13);
        net.input("x", &[1, 2, 6, 6]).floats("w", &[3, 2, 3, 3], &noise(54)).floats("v", &[3, 3, 3, 3], &noise(81));
        net.ints("p", &[0, 0, p, p, 0, 0, p, p]).op("Conv", &["x", "w"], &["a"], &[]);
        net.op("Pad", &["a", "p"], &["b"], &[]).op("Conv", &["b", "v"], &["y"], &[]).outputs(&["y"]);
        let Some(run) = net.compile(&[]) else { return };
        run.agrees(&[feed("x", &[1, 2, 6, 6], &noise(72))], 2e-2);
    }
}

#[test]
fn several_kernels_per_channel_with_a_dilation() {
    let group = || ("group", int(4));
    check(&[1, 4, 8, 8], &[8, 1, 3, 3], &[group(), ("dilations", ints(&[2, 2]))]);
    check(&[1, 4, 8, 8], &[12, 1, 3, 3], &[group(), ("dilations", ints(&[1, 2])), ("pads", ints(&[1, 2, 1, 2]))]);
    check(&[1, 4, 12], &[8, 1, 3], &[group(), ("dilations", ints(&[2]))]);
    check(&[1, 4, 8, 8], &[4, 1, 3, 3], &[group(), ("dilations", ints(&[2, 2]))]);
}
