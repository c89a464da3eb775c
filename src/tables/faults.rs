//! Known faults of the vendor's libraries, from `op-tables/faults.json`.

use std::sync::OnceLock;

use serde::Deserialize;

/// A form of an op that a backend takes, and then does not compute as ONNX defines it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Names it in reasons and in the source that avoids it.
    pub id: String,
    pub backend: String,
    /// The QAIRT versions in which it was seen.
    pub sdk: Vec<String>,
    /// QNN ops.
    pub op: String,
    /// Datatypes in which it was seen.
    pub types: String,
    pub when: String,
    pub effect: String,
    /// What is emitted in its place.
    pub instead: String,
    /// The source file that avoids it.
    pub source: String,
}

#[derive(Deserialize)]
struct File {
    #[allow(dead_code)]
    about: String,
    faults: Vec<Fault>,
}

/// Every known fault, by id.
pub fn all() -> &'static [Fault] {
    static FAULTS: OnceLock<Vec<Fault>> = OnceLock::new();
    FAULTS.get_or_init(|| {
        // A table that does not parse fails the tests; a build of it has none.
        serde_json::from_str::<File>(include_str!("../../op-tables/faults.json")).map(|f| f.faults).unwrap_or_default()
    })
}

/// The fault called `id`.
pub fn find(id: &str) -> Option<&'static Fault> {
    all().iter().find(|f| f.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let text = include_str!("../../op-tables/faults.json");
        let file: File = serde_json::from_str(text).unwrap();
        assert!(file.faults.len() >= 30 && file.faults.len() == all().len());
        assert!(file.faults.windows(2).all(|w| w[0].id < w[1].id), "sorted by id, each once");
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        for f in &file.faults {
            let source = std::fs::read_to_string(root.join(&f.source)).unwrap_or_default();
            assert!(!source.is_empty(), "{}: {} does not exist", f.id, f.source);
            assert!(
                !f.sdk.is_empty() && !f.when.is_empty() && !f.effect.is_empty() && !f.instead.is_empty(),
                "{}",
                f.id
            );
        }
    }
}
