//! Small models for the loader's tests, built as messages, and the search for model files.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use prost::Message;
use qnnc::ir::{DataType, Graph};
use qnnc::onnx::proto::*;
use qnnc::onnx::{Model, load_bytes};

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: op.into(),
        input: inputs.iter().map(|s| (*s).into()).collect(),
        output: outputs.iter().map(|s| (*s).into()).collect(),
        ..NodeProto::default()
    }
}

pub fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto { name: name.into(), ..node }
}

pub fn with(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
    node.attribute.push(attribute);
    node
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::INT, i: Some(i), ..AttributeProto::default() }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::FLOAT, f: Some(f), ..AttributeProto::default() }
}

pub fn body(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::GRAPH,
        g: Some(Box::new(g)),
        ..AttributeProto::default()
    }
}

pub fn reference(name: &str, of: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::FLOAT,
        ref_attr_name: of.into(),
        ..AttributeProto::default()
    }
}

/// A float tensor value; a dimension below 0 is open.
pub fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    typed(name, DataType::F32, dims)
}

pub fn typed(name: &str, dtype: DataType, dims: &[i64]) -> ValueInfoProto {
    let dim = |d: &i64| Dimension { value: (*d >= 0).then_some(DimensionValue::DimValue(*d)) };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = TensorTypeProto { elem_type: dtype.to_onnx(), shape: Some(shape) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) }) }
}

pub fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: DataType::F32.to_onnx(),
        dims: dims.to_vec(),
        raw_data: Some(values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()),
        ..TensorProto::default()
    }
}

pub fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.into(), version: Some(version) }
}

pub fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 8,
        producer_name: "test".into(),
        opset_import: vec![import("", 17)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

pub fn with_raw(tensor: TensorProto, raw_data: Option<bytes::Bytes>) -> TensorProto {
    TensorProto { raw_data, ..tensor }
}

/// `x [2] -> Relu -> y`
pub fn relu() -> GraphProto {
    GraphProto {
        name: "g".into(),
        node: vec![named("r", node("Relu", &["x"], &["y"]))],
        input: vec![value("x", &[2])],
        output: vec![value("y", &[2])],
        ..GraphProto::default()
    }
}

/// A model with a bit of everything: initializers of several kinds, a sparse one, bodies that capture, functions.
pub fn rich() -> ModelProto {
    let branch = |op: &str, local: &str| GraphProto {
        name: local.into(),
        node: vec![named("b", node(op, &["h", "w"], &[local]))],
        output: vec![value(local, &[-1, 2])],
        ..GraphProto::default()
    };
    let choose = with(
        with(named("choose", node("If", &["flag"], &["c"])), body("then_branch", branch("Add", "t"))),
        body("else_branch", branch("Mul", "e")),
    );
    let call = with(
        NodeProto { domain: "local".into(), ..named("call", node("Scaled", &["c"], &["f"])) },
        float("alpha", 0.25),
    );
    let function = FunctionProto {
        name: "Scaled".into(),
        domain: "local".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["z".into()],
        attribute: vec!["alpha".into()],
        node: vec![
            with(node("LeakyRelu", &["a"], &["m"]), reference("alpha", "alpha")),
            named("n", node("Neg", &["m"], &["z"])),
        ],
        opset_import: vec![import("", 17)],
        ..FunctionProto::default()
    };
    let int4 = TensorProto {
        name: "q".into(),
        data_type: DataType::I4.to_onnx(),
        dims: vec![3],
        int32_data: vec![0x21, 0x0f],
        ..TensorProto::default()
    };
    let texts = TensorProto {
        name: "s".into(),
        data_type: DataType::String.to_onnx(),
        dims: vec![2],
        string_data: vec!["one".into(), "two".into()],
        ..TensorProto::default()
    };
    let sparse = SparseTensorProto {
        values: Some(floats("sparse", &[1], &[3.0])),
        indices: Some(TensorProto {
            data_type: DataType::I64.to_onnx(),
            dims: vec![1],
            int64_data: vec![1],
            ..TensorProto::default()
        }),
        dims: vec![2],
    };
    let graph = GraphProto {
        name: "rich".into(),
        node: vec![
            node("Add", &["x", "sparse"], &["h"]),
            choose,
            call,
            NodeProto {
                domain: "com.microsoft".into(),
                ..with(named("gelu", node("QuickGelu", &["f"], &["y"])), float("alpha", 1.702))
            },
            named("texts", node("Identity", &["s"], &["s2"])),
            named("cast", with(node("Cast", &["q"], &["q2"]), int("to", 1))),
        ],
        initializer: vec![floats("w", &[2], &[1.0, 2.0]), int4, texts],
        sparse_initializer: vec![sparse],
        input: vec![value("x", &[-1, 2]), typed("flag", DataType::Bool, &[])],
        output: vec![value("y", &[-1, 2]), typed("s2", DataType::String, &[2]), value("q2", &[3])],
        value_info: vec![value("h", &[-1, 2])],
        ..GraphProto::default()
    };
    ModelProto {
        functions: vec![function],
        opset_import: vec![import("", 21), import("com.microsoft", 1), import("local", 1)],
        ir_version: 10,
        metadata_props: vec![StringStringEntryProto { key: "k".into(), value: "v".into() }],
        ..model(graph)
    }
}

pub fn read(model: &ModelProto) -> Result<Model, String> {
    load_bytes(Path::new("m.onnx"), model.encode_to_vec().into()).map_err(|e| e.to_string())
}

/// Names of the nodes, in order.
pub fn node_names(g: &Graph) -> Vec<&str> {
    g.nodes().map(|(_, n)| n.name.as_str()).collect()
}

/// All `.onnx` files under `folder`, sorted.
fn under(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(under(&path));
        } else if path.extension().is_some_and(|e| e == "onnx") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The files that are no models, or wrong ones.
pub fn broken() -> Vec<PathBuf> {
    under(&fixtures().join("broken"))
}

/// The models under `fixtures/`, and those under `$QNNC_CORPUS` if it is set.
pub fn models_at_hand() -> Vec<PathBuf> {
    let mut found = under(&fixtures());
    found.retain(|p| !p.components().any(|c| c.as_os_str() == "broken"));
    match std::env::var_os("QNNC_CORPUS") {
        Some(corpus) => found.extend(under(Path::new(&corpus))),
        None => eprintln!("skipped: the corpus (QNNC_CORPUS is not set)"),
    }
    found
}
