//! Evaluates a QNN graph in 64-bit floats: the meaning of the QNN ops, as plainly as can be, to check compositions with.

use crate::qnn::graph::{Param, QnnGraph, QnnOp, QnnType, Quant, Scalar, StaticData, TensorKind};

mod spatial;

/// Row-major elements of one tensor.
#[derive(Clone, Debug)]
struct Array {
    dims: Vec<usize>,
    data: Vec<f64>,
}

/// Runs the graph on the values of its inputs, in the order of `graph.inputs`.
///
/// # Panics
/// If an op is not known here, or its operands do not fit.
pub fn evaluate(graph: &QnnGraph, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut values: Vec<Option<Array>> = graph
        .tensors
        .iter()
        .map(|t| {
            let dims: Vec<usize> = t.dims.iter().map(|&d| d as usize).collect();
            let data = match t.data.as_ref()? {
                StaticData::Raw(_) => panic!("raw statics are not evaluated"),
                StaticData::Constant { tensor, perm } => {
                    let t = perm.as_ref().map_or_else(|| Some(tensor.clone()), |p| tensor.transposed(p));
                    t.and_then(|t| t.to_f64s()).expect("a numeric constant")
                }
            };
            assert_eq!(data.len(), dims.iter().product::<usize>(), "constant {}", t.name);
            let data = decoded(&t.quant, &dims, data);
            Some(Array { dims, data })
        })
        .collect();
    assert_eq!(graph.inputs.len(), inputs.len(), "number of inputs");
    for (id, data) in graph.inputs.iter().zip(inputs) {
        let dims: Vec<usize> = graph.tensor(*id).dims.iter().map(|&d| d as usize).collect();
        assert_eq!(dims.iter().product::<usize>(), data.len(), "input {}", graph.tensor(*id).name);
        let data = decoded(&graph.tensor(*id).quant, &dims, data.clone());
        values[id.0 as usize] = Some(Array { dims, data });
    }
    for op in &graph.ops {
        let ins: Vec<Array> = op
            .inputs
            .iter()
            .filter(|i| graph.tensor(**i).kind != TensorKind::Null)
            .map(|i| values[i.0 as usize].clone().unwrap_or_else(|| panic!("{} reads an unwritten tensor", op.name)))
            .collect();
        let outs: Vec<Vec<usize>> =
            op.outputs.iter().map(|o| graph.tensor(*o).dims.iter().map(|&d| d as usize).collect()).collect();
        let to = graph.tensor(op.outputs[0]).dtype;
        let results = apply(op, &ins, &outs, to);
        assert_eq!(results.len(), outs.len(), "outputs of {}", op.op_type);
        for ((id, dims), data) in op.outputs.iter().zip(outs).zip(results) {
            assert_eq!(dims.iter().product::<usize>(), data.len(), "{} ({}): output {dims:?}", op.name, op.op_type);
            let tensor = graph.tensor(*id);
            let data = decoded(&tensor.quant, &dims, encoded(tensor.dtype, &tensor.quant, data));
            values[id.0 as usize] = Some(Array { dims, data });
        }
    }
    let read = |id: &crate::qnn::graph::TensorId| {
        let data = values[id.0 as usize].clone().expect("an output is written").data;
        encoded(graph.tensor(*id).dtype, &graph.tensor(*id).quant, data)
    };
    graph.outputs.iter().map(read).collect()
}

/// The real values of codes.
fn decoded(quant: &Quant, dims: &[usize], codes: Vec<f64>) -> Vec<f64> {
    match quant {
        Quant::None => codes,
        Quant::PerTensor { scale, offset } => {
            codes.into_iter().map(|q| (q + f64::from(*offset)) * f64::from(*scale)).collect()
        }
        Quant::PerAxis { axis, scales, .. } => {
            let inner: usize = dims[*axis as usize + 1..].iter().product();
            codes.iter().enumerate().map(|(i, q)| q * f64::from(scales[i / inner % scales.len()])).collect()
        }
        other => panic!("{other:?} is not evaluated"),
    }
}

/// The codes of real values.
fn encoded(dtype: QnnType, quant: &Quant, real: Vec<f64>) -> Vec<f64> {
    let Quant::PerTensor { scale, offset } = quant else { return real };
    let (low, high) = match dtype {
        QnnType::UFIXED_POINT_8 => (0.0, 255.0),
        QnnType::SFIXED_POINT_8 => (-128.0, 127.0),
        QnnType::UFIXED_POINT_16 => (0.0, 65_535.0),
        _ => (-32_768.0, 32_767.0),
    };
    let code = |v: f64| (v / f64::from(*scale)).round_ties_even() - f64::from(*offset);
    real.into_iter().map(|v| code(v).clamp(low, high)).collect()
}

fn scalar(op: &QnnOp, name: &str) -> Option<f64> {
    op.params.iter().find(|(n, _)| n == name).map(|(_, p)| match p {
        Param::Scalar(Scalar::Bool(b)) => f64::from(u8::from(*b)),
        Param::Scalar(Scalar::U32(v)) => f64::from(*v),
        Param::Scalar(Scalar::I32(v)) => f64::from(*v),
        Param::Scalar(Scalar::F32(v)) => f64::from(*v),
        other => panic!("{name} of {} is {other:?}", op.op_type),
    })
}

fn list(op: &QnnOp, name: &str) -> Vec<i64> {
    match op.params.iter().find(|(n, _)| n == name) {
        Some((_, Param::U32s { values, .. })) => values.iter().map(|&v| i64::from(v)).collect(),
        Some((_, Param::I32s { values, .. })) => values.iter().map(|&v| i64::from(v)).collect(),
        other => panic!("{name} of {} is {other:?}", op.op_type),
    }
}

fn axis(op: &QnnOp, default: usize) -> usize {
    scalar(op, "axis").map_or(default, |a| a as usize)
}

fn index_of(flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut rest = flat;
    let mut out = vec![0; dims.len()];
    for (i, d) in dims.iter().enumerate().rev() {
        out[i] = rest % d;
        rest /= d;
    }
    out
}

fn flat_of(index: &[usize], dims: &[usize]) -> usize {
    index.iter().zip(dims).fold(0, |a, (i, d)| a * d + i)
}

/// The element of `a` that broadcasts to `index`.
fn at(a: &Array, index: &[usize]) -> f64 {
    let skip = index.len() - a.dims.len();
    let own: Vec<usize> = index[skip..].iter().zip(&a.dims).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
    a.data[flat_of(&own, &a.dims)]
}

fn each(dims: &[usize], f: impl FnMut(Vec<usize>) -> f64) -> Vec<f64> {
    (0..dims.iter().product()).map(|i| index_of(i, dims)).map(f).collect()
}

fn apply(op: &QnnOp, ins: &[Array], outs: &[Vec<usize>], to: QnnType) -> Vec<Vec<f64>> {
    let x = &ins[0];
    let out = &outs[0];
    if let Some(f) = unary(op) {
        return vec![x.data.iter().map(|&v| f(v)).collect()];
    }
    if let Some(f) = binary(op) {
        let whole = |v: f64| if to == QnnType::INT_32 { v.trunc().clamp(i32::MIN.into(), i32::MAX.into()) } else { v };
        return vec![each(out, |i| whole(f(at(x, &i), at(&ins[1], &i))))];
    }
    if let Some(y) = spatial::apply(op, ins, outs) {
        return vec![y];
    }
    vec![match op.op_type.as_str() {
        "Reshape" | "Quantize" | "Dequantize" | "Convert" => x.data.clone(),
        "Cast" => x
            .data
            .iter()
            .map(|&v| {
                if to.is_float() {
                    v
                } else if to == QnnType::BOOL_8 {
                    f64::from(v != 0.0)
                } else {
                    v.trunc()
                }
            })
            .collect(),
        "ElementWiseSelect" => each(out, |i| if at(x, &i) == 0.0 { at(&ins[2], &i) } else { at(&ins[1], &i) }),
        "ReluMinMax" => {
            let (low, high) = (scalar(op, "min_value").unwrap(), scalar(op, "max_value").unwrap());
            x.data.iter().map(|v| v.clamp(low, high)).collect()
        }
        "Transpose" => {
            let perm = list(op, "perm");
            each(out, |i| {
                let mut src = vec![0; i.len()];
                for (k, p) in perm.iter().enumerate() {
                    src[*p as usize] = i[k];
                }
                at(x, &src)
            })
        }
        "ChannelShuffle" => {
            let groups = scalar(op, "num_groups").unwrap() as usize;
            let each_group = x.dims[x.dims.len() - 1] / groups;
            each(out, |i| {
                let mut src = i.clone();
                let j = src.pop().unwrap();
                src.push(j % groups * each_group + j / groups);
                at(x, &src)
            })
        }
        "Tile" => each(out, |i| {
            let src: Vec<usize> = i.iter().zip(&x.dims).map(|(i, d)| i % d).collect();
            at(x, &src)
        }),
        "StridedSlice" => {
            let r = list(op, "ranges");
            each(out, |i| {
                let src: Vec<usize> =
                    i.iter().enumerate().map(|(k, &j)| (r[3 * k] + j as i64 * r[3 * k + 2]) as usize).collect();
                at(x, &src)
            })
        }
        "Pad" => {
            let pads = list(op, "pad_amount");
            let scheme = scalar(op, "scheme").unwrap() as u32;
            let fill = scalar(op, "pad_constant_value").unwrap_or(0.0);
            each(out, |i| {
                let mut src: Vec<i64> = i.iter().enumerate().map(|(k, &j)| j as i64 - pads[2 * k]).collect();
                for (s, &d) in src.iter_mut().zip(&x.dims) {
                    let last = d as i64 - 1;
                    match scheme {
                        2 if *s < 0 => *s = -*s,
                        2 if *s > last => *s = 2 * last - *s,
                        3 => *s = (*s).clamp(0, last),
                        _ => {}
                    }
                }
                let inside = src.iter().zip(&x.dims).all(|(&s, &d)| s >= 0 && s < d as i64);
                if inside { at(x, &src.iter().map(|&s| s as usize).collect::<Vec<_>>()) } else { fill }
            })
        }
        "Concat" => {
            let axis = axis(op, out.len() - 1);
            each(out, |mut i| {
                for a in ins {
                    if i[axis] < a.dims[axis] {
                        return at(a, &i);
                    }
                    i[axis] -= a.dims[axis];
                }
                panic!("Concat pieces are shorter than the output")
            })
        }
        "Split" => {
            let axis = axis(op, 0);
            let mut starts = vec![0];
            starts.extend(list(op, "split_index"));
            return outs
                .iter()
                .zip(starts)
                .map(|(dims, start)| {
                    each(dims, |mut i| {
                        i[axis] += start as usize;
                        at(x, &i)
                    })
                })
                .collect();
        }
        "Gather" => {
            let axis = axis(op, 0);
            let k = ins[1].dims.len();
            each(out, |i| {
                let pick = at(&ins[1], &i[axis..axis + k]) as usize;
                let mut src = i[..axis].to_vec();
                src.push(pick);
                src.extend(&i[axis + k..]);
                assert!(pick < x.dims[axis], "Gather index {pick}");
                at(x, &src)
            })
        }
        "GatherElements" => {
            let axis = axis(op, 0);
            each(out, |i| {
                let mut src = i.clone();
                src[axis] = at(&ins[1], &i) as usize;
                at(x, &src)
            })
        }
        "CumulativeSum" => {
            let axis = axis(op, 0);
            each(out, |i| {
                (0..=i[axis])
                    .map(|j| {
                        let mut src = i.clone();
                        src[axis] = j;
                        at(x, &src)
                    })
                    .sum()
            })
        }
        "Softmax" | "LogSoftmax" => {
            let axis = axis(op, x.dims.len() - 1);
            let beta = scalar(op, "beta").unwrap_or(1.0);
            each(out, |i| {
                let row: Vec<f64> = (0..x.dims[axis])
                    .map(|j| {
                        let mut src = i.clone();
                        src[axis] = j;
                        beta * at(x, &src)
                    })
                    .collect();
                let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
                let own = row[i[axis]] - max;
                if op.op_type == "LogSoftmax" { own - sum.ln() } else { own.exp() / sum }
            })
        }
        "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceMean" | "ReduceProd" => reduce(op, x, out),
        "MatMul" => matmul(op, ins, out),
        "FullyConnected" => {
            let (k, n) = (ins[1].dims[1], ins[1].dims[0]);
            let rows = x.data.len() / k;
            (0..rows * n)
                .map(|i| {
                    let (r, c) = (i / n, i % n);
                    let dot: f64 = (0..k).map(|j| x.data[r * k + j] * ins[1].data[c * k + j]).sum();
                    dot + ins.get(2).map_or(0.0, |b| b.data[c])
                })
                .collect()
        }
        other => panic!("{other} is not evaluated in tests yet"),
    }]
}

fn reduce(op: &QnnOp, x: &Array, out: &[usize]) -> Vec<f64> {
    let axes = list(op, "axes");
    let kept: Vec<usize> =
        x.dims.iter().enumerate().map(|(i, &d)| if axes.contains(&(i as i64)) { 1 } else { d }).collect();
    let mut groups: Vec<Vec<f64>> = vec![vec![]; kept.iter().product()];
    assert_eq!(groups.len(), out.iter().product::<usize>());
    for (flat, v) in x.data.iter().enumerate() {
        let mut i = index_of(flat, &x.dims);
        for a in &axes {
            i[*a as usize] = 0;
        }
        groups[flat_of(&i, &kept)].push(*v);
    }
    let f = |g: &Vec<f64>| match op.op_type.as_str() {
        "ReduceSum" => g.iter().sum(),
        "ReduceMean" => g.iter().sum::<f64>() / g.len() as f64,
        "ReduceProd" => g.iter().product(),
        "ReduceMax" => g.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        _ => g.iter().copied().fold(f64::INFINITY, f64::min),
    };
    groups.iter().map(f).collect()
}

fn matmul(op: &QnnOp, ins: &[Array], out: &[usize]) -> Vec<f64> {
    let (ta, tb) = (scalar(op, "transpose_in0") == Some(1.0), scalar(op, "transpose_in1") == Some(1.0));
    let (a, b) = (&ins[0], &ins[1]);
    let ra = a.dims.len();
    let k = if ta { a.dims[ra - 2] } else { a.dims[ra - 1] };
    let kb = b.dims[b.dims.len() - if tb { 1 } else { 2 }];
    assert_eq!(k, kb, "inner dimensions of MatMul");
    each(out, |i| {
        let (m, n) = (i[i.len() - 2], i[i.len() - 1]);
        let pick = |rows: usize, cols: usize| {
            let mut index = i.clone();
            let r = index.len();
            index[r - 2] = rows;
            index[r - 1] = cols;
            index
        };
        let dot: f64 = (0..k)
            .map(|j| {
                let ia = if ta { pick(j, m) } else { pick(m, j) };
                let ib = if tb { pick(n, j) } else { pick(j, n) };
                at(a, &ia) * at(b, &ib)
            })
            .sum();
        dot + ins.get(2).map_or(0.0, |bias| bias.data[n])
    })
}

fn unary(op: &QnnOp) -> Option<Box<dyn Fn(f64) -> f64>> {
    let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
    let name = match op.op_type.as_str() {
        "ElementWiseNeuron" => match scalar(op, "operation")? as u32 {
            0 => "Elu",
            2 => "HardSigmoid",
            4 => "Relu",
            6 => "Sigmoid",
            7 => "ElementWiseSoftplus",
            8 => "Tanh",
            other => panic!("ElementWiseNeuron {other} is not evaluated in tests yet"),
        },
        other => other,
    };
    let (alpha, beta) = (scalar(op, "alpha").unwrap_or(1.0), scalar(op, "beta").unwrap_or(0.0));
    Some(match name {
        "Sigmoid" => Box::new(sigmoid),
        "Tanh" => Box::new(f64::tanh),
        "Relu" => Box::new(|v: f64| v.max(0.0)),
        "Elu" => Box::new(move |v: f64| if v < 0.0 { alpha * v.exp_m1() } else { v }),
        "HardSigmoid" => Box::new(move |v: f64| (alpha * v + beta).clamp(0.0, 1.0)),
        "ElementWiseSoftplus" => Box::new(|v: f64| v.exp().ln_1p()),
        "ElementWiseAbs" => Box::new(f64::abs),
        "ElementWiseNeg" => Box::new(|v: f64| -v),
        "ElementWiseExp" => Box::new(f64::exp),
        "ElementWiseLog" => Box::new(f64::ln),
        "ElementWiseSquareRoot" => Box::new(f64::sqrt),
        "ElementWiseRsqrt" => Box::new(|v: f64| 1.0 / v.sqrt()),
        "ElementWiseFloor" => Box::new(f64::floor),
        "ElementWiseCeil" => Box::new(f64::ceil),
        "ElementWiseRound" => Box::new(f64::round_ties_even),
        "ElementWiseSin" => Box::new(f64::sin),
        "ElementWiseCos" => Box::new(f64::cos),
        "ElementWiseAtan" => Box::new(f64::atan),
        "ElementWiseSign" => Box::new(|v: f64| if v == 0.0 { 0.0 } else { v.signum() }),
        "ElementWiseNot" => Box::new(|v: f64| f64::from(v == 0.0)),
        _ => return None,
    })
}

fn binary(op: &QnnOp) -> Option<fn(f64, f64) -> f64> {
    Some(match op.op_type.as_str() {
        "ElementWiseAdd" => |a, b| a + b,
        "ElementWiseSubtract" => |a, b| a - b,
        "ElementWiseMultiply" => |a, b| a * b,
        "ElementWiseDivide" => |a, b| a / b,
        "ElementWiseMod" => |a, b| a - b * (a / b).floor(),
        "ElementWisePower" => f64::powf,
        "Prelu" => |x, slope| if x < 0.0 { x * slope } else { x },
        "ElementWiseMaximum" => f64::max,
        "ElementWiseMinimum" => f64::min,
        "ElementWiseLess" => |a, b| f64::from(a < b),
        "ElementWiseLessEqual" => |a, b| f64::from(a <= b),
        "ElementWiseGreater" => |a, b| f64::from(a > b),
        "ElementWiseGreaterEqual" => |a, b| f64::from(a >= b),
        "ElementWiseEqual" => |a, b| f64::from(a == b),
        "ElementWiseNotEqual" => |a, b| f64::from(a != b),
        "ElementWiseAnd" => |a, b| f64::from(a != 0.0 && b != 0.0),
        "ElementWiseOr" => |a, b| f64::from(a != 0.0 || b != 0.0),
        "ElementWiseXor" => |a, b| f64::from((a != 0.0) != (b != 0.0)),
        _ => return None,
    })
}
