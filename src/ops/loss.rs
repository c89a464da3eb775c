//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: the score of each target's own class, weighted and reduced.

use super::{InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{Dim, Shape, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("NegativeLogLikelihoodLoss", infer_loss).lower(lower_nll),
    OpDef::new("SoftmaxCrossEntropyLoss", infer_loss).lower(lower_cross_entropy),
];

/// Attribute `reduction`: `none`, `sum` or `mean`.
fn reduction(node: &crate::ir::Node) -> Result<&str, OpError> {
    match node.attrs.str("reduction").unwrap_or("mean") {
        r @ ("none" | "sum" | "mean") => Ok(r),
        r => invalid(format!("attribute reduction is {r:?}; it is none, sum or mean")),
    }
}

/// Scores are `[N, C, d...]`, targets `[N, d...]`, weights `[C]`.
fn infer_loss(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let scores = cx.ty(0)?.clone();
    let target = cx.shape(1)?.clone();
    if scores.shape.len() < 2 {
        return invalid(format!("input 0 is {scores}, and must be of rank 2 or more: [N, C, d...]"));
    }
    let want: Shape = [&scores.shape[..1], &scores.shape[2..]].concat();
    let differs = |a: &Dim, b: &Dim| a.known().is_some() && b.known().is_some() && a != b;
    if want.len() != target.len() || want.iter().zip(&target).any(|(a, b)| differs(a, b)) {
        return invalid(format!(
            "the targets have shape {}, and the scores {} need {}",
            show_shape(&target),
            show_shape(&scores.shape),
            show_shape(&want)
        ));
    }
    if cx.has(2) {
        let weight = cx.shape(2)?;
        if weight.len() != 1 || differs(&weight[0], &scores.shape[1]) {
            return invalid(format!(
                "the weights have shape {}, and the scores have {} classes",
                show_shape(weight),
                scores.shape[1]
            ));
        }
    }
    let shape = if reduction(cx.node)? == "none" { target } else { vec![] };
    cx.set(0, scores.dtype, shape);
    cx.set(1, scores.dtype, scores.shape);
    Ok(())
}

fn lower_nll(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let [n, c, d] = grouped(cx)?;
    let scores = cx.input(0)?;
    let scores = cx.reshape(scores, &[n, c, d]);
    lower_loss(cx, scores, 1)
}

/// `[N, C, d...]` as three numbers.
fn grouped(cx: &LowerCx<'_, '_>) -> Result<[u32; 3], Refusal> {
    let shape = cx.shape(0)?;
    Ok([shape[0] as u32, shape[1] as u32, shape[2..].iter().product::<usize>() as u32])
}

/// The HTP normalises over the last axis only, so the classes go there.
fn lower_cross_entropy(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let [n, c, d] = grouped(cx)?;
    let scores = cx.input(0)?;
    let scores = cx.reshape(scores, &[n, c, d]);
    let scores = cx.transpose(scores, &[0, 2, 1]);
    let flat = cx.reshape(scores, &[n * d, c]);
    let dtype = cx.qnn_type(flat);
    let params = [("axis", Param::u32(1)), ("beta", Param::f32(1.0))];
    let log = cx.op_to("LogSoftmax", &[flat], dtype, &[n * d, c], &params);
    if cx.wants(1) {
        let shape = cx.shape(0)?;
        let mut order: Vec<usize> = (0..shape.len()).filter(|&a| a != 1).collect();
        order.push(1);
        let layout = Layout::from_order(order);
        let dims: Vec<u32> = layout.apply(&shape).iter().map(|&d| d as u32).collect();
        let log = cx.reshape(log, &dims);
        cx.alias(1, log, layout)?;
    }
    let log = cx.reshape(log, &[n, d, c]);
    lower_loss(cx, log, 2)
}

/// `scores` are of rank 3 with the classes on `axis`. A target to be ignored picks class 0, and its loss becomes zero by
/// selection: the score itself may be infinite.
fn lower_loss(cx: &mut LowerCx<'_, '_>, scores: TensorId, axis: usize) -> Result<(), Refusal> {
    let [n, c, d] = grouped(cx)?;
    let target = cx.input(1)?;
    let mut dims = cx.dims(scores);
    dims[axis] = 1;
    let mut target = cx.reshape(target, &dims);
    let mut kept = None;
    if let Some(ignored) = cx.attrs().int("ignore_index") {
        let ignored = i32::try_from(ignored)
            .map_err(|_| Refusal::form(format!("attribute ignore_index is {ignored}, which does not fit int32")))?;
        let ignored = cx.i32_constant(&[1], &[ignored]);
        let keep = compose::compare(cx, "ElementWiseNotEqual", target, ignored);
        let one = cx.cast(keep, QnnType::INT_32);
        target = compose::mul(cx, target, one);
        kept = Some(keep);
    }
    let dtype = cx.qnn_type(scores);
    let params = [("axis", Param::u32(axis as u32))];
    let picked = cx.op_to("GatherElements", &[scores, target], dtype, &dims, &params);
    let mut loss = compose::scale(cx, picked, -1.0);
    let mut weight = None;
    if cx.has(2) {
        let table = cx.input(2)?;
        let index = cx.reshape(target, &[n * d]);
        let w = cx.op_to("Gather", &[table, index], dtype, &[n * d], &[("axis", Param::i32(0))]);
        let w = cx.reshape(w, &dims);
        loss = compose::mul(cx, loss, w);
        weight = Some(w);
    }
    if let Some(keep) = kept {
        let zeros = cx.float_constant(&dims, &vec![0.0; (n * d) as usize]);
        loss = compose::select(cx, keep, loss, zeros);
        let counted = if let Some(w) = weight {
            compose::select(cx, keep, w, zeros)
        } else {
            let float = cx.float();
            cx.cast(keep, float)
        };
        weight = Some(counted);
    }
    debug_assert!(c > 0);
    let y = reduced(cx, loss, weight)?;
    compose::give(cx, 0, y)
}

/// The mean is over the weights. Both of its sums are taken as means, which stay in the range of 16-bit floats.
fn reduced(cx: &mut LowerCx<'_, '_>, loss: TensorId, weight: Option<TensorId>) -> Result<TensorId, Refusal> {
    let kind = reduction(cx.node).map_err(|e| Refusal::form(e.to_string()))?;
    Ok(match kind {
        "none" => loss,
        "sum" => total(cx, "ReduceSum", loss),
        _ => {
            let top = total(cx, "ReduceMean", loss);
            match weight {
                None => top,
                Some(w) => {
                    let bottom = total(cx, "ReduceMean", w);
                    compose::div(cx, top, bottom)
                }
            }
        }
    })
}

/// All elements reduced to one, of dims `[1, 1]`.
fn total(cx: &mut LowerCx<'_, '_>, op: &str, t: TensorId) -> TensorId {
    let count = cx.dims(t).iter().product();
    let row = cx.reshape(t, &[1, count]);
    compose::reduce_keep(cx, op, row, &[1])
}

#[cfg(test)]
mod tests {
    use crate::ir::DataType;
    use crate::ops::testing::{OneNode, assert_close, node};

    const SCORES: [f64; 12] = [1.0, 2.0, 2.0, 2.0, 3.0, 2.0, 0.0, 1.0, 2.0, 1.0, 3.0, 1.0];

    /// `[2, 3, 2]` scores and `[2, 2]` targets.
    fn loss(op: &str, reduction: &str) -> OneNode {
        node(op, 13).float(&[2, 3, 2]).input(DataType::I64, &[2, 2]).text("reduction", reduction)
    }

    #[test]
    fn shapes() {
        let n = loss("SoftmaxCrossEntropyLoss", "none").outputs(2);
        assert_eq!(n.types(), ["float32[2, 2]", "float32[2, 3, 2]"]);
        assert_eq!(loss("NegativeLogLikelihoodLoss", "sum").types(), ["float32[]"]);
        let bad = node("NegativeLogLikelihoodLoss", 13).float(&[2, 3]).input(DataType::I64, &[3]);
        assert!(bad.error().contains("[3]"), "{}", bad.error());
        assert!(loss("NegativeLogLikelihoodLoss", "all").error().contains("reduction"));
    }

    #[test]
    fn likelihoods() {
        let run = |n: OneNode| n.run(&[SCORES.to_vec(), vec![2.0, 1.0, 0.0, 2.0]])[0].clone();
        let nll = |r: &str| loss("NegativeLogLikelihoodLoss", r);
        assert_close(&run(nll("none")), &[-3.0, -2.0, -0.0, -1.0], 1e-6);
        assert_close(&run(nll("sum")), &[-6.0], 1e-6);
        assert_close(&run(nll("mean")), &[-1.5], 1e-6);
        let weighted = nll("mean").floats(&[3], &[1.0, 2.0, 3.0]);
        // (3 * -3 + 2 * -2 + 1 * 0 + 3 * -1) / (3 + 2 + 1 + 3)
        assert_close(&run(weighted), &[-16.0 / 9.0], 1e-6);
        assert_close(&run(nll("mean").int("ignore_index", 2)), &[-1.0], 1e-6);
        let both = nll("mean").floats(&[3], &[1.0, 2.0, 3.0]).int("ignore_index", 2);
        assert_close(&run(both), &[-4.0 / 3.0], 1e-6);
    }

    #[test]
    fn a_target_outside_of_the_classes_is_ignored() {
        let n = loss("NegativeLogLikelihoodLoss", "none").int("ignore_index", -5);
        let y = n.run(&[SCORES.to_vec(), vec![-5.0, 1.0, 0.0, -5.0]]);
        assert_close(&y[0], &[0.0, -2.0, 0.0, 0.0], 1e-6);
    }

    #[test]
    fn cross_entropy() {
        let n = loss("SoftmaxCrossEntropyLoss", "none").outputs(2);
        let y = n.run(&[SCORES.to_vec(), vec![2.0, 1.0, 0.0, 2.0]]);
        // numpy: -log(softmax(x, axis=1)) picked at the targets
        assert_close(&y[0], &[0.40760596, 1.09861229, 3.34901222, 1.09861229], 1e-5);
        assert_close(&y[1][..2], &[-2.40760596, -1.09861229], 1e-5);
    }
}
