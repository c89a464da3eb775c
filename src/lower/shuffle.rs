//! Channels of an image regrouped by a Reshape, a Transpose of groups against channels and a Reshape back are one
//! ChannelShuffle (Zhang et al., "ShuffleNet", 2018): rows of the image stay where they are.

use super::absorb::pruned;
use crate::qnn::graph::{Param, QnnGraph, TensorId, TensorKind};

/// A Transpose between two Reshapes that is a shuffle.
struct Found {
    /// The op that becomes ChannelShuffle: the second Reshape.
    back: usize,
    from: TensorId,
    groups: u32,
    axis: u32,
}

/// Rewrites the graph as the module says.
pub(super) fn name(graph: &mut QnnGraph) {
    let found = find(graph);
    if found.is_empty() {
        return;
    }
    for f in found {
        let op = &mut graph.ops[f.back];
        op.op_type = "ChannelShuffle".into();
        op.inputs = vec![f.from];
        op.params = vec![("num_groups".into(), Param::u32(f.groups)), ("axis".into(), Param::u32(f.axis))];
    }
    *graph = pruned(std::mem::take(graph));
}

fn find(graph: &QnnGraph) -> Vec<Found> {
    let mut maker = vec![None; graph.tensors.len()];
    for (i, op) in graph.ops.iter().enumerate() {
        op.outputs.iter().for_each(|t| maker[t.0 as usize] = Some(i));
    }
    // The operand of the op of this type that makes `t`.
    let behind = |t: TensorId, op_type: &str| {
        let native = graph.tensor(t).kind == TensorKind::Native;
        let op = maker[t.0 as usize].filter(|_| native).map(|i: usize| &graph.ops[i])?;
        (op.op_type == op_type).then_some((op, *op.inputs.first()?))
    };
    let candidate = |back: usize| {
        let op = &graph.ops[back];
        let (&[turned], &[y]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return None };
        let (turn, split) = behind(turned, "Transpose")?;
        let (_, from) = behind(split, "Reshape")?;
        let (outer, inner) = (&graph.tensor(from).dims, &graph.tensor(split).dims);
        let (&[rows, groups, each], &[batch, height, width, channels]) = (inner.as_slice(), outer.as_slice()) else {
            return None;
        };
        let swaps = turn.params.iter().any(|(n, p)| n == "perm" && *p == Param::u32s(&[0, 2, 1]));
        let fits = op.op_type == "Reshape"
            && swaps
            && graph.tensor(y).dims == *outer
            && graph.tensor(y).dtype.is_float()
            && rows == batch * height * width
            && groups.checked_mul(each) == Some(channels);
        fits.then_some(Found { back, from, groups, axis: 3 })
    };
    (0..graph.ops.len()).filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{evaluate, op_types, ramp};
    use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, TensorId, TensorKind};

    /// `x` [1, 2, 2, 6] as [`rows`, `groups`, ..], permuted and back.
    fn graph(inner: &[u32], perm: &[u32]) -> QnnGraph {
        let mut g = QnnGraph::default();
        let turned: Vec<u32> = perm.iter().map(|&p| inner[p as usize]).collect();
        for (name, kind, dims) in [
            ("x", TensorKind::AppWrite, vec![1, 2, 2, 6]),
            ("s", TensorKind::Native, inner.to_vec()),
            ("t", TensorKind::Native, turned),
            ("y", TensorKind::AppRead, vec![1, 2, 2, 6]),
        ] {
            let dtype = QnnType::FLOAT_32;
            g.tensors.push(QnnTensor { name: name.into(), kind, dtype, dims, quant: Quant::None, data: None });
        }
        for (i, (op, params)) in
            [("Reshape", vec![]), ("Transpose", vec![("perm".into(), Param::u32s(perm))]), ("Reshape", vec![])]
                .into_iter()
                .enumerate()
        {
            g.ops.push(QnnOp {
                name: format!("{op}{i}"),
                package: String::new(),
                op_type: op.into(),
                inputs: vec![TensorId(i as u32)],
                outputs: vec![TensorId(i as u32 + 1)],
                params,
                node: crate::ir::NodeId(0),
            });
        }
        g.inputs = vec![TensorId(0)];
        g.outputs = vec![TensorId(3)];
        g
    }

    #[test]
    fn groups_against_channels_are_a_shuffle() {
        for groups in [2, 3] {
            let before = graph(&[4, groups, 6 / groups], &[0, 2, 1]);
            let mut after = before.clone();
            super::name(&mut after);
            assert_eq!(op_types(&after), ["ChannelShuffle"]);
            assert_eq!(after.ops[0].params[0], ("num_groups".into(), Param::u32(groups)));
            let x = [ramp(24, 0.0, 1.0)];
            assert_eq!(evaluate(&before, &x), evaluate(&after, &x));
        }
    }

    #[test]
    fn other_permutations_stay() {
        for (inner, perm) in [(&[2, 4, 3][..], &[0, 2, 1][..]), (&[4, 2, 3], &[1, 0, 2]), (&[4, 6], &[1, 0])] {
            let mut g = graph(inner, perm);
            super::name(&mut g);
            assert_eq!(op_types(&g), ["Reshape", "Transpose", "Reshape"]);
        }
    }
}
