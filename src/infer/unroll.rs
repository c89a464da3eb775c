//! Loops and Scans whose number of iterations is known at compile time.

use std::collections::HashMap;

use super::splice::{NodeNames, Splice, identity, provenance};
use crate::ir::{Graph, Node, NodeId, Tensor, TensorType, ValueId, ValueType};

/// Nodes (of the body, times iterations) up to which a loop is unrolled, unless the caller says otherwise.
pub const UNROLL_LIMIT: usize = 512;

const REWRITE: &str = "unroll";

/// Puts the iterations of every Loop and Scan in the node's place, one after the other, if their number is known and
/// body nodes times iterations are at most `limit`. Inference must have run. Gives how many loops went.
///
/// Scans of opset 8 (with a batch axis) and loops over sequences stay.
pub fn unroll_loops(graph: &mut Graph, limit: usize) -> usize {
    let mut done = 0;
    let mut names = NodeNames::of(graph);
    let ids: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
    for id in ids {
        let plan = if graph.node(id).is("Loop") {
            plan_loop(graph, graph.node(id), limit)
        } else if graph.node(id).is("Scan") && graph.node(id).version >= 9 {
            plan_scan(graph, graph.node(id), limit)
        } else {
            None
        };
        if let Some(plan) = plan
            && let Some(node) = graph.remove_node(id)
        {
            plan.run(graph, &node, &mut names);
            done += 1;
        }
    }
    done
}

/// A loop that can be unrolled.
struct Plan {
    body: Graph,
    iterations: usize,
    /// Values of the graph that the state starts from.
    state: Vec<ValueId>,
    /// Inputs of the body before its state: the iteration number and the condition of a Loop.
    counter: Option<(ValueId, ValueId)>,
    /// Sliced inputs: value of the graph, axis, backwards?
    sliced: Vec<(ValueId, usize, bool)>,
    /// Outputs of the body before its state.
    skipped: usize,
    /// Stacked outputs: axis, backwards?
    stacked: Vec<(usize, bool)>,
}

/// Iterations if body nodes times iterations stay under the limit.
fn within(iterations: usize, body: &Graph, limit: usize) -> bool {
    iterations.checked_mul(body.node_count().max(1)).is_some_and(|n| n <= limit)
}

fn is_tensor(graph: &Graph, v: ValueId) -> bool {
    !matches!(graph.value(v).ty, ValueType::Other(_))
}

fn plan_loop(graph: &Graph, node: &Node, limit: usize) -> Option<Plan> {
    let body = node.attrs.graph("body")?;
    let state: Vec<ValueId> = node.inputs.iter().skip(2).copied().collect::<Option<_>>()?;
    let fits = body.inputs.len() == state.len() + 2
        && body.outputs.len() > state.len()
        && body.captured.len() == node.captures.len()
        && node.outputs.len() < body.outputs.len()
        && state.iter().all(|v| is_tensor(graph, *v));
    if !fits {
        return None;
    }
    let trips = match node.input(0) {
        Some(v) => usize::try_from(graph.value(v).data.as_ref()?.scalar_i64()?.max(0)).ok()?,
        None => usize::MAX,
    };
    let heeds_condition = node.input(1).is_some();
    let starts = match node.input(1) {
        Some(v) => graph.value(v).data.as_ref()?.scalar_f64()? != 0.0,
        None => true,
    };
    let iterations = if starts { count(graph, node, body, &state, trips, heeds_condition, limit)? } else { 0 };
    let stacked = vec![(0, false); body.outputs.len() - 1 - state.len()];
    if iterations == 0 && !stacked.is_empty() {
        return None;
    }
    Some(Plan {
        iterations,
        counter: Some((body.inputs[0], body.inputs[1])),
        body: body.clone(),
        state,
        sliced: vec![],
        skipped: 1,
        stacked,
    })
}

/// How often the body runs, if its condition depends on nothing but constants.
fn count(
    graph: &Graph,
    node: &Node,
    body: &Graph,
    state: &[ValueId],
    trips: usize,
    heeds_condition: bool,
    limit: usize,
) -> Option<usize> {
    if !heeds_condition {
        return within(trips, body, limit).then_some(trips);
    }
    let mut known: Vec<(ValueType, Option<Tensor>)> =
        state.iter().map(|v| (graph.value(*v).ty.clone(), graph.value(*v).data.clone())).collect();
    for i in 0..trips {
        if !within(i + 1, body, limit) {
            return None;
        }
        let mut trial = body.clone();
        bind_captures(graph, node, &mut trial);
        let (counter, condition) = (trial.inputs[0], trial.inputs[1]);
        assume(&mut trial, counter, constant_fact(Tensor::from_i64(vec![], &[i as i64])));
        assume(&mut trial, condition, constant_fact(Tensor::from_bools(vec![], &[true])));
        for (v, fact) in trial.inputs.clone().into_iter().skip(2).zip(known) {
            assume(&mut trial, v, fact);
        }
        super::infer(&mut trial).ok()?;
        let goes_on = trial.value(trial.outputs[0]).data.as_ref()?.scalar_f64()? != 0.0;
        if !goes_on {
            return Some(i + 1);
        }
        let after = trial.outputs.iter().skip(1).take(state.len());
        known = after.map(|v| (trial.value(*v).ty.clone(), trial.value(*v).data.clone())).collect();
    }
    Some(trips)
}

fn constant_fact(t: Tensor) -> (ValueType, Option<Tensor>) {
    let shape = t.shape().iter().map(|&d| d.into()).collect();
    (ValueType::Tensor(TensorType::new(t.dtype(), shape)), Some(t))
}

/// In `graph`, value `v` has this type and, if they are known, these elements.
fn assume(graph: &mut Graph, v: ValueId, (ty, data): (ValueType, Option<Tensor>)) {
    let value = graph.value_mut(v);
    if ty != ValueType::Unknown {
        value.ty = ty;
    }
    value.data = data;
}

/// The captured values of a body get the types and elements that they have in the graph around it.
pub(crate) fn bind_captures(graph: &Graph, node: &Node, body: &mut Graph) {
    for (inner, outer) in body.captured.clone().into_iter().zip(&node.captures) {
        let outer = graph.value(*outer);
        let value = body.value_mut(inner);
        value.ty = outer.ty.clone();
        value.data.clone_from(&outer.data);
        value.elements.clone_from(&outer.elements);
    }
}

fn plan_scan(graph: &Graph, node: &Node, limit: usize) -> Option<Plan> {
    let body = node.attrs.graph("body")?;
    let scans = usize::try_from(node.attrs.int("num_scan_inputs")?).ok()?;
    let states = node.inputs.len().checked_sub(scans)?;
    let inputs: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
    let outputs = body.outputs.len().checked_sub(states)?;
    let fits = scans > 0
        && body.inputs.len() == inputs.len()
        && body.captured.len() == node.captures.len()
        && node.outputs.len() <= body.outputs.len();
    if !fits {
        return None;
    }
    let list = |name: &str, i: usize| node.attrs.ints(name).map_or(Some(0), |v| v.get(i).copied());
    let mut sliced = vec![];
    let mut iterations = None;
    for (i, v) in inputs[states..].iter().enumerate() {
        let shape = &graph.value(*v).ty.tensor()?.shape;
        let axis = crate::ops::normalise_axis(list("scan_input_axes", i)?, shape.len()).ok()?;
        let length = usize::try_from(shape[axis].known()?).ok()?;
        if iterations.replace(length).is_some_and(|n| n != length) {
            return None;
        }
        sliced.push((*v, axis, list("scan_input_directions", i)? != 0));
    }
    let iterations = iterations.filter(|n| *n > 0 && within(*n, body, limit))?;
    let mut stacked = vec![];
    for i in 0..outputs {
        let axis = list("scan_output_axes", i)?;
        let rank = graph.value(node.output(states + i)?).ty.tensor().map(|t| t.shape.len());
        let axis =
            if axis >= 0 { usize::try_from(axis).ok()? } else { crate::ops::normalise_axis(axis, rank?).ok()? };
        stacked.push((axis, list("scan_output_directions", i)? != 0));
    }
    Some(Plan {
        iterations,
        counter: None,
        body: body.clone(),
        state: inputs[..states].to_vec(),
        sliced,
        skipped: 0,
        stacked,
    })
}

impl Plan {
    fn run(self, graph: &mut Graph, node: &Node, names: &mut NodeNames) {
        let body = &self.body;
        let states = self.state.len();
        let mut state = self.state.clone();
        let mut pieces: Vec<Vec<ValueId>> = vec![vec![]; self.stacked.len()];
        for i in 0..self.iterations {
            let mut given: HashMap<ValueId, ValueId> =
                body.captured.iter().copied().zip(node.captures.iter().copied()).collect();
            let first = if self.counter.is_some() { 2 } else { 0 };
            if let Some((counter, condition)) = self.counter {
                let c = graph.add_constant(&format!("{}.i", node.name), Tensor::from_i64(vec![], &[i as i64]));
                given.insert(counter, c);
                let c = graph.add_constant(&format!("{}.go", node.name), Tensor::from_bools(vec![], &[true]));
                given.insert(condition, c);
            }
            given.extend(body.inputs[first..].iter().copied().zip(state.iter().copied()));
            for (inner, (v, axis, backwards)) in body.inputs[first + states..].iter().zip(&self.sliced) {
                let at = if *backwards { self.iterations - 1 - i } else { i };
                given.insert(*inner, element(graph, node, *v, *axis, at, names));
            }
            let mut targets = vec![None; body.outputs.len()];
            if i + 1 == self.iterations {
                for (s, t) in targets.iter_mut().skip(self.skipped).take(states).enumerate() {
                    *t = node.output(s);
                }
            }
            let outputs = Splice { given, targets, owner: node, rewrite: REWRITE }.run(graph, body, names);
            state = outputs[self.skipped..self.skipped + states].to_vec();
            for (p, v) in pieces.iter_mut().zip(&outputs[self.skipped + states..]) {
                p.push(*v);
            }
        }
        if self.iterations == 0 {
            for (s, from) in self.state.iter().enumerate() {
                if let Some(to) = node.output(s) {
                    graph.add_node(identity(node, *from, to, names, REWRITE));
                }
            }
        }
        for (k, (mut values, (axis, backwards))) in pieces.into_iter().zip(&self.stacked).enumerate() {
            if let Some(to) = node.output(states + k) {
                if *backwards {
                    values.reverse();
                }
                stack(graph, node, &values, *axis, to, names);
            }
        }
    }
}

fn add(
    graph: &mut Graph,
    owner: &Node,
    op_type: &str,
    inputs: Vec<Option<ValueId>>,
    output: ValueId,
    attrs: &[(&str, i64)],
    names: &mut NodeNames,
) {
    let mut node = Node {
        name: names.fresh(&format!("{}.{op_type}", owner.name)),
        op_type: op_type.into(),
        version: owner.version,
        inputs,
        outputs: vec![Some(output)],
        origin: provenance(owner, REWRITE),
        ..Node::default()
    };
    for (name, value) in attrs {
        node.attrs.set(*name, crate::ir::Attr::Int(*value));
    }
    graph.add_node(node);
}

fn temp(graph: &mut Graph, owner: &Node) -> ValueId {
    graph.add_value(crate::ir::Value { name: format!("{}.t", owner.name), ..Default::default() })
}

/// Element `at` of `v` along `axis`, which goes away.
fn element(graph: &mut Graph, node: &Node, v: ValueId, axis: usize, at: usize, names: &mut NodeNames) -> ValueId {
    let index = graph.add_constant(&format!("{}.at", node.name), Tensor::from_i64(vec![], &[at as i64]));
    let out = temp(graph, node);
    add(graph, node, "Gather", vec![Some(v), Some(index)], out, &[("axis", axis as i64)], names);
    out
}

/// Values of equal shape, stacked along a new axis.
fn stack(graph: &mut Graph, node: &Node, values: &[ValueId], axis: usize, to: ValueId, names: &mut NodeNames) {
    let mut pieces = vec![];
    for v in values {
        let out = temp(graph, node);
        if node.version >= 13 {
            let axes = graph.add_constant(&format!("{}.axes", node.name), Tensor::from_i64(vec![1], &[axis as i64]));
            add(graph, node, "Unsqueeze", vec![Some(*v), Some(axes)], out, &[], names);
        } else {
            add(graph, node, "Unsqueeze", vec![Some(*v)], out, &[], names);
            if let Some((id, _)) = graph.value(out).producer {
                graph.node_mut(id).attrs.set("axes", crate::ir::Attr::Ints(vec![axis as i64]));
            }
        }
        pieces.push(Some(out));
    }
    add(graph, node, "Concat", pieces, to, &[("axis", axis as i64)], names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, DataType, Dim, Value};

    fn named(g: &mut Graph, name: &str) -> ValueId {
        g.add_value(Value { name: name.into(), ..Value::default() })
    }

    fn push(g: &mut Graph, op: &str, inputs: &[ValueId], out: &str) -> ValueId {
        let y = named(g, out);
        g.add_node(Node {
            name: format!("{op}-{out}"),
            op_type: op.into(),
            version: 13,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(y)],
            ..Node::default()
        });
        y
    }

    fn scalar(dtype: DataType) -> TensorType {
        TensorType::new(dtype, vec![])
    }

    /// for i in 0..trips { s = s + s; scan(s) }
    fn doubling(trips: Option<i64>, condition: Option<bool>) -> Graph {
        let mut b = Graph::default();
        let i = b.add_typed("i", scalar(DataType::I64));
        let c = b.add_typed("c", scalar(DataType::Bool));
        let s = b.add_typed("s", TensorType::new(DataType::F32, vec![Dim::Known(2)]));
        b.inputs = vec![i, c, s];
        let t = push(&mut b, "Add", &[s, s], "t");
        b.outputs = vec![c, t, t];
        let mut g = Graph::default();
        let x = g.add_typed("x", TensorType::new(DataType::F32, vec![Dim::Known(2)]));
        let m = trips.map(|n| g.add_constant("m", Tensor::from_i64(vec![], &[n])));
        let c = condition.map(|c| g.add_constant("go", Tensor::from_bools(vec![], &[c])));
        let (y, all) = (named(&mut g, "y"), named(&mut g, "all"));
        let mut node = Node {
            name: "loop".into(),
            op_type: "Loop".into(),
            version: 13,
            inputs: vec![m, c, Some(x)],
            outputs: vec![Some(y), Some(all)],
            ..Node::default()
        };
        node.attrs.set("body", Attr::Graph(Box::new(b)));
        g.add_node(node);
        (g.inputs, g.outputs) = (vec![x], vec![y, all]);
        g
    }

    fn ops(g: &Graph) -> Vec<String> {
        let order = g.topological_order().unwrap();
        order.into_iter().map(|id| g.node(id).op_type.clone()).collect()
    }

    #[test]
    fn a_counted_loop() {
        for condition in [None, Some(true)] {
            let mut g = doubling(Some(3), condition);
            assert_eq!(unroll_loops(&mut g, 512), 1);
            assert_eq!(ops(&g), ["Add", "Add", "Add", "Unsqueeze", "Unsqueeze", "Unsqueeze", "Concat"]);
            assert!(g.outputs.iter().all(|v| g.value(*v).producer.is_some()));
        }
    }

    #[test]
    fn loops_that_stay() {
        assert_eq!(unroll_loops(&mut doubling(Some(600), None), 512), 0);
        assert_eq!(unroll_loops(&mut doubling(None, None), 512), 0);
        assert_eq!(unroll_loops(&mut doubling(None, Some(true)), 512), 0);
        // No iteration, and nothing to stack.
        assert_eq!(unroll_loops(&mut doubling(Some(0), None), 512), 0);
    }

    /// Sums and running sums of the rows of x.
    fn running_sum(direction: i64) -> Graph {
        let row = || TensorType::new(DataType::F32, vec![Dim::Known(2)]);
        let mut b = Graph::default();
        let s = b.add_typed("s", row());
        let x = b.add_typed("x", row());
        b.inputs = vec![s, x];
        let t = push(&mut b, "Add", &[s, x], "t");
        let u = push(&mut b, "Identity", &[t], "u");
        b.outputs = vec![t, u];
        let mut g = Graph::default();
        let s = g.add_typed("s", row());
        let x = g.add_typed("x", TensorType::new(DataType::F32, vec![Dim::Known(3), Dim::Known(2)]));
        let (y, all) = (named(&mut g, "y"), named(&mut g, "all"));
        let mut node = Node {
            name: "scan".into(),
            op_type: "Scan".into(),
            version: 11,
            inputs: vec![Some(s), Some(x)],
            outputs: vec![Some(y), Some(all)],
            ..Node::default()
        };
        node.attrs.set("body", Attr::Graph(Box::new(b)));
        node.attrs.set("num_scan_inputs", Attr::Int(1));
        node.attrs.set("scan_input_directions", Attr::Ints(vec![direction]));
        g.add_node(node);
        (g.inputs, g.outputs) = (vec![s, x], vec![y, all]);
        g
    }

    #[test]
    fn a_scan() {
        for (direction, want) in [(0, [0, 1, 2]), (1, [2, 1, 0])] {
            let mut g = running_sum(direction);
            assert_eq!(unroll_loops(&mut g, 512), 1);
            let indices: Vec<i64> = g
                .nodes()
                .filter(|(_, n)| n.is("Gather"))
                .filter_map(|(_, n)| g.value(n.input(1)?).data.as_ref()?.scalar_i64())
                .collect();
            assert_eq!(indices, want);
            assert_eq!(g.nodes().filter(|(_, n)| n.is("Add")).count(), 3);
            assert!(g.topological_order().is_ok());
        }
    }
}
