//! The bindings have the layout of the real ABI: `abi_facts.json` holds sizes and offsets as facts, found by probing the
//! real libraries; where the shared collection of these facts is present, that is compared too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::mem::offset_of;

use qnn_sys::*;
use serde_json::Value;

type Struct = (&'static str, usize, Vec<(&'static str, usize)>);

/// Lists structs with their members; a member of the union at the end is written `u.name`.
macro_rules! structs {
    ($($name:ident { $($($field:ident).+),* };)*) => {
        vec![$((
            stringify!($name),
            size_of::<$name>(),
            vec![$((member(stringify!($($field).+)), offset_of!($name, $($field).+))),*],
        )),*]
    };
}

/// The name that the facts have for a member.
fn member(path: &'static str) -> &'static str {
    let path = path.trim_start_matches("u.").trim_start_matches("u .").trim();
    if path == "type_" { "type" } else { path }
}

macro_rules! entries {
    ($table:ident: $($name:ident),*) => {
        vec![$((stringify!($name), offset_of!($table, $name) / size_of::<usize>())),*]
    };
}

fn ours() -> Vec<Struct> {
    structs! {
        Qnn_Version_t { major, minor, patch };
        Qnn_ApiVersion_t { coreApiVersion, backendApiVersion };
        Qnn_ScaleOffset_t { scale, offset };
        Qnn_AxisScaleOffset_t { axis, numScaleOffsets, scaleOffset };
        Qnn_BwScaleOffset_t { bitwidth, scale, offset };
        Qnn_BwAxisScaleOffset_t { bitwidth, axis, numElements, scales, offsets };
        Qnn_BlockwiseExpansion_t { axis, scaleOffsets, numBlocksPerAxis, blockScaleBitwidth, blockScaleStorageType, u.blocksScale8, u.blocksScale16 };
        Qnn_FloatScaleOffset_t { scale, offset };
        Qnn_BwFloatBlockEncoding_t { bitwidth, blockSize, floatScaleOffset };
        Qnn_QuantizeParams_t { encodingDefinition, quantizationEncoding, u.scaleOffsetEncoding, u.axisScaleOffsetEncoding, u.bwScaleOffsetEncoding, u.bwAxisScaleOffsetEncoding, u.blockwiseExpansion, u.bwFloatBlockEncoding };
        Qnn_ClientBuffer_t { data, dataSize };
        Qnn_TensorV1_t { id, name, type_, dataFormat, dataType, quantizeParams, rank, dimensions, memType, u.clientBuf, u.memHandle };
        Qnn_SparseLayoutHybridCoo_t { numSpecifiedElements, numSparseDimensions };
        Qnn_SparseParams_t { type_, u.hybridCoo };
        Qnn_TensorV2_t { id, name, type_, dataFormat, dataType, quantizeParams, rank, dimensions, memType, u.clientBuf, u.memHandle, isDynamicDimensions, sparseParams, isProduced };
        Qnn_Tensor_t { version, u.v1, u.v2 };
        Qnn_Scalar_t { dataType, u.floatValue, u.doubleValue, u.uint64Value, u.int64Value, u.uint32Value, u.int32Value, u.uint8Value, u.int8Value, u.bool8Value, u.stringValue };
        Qnn_Param_t { paramType, name, u.scalarParam, u.tensorParam };
        Qnn_OpConfigV1_t { name, packageName, typeName, numOfParams, params, numOfInputs, inputTensors, numOfOutputs, outputTensors };
        Qnn_OpConfig_t { version, u.v1 };
        QnnBackend_OperationName_t { packageName, name, target };
        QnnHtpDevice_CustomConfig_t { option, u.socModel };
        QnnDevice_Config_t { option, u.customConfig };
        QnnHtpContext_CustomConfig_t { option, u.weightSharingEnabled };
        QnnContext_Config_t { option, u.customConfig };
        QnnHtpGraph_OptimizationOption_t { type_, floatValue };
        QnnHtpGraph_CustomConfig_t { option, u.optimizationOption, u.precision, u.vtcmSizeInMB, u.numHvxThreads, u.fp16ClampOverflow };
        QnnIrGraph_SerializationOption_t { serializationType, outputPath };
        QnnIrGraph_CustomConfig_t { option, u.serializationOption };
        QnnGraph_Config_t { option, u.customConfig };
        QnnSystemContext_GraphInfoV1_t { graphName, numGraphInputs, graphInputs, numGraphOutputs, graphOutputs };
        QnnSystemContext_GraphInfoV2_t { graphName, numGraphInputs, graphInputs, numGraphOutputs, graphOutputs, numUpdateableTensors, updateableTensors };
        QnnSystemContext_GraphInfoV3_t { graphName, numGraphInputs, graphInputs, numGraphOutputs, graphOutputs, numUpdateableTensors, updateableTensors, graphBlobInfoSize, graphBlobInfo, startOpIndex, endOpIndex };
        QnnSystemContext_GraphInfo_t { version, u.graphInfoV1, u.graphInfoV2, u.graphInfoV3 };
        QnnSystemContext_BinaryInfoV1_t { backendId, buildId, coreApiVersion, backendApiVersion, socVersion, hwInfoBlobVersion, contextBlobVersion, hwInfoBlobSize, hwInfoBlob, contextBlobSize, numContextTensors, contextTensors, numGraphs, graphs };
        QnnSystemContext_BinaryInfoV2_t { backendId, buildId, coreApiVersion, backendApiVersion, socVersion, hwInfoBlobVersion, contextBlobVersion, hwInfoBlobSize, hwInfoBlob, contextBlobSize, numContextTensors, contextTensors, numGraphs, graphs, platformInfo };
        QnnSystemContext_BinaryInfoV3_t { backendId, buildId, coreApiVersion, backendApiVersion, socVersion, contextBlobVersion, contextBlobSize, numContextTensors, contextTensors, numGraphs, graphs, platformInfo, contextMetadataSize, contextMetadata, socModel };
        QnnSystemContext_BinaryInfo_t { version, u.contextBinaryInfoV1, u.contextBinaryInfoV2, u.contextBinaryInfoV3 };
        QnnHtpSystemContext_GraphBlobInfoV1_t { spillFillBufferSize, vtcmSize, optimizationLevel, htpDlbc, numHvxThreads };
        QnnHtpSystemContext_GraphBlobInfo_t { version, u.contextBinaryGraphBlobInfoV1 };
        QnnHtpSystemContext_ContextBlobInfoV1_t { dspArch };
        QnnHtpSystemContext_ContextBlobInfo_t { version, u.contextBinaryContextBlobInfoV1 };
    }
}

fn table() -> Vec<(&'static str, usize)> {
    entries!(QnnInterface_Table_t: backendCreate, backendGetApiVersion, backendGetBuildId, backendRegisterOpPackage, backendGetSupportedOperations, backendValidateOpConfig, contextCreate, contextGetBinarySize, contextGetBinary, contextCreateFromBinary, contextFree, graphCreate, graphAddNode, graphFinalize, graphRetrieve, graphExecute, tensorCreateGraphTensor, logCreate, logSetLogLevel, deviceCreate)
}

fn system_table() -> Vec<(&'static str, usize)> {
    entries!(QnnSystemInterface_Table_t: systemContextCreate, systemContextGetBinaryInfo, systemContextGetMetaData, systemContextFree, systemLogCreate)
}

#[test]
fn bindings_match_the_facts() {
    let facts: Value = serde_json::from_str(include_str!("abi_facts.json")).unwrap();
    let known = facts["structs"].as_object().unwrap();
    assert_eq!(known.len(), ours().len());
    for (name, size, offsets) in ours() {
        let fact = &known[name];
        assert_eq!(fact["size"], size, "{name}");
        assert_eq!(fact["offsets"].as_object().unwrap().len(), offsets.len(), "{name}");
        for (field, offset) in offsets {
            assert_eq!(fact["offsets"][field], offset, "{name}.{field}");
        }
    }
    for (name, index) in table() {
        assert_eq!(facts["table"][name], index, "{name}");
    }
    for (name, index) in system_table() {
        assert_eq!(facts["system_table"][name], index, "{name}");
    }
    // The table has 75 entries, and follows what is read of a provider.
    assert_eq!(size_of::<QnnInterface_Table_t>(), 75 * size_of::<usize>());
    assert_eq!(size_of::<QnnInterface_Provider_t>(), 40);
    assert_eq!(offset_of!(QnnSystemInterface_Provider_t, table), 32);
}

/// The facts were copied from the shared collection, which may have grown since.
#[test]
fn facts_match_the_shared_collection() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/qnn/abi.json");
    let Ok(text) = std::fs::read_to_string(shared) else {
        println!("skipped: the shared collection of ABI facts is not here");
        return;
    };
    let shared: Value = serde_json::from_str(&text).unwrap();
    for (name, size, offsets) in ours() {
        let fact = &shared["types"][name];
        assert_eq!(fact["size"], size, "{name}");
        let mut known = Vec::new();
        flatten(&fact["fields"], &mut known);
        for (field, offset) in offsets {
            assert!(known.contains(&(field.to_owned(), offset as u64)), "{name}.{field} at {offset}");
        }
    }
}

/// Names and offsets of all members, also those inside unions.
fn flatten(fields: &Value, out: &mut Vec<(String, u64)>) {
    for field in fields.as_array().into_iter().flatten() {
        match (field["name"].as_str(), field["offset"].as_u64()) {
            (Some(name), Some(offset)) => out.push((name.to_owned(), offset)),
            _ => flatten(if field["union"].is_array() { &field["union"] } else { &field["struct"] }, out),
        }
    }
}
