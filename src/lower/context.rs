//! What a lowering sees and says.

use super::session::{Lowering, Target, qnn_dims};
use super::{Coding, Layout, Refusal, keeps_order, regroup};
use crate::ir::{Attrs, DataType, Graph, Node, Tensor, TensorType, ValueId};
use crate::qnn::graph::{Param, QnnType, Quant, StaticData, TensorId};
use crate::verdict::codes;

/// The context in which one node is lowered. Types of all inputs and outputs are known, static and without zero-sized
/// dimensions (constants excepted).
#[derive(Debug)]
pub struct LowerCx<'a, 'g> {
    pub(super) low: &'a mut Lowering<'g>,
    pub node: &'g Node,
}

impl<'g> LowerCx<'_, 'g> {
    pub fn attrs(&self) -> &'g Attrs {
        &self.node.attrs
    }

    /// The graph that is lowered.
    pub fn graph(&self) -> &'g Graph {
        self.low.graph
    }

    /// The opset version of the node's domain.
    pub fn version(&self) -> i64 {
        self.node.version
    }

    pub fn target(&self) -> &'g Target {
        self.low.target
    }

    /// The QNN type in which real numbers are kept inside the graph.
    pub fn float(&self) -> QnnType {
        self.low.target.float
    }

    /// Is input `i` given (not omitted)?
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    pub(super) fn input_value(&self, i: usize) -> Result<ValueId, Refusal> {
        self.node.input(i).ok_or_else(|| Refusal::form(format!("input {i} is omitted")))
    }

    pub(super) fn output_value(&self, slot: usize) -> Result<ValueId, Refusal> {
        self.node.output(slot).ok_or_else(|| Refusal::form(format!("output {slot} is omitted")))
    }

    /// Does output 0 leave the model and input 0 come from outside: is the node the whole way between?
    pub fn is_whole_way(&self) -> bool {
        let enters = self.node.input(0).map(|v| self.low.graph.value(v)).is_some_and(|v| v.producer.is_none());
        enters && self.constant(0).is_none() && self.node.output(0).is_some_and(|v| self.low.graph.outputs.contains(&v))
    }

    /// Is output `slot` given out by the model, as it is or with its elements moved?
    pub fn leaves(&self, slot: usize) -> bool {
        const MOVING: [&str; 10] =
            ["Cast", "Concat", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"];
        let graph = self.low.graph;
        let mut open: Vec<ValueId> = self.node.output(slot).into_iter().collect();
        let mut seen = 0;
        while let Some(v) = open.pop() {
            if graph.outputs.contains(&v) {
                return true;
            }
            seen += 1;
            if seen > 64 {
                return false;
            }
            let readers = self.low.consumers.get(v.0 as usize).into_iter().flatten();
            let moving = readers.map(|(id, _)| graph.node(*id)).filter(|n| MOVING.iter().any(|op| n.is(op)));
            open.extend(moving.flat_map(|n| n.outputs.iter().flatten().copied()));
        }
        false
    }

    /// The name of input `i`, for messages.
    pub fn input_name(&self, i: usize) -> &'g str {
        self.node.input(i).map_or("(omitted)", |v| self.low.graph.value(v).name.as_str())
    }

    /// ONNX type of input `i`.
    pub fn ty(&self, i: usize) -> Result<&'g TensorType, Refusal> {
        let v = self.input_value(i)?;
        let value = self.low.graph.value(v);
        value
            .ty
            .tensor()
            .ok_or_else(|| Refusal::new(codes::CONSEQUENCE, format!("the type of {:?} is not known", value.name)))
    }

    pub fn dtype(&self, i: usize) -> Result<DataType, Refusal> {
        Ok(self.ty(i)?.dtype)
    }

    /// Logical (ONNX) dims of input `i`; empty for a scalar.
    pub fn shape(&self, i: usize) -> Result<Vec<usize>, Refusal> {
        Ok(self.low.tensor_type(self.input_value(i)?)?.1)
    }

    pub fn rank(&self, i: usize) -> Result<usize, Refusal> {
        Ok(self.shape(i)?.len())
    }

    /// Is output `slot` asked for?
    pub fn wants(&self, slot: usize) -> bool {
        self.node.output(slot).is_some()
    }

    /// Logical dims of output `slot`.
    pub fn out_shape(&self, slot: usize) -> Result<Vec<usize>, Refusal> {
        Ok(self.low.tensor_type(self.output_value(slot)?)?.1)
    }

    pub fn out_dtype(&self, slot: usize) -> Result<DataType, Refusal> {
        Ok(self.low.tensor_type(self.output_value(slot)?)?.0)
    }

    /// The constant in input `i`, if it is one.
    pub fn constant(&self, i: usize) -> Option<&'g Tensor> {
        self.low.graph.value(self.node.input(i)?).data.as_ref()
    }

    /// The constant in input `i`; a refusal that names the input if it is computed at run time.
    pub fn need_constant(&self, i: usize, what: &str) -> Result<&'g Tensor, Refusal> {
        self.constant(i).ok_or_else(|| {
            Refusal::new(codes::NOT_CONSTANT, format!("{what} ({:?}) is not a constant", self.input_name(i)))
                .fix(format!("make {what} an initializer"))
        })
    }

    /// The integer elements of constant input `i`.
    pub fn need_ints(&self, i: usize, what: &str) -> Result<Vec<i64>, Refusal> {
        let t = self.need_constant(i, what)?;
        t.to_i64s().ok_or_else(|| Refusal::form(format!("{what} ({:?}) is not integer", self.input_name(i))))
    }

    /// The elements of constant input `i` as floats.
    pub fn need_floats(&self, i: usize, what: &str) -> Result<Vec<f32>, Refusal> {
        let t = self.need_constant(i, what)?;
        t.to_f32s().ok_or_else(|| Refusal::form(format!("{what} ({:?}) is not numeric", self.input_name(i))))
    }

    /// Input `i` in the model's own axis order (a scalar has dims `[1]`).
    pub fn input(&mut self, i: usize) -> Result<TensorId, Refusal> {
        let rank = self.rank(i)?;
        self.input_in(i, &Layout::identity(rank))
    }

    /// Input `i` in `layout`; a Transpose is made if it does not exist so yet. Constants are permuted at compile time.
    pub fn input_in(&mut self, i: usize, layout: &Layout) -> Result<TensorId, Refusal> {
        let v = self.input_value(i)?;
        self.low.place_in(v, layout)
    }

    /// The layouts in which input `i` exists already.
    pub fn layouts(&self, i: usize) -> Result<Vec<Layout>, Refusal> {
        Ok(self.low.layouts(self.input_value(i)?))
    }

    /// The layout in which a one-input op that does not care should take input `i`: one that exists.
    pub fn any_layout(&self, i: usize) -> Result<Layout, Refusal> {
        let all = self.layouts(i)?;
        Ok(all.iter().find(|l| !l.is_identity()).or(all.first()).cloned().unwrap_or_else(|| Layout::identity(0)))
    }

    /// The layout in which several inputs of equal rank together cost the least to transpose.
    pub fn common_layout(&self, inputs: &[usize]) -> Result<Layout, Refusal> {
        let rank = inputs.iter().map(|&i| self.rank(i)).collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(0);
        let mut candidates: Vec<Layout> = vec![];
        let mut costs: Vec<(Vec<Layout>, usize, Vec<usize>)> = vec![];
        for &i in inputs {
            let shape = self.shape(i)?;
            if self.constant(i).is_some() || shape.len() < rank {
                continue;
            }
            let have = self.layouts(i)?;
            candidates.extend(have.iter().filter(|l| !candidates.contains(l)).cloned().collect::<Vec<_>>());
            costs.push((have, shape.iter().product(), shape));
        }
        let cost = |l: &Layout| -> usize {
            costs
                .iter()
                .filter(|(have, _, shape)| !have.iter().any(|h| h == l || keeps_order_usize(h, l, shape)))
                .map(|(_, bytes, _)| *bytes)
                .sum()
        };
        // On a tie the layout of spatial ops wins: it is what flowed in from one, and what the next one will want.
        candidates.sort_by_key(|l| (cost(l), l.is_identity()));
        Ok(candidates.into_iter().next().unwrap_or_else(|| Layout::identity(rank)))
    }

    /// Inputs made ready to broadcast against each other elementwise, in one layout: all have the rank of the largest,
    /// unless the layout is the identity (QNN aligns trailing axes by itself).
    pub fn broadcast_inputs(&mut self, inputs: &[usize]) -> Result<(Vec<TensorId>, Layout), Refusal> {
        let layout = self.common_layout(inputs)?;
        let mut out = vec![];
        for &i in inputs {
            out.push(self.broadcast_input(i, &layout)?);
        }
        Ok((out, layout))
    }

    /// Input `i`, of the rank of `layout` or lower, ready to broadcast against tensors in `layout`.
    pub fn broadcast_input(&mut self, i: usize, layout: &Layout) -> Result<TensorId, Refusal> {
        let shape = self.shape(i)?;
        if shape.len() == layout.rank() {
            return self.input_in(i, layout);
        }
        let mut full = vec![1usize; layout.rank() - shape.len()];
        full.extend(&shape);
        if let Some(t) = self.constant(i)
            && let Some(t) = t.reshaped(full.clone())
        {
            let name = self.input_name(i).to_string();
            return self.low.constant(&name, &t, layout);
        }
        let t = self.input(i)?;
        if layout.is_identity() {
            return Ok(t);
        }
        let full_dims: Vec<u32> = full.iter().map(|&d| d as u32).collect();
        let dims = layout.apply(&full_dims);
        if keeps_order(&full_dims, layout.order()) {
            return Ok(self.reshape(t, &dims));
        }
        let r = self.reshape(t, &full_dims);
        Ok(self.transpose(r, layout.order()))
    }

    /// The tensor for output `slot`, in the value's own type, its axes in `layout`.
    pub fn output(&mut self, slot: usize, layout: &Layout) -> Result<TensorId, Refusal> {
        let v = self.output_value(slot)?;
        let (dtype, shape) = self.low.tensor_type(v)?;
        let dtype = self.low.inner_type(dtype);
        let name = self.low.graph.value(v).name.clone();
        let dims = qnn_dims(&layout.apply(&shape));
        let t = self.low.add_tensor(&name, dtype, dims, Quant::None);
        self.low.put(v, layout.clone(), t);
        Ok(t)
    }

    /// Input `i`, integers that stand for real numbers, as a tensor with an encoding, and its layout. `None` if it is
    /// held as plain integers.
    pub fn codes(&mut self, i: usize) -> Result<Option<(Layout, TensorId)>, Refusal> {
        let v = self.input_value(i)?;
        if self.low.graph.value(v).data.is_none() {
            self.low.layouts_known(v)?;
        }
        Ok(self.low.codes.get(&v).cloned())
    }

    /// The tensor for output `slot`, integers that stand for real numbers as `coding` says (kept unsigned).
    pub fn output_codes(&mut self, slot: usize, layout: &Layout, coding: Coding) -> Result<TensorId, Refusal> {
        let v = self.output_value(slot)?;
        let (_, shape) = self.low.tensor_type(v)?;
        let coding = coding.unsigned();
        let name = self.low.graph.value(v).name.clone();
        let dims = qnn_dims(&layout.apply(&shape));
        let t = self.low.add_tensor(&name, coding.qnn_type(), dims, coding.quant());
        self.low.codes.insert(v, (layout.clone(), t));
        Ok(t)
    }

    /// How a tensor's integers stand for real numbers.
    pub fn quant(&self, t: TensorId) -> &Quant {
        &self.low.qnn.tensor(t).quant
    }

    /// The tensor for output `slot` in the model's own axis order.
    pub fn output_plain(&mut self, slot: usize) -> Result<TensorId, Refusal> {
        let rank = self.out_shape(slot)?.len();
        self.output(slot, &Layout::identity(rank))
    }

    /// Output `slot` is tensor `t`, whose axes are in `layout`; no op is made.
    pub fn alias(&mut self, slot: usize, t: TensorId, layout: Layout) -> Result<(), Refusal> {
        let v = self.output_value(slot)?;
        self.low.put(v, layout, t);
        Ok(())
    }

    /// Emits one QNN op.
    pub fn op(&mut self, op_type: &str, inputs: &[TensorId], outputs: &[TensorId], params: &[(&str, Param)]) {
        let params = params.iter().map(|(n, p)| ((*n).to_string(), p.clone())).collect();
        self.low.add_op(op_type, inputs, outputs, params);
    }

    /// Emits one QNN op whose only output is a new tensor of this type and these dims.
    pub fn op_to(
        &mut self,
        op_type: &str,
        inputs: &[TensorId],
        dtype: QnnType,
        dims: &[u32],
        params: &[(&str, Param)],
    ) -> TensorId {
        let out = self.temp(dtype, dims);
        self.op(op_type, inputs, &[out], params);
        out
    }

    /// An intermediate tensor.
    pub fn temp(&mut self, dtype: QnnType, dims: &[u32]) -> TensorId {
        let stem = format!("{}.t", self.node.name);
        self.low.add_tensor(&stem, dtype, dims.to_vec(), Quant::None)
    }

    /// An intermediate tensor with the type of `t`.
    pub fn temp_like(&mut self, t: TensorId, dims: &[u32]) -> TensorId {
        let tensor = self.low.qnn.tensor(t);
        let (dtype, quant) = (tensor.dtype, tensor.quant.clone());
        let stem = format!("{}.t", self.node.name);
        self.low.add_tensor(&stem, dtype, dims.to_vec(), quant)
    }

    /// The dims of a QNN tensor, in physical order.
    pub fn dims(&self, t: TensorId) -> Vec<u32> {
        self.low.qnn.tensor(t).dims.clone()
    }

    pub fn qnn_type(&self, t: TensorId) -> QnnType {
        self.low.qnn.tensor(t).dtype
    }

    /// The same elements under other dims (a Reshape op, or `t` itself; a constant of its own for a constant).
    pub fn reshape(&mut self, t: TensorId, dims: &[u32]) -> TensorId {
        if self.dims(t) == dims {
            return t;
        }
        let tensor = self.low.qnn.tensor(t);
        if let (Some(data), Quant::None) = (tensor.data.clone(), &tensor.quant) {
            return self.static_tensor(tensor.dtype, dims, data);
        }
        let out = self.temp_like(t, dims);
        self.op("Reshape", &[t], &[out], &[]);
        out
    }

    /// A constant repeated to `dims`: `full` are its own dims with ones in front, and each is 1 or that of `dims`. `None`
    /// if `t` is not a constant.
    pub fn spread_constant(&mut self, t: TensorId, full: &[u32], dims: &[u32]) -> Option<TensorId> {
        let source = self.low.qnn.tensor(t);
        let StaticData::Constant { tensor, perm } = source.data.clone()? else { return None };
        let dtype = source.dtype;
        let tensor = match perm {
            Some(p) => tensor.transposed(&p)?,
            None => tensor,
        };
        let wide = |d: &[u32]| d.iter().map(|&d| d as usize).collect::<Vec<usize>>();
        let tensor = tensor.reshaped(wide(full))?.broadcast_to(&wide(dims))?;
        Some(self.static_tensor(dtype, dims, StaticData::Constant { tensor, perm: None }))
    }

    /// Axes permuted: axis `i` of the result is axis `perm[i]` of `t`.
    pub fn transpose(&mut self, t: TensorId, perm: &[usize]) -> TensorId {
        let from = self.dims(t);
        let dims: Vec<u32> = perm.iter().map(|&p| from[p]).collect();
        let stem = format!("{}.t", self.node.name);
        let moved = regroup::permute(self.low, t, &from, perm, &stem);
        self.reshape(moved, &dims)
    }

    /// Converted to another QNN type (a Cast op, or `t` itself).
    pub fn cast(&mut self, t: TensorId, to: QnnType) -> TensorId {
        if self.qnn_type(t) == to {
            return t;
        }
        let dims = self.dims(t);
        self.op_to("Cast", &[t], to, &dims, &[])
    }

    /// A constant of real numbers, in the type that the graph computes in.
    pub fn float_constant(&mut self, dims: &[u32], values: &[f32]) -> TensorId {
        let shape = dims.iter().map(|&d| d as usize).collect();
        let tensor = Tensor::from_f32(shape, values);
        self.static_tensor(self.float(), dims, StaticData::Constant { tensor, perm: None })
    }

    /// One real number, dims `[1]`: broadcasts against anything.
    pub fn float_scalar(&mut self, value: f32) -> TensorId {
        self.float_constant(&[1], &[value])
    }

    pub fn i32_constant(&mut self, dims: &[u32], values: &[i32]) -> TensorId {
        let shape = dims.iter().map(|&d| d as usize).collect();
        let tensor = Tensor::from_i32(shape, values);
        self.static_tensor(QnnType::INT_32, dims, StaticData::Constant { tensor, perm: None })
    }

    /// A constant of the model as a static tensor: axes permuted (`None`: as they are), then regrouped to `dims`,
    /// converted to the type that the graph computes in. Nothing is copied until the worker needs it.
    pub fn weight(&mut self, tensor: &Tensor, perm: Option<&[usize]>, dims: &[u32]) -> TensorId {
        let dtype = self.low.inner_type(tensor.dtype());
        debug_assert_eq!(dims.iter().map(|&d| d as usize).product::<usize>(), tensor.len());
        self.static_tensor(
            dtype,
            dims,
            StaticData::Constant { tensor: tensor.clone(), perm: perm.map(<[usize]>::to_vec) },
        )
    }

    /// A static tensor of any type.
    pub fn static_tensor(&mut self, dtype: QnnType, dims: &[u32], data: StaticData) -> TensorId {
        let stem = format!("{}.c", self.node.name);
        self.low.add_static(&stem, dtype, dims.to_vec(), data)
    }

    /// The placeholder for an omitted optional input in the middle of an op's inputs. At the end, leave inputs out.
    pub fn null(&mut self) -> TensorId {
        let t = self.temp(QnnType(0), &[]);
        self.low.qnn.tensor_mut(t).kind = crate::qnn::graph::TensorKind::Null;
        t
    }
}

fn keeps_order_usize(from: &Layout, to: &Layout, shape: &[usize]) -> bool {
    let dims: Vec<u32> = shape.iter().map(|&d| d as u32).collect();
    keeps_order(&from.apply(&dims), &from.perm_to(to))
}
