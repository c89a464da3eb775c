//! Pad in all its modes, with padding that is negative (a cut) too.

use super::movement::{self, normalise_axes};
use super::{FoldCx, InferCx, OpDef, OpError, compose, invalid, normalise_axis};
use crate::ir::{Dim, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Pad", infer).fold(fold).lower(lower)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

fn mode(attrs: &crate::ir::Attrs) -> Result<Mode, OpError> {
    match attrs.str_or("mode", "constant") {
        "constant" => Ok(Mode::Constant),
        "reflect" => Ok(Mode::Reflect),
        "edge" => Ok(Mode::Edge),
        "wrap" => Ok(Mode::Wrap),
        other => invalid(format!("attribute mode is {other:?}; it is constant, reflect, edge or wrap")),
    }
}

/// Spreads `pads` (all beginnings, then all ends) over the axes: begin and end per axis.
fn per_axis<T: Clone>(pads: &[T], axes: Option<&[i64]>, rank: usize, zero: &T) -> Result<Vec<[T; 2]>, OpError> {
    let axes: Vec<usize> = match axes {
        None => (0..rank).collect(),
        Some(a) => {
            normalise_axes(a, rank, "axes")?;
            a.iter().map(|&a| normalise_axis(a, rank).map_err(OpError::Invalid)).collect::<Result<_, _>>()?
        }
    };
    if pads.len() != 2 * axes.len() {
        return invalid(format!(
            "pads has {} values, {} are needed for {} axes",
            pads.len(),
            2 * axes.len(),
            axes.len()
        ));
    }
    let mut out = vec![[zero.clone(), zero.clone()]; rank];
    for (i, &a) in axes.iter().enumerate() {
        out[a] = [pads[i].clone(), pads[i + axes.len()].clone()];
    }
    Ok(out)
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    mode(&cx.node.attrs)?;
    let rank = t.shape.len();
    let pads = if cx.node.version < 11 {
        let attr = cx.node.attrs.ints("pads").or_else(|| cx.node.attrs.ints("paddings"));
        let Some(p) = attr else { return invalid("attribute pads is required") };
        per_axis(&p.iter().map(|&v| Dim::Known(v)).collect::<Vec<_>>(), None, rank, &Dim::Known(0))?
    } else {
        let axes = if cx.has(3) { Some(cx.need_ints(3)?) } else { None };
        per_axis(&cx.need_elements(1)?, axes.as_deref(), rank, &Dim::Known(0))?
    };
    let shape: Vec<Dim> = t.shape.iter().zip(&pads).map(|(d, [b, e])| d.add(b).add(e)).collect();
    if let Some(i) = shape.iter().position(|d| d.known().is_some_and(|n| n < 0)) {
        return invalid(format!("axis {i} of {} elements is cut by {} and {}", t.shape[i], pads[i][0], pads[i][1]));
    }
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// For each axis and each position of the output, the position of the input it takes; `None` is the constant.
fn sources(shape: &[usize], pads: &[[i64; 2]], mode: Mode) -> Option<Vec<Vec<Option<usize>>>> {
    shape
        .iter()
        .zip(pads)
        .map(|(&n, &[before, after])| {
            // Cuts come first: a mirror stands at the new end.
            let n = i64::try_from(n).ok()?;
            let (low, high) = (before.min(0).checked_neg()?, n.checked_add(after.min(0))?);
            let size = high.checked_sub(low)?;
            let (before, after) = (before.max(0), after.max(0));
            if size < 0 || before.checked_add(after)?.checked_add(size)? > 1 << 31 {
                return None;
            }
            (-before..size + after)
                .map(|i| {
                    let at = match mode {
                        _ if (0..size).contains(&i) => i,
                        Mode::Constant => return Some(None),
                        _ if size == 0 => return None,
                        Mode::Edge => i.clamp(0, size - 1),
                        Mode::Wrap => i.rem_euclid(size),
                        Mode::Reflect if size == 1 => 0,
                        Mode::Reflect => {
                            let m = i.rem_euclid(2 * (size - 1));
                            if m < size { m } else { 2 * (size - 1) - m }
                        }
                    };
                    Some(Some((at + low) as usize))
                })
                .collect()
        })
        .collect()
}

/// The padding of a node whose parameters are constants.
fn constant_pads(
    attrs: &crate::ir::Attrs,
    version: i64,
    rank: usize,
    ints: impl Fn(usize) -> Option<Vec<i64>>,
) -> Option<Vec<[i64; 2]>> {
    if version < 11 {
        let p = attrs.ints("pads").or_else(|| attrs.ints("paddings"))?;
        return per_axis(p, None, rank, &0).ok();
    }
    per_axis(&ints(1)?, ints(3).as_deref(), rank, &0).ok()
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let attrs = &cx.node.attrs;
    let pads = constant_pads(attrs, cx.node.version, x.rank(), |i| cx.input(i)?.to_i64s())?;
    let mode = mode(attrs).ok()?;
    let sources = sources(x.shape(), &pads, mode)?;
    let out: Vec<usize> = sources.iter().map(Vec::len).collect();
    let total = out.iter().try_fold(1usize, |a, &d| a.checked_mul(d)).filter(|&n| n <= 1 << 26)?;
    let bits = x.dtype().bits();
    if bits < 8 {
        return None;
    }
    let size = bits / 8;
    let fill = if cx.node.version < 11 {
        Tensor::from_f64(x.dtype(), vec![1], &[f64::from(attrs.float_or("value", 0.0))])?.bytes()
    } else {
        match cx.input(2) {
            Some(v) if v.dtype() == x.dtype() && v.len() == 1 => v.bytes(),
            Some(_) => return None,
            None => vec![0u8; size].into(),
        }
    };
    let strides = crate::ir::strides(x.shape());
    let bytes = x.bytes();
    let mut data = Vec::with_capacity(total * size);
    for flat in 0..total {
        let (mut rest, mut at) = (flat, Some(0));
        for axis in (0..out.len()).rev() {
            let from = sources[axis][rest % out[axis]];
            at = at.zip(from).map(|(a, f)| a + f * strides[axis]);
            rest /= out[axis];
        }
        match at {
            Some(a) => data.extend_from_slice(bytes.get(a * size..(a + 1) * size)?),
            None => data.extend_from_slice(&fill),
        }
    }
    Some(vec![Tensor::from_raw(x.dtype(), out, data.into())?])
}

/// The constant that is padded with.
fn fill_value(cx: &LowerCx<'_, '_>) -> Result<f64, Refusal> {
    if cx.version() < 11 {
        return Ok(f64::from(cx.attrs().float_or("value", 0.0)));
    }
    if !cx.has(2) {
        return Ok(0.0);
    }
    let t = cx.need_constant(2, "constant_value")?;
    t.scalar_f64().ok_or_else(|| Refusal::form("constant_value is not one number"))
}

fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let shape = cx.shape(0)?;
    let rank = shape.len();
    let mode = mode(cx.attrs()).map_err(|e| Refusal::form(e.to_string()))?;
    if cx.version() >= 11 {
        cx.need_ints(1, "pads")?;
        if cx.has(3) {
            cx.need_ints(3, "axes")?;
        }
    }
    let pads = constant_pads(cx.attrs(), cx.version(), rank, |i| cx.constant(i)?.to_i64s());
    let pads = pads.ok_or_else(|| Refusal::form("pads do not fit the axes"))?;
    let sources = sources(&shape, &pads, mode).ok_or_else(|| Refusal::form(format!("padding by {pads:?}")))?;
    if rank == 0 {
        let x = cx.input(0)?;
        return cx.alias(0, x, Layout::identity(0));
    }
    let layout = cx.any_layout(0)?;
    let mut t = cx.input_in(0, &layout)?;
    let own = cx.qnn_type(t);
    let real = own.is_float();
    if !real {
        t = movement::carried(cx, t, &[]);
    }
    // Cuts first.
    for axis in 0..rank {
        let [before, after] = pads[axis];
        if before < 0 || after < 0 {
            let low = (-before).max(0) as u32;
            let high = (shape[axis] as i64 + after.min(0)) as u32;
            t = compose::slice(cx, t, layout.physical(axis), low, high);
        }
    }
    let grown: Vec<[u32; 2]> = layout.apply(&pads).iter().map(|p| p.map(|v| v.max(0) as u32)).collect();
    if grown.iter().any(|p| *p != [0, 0]) {
        t = match mode {
            Mode::Constant => {
                let value = fill_value(cx)?;
                constant(cx, t, &grown, value)?
            }
            _ => mirrored(cx, t, &grown, mode, &layout.apply(&sources)),
        };
    }
    if !real {
        t = cx.cast(t, own);
    }
    cx.alias(0, t, layout)
}

/// Pads with a constant: a Pad op for real numbers, blocks joined on for integers, which Pad does not take.
fn constant(cx: &mut LowerCx<'_, '_>, t: TensorId, amount: &[[u32; 2]], value: f64) -> Result<TensorId, Refusal> {
    if cx.qnn_type(t).is_float() {
        if value.is_nan() || (value.is_finite() && value.abs() > 65504.0) {
            return Err(Refusal::form(format!("padding with {value}, which a 16-bit float does not hold"))
                .fix("pad with a value within -65504 to 65504"));
        }
        return Ok(super::spatial::pad_constant(cx, t, amount, value as f32));
    }
    let value = value as i64;
    let fill = i32::try_from(value).map_err(|_| Refusal::form(format!("padding with {value} does not fit 32 bits")))?;
    let dtype = cx.qnn_type(t);
    if dtype != QnnType::INT_32 {
        return Err(Refusal::new(crate::verdict::codes::DTYPE, format!("padding of {dtype} with a constant")));
    }
    let mut t = t;
    for (axis, &[before, after]) in amount.iter().enumerate() {
        let dims = cx.dims(t);
        let mut block = |n: u32| {
            let mut d = dims.clone();
            d[axis] = n;
            let count = d.iter().product::<u32>() as usize;
            cx.i32_constant(&d, &vec![fill; count])
        };
        let mut pieces = vec![];
        if before > 0 {
            pieces.push(block(before));
        }
        pieces.push(t);
        if after > 0 {
            pieces.push(block(after));
        }
        t = compose::concat(cx, &pieces, axis);
    }
    Ok(t)
}

/// Pads with elements of the tensor itself. The HTP's Pad mirrors real numbers up to rank 4, and repeats edges right
/// only on the two inner of four axes; everything else picks elements along one axis after the other.
fn mirrored(
    cx: &mut LowerCx<'_, '_>,
    t: TensorId,
    amount: &[[u32; 2]],
    mode: Mode,
    sources: &[Vec<Option<usize>>],
) -> TensorId {
    let dims = cx.dims(t);
    let one_mirror = amount.iter().zip(&dims).all(|(p, &d)| p.iter().all(|&n| n < d));
    let native = cx.qnn_type(t).is_float()
        && match mode {
            Mode::Reflect => dims.len() <= 4 && one_mirror,
            Mode::Edge => dims.len() == 4 && amount[0] == [0, 0] && amount[3] == [0, 0],
            _ => false,
        };
    if native {
        let out: Vec<u32> = dims.iter().zip(amount).map(|(d, [b, a])| d + b + a).collect();
        let scheme = if mode == Mode::Reflect { 2 } else { 3 };
        let dtype = cx.qnn_type(t);
        return cx.op_to(
            "Pad",
            &[t],
            dtype,
            &out,
            &[("scheme", Param::u32(scheme)), ("pad_amount", Param::pairs(amount))],
        );
    }
    let mut t = t;
    for (axis, source) in sources.iter().enumerate() {
        if amount[axis] == [0, 0] {
            continue;
        }
        // Positions count in the axis before its cuts: the first one that is left is 0 now.
        let low = source.iter().flatten().min().copied().unwrap_or(0);
        let index: Vec<u32> = source.iter().flatten().map(|&s| (s - low) as u32).collect();
        t = pick(cx, t, axis, &index);
    }
    t
}

/// Elements `index` of physical axis `axis`.
pub(super) fn pick(cx: &mut LowerCx<'_, '_>, t: TensorId, axis: usize, index: &[u32]) -> TensorId {
    let mut dims = cx.dims(t);
    let n = dims[axis];
    if index.len() == n as usize && index.iter().enumerate().all(|(i, &j)| i == j as usize) {
        return t;
    }
    dims[axis] = index.len() as u32;
    let dtype = cx.qnn_type(t);
    let step = match index {
        [a, b, ..] if b > a => b - a,
        _ => 1,
    };
    if index.windows(2).all(|w| w[1] > w[0] && w[1] - w[0] == step) {
        let (first, last) = (index[0] as i32, index[index.len() - 1] as i32);
        let mut ranges: Vec<[i32; 3]> = cx.dims(t).iter().map(|&d| [0, d as i32, 1]).collect();
        ranges[axis] = [first, last + 1, step as i32];
        return cx.op_to("StridedSlice", &[t], dtype, &dims, &[("ranges", Param::triples(&ranges))]);
    }
    let values: Vec<i32> = index.iter().map(|&i| i as i32).collect();
    let index = cx.i32_constant(&[values.len() as u32], &values);
    cx.op_to("Gather", &[t, index], dtype, &dims, &[("axis", Param::i32(axis as i32))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, Dim};
    use crate::ops::testing::node;

    #[test]
    fn shapes_and_errors() {
        assert_eq!(node("Pad", 13).float(&[-1, 3]).ints(&[0, 1, 2, -1]).types(), ["float32[d1 + 2, 3]"]);
        let by = node("Pad", 13).float(&[2, 3]).elements(
            DataType::I64,
            &[4],
            vec![Dim::Known(0), Dim::symbol("p"), Dim::Known(0), Dim::Known(0)],
        );
        assert_eq!(by.types(), ["float32[2, p + 3]"]);
        assert!(node("Pad", 13).float(&[2, 3]).ints(&[0, 1]).error().contains("pads has 2 values, 4 are needed"));
        assert!(node("Pad", 13).float(&[2, 3]).ints(&[0, -2, 0, -2]).error().contains("axis 1 of 3 elements is cut"));
        assert!(node("Pad", 18).float(&[2, 3]).ints(&[0, 1]).omit().ints(&[5]).error().contains("axis 5"));
        assert!(node("Pad", 13).float(&[2]).ints(&[0, 0]).text("mode", "mirror").error().contains("\"mirror\""));
    }

    #[test]
    fn constants_fold_in_every_mode() {
        let fold = |mode: &str, pads: &[i64]| {
            let n = node("Pad", 19).ints(&[1, 2, 3]).ints(pads).text("mode", mode);
            n.fold().unwrap()[0].to_i64s().unwrap()
        };
        assert_eq!(fold("constant", &[1, 2]), [0, 1, 2, 3, 0, 0]);
        assert_eq!(fold("reflect", &[2, 1]), [3, 2, 1, 2, 3, 2]);
        assert_eq!(fold("reflect", &[5, 0]), [2, 1, 2, 3, 2, 1, 2, 3]);
        assert_eq!(fold("edge", &[1, 2]), [1, 1, 2, 3, 3, 3]);
        assert_eq!(fold("wrap", &[1, 4]), [3, 1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(fold("constant", &[-1, -1]), [2]);
    }

    #[test]
    fn integers_and_out_of_range_values() {
        let n = node("Pad", 13).input(DataType::I64, &[2]).ints(&[1, 2]).constant(Tensor::from_i64(vec![], &[7]));
        assert_eq!(n.run(&[vec![1.0, 2.0]]), [[7.0, 1.0, 2.0, 7.0, 7.0]]);
        let n = node("Pad", 13).float(&[2]).ints(&[1, 0]).floats(&[], &[-1e9]);
        assert!(n.refusal().contains("-1000000000"));
        assert!(node("Pad", 13).float(&[2]).input(DataType::I64, &[2]).infer().is_err());
    }
}
