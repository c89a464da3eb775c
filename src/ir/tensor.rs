//! Constant tensors: slices of the mapped file, owned buffers, or one element repeated.

use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};

use super::DataType;
use super::encoded::Encoded;

/// Where the elements are.
#[derive(Clone, Debug, PartialEq)]
enum Payload {
    /// Row-major little-endian elements; sub-byte types packed, low bits first, as in `raw_data`.
    Dense(Bytes),
    /// One element repeated: a filled tensor costs nothing until it is written out.
    Splat(Bytes),
    /// The elements of a string tensor; they need not be UTF-8.
    Strings(Arc<[Bytes]>),
    /// Real numbers kept as integers with scales.
    Encoded(Arc<Encoded>),
}

/// A constant tensor. Cloning is cheap: the elements are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dtype: DataType,
    shape: Vec<usize>,
    payload: Payload,
}

impl Tensor {
    /// Row-major elements in ONNX `raw_data` form. `None` when the length does not fit the shape.
    pub fn from_raw(dtype: DataType, shape: Vec<usize>, data: Bytes) -> Option<Self> {
        let count = shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d))?;
        count.checked_mul(dtype.bits())?;
        (dtype.bytes_for(count) == data.len()).then_some(Self { dtype, shape, payload: Payload::Dense(data) })
    }

    /// Every element equal to the one element in `element` (of a type of 8 bits or more).
    pub fn splat(dtype: DataType, shape: Vec<usize>, element: Bytes) -> Self {
        debug_assert_eq!(element.len() * 8, dtype.bits());
        Self { dtype, shape, payload: Payload::Splat(element) }
    }

    /// A string tensor. `None` when the number of elements does not fit the shape.
    pub fn from_strings(shape: Vec<usize>, elements: Vec<Bytes>) -> Option<Self> {
        let count = shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d))?;
        (count == elements.len()).then(|| Self {
            dtype: DataType::String,
            shape,
            payload: Payload::Strings(elements.into()),
        })
    }

    /// Real numbers of a float type, kept as the integers that stand for them.
    pub fn encoded(dtype: DataType, encoded: Encoded) -> Self {
        debug_assert!(dtype.is_float());
        Self { dtype, shape: encoded.codes.shape().to_vec(), payload: Payload::Encoded(Arc::new(encoded)) }
    }

    /// The integers that the elements are kept as, if they are.
    pub fn encoding(&self) -> Option<&Encoded> {
        match &self.payload {
            Payload::Encoded(e) => Some(e),
            _ => None,
        }
    }

    /// Integers of less than 8 bits in a byte each; others as they are. `None` for strings.
    pub fn widened(&self) -> Option<Self> {
        let to = match self.dtype {
            DataType::I2 | DataType::I4 => DataType::I8,
            DataType::U2 | DataType::U4 => DataType::U8,
            DataType::String => return None,
            _ => return Some(self.clone()),
        };
        Self::from_i128(to, self.shape.clone(), &self.to_i128s()?)
    }

    /// The elements of a string tensor; `None` for other types.
    pub fn strings(&self) -> Option<&[Bytes]> {
        match &self.payload {
            Payload::Strings(s) => Some(s),
            _ => None,
        }
    }

    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Self {
        Self::from_pod(DataType::F32, shape, values)
    }

    pub fn from_i64(shape: Vec<usize>, values: &[i64]) -> Self {
        Self::from_pod(DataType::I64, shape, values)
    }

    pub fn from_i32(shape: Vec<usize>, values: &[i32]) -> Self {
        Self::from_pod(DataType::I32, shape, values)
    }

    pub fn from_bools(shape: Vec<usize>, values: &[bool]) -> Self {
        let bytes: Vec<u8> = values.iter().map(|b| u8::from(*b)).collect();
        Self::from_pod(DataType::Bool, shape, &bytes)
    }

    /// Elements of a plain type whose size is that of `dtype`.
    pub fn from_pod<T: bytemuck::NoUninit>(dtype: DataType, shape: Vec<usize>, values: &[T]) -> Self {
        debug_assert_eq!(size_of::<T>() * 8, dtype.bits());
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        Self { dtype, shape, payload: Payload::Dense(Bytes::copy_from_slice(bytemuck::cast_slice(values))) }
    }

    /// Elements given as 64-bit floats, rounded to a float type (nearest even) or truncated and saturated to an integer
    /// type. `None` for types that numbers do not fit (strings, complex, 4-bit and 8-bit floats).
    pub fn from_f64(dtype: DataType, shape: Vec<usize>, v: &[f64]) -> Option<Self> {
        macro_rules! pod {
            ($t:ty) => {
                Self::from_pod(dtype, shape, &v.iter().map(|&x| x as $t).collect::<Vec<$t>>())
            };
        }
        Some(match dtype {
            DataType::F32 => pod!(f32),
            DataType::F64 => pod!(f64),
            DataType::F16 => Self::from_pod(dtype, shape, &v.iter().map(|&x| f16::from_f64(x)).collect::<Vec<_>>()),
            DataType::BF16 => {
                let bits: Vec<u16> = v.iter().map(|&x| bf16::from_f64(x).to_bits()).collect();
                Self::from_pod(dtype, shape, &bits)
            }
            DataType::Bool => Self::from_bools(shape, &v.iter().map(|&x| x != 0.0).collect::<Vec<_>>()),
            d if d.is_int() => return Self::from_i128(d, shape, &v.iter().map(|&x| x as i128).collect::<Vec<_>>()),
            _ => return None,
        })
    }

    /// Elements given as wide integers, saturated to the type's range.
    pub fn from_i128(dtype: DataType, shape: Vec<usize>, v: &[i128]) -> Option<Self> {
        if dtype == DataType::Bool {
            return Some(Self::from_bools(shape, &v.iter().map(|&x| x != 0).collect::<Vec<_>>()));
        }
        let Some((low, high)) = dtype.int_range() else {
            return Self::from_f64(dtype, shape, &v.iter().map(|&x| x as f64).collect::<Vec<_>>());
        };
        let bits = dtype.bits();
        let data: Vec<u8> = if bits >= 8 {
            v.iter().flat_map(|x| x.clamp(&low, &high).to_le_bytes()[..bits / 8].to_vec()).collect()
        } else {
            let per_byte = 8 / bits;
            v.chunks(per_byte)
                .map(|c| {
                    c.iter().enumerate().fold(0u8, |byte, (i, x)| {
                        byte | (((*x.clamp(&low, &high) as u8) & ((1 << bits) - 1)) << (i * bits))
                    })
                })
                .collect()
        };
        Self::from_raw(dtype, shape, Bytes::from(data))
    }

    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the elements take when written out.
    pub fn byte_len(&self) -> usize {
        self.dtype.bytes_for(self.len())
    }

    /// The repeated element, if the tensor is stored so.
    pub fn splat_element(&self) -> Option<&Bytes> {
        match &self.payload {
            Payload::Splat(e) => Some(e),
            Payload::Dense(_) | Payload::Strings(_) | Payload::Encoded(_) => None,
        }
    }

    /// The elements in `raw_data` form; borrowed from the file where they lie there. Empty for strings.
    pub fn bytes(&self) -> Bytes {
        match &self.payload {
            Payload::Dense(b) => b.clone(),
            Payload::Splat(e) => Bytes::from(e.repeat(self.len())),
            Payload::Strings(_) => Bytes::new(),
            Payload::Encoded(e) => e.bytes(self.dtype),
        }
    }

    /// The same elements under another shape of equal size.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        if shape.iter().product::<usize>() != self.len() {
            return None;
        }
        let payload = match &self.payload {
            Payload::Encoded(e) => match e.reshaped(shape.clone()) {
                Some(e) => Payload::Encoded(Arc::new(e)),
                None => Payload::Dense(self.bytes()),
            },
            same => same.clone(),
        };
        Some(Self { dtype: self.dtype, shape, payload })
    }

    /// Repeated along axes of size 1 and new leading axes, as numpy broadcasts. Byte-sized types only.
    pub fn broadcast_to(&self, shape: &[usize]) -> Option<Self> {
        if self.shape == shape {
            return Some(self.clone());
        }
        if let Payload::Splat(e) = &self.payload {
            return Some(Self::splat(self.dtype, shape.to_vec(), e.clone()));
        }
        let size = self.dtype.bits() / 8;
        if size == 0 || !self.dtype.bits().is_multiple_of(8) {
            return None;
        }
        let bytes = self.bytes();
        let mut out = vec![];
        for at in broadcast_indices(&self.shape, shape)? {
            out.extend_from_slice(bytes.get(at * size..(at + 1) * size)?);
        }
        Self::from_raw(self.dtype, shape.to_vec(), Bytes::from(out))
    }

    /// All elements as 64-bit floats (integers beyond 2^53 round); `None` for strings, complex and 4/8-bit floats.
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        if let Payload::Splat(e) = &self.payload {
            let one = Self::from_raw(self.dtype, vec![1], e.clone())?.to_f64s()?;
            return Some(vec![one[0]; self.len()]);
        }
        let b = self.bytes();
        macro_rules! read {
            ($t:ty) => {
                b.chunks_exact(size_of::<$t>())
                    .map(|c| <$t>::from_le_bytes(c.try_into().unwrap_or_default()) as f64)
                    .collect()
            };
        }
        Some(match self.dtype {
            DataType::F32 => read!(f32),
            DataType::F64 => read!(f64),
            DataType::F16 => b.chunks_exact(2).map(|c| f16::from_le_bytes([c[0], c[1]]).to_f64()).collect(),
            DataType::BF16 => b.chunks_exact(2).map(|c| bf16::from_le_bytes([c[0], c[1]]).to_f64()).collect(),
            _ => self.to_i128s()?.into_iter().map(|x| x as f64).collect(),
        })
    }

    /// All elements as 32-bit floats.
    pub fn to_f32s(&self) -> Option<Vec<f32>> {
        if self.dtype == DataType::F32 && self.splat_element().is_none() {
            return Some(self.bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect());
        }
        Some(self.to_f64s()?.into_iter().map(|x| x as f32).collect())
    }

    /// All elements of an integer or boolean tensor.
    pub fn to_i128s(&self) -> Option<Vec<i128>> {
        if let Payload::Splat(e) = &self.payload {
            let one = Self::from_raw(self.dtype, vec![1], e.clone())?.to_i128s()?;
            return Some(vec![one[0]; self.len()]);
        }
        let b = self.bytes();
        macro_rules! read {
            ($t:ty) => {
                b.chunks_exact(size_of::<$t>())
                    .map(|c| <$t>::from_le_bytes(c.try_into().unwrap_or_default()) as i128)
                    .collect()
            };
        }
        Some(match self.dtype {
            DataType::I8 => read!(i8),
            DataType::I16 => read!(i16),
            DataType::I32 => read!(i32),
            DataType::I64 => read!(i64),
            DataType::U8 | DataType::Bool => read!(u8),
            DataType::U16 => read!(u16),
            DataType::U32 => read!(u32),
            DataType::U64 => read!(u64),
            DataType::I4 | DataType::U4 | DataType::I2 | DataType::U2 => {
                let bits = self.dtype.bits();
                let signed = self.dtype.is_signed_int();
                (0..self.len())
                    .map(|i| {
                        let v = (b[i * bits / 8] >> (i * bits % 8)) & ((1 << bits) - 1);
                        let negative = signed && v >> (bits - 1) == 1;
                        i128::from(v) - if negative { 1 << bits } else { 0 }
                    })
                    .collect()
            }
            _ => return None,
        })
    }

    /// All elements of an integer or boolean tensor as `i64` (`None` too if one does not fit).
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        self.to_i128s()?.into_iter().map(|x| i64::try_from(x).ok()).collect()
    }

    /// The only element as a float; `None` unless the tensor has exactly one element.
    pub fn scalar_f64(&self) -> Option<f64> {
        (self.len() == 1).then(|| self.to_f64s()).flatten().map(|v| v[0])
    }

    /// The only element as an integer; `None` unless the tensor has exactly one element.
    pub fn scalar_i64(&self) -> Option<i64> {
        (self.len() == 1).then(|| self.to_i64s()).flatten().map(|v| v[0])
    }

    /// The value that every element has, if they are all equal: cheap for splats and small tensors.
    pub fn uniform_f64(&self) -> Option<f64> {
        if let Payload::Splat(e) = &self.payload {
            return Self::from_raw(self.dtype, vec![1], e.clone())?.scalar_f64();
        }
        let v = self.to_f64s()?;
        let first = *v.first()?;
        v.iter().all(|x| x.to_bits() == first.to_bits()).then_some(first)
    }

    /// The elements with axes permuted: axis `i` of the result is axis `perm[i]` of `self`. Byte-sized types only.
    pub fn transposed(&self, perm: &[usize]) -> Option<Self> {
        let size = self.dtype.bits() / 8;
        if size == 0 || perm.len() != self.rank() {
            return None;
        }
        let shape: Vec<usize> = perm.iter().map(|&p| self.shape[p]).collect();
        let payload = match &self.payload {
            Payload::Splat(e) => Payload::Splat(e.clone()),
            Payload::Strings(_) => return None,
            Payload::Encoded(e) => Payload::Encoded(Arc::new(e.transposed(perm)?)),
            Payload::Dense(b) => Payload::Dense(Bytes::from(transpose_bytes(b, size, &self.shape, perm))),
        };
        Some(Self { dtype: self.dtype, shape, payload })
    }
}

/// For every element of a tensor of shape `to`, the index of the element of a tensor of shape `from` that broadcasts to
/// it; row-major. `None` if `from` does not broadcast to `to`.
pub fn broadcast_indices(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let missing = to.len().checked_sub(from.len())?;
    let steps = strides(from);
    let mut step = vec![0; to.len()];
    for (i, &d) in from.iter().enumerate() {
        if d != 1 && d != to[missing + i] {
            return None;
        }
        step[missing + i] = if d == 1 { 0 } else { steps[i] };
    }
    let count = to.iter().try_fold(1usize, |a, &d| a.checked_mul(d))?;
    let mut out = Vec::with_capacity(count);
    let mut index = vec![0usize; to.len()];
    let mut at = 0;
    for _ in 0..count {
        out.push(at);
        for axis in (0..to.len()).rev() {
            index[axis] += 1;
            at += step[axis];
            if index[axis] < to[axis] {
                break;
            }
            at -= step[axis] * to[axis];
            index[axis] = 0;
        }
    }
    Some(out)
}

/// Row-major strides of `shape`, in elements.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        out[i - 1] = out[i] * shape[i];
    }
    out
}

/// Copies row-major elements of `size` bytes with axes permuted.
pub fn transpose_bytes(src: &[u8], size: usize, shape: &[usize], perm: &[usize]) -> Vec<u8> {
    let from = strides(shape);
    let out_shape: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let step: Vec<usize> = perm.iter().map(|&p| from[p] * size).collect();
    let mut out = Vec::with_capacity(src.len());
    let Some((&inner, outer)) = out_shape.split_last() else {
        return src.to_vec();
    };
    if src.is_empty() {
        return out;
    }
    let inner_step = step[outer.len()];
    let mut index = vec![0usize; outer.len()];
    let mut base = 0usize;
    loop {
        if inner_step == size {
            out.extend_from_slice(&src[base..base + inner * size]);
        } else {
            for i in 0..inner {
                let at = base + i * inner_step;
                out.extend_from_slice(&src[at..at + size]);
            }
        }
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return out;
            }
            axis -= 1;
            index[axis] += 1;
            base += step[axis];
            if index[axis] < outer[axis] {
                break;
            }
            base -= step[axis] * outer[axis];
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transpose_moves_elements() {
        let t = Tensor::from_i64(vec![2, 3], &[1, 2, 3, 4, 5, 6]).transposed(&[1, 0]).unwrap();
        assert_eq!(t.shape(), [3, 2]);
        assert_eq!(t.to_i64s().unwrap(), [1, 4, 2, 5, 3, 6]);
        let t = Tensor::from_i32(vec![2, 1, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7]).transposed(&[2, 3, 1, 0]).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn sub_byte_integers_round_trip() {
        let v = [-8i128, 7, -1, 0, 3];
        let t = Tensor::from_i128(DataType::I4, vec![5], &v).unwrap();
        assert_eq!(t.byte_len(), 3);
        assert_eq!(t.to_i128s().unwrap(), v);
    }

    #[test]
    fn broadcasting_repeats() {
        let t = Tensor::from_i32(vec![2, 1], &[1, 2]).broadcast_to(&[2, 2, 2]).unwrap();
        assert_eq!(t.to_i64s().unwrap(), [1, 1, 2, 2, 1, 1, 2, 2]);
        assert!(t.broadcast_to(&[3, 2, 2]).is_none());
    }

    #[test]
    fn splats_cost_one_element() {
        let t = Tensor::splat(DataType::F32, vec![1 << 20, 1 << 20], Bytes::copy_from_slice(&2.5f32.to_le_bytes()));
        assert_eq!(t.uniform_f64(), Some(2.5));
        assert_eq!(t.transposed(&[1, 0]).unwrap().len(), 1 << 40);
    }

    #[test]
    fn length_must_fit_the_shape() {
        assert!(Tensor::from_raw(DataType::F32, vec![2], Bytes::from_static(&[0; 7])).is_none());
        assert!(Tensor::from_raw(DataType::F32, vec![usize::MAX, 2], Bytes::new()).is_none());
        assert!(Tensor::from_raw(DataType::F32, vec![usize::MAX / 2], Bytes::new()).is_none());
        assert!(Tensor::from_strings(vec![2], vec![Bytes::new()]).is_none());
    }
}
