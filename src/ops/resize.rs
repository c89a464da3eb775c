//! Resize and its predecessor Upsample.
//!
//! Each output element is a weighted sum of input elements, axis by axis, with weights that depend on sizes and
//! attributes alone. So whatever the HTP's own Resize does not do exactly (2.47: nearest modes beside pixel repetition,
//! scales that are not the quotient of the sizes, antialiasing, cropping) is a Gather or a MatMul with constants.

use super::{InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::ir::{Attrs, DataType, Dim, Shape};

mod axis;
mod lowering;
#[cfg(test)]
mod tests;

use axis::{Coordinates, Interpolation, Nearest};

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("Resize", infer).fold(lowering::fold).lower(lowering::lower),
    OpDef::new("Upsample", infer).fold(lowering::fold).lower(lowering::lower),
];

/// The attributes, checked.
#[derive(Clone, Debug)]
struct Form {
    mode: Interpolation,
    coordinates: Coordinates,
    extrapolation: f32,
    keep_aspect: Option<KeepAspect>,
    /// Upsample, and Resize before opset 11.
    old: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum KeepAspect {
    NotLarger,
    NotSmaller,
}

impl Form {
    fn read(op: &str, version: i64, attrs: &Attrs) -> Result<Self, OpError> {
        let old = op == "Upsample" || version < 11;
        let nearest = match attrs.str_or("nearest_mode", "round_prefer_floor") {
            _ if old => Nearest::Simple,
            "round_prefer_floor" => Nearest::RoundPreferFloor,
            "round_prefer_ceil" => Nearest::RoundPreferCeil,
            "floor" => Nearest::Floor,
            "ceil" => Nearest::Ceil,
            other => return invalid(format!("attribute nearest_mode is {other:?}")),
        };
        let antialias = !old && attrs.int_or("antialias", 0) != 0;
        let exclude_outside = !old && attrs.int_or("exclude_outside", 0) != 0;
        let mode = match attrs.str_or("mode", "nearest") {
            "nearest" => Interpolation::Nearest(nearest),
            "linear" | "bilinear" => Interpolation::Linear { antialias, exclude_outside },
            "cubic" => Interpolation::Cubic { a: attrs.float_or("cubic_coeff_a", -0.75), antialias, exclude_outside },
            other => return invalid(format!("attribute mode is {other:?}; it is nearest, linear or cubic")),
        };
        let coordinates = match attrs.str_or("coordinate_transformation_mode", "half_pixel") {
            _ if old => Coordinates::Asymmetric,
            "half_pixel" => Coordinates::HalfPixel,
            "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
            "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
            "align_corners" => Coordinates::AlignCorners,
            "asymmetric" => Coordinates::Asymmetric,
            "tf_half_pixel_for_nn" => Coordinates::TfHalfPixel,
            "tf_crop_and_resize" => Coordinates::Crop,
            other => return invalid(format!("attribute coordinate_transformation_mode is {other:?}")),
        };
        let keep_aspect = match attrs.str_or("keep_aspect_ratio_policy", "stretch") {
            "stretch" => None,
            "not_larger" => Some(KeepAspect::NotLarger),
            "not_smaller" => Some(KeepAspect::NotSmaller),
            other => return invalid(format!("attribute keep_aspect_ratio_policy is {other:?}")),
        };
        Ok(Self { mode, coordinates, extrapolation: attrs.float_or("extrapolation_value", 0.0), keep_aspect, old })
    }
}

/// The axes that `scales`, `sizes` and `roi` speak of, in their order.
fn axes_of(attrs: &Attrs, rank: usize) -> Result<Vec<usize>, OpError> {
    let Some(axes) = attrs.ints("axes") else { return Ok((0..rank).collect()) };
    let mut out = vec![];
    for &a in axes {
        let a = normalise_axis(a, rank).map_err(|e| OpError::Invalid(format!("attribute axes: {e}")))?;
        if out.contains(&a) {
            return invalid(format!("attribute axes {axes:?} name axis {a} twice"));
        }
        out.push(a);
    }
    Ok(out)
}

/// The size that a scale gives. As in ONNX Runtime, the product is rounded to 32 bits before it is cut.
fn scaled(size: i64, scale: f32) -> i64 {
    (size as f32 * scale).floor() as i64
}

fn scaled_dim(d: &Dim, scale: f32) -> Dim {
    let inverse = 1.0 / scale;
    match d {
        Dim::Known(n) => Dim::Known(scaled(*n, scale)),
        d if scale.fract() == 0.0 => d.mul(&Dim::Known(scale as i64)),
        d if inverse.fract() == 0.0 => {
            d.floor_div(&Dim::Known(inverse as i64)).unwrap_or_else(|| Dim::symbol(format!("floor(({d})*{scale})")))
        }
        Dim::Expr(_) => Dim::symbol(format!("floor(({d})*{scale})")),
    }
}

fn check_scales(scales: &[f32], axes: usize) -> Result<(), OpError> {
    if scales.len() != axes {
        return invalid(format!("scales {scales:?} has {} values, {axes} are needed", scales.len()));
    }
    match scales.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        Some(s) => invalid(format!("scales {scales:?}: {s} is not above 0")),
        None => Ok(()),
    }
}

/// Is input `i` given and not empty?
fn given(cx: &InferCx<'_>, i: usize) -> bool {
    cx.has(i) && cx.constant(i).is_none_or(|t| !t.is_empty())
}

/// Which input holds the scales, in this version.
fn scales_input(old: bool) -> usize {
    if old { 1 } else { 2 }
}

/// One scale for all axes that keeps the aspect ratio.
fn common_scale(policy: KeepAspect, sizes: &[i64], from: &[i64]) -> f32 {
    let all = sizes.iter().zip(from).map(|(&s, &d)| s as f32 / d as f32);
    match policy {
        KeepAspect::NotLarger => all.fold(f32::INFINITY, f32::min),
        KeepAspect::NotSmaller => all.fold(0.0, f32::max),
    }
}

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let t = cx.ty(0)?.clone();
    let form = Form::read(&cx.node.op_type, cx.node.version, &cx.node.attrs)?;
    let rank = t.shape.len();
    let axes = axes_of(&cx.node.attrs, rank)?;
    let mut shape: Shape = t.shape.clone();
    let scales_at = scales_input(form.old);
    if let Some(scales) = cx.node.attrs.floats("scales") {
        check_scales(scales, axes.len())?;
        for (&a, &s) in axes.iter().zip(scales) {
            shape[a] = scaled_dim(&t.shape[a], s);
        }
    } else if !form.old && given(cx, 3) {
        if given(cx, scales_at) && cx.constant(scales_at).is_some() {
            return invalid("both scales and sizes are given");
        }
        let sizes = cx.need_elements(3)?;
        if sizes.len() != axes.len() {
            return invalid(format!("sizes has {} values, {} are needed", sizes.len(), axes.len()));
        }
        if let Some(s) = sizes.iter().find(|s| s.known().is_some_and(|n| n < 1)) {
            return invalid(format!("sizes: {s} is not above 0"));
        }
        match form.keep_aspect {
            None => {
                for (&a, s) in axes.iter().zip(sizes) {
                    shape[a] = s;
                }
            }
            Some(policy) => {
                let sizes = cx.need_ints(3)?;
                let from: Option<Vec<i64>> = axes.iter().map(|&a| t.shape[a].known().filter(|&n| n > 0)).collect();
                let Some(from) = from else {
                    return Err(OpError::DataDependent(
                        "the input sizes, whose aspect ratio is kept, are not known".into(),
                    ));
                };
                let scale = common_scale(policy, &sizes, &from);
                for (&a, &n) in axes.iter().zip(&from) {
                    shape[a] = Dim::Known(kept(n, scale));
                }
            }
        }
    } else if cx.has(scales_at) {
        if cx.dtype(scales_at)? != DataType::F32 {
            return invalid(format!("scales are {}; they must be float32", cx.dtype(scales_at)?));
        }
        let Some(scales) = cx.constant(scales_at).and_then(crate::ir::Tensor::to_f32s) else {
            return Err(cx.data_dependent(scales_at));
        };
        check_scales(&scales, axes.len())?;
        for (&a, &s) in axes.iter().zip(&scales) {
            shape[a] = scaled_dim(&t.shape[a], s);
        }
    } else {
        return invalid("neither scales nor sizes are given");
    }
    cx.set(0, t.dtype, shape);
    Ok(())
}

/// The size that a common scale gives: halves round up.
fn kept(size: i64, scale: f32) -> i64 {
    (size as f32 * scale + 0.5).floor() as i64
}
