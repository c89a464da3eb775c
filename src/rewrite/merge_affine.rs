//! Scales and shifts per channel that follow each other become one BatchNormalization.
//!
//! `s2 * (s1 * x + t1) + t2 = (s2 s1) * x + (s2 t1 + t2)`, computed in 64-bit floats.

use super::affine::{self, Affine};
use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, DataType, NodeId, Tensor};

pub const REWRITE: Rewrite = Rewrite { name: "merge-affine", class: Class::Tolerance, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    matched(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn matched(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let node = p.node(root);
    let mid = affine::operand(p, node)?;
    if p.shared(mid) {
        return None;
    }
    let (first_id, first) = p.producer(mid)?;
    let x = affine::operand(p, first)?;
    let ty = p.graph.value(x).ty.tensor()?;
    let shape = ty.static_shape()?;
    // One of the two must know what a channel is; two scalars side by side are left to constant folding elsewhere.
    let batch_norm = [node, first].iter().any(|n| n.is("BatchNormalization"));
    if !batch_norm || shape.len() < 3 || ty.dtype != DataType::F32 {
        return None;
    }
    let channels = shape[1];
    let one = affine::of(p, first, channels, shape.len(), 1)?;
    let two = affine::of(p, node, channels, shape.len(), 1)?;
    let Affine { scale, shift } = one.then(&two);
    let constant = |v: &[f64]| Some(Operand::Constant(Tensor::from_f64(DataType::F32, vec![channels], v)?));
    let inputs = vec![
        Operand::Value(p.source(x)),
        constant(&scale)?,
        constant(&shift)?,
        constant(&vec![0.0; channels])?,
        constant(&vec![1.0; channels])?,
    ];
    let attrs = vec![("epsilon", Attr::Float(0.0))];
    let new = NewNode { domain: "", op_type: "BatchNormalization", version: 15, inputs, attrs };
    Some(Patch { nodes: vec![new], replaces: node.output(0)?, covers: vec![first_id, root] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ValueId;
    use crate::rewrite::testing::Build;

    #[test]
    fn batch_norm_scale_and_shift_are_one() {
        let mut b = Build::new();
        let x = b.input("x", &[1, 2, 3, 3]);
        let args = [vec![2.0, 3.0], vec![0.5, -1.0], vec![1.0, 4.0], vec![4.0, 0.25]];
        let args: Vec<ValueId> = args.iter().map(|v| b.constant(&[2], v)).collect();
        let y = b.op_with("BatchNormalization", &[vec![x], args].concat(), &[("epsilon", Attr::Float(0.0))]);
        let (k, t) = (b.constant(&[2, 1, 1], &[10.0, 100.0]), b.constant(&[1, 2, 1, 1], &[1.0, 2.0]));
        let y = b.op("Mul", &[y, k]);
        let y = b.op("Add", &[t, y]);
        assert_eq!(b.run(REWRITE, y).0, ["BatchNormalization"]);
        let read = |i: usize| b.graph.value(b.last().input(i).unwrap()).data.as_ref().unwrap().to_f32s().unwrap();
        // Scales 2/2 * 10 and 3/0.5 * 100; shifts (0.5 - 1*1) * 10 + 1 and (-1 - 4*6) * 100 + 2.
        assert_eq!((read(1), read(2)), (vec![10.0, 600.0], vec![-4.0, -2498.0]));
    }

    #[test]
    fn what_differs_by_pixel_stays() {
        let mut b = Build::new();
        let x = b.input("x", &[1, 2, 3, 3]);
        let args: Vec<ValueId> = (0..4).map(|_| b.constant(&[2], &[1.0, 1.0])).collect();
        let y = b.op("BatchNormalization", &[vec![x], args].concat());
        let k = b.constant(&[3], &[1.0, 2.0, 3.0]);
        let y = b.op("Mul", &[y, k]);
        assert_eq!(b.run(REWRITE, y).0, ["BatchNormalization", "Mul"]);
    }
}
