//! QNN: the graph that a backend gets ([`graph`]), the worker process that owns the vendor's libraries ([`client`] starts
//! it), and what they say to each other ([`protocol`]).
//!
//! Promises: nothing that is known to crash the libraries is sent ([`guard`]); whatever happens in the worker comes back
//! as a [`WorkerError`]; weights reach it as shared memory or as parts of the model's own files, never through the
//! socket.

mod arena;
pub mod channel;
pub mod client;
pub mod cost;
pub mod error;
pub mod graph;
pub mod guard;
mod link;
pub mod prefix;
pub mod protocol;
pub mod weights;
pub mod worker;

pub use client::{Prepared, Worker, WorkerOptions, inspect_binary};
pub use error::WorkerError;
pub use protocol::{Backend, BinaryInfo, OpVerdict, PrepareOptions, Progress, Stage};
