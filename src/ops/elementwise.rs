//! What the elementwise families share: broadcasting in inference, folding and lowering.

use super::{FoldCx, InferCx, OpError, broadcast, compose, invalid};
use crate::ir::{DataType, Dim, Shape, Tensor, broadcast_indices, static_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, TensorId};
use crate::verdict::codes;

/// Elements up to which results are evaluated at compile time (unless all inputs are one repeated element).
const FOLD_LIMIT: usize = 1 << 26;

/// The largest rank of a tensor that the HTP holds.
const MAX_RANK: usize = 5;

/// Ops that are lowered with [`lower`] for floats: a value of a higher rank than the HTP holds may stand between them,
/// since axes are merged.
const MERGING: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Atan",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "Where",
    "Xor",
];

/// Does the op take operands of any rank, if they broadcast so that axes can be merged?
pub(crate) fn merges_axes(node: &crate::ir::Node) -> bool {
    node.domain.is_empty() && MERGING.contains(&node.op_type.as_str())
}

/// All inputs of the node that are given, by index.
pub(super) fn given(node: &crate::ir::Node) -> Vec<usize> {
    (0..node.inputs.len()).filter(|&i| node.input(i).is_some()).collect()
}

/// The shape of inputs broadcast against each other.
pub(super) fn infer_shape(cx: &InferCx<'_>, inputs: &[usize]) -> Result<Shape, OpError> {
    let mut shape = vec![];
    for &i in inputs {
        shape = broadcast(&shape, cx.shape(i)?)?;
    }
    Ok(shape)
}

/// The element type that all these inputs have.
pub(super) fn infer_dtype(cx: &InferCx<'_>, inputs: &[usize]) -> Result<DataType, OpError> {
    let first = *inputs.first().ok_or_else(|| OpError::Invalid("the op has no inputs".into()))?;
    let dtype = cx.dtype(first)?;
    for &i in inputs {
        let other = cx.dtype(i)?;
        if other != dtype {
            return invalid(format!("input {first} is {dtype}, but input {i} is {other}"));
        }
    }
    Ok(dtype)
}

/// Output 0 has the type of input 0, which must be a float type.
pub(super) fn infer_float(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    if !t.dtype.is_float() {
        return invalid(format!("input 0 is {}, but must be a float type", t.dtype));
    }
    cx.set(0, t.dtype, t.shape);
    Ok(())
}

/// Sets the elements of output 0, if those of all `inputs` are known: `f` of the ones that broadcast together.
pub(super) fn infer_elements(cx: &mut InferCx<'_>, inputs: &[usize], f: impl Fn(&[&Dim]) -> Option<Dim>) {
    let Some(shape) = cx.out.first().and_then(|o| o.ty.tensor()).and_then(crate::ir::TensorType::static_shape) else {
        return;
    };
    if shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d)).is_none_or(|n| n > 4096) {
        return;
    }
    let mut sources = vec![];
    for &i in inputs {
        let Some(elements) = cx.elements(i) else { return };
        let Some(from) = cx.shape(i).ok().and_then(|s| static_shape(s)) else { return };
        let Some(picks) = broadcast_indices(&from, &shape) else { return };
        sources.push((elements, picks));
    }
    let count = shape.iter().product();
    let out: Option<Vec<Dim>> = (0..count)
        .map(|at| f(&sources.iter().map(|(e, picks)| e.get(picks[at])).collect::<Option<Vec<_>>>()?))
        .collect();
    if let Some(out) = out {
        cx.set_elements(0, out);
    }
}

/// An integer wrapped around to the range of its type; booleans and floats stay as they are.
pub(super) fn wrap(dtype: DataType, v: i128) -> i128 {
    match dtype.int_range() {
        Some((low, high)) => (v.wrapping_sub(low)).rem_euclid(high - low + 1) + low,
        None => v,
    }
}

/// The one element of a tensor that has only one, or repeats one.
fn single(t: &Tensor) -> Option<Tensor> {
    match t.splat_element() {
        Some(e) => Tensor::from_raw(t.dtype(), vec![1], e.clone()),
        None => (t.len() == 1).then(|| t.reshaped(vec![1])).flatten(),
    }
}

/// Evaluates elementwise over `inputs` broadcast against each other: with `float` if the first input is of a float
/// type, else with `int`, wrapped around to the type of output 0. `None` where a function has no value.
pub(super) fn fold(
    cx: &FoldCx<'_>,
    inputs: &[usize],
    float: impl Fn(&[f64]) -> Option<f64>,
    int: impl Fn(&[i128]) -> Option<i128>,
) -> Option<Vec<Tensor>> {
    let (dtype, shape) = cx.out_type(0)?;
    let tensors: Vec<&Tensor> = inputs.iter().map(|&i| cx.input(i)).collect::<Option<_>>()?;
    let count = shape.iter().try_fold(1usize, |a, &d| a.checked_mul(d))?;
    if let Some(ones) = tensors.iter().map(|t| single(t)).collect::<Option<Vec<_>>>()
        && count > 1
        && dtype.bits() >= 8
    {
        let one = evaluate(&ones.iter().collect::<Vec<_>>(), dtype, &[1], &float, &int)?;
        return Some(vec![Tensor::splat(dtype, shape, one.bytes())]);
    }
    if count > FOLD_LIMIT {
        return None;
    }
    Some(vec![evaluate(&tensors, dtype, &shape, &float, &int)?])
}

fn evaluate(
    inputs: &[&Tensor],
    dtype: DataType,
    shape: &[usize],
    float: impl Fn(&[f64]) -> Option<f64>,
    int: impl Fn(&[i128]) -> Option<i128>,
) -> Option<Tensor> {
    if inputs.first()?.dtype().is_float() {
        let data = inputs.iter().map(|t| t.to_f64s()).collect::<Option<Vec<_>>>()?;
        return Tensor::from_f64(dtype, shape.to_vec(), &zip(inputs, &data, shape, float)?);
    }
    let data = inputs.iter().map(|t| t.to_i128s()).collect::<Option<Vec<_>>>()?;
    let out = zip(inputs, &data, shape, |v| int(v).map(|r| wrap(dtype, r)))?;
    Tensor::from_i128(dtype, shape.to_vec(), &out)
}

fn zip<T: Copy>(inputs: &[&Tensor], data: &[Vec<T>], shape: &[usize], f: impl Fn(&[T]) -> Option<T>) -> Option<Vec<T>> {
    let picks: Vec<Option<Vec<usize>>> = inputs
        .iter()
        .map(|t| if t.shape() == shape { Some(None) } else { broadcast_indices(t.shape(), shape).map(Some) })
        .collect::<Option<_>>()?;
    let mut row: Vec<T> = Vec::with_capacity(inputs.len());
    (0..shape.iter().product())
        .map(|at| {
            row.clear();
            for (values, pick) in data.iter().zip(&picks) {
                row.push(*values.get(pick.as_ref().map_or(at, |p| p[at]))?);
            }
            f(&row)
        })
        .collect()
}

/// Evaluates a function of one float operand; integers are left alone.
pub(super) fn fold_float(cx: &FoldCx<'_>, f: impl Fn(f64) -> f64) -> Option<Vec<Tensor>> {
    fold(cx, &[0], |v| Some(f(v[0])), |_| None)
}

/// Lowers an elementwise computation as output 0. The inputs come broadcast-ready in a common layout; `f` gets their
/// tensors, of at most `max_rank` axes (axes are merged if there are more), and gives the result.
pub(super) fn lower(
    cx: &mut LowerCx<'_, '_>,
    inputs: &[usize],
    max_rank: usize,
    f: impl FnOnce(&mut LowerCx<'_, '_>, &[TensorId]) -> Result<TensorId, Refusal>,
) -> Result<(), Refusal> {
    let shape = cx.out_shape(0)?;
    if shape.len() > MAX_RANK {
        let ids = merged_inputs(cx, inputs, max_rank)?;
        let y = f(cx, &ids)?;
        return cx.alias(0, y, Layout::identity(shape.len()));
    }
    let (ids, layout) = match inputs {
        [one] => {
            let layout = cx.any_layout(*one)?;
            (vec![cx.input_in(*one, &layout)?], layout)
        }
        _ => cx.broadcast_inputs(inputs)?,
    };
    let dims: Vec<u32> =
        if shape.is_empty() { vec![1] } else { layout.apply(&shape).iter().map(|&d| d as u32).collect() };
    let ids = merge_axes(cx, &ids, &dims, max_rank)?;
    let y = f(cx, &ids)?;
    let y = cx.reshape(y, &dims);
    cx.alias(0, y, layout)
}

/// Lowers to one QNN op whose inputs broadcast and whose output is output 0.
pub(super) fn lower_op(
    cx: &mut LowerCx<'_, '_>,
    op: &str,
    inputs: &[usize],
    max_rank: usize,
    params: &[(&str, Param)],
) -> Result<(), Refusal> {
    if cx.out_shape(0)?.len() <= max_rank {
        let (ids, layout) = match inputs {
            [one] => {
                let layout = cx.any_layout(*one)?;
                (vec![cx.input_in(*one, &layout)?], layout)
            }
            _ => cx.broadcast_inputs(inputs)?,
        };
        let y = cx.output(0, &layout)?;
        cx.op(op, &ids, &[y], params);
        return Ok(());
    }
    lower(cx, inputs, max_rank, |cx, ids| {
        let dims = ids.iter().fold(vec![1], |d, &t| compose::broadcast_dims(&d, &cx.dims(t)));
        let dtype = cx.qnn_type(ids[0]);
        Ok(cx.op_to(op, ids, dtype, &dims, params))
    })
}

/// The operands with adjacent axes merged until the result, of `dims`, has at most `max_rank`: possible where every
/// operand either has both axes or broadcasts over both.
pub(super) fn merge_axes(
    cx: &mut LowerCx<'_, '_>,
    ids: &[TensorId],
    dims: &[u32],
    max_rank: usize,
) -> Result<Vec<TensorId>, Refusal> {
    if dims.len() <= max_rank {
        return Ok(ids.to_vec());
    }
    let operands = merged_dims(ids.iter().map(|&t| cx.dims(t)).collect(), dims, max_rank)?;
    let reshaped = ids.iter().zip(&operands).map(|(&t, d)| {
        let own = cx.dims(t);
        let same = d.len() >= own.len() && d.ends_with(&own) && d[..d.len() - own.len()].iter().all(|&n| n == 1);
        if same { t } else { cx.reshape(t, d) }
    });
    Ok(reshaped.collect())
}

/// Inputs of a higher rank than the HTP holds, under dims of at most `max_rank` axes that broadcast in the same way.
fn merged_inputs(cx: &mut LowerCx<'_, '_>, inputs: &[usize], max_rank: usize) -> Result<Vec<TensorId>, Refusal> {
    let wide = |shape: Vec<usize>| shape.into_iter().map(|d| d as u32).collect::<Vec<u32>>();
    let dims = wide(cx.out_shape(0)?);
    let shapes = inputs.iter().map(|&i| cx.shape(i).map(wide)).collect::<Result<Vec<_>, _>>()?;
    let operands = merged_dims(shapes, &dims, max_rank)?;
    let mut ids = vec![];
    for (&i, dims) in inputs.iter().zip(operands) {
        let layout = Layout::identity(cx.rank(i)?);
        let t = cx.ordered(i, &layout)?;
        ids.push(cx.reshape(t, &dims));
    }
    Ok(ids)
}

/// The dims of operands that broadcast to `dims`, with adjacent axes merged until there are at most `max_rank`.
fn merged_dims(operands: Vec<Vec<u32>>, dims: &[u32], max_rank: usize) -> Result<Vec<Vec<u32>>, Refusal> {
    let mut operands: Vec<Vec<u32>> = operands
        .into_iter()
        .map(|own| {
            let mut full = vec![1; dims.len().saturating_sub(own.len())];
            full.extend(own);
            full
        })
        .collect();
    let mut out = dims.to_vec();
    let mut i = 0;
    while out.len() > max_rank && i + 1 < out.len() {
        let spans = |o: &Vec<u32>| [o[i] == out[i], o[i + 1] == out[i + 1]];
        let free = out[i] == 1 || out[i + 1] == 1;
        if free || operands.iter().all(|o| spans(o)[0] == spans(o)[1]) {
            for o in operands.iter_mut().chain(std::iter::once(&mut out)) {
                o[i] *= o[i + 1];
                o.remove(i + 1);
            }
        } else {
            i += 1;
        }
    }
    if out.len() > max_rank {
        let mut r = Refusal::new(
            codes::RANK,
            format!("the operands broadcast over rank {} in a way that no {max_rank} axes express", dims.len()),
        );
        r.0[0] = r.0[0].clone().expected(format!("rank up to {max_rank}"), format!("rank {}", dims.len()));
        return Err(r);
    }
    Ok(operands)
}

/// Broadcast to `dims`, of its own rank or a higher one.
pub(super) fn spread(cx: &mut LowerCx<'_, '_>, t: TensorId, dims: &[u32]) -> TensorId {
    let own = cx.dims(t);
    if own == dims {
        return t;
    }
    let mut full = vec![1; dims.len().saturating_sub(own.len())];
    full.extend(own);
    if let Some(t) = cx.spread_constant(t, &full, dims) {
        return t;
    }
    let t = cx.reshape(t, &full);
    compose::expand(cx, t, dims)
}

/// Dims with the leading axes merged so that there are at most four.
pub(super) fn up_to_rank_4(dims: &[u32]) -> Vec<u32> {
    let Some(extra) = dims.len().checked_sub(4).filter(|&n| n > 0) else {
        return dims.to_vec();
    };
    let (head, tail) = dims.split_at(extra + 1);
    let mut flat = vec![head.iter().product()];
    flat.extend(tail);
    flat
}

/// An elementwise op of one operand, of any rank, that the HTP has for up to four axes.
pub(super) fn unary_any_rank(cx: &mut LowerCx<'_, '_>, op: &str, t: TensorId) -> TensorId {
    let dims = cx.dims(t);
    let t = cx.reshape(t, &up_to_rank_4(&dims));
    let y = compose::unary(cx, op, t);
    cx.reshape(y, &dims)
}

/// Refuses integer types whose values and results INT_32 does not hold; those of uint8 wrap when converted back.
pub(super) fn need_signed(cx: &LowerCx<'_, '_>, dtype: DataType) -> Result<(), Refusal> {
    if matches!(dtype, DataType::I32 | DataType::I64 | DataType::U8) {
        return Ok(());
    }
    Err(Refusal::new(codes::DTYPE, format!("{} of {dtype} has no exact QNN equivalent", cx.node.op_type))
        .fix("cast to int32 or a float type before it"))
}

/// Refuses what is not a float type.
pub(super) fn need_float(cx: &LowerCx<'_, '_>, i: usize) -> Result<(), Refusal> {
    let dtype = cx.dtype(i)?;
    if dtype.is_float() {
        return Ok(());
    }
    Err(Refusal::new(codes::DTYPE, format!("{} of {dtype} has no exact QNN equivalent", cx.node.op_type)))
}

/// The refusal of a computation that only approximates the op in 16-bit floats.
pub(super) fn need_approximate(cx: &LowerCx<'_, '_>, why: &str) -> Result<(), Refusal> {
    if cx.target().allow_approximate {
        return Ok(());
    }
    Err(Refusal::new(codes::APPROXIMATE, why).fix("allow it with --allow-approximate, or leave the op to the CPU"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{node, op_types};

    #[test]
    fn indices_broadcast() {
        assert_eq!(broadcast_indices(&[2, 1], &[2, 3]).unwrap(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(broadcast_indices(&[3], &[2, 3]).unwrap(), [0, 1, 2, 0, 1, 2]);
        assert_eq!(broadcast_indices(&[], &[2]).unwrap(), [0, 0]);
        assert!(broadcast_indices(&[2], &[3]).is_none());
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(wrap(DataType::U8, 300), 44);
        assert_eq!(wrap(DataType::I8, 200), -56);
        assert_eq!(wrap(DataType::I64, 1 << 63), -(1 << 63));
    }

    #[test]
    fn rank_5_merges_where_it_can() {
        let g = node("Max", 13).float(&[2, 3, 4, 5, 6]).float(&[5, 6]).lower().unwrap();
        assert_eq!(op_types(&g), ["Reshape", "ElementWiseMaximum", "Reshape"]);
        assert_eq!(g.tensor(g.ops[1].outputs[0]).dims, [6, 4, 5, 6]);
        let said = node("Max", 13).float(&[2, 1, 4, 1, 6]).float(&[1, 3, 1, 5, 1]).refusal();
        assert!(said.contains("rank 5"), "{said}");
    }
}
