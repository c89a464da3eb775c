//! The work of QNN ops, counted from their shapes.

use super::graph::{Param, QnnGraph, QnnOp};

/// Multiply-accumulate operations of one op: the products that a convolution or a matrix multiplication sums. Zero for
/// every other op.
pub fn macs(graph: &QnnGraph, op: &QnnOp) -> u64 {
    let dims = |i: usize| op.inputs.get(i).map(|t| graph.tensor(*t).dims.as_slice()).unwrap_or_default();
    let out: u64 = op.outputs.first().map_or(0, |t| graph.tensor(*t).elements() as u64);
    let product = |d: &[u32]| d.iter().map(|&x| u64::from(x)).product::<u64>();
    match op.op_type.as_str() {
        // Filters hold their output channels last; a transposed convolution spends a filter on every input element.
        "Conv1d" | "Conv2d" | "Conv3d" | "DepthWiseConv1d" | "DepthWiseConv2d" => match dims(1).split_last() {
            Some((_, per_output)) => out.saturating_mul(product(per_output)),
            None => 0,
        },
        "TransposeConv1d" | "TransposeConv2d" | "TransposeConv3d" => {
            let filter = dims(1);
            let cin = filter.len().checked_sub(2).map_or(1, |i| u64::from(filter[i].max(1)));
            product(dims(0)).saturating_mul(product(filter) / cin.max(1))
        }
        "FullyConnected" => out.saturating_mul(dims(1).last().map_or(0, |&k| u64::from(k))),
        "MatMul" => {
            let transposed = op.params.iter().any(|(n, p)| n == "transpose_in0" && *p == Param::bool(true));
            let a = dims(0);
            let k = if transposed { a.len().checked_sub(2).map(|i| a[i]) } else { a.last().copied() };
            out.saturating_mul(u64::from(k.unwrap_or(0)))
        }
        _ => 0,
    }
}
