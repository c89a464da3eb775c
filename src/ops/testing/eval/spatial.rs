//! The spatial and normalising QNN ops, channel last.

use super::{Array, at, each, flat_of, index_of, list, scalar};
use crate::qnn::graph::QnnOp;

/// `None` for an op that is not spatial.
pub(super) fn apply(op: &QnnOp, ins: &[Array], outs: &[Vec<usize>]) -> Option<Vec<f64>> {
    let (x, out) = (&ins[0], &outs[0]);
    Some(match op.op_type.as_str() {
        "Conv2d" | "Conv3d" | "DepthWiseConv2d" => convolve(op, ins, out),
        "TransposeConv2d" | "TransposeConv3d" => transposed(op, ins, out),
        "PoolMax2d" | "PoolAvg2d" | "PoolAvg3d" => pool(op, x, out),
        "ResizeNearestNeighbor" => each(out, |i| {
            let src: Vec<usize> = i.iter().zip(&x.dims).zip(out).map(|((&p, &d), &o)| p * d / o).collect();
            at(x, &src)
        }),
        "Resize" => resize(op, x, out),
        "DepthToSpace" | "SpaceToDepth" => blocks(op, x, out),
        "Batchnorm" => each(out, |i| {
            let c = i[i.len() - 1];
            at(x, &i) * ins[1].data[c] + ins[2].data[c]
        }),
        "InstanceNorm" | "GroupNorm" | "LayerNorm" | "RmsNorm" => normalise(op, ins, out),
        "L2Norm" => {
            let axis = scalar(op, "axis").unwrap() as usize;
            each(out, |i| {
                let sum: f64 = lane(x, &i, axis).map(|v| v * v).sum();
                at(x, &i) / sum.sqrt().max(scalar(op, "epsilon").unwrap_or(1e-12))
            })
        }
        "Lrn" => {
            let p = |n: &str| scalar(op, n).unwrap();
            each(out, |i| {
                let c = i[i.len() - 1] as f64;
                let sum: f64 = lane(x, &i, i.len() - 1)
                    .enumerate()
                    .filter(|(j, _)| (*j as f64 - c).abs() <= p("radius"))
                    .map(|(_, v)| v * v)
                    .sum();
                at(x, &i) / (p("bias") + p("alpha") * sum).powf(p("beta"))
            })
        }
        "ScatterElements" => {
            let axis = scalar(op, "axis").unwrap() as usize;
            let mut data = x.data.clone();
            for (flat, v) in ins[2].data.iter().enumerate() {
                let mut i = index_of(flat, &ins[2].dims);
                i[axis] = ins[1].data[flat] as usize;
                data[flat_of(&i, &x.dims)] = *v;
            }
            data
        }
        _ => return None,
    })
}

fn lane<'a>(x: &'a Array, i: &[usize], axis: usize) -> impl Iterator<Item = f64> + 'a {
    let mut i = i.to_vec();
    (0..x.dims[axis]).map(move |j| {
        i[axis] = j;
        at(x, &i)
    })
}

/// Calls `f` with the flat number of each tap of a kernel and its position.
fn taps(kernel: &[usize], mut f: impl FnMut(&[usize])) {
    for flat in 0..kernel.iter().product() {
        f(&index_of(flat, kernel));
    }
}

fn convolve(op: &QnnOp, ins: &[Array], out: &[usize]) -> Vec<f64> {
    let (x, w) = (&ins[0], &ins[1]);
    let n = out.len() - 2;
    let (stride, pads, dilation) = (list(op, "stride"), list(op, "pad_amount"), list(op, "dilation"));
    let group = if op.op_type == "DepthWiseConv2d" { x.dims[n + 1] } else { scalar(op, "group").unwrap() as usize };
    let per_group = w.dims[n];
    assert_eq!(per_group * group, x.dims[n + 1], "channels of {}", op.op_type);
    for i in 0..n {
        let room = x.dims[1 + i] as i64 + pads[2 * i] + pads[2 * i + 1] - (w.dims[i] as i64 - 1) * dilation[i] - 1;
        assert_eq!(out[1 + i] as i64, room / stride[i] + 1, "output size of {}", op.op_type);
    }
    each(out, |i| {
        let m = i[n + 1];
        let first = m / (out[n + 1] / group) * per_group;
        let mut sum = ins.get(2).map_or(0.0, |b| b.data[m]);
        taps(&w.dims[..n], |k| {
            let p: Vec<i64> =
                (0..n).map(|a| i[1 + a] as i64 * stride[a] + k[a] as i64 * dilation[a] - pads[2 * a]).collect();
            if p.iter().zip(&x.dims[1..]).all(|(&p, &d)| p >= 0 && p < d as i64) {
                for c in 0..per_group {
                    let mut xi = vec![i[0]];
                    xi.extend(p.iter().map(|&p| p as usize));
                    xi.push(first + c);
                    let mut wi = k.to_vec();
                    wi.extend([c, m]);
                    sum += at(x, &xi) * at(w, &wi);
                }
            }
        });
        sum
    })
}

fn transposed(op: &QnnOp, ins: &[Array], out: &[usize]) -> Vec<f64> {
    let (x, w) = (&ins[0], &ins[1]);
    let n = out.len() - 2;
    let (stride, pads) = (list(op, "stride"), list(op, "pad_amount"));
    let group = scalar(op, "group").unwrap() as usize;
    assert!(n == 2 || group == 1, "groups of TransposeConv3d are wrong on the HTP");
    for i in 0..n {
        let full = (x.dims[1 + i] as i64 - 1) * stride[i] + w.dims[i] as i64;
        assert_eq!(out[1 + i] as i64, full - pads[2 * i] - pads[2 * i + 1], "output size of {}", op.op_type);
    }
    let per_group = w.dims[n + 1];
    let mut y = each(out, |i| ins.get(2).map_or(0.0, |b| b.data[i[n + 1]]));
    for (flat, v) in x.data.iter().enumerate() {
        let xi = index_of(flat, &x.dims);
        let c = xi[n + 1];
        taps(&w.dims[..n], |k| {
            let p: Vec<i64> = (0..n).map(|a| xi[1 + a] as i64 * stride[a] + k[a] as i64 - pads[2 * a]).collect();
            if p.iter().zip(&out[1..]).all(|(&p, &d)| p >= 0 && p < d as i64) {
                for m in 0..per_group {
                    let mut wi = k.to_vec();
                    wi.extend([c, m]);
                    let mut yi = vec![xi[0]];
                    yi.extend(p.iter().map(|&p| p as usize));
                    yi.push(c / (x.dims[n + 1] / group) * per_group + m);
                    y[flat_of(&yi, out)] += v * at(w, &wi);
                }
            }
        });
    }
    y
}

fn pool(op: &QnnOp, x: &Array, out: &[usize]) -> Vec<f64> {
    let n = out.len() - 2;
    let (filter, stride, pads) = (list(op, "filter_size"), list(op, "stride"), list(op, "pad_amount"));
    let max = op.op_type == "PoolMax2d";
    assert!(max || pads.iter().all(|&p| p == 0), "PoolAvg with padding is wrong on the HTP");
    for i in 0..n {
        let room = x.dims[1 + i] as i64 + pads[2 * i] + pads[2 * i + 1] - filter[i];
        assert_eq!(out[1 + i] as i64, room / stride[i] + 1, "output size of {}", op.op_type);
    }
    let kernel: Vec<usize> = filter.iter().map(|&k| k as usize).collect();
    each(out, |i| {
        let mut seen = vec![];
        taps(&kernel, |k| {
            let p: Vec<i64> = (0..n).map(|a| i[1 + a] as i64 * stride[a] + k[a] as i64 - pads[2 * a]).collect();
            if p.iter().zip(&x.dims[1..]).all(|(&p, &d)| p >= 0 && p < d as i64) {
                let mut xi = vec![i[0]];
                xi.extend(p.iter().map(|&p| p as usize));
                xi.push(i[n + 1]);
                seen.push(at(x, &xi));
            }
        });
        if max {
            seen.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        } else {
            seen.iter().sum::<f64>() / seen.len() as f64
        }
    })
}

/// Interpolation of images: linear or cubic, edges repeated.
fn resize(op: &QnnOp, x: &Array, out: &[usize]) -> Vec<f64> {
    let p = |n: &str| scalar(op, n).unwrap() as u32;
    let cubic = p("interpolation_mode") == 2;
    let weight = |d: f64| {
        let d = d.abs();
        match (cubic, d) {
            (false, _) => (1.0 - d).max(0.0),
            (true, d) if d <= 1.0 => (1.25 * d - 2.25) * d * d + 1.0,
            (true, d) if d < 2.0 => ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0,
            _ => 0.0,
        }
    };
    let taps = |i: usize, from: usize, to: usize| -> Vec<(usize, f64)> {
        let (i, n, m) = (i as f64, from as f64, to as f64);
        let at = match p("transformation_mode") {
            0 => (i + 0.5) * n / m - 0.5,
            2 => i * (n - 1.0) / (m - 1.0),
            3 => i * n / m,
            other => panic!("transformation_mode {other} is not evaluated"),
        };
        (at.floor() as i64 - 2..at.floor() as i64 + 4)
            .map(|k| (k.clamp(0, from as i64 - 1) as usize, weight(k as f64 - at)))
            .collect()
    };
    each(out, |i| {
        let mut sum = 0.0;
        for (r, v) in taps(i[1], x.dims[1], out[1]) {
            for (c, w) in taps(i[2], x.dims[2], out[2]) {
                sum += v * w * at(x, &[i[0], r, c, i[3]]);
            }
        }
        sum
    })
}

fn blocks(op: &QnnOp, x: &Array, out: &[usize]) -> Vec<f64> {
    let b = list(op, "block_size")[0] as usize;
    let crd = scalar(op, "mode") == Some(1.0);
    let grows = op.op_type == "DepthToSpace";
    // Position of a place (r, c) of the block and channel `d` of `small` among all channels of the deep side.
    let deep = |r: usize, c: usize, d: usize, small: usize| {
        if crd { (d * b + r) * b + c } else { (r * b + c) * small + d }
    };
    if grows {
        return each(out, |i| at(x, &[i[0], i[1] / b, i[2] / b, deep(i[1] % b, i[2] % b, i[3], out[3])]));
    }
    let mut y = vec![0.0; x.data.len()];
    for (flat, v) in x.data.iter().enumerate() {
        let i = index_of(flat, &x.dims);
        y[flat_of(&[i[0], i[1] / b, i[2] / b, deep(i[1] % b, i[2] % b, i[3], x.dims[3])], out)] = *v;
    }
    y
}

fn normalise(op: &QnnOp, ins: &[Array], out: &[usize]) -> Vec<f64> {
    let x = &ins[0];
    let epsilon = scalar(op, "epsilon").unwrap();
    let last = out.len() - 1;
    let groups = scalar(op, "group").unwrap_or(1.0) as usize;
    let inner = matches!(op.op_type.as_str(), "LayerNorm" | "RmsNorm");
    if inner {
        assert_eq!(list(op, "axes"), [last as i64], "only the last axis is normalised on the HTP");
    }
    // The elements that share statistics have the same key.
    let key = |i: &[usize]| match op.op_type.as_str() {
        "InstanceNorm" => vec![i[0], i[last]],
        "GroupNorm" => vec![i[0], i[last] / (out[last] / groups)],
        _ => i[..last].to_vec(),
    };
    let mut sets: std::collections::BTreeMap<Vec<usize>, Vec<f64>> = std::collections::BTreeMap::new();
    for (flat, v) in x.data.iter().enumerate() {
        sets.entry(key(&index_of(flat, &x.dims))).or_default().push(*v);
    }
    each(out, |i| {
        let set = &sets[&key(&i)];
        let n = set.len() as f64;
        let mean = if op.op_type == "RmsNorm" { 0.0 } else { set.iter().sum::<f64>() / n };
        let variance = set.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let c = i[last];
        (at(x, &i) - mean) / (variance + epsilon).sqrt() * ins[1].data[c] + ins.get(2).map_or(0.0, |b| b.data[c])
    })
}
