//! The list of op families.

use super::OpDef;

/// Every row of every family.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().flat_map(|rows| rows.iter())
}

const FAMILIES: &[&[OpDef]] = &[
    super::elementwise_unary::OPS,
    super::elementwise_binary::OPS,
    super::activation::OPS,
    super::compare_logical::OPS,
    super::cast::OPS,
    super::clip::OPS,
    super::where_::OPS,
    super::reduce::OPS,
    super::softmax::OPS,
    super::normalisation::OPS,
    super::layer_norm::OPS,
    super::matmul::OPS,
    super::einsum::OPS,
    super::conv::OPS,
    super::conv_transpose::OPS,
    super::deform_conv::OPS,
    super::causal_conv::OPS,
    super::pool::OPS,
    super::resize::OPS,
    super::depth_space::OPS,
    super::pad::OPS,
    super::lrn::OPS,
    super::reshape::OPS,
    super::transpose::OPS,
    super::concat_split::OPS,
    super::slice::OPS,
    super::gather::OPS,
    super::scatter::OPS,
    super::tile_expand::OPS,
    super::shape_constant::OPS,
    super::range_onehot::OPS,
    super::topk_argmax::OPS,
    super::rearrange::OPS,
    super::rnn::OPS,
    super::attention::OPS,
    super::control_flow::OPS,
    super::quantize::OPS,
    super::random::OPS,
    super::cumulative::OPS,
    super::nms_roi::OPS,
    super::window_dft::OPS,
    super::grid::OPS,
    super::misc::OPS,
    super::ms_fused::OPS,
    super::ms_norm::OPS,
    super::ms_attention::OPS,
    super::ms_quant::OPS,
];
