use crate::ir::DataType;
use crate::ops::testing::{node, op_types};

#[test]
fn sizes_with_free_dimensions() {
    let n = node("MaxPool", 12).float(&[-1, 8, -2, 16]).int_list("kernel_shape", &[3, 3]).int_list("strides", &[2, 2]);
    assert_eq!(n.types(), ["float32[d1, 8, floor((d2 - 3)/(2)) + 1, 7]"]);
    assert_eq!(node("GlobalAveragePool", 1).float(&[-1, 8, -2, 16]).types(), ["float32[d1, 8, 1, 1]"]);
}

#[test]
fn user_errors_name_the_values() {
    let n = |kernel: &[i64]| node("AveragePool", 11).float(&[1, 2, 4, 4]).int_list("kernel_shape", kernel);
    assert!(n(&[2]).error().contains("kernel_shape [2] has 1 values for 2 spatial axes"));
    assert!(n(&[5, 5]).error().contains("over 5 elements does not fit spatial axis 0 of 4"));
    assert!(node("MaxPool", 12).float(&[1, 2, 4, 4]).error().contains("kernel_shape is required"));
    assert!(n(&[2, 2]).text("auto_pad", "UPPER").error().contains("\"UPPER\""));
}

#[test]
fn native_ops_only_where_they_are_right() {
    let plain = node("AveragePool", 11).float(&[1, 2, 6, 6]).int_list("kernel_shape", &[3, 3]);
    assert!(op_types(&plain.lower().unwrap()).contains(&"PoolAvg2d"));
    let padded =
        node("AveragePool", 11).float(&[1, 2, 6, 6]).int_list("kernel_shape", &[2, 2]).int_list("pads", &[1, 1, 1, 1]);
    let graph = padded.lower().unwrap();
    assert!(op_types(&graph).contains(&"DepthWiseConv2d"), "{:?}", op_types(&graph));
    let even = node("MaxPool", 12)
        .float(&[1, 2, 6, 6])
        .int_list("kernel_shape", &[2, 2])
        .int_list("strides", &[2, 2])
        .int_list("pads", &[1, 1, 1, 1]);
    assert!(op_types(&even.lower().unwrap()).contains(&"Pad"));
}

#[test]
fn bytes_are_pooled_as_real_numbers() {
    let n = node("MaxPool", 12).input(DataType::U8, &[1, 1, 2, 2]).int_list("kernel_shape", &[2, 2]);
    assert_eq!(n.run(&[vec![3.0, 200.0, 7.0, 1.0]]), [[200.0]]);
    let n = node("MaxPool", 12).input(DataType::I32, &[1, 1, 2, 2]).int_list("kernel_shape", &[2, 2]);
    assert!(n.refusal().contains("MaxPool of int32"));
}

#[test]
fn unpooling_scatters() {
    // Two maxima of a 4x4 image, indices in its row-major order.
    let n = node("MaxUnpool", 11)
        .float(&[1, 1, 1, 2])
        .constant(crate::ir::Tensor::from_i64(vec![1, 1, 1, 2], &[1, 6]))
        .int_list("kernel_shape", &[2, 2])
        .int_list("strides", &[2, 2]);
    assert_eq!(n.types(), ["float32[1, 1, 2, 4]"]);
    assert_eq!(n.run(&[vec![5.0, 6.0]]), [[0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]]);
}
