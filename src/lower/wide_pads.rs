//! Zeros of a whole kernel or more right before a convolution: the HTP makes a Pad there (or Concats that do the same)
//! the convolution's own padding and then gives wrong numbers (QAIRT 2.47). Windows that lie in the zeros wholly give
//! nothing but the bias, so the result is padded instead of the input.

use std::collections::HashMap;

use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, Quant, Scalar, TensorId, TensorKind};

pub(super) fn narrow(graph: &mut QnnGraph) {
    let pads: HashMap<TensorId, Zeros> = graph.ops.iter().filter_map(zeros).collect();
    if pads.is_empty() {
        return;
    }
    let ops = std::mem::take(&mut graph.ops);
    for op in ops {
        match op.inputs.first().and_then(|x| pads.get(x)).and_then(|pad| convolution(graph, &op, pad)) {
            Some(chain) => graph.ops.extend(chain),
            None => graph.ops.push(op),
        }
    }
    drop_unread(graph, &pads);
}

/// What a Pad of two spatial axes puts around its input.
struct Zeros {
    input: TensorId,
    amount: [[u32; 2]; 2],
}

fn numbers<'a>(op: &'a QnnOp, name: &str) -> Option<&'a [u32]> {
    op.params.iter().find(|(n, _)| n == name).and_then(|(_, p)| match p {
        Param::U32s { values, .. } => Some(values.as_slice()),
        _ => None,
    })
}

fn zeros(op: &QnnOp) -> Option<(TensorId, Zeros)> {
    let is = |name: &str, value: Scalar| op.params.iter().any(|(n, p)| n == name && *p == Param::Scalar(value));
    let &[0, 0, a, b, c, d, 0, 0] = numbers(op, "pad_amount")? else { return None };
    let zeros = op.op_type == "Pad" && is("scheme", Scalar::U32(0)) && is("pad_constant_value", Scalar::F32(0.0));
    zeros.then_some((*op.outputs.first()?, Zeros { input: *op.inputs.first()?, amount: [[a, b], [c, d]] }))
}

/// The convolution on the input of the Pad, and the Pad of its result, if one of the paddings is a whole kernel.
fn convolution(graph: &mut QnnGraph, op: &QnnOp, pad: &Zeros) -> Option<Vec<QnnOp>> {
    let (&[_, weights, ref bias @ ..], &[y]) = (op.inputs.as_slice(), op.outputs.as_slice()) else { return None };
    let float = graph.tensor(y).dtype.is_float();
    if !float || !matches!(op.op_type.as_str(), "Conv2d" | "DepthWiseConv2d") {
        return None;
    }
    let at =
        |list: Option<&[u32]>, i: usize, none: u32| i64::from(list.and_then(|l| l.get(i)).copied().unwrap_or(none));
    let (mut own, mut beyond, mut inner_dims) = ([[0u32; 2]; 2], [[0u32; 2]; 4], graph.tensor(y).dims.clone());
    let mut wide = false;
    for axis in 0..2 {
        let [before, after] =
            [0, 1].map(|side| i64::from(pad.amount[axis][side]) + at(numbers(op, "pad_amount"), 2 * axis + side, 0));
        let stride = at(numbers(op, "stride"), axis, 1).max(1);
        let extent = (at(Some(&graph.tensor(weights).dims), axis, 1) - 1) * at(numbers(op, "dilation"), axis, 1) + 1;
        let (size, out) = (at(Some(&graph.tensor(pad.input).dims), axis + 1, 1), at(Some(&inner_dims), axis + 1, 1));
        wide |= before >= extent || after >= extent;
        let cut_before = if before >= extent { (before - extent + stride) / stride } else { 0 };
        let cut_after = if after >= extent { (out - (size + before + stride - 1) / stride).max(0) } else { 0 };
        let (rest, inner) = (before - cut_before * stride, out - cut_before - cut_after);
        if rest < 0 || inner < 1 {
            return None;
        }
        let touched = ((inner - 1) * stride + extent - rest - size).max(0);
        own[axis] = [u32::try_from(rest).ok()?, u32::try_from(touched).ok()?];
        beyond[axis + 1] = [u32::try_from(cut_before).ok()?, u32::try_from(cut_after).ok()?];
        *inner_dims.get_mut(axis + 1)? = inner as u32;
    }
    if !wide {
        return None;
    }
    let dtype = graph.tensor(y).dtype;
    let mut add = |dims: Vec<u32>| {
        let name = format!("{}.narrow{}", op.name, graph.tensors.len());
        graph.tensors.push(QnnTensor { name, kind: TensorKind::Native, dtype, dims, quant: Quant::None, data: None });
        TensorId(graph.tensors.len() as u32 - 1)
    };
    let whole: Vec<u32> = inner_dims.iter().zip(&beyond).map(|(d, [b, a])| d + b + a).collect();
    let inner = add(inner_dims);
    let padded = if bias.is_empty() { y } else { add(whole) };
    let step = |name: &str, op_type: &str, inputs: Vec<TensorId>, output, params| QnnOp {
        name: format!("{}{name}", op.name),
        op_type: op_type.into(),
        inputs,
        outputs: vec![output],
        params,
        ..op.clone()
    };
    let mut params = op.params.clone();
    params.retain(|(n, _)| n != "pad_amount");
    params.push(("pad_amount".into(), Param::pairs(&own)));
    let around = vec![
        ("scheme".into(), Param::u32(0)),
        ("pad_amount".into(), Param::pairs(&beyond)),
        ("pad_constant_value".into(), Param::f32(0.0)),
    ];
    let mut chain = vec![
        step("", &op.op_type, vec![pad.input, weights], inner, params),
        step(".around", "Pad", vec![inner], padded, around),
    ];
    if let Some(&bias) = bias.first() {
        chain.push(step(".bias", "ElementWiseAdd", vec![padded, bias], y, vec![]));
    }
    Some(chain)
}

/// Takes away Pads that nothing reads any more.
fn drop_unread(graph: &mut QnnGraph, pads: &HashMap<TensorId, Zeros>) {
    let read: Vec<TensorId> = graph.ops.iter().flat_map(|op| op.inputs.clone()).chain(graph.outputs.clone()).collect();
    graph.ops.retain(|op| op.outputs.first().is_none_or(|y| !pads.contains_key(y) || read.contains(y)));
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{assert_close, node, op_types, ramp};

    #[test]
    fn a_pad_of_a_whole_kernel_goes_behind() {
        let conv = |pad: i64| {
            let n = node("Conv", 11).float(&[1, 1, 2, 2]).floats(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
            n.floats(&[1], &[0.5]).int_list("pads", &[pad, 0, 0, 0])
        };
        let of = |pad: i64| {
            let g = conv(pad).lower().unwrap();
            op_types(&g)
                .into_iter()
                .filter(|o| *o != "Transpose" && *o != "Reshape")
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1), ["Conv2d"]);
        assert_eq!(of(2), ["Conv2d", "Pad", "ElementWiseAdd"]);
        let y = conv(2).run(&[ramp(4, 1.0, 1.0)]);
        assert_close(&y[0], &[0.5, 11.5, 30.5], 0.0);
    }
}
