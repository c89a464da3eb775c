//! The loader on small models: what it makes of each feature, and what it says of each fault.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

use onnx_common::*;
use prost::Message;
use qnnc::ir::{Attr, DataType, Dim, ValueType};
use qnnc::onnx::load;
use qnnc::onnx::proto::*;

#[test]
fn a_plain_graph() {
    let m = read(&model(relu())).unwrap();
    assert_eq!(m.producer(), "test");
    assert_eq!(node_names(&m.graph), ["r"]);
    let (_, n) = m.graph.nodes().next().unwrap();
    assert_eq!((n.op_type.as_str(), n.domain.as_str(), n.version), ("Relu", "", 17));
    assert_eq!(m.graph.value(m.graph.outputs[0]).ty.tensor().unwrap().to_string(), "float32[2]");
    assert!(m.findings.is_empty(), "{:?}", m.findings);
}

#[test]
fn nodes_without_a_name_get_one_and_names_are_unique() {
    let mut g = relu();
    g.node = vec![
        node("Relu", &["x"], &["a"]),
        named("Relu_0", node("Relu", &["a"], &["b"])),
        named("twice", node("Relu", &["b"], &["c"])),
        named("twice", node("Relu", &["c"], &["y"])),
    ];
    let m = read(&model(g)).unwrap();
    assert_eq!(node_names(&m.graph), ["Relu_0_1", "Relu_0", "twice", "twice_1"]);
    assert_eq!(m.findings[0].code, "QNN915");
    assert_eq!(m.graph.nodes().last().unwrap().1.origin.nodes, ["twice_1"]);
}

#[test]
fn open_dimensions_and_missing_shapes() {
    let mut g = relu();
    g.input = vec![value("x", &[-1, 0])];
    g.output[0].r#type =
        Some(TypeProto { value: Some(TypeValue::Tensor(TensorTypeProto { elem_type: 1, shape: None })) });
    let m = read(&model(g)).unwrap();
    let x = m.graph.value(m.graph.inputs[0]).ty.tensor().unwrap();
    assert_eq!(x.shape, [Dim::symbol("x.0"), Dim::Known(0)]);
    assert_eq!(m.graph.value(m.graph.outputs[0]).ty, ValueType::Unranked(DataType::F32));
}

#[test]
fn an_initializer_that_is_an_input_is_a_constant() {
    let mut g = relu();
    g.node[0] = node("Add", &["x", "w"], &["y"]);
    g.input.push(value("w", &[2]));
    g.initializer.push(floats("w", &[2], &[1.0, 2.0]));
    let m = read(&model(g.clone())).unwrap();
    assert_eq!(m.graph.inputs.len(), 1);
    assert_eq!(m.findings[0].code, "QNN912");
    let old = read(&ModelProto { ir_version: 3, ..model(g) }).unwrap();
    assert!(old.findings.is_empty() && old.graph.inputs.len() == 1);
}

#[test]
fn bodies_capture_through_every_level() {
    let inner = GraphProto {
        node: vec![node("Add", &["x", "local"], &["deep"])],
        output: vec![value("deep", &[2])],
        ..GraphProto::default()
    };
    let then = GraphProto {
        node: vec![
            node("Neg", &["x"], &["local"]),
            with(with(node("If", &["flag"], &["t"]), body("then_branch", inner.clone())), body("else_branch", inner)),
        ],
        output: vec![value("t", &[2])],
        ..GraphProto::default()
    };
    let other = GraphProto {
        node: vec![node("Add", &["w", "w"], &["x"])],
        output: vec![value("x", &[2])],
        ..GraphProto::default()
    };
    let g = GraphProto {
        node: vec![with(with(node("If", &["flag"], &["y"]), body("then_branch", then)), body("else_branch", other))],
        input: vec![value("x", &[2]), typed("flag", DataType::Bool, &[])],
        output: vec![value("y", &[2])],
        initializer: vec![floats("w", &[2], &[1.0, 2.0])],
        ..GraphProto::default()
    };
    let m = read(&model(g)).unwrap();
    let (_, n) = m.graph.nodes().next().unwrap();
    let names: Vec<&str> = n.captures.iter().map(|v| m.graph.value(*v).name.as_str()).collect();
    assert_eq!(names, ["x", "flag", "w"]);
    let then = n.attrs.graph("then_branch").unwrap();
    let other = n.attrs.graph("else_branch").unwrap();
    assert_eq!((then.captured.len(), other.captured.len()), (3, 3));
    assert_eq!(then.value(then.captured[0]).name, "x");
    // The else branch has an x of its own, so the captured one goes by another name there.
    assert_eq!(other.value(other.outputs[0]).name, "x");
    assert_ne!(other.captured[0], other.outputs[0]);
    assert!(other.value(other.captured[2]).data.is_some());
    let deep = then.nodes().nth(1).unwrap().1.attrs.graph("then_branch").unwrap();
    assert_eq!(deep.captured.len(), 2);
}

#[test]
fn functions_are_inlined() {
    let m = read(&rich()).unwrap();
    assert_eq!(node_names(&m.graph), ["Add_0", "choose", "call/LeakyRelu_0", "call/n", "gelu", "texts", "cast"]);
    let (_, leaky) = m.graph.nodes().nth(2).unwrap();
    assert_eq!(leaky.attrs.float("alpha"), Some(0.25));
    assert_eq!(leaky.origin.nodes, ["call"]);
    assert_eq!(leaky.version, 17);
    assert_eq!(m.graph.nodes().next().unwrap().1.version, 21);
    assert_eq!(m.inlined_calls, 1);
    assert!(m.findings.iter().any(|f| f.code == "QNN916"));
    let (_, neg) = m.graph.nodes().nth(3).unwrap();
    assert_eq!(m.graph.value(neg.outputs[0].unwrap()).name, "f");
    assert_eq!(m.graph.value(neg.inputs[0].unwrap()).name, "call/m");
}

fn call(name: &str, of: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: "local".into(), ..named(name, node(of, inputs, outputs)) }
}

fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "local".into(),
        input: inputs.iter().map(|s| (*s).into()).collect(),
        output: outputs.iter().map(|s| (*s).into()).collect(),
        node: nodes,
        opset_import: vec![import("", 17), import("local", 1)],
        ..FunctionProto::default()
    }
}

fn with_functions(calls: Vec<NodeProto>, functions: Vec<FunctionProto>) -> ModelProto {
    let mut g = relu();
    g.node = calls;
    ModelProto { functions, opset_import: vec![import("", 17), import("local", 1)], ..model(g) }
}

#[test]
fn functions_nest_with_bodies_defaults_and_passed_through_inputs() {
    let branch = |out: &str| GraphProto {
        node: vec![with(call("", "Inner", &["a"], &[out]), reference("alpha", "alpha"))],
        output: vec![value(out, &[2])],
        ..GraphProto::default()
    };
    let chosen =
        with(with(node("If", &["f"], &["z"]), body("then_branch", branch("t"))), body("else_branch", branch("t")));
    let outer = FunctionProto {
        attribute_proto: vec![float("alpha", 0.5)],
        ..function("Outer", &["a", "f"], &["z", "a"], vec![chosen])
    };
    let inner = function("Inner", &["v"], &["u"], vec![with(node("Elu", &["v"], &["u"]), reference("alpha", "alpha"))]);
    let mut m = with_functions(vec![call("c", "Outer", &["x", "flag"], &["y", "same"])], vec![outer, inner]);
    m.graph.as_mut().unwrap().input.push(typed("flag", DataType::Bool, &[]));
    let m = read(&m).unwrap();
    assert_eq!(node_names(&m.graph), ["c/If_0", "c/Identity_0"]);
    let (_, n) = m.graph.nodes().next().unwrap();
    assert_eq!(m.graph.value(n.captures[0]).name, "x");
    let then = n.attrs.graph("then_branch").unwrap();
    let (_, elu) = then.nodes().next().unwrap();
    assert_eq!((elu.op_type.as_str(), elu.attrs.float("alpha")), ("Elu", Some(0.5)));
    assert_eq!(elu.origin.nodes, ["c"]);
}

#[test]
fn recursive_functions_are_named() {
    let a = function("A", &["v"], &["u"], vec![call("", "B", &["v"], &["u"])]);
    let b = function("B", &["v"], &["u"], vec![call("", "A", &["v"], &["u"])]);
    let e = read(&with_functions(vec![call("c", "A", &["x"], &["y"])], vec![a, b])).unwrap_err();
    assert!(e.contains("local::A -> local::B -> local::A"), "{e}");
}

#[test]
fn functions_that_multiply_without_end_are_refused() {
    let double = |i: usize| {
        let next = format!("F{}", i + 1);
        let nodes = vec![call("", &next, &["v"], &["m"]), call("", &next, &["m"], &["u"])];
        function(&format!("F{i}"), &["v"], &["u"], nodes)
    };
    let mut functions: Vec<FunctionProto> = (0..40).map(double).collect();
    functions.push(function("F40", &["v"], &["u"], vec![node("Relu", &["v"], &["u"])]));
    let e = read(&with_functions(vec![call("c", "F0", &["x"], &["y"])], functions)).unwrap_err();
    assert!(e.contains("more than"), "{e}");
}

#[test]
fn unknown_ops_and_context_nodes_are_kept() {
    let mut g = relu();
    g.node = vec![
        NodeProto { domain: "my.ops".into(), ..named("strange", node("Strange", &["x"], &["h"])) },
        NodeProto {
            domain: "com.microsoft".into(),
            ..with(
                named("ctx", node("EPContext", &["h"], &["y"])),
                AttributeProto {
                    name: "ep_cache_context".into(),
                    r#type: attribute_type::STRING,
                    s: Some("m.bin".into()),
                    ..AttributeProto::default()
                },
            )
        },
    ];
    let m = read(&model(g)).unwrap();
    let ops: Vec<String> = m.graph.nodes().map(|(_, n)| n.op_name()).collect();
    assert_eq!(ops, ["my.ops::Strange", "com.microsoft::EPContext"]);
    assert_eq!(m.graph.nodes().nth(1).unwrap().1.attrs.str("ep_cache_context"), Some("m.bin"));
    // Neither domain is imported.
    let codes: Vec<&str> = m.findings.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["QNN911", "QNN911"]);
}

#[test]
fn an_attribute_of_ir_version_1_has_no_type() {
    let mut g = relu();
    let untyped = AttributeProto { name: "alpha".into(), f: Some(0.5), ..AttributeProto::default() };
    g.node = vec![with(node("Elu", &["x"], &["y"]), untyped)];
    let m = read(&model(g)).unwrap();
    assert!(matches!(m.graph.nodes().next().unwrap().1.attrs.get("alpha"), Some(Attr::Float(f)) if *f == 0.5));
}

#[test]
fn faults_of_graphs_say_what_and_where() {
    let fault = |change: &dyn Fn(&mut ModelProto)| {
        let mut m = model(relu());
        change(&mut m);
        read(&m).map(|m| format!("{m:?}")).unwrap_err()
    };
    let graph = |m: &mut ModelProto, f: &dyn Fn(&mut GraphProto)| f(m.graph.as_mut().unwrap());
    let says = |e: String, parts: &[&str]| {
        assert!(e.starts_with("m.onnx: ") && !e.contains('\n'), "{e}");
        for part in parts {
            assert!(e.contains(part), "{part:?} is not in {e:?}");
        }
    };
    says(fault(&|m| m.graph = None), &["no graph"]);
    says(fault(&|m| m.opset_import.clear()), &["does not import ai.onnx", "\"r\""]);
    says(fault(&|m| m.opset_import = vec![import("ai.onnx", 6)]), &["opset 6", "convert_version"]);
    says(fault(&|m| graph(m, &|g| g.node[0].input[0] = "nobody".into())), &["\"nobody\"", "\"r\"", "Relu"]);
    says(fault(&|m| graph(m, &|g| g.output[0].name = "nobody".into())), &["\"nobody\"", "outputs"]);
    says(fault(&|m| graph(m, &|g| g.node.push(node("Neg", &["x"], &["y"])))), &["\"y\"", "twice", "\"r\"", "Neg_1"]);
    says(fault(&|m| graph(m, &|g| g.node[0].output[0] = "x".into())), &["\"x\"", "input", "\"r\""]);
    says(fault(&|m| graph(m, &|g| g.input.push(value("x", &[1])))), &["\"x\"", "twice"]);
    says(
        fault(&|m| {
            graph(m, &|g| {
                g.node = vec![named("a", node("Add", &["x", "q"], &["p"])), named("b", node("Neg", &["p"], &["q"]))];
                g.output[0].name = "q".into();
            });
        }),
        &["cycle", "a -> b"],
    );
    says(fault(&|m| graph(m, &|g| g.initializer = vec![floats("w", &[1], &[1.0]); 2])), &["\"w\"", "twice"]);
    says(fault(&|m| graph(m, &|g| g.initializer = vec![floats("w", &[2], &[1.0])])), &["\"w\"", "8 bytes", "has 4"]);
    says(
        fault(&|m| graph(m, &|g| g.initializer = vec![TensorProto { data_type: 99, ..floats("w", &[1], &[1.0]) }])),
        &["\"w\"", "99"],
    );
    says(fault(&|m| graph(m, &|g| g.input[0] = with_elem_type("x", 77))), &["\"x\"", "77"]);
}

fn with_elem_type(name: &str, elem_type: i32) -> ValueInfoProto {
    let t = TensorTypeProto { elem_type, shape: None };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { value: Some(TypeValue::Tensor(t)) }) }
}

#[test]
fn what_analysis_can_go_on_with_is_a_finding() {
    let mut m = model(relu());
    m.opset_import[0].version = Some(99);
    m.ir_version = 99;
    m.training_info.push(vec![].into());
    m.graph.as_mut().unwrap().value_info.push(with_elem_type("y", 77));
    let codes: Vec<&str> = read(&m).unwrap().findings.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["QNN910", "QNN913", "QNN914", "QNN917"]);
}

#[test]
fn files_that_are_no_models() {
    let dir = tempfile::tempdir().unwrap();
    let says = |content: &[u8], part: &str| {
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, content).unwrap();
        let e = load(&path).unwrap_err().to_string();
        assert!(e.contains(part) && e.contains("m.onnx") && !e.contains('\n'), "{e}");
    };
    says(b"", "empty");
    says(b"hello, this is text\n", "text file");
    says(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull");
    says(b"PK\x03\x04\x00\x00", "zip");
    says(b"<!DOCTYPE html><html>", "web page");
    says(b"\x00\x00\x00\x00ORTM", "ORT format");
    let whole = rich().encode_to_vec();
    says(&whole[..whole.len() / 2], "cut short");
    let missing = load(&dir.path().join("no.onnx")).unwrap_err().to_string();
    assert!(missing.contains("no such file"), "{missing}");
    let folder = load(dir.path()).unwrap_err().to_string();
    assert!(folder.contains("directory"), "{folder}");
}

#[test]
fn external_data_stays_in_its_file_and_in_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.onnx");
    let data: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(dir.path().join("w.data"), &data).unwrap();
    let tensor = |name: &str, entries: &[(&str, &str)]| TensorProto {
        raw_data: None,
        data_location: 1,
        external_data: entries
            .iter()
            .map(|(k, v)| StringStringEntryProto { key: (*k).into(), value: (*v).into() })
            .collect(),
        ..floats(name, &[2], &[])
    };
    let try_load = |tensors: Vec<TensorProto>| {
        let mut g = relu();
        g.initializer = tensors;
        std::fs::write(&path, model(g).encode_to_vec()).unwrap();
        load(&path).map_err(|e| e.to_string())
    };
    let m = try_load(vec![
        tensor("a", &[("location", "w.data"), ("offset", "0"), ("length", "8")]),
        tensor("b", &[("location", "w.data"), ("offset", "4")]),
    ])
    .unwrap();
    let bytes = |name: &str| m.graph.value(m.graph.value_named(name).unwrap()).data.clone().unwrap();
    assert_eq!(bytes("b").to_f64s().unwrap(), [2.0, 3.0]);
    // One mapping: the slices are four bytes apart.
    assert_eq!(bytes("b").bytes().as_ptr() as usize - bytes("a").bytes().as_ptr() as usize, 4);
    assert_eq!(m.data_files, [dir.path().join("w.data")]);

    let says = |entries: &[(&str, &str)], part: &str| {
        let e = try_load(vec![tensor("w", entries)]).unwrap_err();
        assert!(e.contains(part) && e.contains("\"w\""), "{part:?} is not in {e:?}");
    };
    says(&[("location", "/etc/passwd")], "inside the model's folder");
    says(&[("location", "sub/../../w.data")], "inside the model's folder");
    says(&[("location", "none.data")], "missing");
    says(&[("location", ".")], "directory");
    says(&[], "names no file");
    says(&[("location", "w.data"), ("offset", "8")], "has 12 bytes");
    says(&[("location", "w.data"), ("offset", "18446744073709551615")], "beyond the end");
    says(&[("location", "w.data"), ("length", "7")], "7 bytes");
    says(&[("location", "w.data"), ("offset", "-1")], "not a number");
}
