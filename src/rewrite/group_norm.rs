//! A group normalisation spelt as an instance normalisation between two Reshapes becomes GroupNormalization (Wu and He,
//! 2018), and a scale and shift per channel behind it become its own.
//!
//! The Reshapes put the channels of a group on one axis, which no layout of an image can hold: elements would move
//! twice. As one op nothing moves.

use super::affine::{self, Affine};
use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, DataType, Node, NodeId, Tensor, ValueId};

pub const FUSE: Rewrite = Rewrite { name: "fuse-group-norm", class: Class::Tolerance, look: look_fuse };
pub const AFFINE: Rewrite = Rewrite { name: "group-norm-affine", class: Class::Tolerance, look: look_affine };

fn look_fuse(p: &Pattern<'_>, root: NodeId) -> Outcome {
    fused(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn look_affine(p: &Pattern<'_>, root: NodeId) -> Outcome {
    with_affine(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn shape(p: &Pattern<'_>, v: ValueId) -> Option<Vec<usize>> {
    p.graph.value(v).ty.tensor()?.static_shape()
}

/// GroupNormalization of `x` by `groups` with this scale and shift per channel.
fn group_norm(x: ValueId, groups: i64, epsilon: f32, affine: &Affine) -> Option<NewNode> {
    let constant = |v: &[f64]| Some(Operand::Constant(Tensor::from_f64(DataType::F32, vec![v.len()], v)?));
    Some(NewNode {
        domain: "",
        op_type: "GroupNormalization",
        version: 21,
        inputs: vec![Operand::Value(x), constant(&affine.scale)?, constant(&affine.shift)?],
        attrs: vec![("num_groups", Attr::Int(groups)), ("epsilon", Attr::Float(epsilon))],
    })
}

/// The constants in inputs 1 and 2 of a normalisation, each repeated so that there are `channels` of them.
fn own_affine(p: &Pattern<'_>, node: &Node, channels: usize) -> Option<Affine> {
    let read = |i: usize| {
        let v = p.graph.value(p.source(node.input(i)?)).data.as_ref()?.to_f64s()?;
        let repeat = channels.checked_div(v.len()).filter(|r| r * v.len() == channels)?;
        Some(v.iter().flat_map(|&k| std::iter::repeat_n(k, repeat)).collect())
    };
    Some(Affine { scale: read(1)?, shift: read(2)? })
}

fn fused(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let back = p.node(root);
    if !back.is("Reshape") {
        return None;
    }
    let y = back.output(0)?;
    let (norm_id, norm) = p.made_by(back.input(0)?, "InstanceNormalization")?;
    let (to_id, to) = p.made_by(norm.input(0)?, "Reshape")?;
    if p.shared(back.input(0)?) {
        return None;
    }
    let x = p.source(to.input(0)?);
    let outer = shape(p, x)?;
    let inner = shape(p, to.output(0)?)?;
    let float = p.graph.value(x).ty.dtype() == Some(DataType::F32);
    let [n, groups, ..] = inner[..] else { return None };
    let (batch, channels) = (*outer.first()?, *outer.get(1)?);
    let whole = outer.len() >= 3 && batch == n && groups > 0 && groups < channels && channels % groups == 0;
    if !float || !whole || shape(p, y)? != outer {
        return None;
    }
    let affine = own_affine(p, norm, channels)?;
    let new = group_norm(x, groups as i64, norm.attrs.float_or("epsilon", 1e-5), &affine)?;
    Some(Patch { nodes: vec![new], replaces: y, covers: vec![to_id, norm_id, root] })
}

fn with_affine(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let node = p.node(root);
    let mid = affine::operand(p, node)?;
    if p.shared(mid) {
        return None;
    }
    let (norm_id, norm) = p.made_by(mid, "GroupNormalization")?;
    let dims = shape(p, mid)?;
    let channels = *dims.get(1)?;
    let y = node.output(0)?;
    if norm.version < 21 || p.graph.value(mid).ty.dtype() != Some(DataType::F32) || shape(p, y)? != dims {
        return None;
    }
    let affine = own_affine(p, norm, channels)?.then(&affine::of(p, node, channels, dims.len(), 1)?);
    let groups = norm.attrs.int("num_groups")?;
    let new = group_norm(p.source(norm.input(0)?), groups, norm.attrs.float_or("epsilon", 1e-5), &affine)?;
    Some(Patch { nodes: vec![new], replaces: y, covers: vec![norm_id, root] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Tensor;
    use crate::rewrite::testing::Build;

    /// `x` [1, 4, 3, 3] by `groups` through an instance normalisation of rank 3.
    fn spelt(groups: usize) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[1, 4, 3, 3]);
        let inner = b.graph.add_constant("s", Tensor::from_i64(vec![3], &[0, groups as i64, -1]));
        let outer = b.graph.add_constant("s", Tensor::from_i64(vec![4], &[1, 4, 3, 3]));
        let scale: Vec<f32> = (1..=groups).map(|g| g as f32).collect();
        let (s, t) = (b.constant(&[groups], &scale), b.constant(&[groups], &vec![0.5; groups]));
        let r = b.op("Reshape", &[x, inner]);
        let n = b.op_with("InstanceNormalization", &[r, s, t], &[("epsilon", Attr::Float(1e-6))]);
        let y = b.op("Reshape", &[n, outer]);
        (b, y)
    }

    fn read(b: &Build, i: usize) -> Vec<f32> {
        b.graph.value(b.last().input(i).unwrap()).data.as_ref().unwrap().to_f32s().unwrap()
    }

    #[test]
    fn scale_and_shift_by_group_are_repeated_by_channel() {
        let (mut b, y) = spelt(2);
        assert_eq!(b.run(FUSE, y).0, ["GroupNormalization"]);
        assert_eq!((b.last().attrs.int("num_groups"), b.last().attrs.float("epsilon")), (Some(2), Some(1e-6)));
        assert_eq!((read(&b, 1), read(&b, 2)), (vec![1.0, 1.0, 2.0, 2.0], vec![0.5; 4]));
    }

    #[test]
    fn what_follows_per_channel_is_taken_in() {
        let (mut b, y) = spelt(2);
        let (k, t) = (b.constant(&[4, 1, 1], &[1., 2., 3., 4.]), b.constant(&[1, 4, 1, 1], &[10., 20., 30., 40.]));
        let y = b.op("Mul", &[y, k]);
        let y = b.op("Add", &[t, y]);
        assert_eq!(b.run(FUSE, y).0, ["GroupNormalization", "Mul", "Add"]);
        let y = b.graph.outputs[0];
        assert_eq!(b.run(AFFINE, y).0, ["GroupNormalization"]);
        assert_eq!(read(&b, 1), [1.0, 2.0, 6.0, 8.0]);
        assert_eq!(read(&b, 2), [10.5, 21.0, 31.5, 42.0]);
    }

    #[test]
    fn a_group_of_one_channel_and_parts_of_channels_stay() {
        for groups in [4, 12] {
            let (mut b, y) = spelt(groups);
            assert_eq!(b.run(FUSE, y).0, ["Reshape", "InstanceNormalization", "Reshape"], "{groups} groups");
        }
    }

    #[test]
    fn what_differs_by_pixel_stays() {
        let (mut b, y) = spelt(2);
        let k = b.constant(&[3], &[1.0, 2.0, 3.0]);
        let y = b.op("Mul", &[y, k]);
        b.run(FUSE, y);
        let y = b.graph.outputs[0];
        assert_eq!(b.run(AFFINE, y).0, ["GroupNormalization", "Mul"]);
    }
}
