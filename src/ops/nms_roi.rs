//! Boxes: NonMaxSuppression, RoiAlign, MaxRoiPool.

use super::{InferCx, OpDef, OpError, conv, invalid, spatial};
use crate::ir::{Dim, show_shape};
use crate::lower::{Layout, LowerCx, Refusal};
use crate::qnn::graph::Param;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("NonMaxSuppression", infer_nms),
    OpDef::new("RoiAlign", infer_roi_align).lower(lower_roi_align),
    OpDef::new("MaxRoiPool", infer_max_roi_pool),
];

fn infer_nms(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (boxes, scores) = (cx.shape(0)?, cx.shape(1)?);
    let ([n, b, four], [m, _, c]) = (boxes.as_slice(), scores.as_slice()) else {
        return invalid(format!("boxes {} and scores {} must have rank 3", show_shape(boxes), show_shape(scores)));
    };
    let differ = |a: &Dim, b: &Dim| matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    if differ(n, m) || differ(b, c) || differ(four, &Dim::Known(4)) {
        return invalid(format!("boxes {} and scores {} do not fit", show_shape(boxes), show_shape(scores)));
    }
    Err(OpError::DataDependent("how many boxes are selected depends on the scores".into()))
}

/// The number of regions, and the channels of an image; checks ranks.
fn regions(cx: &InferCx<'_>, per_box: i64) -> Result<(Dim, Dim), OpError> {
    let (x, rois) = (cx.shape(0)?, cx.shape(1)?);
    let ([_, c, _, _], [n, k]) = (x.as_slice(), rois.as_slice()) else {
        return invalid(format!("input {} must have rank 4 and rois {} rank 2", show_shape(x), show_shape(rois)));
    };
    if k.known().is_some_and(|k| k != per_box) {
        return invalid(format!("rois have {k} numbers each; {per_box} are needed"));
    }
    Ok((n.clone(), c.clone()))
}

fn infer_roi_align(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (n, c) = regions(cx, 4)?;
    let attrs = &cx.node.attrs;
    let (h, w) = (attrs.int_or("output_height", 1), attrs.int_or("output_width", 1));
    if h < 1 || w < 1 {
        return invalid(format!("output_height {h} and output_width {w} must be 1 or more"));
    }
    cx.set(0, cx.ty(0)?.dtype, vec![n, c, Dim::Known(h), Dim::Known(w)]);
    Ok(())
}

fn lower_roi_align(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    conv::check_float(cx, 0)?;
    let attrs = cx.attrs();
    if attrs.str_or("mode", "avg") != "avg" {
        return Err(Refusal::form(format!("attribute mode is {:?}; the HTP averages", attrs.str_or("mode", "avg"))));
    }
    let shift = if cx.version() < 16 { "output_half_pixel" } else { "half_pixel" };
    let aligned = match attrs.str_or("coordinate_transformation_mode", shift) {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => return Err(Refusal::form(format!("attribute coordinate_transformation_mode is {other:?}"))),
    };
    let scale = attrs.float_or("spatial_scale", 1.0);
    if !(scale.is_finite() && scale > 0.0) {
        return Err(Refusal::form(format!("attribute spatial_scale is {scale}")));
    }
    let samples = match attrs.int_or("sampling_ratio", 0) {
        n if n <= 0 => -1,
        n => i32::try_from(n).map_err(|_| Refusal::form(format!("attribute sampling_ratio is {n}")))?,
    };
    let x = spatial::channel_last(cx, 0)?;
    let (rois, batch) = (cx.input(1)?, cx.input(2)?);
    let y = cx.output(0, &Layout::channel_last(4))?;
    cx.op(
        "RoiAlign",
        &[x, rois, batch],
        &[y],
        &[
            ("img_size_ratio", Param::F32s { dims: vec![2], values: vec![1.0 / scale; 2] }),
            ("num_samples_y", Param::i32(samples)),
            ("num_samples_x", Param::i32(samples)),
            ("aligned", Param::bool(aligned)),
            ("allow_invalid_roi", Param::bool(false)),
        ],
    );
    Ok(())
}

fn infer_max_roi_pool(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let (n, c) = regions(cx, 5)?;
    let shape = match cx.node.attrs.ints("pooled_shape") {
        Some(&[h, w]) if h > 0 && w > 0 => [h, w],
        other => return invalid(format!("attribute pooled_shape is {other:?}; two numbers above 0 are needed")),
    };
    cx.set(0, cx.ty(0)?.dtype, vec![n, c, Dim::Known(shape[0]), Dim::Known(shape[1])]);
    Ok(())
}
