//! Elements of a static tensor in its own QNN type: permuted and converted piece by piece, never all at once in memory.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use half::{bf16, f16};

use super::graph::{QnnTensor, QnnType, StaticData};
use crate::ir::DataType;

/// Bytes that are made at a time.
const PIECE: usize = 2 << 20;
/// Rows that are gathered together: their neighbours in the source share cache lines.
const BAND: usize = 64;

/// Why the elements of a static tensor cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    #[error("static tensor `{tensor}` has no data")]
    NoData { tensor: String },
    #[error("static tensor `{tensor}` needs {need} bytes, its data has {have}")]
    Length { tensor: String, need: usize, have: usize },
    #[error("static tensor `{tensor}`: {from} elements cannot be written as {to}")]
    Type { tensor: String, from: DataType, to: QnnType },
    #[error("static tensor `{tensor}`: the value {value} does not fit {to}")]
    Value { tensor: String, value: i64, to: QnnType },
    #[error("static tensor `{tensor}`: the axes {perm:?} are not a permutation of rank {rank}")]
    Perm { tensor: String, perm: Vec<usize>, rank: usize },
    #[error("writing the weights for the worker: {0}")]
    Io(#[from] io::Error),
}

/// How an element changes on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convert {
    Raw,
    ToF16(DataType),
    ToF32(DataType),
    /// 64-bit or 32-bit integers into 32 bits, checked.
    ToI32(DataType),
    ToU32(DataType),
    Bool,
}

/// Makes the elements of one static tensor.
#[derive(Debug)]
pub struct Elements<'a> {
    tensor: &'a QnnTensor,
    bytes: Bytes,
    /// The bytes are one element, repeated.
    splat: bool,
    convert: Convert,
    /// Bytes of a source element.
    size: usize,
    /// Output axes (merged where they lie together in the source) and their steps in the source, in elements.
    dims: Vec<usize>,
    steps: Vec<usize>,
}

impl<'a> Elements<'a> {
    /// Fails when the data does not fit the tensor.
    pub fn new(tensor: &'a QnnTensor) -> Result<Self, WeightError> {
        let name = || tensor.name.clone();
        let need = tensor.byte_len();
        let data = tensor.data.as_ref().ok_or_else(|| WeightError::NoData { tensor: name() })?;
        let (value, perm) = match data {
            StaticData::Raw(bytes) => {
                if bytes.len() != need {
                    return Err(WeightError::Length { tensor: name(), need, have: bytes.len() });
                }
                let size = tensor.dtype.size();
                return Ok(Self {
                    tensor,
                    bytes: bytes.clone(),
                    splat: false,
                    convert: Convert::Raw,
                    size,
                    dims: vec![bytes.len() / size],
                    steps: vec![1],
                });
            }
            StaticData::Constant { tensor: value, perm } => (value, perm),
        };
        if value.len() != tensor.elements() {
            let have = value.len().saturating_mul(tensor.dtype.size());
            return Err(WeightError::Length { tensor: name(), need, have });
        }
        let (mut from, packed) = (value.dtype(), value.dtype().bits() < 8);
        if packed && tensor.dtype.size() == 1 {
            from = if from.is_signed_int() { DataType::I8 } else { DataType::U8 };
        }
        let convert = conversion(from, tensor.dtype).ok_or_else(|| WeightError::Type {
            tensor: name(),
            from: value.dtype(),
            to: tensor.dtype,
        })?;
        let mut whole = Self {
            tensor,
            bytes: Bytes::new(),
            splat: false,
            convert,
            size: (from.bits() / 8).max(1),
            dims: vec![value.len()],
            steps: vec![1],
        };
        if let Some(element) = value.splat_element() {
            whole.splat = true;
            whole.bytes = element.clone();
            return Ok(whole);
        }
        whole.bytes =
            if packed { Bytes::from(unpack(&value.bytes(), value.dtype(), value.len())) } else { value.bytes() };
        if let Some(perm) = perm {
            let mut seen = vec![false; value.rank()];
            let valid = perm.len() == value.rank()
                && perm.iter().all(|&p| seen.get_mut(p).is_some_and(|s| !std::mem::replace(s, true)));
            if !valid {
                return Err(WeightError::Perm { tensor: name(), perm: perm.clone(), rank: value.rank() });
            }
            (whole.dims, whole.steps) = merge_axes(value.shape(), perm);
        }
        Ok(whole)
    }

    /// The elements as they lie in memory, if they need no change at all.
    pub fn in_place(&self) -> Option<&[u8]> {
        (self.convert == Convert::Raw && !self.splat && self.contiguous()).then(|| self.source())
    }

    /// The bytes that the elements are made from.
    pub fn source(&self) -> &[u8] {
        &self.bytes
    }

    fn contiguous(&self) -> bool {
        self.steps == [1]
    }

    /// Number of pieces that the tensor is made in. Each can be written on its own.
    pub fn pieces(&self) -> usize {
        let per_piece = self.per_piece();
        self.units().div_ceil(per_piece)
    }

    /// Units of work: elements, or rows of a permuted tensor.
    fn units(&self) -> usize {
        if self.splat || self.contiguous() { self.tensor.elements() } else { self.rows() }
    }

    fn rows(&self) -> usize {
        self.dims[..self.dims.len().saturating_sub(1)].iter().product()
    }

    fn row_len(&self) -> usize {
        self.dims.last().copied().unwrap_or(1).max(1)
    }

    fn per_piece(&self) -> usize {
        let unit = if self.splat || self.contiguous() { 1 } else { self.row_len() };
        (PIECE / (unit * self.size.max(self.tensor.dtype.size()))).max(1)
    }

    /// Makes piece `index` and gives it to `sink` with its byte offset in the tensor.
    pub fn write(&self, index: usize, sink: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> Result<(), WeightError> {
        let per_piece = self.per_piece();
        let start = index * per_piece;
        let end = (start + per_piece).min(self.units());
        let out_size = self.tensor.dtype.size();
        if self.splat {
            let mut one = Vec::new();
            self.converted(self.source(), &mut one)?;
            return Ok(sink((start * out_size) as u64, &one.repeat(end - start))?);
        }
        let mut out = Vec::new();
        if self.contiguous() {
            let part = &self.source()[start * self.size..end * self.size];
            if self.convert == Convert::Raw {
                return Ok(sink((start * out_size) as u64, part)?);
            }
            self.converted(part, &mut out)?;
            return Ok(sink((start * out_size) as u64, &out)?);
        }
        let gathered = match self.size {
            1 => self.gather::<1>(start..end),
            2 => self.gather::<2>(start..end),
            4 => self.gather::<4>(start..end),
            _ => self.gather::<8>(start..end),
        };
        let at = (start * self.row_len() * out_size) as u64;
        if self.convert == Convert::Raw {
            return Ok(sink(at, &gathered)?);
        }
        self.converted(&gathered, &mut out)?;
        Ok(sink(at, &out)?)
    }

    /// Rows of the output in the source's type. Goes column by column, since neighbouring rows are often neighbours in
    /// the source.
    fn gather<const N: usize>(&self, rows: Range<usize>) -> Vec<u8> {
        let source = self.source();
        let (row_len, step) = (self.row_len(), self.steps.last().copied().unwrap_or(1));
        let outer = self.dims.len() - 1;
        let bases: Vec<usize> = rows
            .map(|mut row| {
                let mut base = 0;
                for axis in (0..outer).rev() {
                    base += row % self.dims[axis] * self.steps[axis];
                    row /= self.dims[axis];
                }
                base
            })
            .collect();
        let mut out = vec![0u8; bases.len() * row_len * N];
        if step == 1 {
            for (row, &base) in out.chunks_exact_mut(row_len * N).zip(&bases) {
                row.copy_from_slice(&source[base * N..(base + row_len) * N]);
            }
            return out;
        }
        for (band, bases) in out.chunks_mut(BAND * row_len * N).zip(bases.chunks(BAND)) {
            for i in 0..row_len {
                for (r, &base) in bases.iter().enumerate() {
                    let (to, from) = ((r * row_len + i) * N, (base + i * step) * N);
                    band[to..to + N].copy_from_slice(&source[from..from + N]);
                }
            }
        }
        out
    }

    fn converted(&self, src: &[u8], out: &mut Vec<u8>) -> Result<(), WeightError> {
        let out_of_range =
            |value: i64| WeightError::Value { tensor: self.tensor.name.clone(), value, to: self.tensor.dtype };
        match self.convert {
            Convert::Raw => out.extend_from_slice(src),
            Convert::Bool => out.extend(src.iter().map(|&b| u8::from(b != 0))),
            Convert::ToF16(from) => {
                let count = src.len() / (from.bits() / 8);
                out.reserve(count * 2);
                each_f32(src, from, |x| out.extend_from_slice(&to_f16(x).to_le_bytes()));
            }
            Convert::ToF32(from) => {
                let count = src.len() / (from.bits() / 8);
                out.reserve(count * 4);
                each_f32(src, from, |x| out.extend_from_slice(&x.to_le_bytes()));
            }
            Convert::ToI32(from) => {
                for x in integers(src, from) {
                    out.extend_from_slice(&i32::try_from(x).map_err(|_| out_of_range(x))?.to_le_bytes());
                }
            }
            Convert::ToU32(from) => {
                for x in integers(src, from) {
                    out.extend_from_slice(&u32::try_from(x).map_err(|_| out_of_range(x))?.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// All elements, for small tensors and tests.
    pub fn to_vec(&self) -> Result<Vec<u8>, WeightError> {
        let mut out = Vec::new();
        for i in 0..self.pieces() {
            self.write(i, &mut |_, piece| {
                out.extend_from_slice(piece);
                Ok(())
            })?;
        }
        Ok(out)
    }
}

/// The nearest half, but a finite value never becomes infinite: it stops at ±65504.
fn to_f16(x: f32) -> f16 {
    let half = f16::from_f32(x);
    if half.is_infinite() && x.is_finite() { if x < 0.0 { f16::MIN } else { f16::MAX } } else { half }
}

fn each_f32(src: &[u8], from: DataType, mut to: impl FnMut(f32)) {
    match from {
        DataType::F32 => src.chunks_exact(4).for_each(|c| to(f32::from_le_bytes([c[0], c[1], c[2], c[3]]))),
        DataType::F16 => src.chunks_exact(2).for_each(|c| to(f16::from_le_bytes([c[0], c[1]]).to_f32())),
        DataType::BF16 => src.chunks_exact(2).for_each(|c| to(bf16::from_le_bytes([c[0], c[1]]).to_f32())),
        _ => src
            .chunks_exact(8)
            .for_each(|c| to(f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)),
    }
}

/// Integers of 32 or 64 bits; a `u64` beyond `i64` comes out as `i64::MAX`, which fits no 32-bit type either.
fn integers(src: &[u8], from: DataType) -> impl Iterator<Item = i64> {
    let size = from.bits() / 8;
    src.chunks_exact(size).map(move |c| {
        let mut wide = [0u8; 8];
        wide[..size].copy_from_slice(c);
        let unsigned = u64::from_le_bytes(wide);
        match from {
            DataType::I32 => i64::from(unsigned as u32 as i32),
            DataType::U32 => i64::from(unsigned as u32),
            DataType::U64 => i64::try_from(unsigned).unwrap_or(i64::MAX),
            _ => unsigned as i64,
        }
    })
}

fn conversion(from: DataType, to: QnnType) -> Option<Convert> {
    use DataType as D;
    Some(match (from, to) {
        (D::F32, QnnType::FLOAT_32) | (D::F16, QnnType::FLOAT_16) | (D::F64, QnnType::FLOAT_64) => Convert::Raw,
        (D::F32 | D::BF16 | D::F64, QnnType::FLOAT_16) => Convert::ToF16(from),
        (D::F16 | D::BF16 | D::F64, QnnType::FLOAT_32) => Convert::ToF32(from),
        (D::I64 | D::U64 | D::U32, QnnType::INT_32) => Convert::ToI32(from),
        (D::I64 | D::U64 | D::I32, QnnType::UINT_32) => Convert::ToU32(from),
        (D::Bool, QnnType::BOOL_8) => Convert::Bool,
        (D::BF16, t) if t.0 == 0x0226 => Convert::Raw,
        (D::U8, QnnType::UINT_8 | QnnType::UFIXED_POINT_8 | QnnType::BOOL_8)
        | (D::I8, QnnType::INT_8 | QnnType::SFIXED_POINT_8)
        | (D::U16, QnnType::UINT_16 | QnnType::UFIXED_POINT_16)
        | (D::I16, QnnType::INT_16 | QnnType::SFIXED_POINT_16)
        | (D::I32, QnnType::INT_32 | QnnType::SFIXED_POINT_32)
        | (D::U32, QnnType::UINT_32 | QnnType::UFIXED_POINT_32)
        | (D::I64, QnnType::INT_64)
        | (D::U64, QnnType::UINT_64) => Convert::Raw,
        _ => return None,
    })
}

/// Packed integers, one per byte, sign-extended where they are signed.
fn unpack(packed: &[u8], from: DataType, count: usize) -> Vec<u8> {
    let bits = from.bits();
    let (per_byte, signed) = (8 / bits, from.is_signed_int());
    packed
        .iter()
        .flat_map(|byte| {
            (0..per_byte).map(move |i| {
                let top = byte << (8 - bits - i * bits);
                if signed { ((top as i8) >> (8 - bits)) as u8 } else { top >> (8 - bits) }
            })
        })
        .take(count)
        .collect()
}

/// Output axes and their source steps after `perm`; axes of length 1 are dropped, neighbours are merged where one step
/// covers both.
fn merge_axes(shape: &[usize], perm: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut from = vec![1usize; shape.len()];
    for i in (1..shape.len()).rev() {
        from[i - 1] = from[i] * shape[i];
    }
    let (mut dims, mut steps): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for &p in perm {
        if shape[p] == 1 {
            continue;
        }
        match (dims.last_mut(), steps.last_mut()) {
            (Some(d), Some(s)) if *s == from[p] * shape[p] => {
                *d *= shape[p];
                *s = from[p];
            }
            _ => {
                dims.push(shape[p]);
                steps.push(from[p]);
            }
        }
    }
    if dims.is_empty() { (vec![1], vec![1]) } else { (dims, steps) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Tensor;
    use crate::qnn::graph::{Quant, TensorKind};

    fn tensor(dtype: QnnType, dims: &[u32], value: Tensor, perm: Option<&[usize]>) -> QnnTensor {
        QnnTensor {
            name: "w".into(),
            kind: TensorKind::Static,
            dtype,
            dims: dims.to_vec(),
            quant: Quant::None,
            data: Some(StaticData::Constant { tensor: value, perm: perm.map(<[usize]>::to_vec) }),
        }
    }

    fn made(t: &QnnTensor) -> Vec<u8> {
        Elements::new(t).unwrap().to_vec().unwrap()
    }

    fn le<T: bytemuck::NoUninit>(v: &[T]) -> Vec<u8> {
        bytemuck::cast_slice(v).to_vec()
    }

    #[test]
    fn conversions() {
        let one = |dtype: DataType, bytes: Vec<u8>| {
            let n = bytes.len() * 8 / dtype.bits();
            Tensor::from_raw(dtype, vec![n], bytes.into()).unwrap()
        };
        let f32s = [1.5f32, -70000.0, 1e9, f32::INFINITY, f32::NEG_INFINITY, 65504.0, 65519.0, 6e-8];
        let halves: Vec<u16> = [1.5f32, -65504.0, 65504.0, f32::INFINITY, f32::NEG_INFINITY, 65504.0, 65504.0, 6e-8]
            .iter()
            .map(|&x| f16::from_f32(x).to_bits())
            .collect();
        let bf: Vec<u16> = [1.5f32, -3.0].iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
        let h2: Vec<u16> = [1.5f32, -3.0].iter().map(|&x| f16::from_f32(x).to_bits()).collect();
        let table: Vec<(DataType, Vec<u8>, QnnType, Vec<u8>)> = vec![
            (DataType::F32, le(&f32s), QnnType::FLOAT_32, le(&f32s)),
            (DataType::F32, le(&f32s), QnnType::FLOAT_16, le(&halves)),
            (DataType::F16, le(&h2), QnnType::FLOAT_16, le(&h2)),
            (DataType::F16, le(&h2), QnnType::FLOAT_32, le(&[1.5f32, -3.0])),
            (DataType::BF16, le(&bf), QnnType::FLOAT_32, le(&[1.5f32, -3.0])),
            (DataType::BF16, le(&bf), QnnType::FLOAT_16, le(&h2)),
            (DataType::F64, le(&[1.5f64, -3.0]), QnnType::FLOAT_32, le(&[1.5f32, -3.0])),
            (DataType::F64, le(&[1.5f64, -3.0]), QnnType::FLOAT_16, le(&h2)),
            (DataType::I64, le(&[-1i64, 7]), QnnType::INT_32, le(&[-1i32, 7])),
            (DataType::I64, le(&[3i64, 7]), QnnType::UINT_32, le(&[3u32, 7])),
            (DataType::U64, le(&[3u64, 7]), QnnType::UINT_32, le(&[3u32, 7])),
            (DataType::I32, le(&[-3i32, 7]), QnnType::INT_32, le(&[-3i32, 7])),
            (DataType::I32, le(&[-3i32, 7]), QnnType::SFIXED_POINT_32, le(&[-3i32, 7])),
            (DataType::Bool, vec![0, 1, 2, 255], QnnType::BOOL_8, vec![0, 1, 1, 1]),
            (DataType::U8, vec![0, 200], QnnType::UFIXED_POINT_8, vec![0, 200]),
            (DataType::I8, vec![0, 200], QnnType::SFIXED_POINT_8, vec![0, 200]),
            (DataType::I4, vec![0x8f, 0x70], QnnType::SFIXED_POINT_8, vec![0xff, 0xf8, 0x00, 0x07]),
            (DataType::U4, vec![0x8f], QnnType::UFIXED_POINT_8, vec![0x0f, 0x08]),
            (DataType::I2, vec![0b1110_0100], QnnType::SFIXED_POINT_8, vec![0, 1, 0xfe, 0xff]),
        ];
        for (from, bytes, to, expected) in table {
            let value = one(from, bytes);
            let dims = [value.len() as u32];
            assert_eq!(made(&tensor(to, &dims, value, None)), expected, "{from} to {to}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let big = Tensor::from_i64(vec![1], &[1 << 40]);
        let t = tensor(QnnType::INT_32, &[1], big.clone(), None);
        let error = Elements::new(&t).unwrap().to_vec().unwrap_err();
        assert!(matches!(error, WeightError::Value { value, .. } if value == 1 << 40), "{error}");
        let t = tensor(QnnType::FLOAT_16, &[1], big.clone(), None);
        assert!(matches!(Elements::new(&t), Err(WeightError::Type { .. })));
        let t = tensor(QnnType::INT_64, &[2], big.clone(), None);
        assert!(matches!(Elements::new(&t), Err(WeightError::Length { .. })));
        let t = tensor(QnnType::INT_64, &[1], big, Some(&[1]));
        assert!(matches!(Elements::new(&t), Err(WeightError::Perm { .. })));
        let negative = tensor(QnnType::UINT_32, &[1], Tensor::from_i64(vec![1], &[-1]), None);
        assert!(Elements::new(&negative).unwrap().to_vec().is_err());
    }

    #[test]
    fn permutations_agree_with_the_plain_transpose() {
        let shapes: [(&[usize], &[usize]); 6] = [
            (&[3, 5, 2, 4], &[2, 3, 1, 0]),
            (&[70, 130], &[1, 0]),
            (&[1, 6, 1, 7], &[0, 2, 3, 1]),
            (&[4, 3, 2], &[0, 1, 2]),
            (&[2, 3, 4, 5], &[0, 2, 3, 1]),
            (&[2, 3, 4, 5], &[1, 0, 2, 3]),
        ];
        for (shape, perm) in shapes {
            let n: usize = shape.iter().product();
            let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let value = Tensor::from_f32(shape.to_vec(), &values);
            let expected = value.transposed(perm).unwrap();
            let t = tensor(QnnType::FLOAT_32, &[n as u32], value.clone(), Some(perm));
            assert_eq!(made(&t), expected.bytes(), "{shape:?} {perm:?}");
            let halves: Vec<u16> = expected.to_f32s().unwrap().iter().map(|&x| f16::from_f32(x).to_bits()).collect();
            assert_eq!(made(&tensor(QnnType::FLOAT_16, &[n as u32], value, Some(perm))), le(&halves));
        }
    }

    #[test]
    fn splats_and_pieces() {
        let value = Tensor::splat(DataType::F32, vec![3, 1 << 20], Bytes::copy_from_slice(&2.5f32.to_le_bytes()));
        let t = tensor(QnnType::FLOAT_16, &[3, 1 << 20], value, Some(&[1, 0]));
        let e = Elements::new(&t).unwrap();
        assert!(e.pieces() > 1 && e.in_place().is_none());
        let bytes = e.to_vec().unwrap();
        assert_eq!(bytes.len(), 6 << 20);
        assert!(bytes.chunks_exact(2).all(|c| c == f16::from_f32(2.5).to_le_bytes()));
    }

    #[test]
    fn what_needs_no_change_is_taken_as_it_is() {
        let value = Tensor::from_f32(vec![2, 4], &[1.0; 8]);
        let t = tensor(QnnType::FLOAT_32, &[8], value.clone(), Some(&[0, 1]));
        assert_eq!(Elements::new(&t).unwrap().in_place().unwrap(), value.bytes());
        let t = tensor(QnnType::FLOAT_32, &[8], value.clone(), Some(&[1, 0]));
        assert!(Elements::new(&t).unwrap().in_place().is_none());
        assert!(Elements::new(&tensor(QnnType::FLOAT_16, &[8], value, None)).unwrap().in_place().is_none());
    }
}
