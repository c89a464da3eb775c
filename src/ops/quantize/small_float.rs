//! Values of 8-bit and 4-bit floats.

use crate::ir::{DataType, Tensor};

/// The value of `bits` (sign, exponent, mantissa) of a float without infinities; subnormals included.
fn decode(bits: u8, exponent_bits: u32, mantissa_bits: u32, bias: i32) -> f64 {
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1));
    let exponent = i32::from((bits >> mantissa_bits) & ((1 << exponent_bits) - 1));
    let negative = bits >> (mantissa_bits + exponent_bits) & 1 == 1;
    let scale = f64::from(1u32 << mantissa_bits);
    let size = if exponent == 0 {
        mantissa / scale * f64::powi(2.0, 1 - bias)
    } else {
        (1.0 + mantissa / scale) * f64::powi(2.0, exponent - bias)
    };
    if negative { -size } else { size }
}

fn value(dtype: DataType, bits: u8) -> Option<f64> {
    Some(match dtype {
        DataType::F8E4M3FN if bits & 0x7f == 0x7f => f64::NAN,
        DataType::F8E4M3FN => decode(bits, 4, 3, 7),
        DataType::F8E4M3FNUZ | DataType::F8E5M2FNUZ if bits == 0x80 => f64::NAN,
        DataType::F8E4M3FNUZ => decode(bits, 4, 3, 8),
        DataType::F8E5M2FNUZ => decode(bits, 5, 2, 16),
        DataType::F8E5M2 if bits & 0x7f == 0x7c => {
            if bits & 0x80 == 0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
        DataType::F8E5M2 if bits & 0x7f > 0x7c => f64::NAN,
        DataType::F8E5M2 => decode(bits, 5, 2, 15),
        DataType::F8E8M0 if bits == 0xff => f64::NAN,
        DataType::F8E8M0 => f64::powi(2.0, i32::from(bits) - 127),
        DataType::F4E2M1 => decode(bits & 0xf, 2, 1, 1),
        _ => return None,
    })
}

/// All elements as 64-bit floats, small floats included.
pub(super) fn values(t: &Tensor) -> Option<Vec<f64>> {
    match t.dtype() {
        DataType::F4E2M1 => {
            let bytes = t.bytes();
            (0..t.len()).map(|i| value(t.dtype(), bytes.get(i / 2)? >> (i % 2 * 4))).collect()
        }
        d if d.is_float() && d.bits() == 8 => t.bytes().iter().map(|b| value(d, *b)).collect(),
        _ => t.to_f64s(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format() {
        let of = |d, bits: &[u8]| bits.iter().map(|b| value(d, *b).unwrap()).collect::<Vec<_>>();
        assert_eq!(of(DataType::F8E4M3FN, &[0x38, 0xb8, 0x01, 0x7e, 0x08]), [1.0, -1.0, 0.001953125, 448.0, 0.015625]);
        assert_eq!(
            of(DataType::F8E5M2, &[0x3c, 0x7b, 0x01, 0xfc]),
            [1.0, 57344.0, f64::powi(2.0, -16), f64::NEG_INFINITY]
        );
        assert_eq!(of(DataType::F8E4M3FNUZ, &[0x40, 0x7f]), [1.0, 240.0]);
        assert_eq!(of(DataType::F8E5M2FNUZ, &[0x40, 0x7f]), [1.0, 57344.0]);
        assert_eq!(of(DataType::F8E8M0, &[127, 130]), [1.0, 8.0]);
        assert_eq!(of(DataType::F4E2M1, &[0, 1, 2, 3, 4, 5, 6, 7, 9]), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5]);
        assert!(value(DataType::F8E4M3FN, 0xff).unwrap().is_nan());
        assert!(value(DataType::F8E5M2FNUZ, 0x80).unwrap().is_nan());
    }

    #[test]
    fn packed_elements_come_low_half_first() {
        let t = Tensor::from_raw(DataType::F4E2M1, vec![3], bytes::Bytes::from_static(&[0x71, 0x02])).unwrap();
        assert_eq!(values(&t).unwrap(), [0.5, 6.0, 1.0]);
    }
}
