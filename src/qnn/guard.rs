//! What must never reach the vendor's libraries: forms that crash or hang them, or that they take silently and wrongly.
//!
//! Seen with QAIRT 2.47 and 2.51 unless a version is named. A refusal names the tensor or parameter.

use super::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};
use super::protocol::Backend;

/// HTP knows no tensors of more axes; the other backends refuse them at creation.
const MAX_RANK: usize = 8;
/// Finalising a Relu over 2^38 elements took longer than a minute; the byte counts in the ABI have 32 bits.
const MAX_BYTES: u64 = u32::MAX as u64;

/// Why the op at `index` must not be sent; `None` when it may.
pub fn check_op(graph: &QnnGraph, op: &QnnOp, backend: Backend) -> Option<String> {
    for (what, text) in [("name", &op.name), ("package", &op.package), ("type", &op.op_type)] {
        if text.is_empty() || text.contains('\0') {
            return Some(format!("the {what} {text:?} is empty or has a NUL in it"));
        }
    }
    if op.outputs.is_empty() {
        return Some("it has no outputs".into());
    }
    for (kind, ids) in [("input", &op.inputs), ("output", &op.outputs)] {
        for (i, id) in ids.iter().enumerate() {
            if let Some(why) = lookup(graph, *id).map_or_else(Some, check_tensor) {
                return Some(format!("{kind} {i}: {why}"));
            }
        }
    }
    for (name, param) in &op.params {
        if name.is_empty() || name.contains('\0') {
            return Some(format!("the parameter name {name:?} is empty or has a NUL in it"));
        }
        if let Some(why) = check_param(param) {
            return Some(format!("parameter {name}: {why}"));
        }
    }
    check_known_faults(graph, op, backend)
}

/// Why the tensors of a graph must not be sent, with the tensor's name.
pub fn check_tensors(graph: &QnnGraph) -> Option<(String, String)> {
    if graph.name.is_empty() || graph.name.contains('\0') {
        return Some(("its name".into(), "it is empty or has a NUL in it".into()));
    }
    let mut names = std::collections::HashSet::new();
    for t in &graph.tensors {
        if t.kind != TensorKind::Null && !names.insert(t.name.as_str()) {
            return Some((format!("tensor `{}`", t.name), "the name occurs twice".into()));
        }
        if let Some(why) = check_tensor(t) {
            return Some((format!("tensor `{}`", t.name), why));
        }
        if t.kind == TensorKind::Static && !matches!(&t.data, Some(StaticData::Raw(_) | StaticData::Constant { .. })) {
            return Some((format!("tensor `{}`", t.name), "it is static and has no data".into()));
        }
    }
    let listed = [("input", &graph.inputs, TensorKind::AppWrite), ("output", &graph.outputs, TensorKind::AppRead)];
    for (what, ids, kind) in listed {
        for (i, id) in ids.iter().enumerate() {
            match lookup(graph, *id) {
                Err(why) => return Some((format!("{what} {i}"), why)),
                Ok(t) if t.kind != kind => {
                    return Some((format!("{what} {i}"), format!("tensor `{}` is of kind {:?}", t.name, t.kind)));
                }
                Ok(_) => {}
            }
        }
    }
    if graph.ops.is_empty() {
        return Some(("its ops".into(), "there are none".into()));
    }
    if graph.outputs.is_empty() {
        return Some(("its outputs".into(), "there are none".into()));
    }
    None
}

fn lookup(graph: &QnnGraph, id: TensorId) -> Result<&QnnTensor, String> {
    graph.tensors.get(id.0 as usize).ok_or_else(|| format!("there is no tensor {}", id.0))
}

fn check_tensor(t: &QnnTensor) -> Option<String> {
    if t.kind == TensorKind::Null {
        return None;
    }
    let why = |what: String| Some(format!("tensor `{}` {what}", t.name));
    if t.name.is_empty() || t.name.contains('\0') {
        return why("has a name that is empty or has a NUL in it".into());
    }
    if t.dims.is_empty() {
        return why("has no axes (rank 0 crashes the library)".into());
    }
    if t.dims.len() > MAX_RANK {
        return why(format!("has {} axes, more than {MAX_RANK}", t.dims.len()));
    }
    if let Some(axis) = t.dims.iter().position(|&d| d == 0) {
        return why(format!("has size 0 on axis {axis}"));
    }
    let bytes =
        t.dims.iter().try_fold(t.dtype.size() as u64, |a, &d| a.checked_mul(u64::from(d)).filter(|&b| b <= MAX_BYTES));
    if bytes.is_none() {
        return why(format!("with dims {:?} is larger than 4 GiB (the library hangs on such)", t.dims));
    }
    check_quant(t).and_then(why)
}

fn check_quant(t: &QnnTensor) -> Option<String> {
    let bad_scale = |s: f32| !s.is_finite() || s <= 0.0;
    let axis_len = |axis: u32| t.dims.get(axis as usize).map(|&d| d as usize);
    let per_axis = |axis: u32, scales: &[f32], offsets: &[i32]| {
        let len = axis_len(axis);
        if len != Some(scales.len()) || (!offsets.is_empty() && offsets.len() != scales.len()) {
            return Some(format!(
                "has {} scales and {} offsets on axis {axis} of dims {:?}",
                scales.len(),
                offsets.len(),
                t.dims
            ));
        }
        scales.iter().find(|s| bad_scale(**s)).map(|s| format!("has the scale {s}"))
    };
    match &t.quant {
        Quant::None => {
            let missing = matches!(
                t.dtype,
                QnnType::UFIXED_POINT_8 | QnnType::UFIXED_POINT_16 | QnnType::SFIXED_POINT_8 | QnnType::SFIXED_POINT_16
            );
            missing.then(|| format!("is {} without a scale", t.dtype))
        }
        // A bias may say scale 0: "the product of the input's and the weights' scales".
        Quant::PerTensor { scale, offset: 0 } if *scale == 0.0 && t.dtype == QnnType::SFIXED_POINT_32 => None,
        Quant::PerTensor { scale, offset } | Quant::BitWidth { scale, offset, .. } => {
            if bad_scale(*scale) {
                return Some(format!("has the scale {scale}"));
            }
            let unsigned = t.dtype.0 >> 8 == 4;
            (unsigned && *offset > 0).then(|| format!("has the offset {offset}; positive ones wrap around"))
        }
        Quant::PerAxis { axis, scales, offsets } | Quant::BitWidthPerAxis { axis, scales, offsets, .. } => {
            per_axis(*axis, scales, offsets)
        }
        Quant::FloatBlock { block, scales, offsets, .. } => {
            let fits = block.len() == t.dims.len() && !block.contains(&0);
            let count = || t.dims.iter().zip(block).map(|(d, b)| d.div_ceil(*b) as usize).product::<usize>();
            if !fits || count() != scales.len() || scales.len() != offsets.len() {
                return Some(format!("has {} scales for blocks of {block:?} in {:?}", scales.len(), t.dims));
            }
            scales.iter().find(|s| bad_scale(**s)).map(|s| format!("has the scale {s}"))
        }
        Quant::Blockwise { axis, scales, offsets, blocks_per_axis, block_scales, .. } => {
            per_axis(*axis, scales, offsets).or_else(|| {
                let need = scales.len().checked_mul(*blocks_per_axis as usize);
                (need != Some(block_scales.len())).then(|| {
                    format!("has {} block scales, not {} x {blocks_per_axis}", block_scales.len(), scales.len())
                })
            })
        }
    }
}

fn check_param(param: &Param) -> Option<String> {
    let (dims, len) = match param {
        Param::Scalar(_) => return None,
        Param::U32s { dims, values } => (dims, values.len()),
        Param::I32s { dims, values } => (dims, values.len()),
        Param::F32s { dims, values } => (dims, values.len()),
    };
    let need = dims.iter().try_fold(1usize, |a, &d| a.checked_mul(d as usize));
    (dims.is_empty() || len == 0 || need != Some(len)).then(|| format!("{len} values for dims {dims:?}"))
}

/// Forms that are legal to write down but kill the library.
fn check_known_faults(graph: &QnnGraph, op: &QnnOp, backend: Backend) -> Option<String> {
    let param = |name: &str| op.params.iter().find(|(n, _)| n == name).map(|(_, p)| p);
    let input = |i: usize| op.inputs.get(i).and_then(|id| lookup(graph, *id).ok());
    let numbers = |name: &str| match param(name) {
        Some(Param::U32s { values, .. }) => Some(values.as_slice()),
        _ => None,
    };
    let kind = op.op_type.as_str();
    match kind {
        _ if kind.starts_with("Reduce") && param("axes").is_none() => {
            Some("a reduction without axes crashes the validator".into())
        }
        "MatMul" if param("transpose_in0").is_none() || param("transpose_in1").is_none() => {
            Some("MatMul without both transpose parameters crashes the validator on per-axis weights".into())
        }
        "Resize" if param("nearest_mode").is_some() && param("transformation_mode").is_none() => {
            Some("Resize with nearest_mode and no transformation_mode crashes the validator".into())
        }
        "TransposeConv1d" if op.inputs.len() < 3 => Some("TransposeConv1d without a bias crashes the validator".into()),
        "Lstm" if op.inputs.len() == 12 => Some("Lstm with 12 inputs can crash the validator".into()),
        _ if kind.contains("Conv") && matches!(param("group"), Some(Param::Scalar(super::graph::Scalar::U32(0)))) => {
            Some("a convolution of 0 groups divides by zero in the validator".into())
        }
        "ElementWiseMux" if backend == Backend::Htp => Some("ElementWiseMux crashes the HTP preparation".into()),
        "PoolAvg2d"
            if backend == Backend::Htp
                && input(0).is_some_and(|t| t.dtype.is_float())
                && numbers("filter_size") == Some(&[2, 2])
                && numbers("stride") == Some(&[2, 2])
                && numbers("pad_amount").is_some_and(|p| p.iter().any(|&v| v != 0)) =>
        {
            Some("a padded 2x2 average over floats with stride 2 gives wrong numbers on HTP".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::NodeId;
    use crate::qnn::graph::Scalar;

    fn graph(op_type: &str, dims: &[u32], params: Vec<(String, Param)>) -> QnnGraph {
        let tensor = |name: &str, kind| QnnTensor {
            name: name.into(),
            kind,
            dtype: QnnType::FLOAT_32,
            dims: dims.to_vec(),
            quant: Quant::None,
            data: None,
        };
        QnnGraph {
            name: "g".into(),
            tensors: vec![tensor("x", TensorKind::AppWrite), tensor("y", TensorKind::AppRead)],
            ops: vec![QnnOp {
                name: "op".into(),
                package: "qti.aisw".into(),
                op_type: op_type.into(),
                inputs: vec![TensorId(0)],
                outputs: vec![TensorId(1)],
                params,
                node: NodeId(0),
            }],
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(1)],
        }
    }

    fn refusal(g: &QnnGraph) -> Option<String> {
        check_op(g, &g.ops[0], Backend::Htp)
    }

    #[test]
    fn known_crashers_are_refused() {
        let named = |n: &str, p| vec![(n.to_string(), p)];
        let table: Vec<(QnnGraph, &str)> = vec![
            (graph("Relu", &[], vec![]), "no axes"),
            (graph("Relu", &[1, 0, 2], vec![]), "size 0 on axis 1"),
            (graph("Relu", &[1, 65536, 65536, 64], vec![]), "4 GiB"),
            (graph("Relu", &[u32::MAX; 8], vec![]), "4 GiB"),
            (graph("Relu", &[1; 9], vec![]), "9 axes"),
            (graph("ReduceMean", &[1, 2], vec![]), "without axes"),
            (graph("MatMul", &[1, 2], vec![]), "transpose"),
            (graph("Resize", &[1, 2, 2, 1], named("nearest_mode", Param::u32(0))), "transformation_mode"),
            (graph("TransposeConv1d", &[1, 2, 2], vec![]), "bias"),
            (graph("Conv1d", &[1, 2, 2], named("group", Param::u32(0))), "0 groups"),
            (graph("Re\0lu", &[1], vec![]), "NUL"),
            (graph("Relu", &[1], named("axes", Param::U32s { dims: vec![3], values: vec![1] })), "1 values for dims"),
        ];
        for (g, text) in table {
            let why = refusal(&g).unwrap_or_default();
            assert!(why.contains(text), "{why:?} does not contain {text:?}");
        }
        assert_eq!(refusal(&graph("Relu", &[1, 2, 3], named("x", Param::Scalar(Scalar::Bool(true))))), None);
    }

    #[test]
    fn ids_quantisation_and_names() {
        let mut g = graph("Relu", &[1, 4], vec![]);
        assert_eq!(check_tensors(&g), None);
        g.ops[0].inputs[0] = TensorId(99);
        assert!(refusal(&g).unwrap().contains("no tensor 99"));
        g.ops[0].inputs[0] = TensorId(0);
        g.tensors[0].dtype = QnnType::UFIXED_POINT_8;
        assert!(refusal(&g).unwrap().contains("without a scale"));
        g.tensors[0].quant = Quant::PerTensor { scale: 0.5, offset: 3 };
        assert!(refusal(&g).unwrap().contains("wrap"));
        g.tensors[0].quant = Quant::PerTensor { scale: f32::NAN, offset: 0 };
        assert!(refusal(&g).unwrap().contains("scale NaN"));
        g.tensors[0].quant = Quant::PerAxis { axis: 1, scales: vec![1.0; 3], offsets: vec![0; 3] };
        assert!(refusal(&g).unwrap().contains("3 scales"));
        g.tensors[0].quant = Quant::PerAxis { axis: 7, scales: vec![1.0; 3], offsets: vec![0; 3] };
        assert!(refusal(&g).is_some());
        g.tensors[1].name = "x".into();
        g.tensors[0].quant = Quant::PerTensor { scale: 0.5, offset: -3 };
        assert_eq!(check_tensors(&g).unwrap().1, "the name occurs twice");
    }
}
