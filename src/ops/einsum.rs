//! Einsum: the equation in a normal form, and exact compositions of MatMul, Multiply, ReduceSum, Transpose and Reshape.
//!
//! Letters mean nothing by themselves: an equation is turned into numbered labels first, so `bhwc,hkc->bhwk` and
//! `BHWC,HKC->BHWK` are the same thing everywhere below.

use super::{FoldCx, InferCx, OpDef, OpError, compose, invalid};
use crate::ir::{Dim, Tensor, strides};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Einsum", infer).fold(fold).lower(lower)];

/// Multiplications beyond which a constant Einsum is left to run time.
const FOLD_LIMIT: usize = 1 << 26;

/// An equation whose labels are numbers, given the ranks of its operands.
#[derive(Clone, Debug, PartialEq)]
struct Equation {
    operands: Vec<Vec<usize>>,
    output: Vec<usize>,
    labels: usize,
}

/// One term of an equation as written: labels, with `None` for the ellipsis.
fn term(text: &str, equation: &str) -> Result<Vec<Option<char>>, String> {
    let mut out = vec![];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            'a'..='z' | 'A'..='Z' => out.push(Some(c)),
            '.' => {
                if rest.next() != Some('.') || rest.next() != Some('.') || out.contains(&None) {
                    return Err(format!("equation {equation:?} has a misplaced dot"));
                }
                out.push(None);
            }
            other => return Err(format!("equation {equation:?} has the character {other:?}")),
        }
    }
    Ok(out)
}

impl Equation {
    fn parse(equation: &str, ranks: &[usize]) -> Result<Self, String> {
        let compact: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match compact.split_once("->") {
            Some((l, r)) => (l, Some(r)),
            None => (compact.as_str(), None),
        };
        let terms = left.split(',').map(|t| term(t, equation)).collect::<Result<Vec<_>, _>>()?;
        if terms.len() != ranks.len() {
            return Err(format!("equation {equation:?} has {} term(s) for {} operand(s)", terms.len(), ranks.len()));
        }
        let mut spread = 0;
        for (i, (t, &rank)) in terms.iter().zip(ranks).enumerate() {
            let named = t.iter().flatten().count();
            let dots = t.contains(&None);
            if named > rank || (!dots && named != rank) {
                return Err(format!("equation {equation:?} names {named} axes of operand {i}, which has rank {rank}"));
            }
            if dots {
                spread = spread.max(rank - named);
            }
        }
        // Labels 0..spread are the axes of the ellipsis, aligned at its end.
        let mut letters: Vec<char> = vec![];
        let mut number = |c: char| {
            let at = letters.iter().position(|l| *l == c).unwrap_or_else(|| {
                letters.push(c);
                letters.len() - 1
            });
            spread + at
        };
        let mut operands = vec![];
        for (t, &rank) in terms.iter().zip(ranks) {
            let named = t.iter().flatten().count();
            let mut labels = vec![];
            for c in t {
                match c {
                    Some(c) => labels.push(number(*c)),
                    None => labels.extend(spread - (rank - named)..spread),
                }
            }
            operands.push(labels);
        }
        let output = if let Some(r) = right {
            let mut out = vec![];
            for c in term(r, equation)? {
                match c {
                    Some(c) => out.push(number(c)),
                    None => out.extend(0..spread),
                }
            }
            out
        } else {
            // The implicit output: the ellipsis, then labels that occur once, in alphabetical order.
            let mut once: Vec<char> = terms.iter().flatten().flatten().copied().collect();
            once.sort_unstable();
            let all = once.clone();
            once.retain(|c| all.iter().filter(|d| *d == c).count() == 1);
            (0..spread).chain(once.into_iter().map(&mut number)).collect()
        };
        let labels = spread + letters.len();
        for (i, l) in output.iter().enumerate() {
            if output[..i].contains(l) {
                return Err(format!("equation {equation:?} names an axis of the output twice"));
            }
            if *l >= spread && !operands.iter().any(|o| o.contains(l)) {
                return Err(format!("equation {equation:?} gives an axis that no operand has"));
            }
        }
        Ok(Self { operands, output, labels })
    }
}

fn equation_of(attrs: &crate::ir::Attrs, ranks: &[usize]) -> Result<Equation, String> {
    let text = attrs.str("equation").ok_or("attribute equation is missing")?;
    Equation::parse(text, ranks)
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let types = (0..cx.node.inputs.len()).map(|i| cx.ty(i)).collect::<Result<Vec<_>, _>>()?;
    let ranks: Vec<usize> = types.iter().map(|t| t.shape.len()).collect();
    let eq = equation_of(&cx.node.attrs, &ranks).map_err(OpError::Invalid)?;
    let Some(first) = types.first() else { return invalid("Einsum needs an operand") };
    let mut sizes: Vec<Dim> = vec![Dim::Known(1); eq.labels];
    for (i, (t, labels)) in types.iter().zip(&eq.operands).enumerate() {
        for (d, &l) in t.shape.iter().zip(labels) {
            match (&sizes[l], d) {
                (have, new) if have == new || new.is_one() => {}
                (Dim::Known(1), new) => sizes[l] = new.clone(),
                (Dim::Known(a), Dim::Known(b)) => {
                    let text = cx.node.attrs.str_or("equation", "");
                    return invalid(format!("equation {text:?}: an axis of operand {i} is {b}, and was {a} before"));
                }
                (Dim::Expr(_), Dim::Known(_)) => sizes[l] = d.clone(),
                _ => {}
            }
        }
    }
    let dtype = first.dtype;
    let shape = eq.output.iter().map(|&l| sizes[l].clone()).collect();
    cx.set(0, dtype, shape);
    Ok(())
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, _) = cx.out_type(0)?;
    let inputs = (0..cx.node.inputs.len()).map(|i| cx.input(i)).collect::<Option<Vec<_>>>()?;
    let ranks: Vec<usize> = inputs.iter().map(|t| t.rank()).collect();
    let eq = equation_of(&cx.node.attrs, &ranks).ok()?;
    let mut sizes = vec![1usize; eq.labels];
    for (t, labels) in inputs.iter().zip(&eq.operands) {
        for (&d, &l) in t.shape().iter().zip(labels) {
            sizes[l] = if sizes[l] == 1 { d } else { sizes[l] };
        }
    }
    // Labels of the output first, then those that are summed over.
    let summed: Vec<usize> = (0..eq.labels).filter(|l| !eq.output.contains(l)).collect();
    let order: Vec<usize> = eq.output.iter().copied().chain(summed.iter().copied()).collect();
    let total = order.iter().try_fold(1usize, |a, &l| a.checked_mul(sizes[l]))?;
    if total > FOLD_LIMIT {
        return None;
    }
    let steps: Vec<Vec<usize>> = inputs
        .iter()
        .zip(&eq.operands)
        .map(|(t, labels)| {
            let own = strides(t.shape());
            let mut step = vec![0; eq.labels];
            for ((&s, &d), &l) in own.iter().zip(t.shape()).zip(labels) {
                step[l] += if d == 1 { 0 } else { s };
            }
            step
        })
        .collect();
    let values = inputs.iter().map(|t| t.to_f64s()).collect::<Option<Vec<_>>>()?;
    let inner: usize = summed.iter().map(|&l| sizes[l]).product();
    let shape: Vec<usize> = eq.output.iter().map(|&l| sizes[l]).collect();
    let count: usize = shape.iter().product();
    let mut out = vec![0.0; count];
    let mut index = vec![0usize; eq.labels];
    for i in 0..total {
        let mut rest = i;
        for &l in order.iter().rev() {
            index[l] = rest % sizes[l];
            rest /= sizes[l];
        }
        let mut product = 1.0;
        for (v, step) in values.iter().zip(&steps) {
            product *= v.get(index.iter().zip(step).map(|(a, b)| a * b).sum::<usize>())?;
        }
        out[i / inner] += product;
    }
    Some(vec![Tensor::from_f64(dtype, shape, &out)?])
}

/// Where the elements of an operand are.
#[derive(Clone, Debug)]
enum Source<'g> {
    Tensor(TensorId),
    /// A constant as the model has it.
    Constant(&'g Tensor),
}

/// An operand on its way: a tensor whose axes carry these labels, each once.
#[derive(Clone, Debug)]
struct Operand<'g> {
    source: Source<'g>,
    labels: Vec<usize>,
}

impl<'g> Operand<'g> {
    fn new(tensor: TensorId, labels: Vec<usize>) -> Self {
        Self { source: Source::Tensor(tensor), labels }
    }

    fn dims(&self, cx: &LowerCx<'_, 'g>) -> Vec<u32> {
        match self.source {
            Source::Tensor(t) => cx.dims(t),
            Source::Constant(t) if t.rank() == 0 => vec![1],
            Source::Constant(t) => t.shape().iter().map(|&d| d as u32).collect(),
        }
    }

    fn tensor(&self, cx: &mut LowerCx<'_, 'g>) -> TensorId {
        match self.source {
            Source::Tensor(t) => t,
            Source::Constant(t) => {
                let dims = self.dims(cx);
                cx.weight(t, None, &dims)
            }
        }
    }

    fn size(&self, cx: &LowerCx<'_, 'g>, label: usize) -> u32 {
        let dims = self.dims(cx);
        self.labels.iter().position(|l| *l == label).map_or(1, |i| dims[i])
    }

    fn has(&self, label: usize) -> bool {
        self.labels.contains(&label)
    }

    /// Sums over these labels, which go away.
    fn sum(&mut self, cx: &mut LowerCx<'_, 'g>, over: &[usize]) {
        let axes: Vec<usize> = (0..self.labels.len()).filter(|i| over.contains(&self.labels[*i])).collect();
        if axes.is_empty() {
            return;
        }
        let t = self.tensor(cx);
        self.source = Source::Tensor(compose::reduce_keep(cx, "ReduceSum", t, &axes));
        self.drop(cx, over);
    }

    /// Removes labels whose axes have size 1.
    fn drop(&mut self, cx: &mut LowerCx<'_, 'g>, labels: &[usize]) {
        if !self.labels.iter().any(|l| labels.contains(l)) {
            return;
        }
        let t = self.tensor(cx);
        let dims = cx.dims(t);
        let keep: Vec<usize> = (0..self.labels.len()).filter(|i| !labels.contains(&self.labels[*i])).collect();
        let left: Vec<u32> = keep.iter().map(|&i| dims[i]).collect();
        self.labels = keep.iter().map(|&i| self.labels[i]).collect();
        self.source = Source::Tensor(cx.reshape(t, if left.is_empty() { &[1] } else { &left }));
    }

    /// The tensor with axes in the order of `labels` (a permutation of its own), regrouped to `dims`.
    fn arranged(&self, cx: &mut LowerCx<'_, 'g>, labels: &[usize], dims: &[u32]) -> TensorId {
        let perm: Vec<usize> = labels.iter().filter_map(|l| self.labels.iter().position(|m| m == l)).collect();
        match self.source {
            Source::Constant(t) => cx.weight(t, Some(&perm), dims),
            Source::Tensor(t) => {
                let t = if perm.len() > 1 { cx.transpose(t, &perm) } else { t };
                cx.reshape(t, dims)
            }
        }
    }
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let text = cx.attrs().str_or("equation", "").to_string();
    let ranks = (0..cx.node.inputs.len()).map(|i| cx.rank(i)).collect::<Result<Vec<_>, _>>()?;
    let eq = equation_of(cx.attrs(), &ranks).map_err(Refusal::form)?;
    if !cx.dtype(0)?.is_float() {
        return Err(Refusal::form(format!(
            "Einsum {text:?} of {}: the HTP multiplies matrices of real numbers only",
            cx.dtype(0)?
        )));
    }
    let mut operands = vec![];
    for (i, labels) in eq.operands.iter().enumerate() {
        let source = match cx.constant(i) {
            Some(t) => Source::Constant(t),
            None => Source::Tensor(cx.input(i)?),
        };
        operands.push(diagonals(cx, Operand { source, labels: labels.clone() }, labels));
    }
    let mut operands = operands.into_iter();
    let Some(mut result) = operands.next() else { return Err(Refusal::form("Einsum has no operand")) };
    let mut rest: Vec<Operand> = operands.collect();
    while !rest.is_empty() {
        let next = rest.remove(0);
        let needed = |l: usize| eq.output.contains(&l) || rest.iter().any(|o| o.has(l));
        result = contract(cx, result, next, &needed);
    }
    let gone: Vec<usize> = result.labels.iter().copied().filter(|l| !eq.output.contains(l)).collect();
    result.sum(cx, &gone);
    let order: Vec<usize> = eq.output.iter().copied().filter(|l| result.has(*l)).collect();
    let dims: Vec<u32> = eq.output.iter().map(|&l| result.size(cx, l)).collect();
    let y = result.arranged(cx, &order, if dims.is_empty() { &[1] } else { &dims });
    compose::give(cx, 0, y)
}

/// Takes the diagonal over every label that the operand names more than once: after the two axes are merged, the
/// diagonal is every (n + 1)-th element.
fn diagonals<'g>(cx: &mut LowerCx<'_, 'g>, mut operand: Operand<'g>, given: &[usize]) -> Operand<'g> {
    for &label in given {
        while operand.labels.iter().filter(|l| **l == label).count() > 1 {
            let at: Vec<usize> = (0..operand.labels.len()).filter(|i| operand.labels[*i] == label).collect();
            let (i, j) = (at[0], at[1]);
            let t = operand.tensor(cx);
            let dims = cx.dims(t);
            let n = dims[i].max(dims[j]);
            let mut perm: Vec<usize> = (0..dims.len()).filter(|k| *k != i && *k != j).collect();
            let kept: Vec<u32> = perm.iter().map(|&k| dims[k]).collect();
            let mut labels: Vec<usize> = perm.iter().map(|&k| operand.labels[k]).collect();
            perm.extend([i, j]);
            labels.push(label);
            let t = cx.transpose(t, &perm);
            let outer: u32 = kept.iter().product();
            let mut t = cx.reshape(t, &[outer, dims[i] * dims[j]]);
            if dims[i] == dims[j] && n > 1 {
                let ranges = [[0, outer as i32, 1], [0, (n * n) as i32, n as i32 + 1]];
                let dtype = cx.qnn_type(t);
                t = cx.op_to("StridedSlice", &[t], dtype, &[outer, n], &[("ranges", Param::triples(&ranges))]);
            }
            let mut dims = kept;
            dims.push(n);
            operand = Operand::new(cx.reshape(t, &dims), labels);
        }
    }
    operand
}

/// The product of two operands, summed over the labels that nobody needs afterwards.
fn contract<'g>(
    cx: &mut LowerCx<'_, 'g>,
    mut a: Operand<'g>,
    mut b: Operand<'g>,
    needed: &dyn Fn(usize) -> bool,
) -> Operand<'g> {
    let given = [a.clone(), b.clone()];
    for (x, other) in [(&mut a, &given[1]), (&mut b, &given[0])] {
        // An axis of size 1 against a longer one repeats: the operand does not depend on it.
        let ones: Vec<usize> = x
            .labels
            .iter()
            .copied()
            .filter(|l| x.size(cx, *l) == 1 && other.has(*l) && other.size(cx, *l) > 1)
            .collect();
        x.drop(cx, &ones);
        let own: Vec<usize> = x.labels.iter().copied().filter(|l| !needed(*l) && !other.has(*l)).collect();
        x.sum(cx, &own);
    }
    // What only one operand is left with and nobody needs is summed too (its partner was an axis of size 1).
    let lone = |x: &Operand<'_>, y: &Operand<'_>| -> Vec<usize> {
        x.labels.iter().copied().filter(|l| !y.has(*l) && !needed(*l)).collect()
    };
    let (over_a, over_b) = (lone(&a, &b), lone(&b, &a));
    a.sum(cx, &over_a);
    b.sum(cx, &over_b);
    let batch: Vec<usize> = a.labels.iter().copied().filter(|l| b.has(*l) && needed(*l)).collect();
    let inner: Vec<usize> = a.labels.iter().copied().filter(|l| b.has(*l) && !needed(*l)).collect();
    let rows: Vec<usize> = a.labels.iter().copied().filter(|l| !b.has(*l)).collect();
    let cols: Vec<usize> = b.labels.iter().copied().filter(|l| !a.has(*l)).collect();
    let sizes = |cx: &LowerCx<'_, 'g>, x: &Operand<'g>, labels: &[usize]| -> Vec<u32> {
        labels.iter().map(|l| x.size(cx, *l)).collect()
    };
    let (nb, ni) = (sizes(cx, &a, &batch), sizes(cx, &a, &inner));
    let (nr, nc) = (sizes(cx, &a, &rows), sizes(cx, &b, &cols));
    let labels = [batch.clone(), rows.clone(), cols.clone()].concat();
    let full = [nb.clone(), nr.clone(), nc.clone()].concat();
    // Batch axes stay apart as long as the rank allows, so that nothing is regrouped without need.
    let lead = if nb.len() <= 3 { nb.clone() } else { vec![nb.iter().product()] };
    let with = |x: u32, y: u32| [lead.clone(), vec![x, y]].concat();
    let (pr, pc, pi): (u32, u32, u32) = (nr.iter().product(), nc.iter().product(), ni.iter().product());
    let y = if inner.is_empty() {
        let x = a.arranged(cx, &[batch.clone(), rows].concat(), &with(pr, 1));
        let w = b.arranged(cx, &[batch, cols].concat(), &with(1, pc));
        compose::mul(cx, x, w)
    } else {
        let x = a.arranged(cx, &[batch.clone(), rows, inner.clone()].concat(), &with(pr, pi));
        let transposed = [batch.clone(), cols.clone(), inner.clone()].concat();
        if matches!(b.source, Source::Constant(_)) && batch.is_empty() {
            let w = b.arranged(cx, &transposed, &[pc, pi]);
            compose::fully_connected(cx, x, w, None)
        } else if b.labels == transposed {
            // The matrices of `b` are multiplied as they lie, transposed or not.
            let w = b.arranged(cx, &transposed, &with(pc, pi));
            compose::matmul(cx, x, w, true)
        } else {
            let w = b.arranged(cx, &[batch, inner, cols].concat(), &with(pi, pc));
            compose::matmul(cx, x, w, false)
        }
    };
    Operand::new(cx.reshape(y, if full.is_empty() { &[1] } else { &full }), labels)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneNode, assert_close, node, op_types, ramp};
    use super::*;

    fn einsum(equation: &str, shapes: &[&[i64]]) -> OneNode {
        shapes.iter().fold(node("Einsum", 13).text("equation", equation), |n, s| n.float(s))
    }

    /// The lowering against the definition, which is what folding evaluates.
    fn check(equation: &str, shapes: &[&[i64]]) -> Vec<String> {
        let inputs: Vec<Vec<f64>> = shapes
            .iter()
            .enumerate()
            .map(|(i, s)| {
                ramp(s.iter().product::<i64>() as usize, -1.0 - i as f64, 0.5).iter().map(|v| v % 3.0).collect()
            })
            .collect();
        let n = einsum(equation, shapes);
        let got = n.run(&inputs).remove(0);
        let mut c = node("Einsum", 13).text("equation", equation);
        for (s, v) in shapes.iter().zip(&inputs) {
            let shape: Vec<usize> = s.iter().map(|&d| d as usize).collect();
            c = c.constant(Tensor::from_f64(crate::ir::DataType::F64, shape, v).unwrap());
        }
        let want = c.fold().unwrap()[0].to_f64s().unwrap();
        assert_close(&got, &want, 1e-6);
        op_types(&n.lower().unwrap()).into_iter().map(String::from).collect()
    }

    #[test]
    fn equations_in_normal_form() {
        let eq = |s: &str, ranks: &[usize]| Equation::parse(s, ranks);
        assert_eq!(eq("bhwc,hkc->bhwk", &[4, 3]), eq(" BHWC , HKC -> BHWK", &[4, 3]));
        assert_eq!(eq("ij,jk", &[2, 2]), eq("ij,jk->ik", &[2, 2]));
        assert_eq!(eq("ba", &[2]).unwrap().output, [1, 0]);
        let e = eq("...ij,...jk->...ik", &[4, 3]).unwrap();
        assert_eq!(e.operands, [vec![0, 1, 2, 3], vec![1, 3, 4]]);
        assert_eq!(e.output, [0, 1, 2, 4]);
        assert!(eq("ij,jk->iz", &[2, 2]).unwrap_err().contains("no operand has"));
        assert!(eq("i.j->i", &[2]).is_err());
        assert!(eq("ij->i", &[3]).unwrap_err().contains("rank 3"));
        assert!(eq("ij->ii", &[2]).unwrap_err().contains("twice"));
    }

    #[test]
    fn folded_definition() {
        // numpy: np.einsum('ij,kj->ik', np.arange(6.).reshape(2, 3), np.arange(6.).reshape(2, 3))
        let v: Vec<f32> = (0..6u8).map(f32::from).collect();
        let n = node("Einsum", 13).text("equation", "ij,kj->ik").floats(&[2, 3], &v).floats(&[2, 3], &v);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [5.0, 14.0, 14.0, 50.0]);
        let n = node("Einsum", 13).text("equation", "ii->i").floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 4.0]);
    }

    #[test]
    fn attention_products_are_one_matmul() {
        let ops = check("bhwc,hkc->bhwk", &[&[1, 4, 5, 8], &[4, 6, 8]]);
        assert_eq!(ops.iter().filter(|o| *o == "MatMul").count(), 1);
        let a = check("BHQD,BHKD->BHQK", &[&[1, 2, 3, 4], &[1, 2, 5, 4]]);
        let b = check("zyxa,zypa->zyxp", &[&[1, 2, 3, 4], &[1, 2, 5, 4]]);
        assert_eq!(a, b);
        assert_eq!(a, ["MatMul"]);
        let w = Tensor::from_f32(vec![3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let n = node("Einsum", 13).text("equation", "bsd,dh->bsh").float(&[1, 2, 3]).constant(w);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "FullyConnected", "Reshape"]);
        assert_close(&n.run(&[ramp(6, 0.0, 1.0)])[0], &[2.0, 3.0, 8.0, 9.0], 1e-9);
    }

    #[test]
    fn lowerings_agree_with_the_definition() {
        for (equation, shapes) in [
            ("ii->i", &[&[4, 4][..]][..]),
            ("ii->", &[&[3, 3]]),
            ("iji->j", &[&[3, 2, 3]]),
            ("bii->bi", &[&[2, 3, 3]]),
            ("ij->ji", &[&[2, 3]]),
            ("ij->", &[&[2, 3]]),
            ("i,i->", &[&[4], &[4]]),
            ("i,j->ij", &[&[2], &[3]]),
            ("ij,ij->ij", &[&[2, 3], &[2, 3]]),
            ("ij,jk->ki", &[&[2, 3], &[3, 4]]),
            ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[4, 3, 2]]),
            ("bij,bjk,kl->bil", &[&[2, 2, 3], &[2, 3, 2], &[2, 3]]),
            ("bij,bk->bjk", &[&[2, 2, 3], &[2, 4]]),
            ("ij,jk->ik", &[&[2, 1], &[3, 4]]),
            ("bhwc,c->bhw", &[&[1, 2, 3, 4], &[4]]),
            ("a,b,c->abc", &[&[2], &[3], &[2]]),
            ("ab,cd->a", &[&[2, 3], &[2, 2]]),
            ("...,...->...", &[&[2, 3], &[3]]),
        ] {
            check(equation, shapes);
        }
    }

    #[test]
    fn shapes_and_errors() {
        assert_eq!(einsum("bij,bjk->bik", &[&[-1, 2, 3], &[-1, 3, 4]]).types(), ["float32[d1, 2, 4]"]);
        assert_eq!(einsum("...ij->...ji", &[&[5, 2, 3]]).types(), ["float32[5, 3, 2]"]);
        assert!(einsum("ij,jk->ik", &[&[2, 3], &[4, 5]]).error().contains("is 4, and was 3"));
        assert!(einsum("ij,jk->ik", &[&[2, 3]]).error().contains("2 term(s) for 1 operand(s)"));
    }
}
