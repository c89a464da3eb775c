//! `x * clip(x + 3, 0, 6) / 6`, and `x * HardSigmoid(x)` with alpha 1/6 and beta 1/2, become one HardSwish.
//!
//! Definition: Howard et al., "Searching for MobileNetV3", 2019, section 5.2.

use super::pattern::close;
use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{NodeId, Tensor, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "fuse-hard-swish", class: Class::Exact, look };

/// `slope * clip(x + offset, 0, top)`, or a HardSigmoid brought to that form.
struct Gate {
    x: ValueId,
    offset: f64,
    top: f64,
    slope: f64,
    nodes: Vec<NodeId>,
}

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    let Some(product) = p.product(root) else { return Outcome::NoMatch };
    let found = product.factors.iter().enumerate().find_map(|(i, v)| Some((i, gate(p, *v)?)));
    let Some((at, gate)) = found else { return Outcome::NoMatch };
    let rest: Vec<ValueId> = product.factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, v)| *v).collect();
    if rest != [gate.x] {
        return Outcome::NoMatch;
    }
    let slope = gate.slope * product.scale;
    for (what, found, expected) in [("offset", gate.offset, 3.0), ("upper bound", gate.top, 6.0)] {
        if !close(found, expected) {
            return Outcome::Refused(format!("looks like HardSwish; not fused: the {what} is {found}, not {expected}"));
        }
    }
    let Some(y) = p.node(root).output(0) else { return Outcome::NoMatch };
    let covers = product.nodes.into_iter().chain(gate.nodes).collect();
    let inputs = vec![Operand::Value(gate.x)];
    let mut nodes = vec![NewNode { domain: "", op_type: "HardSwish", version: 14, inputs, attrs: vec![] }];
    if !close(slope, 1.0 / 6.0) {
        // A learnt factor behind the activation: it stays as one multiplication.
        let dtype = p.graph.value(gate.x).ty.dtype();
        let Some(k) = dtype.and_then(|d| Tensor::from_f64(d, vec![], &[slope * 6.0])) else { return Outcome::NoMatch };
        let inputs = vec![Operand::New(0), Operand::Constant(k)];
        nodes.push(NewNode { domain: "", op_type: "Mul", version: 14, inputs, attrs: vec![] });
    }
    Outcome::Matched(Patch { nodes, replaces: y, covers })
}

fn gate(p: &Pattern<'_>, v: ValueId) -> Option<Gate> {
    let (id, node) = p.producer(v)?;
    if node.is("HardSigmoid") {
        let alpha = f64::from(node.attrs.float_or("alpha", 0.2));
        let beta = f64::from(node.attrs.float_or("beta", 0.5));
        let x = p.source(node.input(0)?);
        return Some(Gate { x, offset: beta / alpha, top: 1.0 / alpha, slope: alpha, nodes: vec![id] });
    }
    if !node.is("Clip") {
        return None;
    }
    let bound = |name: &str, i: usize| match node.attrs.float(name) {
        Some(f) => Some(f64::from(f)),
        None => p.number(node.input(i)?),
    };
    let (low, top) = (bound("min", 1)?, bound("max", 2)?);
    let (add_id, add) = p.made_by(node.input(0)?, "Add")?;
    let (offset, x) = p.with_number(add)?;
    (low == 0.0).then(|| Gate { x: p.source(x), offset, top, slope: 1.0, nodes: vec![add_id, id] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Attr;
    use crate::rewrite::testing::Build;

    fn clip(way: usize, offset: f32, divisor: f32) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[1, 8]);
        let (c, d, k) = (b.number(offset), b.number(divisor), b.number(1.0 / divisor));
        let (zero, six) = (b.number(0.0), b.number(6.0));
        let a = if way == 0 { b.op("Add", &[x, c]) } else { b.op("Add", &[c, x]) };
        let g = b.op("Clip", &[a, zero, six]);
        let y = match way {
            0 => {
                let m = b.op("Mul", &[x, g]);
                b.op("Div", &[m, d])
            }
            1 => {
                let h = b.op("Div", &[g, d]);
                b.op("Mul", &[h, x])
            }
            _ => {
                let m = b.op("Mul", &[g, x]);
                b.op("Mul", &[k, m])
            }
        };
        (b, y)
    }

    #[test]
    fn every_spelling_is_one_hard_swish() {
        for way in 0..3 {
            let (mut b, y) = clip(way, 3.0, 6.0);
            assert_eq!(b.run(REWRITE, y).0, ["HardSwish"], "spelling {way}");
        }
    }

    #[test]
    fn hard_sigmoid_needs_alpha_of_a_sixth() {
        for (alpha, fused) in [(1.0 / 6.0, true), (0.2, false)] {
            let mut b = Build::new();
            let x = b.input("x", &[8]);
            let h = b.op_with("HardSigmoid", &[x], &[("alpha", Attr::Float(alpha)), ("beta", Attr::Float(0.5))]);
            let y = b.op("Mul", &[h, x]);
            let (ops, events) = b.run(REWRITE, y);
            assert_eq!(ops.len() == 1, fused);
            assert_eq!(events[0].applied, fused);
        }
    }

    #[test]
    fn near_misses_stay() {
        let (mut b, y) = clip(0, 2.0, 6.0);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops.len(), 4);
        assert_eq!(events[0].message, "looks like HardSwish; not fused: the offset is 2, not 3");
    }

    #[test]
    fn a_learnt_factor_stays_behind() {
        let (mut b, y) = clip(1, 3.0, 5.0);
        assert_eq!(b.run(REWRITE, y).0, ["HardSwish", "Mul"]);
        let k = b.graph.value(b.last().input(1).unwrap()).data.clone().unwrap();
        assert!((k.scalar_f64().unwrap() - 1.2).abs() < 1e-6);
    }

    #[test]
    fn another_tensor_is_no_hard_swish() {
        let mut b = Build::new();
        let (x, z) = (b.input("x", &[8]), b.input("z", &[8]));
        let h = b.op_with("HardSigmoid", &[x], &[("alpha", Attr::Float(1.0 / 6.0))]);
        let y = b.op("Mul", &[h, z]);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!((ops.len(), events.len()), (2, 0));
    }
}
