//! Identity and Dropout.

use bytes::Bytes;

use super::{FoldCx, InferCx, OpDef, OpError};
use crate::ir::{DataType, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{QnnType, StaticData};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Identity", infer_identity).fold(fold_identity).lower(lower_identity),
    OpDef::new("Dropout", infer_dropout).fold(fold_dropout).lower(lower_dropout),
];

/// Takes values of every kind: tensors, sequences, optionals.
fn infer_identity(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let Some(v) = cx.node.input(0) else {
        return super::invalid("input 0 is required");
    };
    let ty = cx.graph.value(v).ty.clone();
    if let Some(o) = cx.out.first_mut() {
        o.ty = ty;
    }
    if let Some(e) = cx.elements(0) {
        cx.set_elements(0, e);
    }
    Ok(())
}

fn fold_identity(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    Some(vec![cx.input(0)?.clone()])
}

fn lower_identity(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let layout = cx.any_layout(0)?;
    let x = cx.input_in(0, &layout)?;
    cx.alias(0, x, layout)
}

/// The mask is boolean since opset 10.
fn infer_dropout(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let mask = if cx.node.version < 10 { t.dtype } else { DataType::Bool };
    cx.set(0, t.dtype, t.shape.clone());
    cx.set(1, mask, t.shape);
    Ok(())
}

/// Does the node leave its input as it is? `None` if that is decided at run time.
fn keeps_everything(training: Option<&Tensor>, ratio: Option<&Tensor>, has: [bool; 2]) -> Option<bool> {
    let zero = |t: Option<&Tensor>| t.and_then(Tensor::scalar_f64).map(|v| v == 0.0);
    // The default ratio is not 0, the default mode is inference.
    if !has[0] || zero(training) == Some(true) {
        return Some(true);
    }
    match zero(ratio) {
        Some(true) => Some(true),
        Some(false) => zero(training),
        None if has[1] => None,
        None => zero(training),
    }
}

fn fold_dropout(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let has = [cx.node.input(2).is_some(), cx.node.input(1).is_some()];
    if !keeps_everything(cx.input(2), cx.input(1), has)? {
        return None;
    }
    let x = cx.input(0)?;
    let mut out = vec![x.clone()];
    if let Some((dtype, shape)) = cx.out_type(1) {
        let one = Tensor::from_f64(dtype, vec![1], &[1.0])?;
        out.push(Tensor::splat(dtype, shape, one.bytes()));
    }
    Some(out)
}

fn lower_dropout(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    match keeps_everything(cx.constant(2), cx.constant(1), [cx.has(2), cx.has(1)]) {
        Some(true) => {}
        Some(false) => {
            return Err(Refusal::form("input training_mode is true: Dropout draws random numbers")
                .fix("export the model for inference"));
        }
        None => {
            return Err(Refusal::new(codes::NOT_CONSTANT, "input training_mode is not a constant")
                .fix("export the model for inference"));
        }
    }
    lower_identity(cx)?;
    if !cx.wants(1) {
        return Ok(());
    }
    let shape = cx.out_shape(1)?;
    let dtype = if cx.out_dtype(1)?.is_float() { DataType::F32 } else { DataType::Bool };
    let one =
        if dtype == DataType::F32 { Bytes::copy_from_slice(&1f32.to_le_bytes()) } else { Bytes::from_static(&[1]) };
    let dims: Vec<u32> = if shape.is_empty() { vec![1] } else { shape.iter().map(|&d| d as u32).collect() };
    let rank = shape.len();
    let qnn = if dtype == DataType::F32 { cx.float() } else { QnnType::BOOL_8 };
    let data = StaticData::Constant { tensor: Tensor::splat(dtype, shape, one), perm: None };
    let mask = cx.static_tensor(qnn, &dims, data);
    cx.alias(1, mask, Layout::identity(rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types};

    #[test]
    fn identity_makes_no_op_of_its_own() {
        let n = node("Identity", 13).float(&[2, -1]);
        assert_eq!(n.types(), ["float32[2, d1]"]);
        // The only op gives the graph's output its own tensor.
        assert_eq!(op_types(&node("Identity", 13).float(&[2]).lower().unwrap()), ["Reshape"]);
    }

    #[test]
    fn dropout_of_inference() {
        let n = node("Dropout", 13).float(&[2, 3]).floats(&[], &[0.5]).outputs(2);
        assert_eq!(n.types(), ["float32[2, 3]", "bool[2, 3]"]);
        let x = crate::ops::testing::ramp(6, 0.0, 1.0);
        assert_eq!(n.run(std::slice::from_ref(&x)), [x, vec![1.0; 6]]);
        let n = node("Dropout", 7).float(&[2]).real("ratio", 0.5).outputs(2);
        assert_eq!(n.types(), ["float32[2]", "float32[2]"]);
        assert_eq!(n.run(&[vec![4.0, 5.0]]), [vec![4.0, 5.0], vec![1.0; 2]]);
    }

    #[test]
    fn dropout_of_training_is_refused() {
        let t = Tensor::from_bools(vec![], &[true]);
        let n = node("Dropout", 13).float(&[2]).floats(&[], &[0.5]).constant(t.clone());
        assert!(n.refusal().contains("training_mode is true"));
        let n = node("Dropout", 13).float(&[2]).floats(&[], &[0.0]).constant(t);
        assert!(n.lower().is_ok());
        let n = node("Dropout", 13).float(&[2]).floats(&[], &[0.5]).input(DataType::Bool, &[]);
        assert!(n.refusal().contains("not a constant"));
    }
}
