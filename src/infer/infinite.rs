//! Constants that 16-bit floats do not hold, and where they come out.

use std::collections::{BTreeMap, HashMap};

use crate::ir::{Graph, Node, NodeId, Tensor, ValueId};

/// The largest finite 16-bit float.
const HALF_MAX: f64 = 65504.0;

/// The inputs of a node whose elements, or sums and products of them, its output 0 may hold: a huge number in one of
/// them is one in the output. Empty for ops that bound what they give.
fn passed_on(node: &Node) -> std::ops::Range<usize> {
    if !node.domain.is_empty() && node.domain != "ai.onnx" {
        return 0..0;
    }
    match node.op_type.as_str() {
        "Add" | "Sub" | "Mul" | "Sum" | "Concat" => 0..node.inputs.len(),
        "Where" => 1..3,
        "Identity" | "Cast" | "CastLike" | "Reshape" | "Transpose" | "Expand" | "Tile" | "Slice" | "Gather"
        | "GatherElements" | "GatherND" | "Squeeze" | "Unsqueeze" | "Flatten" | "Split" | "ReduceMax" | "ReduceMin"
        | "Neg" | "Trilu" | "Dropout" | "Div" => 0..1,
        _ => 0..0,
    }
}

/// Pad's constant stands in its third input.
fn passed_inputs(node: &Node) -> Vec<ValueId> {
    let mut inputs: Vec<ValueId> = passed_on(node).filter_map(|i| node.input(i)).collect();
    if node.is("Pad") {
        inputs.extend([0, 2].into_iter().filter_map(|i| node.input(i)));
    }
    inputs
}

/// The first element for which `is` holds.
fn element(t: &Tensor, is: &dyn Fn(f64) -> bool) -> Option<f64> {
    if !t.dtype().is_float() {
        return None;
    }
    match t.splat_element() {
        Some(e) => Tensor::from_raw(t.dtype(), vec![1], e.clone())?.to_f64s()?.into_iter().find(|v| is(*v)),
        None => t.to_f64s()?.into_iter().find(|v| is(*v)),
    }
}

/// A constant with an element for which `is` holds, and that element, if it may be among the elements of `v`.
pub fn constant_within(graph: &Graph, v: ValueId, is: &dyn Fn(f64) -> bool) -> Option<(String, f64)> {
    let mut seen = HashMap::new();
    find(graph, v, is, &mut seen)
}

type Found = Option<(String, f64)>;

fn find(graph: &Graph, v: ValueId, is: &dyn Fn(f64) -> bool, seen: &mut HashMap<ValueId, Found>) -> Found {
    if let Some(known) = seen.get(&v) {
        return known.clone();
    }
    // For a value on the way: a graph without cycles does not come back to it.
    seen.insert(v, None);
    let value = graph.value(v);
    let found = match (&value.data, value.producer) {
        (Some(t), _) => element(t, is).map(|e| (value.name.clone(), e)),
        (None, Some((id, _))) => passed_inputs(graph.node(id)).into_iter().find_map(|v| find(graph, v, is, seen)),
        (None, None) => None,
    };
    seen.insert(v, found.clone());
    found
}

/// Nodes that hand a constant that 16-bit floats do not hold on to an output of the graph, with the reason, in
/// the order of their ids. What such a node gives would leave the NPU as another number.
pub fn escaping_constants(graph: &Graph) -> Vec<(NodeId, String)> {
    let is = |v: f64| v.is_nan() || v.abs() > HALF_MAX;
    let mut seen = HashMap::new();
    let mut nodes: BTreeMap<NodeId, String> = BTreeMap::new();
    for &output in &graph.outputs {
        let value = graph.value(output);
        if value.data.is_some() || !value.ty.dtype().is_some_and(crate::ir::DataType::is_float) {
            continue;
        }
        let mut ways = vec![output];
        while let Some(v) = ways.pop() {
            let (None, Some((id, _))) = (&graph.value(v).data, graph.value(v).producer) else { continue };
            let Some((name, element)) = find(graph, v, &is, &mut seen) else { continue };
            if nodes.contains_key(&id) {
                continue;
            }
            let what = format!(
                "constant {name:?} holds {element} and reaches output {:?}: 16-bit floats keep numbers up to 65504",
                value.name
            );
            nodes.insert(id, what);
            ways.extend(passed_inputs(graph.node(id)));
        }
    }
    nodes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, TensorType};

    /// `y = op(Where(c, x, k))`
    fn graph(k: f32, op: &str) -> Graph {
        let mut g = Graph::default();
        let ty = |d| TensorType::new(d, vec![2usize.into()]);
        let c = g.add_typed("c", ty(DataType::Bool));
        let x = g.add_typed("x", ty(DataType::F32));
        let k = g.add_constant("k", Tensor::from_f32(vec![1], &[k]));
        let [w, y] = ["w", "y"].map(|n| g.add_typed(n, ty(DataType::F32)));
        let node = |op: &str, inputs: Vec<ValueId>, out| Node {
            name: op.into(),
            op_type: op.into(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: vec![Some(out)],
            ..Node::default()
        };
        g.add_node(node("Where", vec![c, x, k], w));
        g.add_node(node(op, vec![w], y));
        (g.inputs, g.outputs) = (vec![c, x], vec![y]);
        g
    }

    fn names(g: &Graph) -> Vec<String> {
        escaping_constants(g).into_iter().map(|(id, _)| g.node(id).op_type.clone()).collect()
    }

    #[test]
    fn what_reaches_an_output() {
        let g = graph(f32::NEG_INFINITY, "Neg");
        assert_eq!(names(&g), ["Where", "Neg"]);
        assert!(escaping_constants(&g)[0].1.contains("\"k\" holds -inf and reaches output \"y\""));
        assert_eq!(names(&graph(1e6, "Identity")), ["Where", "Identity"]);
        assert!(names(&graph(f32::NEG_INFINITY, "Softmax")).is_empty());
        assert!(names(&graph(65504.0, "Neg")).is_empty());
    }
}
