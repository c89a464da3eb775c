//! What can go wrong with a worker.

use std::time::Duration;

use super::protocol::{Backend, Stage};
use super::weights::WeightError;

/// Where the worker was: the stage, the graph and the last op that it named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub stage: Stage,
    pub graph: Option<String>,
    /// `name (type)`.
    pub op: Option<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.stage.doing())?;
        match &self.graph {
            Some(graph) => write!(f, " graph `{graph}`")?,
            None if self.stage.of_graph() => f.write_str(" a graph")?,
            None => {}
        }
        if let Some(op) = &self.op {
            write!(f, ", op {op}")?;
        }
        Ok(())
    }
}

/// The last lines of the vendor's log and output, shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorLog(pub Vec<String>);

impl VendorLog {
    const LINES: usize = 12;
    const WIDTH: usize = 300;

    /// Keeps the last lines.
    pub fn tail<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Self {
        let mut kept: Vec<String> = lines
            .into_iter()
            .map(|l| l.as_ref().trim().to_owned())
            .filter(|l| !l.is_empty())
            .map(|l| match l.char_indices().nth(Self::WIDTH) {
                Some((at, _)) => format!("{}...", &l[..at]),
                None => l,
            })
            .collect();
        kept.drain(..kept.len().saturating_sub(Self::LINES));
        Self(kept)
    }
}

impl std::fmt::Display for VendorLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str("; the library's last words:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Any failure of a worker, as a value.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("the worker process cannot be started: {0}")]
    Spawn(#[source] std::io::Error),
    /// A library is missing or unsuitable; the text says what was found and what to do.
    #[error("{0}")]
    Library(String),
    #[error("the {} backend failed while {place}: {message}{log}", .backend.name())]
    Vendor { backend: Backend, place: Place, code: Option<u16>, message: String, log: VendorLog },
    #[error("the {} backend crashed ({how}) while {place}{log}", .backend.name())]
    Crashed { backend: Backend, how: String, place: Place, log: VendorLog },
    #[error("the {} backend did not come back within {} s while {place}{log}", .backend.name(), .after.as_secs_f32())]
    TimedOut { backend: Backend, after: Duration, place: Place, log: VendorLog },
    #[error("the {} backend's worker sent something that is not an answer ({detail}) while {place}{log}", .backend.name())]
    Garbage { backend: Backend, detail: String, place: Place, log: VendorLog },
    /// Sending it would crash or hang the library, or give wrong numbers.
    #[error("graph `{graph}`, {what}: {reason}")]
    Refused { graph: String, what: String, reason: String },
    /// The request does not fit: no such graph in the binary, an input is missing.
    #[error("{0}")]
    Request(String),
    #[error(transparent)]
    Weights(#[from] WeightError),
    #[error("{what}: {source}")]
    File { what: String, source: std::io::Error },
    #[error("{0}")]
    WorkerFile(String),
    /// An earlier call has already reported why.
    #[error("the worker of the {} backend has ended", .0.name())]
    Gone(Backend),
}

impl WorkerError {
    /// The exit code of the command: 2 for the user's files, 3 for a missing or unsuitable SDK, 4 for the vendor's code.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Spawn(_) | Self::Library(_) => 3,
            Self::Request(_) | Self::File { .. } | Self::WorkerFile(_) => 2,
            Self::Vendor { .. }
            | Self::Crashed { .. }
            | Self::TimedOut { .. }
            | Self::Garbage { .. }
            | Self::Refused { .. }
            | Self::Weights(_)
            | Self::Gone(_) => 4,
        }
    }

    /// Where the vendor's code failed, if it did.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Vendor { place, .. }
            | Self::Crashed { place, .. }
            | Self::TimedOut { place, .. }
            | Self::Garbage { place, .. } => Some(place),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_the_graph_the_op_and_the_last_words() {
        let place = Place { stage: Stage::Ops, graph: Some("decoder".into()), op: Some("conv1 (Conv2d)".into()) };
        let log = VendorLog::tail((0..40).map(|i| format!("line {i}")));
        let e = WorkerError::Crashed { backend: Backend::Htp, how: "SIGSEGV".into(), place, log };
        let text = e.to_string();
        assert!(text.starts_with(
            "the HTP backend crashed (SIGSEGV) while adding the ops of graph `decoder`, op conv1 (Conv2d); the library"
        ));
        assert!(text.ends_with("line 39") && !text.contains("line 27"));
        assert_eq!(e.exit_code(), 4);
        assert_eq!(WorkerError::Library("x".into()).exit_code(), 3);
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let log = VendorLog::tail(["ü".repeat(1000)]);
        assert_eq!(log.0[0].chars().count(), VendorLog::WIDTH + 3);
    }
}
