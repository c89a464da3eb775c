//! Random numbers. Drawing them is left to the CPU: the HTP's generators promise neither ONNX's distributions nor seeds.

use super::movement::dtype_attr;
use super::{InferCx, OpDef, OpError, invalid};
use crate::ir::{DataType, Dim, Shape};
use crate::lower::{LowerCx, Refusal};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("RandomNormal", infer_shaped).lower(refuse),
    OpDef::new("RandomUniform", infer_shaped).lower(refuse),
    OpDef::new("RandomNormalLike", infer_like).lower(refuse),
    OpDef::new("RandomUniformLike", infer_like).lower(refuse),
    OpDef::new("Bernoulli", infer_like).lower(refuse),
    OpDef::new("Multinomial", infer_multinomial).lower(refuse),
];

fn infer_shaped(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = dtype_attr(&cx.node.attrs, "dtype", DataType::F32)?;
    let Some(shape) = cx.node.attrs.ints("shape") else {
        return invalid("attribute shape is required");
    };
    if shape.iter().any(|d| *d < 0) {
        return invalid(format!("attribute shape {shape:?} has a negative dimension"));
    }
    let shape: Shape = shape.iter().map(|&d| Dim::Known(d)).collect();
    cx.set(0, dtype, shape);
    Ok(())
}

fn infer_like(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let dtype = dtype_attr(&cx.node.attrs, "dtype", t.dtype)?;
    cx.set(0, dtype, t.shape);
    Ok(())
}

fn infer_multinomial(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let dtype = dtype_attr(&cx.node.attrs, "dtype", DataType::I32)?;
    let samples = cx.node.attrs.int_or("sample_size", 1);
    let [batch, _] = t.shape.as_slice() else {
        return invalid(format!("input 0 is {t}, and Multinomial takes [batch, classes]"));
    };
    if samples < 1 {
        return invalid(format!("attribute sample_size is {samples}"));
    }
    let batch = batch.clone();
    cx.set(0, dtype, vec![batch, Dim::Known(samples)]);
    Ok(())
}

fn refuse(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::form(format!("{} draws random numbers at run time", cx.node.op_type))
        .fix("make the numbers an input of the model"))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::node;

    #[test]
    fn types() {
        let n = node("RandomNormal", 1).int_list("shape", &[2, 3]).int("dtype", 10);
        assert_eq!(n.types(), ["float16[2, 3]"]);
        assert!(n.fold().is_none());
        assert_eq!(node("RandomUniformLike", 1).float(&[-1]).types(), ["float32[d1]"]);
        let n = node("Multinomial", 7).float(&[-1, 9]).int("sample_size", 4);
        assert_eq!(n.types(), ["int32[d1, 4]"]);
        assert_eq!(node("Bernoulli", 15).float(&[2]).int("dtype", 9).types(), ["bool[2]"]);
    }

    #[test]
    fn refused_with_the_reason() {
        assert_eq!(node("Bernoulli", 15).float(&[2]).refusal(), "Bernoulli draws random numbers at run time");
        assert_eq!(node("RandomNormal", 1).int("dtype", 1).error(), "attribute shape is required");
    }
}
