//! Reshape as layout algebra: which layout the result of a Reshape has when nothing moves, and how axes are permuted
//! within the ranks that QNN takes.
//!
//! A Reshape joins runs of axes and splits them again. As long as the axes of each run lie side by side and in order in
//! memory, the elements need not move, whatever order the runs themselves are in. So a Reshape of a channel-last tensor
//! mostly gives a channel-last tensor, and a tensor of rank 6 between two Reshapes never has to exist.

use super::session::{Lowering, MAX_RANK};
use super::{Layout, LowerCx, Refusal};
use crate::ir::{DataType, ValueId};
use crate::ops::elementwise::merges_axes;
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// A run of input axes and the run of output axes that it becomes; axes of size 1 are in no run.
#[derive(Debug, PartialEq)]
struct Run {
    from: Vec<usize>,
    to: Vec<usize>,
}

/// The smallest runs of axes of equal product. `None` if the shapes differ in size or have a dimension of size 0.
fn runs(from: &[usize], to: &[usize]) -> Option<Vec<Run>> {
    if from.contains(&0) || to.contains(&0) {
        return None;
    }
    let mut a = (0..from.len()).filter(|&i| from[i] != 1).peekable();
    let mut b = (0..to.len()).filter(|&i| to[i] != 1).peekable();
    let mut out = vec![];
    while a.peek().is_some() || b.peek().is_some() {
        let mut run = Run { from: vec![], to: vec![] };
        let (mut x, mut y) = (1usize, 1usize);
        while run.from.is_empty() || x != y {
            if x <= y {
                let i = a.next()?;
                x = x.checked_mul(from[i])?;
                run.from.push(i);
            } else {
                let i = b.next()?;
                y = y.checked_mul(to[i])?;
                run.to.push(i);
            }
        }
        out.push(run);
    }
    Some(out)
}

/// The layout with the axes larger than 1 in `order`, and the others where they disturb least.
fn with_ones(shape: &[usize], order: &[usize]) -> Layout {
    let rank = shape.len();
    for l in [Layout::identity(rank), Layout::channel_last(rank)] {
        if l.order().iter().filter(|&&a| shape[a] != 1).eq(order.iter()) {
            return l;
        }
    }
    let mut all = order.to_vec();
    for axis in (0..rank).filter(|&a| shape[a] == 1) {
        let at = (0..axis).rev().find_map(|before| all.iter().position(|&a| a == before)).map_or(0, |i| i + 1);
        all.insert(at, axis);
    }
    Layout::from_order(all)
}

/// The layout of the result when a tensor of shape `from` in `layout` is reshaped to `to` without moving an element.
/// `None` if elements have to move, or if the shapes differ in size.
pub fn reshaped_layout(from: &[usize], layout: &Layout, to: &[usize]) -> Option<Layout> {
    let runs = runs(from, to)?;
    let memory: Vec<usize> = layout.order().iter().copied().filter(|&a| from[a] != 1).collect();
    let mut rest = memory.as_slice();
    let mut order = vec![];
    while let Some(first) = rest.first() {
        let run = runs.iter().find(|r| r.from.first() == Some(first))?;
        rest = rest.strip_prefix(run.from.as_slice())?;
        order.extend(&run.to);
    }
    Some(with_ones(to, &order))
}

/// Where the elements should move so that the Reshape of `from` (in `layout`) to `to` needs no further move: the
/// layout to bring the input into, and the layout that the output then has. The order of the model, unless the channel
/// of an image is innermost in memory and can stay so. `None` if the shapes differ in size.
pub fn gathering_layouts(from: &[usize], layout: &Layout, to: &[usize]) -> Option<(Layout, Layout)> {
    let runs = runs(from, to)?;
    let place = |axis: &usize| layout.physical(*axis);
    let innermost = layout.order().iter().rev().find(|&&a| from[a] != 1);
    let ends: [fn(&Run) -> Option<&usize>; 2] = [|r| r.from.last(), |r| r.from.first()];
    for end in ends {
        let mut sorted: Vec<&Run> = runs.iter().collect();
        sorted.sort_by_key(|r| end(r).map(place));
        let order: Vec<usize> = sorted.iter().flat_map(|r| r.to.clone()).collect();
        let out = with_ones(to, &order);
        let stays = sorted.last().zip(innermost).is_some_and(|(run, axis)| run.from.contains(axis));
        if to.len() >= 4 && stays && out == Layout::channel_last(to.len()) && !order.is_sorted() {
            let order: Vec<usize> = sorted.iter().flat_map(|r| r.from.clone()).collect();
            return Some((with_ones(from, &order), out));
        }
    }
    Some((Layout::identity(from.len()), Layout::identity(to.len())))
}

/// A permutation without the axes of size 1, and with axes that stay side by side joined.
fn joined(dims: &[u32], perm: &[usize]) -> (Vec<u32>, Vec<usize>) {
    let kept: Vec<usize> = perm.iter().copied().filter(|&p| dims[p] != 1).collect();
    let mut blocks: Vec<(usize, u32)> = vec![];
    let mut last: Option<usize> = None;
    for &p in &kept {
        let follows = last.is_some_and(|l| l < p && (l + 1..p).all(|a| dims[a] == 1));
        match blocks.last_mut() {
            Some((_, size)) if follows => *size = size.saturating_mul(dims[p]),
            _ => blocks.push((p, dims[p])),
        }
        last = Some(p);
    }
    let mut source: Vec<(usize, u32)> = blocks.clone();
    source.sort_unstable();
    let perm = blocks.iter().filter_map(|b| source.iter().position(|s| s == b)).collect();
    (source.into_iter().map(|(_, size)| size).collect(), perm)
}

/// The swap of two neighbouring blocks of axes that leaves the fewest blocks for the rest of the permutation. Given
/// and returned as permutations: first the swap, then the rest.
fn first_swap(perm: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let n = perm.len();
    let mut best: Option<(usize, Vec<usize>, Vec<usize>)> = None;
    for i in 0..n {
        for j in i + 1..n {
            for k in j + 1..=n {
                let swap: Vec<usize> = (0..i).chain(j..k).chain(i..j).chain(k..n).collect();
                let rest: Vec<usize> = perm.iter().filter_map(|p| swap.iter().position(|s| s == p)).collect();
                let blocks = 1 + rest.windows(2).filter(|w| w[1] != w[0] + 1).count();
                if best.as_ref().is_none_or(|b| blocks < b.0) {
                    best = Some((blocks, swap, rest));
                }
            }
        }
    }
    best.map_or_else(|| (perm.to_vec(), (0..n).collect()), |(_, swap, rest)| (swap, rest))
}

/// The largest rank that the HTP's Transpose takes for a type.
fn transpose_rank(dtype: QnnType) -> usize {
    if matches!(dtype, QnnType::INT_32 | QnnType::UINT_32 | QnnType::BOOL_8) { 4 } else { MAX_RANK }
}

/// The elements of `t`, seen as of dims `dims`, with axes permuted: axis `i` of the result is axis `perm[i]`. The dims
/// of the tensor that is returned hold the elements in this order, grouped somehow: `t` itself if nothing moves.
pub(super) fn permute(low: &mut Lowering<'_>, t: TensorId, dims: &[u32], perm: &[usize], stem: &str) -> TensorId {
    let (small, order) = joined(dims, perm);
    if order.is_sorted() {
        return t;
    }
    let dtype = low.qnn.tensor(t).dtype;
    if dtype == QnnType::UINT_8 {
        // The HTP's Transpose takes no UINT_8; the way through 32 bits is exact.
        let wide = step(low, "Cast", t, QnnType::INT_32, low.qnn.tensor(t).dims.clone(), vec![], stem);
        let moved = permute(low, wide, dims, perm, stem);
        let dims = low.qnn.tensor(moved).dims.clone();
        return step(low, "Cast", moved, dtype, dims, vec![], stem);
    }
    let limit = transpose_rank(dtype);
    if low.qnn.tensor(t).dims == dims && dims.len() <= limit {
        return transpose(low, t, perm, stem);
    }
    if order.len() <= limit {
        let t = regrouped(low, t, &small, stem);
        return transpose(low, t, &order, stem);
    }
    let (swap, rest) = first_swap(&order);
    let moved = permute(low, t, &small, &swap, stem);
    let dims: Vec<u32> = swap.iter().map(|&p| small[p]).collect();
    permute(low, moved, &dims, &rest, stem)
}

fn transpose(low: &mut Lowering<'_>, t: TensorId, perm: &[usize], stem: &str) -> TensorId {
    let tensor = low.qnn.tensor(t);
    let (dtype, dims) = (tensor.dtype, perm.iter().map(|&p| tensor.dims[p]).collect());
    let perm: Vec<u32> = perm.iter().map(|&p| p as u32).collect();
    step(low, "Transpose", t, dtype, dims, vec![("perm".into(), Param::u32s(&perm))], stem)
}

fn regrouped(low: &mut Lowering<'_>, t: TensorId, dims: &[u32], stem: &str) -> TensorId {
    let tensor = low.qnn.tensor(t);
    if tensor.dims == dims {
        return t;
    }
    let dtype = tensor.dtype;
    step(low, "Reshape", t, dtype, dims.to_vec(), vec![], stem)
}

fn step(
    low: &mut Lowering<'_>,
    op: &str,
    t: TensorId,
    dtype: QnnType,
    dims: Vec<u32>,
    params: Vec<(String, Param)>,
    stem: &str,
) -> TensorId {
    let quant = low.qnn.tensor(t).quant.clone();
    let out = low.add_tensor(stem, dtype, dims, quant);
    low.add_op(op, &[t], &[out], params);
    out
}

/// Ops that only rename axes here: a value of any rank may stand between two of them.
const RENAMING: [&str; 5] = ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"];

impl LowerCx<'_, '_> {
    /// Every tensor that holds input `i`, with its layout. The dims of a tensor may group the elements otherwise.
    pub fn places(&mut self, i: usize) -> Result<Vec<(Layout, TensorId)>, Refusal> {
        let v = self.input_value(i)?;
        Ok(self.low.places(v)?.into_iter().map(|p| (p.layout, p.tensor)).collect())
    }

    /// A tensor with the elements of input `i` in the order of `layout`, whatever its dims.
    pub fn ordered(&mut self, i: usize, layout: &Layout) -> Result<TensorId, Refusal> {
        let v = self.input_value(i)?;
        Ok(self.low.ordered(v, layout)?.tensor)
    }

    /// The QNN type in which values of an ONNX type are kept inside the graph.
    pub fn held_as(&self, dtype: DataType) -> QnnType {
        self.low.inner_type(dtype)
    }

    /// Refuses output `slot` if its rank is over QNN's limit and somebody needs it as a tensor of this rank.
    pub fn check_rank(&self, slot: usize) -> Result<(), Refusal> {
        let v = self.output_value(slot)?;
        let rank = self.low.tensor_type(v)?.1.len();
        if rank <= MAX_RANK {
            return Ok(());
        }
        let Some(reader) = self.reader_of_high_rank(v) else { return Ok(()) };
        let mut r = Refusal::new(
            codes::RANK,
            format!("{reader} needs {:?} as a tensor of rank {rank}", self.low.graph.value(v).name),
        );
        r.0[0] = r.0[0].clone().expected(format!("rank 1 to {MAX_RANK}"), format!("rank {rank}"));
        Err(r.fix("merge axes that are not needed apart before this node"))
    }

    /// Who needs the value, of a rank that QNN does not hold, as a tensor.
    fn reader_of_high_rank(&self, v: ValueId) -> Option<String> {
        let graph = self.low.graph;
        if graph.outputs.contains(&v) {
            return Some("the graph's output".into());
        }
        graph.nodes().filter(|(_, n)| n.reads().any(|r| r == v)).find_map(|(_, n)| {
            let renames = n.domain.is_empty() && RENAMING.contains(&n.op_type.as_str()) && n.input(0) == Some(v);
            let Some(out) = n.output(0).filter(|_| renames || merges_axes(n)) else {
                return Some(format!("{} {:?}", n.op_name(), n.name));
            };
            let rank = graph.value(out).ty.tensor().map_or(0, |t| t.shape.len());
            if rank > MAX_RANK { self.reader_of_high_rank(out) } else { None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Tensor;

    fn layout(order: &[usize]) -> Layout {
        Layout::from_order(order.to_vec())
    }

    #[test]
    fn joining_spatial_axes_stays_channel_last() {
        let l = reshaped_layout(&[2, 8, 3, 5], &Layout::channel_last(4), &[2, 8, 15]).unwrap();
        assert_eq!(l, layout(&[0, 2, 1]));
    }

    #[test]
    fn splitting_channels_stays_channel_last() {
        let l = reshaped_layout(&[2, 8, 3, 5], &Layout::channel_last(4), &[2, 4, 2, 3, 5]).unwrap();
        assert_eq!(l, layout(&[0, 3, 4, 1, 2]));
    }

    #[test]
    fn flattening_an_image_moves_and_flattening_a_pixel_does_not() {
        assert_eq!(reshaped_layout(&[2, 8, 3, 5], &Layout::channel_last(4), &[2, 120]), None);
        let l = reshaped_layout(&[2, 8, 1, 1], &Layout::channel_last(4), &[2, 8]).unwrap();
        assert!(l.is_identity());
    }

    #[test]
    fn pixel_shuffle_is_one_transpose_that_stays_channel_last() {
        let split = reshaped_layout(&[1, 16, 3, 3], &Layout::channel_last(4), &[1, 2, 2, 4, 3, 3]).unwrap();
        assert_eq!(split.order(), [0, 4, 5, 1, 2, 3]);
        // Transpose with perm [0, 3, 4, 1, 5, 2] renames the axes.
        let perm = [0, 3, 4, 1, 5, 2];
        let order = split.order().iter().map(|a| perm.iter().position(|p| p == a).unwrap()).collect();
        let renamed = Layout::from_order(order);
        let shape = [1, 4, 3, 2, 3, 2];
        assert_eq!(reshaped_layout(&shape, &renamed, &[1, 4, 6, 6]), None);
        let (from, to) = gathering_layouts(&shape, &renamed, &[1, 4, 6, 6]).unwrap();
        assert_eq!(to, Layout::channel_last(4));
        let dims: Vec<u32> = renamed.apply(&shape).into_iter().map(|d| d as u32).collect();
        let (small, order) = joined(&dims, &renamed.perm_to(&from));
        assert_eq!((small, order), (vec![3, 3, 2, 8], vec![0, 2, 1, 3]));
    }

    #[test]
    fn joining_heads_goes_back_to_the_models_order() {
        // [batch, heads, seq, size] renamed to [batch, seq, heads, size], then [batch, seq, heads * size].
        let renamed = layout(&[0, 2, 1, 3]);
        assert_eq!(reshaped_layout(&[2, 7, 4, 8], &renamed, &[2, 7, 32]), None);
        let (from, to) = gathering_layouts(&[2, 7, 4, 8], &renamed, &[2, 7, 32]).unwrap();
        assert!(from.is_identity() && to.is_identity());
    }

    struct Lcg(u64);

    impl Lcg {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }

        fn perm(&mut self, n: usize) -> Vec<usize> {
            let mut left: Vec<usize> = (0..n).collect();
            (0..n).map(|_| left.remove(self.below(left.len()))).collect()
        }

        /// Random factors, with product `product` where that is given.
        fn shape(&mut self, primes: &[usize]) -> Vec<usize> {
            let mut out = vec![1];
            for &p in primes {
                if self.below(2) == 0 {
                    out.push(1);
                }
                if let Some(last) = out.last_mut() {
                    *last *= p;
                }
            }
            if self.below(2) == 0 {
                out.insert(self.below(out.len()), 1);
            }
            out
        }
    }

    fn iota(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        Tensor::from_i64(shape.to_vec(), &(0..n as i64).collect::<Vec<_>>())
    }

    #[test]
    fn layouts_hold_on_random_shapes() {
        let mut rng = Lcg(7);
        let mut free = 0;
        for _ in 0..4000 {
            let primes: Vec<usize> = (0..rng.below(5)).map(|_| [2, 3][rng.below(2)]).collect();
            let (from, to) = (rng.shape(&primes), rng.shape(&primes));
            let l = Layout::from_order(rng.perm(from.len()));
            let logical = iota(&from);
            let reshaped = logical.reshaped(to.clone()).unwrap();
            let memory = |t: &Tensor, l: &Layout| t.transposed(l.order()).unwrap().bytes();
            if let Some(out) = reshaped_layout(&from, &l, &to) {
                free += 1;
                assert_eq!(memory(&logical, &l), memory(&reshaped, &out), "{from:?} {l:?} {to:?} {out:?}");
            }
            let (inner, out) = gathering_layouts(&from, &l, &to).unwrap();
            assert_eq!(memory(&logical, &inner), memory(&reshaped, &out), "{from:?} {l:?} {to:?}");
        }
        assert!(free > 1000);
    }

    #[test]
    fn joined_and_swapped_permutations_move_the_same_elements() {
        let mut rng = Lcg(11);
        for _ in 0..2000 {
            let dims: Vec<usize> = (0..=rng.below(7)).map(|_| 1 + rng.below(3)).collect();
            let perm = rng.perm(dims.len());
            let want = iota(&dims).transposed(&perm).unwrap().bytes();
            let small: Vec<u32> = dims.iter().map(|&d| d as u32).collect();
            let (mut small, mut order) = joined(&small, &perm);
            let mut data = iota(&dims);
            let mut swaps = 0;
            while order.len() > 4 {
                let (swap, rest) = first_swap(&order);
                data = data.reshaped(small.iter().map(|&d| d as usize).collect()).unwrap().transposed(&swap).unwrap();
                let dims: Vec<u32> = swap.iter().map(|&p| small[p]).collect();
                (small, order) = joined(&dims, &rest);
                swaps += 1;
                assert!(swaps < 8);
            }
            data = data.reshaped(small.iter().map(|&d| d as usize).collect()).unwrap().transposed(&order).unwrap();
            assert_eq!(data.bytes(), want, "{dims:?} {perm:?}");
        }
    }
}
