//! QNN: the graph that a backend gets ([`graph`]), the worker that owns the vendor's libraries, and its protocol.

pub mod cost;
pub mod graph;
