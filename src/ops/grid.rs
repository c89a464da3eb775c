//! Sampling at computed positions: GridSample, AffineGrid; and Col2Im.

use super::conv_transpose::{Cut, Transposed};
use super::sampling::{self, Taps};
use super::{InferCx, OpDef, OpError, compose, conv, invalid, spatial};
use crate::ir::{Attrs, Dim, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("GridSample", infer_grid_sample).lower(lower_grid_sample),
    OpDef::new("AffineGrid", infer_affine_grid).lower(lower_affine_grid),
    OpDef::new("Col2Im", infer_col2im).lower(lower_col2im),
];

fn infer_grid_sample(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (x, grid) = (cx.ty(0)?, cx.shape(1)?);
    let rank = x.shape.len();
    if rank < 3 || grid.len() != rank {
        return invalid(format!(
            "input {} and grid {} must have the same rank, 3 or more",
            show_shape(&x.shape),
            show_shape(grid)
        ));
    }
    if let Dim::Known(n) = grid[rank - 1]
        && n != rank as i64 - 2
    {
        return invalid(format!("the grid has {n} coordinates for {} spatial axes", rank - 2));
    }
    if let (Dim::Known(a), Dim::Known(b)) = (&x.shape[0], &grid[0])
        && a != b
    {
        return invalid(format!("the input has {a} images and the grid {b}"));
    }
    let mut shape = x.shape[..2].to_vec();
    shape.extend(grid[1..rank - 1].iter().cloned());
    cx.set(0, x.dtype, shape);
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Sampling {
    Linear,
    Nearest,
    Cubic,
}

fn lower_grid_sample(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let attrs = cx.attrs();
    let mode = match attrs.str_or("mode", "linear") {
        "bilinear" | "linear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "bicubic" | "cubic" => Sampling::Cubic,
        other => return Err(Refusal::form(format!("attribute mode is {other:?}"))),
    };
    let padding = match attrs.str_or("padding_mode", "zeros") {
        "zeros" => 0,
        "border" => 1,
        "reflection" => 2,
        other => return Err(Refusal::form(format!("attribute padding_mode is {other:?}"))),
    };
    let align = attrs.int_or("align_corners", 0) != 0;
    let rank = cx.rank(0)?;
    if rank != 4 || mode == Sampling::Cubic {
        if padding == 2 {
            return Err(Refusal::form(format!(
                "padding_mode is reflection for mode {:?} and rank {rank}; the HTP reflects in linear images",
                attrs.str_or("mode", "linear")
            )));
        }
        return gather_grid(cx, mode, padding == 0, align);
    }
    let x = spatial::channel_last(cx, 0)?;
    let mut grid = cx.input(1)?;
    if mode == Sampling::Nearest {
        let shape = cx.shape(0)?;
        grid = snapped(cx, grid, [shape[3], shape[2]], align);
    }
    let y = cx.output(0, &Layout::channel_last(4))?;
    cx.op(
        "GridSample",
        &[x, grid],
        &[y],
        &[
            ("align_corners", Param::bool(align)),
            ("mode", Param::u32(u32::from(mode == Sampling::Nearest))),
            ("padding_mode", Param::u32(padding)),
        ],
    );
    Ok(())
}

/// What the HTP's GridSample does not do: volumes, and cubic convolution.
fn gather_grid(cx: &mut LowerCx<'_, '_>, mode: Sampling, zeros: bool, align: bool) -> Result<(), Refusal> {
    let (shape, grid_shape) = (cx.shape(0)?, cx.shape(1)?);
    spatial::check_spatial(shape.len())?;
    let sizes = &shape[2..];
    let (batch, channels) = (shape[0], shape[1]);
    let places: usize = grid_shape[1..grid_shape.len() - 1].iter().product();
    let samples = batch * places;
    if mode == Sampling::Cubic && sizes.len() > 2 || samples.saturating_mul(channels) > 1 << 24 {
        return Err(Refusal::form(format!(
            "GridSample of rank {} at {samples} positions; images of rank 4 are sampled",
            shape.len()
        )));
    }
    let grid = cx.input(1)?;
    let grid = cx.reshape(grid, &[samples as u32, sizes.len() as u32]);
    let mut axes = vec![];
    for (i, &size) in sizes.iter().enumerate() {
        // Coordinates stand innermost first.
        let at = (sizes.len() - 1 - i) as u32;
        let column = compose::slice(cx, grid, 1, at, at + 1);
        let column = cx.reshape(column, &[samples as u32]);
        let middle = (size as f32 - 1.0) / 2.0;
        let scaled = compose::scale(cx, column, if align { middle } else { size as f32 / 2.0 });
        let middle = cx.float_scalar(middle);
        let position = compose::add(cx, scaled, middle);
        let (first, weights) = match mode {
            Sampling::Nearest => {
                let whole = compose::unary(cx, "ElementWiseRound", position);
                (cx.cast(whole, QnnType::INT_32), vec![None])
            }
            Sampling::Linear => {
                let (whole, rest) = sampling::split(cx, position);
                (whole, sampling::linear(cx, rest))
            }
            Sampling::Cubic => {
                let (whole, rest) = sampling::split(cx, position);
                let one = cx.i32_constant(&[1], &[-1]);
                (compose::add(cx, whole, one), sampling::cubic(cx, rest, -0.75))
            }
        };
        axes.push(Taps { first, weights, size: size as u32 });
    }
    let space: usize = sizes.iter().product();
    let image = cx.ordered(0, &Layout::channel_last(shape.len()))?;
    let table = cx.reshape(image, &[(batch * space) as u32, channels as u32]);
    let base = if batch > 1 {
        let starts: Vec<i32> = (0..batch).flat_map(|b| std::iter::repeat_n((b * space) as i32, places)).collect();
        Some(cx.i32_constant(&[samples as u32], &starts))
    } else {
        None
    };
    let y = sampling::sample(cx, table, base, &axes, zeros);
    spatial::give_channel_last(cx, 0, y)
}

/// The grid moved to the nearest pixel centres of an image of these sizes (the innermost first): ONNX rounds halves to
/// even, the HTP's GridSample does not.
fn snapped(cx: &mut LowerCx<'_, '_>, grid: TensorId, sizes: [usize; 2], align: bool) -> TensorId {
    // Position p of coordinate g: p = g * half + middle.
    let middle = sizes.map(|n| (n as f32 - 1.0) / 2.0);
    let half = if align { middle } else { sizes.map(|n| n as f32 / 2.0) };
    let back = half.map(|h| if h > 0.0 { 1.0 / h } else { 0.0 });
    let middle = cx.float_constant(&[2], &middle);
    let half = cx.float_constant(&[2], &half);
    let back = cx.float_constant(&[2], &back);
    let scaled = compose::mul(cx, grid, half);
    let position = compose::add(cx, scaled, middle);
    let whole = compose::unary(cx, "ElementWiseRound", position);
    let centred = compose::sub(cx, whole, middle);
    compose::mul(cx, centred, back)
}

fn infer_affine_grid(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let theta = cx.ty(0)?.clone();
    let size = cx.need_elements(1)?;
    let spatial = size.len().saturating_sub(2);
    if !(2..=3).contains(&spatial) {
        return invalid(format!("size has {} values; 4 or 5 are needed", size.len()));
    }
    if let [_, Dim::Known(r), Dim::Known(c)] = theta.shape[..]
        && (r != spatial as i64 || c != spatial as i64 + 1)
    {
        return invalid(format!("theta has shape {} for {spatial} spatial axes", show_shape(&theta.shape)));
    }
    let mut shape = vec![size[0].clone()];
    shape.extend(size[2..].iter().cloned());
    shape.push(Dim::from(spatial));
    cx.set(0, theta.dtype, shape);
    Ok(())
}

fn lower_affine_grid(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let align = cx.attrs().int_or("align_corners", 0) != 0;
    let out = cx.out_shape(0)?;
    let sizes = &out[1..out.len() - 1];
    let points: usize = sizes.iter().product();
    if points > 1 << 22 {
        return Err(Refusal::form(format!("AffineGrid of {points} points")));
    }
    if align && sizes.contains(&1) {
        return Err(Refusal::form(format!("align_corners is 1 with an axis of size 1 in {sizes:?}")));
    }
    // Rows of x, y (, z) and 1: the innermost axis comes first.
    let mut base = vec![];
    for flat in 0..points {
        let mut rest = flat;
        for &n in sizes.iter().rev() {
            let i = (rest % n) as f64;
            rest /= n;
            let at = if align { 2.0 * i / (n as f64 - 1.0) - 1.0 } else { (2.0 * i + 1.0) / n as f64 - 1.0 };
            base.push(at as f32);
        }
        base.push(1.0);
    }
    let theta = cx.input(0)?;
    let base = cx.float_constant(&[1, points as u32, sizes.len() as u32 + 1], &base);
    let grid = compose::matmul(cx, base, theta, true);
    compose::give(cx, 0, grid)
}

/// One number per spatial axis of Col2Im, each in `low..=2^24`.
fn list(attrs: &Attrs, name: &str, count: usize, low: i64, default: i64) -> Result<Vec<i64>, OpError> {
    let v = attrs.ints(name).map_or_else(|| vec![default; count], <[i64]>::to_vec);
    if v.len() == count && v.iter().all(|x| (low..=1 << 24).contains(x)) {
        return Ok(v);
    }
    invalid(format!("attribute {name} is {v:?}; {count} values of {low} or more are needed"))
}

fn infer_col2im(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let (image, block) = (cx.need_elements(1)?, cx.need_ints(2)?);
    let [batch, columns, _] = t.shape.as_slice() else {
        return invalid(format!("the input has shape {}; it must have rank 3", show_shape(&t.shape)));
    };
    if image.len() != block.len() {
        return invalid(format!("image_shape has {} values, block_shape {}", image.len(), block.len()));
    }
    let taps = block.iter().try_fold(1i64, |a, &b| a.checked_mul(b)).filter(|&t| t > 0);
    let Some(taps) = taps else { return invalid(format!("block_shape is {block:?}")) };
    let channels = match columns {
        Dim::Known(c) if c % taps != 0 => {
            return invalid(format!("{c} rows do not divide by the {taps} elements of block_shape {block:?}"));
        }
        d => d.floor_div(&Dim::Known(taps)).unwrap_or_else(|| d.clone()),
    };
    let mut shape = vec![batch.clone(), channels];
    shape.extend(image);
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// Col2Im adds up overlapping blocks: a transposed convolution whose kernel puts each row at its place.
fn lower_col2im(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let as_refusal = |e: OpError| Refusal::form(e.to_string());
    let block: Vec<usize> = cx.need_ints(2, "block_shape")?.iter().map(|&b| b.max(1) as usize).collect();
    let n = block.len();
    if !(1..=3).contains(&n) {
        return Err(Refusal::form(format!("Col2Im over {n} spatial axes")));
    }
    let attrs = cx.attrs();
    let strides = list(attrs, "strides", n, 1, 1).map_err(as_refusal)?;
    let dilations = list(attrs, "dilations", n, 1, 1).map_err(as_refusal)?;
    let pads = list(attrs, "pads", 2 * n, 0, 0).map_err(as_refusal)?;
    let (shape, out) = (cx.shape(0)?, cx.out_shape(0)?);
    let (channels, image) = (out[1], &out[2..]);
    let taps: usize = block.iter().product();
    let mut positions = vec![];
    let mut cuts = vec![];
    let mut extents = vec![];
    for i in 0..n {
        let extent = (block[i] as i64 - 1) * dilations[i] + 1;
        let room = image[i] as i64 + pads[i] + pads[i + n] - extent;
        if room < 0 {
            return Err(Refusal::form(format!("a block over {extent} elements does not fit axis {i} of {}", image[i])));
        }
        let count = room / strides[i] + 1;
        let full = (count - 1) * strides[i] + extent;
        positions.push(count as u32);
        cuts.push(Cut { before: pads[i], out: image[i] as i64, full });
        extents.push(extent as usize);
    }
    if positions.iter().product::<u32>() as usize != shape[2] {
        return Err(Refusal::form(format!("{} columns for {positions:?} positions of the block", shape[2])));
    }
    // Groups of TransposeConv3d give wrong numbers on the HTP (2.47): all channels in one then.
    let group = if n == 3 { 1 } else { channels };
    let outs = channels / group;
    let kernel: usize = extents.iter().product();
    let total = kernel.saturating_mul(shape[1]).saturating_mul(outs);
    if total > 1 << 24 {
        return Err(Refusal::form(format!("Col2Im of {channels} channels and blocks {block:?}: too many weights")));
    }
    let mut weights = vec![0f32; total];
    for tap in 0..taps {
        let (mut rest, mut at, mut step) = (tap, 0, 1);
        for i in (0..n).rev() {
            at += rest % block[i] * dilations[i] as usize * step;
            rest /= block[i];
            step *= extents[i];
        }
        for c in 0..channels {
            weights[(at * shape[1] + c * taps + tap) * outs + c % outs.max(1)] = 1.0;
        }
    }
    let mut dims = vec![shape[0] as u32];
    dims.extend(&positions);
    dims.push(shape[1] as u32);
    let mut kernel_dims: Vec<u32> = extents.iter().map(|&e| e as u32).collect();
    kernel_dims.extend([shape[1] as u32, outs as u32]);
    if n == 1 {
        dims.insert(1, 1);
        kernel_dims.insert(0, 1);
    }
    let x = cx.ordered(0, &Layout::from_order(vec![0, 2, 1]))?;
    let x = cx.reshape(x, &dims);
    let weights = cx.float_constant(&kernel_dims, &weights);
    let strides = strides.iter().map(|&s| s as u32).collect();
    let y = Transposed { x, weights, strides, cuts, group: group as u32 }.emit(cx, None)?;
    cx.alias(0, y, Layout::channel_last(out.len()))
}
