//! DynamicQuantizeLSTM becomes LSTM with dequantised weights, which stay integers where the NPU takes them so.
//!
//! The op rounds its input and hidden state to 8 bits at every step, to be fast; the LSTM does not. The difference is
//! bounded by half a step of that rounding for each element.

use super::{Class, NewNode, Operand, Outcome, Pattern, Rewrite};
use crate::ir::{Encoded, Node, NodeId, Tensor};

pub const REWRITE: Rewrite = Rewrite { name: "real-dynamic-lstm", class: Class::Tolerance, look };

const ATTRS: &[&str] =
    &["activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget"];

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    let node = p.node(root);
    if node.op_type != "DynamicQuantizeLSTM" {
        return Outcome::NoMatch;
    }
    let weights = |i: usize, scale: usize| real(p, node, i, scale);
    let (w, r) = match (weights(1, 8), weights(2, 10)) {
        (Ok(w), Ok(r)) => (w, r),
        (Err(why), _) | (_, Err(why)) => return Outcome::Refused(why),
    };
    let given = |i: usize| node.input(i).map_or(Operand::Omitted, Operand::Value);
    let mut inputs = vec![given(0), Operand::Constant(w), Operand::Constant(r)];
    inputs.extend((3..8).map(given));
    let attrs = ATTRS.iter().filter_map(|n| Some((*n, node.attrs.get(n)?.clone()))).collect();
    Outcome::Respelt(NewNode { domain: "", op_type: "LSTM", version: 14, inputs, attrs })
}

/// The weights in input `i`, `[directions, inputs, 4 * hidden]`, as LSTM takes them: `[directions, 4 * hidden, inputs]`.
fn real(p: &Pattern<'_>, node: &Node, i: usize, scale: usize) -> Result<Tensor, String> {
    let data = |i: usize| node.input(i).and_then(|v| p.graph.value(p.source(v)).data.as_ref());
    let (Some(codes), Some(scales)) = (data(i), data(scale).and_then(Tensor::to_f32s)) else {
        return Err(format!("input {i} or its scale is not a constant"));
    };
    let zeros = match node.input(scale + 1) {
        None => vec![0],
        Some(_) => data(scale + 1).and_then(Tensor::to_i64s).ok_or("a zero point is not a constant")?,
    };
    let &[directions, _, gates] = codes.shape() else { return Err(format!("input {i} has rank {}", codes.rank())) };
    let zeros: Vec<i32> = zeros.into_iter().map(|z| i32::try_from(z).unwrap_or(i32::MAX)).collect();
    let spread = |n: usize| if zeros.len() == 1 { vec![zeros[0]; n] } else { zeros.clone() };
    let encoded = if scales.len() == 1 {
        Encoded::new(codes.clone(), scales, spread(1), None)
    } else if directions == 1 && scales.len() == gates {
        Encoded::new(codes.clone(), scales, spread(gates), Some(2))
    } else if scales.len() == directions {
        Encoded::new(codes.clone(), scales, spread(directions), Some(0))
    } else {
        return Err(format!("{} scales for weights {:?}", scales.len(), codes.shape()));
    };
    let real = encoded.map(|e| Tensor::encoded(crate::ir::DataType::F32, e)).and_then(|t| t.transposed(&[0, 2, 1]));
    real.ok_or_else(|| format!("the scales and zero points of input {i} do not fit its shape {:?}", codes.shape()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType as D;
    use crate::rewrite::testing::Build;

    #[test]
    fn weights_are_turned_and_keep_their_codes() {
        let mut b = Build::new();
        let x = b.input("x", &[3, 1, 2]);
        let w = b.ints(D::I8, &[1, 2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]);
        let r = b.ints(D::I8, &[1, 1, 4], &[1, 2, 3, 4]);
        let (scales, zeros) = (b.constant(&[1], &[0.5]), b.ints(D::I8, &[1], &[1]));
        let y = b.ms("DynamicQuantizeLSTM", &[x, w, r], &[]);
        let (id, _) = b.graph.value(y).producer.unwrap();
        let node = b.graph.node_mut(id);
        node.attrs.set("hidden_size", crate::ir::Attr::Int(1));
        node.inputs.extend([None; 5]);
        node.inputs.extend([scales, zeros, scales, zeros].map(Some));
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops, ["LSTM"]);
        assert!(events[0].applied);
        let weights = b.graph.value(b.last().input(1).unwrap()).data.clone().unwrap();
        assert_eq!(weights.shape(), [1, 4, 2]);
        assert_eq!(weights.to_f32s().unwrap(), [0.0, 2.0, 0.5, 2.5, 1.0, 3.0, 1.5, 3.5]);
        assert_eq!(weights.encoding().unwrap().codes.dtype(), D::I8);
    }
}
