//! Constants whose real values are integers times a scale: kept as the integers, so that quantised weights stay so.

use bytes::Bytes;
use half::{bf16, f16};

use super::{DataType, Tensor};

/// Integers and what they stand for: `real = (code - zero) * scale`, one scale and zero point for the tensor, one for
/// each index along an axis, or one for each block along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// Of an integer type, and of the real tensor's shape.
    pub codes: Tensor,
    /// One, or as many as the axis is long, or row-major over the tensor's axes with blocks counted along `axis`.
    pub scales: Vec<f32>,
    /// As many as there are scales.
    pub zeros: Vec<i32>,
    /// `None`: one scale for the tensor.
    pub axis: Option<usize>,
    /// Elements of a block along `axis`.
    pub block: Option<usize>,
}

impl Encoded {
    /// `None` if the numbers of scales and zero points do not fit the codes, or the codes are not integers.
    pub fn new(codes: Tensor, scales: Vec<f32>, zeros: Vec<i32>, axis: Option<usize>) -> Option<Self> {
        let count = match axis {
            None => 1,
            Some(a) => *codes.shape().get(a)?,
        };
        let axis = axis.filter(|_| count != 1);
        (codes.dtype().is_int() && scales.len() == count && zeros.len() == count).then_some(Self {
            codes,
            scales,
            zeros,
            axis,
            block: None,
        })
    }

    /// Blocks of `size` elements along `axis`, each with a scale and a zero point. `None` if their numbers do not fit.
    pub fn in_blocks(codes: Tensor, scales: Vec<f32>, zeros: Vec<i32>, axis: usize, size: usize) -> Option<Self> {
        let mut shape = codes.shape().to_vec();
        let length = shape.get_mut(axis)?;
        *length = length.div_ceil(Some(size).filter(|s| *s > 0)?);
        let count: usize = shape.iter().product();
        (codes.dtype().is_int() && scales.len() == count && zeros.len() == count).then_some(Self {
            codes,
            scales,
            zeros,
            axis: Some(axis),
            block: Some(size),
        })
    }

    /// The shape of the scales of blocks.
    fn scale_shape(&self) -> Vec<usize> {
        let mut shape = self.codes.shape().to_vec();
        if let (Some(a), Some(size)) = (self.axis, self.block) {
            shape[a] = shape[a].div_ceil(size);
        }
        shape
    }

    /// The real values, computed in 32-bit floats as ONNX does.
    pub fn values(&self) -> Option<Vec<f32>> {
        let codes = self.codes.to_i128s()?;
        let inner: usize = self.axis.map_or(1, |a| self.codes.shape()[a + 1..].iter().product::<usize>().max(1));
        let length = self.axis.map_or(1, |a| self.codes.shape()[a].max(1));
        Some(
            codes
                .iter()
                .enumerate()
                .map(|(i, &q)| {
                    let along = i / inner % length;
                    let at = match (self.axis, self.block) {
                        (None, _) => 0,
                        (Some(_), None) => along,
                        (Some(_), Some(size)) => {
                            let before = i / inner / length;
                            (before * length.div_ceil(size) + along / size) * inner + i % inner
                        }
                    };
                    (q - i128::from(self.zeros[at])) as f32 * self.scales[at]
                })
                .collect(),
        )
    }

    /// The real values as elements of a float type.
    pub(super) fn bytes(&self, dtype: DataType) -> Bytes {
        let values = self.values().unwrap_or_default();
        let bytes: Vec<u8> = match dtype {
            DataType::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            DataType::BF16 => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
            DataType::F64 => values.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|&v| v.to_le_bytes()).collect(),
        };
        Bytes::from(bytes)
    }

    /// The codes under another shape of equal size; `None` where the axis of the scales does not survive.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Self> {
        let axis = match self.axis {
            None => None,
            Some(a) => Some(same_axis(self.codes.shape(), a, &shape)?),
        };
        Some(Self { codes: self.codes.reshaped(shape)?, axis, ..self.clone() })
    }

    /// The codes with axes permuted, as [`Tensor::transposed`].
    pub fn transposed(&self, perm: &[usize]) -> Option<Self> {
        let axis = match self.axis {
            None => None,
            Some(a) => Some(perm.iter().position(|&p| p == a)?),
        };
        let codes = self.codes.widened()?.transposed(perm)?;
        if self.block.is_none() {
            return Some(Self { codes, axis, ..self.clone() });
        }
        let shape = self.scale_shape();
        let scales = Tensor::from_f32(shape.clone(), &self.scales).transposed(perm)?.to_f32s()?;
        let zeros = Tensor::from_i32(shape, &self.zeros).transposed(perm)?.to_i64s()?;
        Some(Self { codes, scales, zeros: zeros.into_iter().map(|z| z as i32).collect(), axis, block: self.block })
    }
}

/// The axis of `to` that runs over the same elements as `axis` of `from`, if there is one.
pub fn same_axis(from: &[usize], axis: usize, to: &[usize]) -> Option<usize> {
    let before: usize = from[..axis].iter().product();
    let mut product = 1;
    for (i, &d) in to.iter().enumerate() {
        if product == before && d == from[axis] {
            return Some(i);
        }
        product *= d;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_row() -> Encoded {
        let codes = Tensor::from_i128(DataType::I8, vec![2, 3], &[1, 2, 3, -4, 5, 6]).unwrap();
        Encoded::new(codes, vec![0.5, 2.0], vec![0, 1], Some(0)).unwrap()
    }

    #[test]
    fn values_have_the_scale_of_their_row() {
        assert_eq!(per_row().values().unwrap(), [0.5, 1.0, 1.5, -10.0, 8.0, 10.0]);
    }

    #[test]
    fn an_encoded_tensor_behaves_as_its_values() {
        let t = Tensor::encoded(DataType::F32, per_row());
        assert_eq!((t.dtype(), t.shape(), t.len()), (DataType::F32, &[2usize, 3][..], 6));
        assert_eq!(t.to_f32s().unwrap(), [0.5, 1.0, 1.5, -10.0, 8.0, 10.0]);
        let turned = t.transposed(&[1, 0]).unwrap();
        assert_eq!(turned.to_f32s().unwrap(), [0.5, -10.0, 1.0, 8.0, 1.5, 10.0]);
        assert_eq!(turned.encoding().unwrap().axis, Some(1));
        let regrouped = turned.reshaped(vec![1, 3, 2]).unwrap();
        assert_eq!(regrouped.encoding().unwrap().axis, Some(2));
        assert!(t.reshaped(vec![6]).unwrap().encoding().is_none());
        assert_eq!(t.reshaped(vec![6]).unwrap().to_f32s().unwrap(), t.to_f32s().unwrap());
    }

    #[test]
    fn blocks_along_an_axis() {
        let codes = Tensor::from_i128(DataType::U4, vec![2, 5], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
        let scales = vec![1.0, 10.0, 100.0, 2.0, 20.0, 200.0];
        let t =
            Tensor::encoded(DataType::F32, Encoded::in_blocks(codes, scales, vec![0, 0, 5, 0, 0, 0], 1, 2).unwrap());
        let want = [1.0, 2.0, 30.0, 40.0, 0.0, 12.0, 14.0, 160.0, 180.0, 2000.0];
        assert_eq!(t.to_f32s().unwrap(), want);
        let turned = t.transposed(&[1, 0]).unwrap();
        assert_eq!(turned.to_f32s().unwrap(), [1.0, 12.0, 2.0, 14.0, 30.0, 160.0, 40.0, 180.0, 0.0, 2000.0]);
        assert_eq!(turned.encoding().unwrap().block, Some(2));
    }

    #[test]
    fn four_bit_codes_can_be_turned() {
        let codes = Tensor::from_i128(DataType::I4, vec![2, 3], &[1, 2, 3, -4, 5, 6]).unwrap();
        let t = Tensor::encoded(DataType::F16, Encoded::new(codes, vec![1.0], vec![0], None).unwrap());
        assert_eq!(t.transposed(&[1, 0]).unwrap().to_f32s().unwrap(), [1.0, -4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
