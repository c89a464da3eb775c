//! BitShift, BitwiseAnd, BitwiseOr, BitwiseXor.

use super::elementwise_binary::infer_numbers;
use super::{FoldCx, InferCx, OpDef, OpError, cast, compose, elementwise, invalid, word};
use crate::ir::{DataType, Tensor};
use crate::lower::{LowerCx, Refusal};
use crate::qnn::graph::{Param, QnnType, TensorId};
use crate::verdict::codes;

/// The rows of this family.
pub const OPS: &[OpDef] = &[
    OpDef::new("BitShift", infer).fold(fold_shift).lower(lower_shift),
    OpDef::new("BitwiseAnd", infer).fold(|cx| bits(cx, |a, b| a & b)).lower(|cx| lower_bits(cx, |a, b| a & b)),
    OpDef::new("BitwiseOr", infer).fold(|cx| bits(cx, |a, b| a | b)).lower(|cx| lower_bits(cx, |a, b| a | b)),
    OpDef::new("BitwiseXor", infer).fold(|cx| bits(cx, |a, b| a ^ b)).lower(|cx| lower_bits(cx, |a, b| a ^ b)),
];

fn infer(cx: &mut InferCx<'_>) -> Result<(), OpError> {
    let dtype = elementwise::infer_dtype(cx, &[0, 1])?;
    if !dtype.is_int() {
        return invalid(format!("the inputs are {dtype}, but must be of an integer type"));
    }
    if cx.node.op_type == "BitShift" {
        direction(&cx.node.attrs).map_err(OpError::Invalid)?;
    }
    infer_numbers(cx, |_, _| None)
}

fn bits(cx: &FoldCx<'_>, f: impl Fn(i128, i128) -> i128) -> Option<Vec<Tensor>> {
    elementwise::fold(cx, &[0, 1], |_| None, |v| Some(f(v[0], v[1])))
}

/// True for a shift to the left.
fn direction(attrs: &crate::ir::Attrs) -> Result<bool, String> {
    match attrs.str("direction") {
        Some("LEFT") => Ok(true),
        Some("RIGHT") => Ok(false),
        other => Err(format!("attribute direction must be LEFT or RIGHT, not {}", other.unwrap_or("absent"))),
    }
}

/// A shift by a negative amount or by all bits or more leaves 0, or -1 of a negative number shifted to the right.
fn fold_shift(cx: &FoldCx<'_>) -> Option<Vec<Tensor>> {
    let left = direction(&cx.node.attrs).ok()?;
    let width = cx.out_type(0)?.0.bits() as u32;
    elementwise::fold(
        cx,
        &[0, 1],
        |_| None,
        |v| {
            let by = u32::try_from(v[1]).ok().filter(|&n| n < width);
            Some(match by {
                Some(n) if left => v[0].wrapping_shl(n),
                Some(n) => v[0] >> n,
                None if left => 0,
                None => v[0] >> 127,
            })
        },
    )
}

/// The bits that numbers of a type have in INT_32. Of 64-bit numbers, as everywhere, the values that fit 32 bits.
fn width(cx: &LowerCx<'_, '_>, dtype: DataType) -> Result<u32, Refusal> {
    match dtype {
        DataType::U8 => Ok(8),
        DataType::I32 | DataType::U32 | DataType::I64 => Ok(32),
        _ => Err(Refusal::new(codes::DTYPE, format!("{} of {dtype} has no exact QNN equivalent", cx.node.op_type))
            .fix("cast to int32 before it")),
    }
}

/// Both operands in INT_32, of the dims of the result.
fn operands(cx: &mut LowerCx<'_, '_>, ids: &[TensorId], dtype: DataType) -> Result<[TensorId; 2], Refusal> {
    let dims = compose::broadcast_dims(&cx.dims(ids[0]), &cx.dims(ids[1]));
    let mut out = [ids[0], ids[1]];
    for t in &mut out {
        *t = cast::to_int32(cx, *t, dtype)?;
        *t = elementwise::spread(cx, *t, &dims);
    }
    Ok(out)
}

/// Entry `index` of a table of integers; the index may have any dims.
fn look_up(cx: &mut LowerCx<'_, '_>, table: &[i32], index: TensorId) -> TensorId {
    let dims = cx.dims(index);
    let count = dims.iter().product();
    let flat = cx.reshape(index, &[count]);
    let table = cx.i32_constant(&[table.len() as u32], table);
    let y = cx.op_to("Gather", &[table, flat], QnnType::INT_32, &[count], &[("axis", Param::i32(0))]);
    cx.reshape(y, &dims)
}

/// Four bits of each operand at a time, as the index into a table.
fn lower_bits(cx: &mut LowerCx<'_, '_>, f: fn(i32, i32) -> i32) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    let width = width(cx, dtype)?;
    elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
        let [a, b] = operands(cx, ids, dtype)?;
        let table: Vec<i32> = (0..256).map(|i| f(i >> 4, i & 15)).collect();
        let y = if width == 8 {
            nibbles(cx, a, b, 2, &table)
        } else {
            let ([al, ah], [bl, bh]) = (word::halves(cx, a), word::halves(cx, b));
            let low = nibbles(cx, al, bl, 4, &table);
            let high = nibbles(cx, ah, bh, 4, &table);
            word::join(cx, low, high)
        };
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

/// Of non-negative numbers of `count` times 4 bits.
fn nibbles(cx: &mut LowerCx<'_, '_>, mut a: TensorId, mut b: TensorId, count: u32, table: &[i32]) -> TensorId {
    let mut y = None;
    for i in 0..count {
        let [x, z] = [word::modulo(cx, a, 16), word::modulo(cx, b, 16)];
        let row = word::times(cx, x, 16);
        let index = compose::add(cx, row, z);
        let part = look_up(cx, table, index);
        let part = word::times(cx, part, 1 << (4 * i));
        y = Some(match y {
            None => part,
            Some(sum) => compose::add(cx, sum, part),
        });
        let sixteen = word::number(cx, 16);
        (a, b) = (compose::div(cx, a, sixteen), compose::div(cx, b, sixteen));
    }
    y.unwrap_or(a)
}

fn lower_shift(cx: &mut LowerCx<'_, '_>) -> Result<(), Refusal> {
    let dtype = cx.dtype(0)?;
    let width = width(cx, dtype)?;
    let left = direction(cx.attrs()).map_err(Refusal::form)?;
    elementwise::lower(cx, &[0, 1], 4, |cx, ids| {
        let [x, by] = operands(cx, ids, dtype)?;
        // 1 where the amount is one of 0..width; elsewhere the amount becomes 0.
        let inside = {
            let (low, high) = (word::number(cx, 0), word::number(cx, width as i32));
            let above = compose::compare(cx, "ElementWiseGreaterEqual", by, low);
            let under = compose::compare(cx, "ElementWiseLess", by, high);
            let both = compose::binary(cx, "ElementWiseAnd", above, under);
            cx.cast(both, QnnType::INT_32)
        };
        let by = compose::mul(cx, by, inside);
        let y = match (left, width) {
            (true, 8) => {
                let factors: Vec<i32> = (0..8).map(|s| 1 << s).collect();
                let factor = look_up(cx, &factors, by);
                compose::mul(cx, x, factor)
            }
            (true, _) => shift_left(cx, x, by),
            (false, _) => shift_right(cx, x, by, dtype == DataType::U32),
        };
        let mut y = compose::mul(cx, y, inside);
        if !left && matches!(dtype, DataType::I32 | DataType::I64) {
            let minus = word::negative(cx, x);
            let gone = {
                let one = word::number(cx, 1);
                compose::sub(cx, one, inside)
            };
            let minus = compose::mul(cx, minus, gone);
            y = compose::sub(cx, y, minus);
        }
        cast::convert(cx, y, DataType::I32, dtype)
    })
}

/// The bits that stay, read as a signed number of so many bits, times `2^by`. The factor is kept negative, because `2^31`
/// is no INT_32, and the number is, too.
fn shift_left(cx: &mut LowerCx<'_, '_>, x: TensorId, by: TensorId) -> TensorId {
    // For 0, where all bits stay, the modulus is no INT_32: the shift is by 1 then, and not taken.
    let moduli: Vec<i32> = (0..32).map(|s: u32| 1 << (32 - s.max(2))).collect();
    let halves: Vec<i32> = moduli.iter().map(|m| m / 2).collect();
    let factors: Vec<i32> = (0..32).map(|s: u32| (1i32 << 31) >> (31 - s)).collect();
    let [modulus, half, factor] = [&moduli, &halves, &factors].map(|t| look_up(cx, t, by));
    let stays = compose::binary(cx, "ElementWiseMod", x, modulus);
    let top = compose::compare(cx, "ElementWiseGreaterEqual", stays, half);
    let top = cx.cast(top, QnnType::INT_32);
    let less = compose::mul(cx, top, modulus);
    let stays = compose::sub(cx, less, stays);
    let far = compose::mul(cx, stays, factor);
    // By 1 the modulus is 2^31: twice the low 31 bits read as a signed number.
    let one = {
        let [low, high] = word::halves(cx, x);
        let low = compose::add(cx, low, low);
        let high = compose::add(cx, high, high);
        let carry = word::floor_div(cx, low, 1 << 16);
        let low = word::modulo(cx, low, 1 << 16);
        let high = compose::add(cx, high, carry);
        word::join(cx, low, high)
    };
    let [is_none, is_one] = [0, 1].map(|n| {
        let n = word::number(cx, n);
        let is = compose::compare(cx, "ElementWiseEqual", by, n);
        cx.cast(is, QnnType::INT_32)
    });
    let y = word::choose(cx, is_one, one, far);
    word::choose(cx, is_none, x, y)
}

/// `floor(x / 2^by)`; the sign bit of an `unsigned` number, which that drags along, is put right after it.
fn shift_right(cx: &mut LowerCx<'_, '_>, x: TensorId, by: TensorId, unsigned: bool) -> TensorId {
    // 2^31 is no INT_32; -2^31 divides the other way round.
    let divisors: Vec<i32> = (0..32).map(|s: u32| 1 << s.min(30)).collect();
    let divisor = look_up(cx, &divisors, by);
    let rest = compose::binary(cx, "ElementWiseMod", x, divisor);
    let whole = compose::sub(cx, x, rest);
    let mut y = compose::div(cx, whole, divisor);
    let last = word::number(cx, 31);
    let is_last = compose::compare(cx, "ElementWiseEqual", by, last);
    let is_last = cx.cast(is_last, QnnType::INT_32);
    let twice = word::floor_div(cx, y, 2);
    y = word::choose(cx, is_last, twice, y);
    if !unsigned {
        return y;
    }
    // A negative number is 2^(32 - by) too small, unless by is 0: twice half of that is added.
    let halves: Vec<i32> = (0..32).map(|s: u32| if s == 0 { 0 } else { 1 << (31 - s) }).collect();
    let half = look_up(cx, &halves, by);
    let minus = word::negative(cx, x);
    let half = compose::mul(cx, half, minus);
    let y = compose::add(cx, y, half);
    compose::add(cx, y, half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, node};

    const X: [i64; 10] = [0, 1, -1, 5, -8, 1 << 30, -(1 << 30), i32::MAX as i64, i32::MIN as i64, 0x1234_5678];

    /// Every element of `X` with every amount.
    fn pairs(amounts: &[i64]) -> (Vec<f64>, Vec<f64>) {
        X.iter().flat_map(|&x| amounts.iter().map(move |&s| (x as f64, s as f64))).unzip()
    }

    #[test]
    fn types() {
        let n = node("BitShift", 11).input(DataType::U8, &[2]).input(DataType::U8, &[2]);
        assert!(n.error().contains("direction"));
        assert!(node("BitwiseAnd", 18).float(&[2]).float(&[2]).error().contains("integer"));
    }

    #[test]
    fn values() {
        let u8s = |v: &[u8]| Tensor::from_pod(DataType::U8, vec![v.len()], v);
        let s = node("BitShift", 11).constant(u8s(&[16, 4, 255])).constant(u8s(&[1, 2, 3])).text("direction", "LEFT");
        assert_eq!(s.fold().unwrap()[0].to_i64s().unwrap(), [32, 16, 248]);
        let b = node("BitwiseXor", 18).ints(&[6, -1]).ints(&[3, 1]).fold().unwrap();
        assert_eq!(b[0].to_i64s().unwrap(), [5, -2]);
        let n = |d| node("BitShift", 28).ints(&[-8, 4]).ints(&[64, -1]).text("direction", d).fold().unwrap();
        assert_eq!(n("RIGHT")[0].to_i64s().unwrap(), [-1, 0]);
        assert_eq!(n("LEFT")[0].to_i64s().unwrap(), [0, 0]);
    }

    #[test]
    fn shifts_by_run_time_amounts() {
        let amounts: Vec<i64> = (-1..=33).collect();
        let (x, by) = pairs(&amounts);
        let shape = [x.len() as i64];
        for dtype in [DataType::I32, DataType::U32] {
            for direction in ["LEFT", "RIGHT"] {
                let want: Vec<f64> = x
                    .iter()
                    .zip(&by)
                    .map(|(&x, &s)| {
                        let (x, s) = (x as i32, s as i64);
                        let inside = (0..32).contains(&s);
                        match (direction, dtype) {
                            ("LEFT", _) => {
                                if inside {
                                    x << s
                                } else {
                                    0
                                }
                            }
                            (_, DataType::I32) => x >> if inside { s } else { 31 },
                            _ => {
                                if inside {
                                    ((x as u32) >> s) as i32
                                } else {
                                    0
                                }
                            }
                        }
                    })
                    .map(f64::from)
                    .collect();
                let n = node("BitShift", 28).input(dtype, &shape).input(dtype, &shape).text("direction", direction);
                let y = n.run(&[x.clone(), by.clone()]);
                assert_close(&y[0], &want, 0.0);
            }
        }
    }

    #[test]
    fn shifts_of_bytes() {
        let n = node("BitShift", 11).input(DataType::U8, &[3]).input(DataType::U8, &[3]).text("direction", "LEFT");
        assert_close(&n.run(&[vec![16.0, 4.0, 255.0], vec![1.0, 8.0, 3.0]])[0], &[32.0, 0.0, 248.0], 0.0);
        let n = node("BitShift", 11).input(DataType::U8, &[3]).input(DataType::U8, &[1]).text("direction", "RIGHT");
        assert_close(&n.run(&[vec![16.0, 4.0, 255.0], vec![3.0]])[0], &[2.0, 0.0, 31.0], 0.0);
    }

    #[test]
    fn bits_of_words() {
        let (a, b) = pairs(&X);
        let shape = [a.len() as i64];
        for (op, f) in [
            ("BitwiseAnd", (|a, b| a & b) as fn(i32, i32) -> i32),
            ("BitwiseOr", |a, b| a | b),
            ("BitwiseXor", |a, b| a ^ b),
        ] {
            let want: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| f64::from(f(a as i32, b as i32))).collect();
            let n = node(op, 18).input(DataType::I32, &shape).input(DataType::I32, &shape);
            assert_close(&n.run(&[a.clone(), b.clone()])[0], &want, 0.0);
        }
        let n = node("BitwiseXor", 18).input(DataType::U8, &[2, 2]).input(DataType::U8, &[2]);
        let y = n.run(&[vec![0.0, 255.0, 170.0, 7.0], vec![255.0, 15.0]]);
        assert_close(&y[0], &[255.0, 240.0, 85.0, 8.0], 0.0);
    }
}
