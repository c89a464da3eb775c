//! A scale and shift per channel behind a convolution goes into its weights and bias: BatchNormalization, and Mul, Div,
//! Add or Sub with a constant that is the same for every pixel.
//!
//! `s * (W * x + b) + t = (s W) * x + (s b + t)`. Computed in 64-bit floats and rounded once to the weights' type, so
//! that the result is at least as close to real arithmetic as the two steps were.

use super::affine;
use super::{Class, NewNode, Operand, Outcome, Patch, Pattern, Rewrite};
use crate::ir::{Attr, DataType, Encoded, Node, NodeId, Tensor, ValueId};

pub const REWRITE: Rewrite = Rewrite { name: "fold-affine-into-conv", class: Class::Tolerance, look };

fn look(p: &Pattern<'_>, root: NodeId) -> Outcome {
    matched(p, root).map_or(Outcome::NoMatch, Outcome::Matched)
}

fn matched(p: &Pattern<'_>, root: NodeId) -> Option<Patch> {
    let node = p.node(root);
    let (x, y) = (affine::operand(p, node)?, node.output(0)?);
    let (conv_id, between) = behind_transposes(p, x)?;
    let conv = p.node(conv_id);
    let transposed = conv.is("ConvTranspose");
    if !(conv.is("Conv") || transposed) {
        return None;
    }
    let weight = p.graph.value(p.source(conv.input(1)?)).data.as_ref()?;
    if !matches!(weight.dtype(), DataType::F32 | DataType::F64) {
        return None;
    }
    let groups = usize::try_from(conv.attrs.int_or("group", 1)).ok()?;
    let channels = if transposed { weight.shape().get(1)?.checked_mul(groups)? } else { *weight.shape().first()? };
    // Where the channels of the convolution are by the time they are scaled.
    let axis = between.iter().try_fold(1usize, |axis, (_, perm)| perm.iter().position(|&a| a == axis as i64))?;
    let change = affine::of(p, node, channels, weight.rank(), axis)?;
    let bias = match conv.input(2) {
        Some(b) => p.graph.value(p.source(b)).data.as_ref()?.to_f64s()?,
        None => vec![0.0; channels],
    };
    if bias.len() != channels {
        return None;
    }
    let new_bias: Vec<f64> = (0..channels).map(|c| bias[c] * change.scale[c] + change.shift[c]).collect();
    let new_weight = if change.scale.iter().all(|s| *s == 1.0) {
        weight.clone()
    } else {
        scaled(weight, &change.scale, transposed, groups)?
    };
    let op_type = if transposed { "ConvTranspose" } else { "Conv" };
    let attrs = conv.attrs.0.iter().filter_map(|(k, v)| Some((known_attr(k)?, v.clone()))).collect();
    let inputs = vec![
        Operand::Value(conv.input(0)?),
        Operand::Constant(new_weight),
        Operand::Constant(Tensor::from_f64(weight.dtype(), vec![channels], &new_bias)?),
    ];
    let mut nodes = vec![NewNode { domain: "", op_type, version: conv.version, inputs, attrs }];
    let mut covers = vec![conv_id, root];
    for (id, perm) in between {
        let attrs = vec![("perm", Attr::Ints(perm))];
        let inputs = vec![Operand::New(nodes.len() - 1)];
        nodes.push(NewNode { domain: "", op_type: "Transpose", version: p.node(id).version, inputs, attrs });
        covers.push(id);
    }
    Some(Patch { nodes, replaces: y, covers })
}

/// A Transpose and its permutation.
type Step = (NodeId, Vec<i64>);

/// The node behind `x` and the Transposes between, first to last, if nobody else reads what is between.
fn behind_transposes(p: &Pattern<'_>, mut x: ValueId) -> Option<(NodeId, Vec<Step>)> {
    let mut between = vec![];
    loop {
        if p.shared(x) {
            return None;
        }
        let (id, node) = p.producer(x)?;
        if !node.is("Transpose") {
            between.reverse();
            return Some((id, between));
        }
        between.push((id, perm(p, node)?));
        x = node.input(0)?;
    }
}

fn perm(p: &Pattern<'_>, node: &Node) -> Option<Vec<i64>> {
    match node.attrs.ints("perm") {
        Some(perm) => Some(perm.to_vec()),
        None => Some((0..p.graph.value(node.input(0)?).ty.tensor()?.shape.len() as i64).rev().collect()),
    }
}

/// The weights times the scale of their output channel.
fn scaled(weight: &Tensor, scale: &[f64], transposed: bool, groups: usize) -> Option<Tensor> {
    let shape = weight.shape().to_vec();
    if weight.splat_element().is_some() && scale.iter().all(|s| s.to_bits() == scale[0].to_bits()) {
        let one = Tensor::from_f64(weight.dtype(), vec![1], &[weight.uniform_f64()? * scale[0]])?;
        return Some(Tensor::splat(weight.dtype(), shape, one.bytes()));
    }
    if let Some(quantised) = weight.encoding().filter(|_| !transposed).and_then(|e| rescaled(e, scale)) {
        return Some(Tensor::encoded(weight.dtype(), quantised));
    }
    let kernel: usize = shape.get(2..)?.iter().product();
    let per_filter = if transposed { kernel } else { kernel * shape.get(1)? };
    if per_filter == 0 {
        return None;
    }
    let inputs_per_group = shape.first()? / groups.max(1);
    let channel = |filter: usize| {
        if transposed {
            // [C_in, C_out / group, ...]: filter (i, j) belongs to output channel j of the group of input i.
            let (i, j) = (filter / shape[1], filter % shape[1]);
            i / inputs_per_group.max(1) * shape[1] + j
        } else {
            filter
        }
    };
    let factors =
        (0..weight.len() / per_filter).map(|f| scale.get(channel(f)).copied()).collect::<Option<Vec<f64>>>()?;
    let bytes = weight.bytes();
    if weight.dtype() == DataType::F32 {
        // One pass: these are the model's largest tensors.
        let mut out = Vec::with_capacity(weight.len());
        for (filter, s) in bytes.chunks_exact(per_filter * 4).zip(&factors) {
            let read = |c: &[u8]| f64::from(f32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            out.extend(filter.chunks_exact(4).map(|c| (read(c) * s) as f32));
        }
        return Some(Tensor::from_pod(DataType::F32, shape, &out));
    }
    let values = weight.to_f64s()?;
    let scaled = values.chunks(per_filter).zip(&factors).flat_map(|(c, s)| c.iter().map(move |w| w * s));
    Tensor::from_f64(weight.dtype(), shape, &scaled.collect::<Vec<f64>>())
}

/// Quantised weights keep their codes: each output channel's own scale takes up its factor, if that is positive.
fn rescaled(e: &Encoded, factors: &[f64]) -> Option<Encoded> {
    let by_channel = e.block.is_none() && matches!(e.axis, None | Some(0));
    if !by_channel || factors.iter().any(|f| f.is_nan() || *f <= 0.0) {
        return None;
    }
    let each = |i: usize| if e.axis.is_some() { i } else { 0 };
    let scales = factors.iter().enumerate().map(|(i, f)| (f64::from(e.scales[each(i)]) * f) as f32).collect();
    let zeros = (0..factors.len()).map(|i| e.zeros[each(i)]).collect();
    Encoded::new(e.codes.clone(), scales, zeros, Some(0))
}

/// Attribute names live as long as the program.
fn known_attr(name: &str) -> Option<&'static str> {
    ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "output_padding", "output_shape"]
        .into_iter()
        .find(|k| *k == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Attr;
    use crate::rewrite::testing::Build;

    fn conv(op: &str, weight: &[usize], groups: i64) -> (Build, ValueId) {
        let mut b = Build::new();
        let x = b.input("x", &[1, 4, 5, 5]);
        let n: usize = weight.iter().product();
        let w = b.constant(weight, &(0..n).map(|i| i as f32).collect::<Vec<_>>());
        let y = b.op_with(op, &[x, w], &[("group", Attr::Int(groups))]);
        (b, y)
    }

    fn constants(b: &Build) -> (Vec<f32>, Vec<f32>) {
        let read = |i: usize| b.graph.value(b.last().input(i).unwrap()).data.as_ref().unwrap().to_f32s().unwrap();
        (read(1), read(2))
    }

    #[test]
    fn batch_norm_goes_into_the_weights() {
        let (mut b, y) = conv("Conv", &[2, 4, 1, 1], 1);
        let args = [vec![2.0, 3.0], vec![0.5, -1.0], vec![1.0, 4.0], vec![4.0, 0.25]];
        let args: Vec<ValueId> = args.iter().map(|v| b.constant(&[2], v)).collect();
        let inputs = [vec![y], args].concat();
        let y = b.op_with("BatchNormalization", &inputs, &[("epsilon", Attr::Float(0.0))]);
        assert_eq!(b.run(REWRITE, y).0, ["Conv"]);
        // Scales 2/2 and 3/0.5; shifts 0.5 - 1*1 and -1 - 4*6.
        assert_eq!(constants(&b), (vec![0., 1., 2., 3., 24., 30., 36., 42.], vec![-0.5, -25.0]));
    }

    #[test]
    fn channels_of_a_transposed_convolution_are_its_second_axis() {
        let (mut b, y) = conv("ConvTranspose", &[4, 1, 1, 1], 2);
        let k = b.constant(&[2, 1, 1], &[10.0, 100.0]);
        let y = b.op("Mul", &[y, k]);
        assert_eq!(b.run(REWRITE, y).0, ["ConvTranspose"]);
        assert_eq!(constants(&b), (vec![0., 10., 200., 300.], vec![0.0, 0.0]));
    }

    #[test]
    fn a_transpose_between_stays_behind() {
        let (mut b, y) = conv("Conv", &[2, 4, 1, 1], 1);
        let t = b.op_with("Transpose", &[y], &[("perm", Attr::Ints(vec![0, 2, 3, 1]))]);
        let (k, m) = (b.constant(&[2], &[10.0, 100.0]), b.constant(&[1, 1, 1, 2], &[1.0, 2.0]));
        let s = b.op("Sub", &[t, m]);
        let y = b.op("Mul", &[s, k]);
        assert_eq!(b.run(REWRITE, y).0, ["Conv", "Transpose"]);
        let (first, _) = b.graph.value(b.last().input(0).unwrap()).producer.unwrap();
        let bias = b.graph.value(b.graph.node(first).input(2).unwrap()).data.clone().unwrap();
        assert_eq!(bias.to_f32s().unwrap(), [-10.0, -200.0]);
    }

    #[test]
    fn a_chain_folds_whole() {
        let (mut b, y) = conv("Conv", &[1, 4, 1, 1], 1);
        let (two, three) = (b.number(2.0), b.constant(&[1, 1, 1, 1], &[3.0]));
        let y = b.op("Div", &[y, two]);
        let y = b.op("Add", &[three, y]);
        assert_eq!(b.run(REWRITE, y).0, ["Conv"]);
        assert_eq!(constants(&b), (vec![0., 0.5, 1., 1.5], vec![3.0]));
    }

    #[test]
    fn what_differs_by_pixel_or_is_read_twice_stays() {
        let (mut b, y) = conv("Conv", &[1, 4, 1, 1], 1);
        let k = b.constant(&[5], &[1., 2., 3., 4., 5.]);
        let y = b.op("Mul", &[y, k]);
        assert_eq!(b.run(REWRITE, y).0, ["Conv", "Mul"]);
        let (mut b, c) = conv("Conv", &[1, 4, 1, 1], 1);
        let two = b.number(2.0);
        let m = b.op("Mul", &[c, two]);
        let y = b.op("Add", &[m, c]);
        assert_eq!(b.run(REWRITE, y).0, ["Conv", "Mul", "Add"]);
    }

    #[test]
    fn quantised_weights_keep_their_codes() {
        let codes = Tensor::from_i128(DataType::I8, vec![2, 2, 1, 1], &[1, -2, 3, 4]).unwrap();
        let e = Encoded::new(codes, vec![0.5], vec![0], None).unwrap();
        let w = Tensor::encoded(DataType::F32, e);
        let folded = scaled(&w, &[2.0, 4.0], false, 1).unwrap();
        assert_eq!(folded.encoding().unwrap().scales, [1.0, 2.0]);
        assert_eq!(folded.to_f32s().unwrap(), [1.0, -2.0, 6.0, 8.0]);
        let turned = scaled(&w, &[2.0, -4.0], false, 1).unwrap();
        assert!(turned.encoding().is_none());
        assert_eq!(turned.to_f32s().unwrap(), [1.0, -2.0, -6.0, -8.0]);
    }
}
