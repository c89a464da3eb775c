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

#[test]
fn every_broken_file_is_refused_in_one_line_or_left_to_inference() {
    for path in onnx_common::broken() {
        match qnnc::onnx::load(&path) {
            Ok(_) => println!("{} loads; what is wrong with it is not the graph's form", path.display()),
            Err(e) => {
                let e = e.to_string();
                println!("{e}");
                assert!(!e.contains('\n') && e.contains(&path.display().to_string()), "{e}");
            }
        }
    }
}
