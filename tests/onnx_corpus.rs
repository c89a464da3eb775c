//! Every model that is at hand loads: those under `fixtures/`, and those under `$QNNC_CORPUS` if it is set.

use std::path::{Path, PathBuf};

/// All `.onnx` files under `folder`, sorted.
fn models(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(models(&path));
        } else if path.extension().is_some_and(|e| e == "onnx") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_model_loads() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")];
    match std::env::var_os("QNNC_CORPUS") {
        Some(corpus) => folders.push(corpus.into()),
        None => eprintln!("skipped: the corpus (QNNC_CORPUS is not set)"),
    }
    for path in folders.iter().flat_map(|f| models(f)) {
        let start = std::time::Instant::now();
        let model = qnnc::onnx::load(&path).unwrap_or_else(|e| panic!("{e}"));
        println!(
            "{}: {} nodes, ai.onnx {:?}, {:.1} ms",
            path.display(),
            model.graph.node_count(),
            model.opsets.get(""),
            start.elapsed().as_secs_f64() * 1e3
        );
        for finding in &model.findings {
            println!("  {finding}");
        }
        assert!(model.graph.topological_order().is_ok());
    }
}
