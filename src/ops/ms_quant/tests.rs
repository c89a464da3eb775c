//! Numbers are ONNX Runtime's, on bytes `37 i mod 251`.

use super::super::testing::{OneNode, assert_close, node, op_types};
use crate::ir::{DataType, Tensor};

/// `first + step * (5 i mod m)`
fn saw(n: usize, first: f64, step: f64, m: usize) -> Vec<f64> {
    (0..n).map(|i| first + step * (5 * i % m) as f64).collect()
}

fn bytes(shape: &[usize]) -> Tensor {
    let v: Vec<i128> = (0..shape.iter().product::<usize>()).map(|i| (i * 37 % 251) as i128).collect();
    Tensor::from_i128(DataType::U8, shape.to_vec(), &v).unwrap()
}

fn reals(n: OneNode, shape: &[usize], values: &[f64]) -> OneNode {
    n.constant(Tensor::from_f64(DataType::F32, shape.to_vec(), values).unwrap())
}

fn nbits(columns: i64, bits: i64, factor: f64) -> OneNode {
    let n = node("com.microsoft::MatMulNBits", 1).float(&[1, 2, columns]);
    let n = n.constant(bytes(&[3, 2, bits as usize * 2]));
    let scales: Vec<f64> = saw(6, 0.1, 0.05, 5).iter().map(|s| s * factor).collect();
    reals(n, &[6], &scales).int("K", columns).int("N", 3).int("bits", bits).int("block_size", 16)
}

#[test]
fn weights_of_few_bits() {
    let x = saw(64, -0.7, 0.2, 7);
    let run = |n: &OneNode| n.run(std::slice::from_ref(&x)).remove(0);
    assert_eq!(op_types(&nbits(32, 4, 1.0).lower().unwrap()), ["Reshape", "FullyConnected", "Reshape"]);
    assert_close(&run(&nbits(32, 4, 1.0)), &[1.39, -0.53, 0.76, -0.33, 0.47, -0.9], 1e-5);
    let zeros = Tensor::from_i128(DataType::U8, vec![3], &[0x73, 0x85, 0x2a]).unwrap();
    let want = [0.29, -1.07, -0.08, -0.97, 0.23, -2.18];
    assert_close(&run(&nbits(32, 4, 1.0).constant(zeros)), &want, 1e-5);
    let real = reals(nbits(32, 4, 1.0), &[6], &saw(6, 5.0, 0.5, 5));
    assert_close(&run(&real), &[0.25, -1.67, -0.38, -1.29, -0.49, -1.86], 1e-5);
    assert_close(&run(&nbits(32, 8, 0.1)), &[2.654, 0.332, -3.245, -4.582, 5.22, -3.301], 1e-5);
    assert_close(&run(&nbits(32, 2, 1.0)), &[0.63, 0.5, 0.44, 0.25, 0.24, 0.26], 1e-5);
}

#[test]
fn a_last_block_that_is_not_full() {
    let n = reals(nbits(20, 4, 1.0).omit().omit(), &[3], &[1.0, 2.0, 3.0]);
    let full = saw(64, -0.7, 0.2, 7);
    let x = [&full[..20], &full[32..52]].concat();
    assert_close(&n.run(&[x])[0], &[1.2, 1.82, 3.25, 0.36, 1.62, 2.79], 1e-5);
}

#[test]
fn user_errors_of_few_bits() {
    let n = node("com.microsoft::MatMulNBits", 1).float(&[1, 2, 30]).constant(bytes(&[3, 2, 8]));
    let n = reals(n, &[6], &saw(6, 0.1, 0.05, 5)).int("K", 32).int("N", 3).int("block_size", 16);
    assert_eq!(n.error(), "the input has 30 columns, and attribute K is 32");
    let n = node("com.microsoft::MatMulNBits", 1).float(&[1, 2, 32]).constant(bytes(&[3, 2, 8]));
    let n = reals(n, &[4], &saw(4, 0.1, 0.05, 5)).int("K", 32).int("N", 3).int("block_size", 16);
    assert_eq!(n.error(), "4 scales for 3 columns of 2 blocks");
}

fn gather(data: Tensor, scales: &[usize], first: f64, step: f64) -> OneNode {
    let n = node("com.microsoft::GatherBlockQuantized", 1).constant(data).input(DataType::I64, &[1, 2]);
    let values = saw(scales.iter().product(), first, step, 5);
    reals(n, scales, &values).int("block_size", 16).int("gather_axis", 0).int("quantize_axis", 1)
}

#[test]
fn rows_of_a_quantised_table() {
    let at = [vec![2.0, 0.0]];
    let n = gather(bytes(&[4, 16]), &[4, 2], 0.1, 0.05);
    assert_eq!(n.types(), ["float32[1, 2, 32]"]);
    let y = n.run(&at).remove(0);
    assert_close(&y[..6], &[-0.4, 0.3, 0.1, 0.5, -0.5, -0.8], 1e-6);
    assert_close(
        &y[44..],
        &[
            0.6, 0.5, 0.0, -0.8, 0.5, -0.6, -0.6, -0.3, -0.1, -0.1, 0.4, 0.1, -0.7, 0.4, -0.2, 0.6, -0.8, -0.7, -0.3,
            -0.5,
        ],
        1e-6,
    );
    let n = gather(bytes(&[4, 16]), &[4, 1], 0.1, 0.05).int("bits", 8);
    assert_close(&n.run(&at)[0][..4], &[5.2, 8.9, -12.5, -8.8], 1e-5);
    let table = |dtype, shift: i128| {
        let v: Vec<i128> = (0..64).map(|i| i * 5 % 16 - shift).collect();
        Tensor::from_i128(dtype, vec![4, 16], &v).unwrap()
    };
    let n = gather(table(DataType::U4, 0), &[4, 1], 1.0, 1.0);
    assert_close(&n.run(&at)[0][..4], &[0.0, 5.0, 10.0, 15.0], 1e-6);
    let n = gather(table(DataType::I4, 8), &[4, 1], 1.0, 1.0);
    assert_close(&n.run(&at)[0][..4], &[-8.0, -3.0, 2.0, 7.0], 1e-6);
}

#[test]
fn shapes_of_quantised_ops() {
    let u8s = |n: OneNode, shape: &[i64]| n.input(DataType::U8, shape).floats(&[], &[0.1]).input(DataType::U8, &[]);
    let add = u8s(u8s(node("com.microsoft::QLinearAdd", 1), &[2, 3]), &[3]).floats(&[], &[0.1]);
    assert_eq!(add.types(), ["uint8[2, 3]"]);
    assert!(add.refusal().contains("run time"));
    let pool = u8s(node("com.microsoft::QLinearAveragePool", 1), &[1, 4, 4, 8]).int("channels_last", 1);
    assert_eq!(pool.int_list("kernel_shape", &[2, 2]).int_list("strides", &[2, 2]).types(), ["uint8[1, 2, 2, 8]"]);
    let global = u8s(node("com.microsoft::QLinearGlobalAveragePool", 1), &[1, 8, 4, 4]);
    assert_eq!(global.types(), ["uint8[1, 8, 1, 1]"]);
    let concat = node("com.microsoft::QLinearConcat", 1).floats(&[], &[0.1]).input(DataType::U8, &[]);
    assert_eq!(u8s(u8s(concat, &[1, 2]), &[1, 3]).int("axis", 1).types(), ["uint8[1, 5]"]);
    let gemm = u8s(u8s(node("com.microsoft::QGemm", 1), &[2, 3]), &[4, 3]).int("transB", 1);
    assert_eq!(gemm.types(), ["float32[2, 4]"]);
    let mean = u8s(node("com.microsoft::QLinearReduceMean", 1), &[2, 3, 4]).int_list("axes", &[-1]).int("keepdims", 0);
    assert_eq!(mean.types(), ["uint8[2, 3]"]);
    let n = node("com.microsoft::DynamicQuantizeMatMul", 1).float(&[2, 3]).input(DataType::I8, &[3, 4]);
    let n = n.floats(&[], &[0.1]);
    assert_eq!(n.types(), ["float32[2, 4]"]);
    assert!(n.refusal().contains("close, but not equal"));
}
