//! Inference, folding and lowering of the quantisation ops.

use super::super::testing::{OneNode, node, op_types};
use super::*;

fn i8s(shape: &[usize], values: &[i128]) -> Tensor {
    Tensor::from_i128(DataType::I8, shape.to_vec(), values).unwrap()
}

#[test]
fn a_wrong_axis_is_the_users_error() {
    let n = || {
        node("DequantizeLinear", 13)
            .input(DataType::I8, &[8, 4, 3, 3])
            .input(DataType::F32, &[8])
            .input(DataType::I8, &[8])
    };
    assert_eq!(n().error(), "8 scales for a dimension of 4 (axis 1 of [8, 4, 3, 3])");
    assert_eq!(n().int("axis", 0).types(), ["float32[8, 4, 3, 3]"]);
    assert_eq!(n().int("axis", -4).types(), ["float32[8, 4, 3, 3]"]);
    assert_eq!(n().int("axis", 4).error(), "attribute axis: axis 4 is outside the range -4..4 of rank 4");
}

#[test]
fn both_spellings_of_an_axis_take_scale_i_for_channel_i() {
    for axis in [0, -2] {
        let n = node("DequantizeLinear", 13)
            .constant(i8s(&[3, 2], &[1, 2, 3, 4, 5, 6]))
            .floats(&[3], &[1.0, 10.0, 100.0])
            .constant(i8s(&[3], &[0, 1, 2]))
            .int("axis", axis);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 2.0, 20.0, 30.0, 300.0, 400.0]);
        assert_eq!(op_types(&n.lower().unwrap()).len(), 1);
    }
}

#[test]
fn blocks() {
    let x = Tensor::from_i128(DataType::I4, vec![2, 5], &[1, 2, 3, 4, 5, -1, -2, -3, -4, -5]).unwrap();
    let n = |scale: &[usize], block: i64| {
        let values: Vec<f32> = (1..=scale.iter().product::<usize>()).map(|v| v as f32).collect();
        node("DequantizeLinear", 21).constant(x.clone()).floats(scale, &values).int("axis", 1).int("block_size", block)
    };
    let y = n(&[2, 3], 2).fold().unwrap()[0].to_f32s().unwrap();
    assert_eq!(y, [1.0, 2.0, 6.0, 8.0, 15.0, -4.0, -8.0, -15.0, -20.0, -30.0]);
    assert_eq!(
        n(&[2, 3], 4).error(),
        "the scale is [2, 3]: for [2, 5] with blocks of 4 along axis 1, dimension 1 must be 2"
    );
    assert!(n(&[2, 3], 0).error().contains("block_size"));
}

#[test]
fn blocks_along_the_first_axis() {
    let n = node("DequantizeLinear", 21)
        .constant(i8s(&[4, 2], &[1, 2, 3, 4, 5, 6, 7, 8]))
        .floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .int("axis", 0)
        .int("block_size", 2);
    assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 4.0, 3.0, 8.0, 15.0, 24.0, 21.0, 32.0]);
}

#[test]
fn quantising_rounds_ties_to_even_and_saturates() {
    let n = node("QuantizeLinear", 13)
        .floats(&[6], &[0.5, 1.5, 2.5, -0.5, 1000.0, -1000.0])
        .floats(&[], &[1.0])
        .constant(Tensor::from_i128(DataType::U8, vec![], &[128]).unwrap());
    assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [128, 130, 130, 128, 255, 0]);
    assert_eq!(node("QuantizeLinear", 21).float(&[2]).floats(&[], &[1.0]).int("output_dtype", 5).types(), ["int16[2]"]);
    let zero = node("QuantizeLinear", 13).float(&[2]).floats(&[], &[0.0]);
    assert!(zero.refusal().contains("it must be a positive number"));
}

#[test]
fn dynamic_quantisation_of_a_constant() {
    // The example of the ONNX documentation.
    let n = node("DynamicQuantizeLinear", 11).floats(&[6], &[0.0, 2.0, -3.0, -2.5, 1.34, 0.5]).outputs(3);
    let y = n.fold().unwrap();
    assert_eq!(y[0].to_i64s().unwrap(), [153, 255, 0, 26, 221, 179]);
    assert!((y[1].scalar_f64().unwrap() - 0.019_607_844).abs() < 1e-8);
    assert_eq!(y[2].scalar_i64(), Some(153));
}

#[test]
fn integer_products() {
    let a = Tensor::from_i128(DataType::U8, vec![2, 3], &[11, 7, 3, 10, 6, 2]).unwrap();
    let b = Tensor::from_i128(DataType::U8, vec![3, 2], &[1, 4, 2, 5, 3, 6]).unwrap();
    let zero = |v: i128| Tensor::from_i128(DataType::U8, vec![], &[v]).unwrap();
    let n = node("MatMulInteger", 10).constant(a).constant(b).constant(zero(12)).constant(zero(0));
    assert_eq!(n.types(), ["int32[2, 2]"]);
    assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [-38, -83, -44, -98]);
}

fn qlinear_conv(scales: i64) -> OneNode {
    node("QLinearConv", 10)
        .input(DataType::U8, &[1, 3, 4, 4])
        .floats(&[], &[0.1])
        .constant(Tensor::from_i128(DataType::U8, vec![], &[0]).unwrap())
        .input(DataType::I8, &[2, 3, 1, 1])
        .input(DataType::F32, &[scales])
        .input(DataType::I8, &[scales])
        .floats(&[], &[0.1])
        .constant(Tensor::from_i128(DataType::I8, vec![], &[0]).unwrap())
}

#[test]
fn convolutions() {
    assert_eq!(qlinear_conv(2).types(), ["int8[1, 2, 4, 4]"]);
    assert_eq!(qlinear_conv(3).error(), "w_scale has 3 elements for 2 output channels");
    let same = qlinear_conv(1).text("auto_pad", "SAME_UPPER").int_list("strides", &[3, 2]);
    assert_eq!(same.types(), ["int8[1, 2, 2, 2]"]);
    let n = node("ConvInteger", 10).input(DataType::U8, &[1, 1, 3, 3]).input(DataType::U8, &[1, 1, 2, 2]);
    assert_eq!(n.int_list("pads", &[1, 1, 1, 1]).types(), ["int32[1, 1, 4, 4]"]);
}

#[test]
fn weights_in_8_bit_floats() {
    let x = Tensor::from_raw(DataType::F8E4M3FN, vec![3], bytes::Bytes::from_static(&[0x38, 0xb8, 0x40])).unwrap();
    let n = node("DequantizeLinear", 19).constant(x).floats(&[], &[0.5]);
    assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [0.5, -0.5, 1.0]);
}

#[test]
fn scales_of_an_axis_and_of_blocks_are_arithmetic() {
    let x = [0.0, 162.0, 10.0, 100.0, 232.0, 20.0];
    let n = node("QuantizeLinear", 13)
        .float(&[1, 3, 2])
        .floats(&[3], &[2.0, 4.0, 5.0])
        .constant(Tensor::from_i128(DataType::U8, vec![3], &[84, 24, 196]).unwrap());
    // numpy: np.clip(np.rint(x / s) + z, 0, 255)
    assert_eq!(n.run(&[x.to_vec()])[0], [84.0, 165.0, 26.0, 49.0, 242.0, 200.0]);
    let n = node("QuantizeLinear", 21)
        .float(&[2, 3])
        .floats(&[2, 2], &[2.0, 4.0, 5.0, 10.0])
        .int("axis", 1)
        .int("block_size", 2)
        .int("output_dtype", 3);
    assert_eq!(n.run(&[x.to_vec()])[0], [0.0, 81.0, 2.0, 20.0, 46.0, 2.0]);
    let n = node("DequantizeLinear", 13)
        .input(DataType::U8, &[1, 3, 2])
        .floats(&[3], &[2.0, 4.0, 5.0])
        .constant(Tensor::from_i128(DataType::U8, vec![3], &[84, 24, 196]).unwrap());
    let y = n.run(&[vec![84.0, 165.0, 26.0, 49.0, 242.0, 200.0]]);
    assert_eq!(y[0], [0.0, 162.0, 8.0, 100.0, 230.0, 20.0]);
}

#[test]
fn a_scale_computed_in_16_bits_is_approximate() {
    let n = node("DynamicQuantizeLinear", 11).float(&[6]).outputs(3);
    assert!(n.refusal().contains("may be one off"));
}
