//! What becomes of quantised graphs, and that it computes what the real graph between Dequantize and Quantize does.

use std::collections::BTreeSet;

use crate::infer::infer;
use crate::ir::{Attr, DataType, Dim, Graph, Node, NodeId, Tensor, TensorType, Value, ValueId};
use crate::lower::{Lowering, Target};
use crate::ops::testing::{evaluate, op_types, ramp};
use crate::qnn::graph::{QnnGraph, QnnType, Quant};

/// A model under construction.
pub(super) struct Model {
    graph: Graph,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut graph = Graph::default();
        graph.opsets.insert(String::new(), 21);
        Self { graph }
    }

    pub(super) fn input(&mut self, name: &str, dtype: DataType, shape: &[i64]) -> ValueId {
        let shape = shape.iter().map(|&d| Dim::Known(d)).collect();
        let v = self.graph.add_typed(name, TensorType::new(dtype, shape));
        self.graph.inputs.push(v);
        v
    }

    fn constant(&mut self, t: Tensor) -> ValueId {
        self.graph.add_constant("c", t)
    }

    fn ints(&mut self, dtype: DataType, shape: &[usize], values: &[i128]) -> ValueId {
        self.constant(Tensor::from_i128(dtype, shape.to_vec(), values).unwrap())
    }

    pub(super) fn node(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let out = self.graph.add_value(Value { name: format!("v{}", self.graph.node_count()), ..Value::default() });
        let mut node = Node {
            name: format!("n{}", self.graph.node_count()),
            op_type: op.into(),
            version: 21,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(out)],
            ..Node::default()
        };
        for (k, v) in attrs {
            node.attrs.set(*k, v.clone());
        }
        self.graph.add_node(node);
        out
    }

    pub(super) fn quantise(&mut self, x: ValueId, scale: f32, zero: i128) -> ValueId {
        let (s, z) = self.encoding(scale, DataType::U8, zero);
        self.node("QuantizeLinear", &[x, s, z], &[])
    }

    pub(super) fn dequantise(&mut self, q: ValueId, scale: f32, zero: i128) -> ValueId {
        let (s, z) = self.encoding(scale, DataType::U8, zero);
        self.node("DequantizeLinear", &[q, s, z], &[])
    }

    fn encoding(&mut self, scale: f32, dtype: DataType, zero: i128) -> (ValueId, ValueId) {
        (self.constant(Tensor::from_f32(vec![], &[scale])), self.ints(dtype, &[], &[zero]))
    }

    /// A weight of int8 codes with a scale for each of its first axis.
    fn weight(&mut self, shape: &[usize]) -> ValueId {
        let n: usize = shape.iter().product();
        let codes: Vec<i128> = (0..n as i128).map(|i| i * 37 % 255 - 127).collect();
        let q = self.ints(DataType::I8, shape, &codes);
        let scales: Vec<f32> = (0..shape[0]).map(|i| 0.01 + 0.002 * i as f32).collect();
        let s = self.constant(Tensor::from_f32(vec![shape[0]], &scales));
        let z = self.ints(DataType::I8, &[shape[0]], &vec![0; shape[0]]);
        self.node("DequantizeLinear", &[q, s, z], &[("axis", Attr::Int(0))])
    }

    /// Lowers with `output` as the model's output; all nodes in real numbers if `plain`.
    pub(super) fn lower(&mut self, output: ValueId, plain: bool) -> QnnGraph {
        self.graph.outputs = vec![output];
        let found = infer(&mut self.graph).unwrap();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        self.graph.remove_dead();
        let target = Target { soc: "sm8650".into(), arch: 75, float: QnnType::FLOAT_16, allow_approximate: false };
        let order = self.graph.topological_order().unwrap();
        let nodes: BTreeSet<NodeId> = if plain { order.iter().copied().collect() } else { BTreeSet::new() };
        let mut low = Lowering::new(&self.graph, &target, "g").plain(&nodes);
        let folded =
            |id: &NodeId| self.graph.node(*id).outputs.iter().flatten().all(|v| self.graph.value(*v).data.is_some());
        for id in order.iter().filter(|id| !folded(id)) {
            low.node(*id).unwrap();
        }
        low.output(output).unwrap();
        low.finish(&self.graph.inputs)
    }

    /// Both ways give the same codes, within one where sums are rounded at their ends. Gives the ops on integers.
    fn check(&mut self, output: ValueId, inputs: &[Vec<f64>]) -> Vec<String> {
        let real = self.lower(output, true);
        let whole = self.lower(output, false);
        for (a, b) in evaluate(&whole, inputs).iter().zip(evaluate(&real, inputs)) {
            assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() <= 1.0), "{a:?}\n{b:?}");
        }
        op_types(&whole).into_iter().map(Into::into).collect()
    }
}

#[test]
fn a_convolution_between_encodings_is_one_op() {
    let mut m = Model::new();
    let q = m.input("x", DataType::U8, &[1, 2, 4, 4]);
    let x = m.dequantise(q, 0.02, 128);
    let w = m.weight(&[3, 2, 1, 1]);
    let b = m.constant(Tensor::from_f32(vec![3], &[0.5, -1.0, 0.25]));
    let y = m.node("Conv", &[x, w, b], &[]);
    let y = m.quantise(y, 0.05, 100);
    let ops = m.check(y, &[ramp(32, 0.0, 7.0)]);
    assert_eq!(ops, ["Transpose", "Conv2d", "Transpose"]);
    let g = m.lower(y, false);
    let conv = g.ops.iter().find(|op| op.op_type == "Conv2d").unwrap();
    let types: Vec<QnnType> = conv.inputs.iter().chain(&conv.outputs).map(|t| g.tensor(*t).dtype).collect();
    assert_eq!(
        types,
        [QnnType::UFIXED_POINT_8, QnnType::SFIXED_POINT_8, QnnType::SFIXED_POINT_32, QnnType::UFIXED_POINT_8]
    );
    assert!(matches!(&g.tensor(conv.inputs[1]).quant, Quant::PerAxis { axis: 3, scales, .. } if scales.len() == 3));
    // The bias in the scale of the products: 0.5 / (0.02 * 0.01).
    let Some(crate::qnn::graph::StaticData::Constant { tensor, .. }) = &g.tensor(conv.inputs[2]).data else { panic!() };
    assert_eq!(tensor.to_i64s().unwrap()[0], 2500);
    assert!(g.tensors.iter().all(|t| !t.dtype.is_float()), "no real tensor is left");
}

#[test]
fn moving_ops_move_codes() {
    let mut m = Model::new();
    let x = m.input("x", DataType::F32, &[2, 6]);
    let q = m.quantise(x, 0.1, 10);
    let d = m.dequantise(q, 0.1, 10);
    let shape = m.constant(Tensor::from_i64(vec![2], &[3, 4]));
    let r = m.node("Reshape", &[d, shape], &[]);
    let q = m.quantise(r, 0.1, 10);
    let d = m.dequantise(q, 0.1, 10);
    let t = m.node("Transpose", &[d], &[("perm", Attr::Ints(vec![1, 0]))]);
    let y = m.quantise(t, 0.1, 10);
    let ops = m.check(y, &[ramp(12, -1.0, 0.3)]);
    // The input is quantised from its 32-bit floats; nothing is converted on the way.
    assert_eq!(ops[0], "Quantize");
    assert!(!ops.iter().any(|op| op == "Dequantize" || op == "Cast" || op == "Convert"), "{ops:?}");
}

#[test]
fn another_encoding_is_a_convert() {
    let mut m = Model::new();
    let q = m.input("x", DataType::U8, &[2, 6]);
    let d = m.dequantise(q, 0.1, 10);
    let shape = m.constant(Tensor::from_i64(vec![2], &[3, 4]));
    let r = m.node("Reshape", &[d, shape], &[]);
    let y = m.quantise(r, 0.2, 0);
    let ops = m.check(y, &[ramp(12, 0.0, 20.0)]);
    assert_eq!(ops.iter().filter(|op| *op == "Convert").count(), 1);
    assert!(!ops.iter().any(|op| op == "Quantize" || op == "Dequantize"));
}

#[test]
fn relu_goes_where_the_encoding_does_its_work() {
    for (zero, stays) in [(0, false), (128, true)] {
        let mut m = Model::new();
        let q = m.input("x", DataType::U8, &[8]);
        let d = m.dequantise(q, 0.1, 128);
        let e = m.dequantise(q, 0.1, 128);
        let s = m.node("Add", &[d, e], &[]);
        let r = m.node("Relu", &[s], &[]);
        let y = m.quantise(r, 0.2, zero);
        let ops = m.check(y, &[ramp(8, 0.0, 36.0)]);
        assert_eq!(ops.iter().any(|op| op == "Relu"), stays, "{ops:?}");
        assert!(!ops.iter().any(|op| op == "Quantize" || op == "Dequantize"), "{ops:?}");
    }
}

#[test]
fn a_number_beside_codes_is_a_code() {
    for value in [0.5, -0.25] {
        let mut m = Model::new();
        let q = m.input("x", DataType::U8, &[8]);
        let d = m.dequantise(q, 0.1, 128);
        let c = m.constant(Tensor::from_f32(vec![], &[value]));
        let y = m.node("Mul", &[d, c], &[]);
        let y = m.quantise(y, 0.05, 128);
        assert_eq!(m.check(y, &[ramp(8, 0.0, 36.0)]), ["ElementWiseMultiply"]);
    }
}

#[test]
fn int8_activations_are_kept_unsigned() {
    let mut m = Model::new();
    let q = m.input("x", DataType::I8, &[8]);
    let (s, z) = m.encoding(0.1, DataType::I8, -3);
    let d = m.node("DequantizeLinear", &[q, s, z], &[]);
    let y = m.node("Sigmoid", &[d], &[]);
    let (s, z) = m.encoding(1.0 / 256.0, DataType::I8, -128);
    let y = m.node("QuantizeLinear", &[y, s, z], &[]);
    assert_eq!(m.check(y, &[ramp(8, -128.0, 36.0)]), ["Convert", "Sigmoid", "Convert"]);
}

#[test]
fn real_products_keep_integer_weights() {
    let mut m = Model::new();
    let x = m.input("x", DataType::F32, &[2, 4]);
    let w = m.weight(&[3, 4]);
    let y = m.node("Gemm", &[x, w], &[("transB", Attr::Int(1))]);
    let g = m.lower(y, false);
    let fc = g.ops.iter().find(|op| op.op_type == "FullyConnected").unwrap();
    assert_eq!(g.tensor(fc.inputs[1]).dtype, QnnType::SFIXED_POINT_8);
    assert!(matches!(&g.tensor(fc.inputs[1]).quant, Quant::PerAxis { axis: 0, .. }));
    let real = m.lower(y, true);
    let x = [ramp(8, -1.0, 0.25)];
    crate::ops::testing::assert_close(&evaluate(&g, &x)[0], &evaluate(&real, &x)[0], 1e-6);
}

#[test]
fn values_that_are_read_as_real_numbers_stay_real() {
    let mut m = Model::new();
    let q = m.input("x", DataType::U8, &[8]);
    let d = m.dequantise(q, 0.1, 128);
    let s = m.node("Sigmoid", &[d], &[]);
    let a = m.quantise(s, 1.0 / 256.0, 0);
    let b = m.dequantise(a, 1.0 / 256.0, 0);
    let y = m.node("Sub", &[s, b], &[]);
    let ops: Vec<String> = op_types(&m.lower(y, false)).into_iter().map(Into::into).collect();
    assert_eq!(ops.iter().filter(|op| *op == "Sigmoid").count(), 1);
    assert!(ops.iter().any(|op| op == "Quantize"), "{ops:?}");
}

#[test]
fn layer_norm_of_8_bits_is_computed_in_16() {
    let mut m = Model::new();
    let q = m.input("x", DataType::U8, &[2, 8]);
    let d = m.dequantise(q, 0.02, 128);
    let (g, b) = (m.constant(Tensor::from_f32(vec![8], &[1.0; 8])), m.constant(Tensor::from_f32(vec![8], &[0.0; 8])));
    let y = m.node("LayerNormalization", &[d, g, b], &[("axis", Attr::Int(-1))]);
    let y = m.quantise(y, 0.03, 128);
    let g = m.lower(y, false);
    assert_eq!(op_types(&g), ["Convert", "LayerNorm", "Convert"]);
    let norm = &g.ops[1];
    assert_eq!(g.tensor(norm.inputs[0]).dtype, QnnType::UFIXED_POINT_16);
    assert_eq!(g.tensor(norm.inputs[0]).quant, Quant::PerTensor { scale: 0.02 / 256.0, offset: -128 * 256 });
}

/// `[2, 4]` times blocks of two of a constant `[3, 4]`, as MatMulNBits.
#[test]
fn blocks_of_four_bits_stay_what_they_are() {
    for zeros in [false, true] {
        let mut m = Model::new();
        let x = m.input("x", DataType::F32, &[2, 32]);
        let bytes: Vec<i128> = (0..48).map(|i| i * 53 % 256).collect();
        let w = m.ints(DataType::U8, &[3, 2, 8], &bytes);
        let s = m.constant(Tensor::from_f32(vec![6], &[0.5, 1.0, 0.25, 2.0, 0.125, 0.75]));
        let mut inputs = vec![x, w, s];
        if zeros {
            inputs.push(m.ints(DataType::U8, &[3], &[0x31, 0x8f, 0x08]));
        }
        let ints = [("K", 32), ("N", 3), ("bits", 4), ("block_size", 16)];
        let y = m.node("MatMulNBits", &inputs, &ints.map(|(k, v)| (k, Attr::Int(v))));
        let (id, _) = m.graph.value(y).producer.unwrap();
        m.graph.node_mut(id).domain = "com.microsoft".into();
        let g = m.lower(y, false);
        let fc = g.ops.iter().find(|op| op.op_type == "FullyConnected").unwrap();
        let weights = g.tensor(fc.inputs[1]);
        assert_eq!((weights.dtype, weights.dims.as_slice()), (QnnType::SFIXED_POINT_8, &[3u32, 32][..]));
        let Quant::FloatBlock { bits: 4, block, scales, offsets } = &weights.quant else {
            panic!("{:?}", weights.quant)
        };
        assert_eq!(block, &[1, 16]);
        assert_eq!(scales, &[0.5, 1.0, 0.25, 2.0, 0.125, 0.75]);
        let want = if zeros { [7.0, 5.0, -7.0, 0.0, 0.0, 8.0] } else { [0.0; 6] };
        assert_eq!(offsets, &want);
        let Some(crate::qnn::graph::StaticData::Constant { tensor, .. }) = &weights.data else { panic!() };
        assert_eq!(tensor.to_i64s().unwrap()[..4], [-8, -8, 5 - 8, 3 - 8]);
    }
}

/// The finer form of a Sigmoid is for real numbers that the model gives out, not for codes.
#[test]
fn a_sigmoid_that_leaves_the_model_is_fine() {
    let mut m = Model::new();
    let x = m.input("x", DataType::F32, &[8]);
    let y = m.node("Sigmoid", &[x], &[]);
    let shape = m.constant(Tensor::from_i64(vec![2], &[2, 4]));
    let z = m.node("Reshape", &[y, shape], &[]);
    let g = m.lower(z, false);
    assert!(!op_types(&g).contains(&"Sigmoid") && op_types(&g).contains(&"ElementWiseDivide"), "{:?}", op_types(&g));
    let x = ramp(8, -9.0, 2.5);
    let want: Vec<f64> = x.iter().map(|v| 1.0 / (1.0 + (-v).exp())).collect();
    crate::ops::testing::assert_close(&evaluate(&g, &[x])[0], &want, 1e-9);
    let mut m = Model::new();
    let x = m.input("x", DataType::F32, &[8]);
    let s = m.node("Sigmoid", &[x], &[]);
    let y = m.node("Mul", &[x, s], &[]);
    assert!(op_types(&m.lower(y, false)).contains(&"Sigmoid"));
}

#[test]
fn forms_that_come_out_wrong_stay_real() {
    let ops = |op: &str, dtype: DataType, (scale, zero): (f32, i128)| {
        let mut m = Model::new();
        let q = m.input("x", dtype, &[2, 6]);
        let (s, z) = m.encoding(0.02, dtype, 100);
        let x = m.node("DequantizeLinear", &[q, s, z], &[]);
        let y = m.node(op, &[x], &[]);
        let (s, z) = m.encoding(scale, dtype, zero);
        let y = m.node("QuantizeLinear", &[y, s, z], &[]);
        m.check(y, &[ramp(12, 0.0, 7.0)])
    };
    let is_real = |ops: &[String]| ops.iter().any(|op| op == "Dequantize");
    assert!(!is_real(&ops("Softmax", DataType::U8, (0.004, 0))));
    assert!(is_real(&ops("Softmax", DataType::U8, (0.004, 3))));
    assert!(!is_real(&ops("Softmax", DataType::U16, (0.004, 3))));
    assert!(!is_real(&ops("HardSigmoid", DataType::U8, (0.004, 3))));
    assert!(is_real(&ops("HardSigmoid", DataType::U16, (0.004, 3))));
}
