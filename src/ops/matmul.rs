//! MatMul and Gemm.

use super::{FoldCx, InferCx, OpDef, OpError, broadcast, compose, invalid};
use crate::ir::{DataType, Dim, Tensor, show_shape, strides};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("MatMul", infer_matmul).fold(fold_matmul).lower(lower_matmul),
    OpDef::new("Gemm", infer_gemm).fold(fold_gemm).lower(lower_gemm),
];

/// Multiplications beyond which a product of constants is left to run time.
const FOLD_LIMIT: usize = 1 << 28;

/// Do two dimensions that must be equal certainly differ?
fn differ(a: &Dim, b: &Dim) -> bool {
    matches!((a, b), (Dim::Known(x), Dim::Known(y)) if x != y)
}

/// The shape of a matrix product with numpy's rules for vectors and leading axes.
pub(super) fn matmul_shape(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, OpError> {
    if a.is_empty() || b.is_empty() {
        return invalid("MatMul does not take scalars");
    }
    let inner_a = &a[a.len() - 1];
    let inner_b = &b[b.len().saturating_sub(2)];
    if differ(inner_a, inner_b) {
        return invalid(format!(
            "shapes {} and {} do not multiply: the inner dimensions are {inner_a} and {inner_b}",
            show_shape(a),
            show_shape(b)
        ));
    }
    let mut out = broadcast(&a[..a.len().saturating_sub(2)], &b[..b.len().saturating_sub(2)])?;
    if a.len() > 1 {
        out.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        out.push(b[b.len() - 1].clone());
    }
    Ok(out)
}

fn infer_matmul(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (a, b) = (cx.ty(0)?, cx.ty(1)?);
    if a.dtype != b.dtype {
        return invalid(format!("the inputs have different types: {} and {}", a.dtype, b.dtype));
    }
    let shape = matmul_shape(&a.shape, &b.shape)?;
    cx.set(0, a.dtype, shape);
    Ok(())
}

/// Multiplies matrices with leading axes that broadcast; shapes as [`matmul_shape`] takes them. `None` if they do not
/// fit or the work is over the limit.
pub(super) fn multiply(a: &[f64], sa: &[usize], b: &[f64], sb: &[usize]) -> Option<Vec<f64>> {
    let (mut sa, mut sb) = (sa.to_vec(), sb.to_vec());
    if sa.len() == 1 {
        sa.insert(0, 1);
    }
    if sb.len() == 1 {
        sb.push(1);
    }
    let (m, k) = (*sa.get(sa.len().checked_sub(2)?)?, *sa.last()?);
    let (kb, n) = (*sb.get(sb.len().checked_sub(2)?)?, *sb.last()?);
    if k != kb {
        return None;
    }
    let rank = sa.len().max(sb.len()) - 2;
    let lead = |s: &[usize]| {
        let mut full = vec![1; rank + 2 - s.len()];
        full.extend(&s[..s.len() - 2]);
        full
    };
    let (la, lb) = (lead(&sa), lead(&sb));
    let batch: Vec<usize> = la.iter().zip(&lb).map(|(x, y)| if *x == 1 { *y } else { *x }).collect();
    let count: usize = batch.iter().product();
    if count.checked_mul(m)?.checked_mul(n)?.checked_mul(k.max(1))? > FOLD_LIMIT {
        return None;
    }
    let (ta, tb) = (strides(&la), strides(&lb));
    let mut out = vec![0.0; count * m * n];
    for (i, block) in out.chunks_mut((m * n).max(1)).enumerate() {
        let (mut rest, mut ia, mut ib) = (i, 0, 0);
        for d in (0..rank).rev() {
            let at = rest % batch[d];
            rest /= batch[d];
            ia += if la[d] == 1 { 0 } else { at * ta[d] };
            ib += if lb[d] == 1 { 0 } else { at * tb[d] };
        }
        let (xa, xb) = (a.get(ia * m * k..(ia + 1) * m * k)?, b.get(ib * k * n..(ib + 1) * k * n)?);
        for r in 0..m {
            for j in 0..k {
                let f = xa[r * k + j];
                for (y, w) in block[r * n..(r + 1) * n].iter_mut().zip(&xb[j * n..(j + 1) * n]) {
                    *y += f * w;
                }
            }
        }
    }
    Some(out)
}

fn fold_matmul(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let (dtype, shape) = cx.out_type(0)?;
    if !matches!(dtype, DataType::F32 | DataType::F16 | DataType::F64 | DataType::BF16) {
        return None;
    }
    let y = multiply(&a.to_f64s()?, a.shape(), &b.to_f64s()?, b.shape())?;
    Some(vec![Tensor::from_f64(dtype, shape, &y)?])
}

/// Refuses integer products: the HTP multiplies matrices of real numbers only.
pub(super) fn need_real(cx: &LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    if dtype.is_float() {
        return Ok(());
    }
    Err(Refusal::form(format!("{op} of {dtype}: the HTP multiplies matrices of real numbers only"))
        .fix("cast the operands to float32 if the products stay below 2048"))
}

fn lower_matmul(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    need_real(cx, "MatMul")?;
    let y = product(cx, 0, 1)?;
    compose::give(cx, 0, y)
}

/// The product of inputs `a` and `b` of the node by numpy's rules, up to a Reshape.
fn product(cx: &mut LowerCx<'_, '_>, a: usize, b: usize) -> Result<TensorId, Refusal> {
    let (ra, shape_b) = (cx.rank(a)?, cx.shape(b)?);
    if cx.constant(a).is_none()
        && let Some(weight) = cx.constant(b)
        && shape_b.len() <= 2
    {
        let x = cx.input(a)?;
        let w = match shape_b[..] {
            [k, n] => cx.weight(weight, Some(&[1, 0]), &[n as u32, k as u32]),
            _ => cx.weight(weight, None, &[1, weight.len() as u32]),
        };
        return Ok(compose::fully_connected(cx, x, w, None));
    }
    let mut x = cx.input(a)?;
    let mut w = cx.input(b)?;
    if ra == 1 {
        let k = cx.dims(x)[0];
        x = cx.reshape(x, &[1, k]);
    }
    if shape_b.len() == 1 {
        let k = cx.dims(w)[0];
        w = cx.reshape(w, &[k, 1]);
    }
    Ok(compose::matmul(cx, x, w, false))
}

pub(super) fn infer_gemm(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (a, b) = (cx.ty(0)?.clone(), cx.ty(1)?.clone());
    for (i, t) in [&a, &b].into_iter().enumerate() {
        if t.shape.len() != 2 {
            return invalid(format!("input {i} of Gemm must have rank 2, it is {t}"));
        }
    }
    let pick = |shape: &[Dim], transposed: bool| {
        let (x, y) = (shape[0].clone(), shape[1].clone());
        if transposed { (y, x) } else { (x, y) }
    };
    let (m, k) = pick(&a.shape, cx.node.attrs.int_or("transA", 0) != 0);
    let (kb, n) = pick(&b.shape, cx.node.attrs.int_or("transB", 0) != 0);
    if differ(&k, &kb) {
        return invalid(format!(
            "A {} and B {} (transA {}, transB {}) do not multiply: the inner dimensions are {k} and {kb}",
            show_shape(&a.shape),
            show_shape(&b.shape),
            cx.node.attrs.int_or("transA", 0),
            cx.node.attrs.int_or("transB", 0)
        ));
    }
    let shape = vec![m, n];
    if cx.has(2) {
        let c = cx.shape(2)?;
        let both = broadcast(&shape, c)?;
        if both.len() != 2 || differ(&both[0], &shape[0]) || differ(&both[1], &shape[1]) {
            return invalid(format!("C {} does not broadcast to {}", show_shape(c), show_shape(&shape)));
        }
    }
    cx.set(0, a.dtype, shape);
    Ok(())
}

/// The attributes of a Gemm.
#[derive(Clone, Copy, Debug)]
struct Gemm {
    alpha: f32,
    beta: f32,
    trans_a: bool,
    trans_b: bool,
}

impl Gemm {
    fn of(attrs: &crate::ir::Attrs) -> Self {
        Self {
            alpha: attrs.float_or("alpha", 1.0),
            beta: attrs.float_or("beta", 1.0),
            trans_a: attrs.int_or("transA", 0) != 0,
            trans_b: attrs.int_or("transB", 0) != 0,
        }
    }
}

fn fold_gemm(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let g = Gemm::of(&cx.node.attrs);
    let (dtype, shape) = cx.out_type(0)?;
    if !dtype.is_float() {
        return None;
    }
    let turn = |t: &Tensor, yes: bool| if yes { t.transposed(&[1, 0]) } else { Some(t.clone()) };
    let (a, b) = (turn(cx.input(0)?, g.trans_a)?, turn(cx.input(1)?, g.trans_b)?);
    let mut y = multiply(&a.to_f64s()?, a.shape(), &b.to_f64s()?, b.shape())?;
    for v in &mut y {
        *v *= f64::from(g.alpha);
    }
    if let Some(c) = cx.input(2) {
        let values = c.to_f64s()?;
        let own = c.shape();
        let (rows, cols) = match own {
            [] => (1, 1),
            [n] => (1, *n),
            [m, n] => (*m, *n),
            _ => return None,
        };
        let n = shape[1];
        for (i, v) in y.iter_mut().enumerate() {
            let at = (if rows == 1 { 0 } else { i / n }) * cols + if cols == 1 { 0 } else { i % n };
            *v += f64::from(g.beta) * values.get(at)?;
        }
    }
    Some(vec![Tensor::from_f64(dtype, shape, &y)?])
}

/// A constant times a factor; the constant itself when the factor is 1.
fn scaled(t: &Tensor, factor: f32) -> Result<Tensor, Refusal> {
    if factor == 1.0 {
        return Ok(t.clone());
    }
    let not_real = || Refusal::form(format!("a constant of type {} is not real", t.dtype()));
    let values: Vec<f32> = t.to_f32s().ok_or_else(not_real)?.into_iter().map(|v| v * factor).collect();
    Ok(Tensor::from_f32(t.shape().to_vec(), &values))
}

fn lower_gemm(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let y = gemm(cx)?;
    compose::give(cx, 0, y)
}

/// The Gemm of inputs 0 to 2, up to a Reshape.
pub(super) fn gemm(cx: &mut LowerCx<'_, '_>) -> Result<TensorId, Refusal> {
    need_real(cx, "Gemm")?;
    let g = Gemm::of(cx.attrs());
    let n = cx.out_shape(0)?[1];
    let mut a = cx.input(0)?;
    if g.trans_a {
        a = cx.transpose(a, &[1, 0]);
    }
    let mut pending = cx.has(2) && g.beta != 0.0;
    let y = if let Some(weight) = cx.constant(1) {
        let weight = scaled(weight, g.alpha)?;
        let k = weight.len() / n.max(1);
        let perm: Option<&[usize]> = if g.trans_b { None } else { Some(&[1, 0]) };
        let w = cx.weight(&weight, perm, &[n as u32, k as u32]);
        let mut bias = None;
        if pending
            && let Some(c) = cx.constant(2)
            && let Some(row) = bias_row(c, n)
        {
            let values: Vec<f32> = row.iter().map(|v| v * g.beta).collect();
            bias = Some(cx.float_constant(&[n as u32], &values));
            pending = false;
        }
        compose::fully_connected(cx, a, w, bias)
    } else {
        let b = cx.input(1)?;
        let y = compose::matmul(cx, a, b, g.trans_b);
        compose::scale(cx, y, g.alpha)
    };
    if pending { add_bias(cx, y, g.beta) } else { Ok(y) }
}

/// A constant that broadcasts to every row alike, as one row of `n` numbers.
fn bias_row(c: &Tensor, n: usize) -> Option<Vec<f32>> {
    match c.shape() {
        [] | [1] | [1, 1] => Some(vec![c.to_f32s()?.first().copied()?; n]),
        [m] | [1, m] if *m == n => c.to_f32s(),
        _ => None,
    }
}

fn add_bias(cx: &mut LowerCx<'_, '_>, y: TensorId, beta: f32) -> Result<TensorId, Refusal> {
    let c = match cx.constant(2) {
        Some(t) if beta != 1.0 => {
            let t = scaled(t, beta)?;
            let dims: Vec<u32> = if t.rank() == 0 { vec![1] } else { t.shape().iter().map(|&d| d as u32).collect() };
            cx.weight(&t, None, &dims)
        }
        _ => {
            let c = cx.input(2)?;
            if cx.constant(2).is_some() { c } else { compose::scale(cx, c, beta) }
        }
    };
    Ok(compose::add(cx, y, c))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, node, op_types, ramp};
    use crate::ir::Tensor;

    #[test]
    fn shapes_follow_numpy() {
        let of = |a: &[i64], b: &[i64]| node("MatMul", 13).float(a).float(b).types().remove(0);
        assert_eq!(of(&[3], &[3]), "float32[]");
        assert_eq!(of(&[3], &[3, 4]), "float32[4]");
        assert_eq!(of(&[2, 3], &[3]), "float32[2]");
        assert_eq!(of(&[5, 1, 2, 3], &[4, 3, 6]), "float32[5, 4, 2, 6]");
        assert_eq!(of(&[-1, 2, 3], &[3, 6]), "float32[d1, 2, 6]");
        assert_eq!(
            node("MatMul", 13).float(&[2, 3]).float(&[4, 5]).error(),
            "shapes [2, 3] and [4, 5] do not multiply: the inner dimensions are 3 and 4"
        );
    }

    #[test]
    fn a_constant_matrix_is_a_fully_connected() {
        let w = Tensor::from_f32(vec![3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let n = node("MatMul", 13).float(&[2, 1, 3]).constant(w);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape", "FullyConnected", "Reshape"]);
        assert_close(&n.run(&[ramp(6, 0.0, 1.0)])[0], &[13.0, 16.0, 40.0, 52.0], 1e-9);
    }

    #[test]
    fn products_of_vectors_and_batches() {
        let v = node("MatMul", 13).float(&[3]).float(&[3]);
        assert_close(&v.run(&[ramp(3, 1.0, 1.0), ramp(3, 1.0, 1.0)])[0], &[14.0], 1e-9);
        let m = node("MatMul", 13).float(&[2, 3]).floats(&[3], &[1.0, 0.0, 2.0]);
        assert_close(&m.run(&[ramp(6, 0.0, 1.0)])[0], &[4.0, 13.0], 1e-9);
        // numpy: np.matmul(np.arange(4.).reshape(2, 1, 1, 2), np.arange(8.).reshape(2, 2, 2))
        let b = node("MatMul", 13).float(&[2, 1, 1, 2]).float(&[2, 2, 2]);
        let want = [2.0, 3.0, 6.0, 7.0, 6.0, 11.0, 26.0, 31.0];
        assert_close(&b.run(&[ramp(4, 0.0, 1.0), ramp(8, 0.0, 1.0)])[0], &want, 1e-9);
    }

    #[test]
    fn folded_products() {
        let n = node("MatMul", 13).floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).floats(&[2, 1], &[1.0, -1.0]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [-1.0, -1.0]);
    }

    #[test]
    fn gemm_folds_its_factors_into_constants() {
        let n = node("Gemm", 13)
            .float(&[2, 3])
            .floats(&[2, 3], &[1.0, 0.0, 1.0, 2.0, 1.0, 0.0])
            .floats(&[2], &[1.0, 2.0])
            .int("transB", 1)
            .real("alpha", 0.5)
            .real("beta", 2.0);
        assert_eq!(op_types(&n.lower().unwrap()), ["FullyConnected"]);
        assert_close(&n.run(&[ramp(6, 0.0, 1.0)])[0], &[3.0, 4.5, 6.0, 9.0], 1e-6);
    }

    #[test]
    fn gemm_with_everything_dynamic() {
        let n = node("Gemm", 13)
            .float(&[3, 2])
            .float(&[2, 3])
            .float(&[2, 1])
            .int("transA", 1)
            .int("transB", 1)
            .real("alpha", 2.0)
            .real("beta", 0.5);
        // numpy: 2 * a.T @ b.T + 0.5 * c, a = arange(6).reshape(3, 2), b = arange(6).reshape(2, 3), c = [[2], [4]]
        assert_close(
            &n.run(&[ramp(6, 0.0, 1.0), ramp(6, 0.0, 1.0), vec![2.0, 4.0]])[0],
            &[21.0, 57.0, 28.0, 82.0],
            1e-9,
        );
        assert_eq!(
            node("Gemm", 13).float(&[2, 3]).float(&[3, 4]).float(&[3]).error(),
            "shapes [2, 4] and [3] do not broadcast: 4 against 3"
        );
    }
}
