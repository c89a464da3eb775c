//! `0.5 * x * (1 + erf(x / sqrt 2))`, in any order and association, becomes one Gelu; further factors (GEGLU) stay.
//!
//! The HTP has no error function, but it has Gelu. Definition: Hendrycks and Gimpel, "Gaussian Error Linear Units
//! (GELUs)", 2016.

use super::pattern::close;
use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{NodeId, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "fuse-gelu-erf", class: Class::Exact, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    let Some(product) = p.product(root) else { return Outcome::NoMatch };
    let found = product.factors.iter().enumerate().find_map(|(i, v)| Some((i, one_plus_erf(p, *v)?)));
    let Some((at, (inner, x, erf_nodes))) = found else { return Outcome::NoMatch };
    let others = product.factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, v)| *v);
    // `0.5 * x` may be a value that others read, too: then it is one factor.
    let mut scale = product.scale;
    let mut rest: Vec<ValueId> = vec![];
    for v in others {
        let (k, source, _) = p.scaled(v);
        let is_x = source == x;
        scale *= if is_x { k } else { 1.0 };
        rest.push(if is_x { source } else { v });
    }
    let Some(at) = rest.iter().position(|v| *v == x) else { return Outcome::NoMatch };
    rest.remove(at);
    let expected = std::f64::consts::FRAC_1_SQRT_2;
    if !close(inner, expected) {
        return Outcome::Refused(format!(
            "looks like GELU; not fused: the factor inside Erf is {inner}, not {expected}"
        ));
    }
    if !close(scale, 0.5) {
        return Outcome::Refused(format!("looks like GELU; not fused: the outer factor is {scale}, not 0.5"));
    }
    let Some(y) = p.node(root).output(0) else { return Outcome::NoMatch };
    let mut covers = product.nodes;
    covers.extend(erf_nodes);
    let mut nodes =
        vec![NewNode { domain: "", op_type: "Gelu", version: 20, inputs: vec![Operand::Value(x)], attrs: vec![] }];
    // What else is in the product (the value that a gate multiplies) stays a factor.
    for v in rest {
        let inputs = vec![Operand::Value(v), Operand::New(nodes.len() - 1)];
        nodes.push(NewNode { domain: "", op_type: "Mul", version: 14, inputs, attrs: vec![] });
    }
    Outcome::Matched(Patch { nodes, replaces: y, covers })
}

/// `v` as `1 + erf(k * x)`: k, x, and the nodes that spell it.
fn one_plus_erf(p: &Pattern<'_>, v: ValueId) -> Option<(f64, ValueId, Vec<NodeId>)> {
    let (add_id, add) = p.made_by(v, "Add")?;
    let (one, erf) = p.with_number(add)?;
    let (erf_id, erf) = p.made_by(erf, "Erf")?;
    if one != 1.0 {
        return None;
    }
    let (k, x, mut nodes) = p.scaled(erf.input(0)?);
    nodes.extend([add_id, erf_id]);
    Some((k, x, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::Build;

    /// GELU with these constants, spelt in one of six ways.
    fn spell(way: usize, inner: f32, outer: f32) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[1, 8]);
        let (k, div, half, one) = (b.number(inner), b.number(1.0 / inner), b.number(outer), b.number(1.0));
        let scaled = if way.is_multiple_of(2) { b.op("Div", &[x, div]) } else { b.op("Mul", &[k, x]) };
        let erf = b.op("Erf", &[scaled]);
        let sum = if way.is_multiple_of(2) { b.op("Add", &[erf, one]) } else { b.op("Add", &[one, erf]) };
        let y = match way / 2 {
            0 => {
                let p = b.op("Mul", &[x, sum]);
                b.op("Mul", &[p, half])
            }
            1 => {
                let p = b.op("Mul", &[half, x]);
                b.op("Mul", &[p, sum])
            }
            _ => {
                let p = b.op("Mul", &[sum, half]);
                b.op("Mul", &[p, x])
            }
        };
        (b, y)
    }

    #[test]
    fn every_spelling_is_one_gelu() {
        for way in 0..6 {
            let (mut b, y) = spell(way, std::f32::consts::FRAC_1_SQRT_2, 0.5);
            let (ops, events) = b.run(REWRITE, y);
            assert_eq!(ops, ["Gelu"], "spelling {way}");
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].nodes.len(), 5);
        }
    }

    #[test]
    fn a_gated_value_stays_a_factor() {
        let (mut b, y) = spell(0, std::f32::consts::FRAC_1_SQRT_2, 0.5);
        let gated = b.input("g", &[1, 8]);
        let y = b.op("Mul", &[gated, y]);
        assert_eq!(b.run(REWRITE, y).0, ["Gelu", "Mul"]);
        assert_eq!(b.last().input(0), Some(gated));
    }

    #[test]
    fn a_near_miss_stays_and_says_why() {
        let (mut b, y) = spell(0, 1.0 / 1.5, 0.5);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops, ["Div", "Erf", "Add", "Mul", "Mul"]);
        assert!(!events[0].applied);
        assert!(events[0].message.contains("0.666"), "{}", events[0].message);
        let (mut b, y) = spell(3, std::f32::consts::FRAC_1_SQRT_2, 0.25);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops.len(), 5);
        assert!(events[0].message.contains("0.25"), "{}", events[0].message);
    }

    #[test]
    fn another_operand_is_no_gelu() {
        let mut b = Build::new();
        let (x, z) = (b.input("x", &[4]), b.input("z", &[4]));
        let (k, half, one) = (b.number(std::f32::consts::FRAC_1_SQRT_2), b.number(0.5), b.number(1.0));
        let s = b.op("Mul", &[x, k]);
        let e = b.op("Erf", &[s]);
        let a = b.op("Add", &[e, one]);
        let p = b.op("Mul", &[z, a]);
        let y = b.op("Mul", &[p, half]);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops.len(), 5);
        assert_eq!(events, []);
    }

    #[test]
    fn the_graph_output_keeps_its_name() {
        let (mut b, y) = spell(1, std::f32::consts::FRAC_1_SQRT_2, 0.5);
        let name = b.graph.value(y).name.clone();
        b.run(REWRITE, y);
        assert_eq!(b.graph.value(b.graph.outputs[0]).name, name);
        assert_eq!(b.last().origin.rewrites, ["fuse-gelu-erf"]);
    }
}
