//! The first ops of a graph as a graph of their own, to find the op that a backend cannot prepare.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{QnnGraph, TensorId, TensorKind};

/// The graph of the first `n` ops. What they make and none of them reads becomes an output, so that every op counts.
pub fn prefix(graph: &QnnGraph, n: usize) -> QnnGraph {
    let ops = &graph.ops[..n.min(graph.ops.len())];
    let read: BTreeSet<TensorId> = ops.iter().flat_map(|op| op.inputs.iter().copied()).collect();
    let made: BTreeSet<TensorId> = ops.iter().flat_map(|op| op.outputs.iter().copied()).collect();
    let mut out = QnnGraph { name: graph.name.clone(), ..QnnGraph::default() };
    let mut renumbered: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for &id in read.union(&made) {
        let mut tensor = graph.tensor(id).clone();
        if tensor.kind == TensorKind::Native && !read.contains(&id) {
            tensor.kind = TensorKind::AppRead;
        }
        renumbered.insert(id, TensorId(out.tensors.len() as u32));
        out.tensors.push(tensor);
    }
    let renumber = |ids: &[TensorId]| ids.iter().filter_map(|id| renumbered.get(id).copied()).collect::<Vec<_>>();
    for op in ops {
        let mut op = op.clone();
        (op.inputs, op.outputs) = (renumber(&op.inputs), renumber(&op.outputs));
        out.ops.push(op);
    }
    out.inputs = renumber(&graph.inputs);
    let made = out.tensors.iter().enumerate().filter(|(_, t)| t.kind == TensorKind::AppRead);
    out.outputs = made.map(|(i, _)| TensorId(i as u32)).collect();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::NodeId;
    use crate::qnn::graph::{QnnOp, QnnTensor, QnnType, Quant};

    fn chain(ops: usize) -> QnnGraph {
        let mut g = QnnGraph::default();
        for i in 0..=ops {
            let kind = match i {
                0 => TensorKind::AppWrite,
                i if i == ops => TensorKind::AppRead,
                _ => TensorKind::Native,
            };
            g.tensors.push(QnnTensor {
                name: format!("t{i}"),
                kind,
                dtype: QnnType::FLOAT_16,
                dims: vec![1],
                quant: Quant::None,
                data: None,
            });
        }
        for i in 0..ops as u32 {
            g.ops.push(QnnOp {
                name: format!("op{i}"),
                package: "qti.aisw".into(),
                op_type: "Relu".into(),
                inputs: vec![TensorId(i)],
                outputs: vec![TensorId(i + 1)],
                params: vec![],
                node: NodeId(i),
            });
        }
        (g.inputs, g.outputs) = (vec![TensorId(0)], vec![TensorId(ops as u32)]);
        g
    }

    #[test]
    fn the_cut_becomes_an_output() {
        let p = prefix(&chain(3), 2);
        assert_eq!(p.ops.len(), 2);
        let names = |ids: &[TensorId]| ids.iter().map(|t| p.tensor(*t).name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&p.inputs), names(&p.outputs)), (vec!["t0".into()], vec!["t2".into()]));
        assert_eq!(p.tensors.len(), 3);
    }

    #[test]
    fn the_whole_is_a_prefix() {
        let g = chain(3);
        let p = prefix(&g, 9);
        assert_eq!((p.ops.len(), p.outputs.len(), p.tensors.len()), (3, 1, 4));
    }
}
