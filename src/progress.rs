//! What a long command is doing, as data. The library has no terminal code: the binary draws these.

/// A step of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A stage begins, such as `"reading"`, `"validating"`, `"preparing"`; the one before is over.
    Stage(&'a str),
    /// `done` of `total` ops of a graph were handled in this stage.
    Op { graph: &'a str, done: usize, total: usize },
    /// `done` of `total` bytes were fetched or written; `total` is 0 when unknown.
    Bytes { what: &'a str, done: u64, total: u64 },
    /// A remark worth keeping on the screen.
    Note(&'a str),
}

/// Who listens. Called from the thread that does the work, which may change between calls.
pub type Progress<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Nobody listens.
pub fn silent(_: Event<'_>) {}
