//! Numbers are those of the ONNX reference implementation, on operands that repeat a short ramp.

use super::super::testing::{OneNode, assert_close, node, op_types};
use crate::ir::{DataType, Tensor};

/// `first + step * (5 i mod m)`
fn saw(shape: &[i64], first: f64, step: f64, m: usize) -> Vec<f64> {
    let n = shape.iter().product::<i64>() as usize;
    (0..n).map(|i| first + step * (5 * i % m) as f64).collect()
}

fn heads() -> [Vec<f64>; 3] {
    [saw(&[1, 4, 2, 4], -0.7, 0.2, 7), saw(&[1, 2, 2, 4], -0.5, 0.2, 6), saw(&[1, 2, 2, 2], -0.3, 0.1, 9)]
}

fn past() -> [Vec<f64>; 2] {
    [saw(&[1, 2, 1, 4], -0.2, 0.1, 5), saw(&[1, 2, 1, 2], -0.1, 0.1, 5)]
}

fn grouped() -> OneNode {
    node("Attention", 24).float(&[1, 4, 2, 4]).float(&[1, 2, 2, 4]).float(&[1, 2, 2, 2])
}

fn bools(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::from_bools(shape.to_vec(), &values.iter().map(|v| *v != 0).collect::<Vec<_>>())
}

fn with_past(n: OneNode) -> OneNode {
    n.float(&[1, 2, 1, 4]).float(&[1, 2, 1, 2])
}

fn inputs(mask: Option<Vec<f64>>) -> Vec<Vec<f64>> {
    heads().into_iter().chain(mask).chain(past()).collect()
}

const UNMASKED: [f64; 16] = [
    -0.20752, 0.06128, -0.18953, 0.11165, -0.19099, 0.03649, -0.19046, 0.14686, -0.1, 0.13604, -0.06864, 0.24066, -0.1,
    0.14475, -0.06151, 0.27295,
];

#[test]
fn causal_self_attention_of_rank_3() {
    let n = node("Attention", 23).float(&[1, 3, 8]).float(&[1, 3, 8]).float(&[1, 3, 8]);
    let n = n.int("q_num_heads", 2).int("kv_num_heads", 2).int("is_causal", 1);
    assert_eq!(n.types(), ["float32[1, 3, 8]"]);
    let shape = [1, 3, 8];
    let y = n.run(&[saw(&shape, -0.7, 0.2, 7), saw(&shape, -0.5, 0.2, 6), saw(&shape, -0.3, 0.1, 9)]);
    let want = [
        -0.3, 0.2, -0.2, 0.3, -0.1, 0.4, 0.0, 0.5, -0.08602, -0.06747, 0.01398, 0.03253, 0.0529, 0.20887, 0.1529,
        0.30887, 0.1, 0.00594, -0.10594, 0.10594, -0.00143, 0.20479, 0.09857, 0.30479,
    ];
    assert_close(&y[0], &want, 2e-5);
}

#[test]
fn grouped_heads_with_past_mask_and_cap() {
    let mask = [1, 1, 0, 1, 1, 1];
    let attrs = |n: OneNode| n.real("softcap", 1.5).real("scale", 0.7).int("qk_matmul_output_mode", 3).outputs(4);
    let constant = attrs(with_past(grouped().constant(bools(&[2, 3], &mask))));
    let run_time = attrs(with_past(grouped().input(DataType::Bool, &[2, 3])));
    let values = mask.iter().map(|v| f64::from(*v)).collect();
    let probabilities = [
        0.4624, 0.5376, 0.0, 0.39765, 0.29293, 0.30942, 0.54504, 0.45496, 0.0, 0.32537, 0.22993, 0.4447, 0.52792,
        0.47208, 0.0, 0.3814, 0.30499, 0.31361, 0.5105, 0.4895, 0.0, 0.3311, 0.28396, 0.38495,
    ];
    for y in [constant.run(&inputs(None)), run_time.run(&inputs(Some(values)))] {
        assert_close(&y[0], &UNMASKED, 2e-5);
        assert_close(&y[1][..8], &[-0.2, -0.2, -0.2, -0.2, -0.5, 0.5, 0.3, 0.1], 1e-6);
        assert_close(&y[3], &probabilities, 2e-5);
    }
    assert_eq!(constant.types()[1], "float32[1, 2, 3, 4]");
    let capped = with_past(grouped().omit()).real("softcap", 1.5).real("scale", 0.7).int("qk_matmul_output_mode", 1);
    assert_close(&capped.outputs(4).run(&inputs(None))[3][..3], &[0.13959, 0.29029, -0.15346], 2e-5);
}

#[test]
fn causal_with_past_counts_the_past() {
    let n = with_past(grouped().omit()).int("is_causal", 1);
    let want = [
        -0.20549, 0.05824, -0.19251, 0.11793, -0.19351, 0.04026, -0.19272, 0.14267, -0.1, 0.14001, -0.06806, 0.24822,
        -0.1, 0.14625, -0.06294, 0.27106,
    ];
    assert_close(&n.run(&inputs(None))[0], &want, 2e-5);
}

#[test]
fn a_query_without_keys_gives_zero() {
    let want = [
        0.0, 0.0, -0.19251, 0.11793, 0.0, 0.0, -0.19272, 0.14267, 0.0, 0.0, -0.06806, 0.24822, 0.0, 0.0, -0.06294,
        0.27106,
    ];
    let mask = [0, 0, 0, 1, 1, 1];
    let constant = with_past(grouped().constant(bools(&[2, 3], &mask)));
    assert_close(&constant.run(&inputs(None))[0], &want, 2e-5);
    let run_time = with_past(grouped().input(DataType::Bool, &[2, 3]));
    assert_close(&run_time.run(&inputs(Some(mask.iter().map(|v| f64::from(*v)).collect())))[0], &want, 2e-5);
}

#[test]
fn short_masks_are_filled_up() {
    let want = [
        -0.13988, -0.04018, -0.2015, 0.05225, -0.13277, -0.05085, -0.2, 0.05, -0.1, -0.0146, -0.1, 0.16124, -0.1,
        -0.011, -0.1, 0.16747,
    ];
    let values = [0.5f32, -1.0, 0.0, 0.25];
    let constant = with_past(grouped().floats(&[2, 2], &values)).int("is_causal", 1);
    assert_close(&constant.run(&inputs(None))[0], &want, 2e-5);
    let run_time = with_past(grouped().float(&[2, 2])).int("is_causal", 1);
    let values = values.iter().map(|v| f64::from(*v)).collect();
    assert_close(&run_time.run(&inputs(Some(values)))[0], &want, 2e-5);
    let want = [
        -0.1, -0.1, -0.18904, 0.03357, -0.1, -0.1, -0.18756, 0.03135, -0.1, -0.1, -0.1, 0.13004, -0.1, -0.1, -0.1,
        0.13626,
    ];
    let constant = with_past(grouped().constant(bools(&[2, 2], &[1, 0, 1, 1])));
    assert_close(&constant.run(&inputs(None))[0], &want, 2e-5);
}

#[test]
fn lengths_given_at_run_time() {
    let n = |causal| grouped().omit().omit().omit().input(DataType::I64, &[1]).int("is_causal", causal);
    let [q, k, v] = heads();
    let plain = [-0.3, 0.2, -0.3, 0.2, -0.3, 0.2, -0.3, 0.2, -0.1, 0.4, -0.1, 0.4, -0.1, 0.4, -0.1, 0.4];
    assert_close(&n(0).run(&[q.clone(), k.clone(), v.clone(), vec![1.0]])[0], &plain, 2e-5);
    let causal = [0.0, 0.0, -0.3, 0.2, 0.0, 0.0, -0.3, 0.2, 0.0, 0.0, -0.1, 0.4, 0.0, 0.0, -0.1, 0.4];
    assert_close(&n(1).run(&[q, k, v, vec![1.0]])[0], &causal, 2e-5);
}

#[test]
fn few_ops_for_a_plain_attention() {
    let n = node("Attention", 23).float(&[1, 2, 3, 4]).float(&[1, 2, 5, 4]).float(&[1, 2, 5, 4]);
    assert_eq!(op_types(&n.lower().unwrap()), ["ElementWiseMultiply", "MatMul", "Softmax", "MatMul"]);
}

#[test]
fn what_is_wrong_or_refused() {
    let n = node("Attention", 23).float(&[1, 3, 8]).float(&[1, 3, 8]).float(&[1, 3, 8]);
    assert_eq!(n.error(), "attribute q_num_heads is missing: input 0 has rank 3");
    let n = node("Attention", 23).float(&[1, 3, 3, 8]).float(&[1, 2, 3, 8]).float(&[1, 2, 3, 8]);
    assert_eq!(n.error(), "3 heads of queries do not share 2 heads of keys evenly");
    let n = grouped().input(DataType::Bool, &[2, 2]).int("qk_matmul_output_mode", 2).outputs(4);
    assert!(n.refusal().contains("minus infinity"));
    assert!(grouped().float(&[2, 1]).refusal().contains("the last axis of attn_mask is 1"));
}

#[test]
fn rotary_embedding_of_a_part() {
    let x = saw(&[1, 2, 2, 6], -0.7, 0.2, 7);
    let (cos, sin) = (saw(&[3, 2], 0.1, 0.2, 5), saw(&[3, 2], -0.3, 0.2, 6));
    let table = |v: &[f64]| Tensor::from_f64(DataType::F32, vec![3, 2], v).unwrap();
    let halves = [
        -0.06, -0.02, -0.08, -0.08, 0.5, 0.1, -0.18, -0.04, -0.12, -0.22, -0.5, 0.5, 0.08, 0.0, -0.06, 0.06, -0.1,
        -0.5, 0.2, 0.22, 0.22, -0.04, 0.3, -0.1,
    ];
    let pairs = [
        -0.1, -0.04, -0.06, -0.04, 0.5, 0.1, 0.32, -0.22, 0.06, 0.08, -0.5, 0.5, 0.04, -0.02, -0.04, 0.1, -0.1, -0.5,
        0.0, 0.26, 0.18, -0.16, 0.3, -0.1,
    ];
    for (interleaved, want) in [(0, halves), (1, pairs)] {
        let attrs = |n: OneNode| n.int("interleaved", interleaved).int("rotary_embedding_dim", 4);
        let n = node("RotaryEmbedding", 23).float(&[1, 2, 2, 6]).constant(table(&cos)).constant(table(&sin));
        let at_run_time = attrs(n.input(DataType::I64, &[1, 2]));
        assert_close(&at_run_time.run(&[x.clone(), vec![2.0, 1.0]])[0], &want, 1e-6);
        let n = node("RotaryEmbedding", 23).float(&[1, 2, 2, 6]).constant(table(&cos)).constant(table(&sin));
        let known = attrs(n.constant(Tensor::from_i64(vec![1, 2], &[2, 1])));
        assert_close(&known.run(std::slice::from_ref(&x))[0], &want, 1e-6);
        assert!(!op_types(&known.lower().unwrap()).contains(&"Gather"));
    }
}

#[test]
fn rotary_embedding_of_rank_3() {
    let n = node("RotaryEmbedding", 23).float(&[1, 2, 8]).float(&[1, 2, 2]).float(&[1, 2, 2]).int("num_heads", 2);
    let want = [-0.1, 0.38, 0.2, 0.16, -0.04, 0.5, -0.18, 0.0, 0.28, -0.16, 0.1, 0.02, 0.36, -0.12, -0.02, -0.06];
    let y = n.run(&[saw(&[1, 2, 8], -0.7, 0.2, 7), saw(&[1, 2, 2], 0.1, 0.2, 5), saw(&[1, 2, 2], -0.3, 0.2, 6)]);
    assert_close(&y[0], &want, 1e-6);
    let n = node("RotaryEmbedding", 23).float(&[1, 2, 8]).float(&[1, 2, 3]).float(&[1, 2, 3]).int("num_heads", 2);
    assert_eq!(n.error(), "cos_cache has 3 columns: 4 rotated elements need half of that");
}
