//! Fixing dimensions: `--dim batch=1` and `--input-shape x:1,3,224,224`.

use std::collections::BTreeMap;

use crate::ir::{Attr, Dim, Graph, ValueId, ValueType, show_shape};

/// What the user fixed.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// Named dimensions.
    pub dims: Vec<(String, i64)>,
    /// Whole shapes of graph inputs.
    pub shapes: Vec<(String, Vec<i64>)>,
}

/// A request that does not fit the model; the texts name the dimension, both values, and what there is.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BindError {
    #[error("no dimension is called {name:?}; the model's free dimensions are: {}", list(.known))]
    UnknownDim { name: String, known: Vec<String> },
    #[error("no graph input is called {name:?}; the inputs are: {}", list(.known))]
    UnknownInput { name: String, known: Vec<String> },
    #[error("{what} is {value}; a dimension must be at least 1")]
    NotPositive { what: String, value: i64 },
    #[error("input {name:?} has rank {rank} in the model, and {given} dimensions were given for it")]
    Rank { name: String, rank: usize, given: usize },
    #[error("input {name:?} is {declared} in the model: dimension {axis} cannot be {given}")]
    Fixed { name: String, declared: String, axis: usize, given: i64 },
    #[error("dimension {name:?} would have to be both {first} ({first_from}) and {second} ({second_from})")]
    Contradiction { name: String, first: i64, first_from: String, second: i64, second_from: String },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Applies the bindings to every type in the graph, subgraphs included. Returns the dimensions that are fixed by them.
pub fn bind(graph: &mut Graph, bindings: &Bindings) -> Result<BTreeMap<String, i64>, BindError> {
    // Symbol -> value and where it came from.
    let mut fixed: BTreeMap<String, (i64, String)> = BTreeMap::new();
    let symbols = input_symbols(graph);
    for (name, value) in &bindings.dims {
        if *value < 1 {
            return Err(BindError::NotPositive { what: format!("--dim {name}"), value: *value });
        }
        if !symbols.contains(name) {
            return Err(BindError::UnknownDim { name: name.clone(), known: symbols });
        }
        fix(&mut fixed, name, *value, format!("--dim {name}={value}"))?;
    }
    for (name, shape) in &bindings.shapes {
        let input = graph.inputs.iter().copied().find(|v| graph.value(*v).name == *name);
        let Some(v) = input else {
            let known = graph.inputs.iter().map(|v| graph.value(*v).name.clone()).collect();
            return Err(BindError::UnknownInput { name: name.clone(), known });
        };
        bind_shape(graph, v, shape, &mut fixed)?;
    }
    substitute(graph, &fixed);
    Ok(fixed.into_iter().map(|(name, (value, _))| (name, value)).collect())
}

fn bind_shape(
    graph: &mut Graph,
    v: ValueId,
    shape: &[i64],
    fixed: &mut BTreeMap<String, (i64, String)>,
) -> Result<(), BindError> {
    let value = graph.value_mut(v);
    let name = value.name.clone();
    if let Some((axis, d)) = shape.iter().enumerate().find(|(_, d)| **d < 1) {
        return Err(BindError::NotPositive { what: format!("--input-shape {name}, dimension {axis},"), value: *d });
    }
    match &mut value.ty {
        ValueType::Tensor(t) => {
            if t.shape.len() != shape.len() {
                return Err(BindError::Rank { name, rank: t.shape.len(), given: shape.len() });
            }
            let declared = show_shape(&t.shape);
            for (axis, (dim, &given)) in t.shape.iter_mut().zip(shape).enumerate() {
                match dim {
                    Dim::Known(n) if *n == given => {}
                    Dim::Known(_) => return Err(BindError::Fixed { name, declared, axis, given }),
                    Dim::Expr(_) => {
                        if let [symbol] = dim.symbols()[..]
                            && Dim::symbol(symbol) == *dim
                        {
                            fix(fixed, symbol, given, format!("--input-shape {name}, dimension {axis}"))?;
                        }
                        *dim = Dim::Known(given);
                    }
                }
            }
        }
        ty => {
            if let Some(dtype) = ty.dtype() {
                let shape = shape.iter().map(|&d| Dim::Known(d)).collect();
                *ty = ValueType::Tensor(crate::ir::TensorType::new(dtype, shape));
            }
        }
    }
    Ok(())
}

fn fix(fixed: &mut BTreeMap<String, (i64, String)>, name: &str, value: i64, from: String) -> Result<(), BindError> {
    match fixed.get(name) {
        Some((first, first_from)) if *first != value => Err(BindError::Contradiction {
            name: name.into(),
            first: *first,
            first_from: first_from.clone(),
            second: value,
            second_from: from,
        }),
        _ => {
            fixed.insert(name.into(), (value, from));
            Ok(())
        }
    }
}

fn substitute(graph: &mut Graph, fixed: &BTreeMap<String, (i64, String)>) {
    let ids: Vec<ValueId> = graph.values().map(|(id, _)| id).collect();
    for id in ids {
        if let ValueType::Tensor(t) = &mut graph.value_mut(id).ty {
            for dim in &mut t.shape {
                *dim = dim.substitute(&|s| fixed.get(s).map(|(n, _)| Dim::Known(*n)));
            }
        }
    }
    let nodes: Vec<_> = graph.nodes().map(|(id, _)| id).collect();
    for id in nodes {
        for attr in graph.node_mut(id).attrs.0.values_mut() {
            if let Attr::Graph(body) = attr {
                substitute(body, fixed);
            }
        }
    }
}

/// Names of the symbols in the shapes of the graph's inputs, in order of appearance.
pub fn input_symbols(graph: &Graph) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for v in &graph.inputs {
        let Some(t) = graph.value(*v).ty.tensor() else { continue };
        for s in t.shape.iter().flat_map(Dim::symbols) {
            if !names.iter().any(|n| n == s) {
                names.push(s.into());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, TensorType};

    fn graph() -> Graph {
        let mut g = Graph::default();
        let x = g.add_typed("x", TensorType::new(DataType::F32, vec![Dim::symbol("batch"), Dim::Known(3)]));
        let y = g.add_typed("y", TensorType::new(DataType::F32, vec![Dim::symbol("batch"), Dim::symbol("seq")]));
        g.inputs = vec![x, y];
        g
    }

    fn bindings(dims: &[(&str, i64)], shapes: &[(&str, &[i64])]) -> Bindings {
        Bindings {
            dims: dims.iter().map(|(n, v)| ((*n).into(), *v)).collect(),
            shapes: shapes.iter().map(|(n, v)| ((*n).into(), v.to_vec())).collect(),
        }
    }

    #[test]
    fn a_shape_binds_its_symbols_everywhere() {
        let mut g = graph();
        bind(&mut g, &bindings(&[("seq", 7)], &[("x", &[2, 3])])).unwrap();
        assert_eq!(g.value(g.inputs[1]).ty.tensor().unwrap().static_shape(), Some(vec![2, 7]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let say = |b: &Bindings| bind(&mut graph(), b).unwrap_err().to_string();
        assert_eq!(
            say(&bindings(&[("time", 1)], &[])),
            "no dimension is called \"time\"; the model's free dimensions are: batch, seq"
        );
        assert_eq!(say(&bindings(&[("seq", 0)], &[])), "--dim seq is 0; a dimension must be at least 1");
        assert_eq!(say(&bindings(&[], &[("z", &[1])])), "no graph input is called \"z\"; the inputs are: x, y");
        assert_eq!(
            say(&bindings(&[("batch", 1)], &[("x", &[2, 3])])),
            "dimension \"batch\" would have to be both 1 (--dim batch=1) and 2 (--input-shape x, dimension 0)"
        );
        assert_eq!(
            say(&bindings(&[], &[("x", &[1, 4])])),
            "input \"x\" is [batch, 3] in the model: dimension 1 cannot be 4"
        );
    }
}
