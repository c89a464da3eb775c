//! Fusions of com.microsoft: GELU and its variants, biases, and products with an activation at their end.

use super::activation::{gelu_erf, gelu_tanh, gelu_tanh_of, lower_swish, sigmoid, softplus_of};
use super::elementwise_unary::{map, unary};
use super::matmul::{infer_gemm, matmul_shape, multiply, need_real};
use super::{FoldCx, InferCx, OpDef, OpError, compose, conv, elementwise, elementwise_unary, invalid, matmul, spatial};
use crate::ir::{Attrs, DataType, Dim, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::ms("Gelu", elementwise::infer_float).fold(|cx| map(cx, gelu_erf)).lower(|cx| unary(cx, "Gelu")),
    OpDef::ms("FastGelu", infer_biased).fold(|cx| biased(cx, gelu_tanh)).lower(lower_fast_gelu),
    OpDef::ms("QuickGelu", elementwise::infer_float).fold(fold_quick_gelu).lower(lower_quick_gelu),
    OpDef::ms("BiasGelu", infer_biased).fold(|cx| biased(cx, gelu_erf)).lower(lower_bias_gelu),
    OpDef::ms("BiasSplitGelu", infer_split).lower(lower_split),
    OpDef::ms("BiasAdd", infer_sum).fold(fold_sum).lower(lower_sum),
    OpDef::ms("BiasDropout", infer_dropout).lower(lower_dropout),
    OpDef::ms("BiasSoftmax", infer_softmax).lower(lower_softmax),
    OpDef::ms("FusedMatMul", infer_matmul).fold(fold_matmul).lower(lower_matmul),
    OpDef::ms("TransposeMatMul", infer_matmul).fold(fold_matmul).lower(lower_matmul),
    OpDef::ms("FusedMatMulActivation", infer_matmul).lower(lower_matmul),
    OpDef::ms("GemmFastGelu", infer_gemm_gelu).lower(lower_gemm_gelu),
    OpDef::ms("FusedGemm", infer_gemm).lower(lower_gemm),
    OpDef::ms("FusedConv", infer_conv).lower(lower_conv),
    OpDef::ms("Inverse", infer_inverse),
];

/// An input of a float type and an optional bias that broadcasts to it.
fn infer_biased(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise::infer_float(cx)?;
    if cx.has(1) {
        let shape = elementwise::infer_shape(cx, &[0, 1])?;
        if shape.len() > cx.rank(0)? {
            return invalid(format!("the bias {} has a higher rank than the input", show_shape(cx.shape(1)?)));
        }
    }
    Ok(())
}

fn infer_split(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let mut shape = t.shape;
    let Some(last) = shape.last_mut() else {
        return invalid("input 0 must have rank 1 or more");
    };
    let half = match last.exact_div(&Dim::Known(2)) {
        Some(half) => half,
        None if last.known().is_some() => return invalid(format!("the last dimension, {last}, must be even")),
        None => {
            let cause = format!("half of the last dimension, {last}, is not known");
            return Err(OpError::DataDependent(cause));
        }
    };
    *last = half;
    cx.set(0, t.dtype, shape);
    Ok(())
}

fn infer_sum(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let inputs = elementwise::given(cx.node);
    let dtype = elementwise::infer_dtype(cx, &inputs)?;
    let shape = elementwise::infer_shape(cx, &inputs)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn infer_dropout(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.set(0, t.dtype, t.shape.clone());
    cx.set(1, DataType::Bool, t.shape);
    Ok(())
}

fn infer_softmax(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise::infer_float(cx)?;
    let rank = cx.rank(0)?;
    cx.axis("axis", 1, rank)?;
    Ok(())
}

fn infer_inverse(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    elementwise_unary::infer_same(cx)
}

fn biased(cx: &FoldCx<'_>, f: impl Fn(f64) -> f64) -> Option<Vec<Tensor>> {
    let inputs = elementwise::given(cx.node);
    elementwise::fold(cx, &inputs, |v| Some(f(v.iter().sum())), |_| None)
}

fn fold_sum(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    biased(cx, |x| x)
}

fn quick_alpha(attrs: &Attrs) -> f32 {
    attrs.float_or("alpha", 1.702)
}

fn fold_quick_gelu(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let a = f64::from(quick_alpha(&cx.node.attrs));
    map(cx, |x| x * sigmoid(a * x))
}

/// Inputs 0 and 1 (if given) added, then `f`.
fn lower_biased(
    cx: &mut LowerCx<'_, '_>,
    f: impl FnOnce(&mut LowerCx<'_, '_>, TensorId) -> TensorId,
) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let inputs = elementwise::given(cx.node);
    elementwise::lower(cx, &inputs, 5, |cx, ids| {
        let x = ids[1..].iter().fold(ids[0], |x, &b| compose::add(cx, x, b));
        Ok(f(cx, x))
    })
}

fn lower_fast_gelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    if cx.target().allow_approximate {
        return lower_bias_gelu(cx);
    }
    lower_biased(cx, gelu_tanh_of)
}

fn lower_bias_gelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    lower_biased(cx, |cx, x| compose::unary(cx, "Gelu", x))
}

fn lower_quick_gelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let alpha = quick_alpha(cx.attrs());
    lower_swish(cx, alpha)
}

/// The left half of the last axis times the GELU of the right half.
fn lower_split(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let (x, bias) = (cx.input(0)?, cx.input(1)?);
    let sum = compose::add(cx, x, bias);
    let axis = cx.rank(0)?.saturating_sub(1);
    let halves = compose::split_evenly(cx, sum, axis, 2);
    let gate = compose::unary(cx, "Gelu", halves[1]);
    let y = compose::mul(cx, halves[0], gate);
    compose::give(cx, 0, y)
}

fn lower_sum(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    lower_biased(cx, |_, x| x)
}

fn lower_dropout(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    elementwise::need_float(cx, 0)?;
    let training = cx.has(4) && cx.constant(4).and_then(Tensor::scalar_f64) != Some(0.0);
    let keeps = cx.has(3) && cx.constant(3).and_then(Tensor::scalar_f64) == Some(0.0);
    if training && !keeps {
        return Err(
            Refusal::form("input training_mode is not the constant false").fix("export the model for inference")
        );
    }
    if cx.wants(1) {
        return Err(Refusal::form("the mask of BiasDropout is asked for"));
    }
    let inputs: Vec<usize> = (0..3).filter(|&i| cx.has(i)).collect();
    elementwise::lower(cx, &inputs, 5, |cx, ids| Ok(ids[1..].iter().fold(ids[0], |x, &b| compose::add(cx, x, b))))
}

/// Softmax over all axes from `axis` on, of the sum of data and bias.
fn lower_softmax(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (shape, bias) = (cx.shape(0)?, cx.shape(1)?);
    let rank = shape.len();
    let fits = bias.len() == rank && bias.iter().zip(&shape).all(|(&b, &d)| b == d || b == 1);
    if !fits {
        return Err(Refusal::form(format!("a bias of shape {bias:?} for data of shape {shape:?}"))
            .fix("give the bias the rank of the data"));
    }
    let axis = super::normalise_axis(cx.attrs().int_or("axis", 1), rank).map_err(Refusal::form)?;
    let (x, b) = (cx.input(0)?, cx.input(1)?);
    let sum = compose::add(cx, x, b);
    let dims = cx.dims(sum);
    let (outer, inner) = (dims[..axis].iter().product(), dims[axis..].iter().product());
    let flat = if axis + 1 == rank { sum } else { cx.reshape(sum, &[outer, inner]) };
    let y = compose::softmax_last(cx, flat);
    compose::give(cx, 0, y)
}

/// The order of axes in which operand `name` of a FusedMatMul enters the product.
fn operand_order(attrs: &Attrs, name: char, rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    if rank < 2 {
        return order;
    }
    if attrs.int_or(&format!("transBatch{name}"), 0) != 0 {
        // The first axis goes before the last one.
        let first = order.remove(0);
        order.insert(rank - 2, first);
    }
    if attrs.int_or(&format!("trans{name}"), 0) != 0 {
        order.swap(rank - 2, rank - 1);
    }
    order
}

fn infer_matmul(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    let operand = |i: usize, name: char| -> Result<Vec<Dim>, OpError> {
        let shape = cx.shape(i)?;
        Ok(operand_order(&cx.node.attrs, name, shape.len()).iter().map(|&a| shape[a].clone()).collect())
    };
    let shape = matmul_shape(&operand(0, 'A')?, &operand(1, 'B')?)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn fold_matmul(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let operand = |i: usize, name: char| {
        let t = cx.input(i)?;
        t.transposed(&operand_order(&cx.node.attrs, name, t.rank()))
    };
    let (a, b) = (operand(0, 'A')?, operand(1, 'B')?);
    let alpha = f64::from(cx.node.attrs.float_or("alpha", 1.0));
    let y = multiply(&a.to_f64s()?, a.shape(), &b.to_f64s()?, b.shape())?;
    let y: Vec<f64> = y.into_iter().map(|v| v * alpha).collect();
    Some(vec![Tensor::from_f64(dtype, shape, &y)?])
}

fn lower_matmul(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    need_real(cx, &cx.node.op_name())?;
    let alpha = cx.attrs().float_or("alpha", 1.0);
    let (a, b) = (cx.rank(0)?, cx.rank(1)?);
    let order_a = Layout::from_order(operand_order(cx.attrs(), 'A', a));
    let mut x = cx.input_in(0, &order_a)?;
    if a == 1 {
        let k = cx.dims(x)[0];
        x = cx.reshape(x, &[1, k]);
    }
    // The factor goes to the smaller side of the product: scores of attention may not fit 16 bits before it.
    if alpha.abs() < 1.0 {
        x = compose::scale(cx, x, alpha);
    }
    let y = match (cx.constant(1), b) {
        (Some(w), 2) if cx.constant(0).is_none() => {
            // The weights of a FullyConnected are [out, in]: the second operand transposed.
            let transposed = cx.attrs().int_or("transB", 0) != 0;
            let perm: Option<&[usize]> = if transposed { None } else { Some(&[1, 0]) };
            let shape = w.shape();
            let dims = if transposed { [shape[0], shape[1]] } else { [shape[1], shape[0]] };
            let w = cx.weight(w, perm, &dims.map(|d| d as u32));
            compose::fully_connected(cx, x, w, None)
        }
        _ => {
            let batched = cx.attrs().int_or("transBatchB", 0) != 0;
            let swap = b >= 2 && !batched && cx.attrs().int_or("transB", 0) != 0;
            let order = if swap { (0..b).collect() } else { operand_order(cx.attrs(), 'B', b) };
            let mut w = cx.input_in(1, &Layout::from_order(order))?;
            if b == 1 {
                let k = cx.dims(w)[0];
                w = cx.reshape(w, &[k, 1]);
            }
            compose::matmul(cx, x, w, swap)
        }
    };
    let y = if alpha.abs() < 1.0 { y } else { compose::scale(cx, y, alpha) };
    let y = activate(cx, y)?;
    compose::give(cx, 0, y)
}

fn lower_gemm(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let y = matmul::gemm(cx)?;
    let y = activate(cx, y)?;
    compose::give(cx, 0, y)
}

fn infer_gemm_gelu(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    let shape = matmul_shape(cx.shape(0)?, cx.shape(1)?)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn lower_gemm_gelu(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    need_real(cx, "GemmFastGelu")?;
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let mut y = compose::matmul(cx, x, w, false);
    if cx.has(2) {
        let bias = cx.input(2)?;
        y = compose::add(cx, y, bias);
    }
    let y = gelu_tanh_of(cx, y);
    compose::give(cx, 0, y)
}

fn infer_conv(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?, cx.ty(1)?);
    let shape = conv::conv_shape(&cx.node.attrs, &x.shape, &w.shape)?;
    cx.set(0, x.dtype, shape);
    Ok(())
}

/// A convolution, an optional tensor added to it, and an activation.
fn lower_conv(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let mut y = conv::convolve(cx)?;
    if cx.has(3) {
        let z = cx.input_in(3, &Layout::channel_last(cx.rank(3)?))?;
        let dims = cx.dims(y);
        let z = cx.reshape(z, &dims);
        y = compose::add(cx, y, z);
    }
    let y = activate(cx, y)?;
    spatial::give_channel_last(cx, 0, y)
}

/// The activation that a node's attributes `activation` and `activation_alpha`, ... (or `activation_params`) name.
pub(super) fn activate(cx: &mut LowerCx<'_, '_>, t: TensorId) -> Result<TensorId, Refusal> {
    let attrs = cx.attrs();
    let list = attrs.floats("activation_params").unwrap_or_default();
    let value = |i: usize, name: &str, default: f32| {
        list.get(i).copied().or_else(|| attrs.float(&format!("activation_{name}"))).unwrap_or(default)
    };
    let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
    Ok(match attrs.str_or("activation", "") {
        "" => t,
        "Relu" => compose::unary(cx, "Relu", t),
        "Sigmoid" => compose::unary(cx, "Sigmoid", t),
        "Tanh" => elementwise::unary_any_rank(cx, "Tanh", t),
        "Gelu" => compose::unary(cx, "Gelu", t),
        "HardSwish" => elementwise::unary_any_rank(cx, "HardSwish", t),
        "Softplus" => softplus_of(cx, t),
        "LeakyRelu" => {
            let slope = cx.float_scalar(value(0, "alpha", 0.01));
            cx.op_to("Prelu", &[t, slope], dtype, &dims, &[])
        }
        "Clip" => match (value(0, "alpha", f32::MIN), value(1, "beta", f32::MAX)) {
            (low, high) if low <= high => compose::clamp(cx, t, low.max(-65504.0), high.min(65504.0)),
            (low, high) => return Err(Refusal::form(format!("an activation Clip from {low} to {high}"))),
        },
        "HardSigmoid" => {
            let params = [
                ("operation", Param::u32(2)),
                ("alpha", Param::f32(value(0, "alpha", 0.2))),
                ("beta", Param::f32(value(1, "beta", 0.5))),
            ];
            cx.op_to("ElementWiseNeuron", &[t], dtype, &dims, &params)
        }
        other => return Err(Refusal::form(format!("attribute activation is {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{OneNode, assert_close, node, op_types, ramp};

    fn ms(op: &str) -> OneNode {
        node(&format!("com.microsoft::{op}"), 1)
    }

    #[test]
    fn gelu_and_its_variants() {
        let x = [-2.0, -0.5, 0.0, 1.0, 3.0];
        let f = |op: &str| ms(op).floats(&[5], &x).fold().unwrap()[0].to_f64s().unwrap();
        assert_close(&f("Gelu"), &[-0.0455003, -0.1542688, 0.0, 0.8413447, 2.9959503], 1e-6);
        assert_close(&f("FastGelu"), &[-0.0454023, -0.154286, 0.0, 0.841192, 2.9963627], 1e-6);
        assert_close(&f("QuickGelu"), &[-0.0643414, -0.1496116, 0.0, 0.8457958, 2.9819286], 1e-6);
        assert_eq!(op_types(&ms("Gelu").float(&[2]).lower().unwrap()), ["Gelu"]);
        let fast = ms("FastGelu").float(&[1, 5]).floats(&[5], &[0.0; 5]);
        let got = fast.run(&[x.iter().map(|&v| f64::from(v)).collect()]);
        assert_close(&got[0], &f("FastGelu"), 1e-6);
        let g = ms("BiasGelu").float(&[2, 3]).floats(&[3], &[1.0; 3]).lower().unwrap();
        assert_eq!(op_types(&g), ["ElementWiseAdd", "Gelu"]);
        assert_eq!(ms("BiasSplitGelu").float(&[1, 2, 6]).floats(&[6], &[0.0; 6]).types(), ["float32[1, 2, 3]"]);
    }

    #[test]
    fn fused_products() {
        let n = ms("FusedMatMul").float(&[2, 3]).float(&[2, 3]).int("transB", 1).real("alpha", 0.5);
        assert_eq!(n.types(), ["float32[2, 2]"]);
        let got = n.run(&[ramp(6, 0.0, 1.0), ramp(6, 1.0, 1.0)]);
        assert_close(&got[0], &[4.0, 8.5, 13.0, 31.0], 1e-9);
        let n = ms("FusedMatMul").float(&[2, 3]).floats(&[2, 2], &[1.0, 0.0, 0.0, 2.0]).int("transA", 1);
        assert_close(&n.run(&[ramp(6, 0.0, 1.0)])[0], &[0.0, 6.0, 1.0, 8.0, 2.0, 10.0], 1e-9);
        let n = ms("FusedMatMul").float(&[4, 2, 3]).float(&[2, 3, 5]).int("transBatchA", 1);
        assert_eq!(n.types(), ["float32[2, 4, 5]"]);
        let n = ms("FusedGemm").float(&[1, 2]).floats(&[2, 2], &[1.0, 0.0, 0.0, 1.0]).text("activation", "Relu");
        assert_close(&n.run(&[vec![-1.0, 2.0]])[0], &[0.0, 2.0], 0.0);
        let n = ms("FusedGemm").float(&[1, 2]).floats(&[2, 2], &[1.0; 4]).text("activation", "Sine");
        assert!(n.refusal().contains("Sine"));
    }

    #[test]
    fn fused_convolutions() {
        let n = ms("FusedConv").float(&[1, 1, 2, 2]).floats(&[1, 1, 1, 1], &[-1.0]).omit().float(&[1, 1, 2, 2]);
        let n = n.text("activation", "Relu");
        assert_eq!(n.types(), ["float32[1, 1, 2, 2]"]);
        let ops = n.lower().unwrap();
        let ops: Vec<&str> = op_types(&ops).into_iter().filter(|o| *o != "Reshape").collect();
        assert_eq!(ops, ["Conv2d", "ElementWiseAdd", "Relu"]);
    }

    #[test]
    fn biases() {
        let n = ms("BiasAdd").float(&[1, 2]).floats(&[2], &[1.0, 2.0]).float(&[1, 2]);
        assert_close(&n.run(&[vec![1.0, 1.0], vec![3.0, 4.0]])[0], &[5.0, 7.0], 0.0);
        let n = ms("BiasSoftmax").float(&[1, 2, 2]).float(&[1, 1, 2]).int("axis", 2);
        let got = n.run(&[vec![0.0, 0.0, 0.0, 0.0], vec![0.0, 1.0]]);
        assert_close(&got[0][..2], &[0.26894142, 0.73105858], 1e-6);
    }
}
