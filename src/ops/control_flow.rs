//! If, Loop and Scan: types of what they give. None has a QNN equivalent; those whose course is known at compile time
//! are inlined or unrolled before lowering (`infer::inline_constant_ifs`, `infer::unroll_loops`).

use super::{InferCx, OpDef, OpError, invalid, normalise_axis};
use crate::infer::{UNROLL_LIMIT, bind_captures};
use crate::ir::{DataType, Dim, Graph, TensorType, ValueType};
use crate::lower::{LowerCx, Refusal};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("If", infer_if).lower(refuse_if),
    OpDef::new("Loop", infer_loop).lower(refuse_loop),
    OpDef::new("Scan", infer_scan).lower(refuse_loop),
];

/// The types of a body's outputs, given the facts of its inputs. What is wrong inside stays untyped: exporters leave
/// branches that are never taken and do not type-check.
fn body_types(cx: &InferCx<'_>, body: &Graph, inputs: &[ValueType]) -> Vec<ValueType> {
    let mut body = body.clone();
    bind_captures(cx.graph, cx.node, &mut body);
    for (v, ty) in body.inputs.clone().into_iter().zip(inputs) {
        if *ty != ValueType::Unknown {
            body.value_mut(v).ty = ty.clone();
        }
    }
    if crate::infer::infer(&mut body).is_err() {
        return vec![ValueType::Unknown; body.outputs.len()];
    }
    body.outputs.iter().map(|v| body.value(*v).ty.clone()).collect()
}

/// What two types have in common.
fn common(a: &ValueType, b: &ValueType) -> ValueType {
    if a == b {
        return a.clone();
    }
    match (a.dtype(), b.dtype()) {
        (Some(x), Some(y)) if x == y => ValueType::Unranked(x),
        _ => ValueType::Unknown,
    }
}

fn body<'a>(cx: &InferCx<'a>, name: &str) -> Result<&'a Graph, OpError> {
    match cx.node.attrs.graph(name) {
        Some(g) => Ok(g),
        None => invalid(format!("attribute {name} is missing")),
    }
}

fn infer_if(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    if let Ok(d) = cx.dtype(0)
        && d != DataType::Bool
    {
        return invalid(format!("the condition must be bool, it is {d}"));
    }
    let (then, other) = (body(cx, "then_branch")?, body(cx, "else_branch")?);
    for (name, g) in [("then_branch", then), ("else_branch", other)] {
        if g.outputs.len() != cx.node.outputs.len() {
            let (have, want) = (g.outputs.len(), cx.node.outputs.len());
            return invalid(format!("{name} gives {have} value(s), and the If has {want} output(s)"));
        }
    }
    let types = if let Some(c) = cx.constant(0).and_then(crate::ir::Tensor::scalar_f64) {
        body_types(cx, if c == 0.0 { other } else { then }, &[])
    } else {
        let (a, b) = (body_types(cx, then, &[]), body_types(cx, other, &[]));
        a.iter().zip(&b).map(|(a, b)| common(a, b)).collect()
    };
    for (out, ty) in cx.out.iter_mut().zip(types) {
        out.ty = ty;
    }
    Ok(())
}

fn input_type(cx: &InferCx<'_>, i: usize) -> ValueType {
    cx.node.input(i).map(|v| cx.graph.value(v).ty.clone()).unwrap_or_default()
}

/// Types of state that goes round a body: those that the body leaves as they are. What changes is left unranked, and
/// the body is looked at again with that.
fn stable_state(
    cx: &InferCx<'_>,
    body: &Graph,
    fixed: &[ValueType],
    mut state: Vec<ValueType>,
    rest: &[ValueType],
    skip: usize,
) -> (Vec<ValueType>, Vec<ValueType>) {
    loop {
        let inputs: Vec<ValueType> = fixed.iter().chain(&state).chain(rest).cloned().collect();
        let after = body_types(cx, body, &inputs);
        let (kept, more) =
            after.get(skip..).unwrap_or_default().split_at(state.len().min(after.len().saturating_sub(skip)));
        let merged: Vec<ValueType> = state.iter().zip(kept).map(|(a, b)| common(a, b)).collect();
        if merged == state || merged.len() < state.len() {
            return (merged, more.to_vec());
        }
        state = merged;
    }
}

fn infer_loop(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let body = body(cx, "body")?;
    let states = cx.node.inputs.len().saturating_sub(2);
    if body.inputs.len() != states + 2 {
        return invalid(format!("the body takes {} values; {} are needed", body.inputs.len(), states + 2));
    }
    if body.outputs.len() < states + 1 || cx.node.outputs.len() + 1 > body.outputs.len() {
        return invalid(format!(
            "the body gives {} values, and the Loop has {states} state value(s) and {} output(s)",
            body.outputs.len(),
            cx.node.outputs.len()
        ));
    }
    let scalar = |d| ValueType::Tensor(TensorType::new(d, vec![]));
    let state = (0..states).map(|i| input_type(cx, i + 2)).collect();
    let fixed = [scalar(DataType::I64), scalar(DataType::Bool)];
    let (state, stacked) = stable_state(cx, body, &fixed, state, &[], 1);
    // Without a condition the body runs as often as the trip count says.
    let trips = if cx.has(1) { None } else { cx.ints(0).and_then(|v| v.first().copied()) };
    let types = state.into_iter().chain(stacked.into_iter().map(|t| stack(&t, 0, trips.map(|n| Dim::Known(n.max(0))))));
    for (out, ty) in cx.out.iter_mut().zip(types) {
        out.ty = ty;
    }
    Ok(())
}

/// The type of values of type `t` stacked along a new axis of this length.
fn stack(t: &ValueType, axis: i64, length: Option<Dim>) -> ValueType {
    match (t, length) {
        (ValueType::Tensor(t), Some(n)) => match normalise_axis(axis, t.shape.len() + 1) {
            Ok(axis) => {
                let mut shape = t.shape.clone();
                shape.insert(axis, n);
                ValueType::Tensor(TensorType::new(t.dtype, shape))
            }
            Err(_) => ValueType::Unranked(t.dtype),
        },
        (t, _) => t.dtype().map_or(ValueType::Unknown, ValueType::Unranked),
    }
}

fn infer_scan(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let body = body(cx, "body")?;
    if cx.node.version < 9 {
        return Ok(());
    }
    let scans = match cx.node.attrs.int("num_scan_inputs") {
        Some(n) if n >= 1 && n as usize <= cx.node.inputs.len() => n as usize,
        Some(n) => return invalid(format!("attribute num_scan_inputs is {n}, with {} inputs", cx.node.inputs.len())),
        None => return invalid("attribute num_scan_inputs is missing"),
    };
    let states = cx.node.inputs.len() - scans;
    if body.inputs.len() != cx.node.inputs.len() || body.outputs.len() < states {
        return invalid(format!(
            "the body takes {} values and gives {}; the Scan has {} inputs, {states} of them state",
            body.inputs.len(),
            body.outputs.len(),
            cx.node.inputs.len()
        ));
    }
    let axis_of = |name: &str, i: usize| cx.node.attrs.ints(name).and_then(|v| v.get(i).copied()).unwrap_or(0);
    let mut length: Option<Dim> = None;
    let mut slices = vec![];
    for i in 0..scans {
        let t = cx.ty(states + i)?;
        let axis = normalise_axis(axis_of("scan_input_axes", i), t.shape.len())
            .map_err(|e| OpError::Invalid(format!("attribute scan_input_axes: {e}")))?;
        let mut shape = t.shape.clone();
        let n = shape.remove(axis);
        if let (Some(Dim::Known(a)), Dim::Known(b)) = (&length, &n)
            && *a != *b
        {
            return invalid(format!("the scanned inputs have different lengths: {a} and {b}"));
        }
        length.get_or_insert(n);
        slices.push(ValueType::Tensor(TensorType::new(t.dtype, shape)));
    }
    let state = (0..states).map(|i| input_type(cx, i)).collect();
    let (state, stacked) = stable_state(cx, body, &[], state, &slices, 0);
    let stacked = stacked
        .iter()
        .enumerate()
        .map(|(i, t)| stack(t, axis_of("scan_output_axes", i), length.clone()))
        .collect::<Vec<_>>();
    for (out, ty) in cx.out.iter_mut().zip(state.into_iter().chain(stacked)) {
        out.ty = ty;
    }
    Ok(())
}

fn refuse_if(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::new(
        codes::NO_LOWERING,
        format!("the condition {:?} is computed at run time, and a QNN graph has no branches", cx.input_name(0)),
    )
    .fix("export the model with the branch decided, or compute both branches and choose with Where"))
}

fn refuse_loop(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    Err(Refusal::new(
        codes::NO_LOWERING,
        format!(
            "{} was not unrolled: its number of iterations is not known at compile time, or the body's nodes times the \
             iterations are over {UNROLL_LIMIT}",
            cx.node.op_type
        ),
    )
    .fix("export the model with a constant trip count, or run the loop in the application"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneNode, node};
    use crate::ir::{Attr, DataType, Dim, Graph, Node, Tensor, TensorType, Value};

    fn types(n: &OneNode) -> Vec<Option<String>> {
        n.infer().unwrap().iter().map(|f| f.ty.tensor().map(ToString::to_string)).collect()
    }

    /// A body that gives these of its inputs, and `op` of the last input where there is `None`.
    fn body(inputs: &[(DataType, &[i64])], op: &str, gives: &[Option<usize>]) -> Attr {
        let mut g = Graph::default();
        for (d, shape) in inputs {
            let v = g.add_typed("in", TensorType::new(*d, shape.iter().map(|&n| Dim::Known(n)).collect()));
            g.inputs.push(v);
        }
        let y = g.add_value(Value { name: "y".into(), ..Value::default() });
        let x = g.inputs.last().copied();
        g.add_node(Node {
            op_type: op.into(),
            version: 13,
            inputs: vec![x],
            outputs: vec![Some(y)],
            ..Node::default()
        });
        g.outputs = gives.iter().map(|i| i.map_or(y, |i| g.inputs[i])).collect();
        Attr::Graph(Box::new(g))
    }

    fn constant(shape: &[usize]) -> Attr {
        let mut g = Graph::default();
        let k = g.add_constant("k", Tensor::from_f32(shape.to_vec(), &vec![0.0; shape.iter().product()]));
        g.outputs = vec![k];
        Attr::Graph(Box::new(g))
    }

    #[test]
    fn branches_that_agree_give_a_type() {
        let of = |a: &[usize], b: &[usize]| {
            let n = node("If", 13).input(DataType::Bool, &[]);
            n.attr("then_branch", constant(a)).attr("else_branch", constant(b))
        };
        assert_eq!(types(&of(&[2], &[2])), [Some("float32[2]".into())]);
        assert_eq!(types(&of(&[2], &[3])), [None]);
        assert!(of(&[2], &[2]).refusal().contains("has no branches"));
        let known = node("If", 13).constant(Tensor::from_bools(vec![], &[false]));
        let known = known.attr("then_branch", constant(&[2])).attr("else_branch", constant(&[3]));
        assert_eq!(types(&known), [Some("float32[3]".into())]);
    }

    #[test]
    fn a_loop_stacks_what_is_not_state() {
        let inputs: [(DataType, &[i64]); 3] = [(DataType::I64, &[]), (DataType::Bool, &[]), (DataType::F32, &[2])];
        let b = body(&inputs, "Abs", &[Some(1), None, Some(0)]);
        let n = node("Loop", 13).constant(Tensor::from_i64(vec![], &[5])).omit().float(&[2]);
        assert_eq!(types(&n.attr("body", b.clone()).outputs(2)), [Some("float32[2]".into()), Some("int64[5]".into())]);
        let n = node("Loop", 13).input(DataType::I64, &[]).omit().float(&[2]).attr("body", b.clone()).outputs(2);
        assert_eq!(types(&n), [Some("float32[2]".into()), None]);
        let n = node("Loop", 13).input(DataType::I64, &[]).omit().attr("body", b);
        assert_eq!(n.error(), "the body takes 3 values; 2 are needed");
    }

    #[test]
    fn a_scan_stacks_along_its_axis() {
        let b = body(&[(DataType::F32, &[4]), (DataType::F32, &[2])], "Abs", &[Some(0), None]);
        let n = node("Scan", 11).float(&[4]).float(&[2, 3]).int("num_scan_inputs", 1).attr("body", b);
        let n = n.int_list("scan_input_axes", &[1]).int_list("scan_output_axes", &[-1]).outputs(2);
        assert_eq!(types(&n), [Some("float32[4]".into()), Some("float32[2, 3]".into())]);
        assert!(n.refusal().contains("not unrolled"));
    }
}
