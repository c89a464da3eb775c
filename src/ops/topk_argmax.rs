//! TopK, ArgMax, ArgMin: the largest and smallest elements along an axis, and where they are.

use super::compose;
use super::movement::{carried, dims_u32, merged};
use super::{FoldCx, InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{DataType, Dim, Node, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("TopK", infer_top_k).fold(fold_top_k).lower(lower_top_k),
    OpDef::new("ArgMax", infer_arg).fold(|cx| fold_arg(cx, true)).lower(|cx| lower_arg(cx, "Argmax")),
    OpDef::new("ArgMin", infer_arg).fold(|cx| fold_arg(cx, false)).lower(|cx| lower_arg(cx, "Argmin")),
];

fn infer_top_k(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let axis = cx.axis("axis", -1, t.shape.len())?;
    let k = if cx.node.version < 10 {
        match cx.node.attrs.int("k") {
            Some(k) => Dim::Known(k),
            None => return invalid("attribute k is required"),
        }
    } else {
        match cx.need_elements(1)?.as_slice() {
            [k] => k.clone(),
            k => return invalid(format!("K has {} elements, and it is to be one number", k.len())),
        }
    };
    if let Some(n) = k.known() {
        if n < 0 {
            return invalid(format!("K is {n}"));
        }
        if let Some(size) = t.shape[axis].known().filter(|size| n > *size) {
            return invalid(format!("K is {n}, and axis {axis} of {t} has {size} elements"));
        }
    }
    let mut shape = t.shape;
    shape[axis] = k;
    cx.set(0, t.dtype, shape.clone());
    cx.set(1, DataType::I64, shape);
    Ok(())
}

/// Elements in lines along an axis, as numbers that compare as ONNX has it.
struct Lines {
    outer: usize,
    size: usize,
    inner: usize,
    values: Vec<f64>,
    /// Exact where 64-bit floats are not.
    ints: Option<Vec<i128>>,
}

impl Lines {
    fn of(x: &Tensor, axis: usize) -> Option<Self> {
        let s = x.shape();
        Some(Self {
            outer: s[..axis].iter().product(),
            size: s[axis],
            inner: s[axis + 1..].iter().product(),
            values: x.to_f64s()?,
            ints: x.to_i128s(),
        })
    }

    fn position(&self, line: usize, i: usize) -> usize {
        (line / self.inner * self.size + i) * self.inner + line % self.inner
    }

    fn compare(&self, a: usize, b: usize) -> std::cmp::Ordering {
        match &self.ints {
            Some(v) => v[a].cmp(&v[b]),
            None => self.values[a].partial_cmp(&self.values[b]).unwrap_or(std::cmp::Ordering::Equal),
        }
    }
}

fn fold_top_k(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (_, shape) = cx.out_type(0)?;
    let axis = normalise_axis(cx.node.attrs.int_or("axis", -1), x.rank()).ok()?;
    let largest = cx.node.attrs.int_or("largest", 1) != 0;
    let lines = Lines::of(x, axis)?;
    if lines.values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let k = shape[axis];
    let mut from = vec![0; shape.iter().product()];
    let mut index = vec![0i64; from.len()];
    for line in 0..lines.outer * lines.inner {
        let mut order: Vec<usize> = (0..lines.size).collect();
        order.sort_by(|&a, &b| {
            let by_value = lines.compare(lines.position(line, a), lines.position(line, b));
            if largest { by_value.reverse() } else { by_value }
        });
        for (rank, &i) in order.iter().take(k).enumerate() {
            let at = (line / lines.inner * k + rank) * lines.inner + line % lines.inner;
            from[at] = lines.position(line, i);
            index[at] = i as i64;
        }
    }
    Some(vec![super::movement::take(x, shape.clone(), &from)?, Tensor::from_i64(shape, &index)])
}

/// `t` with `axis` backwards.
fn reversed(cx: &mut LowerCx<'_, '_>, t: TensorId, axis: usize) -> TensorId {
    let dims = cx.dims(t);
    let mut ranges: Vec<[i32; 3]> = dims.iter().map(|&d| [0, d as i32, 1]).collect();
    ranges[axis] = [dims[axis] as i32 - 1, -1, -1];
    let dtype = cx.qnn_type(t);
    cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))])
}

/// `size - 1 - t`
fn mirrored(cx: &mut LowerCx<'_, '_>, t: TensorId, size: usize) -> TensorId {
    let dims = cx.dims(t);
    let last = cx.i32_constant(&[1], &[size as i32 - 1]);
    cx.op_to("ElementWiseSubtract", &[last, t], QnnType::INT_32, &dims, &[])
}

/// One TopK over lines. Of equal elements the HTP takes the last first (2.47 and 2.51, every type), ONNX the first: so
/// where positions are asked for, the lines are searched backwards.
fn lower_top_k(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", -1), shape.len()).map_err(Refusal::form)?;
    let k =
        if cx.version() < 10 { cx.attrs().int_or("k", 1) } else { cx.need_ints(1, "K")?.first().copied().unwrap_or(1) };
    let k = u32::try_from(k).map_err(|_| Refusal::form(format!("K is {k}")))?;
    let size = shape[axis];
    let places = cx.places(0)?;
    let ready = places.iter().map(|p| &p.0).find(|l| l.order().last() == Some(&axis));
    let layout = match ready.or(places.first().map(|p| &p.0)) {
        Some(l) => Layout::from_order(l.order().iter().copied().filter(|&a| a != axis).chain([axis]).collect()),
        None => Layout::identity(shape.len()),
    };
    let rows = (shape.iter().product::<usize>() / size.max(1)) as u32;
    let x = cx.ordered(0, &layout)?;
    let x = cx.reshape(x, &[rows, size as u32]);
    let held = cx.qnn_type(x);
    let mut x = carried(cx, x, &[]);
    let backwards = cx.wants(1) && size > 1;
    if backwards {
        x = reversed(cx, x, 1);
    }
    let values = cx.temp_like(x, &[rows, k]);
    let index = cx.temp(QnnType::INT_32, &[rows, k]);
    let mut params = vec![("k", Param::u32(k))];
    if cx.attrs().int_or("largest", 1) == 0 {
        params.push(("largest", Param::bool(false)));
    }
    cx.op("TopK", &[x], &[values, index], &params);
    if cx.wants(0) {
        let values = cx.cast(values, held);
        cx.alias(0, values, layout.clone())?;
    }
    if cx.wants(1) {
        let index = if backwards { mirrored(cx, index, size) } else { index };
        cx.alias(1, index, layout)?;
    }
    Ok(())
}

fn keeps_axis(node: &Node) -> bool {
    node.attrs.int_or("keepdims", 1) != 0
}

fn infer_arg(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let mut shape = cx.shape(0)?.clone();
    let axis = cx.axis("axis", 0, shape.len())?;
    if shape[axis] == Dim::Known(0) {
        return invalid(format!("axis {axis} is empty"));
    }
    if keeps_axis(cx.node) {
        shape[axis] = Dim::Known(1);
    } else {
        shape.remove(axis);
    }
    cx.set(0, DataType::I64, shape);
    Ok(())
}

fn takes_last(node: &Node) -> bool {
    node.version >= 12 && node.attrs.int_or("select_last_index", 0) != 0
}

fn fold_arg(cx: &FoldCx<'_>, largest: bool) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let (_, shape) = cx.out_type(0)?;
    let axis = normalise_axis(cx.node.attrs.int_or("axis", 0), x.rank()).ok()?;
    let last = takes_last(cx.node);
    let lines = Lines::of(x, axis)?;
    if lines.values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let best = |line: usize| -> i64 {
        let mut best = 0;
        for i in 1..lines.size {
            let order = lines.compare(lines.position(line, i), lines.position(line, best));
            let order = if largest { order } else { order.reverse() };
            if order.is_gt() || (last && order.is_eq()) {
                best = i;
            }
        }
        best as i64
    };
    let index: Vec<i64> = (0..lines.outer * lines.inner).map(best).collect();
    Some(vec![Tensor::from_i64(shape, &index)])
}

/// One Argmax or Argmin in whatever layout there is: of equal elements it takes the first. For the last, the axis is
/// searched backwards.
fn lower_arg(cx: &mut LowerCx<'_, '_>, op: &str) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let axis = normalise_axis(cx.attrs().int_or("axis", 0), shape.len()).map_err(Refusal::form)?;
    let layout = cx.any_layout(0)?;
    let dims = dims_u32(&layout.apply(&shape));
    let keys: Vec<Option<()>> = layout.order().iter().map(|&a| (a == axis).then_some(())).collect();
    let (dims, keys) = if dims.len() > 4 { merged(&dims, &keys) } else { (dims, keys) };
    let at = keys.iter().position(Option::is_some).unwrap_or(0);
    let x = cx.ordered(0, &layout)?;
    let x = cx.reshape(x, &dims);
    let x = carried(cx, x, &[]);
    let y = match (op, shape[axis]) {
        ("Argmin", 2) => lesser_of_two(cx, x, at),
        _ => searched(cx, op, x, at),
    };
    let layout = if keeps_axis(cx.node) { layout } else { without(&layout, axis) };
    cx.alias(0, y, layout)
}

fn searched(cx: &mut LowerCx<'_, '_>, op: &str, x: TensorId, axis: usize) -> TensorId {
    let dims = cx.dims(x);
    let size = dims[axis] as usize;
    let (mut x, mut op) = (x, op);
    if op == "Argmin" && cx.qnn_type(x) == QnnType::INT_32 {
        // The HTP's Argmin takes no integers. -1 - x turns their order round and cannot overflow.
        let minus_one = cx.i32_constant(&[1], &[-1]);
        x = cx.op_to("ElementWiseSubtract", &[minus_one, x], QnnType::INT_32, &dims, &[]);
        op = "Argmax";
    }
    let backwards = takes_last(cx.node) && size > 1;
    if backwards {
        x = reversed(cx, x, axis);
    }
    let mut out = dims;
    out[axis] = 1;
    let params = [("axis", Param::u32(axis as u32)), ("keep_dims", Param::bool(true))];
    let y = cx.op_to(op, &[x], QnnType::INT_32, &out, &params);
    if backwards { mirrored(cx, y, size) } else { y }
}

/// The position of the smaller of two elements, by a comparison: over a last axis of size 2 the HTP's Argmin of real
/// numbers always says 0 (SDK 2.47).
fn lesser_of_two(cx: &mut LowerCx<'_, '_>, x: TensorId, axis: usize) -> TensorId {
    let first = compose::slice(cx, x, axis, 0, 1);
    let second = compose::slice(cx, x, axis, 1, 2);
    let op = if takes_last(cx.node) { "ElementWiseLessEqual" } else { "ElementWiseLess" };
    let hit = compose::compare(cx, op, second, first);
    cx.cast(hit, QnnType::INT_32)
}

/// The layout of what is left when `axis`, of size 1, is dropped.
fn without(layout: &Layout, axis: usize) -> Layout {
    let order = layout.order().iter().filter(|&&a| a != axis).map(|&a| if a > axis { a - 1 } else { a });
    Layout::from_order(order.collect())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{node, op_types};

    #[test]
    fn top_k_shapes() {
        let n = node("TopK", 11).float(&[3, -1, 4]).ints(&[2]).int("axis", 0).outputs(2);
        assert_eq!(n.types(), ["float32[2, d1, 4]", "int64[2, d1, 4]"]);
        assert_eq!(
            node("TopK", 11).float(&[3]).ints(&[4]).outputs(2).error(),
            "K is 4, and axis 0 of float32[3] has 3 elements"
        );
        assert_eq!(node("TopK", 9).float(&[3]).int("k", 2).outputs(2).types(), ["float32[2]", "int64[2]"]);
    }

    #[test]
    fn the_first_of_equal_elements_comes_first() {
        let x = [1.0, 3.0, 3.0, 2.0, 3.0, 1.0];
        let n = node("TopK", 11).floats(&[6], &x).ints(&[4]).outputs(2);
        let out = n.fold().unwrap();
        assert_eq!(out[0].to_f32s().unwrap(), [3.0, 3.0, 3.0, 2.0]);
        assert_eq!(out[1].to_i64s().unwrap(), [1, 2, 4, 3]);
        let n = n.int("largest", 0);
        assert_eq!(n.fold().unwrap()[1].to_i64s().unwrap(), [0, 5, 3, 1]);
        let n = node("TopK", 11).floats(&[2, 2], &[1.0, 2.0, 3.0, 0.0]).ints(&[1]).int("axis", 0).outputs(2);
        let out = n.fold().unwrap();
        assert_eq!((out[0].to_f32s().unwrap(), out[1].to_i64s().unwrap()), (vec![3.0, 2.0], vec![1, 0]));
    }

    #[test]
    fn positions_are_searched_backwards() {
        let n = node("TopK", 11).float(&[2, 6]).ints(&[4]).outputs(2);
        assert_eq!(op_types(&n.lower().unwrap())[..3], ["StridedSlice", "TopK", "ElementWiseSubtract"]);
        let n = n.no_output(1);
        assert_eq!(op_types(&n.lower().unwrap()), ["TopK"]);
    }

    #[test]
    fn arg() {
        assert_eq!(node("ArgMax", 13).float(&[2, 3]).int("axis", 1).types(), ["int64[2, 1]"]);
        assert_eq!(node("ArgMin", 13).float(&[2, -1]).int("keepdims", 0).types(), ["int64[d1]"]);
        let n = node("ArgMax", 13).floats(&[2, 3], &[2.0, 5.0, 5.0, 1.0, 0.0, 1.0]).int("axis", -1);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [1, 0]);
        let n = n.int("select_last_index", 1);
        assert_eq!(n.fold().unwrap()[0].to_i64s().unwrap(), [2, 2]);
        let n = node("ArgMin", 13).float(&[2, 2]).int("axis", 1);
        assert_eq!(n.run(&[vec![2.0, 1.0, 3.0, 3.0]])[0], [1.0, 0.0]);
        assert_eq!(n.int("select_last_index", 1).run(&[vec![2.0, 1.0, 3.0, 3.0]])[0], [1.0, 1.0]);
        let n = node("ArgMin", 13).float(&[3, 2]).int("axis", 0).int("keepdims", 0);
        assert_eq!(op_types(&n.lower().unwrap())[0], "Argmin");
        let n = n.int("select_last_index", 1);
        assert_eq!(op_types(&n.lower().unwrap())[..3], ["StridedSlice", "Argmin", "ElementWiseSubtract"]);
    }
}
