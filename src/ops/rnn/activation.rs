//! The activations that recurrent ops may name.

use crate::ir::Attrs;
use crate::lower::{LowerCx, Refusal};
use crate::ops::activation::softplus_of;
use crate::ops::compose;
use crate::qnn::graph::{Param, TensorId};

/// An activation with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Activation {
    Relu,
    Tanh,
    Sigmoid,
    Softsign,
    Softplus,
    Affine { alpha: f32, beta: f32 },
    LeakyRelu { alpha: f32 },
    ThresholdedRelu { alpha: f32 },
    ScaledTanh { alpha: f32, beta: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
    Elu { alpha: f32 },
}

/// The activations of every direction: those that the node names, or `defaults`.
/// Parameters are taken from `activation_alpha` and `activation_beta` in order, by those that have one.
pub(super) fn of_node(attrs: &Attrs, defaults: &[&str], directions: usize) -> Result<Vec<Vec<Activation>>, Refusal> {
    let named = attrs.strs("activations").unwrap_or_default();
    let per_direction = defaults.len();
    let all: Vec<&str> = if named.is_empty() { defaults.repeat(directions) } else { named };
    if all.len() != per_direction * directions {
        return Err(Refusal::form(format!(
            "attribute activations has {} names; {per_direction} for each of {directions} direction(s) are needed",
            all.len()
        )));
    }
    let mut alphas = attrs.floats("activation_alpha").unwrap_or(&[]).iter().copied();
    let mut betas = attrs.floats("activation_beta").unwrap_or(&[]).iter().copied();
    let mut out = vec![];
    for name in all {
        let need = |list: &mut dyn Iterator<Item = f32>, attribute: &str| {
            list.next().ok_or_else(|| {
                Refusal::form(format!(
                    "activation {name} has no value in {attribute}, and runtimes disagree on the default"
                ))
                .fix(format!("give {attribute} explicitly"))
            })
        };
        let mut alpha = || need(&mut alphas, "activation_alpha");
        out.push(match name.to_ascii_lowercase().as_str() {
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            "affine" => Activation::Affine { alpha: alpha()?, beta: need(&mut betas, "activation_beta")? },
            "leakyrelu" => Activation::LeakyRelu { alpha: alpha()? },
            "thresholdedrelu" => Activation::ThresholdedRelu { alpha: alpha()? },
            "scaledtanh" => Activation::ScaledTanh { alpha: alpha()?, beta: need(&mut betas, "activation_beta")? },
            "hardsigmoid" => Activation::HardSigmoid { alpha: alpha()?, beta: need(&mut betas, "activation_beta")? },
            "elu" => Activation::Elu { alpha: alpha()? },
            _ => return Err(Refusal::form(format!("attribute activations names {name:?}, which nobody knows"))),
        });
    }
    Ok(out.chunks(per_direction).map(<[Activation]>::to_vec).collect())
}

impl Activation {
    pub(super) fn apply(&self, cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
        match *self {
            Self::Relu => compose::unary(cx, "Relu", t),
            Self::Tanh => compose::unary(cx, "Tanh", t),
            Self::Sigmoid => compose::unary(cx, "Sigmoid", t),
            Self::Softsign => {
                let a = compose::unary(cx, "ElementWiseAbs", t);
                let one = cx.float_scalar(1.0);
                let below = compose::add(cx, a, one);
                compose::div(cx, t, below)
            }
            Self::Softplus => softplus_of(cx, t),
            Self::Affine { alpha, beta } => {
                let t = compose::scale(cx, t, alpha);
                if beta == 0.0 {
                    return t;
                }
                let b = cx.float_scalar(beta);
                compose::add(cx, t, b)
            }
            Self::LeakyRelu { alpha } => {
                let low = compose::scale(cx, t, alpha);
                let op = if alpha <= 1.0 { "ElementWiseMaximum" } else { "ElementWiseMinimum" };
                compose::binary(cx, op, t, low)
            }
            Self::ThresholdedRelu { alpha } => {
                let limit = cx.float_scalar(alpha);
                let above = compose::compare(cx, "ElementWiseGreater", t, limit);
                let dims = cx.dims(t);
                let count = dims.iter().product::<u32>() as usize;
                let zero = cx.float_constant(&dims, &vec![0.0; count]);
                compose::select(cx, above, t, zero)
            }
            Self::ScaledTanh { alpha, beta } => {
                let t = compose::scale(cx, t, beta);
                let t = compose::unary(cx, "Tanh", t);
                compose::scale(cx, t, alpha)
            }
            Self::HardSigmoid { alpha, beta } => {
                let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
                let params = [("operation", Param::u32(2)), ("alpha", Param::f32(alpha)), ("beta", Param::f32(beta))];
                cx.op_to("ElementWiseNeuron", &[t], dtype, &dims, &params)
            }
            Self::Elu { alpha } => {
                let (dtype, dims) = (cx.qnn_type(t), cx.dims(t));
                cx.op_to("Elu", &[t], dtype, &dims, &[("alpha", Param::f32(alpha))])
            }
        }
    }
}
