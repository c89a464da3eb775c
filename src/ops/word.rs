//! 32-bit integers that wrap around, out of the HTP's, which saturate (QAIRT 2.47: `i32::MAX + 1` is `i32::MAX`).
//!
//! Mod (the remainder is never negative for a positive divisor), Divide and the comparisons of INT_32 are exact over the
//! whole range, so numbers are taken apart into 16-bit halves by them. Tensors are of at most four axes.

use super::compose;
use crate::lower::LowerCx;
use crate::qnn::graph::{QnnType, TensorId};

const HALF: i32 = 1 << 16;

/// An INT_32 number that broadcasts.
pub(super) fn number(cx: &mut LowerCx<'_, '_>, v: i32) -> TensorId {
    cx.i32_constant(&[1], &[v])
}

/// `t mod m`, within `0..m`.
pub(super) fn modulo(cx: &mut LowerCx<'_, '_>, t: TensorId, m: i32) -> TensorId {
    let m = number(cx, m);
    compose::binary(cx, "ElementWiseMod", t, m)
}

/// `floor(t / m)` for a positive `m`.
pub(super) fn floor_div(cx: &mut LowerCx<'_, '_>, t: TensorId, m: i32) -> TensorId {
    let rest = modulo(cx, t, m);
    let whole = compose::sub(cx, t, rest);
    let m = number(cx, m);
    compose::div(cx, whole, m)
}

pub(super) fn times(cx: &mut LowerCx<'_, '_>, t: TensorId, m: i32) -> TensorId {
    let m = number(cx, m);
    compose::mul(cx, t, m)
}

/// 1 where `t < 0`, else 0.
pub(super) fn negative(cx: &mut LowerCx<'_, '_>, t: TensorId) -> TensorId {
    let zero = number(cx, 0);
    let is = compose::compare(cx, "ElementWiseLess", t, zero);
    cx.cast(is, QnnType::INT_32)
}

/// `a` where the 0-or-1 number `c` is 1, else `b`, where neither difference nor product leaves the range: `b + c (a - b)`
/// is not exact in general, so both are masked.
pub(super) fn choose(cx: &mut LowerCx<'_, '_>, c: TensorId, a: TensorId, b: TensorId) -> TensorId {
    let one = number(cx, 1);
    let other = compose::sub(cx, one, c);
    let a = compose::mul(cx, a, c);
    let b = compose::mul(cx, b, other);
    compose::add(cx, a, b)
}

/// The low and the high 16 bits, both within `0..65536`.
pub(super) fn halves(cx: &mut LowerCx<'_, '_>, t: TensorId) -> [TensorId; 2] {
    let low = modulo(cx, t, HALF);
    let rest = compose::sub(cx, t, low);
    let size = number(cx, HALF);
    let high = compose::div(cx, rest, size);
    [low, modulo(cx, high, HALF)]
}

/// The number of these halves; `high` is taken modulo 2^16.
pub(super) fn join(cx: &mut LowerCx<'_, '_>, low: TensorId, high: TensorId) -> TensorId {
    let signed = signed(cx, high, HALF);
    let high = times(cx, signed, HALF);
    compose::add(cx, high, low)
}

/// `t` modulo `m`, an even number, within `-m/2..m/2`. `t` is at most `i32::MAX - m / 2`.
pub(super) fn signed(cx: &mut LowerCx<'_, '_>, t: TensorId, m: i32) -> TensorId {
    let half = number(cx, m / 2);
    let up = compose::add(cx, t, half);
    let rest = modulo(cx, up, m);
    compose::sub(cx, rest, half)
}

/// `a + b` or `a - b` modulo 2^32.
pub(super) fn sum(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId, minus: bool) -> TensorId {
    let ([al, ah], [bl, bh]) = (halves(cx, a), halves(cx, b));
    let op = if minus { "ElementWiseSubtract" } else { "ElementWiseAdd" };
    let low = compose::binary(cx, op, al, bl);
    let high = compose::binary(cx, op, ah, bh);
    carried(cx, low, high)
}

/// `low + 2^16 high` modulo 2^32, of numbers below 2^30.
fn carried(cx: &mut LowerCx<'_, '_>, low: TensorId, high: TensorId) -> TensorId {
    let carry = floor_div(cx, low, HALF);
    let low = modulo(cx, low, HALF);
    let high = compose::add(cx, high, carry);
    join(cx, low, high)
}

/// `a b` modulo 2^32: schoolbook multiplication with digits of 16 by 8 bits, whose products stay below 2^24.
pub(super) fn product(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    let ([al, ah], [bl, bh]) = (halves(cx, a), halves(cx, b));
    let [b0, b1] = [modulo(cx, bl, 256), floor_div(cx, bl, 256)];
    let [b2, b3] = [modulo(cx, bh, 256), floor_div(cx, bh, 256)];
    // al bl, as low + 2^16 high.
    let p0 = compose::mul(cx, al, b0);
    let p1 = compose::mul(cx, al, b1);
    let [p1_low, p1_high] = [modulo(cx, p1, 256), floor_div(cx, p1, 256)];
    let p1_low = times(cx, p1_low, 256);
    let low = compose::add(cx, p0, p1_low);
    // What counts from 2^16 up: ah bl + al bh modulo 2^16, and the carries.
    let mut high = p1_high;
    for (x, even, odd) in [(ah, b0, b1), (al, b2, b3)] {
        let e = compose::mul(cx, x, even);
        let o = compose::mul(cx, x, odd);
        let o = modulo(cx, o, 256);
        let o = times(cx, o, 256);
        high = compose::add(cx, high, e);
        high = compose::add(cx, high, o);
    }
    carried(cx, low, high)
}

/// 1 where `a < b` as unsigned numbers, else 0.
pub(super) fn below(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> TensorId {
    let order = unsigned_order(cx, "ElementWiseLess", a, b);
    cx.cast(order, QnnType::INT_32)
}

/// A comparison of the bits of unsigned numbers: the order is the other way round where the signs differ.
pub(super) fn unsigned_order(cx: &mut LowerCx<'_, '_>, op: &str, a: TensorId, b: TensorId) -> TensorId {
    let zero = number(cx, 0);
    let signs = [a, b].map(|t| compose::compare(cx, "ElementWiseLess", t, zero));
    let differ = compose::binary(cx, "ElementWiseXor", signs[0], signs[1]);
    let order = compose::compare(cx, op, a, b);
    compose::binary(cx, "ElementWiseXor", order, differ)
}

/// Quotient and remainder of unsigned numbers. A divisor from 2^31 up goes in at most once; else twice the quotient of
/// half the dividend is at most one too small. Division by zero is not defined by ONNX.
pub(super) fn unsigned_division(cx: &mut LowerCx<'_, '_>, a: TensorId, b: TensorId) -> [TensorId; 2] {
    let top = negative(cx, b);
    // Any positive divisor where the quotient is not taken.
    let one = number(cx, 1);
    let safe = choose(cx, top, one, b);
    let half = {
        let h = floor_div(cx, a, 2);
        // The sign bit moved down: 2^31 more, which is too large for a constant.
        let minus = negative(cx, a);
        let more = times(cx, minus, 1 << 30);
        let h = compose::add(cx, h, more);
        compose::add(cx, h, more)
    };
    let q = compose::div(cx, half, safe);
    let taken = compose::mul(cx, q, safe);
    let rest = compose::sub(cx, half, taken);
    // a - 2 q b = 2 rest + (a mod 2), below 2 b: it may pass 2^31, but not 2^32.
    let odd = modulo(cx, a, 2);
    let twice = sum(cx, rest, rest, false);
    let left = sum(cx, twice, odd, false);
    let q = sum(cx, q, q, false);
    let small = {
        let less = below(cx, left, safe);
        let more = compose::sub(cx, one, less);
        let part = compose::mul(cx, more, safe);
        [compose::add(cx, q, more), sum(cx, left, part, true)]
    };
    let large = {
        let less = below(cx, a, b);
        let goes = compose::sub(cx, one, less);
        let part = compose::mul(cx, goes, b);
        [goes, sum(cx, a, part, true)]
    };
    [choose(cx, top, large[0], small[0]), choose(cx, top, large[1], small[1])]
}
