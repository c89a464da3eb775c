//! Softmax, LogSoftmax and Hardmax. Before opset 13 they flatten the axes from `axis` on; since then they take one axis.

use super::{FoldCx, InferCx, OpDef, OpError, compose, elementwise, invalid, normalise_axis};
use crate::ir::{Graph, Node, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Softmax", infer).fold(|cx| fold(cx, softmax)).lower(|cx| lower(cx, "Softmax", 5)).remark(remark),
    OpDef::new("LogSoftmax", infer)
        .fold(|cx| fold(cx, log_softmax))
        .lower(|cx| lower(cx, "LogSoftmax", 4))
        .remark(remark),
    OpDef::new("Hardmax", infer).fold(|cx| fold(cx, hardmax)).lower(lower_hardmax).remark(remark),
];

/// Names the opset's rule where the older and the newer one differ.
fn remark(graph: &Graph, node: &Node) -> Option<String> {
    let shape = graph.value(node.input(0)?).ty.tensor()?.static_shape()?;
    let span = span(node, shape.len()).ok()?;
    let (axis, op, version) = (span.start, &node.op_type, node.version);
    let after: usize = shape[axis..].iter().product();
    if after == shape[axis] {
        return None;
    }
    if version < 13 {
        let before: usize = shape[..axis].iter().product();
        return Some(format!(
            "{op} of opset {version} flattens {shape:?} at axis {axis} to [{before}, {after}] and normalises rows of {after}; \
             from opset 13 on it would normalise axis {axis} alone"
        ));
    }
    Some(format!(
        "{op} of opset {version} follows the rule of opset 13: it normalises axis {axis} of {shape:?} alone; \
         before, it would have flattened the axes from there on"
    ))
}

/// The axes that one distribution spans: `axis` alone, or all from `axis` on. The shape need only be known for opsets
/// before 13, where the two are the same if only axes of size 1 follow.
fn span(node: &Node, rank: usize) -> Result<std::ops::Range<usize>, String> {
    let flattens = node.version < 13;
    let default = if flattens { 1 } else { -1 };
    // Before opset 13 a vector was taken as one row.
    let axis = node.attrs.int_or("axis", default);
    let axis = if flattens && axis == rank as i64 { rank - usize::from(rank > 0) } else { normalise_axis(axis, rank)? };
    Ok(axis..if flattens { rank } else { axis + 1 })
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise::infer_float(cx)?;
    let rank = cx.rank(0)?;
    if let Err(e) = span(cx.node, rank) {
        return invalid(format!("attribute axis: {e}"));
    }
    Ok(())
}

fn softmax(row: &mut [f64]) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for v in &mut *row {
        *v = (*v - max).exp();
    }
    let sum: f64 = row.iter().sum();
    for v in row {
        *v /= sum;
    }
}

fn log_softmax(row: &mut [f64]) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log = row.iter().map(|v| (v - max).exp()).sum::<f64>().ln();
    for v in row {
        *v = *v - max - log;
    }
}

/// 1 for the first of the largest elements, else 0.
fn hardmax(row: &mut [f64]) {
    let best = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    for (i, v) in row.iter_mut().enumerate() {
        *v = f64::from(u8::from(i == best));
    }
}

fn fold(cx: &FoldCx<'_>, f: impl Fn(&mut [f64])) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let span = span(cx.node, x.rank()).ok()?;
    let shape = x.shape();
    let inner: usize = shape[span.end..].iter().product();
    let size: usize = shape[span.clone()].iter().product();
    let mut v = x.to_f64s()?;
    let mut row = vec![0.0; size];
    for block in v.chunks_mut((size * inner).max(1)) {
        for at in 0..inner {
            for (i, r) in row.iter_mut().enumerate() {
                *r = block[i * inner + at];
            }
            f(&mut row);
            for (i, r) in row.iter().enumerate() {
                block[i * inner + at] = *r;
            }
        }
    }
    Some(vec![Tensor::from_f64(x.dtype(), shape.to_vec(), &v)?])
}

/// The input with the elements of each distribution in the last axis, and the layout that its axes had before that.
struct Rows {
    tensor: TensorId,
    dims: Vec<u32>,
    layout: Layout,
}

/// HTP normalises over the last axis only. The layout is one that ends with the axis, so often no Transpose is needed.
fn rows(cx: &mut LowerCx<'_, '_>, max_rank: usize) -> Result<Rows, Refusal> {
    elementwise::need_float(cx, 0)?;
    let shape = cx.shape(0)?;
    let rank = shape.len();
    let span = span(cx.node, rank).map_err(Refusal::form)?;
    // Flattening matters only if more than one of the axes has more than one element.
    let long: Vec<usize> = span.clone().filter(|&a| shape[a] > 1).collect();
    let axis = match long.as_slice() {
        [] => Some(span.start),
        [one] => Some(*one),
        _ => None,
    };
    let Some(axis) = axis else {
        let layout = Layout::identity(rank);
        let x = cx.input_in(0, &layout)?;
        let dims = cx.dims(x);
        let inner = dims[span.start..].iter().product();
        let outer = dims[..span.start].iter().product();
        let tensor = cx.reshape(x, &[outer, inner]);
        return Ok(Rows { tensor, dims, layout });
    };
    let have = cx.layouts(0)?;
    let ends = |l: &&Layout| l.order().last() == Some(&axis);
    let layout = if let Some(l) = have.iter().find(ends) {
        l.clone()
    } else {
        let base = cx.any_layout(0)?;
        let mut order: Vec<usize> = base.order().iter().copied().filter(|&a| a != axis).collect();
        order.push(axis);
        Layout::from_order(order)
    };
    let x = cx.input_in(0, &layout)?;
    let dims = cx.dims(x);
    let mut tensor = x;
    if dims.len() > max_rank
        && let Some((last, head)) = dims.split_last()
    {
        tensor = cx.reshape(x, &[head.iter().product(), *last]);
    }
    Ok(Rows { tensor, dims, layout })
}

fn lower(cx: &mut LowerCx<'_, '_>, op: &str, max_rank: usize) -> Result<(), Refusal> {
    let rows = rows(cx, max_rank)?;
    let dims = cx.dims(rows.tensor);
    let params = [("axis", Param::u32(dims.len().saturating_sub(1) as u32)), ("beta", Param::f32(1.0))];
    if dims == rows.dims {
        let y = cx.output(0, &rows.layout)?;
        cx.op(op, &[rows.tensor], &[y], &params);
        return Ok(());
    }
    let dtype = cx.qnn_type(rows.tensor);
    let y = cx.op_to(op, &[rows.tensor], dtype, &dims, &params);
    let y = cx.reshape(y, &rows.dims);
    cx.alias(0, y, rows.layout)
}

/// Where the index along the axis is that of the first largest element.
fn lower_hardmax(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let rows = rows(cx, 2)?;
    let size = rows.dims.last().copied().unwrap_or(1);
    let mut dims = cx.dims(rows.tensor);
    let size = dims.pop().unwrap_or(size);
    let outer = dims.iter().product();
    let flat = cx.reshape(rows.tensor, &[outer, size]);
    let best = cx.op_to(
        "Argmax",
        &[flat],
        QnnType::INT_32,
        &[outer, 1],
        &[("axis", Param::u32(1)), ("keep_dims", Param::bool(true))],
    );
    let count: Vec<i32> = (0..size as i32).collect();
    let index = cx.i32_constant(&[1, size], &count);
    let hit = compose::compare(cx, "ElementWiseEqual", index, best);
    let float = cx.float();
    let y = cx.cast(hit, float);
    let y = cx.reshape(y, &rows.dims);
    cx.alias(0, y, rows.layout)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node, op_types, ramp};

    #[test]
    fn the_default_axis_follows_the_opset() {
        let x: Vec<f32> = (0..8).map(|v| v as f32).collect();
        let f = |version| node("Softmax", version).floats(&[2, 2, 2], &x).fold().unwrap()[0].to_f64s().unwrap();
        assert_close(&f(13)[..2], &[0.26894142, 0.73105858], 1e-6);
        assert_close(&f(12)[..4], &[0.0320586, 0.08714432, 0.23688282, 0.64391426], 1e-6);
        assert!(node("Softmax", 13).float(&[2]).int("axis", 1).error().contains("axis 1"));
    }

    #[test]
    fn lowered_values_are_the_folded_ones() {
        let x = ramp(24, -1.0, 0.3);
        let data: Vec<f32> = x.iter().map(|&v| (v * v) as f32).collect();
        let x: Vec<f64> = data.iter().map(|&v| f64::from(v)).collect();
        for version in [11, 13] {
            for axis in [-1, 0, 1, 2] {
                let want = node("Softmax", version).floats(&[2, 3, 4], &data).int("axis", axis).fold().unwrap();
                let got = node("Softmax", version).float(&[2, 3, 4]).int("axis", axis).run(std::slice::from_ref(&x));
                assert_close(&got[0], &want[0].to_f64s().unwrap(), 1e-6);
            }
        }
    }

    #[test]
    fn only_the_last_axis_is_normalised() {
        let ops = |n: crate::ops::testing::OneNode| op_types(&n.lower().unwrap()).join(" ");
        assert_eq!(ops(node("Softmax", 13).float(&[2, 3])), "Softmax");
        assert_eq!(ops(node("Softmax", 13).float(&[2, 3, 4]).int("axis", 1)), "Transpose Softmax Transpose");
        assert_eq!(ops(node("Softmax", 11).float(&[2, 3, 1, 1])), "Reshape Softmax Reshape");
        assert_eq!(ops(node("Softmax", 11).float(&[2, 3, 4])), "Reshape Softmax Reshape");
        assert_eq!(ops(node("LogSoftmax", 13).float(&[1, 2, 2, 2, 4])), "Reshape LogSoftmax Reshape");
        assert_eq!(ops(node("Hardmax", 13).float(&[2, 4])), "Argmax ElementWiseEqual Cast");
    }

    #[test]
    fn hardmax_takes_the_first() {
        let f = node("Hardmax", 13).floats(&[2, 3], &[3.0, 3.0, 1.0, 0.0, 1.0, 2.0]).fold().unwrap();
        assert_eq!(f[0].to_f64s().unwrap(), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    }
}
