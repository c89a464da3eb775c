//! Cast and CastLike, and the exact conversions between the types that the HTP holds, which other families use too.

use super::{FoldCx, InferCx, OpDef, OpError, compose, elementwise, invalid};
use crate::ir::{DataType, Dim, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{QnnType, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] =
    &[OpDef::new("Cast", infer).fold(fold).lower(lower), OpDef::new("CastLike", infer).fold(fold).lower(lower)];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let to = if cx.node.op_type == "CastLike" {
        cx.dtype(1)?
    } else {
        let Some(n) = cx.node.attrs.int("to") else {
            return invalid("attribute to is required");
        };
        match i32::try_from(n).ok().and_then(DataType::from_onnx) {
            Some(t) => t,
            None => return invalid(format!("attribute to is {n}, which is no ONNX element type")),
        }
    };
    let from = cx.ty(0)?.clone();
    cx.set(0, to, from.shape);
    let whole = |d: DataType| matches!(d, DataType::I32 | DataType::I64 | DataType::U32 | DataType::U64);
    if whole(to) && (whole(from.dtype) || from.dtype == DataType::Bool) {
        elementwise::infer_elements(cx, &[0], |v| Some(v[0].clone()));
    } else if to == DataType::Bool && whole(from.dtype) {
        elementwise::infer_elements(cx, &[0], |v| v[0].known().map(|n| Dim::Known(i64::from(n != 0))));
    }
    Ok(())
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (to, shape) = cx.out_type(0)?;
    let x = cx.input(0)?;
    if x.dtype() == to {
        return Some(vec![x.reshaped(shape)?]);
    }
    if let Some(e) = x.splat_element()
        && to.bits() >= 8
    {
        let one = convert_tensor(&Tensor::from_raw(x.dtype(), vec![1], e.clone())?, to)?;
        return Some(vec![Tensor::splat(to, shape, one.bytes())]);
    }
    Some(vec![convert_tensor(x, to)?])
}

/// The elements of `x` in another type: floats lose their fraction, integers keep their low bits.
fn convert_tensor(x: &Tensor, to: DataType) -> Option<Tensor> {
    let shape = x.shape().to_vec();
    if let Some(v) = x.to_i128s() {
        let v: Vec<i128> = v.into_iter().map(|v| elementwise::wrap(to, v)).collect();
        return Tensor::from_i128(to, shape, &v);
    }
    Tensor::from_f64(to, shape, &x.to_f64s()?)
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (from, to) = (cx.dtype(0)?, cx.out_dtype(0)?);
    if from.is_float() && to.is_float() && cx.is_whole_way() {
        let why = format!("nothing but a conversion from {from} to {to}: the HTP turns NaN and infinity into numbers");
        return Err(Refusal::fault("no-infinities", why).fix("convert on the CPU, which costs no hand-over"));
    }
    elementwise::lower(cx, &[0], 5, |cx, ids| convert(cx, ids[0], from, to))
}

/// The QNN type in which an integer or boolean type can be computed with exactly; `None` for one that no Cast of the
/// HTP leads from or to.
fn group(dtype: DataType) -> Option<Group> {
    Some(match dtype {
        DataType::F32 | DataType::F64 | DataType::F16 | DataType::BF16 => Group::Float,
        DataType::Bool => Group::Bool,
        DataType::I32 | DataType::I64 => Group::Int,
        DataType::U32 | DataType::U64 => Group::Unsigned,
        DataType::U8 => Group::Byte,
        DataType::I16 => Group::Short,
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Group {
    Float,
    Bool,
    Int,
    Unsigned,
    Byte,
    Short,
}

fn no_cast(from: DataType, to: DataType) -> Refusal {
    Refusal::new(codes::DTYPE, format!("the HTP has no exact conversion from {from} to {to}"))
        .fix("use int32, int64, uint8, bool or a float type inside the NPU part")
}

/// `t`, which holds values of type `from`, converted to `to` as ONNX's Cast has it. Every float type of 16 bits or more
/// is the type that the graph computes in; an integer keeps its low bits.
pub(super) fn convert(
    cx: &mut LowerCx<'_, '_>,
    t: TensorId,
    from: DataType,
    to: DataType,
) -> Result<TensorId, Refusal> {
    if from == to {
        return Ok(t);
    }
    let (Some(a), Some(b)) = (group(from), group(to)) else {
        return Err(no_cast(from, to));
    };
    if a == b {
        return Ok(t);
    }
    // Only to and from INT_32 does the HTP convert every type right: UINT_8 to FLOAT_32 gives 0 or 1 (QAIRT 2.47).
    let int = match a {
        Group::Float if b == Group::Bool => {
            let zero = cx.float_scalar(0.0);
            return Ok(compose::compare(cx, "ElementWiseNotEqual", t, zero));
        }
        Group::Bool if b == Group::Byte => return Ok(cx.cast(t, QnnType::UINT_8)),
        Group::Bool if b == Group::Float => {
            let float = cx.float();
            return Ok(cx.cast(t, float));
        }
        _ => cx.cast(t, QnnType::INT_32),
    };
    Ok(match b {
        Group::Int => int,
        Group::Float => {
            let float = cx.float();
            cx.cast(int, float)
        }
        Group::Unsigned => cx.cast(int, QnnType::UINT_32),
        Group::Bool => {
            let zero = cx.i32_constant(&[1], &[0]);
            compose::compare(cx, "ElementWiseNotEqual", int, zero)
        }
        Group::Byte => {
            // The HTP's Cast saturates. What a float out of range becomes is not defined by ONNX.
            let low = if a == Group::Float { int } else { low_byte(cx, int) };
            cx.cast(low, QnnType::UINT_8)
        }
        Group::Short => return Err(no_cast(from, to)),
    })
}

/// `t` modulo 256. The validator crashes on a Mod of rank 5 (QAIRT 2.47), so the axes are merged.
fn low_byte(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let dims = cx.dims(t);
    let flat = elementwise::up_to_rank_4(&dims);
    let t = cx.reshape(t, &flat);
    let modulus = cx.i32_constant(&[1], &[256]);
    let y = compose::binary(cx, "ElementWiseMod", t, modulus);
    cx.reshape(y, &dims)
}

/// A tensor of an integer type as INT_32, for ops that the HTP has for that type only. uint32 values above the range of
/// int32 turn negative.
pub(super) fn to_int32(cx: &mut LowerCx<'_, '_>, t: TensorId, from: DataType) -> Result<TensorId, Refusal> {
    convert(cx, t, from, DataType::I32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types};

    fn cast(from: DataType, to: DataType) -> crate::ops::testing::OneNode {
        node("Cast", 13).input(from, &[2, 3]).int("to", i64::from(to.to_onnx()))
    }

    #[test]
    fn types() {
        assert_eq!(node("Cast", 13).float(&[-1, 3]).int("to", 7).types(), ["int64[d1, 3]"]);
        assert!(node("Cast", 13).float(&[1]).int("to", 99).error().contains("99"));
        assert_eq!(node("CastLike", 15).float(&[2]).input(DataType::Bool, &[1]).types(), ["bool[2]"]);
        let e = node("Cast", 13).elements(DataType::I64, &[2], vec![Dim::symbol("n"), Dim::Known(3)]).int("to", 6);
        assert_eq!(e.infer().unwrap()[0].elements.as_ref().unwrap()[0], Dim::symbol("n"));
    }

    #[test]
    fn values() {
        let f = node("Cast", 13).floats(&[4], &[2.7, -2.7, 0.0, f32::NAN]);
        assert_eq!(f.int("to", 6).fold().unwrap()[0].to_i64s().unwrap(), [2, -2, 0, 0]);
        let i = node("Cast", 13).ints(&[300, -1, 0]).int("to", 2).fold().unwrap();
        assert_eq!(i[0].to_i64s().unwrap(), [44, 255, 0]);
        let b = node("Cast", 13).floats(&[3], &[0.3, 0.0, -2.0]).int("to", 9).fold().unwrap();
        assert_eq!(b[0].to_i64s().unwrap(), [1, 0, 1]);
    }

    #[test]
    fn floats_are_one_type_inside() {
        let outer = cast(DataType::F32, DataType::F16);
        assert!(outer.refusal().contains("NaN and infinity"), "{}", outer.refusal());
        // The same type on the way to a bool: no conversion in between.
        let g = cast(DataType::F32, DataType::Bool).lower().unwrap();
        assert_eq!(op_types(&g), ["ElementWiseNotEqual"]);
    }

    #[test]
    fn conversions_go_over_int32() {
        let ops = |from, to| {
            let g = cast(from, to).lower().unwrap();
            g.ops
                .iter()
                .map(|o| format!("{}>{}", o.op_type, g.tensor(o.outputs[0]).dtype))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(ops(DataType::F32, DataType::I32), "Cast>INT_32");
        assert_eq!(ops(DataType::F32, DataType::Bool), "ElementWiseNotEqual>BOOL_8");
        assert_eq!(ops(DataType::F32, DataType::U8), "Cast>INT_32 Cast>UINT_8");
        assert_eq!(ops(DataType::U8, DataType::F32), "Cast>INT_32 Cast>FLOAT_32");
        assert_eq!(ops(DataType::Bool, DataType::F32), "Cast>FLOAT_32");
        assert_eq!(ops(DataType::I32, DataType::U8), "ElementWiseMod>INT_32 Cast>UINT_8");
        assert_eq!(ops(DataType::I32, DataType::Bool), "ElementWiseNotEqual>BOOL_8");
        assert!(cast(DataType::F32, DataType::I8).refusal().contains("float32 to int8"));
        assert!(cast(DataType::F32, DataType::F8E5M2).refusal().contains("float8e5m2"));
    }
}
