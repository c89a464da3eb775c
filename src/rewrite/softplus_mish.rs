//! `log(1 + exp(x))` becomes Softplus, which does not overflow where the exponential does in 16 bits (from 11.1 up), and
//! `x * tanh(softplus(x))` becomes Mish.
//!
//! Definition of Mish: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::NodeId;

pub const SOFTPLUS: Rewrite = Rewrite { name: "fuse-softplus", class: Class::Exact, look: softplus };
pub const MISH: Rewrite = Rewrite { name: "fuse-mish", class: Class::Exact, look: mish };

fn softplus(p: &Pattern<'_>, root: NodeId) -> Outcome {
    look_softplus(p, root).unwrap_or(Outcome::NoMatch)
}

fn look_softplus(p: &Pattern<'_>, root: NodeId) -> Option<Outcome> {
    let log = p.node(root);
    if !log.is("Log") {
        return None;
    }
    let (add_id, add) = p.made_by(log.input(0)?, "Add")?;
    let (one, e) = p.with_number(add)?;
    let (exp_id, exp) = p.made_by(e, "Exp")?;
    if one != 1.0 {
        return Some(Outcome::Refused(format!(
            "looks like Softplus; not fused: {one} is added to the exponential, not 1"
        )));
    }
    let inputs = vec![Operand::Value(p.source(exp.input(0)?))];
    let new = NewNode { domain: "", op_type: "Softplus", version: 1, inputs, attrs: vec![] };
    Some(Outcome::Matched(Patch { nodes: vec![new], replaces: log.output(0)?, covers: vec![exp_id, add_id, root] }))
}

fn mish(p: &Pattern<'_>, root: NodeId) -> Outcome {
    look_mish(p, root).unwrap_or(Outcome::NoMatch)
}

fn look_mish(p: &Pattern<'_>, root: NodeId) -> Option<Outcome> {
    let node = p.node(root);
    if !node.is("Mul") {
        return None;
    }
    let (a, b) = (node.input(0)?, node.input(1)?);
    [(a, b), (b, a)].into_iter().find_map(|(x, t)| {
        let (tanh_id, tanh) = p.made_by(t, "Tanh")?;
        let (softplus_id, softplus) = p.made_by(tanh.input(0)?, "Softplus")?;
        let x = p.source(x);
        if p.source(softplus.input(0)?) != x {
            return None;
        }
        let new = NewNode { domain: "", op_type: "Mish", version: 18, inputs: vec![Operand::Value(x)], attrs: vec![] };
        let covers = vec![softplus_id, tanh_id, root];
        Some(Outcome::Matched(Patch { nodes: vec![new], replaces: node.output(0)?, covers }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ValueId;
    use crate::rewrite::testing::Build;

    fn spelt(one: f32, swapped: bool, other: bool) -> (Build, ValueId) {
        let mut b = Build::new();
        let (x, one) = (b.input("x", &[1, 6]), b.number(one));
        let e = b.op("Exp", &[x]);
        let sum = if swapped { b.op("Add", &[one, e]) } else { b.op("Add", &[e, one]) };
        let s = b.op("Log", &[sum]);
        let t = b.op("Tanh", &[s]);
        let factor = if other { b.input("w", &[1, 6]) } else { x };
        let y = if swapped { b.op("Mul", &[t, factor]) } else { b.op("Mul", &[factor, t]) };
        (b, y)
    }

    #[test]
    fn both_spellings() {
        for swapped in [false, true] {
            let (mut b, y) = spelt(1.0, swapped, false);
            assert_eq!(b.run(SOFTPLUS, y).0, ["Softplus", "Tanh", "Mul"]);
            assert_eq!(b.run(MISH, y).0, ["Mish"]);
        }
    }

    #[test]
    fn near_misses_stay() {
        let (mut b, y) = spelt(1.5, false, false);
        let (ops, events) = b.run(SOFTPLUS, y);
        assert_eq!(ops.len(), 5);
        assert!(events[0].message.contains("1.5"), "{}", events[0].message);
        let (mut b, y) = spelt(1.0, false, true);
        b.run(SOFTPLUS, y);
        assert_eq!(b.run(MISH, y).0, ["Softplus", "Tanh", "Mul"]);
    }
}
