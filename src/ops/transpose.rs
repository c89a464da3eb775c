//! Transpose: a renaming of axes, which moves nothing by itself.

use super::movement::{follow, offsets, whole};
use super::{FoldCx, InferCx, OpDef, OpError, invalid};
use crate::ir::{Attrs, Tensor};
use crate::lower::{Layout, LowerCx, Refusal};

/// The rows of this family.
pub const OPS: &[OpDef] = &[OpDef::new("Transpose", infer).fold(fold).lower(lower)];

/// The permutation: reversed axes unless the attribute says otherwise. The error says why it is none.
fn perm(attrs: &Attrs, rank: usize) -> Result<Vec<usize>, String> {
    let Some(given) = attrs.ints("perm") else { return Ok((0..rank).rev().collect()) };
    let perm: Vec<usize> = given.iter().filter_map(|&p| usize::try_from(p).ok()).collect();
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if given.len() == rank && sorted.into_iter().eq(0..rank) {
        Ok(perm)
    } else {
        Err(format!("attribute perm {given:?} is no permutation of the axes of rank {rank}"))
    }
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let perm = match perm(&cx.node.attrs, t.shape.len()) {
        Ok(p) => p,
        Err(e) => return invalid(e),
    };
    cx.set(0, t.dtype, perm.iter().map(|&p| t.shape[p].clone()).collect());
    follow(cx, 0, || {
        let tables = whole(&t.static_shape()?);
        Some(offsets(&perm.iter().map(|&p| tables[p].clone()).collect::<Vec<_>>()))
    });
    Ok(())
}

fn fold(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let x = cx.input(0)?;
    let perm = perm(&cx.node.attrs, x.rank()).ok()?;
    if perm.is_sorted() {
        return Some(vec![x.clone()]);
    }
    if x.dtype().bits() < 8 {
        let tables = whole(x.shape());
        let tables: Vec<_> = perm.iter().map(|&p| tables[p].clone()).collect();
        let shape = perm.iter().map(|&p| x.shape()[p]).collect();
        return Some(vec![super::movement::take(x, shape, &offsets(&tables))?]);
    }
    Some(vec![x.transposed(&perm)?])
}

/// Every copy of the input is the output, too, with its axes renamed.
fn lower(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    cx.check_rank(0)?;
    let perm = perm(cx.attrs(), cx.rank(0)?).map_err(Refusal::form)?;
    for (layout, t) in cx.places(0)? {
        let renamed = layout.order().iter().filter_map(|a| perm.iter().position(|p| p == a)).collect();
        cx.alias(0, t, Layout::from_order(renamed))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ir::{DataType, Tensor};
    use crate::ops::testing::{node, op_types, param};
    use crate::qnn::graph::Param;

    #[test]
    fn axes_are_reversed_by_default() {
        assert_eq!(node("Transpose", 13).float(&[2, 3, -1]).types(), ["float32[d1, 3, 2]"]);
        assert_eq!(node("Transpose", 13).float(&[2, 3, 4]).int_list("perm", &[1, 2, 0]).types(), ["float32[3, 4, 2]"]);
        assert_eq!(
            node("Transpose", 13).float(&[2, 3]).int_list("perm", &[0, 0]).error(),
            "attribute perm [0, 0] is no permutation of the axes of rank 2"
        );
    }

    #[test]
    fn constants_are_permuted() {
        let n = node("Transpose", 13).floats(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(n.fold().unwrap()[0].to_f32s().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let t = Tensor::from_i128(DataType::I4, vec![2, 2], &[1, 2, 3, -4]).unwrap();
        let n = node("Transpose", 21).constant(t);
        assert_eq!(n.fold().unwrap()[0].to_i128s().unwrap(), [1, 3, 2, -4]);
    }

    #[test]
    fn it_moves_at_the_edge_of_the_graph() {
        let g = node("Transpose", 13).float(&[2, 3, 4]).int_list("perm", &[1, 2, 0]).lower().unwrap();
        assert_eq!(op_types(&g), ["Transpose"]);
        assert_eq!(param(&g, 0, "perm"), Some(Param::u32s(&[1, 2, 0])));
    }

    #[test]
    fn integers_of_rank_five_move_in_rank_four() {
        let n = node("Transpose", 13).input(DataType::I32, &[2, 1, 3, 2, 2]).int_list("perm", &[4, 1, 2, 0, 3]);
        let g = n.lower().unwrap();
        assert!(g.ops.iter().filter(|o| o.op_type == "Transpose").all(|o| g.tensor(o.inputs[0]).dims.len() <= 4));
        let x: Vec<f64> = (0..24).map(f64::from).collect();
        let want =
            Tensor::from_i64(vec![2, 1, 3, 2, 2], &(0..24).collect::<Vec<_>>()).transposed(&[4, 1, 2, 0, 3]).unwrap();
        assert_eq!(n.run(&[x])[0], want.to_f64s().unwrap());
    }

    #[test]
    fn six_axes_are_refused_at_the_edge() {
        let n = node("Transpose", 13).float(&[2, 2, 2, 2, 2, 2]);
        assert_eq!(n.refusal(), "the graph's output needs \"y0\" as a tensor of rank 6");
    }
}
