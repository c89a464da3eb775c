//! How scales spread over a tensor.

use crate::ir::{Attrs, Dim, show_shape};
use crate::ops::normalise_axis;

/// One scale for the tensor, for each index along an axis, or for each block along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Grain {
    Tensor,
    Axis(usize),
    Block { axis: usize, size: usize },
}

impl Grain {
    /// Read off the shapes of the tensor and its scales, and the attributes `axis` and `block_size`.
    pub(in crate::ops) fn of(
        x: &[Dim],
        scale: &[Dim],
        attrs: &Attrs,
        version: i64,
        domain: &str,
    ) -> Result<Self, String> {
        if scale.iter().all(Dim::is_one) && scale.len() <= 1 {
            return Ok(Self::Tensor);
        }
        let block = attrs.int_or("block_size", 0);
        if block < 0 {
            return Err(format!("attribute block_size is {block}; it must be positive"));
        }
        let axis = attrs.int_or("axis", 1);
        if scale.len() == 1 && block == 0 {
            if domain.is_empty() && version < 13 {
                return Err(format!("the scale is {}: before opset 13 it must be a scalar", show_shape(scale)));
            }
            // A vector has no other axis than its only one.
            let axis = if x.len() == 1 { 0 } else { at(axis, x.len())? };
            return match (&scale[0], &x[axis]) {
                (Dim::Known(n), Dim::Known(d)) if n != d => {
                    Err(format!("{n} scales for a dimension of {d} (axis {axis} of {})", show_shape(x)))
                }
                _ => Ok(Self::Axis(axis)),
            };
        }
        if block == 0 {
            return Err(format!(
                "the scale is {}: without attribute block_size it must be a scalar or a vector",
                show_shape(scale)
            ));
        }
        if scale.len() != x.len() {
            return Err(format!(
                "blocked quantisation needs a scale of the input's rank {}; it is {}",
                x.len(),
                show_shape(scale)
            ));
        }
        let axis = at(axis, x.len())?;
        for (i, (s, d)) in scale.iter().zip(x).enumerate() {
            let (Dim::Known(s), Dim::Known(d)) = (s, d) else { continue };
            let want = if i == axis { (d - 1).div_euclid(block) + 1 } else { *d };
            if *s != want {
                return Err(format!(
                    "the scale is {}: for {} with blocks of {block} along axis {axis}, dimension {i} must be {want}",
                    show_shape(scale),
                    show_shape(x)
                ));
            }
        }
        Ok(Self::Block { axis, size: block as usize })
    }

    /// Which scale belongs to which element of a row-major tensor of this shape.
    pub(in crate::ops) fn index(self, shape: &[usize]) -> ScaleIndex {
        let inner = |axis: usize| shape[axis + 1..].iter().product::<usize>().max(1);
        match self {
            Self::Tensor => ScaleIndex { inner: 1, length: 1, size: 1, blocks: None },
            Self::Axis(axis) => ScaleIndex { inner: inner(axis), length: shape[axis].max(1), size: 1, blocks: None },
            Self::Block { axis, size } => ScaleIndex {
                inner: inner(axis),
                length: shape[axis].max(1),
                size,
                blocks: Some(shape[axis].div_ceil(size)),
            },
        }
    }
}

fn at(axis: i64, rank: usize) -> Result<usize, String> {
    normalise_axis(axis, rank).map_err(|e| format!("attribute axis: {e}"))
}

/// See [`Grain::index`].
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct ScaleIndex {
    /// Elements behind the axis.
    inner: usize,
    /// Length of the axis.
    length: usize,
    /// Elements of a block.
    size: usize,
    /// Blocks along the axis; `None` where the scales are a vector along it.
    blocks: Option<usize>,
}

impl ScaleIndex {
    /// The scale of element `i`.
    pub(in crate::ops) fn of(&self, i: usize) -> usize {
        let (row, behind) = (i / self.inner, i % self.inner);
        let at = row % self.length;
        match self.blocks {
            None => at,
            Some(n) => (row / self.length * n + at / self.size) * self.inner + behind,
        }
    }
}
