//! Numbers are ONNX Runtime's, on weights that repeat a short ramp.

use super::super::testing::{OneNode, assert_close, node, op_types};
use crate::ir::{Attr, DataType};

/// `first + step * (5 i mod m)`
fn saw(n: usize, first: f64, step: f64, m: usize) -> Vec<f64> {
    (0..n).map(|i| first + step * (5 * i % m) as f64).collect()
}

fn weights(n: OneNode, shape: &[usize], first: f64, m: usize) -> OneNode {
    let values: Vec<f32> = saw(shape.iter().product(), first, 0.1, m).into_iter().map(|v| v as f32).collect();
    n.floats(shape, &values)
}

fn strs(values: &[&str]) -> Attr {
    Attr::Strs(values.iter().map(|s| (*s).to_string().into()).collect())
}

fn x() -> Vec<f64> {
    saw(9, -0.6, 0.2, 7)
}

/// X, W, R and B of a recurrence of two hidden units over three inputs.
fn base(op: &str, gates: usize, directions: usize) -> OneNode {
    let n = node(op, 14).int("hidden_size", 2).float(&[3, 1, 3]);
    let n = weights(n, &[directions, gates * 2, 3], -0.3, 7);
    let n = weights(n, &[directions, gates * 2, 2], -0.2, 5);
    weights(n, &[directions, gates * 4], -0.3, 7)
}

#[test]
fn bidirectional_lstm_with_states_and_peepholes() {
    let n = base("LSTM", 4, 2).omit();
    let n = weights(n, &[2, 1, 2], 0.1, 7);
    let n = weights(n, &[2, 1, 2], -0.1, 7);
    let n = weights(n, &[2, 6], -0.2, 7).text("direction", "bidirectional").outputs(3);
    assert_eq!(n.types(), ["float32[3, 2, 1, 2]", "float32[2, 1, 2]", "float32[2, 1, 2]"]);
    let y = n.run(&[x()]);
    let all = [
        -0.13376, 0.089186, 0.171295, -0.00673, -0.169252, 0.093916, 0.147419, -0.023729, -0.225866, 0.007245,
        0.048024, -0.098014,
    ];
    assert_close(&y[0], &all, 1e-5);
    assert_close(&y[1], &[-0.225866, 0.007245, 0.171295, -0.00673], 1e-5);
    assert_close(&y[2], &[-0.473736, 0.012331, 0.296331, -0.014367], 1e-5);
}

#[test]
fn reverse_lstm_without_biases() {
    let n = node("LSTM", 7).int("hidden_size", 2).float(&[3, 1, 3]);
    let n = weights(n, &[1, 8, 3], -0.3, 7);
    let n = weights(n, &[1, 8, 2], -0.2, 5).text("direction", "reverse").outputs(3);
    let y = n.run(&[x()]);
    assert_close(&y[0], &[-0.055998, 0.094059, -0.035245, 0.062019, -0.043738, -0.015929], 1e-5);
    assert_close(&y[1], &[-0.055998, 0.094059], 1e-5);
    assert_close(&y[2], &[-0.1163, 0.199089], 1e-5);
}

#[test]
fn coupled_gates_and_clipping() {
    let n = base("LSTM", 4, 1).int("input_forget", 1).real("clip", 0.3);
    assert_close(&n.run(&[x()])[0], &[-0.067917, 0.045896, -0.096079, 0.061625, -0.131616, -0.013021], 1e-5);
}

#[test]
fn gru_with_both_kinds_of_reset() {
    let all = [
        (0, [0.0, 0.126916, -0.038658, 0.189613, -0.01117, 0.22861], [-0.022388, 0.28327]),
        (1, [0.049613, 0.050554, 0.036518, 0.073383, 0.065767, 0.099094], [0.054033, 0.149015]),
    ];
    for (after, y, with_state) in all {
        let n = base("GRU", 3, 1).int("linear_before_reset", after).outputs(2);
        let got = n.run(&[x()]);
        assert_close(&got[0], &y, 1e-5);
        assert_close(&got[1], &y[4..], 1e-5);
        let n = base("GRU", 3, 1).int("linear_before_reset", after).omit();
        let n = weights(n, &[1, 1, 2], 0.1, 7).outputs(2).no_output(0);
        assert_close(&n.run(&[x()])[0], &with_state, 1e-5);
    }
}

#[test]
fn run_time_weights_give_the_same_numbers() {
    let n = node("GRU", 14).int("hidden_size", 2).float(&[3, 1, 3]).float(&[1, 6, 3]).float(&[1, 6, 2]).float(&[1, 12]);
    let inputs = [x(), saw(18, -0.3, 0.1, 7), saw(12, -0.2, 0.1, 5), saw(12, -0.3, 0.1, 7)];
    assert_close(&n.run(&inputs)[0], &[0.0, 0.126916, -0.038658, 0.189613, -0.01117, 0.22861], 1e-5);
    let n = n.int("linear_before_reset", 1);
    assert_close(&n.run(&inputs)[0][4..], &[0.065767, 0.099094], 1e-5);
}

#[test]
fn batch_major_layout() {
    let n = node("RNN", 14).int("hidden_size", 2).int("layout", 1).float(&[1, 3, 3]);
    let n = weights(n, &[1, 2, 3], -0.3, 7);
    let n = weights(n, &[1, 2, 2], -0.2, 5);
    let n = weights(n, &[1, 4], -0.3, 7).attr("activations", strs(&["Relu"])).outputs(2);
    assert_eq!(n.types(), ["float32[1, 3, 1, 2]", "float32[1, 1, 2]"]);
    assert_close(&n.run(&[x()])[0], &[0.0, 0.24, 0.0, 0.232, 0.0, 0.0], 1e-5);
}

#[test]
fn activations() {
    type Row = (&'static str, &'static [f32], &'static [f32], [f64; 6]);
    let table: [Row; 7] = [
        ("LeakyRelu", &[0.1], &[], [-0.004, 0.24, -0.01072, 0.2328, -0.040442, -0.014442]),
        ("Affine", &[0.5], &[0.1], [0.08, 0.22, 0.04, 0.21, -0.105, 0.025]),
        ("Softsign", &[], &[], [-0.038462, 0.193548, -0.083424, 0.199348, -0.277031, -0.109675]),
        ("softplus", &[], &[], [0.673347, 0.82033, 0.52978, 0.683823, 0.436525, 0.536398]),
        ("Elu", &[0.0], &[], [0.0, 0.24, 0.0, 0.232, 0.0, 0.0]),
        ("ScaledTanh", &[0.5], &[0.7], [-0.013996, 0.083219, -0.025823, 0.092091, -0.127745, -0.039556]),
        ("ThresholdedRelu", &[0.05], &[], [0.0, 0.24, 0.0, 0.232, 0.0, 0.0]),
    ];
    for (name, alpha, beta, want) in table {
        let n = base("RNN", 1, 1)
            .attr("activations", strs(&[name]))
            .attr("activation_alpha", Attr::Floats(alpha.to_vec()))
            .attr("activation_beta", Attr::Floats(beta.to_vec()));
        assert_close(&n.run(&[x()])[0], &want, 1e-5);
    }
    let n = base("RNN", 1, 1).attr("activations", strs(&["HardSigmoid"]));
    assert!(n.refusal().contains("activation_alpha"));
}

#[test]
fn one_step_makes_few_ops() {
    let n = node("LSTM", 18).int("hidden_size", 2).float(&[1, 1, 3]);
    let n = weights(n, &[1, 8, 3], -0.3, 7);
    let n = weights(n, &[1, 8, 2], -0.2, 5).outputs(2).no_output(0);
    let ops = n.lower().unwrap();
    assert_eq!(
        op_types(&ops),
        [
            "Reshape",
            "FullyConnected",
            "Split",
            "Sigmoid",
            "Tanh",
            "ElementWiseMultiply",
            "Sigmoid",
            "Tanh",
            "ElementWiseMultiply",
            "Reshape"
        ]
    );
}

#[test]
fn a_lone_row_is_the_bias_of_its_product() {
    let ops = |batch: i64| {
        let n = node("GRU", 14).int("hidden_size", 2).int("linear_before_reset", 1).float(&[3, batch, 3]);
        let n = weights(n, &[1, 6, 3], -0.3, 7);
        let n = weights(n, &[1, 6, 2], -0.2, 5);
        let g = weights(n, &[1, 12], -0.3, 7).lower().unwrap();
        ["FullyConnected", "ElementWiseAdd"].map(|op| op_types(&g).iter().filter(|o| **o == op).count())
    };
    assert_eq!(ops(1), [3, 5]);
    assert_eq!(ops(2), [3, 7]);
}

#[test]
fn what_is_wrong_or_refused() {
    let n = node("LSTM", 14).int("hidden_size", 2).float(&[3, 1, 3]).float(&[1, 8, 3]).float(&[1, 8, 2]);
    assert_eq!(
        n.text("direction", "sideways").error(),
        "attribute direction is \"sideways\"; it must be forward, reverse or bidirectional"
    );
    let wrong = node("LSTM", 14).int("hidden_size", 2).float(&[3, 1, 3]).float(&[1, 6, 3]).float(&[1, 8, 2]);
    assert_eq!(wrong.error(), "input 1 (W) is [1, 6, 3]: dimension 1 must be 8");
    let long = node("LSTM", 14).int("hidden_size", 2).float(&[600, 1, 3]).float(&[1, 8, 3]).float(&[1, 8, 2]);
    assert!(long.refusal().contains("600 cells"));
}

#[test]
fn sequences_that_end_early() {
    let given = |op: &str, gates: usize, lengths: Option<&[i64]>| {
        let n = node(op, 14).int("hidden_size", 2).text("direction", "bidirectional").float(&[3, 2, 3]);
        let n = weights(n, &[2, gates * 2, 3], -0.3, 7);
        let n = weights(n, &[2, gates * 2, 2], -0.2, 5).omit();
        match lengths {
            Some(l) => n.constant(crate::ir::Tensor::from_i64(vec![2], l)),
            None => n.input(DataType::I32, &[2]),
        }
    };
    let x = saw(18, -0.6, 0.2, 7);
    let states = |n| weights(weights(n, &[2, 2, 2], 0.1, 7), &[2, 2, 2], -0.1, 7).outputs(3);
    let all = [
        -0.083934, 0.103519, -0.008241, 0.029306, 0.084934, 0.042662, 0.058252, 0.042814, -0.095192, 0.045068,
        -0.032547, -0.005872, 0.042075, -0.019597, -0.027212, -0.042741, 0.0, 0.0, 0.022073, -0.027545, 0.0, 0.0,
        -0.016582, -0.07276,
    ];
    let last = [-0.095192, 0.045068, 0.022073, -0.027545, 0.084934, 0.042662, 0.058252, 0.042814];
    let cell = [-0.169011, 0.080835, 0.046804, -0.058431, 0.179252, 0.090267, 0.119817, 0.092622];
    let run_time = states(given("LSTM", 4, None)).run(&[x.clone(), vec![2.0, 3.0]]);
    let constant = states(given("LSTM", 4, Some(&[2, 3]))).run(std::slice::from_ref(&x));
    for y in [run_time, constant] {
        assert_close(&y[0], &all, 1e-5);
        assert_close(&y[1], &last, 1e-5);
        assert_close(&y[2], &cell, 1e-5);
    }
    let y = given("GRU", 3, None).outputs(2).run(&[x.clone(), vec![2.0, 3.0]]);
    let last = [-0.056442, -0.081748, 0.044126, 0.053406, 0.010095, -0.071276, 0.014494, -0.093305];
    assert_close(&y[1], &last, 1e-5);
    assert_close(&y[0][16..20], &[0.0, 0.0, 0.044126, 0.053406], 1e-5);
    let full = given("GRU", 3, Some(&[3, 3])).lower().unwrap();
    assert!(!op_types(&full).contains(&"ElementWiseSelect"));
}
