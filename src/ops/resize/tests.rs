use crate::ir::{DataType, Tensor};
use crate::ops::testing::{node, op_types};

#[test]
fn shapes_from_scales_and_sizes() {
    let n = node("Resize", 13).float(&[-1, 3, -2, 8]).omit().floats(&[4], &[1.0, 1.0, 2.0, 0.5]);
    assert_eq!(n.types(), ["float32[d1, 3, 2*d2, 4]"]);
    let n = node("Resize", 13).float(&[1, 3, 10, 8]).omit().floats(&[4], &[1.0, 1.0, 0.7, 0.3]);
    // 10 * 0.7 is 7 in 32 bits, as in ONNX Runtime.
    assert_eq!(n.types(), ["float32[1, 3, 7, 2]"]);
    let n = node("Resize", 18)
        .float(&[1, 3, 4, 6])
        .omit()
        .omit()
        .ints(&[8, 8])
        .int_list("axes", &[2, 3])
        .text("keep_aspect_ratio_policy", "not_larger");
    assert_eq!(n.types(), ["float32[1, 3, 5, 8]"]);
}

#[test]
fn user_errors_name_the_values() {
    let n = node("Resize", 13).float(&[1, 3, 4, 4]).omit();
    assert!(n.floats(&[2], &[2.0, 2.0]).error().contains("scales [2.0, 2.0] has 2 values, 4 are needed"));
    let n = node("Resize", 13).float(&[1, 3, 4, 4]).omit();
    assert!(n.floats(&[4], &[1.0, 1.0, 0.0, 2.0]).error().contains("0 is not above 0"));
    assert!(node("Resize", 13).float(&[1, 3, 4, 4]).error().contains("neither scales nor sizes"));
    let n = node("Upsample", 9).float(&[1, 3]).floats(&[2], &[1.0, 2.0]).text("mode", "sinc");
    assert!(n.error().contains("\"sinc\""));
}

#[test]
fn native_ops_only_where_they_are_exact() {
    let image = |scales: &[f32]| node("Resize", 13).float(&[1, 2, 4, 4]).omit().floats(&[4], scales);
    let ops = |n: &crate::ops::testing::OneNode| op_types(&n.lower().unwrap()).join(" ");
    let twice = image(&[1.0, 1.0, 2.0, 2.0]);
    assert!(ops(&twice).contains("ResizeNearestNeighbor"));
    assert!(ops(&twice.text("mode", "linear")).contains("Resize"));
    // 1.3 * 4 is cut to 5: the scale in effect is not 5 / 4.
    let odd = image(&[1.0, 1.0, 1.3, 1.3]).text("mode", "linear");
    assert!(ops(&odd).contains("MatMul") && !ops(&odd).contains("Resize "));
    let half = image(&[1.0, 1.0, 0.5, 0.5]).text("coordinate_transformation_mode", "asymmetric");
    assert!(ops(&half).contains("StridedSlice"));
    let ints = node("Resize", 13).input(DataType::I32, &[1, 1, 2, 2]).omit().floats(&[4], &[1.0, 1.0, 2.0, 1.0]);
    assert_eq!(ints.run(&[vec![1.0, 2.0, 3.0, 4.0]]), [[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]]);
    assert!(ints.text("mode", "linear").refusal().contains("interpolation of int32"));
}

#[test]
fn constants_fold() {
    let x = Tensor::from_i64(vec![1, 1, 2, 2], &[1, 2, 3, 4]);
    let n = node("Resize", 13).constant(x).omit().floats(&[4], &[1.0, 1.0, 1.0, 2.0]);
    assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [1, 1, 2, 2, 3, 3, 4, 4]);
    let n = node("Resize", 13).floats(&[1, 1, 1, 2], &[1.0, 3.0]).omit().floats(&[4], &[1.0, 1.0, 1.0, 2.0]);
    let n = n.text("mode", "linear");
    assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 1.5, 2.5, 3.0]);
}
