//! Encodings put into a typed graph.

use super::Given;
use crate::finding::{Finding, codes};
use crate::infer::infer_node;
use crate::ir::{DataType, Encoded, Graph, Node, NodeId, Origin, Tensor, Value, ValueId};

/// Quantises the constants that the file names; before rewrites, which fold some into others. Gives a finding for each
/// that could not be.
pub fn apply_to_constants(graph: &mut Graph, given: &[Given]) -> Vec<Finding> {
    apply(graph, given, true)
}

/// Quantises the activations that the file names; after rewrites, which know float patterns. Gives a finding for each that
/// could not be.
pub fn apply_to_activations(graph: &mut Graph, given: &[Given]) -> Vec<Finding> {
    apply(graph, given, false)
}

fn apply(graph: &mut Graph, given: &[Given], constants: bool) -> Vec<Finding> {
    let mut findings = vec![];
    let absent = "no such tensor is computed: misspelt, or merged into another op";
    for g in given.iter().filter(|g| g.activation != constants) {
        let done = match find(graph, &g.name) {
            None => Err((codes::ENCODING_UNUSED, absent.into())),
            Some(v) if graph.value(v).data.is_some() => parameter(graph, v, g),
            Some(_) if constants => Err((codes::ENCODING_UNUSED, "the tensor is not a constant".into())),
            Some(v) => activation(graph, v, g),
        };
        if let Err((code, why)) = done {
            findings.push(Finding::warning(code, format!("the encoding of {:?} is not used: {why}", g.name)));
        }
    }
    findings
}

type Outcome = Result<(), (&'static str, String)>;

/// The value called `name`, or the one that a rewrite put in its place.
fn find(graph: &Graph, name: &str) -> Option<ValueId> {
    let consumers = graph.consumers();
    let alive = |v: ValueId| !consumers[v.0 as usize].is_empty() || graph.outputs.contains(&v);
    let direct = graph.value_named(name).filter(|v| alive(*v));
    direct.or_else(|| {
        let stem = format!("{name}.");
        graph
            .values()
            .find(|(v, value)| alive(*v) && value.data.is_none() && value.name.starts_with(&stem))
            .map(|(v, _)| v)
    })
}

fn unusable(why: impl Into<String>) -> (&'static str, String) {
    (codes::ENCODING_UNUSABLE, why.into())
}

/// The constant becomes integers.
fn parameter(graph: &mut Graph, v: ValueId, g: &Given) -> Outcome {
    let value = graph.value(v);
    let Some(tensor) = value.data.as_ref() else { return Ok(()) };
    if tensor.encoding().is_some() {
        return Err((codes::ENCODING_CONFLICT, "the model holds the tensor quantised already".into()));
    }
    if g.bits == 32 {
        // A bias: its scale follows from those of its product.
        return Ok(());
    }
    let to = match g.bits {
        4 => DataType::I4,
        8 => DataType::I8,
        16 => DataType::I16,
        b => return Err(unusable(format!("{b} bits; constants have 4, 8 or 16"))),
    };
    let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
    let Some(real) = tensor.to_f32s().filter(|_| dtype.is_float()) else {
        return Err(unusable(format!("the constant is {dtype}")));
    };
    let axis = if g.scales.len() == 1 { None } else { Some(channel_axis(graph, v, &shape, g.scales.len())?) };
    let middle = 1i64 << (g.bits - 1);
    let inner: usize = axis.map_or(1, |a: usize| shape[a + 1..].iter().product::<usize>().max(1));
    let codes: Vec<i128> = real
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let at = axis.map_or(0, |a| i / inner % shape[a].max(1));
            let q = f64::from((x / g.scales[at]).round_ties_even()) as i64;
            i128::from((q.saturating_add(g.zeros[at])).clamp(0, 2 * middle - 1) - middle)
        })
        .collect();
    let zeros = g.zeros.iter().map(|z| (z - middle) as i32).collect();
    let encoded = Tensor::from_i128(to, shape, &codes).and_then(|t| Encoded::new(t, g.scales.clone(), zeros, axis));
    let Some(encoded) = encoded else { return Err(unusable("its scales do not fit the constant")) };
    graph.value_mut(v).data = Some(Tensor::encoded(dtype, encoded));
    Ok(())
}

/// The axis of output channels of the op that reads the constant.
fn channel_axis(graph: &Graph, v: ValueId, shape: &[usize], count: usize) -> Result<usize, (&'static str, String)> {
    let consumers = graph.consumers();
    let reader = consumers[v.0 as usize].first().map(|(id, _)| graph.node(*id));
    let axis = match reader.map(|n| (n.op_type.as_str(), n)) {
        Some(("Conv", _)) => Some(0),
        Some(("ConvTranspose", _)) => Some(1),
        Some(("Gemm", n)) => Some(usize::from(n.attrs.int_or("transB", 0) == 0)),
        Some(("MatMul", _)) => shape.len().checked_sub(1),
        _ => shape.iter().position(|&d| d == count),
    };
    match axis {
        Some(a) if shape.get(a) == Some(&count) => Ok(a),
        _ => Err(unusable(format!("{count} scales for a constant of shape {shape:?}"))),
    }
}

/// QuantizeLinear and DequantizeLinear behind the value; everybody reads what comes out of them.
fn activation(graph: &mut Graph, v: ValueId, g: &Given) -> Outcome {
    let value = graph.value(v).clone();
    let dtype = match g.bits {
        8 => DataType::U8,
        16 => DataType::U16,
        b => return Err(unusable(format!("{b} bits; activations have 8 or 16"))),
    };
    if g.scales.len() != 1 {
        return Err(unusable(format!("{} scales for an activation; the NPU has one", g.scales.len())));
    }
    let (low, high) = (0, (1i64 << g.bits) - 1);
    if !(low..=high).contains(&g.zeros[0]) {
        return Err(unusable(format!("the zero point {} is not between {low} and {high}", g.zeros[0])));
    }
    if !value.ty.dtype().is_some_and(DataType::is_float) {
        return Err(unusable("the tensor does not hold real numbers"));
    }
    let consumers = graph.consumers()[v.0 as usize].clone();
    let quantised = |id: &NodeId| graph.node(*id).op_type == "QuantizeLinear";
    let made_by = value.producer.map(|(id, _)| graph.node(id).clone());
    if consumers.iter().any(|(id, _)| quantised(id))
        || made_by.as_ref().is_some_and(|n| n.op_type == "DequantizeLinear")
    {
        return Err((codes::ENCODING_CONFLICT, "the model quantises the tensor itself".into()));
    }
    let scale = graph.add_constant(&format!("{}.scale", value.name), Tensor::from_f32(vec![], &[g.scales[0]]));
    let Some(zero) = Tensor::from_i128(dtype, vec![], &[i128::from(g.zeros[0])]) else { return Ok(()) };
    let zero = graph.add_constant(&format!("{}.zero", value.name), zero);
    let nodes = made_by.map(|n| n.user_nodes().map(Into::into).collect()).unwrap_or_default();
    let origin = Origin { nodes, rewrites: vec!["encodings-file"] };
    let mut from = v;
    let mut first = None;
    for op in ["QuantizeLinear", "DequantizeLinear"] {
        let out = graph.add_value(Value { name: format!("{}.{op}", value.name), ..Value::default() });
        let id = graph.add_node(Node {
            name: format!("{}/{op}", value.name),
            op_type: op.into(),
            version: 21,
            inputs: vec![Some(from), Some(scale), Some(zero)],
            outputs: vec![Some(out)],
            origin: origin.clone(),
            ..Node::default()
        });
        infer_node(graph, id).map_err(unusable)?;
        first = first.or(Some(id));
        from = out;
    }
    graph.redirect(v, from, &consumers);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::infer;
    use crate::ir::{Dim, TensorType};

    fn model() -> (Graph, ValueId) {
        let mut g = Graph::default();
        g.opsets.insert(String::new(), 17);
        let x = g.add_typed("x", TensorType::new(DataType::F32, vec![Dim::Known(1), Dim::Known(2)]));
        let w = g.add_constant("w", Tensor::from_f32(vec![2, 3], &[1.0, -1.0, 0.26, 2.0, 0.5, -0.25]));
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        g.add_node(Node {
            name: "product".into(),
            op_type: "MatMul".into(),
            version: 13,
            inputs: vec![Some(x), Some(w)],
            outputs: vec![Some(y)],
            ..Node::default()
        });
        g.inputs = vec![x];
        g.outputs = vec![y];
        infer(&mut g).unwrap();
        (g, y)
    }

    fn given(name: &str, bits: u32, scales: &[f32], zero: i64) -> Given {
        Given {
            name: name.into(),
            activation: name != "w",
            bits,
            scales: scales.to_vec(),
            zeros: vec![zero; scales.len()],
        }
    }

    fn both(g: &mut Graph, given: &[Given]) -> Vec<Finding> {
        let mut found = apply_to_constants(g, given);
        found.extend(apply_to_activations(g, given));
        found
    }

    #[test]
    fn activations_and_constants_are_quantised() {
        let (mut g, _) = model();
        let file = [given("x", 8, &[0.1], 3), given("y", 16, &[0.01], 100), given("w", 8, &[0.5, 0.25, 0.125], 128)];
        assert_eq!(both(&mut g, &file), []);
        let order = g.topological_order().unwrap();
        let ops: Vec<&str> = order.iter().map(|n| g.node(*n).op_type.as_str()).collect();
        assert_eq!(
            ops,
            ["QuantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear", "DequantizeLinear"],
            "both sides of the product"
        );
        assert_eq!(g.value(g.outputs[0]).name, "y");
        let w = g.value(g.value_named("w").unwrap()).data.clone().unwrap();
        assert_eq!(w.encoding().unwrap().codes.to_i64s().unwrap(), [2, -4, 2, 4, 2, -2]);
        assert_eq!(w.to_f32s().unwrap(), [1.0, -1.0, 0.25, 2.0, 0.5, -0.25]);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let (mut g, _) = model();
        let file = [
            given("nothing", 8, &[0.1], 3),
            given("x", 4, &[0.1], 3),
            given("y", 8, &[0.1], 300),
            given("w", 8, &[0.1, 0.2], 128),
        ];
        let found = both(&mut g, &file);
        let codes: Vec<&str> = found.iter().map(|f| f.code).collect();
        assert_eq!(codes, ["QNN404", "QNN402", "QNN404", "QNN404"]);
        assert!(found[0].message.contains("2 scales for a constant of shape [2, 3]"), "{}", found[0].message);
        assert_eq!(g.node_count(), 1);
        assert_eq!(both(&mut g, &[given("x", 8, &[0.1], 3)]), []);
        assert_eq!(both(&mut g, &[given("x", 8, &[0.1], 3)])[0].code, "QNN403");
    }
}
