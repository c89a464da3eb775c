//! Dimensions: a number, or a polynomial of named symbols in normal form.
//!
//! Two expressions are equal exactly when their normal forms are, so `past + seq` and `seq + past` are one dimension.
//! A quotient that does not divide evenly becomes a symbol of its own, named after what it stands for.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A product of symbols, sorted; empty for the constant term.
type Monomial = Vec<String>;

/// A polynomial of symbols with integer coefficients; no term has coefficient 0, and at least one has a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Expr(Vec<(Monomial, i64)>);

/// One dimension of a shape, or one element of an integer tensor that holds shapes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Dim {
    Known(i64),
    Expr(Expr),
}

/// A shape: dimensions, outermost first.
pub type Shape = Vec<Dim>;

impl Dim {
    /// The dimension named `name`.
    pub fn symbol(name: impl Into<String>) -> Self {
        Self::Expr(Expr(vec![(vec![name.into()], 1)]))
    }

    pub fn known(&self) -> Option<i64> {
        match self {
            Self::Known(n) => Some(*n),
            Self::Expr(_) => None,
        }
    }

    /// True for the number 1 (a dimension that broadcasts).
    pub fn is_one(&self) -> bool {
        *self == Self::Known(1)
    }

    /// Is it certainly 0 or more? Symbols are dimensions, so they are at least 0; a quotient counts as unknown.
    pub fn is_nonnegative(&self) -> bool {
        match self {
            Self::Known(n) => *n >= 0,
            Self::Expr(e) => e.0.iter().all(|(m, c)| *c >= 0 && m.iter().all(|s| !s.contains('('))),
        }
    }

    /// All symbol names in the expression, sorted, each once.
    pub fn symbols(&self) -> Vec<&str> {
        let Self::Expr(e) = self else { return vec![] };
        let mut names: Vec<&str> = e.0.iter().flat_map(|(m, _)| m.iter().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn terms(&self) -> BTreeMap<Monomial, i64> {
        match self {
            Self::Known(0) => BTreeMap::new(),
            Self::Known(n) => BTreeMap::from([(vec![], *n)]),
            Self::Expr(e) => e.0.iter().cloned().collect(),
        }
    }

    fn from_terms(mut terms: BTreeMap<Monomial, i64>) -> Self {
        terms.retain(|_, c| *c != 0);
        match terms.len() {
            0 => Self::Known(0),
            1 if terms.contains_key(&vec![]) => Self::Known(terms[&vec![]]),
            _ => Self::Expr(Expr(terms.into_iter().collect())),
        }
    }

    pub fn add(&self, other: &Self) -> Self {
        let mut terms = self.terms();
        for (m, c) in other.terms() {
            let slot = terms.entry(m).or_insert(0);
            *slot = slot.saturating_add(c);
        }
        Self::from_terms(terms)
    }

    pub fn neg(&self) -> Self {
        self.mul(&Self::Known(-1))
    }

    pub fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    pub fn mul(&self, other: &Self) -> Self {
        let mut terms = BTreeMap::new();
        for (m, c) in self.terms() {
            for (n, d) in other.terms() {
                let mut product: Monomial = m.iter().chain(&n).cloned().collect();
                product.sort();
                let slot = terms.entry(product).or_insert(0i64);
                *slot = slot.saturating_add(c.saturating_mul(d));
            }
        }
        Self::from_terms(terms)
    }

    /// Floor division (rounding towards minus infinity, as shape arithmetic has it).
    /// Exact for numbers and where every term divides; otherwise a symbol of its own. `None` for division by zero.
    pub fn floor_div(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (_, Self::Known(0)) => None,
            (Self::Known(a), Self::Known(b)) => {
                Some(Self::Known(a.div_euclid(*b) - i64::from(a.rem_euclid(*b) != 0 && *b < 0)))
            }
            (a, b) if a == b => Some(Self::Known(1)),
            (a, b) => Some(a.exact_div(b).unwrap_or_else(|| Self::symbol(format!("floor(({a})/({b}))")))),
        }
    }

    /// The quotient if `other` is one term that divides every term of `self`.
    pub fn exact_div(&self, other: &Self) -> Option<Self> {
        let divisor: Vec<_> = other.terms().into_iter().collect();
        let [(m, c)] = divisor.as_slice() else {
            return (self == other).then_some(Self::Known(1));
        };
        let mut out = BTreeMap::new();
        for (mut n, d) in self.terms() {
            if d % c != 0 {
                return None;
            }
            for s in m {
                let at = n.iter().position(|x| x == s)?;
                n.remove(at);
            }
            out.insert(n, d / c);
        }
        Some(Self::from_terms(out))
    }

    /// The value with symbols replaced by what `of` gives for their names; other symbols stay.
    pub fn substitute(&self, of: &dyn Fn(&str) -> Option<Dim>) -> Self {
        let Self::Expr(e) = self else { return self.clone() };
        e.0.iter().fold(Self::Known(0), |sum, (m, c)| {
            let term = m.iter().fold(Self::Known(*c), |p, s| p.mul(&of(s).unwrap_or_else(|| Self::symbol(s.clone()))));
            sum.add(&term)
        })
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Self {
        Self::Known(n)
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Self::Known(n as i64)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = match self {
            Self::Known(n) => return write!(f, "{n}"),
            Self::Expr(e) => &e.0,
        };
        // The constant term sorts first; people write it last.
        for (i, (m, c)) in
            terms.iter().filter(|t| !t.0.is_empty()).chain(terms.iter().filter(|t| t.0.is_empty())).enumerate()
        {
            match (i, *c < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let size = c.unsigned_abs();
            if m.is_empty() {
                write!(f, "{size}")?;
            } else if size == 1 {
                f.write_str(&m.join("*"))?;
            } else {
                write!(f, "{size}*{}", m.join("*"))?;
            }
        }
        Ok(())
    }
}

/// `[1, 3, seq]`
pub fn show_shape(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// All dimensions as numbers, or `None` if one is symbolic or negative.
pub fn static_shape(shape: &[Dim]) -> Option<Vec<usize>> {
    shape.iter().map(|d| d.known().and_then(|n| usize::try_from(n).ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(name: &str) -> Dim {
        Dim::symbol(name)
    }

    #[test]
    fn normal_form_makes_sums_equal() {
        assert_eq!(s("past").add(&s("seq")), s("seq").add(&s("past")));
        assert_eq!(s("a").add(&s("b")).sub(&s("a")), s("b"));
        assert_eq!(s("a").sub(&s("a")), Dim::Known(0));
    }

    #[test]
    fn division_is_exact_or_a_symbol() {
        let twelve_a = s("a").mul(&Dim::Known(12));
        assert_eq!(twelve_a.floor_div(&Dim::Known(4)), Some(s("a").mul(&Dim::Known(3))));
        assert_eq!(twelve_a.floor_div(&s("a")), Some(Dim::Known(12)));
        assert_eq!(s("a").floor_div(&Dim::Known(2)).unwrap().to_string(), "floor((a)/(2))");
        assert_eq!(s("a").floor_div(&Dim::Known(0)), None);
        assert_eq!(Dim::Known(-7).floor_div(&Dim::Known(2)), Some(Dim::Known(-4)));
        assert_eq!(Dim::Known(7).floor_div(&Dim::Known(-2)), Some(Dim::Known(-4)));
    }

    #[test]
    fn substitution_evaluates() {
        let total = s("past").add(&s("seq")).mul(&Dim::Known(2));
        let v = total.substitute(&|n| Some(Dim::Known(if n == "past" { 3 } else { 4 })));
        assert_eq!(v, Dim::Known(14));
    }

    #[test]
    fn signs_are_known_where_no_term_is_negative() {
        assert!(s("a").add(&Dim::Known(1)).is_nonnegative());
        assert!(!s("a").sub(&Dim::Known(1)).is_nonnegative());
        assert!(!Dim::Known(-1).is_nonnegative());
    }

    #[test]
    fn display_puts_the_constant_last() {
        assert_eq!(s("seq").mul(&Dim::Known(2)).add(&Dim::Known(-1)).to_string(), "2*seq - 1");
    }
}
