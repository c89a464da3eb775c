//! Attributes of a node, in the model's order.

use bytes::Bytes;
use indexmap::IndexMap;

use super::{Graph, Tensor};

#[derive(Clone, Debug)]
pub enum Attr {
    Int(i64),
    Float(f32),
    /// ONNX strings are bytes; they need not be UTF-8.
    Str(Bytes),
    Tensor(Tensor),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strs(Vec<Bytes>),
    Graph(Box<Graph>),
    /// Kinds that no lowering reads (sparse tensors, type protos, lists of graphs), kept as they were on the wire.
    Opaque(Bytes),
    /// In a model-local function's body: takes the caller's attribute of this name.
    Ref(String),
}

/// Attributes by name. The getters return `None` for an absent attribute and for one of another kind.
#[derive(Clone, Debug, Default)]
pub struct Attrs(pub IndexMap<String, Attr>);

impl Attrs {
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.get(name)
    }

    pub fn set(&mut self, name: impl Into<String>, value: Attr) {
        self.0.insert(name.into(), value);
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Attr::Int(i) => Some(*i),
            _ => None,
        }
    }

    pub fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int(name).unwrap_or(default)
    }

    pub fn float(&self, name: &str) -> Option<f32> {
        match self.get(name)? {
            Attr::Float(f) => Some(*f),
            _ => None,
        }
    }

    pub fn float_or(&self, name: &str, default: f32) -> f32 {
        self.float(name).unwrap_or(default)
    }

    pub fn str(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Attr::Str(s) => std::str::from_utf8(s).ok(),
            _ => None,
        }
    }

    pub fn str_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.str(name).unwrap_or(default)
    }

    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.get(name)? {
            Attr::Ints(v) => Some(v),
            _ => None,
        }
    }

    pub fn floats(&self, name: &str) -> Option<&[f32]> {
        match self.get(name)? {
            Attr::Floats(v) => Some(v),
            _ => None,
        }
    }

    pub fn strs(&self, name: &str) -> Option<Vec<&str>> {
        match self.get(name)? {
            Attr::Strs(v) => v.iter().map(|s| std::str::from_utf8(s).ok()).collect(),
            _ => None,
        }
    }

    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        match self.get(name)? {
            Attr::Tensor(t) => Some(t),
            _ => None,
        }
    }

    pub fn graph(&self, name: &str) -> Option<&Graph> {
        match self.get(name)? {
            Attr::Graph(g) => Some(g),
            _ => None,
        }
    }
}
