//! Graphs that are right and come out wrong: patterns that the vendor's graph optimiser breaks, spelt another way.

use super::{activated_splits, wide_pads};
use crate::qnn::graph::{QnnGraph, TensorId, TensorKind};

/// A constant added between two Reshapes: where 4-D dims `[a, 1, b, c]` become `[a, b, 1, c]` (`[B, K]` become
/// `[B, 1, K]`), in 16-bit floats, the HTP leaves elements unwritten (SDK 2.47 and 2.51, every arch). With the constant as
/// the first operand it does not.
pub(super) fn avoid(graph: &mut QnnGraph) {
    wide_pads::narrow(graph);
    activated_splits::slice(graph);
    let is_reshape = |i: Option<&usize>| i.is_some_and(|&i| graph.ops[i].op_type == "Reshape");
    let mut maker = vec![None; graph.tensors.len()];
    let mut reshaped = vec![false; graph.tensors.len()];
    for (i, op) in graph.ops.iter().enumerate() {
        for t in &op.outputs {
            maker[t.0 as usize] = Some(i);
        }
        if let (Some(TensorId(t)), "Reshape") = (op.inputs.first(), op.op_type.as_str()) {
            reshaped[*t as usize] = true;
        }
    }
    let is_static = |t: TensorId| graph.tensor(t).kind == TensorKind::Static;
    let swapped: Vec<usize> = (0..graph.ops.len())
        .filter(|&i| {
            let op = &graph.ops[i];
            let (&[x, c], &[y]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return false };
            op.op_type == "ElementWiseAdd"
                && graph.tensor(y).dtype.is_float()
                && is_static(c)
                && !is_static(x)
                && is_reshape(maker[x.0 as usize].as_ref())
                && reshaped[y.0 as usize]
        })
        .collect();
    for i in swapped {
        graph.ops[i].inputs.reverse();
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::DataType;
    use crate::ops::testing::{evaluate, ramp};
    use crate::qnn::graph::{QnnGraph, QnnOp, QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};

    #[test]
    fn a_constant_between_reshapes_is_the_first_operand() {
        let mut g = QnnGraph::default();
        let constant = crate::ir::Tensor::from_f64(DataType::F32, vec![6], &ramp(6, 0.5, 1.0)).unwrap();
        for (name, kind, dims) in [
            ("x", TensorKind::AppWrite, vec![2, 2, 3]),
            ("m", TensorKind::Native, vec![2, 6]),
            ("c", TensorKind::Static, vec![6]),
            ("a", TensorKind::Native, vec![2, 6]),
            ("y", TensorKind::AppRead, vec![2, 1, 6]),
        ] {
            let data =
                (kind == TensorKind::Static).then(|| StaticData::Constant { tensor: constant.clone(), perm: None });
            let dtype = QnnType::FLOAT_32;
            g.tensors.push(QnnTensor { name: name.into(), kind, dtype, dims, quant: Quant::None, data });
        }
        for (op, ins, out) in [("Reshape", vec![0], 1), ("ElementWiseAdd", vec![1, 2], 3), ("Reshape", vec![3], 4)] {
            g.ops.push(QnnOp {
                name: op.into(),
                package: String::new(),
                op_type: op.into(),
                inputs: ins.into_iter().map(TensorId).collect(),
                outputs: vec![TensorId(out)],
                params: vec![],
                node: crate::ir::NodeId(0),
            });
        }
        g.inputs = vec![TensorId(0)];
        g.outputs = vec![TensorId(4)];
        let mut after = g.clone();
        super::avoid(&mut after);
        assert_eq!(after.ops[1].inputs, [TensorId(2), TensorId(1)]);
        let x = [ramp(12, 0.0, 1.0)];
        assert_eq!(evaluate(&g, &x), evaluate(&after, &x));
    }
}
