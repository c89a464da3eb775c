//! Normalisations spelt out in primitives become one op, which squares inside in more than 16 bits:
//!
//! - `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * gamma + beta` is LayerNormalization (Ba et al., 2016);
//! - `x / sqrt(mean(x^2) + eps) * gamma` is RMSNormalization (Zhang and Sennrich, 2019).
//!
//! The mean must run over the trailing axes; gamma and beta must be constants over exactly these.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, DataType, Node, NodeId, Tensor, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "fuse-norm", class: Class::Tolerance, look };

/// `x` normalised over its axes from `axis` on.
struct Norm {
    x: ValueId,
    axis: usize,
    epsilon: f64,
    centred: bool,
    nodes: Vec<NodeId>,
}

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    matched(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn matched(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let node = p.node(root);
    let y = node.output(0)?;
    // The affine part belongs to the pattern: leave inner nodes to the root that has it.
    if let Some(reader) = sole_reader(p, y)
        && (p.node(reader).is("Mul") || p.node(reader).is("Add"))
        && p.node(reader).inputs.iter().flatten().any(|v| is_constant(p, *v))
        && affine(p, reader).is_some()
    {
        return None;
    }
    let (norm, gamma, beta, mut covers) = affine(p, root).or_else(|| Some((norm(p, root)?, None, None, vec![])))?;
    covers.extend(&norm.nodes);
    let ty = p.graph.value(norm.x).ty.tensor()?;
    let dims: Vec<usize> = ty.static_shape()?.get(norm.axis..)?.to_vec();
    let fitted = |v: Option<ValueId>| match v {
        None => Some(None),
        Some(v) => fit(p.graph.value(p.source(v)).data.as_ref()?, &dims).map(Some),
    };
    let gamma = match fitted(gamma)? {
        Some(t) => t,
        None => Tensor::from_f64(ty.dtype, dims.clone(), &vec![1.0; dims.iter().product()])?,
    };
    let mut inputs = vec![Operand::Value(norm.x), Operand::Constant(gamma)];
    let attrs = vec![("axis", Attr::Int(norm.axis as i64)), ("epsilon", Attr::Float(norm.epsilon as f32))];
    let beta = fitted(beta)?;
    if norm.centred {
        inputs.extend(beta.map(Operand::Constant));
        let new = NewNode { domain: "", op_type: "LayerNormalization", version: 17, inputs, attrs };
        return Some(Patch { nodes: vec![new], replaces: y, covers });
    }
    let mut nodes = vec![NewNode { domain: "", op_type: "RMSNormalization", version: 23, inputs, attrs }];
    if let Some(b) = beta {
        let inputs = vec![Operand::New(0), Operand::Constant(b)];
        nodes.push(NewNode { domain: "", op_type: "Add", version: 14, inputs, attrs: vec![] });
    }
    Some(Patch { nodes, replaces: y, covers })
}

type Affine = (Norm, Option<ValueId>, Option<ValueId>, Vec<NodeId>);

/// `norm * gamma + beta`, `norm * gamma` or `norm + beta`, at `root`.
fn affine(p: &Pattern<'_>, root: NodeId) -> Option<Affine> {
    let node = p.node(root);
    let (inner, constant) = with_constant(p, node)?;
    let (id, producer) = p.producer(inner)?;
    sole_reader(p, p.source(inner))?;
    if node.is("Mul") {
        return Some((norm(p, id)?, Some(constant), None, vec![root]));
    }
    if !node.is("Add") {
        return None;
    }
    if producer.is("Mul")
        && let Some((core, gamma)) = with_constant(p, producer)
        && let Some((norm_id, _)) = p.producer(core)
        && let Some(found) = norm(p, norm_id)
    {
        sole_reader(p, p.source(core))?;
        return Some((found, Some(gamma), Some(constant), vec![id, root]));
    }
    Some((norm(p, id)?, None, Some(constant), vec![root]))
}

/// The bare normalisation whose last node is `root`.
fn norm(p: &Pattern<'_>, root: NodeId) -> Option<Norm> {
    let node = p.node(root);
    let (top, deviation, mut nodes) = if node.is("Div") {
        (node.input(0)?, node.input(1)?, vec![root])
    } else if node.is("Mul") {
        let (a, b) = (node.input(0)?, node.input(1)?);
        [(a, b), (b, a)].into_iter().find_map(|(x, r)| {
            let (deviation, mut n) = inverse(p, r)?;
            n.push(root);
            Some((x, deviation, n))
        })?
    } else {
        return None;
    };
    let (sqrt_id, sqrt) = p.made_by(deviation, "Sqrt")?;
    let (add_id, add) = p.made_by(sqrt.input(0)?, "Add")?;
    let (epsilon, variance) = p.with_number(add)?;
    let (mean_id, mean) = p.made_by(variance, "ReduceMean")?;
    let (base, square_id) = square(p, mean.input(0)?)?;
    nodes.extend([sqrt_id, add_id, mean_id, square_id]);
    let top = p.source(top);
    let axis = trailing_axis(p, mean)?;
    if base != top && !same_difference(p, base, top) {
        return None;
    }
    if let Some((sub_id, sub)) = p.made_by(top, "Sub")
        && let Some((mean_id, mean)) = p.made_by(sub.input(1)?, "ReduceMean")
        && p.source(mean.input(0)?) == p.source(sub.input(0)?)
        && trailing_axis(p, mean) == Some(axis)
    {
        nodes.extend([sub_id, mean_id]);
        return Some(Norm { x: p.source(sub.input(0)?), axis, epsilon, centred: true, nodes });
    }
    (base == top).then_some(Norm { x: top, axis, epsilon, centred: false, nodes })
}

/// Two Sub nodes over the same operands (some exporters write the difference twice).
fn same_difference(p: &Pattern<'_>, a: ValueId, b: ValueId) -> bool {
    let operands = |v: ValueId| {
        let (_, n) = p.made_by(v, "Sub")?;
        Some((p.source(n.input(0)?), p.source(n.input(1)?)))
    };
    operands(a).is_some() && operands(a) == operands(b)
}

/// `1 / v`, as Reciprocal or as a division.
fn inverse(p: &Pattern<'_>, v: ValueId) -> Option<(ValueId, Vec<NodeId>)> {
    let (id, node) = p.producer(v)?;
    if node.is("Reciprocal") {
        return Some((node.input(0)?, vec![id]));
    }
    (node.is("Div") && p.number(node.input(0)?) == Some(1.0)).then(|| node.input(1)).flatten().map(|d| (d, vec![id]))
}

/// `v * v` or `v ^ 2`.
fn square(p: &Pattern<'_>, v: ValueId) -> Option<(ValueId, NodeId)> {
    let (id, node) = p.producer(v)?;
    let a = p.source(node.input(0)?);
    let squared =
        (node.is("Pow") && p.number(node.input(1)?) == Some(2.0)) || (node.is("Mul") && p.source(node.input(1)?) == a);
    squared.then_some((a, id))
}

/// The first of the axes that a ReduceMean with kept dims runs over, if they are the trailing ones.
fn trailing_axis(p: &Pattern<'_>, mean: &Node) -> Option<usize> {
    if mean.attrs.int_or("keepdims", 1) != 1 {
        return None;
    }
    let rank = p.graph.value(mean.input(0)?).ty.tensor()?.shape.len();
    let axes = match (mean.attrs.ints("axes"), mean.input(1)) {
        (Some(a), _) => a.to_vec(),
        (None, Some(v)) => p.graph.value(p.source(v)).data.as_ref()?.to_i64s()?,
        (None, None) => return None,
    };
    let mut axes: Vec<usize> =
        axes.into_iter().map(|a| crate::ops::normalise_axis(a, rank)).collect::<Result<_, _>>().ok()?;
    axes.sort_unstable();
    let first = *axes.first()?;
    axes.into_iter().eq(first..rank).then_some(first)
}

fn is_constant(p: &Pattern<'_>, v: ValueId) -> bool {
    p.graph.value(p.source(v)).data.is_some()
}

fn with_constant(p: &Pattern<'_>, node: &Node) -> Option<(ValueId, ValueId)> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    match (is_constant(p, a), is_constant(p, b)) {
        (false, true) => Some((a, b)),
        (true, false) => Some((b, a)),
        _ => None,
    }
}

fn sole_reader(p: &Pattern<'_>, v: ValueId) -> Option<NodeId> {
    let mut readers = p.readers(v);
    let one = readers.next()?;
    (readers.next().is_none() && !p.graph.outputs.contains(&v)).then_some(one)
}

/// A constant over exactly the normalised axes, or one number for all of them.
fn fit(t: &Tensor, dims: &[usize]) -> Option<Tensor> {
    if !matches!(t.dtype(), DataType::F32 | DataType::F16 | DataType::F64 | DataType::BF16) {
        return None;
    }
    let lead = t.rank().checked_sub(dims.len());
    if lead.is_some_and(|n| t.shape()[..n].iter().all(|&d| d == 1) && t.shape()[n..] == *dims) {
        return t.reshaped(dims.to_vec());
    }
    let v = t.scalar_f64()?;
    (t.rank() <= dims.len()).then(|| Tensor::from_f64(t.dtype(), dims.to_vec(), &vec![v; dims.iter().product()]))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::testing::Build;

    struct Spelling {
        square_by_pow: bool,
        second_difference: bool,
        reciprocal: bool,
    }

    /// The deviation of `d` from zero, and `d` over it.
    fn normalise(b: &mut Build, d: ValueId, top: ValueId, axes: &[i64], s: &Spelling) -> ValueId {
        let (two, eps) = (b.number(2.0), b.number(1e-6));
        let sq = if s.square_by_pow { b.op("Pow", &[d, two]) } else { b.op("Mul", &[d, d]) };
        let var = b.op_with("ReduceMean", &[sq], &[("axes", Attr::Ints(axes.to_vec()))]);
        let sum = b.op("Add", &[var, eps]);
        let dev = b.op("Sqrt", &[sum]);
        if s.reciprocal {
            let r = b.op("Reciprocal", &[dev]);
            return b.op("Mul", &[top, r]);
        }
        b.op("Div", &[top, dev])
    }

    fn layer_norm(axes: &[i64], s: &Spelling) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[2, 3, 4]);
        let mean = b.op_with("ReduceMean", &[x], &[("axes", Attr::Ints(axes.to_vec()))]);
        let d = b.op("Sub", &[x, mean]);
        let top = if s.second_difference { b.op("Sub", &[x, mean]) } else { d };
        let n = normalise(&mut b, d, top, axes, s);
        (b, n)
    }

    #[test]
    fn layer_norm_in_every_spelling() {
        for i in 0..8 {
            let s = Spelling { square_by_pow: i & 1 == 0, second_difference: i & 2 != 0, reciprocal: i & 4 != 0 };
            let (mut b, n) = layer_norm(&[-1], &s);
            let (gamma, beta) = (b.constant(&[4], &[1., 2., 3., 4.]), b.constant(&[4], &[0.5; 4]));
            let m = b.op("Mul", &[gamma, n]);
            let y = b.op("Add", &[m, beta]);
            let (ops, _) = b.run(REWRITE, y);
            assert_eq!(ops, ["LayerNormalization"], "spelling {i}");
            let node = b.last();
            assert_eq!((node.attrs.int("axis"), node.attrs.float("epsilon")), (Some(2), Some(1e-6)));
            let data = b.graph.value(node.input(1).unwrap()).data.clone().unwrap();
            assert_eq!(data.to_f32s().unwrap(), [1., 2., 3., 4.]);
        }
    }

    #[test]
    fn the_bare_norm_has_a_gamma_of_ones() {
        let s = Spelling { square_by_pow: true, second_difference: false, reciprocal: false };
        let (mut b, n) = layer_norm(&[1, 2], &s);
        let (ops, _) = b.run(REWRITE, n);
        assert_eq!(ops, ["LayerNormalization"]);
        assert_eq!(b.last().attrs.int("axis"), Some(1));
    }

    #[test]
    fn a_mean_over_other_axes_stays() {
        let s = Spelling { square_by_pow: true, second_difference: false, reciprocal: false };
        let (mut b, n) = layer_norm(&[1], &s);
        let (ops, _) = b.run(REWRITE, n);
        assert_eq!(ops.len(), 7);
    }

    #[test]
    fn rms_norm_keeps_a_beta_outside() {
        let mut b = Build::new();
        let x = b.input("x", &[2, 4]);
        let s = Spelling { square_by_pow: false, second_difference: false, reciprocal: true };
        let n = normalise(&mut b, x, x, &[1], &s);
        let (gamma, beta) = (b.constant(&[4], &[2.0; 4]), b.constant(&[4], &[1.0; 4]));
        let m = b.op("Mul", &[n, gamma]);
        let y = b.op("Add", &[m, beta]);
        let (ops, _) = b.run(REWRITE, y);
        assert_eq!(ops, ["RMSNormalization", "Add"]);
    }
}
