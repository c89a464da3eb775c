//! Ops on quantised operands (QLinearConv, QLinearMatMul, QLinearAdd, QGemm, ...) become DequantizeLinear, the op on real
//! numbers, QuantizeLinear: one spelling of quantised models for everything that follows.
//!
//! Definition: the ONNX operator specifications and the contrib operators of ONNX Runtime. Both forms round once, at the
//! end; the integer sums of the one and the real sums of the other agree to the last code but for ties.

use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, Node, NodeId, Tensor};

pub const REWRITE: Rewrite = Rewrite { name: "qoperator-to-qdq", class: Class::Exact, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    let node = p.node(root);
    let Some(mut build) = Build::new(p, node) else { return Outcome::NoMatch };
    match build.nodes_of() {
        Some(Ok(())) => {
            let Some(y) = node.output(0) else { return Outcome::NoMatch };
            Outcome::Matched(Patch { nodes: build.nodes, replaces: y, covers: vec![root] })
        }
        Some(Err(why)) => Outcome::Refused(why),
        None => Outcome::NoMatch,
    }
}

/// The nodes of a patch for one node.
struct Build<'a> {
    pattern: &'a Pattern<'a>,
    node: &'a Node,
    nodes: Vec<NewNode>,
}

/// The real op, its attributes apart: `(new name, old name)`.
type Kept = &'static [&'static str];

const CONV: Kept = &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
const POOL: Kept = &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"];

impl<'a> Build<'a> {
    fn new(pattern: &'a Pattern<'a>, node: &'a Node) -> Option<Self> {
        let known = node.op_type.starts_with("QLinear") || node.op_type == "QGemm";
        known.then_some(Self { pattern, node, nodes: vec![] })
    }

    fn given(&self, i: usize) -> Option<Operand> {
        self.node.input(i).map(Operand::Value)
    }

    fn push(
        &mut self,
        op_type: &'static str,
        version: i64,
        inputs: Vec<Operand>,
        attrs: Vec<(&'static str, Attr)>,
    ) -> Operand {
        self.nodes.push(NewNode { domain: "", op_type, version, inputs, attrs });
        Operand::New(self.nodes.len() - 1)
    }

    /// Input `i` dequantised with the scale and zero point behind it, scales along `axis`.
    fn real(&mut self, i: usize, axis: i64) -> Option<Operand> {
        self.dequantised(i, i + 1, axis)
    }

    /// Input `i` dequantised with the scale in `scale` and the zero point behind that.
    fn dequantised(&mut self, i: usize, scale: usize, axis: i64) -> Option<Operand> {
        let mut inputs = vec![self.given(i)?, self.scale(scale)?];
        inputs.extend(self.given(scale + 1));
        Some(self.push("DequantizeLinear", 21, inputs, vec![("axis", Attr::Int(axis))]))
    }

    /// A scale as DequantizeLinear wants it: one number is a scalar.
    fn scale(&self, i: usize) -> Option<Operand> {
        self.given(i)
    }

    /// The bias in input `i`, of 32-bit integers in the scale `x * w` (inputs `xs` and `ws`).
    fn bias(&mut self, i: usize, xs: usize, ws: usize) -> Result<Option<Operand>, String> {
        let Some(b) = self.node.input(i) else { return Ok(None) };
        let data = |i: usize| self.node.input(i).and_then(|v| self.pattern.graph.value(v).data.as_ref());
        let (Some(x), Some(w)) = (data(xs).and_then(Tensor::scalar_f64), data(ws).and_then(Tensor::to_f32s)) else {
            return Err("the scales of a node with a bias are not constants".into());
        };
        let scales: Vec<f32> = w.iter().map(|w| x as f32 * w).collect();
        let shape = if scales.len() == 1 { vec![] } else { vec![scales.len()] };
        let inputs = vec![Operand::Value(b), Operand::Constant(Tensor::from_f32(shape, &scales))];
        Ok(Some(self.push("DequantizeLinear", 21, inputs, vec![("axis", Attr::Int(0))])))
    }

    fn kept(&self, names: Kept) -> Vec<(&'static str, Attr)> {
        names.iter().filter_map(|n| Some((*n, self.node.attrs.get(n)?.clone()))).collect()
    }

    /// Quantises the last node with the scale in input `scale`, and the zero point behind it.
    fn quantised(&mut self, scale: usize) -> Option<()> {
        let x = Operand::New(self.nodes.len() - 1);
        let mut inputs = vec![x, self.scale(scale)?];
        let zero = if let Some(zero) = self.given(scale + 1) {
            zero
        } else {
            let dtype = self.pattern.graph.value(self.node.output(0)?).ty.dtype()?;
            Operand::Constant(Tensor::from_i128(dtype, vec![], &[0])?)
        };
        inputs.push(zero);
        self.push("QuantizeLinear", 21, inputs, vec![]);
        Some(())
    }

    /// The nodes; `None` for an op that is not of this kind.
    fn nodes_of(&mut self) -> Option<Result<(), String>> {
        let channels_last = self.node.attrs.int_or("channels_last", 0) != 0;
        if channels_last {
            return Some(Err(format!("{} with channels_last is not respelt", self.node.op_name())));
        }
        let in_onnx = self.node.domain.is_empty();
        let done = match (in_onnx, self.node.op_type.as_str()) {
            (_, "QLinearConv") => return Some(self.conv()),
            (_, "QLinearMatMul") => {
                let b_rank = self
                    .node
                    .input(3)
                    .and_then(|v| self.pattern.graph.value(v).ty.tensor())
                    .map_or(2, |t| t.shape.len());
                let a = self.real(0, 0)?;
                let b = self.real(3, b_rank as i64 - 1)?;
                self.push("MatMul", 13, vec![a, b], vec![]);
                self.quantised(6)
            }
            (false, "QGemm") => return Some(self.gemm()),
            (false, "QLinearAdd") => self.binary("Add"),
            (false, "QLinearMul") => self.binary("Mul"),
            (false, "QLinearSigmoid") => self.unary("Sigmoid", &[]),
            (false, "QLinearLeakyRelu") => self.unary("LeakyRelu", &["alpha"]),
            (false, "QLinearSoftmax") => {
                let version = if self.node.attrs.int_or("opset", 13) < 13 { 11 } else { 13 };
                let x = self.real(0, 0)?;
                let axis = self.node.attrs.int_or("axis", if version < 13 { 1 } else { -1 });
                self.push("Softmax", version, vec![x], vec![("axis", Attr::Int(axis))]);
                self.quantised(3)
            }
            (false, "QLinearAveragePool") => self.unary("AveragePool", POOL),
            (false, "QLinearGlobalAveragePool") => self.unary("GlobalAveragePool", &[]),
            (false, "QLinearReduceMean") => {
                let x = self.real(0, 0)?;
                let attrs = self.kept(&["axes", "keepdims"]);
                self.push("ReduceMean", 13, vec![x], attrs);
                self.quantised(3)
            }
            (false, "QLinearConcat") => {
                let pieces = (2..self.node.inputs.len()).step_by(3).collect::<Vec<_>>();
                let real = pieces.into_iter().map(|i| self.real(i, 0)).collect::<Option<Vec<_>>>()?;
                let attrs = self.kept(&["axis"]);
                self.push("Concat", 13, real, attrs);
                self.quantised(0)
            }
            (false, "QLinearWhere") => {
                let condition = self.given(0)?;
                let (x, y) = (self.real(1, 0)?, self.real(4, 0)?);
                self.push("Where", 16, vec![condition, x, y], vec![]);
                self.quantised(7)
            }
            _ => return None,
        };
        done.map(Ok)
    }

    fn binary(&mut self, op: &'static str) -> Option<()> {
        let (a, b) = (self.real(0, 0)?, self.real(3, 0)?);
        self.push(op, 14, vec![a, b], vec![]);
        self.quantised(6)
    }

    fn unary(&mut self, op: &'static str, attrs: Kept) -> Option<()> {
        let x = self.real(0, 0)?;
        let attrs = self.kept(attrs);
        self.push(op, 16, vec![x], attrs);
        self.quantised(3)
    }

    fn conv(&mut self) -> Result<(), String> {
        let missing = || "an input is missing".to_string();
        let x = self.real(0, 0).ok_or_else(missing)?;
        let w = self.real(3, 0).ok_or_else(missing)?;
        let mut inputs = vec![x, w];
        inputs.extend(self.bias(8, 1, 4)?);
        let attrs = self.kept(CONV);
        self.push("Conv", 11, inputs, attrs);
        self.quantised(6).ok_or_else(missing)
    }

    fn gemm(&mut self) -> Result<(), String> {
        let missing = || "an input is missing".to_string();
        let turned = self.node.attrs.int_or("transB", 0) != 0;
        let a = self.real(0, 0).ok_or_else(missing)?;
        let b = self.real(3, i64::from(!turned)).ok_or_else(missing)?;
        let mut inputs = vec![a, b];
        let alpha = self.node.attrs.float_or("alpha", 1.0);
        if self.node.input(6).is_some() && alpha != 1.0 {
            return Err(format!("QGemm with a bias and alpha {alpha} is not respelt"));
        }
        inputs.extend(self.bias(6, 1, 4)?);
        let attrs = self.kept(&["alpha", "transA", "transB"]);
        self.push("Gemm", 13, inputs, attrs);
        if self.node.input(7).is_some() { self.quantised(7).ok_or_else(missing) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType as D;
    use crate::rewrite::testing::Build;

    fn conv(bias: bool, scales: &[f32]) -> (Vec<String>, Build) {
        let mut b = Build::new();
        let x = b.input_of("x", D::U8, &[1, 3, 4, 4]);
        let w = b.ints(D::I8, &[2, 3, 1, 1], &[1, -2, 3, 4, -5, 6]);
        let [xs, xz] = b.coding(0.5, D::U8, 128);
        let (ws, wz) = (b.constant(&[scales.len()], scales), b.ints(D::I8, &[scales.len()], &vec![0; scales.len()]));
        let [ys, yz] = b.coding(0.25, D::U8, 3);
        let mut inputs = vec![x, xs, xz, w, ws, wz, ys, yz];
        if bias {
            inputs.push(b.ints(D::I32, &[2], &[10, -20]));
        }
        let y = b.op_with("QLinearConv", &inputs, &[("strides", Attr::Ints(vec![2, 2]))]);
        let ops = b.run(REWRITE, y).0;
        (ops, b)
    }

    #[test]
    fn a_convolution_keeps_its_attributes_and_its_weights_their_codes() {
        for (bias, scales) in [(false, &[0.1f32][..]), (true, &[0.1, 0.2]), (true, &[0.1])] {
            let (ops, b) = conv(bias, scales);
            assert_eq!(
                ops.iter().filter(|op| *op != "DequantizeLinear").collect::<Vec<_>>(),
                ["Conv", "QuantizeLinear"]
            );
            let (_, conv) = b.graph.nodes().find(|(_, n)| n.is("Conv")).unwrap();
            assert_eq!(conv.attrs.ints("strides"), Some(&[2i64, 2][..]));
            let data = |i: usize| b.graph.value(conv.input(i).unwrap()).data.clone().unwrap();
            assert_eq!(data(1).encoding().unwrap().codes.to_i64s().unwrap(), [1, -2, 3, 4, -5, 6]);
            assert_eq!(data(1).to_f32s().unwrap()[2], 3.0 * 0.1);
            if bias {
                // The scale of the bias is the product of the two: 0.5 * 0.1 and 0.5 * 0.2 (or 0.1).
                let last = scales[scales.len() - 1];
                assert_eq!(data(2).to_f32s().unwrap(), [0.5, -20.0 * 0.5 * last]);
            }
        }
    }

    #[test]
    fn binary_and_unary_ops() {
        let mut b = Build::new();
        let x = b.input_of("x", D::U8, &[4]);
        let [s, z] = b.coding(0.5, D::U8, 1);
        let y = b.ms("QLinearAdd", &[x, s, z, x, s, z, s, z], &[]);
        let y = b.ms("QLinearLeakyRelu", &[y, s, z, s, z], &[("alpha", Attr::Float(0.2))]);
        let y = b.ms("QLinearSigmoid", &[y, s, z, s, z], &[]);
        let ops = b.run(REWRITE, y).0;
        let real: Vec<&str> = ops.iter().map(String::as_str).filter(|op| !op.ends_with("uantizeLinear")).collect();
        assert_eq!(real, ["Add", "LeakyRelu", "Sigmoid"]);
    }

    #[test]
    fn a_gemm_without_an_output_scale_stays_real() {
        let mut b = Build::new();
        let x = b.input_of("x", D::U8, &[1, 2]);
        let w = b.ints(D::I8, &[2, 3], &[1, 2, 3, 4, 5, 6]);
        let [s, z] = b.coding(0.5, D::U8, 1);
        let [ws, wz] = b.coding(0.1, D::I8, 0);
        let y = b.ms("QGemm", &[x, s, z, w, ws, wz], &[]);
        assert_eq!(b.run(REWRITE, y).0.last().unwrap(), "Gemm");
    }

    #[test]
    fn channels_last_is_left_alone() {
        let mut b = Build::new();
        let x = b.input_of("x", D::U8, &[1, 4, 4, 2]);
        let [s, z] = b.coding(0.5, D::U8, 1);
        let y = b.ms("QLinearGlobalAveragePool", &[x, s, z, s, z], &[("channels_last", Attr::Int(1))]);
        let (ops, events) = b.run(REWRITE, y);
        assert_eq!(ops, ["QLinearGlobalAveragePool"]);
        assert!(events[0].message.contains("channels_last"));
    }
}
