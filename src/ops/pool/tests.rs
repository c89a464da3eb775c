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
    // Windows at the borders count fewer elements: cut out, scaled by a number and joined again, along both axes.
    let border =
        ["StridedSlice", "ElementWiseMultiply", "StridedSlice", "StridedSlice", "ElementWiseMultiply", "Concat"];
    let types = op_types(&graph);
    assert_eq!(types.windows(6).filter(|w| *w == border).count(), 2, "{types:?}");
    let even = node("MaxPool", 12)
        .float(&[1, 2, 6, 6])
        .int_list("kernel_shape", &[2, 2])
        .int_list("strides", &[2, 2])
        .int_list("pads", &[1, 1, 1, 1]);
    assert!(op_types(&even.lower().unwrap()).contains(&"Pad"));
}

#[test]
fn small_strided_means_need_no_weights() {
    let n = |include_pad: i64| {
        node("AveragePool", 19)
            .float(&[1, 1, 4, 4])
            .int_list("kernel_shape", &[3, 3])
            .int_list("strides", &[2, 2])
            .int_list("pads", &[1, 1, 1, 1])
            .int("count_include_pad", include_pad)
    };
    let types = op_types(&n(0).lower().unwrap()).join(" ");
    assert!(!types.contains("Conv") && types.contains("StridedSlice"), "{types}");
    let x: Vec<f64> = (0..16).map(f64::from).collect();
    // Means of the 2x2, 2x3, 3x2 and 3x3 corners of 0..16.
    let close = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-3);
    let y = n(0).run(std::slice::from_ref(&x)).remove(0);
    assert!(close(&y, &[2.5, 4.0, 8.5, 10.0]), "{y:?}");
    // Padding counts: sums over nine.
    let y = n(1).run(&[x]).remove(0);
    assert!(close(&y, &[10.0 / 9.0, 24.0 / 9.0, 51.0 / 9.0, 10.0]), "{y:?}");
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
