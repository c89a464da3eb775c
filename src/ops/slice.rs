//! Slice: every n-th element of a range of each axis.

use super::movement::{carried, follow, merged, offsets, take};
use super::{FoldCx, InferCx, OpDef, OpError, normalise_axis};
use crate::ir::{Dim, Tensor, show_shape, strides};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType};

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Slice", infer).fold(fold).lower(lower)];

/// What is taken of one axis. Positions are within the axis, `end` is one step past the last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    start: i64,
    step: i64,
    count: usize,
}

impl Range {
    fn all(size: usize) -> Self {
        Self { start: 0, step: 1, count: size }
    }

    /// ONNX's range over an axis of `size` elements: negative positions count from the end, and what is outside is
    /// cut. `step` is not 0.
    fn new(start: i64, end: i64, step: i64, size: usize) -> Self {
        let n = size as i64;
        let from_end = |p: i64| if p < 0 { p.saturating_add(n) } else { p };
        let (start, end) = (from_end(start), from_end(end));
        let (start, end) = if step > 0 {
            (start.clamp(0, n), end.clamp(0, n))
        } else {
            (start.clamp(-1, n - 1), end.clamp(-1, n - 1))
        };
        let (first, last) = if step > 0 { (start, end) } else { (end, start) };
        let count = if last > first { (last - first - 1) / step.saturating_abs() + 1 } else { 0 };
        Self { start, step, count: count as usize }
    }

    fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count as i64).map(move |i| (self.start + i * self.step) as usize)
    }
}

/// The operands of a Slice node: starts, ends, axes, steps.
struct Given {
    starts: Vec<Dim>,
    ends: Vec<Dim>,
    axes: Vec<i64>,
    steps: Vec<i64>,
}

/// Attributes before opset 10, inputs since. `elements` and `ints` read an input's elements.
fn given<E>(
    node: &crate::ir::Node,
    elements: impl Fn(usize) -> Result<Vec<Dim>, E>,
    ints: impl Fn(usize) -> Result<Vec<i64>, E>,
) -> Result<Given, E> {
    let (starts, ends, axes, steps) = if node.version < 10 {
        let dims = |name: &str| -> Vec<Dim> {
            node.attrs.ints(name).unwrap_or_default().iter().map(|&v| Dim::Known(v)).collect()
        };
        (dims("starts"), dims("ends"), node.attrs.ints("axes").map(<[i64]>::to_vec), None)
    } else {
        let optional = |i: usize| if node.input(i).is_some() { ints(i).map(Some) } else { Ok(None) };
        (elements(1)?, elements(2)?, optional(3)?, optional(4)?)
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    Ok(Given { starts, ends, axes, steps })
}

impl Given {
    /// One entry per axis that is cut: axis, start, end, step. The error says which operand breaks the rules.
    fn cuts(&self, rank: usize) -> Result<Vec<(usize, &Dim, &Dim, i64)>, String> {
        let n = self.starts.len();
        for (name, len) in [("ends", self.ends.len()), ("axes", self.axes.len()), ("steps", self.steps.len())] {
            if len != n {
                return Err(format!("starts has {n} elements, and {name} has {len}"));
            }
        }
        let mut out: Vec<(usize, &Dim, &Dim, i64)> = vec![];
        for i in 0..n {
            let axis = normalise_axis(self.axes[i], rank).map_err(|e| format!("axes: {e}"))?;
            if self.steps[i] == 0 {
                return Err(format!("steps is 0 for axis {axis}"));
            }
            if out.iter().any(|c| c.0 == axis) {
                return Err(format!("axes {:?} name axis {axis} twice", self.axes));
            }
            out.push((axis, &self.starts[i], &self.ends[i], self.steps[i]));
        }
        Ok(out)
    }

    /// What is taken of every axis of a static shape.
    fn ranges(&self, shape: &[usize]) -> Result<Vec<Range>, String> {
        let mut out: Vec<Range> = shape.iter().map(|&d| Range::all(d)).collect();
        for (axis, start, end, step) in self.cuts(shape.len())? {
            let (Some(start), Some(end)) = (start.known(), end.known()) else {
                return Err(format!("start {start} or end {end} of axis {axis} is not a number"));
            };
            out[axis] = Range::new(start, end, step, shape[axis]);
        }
        Ok(out)
    }
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let given = given(cx.node, |i| cx.need_elements(i), |i| cx.need_ints(i))?;
    let cuts = given.cuts(t.shape.len()).map_err(OpError::Invalid)?;
    let mut shape = t.shape.clone();
    for (axis, start, end, step) in cuts {
        shape[axis] = match (start.known(), end.known(), shape[axis].known()) {
            (Some(s), Some(e), Some(d)) if d >= 0 => Range::new(s, e, step, d as usize).count.into(),
            _ => symbolic(&shape[axis], start, end, step).ok_or_else(|| {
                OpError::DataDependent(format!(
                    "the size of axis {axis} of {} after Slice from {start} to {end} by {step} is not known",
                    show_shape(&t.shape)
                ))
            })?,
        };
    }
    cx.set(0, t.dtype, shape);
    follow(cx, 0, || {
        let shape = t.static_shape()?;
        Some(offsets(&tables(&given.ranges(&shape).ok()?, &shape)))
    });
    Ok(())
}

/// The size of a range of an axis where something is an expression. Positions that are expressions are taken to lie
/// within the axis.
fn symbolic(size: &Dim, start: &Dim, end: &Dim, step: i64) -> Option<Dim> {
    // Exporters write the largest int32 or int64 for "to the end".
    let huge = |d: &Dim| d.known().is_some_and(|n| n >= i64::from(i32::MAX));
    if step < 0 {
        let whole = start.known() == Some(-1) && end.known().is_some_and(|n| n <= i64::from(i32::MIN) + 1);
        return (whole && step == -1).then(|| size.clone());
    }
    let position = |d: &Dim| match d.known() {
        Some(n) if n < 0 => size.add(d),
        _ => d.clone(),
    };
    let last = if huge(end) || end == size { size.clone() } else { position(end) };
    let first = position(start);
    let length = match (first.known(), last.known(), size) {
        // A number against an axis of unknown size: the axis may be shorter.
        (Some(a), Some(b), Dim::Expr(_)) => {
            if b <= a {
                return Some(Dim::Known(0));
            }
            if a != 0 || b > 1 {
                let cut = Dim::symbol(format!("min({size}, {b})"));
                if a == 0 { cut } else { cut.sub(&first) }
            } else {
                Dim::Known(1)
            }
        }
        _ => last.sub(&first),
    };
    if step == 1 { Some(length) } else { length.add(&Dim::Known(step - 1)).floor_div(&Dim::Known(step)) }
}

fn tables(ranges: &[Range], shape: &[usize]) -> Vec<Vec<usize>> {
    ranges.iter().zip(strides(shape)).map(|(r, s)| r.positions().map(|p| p * s).collect()).collect()
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let ints = |i: usize| cx.input(i).and_then(Tensor::to_i64s).ok_or(());
    let dims = |i: usize| Ok(ints(i)?.into_iter().map(Dim::Known).collect());
    let ranges = given(cx.node, dims, ints).ok()?.ranges(x.shape()).ok()?;
    let shape = ranges.iter().map(|r| r.count).collect();
    Some(vec![take(x, shape, &offsets(&tables(&ranges, x.shape())))?])
}

/// One StridedSlice in whatever layout there is.
fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    const NAMES: [&str; 5] = ["data", "starts", "ends", "axes", "steps"];
    let shape = cx.shape(0)?;
    let ints = |i: usize| cx.need_ints(i, NAMES[i.min(4)]);
    let dims = |i: usize| Ok(ints(i)?.into_iter().map(Dim::Known).collect());
    let ranges = given(cx.node, dims, ints)?.ranges(&shape).map_err(Refusal::form)?;
    if ranges.iter().zip(&shape).all(|(r, &d)| *r == Range::all(d)) {
        for (layout, t) in cx.places(0)? {
            cx.alias(0, t, layout)?;
        }
        return Ok(());
    }
    let layout = cx.any_layout(0)?;
    let x = cx.ordered(0, &layout)?;
    let moved: Vec<u32> = layout.apply(&shape).into_iter().map(|d| d as u32).collect();
    let keys: Vec<Option<Range>> =
        layout.order().iter().map(|&a| Some(ranges[a]).filter(|r| *r != Range::all(shape[a]))).collect();
    // Axes taken whole are joined where the rank asks for it.
    let (dims, keys) = if moved.len() > 5 { merged(&moved, &keys) } else { (moved, keys) };
    let x = cx.reshape(x, &dims);
    let dtype = cx.qnn_type(x);
    let x = if dtype == QnnType::BOOL_8 { cx.cast(x, QnnType::UINT_8) } else { carried(cx, x, &[QnnType::UINT_8]) };
    let mut triples = vec![];
    let mut out = vec![];
    for (&d, key) in dims.iter().zip(&keys) {
        let r = key.unwrap_or_else(|| Range::all(d as usize));
        let end = (r.start + (r.count as i64 - 1) * r.step) + r.step.signum();
        // A single element is the same for every step.
        let step = if r.count == 1 { r.step.signum() } else { r.step };
        triples.push([r.start as i32, end as i32, step as i32]);
        out.push(r.count as u32);
    }
    let carrier = cx.qnn_type(x);
    let y = cx.op_to("StridedSlice", &[x], carrier, &out, &[("ranges", Param::triples(&triples))]);
    let y = cx.cast(y, dtype);
    cx.alias(0, y, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DataType;
    use crate::ops::testing::{node, op_types, param, ramp};

    #[test]
    fn negative_steps_do_not_read_the_smallest_integer_as_minus_one() {
        let n = node("Slice", 13).float(&[1, 6]).ints(&[-1]).ints(&[i64::MIN]).ints(&[1]).ints(&[-2]);
        assert_eq!(n.types(), ["float32[1, 3]"]);
        assert_eq!(n.run(&[ramp(6, 0.0, 1.0)])[0], [5.0, 3.0, 1.0]);
        let g = n.lower().unwrap();
        assert_eq!(param(&g, 0, "ranges"), Some(Param::triples(&[[0, 1, 1], [5, 0, -2]])));
    }

    #[test]
    fn the_first_element_is_reached_backwards() {
        let n = node("Slice", 13).float(&[5]).ints(&[4]).ints(&[-100]).ints(&[0]).ints(&[-1]);
        let g = n.lower().unwrap();
        assert_eq!(param(&g, 0, "ranges"), Some(Param::triples(&[[4, -1, -1]])));
        assert_eq!(n.run(&[ramp(5, 0.0, 1.0)])[0], [4.0, 3.0, 2.0, 1.0, 0.0]);
    }

    #[test]
    fn an_omitted_input_is_not_dynamic() {
        let n = node("Slice", 13).float(&[4, 6]).ints(&[0, 1]).ints(&[4, 6]).omit().ints(&[2, 2]);
        assert_eq!(n.types(), ["float32[2, 3]"]);
        assert_eq!(n.run(&[ramp(24, 0.0, 1.0)])[0], [1.0, 3.0, 5.0, 13.0, 15.0, 17.0]);
    }

    #[test]
    fn attributes_before_opset_ten() {
        let n = node("Slice", 9).floats(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let n = n.int_list("starts", &[1]).int_list("ends", &[1000]).int_list("axes", &[1]);
        assert_eq!(n.types(), ["float32[2, 2]"]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [1.0, 2.0, 4.0, 5.0]);
    }

    #[test]
    fn symbolic_sizes() {
        let whole = node("Slice", 13).float(&[-1, 4]).ints(&[0]).ints(&[i64::MAX]).ints(&[0]);
        assert_eq!(whole.types(), ["float32[d1, 4]"]);
        let rest = node("Slice", 13).float(&[-1]).ints(&[1]).ints(&[i64::MAX]).ints(&[0]);
        assert_eq!(rest.types(), ["float32[d1 - 1]"]);
        let last = node("Slice", 13).float(&[-1]).ints(&[-1]).ints(&[i64::MAX]).ints(&[0]);
        assert_eq!(last.types(), ["float32[1]"]);
        let some = node("Slice", 13).float(&[-1]).ints(&[0]).ints(&[5]).ints(&[0]);
        assert_eq!(some.types(), ["float32[min(d1, 5)]"]);
        let to = node("Slice", 13).float(&[1, 512]).ints(&[0]).elements(DataType::I64, &[1], vec![Dim::symbol("d1")]);
        assert_eq!(to.ints(&[1]).types(), ["float32[1, d1]"]);
    }

    #[test]
    fn shape_arithmetic_goes_through() {
        let dims = vec![Dim::symbol("b"), Dim::Known(3), Dim::symbol("s")];
        let n = node("Slice", 13).elements(DataType::I64, &[3], dims).ints(&[-1]).ints(&[i64::MAX]).ints(&[0]);
        assert_eq!(n.infer().unwrap()[0].elements, Some(vec![Dim::symbol("s")]));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let n = node("Slice", 13).float(&[4]).ints(&[0]).ints(&[4, 4]);
        assert_eq!(n.error(), "starts has 1 elements, and ends has 2");
        assert!(node("Slice", 13).float(&[4]).ints(&[0]).ints(&[4]).ints(&[1]).error().starts_with("axes: axis 1"));
        assert_eq!(
            node("Slice", 13).float(&[4]).ints(&[0]).ints(&[4]).ints(&[0]).ints(&[0]).error(),
            "steps is 0 for axis 0"
        );
    }

    #[test]
    fn booleans_go_as_bytes_and_nothing_cut_is_no_op() {
        let n = node("Slice", 13).input(DataType::Bool, &[4]).ints(&[1]).ints(&[3]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Cast", "StridedSlice", "Cast"]);
        let n = node("Slice", 13).float(&[4]).ints(&[0]).ints(&[9]);
        assert_eq!(op_types(&n.lower().unwrap()), ["Reshape"]);
    }
}
