//! What the ops that move elements share: picking elements by offset, for constants and for shapes as expressions, and
//! the types in which the HTP moves elements.

use super::{InferCx, OpError, normalise_axis};
use crate::ir::{Attr, Attrs, DataType, Dim, Graph, Tensor, ValueId, strides};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{QnnType, TensorId};

/// More elements than this are not followed as expressions.
pub(super) const ELEMENTS_LIMIT: usize = 4096;

/// Offsets into a row-major buffer, one per element of a box: for each axis a table with one entry per position, and
/// an element's offset is the sum of its entries.
pub(super) fn offsets(tables: &[Vec<usize>]) -> Vec<usize> {
    let mut out = vec![0];
    for table in tables {
        out = out.iter().flat_map(|base| table.iter().map(move |o| base + o)).collect();
    }
    out
}

/// The tables of [`offsets`] for all of a tensor of shape `shape`.
pub(super) fn whole(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().zip(strides(shape)).map(|(&d, s)| (0..d).map(|i| i * s).collect()).collect()
}

/// The elements of `t` at `offsets`, in this order. `None` if an offset is outside, or for strings.
pub(super) fn take(t: &Tensor, shape: Vec<usize>, offsets: &[usize]) -> Option<Tensor> {
    if let Some(e) = t.splat_element() {
        return Some(Tensor::splat(t.dtype(), shape, e.clone()));
    }
    let bits = t.dtype().bits();
    if bits < 8 {
        let all = t.to_i128s()?;
        let picked: Vec<i128> = offsets.iter().map(|&o| all.get(o).copied()).collect::<Option<_>>()?;
        return Tensor::from_i128(t.dtype(), shape, &picked);
    }
    let size = bits / 8;
    let bytes = t.bytes();
    let mut out = Vec::with_capacity(offsets.len() * size);
    for &o in offsets {
        out.extend_from_slice(bytes.get(o * size..(o + 1) * size)?);
    }
    Tensor::from_raw(t.dtype(), shape, out.into())
}

/// If the elements of input `i` are known as expressions, those at `offsets` are those of output 0.
pub(super) fn follow(cx: &mut InferCx<'_>, i: usize, offsets: impl FnOnce() -> Option<Vec<usize>>) {
    if let Some(all) = cx.elements(i)
        && let Some(offsets) = offsets()
        && offsets.len() <= ELEMENTS_LIMIT
        && let Some(picked) = offsets.iter().map(|&o| all.get(o).cloned()).collect()
    {
        cx.set_elements(0, picked);
    }
}

/// The product of dimensions; numbers saturate.
pub(super) fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Known(1), |a, d| a.mul(d))
}

/// Axes made non-negative and sorted, each once; `what` names where they stand.
pub(super) fn normalise_axes(axes: &[i64], rank: usize, what: &str) -> Result<Vec<usize>, OpError> {
    let mut out = vec![];
    for &a in axes {
        let a = normalise_axis(a, rank).map_err(|e| OpError::Invalid(format!("{what}: {e}")))?;
        if out.contains(&a) {
            return Err(OpError::Invalid(format!("{what} {axes:?} name axis {a} twice")));
        }
        out.push(a);
    }
    out.sort_unstable();
    Ok(out)
}

/// The element type in attribute `name`.
pub(super) fn dtype_attr(attrs: &Attrs, name: &str, default: DataType) -> Result<DataType, OpError> {
    match attrs.get(name) {
        None => Ok(default),
        Some(Attr::Int(n)) => i32::try_from(*n)
            .ok()
            .and_then(DataType::from_onnx)
            .ok_or_else(|| OpError::Invalid(format!("attribute {name} is {n}, which is no element type"))),
        Some(_) => Err(OpError::Invalid(format!("attribute {name} is not an integer"))),
    }
}

/// `t` in a type that an op on the HTP moves: booleans and bytes go through 32-bit integers where `takes` does not
/// list them. Cast the result back to the value's own type.
pub(super) fn carried(cx: &mut LowerCx<'_, '_>, t: TensorId, takes: &[QnnType]) -> TensorId {
    let dtype = cx.qnn_type(t);
    if matches!(dtype, QnnType::BOOL_8 | QnnType::UINT_8 | QnnType::INT_16) && !takes.contains(&dtype) {
        return cx.cast(t, QnnType::INT_32);
    }
    t
}

/// Dims as QNN has them.
pub(super) fn dims_u32(shape: &[usize]) -> Vec<u32> {
    shape.iter().map(|&d| d as u32).collect()
}

/// Axes of equal `key` side by side joined, if they may be (`Some` keys are never joined): the tables for a tensor of
/// lower rank in which only the axes with a `Some` key stand alone. Returns the dims and the keys.
pub(super) fn merged<K: Copy>(dims: &[u32], keys: &[Option<K>]) -> (Vec<u32>, Vec<Option<K>>) {
    let mut out: (Vec<u32>, Vec<Option<K>>) = (vec![], vec![]);
    for (&d, &k) in dims.iter().zip(keys) {
        match (out.0.last_mut(), out.1.last()) {
            (Some(last), Some(None)) if k.is_none() => *last = last.saturating_mul(d),
            _ => {
                out.0.push(d);
                out.1.push(k);
            }
        }
    }
    out
}

/// A run-time index into an axis of `size` elements, made non-negative: ONNX counts negative ones from the end, and the
/// HTP takes none.
pub(super) fn wrapped_index(cx: &mut LowerCx<'_, '_>, i: usize, t: TensorId, size: usize) -> Result<TensorId, Refusal> {
    if cx.node.input(i).is_some_and(|v| never_negative(cx.graph(), v, 8)) {
        return Ok(t);
    }
    let size = i32::try_from(size).map_err(|_| Refusal::form(format!("an axis of {size} elements is indexed")))?;
    let step = cx.i32_constant(&[1], &[size]);
    Ok(wrapped_by(cx, t, step))
}

/// `t < 0 ? t + sizes : t`; `sizes` broadcasts. Negative is what is more than its double: no constant is needed for that.
pub(super) fn wrapped_by(cx: &mut LowerCx<'_, '_>, t: TensorId, sizes: TensorId) -> TensorId {
    let dims = cx.dims(t);
    let double = cx.op_to("ElementWiseAdd", &[t, t], QnnType::INT_32, &dims, &[]);
    let negative = cx.op_to("ElementWiseLess", &[double, t], QnnType::BOOL_8, &dims, &[]);
    let moved = cx.op_to("ElementWiseAdd", &[t, sizes], QnnType::INT_32, &dims, &[]);
    cx.op_to("ElementWiseSelect", &[negative, moved, t], QnnType::INT_32, &dims, &[])
}

/// Is it certain that no element of integer value `v` is negative? Looks through at most `depth` nodes.
fn never_negative(graph: &Graph, v: ValueId, depth: usize) -> bool {
    let value = graph.value(v);
    if let Some(t) = &value.data {
        return t.to_i128s().is_some_and(|v| v.iter().all(|x| *x >= 0));
    }
    if value.ty.dtype().is_some_and(|d| d == DataType::Bool || (d.is_int() && !d.is_signed_int())) {
        return true;
    }
    let (Some((id, slot)), true) = (value.producer, depth > 0) else { return false };
    let node = graph.node(id);
    let input = |i: usize| node.input(i).is_some_and(|v| never_negative(graph, v, depth - 1));
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => false,
        "ArgMax" | "ArgMin" | "NonZero" | "Shape" | "Size" => true,
        "TopK" => slot == 1,
        "Cast" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Transpose" | "Slice" | "Gather"
        | "GatherElements" | "GatherND" | "Expand" | "Tile" | "Split" => input(0),
        "Concat" | "Min" => (0..node.inputs.len()).all(input),
        "Max" => (0..node.inputs.len()).any(input),
        "Add" | "Mul" => input(0) && input(1),
        "Where" => input(1) && input(2),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_a_box() {
        assert_eq!(offsets(&whole(&[2, 3])), [0, 1, 2, 3, 4, 5]);
        assert_eq!(offsets(&[]), [0]);
        assert_eq!(offsets(&[vec![3, 0], vec![0, 2]]), [3, 5, 0, 2]);
    }

    #[test]
    fn picking_keeps_every_type() {
        let t = Tensor::from_i128(DataType::I4, vec![3], &[-8, 1, 7]).unwrap();
        assert_eq!(take(&t, vec![2], &[2, 0]).unwrap().to_i128s().unwrap(), [7, -8]);
        let t = Tensor::from_f32(vec![2], &[1.0, 2.0]);
        assert_eq!(take(&t, vec![2], &[1, 1]).unwrap().to_f32s().unwrap(), [2.0, 2.0]);
        assert!(take(&t, vec![1], &[2]).is_none());
    }

    #[test]
    fn axes_without_a_key_join() {
        assert_eq!(
            merged(&[2, 3, 4, 5, 6], &[None, None, Some(1), None, None]),
            (vec![6, 4, 30], vec![None, Some(1), None])
        );
    }
}
