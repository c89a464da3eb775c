//! The order in which a tensor's axes lie in memory.

/// Physical axis `i` holds logical axis `self.0[i]`. QNN's spatial ops want the channel last; ONNX has it second.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout(Vec<usize>);

impl Layout {
    /// The logical order itself.
    pub fn identity(rank: usize) -> Self {
        Self((0..rank).collect())
    }

    /// N, spatial axes, C: logical axis 1 moved to the end. The identity for rank below 3.
    pub fn channel_last(rank: usize) -> Self {
        if rank < 3 {
            return Self::identity(rank);
        }
        Self(std::iter::once(0).chain(2..rank).chain([1]).collect())
    }

    /// Physical axis `i` holds logical axis `order[i]`.
    pub fn from_order(order: Vec<usize>) -> Self {
        Self(order)
    }

    pub fn order(&self) -> &[usize] {
        &self.0
    }

    pub fn rank(&self) -> usize {
        self.0.len()
    }

    pub fn is_identity(&self) -> bool {
        self.0.iter().enumerate().all(|(i, &a)| i == a)
    }

    /// The physical axis that holds logical axis `axis`.
    pub fn physical(&self, axis: usize) -> usize {
        self.0.iter().position(|&a| a == axis).unwrap_or(axis)
    }

    /// Logical dims in physical order.
    pub fn apply<T: Clone>(&self, logical: &[T]) -> Vec<T> {
        self.0.iter().map(|&a| logical[a].clone()).collect()
    }

    /// The `perm` of the Transpose that turns a tensor in this layout into one in `to`.
    pub fn perm_to(&self, to: &Self) -> Vec<usize> {
        to.0.iter().map(|&a| self.physical(a)).collect()
    }
}

/// Does permuting axes of these dims leave the order of elements as it is (only axes of size 1 move)?
pub fn keeps_order<T: PartialEq + From<u8>>(dims: &[T], perm: &[usize]) -> bool {
    let moved: Vec<usize> = perm.iter().copied().filter(|&p| dims[p] != T::from(1)).collect();
    moved.is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_last_and_back() {
        let l = Layout::channel_last(4);
        assert_eq!(l.apply(&['n', 'c', 'h', 'w']), ['n', 'h', 'w', 'c']);
        assert_eq!(Layout::identity(4).perm_to(&l), [0, 2, 3, 1]);
        assert_eq!(l.perm_to(&Layout::identity(4)), [0, 3, 1, 2]);
        assert_eq!(l.physical(1), 3);
    }

    #[test]
    fn ones_move_freely() {
        assert!(keeps_order(&[1u32, 1, 1, 8], &[0, 3, 1, 2]));
        assert!(!keeps_order(&[1u32, 2, 1, 8], &[0, 3, 1, 2]));
    }
}
