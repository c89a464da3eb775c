//! Open dimensions that depend on each other: `total = past + seq`, found where ops need two dimensions to be one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Dim, Graph, Node};

/// Ops whose operands broadcast against each other.
const BROADCASTING: &[&str] = &[
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Pow",
    "Max",
    "Min",
    "Sum",
    "Mean",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
    "Where",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
];

/// Two dimensions that a node needs to be equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    pub left: Dim,
    pub right: Dim,
    /// Either may also be 1.
    pub broadcasts: bool,
    /// The node and its op, for messages: `"add" (Add)`.
    pub node: String,
}

impl Relation {
    /// `total = past + seq`: a lone symbol first.
    pub fn text(&self) -> String {
        let (a, b) = if is_lone(&self.right) && !is_lone(&self.left) {
            (&self.right, &self.left)
        } else {
            (&self.left, &self.right)
        };
        format!("{a} = {b}")
    }
}

/// A dimension whose value follows from those that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub name: String,
    pub value: i64,
    /// `total = past + seq`
    pub relation: String,
    pub node: String,
}

fn is_lone(d: &Dim) -> bool {
    matches!(d.symbols()[..], [s] if Dim::symbol(s) == *d)
}

/// The relations between open dimensions of a graph after inference, in the order of the nodes.
pub fn relations(graph: &Graph) -> Vec<Relation> {
    let mut out: Vec<Relation> = vec![];
    for (_, node) in graph.nodes() {
        let mut need = |left: &Dim, right: &Dim, broadcasts: bool| {
            let open = left.known().is_none() || right.known().is_none();
            let same = |r: &Relation| (&r.left, &r.right) == (left, right) || (&r.left, &r.right) == (right, left);
            if left == right || !open || out.iter().any(same) {
                return;
            }
            // A 1 fits everything where it broadcasts.
            if !(broadcasts && (left.is_one() || right.is_one())) {
                let node = format!("{:?} ({})", node.name, node.op_name());
                out.push(Relation { left: left.clone(), right: right.clone(), broadcasts, node });
            }
        };
        of_node(graph, node, &mut need);
    }
    out
}

fn of_node(graph: &Graph, node: &Node, need: &mut dyn FnMut(&Dim, &Dim, bool)) {
    let shape = |i: usize| graph.value(node.input(i)?).ty.tensor().map(|t| t.shape.as_slice());
    if !node.domain.is_empty() {
        return;
    }
    match node.op_type.as_str() {
        op if BROADCASTING.contains(&op) => {
            let shapes: Vec<&[Dim]> = (0..node.inputs.len()).filter_map(shape).collect();
            for (i, a) in shapes.iter().enumerate() {
                for b in &shapes[i + 1..] {
                    aligned(a, b, need);
                }
            }
        }
        "MatMul" => {
            let (Some(a), Some(b)) = (shape(0), shape(1)) else { return };
            let Some((k, a_rest)) = a.split_last() else { return };
            match b {
                [n] => need(k, n, false),
                [batch @ .., inner, _] => {
                    need(k, inner, false);
                    aligned(a_rest.split_last().map_or(&[], |(_, batch)| batch), batch, need);
                }
                [] => {}
            }
        }
        "Gemm" => {
            let (Some([a0, a1]), Some([b0, b1])) = (shape(0), shape(1)) else { return };
            let a = if node.attrs.int_or("transA", 0) == 0 { a1 } else { a0 };
            let b = if node.attrs.int_or("transB", 0) == 0 { b0 } else { b1 };
            need(a, b, false);
        }
        "Concat" => {
            let Some(first) = shape(0) else { return };
            let axis = node.attrs.int_or("axis", 0);
            let axis = if axis < 0 { axis + first.len() as i64 } else { axis };
            for other in (1..node.inputs.len()).filter_map(shape).filter(|s| s.len() == first.len()) {
                for (at, (a, b)) in first.iter().zip(other).enumerate() {
                    if at as i64 != axis {
                        need(a, b, false);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Shapes that broadcast, their last axes aligned.
fn aligned(a: &[Dim], b: &[Dim], need: &mut dyn FnMut(&Dim, &Dim, bool)) {
    for (x, y) in a.iter().rev().zip(b.iter().rev()) {
        need(x, y, true);
    }
}

/// The symbols of `free` that follow from `known`, one after the other.
///
/// # Errors
/// Known values that contradict each other, or a dimension that would have to be less than 1: a sentence that names the
/// node and the numbers.
pub fn derive(
    relations: &[Relation],
    known: &BTreeMap<String, i64>,
    free: &BTreeSet<String>,
) -> Result<Vec<Derived>, String> {
    let mut values = known.clone();
    let mut found: Vec<Derived> = vec![];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for r in relations {
            let of = |d: &Dim| d.substitute(&|s| values.get(s).map(|n| Dim::Known(*n)));
            let (left, right) = (of(&r.left), of(&r.right));
            if r.broadcasts && (left.is_one() || right.is_one()) {
                continue;
            }
            if let (Dim::Known(a), Dim::Known(b)) = (&left, &right) {
                if a != b {
                    return Err(format!("node {} needs {} = {}, but they are {a} and {b}", r.node, r.left, r.right));
                }
                continue;
            }
            let gap = left.sub(&right);
            let [name] = gap.symbols()[..] else { continue };
            let at = |n: i64| gap.substitute(&|s| (s == name).then_some(Dim::Known(n))).known();
            let (Some(zero), Some(one), Some(two)) = (at(0), at(1), at(2)) else { continue };
            let Some(slope) = one.checked_sub(zero).filter(|s| *s != 0 && two.checked_sub(one) == Some(*s)) else {
                continue;
            };
            if !free.contains(name) {
                continue;
            }
            let value = zero.checked_neg().filter(|n| n % slope == 0).map(|n| n / slope);
            let Some(value) = value.filter(|v| *v >= 1) else {
                let would = value.map_or_else(|| "no whole number".into(), |v| v.to_string());
                return Err(format!(
                    "dimension {name:?} would be {would}: node {} needs {}, here {left} = {right}",
                    r.node,
                    r.text()
                ));
            };
            let name = name.to_string();
            values.insert(name.clone(), value);
            found.push(Derived { name, value, relation: r.text(), node: r.node.clone() });
            changed = true;
        }
    }
    Ok(found)
}

/// The symbols of `free` that must be given; the others follow from them.
pub fn independent(relations: &[Relation], known: &BTreeMap<String, i64>, free: &[String]) -> Vec<String> {
    // What a relation says of one symbol by several is best left to it: `total = past + seq`.
    let by_several = |s: &String| {
        let sides = |r: &Relation| [(r.left.clone(), r.right.clone()), (r.right.clone(), r.left.clone())];
        let says = |(a, b): &(Dim, Dim)| *a == Dim::symbol(s.as_str()) && b.symbols().len() > 1;
        relations.iter().any(|r| sides(r).iter().any(says))
    };
    let mut given: Vec<String> = free.to_vec();
    let (mut order, rest): (Vec<&String>, Vec<&String>) = free.iter().rev().partition(|s| by_several(s));
    order.extend(rest);
    for name in order {
        let others: Vec<String> = given.iter().filter(|s| *s != name).cloned().collect();
        let mut values = known.clone();
        values.extend(others.iter().map(|s| (s.clone(), 64)));
        let open = free.iter().filter(|s| !others.contains(s)).cloned().collect();
        let follows = derive(relations, &values, &open).is_ok_and(|found| found.len() == free.len() - others.len());
        if follows {
            given = others;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Vec<Relation> {
        let right = Dim::symbol("past").add(&Dim::symbol("seq"));
        vec![Relation { left: Dim::symbol("total"), right, broadcasts: true, node: "\"add\" (Add)".into() }]
    }

    fn solve(known: &[(&str, i64)]) -> Result<Vec<(String, i64)>, String> {
        let known: BTreeMap<String, i64> = known.iter().map(|(n, v)| ((*n).into(), *v)).collect();
        let free = ["past", "seq", "total"].into_iter().filter(|s| !known.contains_key(*s)).map(String::from).collect();
        let found = derive(&cache(), &known, &free)?;
        Ok(found.into_iter().map(|d| (d.name, d.value)).collect())
    }

    #[test]
    fn the_third_follows_from_two() {
        assert_eq!(solve(&[("past", 3), ("seq", 4)]), Ok(vec![("total".into(), 7)]));
        assert_eq!(solve(&[("total", 7), ("seq", 4)]), Ok(vec![("past".into(), 3)]));
        assert_eq!(solve(&[("seq", 4)]), Ok(vec![]));
        assert_eq!(solve(&[("past", 3), ("seq", 4), ("total", 1)]), Ok(vec![]));
    }

    #[test]
    fn contradictions_name_both_numbers() {
        let e = solve(&[("past", 3), ("seq", 4), ("total", 8)]).unwrap_err();
        assert_eq!(e, "node \"add\" (Add) needs total = past + seq, but they are 8 and 7");
        let e = solve(&[("total", 4), ("seq", 4)]).unwrap_err();
        assert!(e.contains("\"past\" would be 0"), "{e}");
    }

    #[test]
    fn what_follows_need_not_be_given() {
        let free = ["total", "seq", "past"].map(String::from);
        assert_eq!(independent(&cache(), &BTreeMap::new(), &free), ["seq", "past"]);
        assert_eq!(independent(&[], &BTreeMap::new(), &free), free);
    }
}
