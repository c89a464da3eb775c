//! Reports for the renderers' tests.

use super::*;
use crate::verdict::{Reason, codes};

fn node(name: &str, op_type: &str, backend: Backend) -> NodePlacement {
    NodePlacement {
        name: name.into(),
        op_type: op_type.into(),
        domain: String::new(),
        backend,
        evidence: None,
        partition: None,
        qnn_ops: vec![],
        reasons: vec![],
        rewrites: vec![],
    }
}

fn on_npu(name: &str, op_type: &str, partition: &str, qnn: &[&str]) -> NodePlacement {
    NodePlacement {
        evidence: Some(Evidence::Prepared),
        partition: Some(partition.into()),
        qnn_ops: qnn
            .iter()
            .enumerate()
            .map(|(i, t)| QnnOpRef {
                name: if i == 0 { name.into() } else { format!("{name}#{i}") },
                op_type: (*t).into(),
            })
            .collect(),
        ..node(name, op_type, Backend::Htp)
    }
}

fn tensor(name: &str, dims: &[u32]) -> PartitionTensor {
    let bytes = dims.iter().map(|&d| u64::from(d)).product::<u64>() * 4;
    PartitionTensor { name: name.into(), dtype: "FLOAT_32".into(), dims: dims.to_vec(), bytes }
}

fn partition(name: &str, nodes: usize, input: PartitionTensor, output: PartitionTensor) -> Partition {
    Partition {
        name: name.into(),
        backend: Backend::Htp,
        nodes,
        qnn_ops: nodes + 1,
        bytes_in: input.bytes,
        bytes_out: output.bytes,
        inputs: vec![input],
        outputs: vec![output],
        weight_bytes: 18_432,
        activation_bytes: 4_096,
        ddr: Some(Ddr { read_total_bytes: 40_960, write_total_bytes: 8_192, spill_bytes: 0, fill_bytes: 0 }),
    }
}

fn io(kind: IoKind, name: &str, shape: &[&str]) -> Io {
    Io {
        kind,
        name: name.into(),
        onnx_type: "float32".into(),
        shape: shape.iter().map(|s| (*s).to_string()).collect(),
        qnn_type: Some("FLOAT_32".into()),
    }
}

fn report(file: &str, nodes: Vec<NodePlacement>, partitions: Vec<Partition>) -> Placement {
    Placement {
        schema: SCHEMA,
        tool: Tool { name: "qnnc".into(), version: "0.0.0".into() },
        model: Model {
            file: file.into(),
            sha256: Some("00".repeat(32)),
            ir_version: 8,
            opsets: vec![OpsetImport { domain: "ai.onnx".into(), version: 13 }],
            producer: "pytorch 2.4".into(),
        },
        target: Target {
            soc: "sm8650".into(),
            soc_id: 57,
            arch: 75,
            sdk: Some("2.47.0".into()),
            backends: vec![Backend::Htp],
        },
        gate: Gate::default(),
        totals: Totals::count(&nodes, &partitions),
        io: vec![io(IoKind::Input, "x", &["1", "3", "8", "8"]), io(IoKind::Output, "y", &["1", "16", "8", "8"])],
        partitions,
        nodes,
        fixes: vec![],
        findings: vec![],
        rewrites: vec![],
    }
}

/// Two partitions around a node of a foreign domain; the gate says no.
pub fn split() -> Placement {
    let mut foreign = node("odd|one", "Unfoldify", Backend::Host);
    foreign.domain = "acme.ops".into();
    foreign.reasons = vec![
        Reason::new(codes::UNKNOWN_OP, "no op acme.ops::Unfoldify is known")
            .fix("spell it with ONNX ops, or give a rewrite for it"),
    ];
    let mut erf = node("erf", "Erf", Backend::Host);
    erf.reasons = vec![
        Reason::new(codes::NO_LOWERING, "Erf has no QNN equivalent here"),
        Reason { source: Some("QAIRT 2.47".into()), ..Reason::new(codes::NOT_WORTH, "a lone op").expected("2", "1") },
    ];
    let mut conv = on_npu("conv", "Conv", "p0", &["Conv2d", "ElementWiseNeuron"]);
    conv.rewrites = vec!["conv-relu".into()];
    let nodes = vec![
        node("shape", "Shape", Backend::Folded),
        conv,
        foreign,
        erf,
        on_npu("relu", "Relu", "p1", &["ElementWiseNeuron"]),
    ];
    let x = tensor("x", &[1, 3, 8, 8]);
    let a = tensor("a", &[1, 16, 8, 8]);
    let partitions = vec![
        partition("p0", 1, x, a.clone()),
        partition(
            "p1",
            1,
            PartitionTensor { name: "c".into(), ..a.clone() },
            PartitionTensor { name: "y".into(), ..a },
        ),
    ];
    let mut r = report("split.onnx", nodes, partitions);
    r.gate = Gate { passed: false, failures: vec!["2 nodes are left to the CPU; --max-cpu-nodes allows 0".into()] };
    r.totals.binary_bytes = Some(123_456);
    r.totals.macs = Some(27_648);
    let now = Cut { partitions: 2, host_nodes: 2, boundary_tensors: 2, boundary_bytes: 8_192 };
    let then = Cut { partitions: 1, host_nodes: 1, boundary_tensors: 0, boundary_bytes: 0 };
    r.fixes = vec![
        Fix {
            op: "acme.ops::Unfoldify".into(),
            codes: vec![codes::UNKNOWN_OP.into()],
            nodes: vec!["odd|one".into()],
            now,
            then,
            with_all_above: then,
        },
        Fix {
            op: "Erf".into(),
            codes: vec![codes::NO_LOWERING.into()],
            nodes: vec!["erf".into()],
            now,
            then: Cut { host_nodes: 1, ..now },
            with_all_above: Cut { partitions: 1, ..Cut::default() },
        },
    ];
    r.findings = vec![
        Finding {
            code: "QNN914".into(),
            severity: Severity::Warning,
            message: "the training part of the model is left out".into(),
            node: Some("odd|one".into()),
            tensor: None,
            fix: None,
        },
        Finding {
            code: "QNN401".into(),
            severity: Severity::Note,
            message: "weights are float; 8-bit weights would read a quarter of the bytes".into(),
            node: None,
            tensor: None,
            fix: Some("quantise the model".into()),
        },
    ];
    r.rewrites = vec![
        Rewrite { name: "conv-relu".into(), applied: true, nodes: vec!["conv".into()], message: String::new() },
        Rewrite {
            name: "gelu".into(),
            applied: false,
            nodes: vec!["erf".into()],
            message: "the constant is 1.5, not 1.414".into(),
        },
    ];
    r
}

/// Every node on the NPU, in one partition.
pub fn whole() -> Placement {
    let nodes =
        vec![on_npu("conv", "Conv", "main", &["Conv2d"]), on_npu("relu", "Relu", "main", &["ElementWiseNeuron"])];
    let part = partition("main", 2, tensor("x", &[1, 3, 8, 8]), tensor("y", &[1, 16, 8, 8]));
    report("whole.onnx", nodes, vec![part])
}

/// As many nodes as a large model has, most of them alike.
pub fn large() -> Placement {
    let mut nodes: Vec<_> =
        (0..3000).map(|i| on_npu(&format!("n{i}"), "Add", "main", &["ElementWiseBinary"])).collect();
    for i in 0..100 {
        let mut n = node(&format!("loop{i}"), "Loop", Backend::Host);
        n.reasons = vec![Reason::new(codes::NO_LOWERING, "Loop has no QNN equivalent here").fix("unroll it")];
        nodes.push(n);
    }
    let part = partition("main", 3000, tensor("x", &[1, 3, 8, 8]), tensor("y", &[1, 16, 8, 8]));
    report("large.onnx", nodes, vec![part])
}
