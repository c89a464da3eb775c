//! Values of types that the HTP has no tensors of, at the edge of a graph: their bits come in and go out as bytes or words,
//! and are taken apart and put together by arithmetic. The nodes are made by `infer::packed_edges`, never by a model.
//!
//! `Unpack` and `Pack` have attribute `of`, the element type outside. `Wrap` takes INT_32 modulo `2^bits`.

use super::{InferCx, OpDef, OpError, compose, word};
use crate::ir::DataType;
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};

/// The domain of these ops.
pub(crate) const DOMAIN: &str = "qnnc";

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef { domain: DOMAIN, ..OpDef::new("Unpack", keep).lower(lower_unpack) },
    OpDef { domain: DOMAIN, ..OpDef::new("Pack", keep).lower(lower_pack) },
    OpDef { domain: DOMAIN, ..OpDef::new("Wrap", keep).lower(lower_wrap) },
];

/// Types are set by the pass that makes the nodes, and inference does not run after it.
fn keep(_: &mut InferCx<'_>) -> Result<(), OpError> {
    Ok(())
}

fn outer(cx: &LowerCx<'_, '_>) -> Result<DataType, Refusal> {
    let of = cx.attrs().int_or("of", 0);
    let dtype = i32::try_from(of).ok().and_then(DataType::from_onnx);
    dtype.ok_or_else(|| Refusal::form(format!("attribute of is {of}")))
}

fn lower_wrap(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let modulus = 1 << cx.attrs().int_or("bits", 8).clamp(1, 16);
    let signed = cx.attrs().int_or("signed", 1) == 1;
    super::elementwise::lower(cx, &[0], 4, |cx, ids| {
        Ok(if signed { word::signed(cx, ids[0], modulus) } else { word::modulo(cx, ids[0], modulus) })
    })
}

/// The columns of a tensor of two, each `[n, 1]`.
fn columns(cx: &mut LowerCx<'_, '_>, t: TensorId) -> [TensorId; 2] {
    [compose::slice(cx, t, 1, 0, 1), compose::slice(cx, t, 1, 1, 2)]
}

fn lower_unpack(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let of = outer(cx)?;
    let t = cx.input(0)?;
    let t = cx.cast(t, QnnType::INT_32);
    let y = match of {
        DataType::I8 => word::signed(cx, t, 1 << 8),
        DataType::I16 | DataType::U16 => {
            let [low, high] = columns(cx, t);
            let high = word::times(cx, high, 1 << 8);
            let whole = compose::add(cx, high, low);
            if of == DataType::I16 { word::signed(cx, whole, 1 << 16) } else { whole }
        }
        DataType::F64 => {
            let [_, high] = columns(cx, t);
            from_double(cx, high)
        }
        _ => return Err(Refusal::form(format!("{of} is not unpacked"))),
    };
    compose::give(cx, 0, y)
}

/// Entry `index`, `[n, 1]`, of a table of powers of two that 16-bit floats hold: zero below, infinity above.
fn power(cx: &mut LowerCx<'_, '_>, count: i32, bias: i32, index: TensorId) -> TensorId {
    let value = |e: i32| match e - bias {
        p if p < -24 => 0.0,
        p if p > 15 => f32::INFINITY,
        p => 2f32.powi(p),
    };
    // The two ends of the exponent stand for zero and for infinity.
    let table: Vec<f32> = (0..count).map(|e| if e == 0 { 0.0 } else { value(e) }).collect();
    let n = cx.dims(index).iter().product();
    let index = cx.reshape(index, &[n]);
    let table = cx.float_constant(&[count as u32], &table);
    let dtype = cx.float();
    let y = cx.op_to("Gather", &[table, index], dtype, &[n], &[("axis", Param::i32(0))]);
    cx.reshape(y, &[n, 1])
}

/// A non-negative number below 2048, exact in 16-bit floats, times `factor`.
fn fraction(cx: &mut LowerCx<'_, '_>, t: TensorId, factor: f32) -> TensorId {
    let float = cx.float();
    let t = cx.cast(t, float);
    compose::scale(cx, t, factor)
}

/// `1 - 2 s`
fn sign(cx: &mut LowerCx<'_, '_>, s: TensorId) -> TensorId {
    let twice = word::times(cx, s, -2);
    let one = word::number(cx, 1);
    let s = compose::add(cx, twice, one);
    let float = cx.float();
    cx.cast(s, float)
}

/// The upper word of a 64-bit float: the sign, eleven bits of exponent and the upper twenty of the fraction, which is more
/// than 16-bit floats keep.
fn from_double(cx: &mut LowerCx<'_, '_>, high: TensorId) -> TensorId {
    let s = word::negative(cx, high);
    let e = word::floor_div(cx, high, 1 << 20);
    let e = word::modulo(cx, e, 1 << 11);
    let m = word::modulo(cx, high, 1 << 20);
    let upper = word::floor_div(cx, m, 1 << 10);
    let upper = fraction(cx, upper, 1.0 / 1024.0);
    let lower = word::modulo(cx, m, 1 << 10);
    let lower = fraction(cx, lower, 1.0 / 1_048_576.0);
    assemble(cx, s, e, [1 << 11, 1023], &[upper, lower])
}

/// `(1 - 2 s) (1 + fractions) 2^(e - bias)`; `range` is the number of exponents and the bias.
fn assemble(cx: &mut LowerCx<'_, '_>, s: TensorId, e: TensorId, range: [i32; 2], fractions: &[TensorId]) -> TensorId {
    let mut m = cx.float_scalar(1.0);
    for &f in fractions {
        m = compose::add(cx, f, m);
    }
    let p = power(cx, range[0], range[1], e);
    let size = compose::mul(cx, m, p);
    let s = sign(cx, s);
    compose::mul(cx, size, s)
}

/// Exponents of 16-bit floats, denormal ones included.
const LOWEST: i32 = -24;
const COUNT: i32 = 40;

fn lower_pack(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let of = outer(cx)?;
    let shape = cx.shape(0)?;
    let n = shape.iter().product::<usize>() as u32;
    let t = cx.input(0)?;
    let t = cx.reshape(t, &[n, 1]);
    let y = match of {
        DataType::I8 => word::modulo(cx, t, 1 << 8),
        DataType::I16 | DataType::U16 => {
            let t = word::modulo(cx, t, 1 << 16);
            two_bytes(cx, t)
        }
        DataType::F64 => {
            let (s, q) = parts(cx, t);
            let some = above_zero(cx, q);
            let high = word::times(cx, q, 1 << 10);
            let bias = word::times(cx, some, (1023 + LOWEST - 1) << 20);
            let high = compose::add(cx, high, bias);
            let s = word::times(cx, s, i32::MIN);
            let high = compose::add(cx, high, s);
            let low = word::times(cx, s, 0);
            compose::concat(cx, &[low, high], 1)
        }
        _ => return Err(Refusal::form(format!("{of} is not packed"))),
    };
    let y = if of == DataType::F64 { y } else { cx.cast(y, QnnType::UINT_8) };
    compose::give(cx, 0, y)
}

/// `[n, 1]` numbers of 16 bits as `[n, 2]` bytes, the low one first.
fn two_bytes(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let low = word::modulo(cx, t, 1 << 8);
    let high = word::floor_div(cx, t, 1 << 8);
    compose::concat(cx, &[low, high], 1)
}

fn above_zero(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let zero = word::number(cx, 0);
    let is = compose::compare(cx, "ElementWiseGreater", t, zero);
    cx.cast(is, QnnType::INT_32)
}

/// Sign, and 1024 times the exponent, counted from 1 for the lowest, plus ten bits of fraction; 0 for zero.
fn parts(cx: &mut LowerCx<'_, '_>, x: TensorId) -> (TensorId, TensorId) {
    let float = cx.float();
    let n = cx.dims(x)[0];
    let zero = cx.float_scalar(0.0);
    let s = compose::compare(cx, "ElementWiseLess", x, zero);
    let s = cx.cast(s, QnnType::INT_32);
    let size = compose::unary(cx, "ElementWiseAbs", x);
    // The exponent is how many powers of two are not above the number.
    let powers: Vec<f32> = (0..COUNT).map(|i| 2f32.powi(LOWEST + i)).collect();
    let powers = cx.float_constant(&[1, COUNT as u32], &powers);
    let reached = compose::compare(cx, "ElementWiseGreaterEqual", size, powers);
    let reached = cx.cast(reached, float);
    let count = compose::reduce_keep(cx, "ReduceSum", reached, &[1]);
    let half = cx.float_scalar(0.5);
    let count = compose::add(cx, count, half);
    let e = cx.cast(count, QnnType::INT_32);
    // To 1..2 in two steps, because 2^24 is no 16-bit float.
    let mut m = size;
    for part in [0, 1] {
        let factor = |c: i32| {
            let up = -(LOWEST + c - 1);
            let first = up / 2;
            if part == 0 { first } else { up - first }
        };
        let table: Vec<f32> = (0..=COUNT).map(|c| if c == 0 { 0.0 } else { 2f32.powi(factor(c)) }).collect();
        let table = cx.float_constant(&[COUNT as u32 + 1], &table);
        let index = cx.reshape(e, &[n]);
        let f = cx.op_to("Gather", &[table, index], float, &[n], &[("axis", Param::i32(0))]);
        let f = cx.reshape(f, &[n, 1]);
        m = compose::mul(cx, m, f);
    }
    // Zero stays zero; everything else is 1024 + fraction, which with the exponent makes one number.
    let m = compose::scale(cx, m, 1024.0);
    let m = compose::add(cx, m, half);
    let m = cx.cast(m, QnnType::INT_32);
    let some = above_zero(cx, e);
    let one = word::number(cx, 1);
    let e = compose::sub(cx, e, one);
    let e = compose::mul(cx, e, some);
    let e = word::times(cx, e, 1024);
    let m = compose::mul(cx, m, some);
    (s, compose::add(cx, e, m))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, Graph, Node, TensorType};
    use crate::lower::{Lowering, Target};
    use crate::ops::testing::evaluate;

    fn run(op: &str, of: DataType, from: (DataType, &[usize]), to: (DataType, &[usize]), x: Vec<f64>) -> Vec<f64> {
        let mut g = Graph::default();
        let ty = |(d, s): (DataType, &[usize])| TensorType::new(d, s.iter().map(|&n| n.into()).collect());
        let (x_id, y) = (g.add_typed("x", ty(from)), g.add_typed("y", ty(to)));
        let mut node = Node {
            name: "n".into(),
            domain: DOMAIN.into(),
            op_type: op.into(),
            inputs: vec![Some(x_id)],
            outputs: vec![Some(y)],
            ..Node::default()
        };
        node.attrs.set("of", Attr::Int(i64::from(of.to_onnx())));
        let id = g.add_node(node);
        (g.inputs, g.outputs) = (vec![x_id], vec![y]);
        let target = Target { soc: "sm8650".into(), arch: 75, float: QnnType::FLOAT_32, allow_approximate: false };
        let mut low = Lowering::new(&g, &target, "g");
        low.node(id).unwrap();
        low.output(y).unwrap();
        evaluate(&low.finish(&[x_id]), &[x])[0].clone()
    }

    const X: [f64; 12] =
        [0.0, 1.0, -1.0, 0.5, 3.140625, -65504.0, 5.960464477539063e-8, -0.000061035, 1024.5, 2047.0, -7.75, 1e-4];

    #[test]
    fn doubles() {
        let bits: Vec<f64> =
            X.iter().flat_map(|v| [v.to_bits() as i32, (v.to_bits() >> 32) as i32]).map(f64::from).collect();
        let y = run("Unpack", DataType::F64, (DataType::I32, &[12, 2]), (DataType::F32, &[3, 4]), bits);
        for (y, x) in y.iter().zip(X) {
            assert!((y - x).abs() <= x.abs() * 1e-5, "{y} for {x}");
        }
        let y = run("Pack", DataType::F64, (DataType::F32, &[3, 4]), (DataType::I32, &[12, 2]), X.to_vec());
        for (word, x) in y.chunks(2).zip(X) {
            let back = f64::from_bits((u64::from(word[1] as i32 as u32) << 32) | u64::from(word[0] as i32 as u32));
            assert!((back - x).abs() <= x.abs() * 5e-4, "{back} for {x}");
        }
    }

    #[test]
    fn short_integers() {
        let values = [-32768.0, -1.0, 0.0, 255.0, 256.0, 32767.0];
        let bytes: Vec<f64> = values.iter().flat_map(|&v| (v as i16).to_le_bytes()).map(f64::from).collect();
        let y = run("Unpack", DataType::I16, (DataType::U8, &[6, 2]), (DataType::I32, &[6]), bytes.clone());
        assert_eq!(y, values);
        let y = run("Pack", DataType::I16, (DataType::I32, &[6]), (DataType::U8, &[6, 2]), values.to_vec());
        assert_eq!(y, bytes);
        let y = run("Unpack", DataType::I8, (DataType::U8, &[3]), (DataType::I32, &[3]), vec![255.0, 128.0, 127.0]);
        assert_eq!(y, [-1.0, -128.0, 127.0]);
        let y = run("Pack", DataType::I8, (DataType::I32, &[3]), (DataType::U8, &[3]), vec![-1.0, -128.0, 127.0]);
        assert_eq!(y, [255.0, 128.0, 127.0]);
    }
}
