//! Codes of a 32-bit graph input that are dequantised again: the vendor's optimiser makes the pair one conversion of
//! floats, and what lies outside the encoding's range is no longer cut off (QAIRT 2.47). A clamp in front does that.

use std::collections::{HashMap, HashSet};

use super::{Work, moving};
use crate::ops::compose::clamp_params;
use crate::qnn::graph::{QnnOp, QnnType, Quant, TensorId, TensorKind};

/// Clamps what is quantised from 32-bit floats and read in real numbers later.
pub(super) fn clamp(work: &mut Work<'_>) {
    let back = dequantised(&work.graph.ops, |t| work.graph.tensor(t).kind == TensorKind::Native);
    let mut clamped: HashMap<usize, QnnOp> = HashMap::new();
    for i in 0..work.graph.ops.len() {
        let op = work.graph.ops[i].clone();
        let (&[x], &[codes]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { continue };
        if op.op_type != "Quantize" || work.graph.tensor(x).dtype != QnnType::FLOAT_32 || !back.contains(&codes) {
            continue;
        }
        let Some((low, high)) = work.encoding(codes).range() else { continue };
        let within = work.tensor(x, QnnType::FLOAT_32, Quant::None);
        let mut bound = work.op("ReluMinMax", x, within, &op);
        bound.params = clamp_params(low, high).map(|(name, p)| (name.to_string(), p)).to_vec();
        work.graph.ops[i].inputs = vec![within];
        clamped.insert(i, bound);
    }
    let ops = std::mem::take(&mut work.graph.ops);
    work.graph.ops =
        ops.into_iter().enumerate().flat_map(|(i, op)| clamped.remove(&i).into_iter().chain([op])).collect();
}

/// The tensors of codes that some op dequantises, at once or after moving them, into a tensor that `inner` holds for.
fn dequantised(ops: &[QnnOp], inner: impl Fn(TensorId) -> bool) -> HashSet<TensorId> {
    let mut back = HashSet::new();
    for op in ops.iter().rev() {
        let reaches = match op.op_type.as_str() {
            "Dequantize" => op.outputs.iter().any(|t| inner(*t)),
            _ => moving::moved(op).is_some() && op.outputs.iter().any(|t| back.contains(t)),
        };
        if reaches {
            back.extend(op.inputs.iter().copied());
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::super::tests::Model;
    use crate::ir::DataType;
    use crate::ops::testing::{op_types, ramp};

    #[test]
    fn an_input_that_is_quantised_and_read_again_is_cut_off_first() {
        let mut m = Model::new();
        let (x, y) = (m.input("x", DataType::F32, &[2, 6]), m.input("y", DataType::F32, &[2, 6]));
        let q = m.quantise(x, 0.01, 128);
        let d = m.dequantise(q, 0.01, 128);
        let r = m.node("Transpose", &[d], &[]);
        let t = m.node("Transpose", &[r], &[]);
        let z = m.node("Mul", &[t, y], &[]);
        let g = m.lower(z, false);
        let at = |op: &str| g.ops.iter().find(|o| o.op_type == op).unwrap();
        assert_eq!(at("Quantize").inputs, at("ReluMinMax").outputs);
        assert_eq!(at("ReluMinMax").inputs, [g.inputs[0]]);
        let inputs = [ramp(12, -3.0, 0.5), ramp(12, 1.0, 0.0)];
        let got = crate::ops::testing::evaluate(&g, &inputs);
        assert!(got[0].iter().all(|v| (-1.28..=1.27).contains(&((v * 1e4).round() / 1e4))), "{got:?}");
    }

    #[test]
    fn what_stays_codes_is_not() {
        let mut m = Model::new();
        let x = m.input("x", DataType::F32, &[2, 6]);
        let q = m.quantise(x, 0.01, 128);
        let d = m.dequantise(q, 0.01, 128);
        let y = m.node("Add", &[d, d], &[]);
        let y = m.quantise(y, 0.02, 128);
        assert!(!op_types(&m.lower(y, false)).contains(&"ReluMinMax"));
    }
}
