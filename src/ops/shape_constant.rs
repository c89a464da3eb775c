//! Constant, ConstantOfShape, Shape, Size, EyeLike: values that hang on attributes and shapes alone.

use super::movement::{ELEMENTS_LIMIT, dims_u32, dtype_attr, product};
use super::{FoldCx, InferCx, OpDef, OpError, invalid};
use crate::ir::{Attr, Attrs, DataType, Dim, Tensor, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Constant", infer_constant).fold(fold_constant).lower(lower_constant),
    OpDef::new("ConstantOfShape", infer_filled).fold(fold_filled),
    OpDef::new("Shape", infer_shape).fold(fold_shape).lower(lower_known),
    OpDef::new("Size", infer_size).fold(fold_size).lower(lower_known),
    OpDef::new("EyeLike", infer_eye).fold(fold_eye).lower(lower_eye),
];

/// The tensor that a Constant's attributes spell; `None` for strings and sparse tensors.
fn constant(attrs: &Attrs) -> Option<Tensor> {
    attrs.0.iter().find_map(|(name, attr)| match (name.as_str(), attr) {
        ("value", Attr::Tensor(t)) => Some(t.clone()),
        ("value_int", Attr::Int(v)) => Some(Tensor::from_i64(vec![], &[*v])),
        ("value_ints", Attr::Ints(v)) => Some(Tensor::from_i64(vec![v.len()], v)),
        ("value_float", Attr::Float(v)) => Some(Tensor::from_f32(vec![], &[*v])),
        ("value_floats", Attr::Floats(v)) => Some(Tensor::from_f32(vec![v.len()], v)),
        _ => None,
    })
}

fn infer_constant(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let attrs = &cx.node.attrs;
    if let Some(t) = constant(attrs) {
        cx.set(0, t.dtype(), t.shape().iter().map(|&d| d.into()).collect());
        return Ok(());
    }
    match (attrs.get("value_string"), attrs.get("value_strings")) {
        (Some(Attr::Str(_)), _) => cx.set(0, DataType::String, vec![]),
        (_, Some(Attr::Strs(v))) => cx.set(0, DataType::String, vec![v.len().into()]),
        _ if attrs.get("sparse_value").is_some() => {
            return Err(OpError::DataDependent("attribute sparse_value is not read; use a dense value".into()));
        }
        _ => return invalid("none of the attributes that give a Constant its value is there"),
    }
    Ok(())
}

fn fold_constant(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    Some(vec![constant(&cx.node.attrs)?])
}

fn lower_constant(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let t = constant(cx.attrs()).ok_or_else(|| Refusal::form("the value is a string or a sparse tensor"))?;
    give_static(cx, &t)
}

/// Output 0 is a static tensor.
fn give_static(cx: &mut LowerCx<'_, '_>, t: &Tensor) -> Result<(), Refusal> {
    let dims = if t.rank() == 0 { vec![1] } else { dims_u32(t.shape()) };
    let s = cx.weight(t, None, &dims);
    cx.alias(0, s, Layout::identity(t.rank()))
}

/// The one element that ConstantOfShape repeats.
fn filling(attrs: &Attrs) -> Result<Tensor, OpError> {
    match attrs.get("value") {
        None => Ok(Tensor::from_f32(vec![1], &[0.0])),
        Some(Attr::Tensor(t)) if t.len() == 1 => Ok(t.clone()),
        Some(Attr::Tensor(t)) => invalid(format!("attribute value has {} elements, and it must have one", t.len())),
        Some(_) => invalid("attribute value is not a tensor"),
    }
}

fn infer_filled(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = cx.need_elements(0)?;
    if shape.iter().any(|d| d.known().is_some_and(|n| n < 0)) {
        return invalid(format!("shape {} has a negative dimension", show_shape(&shape)));
    }
    let value = filling(&cx.node.attrs)?;
    let count = product(&shape).known().filter(|n| (0..=ELEMENTS_LIMIT as i64).contains(n));
    cx.set(0, value.dtype(), shape);
    if let (Some(n), Some(v)) = (count, value.scalar_i64()) {
        cx.set_elements(0, vec![Dim::Known(v); n as usize]);
    }
    Ok(())
}

fn fold_filled(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d))?;
    let value = filling(&cx.node.attrs).ok()?;
    if dtype.bits() < 8 {
        let one = *value.to_i128s()?.first()?;
        let count = shape.iter().product();
        return Some(vec![Tensor::from_i128(dtype, shape, &vec![one; count])?]);
    }
    Some(vec![Tensor::splat(dtype, shape, value.bytes())])
}

/// `start..end` of a Shape node, cut to the rank. Negative ones count from the end.
fn shape_range(attrs: &Attrs, version: i64, rank: usize) -> std::ops::Range<usize> {
    let cut = |v: i64| (if v < 0 { v.saturating_add(rank as i64) } else { v }).clamp(0, rank as i64) as usize;
    if version < 15 {
        return 0..rank;
    }
    let start = cut(attrs.int_or("start", 0));
    let end = attrs.int("end").map_or(rank, cut);
    start..end.max(start)
}

fn infer_shape(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let shape = cx.shape(0)?;
    let part = shape[shape_range(&cx.node.attrs, cx.node.version, shape.len())].to_vec();
    cx.set(0, DataType::I64, vec![part.len().into()]);
    cx.set_elements(0, part);
    Ok(())
}

fn fold_shape(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let shape: Vec<i64> = cx.input(0)?.shape().iter().map(|&d| d as i64).collect();
    let part = &shape[shape_range(&cx.node.attrs, cx.node.version, shape.len())];
    Some(vec![Tensor::from_i64(vec![part.len()], part)])
}

fn infer_size(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let count = product(cx.shape(0)?);
    cx.set(0, DataType::I64, vec![]);
    cx.set_elements(0, vec![count]);
    Ok(())
}

fn fold_size(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    Some(vec![Tensor::from_i64(vec![], &[cx.input(0)?.len() as i64])])
}

/// Shape and Size of a static shape, where folding has not already made a constant of them.
fn lower_known(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let t = if cx.node.is("Size") {
        Tensor::from_i64(vec![], &[shape.iter().product::<usize>() as i64])
    } else {
        let part: Vec<i64> =
            shape[shape_range(cx.attrs(), cx.version(), shape.len())].iter().map(|&d| d as i64).collect();
        Tensor::from_i64(vec![part.len()], &part)
    };
    give_static(cx, &t)
}

fn infer_eye(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if t.shape.len() != 2 {
        return invalid(format!("input 0 is {t}, and EyeLike takes a matrix"));
    }
    let dtype = dtype_attr(&cx.node.attrs, "dtype", t.dtype)?;
    cx.set(0, dtype, t.shape);
    Ok(())
}

/// Ones on diagonal `k`.
fn eye(dtype: DataType, shape: &[usize], k: i64) -> Option<Tensor> {
    let &[rows, cols] = shape else { return None };
    let ones: Vec<i128> = (0..rows.checked_mul(cols)?)
        .map(|i| i128::from((i % cols) as i64 == ((i / cols) as i64).saturating_add(k)))
        .collect();
    Tensor::from_i128(dtype, shape.to_vec(), &ones)
}

fn fold_eye(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    Some(vec![eye(dtype, &shape, cx.node.attrs.int_or("k", 0))?])
}

fn lower_eye(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let (dtype, shape) = (cx.out_dtype(0)?, cx.out_shape(0)?);
    let t = eye(dtype, &shape, cx.attrs().int_or("k", 0))
        .ok_or_else(|| Refusal::form(format!("EyeLike of {dtype} is not made")))?;
    give_static(cx, &t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::node;

    #[test]
    fn every_form_of_a_constant() {
        let folded = |n: crate::ops::testing::OneNode| n.fold().unwrap().remove(0);
        assert_eq!(folded(node("Constant", 13).int("value_int", 7)), Tensor::from_i64(vec![], &[7]));
        assert_eq!(folded(node("Constant", 13).int_list("value_ints", &[1, 2])), Tensor::from_i64(vec![2], &[1, 2]));
        assert_eq!(folded(node("Constant", 13).real("value_float", 0.5)), Tensor::from_f32(vec![], &[0.5]));
        let t = Tensor::from_f32(vec![1, 1], &[3.0]);
        assert_eq!(folded(node("Constant", 9).attr("value", Attr::Tensor(t.clone()))), t);
        assert_eq!(node("Constant", 13).text("value_string", "a").types(), ["string[]"]);
        assert!(node("Constant", 13).error().contains("none of the attributes"));
    }

    #[test]
    fn a_filled_tensor_stays_one_element() {
        let n = node("ConstantOfShape", 9).ints(&[1 << 20, 1 << 20]);
        let t = n.fold().unwrap().remove(0);
        assert_eq!((t.shape(), t.uniform_f64()), (&[1 << 20, 1 << 20][..], Some(0.0)));
        let n = node("ConstantOfShape", 9)
            .elements(DataType::I64, &[2], vec![Dim::symbol("b"), Dim::Known(3)])
            .attr("value", Attr::Tensor(Tensor::from_i64(vec![1], &[1])));
        assert_eq!(n.types(), ["int64[b, 3]"]);
        let n = node("ConstantOfShape", 9).ints(&[2]).attr("value", Attr::Tensor(Tensor::from_i64(vec![1], &[-1])));
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::Known(-1); 2]));
        assert!(node("ConstantOfShape", 9).ints(&[-2]).error().contains("negative"));
    }

    #[test]
    fn shapes_become_elements() {
        let n = node("Shape", 13).float(&[-1, 3, -2]);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::symbol("d1"), Dim::Known(3), Dim::symbol("d2")]));
        let n = node("Shape", 15).float(&[2, 3, 4]).int("start", -2).int("end", 9);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::Known(3), Dim::Known(4)]));
        let n = node("Shape", 15).float(&[2, 3, 4]).int("start", 2).int("end", 1);
        assert_eq!(n.types(), ["int64[0]"]);
        let n = node("Size", 13).float(&[-1, 3]);
        assert_eq!(n.infer().unwrap()[0].elements.as_ref().unwrap()[0].to_string(), "3*d1");
    }

    #[test]
    fn eyes() {
        let n = node("EyeLike", 9).floats(&[2, 3], &[0.0; 6]).int("k", 1).int("dtype", 6);
        let t = n.fold().unwrap().remove(0);
        assert_eq!((t.dtype(), t.to_i64s().unwrap()), (DataType::I32, vec![0, 1, 0, 0, 0, 1]));
        assert_eq!(node("EyeLike", 9).float(&[2, 2]).run(&[])[0], [1.0, 0.0, 0.0, 1.0]);
    }
}
