//! Ops of ai.onnx.ml and text counting: Binarizer, ArrayFeatureExtractor, TfIdfVectorizer.

use super::movement::{dims_u32, wrapped_index};
use super::{InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{DataType, Dim};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

const DOMAIN: &str = "ai.onnx.ml";

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef { domain: DOMAIN, ..OpDef::new("Binarizer", elementwise::infer_float).lower(lower_binarizer) },
    OpDef { domain: DOMAIN, ..OpDef::new("ArrayFeatureExtractor", infer_extractor).lower(lower_extractor) },
    OpDef::new("TfIdfVectorizer", infer_counts).lower(lower_counts),
];

/// 1 above the threshold, else 0.
fn lower_binarizer(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let threshold = cx.attrs().float_or("threshold", 0.0);
    elementwise::lower(cx, &[0], 4, |cx, ids| {
        let bound = cx.float_scalar(threshold);
        let above = compose::compare(cx, "ElementWiseGreater", ids[0], bound);
        let float = cx.float();
        Ok(cx.cast(above, float))
    })
}

/// Picks along the last axis; a vector is one row.
fn infer_extractor(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let Some((_, rows)) = t.shape.split_last() else {
        return invalid("input 0 is a scalar");
    };
    let count = cx.shape(1)?.iter().fold(Dim::Known(1), |n, d| n.mul(d));
    let mut shape = if rows.is_empty() { vec![Dim::Known(1)] } else { rows.to_vec() };
    shape.push(count);
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn lower_extractor(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let (shape, index_shape) = (cx.shape(0)?, cx.shape(1)?);
    let width = shape.last().copied().unwrap_or(1);
    let rows = shape[..shape.len() - 1].iter().product::<usize>() as u32;
    let count = index_shape.iter().product::<usize>() as u32;
    let x = cx.input(0)?;
    let x = cx.reshape(x, &[rows, width as u32]);
    let index = cx.input(1)?;
    let index = cx.reshape(index, &[count]);
    let index = wrapped_index(cx, 1, index, width)?;
    let dtype = cx.qnn_type(x);
    let y = cx.op_to("Gather", &[x, index], dtype, &[rows, count], &[("axis", Param::i32(1))]);
    compose::give(cx, 0, y)
}

/// What a TfIdfVectorizer counts.
#[derive(Debug)]
struct Pool {
    /// Each n-gram's numbers, and the element of the output that it counts in.
    grams: Vec<(Vec<i32>, usize)>,
    width: usize,
}

fn pool(node: &crate::ir::Node) -> Result<Pool, String> {
    let attrs = &node.attrs;
    let ints = |name: &str| attrs.ints(name).ok_or_else(|| format!("attribute {name} is missing"));
    if attrs.get("pool_strings").is_some() && attrs.ints("pool_int64s").is_none_or(<[i64]>::is_empty) {
        return Err("attribute pool_strings: the HTP has no strings".into());
    }
    let (numbers, counts, indexes) = (ints("pool_int64s")?, ints("ngram_counts")?, ints("ngram_indexes")?);
    let [shortest, longest] = ["min_gram_length", "max_gram_length"].map(|n| attrs.int_or(n, 1));
    let mut grams = vec![];
    let mut at = 0;
    for (i, &start) in counts.iter().enumerate() {
        let n = i + 1;
        let end = counts.get(n).copied().unwrap_or(numbers.len() as i64);
        let piece = usize::try_from(start).ok().zip(usize::try_from(end).ok()).and_then(|(a, b)| numbers.get(a..b));
        let Some(piece) = piece.filter(|p| p.len() % n == 0) else {
            return Err(format!("attribute ngram_counts {counts:?} does not cut {} numbers", numbers.len()));
        };
        for gram in piece.chunks(n) {
            let Some(index) = indexes.get(at).and_then(|&i| usize::try_from(i).ok()) else {
                return Err(format!("attribute ngram_indexes has {} entries", indexes.len()));
            };
            at += 1;
            if (shortest..=longest).contains(&(n as i64)) {
                let gram: Result<Vec<i32>, _> = gram.iter().map(|&v| i32::try_from(v)).collect();
                grams.push((gram.map_err(|_| format!("pool {numbers:?} holds a number beyond int32"))?, index));
            }
        }
    }
    let width = indexes.iter().filter_map(|&i| usize::try_from(i).ok()).max().map_or(0, |m| m + 1);
    Ok(Pool { grams, width })
}

fn infer_counts(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let pool = pool(cx.node).map_err(OpError::Invalid)?;
    let mut shape = match t.shape.as_slice() {
        [_] => vec![],
        [batch, _] => vec![batch.clone()],
        _ => return invalid(format!("input 0 is {t}, and must be of rank 1 or 2")),
    };
    shape.push(Dim::Known(pool.width as i64));
    cx.set(0, DataType::F32, shape);
    Ok(())
}

/// Every n-gram is compared with every place where it may begin, for every skip between its numbers. Counts stay whole in
/// 16-bit floats up to 2048.
fn lower_counts(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let pool = pool(cx.node).map_err(Refusal::form)?;
    let mode = cx.attrs().str_or("mode", "TF").to_string();
    if !matches!(cx.dtype(0)?, DataType::I32 | DataType::I64) {
        return Err(Refusal::form(format!("counts in {}", cx.dtype(0)?)));
    }
    let shape = cx.shape(0)?;
    let length = shape.last().copied().unwrap_or(1);
    let batch = shape[..shape.len() - 1].iter().product::<usize>();
    let skips = usize::try_from(cx.attrs().int_or("max_skip_count", 0)).unwrap_or(0);
    if length.saturating_mul(skips + 1) > 2048 || pool.grams.is_empty() {
        return Err(Refusal::form(format!(
            "{length} numbers with up to {skips} skips: their counts pass 2048, where 16-bit floats are not whole"
        )));
    }
    let x = cx.input(0)?;
    let x = cx.reshape(x, &[batch as u32, length as u32]);
    let mut columns: Vec<Option<TensorId>> = vec![None; pool.width];
    let longest = pool.grams.iter().map(|(g, _)| g.len()).max().unwrap_or(1);
    for n in 1..=longest {
        let grams: Vec<&(Vec<i32>, usize)> = pool.grams.iter().filter(|(g, _)| g.len() == n).collect();
        let mut sums: Vec<Option<TensorId>> = vec![None; grams.len()];
        for skip in 0..=if n == 1 { 0 } else { skips } {
            let reach = (n - 1) * (skip + 1);
            if reach >= length {
                break;
            }
            let places = (length - reach) as u32;
            let windows: Vec<TensorId> = (0..n)
                .map(|j| {
                    let begin = (j * (skip + 1)) as u32;
                    compose::slice(cx, x, 1, begin, begin + places)
                })
                .collect();
            for ((gram, _), sum) in grams.iter().zip(&mut sums) {
                let hits = occurrences(cx, &windows, gram);
                *sum = Some(match *sum {
                    None => hits,
                    Some(s) => compose::add(cx, s, hits),
                });
            }
        }
        for ((_, index), sum) in grams.iter().zip(sums) {
            columns[*index] = match (columns[*index], sum) {
                (Some(a), Some(b)) => Some(compose::add(cx, a, b)),
                (a, b) => a.or(b),
            };
        }
    }
    let none = cx.float_constant(&[batch as u32, 1], &vec![0.0; batch]);
    let columns: Vec<TensorId> = columns.into_iter().map(|c| c.unwrap_or(none)).collect();
    let mut y = compose::concat(cx, &columns, 1);
    if mode == "IDF" {
        let zero = cx.float_scalar(0.0);
        let any = compose::compare(cx, "ElementWiseGreater", y, zero);
        let float = cx.float();
        y = cx.cast(any, float);
    }
    if mode != "TF"
        && let Some(weights) = cx.attrs().floats("weights")
    {
        if weights.len() != pool.width {
            return Err(Refusal::form(format!("{} weights for {} counts", weights.len(), pool.width)));
        }
        let weights = cx.float_constant(&[1, pool.width as u32], weights);
        y = compose::mul(cx, y, weights);
    }
    debug_assert_eq!(cx.dims(y), dims_u32(&[batch, pool.width]));
    compose::give(cx, 0, y)
}

/// In how many places the windows hold the numbers of the n-gram, one after the other: `[batch, 1]`.
fn occurrences(cx: &mut LowerCx<'_, '_>, windows: &[TensorId], gram: &[i32]) -> TensorId {
    let mut all: Option<TensorId> = None;
    for (&w, &number) in windows.iter().zip(gram) {
        let number = cx.i32_constant(&[1], &[number]);
        let equal = compose::compare(cx, "ElementWiseEqual", w, number);
        all = Some(match all {
            None => equal,
            Some(a) => compose::binary(cx, "ElementWiseAnd", a, equal),
        });
    }
    let float = cx.float();
    let hits = match all {
        Some(t) => cx.cast(t, float),
        None => cx.float_scalar(0.0),
    };
    compose::reduce_keep(cx, "ReduceSum", hits, &[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{OneNode, assert_close, node};

    #[test]
    fn thresholds_and_features() {
        let n = node("ai.onnx.ml::Binarizer", 1).float(&[3]).real("threshold", 1.0);
        assert_close(&n.run(&[vec![1.0, 1.5, -2.0]])[0], &[0.0, 1.0, 0.0], 0.0);
        let n = node("ai.onnx.ml::ArrayFeatureExtractor", 1).float(&[2, 3]).input(DataType::I64, &[2]);
        assert_eq!(n.types(), ["float32[2, 2]"]);
        let y = n.run(&[vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![2.0, 0.0]]);
        assert_close(&y[0], &[2.0, 0.0, 5.0, 3.0], 0.0);
    }

    fn counts(mode: &str) -> OneNode {
        node("TfIdfVectorizer", 9)
            .input(DataType::I32, &[2, 6])
            .text("mode", mode)
            .int("min_gram_length", 1)
            .int("max_gram_length", 2)
            .int("max_skip_count", 5)
            .int_list("ngram_counts", &[0, 4])
            .int_list("ngram_indexes", &[0, 1, 2, 3, 4, 5, 6])
            .int_list("pool_int64s", &[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])
    }

    #[test]
    fn grams_with_skips() {
        let x = vec![1.0, 1.0, 3.0, 3.0, 3.0, 7.0, 8.0, 6.0, 7.0, 5.0, 6.0, 8.0];
        let y = counts("TF").run(std::slice::from_ref(&x));
        assert_close(&y[0], &[0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0], 0.0);
        let y = counts("IDF").run(&[x]);
        assert_close(&y[0][..7], &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.0);
        assert!(counts("TF").int_list("ngram_counts", &[0, 3]).error().contains("ngram_counts"));
    }
}
