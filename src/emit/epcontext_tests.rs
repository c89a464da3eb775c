use super::{ContextModel, EmitError, EpPartition, Manifest, ir_version};
use crate::ir::{DataType, Graph, Node, NodeId, Tensor, TensorType, ValueId};
use crate::report::{Backend, Partition, PartitionTensor, Target};

fn f32s(g: &mut Graph, name: &str) -> ValueId {
    g.add_typed(name, TensorType::new(DataType::F32, vec![1i64.into(), 4i64.into()]))
}

fn op(g: &mut Graph, op_type: &str, domain: &str, inputs: &[ValueId], output: ValueId) -> NodeId {
    g.add_node(Node {
        name: format!("{op_type}_{}", output.0),
        op_type: op_type.into(),
        domain: domain.into(),
        version: if domain.is_empty() { 13 } else { 1 },
        inputs: inputs.iter().map(|v| Some(*v)).collect(),
        outputs: vec![Some(output)],
        ..Node::default()
    })
}

fn part(name: &str, inputs: &[&str], outputs: &[&str]) -> Partition {
    let tensors = |names: &[&str]| -> Vec<PartitionTensor> {
        names
            .iter()
            .map(|n| PartitionTensor { name: (*n).into(), dtype: "FLOAT_32".into(), dims: vec![1, 4], bytes: 16 })
            .collect()
    };
    Partition {
        name: name.into(),
        backend: Backend::Htp,
        nodes: 1,
        qnn_ops: 1,
        inputs: tensors(inputs),
        outputs: tensors(outputs),
        bytes_in: 16,
        bytes_out: 16,
        weight_bytes: 0,
        activation_bytes: 0,
        ddr: None,
    }
}

/// x -> Relu -> a -> Odd(a, table) -> b -> Relu -> y
fn three() -> (Graph, Vec<NodeId>) {
    let mut g = Graph::default();
    g.name = "three".into();
    g.opsets.extend([(String::new(), 13), ("acme".to_string(), 1), ("unused".to_string(), 3)]);
    let [x, a, b, y] = ["x", "a", "b", "y"].map(|n| f32s(&mut g, n));
    let table = g.add_constant("table", Tensor::from_f32(vec![4], &[1.0, 2.0, 3.0, 4.0]));
    op(&mut g, "Relu", "", &[x], a);
    let host = op(&mut g, "Odd", "acme", &[a, table], b);
    op(&mut g, "Relu", "", &[b], y);
    g.inputs = vec![x];
    g.outputs = vec![y];
    (g, vec![host])
}

fn names(g: &Graph) -> Vec<String> {
    g.nodes().map(|(_, n)| n.name.clone()).collect()
}

#[test]
fn two_partitions_around_a_host_node() {
    let (g, host) = three();
    let (first, last) = (part("p0", &["x"], &["a"]), part("p1", &["b"], &["y"]));
    let partitions =
        [EpPartition { partition: &last, binary: "m.bin" }, EpPartition { partition: &first, binary: "m.bin" }];
    let model = ContextModel {
        graph: &g,
        host: &host,
        partitions: &partitions,
        output_names: &["y".into()],
        sdk_version: "2.47.0",
    };
    let out = model.build().unwrap();
    assert_eq!(names(&out), ["p0", "Odd_2", "p1"]);
    let nodes: Vec<_> = out.nodes().map(|(_, n)| n).collect();
    let text = |i: usize, k: &str| nodes[i].attrs.str(k).unwrap_or_default().to_string();
    assert_eq!(
        (text(0, "source"), text(0, "ep_cache_context"), text(0, "ep_sdk_version"), text(0, "partition_name")),
        ("QNNExecutionProvider".into(), "m.bin".into(), "2.47.0".into(), "p0".into())
    );
    assert_eq!([0, 2].map(|i| nodes[i].attrs.int("main_context")), [Some(1), Some(0)]);
    assert_eq!(nodes[0].attrs.int("embed_mode"), Some(0));
    let opsets: Vec<_> = out.opsets.iter().map(|(d, v)| (d.as_str(), *v)).collect();
    assert_eq!(opsets, [("", 13), ("com.microsoft", 1), ("acme", 1)]);
    let table = out.value(out.value_named("table").unwrap());
    assert_eq!(table.data.as_ref().unwrap().to_f32s().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(out.value(out.outputs[0]).name, "y");
    assert_eq!(out.value(out.value_named("a").unwrap()).ty, g.value(g.value_named("a").unwrap()).ty);

    let manifest = Manifest::new("m", Target::default(), vec![], &model);
    let ends: Vec<_> =
        manifest.partitions.iter().map(|p| (p.inputs[0].ends.clone(), p.outputs[0].ends.clone())).collect();
    assert_eq!(
        ends,
        [(vec!["host".into()], vec!["model".to_string()]), (vec!["model".into()], vec!["host".to_string()])]
    );
    assert_eq!(manifest.partitions[0].inputs[0].onnx_type, "float32[1, 4]");
}

#[test]
fn each_binary_has_one_main_node() {
    let (g, host) = three();
    let (first, last) = (part("p0", &["x"], &["a"]), part("p1", &["b"], &["y"]));
    let partitions =
        [EpPartition { partition: &first, binary: "m.bin" }, EpPartition { partition: &last, binary: "m.2.bin" }];
    let out = ContextModel {
        graph: &g,
        host: &host,
        partitions: &partitions,
        output_names: &["y".into()],
        sdk_version: "2.47.0",
    }
    .build()
    .unwrap();
    assert_eq!(out.nodes().filter(|(_, n)| n.attrs.int("main_context") == Some(1)).count(), 2);
}

#[test]
fn outputs_that_nothing_computes() {
    let mut g = Graph::default();
    g.opsets.insert(String::new(), 26);
    let x = f32s(&mut g, "x");
    let y = f32s(&mut g, "y");
    let c = g.add_constant("c", Tensor::from_f32(vec![1], &[2.0]));
    op(&mut g, "Relu", "", &[x], y);
    g.inputs = vec![x];
    // The constant, the same value twice, an input under another name, and an input as it is.
    g.outputs = vec![c, y, y, x, x];
    let p = part("main", &["x"], &["y"]);
    let partitions = [EpPartition { partition: &p, binary: "m.bin" }];
    let output_names = ["c", "y", "y2", "copy", "x"].map(String::from);
    let out = ContextModel {
        graph: &g,
        host: &[],
        partitions: &partitions,
        output_names: &output_names,
        sdk_version: "2.47.0",
    }
    .build()
    .unwrap();
    let outputs: Vec<_> = out.outputs.iter().map(|v| out.value(*v).name.clone()).collect();
    assert_eq!(outputs, output_names);
    let ops: Vec<_> = out.nodes().map(|(_, n)| n.op_type.clone()).collect();
    assert_eq!(ops, ["EPContext", "Constant", "Identity", "Identity"]);
    assert_eq!(out.opsets[""], 21);
    assert!(out.topological_order().is_ok());
}

#[test]
fn what_does_not_fit_is_refused() {
    let (g, host) = three();
    let outputs = ["y".to_string()];
    let build = |partitions: &[EpPartition<'_>], host: &[NodeId]| {
        ContextModel { graph: &g, host, partitions, output_names: &outputs, sdk_version: "2.47.0" }.build()
    };
    let ep = |p| EpPartition { partition: p, binary: "m.bin" };
    let around = part("p", &["x", "b"], &["a", "y"]);
    assert!(matches!(build(&[ep(&around)], &host), Err(EmitError::Cycle(names)) if names == ["p", "Odd_2"]));
    let first = part("p0", &["x"], &["a"]);
    assert!(matches!(build(&[ep(&first)], &host), Err(EmitError::NoProducer { value, .. }) if value == "y"));
    let strange = part("p0", &["nowhere"], &["a"]);
    assert!(matches!(build(&[ep(&strange)], &host), Err(EmitError::UnknownTensor { .. })));
    let twice = part("p1", &["x"], &["a"]);
    assert!(matches!(build(&[ep(&first), ep(&twice)], &host), Err(EmitError::TwoProducers { .. })));
}

#[test]
fn ir_versions_stay_in_what_runtimes_load() {
    assert_eq!([3, 10, 14].map(ir_version), [8, 10, 11]);
}
