//! Arithmetic that changes nothing becomes Identity: a product with 1, a quotient by 1, a sum with 0, a difference of 0.
//!
//! Exporters write such nodes where a model has a factor that happens to be 1 (attention scores, residual sums). On the
//! NPU each is a pass over the tensor.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{NodeId, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "drop-no-effect", class: Class::Exact, look };

/// Constants with more elements than this are not searched.
const LIMIT: usize = 1 << 16;

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    matched(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn matched(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let node = p.node(root);
    let neutral = match node.op_type.as_str() {
        _ if !node.domain.is_empty() => return None,
        "Mul" | "Div" => 1.0,
        "Add" | "Sub" => 0.0,
        _ => return None,
    };
    let (a, b, y) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let commutes = node.is("Mul") || node.is("Add");
    let x = if is_all(p, b, neutral) {
        a
    } else if commutes && is_all(p, a, neutral) {
        b
    } else {
        return None;
    };
    let (before, after) = (p.graph.value(x), p.graph.value(y));
    if before.data.is_some() || !before.ty.dtype()?.is_float() || before.ty != after.ty {
        return None;
    }
    let inputs = vec![Operand::Value(x)];
    let new = NewNode { domain: "", op_type: "Identity", version: 14, inputs, attrs: vec![] };
    Some(Patch { nodes: vec![new], replaces: y, covers: vec![root] })
}

/// Is `v` a constant whose elements are all `k`?
fn is_all(p: &Pattern<'_>, v: ValueId, k: f64) -> bool {
    let Some(t) = p.graph.value(p.source(v)).data.as_ref().filter(|t| (1..=LIMIT).contains(&t.len())) else {
        return false;
    };
    t.to_f64s().is_some_and(|v| v.iter().all(|x| *x == k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::Build;

    fn left(op: &str, constant_first: bool, shape: &[usize], k: f32) -> Vec<String> {
        let mut b = Build::new();
        let x = b.input("x", &[2, 3]);
        let c = b.constant(shape, &vec![k; shape.iter().product()]);
        let x = b.op("Relu", &[x]);
        let y = if constant_first { b.op(op, &[c, x]) } else { b.op(op, &[x, c]) };
        b.run(REWRITE, y).0
    }

    #[test]
    fn neutral_constants_go() {
        for (op, k) in [("Mul", 1.0), ("Div", 1.0), ("Add", 0.0), ("Sub", 0.0)] {
            for shape in [&[][..], &[3], &[1, 1]] {
                assert_eq!(left(op, false, shape, k), ["Relu", "Identity"], "{op}");
            }
        }
        assert_eq!(left("Mul", true, &[1], 1.0), ["Relu", "Identity"]);
        assert_eq!(left("Add", true, &[1], 0.0), ["Relu", "Identity"]);
    }

    #[test]
    fn others_stay() {
        assert_eq!(left("Mul", false, &[], 0.0), ["Relu", "Mul"]);
        assert_eq!(left("Div", true, &[], 1.0), ["Relu", "Div"]);
        assert_eq!(left("Sub", true, &[], 0.0), ["Relu", "Sub"]);
        // The constant makes the result larger.
        assert_eq!(left("Mul", false, &[4, 1, 1], 1.0), ["Relu", "Mul"]);
    }
}
