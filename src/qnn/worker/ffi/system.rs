//! libQnnSystem: what is inside a context binary.

use std::ffi::{CStr, c_char};
use std::path::Path;

use qnn_sys::{
    CallError, LoadError, Qnn_QuantizationEncoding_t, Qnn_QuantizeParams_t, Qnn_Tensor_t, Qnn_TensorVersion_t,
    Qnn_Version_t, QnnHtpSystemContext_ContextBlobInfo_t, QnnHtpSystemContext_GraphBlobInfo_t,
    QnnSystemContext_BinaryInfo_t, QnnSystemContext_BinaryInfoVersion_t, QnnSystemContext_GraphInfo_t,
    QnnSystemContext_GraphInfoVersion_t, SystemInterface, call,
};

use crate::qnn::graph::{QnnType, Quant};
use crate::qnn::protocol::{BinaryInfo, GraphInfo, TensorInfo};

/// Backend id of HTP, whose metadata we know.
const HTP: u32 = 6;
/// More graphs or tensors than this in a binary are taken for damage.
const MANY: u32 = 1 << 16;

/// The loaded libQnnSystem.
#[derive(Debug)]
pub struct System {
    interface: SystemInterface,
}

impl System {
    pub fn load(library: &Path) -> Result<Self, LoadError> {
        Ok(Self { interface: SystemInterface::load(library)? })
    }

    /// Reads the description of a context binary.
    pub fn binary_info(&self, binary: &[u8]) -> Result<BinaryInfo, CallError> {
        let mut handle = std::ptr::null_mut();
        call!(self.interface, systemContextCreate(&raw mut handle))?;
        let mut info = std::ptr::null();
        let (data, len) = (binary.as_ptr().cast(), binary.len() as u64);
        call!(self.interface, systemContextGetMetaData(handle, data, len, &raw mut info))?;
        // SAFETY: on success it points to a description that lives as long as the handle, which is never freed.
        let info = unsafe { info.as_ref() };
        Ok(info.map(read_binary).unwrap_or_default())
    }
}

fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the library's strings are NUL-terminated and live as long as the handle.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// `count` elements at `pointer`; none for NULL.
fn slice<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    if pointer.is_null() || count > MANY {
        return &[];
    }
    // SAFETY: the library's arrays have the length that stands beside them.
    unsafe { std::slice::from_raw_parts(pointer, count as usize) }
}

fn version(v: Qnn_Version_t) -> String {
    format!("{}.{}.{}", v.major, v.minor, v.patch)
}

fn read_binary(info: &QnnSystemContext_BinaryInfo_t) -> BinaryInfo {
    use QnnSystemContext_BinaryInfoVersion_t as V;
    // SAFETY: the version says which variant is active; 2 begins like 1.
    unsafe {
        match info.version {
            V::QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 | V::QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2 => {
                let i = &info.u.contextBinaryInfoV1;
                BinaryInfo {
                    backend_id: i.backendId,
                    build_id: text(i.buildId),
                    core_version: version(i.coreApiVersion),
                    backend_version: version(i.backendApiVersion),
                    blob_version: version(i.contextBlobVersion),
                    blob_bytes: i.contextBlobSize,
                    soc_model: None,
                    dsp_arch: None,
                    graphs: slice(i.graphs, i.numGraphs).iter().map(|g| read_graph(g, i.backendId)).collect(),
                }
            }
            V::QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3 => {
                let i = &info.u.contextBinaryInfoV3;
                let enough = i.contextMetadataSize as usize >= size_of::<QnnHtpSystemContext_ContextBlobInfo_t>();
                let meta = i.contextMetadata.cast::<QnnHtpSystemContext_ContextBlobInfo_t>();
                let known = i.backendId == HTP && enough && !meta.is_null();
                BinaryInfo {
                    backend_id: i.backendId,
                    build_id: text(i.buildId),
                    core_version: version(i.coreApiVersion),
                    backend_version: version(i.backendApiVersion),
                    blob_version: version(i.contextBlobVersion),
                    blob_bytes: i.contextBlobSize,
                    soc_model: Some(i.socModel),
                    dsp_arch: known.then(|| (*meta).u.contextBinaryContextBlobInfoV1.dspArch),
                    graphs: slice(i.graphs, i.numGraphs).iter().map(|g| read_graph(g, i.backendId)).collect(),
                }
            }
            _ => BinaryInfo::default(),
        }
    }
}

fn read_graph(info: &QnnSystemContext_GraphInfo_t, backend: u32) -> GraphInfo {
    use QnnSystemContext_GraphInfoVersion_t as V;
    let tensors = |pointer, count| slice::<Qnn_Tensor_t>(pointer, count).iter().map(read_tensor).collect();
    // SAFETY: the version says which variant is active; 2 and 3 begin like 1.
    unsafe {
        if !matches!(
            info.version,
            V::QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1
                | V::QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2
                | V::QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3
        ) {
            return GraphInfo::default();
        }
        let common = &info.u.graphInfoV1;
        let mut graph = GraphInfo {
            name: text(common.graphName),
            inputs: tensors(common.graphInputs, common.numGraphInputs),
            outputs: tensors(common.graphOutputs, common.numGraphOutputs),
            ..GraphInfo::default()
        };
        if info.version == V::QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3 && backend == HTP {
            let v3 = &info.u.graphInfoV3;
            let blob = v3.graphBlobInfo.cast::<QnnHtpSystemContext_GraphBlobInfo_t>();
            if !blob.is_null() && v3.graphBlobInfoSize as usize >= size_of::<QnnHtpSystemContext_GraphBlobInfo_t>() {
                let b = (*blob).u.contextBinaryGraphBlobInfoV1;
                graph.vtcm_bytes = Some(b.vtcmSize);
                graph.optimisation = Some(b.optimizationLevel);
                graph.hvx_threads = Some(b.numHvxThreads);
                graph.spill_fill_bytes = Some(b.spillFillBufferSize);
            }
        }
        graph
    }
}

fn read_tensor(tensor: &Qnn_Tensor_t) -> TensorInfo {
    let known =
        matches!(tensor.version, Qnn_TensorVersion_t::QNN_TENSOR_VERSION_1 | Qnn_TensorVersion_t::QNN_TENSOR_VERSION_2);
    if !known {
        return TensorInfo { id: 0, name: String::new(), dtype: QnnType(0), dims: vec![], quant: Quant::None };
    }
    // SAFETY: version 2 begins like version 1.
    let v1 = unsafe { &tensor.u.v1 };
    TensorInfo {
        id: v1.id,
        name: text(v1.name),
        dtype: QnnType(v1.dataType.0),
        dims: slice(v1.dimensions, v1.rank).to_vec(),
        quant: read_quant(&v1.quantizeParams),
    }
}

/// Encodings that inputs and outputs have; others come out as none.
fn read_quant(q: &Qnn_QuantizeParams_t) -> Quant {
    use Qnn_QuantizationEncoding_t as E;
    if q.encodingDefinition != qnn_sys::Qnn_Definition_t::QNN_DEFINITION_DEFINED {
        return Quant::None;
    }
    // SAFETY: the encoding says which variant is active.
    unsafe {
        match q.quantizationEncoding {
            E::QNN_QUANTIZATION_ENCODING_SCALE_OFFSET => {
                let s = q.u.scaleOffsetEncoding;
                Quant::PerTensor { scale: s.scale, offset: s.offset }
            }
            E::QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET => {
                let a = q.u.axisScaleOffsetEncoding;
                let all = slice(a.scaleOffset, a.numScaleOffsets);
                Quant::PerAxis {
                    axis: a.axis as u32,
                    scales: all.iter().map(|s| s.scale).collect(),
                    offsets: all.iter().map(|s| s.offset).collect(),
                }
            }
            E::QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET => {
                let b = q.u.bwScaleOffsetEncoding;
                Quant::BitWidth { bits: b.bitwidth, scale: b.scale, offset: b.offset }
            }
            _ => Quant::None,
        }
    }
}
