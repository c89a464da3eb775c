/* The part of the QNN ABI (core API 2.36 to 2.40) that qnnc uses: names, layouts and values, LP64.
 *
 * Written by hand from layout facts; `tests/layout.rs` compares the bindings with the facts in `abi_facts.json`,
 * `tests/bindings.rs` regenerates `src/bindings.rs` from this file. Members that qnnc never touches are left out of
 * unions whose size they do not decide, and unused table entries are typed `Qnn_UnusedFn_t`.
 */
#ifndef QNNC_QNN_H
#define QNNC_QNN_H

/* No C library headers are needed: the libclang that ships in the Python package has none. */
#ifdef QNNC_BARE
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#else
#include <stdint.h>
#endif

/* ---- Scalars ---- */
/* 0 is success; the code is in the low 16 bits. */
typedef uint64_t Qnn_ErrorHandle_t;
typedef void* Qnn_BackendHandle_t;
typedef void* Qnn_DeviceHandle_t;
typedef void* Qnn_ContextHandle_t;
typedef void* Qnn_GraphHandle_t;
typedef void* Qnn_LogHandle_t;
typedef void* Qnn_ProfileHandle_t;
typedef void* Qnn_SignalHandle_t;
typedef void* Qnn_MemHandle_t;
typedef uint64_t Qnn_ContextBinarySize_t;
typedef uint32_t Qnn_TensorDataFormat_t;
typedef void* QnnSystemContext_Handle_t;
/* A `va_list` as a function gets it: on x86_64 and aarch64 Linux, a pointer. */
typedef void* Qnn_VaList_t;

/* ---- Enums (a newer library may return values that are not listed) ---- */
/* High byte: kind; low byte: bits, written in decimal digits. */
typedef enum {
  QNN_DATATYPE_INT_2 = 2,
  QNN_DATATYPE_INT_4 = 4,
  QNN_DATATYPE_INT_8 = 8,
  QNN_DATATYPE_INT_16 = 22,
  QNN_DATATYPE_INT_32 = 50,
  QNN_DATATYPE_INT_64 = 100,
  QNN_DATATYPE_UINT_2 = 0x102,
  QNN_DATATYPE_UINT_4 = 0x104,
  QNN_DATATYPE_UINT_8 = 0x108,
  QNN_DATATYPE_UINT_16 = 0x116,
  QNN_DATATYPE_UINT_32 = 0x132,
  QNN_DATATYPE_UINT_64 = 0x164,
  QNN_DATATYPE_FLOAT_4 = 0x204,
  QNN_DATATYPE_FLOAT_8 = 0x208,
  QNN_DATATYPE_FLOAT_16 = 0x216,
  QNN_DATATYPE_BFLOAT_16 = 0x226,
  QNN_DATATYPE_FLOAT_32 = 0x232,
  QNN_DATATYPE_FLOAT_64 = 0x264,
  QNN_DATATYPE_SFIXED_POINT_2 = 0x302,
  QNN_DATATYPE_SFIXED_POINT_4 = 0x304,
  QNN_DATATYPE_SFIXED_POINT_8 = 0x308,
  QNN_DATATYPE_SFIXED_POINT_16 = 0x316,
  QNN_DATATYPE_SFIXED_POINT_32 = 0x332,
  QNN_DATATYPE_UFIXED_POINT_2 = 0x402,
  QNN_DATATYPE_UFIXED_POINT_4 = 0x404,
  QNN_DATATYPE_UFIXED_POINT_8 = 0x408,
  QNN_DATATYPE_UFIXED_POINT_16 = 0x416,
  QNN_DATATYPE_UFIXED_POINT_32 = 0x432,
  QNN_DATATYPE_BOOL_8 = 0x508,
  QNN_DATATYPE_STRING = 0x608,
  QNN_DATATYPE_UNDEFINED = 0x7fffffff,
} Qnn_DataType_t;

typedef enum {
  QNN_DEFINITION_IMPL_GENERATED = 0,
  QNN_DEFINITION_DEFINED = 1,
  QNN_DEFINITION_UNDEFINED = 0x7fffffff,
} Qnn_Definition_t;

typedef enum {
  QNN_QUANTIZATION_ENCODING_SCALE_OFFSET = 0,
  QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET = 1,
  QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET = 2,
  QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET = 3,
  QNN_QUANTIZATION_ENCODING_BLOCK = 4,
  QNN_QUANTIZATION_ENCODING_BLOCKWISE_EXPANSION = 5,
  QNN_QUANTIZATION_ENCODING_VECTOR = 6,
  QNN_QUANTIZATION_ENCODING_FLOAT_BLOCK = 7,
  QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET_MAPPED = 8,
  QNN_QUANTIZATION_ENCODING_BW_BLOCK_MAPPED = 9,
  QNN_QUANTIZATION_ENCODING_BW_BLOCKWISE_EXPANSION_MAPPED = 10,
  QNN_QUANTIZATION_ENCODING_BW_FLOAT_BLOCK = 11,
  QNN_QUANTIZATION_ENCODING_MICROSCALING = 12,
  QNN_QUANTIZATION_ENCODING_ARRAY_OF = 13,
  QNN_QUANTIZATION_ENCODING_UNDEFINED = 0x7fffffff,
} Qnn_QuantizationEncoding_t;

typedef enum {
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_8 = 0,
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_16 = 1,
  QNN_BLOCKWISE_EXPANSION_BITWIDTH_SCALE_STORAGE_UNDEFINED = 0x7fffffff,
} Qnn_BlockwiseExpansionBlockScaleStorageType_t;

typedef enum {
  QNN_TENSOR_TYPE_APP_WRITE = 0,
  QNN_TENSOR_TYPE_APP_READ = 1,
  QNN_TENSOR_TYPE_APP_READWRITE = 2,
  QNN_TENSOR_TYPE_NATIVE = 3,
  QNN_TENSOR_TYPE_STATIC = 4,
  QNN_TENSOR_TYPE_NULL = 5,
  QNN_TENSOR_TYPE_UPDATEABLE_STATIC = 6,
  QNN_TENSOR_TYPE_UPDATEABLE_NATIVE = 7,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_WRITE = 8,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_READ = 9,
  QNN_TENSOR_TYPE_UPDATEABLE_APP_READWRITE = 10,
  QNN_TENSOR_TYPE_OPTIONAL_APP_WRITE = 11,
  QNN_TENSOR_TYPE_OPTIONAL_APP_READ = 12,
  QNN_TENSOR_TYPE_OPTIONAL_APP_READWRITE = 13,
  QNN_TENSOR_TYPE_UNDEFINED = 0x7fffffff,
} Qnn_TensorType_t;

typedef enum {
  QNN_TENSORMEMTYPE_RAW = 0,
  QNN_TENSORMEMTYPE_MEMHANDLE = 1,
  QNN_TENSORMEMTYPE_RETRIEVE_RAW = 2,
  QNN_TENSORMEMTYPE_UNDEFINED = 0x7fffffff,
} Qnn_TensorMemType_t;

typedef enum {
  QNN_TENSOR_VERSION_1 = 1,
  QNN_TENSOR_VERSION_2 = 2,
  QNN_TENSOR_VERSION_UNDEFINED = 0x7fffffff,
} Qnn_TensorVersion_t;

typedef enum {
  QNN_PARAMTYPE_SCALAR = 0,
  QNN_PARAMTYPE_TENSOR = 1,
  QNN_PARAMTYPE_UNDEFINED = 0x7fffffff,
} Qnn_ParamType_t;

typedef enum {
  QNN_OPCONFIG_VERSION_1 = 1,
  QNN_OPCONFIG_VERSION_UNDEFINED = 0x7fffffff,
} Qnn_OpConfigVersion_t;

typedef enum {
  QNN_PRECISION_FLOAT32 = 0,
  QNN_PRECISION_FLOAT16 = 1,
  QNN_PRECISION_UNDEFINED = 0x7fffffff,
} Qnn_Precision_t;

typedef enum {
  QNN_SPARSE_LAYOUT_HYBRID_COO = 0,
  QNN_SPARSE_LAYOUT_UNDEFINED = 0x7fffffff,
} Qnn_SparseLayoutType_t;

typedef enum {
  QNN_LOG_LEVEL_ERROR = 1,
  QNN_LOG_LEVEL_WARN = 2,
  QNN_LOG_LEVEL_INFO = 3,
  QNN_LOG_LEVEL_VERBOSE = 4,
  QNN_LOG_LEVEL_DEBUG = 5,
  QNN_LOG_LEVEL_MAX = 0x7fffffff,
} QnnLog_Level_t;

typedef enum {
  QNN_DEVICE_CONFIG_OPTION_CUSTOM = 0,
  QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO = 1,
  QNN_DEVICE_CONFIG_OPTION_UNDEFINED = 0x7fffffff,
} QnnDevice_ConfigOption_t;

typedef enum {
  QNN_HTP_DEVICE_CONFIG_OPTION_SOC = 0,
  QNN_HTP_DEVICE_CONFIG_OPTION_ARCH = 1,
  QNN_HTP_DEVICE_CONFIG_OPTION_SIGNEDPD = 2,
  QNN_HTP_DEVICE_CONFIG_OPTION_SECUREPD = 3,
  QNN_HTP_DEVICE_CONFIG_OPTION_ASYNC_EXECUTE = 4,
  QNN_HTP_DEVICE_CONFIG_OPTION_HTP_EXTENSION = 0x7fff0000,
  QNN_HTP_DEVICE_CONFIG_OPTION_UNKNOWN = 0x7fffffff,
} QnnHtpDevice_ConfigOption_t;

typedef enum {
  QNN_CONTEXT_CONFIG_OPTION_CUSTOM = 0,
  QNN_CONTEXT_CONFIG_OPTION_PRIORITY = 1,
  QNN_CONTEXT_CONFIG_OPTION_ERROR_REPORTING = 2,
  QNN_CONTEXT_CONFIG_OPTION_OEM_STRING = 3,
  QNN_CONTEXT_CONFIG_ASYNC_EXECUTION_QUEUE_DEPTH = 4,
  QNN_CONTEXT_CONFIG_ENABLE_GRAPHS = 5,
  QNN_CONTEXT_CONFIG_MEMORY_LIMIT_HINT = 6,
  QNN_CONTEXT_CONFIG_PERSISTENT_BINARY = 7,
  QNN_CONTEXT_CONFIG_BINARY_COMPATIBILITY = 8,
  QNN_CONTEXT_CONFIG_OPTION_DEFER_GRAPH_INIT = 9,
  QNN_CONTEXT_CONFIG_GRAPH_RETENTION_ORDER = 10,
  QNN_CONTEXT_CONFIG_UNDEFINED = 0x7fffffff,
} QnnContext_ConfigOption_t;

typedef enum {
  QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED = 1,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_MULTI_CONTEXTS = 2,
  QNN_HTP_CONTEXT_CONFIG_OPTION_FILE_READ_MEMORY_BUDGET = 3,
  QNN_HTP_CONTEXT_CONFIG_OPTION_DSP_MEMORY_PROFILING_ENABLED = 4,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES = 5,
  QNN_HTP_CONTEXT_CONFIG_OPTION_IO_MEM_ESTIMATION = 6,
  QNN_HTP_CONTEXT_CONFIG_OPTION_PREPARE_ONLY = 7,
  QNN_HTP_CONTEXT_CONFIG_OPTION_INIT_ACCELERATION = 8,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SKIP_VALIDATION_ON_BINARY_SECTION = 9,
  QNN_HTP_CONTEXT_CONFIG_OPTION_SHARE_RESOURCES_OPTIMIZATION_TYPE = 10,
  QNN_HTP_CONTEXT_CONFIG_OPTION_USE_EXTENDED_UDMA = 11,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REGISTER_CONCURRENT_RESOURCE_SHARING = 12,
  QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_ENABLED = 13,
  QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_14 = 14,
  QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_15 = 15,
  QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_WEIGHT_SHARING_RAM_PRELOAD_ENABLED = 16,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REUSED_IO_LIMIT = 17,
  QNN_HTP_CONTEXT_CONFIG_OPTION_REFERENCE_WEIGHT_SHARING_ENABLED = 18,
  QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_EXTRA_SIZE = 19,
  QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING_ENABLED = 20,
  QNN_HTP_CONTEXT_CONFIG_OPTION_CONCURRENT_DESERIALIZATION_PATCH = 21,
  QNN_HTP_CONTEXT_CONFIG_OPTION_GRAPH_SPLITTING_CONFIGS = 22,
  QNN_HTP_CONTEXT_CONFIG_OPTION_LORA_PRELOAD_BUFFER_GROUPS = 23,
  QNN_HTP_CONTEXT_CONFIG_OPTION_RESERVED_24 = 24,
  QNN_HTP_CONTEXT_CONFIG_OPTION_PARALLEL_WEIGHT_LOADING = 25,
  QNN_HTP_CONTEXT_CONFIG_OPTION_UNKNOWN = 0x7fffffff,
} QnnHtpContext_ConfigOption_t;

typedef enum {
  QNN_GRAPH_CONFIG_OPTION_CUSTOM = 0,
  QNN_GRAPH_CONFIG_OPTION_PRIORITY = 3,
  QNN_GRAPH_CONFIG_OPTION_PROFILE_HANDLE = 4,
  QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_STATE = 5,
  QNN_GRAPH_CONFIG_OPTION_SET_PROFILING_NUM_EXECUTIONS = 6,
  QNN_GRAPH_CONFIG_OPTION_ENABLE_BINARY_SECTION_WEIGHTS_UPDATES = 7,
  QNN_GRAPH_CONFIG_OPTION_UNDEFINED = 0x7fffffff,
} QnnGraph_ConfigOption_t;

typedef enum {
  QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION = 1,
  QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION = 2,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB = 3,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE = 3,
  QNN_HTP_GRAPH_CONFIG_OPTION_FOLD_RELU_ACTIVATION_INTO_CONV_OFF = 4,
  QNN_HTP_GRAPH_CONFIG_OPTION_SHORT_DEPTH_CONV_ON_HMX_OFF = 5,
  QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS = 6,
  QNN_HTP_GRAPH_CONFIG_OPTION_FINALIZE_CONFIG = 7,
  QNN_HTP_GRAPH_CONFIG_OPTION_NUM_CORES = 8,
  QNN_HTP_GRAPH_CONFIG_OPTION_PARALLEL_GRAPH_EXECUTION_CONFIG = 9,
  QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_BYTES = 10,
  QNN_HTP_GRAPH_CONFIG_OPTION_HMX_BOUNDING = 11,
  QNN_HTP_GRAPH_CONFIG_OPTION_WEIGHTS_PACKING = 12,
  QNN_HTP_GRAPH_CONFIG_OPTION_ASSUME_SAME_QUANT = 13,
  QNN_HTP_GRAPH_CONFIG_OPTION_SHARE_IO_BUFFER = 14,
  QNN_HTP_GRAPH_CONFIG_OPTION_ADVANCED_ACTIVATION_FUSION = 15,
  QNN_HTP_GRAPH_CONFIG_OPTION_HIGH_PRECISION_SIGMOID = 16,
  QNN_HTP_GRAPH_CONFIG_OPTION_MONOLITHIC_LSTM = 17,
  QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION_COMPENSATION = 18,
  QNN_HTP_GRAPH_CONFIG_OPTION_ENABLE_PREDICATION = 19,
  QNN_HTP_GRAPH_CONFIG_OPTION_FP16_CLAMP_OVERFLOW = 20,
  QNN_HTP_GRAPH_CONFIG_OPTION_RESERVED = 0x7fff0000,
  QNN_HTP_GRAPH_CONFIG_OPTION_UNKNOWN = 0x7fffffff,
} QnnHtpGraph_ConfigOption_t;

typedef enum {
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_SCHEDULE_THRESHOLD = 1,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_RETRIES = 2,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG = 3,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC = 4,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_DLBC_WEIGHTS = 5,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SPARSE_WEIGHTS_COMPRESSION = 6,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_SLC_ALLOCATOR = 7,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_VTCM_RETENTION = 8,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_ENABLE_CACHED_WEIGHTS = 9,
  QNN_HTP_GRAPH_OPTIMIZATION_TYPE_UNKNOWN = 0x7fffffff,
} QnnHtpGraph_OptimizationType_t;

typedef enum {
  QNN_IR_GRAPH_CONFIG_OPTION_SERIALIZATION = 1,
  QNN_IR_GRAPH_CONFIG_OPTION_UNKNOWN = 0x7fffffff,
} QnnIrGraph_ConfigOption_t;

typedef enum {
  QNN_IR_GRAPH_SERIALIZATION_TYPE_FLAT_BUFFER = 1,
} QnnIrGraph_SerializationType_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_BINARY_INFO_UNDEFINED = 0x7fffffff,
} QnnSystemContext_BinaryInfoVersion_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1 = 1,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_2 = 2,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3 = 3,
  QNN_SYSTEM_CONTEXT_GRAPH_INFO_UNDEFINED = 0x7fffffff,
} QnnSystemContext_GraphInfoVersion_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V1 = 1,
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_VERSION_V2 = 2,
  QNN_SYSTEM_CONTEXT_HTP_GRAPH_INFO_BLOB_UNDEFINED = 0x7fffffff,
} QnnHtpSystemContext_GraphInfoBlobVersion_t;

typedef enum {
  QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_VERSION_V1 = 1,
  QNN_SYSTEM_CONTEXT_HTP_CONTEXT_INFO_BLOB_UNDEFINED = 0x7fffffff,
} QnnHtpSystemContext_ContextInfoBlobVersion_t;

/* ---- Tensors and ops ---- */
typedef struct Qnn_Version_t {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} Qnn_Version_t;

typedef struct Qnn_ApiVersion_t {
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
} Qnn_ApiVersion_t;

/* value = (stored + offset) * scale */
typedef struct Qnn_ScaleOffset_t {
  float scale;
  int32_t offset;
} Qnn_ScaleOffset_t;

typedef struct Qnn_AxisScaleOffset_t {
  int32_t axis;
  uint32_t numScaleOffsets;
  Qnn_ScaleOffset_t* scaleOffset;
} Qnn_AxisScaleOffset_t;

typedef struct Qnn_BwScaleOffset_t {
  uint32_t bitwidth;
  float scale;
  int32_t offset;
} Qnn_BwScaleOffset_t;

typedef struct Qnn_BwAxisScaleOffset_t {
  uint32_t bitwidth;
  int32_t axis;
  uint32_t numElements;
  float* scales;
  int32_t* offsets;
} Qnn_BwAxisScaleOffset_t;

/* weight = stored * channel scale * block scale; block scales channel-major */
typedef struct Qnn_BlockwiseExpansion_t {
  int32_t axis;
  Qnn_ScaleOffset_t* scaleOffsets;
  uint32_t numBlocksPerAxis;
  uint32_t blockScaleBitwidth;
  Qnn_BlockwiseExpansionBlockScaleStorageType_t blockScaleStorageType;
  union {
    uint8_t* blocksScale8;
    uint16_t* blocksScale16;
  } u;
} Qnn_BlockwiseExpansion_t;

typedef struct Qnn_FloatScaleOffset_t {
  float scale;
  float offset;
} Qnn_FloatScaleOffset_t;

typedef struct Qnn_BwFloatBlockEncoding_t {
  uint32_t bitwidth;
  uint32_t* blockSize;
  Qnn_FloatScaleOffset_t* floatScaleOffset;
} Qnn_BwFloatBlockEncoding_t;

typedef struct Qnn_QuantizeParams_t {
  Qnn_Definition_t encodingDefinition;
  Qnn_QuantizationEncoding_t quantizationEncoding;
  union {
    Qnn_ScaleOffset_t scaleOffsetEncoding;
    Qnn_AxisScaleOffset_t axisScaleOffsetEncoding;
    Qnn_BwScaleOffset_t bwScaleOffsetEncoding;
    Qnn_BwAxisScaleOffset_t bwAxisScaleOffsetEncoding;
    Qnn_BlockwiseExpansion_t* blockwiseExpansion;
    Qnn_BwFloatBlockEncoding_t bwFloatBlockEncoding;
  } u;
} Qnn_QuantizeParams_t;

typedef struct Qnn_ClientBuffer_t {
  void* data;
  uint32_t dataSize;
} Qnn_ClientBuffer_t;

typedef struct Qnn_TensorV1_t {
  uint32_t id;
  const char* name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t* dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
  } u;
} Qnn_TensorV1_t;

typedef struct Qnn_SparseLayoutHybridCoo_t {
  uint32_t numSpecifiedElements;
  uint32_t numSparseDimensions;
} Qnn_SparseLayoutHybridCoo_t;

typedef struct Qnn_SparseParams_t {
  Qnn_SparseLayoutType_t type;
  union {
    Qnn_SparseLayoutHybridCoo_t hybridCoo;
  } u;
} Qnn_SparseParams_t;

typedef struct Qnn_TensorV2_t {
  uint32_t id;
  const char* name;
  Qnn_TensorType_t type;
  Qnn_TensorDataFormat_t dataFormat;
  Qnn_DataType_t dataType;
  Qnn_QuantizeParams_t quantizeParams;
  uint32_t rank;
  uint32_t* dimensions;
  Qnn_TensorMemType_t memType;
  union {
    Qnn_ClientBuffer_t clientBuf;
    Qnn_MemHandle_t memHandle;
  } u;
  uint8_t* isDynamicDimensions;
  Qnn_SparseParams_t sparseParams;
  uint8_t isProduced;
} Qnn_TensorV2_t;

/* By value in op configurations; the id is written by tensorCreateGraphTensor. */
typedef struct Qnn_Tensor_t {
  Qnn_TensorVersion_t version;
  union {
    Qnn_TensorV1_t v1;
    Qnn_TensorV2_t v2;
  } u;
} Qnn_Tensor_t;

typedef struct Qnn_Scalar_t {
  Qnn_DataType_t dataType;
  union {
    float floatValue;
    double doubleValue;
    uint64_t uint64Value;
    int64_t int64Value;
    uint32_t uint32Value;
    int32_t int32Value;
    uint8_t uint8Value;
    int8_t int8Value;
    uint8_t bool8Value;
    const char* stringValue;
  } u;
} Qnn_Scalar_t;

typedef struct Qnn_Param_t {
  Qnn_ParamType_t paramType;
  const char* name;
  union {
    Qnn_Scalar_t scalarParam;
    Qnn_Tensor_t tensorParam;
  } u;
} Qnn_Param_t;

typedef struct Qnn_OpConfigV1_t {
  const char* name;
  const char* packageName;
  const char* typeName;
  uint32_t numOfParams;
  Qnn_Param_t* params;
  uint32_t numOfInputs;
  Qnn_Tensor_t* inputTensors;
  uint32_t numOfOutputs;
  Qnn_Tensor_t* outputTensors;
} Qnn_OpConfigV1_t;

/* Passed by value. */
typedef struct Qnn_OpConfig_t {
  Qnn_OpConfigVersion_t version;
  union {
    Qnn_OpConfigV1_t v1;
  } u;
} Qnn_OpConfig_t;

/* ---- Configurations ---- */
typedef struct QnnBackend_OperationName_t {
  const char* packageName;
  const char* name;
  const char* target;
} QnnBackend_OperationName_t;

typedef struct QnnHtpDevice_CustomConfig_t {
  QnnHtpDevice_ConfigOption_t option;
  union {
    uint32_t socModel;
    uint64_t otherMembers[1];
  } u;
} QnnHtpDevice_CustomConfig_t;

typedef struct QnnDevice_Config_t {
  QnnDevice_ConfigOption_t option;
  union {
    void* customConfig;
  } u;
} QnnDevice_Config_t;

/* weightSharingEnabled: option WEIGHT_SHARING_ENABLED. */
typedef struct QnnHtpContext_CustomConfig_t {
  QnnHtpContext_ConfigOption_t option;
  union {
    _Bool weightSharingEnabled;
    uint64_t otherMembers[2];
  } u;
} QnnHtpContext_CustomConfig_t;

typedef struct QnnContext_Config_t {
  QnnContext_ConfigOption_t option;
  union {
    void* customConfig;
  } u;
} QnnContext_Config_t;

typedef struct QnnHtpGraph_OptimizationOption_t {
  QnnHtpGraph_OptimizationType_t type;
  float floatValue;
} QnnHtpGraph_OptimizationOption_t;

/* vtcmSizeInMB: 0 means the most that the SoC has. */
typedef struct QnnHtpGraph_CustomConfig_t {
  QnnHtpGraph_ConfigOption_t option;
  union {
    QnnHtpGraph_OptimizationOption_t optimizationOption;
    Qnn_Precision_t precision;
    uint32_t vtcmSizeInMB;
    uint64_t numHvxThreads;
    _Bool fp16ClampOverflow;
    uint64_t otherMembers[6];
  } u;
} QnnHtpGraph_CustomConfig_t;

typedef struct QnnIrGraph_SerializationOption_t {
  QnnIrGraph_SerializationType_t serializationType;
  const char* outputPath;
} QnnIrGraph_SerializationOption_t;

typedef struct QnnIrGraph_CustomConfig_t {
  QnnIrGraph_ConfigOption_t option;
  union {
    QnnIrGraph_SerializationOption_t serializationOption;
  } u;
} QnnIrGraph_CustomConfig_t;

typedef struct QnnGraph_Config_t {
  QnnGraph_ConfigOption_t option;
  union {
    void* customConfig;
  } u;
} QnnGraph_Config_t;

/* ---- Function table of a backend: 72 entries up to core API 2.38, 75 from 2.39; an entry may be NULL ---- */
typedef void (*Qnn_UnusedFn_t)(void);
typedef void (*QnnLog_Callback_t)(const char* format, QnnLog_Level_t level, uint64_t timestamp, Qnn_VaList_t args);

typedef struct QnnInterface_Table_t {
  Qnn_UnusedFn_t propertyHasCapability;
  Qnn_ErrorHandle_t (*backendCreate)(Qnn_LogHandle_t, const void**, Qnn_BackendHandle_t*);
  Qnn_UnusedFn_t backendSetConfig;
  Qnn_ErrorHandle_t (*backendGetApiVersion)(Qnn_ApiVersion_t*);
  Qnn_ErrorHandle_t (*backendGetBuildId)(const char**);
  Qnn_ErrorHandle_t (*backendRegisterOpPackage)(Qnn_BackendHandle_t, const char*, const char*, const char*);
  Qnn_ErrorHandle_t (*backendGetSupportedOperations)(Qnn_BackendHandle_t, uint32_t*, const QnnBackend_OperationName_t**);
  Qnn_ErrorHandle_t (*backendValidateOpConfig)(Qnn_BackendHandle_t, Qnn_OpConfig_t);
  Qnn_UnusedFn_t backendFree;
  Qnn_ErrorHandle_t (*contextCreate)(Qnn_BackendHandle_t, Qnn_DeviceHandle_t, const QnnContext_Config_t**, Qnn_ContextHandle_t*);
  Qnn_UnusedFn_t contextSetConfig;
  Qnn_ErrorHandle_t (*contextGetBinarySize)(Qnn_ContextHandle_t, Qnn_ContextBinarySize_t*);
  Qnn_ErrorHandle_t (*contextGetBinary)(Qnn_ContextHandle_t, void*, Qnn_ContextBinarySize_t, Qnn_ContextBinarySize_t*);
  Qnn_ErrorHandle_t (*contextCreateFromBinary)(Qnn_BackendHandle_t, Qnn_DeviceHandle_t, const QnnContext_Config_t**, const void*, Qnn_ContextBinarySize_t, Qnn_ContextHandle_t*, Qnn_ProfileHandle_t);
  Qnn_ErrorHandle_t (*contextFree)(Qnn_ContextHandle_t, Qnn_ProfileHandle_t);
  Qnn_ErrorHandle_t (*graphCreate)(Qnn_ContextHandle_t, const char*, const QnnGraph_Config_t**, Qnn_GraphHandle_t*);
  Qnn_UnusedFn_t graphCreateSubgraph;
  Qnn_UnusedFn_t graphSetConfig;
  Qnn_ErrorHandle_t (*graphAddNode)(Qnn_GraphHandle_t, Qnn_OpConfig_t);
  Qnn_ErrorHandle_t (*graphFinalize)(Qnn_GraphHandle_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t);
  Qnn_ErrorHandle_t (*graphRetrieve)(Qnn_ContextHandle_t, const char*, Qnn_GraphHandle_t*);
  Qnn_ErrorHandle_t (*graphExecute)(Qnn_GraphHandle_t, const Qnn_Tensor_t*, uint32_t, Qnn_Tensor_t*, uint32_t, Qnn_ProfileHandle_t, Qnn_SignalHandle_t);
  Qnn_UnusedFn_t graphExecuteAsync;
  Qnn_UnusedFn_t tensorCreateContextTensor;
  Qnn_ErrorHandle_t (*tensorCreateGraphTensor)(Qnn_GraphHandle_t, Qnn_Tensor_t*);
  Qnn_ErrorHandle_t (*logCreate)(QnnLog_Callback_t, QnnLog_Level_t, Qnn_LogHandle_t*);
  Qnn_ErrorHandle_t (*logSetLogLevel)(Qnn_LogHandle_t, QnnLog_Level_t);
  Qnn_UnusedFn_t logFree;
  Qnn_UnusedFn_t profileCreate;
  Qnn_UnusedFn_t profileSetConfig;
  Qnn_UnusedFn_t profileGetEvents;
  Qnn_UnusedFn_t profileGetSubEvents;
  Qnn_UnusedFn_t profileGetEventData;
  Qnn_UnusedFn_t profileGetExtendedEventData;
  Qnn_UnusedFn_t profileFree;
  Qnn_UnusedFn_t memRegister;
  Qnn_UnusedFn_t memDeRegister;
  Qnn_UnusedFn_t deviceGetPlatformInfo;
  Qnn_UnusedFn_t deviceFreePlatformInfo;
  Qnn_UnusedFn_t deviceGetInfrastructure;
  Qnn_ErrorHandle_t (*deviceCreate)(Qnn_LogHandle_t, const QnnDevice_Config_t**, Qnn_DeviceHandle_t*);
  Qnn_UnusedFn_t deviceSetConfig;
  Qnn_UnusedFn_t deviceGetInfo;
  Qnn_UnusedFn_t deviceFree;
  Qnn_UnusedFn_t signalCreate;
  Qnn_UnusedFn_t signalSetConfig;
  Qnn_UnusedFn_t signalTrigger;
  Qnn_UnusedFn_t signalFree;
  Qnn_UnusedFn_t errorGetMessage;
  Qnn_UnusedFn_t errorGetVerboseMessage;
  Qnn_UnusedFn_t errorFreeVerboseMessage;
  Qnn_UnusedFn_t graphPrepareExecutionEnvironment;
  Qnn_UnusedFn_t graphReleaseExecutionEnvironment;
  Qnn_UnusedFn_t graphGetProperty;
  Qnn_UnusedFn_t contextValidateBinary;
  Qnn_UnusedFn_t contextCreateFromBinaryWithSignal;
  Qnn_UnusedFn_t contextCreateFromBinaryListAsync;
  Qnn_UnusedFn_t tensorUpdateGraphTensors;
  Qnn_UnusedFn_t tensorUpdateContextTensors;
  Qnn_UnusedFn_t contextGetBinarySectionSize;
  Qnn_UnusedFn_t contextGetBinarySection;
  Qnn_UnusedFn_t contextApplyBinarySection;
  Qnn_UnusedFn_t backendGetProperty;
  Qnn_UnusedFn_t contextGetProperty;
  Qnn_UnusedFn_t contextGetIncrementalBinary;
  Qnn_UnusedFn_t contextReleaseIncrementalBinary;
  Qnn_UnusedFn_t contextFinalize;
  Qnn_UnusedFn_t globalConfigSet;
  Qnn_UnusedFn_t contextCreateFromBinaryWithCallback;
  Qnn_UnusedFn_t contextGetBinarySectionUpdate;
  Qnn_UnusedFn_t contextFreeBinarySectionUpdate;
  Qnn_UnusedFn_t contextAddToDlc;
  Qnn_UnusedFn_t graphValidate;
  Qnn_UnusedFn_t graphFreeValidationResult;
  Qnn_UnusedFn_t backendRegisterOpPackageFromBinary;
} QnnInterface_Table_t;

/* What QnnInterface_getProviders hands out; the table behind it is as long as the library's version has it. */
typedef struct QnnInterface_Provider_t {
  uint32_t backendId;
  const char* providerName;
  Qnn_ApiVersion_t apiVersion;
} QnnInterface_Provider_t;

typedef Qnn_ErrorHandle_t (*QnnInterface_GetProvidersFn_t)(const QnnInterface_Provider_t*** providers, uint32_t* count);

/* ---- libQnnSystem: what is inside a context binary ---- */

typedef struct QnnSystemContext_GraphInfoV1_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
} QnnSystemContext_GraphInfoV1_t;

typedef struct QnnSystemContext_GraphInfoV2_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t* updateableTensors;
} QnnSystemContext_GraphInfoV2_t;

typedef struct QnnSystemContext_GraphInfoV3_t {
  const char* graphName;
  uint32_t numGraphInputs;
  Qnn_Tensor_t* graphInputs;
  uint32_t numGraphOutputs;
  Qnn_Tensor_t* graphOutputs;
  uint32_t numUpdateableTensors;
  Qnn_Tensor_t* updateableTensors;
  uint32_t graphBlobInfoSize;
  void* graphBlobInfo;
  uint32_t startOpIndex;
  uint32_t endOpIndex;
} QnnSystemContext_GraphInfoV3_t;

typedef struct QnnSystemContext_GraphInfo_t {
  QnnSystemContext_GraphInfoVersion_t version;
  union {
    QnnSystemContext_GraphInfoV1_t graphInfoV1;
    QnnSystemContext_GraphInfoV2_t graphInfoV2;
    QnnSystemContext_GraphInfoV3_t graphInfoV3;
  } u;
} QnnSystemContext_GraphInfo_t;

typedef struct QnnSystemContext_BinaryInfoV1_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void* hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
} QnnSystemContext_BinaryInfoV1_t;

typedef struct QnnSystemContext_BinaryInfoV2_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t hwInfoBlobVersion;
  Qnn_Version_t contextBlobVersion;
  uint32_t hwInfoBlobSize;
  void* hwInfoBlob;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
  void* platformInfo;
} QnnSystemContext_BinaryInfoV2_t;

/* contextMetadata of HTP binaries: QnnHtpSystemContext_ContextBlobInfo_t. */
typedef struct QnnSystemContext_BinaryInfoV3_t {
  uint32_t backendId;
  const char* buildId;
  Qnn_Version_t coreApiVersion;
  Qnn_Version_t backendApiVersion;
  const char* socVersion;
  Qnn_Version_t contextBlobVersion;
  uint64_t contextBlobSize;
  uint32_t numContextTensors;
  Qnn_Tensor_t* contextTensors;
  uint32_t numGraphs;
  QnnSystemContext_GraphInfo_t* graphs;
  void* platformInfo;
  uint32_t contextMetadataSize;
  void* contextMetadata;
  uint32_t socModel;
} QnnSystemContext_BinaryInfoV3_t;

typedef struct QnnSystemContext_BinaryInfo_t {
  QnnSystemContext_BinaryInfoVersion_t version;
  union {
    QnnSystemContext_BinaryInfoV1_t contextBinaryInfoV1;
    QnnSystemContext_BinaryInfoV2_t contextBinaryInfoV2;
    QnnSystemContext_BinaryInfoV3_t contextBinaryInfoV3;
  } u;
} QnnSystemContext_BinaryInfo_t;

/* What HTP adds per graph; vtcmSize is in bytes. */
typedef struct QnnHtpSystemContext_GraphBlobInfoV1_t {
  uint64_t spillFillBufferSize;
  uint32_t vtcmSize;
  uint32_t optimizationLevel;
  uint8_t htpDlbc;
  uint64_t numHvxThreads;
} QnnHtpSystemContext_GraphBlobInfoV1_t;

typedef struct QnnHtpSystemContext_GraphBlobInfo_t {
  QnnHtpSystemContext_GraphInfoBlobVersion_t version;
  union {
    QnnHtpSystemContext_GraphBlobInfoV1_t contextBinaryGraphBlobInfoV1;
  } u;
} QnnHtpSystemContext_GraphBlobInfo_t;

typedef struct QnnHtpSystemContext_ContextBlobInfoV1_t {
  uint32_t dspArch;
} QnnHtpSystemContext_ContextBlobInfoV1_t;

typedef struct QnnHtpSystemContext_ContextBlobInfo_t {
  QnnHtpSystemContext_ContextInfoBlobVersion_t version;
  union {
    QnnHtpSystemContext_ContextBlobInfoV1_t contextBinaryContextBlobInfoV1;
  } u;
} QnnHtpSystemContext_ContextBlobInfo_t;

/* The first entries of the table; the rest (reading of .dlc files) is not used. */
typedef struct QnnSystemInterface_Table_t {
  Qnn_ErrorHandle_t (*systemContextCreate)(QnnSystemContext_Handle_t*);
  Qnn_ErrorHandle_t (*systemContextGetBinaryInfo)(QnnSystemContext_Handle_t, void*, uint64_t, const QnnSystemContext_BinaryInfo_t**, Qnn_ContextBinarySize_t*);
  Qnn_ErrorHandle_t (*systemContextGetMetaData)(QnnSystemContext_Handle_t, const void*, uint64_t, const QnnSystemContext_BinaryInfo_t**);
  Qnn_ErrorHandle_t (*systemContextFree)(QnnSystemContext_Handle_t);
  Qnn_UnusedFn_t systemTensorGetMemoryFootprint;
  Qnn_ErrorHandle_t (*systemLogCreate)(QnnLog_Callback_t, QnnLog_Level_t, Qnn_LogHandle_t*);
  Qnn_UnusedFn_t systemLogSetLogLevel;
  Qnn_UnusedFn_t systemLogFree;
} QnnSystemInterface_Table_t;

typedef struct QnnSystemInterface_Provider_t {
  uint32_t backendId;
  const char* providerName;
  Qnn_Version_t systemApiVersion;
  QnnSystemInterface_Table_t table;
} QnnSystemInterface_Provider_t;

typedef Qnn_ErrorHandle_t (*QnnSystemInterface_GetProvidersFn_t)(const QnnSystemInterface_Provider_t*** providers, uint32_t* count);

#endif
