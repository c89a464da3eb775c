//! NumPy's `.npy` format, versions 1 to 3: numbers and booleans.

use bytes::Bytes;

use crate::ir::{DataType, Tensor, transpose_bytes};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Why an array cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    #[error("not a .npy array")]
    Magic,
    #[error("version {0} of the .npy format is not known")]
    Version(u8),
    #[error("the header of the array is damaged")]
    Header,
    #[error("arrays of NumPy type {0:?} are not read; use little-endian numbers or booleans")]
    Type(String),
    #[error("the array has {found} bytes of elements; its shape and type need {need}")]
    Length { need: usize, found: usize },
}

/// Reads an array; one in Fortran order is brought into C order.
pub fn read_npy(data: &[u8]) -> Result<Tensor, NpyError> {
    let rest = data.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let (&version, rest) = rest.split_first().ok_or(NpyError::Magic)?;
    let rest = rest.get(1..).ok_or(NpyError::Magic)?;
    let (len, rest) = match version {
        1 => {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or(NpyError::Header)?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        2 | 3 => {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or(NpyError::Header)?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        v => return Err(NpyError::Version(v)),
    };
    let header = rest.get(..len).ok_or(NpyError::Header)?;
    let elements = &rest[len..];
    let header = std::str::from_utf8(header).map_err(|_| NpyError::Header)?;

    let dtype = dtype(text_after(header, "descr")?)?;
    let fortran = after(header, "fortran_order")?.starts_with("True");
    let shape = shape(after(header, "shape")?)?;
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or(NpyError::Header)?;
    let need = count.checked_mul(dtype.bits() / 8).ok_or(NpyError::Header)?;
    let wrong = NpyError::Length { need, found: elements.len() };
    if elements.len() != need {
        return Err(wrong);
    }
    if fortran && shape.len() > 1 {
        // The file holds the transposed array in C order.
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        let perm: Vec<usize> = (0..shape.len()).rev().collect();
        let moved = transpose_bytes(elements, dtype.bits() / 8, &reversed, &perm);
        return Tensor::from_raw(dtype, shape, Bytes::from(moved)).ok_or(wrong);
    }
    Tensor::from_raw(dtype, shape, Bytes::copy_from_slice(elements)).ok_or(wrong)
}

/// What stands after `'key':` in the header, a Python dictionary.
fn after<'h>(header: &'h str, key: &str) -> Result<&'h str, NpyError> {
    let at = header.find(&format!("'{key}'")).ok_or(NpyError::Header)?;
    let rest = header[at + key.len() + 2..].trim_start();
    Ok(rest.strip_prefix(':').ok_or(NpyError::Header)?.trim_start())
}

fn text_after<'h>(header: &'h str, key: &str) -> Result<&'h str, NpyError> {
    let rest = after(header, key)?;
    if !rest.starts_with('\'') {
        // A list: a record type.
        return Err(NpyError::Type(rest.chars().take(40).collect()));
    }
    rest[1..].split('\'').next().ok_or(NpyError::Header)
}

fn dtype(descr: &str) -> Result<DataType, NpyError> {
    Ok(match descr {
        "<f4" => DataType::F32,
        "<f2" => DataType::F16,
        "<f8" => DataType::F64,
        "|i1" => DataType::I8,
        "|u1" => DataType::U8,
        "|b1" => DataType::Bool,
        "<i2" => DataType::I16,
        "<u2" => DataType::U16,
        "<i4" => DataType::I32,
        "<u4" => DataType::U32,
        "<i8" => DataType::I64,
        "<u8" => DataType::U64,
        other => return Err(NpyError::Type(other.into())),
    })
}

/// `(1, 3, 224, 224)`, `(3,)`, `()`
fn shape(text: &str) -> Result<Vec<usize>, NpyError> {
    let inner = text.strip_prefix('(').and_then(|t| t.split(')').next()).ok_or(NpyError::Header)?;
    inner.split(',').map(str::trim).filter(|d| !d.is_empty()).map(|d| d.parse().map_err(|_| NpyError::Header)).collect()
}

/// The array in `.npy` form.
#[cfg(test)]
pub(super) fn write_npy(t: &Tensor) -> Vec<u8> {
    let descr = match t.dtype() {
        DataType::F32 => "<f4",
        DataType::I64 => "<i8",
        DataType::Bool => "|b1",
        d => panic!("{d}"),
    };
    let dims: Vec<String> = t.shape().iter().map(ToString::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let dims = dims.join(", ");
    npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}{comma}), }}"), &t.bytes())
}

#[cfg(test)]
fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(elements);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_round_trip() {
        for t in [
            Tensor::from_f32(vec![2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            Tensor::from_i64(vec![], &[7]),
            Tensor::from_i64(vec![0], &[]),
            Tensor::from_bools(vec![3], &[true, false, true]),
        ] {
            assert_eq!(read_npy(&write_npy(&t)).unwrap(), t);
        }
    }

    #[test]
    fn fortran_order_is_turned() {
        let bytes: Vec<u8> = [1i32, 4, 2, 5, 3, 6].iter().flat_map(|v| v.to_le_bytes()).collect();
        let data = npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", &bytes);
        assert_eq!(read_npy(&data).unwrap().to_i64s().unwrap(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn damaged_arrays_are_refused() {
        let e = |header: &str, bytes: &[u8]| read_npy(&npy(header, bytes)).unwrap_err();
        assert_eq!(read_npy(b"PK\x03\x04"), Err(NpyError::Magic));
        assert_eq!(read_npy(MAGIC), Err(NpyError::Magic));
        assert_eq!(read_npy(b"\x93NUMPY\x01\x00\xff\xff{"), Err(NpyError::Header));
        assert_eq!(e("{}", b""), NpyError::Header);
        let big = "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }";
        assert_eq!(e(big, b"1234"), NpyError::Type(">f4".into()));
        let short = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(e(short, b"1234"), NpyError::Length { need: 8, found: 4 });
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 16), }";
        assert_eq!(e(huge, b""), NpyError::Header);
    }
}
