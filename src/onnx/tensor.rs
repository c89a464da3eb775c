//! `TensorProto` and `SparseTensorProto` as tensors of the IR.
//!
//! Elements given as `raw_data` or external data stay where they lie in the mapped file. Typed fields are taken over
//! without another copy where the layout is the same, and packed where each element has a field entry of its own.

use bytes::Bytes;

use super::error::Fault;
use super::external::External;
use super::proto::{SparseTensorProto, TensorProto};
use super::types::TypeFault;
use crate::ir::{DataType, Tensor};

/// The newest IR version whose element types are known.
pub(super) const KNOWN_IR: i64 = 14;

/// Bytes that a sparse tensor may take when it is made dense.
const DENSE_LIMIT: usize = 2 << 30;

/// The tensor of `proto`. `place` says where it stands, for messages ("of the graph", "in attribute value of node c").
pub(super) fn tensor(proto: TensorProto, place: &str, files: &mut External) -> Result<Tensor, Fault> {
    let name = proto.name.clone();
    let fail = |detail: String| Fault::Tensor { tensor: name.clone(), place: place.into(), detail };
    let Some(dtype) = DataType::from_onnx(proto.data_type) else {
        let fault = TypeFault::UnknownNumber(proto.data_type);
        return Err(Fault::Type { what: format!("tensor {name:?}"), place: place.into(), fault });
    };
    if proto.segment.is_some() {
        return Err(fail(
            "it is one segment of a larger tensor, which no ONNX tool writes; save the model again".into(),
        ));
    }
    let shape = dims(&proto.dims).map_err(&fail)?;
    let count = shape
        .iter()
        .try_fold(1usize, |a, &d| a.checked_mul(d))
        .filter(|n| n.checked_mul(dtype.bits().max(8)).is_some())
        .ok_or_else(|| fail(format!("its shape {} is too large for any memory", text(&proto.dims))))?;

    if proto.data_location == 1 {
        if dtype == DataType::String {
            return Err(fail("strings cannot be external data; save the model again".into()));
        }
        let expected = dtype.bytes_for(count);
        let data = files.read(&name, &proto.external_data, expected)?;
        return Tensor::from_raw(dtype, shape, data).ok_or_else(|| fail("its length does not fit its shape".into()));
    }
    if dtype == DataType::String {
        let found = proto.string_data.len();
        return Tensor::from_strings(shape, proto.string_data)
            .ok_or_else(|| fail(format!("its shape {} takes {count} strings, but it has {found}", text(&proto.dims))));
    }
    let expected = dtype.bytes_for(count);
    let raw = proto.raw_data.filter(|raw| !raw.is_empty() || expected == 0);
    let data = match raw {
        Some(raw) => raw,
        None => typed(
            dtype,
            Typed {
                floats: proto.float_data,
                ints: proto.int32_data,
                longs: proto.int64_data,
                doubles: proto.double_data,
                unsigned: proto.uint64_data,
            },
        )
        .map_err(&fail)?,
    };
    let found = data.len();
    Tensor::from_raw(dtype, shape, data).ok_or_else(|| {
        fail(format!(
            "its shape {} of {dtype} takes {expected} bytes, but it has {found}; the model is damaged, export it again",
            text(&proto.dims)
        ))
    })
}

fn dims(dims: &[i64]) -> Result<Vec<usize>, String> {
    dims.iter()
        .map(|&d| usize::try_from(d))
        .collect::<Result<_, _>>()
        .map_err(|_| format!("its shape {} has a negative dimension", text(dims)))
}

fn text(dims: &[i64]) -> String {
    format!("{dims:?}")
}

/// The typed fields of a `TensorProto`.
struct Typed {
    floats: Vec<f32>,
    ints: Vec<i32>,
    longs: Vec<i64>,
    doubles: Vec<f64>,
    unsigned: Vec<u64>,
}

/// The elements from the field that ONNX assigns to `dtype`, in `raw_data` form.
fn typed(dtype: DataType, from: Typed) -> Result<Bytes, String> {
    Ok(match dtype {
        DataType::F32 | DataType::Complex64 => owned(from.floats),
        DataType::F64 | DataType::Complex128 => owned(from.doubles),
        DataType::I32 => owned(from.ints),
        DataType::I64 => owned(from.longs),
        DataType::U64 => owned(from.unsigned),
        DataType::U32 => {
            let values: Result<Vec<u32>, _> = from
                .unsigned
                .iter()
                .map(|&v| u32::try_from(v).map_err(|_| format!("the element {v} does not fit uint32")))
                .collect();
            owned(values?)
        }
        DataType::Bool => Bytes::from(from.ints.iter().map(|&v| u8::from(v != 0)).collect::<Vec<u8>>()),
        DataType::F6E2M3 | DataType::F6E3M2 => pack_six_bits(&from.ints)?,
        // Sub-byte types come packed, one byte per entry.
        d if d.bits() <= 8 => Bytes::from(
            from.ints.iter().map(|&v| narrow(v, 8, d).map(|v| v as u8)).collect::<Result<Vec<u8>, String>>()?,
        ),
        d => owned(from.ints.iter().map(|&v| narrow(v, 16, d)).collect::<Result<Vec<u16>, String>>()?),
    })
}

/// The low `bits` (8 or 16) of an entry of `int32_data`; an error if it holds more than that, signed or unsigned.
fn narrow(v: i32, bits: u32, dtype: DataType) -> Result<u16, String> {
    let (low, high) = (-(1 << (bits - 1)), (1 << bits) - 1);
    if (low..=high).contains(&v) { Ok(v as u16) } else { Err(format!("the entry {v} does not fit {dtype}")) }
}

/// Six-bit elements, one per entry, as a bit stream with low bits first.
fn pack_six_bits(ints: &[i32]) -> Result<Bytes, String> {
    let mut out = Vec::with_capacity((ints.len() * 6).div_ceil(8));
    for group in ints.chunks(4) {
        let mut word = 0u32;
        for (i, &v) in group.iter().enumerate() {
            let v =
                u32::try_from(v).ok().filter(|v| *v < 64).ok_or_else(|| format!("the entry {v} has over 6 bits"))?;
            word |= v << (6 * i);
        }
        out.extend_from_slice(&word.to_le_bytes()[..(group.len() * 6).div_ceil(8)]);
    }
    Ok(Bytes::from(out))
}

/// A vector as bytes, not copied. Memory order is file order on the little-endian machines that qnnc runs on.
fn owned<T: bytemuck::NoUninit + Send + 'static>(values: Vec<T>) -> Bytes {
    struct Owner<T>(Vec<T>);
    impl<T: bytemuck::NoUninit> AsRef<[u8]> for Owner<T> {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    if values.is_empty() { Bytes::new() } else { Bytes::from_owner(Owner(values)) }
}

/// The dense form of a sparse tensor, and its name.
pub(super) fn densified(
    proto: SparseTensorProto,
    place: &str,
    files: &mut External,
) -> Result<(String, Tensor), Fault> {
    let values = proto.values.unwrap_or_default();
    let name = values.name.clone();
    let fail = |detail: String| Fault::Tensor { tensor: name.clone(), place: place.into(), detail };
    let shape = dims(&proto.dims).map_err(&fail)?;
    let values = tensor(values, place, files)?;
    let indices = match proto.indices {
        Some(indices) => tensor(indices, place, files)?,
        None => Tensor::from_i64(vec![0], &[]),
    };
    let size = values.dtype().bits() / 8;
    if size == 0 {
        return Err(fail(format!("sparse tensors of {} are not read; save it dense", values.dtype())));
    }
    let rank = shape.len();
    let count = shape
        .iter()
        .try_fold(1usize, |a, &d| a.checked_mul(d))
        .filter(|n| n.checked_mul(size).is_some_and(|bytes| bytes <= DENSE_LIMIT))
        .ok_or_else(|| fail(format!("its dense form of shape {} is over 2 GiB", text(&proto.dims))))?;
    let positions = indices.to_i64s().ok_or_else(|| fail("its indices are not integers".into()))?;
    let stored = values.len();
    let linear = match indices.shape() {
        [n] if *n == stored => true,
        [n, r] if *n == stored && *r == rank => false,
        other => {
            return Err(fail(format!(
                "its indices have shape {other:?}; for {stored} stored elements they need [{stored}] or [{stored}, {rank}]"
            )));
        }
    };
    let outside = |i: i64| fail(format!("its index {i} is outside the shape {}", text(&proto.dims)));
    let mut dense = vec![0u8; count * size];
    let source = values.bytes();
    for (k, element) in source.chunks_exact(size).enumerate() {
        let at = if linear {
            let i = positions.get(k).copied().unwrap_or(-1);
            usize::try_from(i).ok().filter(|i| *i < count).ok_or_else(|| outside(i))?
        } else {
            let mut at = 0usize;
            for (axis, &d) in shape.iter().enumerate() {
                let i = positions.get(k * rank + axis).copied().unwrap_or(-1);
                at = at * d + usize::try_from(i).ok().filter(|i| *i < d).ok_or_else(|| outside(i))?;
            }
            at
        };
        dense[at * size..(at + 1) * size].copy_from_slice(element);
    }
    let tensor = Tensor::from_raw(values.dtype(), shape, Bytes::from(dense))
        .ok_or_else(|| fail("its length does not fit its shape".into()))?;
    Ok((name, tensor))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(proto: TensorProto) -> Result<Tensor, String> {
        tensor(proto, "of the graph", &mut External::beside(Path::new("m.onnx"))).map_err(|e| e.to_string())
    }

    fn proto(dtype: DataType, dims: &[i64]) -> TensorProto {
        TensorProto { name: "w".into(), data_type: dtype.to_onnx(), dims: dims.to_vec(), ..TensorProto::default() }
    }

    #[test]
    fn every_typed_field_is_read() {
        let t = read(TensorProto { float_data: vec![1.5, -2.0], ..proto(DataType::F32, &[2]) }).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [1.5, -2.0]);
        let t = read(TensorProto { double_data: vec![1.5], ..proto(DataType::F64, &[]) }).unwrap();
        assert_eq!(t.scalar_f64(), Some(1.5));
        let t = read(TensorProto { int64_data: vec![-3], ..proto(DataType::I64, &[1]) }).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [-3]);
        let t = read(TensorProto { uint64_data: vec![7, u64::MAX], ..proto(DataType::U64, &[2]) }).unwrap();
        assert_eq!(t.to_i128s().unwrap(), [7, u64::MAX as i128]);
        let t = read(TensorProto { uint64_data: vec![u64::from(u32::MAX)], ..proto(DataType::U32, &[1]) }).unwrap();
        assert_eq!(t.to_i128s().unwrap(), [u32::MAX as i128]);
        let t = read(TensorProto { int32_data: vec![-128, 127], ..proto(DataType::I8, &[2]) }).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [-128, 127]);
        let t = read(TensorProto { int32_data: vec![0x3c00, 0xc000], ..proto(DataType::F16, &[2]) }).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [1.0, -2.0]);
        let t = read(TensorProto { int32_data: vec![0x3f80], ..proto(DataType::BF16, &[1]) }).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [1.0]);
        let t = read(TensorProto { int32_data: vec![0x8f, 0x07], ..proto(DataType::I4, &[3]) }).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [-1, -8, 7]);
        let t = read(TensorProto { int32_data: vec![1, 0], ..proto(DataType::Bool, &[2]) }).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [1, 0]);
        let t = read(TensorProto { int32_data: vec![63, 1, 2, 3, 63], ..proto(DataType::F6E2M3, &[5]) }).unwrap();
        assert_eq!(t.bytes()[..], [0b0111_1111, 0b0010_0000, 0b0000_1100, 63]);
        let t = read(TensorProto { string_data: vec!["a".into(), "b".into()], ..proto(DataType::String, &[2]) });
        assert_eq!(t.unwrap().strings().unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_numbers() {
        let e = read(TensorProto { raw_data: Some(vec![0; 7].into()), ..proto(DataType::F32, &[2]) }).unwrap_err();
        assert!(e.contains("\"w\"") && e.contains("[2]") && e.contains("8 bytes") && e.contains("has 7"), "{e}");
        let e = read(TensorProto { int32_data: vec![300], ..proto(DataType::U8, &[1]) }).unwrap_err();
        assert!(e.contains("300"), "{e}");
        let e = read(proto(DataType::F32, &[-1])).unwrap_err();
        assert!(e.contains("negative"), "{e}");
        let e = read(proto(DataType::F32, &[i64::MAX, i64::MAX])).unwrap_err();
        assert!(e.contains("too large"), "{e}");
        let e = read(TensorProto { data_type: 99, ..proto(DataType::F32, &[1]) }).unwrap_err();
        assert!(e.contains("99"), "{e}");
        assert!(read(proto(DataType::F32, &[0, 4])).unwrap().is_empty());
    }

    fn sparse(dims: &[i64], positions: Vec<i64>, index_dims: &[i64], values: Vec<f32>) -> Result<Tensor, String> {
        let n = values.len() as i64;
        let values = TensorProto { float_data: values, ..proto(DataType::F32, &[n]) };
        let indices = TensorProto { int64_data: positions, ..proto(DataType::I64, index_dims) };
        let proto = SparseTensorProto { values: Some(values), indices: Some(indices), dims: dims.to_vec() };
        densified(proto, "of the graph", &mut External::beside(Path::new("m.onnx")))
            .map(|(_, t)| t)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn sparse_tensors_become_dense() {
        let t = sparse(&[2, 3], vec![1, 5], &[2], vec![1.0, 2.0]).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 2.0]);
        let t = sparse(&[2, 3], vec![0, 1, 1, 0], &[2, 2], vec![1.0, 2.0]).unwrap();
        assert_eq!(t.to_f64s().unwrap(), [0.0, 1.0, 0.0, 2.0, 0.0, 0.0]);
        assert!(sparse(&[2, 3], vec![6], &[1], vec![1.0]).unwrap_err().contains('6'));
        assert!(sparse(&[1 << 20, 1 << 20], vec![6], &[1], vec![1.0]).unwrap_err().contains("2 GiB"));
    }
}
