// Made by bindgen from qnn.h: see tests/bindings.rs.

pub type Qnn_ErrorHandle_t = u64;
pub type Qnn_BackendHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_DeviceHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_ContextHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_GraphHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_LogHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_ProfileHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_SignalHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_MemHandle_t = *mut ::std::os::raw::c_void;
pub type Qnn_ContextBinarySize_t = u64;
pub type Qnn_TensorDataFormat_t = u32;
pub type QnnSystemContext_Handle_t = *mut ::std::os::raw::c_void;
pub type Qnn_VaList_t = *mut ::std::os::raw::c_void;
impl Qnn_DataType_t {
    pub const QNN_DATATYPE_INT_2: Qnn_DataType_t = Qnn_DataType_t(2);
    pub const QNN_DATATYPE_INT_4: Qnn_DataType_t = Qnn_DataType_t(4);
    pub const QNN_DATATYPE_INT_8: Qnn_DataType_t = Qnn_DataType_t(8);
    pub const QNN_DATATYPE_INT_16: Qnn_DataType_t = Qnn_DataType_t(22);
    pub const QNN_DATATYPE_INT_32: Qnn_DataType_t = Qnn_DataType_t(50);
    pub const QNN_DATATYPE_INT_64: Qnn_DataType_t = Qnn_DataType_t(100);
    pub const QNN_DATATYPE_UINT_2: Qnn_DataType_t = Qnn_DataType_t(258);
    pub const QNN_DATATYPE_UINT_4: Qnn_DataType_t = Qnn_DataType_t(260);
    pub const QNN_DATATYPE_UINT_8: Qnn_DataType_t = Qnn_DataType_t(264);
    pub const QNN_DATATYPE_UINT_16: Qnn_DataType_t = Qnn_DataType_t(278);
    pub const QNN_DATATYPE_UINT_32: Qnn_DataType_t = Qnn_DataType_t(306);
    pub const QNN_DATATYPE_UINT_64: Qnn_DataType_t = Qnn_DataType_t(356);
    pub const QNN_DATATYPE_FLOAT_4: Qnn_DataType_t = Qnn_DataType_t(516);
    pub const QNN_DATATYPE_FLOAT_8: Qnn_DataType_t = Qnn_DataType_t(520);
    pub const QNN_DATATYPE_FLOAT_16: Qnn_DataType_t = Qnn_DataType_t(534);
    pub const QNN_DATATYPE_BFLOAT_16: Qnn_DataType_t = Qnn_DataType_t(550);
    pub const QNN_DATATYPE_FLOAT_32: Qnn_DataType_t = Qnn_DataType_t(562);
    pub const QNN_DATATYPE_FLOAT_64: Qnn_DataType_t = Qnn_DataType_t(612);
    pub const QNN_DATATYPE_SFIXED_POINT_2: Qnn_DataType_t = Qnn_DataType_t(770);
    pub const QNN_DATATYPE_SFIXED_POINT_4: Qnn_DataType_t = Qnn_DataType_t(772);
    pub const QNN_DATATYPE_SFIXED_POINT_8: Qnn_DataType_t = Qnn_DataType_t(776);
    pub const QNN_DATATYPE_SFIXED_POINT_16: Qnn_DataType_t = Qnn_DataType_t(790);
    pub const QNN_DATATYPE_SFIXED_POINT_32: Qnn_DataType_t = Qnn_DataType_t(818);
    pub const QNN_DATATYPE_UFIXED_POINT_2: Qnn_DataType_t = Qnn_DataType_t(1026);
    pub const QNN_DATATYPE_UFIXED_POINT_4: Qnn_DataType_t = Qnn_DataType_t(1028);
    pub const QNN_DATATYPE_UFIXED_POINT_8: Qnn_DataType_t = Qnn_DataType_t(1032);
    pub const QNN_DATATYPE_UFIXED_POINT_16: Qnn_DataType_t = Qnn_DataType_t(1046);
    pub const QNN_DATATYPE_UFIXED_POINT_32: Qnn_DataType_t = Qnn_DataType_t(1074);
    pub const QNN_DATATYPE_BOOL_8: Qnn_DataType_t = Qnn_DataType_t(1288);
    pub const QNN_DATATYPE_STRING: Qnn_DataType_t = Qnn_DataType_t(1544);
    pub const QNN_DATATYPE_UNDEFINED: Qnn_DataType_t = Qnn_DataType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_DataType_t(pub ::std::os::raw::c_uint);
impl Qnn_Definition_t {
    pub const QNN_DEFINITION_IMPL_GENERATED: Qnn_Definition_t = Qnn_Definition_t(0);
    pub const QNN_DEFINITION_DEFINED: Qnn_Definition_t = Qnn_Definition_t(1);
    pub const QNN_DEFINITION_UNDEFINED: Qnn_Definition_t = Qnn_Definition_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_Definition_t(pub ::std::os::raw::c_uint);
impl Qnn_QuantizationEncoding_t {
    pub const QNN_QUANTIZATION_ENCODING_SCALE_OFFSET: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(0);
    pub const QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(1);
    pub const QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(2);
    pub const QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET: Qnn_QuantizationEncoding_t =
        Qnn_QuantizationEncoding_t(3);
    pub const QNN_QUANTIZATION_ENCODING_BLOCK: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(4);
    pub const QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(5);
    pub const QNN_QUANTIZATION_ENCODING_VECTOR: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(6);
    pub const QNN_QUANTIZATION_ENCODING_FLOAT_BLOCK: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(7);
    pub const QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED: Qnn_QuantizationEncoding_t =
        Qnn_QuantizationEncoding_t(8);
    pub const QNN_QUANTIZATION_ENCODING_BW_BLOCK_MAPPED: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(9);
    pub const QNN_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED: Qnn_QuantizationEncoding_t =
        Qnn_QuantizationEncoding_t(10);
    pub const QNN_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(11);
    pub const QNN_QUANTIZATION_ENCODING_MICROSCALING: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(12);
    pub const QNN_QUANTIZATION_ENCODING_ARRAY_OF: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(13);
    pub const QNN_QUANTIZATION_ENCODING_UNDEFINED: Qnn_QuantizationEncoding_t = Qnn_QuantizationEncoding_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_QuantizationEncoding_t(pub ::std::os::raw::c_uint);
impl Qnn_BlockwiseExpansionBlockScaleStorageType_t {
    pub const QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8: Qnn_BlockwiseExpansionBlockScaleStorageType_t =
        Qnn_BlockwiseExpansionBlockScaleStorageType_t(0);
    pub const QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16: Qnn_BlockwiseExpansionBlockScaleStorageType_t =
        Qnn_BlockwiseExpansionBlockScaleStorageType_t(1);
    pub const QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_UNDEFINED: Qnn_BlockwiseExpansionBlockScaleStorageType_t =
        Qnn_BlockwiseExpansionBlockScaleStorageType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_BlockwiseExpansionBlockScaleStorageType_t(pub ::std::os::raw::c_uint);
impl Qnn_TensorType_t {
    pub const QNN_TENSOR_TYPE_APP_WRITE: Qnn_TensorType_t = Qnn_TensorType_t(0);
    pub const QNN_TENSOR_TYPE_APP_READ: Qnn_TensorType_t = Qnn_TensorType_t(1);
    pub const QNN_TENSOR_TYPE_APP_READWRITE: Qnn_TensorType_t = Qnn_TensorType_t(2);
    pub const QNN_TENSOR_TYPE_NATIVE: Qnn_TensorType_t = Qnn_TensorType_t(3);
    pub const QNN_TENSOR_TYPE_STATIC: Qnn_TensorType_t = Qnn_TensorType_t(4);
    pub const QNN_TENSOR_TYPE_NULL: Qnn_TensorType_t = Qnn_TensorType_t(5);
    pub const QNN_TENSOR_TYPE_UPDATEABLE_STATIC: Qnn_TensorType_t = Qnn_TensorType_t(6);
    pub const QNN_TENSOR_TYPE_UPDATEABLE_NATIVE: Qnn_TensorType_t = Qnn_TensorType_t(7);
    pub const QNN_TENSOR_TYPE_UPDATEABLE_APP_WRITE: Qnn_TensorType_t = Qnn_TensorType_t(8);
    pub const QNN_TENSOR_TYPE_UPDATEABLE_APP_READ: Qnn_TensorType_t = Qnn_TensorType_t(9);
    pub const QNN_TENSOR_TYPE_UPDATEABLE_APP_READWRITE: Qnn_TensorType_t = Qnn_TensorType_t(10);
    pub const QNN_TENSOR_TYPE_OPTIONAL_APP_WRITE: Qnn_TensorType_t = Qnn_TensorType_t(11);
    pub const QNN_TENSOR_TYPE_OPTIONAL_APP_READ: Qnn_TensorType_t = Qnn_TensorType_t(12);
    pub const QNN_TENSOR_TYPE_OPTIONAL_APP_READWRITE: Qnn_TensorType_t = Qnn_TensorType_t(13);
    pub const QNN_TENSOR_TYPE_UNDEFINED: Qnn_TensorType_t = Qnn_TensorType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_TensorType_t(pub ::std::os::raw::c_uint);
impl Qnn_TensorMemType_t {
    pub const QNN_TENSORMEMTYPE_RAW: Qnn_TensorMemType_t = Qnn_TensorMemType_t(0);
    pub const QNN_TENSORMEMTYPE_MEMHANDLE: Qnn_TensorMemType_t = Qnn_TensorMemType_t(1);
    pub const QNN_TENSORMEMTYPE_RETRIEVE_RAW: Qnn_TensorMemType_t = Qnn_TensorMemType_t(2);
    pub const QNN_TENSORMEMTYPE_UNDEFINED: Qnn_TensorMemType_t = Qnn_TensorMemType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_TensorMemType_t(pub ::std::os::raw::c_uint);
impl Qnn_TensorVersion_t {
    pub const QNN_TENSOR_VERSION_1: Qnn_TensorVersion_t = Qnn_TensorVersion_t(1);
    pub const QNN_TENSOR_VERSION_2: Qnn_TensorVersion_t = Qnn_TensorVersion_t(2);
    pub const QNN_TENSOR_VERSION_UNDEFINED: Qnn_TensorVersion_t = Qnn_TensorVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_TensorVersion_t(pub ::std::os::raw::c_uint);
impl Qnn_ParamType_t {
    pub const QNN_PARAMTYPE_SCALAR: Qnn_ParamType_t = Qnn_ParamType_t(0);
    pub const QNN_PARAMTYPE_TENSOR: Qnn_ParamType_t = Qnn_ParamType_t(1);
    pub const QNN_PARAMTYPE_UNDEFINED: Qnn_ParamType_t = Qnn_ParamType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_ParamType_t(pub ::std::os::raw::c_uint);
impl Qnn_OpConfigVersion_t {
    pub const QNN_OPCONFIG_VERSION_1: Qnn_OpConfigVersion_t = Qnn_OpConfigVersion_t(1);
    pub const QNN_OPCONFIG_VERSION_UNDEFINED: Qnn_OpConfigVersion_t = Qnn_OpConfigVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_OpConfigVersion_t(pub ::std::os::raw::c_uint);
impl Qnn_Precision_t {
    pub const QNN_PRECISION_FLOAT32: Qnn_Precision_t = Qnn_Precision_t(0);
    pub const QNN_PRECISION_FLOAT16: Qnn_Precision_t = Qnn_Precision_t(1);
    pub const QNN_PRECISION_UNDEFINED: Qnn_Precision_t = Qnn_Precision_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_Precision_t(pub ::std::os::raw::c_uint);
impl Qnn_SparseLayoutType_t {
    pub const QNN_SPARSE_LAYOUT_HYBRID_COO: Qnn_SparseLayoutType_t = Qnn_SparseLayoutType_t(0);
    pub const QNN_SPARSE_LAYOUT_UNDEFINED: Qnn_SparseLayoutType_t = Qnn_SparseLayoutType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct Qnn_SparseLayoutType_t(pub ::std::os::raw::c_uint);
impl QnnLog_Level_t {
    pub const QNN_LOG_LEVEL_ERROR: QnnLog_Level_t = QnnLog_Level_t(1);
    pub const QNN_LOG_LEVEL_WARN: QnnLog_Level_t = QnnLog_Level_t(2);
    pub const QNN_LOG_LEVEL_INFO: QnnLog_Level_t = QnnLog_Level_t(3);
    pub const QNN_LOG_LEVEL_VERBOSE: QnnLog_Level_t = QnnLog_Level_t(4);
    pub const QNN_LOG_LEVEL_DEBUG: QnnLog_Level_t = QnnLog_Level_t(5);
    pub const QNN_LOG_LEVEL_MAX: QnnLog_Level_t = QnnLog_Level_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnLog_Level_t(pub ::std::os::raw::c_uint);
impl QnnDevice_ConfigOption_t {
    pub const QNN_DEVICE_CONFIG_OPTION_CUSTOM: QnnDevice_ConfigOption_t = QnnDevice_ConfigOption_t(0);
    pub const QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO: QnnDevice_ConfigOption_t = QnnDevice_ConfigOption_t(1);
    pub const QNN_DEVICE_CONFIG_OPTION_UNDEFINED: QnnDevice_ConfigOption_t = QnnDevice_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnDevice_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnHtpDevice_ConfigOption_t {
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_SOC: QnnHtpDevice_ConfigOption_t = QnnHtpDevice_ConfigOption_t(0);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_ARCH: QnnHtpDevice_ConfigOption_t = QnnHtpDevice_ConfigOption_t(1);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD: QnnHtpDevice_ConfigOption_t = QnnHtpDevice_ConfigOption_t(2);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD: QnnHtpDevice_ConfigOption_t = QnnHtpDevice_ConfigOption_t(3);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_ASYNC_EXECUTE: QnnHtpDevice_ConfigOption_t = QnnHtpDevice_ConfigOption_t(4);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_HTP_EXTENSION: QnnHtpDevice_ConfigOption_t =
        QnnHtpDevice_ConfigOption_t(2147418112);
    pub const QNN_HTP_DEVICE_CONFIG_OPTION_UNKNOWN: QnnHtpDevice_ConfigOption_t =
        QnnHtpDevice_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpDevice_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnContext_ConfigOption_t {
    pub const QNN_CONTEXT_CONFIG_OPTION_CUSTOM: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(0);
    pub const QNN_CONTEXT_CONFIG_OPTION_PRIORITY: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(1);
    pub const QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(2);
    pub const QNN_CONTEXT_CONFIG_OPTION_OEM_STRING: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(3);
    pub const QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(4);
    pub const QNN_CONTEXT_CONFIG_ENABLE_GRAPHS: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(5);
    pub const QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(6);
    pub const QNN_CONTEXT_CONFIG_PERSISTENT_BINARY: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(7);
    pub const QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(8);
    pub const QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(9);
    pub const QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(10);
    pub const QNN_CONTEXT_CONFIG_UNDEFINED: QnnContext_ConfigOption_t = QnnContext_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnContext_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnHtpContext_ConfigOption_t {
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(1);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(2);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(3);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(4);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(5);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(6);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(7);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(8);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(9);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(10);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(11);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(12);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(13);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_14: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(14);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_15: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(15);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_RAM_PRELOAD_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(16);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_REUSED_IO_LIMIT: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(17);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_REFERENCE_WEIGHT_SHARING_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(18);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_EXTRA_SIZE: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(19);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING_ENABLED: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(20);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_PATCH: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(21);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING_CONFIGS: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(22);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_PRELOAD_BUFFER_GROUPS: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(23);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_24: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(24);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_PARALLEL_WEIGHT_LOADING: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(25);
    pub const QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN: QnnHtpContext_ConfigOption_t =
        QnnHtpContext_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpContext_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnGraph_ConfigOption_t {
    pub const QNN_GRAPH_CONFIG_OPTION_CUSTOM: QnnGraph_ConfigOption_t = QnnGraph_ConfigOption_t(0);
    pub const QNN_GRAPH_CONFIG_OPTION_PRIORITY: QnnGraph_ConfigOption_t = QnnGraph_ConfigOption_t(3);
    pub const QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE: QnnGraph_ConfigOption_t = QnnGraph_ConfigOption_t(4);
    pub const QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE: QnnGraph_ConfigOption_t = QnnGraph_ConfigOption_t(5);
    pub const QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS: QnnGraph_ConfigOption_t =
        QnnGraph_ConfigOption_t(6);
    pub const QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES: QnnGraph_ConfigOption_t =
        QnnGraph_ConfigOption_t(7);
    pub const QNN_GRAPH_CONFIG_OPTION_UNDEFINED: QnnGraph_ConfigOption_t = QnnGraph_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnGraph_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnHtpGraph_ConfigOption_t {
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(1);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(2);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(3);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(3);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(4);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(5);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(6);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(7);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(8);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(9);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(10);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(11);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(12);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(13);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(14);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(15);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(16);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(17);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION_COMPENSATION: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(18);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_ENABLE_PREDICATION: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(19);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_FP16_CLAMP_OVERFLOW: QnnHtpGraph_ConfigOption_t =
        QnnHtpGraph_ConfigOption_t(20);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_RESERVED: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(2147418112);
    pub const QNN_HTP_GRAPH_CONFIG_OPTION_UNKNOWN: QnnHtpGraph_ConfigOption_t = QnnHtpGraph_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpGraph_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnHtpGraph_OptimizationType_t {
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_SCHEDULE_THRESHOLD: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(1);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_RETRIES: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(2);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(3);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(4);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC_WEIGHTS: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(5);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SPARSE_WEIGHTS_COMPRESSION: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(6);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SLC_ALLOCATOR: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(7);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_VTCM_RETENTION: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(8);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_CACHED_WEIGHTS: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(9);
    pub const QNN_HTP_GRAPH_OPTIMIZATION_TYPE_UNKNOWN: QnnHtpGraph_OptimizationType_t =
        QnnHtpGraph_OptimizationType_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpGraph_OptimizationType_t(pub ::std::os::raw::c_uint);
impl QnnIrGraph_ConfigOption_t {
    pub const QNN_IR_GRAPH_CONFIG_OPTION_SERIALIZATION: QnnIrGraph_ConfigOption_t = QnnIrGraph_ConfigOption_t(1);
    pub const QNN_IR_GRAPH_CONFIG_OPTION_UNKNOWN: QnnIrGraph_ConfigOption_t = QnnIrGraph_ConfigOption_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnIrGraph_ConfigOption_t(pub ::std::os::raw::c_uint);
impl QnnIrGraph_SerializationType_t {
    pub const QNN_IR_GRAPH_SERIALIZATION_TYPE_FLAT_BUFFER: QnnIrGraph_SerializationType_t =
        QnnIrGraph_SerializationType_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnIrGraph_SerializationType_t(pub ::std::os::raw::c_uint);
impl QnnSystemContext_BinaryInfoVersion_t {
    pub const QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1: QnnSystemContext_BinaryInfoVersion_t =
        QnnSystemContext_BinaryInfoVersion_t(1);
    pub const QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2: QnnSystemContext_BinaryInfoVersion_t =
        QnnSystemContext_BinaryInfoVersion_t(2);
    pub const QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3: QnnSystemContext_BinaryInfoVersion_t =
        QnnSystemContext_BinaryInfoVersion_t(3);
    pub const QNN_SYSTEM_CONTEXT_BINARY_INFO_UNDEFINED: QnnSystemContext_BinaryInfoVersion_t =
        QnnSystemContext_BinaryInfoVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnSystemContext_BinaryInfoVersion_t(pub ::std::os::raw::c_uint);
impl QnnSystemContext_GraphInfoVersion_t {
    pub const QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1: QnnSystemContext_GraphInfoVersion_t =
        QnnSystemContext_GraphInfoVersion_t(1);
    pub const QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2: QnnSystemContext_GraphInfoVersion_t =
        QnnSystemContext_GraphInfoVersion_t(2);
    pub const QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3: QnnSystemContext_GraphInfoVersion_t =
        QnnSystemContext_GraphInfoVersion_t(3);
    pub const QNN_SYSTEM_CONTEXT_GRAPH_INFO_UNDEFINED: QnnSystemContext_GraphInfoVersion_t =
        QnnSystemContext_GraphInfoVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnSystemContext_GraphInfoVersion_t(pub ::std::os::raw::c_uint);
impl QnnHtpSystemContext_GraphInfoBlobVersion_t {
    pub const QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1: QnnHtpSystemContext_GraphInfoBlobVersion_t =
        QnnHtpSystemContext_GraphInfoBlobVersion_t(1);
    pub const QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2: QnnHtpSystemContext_GraphInfoBlobVersion_t =
        QnnHtpSystemContext_GraphInfoBlobVersion_t(2);
    pub const QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_UNDEFINED: QnnHtpSystemContext_GraphInfoBlobVersion_t =
        QnnHtpSystemContext_GraphInfoBlobVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpSystemContext_GraphInfoBlobVersion_t(pub ::std::os::raw::c_uint);
impl QnnHtpSystemContext_ContextInfoBlobVersion_t {
    pub const QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1: QnnHtpSystemContext_ContextInfoBlobVersion_t =
        QnnHtpSystemContext_ContextInfoBlobVersion_t(1);
    pub const QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_UNDEFINED: QnnHtpSystemContext_ContextInfoBlobVersion_t =
        QnnHtpSystemContext_ContextInfoBlobVersion_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct QnnHtpSystemContext_ContextInfoBlobVersion_t(pub ::std::os::raw::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_Version_t {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_ApiVersion_t {
    pub coreApiVersion: Qnn_Version_t,
    pub backendApiVersion: Qnn_Version_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_ScaleOffset_t {
    pub scale: f32,
    pub offset: i32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_AxisScaleOffset_t {
    pub axis: i32,
    pub numScaleOffsets: u32,
    pub scaleOffset: *mut Qnn_ScaleOffset_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_BwScaleOffset_t {
    pub bitwidth: u32,
    pub scale: f32,
    pub offset: i32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_BwAxisScaleOffset_t {
    pub bitwidth: u32,
    pub axis: i32,
    pub numElements: u32,
    pub scales: *mut f32,
    pub offsets: *mut i32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_BlockwiseExpansion_t {
    pub axis: i32,
    pub scaleOffsets: *mut Qnn_ScaleOffset_t,
    pub numBlocksPerAxis: u32,
    pub blockScaleBitwidth: u32,
    pub blockScaleStorageType: Qnn_BlockwiseExpansionBlockScaleStorageType_t,
    pub u: Qnn_BlockwiseExpansion_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_BlockwiseExpansion_t__bindgen_ty_1 {
    pub blocksScale8: *mut u8,
    pub blocksScale16: *mut u16,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_FloatScaleOffset_t {
    pub scale: f32,
    pub offset: f32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_BwFloatBlockEncoding_t {
    pub bitwidth: u32,
    pub blockSize: *mut u32,
    pub floatScaleOffset: *mut Qnn_FloatScaleOffset_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_QuantizeParams_t {
    pub encodingDefinition: Qnn_Definition_t,
    pub quantizationEncoding: Qnn_QuantizationEncoding_t,
    pub u: Qnn_QuantizeParams_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_QuantizeParams_t__bindgen_ty_1 {
    pub scaleOffsetEncoding: Qnn_ScaleOffset_t,
    pub axisScaleOffsetEncoding: Qnn_AxisScaleOffset_t,
    pub bwScaleOffsetEncoding: Qnn_BwScaleOffset_t,
    pub bwAxisScaleOffsetEncoding: Qnn_BwAxisScaleOffset_t,
    pub blockwiseExpansion: *mut Qnn_BlockwiseExpansion_t,
    pub bwFloatBlockEncoding: Qnn_BwFloatBlockEncoding_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_ClientBuffer_t {
    pub data: *mut ::std::os::raw::c_void,
    pub dataSize: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_TensorV1_t {
    pub id: u32,
    pub name: *const ::std::os::raw::c_char,
    pub type_: Qnn_TensorType_t,
    pub dataFormat: Qnn_TensorDataFormat_t,
    pub dataType: Qnn_DataType_t,
    pub quantizeParams: Qnn_QuantizeParams_t,
    pub rank: u32,
    pub dimensions: *mut u32,
    pub memType: Qnn_TensorMemType_t,
    pub u: Qnn_TensorV1_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_TensorV1_t__bindgen_ty_1 {
    pub clientBuf: Qnn_ClientBuffer_t,
    pub memHandle: Qnn_MemHandle_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_SparseLayoutHybridCoo_t {
    pub numSpecifiedElements: u32,
    pub numSparseDimensions: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_SparseParams_t {
    pub type_: Qnn_SparseLayoutType_t,
    pub u: Qnn_SparseParams_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_SparseParams_t__bindgen_ty_1 {
    pub hybridCoo: Qnn_SparseLayoutHybridCoo_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_TensorV2_t {
    pub id: u32,
    pub name: *const ::std::os::raw::c_char,
    pub type_: Qnn_TensorType_t,
    pub dataFormat: Qnn_TensorDataFormat_t,
    pub dataType: Qnn_DataType_t,
    pub quantizeParams: Qnn_QuantizeParams_t,
    pub rank: u32,
    pub dimensions: *mut u32,
    pub memType: Qnn_TensorMemType_t,
    pub u: Qnn_TensorV2_t__bindgen_ty_1,
    pub isDynamicDimensions: *mut u8,
    pub sparseParams: Qnn_SparseParams_t,
    pub isProduced: u8,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_TensorV2_t__bindgen_ty_1 {
    pub clientBuf: Qnn_ClientBuffer_t,
    pub memHandle: Qnn_MemHandle_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_Tensor_t {
    pub version: Qnn_TensorVersion_t,
    pub u: Qnn_Tensor_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_Tensor_t__bindgen_ty_1 {
    pub v1: Qnn_TensorV1_t,
    pub v2: Qnn_TensorV2_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_Scalar_t {
    pub dataType: Qnn_DataType_t,
    pub u: Qnn_Scalar_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_Scalar_t__bindgen_ty_1 {
    pub floatValue: f32,
    pub doubleValue: f64,
    pub uint64Value: u64,
    pub int64Value: i64,
    pub uint32Value: u32,
    pub int32Value: i32,
    pub uint8Value: u8,
    pub int8Value: i8,
    pub bool8Value: u8,
    pub stringValue: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_Param_t {
    pub paramType: Qnn_ParamType_t,
    pub name: *const ::std::os::raw::c_char,
    pub u: Qnn_Param_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_Param_t__bindgen_ty_1 {
    pub scalarParam: Qnn_Scalar_t,
    pub tensorParam: Qnn_Tensor_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct Qnn_OpConfigV1_t {
    pub name: *const ::std::os::raw::c_char,
    pub packageName: *const ::std::os::raw::c_char,
    pub typeName: *const ::std::os::raw::c_char,
    pub numOfParams: u32,
    pub params: *mut Qnn_Param_t,
    pub numOfInputs: u32,
    pub inputTensors: *mut Qnn_Tensor_t,
    pub numOfOutputs: u32,
    pub outputTensors: *mut Qnn_Tensor_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Qnn_OpConfig_t {
    pub version: Qnn_OpConfigVersion_t,
    pub u: Qnn_OpConfig_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union Qnn_OpConfig_t__bindgen_ty_1 {
    pub v1: Qnn_OpConfigV1_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnBackend_OperationName_t {
    pub packageName: *const ::std::os::raw::c_char,
    pub name: *const ::std::os::raw::c_char,
    pub target: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnHtpDevice_CustomConfig_t {
    pub option: QnnHtpDevice_ConfigOption_t,
    pub u: QnnHtpDevice_CustomConfig_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnHtpDevice_CustomConfig_t__bindgen_ty_1 {
    pub socModel: u32,
    pub otherMembers: [u64; 1usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnDevice_Config_t {
    pub option: QnnDevice_ConfigOption_t,
    pub u: QnnDevice_Config_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnDevice_Config_t__bindgen_ty_1 {
    pub customConfig: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnHtpContext_CustomConfig_t {
    pub option: QnnHtpContext_ConfigOption_t,
    pub u: QnnHtpContext_CustomConfig_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnHtpContext_CustomConfig_t__bindgen_ty_1 {
    pub weightSharingEnabled: bool,
    pub otherMembers: [u64; 2usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnContext_Config_t {
    pub option: QnnContext_ConfigOption_t,
    pub u: QnnContext_Config_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnContext_Config_t__bindgen_ty_1 {
    pub customConfig: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnHtpGraph_OptimizationOption_t {
    pub type_: QnnHtpGraph_OptimizationType_t,
    pub floatValue: f32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnHtpGraph_CustomConfig_t {
    pub option: QnnHtpGraph_ConfigOption_t,
    pub u: QnnHtpGraph_CustomConfig_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnHtpGraph_CustomConfig_t__bindgen_ty_1 {
    pub optimizationOption: QnnHtpGraph_OptimizationOption_t,
    pub precision: Qnn_Precision_t,
    pub vtcmSizeInMB: u32,
    pub numHvxThreads: u64,
    pub fp16ClampOverflow: bool,
    pub otherMembers: [u64; 6usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnIrGraph_SerializationOption_t {
    pub serializationType: QnnIrGraph_SerializationType_t,
    pub outputPath: *const ::std::os::raw::c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnIrGraph_CustomConfig_t {
    pub option: QnnIrGraph_ConfigOption_t,
    pub u: QnnIrGraph_CustomConfig_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnIrGraph_CustomConfig_t__bindgen_ty_1 {
    pub serializationOption: QnnIrGraph_SerializationOption_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnGraph_Config_t {
    pub option: QnnGraph_ConfigOption_t,
    pub u: QnnGraph_Config_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnGraph_Config_t__bindgen_ty_1 {
    pub customConfig: *mut ::std::os::raw::c_void,
}
pub type Qnn_UnusedFn_t = ::std::option::Option<unsafe extern "C" fn()>;
pub type QnnLog_Callback_t = ::std::option::Option<
    unsafe extern "C" fn(
        format: *const ::std::os::raw::c_char,
        level: QnnLog_Level_t,
        timestamp: u64,
        args: Qnn_VaList_t,
    ),
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnInterface_Table_t {
    pub propertyHasCapability: Qnn_UnusedFn_t,
    pub backendCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_LogHandle_t,
            arg2: *mut *const ::std::os::raw::c_void,
            arg3: *mut Qnn_BackendHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub backendSetConfig: Qnn_UnusedFn_t,
    pub backendGetApiVersion:
        ::std::option::Option<unsafe extern "C" fn(arg1: *mut Qnn_ApiVersion_t) -> Qnn_ErrorHandle_t>,
    pub backendGetBuildId:
        ::std::option::Option<unsafe extern "C" fn(arg1: *mut *const ::std::os::raw::c_char) -> Qnn_ErrorHandle_t>,
    pub backendRegisterOpPackage: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_BackendHandle_t,
            arg2: *const ::std::os::raw::c_char,
            arg3: *const ::std::os::raw::c_char,
            arg4: *const ::std::os::raw::c_char,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub backendGetSupportedOperations: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_BackendHandle_t,
            arg2: *mut u32,
            arg3: *mut *const QnnBackend_OperationName_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub backendValidateOpConfig: ::std::option::Option<
        unsafe extern "C" fn(arg1: Qnn_BackendHandle_t, arg2: Qnn_OpConfig_t) -> Qnn_ErrorHandle_t,
    >,
    pub backendFree: Qnn_UnusedFn_t,
    pub contextCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_BackendHandle_t,
            arg2: Qnn_DeviceHandle_t,
            arg3: *mut *const QnnContext_Config_t,
            arg4: *mut Qnn_ContextHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub contextSetConfig: Qnn_UnusedFn_t,
    pub contextGetBinarySize: ::std::option::Option<
        unsafe extern "C" fn(arg1: Qnn_ContextHandle_t, arg2: *mut Qnn_ContextBinarySize_t) -> Qnn_ErrorHandle_t,
    >,
    pub contextGetBinary: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_ContextHandle_t,
            arg2: *mut ::std::os::raw::c_void,
            arg3: Qnn_ContextBinarySize_t,
            arg4: *mut Qnn_ContextBinarySize_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub contextCreateFromBinary: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_BackendHandle_t,
            arg2: Qnn_DeviceHandle_t,
            arg3: *mut *const QnnContext_Config_t,
            arg4: *const ::std::os::raw::c_void,
            arg5: Qnn_ContextBinarySize_t,
            arg6: *mut Qnn_ContextHandle_t,
            arg7: Qnn_ProfileHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub contextFree: ::std::option::Option<
        unsafe extern "C" fn(arg1: Qnn_ContextHandle_t, arg2: Qnn_ProfileHandle_t) -> Qnn_ErrorHandle_t,
    >,
    pub graphCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_ContextHandle_t,
            arg2: *const ::std::os::raw::c_char,
            arg3: *mut *const QnnGraph_Config_t,
            arg4: *mut Qnn_GraphHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub graphCreateSubgraph: Qnn_UnusedFn_t,
    pub graphSetConfig: Qnn_UnusedFn_t,
    pub graphAddNode:
        ::std::option::Option<unsafe extern "C" fn(arg1: Qnn_GraphHandle_t, arg2: Qnn_OpConfig_t) -> Qnn_ErrorHandle_t>,
    pub graphFinalize: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_GraphHandle_t,
            arg2: Qnn_ProfileHandle_t,
            arg3: Qnn_SignalHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub graphRetrieve: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_ContextHandle_t,
            arg2: *const ::std::os::raw::c_char,
            arg3: *mut Qnn_GraphHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub graphExecute: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_GraphHandle_t,
            arg2: *const Qnn_Tensor_t,
            arg3: u32,
            arg4: *mut Qnn_Tensor_t,
            arg5: u32,
            arg6: Qnn_ProfileHandle_t,
            arg7: Qnn_SignalHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub graphExecuteAsync: Qnn_UnusedFn_t,
    pub tensorCreateContextTensor: Qnn_UnusedFn_t,
    pub tensorCreateGraphTensor: ::std::option::Option<
        unsafe extern "C" fn(arg1: Qnn_GraphHandle_t, arg2: *mut Qnn_Tensor_t) -> Qnn_ErrorHandle_t,
    >,
    pub logCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: QnnLog_Callback_t,
            arg2: QnnLog_Level_t,
            arg3: *mut Qnn_LogHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub logSetLogLevel:
        ::std::option::Option<unsafe extern "C" fn(arg1: Qnn_LogHandle_t, arg2: QnnLog_Level_t) -> Qnn_ErrorHandle_t>,
    pub logFree: Qnn_UnusedFn_t,
    pub profileCreate: Qnn_UnusedFn_t,
    pub profileSetConfig: Qnn_UnusedFn_t,
    pub profileGetEvents: Qnn_UnusedFn_t,
    pub profileGetSubEvents: Qnn_UnusedFn_t,
    pub profileGetEventData: Qnn_UnusedFn_t,
    pub profileGetExtendedEventData: Qnn_UnusedFn_t,
    pub profileFree: Qnn_UnusedFn_t,
    pub memRegister: Qnn_UnusedFn_t,
    pub memDeRegister: Qnn_UnusedFn_t,
    pub deviceGetPlatformInfo: Qnn_UnusedFn_t,
    pub deviceFreePlatformInfo: Qnn_UnusedFn_t,
    pub deviceGetInfrastructure: Qnn_UnusedFn_t,
    pub deviceCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: Qnn_LogHandle_t,
            arg2: *mut *const QnnDevice_Config_t,
            arg3: *mut Qnn_DeviceHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub deviceSetConfig: Qnn_UnusedFn_t,
    pub deviceGetInfo: Qnn_UnusedFn_t,
    pub deviceFree: Qnn_UnusedFn_t,
    pub signalCreate: Qnn_UnusedFn_t,
    pub signalSetConfig: Qnn_UnusedFn_t,
    pub signalTrigger: Qnn_UnusedFn_t,
    pub signalFree: Qnn_UnusedFn_t,
    pub errorGetMessage: Qnn_UnusedFn_t,
    pub errorGetVerboseMessage: Qnn_UnusedFn_t,
    pub errorFreeVerboseMessage: Qnn_UnusedFn_t,
    pub graphPrepareExecutionEnvironment: Qnn_UnusedFn_t,
    pub graphReleaseExecutionEnvironment: Qnn_UnusedFn_t,
    pub graphGetProperty: Qnn_UnusedFn_t,
    pub contextValidateBinary: Qnn_UnusedFn_t,
    pub contextCreateFromBinaryWithSignal: Qnn_UnusedFn_t,
    pub contextCreateFromBinaryListAsync: Qnn_UnusedFn_t,
    pub tensorUpdateGraphTensors: Qnn_UnusedFn_t,
    pub tensorUpdateContextTensors: Qnn_UnusedFn_t,
    pub contextGetBinarySectionSize: Qnn_UnusedFn_t,
    pub contextGetBinarySection: Qnn_UnusedFn_t,
    pub contextApplyBinarySection: Qnn_UnusedFn_t,
    pub backendGetProperty: Qnn_UnusedFn_t,
    pub contextGetProperty: Qnn_UnusedFn_t,
    pub contextGetIncrementalBinary: Qnn_UnusedFn_t,
    pub contextReleaseIncrementalBinary: Qnn_UnusedFn_t,
    pub contextFinalize: Qnn_UnusedFn_t,
    pub globalConfigSet: Qnn_UnusedFn_t,
    pub contextCreateFromBinaryWithCallback: Qnn_UnusedFn_t,
    pub contextGetBinarySectionUpdate: Qnn_UnusedFn_t,
    pub contextFreeBinarySectionUpdate: Qnn_UnusedFn_t,
    pub contextAddToDlc: Qnn_UnusedFn_t,
    pub graphValidate: Qnn_UnusedFn_t,
    pub graphFreeValidationResult: Qnn_UnusedFn_t,
    pub backendRegisterOpPackageFromBinary: Qnn_UnusedFn_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnInterface_Provider_t {
    pub backendId: u32,
    pub providerName: *const ::std::os::raw::c_char,
    pub apiVersion: Qnn_ApiVersion_t,
}
pub type QnnInterface_GetProvidersFn_t = ::std::option::Option<
    unsafe extern "C" fn(providers: *mut *mut *const QnnInterface_Provider_t, count: *mut u32) -> Qnn_ErrorHandle_t,
>;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_GraphInfoV1_t {
    pub graphName: *const ::std::os::raw::c_char,
    pub numGraphInputs: u32,
    pub graphInputs: *mut Qnn_Tensor_t,
    pub numGraphOutputs: u32,
    pub graphOutputs: *mut Qnn_Tensor_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_GraphInfoV2_t {
    pub graphName: *const ::std::os::raw::c_char,
    pub numGraphInputs: u32,
    pub graphInputs: *mut Qnn_Tensor_t,
    pub numGraphOutputs: u32,
    pub graphOutputs: *mut Qnn_Tensor_t,
    pub numUpdateableTensors: u32,
    pub updateableTensors: *mut Qnn_Tensor_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_GraphInfoV3_t {
    pub graphName: *const ::std::os::raw::c_char,
    pub numGraphInputs: u32,
    pub graphInputs: *mut Qnn_Tensor_t,
    pub numGraphOutputs: u32,
    pub graphOutputs: *mut Qnn_Tensor_t,
    pub numUpdateableTensors: u32,
    pub updateableTensors: *mut Qnn_Tensor_t,
    pub graphBlobInfoSize: u32,
    pub graphBlobInfo: *mut ::std::os::raw::c_void,
    pub startOpIndex: u32,
    pub endOpIndex: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnSystemContext_GraphInfo_t {
    pub version: QnnSystemContext_GraphInfoVersion_t,
    pub u: QnnSystemContext_GraphInfo_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnSystemContext_GraphInfo_t__bindgen_ty_1 {
    pub graphInfoV1: QnnSystemContext_GraphInfoV1_t,
    pub graphInfoV2: QnnSystemContext_GraphInfoV2_t,
    pub graphInfoV3: QnnSystemContext_GraphInfoV3_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_BinaryInfoV1_t {
    pub backendId: u32,
    pub buildId: *const ::std::os::raw::c_char,
    pub coreApiVersion: Qnn_Version_t,
    pub backendApiVersion: Qnn_Version_t,
    pub socVersion: *const ::std::os::raw::c_char,
    pub hwInfoBlobVersion: Qnn_Version_t,
    pub contextBlobVersion: Qnn_Version_t,
    pub hwInfoBlobSize: u32,
    pub hwInfoBlob: *mut ::std::os::raw::c_void,
    pub contextBlobSize: u64,
    pub numContextTensors: u32,
    pub contextTensors: *mut Qnn_Tensor_t,
    pub numGraphs: u32,
    pub graphs: *mut QnnSystemContext_GraphInfo_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_BinaryInfoV2_t {
    pub backendId: u32,
    pub buildId: *const ::std::os::raw::c_char,
    pub coreApiVersion: Qnn_Version_t,
    pub backendApiVersion: Qnn_Version_t,
    pub socVersion: *const ::std::os::raw::c_char,
    pub hwInfoBlobVersion: Qnn_Version_t,
    pub contextBlobVersion: Qnn_Version_t,
    pub hwInfoBlobSize: u32,
    pub hwInfoBlob: *mut ::std::os::raw::c_void,
    pub contextBlobSize: u64,
    pub numContextTensors: u32,
    pub contextTensors: *mut Qnn_Tensor_t,
    pub numGraphs: u32,
    pub graphs: *mut QnnSystemContext_GraphInfo_t,
    pub platformInfo: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemContext_BinaryInfoV3_t {
    pub backendId: u32,
    pub buildId: *const ::std::os::raw::c_char,
    pub coreApiVersion: Qnn_Version_t,
    pub backendApiVersion: Qnn_Version_t,
    pub socVersion: *const ::std::os::raw::c_char,
    pub contextBlobVersion: Qnn_Version_t,
    pub contextBlobSize: u64,
    pub numContextTensors: u32,
    pub contextTensors: *mut Qnn_Tensor_t,
    pub numGraphs: u32,
    pub graphs: *mut QnnSystemContext_GraphInfo_t,
    pub platformInfo: *mut ::std::os::raw::c_void,
    pub contextMetadataSize: u32,
    pub contextMetadata: *mut ::std::os::raw::c_void,
    pub socModel: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnSystemContext_BinaryInfo_t {
    pub version: QnnSystemContext_BinaryInfoVersion_t,
    pub u: QnnSystemContext_BinaryInfo_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnSystemContext_BinaryInfo_t__bindgen_ty_1 {
    pub contextBinaryInfoV1: QnnSystemContext_BinaryInfoV1_t,
    pub contextBinaryInfoV2: QnnSystemContext_BinaryInfoV2_t,
    pub contextBinaryInfoV3: QnnSystemContext_BinaryInfoV3_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnHtpSystemContext_GraphBlobInfoV1_t {
    pub spillFillBufferSize: u64,
    pub vtcmSize: u32,
    pub optimizationLevel: u32,
    pub htpDlbc: u8,
    pub numHvxThreads: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnHtpSystemContext_GraphBlobInfo_t {
    pub version: QnnHtpSystemContext_GraphInfoBlobVersion_t,
    pub u: QnnHtpSystemContext_GraphBlobInfo_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnHtpSystemContext_GraphBlobInfo_t__bindgen_ty_1 {
    pub contextBinaryGraphBlobInfoV1: QnnHtpSystemContext_GraphBlobInfoV1_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnHtpSystemContext_ContextBlobInfoV1_t {
    pub dspArch: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct QnnHtpSystemContext_ContextBlobInfo_t {
    pub version: QnnHtpSystemContext_ContextInfoBlobVersion_t,
    pub u: QnnHtpSystemContext_ContextBlobInfo_t__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union QnnHtpSystemContext_ContextBlobInfo_t__bindgen_ty_1 {
    pub contextBinaryContextBlobInfoV1: QnnHtpSystemContext_ContextBlobInfoV1_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemInterface_Table_t {
    pub systemContextCreate:
        ::std::option::Option<unsafe extern "C" fn(arg1: *mut QnnSystemContext_Handle_t) -> Qnn_ErrorHandle_t>,
    pub systemContextGetBinaryInfo: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: QnnSystemContext_Handle_t,
            arg2: *mut ::std::os::raw::c_void,
            arg3: u64,
            arg4: *mut *const QnnSystemContext_BinaryInfo_t,
            arg5: *mut Qnn_ContextBinarySize_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub systemContextGetMetaData: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: QnnSystemContext_Handle_t,
            arg2: *const ::std::os::raw::c_void,
            arg3: u64,
            arg4: *mut *const QnnSystemContext_BinaryInfo_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub systemContextFree:
        ::std::option::Option<unsafe extern "C" fn(arg1: QnnSystemContext_Handle_t) -> Qnn_ErrorHandle_t>,
    pub systemTensorGetMemoryFootprint: Qnn_UnusedFn_t,
    pub systemLogCreate: ::std::option::Option<
        unsafe extern "C" fn(
            arg1: QnnLog_Callback_t,
            arg2: QnnLog_Level_t,
            arg3: *mut Qnn_LogHandle_t,
        ) -> Qnn_ErrorHandle_t,
    >,
    pub systemLogSetLogLevel: Qnn_UnusedFn_t,
    pub systemLogFree: Qnn_UnusedFn_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct QnnSystemInterface_Provider_t {
    pub backendId: u32,
    pub providerName: *const ::std::os::raw::c_char,
    pub systemApiVersion: Qnn_Version_t,
    pub table: QnnSystemInterface_Table_t,
}
pub type QnnSystemInterface_GetProvidersFn_t = ::std::option::Option<
    unsafe extern "C" fn(
        providers: *mut *mut *const QnnSystemInterface_Provider_t,
        count: *mut u32,
    ) -> Qnn_ErrorHandle_t,
>;
