//! Every model that is at hand loads: those under `fixtures/`, and those under `$QNNC_CORPUS` if it is set.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod onnx_common;

#[test]
fn every_model_loads() {
    for path in onnx_common::models_at_hand() {
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
