//! Integers that stand for real numbers, between QuantizeLinear and DequantizeLinear: tensors with an encoding.
//!
//! Inside the graph they are unsigned (an int8 code is moved by 128, and so is its zero point): few QNN ops take both.

use super::session::{Lowering, qnn_dims};
use super::{Layout, Refusal, regroup};
use crate::ir::{DataType, Graph, Node, ValueId};
use crate::qnn::graph::{QnnType, Quant, TensorId, TensorKind};

/// What 8- or 16-bit integers stand for: `real = (code - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coding {
    /// `U8`, `I8`, `U16` or `I16`.
    pub dtype: DataType,
    pub scale: f32,
    pub zero: i32,
}

impl Coding {
    /// The coding of one scale and one zero point (inputs 1 and 2 of QuantizeLinear and DequantizeLinear), if they are
    /// constants, and the type has 8 or 16 bits.
    pub fn of(graph: &Graph, node: &Node, dtype: DataType) -> Option<Self> {
        if !matches!(dtype, DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16) {
            return None;
        }
        let constant = |i: usize| graph.value(node.input(i)?).data.as_ref();
        let scale = constant(1)?.scalar_f64()? as f32;
        let zero = if node.input(2).is_some() { i32::try_from(constant(2)?.scalar_i64()?).ok()? } else { 0 };
        (scale.is_normal() && scale > 0.0).then_some(Self { dtype, scale, zero })
    }

    /// The same reals in unsigned codes, as they are kept inside the graph.
    #[must_use]
    pub fn unsigned(self) -> Self {
        let (dtype, by) = match self.dtype {
            DataType::I8 => (DataType::U8, 128),
            DataType::I16 => (DataType::U16, 32_768),
            d => (d, 0),
        };
        Self { dtype, zero: self.zero + by, ..self }
    }

    pub fn qnn_type(self) -> QnnType {
        match self.dtype {
            DataType::I8 => QnnType::SFIXED_POINT_8,
            DataType::U16 => QnnType::UFIXED_POINT_16,
            DataType::I16 => QnnType::SFIXED_POINT_16,
            _ => QnnType::UFIXED_POINT_8,
        }
    }

    pub fn quant(self) -> Quant {
        Quant::PerTensor { scale: self.scale, offset: -self.zero }
    }
}

impl Lowering<'_> {
    /// The one coding as which every reader of `v` dequantises it.
    pub(super) fn read_as(&self, v: ValueId) -> Option<Coding> {
        let dtype = self.graph.value(v).ty.dtype()?;
        let mut readers = self.consumers.get(v.0 as usize)?.iter();
        let coding = |&(id, slot): &(crate::ir::NodeId, usize)| {
            let node = self.graph.node(id);
            (node.op_type == "DequantizeLinear" && slot == 0).then(|| Coding::of(self.graph, node, dtype))?
        };
        let first = coding(readers.next()?)?;
        readers.all(|r| coding(r) == Some(first)).then_some(first)
    }

    /// `v` comes from outside as codes, under the model's own type.
    pub(super) fn enter_codes(&mut self, v: ValueId, coding: &Coding, dims: Vec<u32>) -> Result<(), Refusal> {
        let name = self.graph.value(v).name.clone();
        let rank = self.tensor_type(v)?.1.len();
        let entry = self.add_tensor(&name, coding.qnn_type(), dims.clone(), coding.quant());
        self.qnn.tensor_mut(entry).kind = TensorKind::AppWrite;
        let t = self.converted(entry, &coding.unsigned(), dims);
        self.codes.insert(v, (Layout::identity(rank), t));
        self.entered(v, entry);
        Ok(())
    }

    /// The same codes in another type of as many bits.
    fn converted(&mut self, t: TensorId, to: &Coding, dims: Vec<u32>) -> TensorId {
        if self.qnn.tensor(t).dtype == to.qnn_type() {
            return t;
        }
        let out = self.add_tensor("", to.qnn_type(), dims, to.quant());
        self.add_op("Convert", &[t], &[out], vec![]);
        out
    }

    /// What a tensor of codes holds, told in the model's type for `v`.
    fn declared(&self, v: ValueId, t: TensorId) -> Option<Coding> {
        let dtype = self.graph.value(v).ty.dtype()?;
        let Quant::PerTensor { scale, offset } = self.qnn.tensor(t).quant else { return None };
        let by = match dtype {
            DataType::I8 => 128,
            DataType::I16 => 32_768,
            _ => 0,
        };
        Some(Coding { dtype, scale, zero: -offset - by })
    }

    /// `v`, held as codes, for a reader that takes plain integers.
    pub(super) fn decode(&mut self, v: ValueId) -> Result<(), Refusal> {
        let Some((layout, t)) = self.codes.get(&v).cloned() else { return Ok(()) };
        let (dtype, _) = self.tensor_type(v)?;
        let Some(declared) = self.declared(v, t) else { return Ok(()) };
        let dims = self.qnn.tensor(t).dims.clone();
        let t = self.converted(t, &declared, dims.clone());
        let plain = self.inner_type(dtype);
        let out = self.add_tensor("", plain, dims, Quant::None);
        self.add_op("Cast", &[t], &[out], vec![]);
        self.put(v, layout, out);
        Ok(())
    }

    /// `v`, held as codes, leaves the graph under the model's name and type.
    pub(super) fn output_codes(&mut self, v: ValueId) -> Result<(), Refusal> {
        let Some((layout, mut t)) = self.codes.get(&v).cloned() else { return Ok(()) };
        let (_, shape) = self.tensor_type(v)?;
        let (name, dims) = (self.graph.value(v).name.clone(), qnn_dims(&shape));
        if !layout.is_identity() {
            let from = layout.apply(&dims);
            t = regroup::permute(self, t, &from, &layout.perm_to(&Layout::identity(shape.len())), &name);
        }
        let Some(declared) = self.declared(v, t) else { return Ok(()) };
        if self.led_out(t, &name, declared.qnn_type(), &dims) {
            return Ok(());
        }
        self.free_name(&name);
        let same = self.qnn.tensor(t).dtype == declared.qnn_type();
        let out = self.add_tensor(&name, declared.qnn_type(), dims, declared.quant());
        self.qnn.tensor_mut(out).kind = TensorKind::AppRead;
        self.add_op(if same { "Reshape" } else { "Convert" }, &[t], &[out], vec![]);
        self.qnn.outputs.push(out);
        Ok(())
    }
}
