//! `0.5 * x * (1 + erf(x / sqrt 2))`, in any order and association, becomes one Gelu.
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
    if rest != [x] {
        return Outcome::NoMatch;
    }
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
    let gelu = NewNode { domain: "", op_type: "Gelu", version: 20, inputs: vec![Operand::Value(x)], attrs: vec![] };
    Outcome::Matched(Patch { nodes: vec![gelu], replaces: y, covers })
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
