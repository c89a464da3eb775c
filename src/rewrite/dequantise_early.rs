//! DequantizeLinear of integers that an op only moved becomes that op on the dequantised values: movement and
//! dequantisation per tensor commute, bit for bit.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, NodeId};

pub const REWRITE: Rewrite = Rewrite { name: "dequantise-early", class: Class::Exact, look };

/// Ops whose first input's elements are those of their output; the other inputs are parameters.
const MOVING: &[&str] = &[
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    let node = p.node(root);
    if node.op_type != "DequantizeLinear" {
        return Outcome::NoMatch;
    }
    let found = || {
        let (moved, moving) = p.graph.value(node.input(0)?).producer.map(|(id, _)| (id, p.node(id)))?;
        let op_type = *MOVING.iter().find(|op| moving.is(op))?;
        let scale = p.graph.value(node.input(1)?).data.as_ref()?;
        // A MaxPool may give indices as well.
        if scale.len() != 1 || moving.outputs.len() > 1 {
            return None;
        }
        let mut inputs = vec![Operand::Value(moving.input(0)?)];
        inputs.extend(node.inputs[1..].iter().map(|v| v.map_or(Operand::Omitted, Operand::Value)));
        let dequantise = NewNode {
            domain: if node.domain.is_empty() { "" } else { "com.microsoft" },
            op_type: "DequantizeLinear",
            version: node.version,
            inputs,
            attrs: vec![],
        };
        let mut inputs = vec![Operand::New(0)];
        inputs.extend(moving.inputs[1..].iter().map(|v| v.map_or(Operand::Omitted, Operand::Value)));
        let attrs: Vec<(&'static str, Attr)> =
            ATTRS.iter().filter_map(|n| Some((*n, moving.attrs.get(n)?.clone()))).collect();
        if attrs.len() != moving.attrs.0.len() {
            return None;
        }
        let mv = NewNode { domain: "", op_type, version: moving.version, inputs, attrs };
        Some(Patch { nodes: vec![dequantise, mv], replaces: node.output(0)?, covers: vec![moved, root] })
    };
    found().map_or(Outcome::NoMatch, Outcome::Matched)
}

/// Every attribute that these ops have.
const ATTRS: &[&str] = &[
    "allowzero",
    "auto_pad",
    "axes",
    "axis",
    "blocksize",
    "ceil_mode",
    "dilations",
    "ends",
    "kernel_shape",
    "mode",
    "pads",
    "perm",
    "shape",
    "starts",
    "storage_order",
    "strides",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType as D, Tensor};
    use crate::rewrite::testing::Build;

    #[test]
    fn it_climbs_over_every_move() {
        let mut b = Build::new();
        let q = b.input_of("q", D::U8, &[1, 2, 4, 4]);
        let [s, z] = b.coding(0.5, D::U8, 1);
        let p = b.op_with("MaxPool", &[q], &[("kernel_shape", Attr::Ints(vec![2, 2]))]);
        let t = b.op_with("Transpose", &[p], &[("perm", Attr::Ints(vec![0, 2, 3, 1]))]);
        let shape = b.graph.add_constant("shape", Tensor::from_i64(vec![2], &[1, -1]));
        let r = b.op("Reshape", &[t, shape]);
        let y = b.op("DequantizeLinear", &[r, s, z]);
        assert_eq!(b.run(REWRITE, y).0, ["DequantizeLinear", "MaxPool", "Transpose", "Reshape"]);
    }

    #[test]
    fn scales_along_an_axis_and_computing_ops_stay() {
        let mut b = Build::new();
        let q = b.input_of("q", D::U8, &[2, 4]);
        let (s, z) = (b.constant(&[2], &[0.5, 0.25]), b.ints(D::U8, &[2], &[0, 0]));
        let t = b.op_with("Transpose", &[q], &[("perm", Attr::Ints(vec![1, 0]))]);
        let y = b.op_with("DequantizeLinear", &[t, s, z], &[("axis", Attr::Int(1))]);
        assert_eq!(b.run(REWRITE, y).0, ["Transpose", "DequantizeLinear"]);
        let mut b = Build::new();
        let (p, q) = (b.input_of("p", D::U8, &[4]), b.input_of("q", D::U8, &[4]));
        let [s, z] = b.coding(0.5, D::U8, 1);
        let a = b.op("Add", &[p, q]);
        let y = b.op("DequantizeLinear", &[a, s, z]);
        assert_eq!(b.run(REWRITE, y).0, ["Add", "DequantizeLinear"]);
    }
}
