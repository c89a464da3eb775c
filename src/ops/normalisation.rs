//! Normalisations by statistics that are given (BatchNormalization) or taken per channel (instance, group).

use super::elementwise_unary::infer_same;
use super::{InferCx, OpDef, OpError, compose, conv, invalid, spatial};
use crate::ir::{Dim, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("BatchNormalization", infer_batch).lower(lower_batch),
    OpDef::new("InstanceNormalization", infer_instance).lower(lower_instance),
    OpDef::new("GroupNormalization", infer_group).lower(lower_group),
];

/// Checks that input `i` has one element per channel.
fn check_channels(cx: &InferCx<'_>, i: usize, what: &str, channels: &Dim) -> Result<(), OpError> {
    let shape = cx.shape(i)?;
    match (shape.as_slice(), channels) {
        ([Dim::Known(n)], Dim::Known(c)) if n != c => invalid(format!("{what} has {n} elements for {c} channels")),
        ([_], _) => Ok(()),
        (s, _) => invalid(format!("{what} has shape {}; it must have one axis", show_shape(s))),
    }
}

fn channels(shape: &[Dim]) -> Dim {
    shape.get(1).cloned().unwrap_or(Dim::Known(1))
}

fn infer_batch(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let c = channels(&t.shape);
    for (i, what) in [(1, "scale"), (2, "the bias"), (3, "the mean"), (4, "the variance")] {
        check_channels(cx, i, what, &c)?;
    }
    let statistics = cx.dtype(3)?;
    for i in 1..cx.out.len() {
        cx.set(i, statistics, vec![c.clone()]);
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// `x` (channel last, any rank) `* scale + shift` per channel.
pub(super) fn affine(cx: &mut LowerCx<'_, '_>, x: TensorId, scale: TensorId, shift: TensorId) -> TensorId {
    let (dims, dtype) = (cx.dims(x), cx.qnn_type(x));
    cx.op_to("Batchnorm", &[x, scale, shift], dtype, &dims, &[])
}

/// Is `v` a number that a 16-bit float holds?
fn fits(v: f64) -> bool {
    v.is_finite() && v.abs() <= 65504.0
}

fn lower_batch(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let attrs = cx.attrs();
    if attrs.int_or("training_mode", 0) != 0 {
        return train_batch(cx);
    }
    if cx.version() < 7 && attrs.int_or("is_test", 0) == 0 {
        return Err(Refusal::form("attribute is_test is 0: statistics would be taken from the batch")
            .fix("export the model in evaluation mode"));
    }
    if let Some(i) = (1..cx.node.outputs.len()).find(|&i| cx.wants(i)) {
        return Err(Refusal::form(format!("output {i} of BatchNormalization is read, which exists only in training")));
    }
    let shape = cx.shape(0)?;
    let Some(&c) = shape.get(1) else {
        return Err(Refusal::form(format!("BatchNormalization of an input of rank {}", shape.len())));
    };
    let epsilon = attrs.float_or("epsilon", 1e-5);
    let (scale, shift) = if (1..5).all(|i| cx.constant(i).is_some()) {
        folded_statistics(cx, f64::from(epsilon), c)?
    } else {
        let (gamma, beta, mean, variance) = (cx.input(1)?, cx.input(2)?, cx.input(3)?, cx.input(4)?);
        let e = cx.float_scalar(epsilon);
        let floor = compose::add(cx, variance, e);
        let inverse = compose::unary(cx, "ElementWiseRsqrt", floor);
        let scale = compose::mul(cx, gamma, inverse);
        let moved = compose::mul(cx, mean, scale);
        (scale, compose::sub(cx, beta, moved))
    };
    let layout = Layout::channel_last(shape.len());
    let mut x = cx.ordered(0, &layout)?;
    let physical: Vec<u32> = layout.apply(&shape).iter().map(|&d| d as u32).collect();
    x = if physical.len() > 4 {
        // Batchnorm takes up to four axes, and only the channel matters.
        let space = physical[1..physical.len() - 1].iter().product();
        cx.reshape(x, &[physical[0], 1, space, c as u32])
    } else if cx.dims(x).last() == Some(&(c as u32)) && cx.dims(x).len() <= 4 {
        x
    } else {
        cx.reshape(x, &physical)
    };
    let y = affine(cx, x, scale, shift);
    spatial::give_channel_last(cx, 0, y)
}

/// In training mode the statistics are those of the batch, and the outputs 1 and 2 are running means of them.
fn train_batch(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let attrs = cx.attrs();
    let (epsilon, momentum) = (attrs.float_or("epsilon", 1e-5), attrs.float_or("momentum", 0.9));
    let shape = cx.shape(0)?;
    let Some(&c) = shape.get(1) else {
        return Err(Refusal::form(format!("BatchNormalization of an input of rank {}", shape.len())));
    };
    let count = shape.iter().product::<usize>() / c.max(1);
    let x = cx.ordered(0, &Layout::channel_last(shape.len()))?;
    let x = cx.reshape(x, &[count as u32, c as u32]);
    let mean = compose::reduce_keep(cx, "ReduceMean", x, &[0]);
    let centred = compose::sub(cx, x, mean);
    let square = compose::mul(cx, centred, centred);
    let variance = compose::reduce_keep(cx, "ReduceMean", square, &[0]);
    let e = cx.float_scalar(epsilon);
    let floor = compose::add(cx, variance, e);
    let inverse = compose::unary(cx, "ElementWiseRsqrt", floor);
    let y = compose::mul(cx, centred, inverse);
    let (gamma, beta) = (cx.input(1)?, cx.input(2)?);
    let y = compose::mul(cx, y, gamma);
    let y = compose::add(cx, y, beta);
    spatial::give_channel_last(cx, 0, y)?;
    for (slot, of_batch) in [(1, mean), (2, variance)] {
        if cx.wants(slot) {
            let running = cx.input(slot + 2)?;
            let old = compose::scale(cx, running, momentum);
            let new = compose::scale(cx, of_batch, 1.0 - momentum);
            let sum = compose::add(cx, old, new);
            compose::give(cx, slot, sum)?;
        }
    }
    Ok(())
}

/// Scale and shift per channel, computed in 64 bits from constant statistics.
fn folded_statistics(cx: &mut LowerCx<'_, '_>, epsilon: f64, c: usize) -> Result<(TensorId, TensorId), Refusal> {
    let per_channel = |i: usize, what: &str| {
        let values = cx.need_constant(i, what)?.to_f64s().filter(|v| v.len() == c);
        values.ok_or_else(|| Refusal::form(format!("{what} does not have one number per channel")))
    };
    let (gamma, beta) = (per_channel(1, "scale")?, per_channel(2, "B")?);
    let (mean, variance) = (per_channel(3, "input_mean")?, per_channel(4, "input_var")?);
    let (mut scales, mut shifts) = (vec![], vec![]);
    for (i, ((g, b), (m, v))) in gamma.iter().zip(&beta).zip(mean.iter().zip(&variance)).enumerate() {
        let scale = g / (v + epsilon).sqrt();
        let shift = b - m * scale;
        if !fits(scale) || !fits(shift) {
            return Err(Refusal::form(format!(
                "channel {i} is scaled by {scale} and shifted by {shift}, beyond the range of 16-bit floats (65504)"
            )));
        }
        scales.push(scale as f32);
        shifts.push(shift as f32);
    }
    Ok((cx.float_constant(&[c as u32], &scales), cx.float_constant(&[c as u32], &shifts)))
}

fn infer_instance(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    if t.shape.len() < 3 {
        return invalid(format!("the input has shape {}; it must have rank 3 or more", show_shape(&t.shape)));
    }
    let c = channels(&t.shape);
    check_channels(cx, 1, "scale", &c)?;
    check_channels(cx, 2, "the bias", &c)?;
    infer_same(cx)
}

/// Input 0 as `[N, 1, space, C]`: what matters to statistics over all of space.
fn flat_space(cx: &mut LowerCx<'_, '_>) -> Result<TensorId, Refusal> {
    let shape = cx.shape(0)?;
    if shape.len() < 3 {
        return Err(Refusal::form(format!("the input has rank {}; 3 or more is needed", shape.len())));
    }
    let x = cx.ordered(0, &Layout::channel_last(shape.len()))?;
    if cx.dims(x).len() == 4 && cx.dims(x)[0] == shape[0] as u32 && cx.dims(x)[3] == shape[1] as u32 {
        return Ok(x);
    }
    let dims =
        if let [n, c, h, w] = shape[..] { [n, h, w, c] } else { [shape[0], 1, shape[2..].iter().product(), shape[1]] };
    Ok(cx.reshape(x, &dims.map(|d| d as u32)))
}

fn lower_instance(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let epsilon = cx.attrs().float_or("epsilon", 1e-5);
    let x = flat_space(cx)?;
    let (gamma, beta) = (cx.input(1)?, cx.input(2)?);
    let (dims, dtype) = (cx.dims(x), cx.qnn_type(x));
    let y = cx.op_to(
        "InstanceNorm",
        &[x, gamma, beta],
        dtype,
        &dims,
        &[
            ("epsilon", Param::f32(epsilon)),
            ("mode", Param::u32(0)),
            ("normalize_variance", Param::bool(true)),
            ("region", Param::u32(0)),
        ],
    );
    spatial::give_channel_last(cx, 0, y)
}

fn infer_group(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?;
    if t.shape.len() < 3 {
        return invalid(format!("the input has shape {}; it must have rank 3 or more", show_shape(&t.shape)));
    }
    let c = channels(&t.shape);
    let Some(groups) = cx.node.attrs.int("num_groups") else {
        return invalid("attribute num_groups is required");
    };
    if groups < 1 || c.known().is_some_and(|c| c % groups != 0) {
        return invalid(format!("{c} channels do not divide into {groups} groups"));
    }
    // Opset 18 scales by group, opset 21 by channel.
    let wanted = if cx.node.version < 21 { Dim::Known(groups) } else { c };
    for (i, what) in [(1, "scale"), (2, "bias")] {
        match (cx.shape(i)?.as_slice(), &wanted) {
            ([Dim::Known(n)], Dim::Known(w)) if n != w => {
                return invalid(format!("{what} has {n} elements, {w} are needed in opset {}", cx.node.version));
            }
            _ => {}
        }
    }
    infer_same(cx)
}

fn lower_group(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let groups = cx.attrs().int_or("num_groups", 1);
    let epsilon = cx.attrs().float_or("epsilon", 1e-5);
    let channels = cx.shape(0)?.get(1).copied().unwrap_or(1);
    let mut parameters = vec![];
    for i in [1, 2] {
        parameters.push(per_channel(cx, i, channels)?);
    }
    let x = flat_space(cx)?;
    let y = group_norm(cx, x, parameters[0], parameters[1], groups as u32, epsilon);
    spatial::give_channel_last(cx, 0, y)
}

/// Input `i` with one element per channel; one per group is repeated.
fn per_channel(cx: &mut LowerCx<'_, '_>, i: usize, channels: usize) -> Result<TensorId, Refusal> {
    let n = cx.shape(i)?.iter().product::<usize>().max(1);
    if n == channels {
        return cx.input(i);
    }
    let repeat = channels / n;
    if cx.constant(i).is_some() {
        let values = cx.need_floats(i, "scale or bias")?;
        let all: Vec<f32> = values.iter().flat_map(|&v| std::iter::repeat_n(v, repeat)).collect();
        return Ok(cx.float_constant(&[channels as u32], &all));
    }
    let t = cx.input(i)?;
    let column = cx.reshape(t, &[n as u32, 1]);
    let wide = compose::tile(cx, column, &[1, repeat as u32]);
    Ok(cx.reshape(wide, &[channels as u32]))
}

/// GroupNorm of `x`, channel last, rank 4.
pub(super) fn group_norm(
    cx: &mut LowerCx<'_, '_>,
    x: TensorId,
    gamma: TensorId,
    beta: TensorId,
    groups: u32,
    epsilon: f32,
) -> TensorId {
    let (dims, dtype) = (cx.dims(x), cx.qnn_type(x));
    cx.op_to(
        "GroupNorm",
        &[x, gamma, beta],
        dtype,
        &dims,
        &[("epsilon", Param::f32(epsilon)), ("group", Param::u32(groups))],
    )
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::node;

    #[test]
    fn batch_statistics_are_refused_and_bad_shapes_are_errors() {
        let n = |c: usize| {
            let v = vec![1.0; c];
            let n = node("BatchNormalization", 15).float(&[1, 3, 2, 2]);
            n.floats(&[c], &v).floats(&[c], &v).floats(&[c], &v).floats(&[c], &v)
        };
        assert!(n(4).error().contains("scale has 4 elements for 3 channels"));
        let y = n(3).int("training_mode", 1).run(&[(0..12).map(f64::from).collect()]);
        // Each channel is 4 numbers in steps of 1: standard deviation sqrt(1.25), plus 1.
        assert!((y[0][0] - (1.0 - 1.5 / 1.25f64.sqrt())).abs() < 1e-3);
        let tiny = node("BatchNormalization", 15)
            .float(&[1, 1, 2, 2])
            .floats(&[1], &[1e6])
            .floats(&[1], &[0.0])
            .floats(&[1], &[0.0])
            .floats(&[1], &[1.0]);
        assert!(tiny.refusal().contains("channel 0 is scaled by"));
    }

    #[test]
    fn groups_must_divide_the_channels() {
        let n = |groups: i64| {
            node("GroupNormalization", 21)
                .float(&[1, 4, 2, 2])
                .floats(&[4], &[1.0; 4])
                .floats(&[4], &[0.0; 4])
                .int("num_groups", groups)
        };
        assert!(n(3).error().contains("4 channels do not divide into 3 groups"));
        assert_eq!(n(2).types(), ["float32[1, 4, 2, 2]"]);
    }
}
