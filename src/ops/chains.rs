//! Chains of ops that rename and regroup axes, lowered together: what moves, and that the numbers are right.

use super::testing::{evaluate, op_types, ramp};
use crate::infer::infer;
use crate::ir::{Attr, DataType, Dim, Graph, Node, Tensor, TensorType, Value};
use crate::lower::{Lowering, Target};
use crate::qnn::graph::{Param, QnnGraph, QnnType};

/// One op of a chain: what it does to the value before it.
enum Step {
    Transpose(&'static [i64]),
    Reshape(&'static [i64]),
    Relu,
    Flatten,
}

/// Lowers the chain over one input of this shape. Also gives the values that ONNX has for the input 0, 1, 2, ...
fn chain(shape: &[i64], steps: &[Step]) -> (QnnGraph, Vec<f64>) {
    let mut g = Graph::default();
    g.opsets.insert(String::new(), 17);
    let dims = shape.iter().map(|&d| Dim::Known(d)).collect();
    let mut at = g.add_typed("x", TensorType::new(DataType::F32, dims));
    g.inputs.push(at);
    let count: usize = shape.iter().product::<i64>() as usize;
    let mut want =
        Tensor::from_i64(shape.iter().map(|&d| d as usize).collect(), &(0..count as i64).collect::<Vec<_>>());
    for (i, step) in steps.iter().enumerate() {
        let mut node = Node { name: format!("n{i}"), version: 17, inputs: vec![Some(at)], ..Node::default() };
        match step {
            Step::Transpose(perm) => {
                node.op_type = "Transpose".into();
                node.attrs.set("perm", Attr::Ints(perm.to_vec()));
                want = want.transposed(&perm.iter().map(|&p| p as usize).collect::<Vec<_>>()).unwrap();
            }
            Step::Reshape(to) => {
                node.op_type = "Reshape".into();
                let shape = g.add_constant(&format!("shape{i}"), Tensor::from_i64(vec![to.len()], to));
                node.inputs.push(Some(shape));
                want = want.reshaped(to.iter().map(|&d| d as usize).collect()).unwrap();
            }
            Step::Relu => node.op_type = "Relu".into(),
            Step::Flatten => {
                node.op_type = "Flatten".into();
                let rows = want.shape()[0];
                want = want.reshaped(vec![rows, count / rows]).unwrap();
            }
        }
        at = g.add_value(Value { name: format!("y{i}"), ..Value::default() });
        node.outputs = vec![Some(at)];
        g.add_node(node);
    }
    g.outputs.push(at);
    let found = infer(&mut g).unwrap();
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    let target = Target { soc: "sm8650".into(), arch: 75, float: QnnType::FLOAT_32, allow_approximate: false };
    let mut low = Lowering::new(&g, &target, "g");
    for id in g.topological_order().unwrap() {
        low.node(id).unwrap();
    }
    low.output(at).unwrap();
    (low.finish(&g.inputs), want.to_f64s().unwrap())
}

#[track_caller]
fn check(shape: &[i64], steps: &[Step], ops: &[&str]) -> QnnGraph {
    let (g, want) = chain(shape, steps);
    assert_eq!(op_types(&g), ops);
    assert!(g.tensors.iter().all(|t| t.dims.len() <= 5));
    assert_eq!(evaluate(&g, &[ramp(want.len(), 0.0, 1.0)])[0], want);
    g
}

const TO_NCHW: Step = Step::Transpose(&[0, 3, 1, 2]);
const TO_NHWC: Step = Step::Transpose(&[0, 2, 3, 1]);

#[test]
fn pixel_shuffle_has_no_tensor_of_rank_six() {
    let steps =
        [Step::Reshape(&[1, 2, 2, 4, 3, 3]), Step::Transpose(&[0, 3, 4, 1, 5, 2]), Step::Reshape(&[1, 4, 6, 6])];
    check(&[1, 16, 3, 3], &steps, &["Reshape", "Transpose", "Reshape"]);
    let steps =
        [Step::Reshape(&[2, 2, 2, 4, 3, 3]), Step::Transpose(&[0, 3, 4, 1, 5, 2]), Step::Reshape(&[2, 4, 6, 6])];
    let (g, want) = chain(&[2, 16, 3, 3], &steps);
    assert!(g.tensors.iter().all(|t| t.dims.len() <= 5));
    assert_eq!(evaluate(&g, &[ramp(want.len(), 0.0, 1.0)])[0], want);
}

#[test]
fn pixel_shuffle_between_images_stays_channel_last() {
    let steps = [
        TO_NCHW,
        Step::Reshape(&[1, 2, 2, 4, 3, 3]),
        Step::Transpose(&[0, 3, 4, 1, 5, 2]),
        Step::Reshape(&[1, 4, 6, 6]),
        TO_NHWC,
    ];
    let g = check(&[1, 3, 3, 16], &steps, &["Reshape", "Transpose", "Reshape"]);
    assert_eq!(g.tensor(g.ops[1].inputs[0]).dims, [3, 3, 2, 8]);
}

#[test]
fn channel_shuffle_stays_channel_last() {
    let steps = [
        TO_NCHW,
        Step::Reshape(&[1, 2, 4, 5, 5]),
        Step::Transpose(&[0, 2, 1, 3, 4]),
        Step::Reshape(&[1, 8, 5, 5]),
        TO_NHWC,
    ];
    let g = check(&[1, 5, 5, 8], &steps, &["ChannelShuffle"]);
    assert_eq!(g.ops[0].params[0], ("num_groups".into(), Param::u32(2)));
}

#[test]
fn windows_of_an_image_and_back() {
    let cut = [
        Step::Reshape(&[1, 2, 4, 3, 4, 6]),
        Step::Transpose(&[0, 1, 3, 2, 4, 5]),
        Step::Reshape(&[6, 16, 6]),
        Step::Relu,
        Step::Reshape(&[1, 2, 3, 4, 4, 6]),
        Step::Transpose(&[0, 1, 3, 2, 4, 5]),
        Step::Reshape(&[1, 8, 12, 6]),
    ];
    let ops = ["Reshape", "Transpose", "Reshape", "Relu", "Reshape", "Transpose", "Reshape"];
    check(&[1, 8, 12, 6], &cut, &ops);
}

#[test]
fn spatial_axes_joined_and_moved_behind_are_no_transpose() {
    // [N, C, H, W] -> [N, C, H * W] -> [N, H * W, C], as vision transformers do.
    let steps = [TO_NCHW, Step::Reshape(&[2, 6, 20]), Step::Transpose(&[0, 2, 1])];
    check(&[2, 4, 5, 6], &steps, &["Reshape"]);
}

#[test]
fn flattening_one_pixel_moves_nothing() {
    let steps = [TO_NCHW, Step::Relu, Step::Flatten];
    check(&[2, 1, 1, 6], &steps, &["Relu", "Reshape"]);
}

#[test]
fn a_renaming_there_and_back_is_nothing() {
    let steps = [TO_NCHW, Step::Relu, TO_NHWC];
    check(&[2, 4, 5, 6], &steps, &["Relu"]);
}

#[test]
fn every_flattened_image_moves_once() {
    let steps = [TO_NCHW, Step::Flatten];
    check(&[2, 4, 5, 6], &steps, &["Transpose", "Reshape"]);
}
