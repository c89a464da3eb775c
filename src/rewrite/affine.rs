//! What is the same scale and shift for every pixel of a channel, however it is spelt.

use super::Pattern;
use crate::ir::{Node, Tensor, ValueId};

/// `y = scale[c] * x + shift[c]`, per channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    pub scale: Vec<f64>,
    pub shift: Vec<f64>,
}

impl Affine {
    /// First `self`, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let scale = self.scale.iter().zip(&next.scale).map(|(a, b)| a * b).collect();
        let moved = self.shift.iter().zip(&next.scale).map(|(t, s)| t * s);
        Self { scale, shift: moved.zip(&next.shift).map(|(a, b)| a + b).collect() }
    }
}

/// The operand of `node` that is scaled and shifted, if `node` is of a kind that does so with constants.
pub fn operand(p: &Pattern<'_>, node: &Node) -> Option<ValueId> {
    let is_constant = |v: ValueId| p.graph.value(p.source(v)).data.is_some();
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => None,
        "BatchNormalization" => node.input(0),
        "Mul" | "Add" => {
            let (a, b) = (node.input(0)?, node.input(1)?);
            match (is_constant(a), is_constant(b)) {
                (false, true) => Some(a),
                (true, false) => Some(b),
                _ => None,
            }
        }
        "Div" | "Sub" => node.input(0).filter(|a| !is_constant(*a) && node.input(1).is_some_and(is_constant)),
        _ => None,
    }
}

/// What `node` does to its operand, a tensor of `rank` axes with `channels` on axis `axis`.
pub fn of(p: &Pattern<'_>, node: &Node, channels: usize, rank: usize, axis: usize) -> Option<Affine> {
    let x = operand(p, node)?;
    let constant = |i: usize| p.graph.value(p.source(node.input(i)?)).data.as_ref();
    let found = if node.is("BatchNormalization") {
        if axis != 1 || node.attrs.int_or("training_mode", 0) != 0 || node.outputs.iter().skip(1).any(Option::is_some) {
            return None;
        }
        let read = |i: usize| constant(i)?.to_f64s().filter(|v| v.len() == channels);
        let (gamma, beta, mean, var) = (read(1)?, read(2)?, read(3)?, read(4)?);
        let eps = f64::from(node.attrs.float_or("epsilon", 1e-5));
        let scale: Vec<f64> = gamma.iter().zip(&var).map(|(g, v)| g / (v + eps).sqrt()).collect();
        let shift = (0..channels).map(|c| beta[c] - mean[c] * scale[c]).collect();
        Affine { scale, shift }
    } else {
        let other = usize::from(node.input(0) == Some(x));
        let k = per_channel(constant(other)?, channels, rank, axis)?;
        let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
        match node.op_type.as_str() {
            "Mul" => Affine { scale: k, shift: zeros },
            "Div" => Affine { scale: k.iter().map(|d| 1.0 / d).collect(), shift: zeros },
            "Add" => Affine { scale: ones, shift: k },
            "Sub" => Affine { scale: ones, shift: k.iter().map(|d| -d).collect() },
            _ => return None,
        }
    };
    found.scale.iter().chain(&found.shift).all(|v| v.is_finite()).then_some(found)
}

/// A constant that broadcasts against a tensor of `rank` axes and varies along `axis` at most.
fn per_channel(t: &Tensor, channels: usize, rank: usize, axis: usize) -> Option<Vec<f64>> {
    let lead = rank.checked_sub(t.rank())?;
    let fits = |(i, &d): (usize, &usize)| d == 1 || (i + lead == axis && d == channels);
    if !t.shape().iter().enumerate().all(fits) {
        return None;
    }
    let v = t.to_f64s()?;
    match v.len() {
        1 => Some(vec![v[0]; channels]),
        n if n == channels => Some(v),
        _ => None,
    }
}
