//! Element types of ONNX tensors (`TensorProto.DataType`).

use serde::{Deserialize, Serialize};

/// An ONNX element type. The discriminant is ONNX's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(i32)]
pub enum DataType {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    BF16 = 16,
    F8E4M3FN = 17,
    F8E4M3FNUZ = 18,
    F8E5M2 = 19,
    F8E5M2FNUZ = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
    F6E2M3 = 27,
    F6E3M2 = 28,
}

impl DataType {
    const ALL: [Self; 28] = [
        Self::F32,
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::String,
        Self::Bool,
        Self::F16,
        Self::F64,
        Self::U32,
        Self::U64,
        Self::Complex64,
        Self::Complex128,
        Self::BF16,
        Self::F8E4M3FN,
        Self::F8E4M3FNUZ,
        Self::F8E5M2,
        Self::F8E5M2FNUZ,
        Self::U4,
        Self::I4,
        Self::F4E2M1,
        Self::F8E8M0,
        Self::U2,
        Self::I2,
        Self::F6E2M3,
        Self::F6E3M2,
    ];

    /// The type with ONNX's number `n`, if there is one (0 is "undefined").
    pub fn from_onnx(n: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| *t as i32 == n)
    }

    /// ONNX's number.
    pub fn to_onnx(self) -> i32 {
        self as i32
    }

    /// Bits of one element; 0 for strings, which have no fixed size.
    pub fn bits(self) -> usize {
        match self {
            Self::String => 0,
            Self::U2 | Self::I2 => 2,
            Self::U4 | Self::I4 | Self::F4E2M1 => 4,
            Self::F6E2M3 | Self::F6E3M2 => 6,
            Self::U8
            | Self::I8
            | Self::Bool
            | Self::F8E4M3FN
            | Self::F8E4M3FNUZ
            | Self::F8E5M2
            | Self::F8E5M2FNUZ
            | Self::F8E8M0 => 8,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 16,
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::F64 | Self::I64 | Self::U64 | Self::Complex64 => 64,
            Self::Complex128 => 128,
        }
    }

    /// Bytes that `count` elements take (sub-byte types are packed).
    pub fn bytes_for(self, count: usize) -> usize {
        (count * self.bits()).div_ceil(8)
    }

    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F32
                | Self::F16
                | Self::F64
                | Self::BF16
                | Self::F8E4M3FN
                | Self::F8E4M3FNUZ
                | Self::F8E5M2
                | Self::F8E5M2FNUZ
                | Self::F4E2M1
                | Self::F8E8M0
                | Self::F6E2M3
                | Self::F6E3M2
        )
    }

    /// Signed or unsigned integer, `Bool` not included.
    pub fn is_int(self) -> bool {
        self.is_signed_int() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::U4 | Self::U2)
    }

    pub fn is_signed_int(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::I4 | Self::I2)
    }

    /// The smallest and largest value of an integer type.
    pub fn int_range(self) -> Option<(i128, i128)> {
        if !self.is_int() {
            return None;
        }
        let bits = self.bits() as u32;
        Some(if self.is_signed_int() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        })
    }

    /// The name that ONNX documents and Python users know (`float16`, `int64`).
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::String => "string",
            Self::Bool => "bool",
            Self::F16 => "float16",
            Self::F64 => "float64",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::BF16 => "bfloat16",
            Self::F8E4M3FN => "float8e4m3fn",
            Self::F8E4M3FNUZ => "float8e4m3fnuz",
            Self::F8E5M2 => "float8e5m2",
            Self::F8E5M2FNUZ => "float8e5m2fnuz",
            Self::U4 => "uint4",
            Self::I4 => "int4",
            Self::F4E2M1 => "float4e2m1",
            Self::F8E8M0 => "float8e8m0",
            Self::U2 => "uint2",
            Self::I2 => "int2",
            Self::F6E2M3 => "float6e2m3",
            Self::F6E3M2 => "float6e3m2",
        }
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
