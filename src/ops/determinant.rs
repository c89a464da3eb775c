//! Det: determinants of small matrices.

use super::{FoldCx, InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{Dim, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::TensorId;

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Det", infer).fold(fold).lower(lower)];

/// A matrix of `n` rows takes about `n!` products.
const ROW_LIMIT: usize = 4;

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let Some((batch, [rows, columns])) = t.shape.split_last_chunk::<2>() else {
        return invalid(format!("input 0 is {t}, and must be matrices"));
    };
    if let (Dim::Known(r), Dim::Known(c)) = (rows, columns)
        && r != c
    {
        return invalid(format!("input 0 is {t}: its matrices are not square"));
    }
    cx.set(0, t.dtype, batch.to_vec());
    Ok(())
}

/// By elimination with the largest pivot of each column.
fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (dtype, shape) = cx.out_type(0)?;
    let n = *x.shape().last()?;
    let values = x.to_f64s()?;
    let out: Vec<f64> = if n == 0 {
        vec![1.0; shape.iter().product()]
    } else {
        values.chunks(n * n).map(|m| determinant(m.to_vec(), n)).collect()
    };
    Some(vec![Tensor::from_f64(dtype, shape, &out)?])
}

fn determinant(mut m: Vec<f64>, n: usize) -> f64 {
    let mut det = 1.0;
    for k in 0..n {
        let pivot = (k..n).max_by(|&a, &b| m[a * n + k].abs().total_cmp(&m[b * n + k].abs())).unwrap_or(k);
        if m[pivot * n + k] == 0.0 {
            return 0.0;
        }
        if pivot != k {
            (0..n).for_each(|j| m.swap(pivot * n + j, k * n + j));
            det = -det;
        }
        det *= m[k * n + k];
        for i in k + 1..n {
            let f = m[i * n + k] / m[k * n + k];
            (k..n).for_each(|j| m[i * n + j] -= f * m[k * n + j]);
        }
    }
    det
}

/// Expansion along the rows, which needs no division.
fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let shape = cx.shape(0)?;
    let n = shape[shape.len() - 1];
    if n > ROW_LIMIT {
        return Err(Refusal::form(format!("matrices of {n} rows; up to {ROW_LIMIT} are expanded")));
    }
    let count = shape[..shape.len() - 2].iter().product::<usize>() as u32;
    let x = cx.input(0)?;
    let x = cx.reshape(x, &[count, (n * n) as u32]);
    let elements = compose::split_evenly(cx, x, 1, n * n);
    let columns: Vec<usize> = (0..n).collect();
    let y = minor(cx, &elements, n, 0, &columns);
    compose::give(cx, 0, y)
}

/// The determinant of the rows from `row` on and of these columns.
fn minor(cx: &mut LowerCx<'_, '_>, elements: &[TensorId], n: usize, row: usize, columns: &[usize]) -> TensorId {
    let mut sum: Option<TensorId> = None;
    for (i, &c) in columns.iter().enumerate() {
        let element = elements[row * n + c];
        let term = if columns.len() == 1 {
            element
        } else {
            let rest: Vec<usize> = columns.iter().copied().filter(|&o| o != c).collect();
            let m = minor(cx, elements, n, row + 1, &rest);
            compose::mul(cx, element, m)
        };
        sum = Some(match sum {
            None => term,
            Some(s) if i % 2 == 1 => compose::sub(cx, s, term),
            Some(s) => compose::add(cx, s, term),
        });
    }
    sum.unwrap_or(elements[0])
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node};

    const X: [f64; 18] = [2.0, -1.0, 0.0, 1.0, 3.0, -2.0, 0.0, 5.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 3.0, 4.0, -3.0, 8.0];

    #[test]
    fn values() {
        // numpy.linalg.det
        let want = [27.0, -2.0];
        let n = node("Det", 22).float(&[2, 3, 3]);
        assert_eq!(n.types(), ["float32[2]"]);
        assert_close(&n.run(&[X.to_vec()])[0], &want, 1e-9);
        let data: Vec<f32> = X.iter().map(|&v| v as f32).collect();
        let f = node("Det", 22).floats(&[2, 3, 3], &data).fold().unwrap();
        assert_close(&f[0].to_f64s().unwrap(), &want, 1e-5);
        assert_close(&node("Det", 22).float(&[2, 2]).run(&[vec![0.0, 1.0, 2.0, 3.0]])[0], &[-2.0], 0.0);
    }

    #[test]
    fn what_is_refused() {
        assert!(node("Det", 22).float(&[2, 3]).error().contains("not square"));
        assert!(node("Det", 22).float(&[5, 5]).refusal().contains("5 rows"));
    }
}
