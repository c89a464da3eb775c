//! A row of constants added to a product with a constant matrix becomes the bias of FullyConnected: as an op of its own
//! it is a pass over the result.

use super::absorb::pruned;
use crate::qnn::graph::{QnnGraph, QnnTensor, Quant, TensorId, TensorKind};

/// An Add that becomes a bias.
struct Found {
    /// FullyConnected.
    product: usize,
    /// The op that makes what is added to: the product, or a Reshape of it that keeps rows whole.
    last: usize,
    add: usize,
    constant: TensorId,
}

/// Rewrites the graph as the module says.
pub(super) fn take_in(graph: &mut QnnGraph) {
    let found = find(graph);
    if found.is_empty() {
        return;
    }
    for f in &found {
        let result = graph.ops[f.add].outputs[0];
        let constant = graph.tensor(f.constant).clone();
        let name = format!("{}.bias", graph.tensor(graph.ops[f.product].outputs[0]).name);
        let dims = vec![constant.elements() as u32];
        graph.tensors.push(QnnTensor { name, dims, ..constant });
        let bias = TensorId(graph.tensors.len() as u32 - 1);
        graph.ops[f.product].inputs.push(bias);
        graph.ops[f.last].outputs = vec![result];
    }
    let mut at = 0;
    graph.ops.retain(|_| {
        at += 1;
        !found.iter().any(|f| f.add == at - 1)
    });
    *graph = pruned(std::mem::take(graph));
}

fn find(graph: &QnnGraph) -> Vec<Found> {
    let mut maker = vec![None; graph.tensors.len()];
    let mut reads = vec![0usize; graph.tensors.len()];
    for (i, op) in graph.ops.iter().enumerate() {
        op.outputs.iter().for_each(|t| maker[t.0 as usize] = Some(i));
        op.inputs.iter().for_each(|t| reads[t.0 as usize] += 1);
    }
    let plain = |t: TensorId| graph.tensor(t).dtype.is_float() && graph.tensor(t).quant == Quant::None;
    // The op that makes `t`, if nothing else looks at `t`.
    let private = |t: TensorId| {
        let lone = reads[t.0 as usize] == 1 && graph.tensor(t).kind == TensorKind::Native;
        maker[t.0 as usize].filter(|_| lone)
    };
    let candidate = |add: usize| {
        let op = &graph.ops[add];
        let (&[a, b], &[y]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return None };
        let is_static = |t: TensorId| graph.tensor(t).kind == TensorKind::Static;
        let (x, constant) = match (is_static(a), is_static(b)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        let last = private(x)?;
        let product = match graph.ops[last].op_type.as_str() {
            "FullyConnected" => last,
            "Reshape" => private(*graph.ops[last].inputs.first()?)?,
            _ => return None,
        };
        let fc = &graph.ops[product];
        let (&[_, weight], &[sum]) = (fc.inputs.as_slice(), fc.outputs.as_slice()) else { return None };
        let n = *graph.tensor(sum).dims.last()?;
        let row = graph.tensor(constant);
        let fits = fc.op_type == "FullyConnected"
            && op.op_type == "ElementWiseAdd"
            && [x, y, sum, weight, constant].into_iter().all(plain)
            && graph.tensor(x).dims == graph.tensor(y).dims
            && graph.tensor(x).dims.last() == Some(&n)
            && row.dims.last() == Some(&n)
            && row.elements() == n as usize
            && row.dtype == graph.tensor(weight).dtype;
        fits.then_some(Found { product, last, add, constant })
    };
    (0..graph.ops.len()).filter_map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use crate::ir::{DataType, Tensor};
    use crate::ops::testing::{evaluate, op_types, ramp};
    use crate::qnn::graph::{QnnGraph, QnnOp, QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};

    /// `x` [2, 3] times a matrix, reshaped to [1, 2, 4], plus a constant of these dims, plus the product once more if it
    /// is `shared`.
    fn graph(row: &[u32], shared: bool) -> QnnGraph {
        let mut g = QnnGraph::default();
        for (name, kind, dims) in [
            ("x", TensorKind::AppWrite, vec![2, 3]),
            ("w", TensorKind::Static, vec![4, 3]),
            ("p", TensorKind::Native, vec![2, 4]),
            ("r", TensorKind::Native, vec![1, 2, 4]),
            ("c", TensorKind::Static, row.to_vec()),
            ("y", TensorKind::AppRead, vec![1, 2, 4]),
            ("z", TensorKind::AppRead, vec![1, 2, 4]),
        ] {
            let shape: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
            let values = ramp(shape.iter().product(), 0.5, 1.0);
            let tensor = Tensor::from_f64(DataType::F32, shape, &values).unwrap();
            let data = (kind == TensorKind::Static).then_some(StaticData::Constant { tensor, perm: None });
            g.tensors.push(QnnTensor {
                name: name.into(),
                kind,
                dtype: QnnType::FLOAT_32,
                dims,
                quant: Quant::None,
                data,
            });
        }
        let mut ops = vec![
            ("FullyConnected", vec![0, 1], 2),
            ("Reshape", vec![2], 3),
            ("ElementWiseAdd", vec![4, 3], 5),
            ("ElementWiseAdd", vec![3, 5], 6),
        ];
        ops.truncate(if shared { 4 } else { 3 });
        for (op, ins, out) in ops {
            g.ops.push(QnnOp {
                name: format!("{op}{out}"),
                package: String::new(),
                op_type: op.into(),
                inputs: ins.into_iter().map(TensorId).collect(),
                outputs: vec![TensorId(out)],
                params: vec![],
                node: crate::ir::NodeId(0),
            });
        }
        g.inputs = vec![TensorId(0)];
        g.outputs = vec![TensorId(if shared { 6 } else { 5 })];
        g
    }

    #[test]
    fn a_row_is_a_bias() {
        for row in [&[4][..], &[1, 4], &[1, 1, 4]] {
            let before = graph(row, false);
            let mut after = before.clone();
            super::take_in(&mut after);
            assert_eq!(op_types(&after), ["FullyConnected", "Reshape"]);
            let x = [ramp(6, 0.0, 1.0)];
            assert_eq!(evaluate(&before, &x), evaluate(&after, &x));
        }
    }

    #[test]
    fn other_constants_and_shared_products_stay() {
        for (row, shared) in [(&[1, 2, 4][..], false), (&[1], false), (&[1, 2, 1], false), (&[4], true)] {
            let mut g = graph(row, shared);
            let before = op_types(&g).len();
            super::take_in(&mut g);
            assert_eq!(op_types(&g).len(), before, "{row:?} {shared}");
        }
    }
}
