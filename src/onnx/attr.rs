//! `AttributeProto` as attributes of the IR. Graphs are left to the graph builder.

use bytes::Bytes;
use prost::Message;

use super::error::Fault;
use super::external::External;
use super::proto::{AttributeProto, GraphProto, attribute_type as kind};
use super::tensor::tensor;
use crate::ir::Attr;

/// An attribute's value.
pub(super) enum Read {
    Value(Attr),
    /// A body, still to be built.
    Body(Box<GraphProto>),
}

/// The value of `proto`, an attribute of the node named `node`.
pub(super) fn read(mut proto: AttributeProto, node: &str, files: &mut External) -> Result<Read, Fault> {
    let place = || format!("in attribute {} of node {node:?}", proto.name);
    let kind = if proto.r#type == kind::UNDEFINED { guess(&proto) } else { proto.r#type };
    Ok(Read::Value(match kind {
        kind::FLOAT => Attr::Float(proto.f.unwrap_or_default()),
        kind::INT => Attr::Int(proto.i.unwrap_or_default()),
        kind::STRING => Attr::Str(proto.s.unwrap_or_default()),
        kind::FLOATS => Attr::Floats(proto.floats),
        kind::INTS => Attr::Ints(proto.ints),
        kind::STRINGS => Attr::Strs(proto.strings),
        kind::TENSOR => match proto.t.take() {
            Some(t) => Attr::Tensor(tensor(*t, &place(), files)?),
            None => opaque(&proto),
        },
        kind::GRAPH => match proto.g.take() {
            Some(g) => return Ok(Read::Body(g)),
            None => opaque(&proto),
        },
        _ => opaque(&proto),
    }))
}

fn opaque(proto: &AttributeProto) -> Attr {
    Attr::Opaque(Bytes::from(proto.encode_to_vec()))
}

/// The kind of an attribute of IR version 1, which did not name it: the field that is there.
fn guess(proto: &AttributeProto) -> i32 {
    [
        (proto.f.is_some(), kind::FLOAT),
        (proto.i.is_some(), kind::INT),
        (proto.s.is_some(), kind::STRING),
        (proto.t.is_some(), kind::TENSOR),
        (proto.g.is_some(), kind::GRAPH),
        (!proto.floats.is_empty(), kind::FLOATS),
        (!proto.ints.is_empty(), kind::INTS),
        (!proto.strings.is_empty(), kind::STRINGS),
    ]
    .into_iter()
    .find_map(|(there, kind)| there.then_some(kind))
    .unwrap_or(kind::UNDEFINED)
}
