//! How far two tensors are apart.

use serde::{Deserialize, Serialize};

use crate::ir::{Tensor, TensorType};

/// The difference of one output from its reference. Elements that are not finite on either side are left out of the
/// figures and counted by themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Element type and shape of the reference.
    pub ty: String,
    /// Why the two cannot be compared at all: other type or shape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mismatch: Option<String>,
    pub elements: usize,
    pub max_abs_diff: f64,
    /// Largest magnitude in the reference.
    pub max_abs: f64,
    /// 1 for two zero tensors, 0 if only one is zero.
    pub cosine: f64,
    /// Elements that are infinite or not a number on one side only, or differently so.
    pub nonfinite_mismatches: usize,
    /// Elements that are exactly equal.
    pub equal: usize,
}

fn ty(t: &Tensor) -> String {
    TensorType::new(t.dtype(), t.shape().iter().map(|&d| d.into()).collect()).to_string()
}

/// Compares an output with its reference.
pub fn compare(got: &Tensor, want: &Tensor) -> Difference {
    let none = Difference { ty: ty(want), elements: want.len(), ..Difference::default() };
    if got.dtype() != want.dtype() || got.shape() != want.shape() {
        return Difference { mismatch: Some(format!("{} instead of {}", ty(got), ty(want))), ..none };
    }
    let (Some(a), Some(b)) = (got.to_f64s(), want.to_f64s()) else {
        return Difference { mismatch: Some(format!("{} cannot be compared", want.dtype())), ..none };
    };
    let mut d = none;
    let (mut dot, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.into_iter().zip(b) {
        if x == y || (x.is_nan() && y.is_nan()) {
            d.equal += 1;
        }
        if x.is_finite() && y.is_finite() {
            d.max_abs_diff = d.max_abs_diff.max((x - y).abs());
            d.max_abs = d.max_abs.max(y.abs());
            dot += x * y;
            aa += x * x;
            bb += y * y;
        } else if !(x == y || (x.is_nan() && y.is_nan())) {
            d.nonfinite_mismatches += 1;
        }
    }
    // Of equal tensors the quotient may miss 1 by a rounding.
    d.cosine = if d.max_abs_diff == 0.0 { 1.0 } else { cosine(dot, aa, bb) };
    d
}

fn cosine(dot: f64, aa: f64, bb: f64) -> f64 {
    match (aa > 0.0, bb > 0.0) {
        (true, true) => (dot / (aa.sqrt() * bb.sqrt())).clamp(-1.0, 1.0),
        (a, b) => f64::from(u8::from(a == b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(v: &[f32]) -> Tensor {
        Tensor::from_f32(vec![v.len()], v)
    }

    #[test]
    fn equal_and_scaled() {
        let d = compare(&t(&[1.0, -2.0]), &t(&[1.0, -2.0]));
        assert_eq!((d.cosine, d.max_abs_diff, d.equal, d.max_abs), (1.0, 0.0, 2, 2.0));
        let d = compare(&t(&[1.0, 0.0]), &t(&[0.0, 1.0]));
        assert_eq!((d.cosine, d.max_abs_diff), (0.0, 1.0));
    }

    #[test]
    fn zeros() {
        assert_eq!(compare(&t(&[0.0]), &t(&[0.0])).cosine, 1.0);
        assert_eq!(compare(&t(&[0.0]), &t(&[1.0])).cosine, 0.0);
        assert_eq!(compare(&t(&[]), &t(&[])).cosine, 1.0);
    }

    #[test]
    fn what_is_not_finite_must_agree() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let d = compare(&t(&[inf, nan, -inf, 1.0, nan]), &t(&[inf, nan, inf, 1.0, 1.0]));
        assert_eq!((d.nonfinite_mismatches, d.equal, d.cosine), (2, 3, 1.0));
    }

    #[test]
    fn shapes_must_agree() {
        let d = compare(&t(&[1.0]), &Tensor::from_f32(vec![1, 1], &[1.0]));
        assert_eq!(d.mismatch.as_deref(), Some("float32[1] instead of float32[1, 1]"));
    }
}
