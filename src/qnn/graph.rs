//! A QNN graph as data: what is sent to the worker, and what the op tables are asked about. No FFI.

use serde::{Deserialize, Serialize};

use crate::ir::Tensor;

/// `Qnn_DataType_t`: a number, since a newer library may know more than we do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QnnType(pub u32);

impl QnnType {
    pub const INT_8: Self = Self(0x0008);
    pub const INT_16: Self = Self(0x0016);
    pub const INT_32: Self = Self(0x0032);
    pub const INT_64: Self = Self(0x0064);
    pub const UINT_8: Self = Self(0x0108);
    pub const UINT_16: Self = Self(0x0116);
    pub const UINT_32: Self = Self(0x0132);
    pub const UINT_64: Self = Self(0x0164);
    pub const FLOAT_16: Self = Self(0x0216);
    pub const FLOAT_32: Self = Self(0x0232);
    pub const FLOAT_64: Self = Self(0x0264);
    pub const SFIXED_POINT_8: Self = Self(0x0308);
    pub const SFIXED_POINT_16: Self = Self(0x0316);
    pub const SFIXED_POINT_32: Self = Self(0x0332);
    pub const UFIXED_POINT_8: Self = Self(0x0408);
    pub const UFIXED_POINT_16: Self = Self(0x0416);
    pub const UFIXED_POINT_32: Self = Self(0x0432);
    pub const BOOL_8: Self = Self(0x0508);

    const NAMES: [(Self, &'static str); 18] = [
        (Self::INT_8, "INT_8"),
        (Self::INT_16, "INT_16"),
        (Self::INT_32, "INT_32"),
        (Self::INT_64, "INT_64"),
        (Self::UINT_8, "UINT_8"),
        (Self::UINT_16, "UINT_16"),
        (Self::UINT_32, "UINT_32"),
        (Self::UINT_64, "UINT_64"),
        (Self::FLOAT_16, "FLOAT_16"),
        (Self::FLOAT_32, "FLOAT_32"),
        (Self::FLOAT_64, "FLOAT_64"),
        (Self::SFIXED_POINT_8, "SFIXED_POINT_8"),
        (Self::SFIXED_POINT_16, "SFIXED_POINT_16"),
        (Self::SFIXED_POINT_32, "SFIXED_POINT_32"),
        (Self::UFIXED_POINT_8, "UFIXED_POINT_8"),
        (Self::UFIXED_POINT_16, "UFIXED_POINT_16"),
        (Self::UFIXED_POINT_32, "UFIXED_POINT_32"),
        (Self::BOOL_8, "BOOL_8"),
    ];

    /// Bytes of one element (the low two hexadecimal digits of the code are its bits, read as decimal).
    pub fn size(self) -> usize {
        match self.0 & 0xff {
            0x16 => 2,
            0x32 => 4,
            0x64 => 8,
            _ => 1,
        }
    }

    pub fn is_float(self) -> bool {
        self.0 >> 8 == 2
    }

    pub fn is_quantised(self) -> bool {
        matches!(self.0 >> 8, 3 | 4)
    }

    /// The type called `name` (`UFIXED_POINT_8`).
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(t, _)| *t)
    }
}

impl std::fmt::Display for QnnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Self::NAMES.iter().find(|(t, _)| t == self) {
            Some((_, n)) => f.write_str(n),
            None => write!(f, "type {:#06x}", self.0),
        }
    }
}

/// How the integers of a quantised tensor stand for real numbers: `value = (q + offset) * scale`.
/// QNN's offset is minus ONNX's zero point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Quant {
    #[default]
    None,
    PerTensor {
        scale: f32,
        offset: i32,
    },
    PerAxis {
        axis: u32,
        scales: Vec<f32>,
        offsets: Vec<i32>,
    },
    /// Fewer bits than the storage type has (4-bit weights, one per byte).
    BitWidth {
        bits: u32,
        scale: f32,
        offset: i32,
    },
    BitWidthPerAxis {
        bits: u32,
        axis: u32,
        scales: Vec<f32>,
        offsets: Vec<i32>,
    },
    /// A scale and an offset for each block: `weight = (q + offset) * scale`, of `bits` bits in the storage type. `block`
    /// has the block's size along every dim; scales are row-major over the blocks. 16-bit float activations only.
    FloatBlock {
        bits: u32,
        block: Vec<u32>,
        scales: Vec<f32>,
        offsets: Vec<f32>,
    },
    /// Low-power blockwise: `weight = q * channel scale * block scale`; block scales in channel-major order.
    Blockwise {
        axis: u32,
        scales: Vec<f32>,
        offsets: Vec<i32>,
        blocks_per_axis: u32,
        block_scale_bits: u32,
        block_scales: Vec<u8>,
    },
}

/// Names a tensor of one [`QnnGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TensorKind {
    /// An input of the graph.
    AppWrite,
    /// An output of the graph.
    AppRead,
    /// Between two ops.
    Native,
    /// A constant.
    Static,
    /// The placeholder for an omitted optional input.
    Null,
}

/// Elements of a static tensor, made only when they are written for the worker.
#[derive(Clone, Debug)]
pub enum StaticData {
    /// Elements in the tensor's own QNN type, little-endian, row-major.
    Raw(bytes::Bytes),
    /// A constant of the model; axes permuted first (`None`: as they are), then converted to the tensor's QNN type.
    /// The dims of the QNN tensor may regroup the permuted axes, as long as the number of elements is the same.
    Constant { tensor: Tensor, perm: Option<Vec<usize>> },
}

#[derive(Clone, Debug)]
pub struct QnnTensor {
    /// Unique within the graph.
    pub name: String,
    pub kind: TensorKind,
    pub dtype: QnnType,
    /// Never empty on HTP: a scalar is `[1]`.
    pub dims: Vec<u32>,
    pub quant: Quant,
    pub data: Option<StaticData>,
}

impl QnnTensor {
    pub fn elements(&self) -> usize {
        self.dims.iter().map(|&d| d as usize).product()
    }

    pub fn byte_len(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// A scalar parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Scalar {
    Bool(bool),
    U32(u32),
    I32(i32),
    F32(f32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Param {
    Scalar(Scalar),
    /// A small constant array, in the order of `dims`.
    U32s {
        dims: Vec<u32>,
        values: Vec<u32>,
    },
    I32s {
        dims: Vec<u32>,
        values: Vec<i32>,
    },
    F32s {
        dims: Vec<u32>,
        values: Vec<f32>,
    },
}

impl Param {
    pub fn u32(v: u32) -> Self {
        Self::Scalar(Scalar::U32(v))
    }

    pub fn i32(v: i32) -> Self {
        Self::Scalar(Scalar::I32(v))
    }

    pub fn f32(v: f32) -> Self {
        Self::Scalar(Scalar::F32(v))
    }

    pub fn bool(v: bool) -> Self {
        Self::Scalar(Scalar::Bool(v))
    }

    /// A vector of unsigned numbers.
    pub fn u32s(values: &[u32]) -> Self {
        Self::U32s { dims: vec![values.len() as u32], values: values.to_vec() }
    }

    /// Rows of two: `pad_amount` and its like, before and after per axis.
    pub fn pairs(rows: &[[u32; 2]]) -> Self {
        Self::U32s { dims: vec![rows.len() as u32, 2], values: rows.concat() }
    }

    pub fn i32s(values: &[i32]) -> Self {
        Self::I32s { dims: vec![values.len() as u32], values: values.to_vec() }
    }

    /// Rows of three: `ranges` of StridedSlice (begin, end, stride per axis).
    pub fn triples(rows: &[[i32; 3]]) -> Self {
        Self::I32s { dims: vec![rows.len() as u32, 3], values: rows.concat() }
    }
}

/// One QNN op. Producers come before readers in [`QnnGraph::ops`].
#[derive(Clone, Debug)]
pub struct QnnOp {
    /// Unique within the graph.
    pub name: String,
    /// `qti.aisw`, unless the user registered a package of their own.
    pub package: String,
    pub op_type: String,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
    pub params: Vec<(String, Param)>,
    /// The node of the IR graph that it was lowered from.
    pub node: crate::ir::NodeId,
}

#[derive(Clone, Debug, Default)]
pub struct QnnGraph {
    pub name: String,
    pub tensors: Vec<QnnTensor>,
    pub ops: Vec<QnnOp>,
    /// The graph's inputs and outputs, in the order of the model's.
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
}

impl QnnGraph {
    pub fn tensor(&self, id: TensorId) -> &QnnTensor {
        &self.tensors[id.0 as usize]
    }

    pub fn tensor_mut(&mut self, id: TensorId) -> &mut QnnTensor {
        &mut self.tensors[id.0 as usize]
    }
}
