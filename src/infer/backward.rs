//! Types that follow from what stands behind: of an op that nobody knows, the type of an output is what an elementwise
//! op makes of it, if the model declares that.

use crate::ir::{CycleError, Graph, ValueType};
use crate::ops;

/// Ops of one operand whose output has the type and shape of it.
const SAME: &[&str] = &[
    "Abs",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tanh",
    "ThresholdedRelu",
];

/// Types outputs of unknown ops by what reads them; true if one was. Inference must run again then.
pub fn backward(graph: &mut Graph) -> Result<bool, CycleError> {
    let mut changed = false;
    for id in graph.topological_order()?.into_iter().rev() {
        let node = graph.node(id);
        if !node.domain.is_empty() || !SAME.contains(&node.op_type.as_str()) {
            continue;
        }
        let (Some(x), Some(y)) = (node.input(0), node.output(0)) else { continue };
        let known = graph.value(y).ty.clone();
        let made_by = graph.value(x).producer.map(|(n, _)| graph.node(n));
        // Behind an elementwise op whose own input was typed just now, or an op that nobody knows.
        let open = made_by.is_some_and(|n| {
            ops::find(&n.domain, &n.op_type).is_none() || (n.domain.is_empty() && SAME.contains(&n.op_type.as_str()))
        });
        if open && known.tensor().is_some() && graph.value(x).ty == ValueType::Unknown {
            graph.value_mut(x).ty = known;
            changed = true;
        }
    }
    Ok(changed)
}
