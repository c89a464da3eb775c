//! Real values of weights that are stored in few bits.

use crate::ir::{DataType, Encoded, Tensor};

/// Elements up to which weights are made real at compile time.
const LIMIT: usize = 1 << 28;

/// Unsigned number `i` of `bits` bits, low bits first, in `bytes`.
fn unpack(bytes: &[u8], i: usize, bits: usize) -> Option<u8> {
    let per = 8 / bits;
    let byte = bytes.get(i / per)?;
    Some(if bits == 8 { *byte } else { (byte >> (i % per * bits)) & ((1 << bits) - 1) })
}

/// The weight of MatMulNBits: rows of columns in blocks, each row of blocks padded to a whole block, one scale for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) block: usize,
    pub(super) bits: usize,
}

impl Blocks {
    /// The weight as the integers that it is, `[rows, columns]`: its bytes as they are, if the blocks are whole.
    pub(super) fn encoded(self, b: &Tensor, scales: &[f32], zeros: Option<&Tensor>) -> Option<Encoded> {
        let Self { rows, columns, block, bits } = self;
        let dtype = match bits {
            4 => DataType::U4,
            8 => DataType::U8,
            _ => return None,
        };
        if block == 0 || !columns.is_multiple_of(block) {
            return None;
        }
        let blocks = columns / block;
        let packed_row = (blocks * bits).div_ceil(8);
        let zeros = match zeros {
            None => vec![1 << (bits - 1); rows * blocks],
            Some(z) if z.dtype().is_float() => return None,
            Some(z) => {
                let bytes = z.bytes();
                let zero = |i: usize| unpack(bytes.get(i / blocks * packed_row..)?, i % blocks, bits).map(i32::from);
                (0..rows * blocks).map(zero).collect::<Option<_>>()?
            }
        };
        let codes = Tensor::from_raw(dtype, vec![rows, columns], b.bytes())?;
        Encoded::in_blocks(codes, scales.to_vec(), zeros, 1, block)
    }

    /// Row-major `[rows, columns]`. Without zero points zero is in the middle of the range.
    pub(super) fn dequantise(self, b: &Tensor, scales: &[f32], zeros: Option<&Tensor>) -> Result<Vec<f32>, String> {
        let Self { rows, columns, block, bits } = self;
        let total = rows.checked_mul(columns).filter(|n| *n <= LIMIT);
        let (Some(total), true) = (total, (1..=LIMIT).contains(&block) && [2, 4, 8].contains(&bits)) else {
            return Err(format!("a weight of {rows} x {columns} in blocks of {block} with {bits} bits"));
        };
        let blocks = columns.div_ceil(block);
        let short = || format!("the weight, its scales or zero points are shorter than {rows} x {blocks} blocks");
        let bytes = b.bytes();
        let blob = (block * bits).div_ceil(8);
        let packed_row = (blocks * bits).div_ceil(8);
        let zero_bytes = zeros.filter(|z| !z.dtype().is_float()).map(Tensor::bytes);
        let zero_reals = zeros.filter(|z| z.dtype().is_float()).and_then(Tensor::to_f32s);
        let middle = f32::from(1u8 << (bits - 1));
        let mut out = Vec::with_capacity(total);
        for row in 0..rows {
            for j in 0..blocks {
                let at = row * blocks + j;
                let scale = scales.get(at).ok_or_else(short)?;
                let zero = match (&zero_bytes, &zero_reals) {
                    (Some(z), _) => {
                        f32::from(unpack(z.get(row * packed_row..).ok_or_else(short)?, j, bits).ok_or_else(short)?)
                    }
                    (_, Some(z)) => *z.get(at).ok_or_else(short)?,
                    _ => middle,
                };
                let data = bytes.get(at * blob..(at + 1) * blob).ok_or_else(short)?;
                for i in 0..block.min(columns - j * block) {
                    let q = unpack(data, i, bits).ok_or_else(short)?;
                    out.push((f32::from(q) - zero) * scale);
                }
            }
        }
        Ok(out)
    }
}

/// The table of GatherBlockQuantized: blocks along one axis; bytes may hold several numbers of the last axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) along: usize,
    pub(super) block: usize,
    /// Numbers in a byte.
    pub(super) packed: usize,
    pub(super) bits: usize,
}

impl Table {
    /// The shape in numbers, and the real values. Without zero points zero is 0, but in the middle of the range for
    /// numbers in bytes.
    pub(super) fn dequantise(
        self,
        data: &Tensor,
        scales: &Tensor,
        zeros: Option<&Tensor>,
    ) -> Result<(Vec<usize>, Vec<f32>), String> {
        let Self { along, block, packed, bits } = self;
        let mut shape = data.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = last.saturating_mul(packed);
        }
        let total = shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d)).filter(|n| *n <= LIMIT);
        let (Some(total), true) = (total, block > 0) else {
            return Err(format!("a table of shape {shape:?} in blocks of {block} is too large to be made real"));
        };
        let in_bytes = data.dtype() == crate::ir::DataType::U8;
        let read = |t: &Tensor| -> Option<Vec<i32>> {
            if t.dtype() == crate::ir::DataType::U8 && packed > 1 {
                let bytes = t.bytes();
                return (0..bytes.len() * packed).map(|i| unpack(&bytes, i, bits).map(i32::from)).collect();
            }
            t.to_i128s()?.into_iter().map(|v| i32::try_from(v).ok()).collect()
        };
        let wrong = || format!("a table of {} with scales of {} {:?}", data.dtype(), scales.dtype(), scales.shape());
        let values = read(data).ok_or_else(wrong)?;
        let scale_values = scales.to_f32s().ok_or_else(wrong)?;
        let zero_values = zeros.map(|z| read(z).ok_or_else(wrong)).transpose()?;
        // Zero points of a row end at a whole byte, so rows may be longer than the scales'.
        let zero_width = zeros
            .and_then(|z| z.shape().last().map(|d| if z.dtype() == crate::ir::DataType::U8 { d * packed } else { *d }));
        let default = if in_bytes { 1i32 << (bits.clamp(1, 8) - 1) } else { 0 };
        let inner: usize = shape[along + 1..].iter().product();
        let blocks = shape[along].div_ceil(block);
        let last_scale = scales.shape().last().copied().unwrap_or(1);
        let mut out = Vec::with_capacity(total);
        for (i, v) in values.iter().take(total).enumerate() {
            let (row, behind) = (i / inner, i % inner);
            let (before, at) = (row / shape[along], row % shape[along]);
            let s = (before * blocks + at / block) * inner + behind;
            let zero = match (&zero_values, zero_width) {
                (Some(z), Some(width)) => {
                    *z.get(s / last_scale.max(1) * width + s % last_scale.max(1)).ok_or_else(wrong)?
                }
                _ => default,
            };
            out.push((v - zero) as f32 * scale_values.get(s).ok_or_else(wrong)?);
        }
        if out.len() != total {
            return Err(wrong());
        }
        Ok((shape, out))
    }
}

/// A weight `[K, N]` with one scale, or one for each column.
pub(super) fn by_column(b: &Tensor, scales: &[f32], zeros: Option<&Tensor>) -> Result<Vec<f32>, String> {
    let n = b.shape().last().copied().unwrap_or(1).max(1);
    let wrong = || format!("a weight of {} {:?} with {} scales", b.dtype(), b.shape(), scales.len());
    let zeros = zeros.map(|z| z.to_i128s().ok_or_else(wrong)).transpose()?;
    let pick = |len: usize, i: usize| if len == 1 { 0 } else { i % n };
    b.to_i128s()
        .ok_or_else(wrong)?
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let zero = match &zeros {
                Some(z) => *z.get(pick(z.len(), i)).ok_or_else(wrong)?,
                None => 0,
            };
            Ok((v - zero) as f32 * scales.get(pick(scales.len(), i)).ok_or_else(wrong)?)
        })
        .collect()
}
