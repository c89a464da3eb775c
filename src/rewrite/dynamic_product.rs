//! A product of an operand that is quantised at run time (DynamicQuantizeLinear, MatMulInteger or ConvInteger, Cast, Mul
//! by the scales) becomes the product of the operand itself with the dequantised weights.
//!
//! The NPU has no integers whose scale is known only at run time. What differs is the rounding of the operand to 8 bits,
//! which the model does to be fast and not to be right: at most half a step, `(max x - min x) / 510`, for each of its
//! elements. The weights are the same, and stay integers where the NPU takes them so.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, Node, NodeId, Tensor, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "real-dynamic-product", class: Class::Tolerance, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    match found(p, root) {
        Some(Ok(patch)) => Outcome::Matched(patch),
        Some(Err(why)) => Outcome::Refused(why),
        None => Outcome::NoMatch,
    }
}

fn found(p: &Pattern<'_>, root: NodeId) -> Option<Result<Patch, String>> {
    let mul = p.node(root);
    if !mul.is("Mul") {
        return None;
    }
    let (a, b) = (mul.input(0)?, mul.input(1)?);
    let (product, scales, cast) =
        integer_product(p, a).map(|(id, c)| (id, b, c)).or_else(|| integer_product(p, b).map(|(id, c)| (id, a, c)))?;
    let node = p.node(product);
    let (dynamic, dynamic_node) = p.made_by(node.input(0)?, "DynamicQuantizeLinear")?;
    let zero_is_its = node.input(2).is_some_and(|z| p.source(z) == dynamic_node.output(2).unwrap_or(z));
    if !zero_is_its {
        return Some(Err("the zero point of the product is not the one of its dynamically quantised operand".into()));
    }
    let (scale_node, weight_scale) = weight_scale(p, scales, dynamic_node.output(1)?)?;
    let mut covers = vec![root, product, dynamic];
    covers.extend(cast);
    covers.extend(scale_node);
    Some(patch(p, mul, node, dynamic_node.input(0)?, weight_scale, covers))
}

/// The integer product behind a Cast to a float type.
fn integer_product(p: &Pattern<'_>, v: ValueId) -> Option<(NodeId, Option<NodeId>)> {
    let (cast, node) = p.made_by(v, "Cast")?;
    let (id, product) = p.producer(node.input(0)?)?;
    (product.is("MatMulInteger") || product.is("ConvInteger")).then_some((id, Some(cast)))
}

/// The constant scale of the weights in `Mul(scale of the operand, scale of the weights)`.
fn weight_scale<'a>(p: &Pattern<'a>, v: ValueId, operand_scale: ValueId) -> Option<(Option<NodeId>, &'a Tensor)> {
    let (id, node) = p.made_by(v, "Mul")?;
    let (a, b) = (node.input(0)?, node.input(1)?);
    let other = if p.source(a) == operand_scale {
        b
    } else if p.source(b) == operand_scale {
        a
    } else {
        return None;
    };
    Some((Some(id), p.graph.value(p.source(other)).data.as_ref()?))
}

fn patch(
    p: &Pattern<'_>,
    mul: &Node,
    product: &Node,
    x: ValueId,
    scale: &Tensor,
    covers: Vec<NodeId>,
) -> Result<Patch, String> {
    let conv = product.is("ConvInteger");
    let (Some(w), Some(y)) = (product.input(1), mul.output(0)) else { return Err("an input is missing".into()) };
    let data = |v: ValueId| p.graph.value(p.source(v)).data.as_ref();
    let Some(weights) = data(w) else { return Err("the weights are not a constant".into()) };
    let zero = match product.input(3) {
        None => None,
        Some(z) => Some(data(z).ok_or("the zero point of the weights is not a constant")?),
    };
    let rank = weights.rank();
    let axis = if conv { 0 } else { rank.saturating_sub(1) };
    let count = weights.shape().get(axis).copied().unwrap_or(1);
    if scale.len() != 1 && scale.len() != count {
        return Err(format!("{} scales for {count} outputs", scale.len()));
    }
    let n = scale.len().max(zero.map_or(1, Tensor::len));
    let flat = |t: &Tensor| -> Option<Tensor> {
        if n == 1 {
            return t.reshaped(vec![]);
        }
        if t.len() == n { t.reshaped(vec![n]) } else { t.reshaped(vec![1])?.broadcast_to(&[n]) }
    };
    let not_fitting = || "the zero points of the weights do not fit their scales".to_string();
    let mut inputs = vec![Operand::Value(w), Operand::Constant(flat(scale).ok_or_else(not_fitting)?)];
    if let Some(z) = zero {
        inputs.push(Operand::Constant(flat(z).ok_or_else(not_fitting)?));
    }
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let real = NewNode { domain: "", op_type: "DequantizeLinear", version: 21, inputs, attrs };
    let names: &[&'static str] =
        if conv { &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"] } else { &[] };
    let attrs = names.iter().filter_map(|n| Some((*n, product.attrs.get(n)?.clone()))).collect();
    let (op_type, version) = if conv { ("Conv", 11) } else { ("MatMul", 13) };
    let whole = NewNode { domain: "", op_type, version, inputs: vec![Operand::Value(x), Operand::New(0)], attrs };
    Ok(Patch { nodes: vec![real, whole], replaces: y, covers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType as D;
    use crate::rewrite::testing::Build;

    /// The product as ONNX Runtime's quantiser writes it, in one of its spellings.
    fn product(way: usize, columns: &[f32]) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[2, 3]);
        let q = b.op("DynamicQuantizeLinear", &[x]);
        let (scale, zero) = (b.more(q), b.more(q));
        let w = b.ints(D::I8, &[3, 2], &[1, 2, 3, 4, 5, 6]);
        let ws = b.constant(if columns.len() == 1 { &[] } else { &[2] }, columns);
        let wz = b.ints(D::I8, &[], &[i128::from(way == 3)]);
        let other = b.input_of("z", D::U8, &[]);
        let m = b.op("MatMulInteger", &[q, w, if way == 4 { other } else { zero }, wz]);
        let c = b.op_with("Cast", &[m], &[("to", Attr::Int(1))]);
        let s = if way == 1 { b.op("Mul", &[ws, scale]) } else { b.op("Mul", &[scale, ws]) };
        let y = if way == 2 { b.op("Mul", &[s, c]) } else { b.op("Mul", &[c, s]) };
        (b, y)
    }

    #[test]
    fn spellings_become_one_product_with_the_weights_of_the_model() {
        for way in 0..4 {
            let (mut b, y) = product(way, &[0.5]);
            assert_eq!(b.run(REWRITE, y).0, ["MatMul"], "{way}");
            let weights = b.graph.value(b.last().input(1).unwrap()).data.clone().unwrap();
            let zero = if way == 3 { 1.0 } else { 0.0 };
            let want: Vec<f32> = (1..7u8).map(|i| (f32::from(i) - zero) * 0.5).collect();
            assert_eq!(weights.to_f32s().unwrap(), want);
        }
    }

    #[test]
    fn a_scale_for_each_column() {
        let (mut b, y) = product(0, &[0.5, 2.0]);
        b.run(REWRITE, y);
        let weights = b.graph.value(b.last().input(1).unwrap()).data.clone().unwrap();
        assert_eq!(weights.to_f32s().unwrap(), [0.5, 4.0, 1.5, 8.0, 2.5, 12.0]);
    }

    #[test]
    fn the_zero_point_must_be_the_operands_own() {
        let (mut b, y) = product(4, &[0.5]);
        let (ops, events) = b.run(REWRITE, y);
        assert!(ops.iter().any(|op| op == "MatMulInteger"));
        assert!(events[0].message.contains("not the one of its dynamically quantised operand"));
    }
}
