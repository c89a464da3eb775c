//! Normalisations and channel-last convolution of the com.microsoft domain, as ONNX Runtime's optimiser makes them.

use super::conv::{self, Convolution};
use super::elementwise_unary::infer_same;
use super::layer_norm::{Statistic, give_statistics, normalise_last};
use super::normalisation::group_norm;
use super::spatial::{self, Window};
use super::{InferCx, OpDef, OpError, compose, invalid, movement};
use crate::ir::{DataType, Dim, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::ms("SkipLayerNormalization", infer_skip).lower(|cx| lower_skip(cx, Statistic::Layer)),
    OpDef::ms("SkipSimplifiedLayerNormalization", infer_skip).lower(|cx| lower_skip(cx, Statistic::Rms)),
    OpDef::ms("EmbedLayerNormalization", infer_embed).lower(lower_embed),
    OpDef::ms("GroupNorm", infer_same).lower(|cx| lower_group(cx, false)),
    OpDef::ms("SkipGroupNorm", infer_skip_group).lower(|cx| lower_group(cx, true)),
    OpDef::ms("NhwcConv", infer_nhwc_conv).lower(lower_nhwc_conv),
];

fn infer_skip(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let skip = cx.shape(1)?;
    if super::broadcast(&t.shape, skip)? != t.shape {
        return invalid(format!("skip has shape {}, input {}", show_shape(skip), show_shape(&t.shape)));
    }
    let Some((last, lead)) = t.shape.split_last() else { return invalid("the input is a scalar") };
    if let ([Dim::Known(g)], Dim::Known(n)) = (cx.shape(2)?.as_slice(), last)
        && g != n
    {
        return invalid(format!("gamma has {g} elements for rows of {n}"));
    }
    let mut kept = lead.to_vec();
    kept.push(Dim::Known(1));
    cx.set(1, DataType::F32, kept.clone());
    cx.set(2, DataType::F32, kept);
    cx.set(3, t.dtype, t.shape.clone());
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// `a + b`, where `b` broadcasts: repeated first, since an Add that broadcasts over the batch and is followed by
/// LayerNorm gives wrong numbers on the HTP (2.47).
fn add_expanded(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    let (da, db) = (cx.dims(a), cx.dims(b));
    if db.len() == 1 || da == db {
        return compose::add(cx, a, b);
    }
    let mut full = vec![1; da.len() - db.len().min(da.len())];
    full.extend(&db);
    let b = cx.reshape(b, &full);
    let b = if full[0] == 1 && da[0] > 1 {
        let mut multiples = vec![1; da.len()];
        multiples[0] = da[0];
        compose::tile(cx, b, &multiples)
    } else {
        b
    };
    compose::add(cx, a, b)
}

fn lower_skip(cx: &mut LowerCx<'_, '_>, statistic: Statistic) -> Result<(), Refusal> {
    let epsilon = cx.attrs().float_or("epsilon", 1e-12);
    let shape = cx.shape(0)?;
    let (x, skip) = (cx.input(0)?, cx.input(1)?);
    let mut sum = add_expanded(cx, x, skip);
    let (beta_at, bias_at) = if statistic == Statistic::Layer { (Some(3), 4) } else { (None, 3) };
    if cx.has(bias_at) {
        let bias = cx.input(bias_at)?;
        sum = compose::add(cx, sum, bias);
    }
    if cx.wants(3) {
        compose::give(cx, 3, sum)?;
    }
    let gamma = Some(cx.input(2)?);
    let beta = match beta_at {
        Some(i) if cx.has(i) => Some(cx.input(i)?),
        _ => None,
    };
    let n = *shape.last().unwrap_or(&1) as u32;
    let rows = (shape.iter().product::<usize>() / n.max(1) as usize) as u32;
    let flat = if shape.len() <= 4 { sum } else { cx.reshape(sum, &[rows, n]) };
    let y = normalise_last(cx, flat, statistic, gamma, beta, epsilon);
    compose::give(cx, 0, y)?;
    if cx.wants(1) || cx.wants(2) {
        if statistic == Statistic::Rms {
            return Err(Refusal::form(
                "outputs 1 and 2 of SkipSimplifiedLayerNormalization are read, which exist only in training",
            ));
        }
        let flat = cx.reshape(sum, &[rows, n]);
        give_statistics(cx, flat, statistic, epsilon)?;
    }
    Ok(())
}

fn infer_embed(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (ids, table) = (cx.shape(0)?.clone(), cx.ty(2)?.clone());
    let ([batch, sequence], [_, hidden]) = (ids.as_slice(), table.shape.as_slice()) else {
        return invalid(format!(
            "input_ids {} and word_embedding {} must have two axes",
            show_shape(&ids),
            show_shape(&table.shape)
        ));
    };
    let shape = vec![batch.clone(), sequence.clone(), hidden.clone()];
    cx.set(0, table.dtype, shape.clone());
    cx.set(1, DataType::I32, vec![batch.clone()]);
    cx.set(2, table.dtype, shape);
    Ok(())
}

/// Rows of the table in input `table` for the ids in input `ids`, as `[batch, sequence, hidden]`.
fn embed(cx: &mut LowerCx<'_, '_>, ids: usize, table: usize) -> Result<TensorId, Refusal> {
    let (shape, rows) = (cx.shape(ids)?, cx.shape(table)?);
    let index = cx.input(ids)?;
    let index = movement::wrapped_index(cx, ids, index, rows[0])?;
    let count = shape.iter().product::<usize>() as u32;
    let index = cx.reshape(index, &[count]);
    let table = cx.input(table)?;
    let hidden = rows[1] as u32;
    let dtype = cx.qnn_type(table);
    let y = cx.op_to("Gather", &[table, index], dtype, &[count, hidden], &[("axis", Param::i32(0))]);
    let mut dims = movement::dims_u32(&shape);
    dims.push(hidden);
    Ok(cx.reshape(y, &dims))
}

fn lower_embed(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let epsilon = cx.attrs().float_or("epsilon", 1e-12);
    let ids = cx.shape(0)?;
    let (batch, sequence) = (ids[0] as u32, ids[1] as u32);
    let mut sum = embed(cx, 0, 2)?;
    let position = if cx.has(8) {
        embed(cx, 8, 3)?
    } else {
        let table = cx.input(3)?;
        let rows = cx.shape(3)?;
        if (rows[0] as u32) < sequence {
            return Err(Refusal::form(format!("{} positions are embedded, the sequence has {sequence}", rows[0])));
        }
        let table = compose::slice(cx, table, 0, 0, sequence);
        cx.reshape(table, &[1, sequence, rows[1] as u32])
    };
    sum = add_expanded(cx, sum, position);
    if cx.has(1) && cx.has(4) {
        let segment = embed(cx, 1, 4)?;
        sum = compose::add(cx, sum, segment);
    }
    if cx.wants(2) {
        compose::give(cx, 2, sum)?;
    }
    let (gamma, beta) = (Some(cx.input(5)?), Some(cx.input(6)?));
    let y = normalise_last(cx, sum, Statistic::Layer, gamma, beta, epsilon);
    compose::give(cx, 0, y)?;
    if cx.wants(1) {
        let lengths = if cx.has(7) {
            let mask = cx.input(7)?;
            let sums = compose::reduce_keep(cx, "ReduceSum", mask, &[1]);
            cx.reshape(sums, &[batch])
        } else {
            cx.i32_constant(&[batch], &vec![0; batch as usize])
        };
        cx.alias(1, lengths, Layout::identity(1))?;
    }
    Ok(())
}

fn infer_skip_group(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    cx.set(1, t.dtype, t.shape.clone());
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// Inputs: data, gamma, beta; with `skip` also the skip and an optional bias, both added first.
fn lower_group(cx: &mut LowerCx<'_, '_>, skip: bool) -> Result<(), Refusal> {
    let attrs = cx.attrs();
    let (groups, epsilon) = (attrs.int_or("groups", 0), attrs.float_or("epsilon", 1e-5));
    let activation = attrs.int_or("activation", 0);
    let last = attrs.int_or("channels_last", 1) != 0;
    let shape = cx.shape(0)?;
    if shape.len() != 4 {
        return Err(Refusal::form(format!("the input has rank {}; 4 is needed", shape.len())));
    }
    let layout = if last { Layout::identity(4) } else { Layout::channel_last(4) };
    let channels = layout.apply(&shape)[3] as i64;
    if groups < 1 || channels % groups != 0 {
        return Err(Refusal::form(format!("{channels} channels do not divide into {groups} groups")));
    }
    if !(0..=1).contains(&activation) {
        return Err(Refusal::form(format!("attribute activation is {activation}; 0 (none) and 1 (SiLU) are known")));
    }
    let mut x = cx.input_in(0, &layout)?;
    if skip {
        let skip_shape = cx.shape(3)?;
        let other = if skip_shape.len() == 4 {
            cx.input_in(3, &layout)?
        } else {
            let t = cx.input(3)?;
            cx.reshape(t, &[skip_shape[0] as u32, 1, 1, channels as u32])
        };
        x = compose::add(cx, x, other);
        if cx.has(4) {
            let bias = cx.input(4)?;
            x = compose::add(cx, x, bias);
        }
        if cx.wants(1) {
            cx.alias(1, x, layout.clone())?;
        }
    }
    let (gamma, beta) = (cx.input(1)?, cx.input(2)?);
    let mut y = group_norm(cx, x, gamma, beta, groups as u32, epsilon);
    if activation == 1 {
        let gate = compose::unary(cx, "Sigmoid", y);
        y = compose::mul(cx, y, gate);
    }
    cx.alias(0, y, layout)
}

/// A channel-last shape in ONNX's order.
fn channel_first<T: Clone>(shape: &[T]) -> Vec<T> {
    let Some((last, rest)) = shape.split_last() else { return vec![] };
    let mut out: Vec<T> = rest.first().cloned().into_iter().collect();
    out.push(last.clone());
    out.extend(rest.iter().skip(1).cloned());
    out
}

fn infer_nhwc_conv(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, w) = (cx.ty(0)?, cx.shape(1)?);
    if x.shape.len() != 4 {
        return invalid(format!("the input has shape {}; it must have rank 4", show_shape(&x.shape)));
    }
    let shape = conv::conv_shape(&cx.node.attrs, &channel_first(&x.shape), w)?;
    let order = Layout::channel_last(shape.len());
    cx.set(0, x.dtype, order.apply(&shape));
    Ok(())
}

fn lower_nhwc_conv(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let as_refusal = |e: OpError| Refusal::form(e.to_string());
    let (shape, kernel) = (cx.shape(0)?, cx.shape(1)?);
    let group = conv::group_of(cx.attrs()).map_err(as_refusal)? as u32;
    let sizes: Vec<i64> = kernel[2..].iter().map(|&k| k as i64).collect();
    let axes = Window::read(cx.attrs(), &sizes).map_err(as_refusal)?.axes(&shape[1..3], false)?;
    let x = cx.input(0)?;
    let weights = conv::weights_input(cx, 1, &[2, 3, 1, 0])?;
    let bias = if cx.has(2) { Some(cx.input(2)?) } else { None };
    let y = Convolution { x, weights, bias, axes: spatial::lifted_axes(axes), group }.emit(cx);
    cx.alias(0, y, Layout::identity(4))
}
