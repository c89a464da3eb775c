//! Constants in integers: as the model encodes them, or encoded here where that loses nothing.

use super::{Encoding, Work, code_range};
use crate::ir::{DataType, Encoded, Tensor, same_axis};
use crate::qnn::graph::{QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};

/// Is it a constant whose real values are kept as integers?
pub(super) fn is_encoded(t: &QnnTensor) -> bool {
    t.dtype.is_float() && encoded(t).is_some()
}

fn encoded(t: &QnnTensor) -> Option<(&Tensor, &Encoded, Option<&[usize]>)> {
    match t.data.as_ref()? {
        StaticData::Constant { tensor, perm } => Some((tensor, tensor.encoding()?, perm.as_deref())),
        StaticData::Raw(_) => None,
    }
}

/// A constant as a static tensor of codes, elements in the same order as those of `t`.
fn add(work: &mut Work<'_>, t: TensorId, dtype: QnnType, quant: Quant, data: StaticData) -> TensorId {
    let id = work.tensor(t, dtype, quant);
    let tensor = work.graph.tensor_mut(id);
    tensor.kind = TensorKind::Static;
    tensor.data = Some(data);
    id
}

/// The codes moved by a constant, in another integer type. `None` if one does not fit.
fn shifted(codes: &Tensor, by: i32, to: DataType) -> Option<Tensor> {
    if by == 0 && codes.dtype() == to {
        return Some(codes.clone());
    }
    // Between the signed and the unsigned form of a type, half its range apart, only the top bit differs.
    let flipped: Option<[u8; 2]> = match (codes.dtype(), by, to) {
        (DataType::U4, -8, DataType::I4) => Some([0x88, 0x88]),
        (DataType::U8, -128, DataType::I8) | (DataType::I8, 128, DataType::U8) => Some([0x80, 0x80]),
        (DataType::U16, -32_768, DataType::I16) | (DataType::I16, 32_768, DataType::U16) => Some([0, 0x80]),
        _ => None,
    };
    if let Some(mask) = flipped {
        let bytes: Vec<u8> = codes.bytes().iter().enumerate().map(|(i, b)| b ^ mask[i % 2]).collect();
        return Tensor::from_raw(to, codes.shape().to_vec(), bytes.into());
    }
    let (low, high) = to.int_range()?;
    let values: Vec<i128> = codes.to_i128s()?.into_iter().map(|q| q + i128::from(by)).collect();
    values.iter().all(|v| (low..=high).contains(v)).then(|| Tensor::from_i128(to, codes.shape().to_vec(), &values))?
}

/// The constant as an operand next to activations of type `dtype` (unsigned, 8 or 16 bits): with its own encoding, or
/// one number with one made for it. `None` if it has none, or codes of more bits.
pub(super) fn operand(work: &mut Work<'_>, t: TensorId, dtype: QnnType) -> Option<TensorId> {
    let tensor = work.graph.tensor(t);
    let to = match dtype {
        QnnType::UFIXED_POINT_8 => DataType::U8,
        QnnType::UFIXED_POINT_16 => DataType::U16,
        _ => return None,
    };
    if let Some((_, e, perm)) = encoded(tensor) {
        if e.axis.is_some() {
            return None;
        }
        let (scale, zero) = (e.scales[0], e.zeros[0]);
        let by = match e.codes.dtype() {
            DataType::I8 | DataType::I4 => 128,
            DataType::I16 => 32_768,
            _ => 0,
        };
        let data = StaticData::Constant { tensor: shifted(&e.codes, by, to)?, perm: perm.map(<[usize]>::to_vec) };
        return Some(add(work, t, dtype, Quant::PerTensor { scale, offset: -(zero + by) }, data));
    }
    let StaticData::Constant { tensor: value, .. } = tensor.data.as_ref()? else { return None };
    let value = value.uniform_f64().filter(|v| v.is_finite())? as f32;
    let (_, high) = code_range(dtype)?;
    // One number is a code at the end of the range and its distance from the other end.
    let (scale, zero, code) = match value {
        0.0 => (1.0, 0, 0),
        v if v > 0.0 => (v / high as f32, 0, high),
        v => (-v / high as f32, high, 0),
    };
    if !scale.is_normal() {
        return None;
    }
    let elements = vec![i128::from(code); tensor.elements()];
    let shape = tensor.dims.iter().map(|&d| d as usize).collect();
    let data = StaticData::Constant { tensor: Tensor::from_i128(to, shape, &elements)?, perm: None };
    Some(add(work, t, dtype, Quant::PerTensor { scale, offset: -zero }, data))
}

/// The constant as something whose elements are moved next to others of encoding `e` (or moved alone): only if it is
/// encoded so already.
pub(super) fn moved(work: &mut Work<'_>, t: TensorId, e: Option<&Encoding>) -> Option<TensorId> {
    let (_, own, _) = encoded(work.graph.tensor(t))?;
    let dtype = match (e, own.codes.dtype().bits()) {
        (Some(e), _) => e.dtype,
        (None, 16) => QnnType::UFIXED_POINT_16,
        _ => QnnType::UFIXED_POINT_8,
    };
    let id = operand(work, t, dtype)?;
    match e {
        Some(e) if work.encoding(id) != *e => None,
        _ => Some(id),
    }
}

/// The axis of the static tensor's own dims that is axis `a` of the constant; `None` if the dims cut across it.
fn own_axis(tensor: &QnnTensor, value: &Tensor, a: usize, perm: Option<&[usize]>) -> Option<u32> {
    let (shape, at) = match perm {
        Some(p) => (p.iter().map(|&i| value.shape()[i]).collect(), p.iter().position(|&i| i == a)?),
        None => (value.shape().to_vec(), a),
    };
    let dims: Vec<usize> = tensor.dims.iter().map(|&d| d as usize).collect();
    Some(same_axis(&shape, at, &dims)? as u32)
}

/// How the codes of weights are kept: symmetric and signed where they can be, which an axis of scales needs.
pub(super) struct WeightCodes {
    dtype: QnnType,
    quant: Quant,
    data: StaticData,
    /// One for each index of the axis of scales, or one.
    pub scales: Vec<f32>,
    /// The axis of the static tensor's dims that has a scale each.
    pub axis: Option<u32>,
}

impl WeightCodes {
    /// `None` for a constant without an encoding, or one that no weights can have.
    pub fn of(tensor: &QnnTensor) -> Option<Self> {
        let (value, e, perm) = encoded(tensor)?;
        let axis = match e.axis {
            None => None,
            Some(a) => Some(own_axis(tensor, value, a, perm)?),
        };
        let (from, zero) = (e.codes.dtype(), e.zeros[0]);
        let middle = match from {
            DataType::U8 => 128,
            DataType::U4 => 8,
            DataType::U16 => 32_768,
            _ => 0,
        };
        let symmetric = e.zeros.iter().all(|z| *z == middle);
        let (dtype, to, by) = match from {
            _ if e.block.is_some() => return Self::in_blocks(tensor, e, axis?, perm),
            DataType::U4 | DataType::I4 if symmetric => (QnnType::SFIXED_POINT_8, DataType::I4, -middle),
            DataType::U8 | DataType::I8 if symmetric => (QnnType::SFIXED_POINT_8, DataType::I8, -middle),
            DataType::U16 | DataType::I16 if symmetric => (QnnType::SFIXED_POINT_16, DataType::I16, -middle),
            _ if axis.is_some() => return None,
            DataType::U8 | DataType::U4 => (QnnType::UFIXED_POINT_8, DataType::U8, 0),
            DataType::I8 | DataType::I4 => (QnnType::UFIXED_POINT_8, DataType::U8, 128),
            DataType::U16 => (QnnType::UFIXED_POINT_16, DataType::U16, 0),
            DataType::I16 => (QnnType::UFIXED_POINT_16, DataType::U16, 32_768),
            _ => return None,
        };
        let offset = if symmetric { 0 } else { -(zero + by) };
        let bits = from.bits() as u32;
        let narrow = bits == 4 && dtype == QnnType::SFIXED_POINT_8;
        let quant = match (axis, narrow) {
            (None, false) => Quant::PerTensor { scale: e.scales[0], offset },
            (None, true) => Quant::BitWidth { bits, scale: e.scales[0], offset },
            (Some(axis), narrow) => {
                let (scales, offsets) = (e.scales.clone(), vec![0; e.scales.len()]);
                if narrow {
                    Quant::BitWidthPerAxis { bits, axis, scales, offsets }
                } else {
                    Quant::PerAxis { axis, scales, offsets }
                }
            }
        };
        let data = StaticData::Constant { tensor: shifted(&e.codes, by, to)?, perm: perm.map(<[usize]>::to_vec) };
        Some(Self { dtype, quant, data, scales: e.scales.clone(), axis })
    }

    /// Blocks along `axis` of the static tensor's dims, whose other axes are those of the codes.
    fn in_blocks(tensor: &QnnTensor, e: &Encoded, axis: u32, perm: Option<&[usize]>) -> Option<Self> {
        let size = e.block? as u32;
        let (from, bits) = (e.codes.dtype(), e.codes.dtype().bits() as u32);
        let (to, middle) = match from {
            DataType::I4 => (DataType::I4, 0),
            DataType::U4 => (DataType::I4, 8),
            DataType::I8 => (DataType::I8, 0),
            DataType::U8 => (DataType::I8, 128),
            _ => return None,
        };
        let ordered = match perm {
            Some(p) => e.transposed(p)?,
            None => e.clone(),
        };
        // Blocks that are not whole, and dims that regroup other axes, have no form here.
        if tensor.dims.len() != ordered.codes.rank() || !tensor.dims[axis as usize].is_multiple_of(size) {
            return None;
        }
        let mut block = vec![1; tensor.dims.len()];
        block[axis as usize] = size;
        let offsets = ordered.zeros.iter().map(|z| (middle - z) as f32).collect();
        let quant = Quant::FloatBlock { bits, block, scales: ordered.scales.clone(), offsets };
        let data = StaticData::Constant { tensor: shifted(&e.codes, -middle, to)?, perm: perm.map(<[usize]>::to_vec) };
        Some(Self { dtype: QnnType::SFIXED_POINT_8, quant, data, scales: ordered.scales, axis: Some(axis) })
    }

    /// Weights `[outputs, inputs]` with zero points of their own, as one block for each output.
    pub fn in_rows(tensor: &QnnTensor) -> Option<Self> {
        let (value, e, perm) = encoded(tensor)?;
        let &[rows, columns] = tensor.dims.as_slice() else { return None };
        let along_rows = match e.axis {
            None => true,
            Some(a) => own_axis(tensor, value, a, perm)? == 0,
        };
        if e.block.is_some() || !along_rows {
            return None;
        }
        let (from, bits) = (e.codes.dtype(), e.codes.dtype().bits() as u32);
        let (to, middle) = match from {
            DataType::I4 => (DataType::I4, 0),
            DataType::U4 => (DataType::I4, 8),
            DataType::I8 => (DataType::I8, 0),
            DataType::U8 => (DataType::I8, 128),
            _ => return None,
        };
        let each = |i: usize| if e.axis.is_some() { i } else { 0 };
        let scales: Vec<f32> = (0..rows as usize).map(|i| e.scales[each(i)]).collect();
        let offsets = (0..rows as usize).map(|i| (middle - e.zeros[each(i)]) as f32).collect();
        let quant = Quant::FloatBlock { bits, block: vec![1, columns], scales: scales.clone(), offsets };
        let tensor = shifted(&e.codes, -middle, to)?;
        let data = StaticData::Constant { tensor, perm: perm.map(<[usize]>::to_vec) };
        Some(Self { dtype: QnnType::SFIXED_POINT_8, quant, data, scales, axis: Some(1) })
    }

    pub fn is_in_blocks(&self) -> bool {
        matches!(self.quant, Quant::FloatBlock { .. })
    }

    pub fn is_signed_8(&self) -> bool {
        self.dtype == QnnType::SFIXED_POINT_8
    }

    pub fn bits(&self) -> usize {
        self.dtype.size() * 8
    }

    /// With one scale for each of `count` indices of `axis`, all equal if they were one.
    pub fn along(mut self, axis: u32, count: usize) -> Self {
        if self.axis.is_none() && self.is_signed_8() {
            self.scales = vec![self.scales[0]; count];
            let (scales, offsets) = (self.scales.clone(), vec![0; count]);
            self.quant = match self.quant {
                Quant::BitWidth { bits, .. } => Quant::BitWidthPerAxis { bits, axis, scales, offsets },
                _ => Quant::PerAxis { axis, scales, offsets },
            };
            self.axis = Some(axis);
        }
        self
    }

    pub fn add(self, work: &mut Work<'_>, t: TensorId) -> TensorId {
        add(work, t, self.dtype, self.quant, self.data)
    }
}

/// The constant rounded to 32-bit integers of these scales (one, or one for each element of its last axis). `None` if a
/// value does not fit.
pub(super) fn rounded_32(work: &mut Work<'_>, t: TensorId, scales: &[f32]) -> Option<TensorId> {
    let tensor = work.graph.tensor(t);
    let StaticData::Constant { tensor: value, perm } = tensor.data.as_ref()? else { return None };
    let value = perm.as_ref().map_or_else(|| Some(value.clone()), |p| value.transposed(p))?;
    let values = value.to_f32s()?;
    if scales.len() != 1 && scales.len() != values.len() {
        return None;
    }
    let codes: Vec<i128> = values
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let q = (f64::from(*v) / f64::from(scales[if scales.len() == 1 { 0 } else { i }])).round_ties_even();
            (q.abs() <= f64::from(i32::MAX)).then_some(q as i128)
        })
        .collect::<Option<_>>()?;
    let shape = tensor.dims.iter().map(|&d| d as usize).collect();
    let data = StaticData::Constant { tensor: Tensor::from_i128(DataType::I32, shape, &codes)?, perm: None };
    let quant = match scales {
        [scale] => Quant::PerTensor { scale: *scale, offset: 0 },
        _ => Quant::PerAxis { axis: 0, scales: scales.to_vec(), offsets: vec![0; scales.len()] },
    };
    Some(add(work, t, QnnType::SFIXED_POINT_32, quant, data))
}
