//! The state of one lowering: the QNN graph that grows, and where every value is.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Layout, LowerCx, Refusal, absorb, bias, faults, keeps_order, regroup, shuffle};
use crate::ir::{DataType, Graph, NodeId, Tensor, ValueId};
use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnTensor, QnnType, Quant, StaticData, TensorId, TensorKind};
use crate::verdict::codes;

/// The largest rank of an HTP tensor.
pub(super) const MAX_RANK: usize = 5;

/// What is lowered for: facts of the SoC that lowerings may ask about.
#[derive(Clone, Debug)]
pub struct Target {
    /// Marketing id, `sm8650`.
    pub soc: String,
    /// Hexagon architecture: 68, 69, 73, 75, 79, 81.
    pub arch: u32,
    /// The QNN type in which real numbers are kept inside the graph.
    pub float: QnnType,
    /// Lowerings that approximate are allowed.
    pub allow_approximate: bool,
}

/// What was there before a node was lowered, to go back to.
#[derive(Debug)]
struct Mark {
    tensors: usize,
    ops: usize,
    journal: usize,
}

/// A tensor that holds a value.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub layout: Layout,
    /// Its elements are in the order of `layout`; its dims may group them otherwise (a Reshape not made yet).
    pub tensor: TensorId,
    /// The node that said so: an op that is made to give the tensor the layout's own dims counts as its.
    pub node: NodeId,
}

/// Lowers nodes of one graph into one QNN graph.
#[derive(Debug)]
pub struct Lowering<'a> {
    pub(super) graph: &'a Graph,
    pub(super) target: &'a Target,
    pub(super) qnn: QnnGraph,
    /// Every tensor that holds a value.
    places: HashMap<ValueId, Vec<Place>>,
    /// Values whose `places` grew, in order.
    journal: Vec<ValueId>,
    /// Values that come from outside, in the order they were first needed.
    external: Vec<ValueId>,
    /// Their tensors at the edge.
    entries: HashMap<ValueId, TensorId>,
    /// Values of integers that stand for real numbers, held by tensors that say so.
    pub(super) codes: HashMap<ValueId, (Layout, TensorId)>,
    /// The nodes that read each value.
    pub(super) consumers: Vec<Vec<(NodeId, usize)>>,
    /// Nodes whose ops stay in real numbers.
    plain: BTreeSet<NodeId>,
    tensor_names: HashSet<String>,
    op_names: HashSet<String>,
    pub(super) current: NodeId,
}

impl<'a> Lowering<'a> {
    pub fn new(graph: &'a Graph, target: &'a Target, name: &str) -> Self {
        Self {
            graph,
            target,
            qnn: QnnGraph { name: name.into(), ..QnnGraph::default() },
            places: HashMap::new(),
            journal: vec![],
            external: vec![],
            entries: HashMap::new(),
            codes: HashMap::new(),
            consumers: graph.consumers(),
            plain: BTreeSet::new(),
            tensor_names: HashSet::new(),
            op_names: HashSet::new(),
            current: NodeId(0),
        }
    }

    /// The ops of these nodes are not computed on integers: the backend refused that.
    pub fn plain(mut self, nodes: &BTreeSet<NodeId>) -> Self {
        self.plain.clone_from(nodes);
        self
    }

    /// Lowers one node. Nodes must come in topological order. After a refusal the state is as before.
    pub fn node(&mut self, id: NodeId) -> Result<(), Refusal> {
        let node = self.graph.node(id);
        let Some(def) = crate::ops::find(&node.domain, &node.op_type) else {
            return Err(Refusal::new(codes::UNKNOWN_OP, format!("no op {} is known", node.op_name()))
                .fix("spell it with ONNX ops, or give a rewrite for it"));
        };
        let Some(lower) = def.lower else {
            return Err(Refusal::new(codes::NO_LOWERING, format!("{} has no QNN equivalent here", node.op_name())));
        };
        self.check_types(id)?;
        let mark = Mark { tensors: self.qnn.tensors.len(), ops: self.qnn.ops.len(), journal: self.journal.len() };
        let externals = self.external.len();
        self.current = id;
        let done = lower(&mut LowerCx { low: self, node }).and_then(|()| self.check_lowered(id, mark.ops));
        if let Err(refusal) = done {
            self.undo(&mark);
            for v in self.external.drain(externals..) {
                self.entries.remove(&v);
            }
            return Err(refusal);
        }
        Ok(())
    }

    /// Refuses what no lowering can take: values without a static type, zero-sized tensors.
    fn check_types(&self, id: NodeId) -> Result<(), Refusal> {
        let node = self.graph.node(id);
        // Of its second input, CastLike reads the type alone.
        let unread = if node.is("CastLike") { node.input(1).filter(|&v| node.input(0) != Some(v)) } else { None };
        let read = node.reads().filter(|v| Some(*v) != unread);
        for v in read.chain(node.outputs.iter().flatten().copied()) {
            let value = self.graph.value(v);
            let Some(ty) = value.ty.tensor() else {
                return Err(Refusal::new(codes::CONSEQUENCE, format!("the type of {:?} is not known", value.name)));
            };
            let Some(shape) = ty.static_shape() else {
                return Err(Refusal::new(codes::DATA_DEPENDENT, format!("{:?} has no static shape: {ty}", value.name))
                    .fix("fix the dimension with --dim or --input-shape"));
            };
            if shape.contains(&0) && value.data.is_none() {
                return Err(Refusal::new(
                    codes::ZERO_SIZE,
                    format!("{:?} has a dimension of size 0: {ty}", value.name),
                ));
            }
        }
        Ok(())
    }

    /// Every output that somebody asked for has a place, and no tensor has a rank that QNN refuses.
    fn check_lowered(&self, id: NodeId, first_op: usize) -> Result<(), Refusal> {
        for op in &self.qnn.ops[first_op..] {
            for t in op.inputs.iter().chain(&op.outputs) {
                let t = self.qnn.tensor(*t);
                if t.dims.len() > MAX_RANK && t.kind != TensorKind::Null {
                    let mut r = Refusal::new(
                        codes::RANK,
                        format!("{} would need {:?} of rank {}", op.op_type, t.name, t.dims.len()),
                    );
                    r.0[0].qnn_op = Some(op.op_type.clone());
                    r.0[0] = r.0[0].clone().expected("rank 1 to 5", format!("rank {}", t.dims.len()));
                    return Err(r);
                }
            }
        }
        let node = self.graph.node(id);
        debug_assert!(
            node.outputs.iter().flatten().all(|v| self.places.contains_key(v) || self.codes.contains_key(v)),
            "{} ({}) left an output without a place",
            node.name,
            node.op_name()
        );
        Ok(())
    }

    fn undo(&mut self, mark: &Mark) {
        for t in self.qnn.tensors.drain(mark.tensors..) {
            self.tensor_names.remove(&t.name);
        }
        for op in self.qnn.ops.drain(mark.ops..) {
            self.op_names.remove(&op.name);
        }
        self.codes.retain(|_, (_, t)| (t.0 as usize) < mark.tensors);
        for v in self.journal.drain(mark.journal..).rev() {
            if let Some(places) = self.places.get_mut(&v) {
                places.pop();
                if places.is_empty() {
                    self.places.remove(&v);
                }
            }
        }
    }

    /// The finished graph, its inputs in the order of `inputs`.
    pub fn finish(mut self, inputs: &[ValueId]) -> QnnGraph {
        let mut order = inputs.to_vec();
        order.extend(self.external.iter().filter(|v| !inputs.contains(v)));
        for v in order {
            if let Some(t) = self.entries.get(&v) {
                self.qnn.inputs.push(*t);
            }
        }
        absorb::absorb(&mut self.qnn, &self.plain);
        bias::take_in(&mut self.qnn);
        shuffle::name(&mut self.qnn);
        faults::avoid(&mut self.qnn);
        self.qnn
    }

    /// The values from outside that the lowered nodes read, in the order they were first needed.
    pub fn external(&self) -> &[ValueId] {
        &self.external
    }

    /// The QNN graph so far.
    pub fn qnn(&self) -> &QnnGraph {
        &self.qnn
    }

    /// Makes a value an output of the QNN graph, under the model's name and type; call it after the last node. A refusal
    /// if the value cannot be held at the edge.
    pub fn output(&mut self, v: ValueId) -> Result<(), Refusal> {
        let value = self.graph.value(v);
        if let Some((producer, _)) = value.producer {
            self.current = producer;
        }
        let ty = self.tensor_type(v)?;
        let rank = ty.1.len();
        check_edge_rank(&value.name, rank)?;
        if self.codes.contains_key(&v) {
            return self.output_codes(v);
        }
        let at = self.place_in(v, &Layout::identity(rank))?;
        let edge = edge_type(ty.0).ok_or_else(|| {
            Refusal::new(codes::DTYPE, format!("output {:?} is {}, which the HTP does not hold", value.name, ty.0))
        })?;
        let dims = qnn_dims(&ty.1);
        if self.led_out(at, &value.name, edge, &dims) {
            return Ok(());
        }
        self.free_name(&value.name);
        let op = if self.qnn.tensor(at).dtype == edge { "Reshape" } else { "Cast" };
        let mut from = at;
        if op == "Cast" && self.qnn.tensor(at).dims != dims {
            let (dtype, quant) = (self.qnn.tensor(at).dtype, self.qnn.tensor(at).quant.clone());
            from = self.add_tensor("", dtype, dims.clone(), quant);
            self.add_op("Reshape", &[at], &[from], vec![]);
        }
        let quant = self.qnn.tensor(from).quant.clone();
        let out = self.add_tensor(&value.name, edge, dims, quant);
        self.qnn.tensor_mut(out).kind = TensorKind::AppRead;
        self.add_op(op, &[from], &[out], vec![]);
        self.qnn.outputs.push(out);
        Ok(())
    }

    /// Makes `at` itself the output called `name`, if it has the type and dims of it and an op writes it.
    pub(super) fn led_out(&mut self, at: TensorId, name: &str, dtype: QnnType, dims: &[u32]) -> bool {
        let t = self.qnn.tensor(at);
        let ready = t.kind == TensorKind::Native
            && t.dtype == dtype
            && t.dims == dims
            && self.qnn.ops.iter().any(|op| op.outputs.contains(&at));
        if !ready {
            return false;
        }
        if !self.tensor_names.contains(name) || self.qnn.tensor(at).name == name {
            self.tensor_names.remove(&self.qnn.tensor(at).name);
        } else {
            self.free_name(name);
        }
        self.tensor_names.insert(name.into());
        let t = self.qnn.tensor_mut(at);
        t.kind = TensorKind::AppRead;
        t.name = name.into();
        self.qnn.outputs.push(at);
        true
    }

    /// Gives the tensor that has this name another one, so that a graph output can have it.
    pub(super) fn free_name(&mut self, name: &str) {
        if let Some(i) = self.qnn.tensors.iter().position(|t| t.name == name) {
            let other = self.unique_tensor_name(&format!("{name}.inner"));
            self.qnn.tensors[i].name = other;
            self.tensor_names.remove(name);
        }
    }

    pub(super) fn tensor_type(&self, v: ValueId) -> Result<(DataType, Vec<usize>), Refusal> {
        let value = self.graph.value(v);
        let known = value.ty.tensor().and_then(|t| Some((t.dtype, t.static_shape()?)));
        known.ok_or_else(|| Refusal::new(codes::CONSEQUENCE, format!("the type of {:?} is not known", value.name)))
    }

    /// The layouts in which `v` exists now (the identity for what comes from outside).
    pub(super) fn layouts(&self, v: ValueId) -> Vec<Layout> {
        match (self.places.get(&v), self.codes.get(&v)) {
            (Some(p), _) => p.iter().map(|p| p.layout.clone()).collect(),
            (None, Some((layout, _))) => vec![layout.clone()],
            (None, None) => vec![Layout::identity(self.graph.value(v).ty.tensor().map_or(0, |t| t.shape.len()))],
        }
    }

    /// The tensor that holds `v` in `layout`, made if need be.
    pub(super) fn place_in(&mut self, v: ValueId, layout: &Layout) -> Result<TensorId, Refusal> {
        let dims = qnn_dims(&layout.apply(&self.tensor_type(v)?.1));
        let exact = |p: &&Place| p.layout == *layout && self.qnn.tensor(p.tensor).dims == dims;
        if let Some(p) = self.places.get(&v).and_then(|p| p.iter().find(exact)) {
            return Ok(p.tensor);
        }
        let place = self.ordered(v, layout)?;
        let source = self.qnn.tensor(place.tensor);
        if source.dims == dims {
            if place.layout != *layout {
                self.put(v, layout.clone(), place.tensor);
            }
            return Ok(place.tensor);
        }
        let (dtype, quant, name) = (source.dtype, source.quant.clone(), self.graph.value(v).name.clone());
        let reader = std::mem::replace(&mut self.current, place.node);
        let out = self.add_tensor(&name, dtype, dims, quant);
        self.add_op("Reshape", &[place.tensor], &[out], vec![]);
        self.put(v, layout.clone(), out);
        self.current = reader;
        Ok(out)
    }

    /// A tensor whose elements are those of `v` in the order of `layout`, whatever its dims; made if need be.
    pub(super) fn ordered(&mut self, v: ValueId, layout: &Layout) -> Result<Place, Refusal> {
        if let Some(p) = self.places.get(&v).and_then(|p| p.iter().find(|p| p.layout == *layout)) {
            return Ok(p.clone());
        }
        let graph = self.graph;
        if let Some(tensor) = &graph.value(v).data {
            let t = self.constant(&graph.value(v).name, tensor, layout)?;
            self.put(v, layout.clone(), t);
            return Ok(Place { layout: layout.clone(), tensor: t, node: self.current });
        }
        if !self.places.contains_key(&v) {
            if !self.codes.contains_key(&v) {
                self.enter(v)?;
            }
            if self.codes.contains_key(&v) {
                self.decode(v)?;
            }
            return self.ordered(v, layout);
        }
        let dims: Vec<u32> = self.tensor_type(v)?.1.iter().map(|&d| d as u32).collect();
        let copies = &self.places[&v];
        let same = |p: &&Place| keeps_order(&p.layout.apply(&dims), &p.layout.perm_to(layout));
        if let Some(p) = copies.iter().find(same) {
            return Ok(p.clone());
        }
        let Place { layout: from, tensor, .. } = copies[0].clone();
        let stem = graph.value(v).name.clone();
        let tensor = regroup::permute(self, tensor, &from.apply(&dims), &from.perm_to(layout), &stem);
        self.put(v, layout.clone(), tensor);
        Ok(Place { layout: layout.clone(), tensor, node: self.current })
    }

    /// What comes from outside is made an input.
    pub(super) fn layouts_known(&mut self, v: ValueId) -> Result<(), Refusal> {
        if !self.places.contains_key(&v) && !self.codes.contains_key(&v) {
            self.enter(v)?;
        }
        Ok(())
    }

    /// Every tensor that holds `v`; what comes from outside is made an input first.
    pub(super) fn places(&mut self, v: ValueId) -> Result<Vec<Place>, Refusal> {
        if !self.places.contains_key(&v) {
            let rank = self.tensor_type(v)?.1.len();
            self.ordered(v, &Layout::identity(rank))?;
        }
        Ok(self.places.get(&v).cloned().unwrap_or_default())
    }

    pub(super) fn put(&mut self, v: ValueId, layout: Layout, t: TensorId) {
        self.places.entry(v).or_default().push(Place { layout, tensor: t, node: self.current });
        self.journal.push(v);
    }

    /// A value from outside becomes an input of the QNN graph, converted to the type that the HTP computes in.
    pub(super) fn enter(&mut self, v: ValueId) -> Result<(), Refusal> {
        let (dtype, shape) = self.tensor_type(v)?;
        let name = &self.graph.value(v).name;
        let Some(edge) = edge_type(dtype) else {
            return Err(Refusal::new(codes::DTYPE, format!("{name:?} is {dtype}, which the HTP does not hold"))
                .fix("cast it outside of the NPU part, or export the model with float32"));
        };
        let dims = qnn_dims(&shape);
        check_edge_rank(name, dims.len())?;
        self.free_name(name);
        if let Some(coding) = self.read_as(v) {
            return self.enter_codes(v, &coding, dims);
        }
        let entry = self.add_tensor(name, edge, dims.clone(), Quant::None);
        let mut t = entry;
        self.qnn.tensor_mut(t).kind = TensorKind::AppWrite;
        let inner = self.inner_type(dtype);
        if inner != edge {
            let cast = self.add_tensor(name, inner, dims, Quant::None);
            self.add_op("Cast", &[t], &[cast], vec![]);
            t = cast;
        }
        self.put(v, Layout::identity(shape.len()), t);
        self.entered(v, entry);
        Ok(())
    }

    /// `v` comes from outside, through the tensor `entry`.
    pub(super) fn entered(&mut self, v: ValueId, entry: TensorId) {
        self.external.push(v);
        self.entries.insert(v, entry);
    }

    /// The QNN type in which values of an ONNX type are kept inside the graph.
    pub(super) fn inner_type(&self, dtype: DataType) -> QnnType {
        match dtype {
            d if d.is_float() => self.target.float,
            DataType::Bool => QnnType::BOOL_8,
            DataType::U8 => QnnType::UINT_8,
            DataType::I8 => QnnType::INT_8,
            DataType::U16 => QnnType::UINT_16,
            DataType::I16 => QnnType::INT_16,
            DataType::U32 | DataType::U64 => QnnType::UINT_32,
            _ => QnnType::INT_32,
        }
    }

    /// A static tensor for a constant of the model, in the type that the graph computes in.
    pub(super) fn constant(&mut self, name: &str, tensor: &Tensor, layout: &Layout) -> Result<TensorId, Refusal> {
        let dtype = self.inner_type(tensor.dtype());
        Self::check_narrowing(name, tensor, dtype)?;
        let perm = (!layout.is_identity()).then(|| layout.order().to_vec());
        let dims = qnn_dims(&layout.apply(tensor.shape()));
        Ok(self.add_static(name, dtype, dims, StaticData::Constant { tensor: tensor.clone(), perm }))
    }

    /// 64-bit integers become 32-bit ones only if every value fits.
    fn check_narrowing(name: &str, tensor: &Tensor, to: QnnType) -> Result<(), Refusal> {
        let (low, high) = match (tensor.dtype(), to) {
            (DataType::I64, QnnType::INT_32) => (i128::from(i32::MIN), i128::from(i32::MAX)),
            (DataType::U64, QnnType::UINT_32) => (0, i128::from(u32::MAX)),
            _ => return Ok(()),
        };
        match tensor.to_i128s().unwrap_or_default().into_iter().find(|v| !(low..=high).contains(v)) {
            None => Ok(()),
            Some(v) => {
                let mut r = Refusal::new(codes::INT64, format!("constant {name:?} holds {v}, which does not fit {to}"));
                r.0[0] = r.0[0].clone().expected(format!("{low} to {high}"), v.to_string());
                Err(r.fix("use values that fit 32 bits; the HTP has no 64-bit integers"))
            }
        }
    }

    pub(super) fn add_static(&mut self, name: &str, dtype: QnnType, dims: Vec<u32>, data: StaticData) -> TensorId {
        let t = self.add_tensor(name, dtype, dims, Quant::None);
        let tensor = self.qnn.tensor_mut(t);
        tensor.kind = TensorKind::Static;
        tensor.data = Some(data);
        t
    }

    pub(super) fn add_tensor(&mut self, name: &str, dtype: QnnType, dims: Vec<u32>, quant: Quant) -> TensorId {
        let stem = if name.is_empty() { self.graph.node(self.current).name.clone() } else { name.to_string() };
        let name = self.unique_tensor_name(&stem);
        self.qnn.tensors.push(QnnTensor { name, kind: TensorKind::Native, dtype, dims, quant, data: None });
        TensorId(self.qnn.tensors.len() as u32 - 1)
    }

    fn unique_tensor_name(&mut self, stem: &str) -> String {
        let name = unique(stem, &self.tensor_names, self.qnn.tensors.len());
        self.tensor_names.insert(name.clone());
        name
    }

    pub(super) fn add_op(
        &mut self,
        op_type: &str,
        inputs: &[TensorId],
        outputs: &[TensorId],
        params: Vec<(String, Param)>,
    ) {
        let stem = if self.qnn.ops.is_empty() && self.graph.node_count() == 0 {
            op_type.to_string()
        } else {
            self.graph.node(self.current).name.clone()
        };
        let name = unique(&stem, &self.op_names, self.qnn.ops.len());
        self.op_names.insert(name.clone());
        self.qnn.ops.push(QnnOp {
            name,
            package: "qti.aisw".into(),
            op_type: op_type.into(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            params,
            node: self.current,
        });
    }
}

/// Refuses a value at the edge of the graph whose rank QNN does not hold.
fn check_edge_rank(name: &str, rank: usize) -> Result<(), Refusal> {
    if rank <= MAX_RANK {
        return Ok(());
    }
    let mut r = Refusal::new(codes::RANK, format!("{name:?} has rank {rank}, and the HTP holds rank 1 to {MAX_RANK}"));
    r.0[0] = r.0[0].clone().expected(format!("rank 1 to {MAX_RANK}"), format!("rank {rank}"));
    Err(r)
}

/// The dims of a QNN tensor for a logical shape: a scalar is one element of rank 1.
pub(super) fn qnn_dims(shape: &[usize]) -> Vec<u32> {
    if shape.is_empty() { vec![1] } else { shape.iter().map(|&d| d as u32).collect() }
}

/// The QNN type of a value at the edge of the graph, where ONNX Runtime's own type must stand; `None` if the HTP
/// takes no such tensor.
fn edge_type(dtype: DataType) -> Option<QnnType> {
    Some(match dtype {
        DataType::F32 => QnnType::FLOAT_32,
        DataType::F16 => QnnType::FLOAT_16,
        DataType::I64 => QnnType::INT_64,
        DataType::I32 => QnnType::INT_32,
        DataType::U32 => QnnType::UINT_32,
        DataType::I16 => QnnType::INT_16,
        DataType::U16 => QnnType::UINT_16,
        DataType::I8 => QnnType::INT_8,
        DataType::U8 => QnnType::UINT_8,
        DataType::Bool => QnnType::BOOL_8,
        _ => return None,
    })
}

fn unique(stem: &str, taken: &HashSet<String>, seed: usize) -> String {
    if !stem.is_empty() && !taken.contains(stem) {
        return stem.into();
    }
    (seed..usize::MAX).map(|i| format!("{stem}#{i}")).find(|n| !taken.contains(n)).unwrap_or_default()
}
