//! The loader against an independent reader, the `onnx-protobuf` crate: both must see the same model in every file.
//!
//! That crate knows ONNX up to IR version 10; what came later (a few element types, multi-device parts) is compared as
//! far as it reads it. Models with functions of their own are compared before inlining only where the loader keeps
//! their nodes as they are, so they are skipped by name.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

use std::collections::BTreeMap;

use onnx_common::{models_at_hand, rich};
use onnx_protobuf::{AttributeProto, GraphProto, Message, ModelProto, TensorProto, attribute_proto::AttributeType};
use qnnc::ir::{Attr, Dim, Graph, Tensor, ValueId, ValueType};
use qnnc::onnx::{Model, load, load_bytes};

/// The elements of a tensor in `raw_data` form, as the other reader has them; `None` for external data.
fn elements(t: &TensorProto) -> Option<Vec<u8>> {
    if t.data_location.value() == 1 {
        return None;
    }
    if !t.raw_data.is_empty() {
        return Some(t.raw_data.clone());
    }
    let bytes: Vec<u8> = match t.data_type {
        1 | 14 => t.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        11 | 15 => t.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        7 => t.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        13 => t.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        12 => t.uint64_data.iter().flat_map(|v| (*v as u32).to_le_bytes()).collect(),
        6 => t.int32_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        4 | 5 | 10 | 16 => t.int32_data.iter().flat_map(|v| (*v as u16).to_le_bytes()).collect(),
        _ => t.int32_data.iter().map(|v| *v as u8).collect(),
    };
    Some(bytes)
}

fn same_tensor(ours: &Tensor, theirs: &TensorProto, at: &str) {
    assert_eq!(ours.dtype().to_onnx(), theirs.data_type, "element type of {at}");
    let dims: Vec<i64> = ours.shape().iter().map(|&d| d as i64).collect();
    assert_eq!(dims, theirs.dims, "shape of {at}");
    if let Some(strings) = ours.strings() {
        assert!(strings.iter().map(|s| &s[..]).eq(theirs.string_data.iter().map(|s| &s[..])), "strings of {at}");
    } else if let Some(bytes) = elements(theirs) {
        assert!(ours.bytes() == bytes, "bytes of {at}");
    }
}

fn same_attribute(ours: &Attr, theirs: &AttributeProto, at: &str) {
    match (ours, theirs.type_.enum_value_or_default()) {
        (Attr::Int(i), AttributeType::INT) => assert_eq!(*i, theirs.i, "{at}"),
        (Attr::Float(f), AttributeType::FLOAT) => assert_eq!(f.to_bits(), theirs.f.to_bits(), "{at}"),
        (Attr::Str(s), AttributeType::STRING) => assert_eq!(s[..], theirs.s, "{at}"),
        (Attr::Ints(v), AttributeType::INTS) => assert_eq!(v, &theirs.ints, "{at}"),
        (Attr::Floats(v), AttributeType::FLOATS) => assert_eq!(v, &theirs.floats, "{at}"),
        (Attr::Strs(v), AttributeType::STRINGS) => {
            assert!(v.iter().map(|s| &s[..]).eq(theirs.strings.iter().map(|s| &s[..])), "{at}");
        }
        (Attr::Tensor(t), AttributeType::TENSOR) => same_tensor(t, &theirs.t, at),
        (Attr::Graph(g), AttributeType::GRAPH) => same_graph(g, &theirs.g, at),
        (Attr::Opaque(_), _) => {}
        (ours, theirs) => panic!("{at}: {ours:?} against {theirs:?}"),
    }
}

fn same_type(ours: &ValueType, theirs: &onnx_protobuf::TypeProto, at: &str) {
    if !theirs.has_tensor_type() {
        assert!(!matches!(ours, ValueType::Tensor(_) | ValueType::Unranked(_)), "type of {at}");
        return;
    }
    let t = theirs.tensor_type();
    if t.elem_type == 0 {
        return;
    }
    assert_eq!(ours.dtype().map(qnnc::ir::DataType::to_onnx), Some(t.elem_type), "element type of {at}");
    let Some(shape) = t.shape.as_ref() else {
        assert!(matches!(ours, ValueType::Unranked(_)), "rank of {at}");
        return;
    };
    let dims = &ours.tensor().unwrap_or_else(|| panic!("{at} has no shape here")).shape;
    assert_eq!(dims.len(), shape.dim.len(), "rank of {at}");
    for (axis, (ours, theirs)) in dims.iter().zip(&shape.dim).enumerate() {
        let at = format!("dimension {axis} of {at}");
        if theirs.has_dim_value() && theirs.dim_value() >= 0 {
            assert_eq!(*ours, Dim::Known(theirs.dim_value()), "{at}");
        } else {
            assert!(ours.known().is_none(), "{at}");
            if theirs.has_dim_param() && theirs.dim_param().chars().all(|c| c.is_alphanumeric() || c == '_') {
                let param = theirs.dim_param();
                assert!(param.is_empty() || param == "None" || *ours == Dim::symbol(param), "{at}");
            }
        }
    }
}

fn same_graph(ours: &Graph, theirs: &GraphProto, at: &str) {
    let name = |v: Option<ValueId>| v.map_or("", |v| ours.value(v).name.as_str());
    assert_eq!(ours.name, theirs.name, "{at}");
    assert_eq!(ours.node_count(), theirs.node.len(), "number of nodes {at}");
    for ((_, n), m) in ours.nodes().zip(&theirs.node) {
        let at = format!("node {} {at}", n.name);
        if !m.name.is_empty() {
            assert!(n.name.starts_with(m.name.as_str()), "name of {at} against {}", m.name);
        }
        assert_eq!(n.op_type, m.op_type, "{at}");
        assert_eq!(n.domain, if m.domain == "ai.onnx" { "" } else { &m.domain }, "{at}");
        assert!(n.inputs.iter().map(|v| name(*v)).eq(m.input.iter().map(String::as_str)), "inputs of {at}");
        assert!(n.outputs.iter().map(|v| name(*v)).eq(m.output.iter().map(String::as_str)), "outputs of {at}");
        let attributes: BTreeMap<&str, &AttributeProto> = m.attribute.iter().map(|a| (a.name.as_str(), a)).collect();
        assert_eq!(n.attrs.0.len(), attributes.len(), "attributes of {at}");
        for (key, value) in &n.attrs.0 {
            let theirs = attributes.get(key.as_str()).unwrap_or_else(|| panic!("attribute {key} of {at}"));
            same_attribute(value, theirs, &format!("attribute {key} of {at}"));
        }
    }
    let constant = |name: &str| ours.value_named(name).and_then(|v| ours.value(v).data.as_ref());
    for t in &theirs.initializer {
        let ours = constant(&t.name).unwrap_or_else(|| panic!("initializer {} {at}", t.name));
        same_tensor(ours, t, &format!("initializer {} {at}", t.name));
    }
    let inputs: Vec<&str> = theirs.input.iter().map(|v| v.name.as_str()).filter(|n| constant(n).is_none()).collect();
    assert!(ours.inputs.iter().map(|v| name(Some(*v))).eq(inputs), "inputs {at}");
    assert!(
        ours.outputs.iter().map(|v| name(Some(*v))).eq(theirs.output.iter().map(|v| v.name.as_str())),
        "outputs {at}"
    );
    for v in theirs.input.iter().chain(&theirs.value_info) {
        // A hint about a value that is not there, or is a constant, plays no part.
        if let Some(id) = ours.value_named(&v.name).filter(|id| ours.value(*id).data.is_none()) {
            same_type(&ours.value(id).ty, &v.type_, &format!("value {} {at}", v.name));
        }
    }
}

fn same_model(ours: &Model, bytes: &[u8], at: &str) {
    let theirs = ModelProto::parse_from_bytes(bytes).unwrap_or_else(|e| panic!("{at}: {e}"));
    assert_eq!(ours.ir_version, theirs.ir_version, "{at}");
    assert_eq!(ours.producer_name, theirs.producer_name, "{at}");
    assert_eq!(ours.metadata.len(), theirs.metadata_props.len(), "{at}");
    for import in &theirs.opset_import {
        let domain = if import.domain == "ai.onnx" { "" } else { import.domain.as_str() };
        assert_eq!(ours.opsets.get(domain), Some(&import.version), "{at}");
    }
    if ours.inlined_calls > 0 {
        println!("skipped: the nodes of {at} (it has functions of its own)");
        return;
    }
    same_graph(&ours.graph, &theirs.graph, at);
}

#[test]
fn both_readers_see_the_same_model() {
    for path in models_at_hand() {
        let ours = load(&path).unwrap_or_else(|e| panic!("{e}"));
        same_model(&ours, &std::fs::read(&path).unwrap(), &path.display().to_string());
    }
}

#[test]
fn both_readers_see_the_same_rich_model() {
    let mut model = rich();
    model.functions.clear();
    let bytes = prost::Message::encode_to_vec(&model);
    let ours = load_bytes(std::path::Path::new("rich.onnx"), bytes.clone().into()).unwrap();
    same_model(&ours, &bytes, "rich.onnx");
}
