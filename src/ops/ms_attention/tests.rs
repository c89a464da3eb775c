//! Numbers are ONNX Runtime's (or, where its CPU kernel has no such form, follow from the definition), on operands
//! that repeat a short ramp.

use super::super::testing::{OneNode, assert_close, node};
use crate::ir::{DataType, Tensor};

/// `first + step * (5 i mod m)`
fn saw(shape: &[i64], first: f64, step: f64, m: usize) -> Vec<f64> {
    let n = shape.iter().product::<i64>() as usize;
    (0..n).map(|i| first + step * (5 * i % m) as f64).collect()
}

fn weights(n: OneNode, shape: &[usize], first: f64, step: f64, m: usize) -> OneNode {
    let dims: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
    let v = saw(&dims, first, step, m);
    n.constant(Tensor::from_f64(DataType::F32, shape.to_vec(), &v).unwrap())
}

fn plain() -> OneNode {
    let n = node("com.microsoft::Attention", 1).float(&[1, 3, 4]).int("num_heads", 2);
    weights(weights(n, &[4, 12], -0.5, 0.2, 6), &[12], -0.3, 0.1, 9)
}

fn x() -> Vec<f64> {
    saw(&[1, 3, 4], -0.7, 0.2, 7)
}

#[test]
fn attention_with_masks() {
    let want = [
        -0.10866, -0.36955, 0.26778, 0.00333, -0.10981, -0.36994, 0.26816, 0.00447, -0.11095, -0.37032, 0.26854,
        0.00561,
    ];
    let by_key = plain().input(DataType::I32, &[1, 3]);
    assert_close(&by_key.run(&[x(), vec![1.0, 1.0, 0.0]])[0], &want, 2e-5);
    let by_length = plain().input(DataType::I32, &[1]);
    assert_close(&by_length.run(&[x(), vec![2.0]])[0], &want, 2e-5);
    let causal = plain().int("unidirectional", 1);
    let want = [-0.2, -0.4, 0.3, 0.1, -0.10981, -0.36994, 0.26816, 0.00447, -0.02255, -0.34085, 0.2361, -0.09169];
    assert_close(&causal.run(&[x()])[0], &want, 2e-5);
    assert!(plain().input(DataType::I32, &[5]).refusal().contains("[5]"));
}

#[test]
fn attention_with_past() {
    let n = plain().omit().float(&[2, 1, 2, 1, 2]).int("unidirectional", 1).outputs(2);
    assert_eq!(n.types(), ["float32[1, 3, 4]", "float32[2, 1, 2, 4, 2]"]);
    let y = n.run(&[x(), saw(&[8], -0.2, 0.1, 5)]);
    let want = [
        -0.2, -0.29189, 0.02271, -0.06637, -0.14011, -0.31284, 0.10599, -0.06636, -0.06325, -0.30854, 0.13323, -0.11724,
    ];
    assert_close(&y[0], &want, 2e-5);
    assert_close(&y[1][..8], &[-0.2, -0.2, 0.0, 0.7, -0.06, 0.52, -0.12, 0.34], 1e-5);
}

#[test]
fn attention_with_a_bias_of_scores() {
    let n = plain().omit().omit().float(&[1, 2, 3, 3]);
    let want = [
        -0.01644, -0.33881, 0.23408, -0.09775, -0.01949, -0.33983, 0.23509, -0.09473, -0.02255, -0.34085, 0.2361,
        -0.09169,
    ];
    assert_close(&n.run(&[x(), saw(&[18], -1.0, 0.5, 5)])[0], &want, 2e-5);
}

fn multi_head() -> OneNode {
    node("com.microsoft::MultiHeadAttention", 1)
        .float(&[1, 2, 4])
        .float(&[1, 3, 4])
        .float(&[1, 3, 4])
        .int("num_heads", 2)
}

fn operands() -> Vec<Vec<f64>> {
    vec![saw(&[8], -0.7, 0.2, 7), saw(&[12], -0.5, 0.2, 6), saw(&[12], -0.3, 0.1, 9)]
}

#[test]
fn multi_head_attention() {
    let n = weights(multi_head(), &[12], -0.3, 0.1, 9);
    let want = [-0.04919, -0.1645, 0.20929, -0.00759, 0.00196, -0.21491, 0.21669, -0.0174];
    assert_close(&n.run(&operands())[0], &want, 2e-5);
    let masked = multi_head().omit().constant(Tensor::from_i32(vec![1, 3], &[1, 1, 0]));
    let want = [-0.21818, 0.28182, -0.10424, 0.39576, -0.19576, 0.30424, -0.10141, 0.39859];
    assert_close(&masked.run(&operands())[0], &want, 2e-5);
    let cross = node("com.microsoft::MultiHeadAttention", 1)
        .float(&[1, 2, 4])
        .float(&[1, 2, 3, 2])
        .float(&[1, 2, 3, 2])
        .int("num_heads", 2);
    assert_eq!(cross.types(), ["float32[1, 2, 4]"]);
    let want = [-0.21332, 0.28668, 0.10858, -0.02502, -0.19738, 0.30262, 0.11075, -0.02404];
    assert_close(&cross.run(&operands())[0], &want, 2e-5);
}

#[test]
fn multi_head_attention_with_past() {
    let n = node("com.microsoft::MultiHeadAttention", 1).float(&[1, 3, 4]).float(&[1, 3, 4]).float(&[1, 3, 4]);
    let n = n.omit().omit().omit().float(&[1, 2, 1, 2]).float(&[1, 2, 1, 2]);
    let n = n.int("num_heads", 2).int("unidirectional", 1).outputs(3);
    let mut inputs = operands();
    inputs[0] = saw(&[12], -0.7, 0.2, 7);
    inputs.extend([saw(&[4], -0.2, 0.1, 5), saw(&[4], -0.1, 0.1, 5)]);
    let y = n.run(&inputs);
    let want = [
        -0.21474, 0.07211, -0.14647, 0.08588, -0.16356, 0.1683, -0.10085, 0.20143, -0.09025, 0.04077, -0.02332, 0.16448,
    ];
    assert_close(&y[0], &want, 2e-5);
    assert_close(&y[1][..8], &[-0.2, -0.2, -0.5, 0.5, -0.1, -0.3, 0.3, 0.1], 1e-6);
}

#[test]
fn packed_operands_are_taken_apart() {
    let n = node("com.microsoft::MultiHeadAttention", 1).float(&[1, 3, 2, 3, 2]).int("num_heads", 2);
    let packed = saw(&[36], -0.7, 0.2, 7);
    let part = |which: usize| -> Vec<f64> {
        (0..12).map(|i| packed[(i / 4 * 2 + i / 2 % 2) * 6 + which * 2 + i % 2]).collect()
    };
    let apart = node("com.microsoft::MultiHeadAttention", 1)
        .float(&[1, 3, 4])
        .float(&[1, 3, 4])
        .float(&[1, 3, 4])
        .int("num_heads", 2);
    let want = apart.run(&[part(0), part(1), part(2)]);
    assert_close(&n.run(std::slice::from_ref(&packed))[0], &want[0], 1e-9);
}

fn grouped(steps: i64, past: i64, total: i32) -> OneNode {
    node("com.microsoft::GroupQueryAttention", 1)
        .float(&[1, steps, 16])
        .float(&[1, steps, 8])
        .float(&[1, steps, 8])
        .float(&[1, 1, past, 8])
        .float(&[1, 1, past, 8])
        .input(DataType::I32, &[1])
        .constant(Tensor::from_i32(vec![], &[total]))
        .int("num_heads", 2)
        .int("kv_num_heads", 1)
        .outputs(3)
}

fn grouped_inputs(steps: i64, past: i64, last: f64) -> Vec<Vec<f64>> {
    vec![
        saw(&[steps * 16], -0.7, 0.2, 7),
        saw(&[steps * 8], -0.5, 0.2, 6),
        saw(&[steps * 8], -0.3, 0.1, 9),
        saw(&[past * 8], -0.2, 0.1, 5),
        saw(&[past * 8], -0.1, 0.1, 5),
        vec![last],
    ]
}

const CHUNK: [f64; 32] = [
    -0.19753, 0.04629, -0.14876, 0.09505, -0.1, 0.14381, -0.05124, 0.19258, -0.20353, 0.0553, -0.15177, 0.10707, -0.1,
    0.15884, -0.04823, 0.2106, -0.10636, -0.0599, -0.04206, 0.0044, 0.02224, 0.06869, 0.08653, 0.13299, -0.09714,
    -0.06985, -0.02969, -0.0024, 0.03777, 0.06505, 0.10522, 0.13251,
];

#[test]
fn grouped_prompt_without_past() {
    let n = node("com.microsoft::GroupQueryAttention", 1).float(&[1, 2, 16]).float(&[1, 2, 8]).float(&[1, 2, 8]);
    let n = n.omit().omit().input(DataType::I32, &[1]).input(DataType::I32, &[]).int("num_heads", 2);
    let n = n.int("kv_num_heads", 1).outputs(3);
    let y = n.run(&[grouped_inputs(2, 1, 0.0)[..3].to_vec(), vec![]].concat());
    let want = [
        -0.10989, -0.03764, -0.00989, 0.06236, 0.09011, 0.16236, 0.19011, 0.26236, -0.09576, -0.0553, 0.00424, 0.0447,
        0.10424, 0.1447, 0.20424, 0.2447,
    ];
    assert_close(&y[0][16..], &want, 2e-5);
    assert_close(&y[0][..4], &[-0.3, 0.2, -0.2, 0.3], 1e-6);
}

#[test]
fn grouped_step_into_a_buffer() {
    let appended = grouped(1, 3, 4);
    assert_eq!(appended.types()[1], "float32[1, 1, 4, 8]");
    let y = appended.run(&grouped_inputs(1, 3, 3.0));
    let want = [
        -0.14817, -0.02775, -0.12408, -0.00367, -0.1, 0.02042, -0.07592, 0.0445, -0.1527, -0.02095, -0.12635, 0.0054,
        -0.1, 0.03175, -0.07365, 0.05809,
    ];
    assert_close(&y[0], &want, 2e-5);
    assert_close(&y[1][24..], &[-0.5, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, 0.5], 1e-6);
    // A buffer that is longer than what is filled: the first unfilled row is written.
    let y = grouped(1, 3, 2).run(&grouped_inputs(1, 3, 1.0));
    assert_close(&y[0], &CHUNK[..16], 2e-5);
    assert_close(&y[1][8..16], &[-0.5, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, 0.5], 1e-6);
}

#[test]
fn grouped_chunk_into_a_buffer() {
    let y = grouped(2, 3, 3).run(&grouped_inputs(2, 3, 2.0));
    assert_close(&y[0], &CHUNK, 2e-5);
    assert_close(&y[2][8..12], &[-0.3, 0.2, -0.2, 0.3], 1e-6);
    assert_close(&y[2][16..20], &[0.1, -0.3, 0.2, -0.2], 1e-6);
}

#[test]
fn grouped_window_cap_and_sinks() {
    let inputs = grouped_inputs(2, 3, 2.0);
    let y = grouped(2, 3, 3).int("local_window_size", 2).real("softcap", 1.5).run(&inputs);
    assert_close(&y[0][16..20], &[-0.10988, -0.03765, -0.00988, 0.06235], 2e-5);
    let y = grouped(2, 3, 3).int("smooth_softmax", 1).run(&inputs);
    assert_close(&y[0][..4], &[-0.13491, 0.03162, -0.10161, 0.06492], 2e-5);
    assert_close(&y[0][16..20], &[-0.07953, -0.04479, -0.03145, 0.00329], 2e-5);
    let sink = grouped(2, 3, 3).omit().omit().omit().omit().floats(&[2], &[0.5, -0.5]);
    let y = sink.run(&inputs);
    assert_close(&y[0][..2], &[-0.1119, 0.02622], 2e-5);
    assert_close(&y[0][24..26], &[-0.08223, -0.05913], 2e-5);
}

#[test]
fn grouped_with_rotary_positions() {
    for (interleaved, y0, k1) in [
        (0, [-0.19882, 0.04822, -0.14941, 0.09763], [-0.2, 0.02, 0.04, -0.02]),
        (1, [-0.19636, 0.04453, -0.14818, 0.09271], [-0.3, -0.2, 0.0, 0.1]),
    ] {
        let n = node("com.microsoft::GroupQueryAttention", 1)
            .float(&[1, 1, 16])
            .float(&[1, 1, 16])
            .float(&[1, 1, 16])
            .float(&[1, 1, 2, 16])
            .float(&[1, 1, 2, 16])
            .input(DataType::I32, &[1])
            .constant(Tensor::from_i32(vec![], &[2]))
            .int("num_heads", 1)
            .int("kv_num_heads", 1)
            .int("do_rotary", 1)
            .int("rotary_interleaved", interleaved)
            .outputs(3);
        let n = weights(weights(n, &[4, 8], 0.1, 0.2, 5), &[4, 8], -0.3, 0.2, 6);
        let inputs = [
            saw(&[16], -0.7, 0.2, 7),
            saw(&[16], -0.5, 0.2, 6),
            saw(&[16], -0.3, 0.1, 9),
            saw(&[32], -0.2, 0.1, 5),
            saw(&[32], -0.1, 0.1, 5),
            vec![1.0],
        ];
        let y = n.run(&inputs);
        assert_close(&y[0][..4], &y0, 2e-5);
        assert_close(&y[1][16..20], &k1, 1e-6);
    }
}

#[test]
fn rotary_embedding_from_an_offset() {
    let n =
        |positions: &[i64]| node("com.microsoft::RotaryEmbedding", 1).float(&[1, 2, 8]).input(DataType::I64, positions);
    let tables = |n| weights(weights(n, &[4, 2], 0.1, 0.2, 5), &[4, 2], -0.3, 0.2, 6);
    let x = saw(&[16], -0.7, 0.2, 7);
    let want = [-0.02, 0.18, -0.36, 0.04, 0.2, 0.22, 0.22, -0.04, 0.08, 0.04, -0.02, 0.06, 0.08, 0.0, -0.06, 0.06];
    assert_close(&tables(n(&[1])).run(&[x.clone(), vec![1.0]])[0], &want, 1e-6);
    let want = [-0.1, -0.04, -0.06, -0.04, 0.04, 0.06, -0.1, -0.04, 0.0, -0.1, -0.4, -0.3, -0.08, -0.06, -0.28, -0.46];
    assert_close(&tables(n(&[1, 2])).int("interleaved", 1).run(&[x, vec![2.0, 0.0]])[0], &want, 1e-6);
}
