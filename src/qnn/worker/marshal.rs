//! Graph data as the C structures of the ABI. Filling them in is safe; only calls that read them are not.

use std::any::Any;
use std::ffi::{CString, c_char};

use qnn_sys::{
    Qnn_AxisScaleOffset_t, Qnn_BlockwiseExpansion_t, Qnn_BlockwiseExpansion_t__bindgen_ty_1,
    Qnn_BlockwiseExpansionBlockScaleStorageType_t, Qnn_BwAxisScaleOffset_t, Qnn_BwFloatBlockEncoding_t,
    Qnn_BwScaleOffset_t, Qnn_ClientBuffer_t, Qnn_DataType_t, Qnn_Definition_t, Qnn_FloatScaleOffset_t, Qnn_OpConfig_t,
    Qnn_OpConfig_t__bindgen_ty_1, Qnn_OpConfigV1_t, Qnn_OpConfigVersion_t, Qnn_Param_t, Qnn_Param_t__bindgen_ty_1,
    Qnn_ParamType_t, Qnn_QuantizationEncoding_t, Qnn_QuantizeParams_t, Qnn_QuantizeParams_t__bindgen_ty_1,
    Qnn_Scalar_t, Qnn_Scalar_t__bindgen_ty_1, Qnn_ScaleOffset_t, Qnn_Tensor_t, Qnn_Tensor_t__bindgen_ty_1,
    Qnn_TensorMemType_t, Qnn_TensorType_t, Qnn_TensorV1_t, Qnn_TensorV1_t__bindgen_ty_1, Qnn_TensorVersion_t,
};

use super::state::Fault;
use crate::qnn::graph::{Param, QnnType, Quant, Scalar, TensorKind};
use crate::qnn::protocol::{WireOp, WireTensor};

/// Owns what the structures point to. A pointer from here is valid as long as the store lives.
#[derive(Debug, Default)]
pub struct Store {
    kept: Vec<Box<dyn Any>>,
}

impl Store {
    /// Keeps an array and says where it is; the address does not change when the store moves. NULL when empty.
    pub fn keep<T: 'static>(&mut self, mut values: Vec<T>) -> *mut T {
        if values.is_empty() {
            return std::ptr::null_mut();
        }
        let pointer = values.as_mut_ptr();
        self.kept.push(Box::new(values));
        pointer
    }

    pub fn text(&mut self, text: &str) -> Result<*const c_char, Fault> {
        let text = CString::new(text).map_err(|_| Fault::request(format!("{text:?} has a NUL in it")))?;
        Ok(self.keep(text.into_bytes_with_nul()).cast::<c_char>().cast_const())
    }
}

/// Elements handed over with a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub pointer: *mut std::ffi::c_void,
    pub len: u32,
}

impl Data {
    pub const NONE: Self = Self { pointer: std::ptr::null_mut(), len: 0 };
}

/// A tensor without its elements.
pub fn tensor(store: &mut Store, t: &WireTensor) -> Result<Qnn_Tensor_t, Fault> {
    let name = store.text(&t.name)?;
    let kind = match t.kind {
        TensorKind::AppWrite => Qnn_TensorType_t::QNN_TENSOR_TYPE_APP_WRITE,
        TensorKind::AppRead => Qnn_TensorType_t::QNN_TENSOR_TYPE_APP_READ,
        TensorKind::Native => Qnn_TensorType_t::QNN_TENSOR_TYPE_NATIVE,
        TensorKind::Static => Qnn_TensorType_t::QNN_TENSOR_TYPE_STATIC,
        TensorKind::Null => Qnn_TensorType_t::QNN_TENSOR_TYPE_NULL,
    };
    let quant = quantise_params(store, &t.quant);
    Ok(tensor_v1(store, name, kind, t.dtype, &t.dims, quant, Data::NONE))
}

/// The tensor with its elements.
pub fn with_data(tensor: Qnn_TensorV1_t, data: Data) -> Qnn_Tensor_t {
    let client_buf = Qnn_ClientBuffer_t { data: data.pointer, dataSize: data.len };
    version_1(Qnn_TensorV1_t { u: Qnn_TensorV1_t__bindgen_ty_1 { clientBuf: client_buf }, ..tensor })
}

fn version_1(v1: Qnn_TensorV1_t) -> Qnn_Tensor_t {
    Qnn_Tensor_t { version: Qnn_TensorVersion_t::QNN_TENSOR_VERSION_1, u: Qnn_Tensor_t__bindgen_ty_1 { v1 } }
}

fn tensor_v1(
    store: &mut Store,
    name: *const c_char,
    kind: Qnn_TensorType_t,
    dtype: QnnType,
    dims: &[u32],
    quant: Qnn_QuantizeParams_t,
    data: Data,
) -> Qnn_Tensor_t {
    version_1(Qnn_TensorV1_t {
        id: 0,
        name,
        type_: kind,
        dataFormat: 0,
        dataType: Qnn_DataType_t(dtype.0),
        quantizeParams: quant,
        rank: dims.len() as u32,
        dimensions: store.keep(dims.to_vec()),
        memType: Qnn_TensorMemType_t::QNN_TENSORMEMTYPE_RAW,
        u: Qnn_TensorV1_t__bindgen_ty_1 { clientBuf: Qnn_ClientBuffer_t { data: data.pointer, dataSize: data.len } },
    })
}

fn scale_offsets(scales: &[f32], offsets: &[i32]) -> Vec<Qnn_ScaleOffset_t> {
    let offsets = offsets.iter().copied().chain(std::iter::repeat(0));
    scales.iter().zip(offsets).map(|(&scale, offset)| Qnn_ScaleOffset_t { scale, offset }).collect()
}

fn quantise_params(store: &mut Store, quant: &Quant) -> Qnn_QuantizeParams_t {
    use Qnn_QuantizationEncoding_t as E;
    use Qnn_QuantizeParams_t__bindgen_ty_1 as U;
    let (encoding, u) = match quant {
        Quant::None => {
            return Qnn_QuantizeParams_t {
                encodingDefinition: Qnn_Definition_t::QNN_DEFINITION_UNDEFINED,
                quantizationEncoding: E::QNN_QUANTIZATION_ENCODING_UNDEFINED,
                u: U { scaleOffsetEncoding: Qnn_ScaleOffset_t { scale: 0.0, offset: 0 } },
            };
        }
        Quant::PerTensor { scale, offset } => (
            E::QNN_QUANTIZATION_ENCODING_SCALE_OFFSET,
            U { scaleOffsetEncoding: Qnn_ScaleOffset_t { scale: *scale, offset: *offset } },
        ),
        Quant::PerAxis { axis, scales, offsets } => (
            E::QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET,
            U {
                axisScaleOffsetEncoding: Qnn_AxisScaleOffset_t {
                    axis: *axis as i32,
                    numScaleOffsets: scales.len() as u32,
                    scaleOffset: store.keep(scale_offsets(scales, offsets)),
                },
            },
        ),
        Quant::BitWidth { bits, scale, offset } => (
            E::QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET,
            U { bwScaleOffsetEncoding: Qnn_BwScaleOffset_t { bitwidth: *bits, scale: *scale, offset: *offset } },
        ),
        Quant::BitWidthPerAxis { bits, axis, scales, offsets } => (
            E::QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET,
            U {
                bwAxisScaleOffsetEncoding: Qnn_BwAxisScaleOffset_t {
                    bitwidth: *bits,
                    axis: *axis as i32,
                    numElements: scales.len() as u32,
                    scales: store.keep(scales.clone()),
                    offsets: store.keep(offsets.clone()),
                },
            },
        ),
        Quant::FloatBlock { bits, block, scales, offsets } => {
            let rows = scales.iter().zip(offsets).map(|(&scale, &offset)| Qnn_FloatScaleOffset_t { scale, offset });
            let encoding = Qnn_BwFloatBlockEncoding_t {
                bitwidth: *bits,
                blockSize: store.keep(block.clone()),
                floatScaleOffset: store.keep(rows.collect()),
            };
            (E::QNN_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK, U { bwFloatBlockEncoding: encoding })
        }
        Quant::Blockwise { axis, scales, offsets, blocks_per_axis, block_scale_bits, block_scales } => {
            let expansion = Qnn_BlockwiseExpansion_t {
                axis: *axis as i32,
                scaleOffsets: store.keep(scale_offsets(scales, offsets)),
                numBlocksPerAxis: *blocks_per_axis,
                blockScaleBitwidth: *block_scale_bits,
                blockScaleStorageType:
                    Qnn_BlockwiseExpansionBlockScaleStorageType_t::QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8,
                u: Qnn_BlockwiseExpansion_t__bindgen_ty_1 { blocksScale8: store.keep(block_scales.clone()) },
            };
            (E::QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION, U { blockwiseExpansion: store.keep(vec![expansion]) })
        }
    };
    Qnn_QuantizeParams_t {
        encodingDefinition: Qnn_Definition_t::QNN_DEFINITION_DEFINED,
        quantizationEncoding: encoding,
        u,
    }
}

/// A parameter; a tensor parameter's name in the graph is made from `op` and is unique if ops' names are.
fn param(store: &mut Store, op: &str, name: &str, value: &Param) -> Result<Qnn_Param_t, Fault> {
    use Qnn_Scalar_t__bindgen_ty_1 as U;
    let scalar = match value {
        Param::Scalar(Scalar::Bool(v)) => Some((QnnType::BOOL_8, U { uint64Value: u64::from(*v) })),
        Param::Scalar(Scalar::U32(v)) => Some((QnnType::UINT_32, U { uint64Value: u64::from(*v) })),
        Param::Scalar(Scalar::I32(v)) => Some((QnnType::INT_32, U { uint64Value: u64::from(*v as u32) })),
        Param::Scalar(Scalar::F32(v)) => Some((QnnType::FLOAT_32, U { uint64Value: u64::from(v.to_bits()) })),
        _ => None,
    };
    let c_name = store.text(name)?;
    if let Some((dtype, u)) = scalar {
        return Ok(Qnn_Param_t {
            paramType: Qnn_ParamType_t::QNN_PARAMTYPE_SCALAR,
            name: c_name,
            u: Qnn_Param_t__bindgen_ty_1 { scalarParam: Qnn_Scalar_t { dataType: Qnn_DataType_t(dtype.0), u } },
        });
    }
    let (dtype, dims, bits): (_, _, Vec<u32>) = match value {
        Param::U32s { dims, values } => (QnnType::UINT_32, dims, values.clone()),
        Param::I32s { dims, values } => (QnnType::INT_32, dims, values.iter().map(|&v| v as u32).collect()),
        Param::F32s { dims, values } => (QnnType::FLOAT_32, dims, values.iter().map(|v| v.to_bits()).collect()),
        Param::Scalar(_) => return Err(Fault::request(format!("parameter {name} has no form"))),
    };
    let tensor_name = store.text(&format!("{op}:{name}"))?;
    let len = bits.len() as u32 * 4;
    let data = Data { pointer: store.keep(bits).cast(), len };
    let quant = quantise_params(store, &Quant::None);
    let kind = Qnn_TensorType_t::QNN_TENSOR_TYPE_STATIC;
    let tensor = tensor_v1(store, tensor_name, kind, dtype, dims, quant, data);
    Ok(Qnn_Param_t {
        paramType: Qnn_ParamType_t::QNN_PARAMTYPE_TENSOR,
        name: c_name,
        u: Qnn_Param_t__bindgen_ty_1 { tensorParam: tensor },
    })
}

/// An op ready to be passed on. What it points to lives as long as this.
pub struct Op {
    store: Store,
    name: *const c_char,
    package: *const c_char,
    kind: *const c_char,
    /// Tensor parameters must be created in the graph before the op is added.
    pub params: Vec<Qnn_Param_t>,
    inputs: Vec<Qnn_Tensor_t>,
    outputs: Vec<Qnn_Tensor_t>,
}

impl Op {
    /// `tensors` are those of the whole graph, in the order of their ids; they must outlive the op.
    pub fn new(op: &WireOp, tensors: &[Qnn_Tensor_t]) -> Result<Self, Fault> {
        let mut store = Store::default();
        let pick = |ids: &[crate::qnn::graph::TensorId]| -> Result<Vec<Qnn_Tensor_t>, Fault> {
            ids.iter()
                .map(|id| {
                    tensors
                        .get(id.0 as usize)
                        .copied()
                        .ok_or_else(|| Fault::request(format!("op {}: there is no tensor {}", op.name, id.0)))
                })
                .collect()
        };
        Ok(Self {
            name: store.text(&op.name)?,
            package: store.text(&op.package)?,
            kind: store.text(&op.op_type)?,
            params: op
                .params
                .iter()
                .map(|(name, value)| param(&mut store, &op.name, name, value))
                .collect::<Result<_, _>>()?,
            inputs: pick(&op.inputs)?,
            outputs: pick(&op.outputs)?,
            store,
        })
    }

    /// The structure; its pointers are into `self`.
    pub fn raw(&mut self) -> Qnn_OpConfig_t {
        let _ = &self.store;
        let v1 = Qnn_OpConfigV1_t {
            name: self.name,
            packageName: self.package,
            typeName: self.kind,
            numOfParams: self.params.len() as u32,
            params: self.params.as_mut_ptr(),
            numOfInputs: self.inputs.len() as u32,
            inputTensors: self.inputs.as_mut_ptr(),
            numOfOutputs: self.outputs.len() as u32,
            outputTensors: self.outputs.as_mut_ptr(),
        };
        Qnn_OpConfig_t {
            version: Qnn_OpConfigVersion_t::QNN_OPCONFIG_VERSION_1,
            u: Qnn_OpConfig_t__bindgen_ty_1 { v1 },
        }
    }
}
