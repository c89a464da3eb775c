//! `Where(IsNaN(p), c, p)` with `p = Softmax(s)`, as PyTorch exports attention whose rows may be masked entirely: such rows
//! are found by their mask. The NPU's 16-bit floats have no minus infinity and no test for NaN of 32-bit ones.
//!
//! A row of a softmax over finite scores, some of them masked by minus infinity, is NaN exactly if all are masked. Masked
//! by a finite number, it never is.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, NodeId, Tensor, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "mask-rows-by-mask", class: Class::Exact, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    found(p, root).unwrap_or(Outcome::NoMatch)
}

fn found(p: &Pattern<'_>, root: NodeId) -> Option<Outcome> {
    let select = p.node(root);
    if !select.is("Where") {
        return None;
    }
    let probabilities = select.input(2)?;
    let (test, is_nan) = p.made_by(select.input(0)?, "IsNaN")?;
    let (_, softmax) = p.made_by(probabilities, "Softmax")?;
    if p.source(is_nan.input(0)?) != p.source(probabilities) || softmax.version < 13 {
        return None;
    }
    let scores = softmax.input(0)?;
    let node = |op_type, version, inputs, attrs| NewNode { domain: "", op_type, version, inputs, attrs };
    let mask = match mask_of(p, scores) {
        None => return Some(Outcome::Refused("the scores of the softmax are not masked in a visible way".into())),
        Some(Mask::Finite) => {
            let nodes = vec![node("Identity", 13, vec![Operand::Value(probabilities)], vec![])];
            let covers = vec![test, root];
            return Some(Outcome::Matched(Patch { nodes, replaces: select.output(0)?, covers }));
        }
        Some(Mask::Rows(mask)) => mask,
    };
    let ty = p.graph.value(scores).ty.tensor()?;
    let mask_rank = p.graph.value(mask).ty.tensor()?.shape.len() as i64;
    let axis = softmax.attrs.int_or("axis", -1);
    // Counted from the back, since the mask may have fewer axes.
    let from_back = if axis < 0 { axis } else { axis - ty.shape.len() as i64 };
    if from_back < -mask_rank {
        return None;
    }
    let axes = Operand::Constant(Tensor::from_i64(vec![1], &[from_back]));
    let zero = Operand::Constant(Tensor::from_f64(ty.dtype, vec![], &[0.0])?);
    let to = Attr::Int(i64::from(ty.dtype.to_onnx()));
    let nodes = vec![
        node("Cast", 13, vec![Operand::Value(mask)], vec![("to", to)]),
        node("ReduceMax", 18, vec![Operand::New(0), axes], vec![("keepdims", Attr::Int(1))]),
        node("Greater", 13, vec![Operand::New(1), zero], vec![]),
        node(
            "Where",
            16,
            vec![Operand::New(2), Operand::Value(probabilities), Operand::Value(select.input(1)?)],
            vec![],
        ),
    ];
    Some(Outcome::Matched(Patch { nodes, replaces: select.output(0)?, covers: vec![test, root] }))
}

/// What is put into, or added to, scores that do not count.
enum Mask {
    /// Minus infinity, where this value is false.
    Rows(ValueId),
    /// A finite number.
    Finite,
}

fn mask_of(p: &Pattern<'_>, scores: ValueId) -> Option<Mask> {
    let kind = |masked: f64, mask: ValueId| match masked {
        f64::NEG_INFINITY => Some(Mask::Rows(mask)),
        v if v.is_finite() => Some(Mask::Finite),
        _ => None,
    };
    if let Some((_, put)) = p.made_by(scores, "Where") {
        return kind(p.number(put.input(2)?)?, put.input(0)?);
    }
    let (_, add) = p.made_by(scores, "Add")?;
    [add.input(0)?, add.input(1)?].into_iter().find_map(|v| {
        let (_, put) = p.made_by(v, "Where")?;
        let kept = p.number(put.input(1)?)?;
        if kept.is_finite() { kind(p.number(put.input(2)?)?, put.input(0)?) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, Dim, TensorType};
    use crate::rewrite::testing::Build;

    /// Scores masked in one of several ways, their softmax, and what `of` makes of both.
    fn graph(way: usize, of: impl FnOnce(&mut Build, ValueId, ValueId) -> ValueId) -> Vec<String> {
        let mut b = Build::new();
        let x = b.input("x", &[2, 3]);
        let m = b.graph.add_typed("m", TensorType::new(DataType::Bool, vec![Dim::Known(2), Dim::Known(3)]));
        b.graph.inputs.push(m);
        let (zero, low) = (b.number(0.0), b.number(f32::NEG_INFINITY));
        let s = match way {
            0 => {
                let w = b.op("Where", &[m, zero, low]);
                b.op("Add", &[x, w])
            }
            1 => {
                let w = b.op("Where", &[m, zero, low]);
                b.op("Add", &[w, x])
            }
            2 => b.op("Where", &[m, x, low]),
            _ => {
                let finite = b.number(-1e9);
                let w = b.op("Where", &[m, zero, finite]);
                b.op("Add", &[x, w])
            }
        };
        let soft = b.op_with("Softmax", &[s], &[("axis", Attr::Int(-1))]);
        let y = of(&mut b, s, soft);
        b.run(REWRITE, y).0
    }

    fn usual(b: &mut Build, _: ValueId, p: ValueId) -> ValueId {
        let (n, zero) = (b.op("IsNaN", &[p]), b.number(0.0));
        b.op("Where", &[n, zero, p])
    }

    #[test]
    fn spellings() {
        for way in 0..3 {
            let ops = graph(way, usual);
            assert!(!ops.iter().any(|op| op == "IsNaN") && ops.iter().any(|op| op == "ReduceMax"), "{way}: {ops:?}");
        }
    }

    #[test]
    fn a_finite_mask_makes_no_nan() {
        assert_eq!(graph(3, usual).last().unwrap(), "Identity");
    }

    #[test]
    fn near_misses() {
        let of_scores = graph(0, |b, s, p| {
            let (n, zero) = (b.op("IsNaN", &[s]), b.number(0.0));
            b.op("Where", &[n, zero, p])
        });
        assert!(of_scores.iter().any(|op| op == "IsNaN"));
        let swapped = graph(0, |b, _, p| {
            let (n, zero) = (b.op("IsNaN", &[p]), b.number(0.0));
            b.op("Where", &[n, p, zero])
        });
        assert!(swapped.iter().any(|op| op == "IsNaN"));
    }
}
