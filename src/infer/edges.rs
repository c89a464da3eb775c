//! Models whose inputs and outputs are of types that the HTP has no tensors of.

use std::collections::BTreeMap;

use crate::ir::{Attr, DataType, Dim, Graph, Node, NodeId, Origin, Tensor, TensorType, Value, ValueId, ValueType};
use crate::ops::EDGE_DOMAIN;

/// A graph in which every value is of a type that can be computed with.
#[derive(Debug)]
pub struct Packed {
    pub graph: Graph,
    /// The types that inputs and outputs have outside: those of `graph` say how their bits are held.
    pub outside: Vec<(ValueId, ValueType)>,
}

/// The type in which elements of `dtype` are computed; `None` where that is their own, or there is none. bfloat16 is not
/// among them: ONNX Runtime's QNN provider (2.3.0) does not know the size of its elements, and the run fails.
fn inside(dtype: DataType) -> Option<DataType> {
    Some(match dtype {
        DataType::F64 => DataType::F32,
        DataType::U64 => DataType::I64,
        DataType::I8 | DataType::I16 | DataType::U16 => DataType::I32,
        _ => return None,
    })
}

/// How the bits of `n` elements are held at the edge; `None` where the edge has the type inside.
fn bits(dtype: DataType, n: usize) -> Option<TensorType> {
    let n = Dim::from(n);
    let two = || vec![n.clone(), Dim::Known(2)];
    Some(match dtype {
        DataType::F64 => TensorType::new(DataType::I32, two()),
        DataType::I16 | DataType::U16 => TensorType::new(DataType::U8, two()),
        DataType::I8 => TensorType::new(DataType::U8, vec![n]),
        _ => return None,
    })
}

fn is_short(dtype: DataType) -> bool {
    matches!(dtype, DataType::I8 | DataType::I16 | DataType::U16)
}

/// Ops that do with short integers held as int32 what they do with the short ones.
const KEEPS: [&str; 33] = [
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
    "Max",
    "Min",
    "Clip",
    "Where",
    "Identity",
    "Reshape",
    "Transpose",
    "Concat",
    "Slice",
    "Gather",
    "GatherElements",
    "GatherND",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Expand",
    "Tile",
    "Split",
    "Cast",
    "CastLike",
    "BitwiseAnd",
    "BitCast",
    "BitwiseOr",
    "BitwiseXor",
    "BitwiseNot",
    "BitShift",
    "Div",
    "Mod",
];

/// Ops whose results are taken modulo the short type's range; `Mul` of numbers that stay within int32.
const WRAPS: [&str; 8] = ["Add", "Sub", "Mul", "Neg", "Abs", "Div", "BitwiseNot", "BitShift"];

/// Casts, too, if they lead to a short type from another.
fn wraps(graph: &Graph, node: &Node, to: DataType) -> bool {
    let from = node.input(0).and_then(|v| graph.value(v).ty.dtype());
    match node.op_type.as_str() {
        "Cast" | "CastLike" | "BitCast" => from != Some(to),
        op => WRAPS.contains(&op),
    }
}

/// The graph with other types, if it has inputs or outputs of a type that the HTP has no tensors of, and every node can
/// do with the types inside. Inference must have run, and must not run again.
pub fn packed_edges(graph: &Graph, order: &[NodeId]) -> Option<Packed> {
    let dtype = |v: ValueId| graph.value(v).ty.dtype();
    let edges: Vec<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    if !edges.iter().any(|&v| graph.value(v).data.is_none() && dtype(v).is_some_and(|d| inside(d).is_some())) {
        return None;
    }
    let mut shorts: BTreeMap<NodeId, DataType> = BTreeMap::new();
    let mut converts = true;
    for &id in order {
        let node = graph.node(id);
        if !node.captures.is_empty() {
            return None;
        }
        converts &= node.is("Cast") || node.is("CastLike") || node.is("Identity");
        let touches = node.reads().chain(node.outputs.iter().flatten().copied());
        if touches.filter_map(dtype).any(is_short) {
            let known = KEEPS.contains(&node.op_type.as_str()) || WRAPS.contains(&node.op_type.as_str());
            let product = node.is("Mul") && node.input(0).and_then(dtype) == Some(DataType::U16);
            if !known || product || !(node.domain.is_empty() || node.domain == "ai.onnx") {
                return None;
            }
            if let Some(to) = node.output(0).and_then(dtype).filter(|d| is_short(*d))
                && wraps(graph, node, to)
            {
                shorts.insert(id, to);
            }
        }
    }
    // NaN and infinity do not survive, and nothing but conversions should keep them.
    if converts && edges.iter().filter_map(|&v| dtype(v)).any(DataType::is_float) {
        return None;
    }
    let outside: Vec<(ValueId, ValueType)> = edges.iter().map(|&v| (v, graph.value(v).ty.clone())).collect();
    let mut out = graph.clone();
    retype(&mut out)?;
    for (id, to) in shorts {
        let v = out.node(id).output(0)?;
        let raw = before(&mut out, v)?;
        let mut wrap = step(&out, "Wrap", id, raw, v);
        wrap.attrs.set("bits", Attr::Int(to.bits() as i64));
        wrap.attrs.set("signed", Attr::Int(i64::from(to.is_signed_int())));
        out.add_node(wrap);
    }
    for &v in &graph.inputs {
        if graph.value(v).data.is_none() {
            unpack(&mut out, v, dtype(v)?)?;
        }
    }
    for &v in &graph.outputs {
        if graph.value(v).data.is_none() {
            pack(&mut out, v, dtype(v)?)?;
        }
    }
    Some(Packed { graph: out, outside })
}

/// Every value and constant in the type that it is computed in.
fn retype(graph: &mut Graph) -> Option<()> {
    let ids: Vec<ValueId> = graph.values().map(|(id, _)| id).collect();
    for id in ids {
        let value = graph.value_mut(id);
        let ValueType::Tensor(ty) = &mut value.ty else { continue };
        let Some(to) = inside(ty.dtype) else { continue };
        ty.dtype = to;
        if let Some(t) = &value.data {
            let shape = t.shape().to_vec();
            value.data = Some(match t.to_i128s() {
                Some(v) => Tensor::from_i128(to, shape, &v)?,
                None => Tensor::from_f64(to, shape, &t.to_f64s()?)?,
            });
        }
    }
    Some(())
}

/// A value that takes the place of `v` as its producer's output and, for its readers, too.
fn before(graph: &mut Graph, v: ValueId) -> Option<ValueId> {
    let value = graph.value(v).clone();
    let (producer, slot) = value.producer?;
    let new = graph.add_value(Value { name: format!("{}.value", value.name), ..value });
    *graph.node_mut(producer).outputs.get_mut(slot)? = Some(new);
    Some(new)
}

/// A node of this family from one value to another, standing for node `of`.
fn step(graph: &Graph, op: &str, of: NodeId, from: ValueId, to: ValueId) -> Node {
    let owner = graph.node(of);
    let mut origin: Origin = owner.origin.clone();
    if origin.nodes.is_empty() {
        origin.nodes.push(owner.name.clone());
    }
    origin.rewrites.push("pack-edges");
    Node {
        name: format!("{}.{op}.{}", owner.name, graph.value(to).name),
        domain: EDGE_DOMAIN.into(),
        op_type: op.into(),
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
        origin,
        ..Node::default()
    }
}

/// The number of elements; `None` while that is not known.
fn count(graph: &Graph, v: ValueId) -> Option<usize> {
    Some(graph.value(v).ty.tensor()?.static_shape()?.iter().product())
}

fn readers(graph: &Graph, v: ValueId) -> Vec<(NodeId, usize)> {
    graph.consumers().get(v.0 as usize).cloned().unwrap_or_default()
}

fn unpack(graph: &mut Graph, v: ValueId, dtype: DataType) -> Option<()> {
    let Some(ty) = bits(dtype, count(graph, v)?) else { return Some(()) };
    let readers = readers(graph, v);
    let Some(&(first, _)) = readers.first() else { return Some(()) };
    // What is handed through untouched has no node that it could be packed behind.
    if graph.outputs.contains(&v) {
        return None;
    }
    let value = graph.value(v).clone();
    let inner = graph.add_value(Value { name: format!("{}.value", value.name), producer: None, ..value });
    graph.redirect(v, inner, &readers);
    graph.value_mut(v).ty = ValueType::Tensor(ty);
    let mut node = step(graph, "Unpack", first, v, inner);
    node.attrs.set("of", Attr::Int(i64::from(dtype.to_onnx())));
    graph.add_node(node);
    Some(())
}

fn pack(graph: &mut Graph, v: ValueId, dtype: DataType) -> Option<()> {
    let Some(ty) = bits(dtype, count(graph, v)?) else { return Some(()) };
    let (producer, _) = graph.value(v).producer?;
    let readers = readers(graph, v);
    let inner = before(graph, v)?;
    for (id, slot) in readers {
        if let Some(input) = graph.node_mut(id).inputs.get_mut(slot) {
            *input = Some(inner);
        }
    }
    let (node, slot) = (producer, graph.node(producer).outputs.iter().position(|o| *o == Some(inner))?);
    graph.value_mut(inner).producer = Some((node, slot));
    graph.value_mut(v).ty = ValueType::Tensor(ty);
    let mut node = step(graph, "Pack", producer, inner, v);
    node.attrs.set("of", Attr::Int(i64::from(dtype.to_onnx())));
    graph.add_node(node);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(op: &str, dtype: DataType) -> Graph {
        let mut g = Graph::default();
        let ty = TensorType::new(dtype, vec![Dim::Known(2), Dim::Known(3)]);
        let [a, b, y] = ["a", "b", "y"].map(|n| g.add_typed(n, ty.clone()));
        g.add_node(Node {
            name: "op".into(),
            op_type: op.into(),
            inputs: vec![Some(a), Some(b)],
            outputs: vec![Some(y)],
            ..Node::default()
        });
        (g.inputs, g.outputs) = (vec![a, b], vec![y]);
        g
    }

    fn packed(op: &str, dtype: DataType) -> Option<String> {
        let g = graph(op, dtype);
        let order = g.topological_order().unwrap();
        let p = packed_edges(&g, &order)?;
        let show = |v: &ValueId| p.graph.value(*v).ty.tensor().unwrap().to_string();
        let ops: Vec<String> =
            p.graph.topological_order().unwrap().into_iter().map(|id| p.graph.node(id).op_type.clone()).collect();
        assert_eq!(p.graph.value(p.graph.outputs[0]).name, "y");
        assert_eq!(p.outside.len(), 3);
        Some(format!("{} {} {}", show(&p.graph.inputs[0]), ops.join(" "), show(&p.graph.outputs[0])))
    }

    #[test]
    fn types_at_the_edge() {
        let show = |op, d| packed(op, d).unwrap();
        assert_eq!(show("Add", DataType::F64), "int32[6, 2] Unpack Unpack Add Pack int32[6, 2]");
        assert_eq!(show("Add", DataType::I8), "uint8[6] Unpack Unpack Add Wrap Pack uint8[6]");
        assert_eq!(show("Max", DataType::U16), "uint8[6, 2] Unpack Unpack Max Pack uint8[6, 2]");
        assert_eq!(show("Add", DataType::U64), "int64[2, 3] Add int64[2, 3]");
    }

    #[test]
    fn what_stays() {
        assert!(packed("Add", DataType::F32).is_none());
        assert!(packed("Add", DataType::BF16).is_none());
        assert!(packed("Mul", DataType::U16).is_none());
        assert!(packed("MatMulInteger", DataType::I8).is_none());
        assert!(packed("Cast", DataType::F64).is_none());
    }
}
