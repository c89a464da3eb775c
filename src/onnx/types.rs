//! ONNX types as types of the IR, and back.
//!
//! Types that are not tensors are named by a text (`sequence(float32[1, n])`, `optional(...)`, `map(int64, ...)`,
//! `sparse(...)`, `opaque(domain, name)`) that [`to_proto`] reads again. A tensor of unknown rank is `float32[*]`.

use super::proto::{
    Dimension, DimensionValue, ElementTypeProto, MapTypeProto, OpaqueTypeProto, TensorShapeProto, TensorTypeProto,
    TypeProto, TypeValue,
};
use super::tensor::KNOWN_IR;
use crate::ir::{DataType, Dim, Shape, TensorType, ValueType, show_shape};

/// Types in types are read to this depth.
const DEPTH: usize = 16;

/// Why a declared type cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeFault {
    #[error("element type number {0}, which ONNX does not define up to IR version {KNOWN_IR}")]
    UnknownNumber(i32),
    #[error("shape {0}, whose size does not fit 64 bits")]
    TooLarge(String),
}

/// The type of the value `name`. Dimensions that the model leaves open become symbols named after value and axis.
/// With `own_params` the names of dimensions are not those of the graph (they stand in a function) and are left out.
pub(super) fn from_proto(proto: &TypeProto, name: &str, own_params: bool) -> Result<ValueType, TypeFault> {
    match &proto.value {
        None => Ok(ValueType::Unknown),
        Some(TypeValue::Tensor(t)) if t.elem_type == 0 => Ok(ValueType::Unknown),
        Some(TypeValue::Tensor(t)) => tensor_type(t, name, own_params),
        Some(_) => Ok(ValueType::Other(text(proto, name, own_params, DEPTH)?)),
    }
}

fn number(n: i32) -> Result<DataType, TypeFault> {
    DataType::from_onnx(n).ok_or(TypeFault::UnknownNumber(n))
}

fn tensor_type(t: &TensorTypeProto, name: &str, own_params: bool) -> Result<ValueType, TypeFault> {
    let dtype = number(t.elem_type)?;
    let Some(shape) = &t.shape else { return Ok(ValueType::Unranked(dtype)) };
    let dim = |(axis, d): (usize, &Dimension)| match &d.value {
        Some(DimensionValue::DimValue(n)) if *n >= 0 => Dim::Known(*n),
        Some(DimensionValue::DimParam(p)) if !own_params && !is_open(p) => parse_dim(p.trim()),
        _ => Dim::symbol(format!("{name}.{axis}")),
    };
    let shape: Shape = shape.dim.iter().enumerate().map(dim).collect();
    // Bits of the known part, a zero not counted, so that no product of dimensions overflows later.
    let mut known = shape.iter().filter_map(Dim::known).filter(|n| *n > 0);
    if known.try_fold(128i64, i64::checked_mul).is_none() {
        return Err(TypeFault::TooLarge(show_shape(&shape)));
    }
    Ok(ValueType::Tensor(TensorType::new(dtype, shape)))
}

/// Names that exporters give to dimensions that have none; two of them are not one dimension.
fn is_open(param: &str) -> bool {
    matches!(param.trim(), "" | "?" | "-1" | "None" | "none" | "*")
}

/// A dimension from its name: sums and products of names and numbers (`past + seq`, `2*n - 1`) become expressions, so
/// that binding `past` and `seq` binds them. A `-` without spaces is part of a name.
fn parse_dim(text: &str) -> Dim {
    let short = Some(text).filter(|t| t.len() <= 256);
    short.and_then(expression).filter(|d| d.known().is_none_or(|n| n >= 0)).unwrap_or_else(|| Dim::symbol(text))
}

fn expression(text: &str) -> Option<Dim> {
    let mut sum = Dim::Known(0);
    let mut sign = 1i64;
    let mut rest = match text.strip_prefix('-') {
        Some(rest) => {
            sign = -1;
            rest
        }
        None => text,
    };
    loop {
        let (end, next_sign, skip) = next_operator(rest)?;
        let mut term = Dim::Known(sign);
        for factor in split_outside(rest.get(..end)?, '*')? {
            let factor = factor.trim();
            if factor.is_empty()
                || factor.starts_with('(')
                || factor.contains(char::is_whitespace) && !factor.contains('(')
            {
                return None;
            }
            term = term.mul(&factor.parse::<i64>().map_or_else(|_| Dim::symbol(factor), Dim::Known));
        }
        sum = sum.add(&term);
        let Some(next) = next_sign else { return Some(sum) };
        sign = next;
        rest = rest.get(end + skip..)?;
    }
}

/// Where the first term of `text` ends, the sign of the term after it, and how long the operator between them is.
fn next_operator(text: &str) -> Option<(usize, Option<i64>, usize)> {
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '+' if depth == 0 => return Some((i, Some(1), 1)),
            ' ' if depth == 0 && text[i..].starts_with(" - ") => return Some((i, Some(-1), 3)),
            _ => {}
        }
    }
    (depth == 0).then_some((text.len(), None, 0))
}

/// Splits at `at` outside of parentheses; `None` if they do not balance.
fn split_outside(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut depth, mut from, mut out) = (0usize, 0usize, vec![]);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            c if c == at && depth == 0 => {
                out.push(&text[from..i]);
                from = i + c.len_utf8();
            }
            _ => {}
        }
    }
    out.push(&text[from..]);
    (depth == 0).then_some(out)
}

/// The type of the value `name` for people; `?` where the model does not say or what it says cannot be read.
pub fn type_text(proto: &TypeProto, name: &str) -> String {
    text(proto, name, false, DEPTH).unwrap_or_else(|_| "?".into())
}

fn text(proto: &TypeProto, name: &str, own_params: bool, depth: usize) -> Result<String, TypeFault> {
    let inner = |t: &Option<Box<TypeProto>>| match t {
        Some(t) if depth > 0 => text(t, name, own_params, depth - 1),
        _ => Ok("?".into()),
    };
    let tensor = |t: &TensorTypeProto| match t.elem_type {
        0 => Ok("?".into()),
        _ => Ok(match tensor_type(t, name, own_params)? {
            ValueType::Tensor(t) => t.to_string(),
            ValueType::Unranked(d) => format!("{d}[*]"),
            _ => "?".into(),
        }),
    };
    Ok(match &proto.value {
        None => "?".into(),
        Some(TypeValue::Tensor(t)) => tensor(t)?,
        Some(TypeValue::SparseTensor(t)) => format!("sparse({})", tensor(t)?),
        Some(TypeValue::Sequence(s)) => format!("sequence({})", inner(&s.elem_type)?),
        Some(TypeValue::Optional(o)) => format!("optional({})", inner(&o.elem_type)?),
        Some(TypeValue::Map(m)) => format!("map({}, {})", number(m.key_type)?, inner(&m.value_type)?),
        Some(TypeValue::Opaque(o)) => format!("opaque({}, {})", o.domain, o.name),
    })
}

/// The ONNX type for `ty`; `None` where nothing is known, or where a text is not one of the loader's.
pub(super) fn to_proto(ty: &ValueType) -> Option<TypeProto> {
    let value = match ty {
        ValueType::Unknown => return None,
        ValueType::Tensor(t) => TypeValue::Tensor(tensor_proto(t.dtype, Some(&t.shape))),
        ValueType::Unranked(d) => TypeValue::Tensor(tensor_proto(*d, None)),
        ValueType::Other(text) => return parse_type(text, DEPTH),
    };
    Some(TypeProto { value: Some(value) })
}

fn tensor_proto(dtype: DataType, shape: Option<&Shape>) -> TensorTypeProto {
    let dim = |d: &Dim| Dimension {
        value: Some(match d {
            Dim::Known(n) => DimensionValue::DimValue(*n),
            Dim::Expr(_) => DimensionValue::DimParam(d.to_string()),
        }),
    };
    TensorTypeProto {
        elem_type: dtype.to_onnx(),
        shape: shape.map(|s| TensorShapeProto { dim: s.iter().map(dim).collect() }),
    }
}

fn dtype_named(name: &str) -> Option<DataType> {
    (1..64).filter_map(DataType::from_onnx).find(|d| d.name() == name)
}

fn parse_tensor(text: &str) -> Option<TensorTypeProto> {
    let (name, shape) = text.strip_suffix(']')?.split_once('[')?;
    let dtype = dtype_named(name)?;
    Some(match shape {
        "*" => tensor_proto(dtype, None),
        "" => tensor_proto(dtype, Some(&vec![])),
        dims => {
            let dim = |d: &str| d.parse().map_or_else(|_| parse_dim(d), Dim::Known);
            tensor_proto(dtype, Some(&dims.split(", ").map(dim).collect()))
        }
    })
}

fn parse_type(text: &str, depth: usize) -> Option<TypeProto> {
    let depth = depth.checked_sub(1)?;
    let element = |inner: &str| ElementTypeProto { elem_type: parse_type(inner, depth).map(Box::new) };
    let inside = |kind: &str| text.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')');
    let value = if let Some(inner) = inside("sequence") {
        TypeValue::Sequence(Box::new(element(inner)))
    } else if let Some(inner) = inside("optional") {
        TypeValue::Optional(Box::new(element(inner)))
    } else if let Some(inner) = inside("sparse") {
        TypeValue::SparseTensor(parse_tensor(inner)?)
    } else if let Some((key, value)) = inside("map").and_then(|inner| inner.split_once(", ")) {
        let value_type = parse_type(value, depth).map(Box::new);
        TypeValue::Map(Box::new(MapTypeProto { key_type: dtype_named(key)?.to_onnx(), value_type }))
    } else if let Some((domain, name)) = inside("opaque").and_then(|inner| inner.split_once(", ")) {
        TypeValue::Opaque(OpaqueTypeProto { domain: domain.into(), name: name.into() })
    } else {
        TypeValue::Tensor(parse_tensor(text)?)
    };
    Some(TypeProto { value: Some(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor_of(dims: &[Option<DimensionValue>]) -> TypeProto {
        let dim = dims.iter().map(|d| Dimension { value: d.clone() }).collect();
        let t = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
        TypeProto { value: Some(TypeValue::Tensor(t)) }
    }

    fn param(p: &str) -> Option<DimensionValue> {
        Some(DimensionValue::DimParam(p.into()))
    }

    #[test]
    fn open_dimensions_are_named_after_value_and_axis() {
        let dims =
            [None, Some(DimensionValue::DimValue(-1)), Some(DimensionValue::DimValue(0)), param("?"), param("n")];
        let ty = from_proto(&tensor_of(&dims), "x", false).unwrap();
        let t = ty.tensor().unwrap();
        assert_eq!(t.to_string(), "float32[x.0, x.1, 0, x.3, n]");
        assert_eq!(t.shape[2], Dim::Known(0));
    }

    #[test]
    fn sizes_beyond_64_bits_are_refused() {
        let huge = || Some(DimensionValue::DimValue(1 << 40));
        let e = from_proto(&tensor_of(&[huge(), Some(DimensionValue::DimValue(0)), huge()]), "x", false).unwrap_err();
        assert!(matches!(&e, TypeFault::TooLarge(s) if s.contains("1099511627776, 0")), "{e}");
    }

    #[test]
    fn sums_of_names_are_expressions() {
        assert_eq!(parse_dim("past + seq"), Dim::symbol("past").add(&Dim::symbol("seq")));
        assert_eq!(parse_dim("past+1"), Dim::symbol("past").add(&Dim::Known(1)));
        assert_eq!(parse_dim("batch-size"), Dim::symbol("batch-size"));
        assert_eq!(parse_dim("a b"), Dim::symbol("a b"));
        assert_eq!(parse_dim("+"), Dim::symbol("+"));
        assert_eq!(parse_dim("(a + b"), Dim::symbol("(a + b"));
        for text in ["2*a*b - 3", "-a + 7", "floor((a)/(2)) + 1", "floor((a + 1)/(b))", "x.0"] {
            assert_eq!(parse_dim(&parse_dim(text).to_string()), parse_dim(text), "{text}");
        }
        assert_eq!(parse_dim("floor((a)/(2)) + 1").symbols(), ["floor((a)/(2))"]);
    }

    #[test]
    fn types_that_are_no_tensors_round_trip() {
        let sequence = |t| TypeProto {
            value: Some(TypeValue::Sequence(Box::new(ElementTypeProto { elem_type: Some(Box::new(t)) }))),
        };
        let proto = sequence(sequence(tensor_of(&[param("n"), Some(DimensionValue::DimValue(3))])));
        let ty = from_proto(&proto, "s", false).unwrap();
        assert_eq!(ty, ValueType::Other("sequence(sequence(float32[n, 3]))".into()));
        assert_eq!(to_proto(&ty), Some(proto));
        let map = MapTypeProto { key_type: 7, value_type: Some(Box::new(tensor_of(&[]))) };
        let proto = TypeProto { value: Some(TypeValue::Map(Box::new(map))) };
        let ty = from_proto(&proto, "m", false).unwrap();
        assert_eq!(ty, ValueType::Other("map(int64, float32[])".into()));
        assert_eq!(to_proto(&ty), Some(proto));
        assert_eq!(to_proto(&ValueType::Other("nonsense".into())), None);
    }

    #[test]
    fn unknown_element_types_are_reported() {
        let t = TensorTypeProto { elem_type: 77, shape: None };
        assert_eq!(
            from_proto(&TypeProto { value: Some(TypeValue::Tensor(t)) }, "x", false),
            Err(TypeFault::UnknownNumber(77))
        );
    }
}
