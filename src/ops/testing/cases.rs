//! Runs the stored cases of `fixtures/op_cases`: each is a node with the results of ONNX Runtime, and must infer the
//! same shapes, and either lower to QNN ops that compute the same numbers or be refused as the case says.

use serde_json::Value;

use super::{OneNode, node, op_types};
use crate::ir::{Attr, Tensor, ValueType};

fn shape(v: &Value) -> Vec<usize> {
    v.as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect()
}

/// Elements of an input: `((i * step) % modulus - shift) * scale`.
fn elements(spec: &Value, count: usize) -> Vec<f64> {
    let f = |k: &str| spec[k].as_f64().unwrap();
    (0..count).map(|i| ((i as f64 * f("step")) % f("modulus") - f("shift")) * f("scale")).collect()
}

fn attr(v: &Value) -> Attr {
    let floats = |a: &[Value]| a.iter().all(Value::is_f64);
    match v {
        Value::String(s) => Attr::Str(s.clone().into()),
        Value::Array(a) if !a.is_empty() && floats(a) => {
            Attr::Floats(a.iter().map(|x| x.as_f64().unwrap() as f32).collect())
        }
        Value::Array(a) => Attr::Ints(a.iter().map(|x| x.as_i64().unwrap()).collect()),
        Value::Number(n) if n.is_f64() => Attr::Float(n.as_f64().unwrap() as f32),
        v => Attr::Int(v.as_i64().unwrap()),
    }
}

fn build(case: &Value) -> (OneNode, Vec<Vec<f64>>) {
    let mut n = node(case["op"].as_str().unwrap(), case["version"].as_i64().unwrap());
    let mut inputs = vec![];
    for spec in case["inputs"].as_array().unwrap() {
        n = if spec.is_null() {
            n.omit()
        } else if let Some(v) = spec["ints"].as_array() {
            n.ints(&v.iter().map(|x| x.as_i64().unwrap()).collect::<Vec<_>>())
        } else if let Some(v) = spec["int32"].as_array() {
            let v: Vec<i32> = v.iter().map(|x| x.as_i64().unwrap() as i32).collect();
            n.constant(Tensor::from_i32(shape(&spec["shape"]), &v))
        } else if let Some(v) = spec["floats"].as_array() {
            let v: Vec<f32> = v.iter().map(|x| x.as_f64().unwrap() as f32).collect();
            n.floats(&[v.len()], &v)
        } else {
            let dims = shape(&spec["shape"]);
            let values = elements(spec, dims.iter().product());
            if spec["const"] == true {
                let v: Vec<f32> = values.iter().map(|&x| x as f32).collect();
                n.constant(Tensor::from_f32(dims, &v))
            } else {
                inputs.push(values);
                n.float(&dims.iter().map(|&d| d as i64).collect::<Vec<_>>())
            }
        };
    }
    for (name, v) in case["attrs"].as_object().unwrap() {
        n = n.attr(name, attr(v));
    }
    (n.outputs(case["outputs"].as_array().unwrap().len()), inputs)
}

/// Why a case fails, if it does.
fn failure(case: &Value) -> Option<String> {
    let (n, inputs) = build(case);
    let facts = match n.infer() {
        Ok(f) => f,
        Err(e) => return Some(format!("inference: {e}")),
    };
    for (fact, want) in facts.iter().zip(case["outputs"].as_array().unwrap()) {
        let ValueType::Tensor(t) = &fact.ty else { return Some("no type inferred".into()) };
        if t.static_shape() != Some(shape(&want["shape"])) {
            return Some(format!("inferred {t}, wanted {}", want["shape"]));
        }
    }
    let graph = match n.lower() {
        Ok(g) => g,
        Err(r) => return Some(format!("refused: {}", r.0[0].message)),
    };
    let got = super::evaluate(&graph, &inputs);
    for (got, want) in got.iter().zip(case["outputs"].as_array().unwrap()) {
        let want: Vec<f64> = want["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        if got.len() != want.len() {
            return Some(format!("{} elements instead of {}", got.len(), want.len()));
        }
        let far = got.iter().zip(&want).position(|(g, w)| (g - w).abs() > 2e-4 * w.abs().max(1.0));
        if let Some(i) = far {
            return Some(format!(
                "element {i}: {} instead of {}, through {:?}\ngot  {got:?}\nwant {want:?}",
                got[i],
                want[i],
                op_types(&graph)
            ));
        }
    }
    None
}

/// Runs all cases of one file, and lists those that fail.
fn run(text: &str) {
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(!cases.is_empty());
    let failures: Vec<String> = cases
        .iter()
        .enumerate()
        .filter_map(|(i, c)| {
            let what = std::panic::catch_unwind(|| failure(c)).unwrap_or_else(|e| {
                let text = e.downcast_ref::<String>().cloned();
                Some(format!(
                    "panic: {}",
                    text.or_else(|| e.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
                ))
            })?;
            Some(format!("case {i}: {} {} {} {}\n  {what}", c["op"], c["version"], c["attrs"], c["inputs"]))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} cases fail\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn spatial_ops_agree_with_onnx_runtime() {
    run(include_str!("../../../fixtures/op_cases/spatial.json"));
}
