//! The worker with the vendor's real libraries. Skipped without them.

mod common;

use common::{Graph, dense, dense_expected, f32_bytes, f32_values, options, skip_without_sdk};
use qnnc::ir::{DataType, Tensor};
use qnnc::qnn::graph::{Param, QnnGraph, QnnType, TensorKind};
use qnnc::qnn::protocol::Cause;
use qnnc::qnn::{Backend, PrepareOptions, Worker, WorkerError};

/// SM8650.
const SOC: u32 = 57;

#[test]
fn prepares_inspects_and_executes() {
    let Some(sdk) = skip_without_sdk() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("net.bin");
    let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(SOC)).unwrap();
    let g = dense("net", 1, 64, 32);
    assert!(worker.validate(&g).unwrap().iter().all(qnnc::qnn::OpVerdict::accepted));
    let begin = std::time::Instant::now();
    let prepared = worker.prepare(&[&g], &PrepareOptions::default(), &out).unwrap();
    println!("{prepared:?} in {:?}", begin.elapsed());
    assert!(prepared.peak_rss_kib > 10_000);
    assert_eq!(prepared.binary_bytes, out.metadata().unwrap().len());
    assert!(prepared.graphs[0].ddr.is_some_and(|d| d.read_total > 0));

    let info = worker.inspect(&out).unwrap();
    assert_eq!((info.soc_model, info.dsp_arch), (Some(SOC), Some(75)));
    assert_eq!(info.graphs[0].name, "net");
    assert_eq!(info.graphs[0].inputs[0].dims, [1, 64]);
    assert_eq!(info.graphs[0].vtcm_bytes, Some(8 << 20));

    let x: Vec<f32> = (0..64).map(|i| (i % 7) as f32 - 3.0).collect();
    let bytes = f32_bytes(&x);
    let made = worker.execute(&out, "net", &[("x", &bytes)]).unwrap();
    // The emulated 16-bit arithmetic rounds.
    let far = f32_values(&made[0].1).iter().zip(dense_expected(&x, 32)).any(|(a, b)| (a - b).abs() > 0.01);
    assert!(!far, "{:?}", f32_values(&made[0].1));
    let direct = worker.run(&g, &PrepareOptions::default(), &[("x", &bytes)]).unwrap();
    assert_eq!(direct[0].1, made[0].1);

    let e = worker.execute(&out, "other", &[("x", &bytes)]).unwrap_err();
    assert!(matches!(&e, WorkerError::Request(t) if t.contains("no graph `other`")), "{e}");
    let e = worker.execute(&out, "net", &[]).unwrap_err();
    assert!(e.to_string().contains("input `x` is missing"), "{e}");
    let mut reader = Worker::spawn(options(&sdk, Backend::System)).unwrap();
    assert_eq!(reader.inspect(&out).unwrap(), info);
    let e = reader.inspect(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(matches!(&e, WorkerError::Request(_)), "{e}");
}

#[test]
fn the_cpu_backend_runs_graphs() {
    let Some(sdk) = skip_without_sdk() else { return };
    if !sdk.join(Backend::Cpu.library()).exists() {
        let e = Worker::spawn(options(&sdk, Backend::Cpu)).unwrap().validate(&dense("net", 1, 4, 4)).unwrap_err();
        assert!(e.to_string().contains("comes without the CPU backend") && e.exit_code() == 3, "{e}");
        println!("skipped: this SDK has no CPU backend");
        return;
    }
    let mut worker = Worker::spawn(options(&sdk, Backend::Cpu)).unwrap();
    let x: Vec<f32> = (0..2 * 48).map(|i| i as f32 / 16.0).collect();
    let made = worker.run(&dense("net", 2, 48, 8), &PrepareOptions::default(), &[("x", &f32_bytes(&x))]).unwrap();
    let expected: Vec<f32> = x.chunks(48).flat_map(|row| dense_expected(row, 8)).collect();
    assert_eq!(f32_values(&made[0].1), expected);
}

#[test]
fn refusals_carry_the_vendors_reason() {
    let Some(sdk) = skip_without_sdk() else { return };
    let mut g = Graph::new("bad");
    let x = g.tensor("x", TensorKind::AppWrite, QnnType::INT_64, &[1, 4]);
    let y = g.tensor("y", TensorKind::AppRead, QnnType::INT_64, &[1, 4]);
    g.op("neg", "Relu", &[x], &[y], &[]);
    g.op("reduce", "ReduceMean", &[x], &[y], &[]);
    g.op("none", "NoSuchOp", &[x], &[y], &[("axis", Param::u32(1))]);
    let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(SOC)).unwrap();
    let verdicts = worker.validate(&g.0).unwrap();
    println!("{verdicts:#?}");
    assert_eq!((verdicts[0].code, verdicts[0].cause), (3110, Cause::Validator));
    assert!(!verdicts[0].messages.is_empty());
    assert_eq!(verdicts[1].cause, Cause::Guard);
    assert_eq!(verdicts[2].code, 4005);
}

#[test]
fn equal_weights_are_stored_once() {
    let Some(sdk) = skip_without_sdk() else { return };
    let dir = tempfile::tempdir().unwrap();
    let graphs = [dense("small", 8, 512, 512), dense("large", 64, 512, 512)];
    let both = [&graphs[0], &graphs[1]];
    let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(SOC)).unwrap();
    let apart = worker.prepare(&both, &PrepareOptions::default(), &dir.path().join("a.bin")).unwrap();
    let sharing = PrepareOptions { weight_sharing: true, ..PrepareOptions::default() };
    let shared = worker.prepare(&both, &sharing, &dir.path().join("b.bin")).unwrap();
    println!("{} {}", apart.binary_bytes, shared.binary_bytes);
    assert!(shared.binary_bytes * 3 < apart.binary_bytes * 2);
}

#[test]
fn an_unknown_soc_and_a_bad_graph_are_errors() {
    let Some(sdk) = skip_without_sdk() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.bin");
    let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(9999)).unwrap();
    let e = worker.prepare(&[&dense("n", 1, 4, 4)], &PrepareOptions::default(), &out).unwrap_err();
    assert!(e.to_string().contains("9999") && e.exit_code() == 4, "{e}");
    // A consumer before its producer.
    let mut g = dense("backwards", 1, 4, 4);
    g.ops.reverse();
    let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(SOC)).unwrap();
    let e = worker.prepare(&[&g], &PrepareOptions::default(), &out).unwrap_err();
    println!("{e}");
    assert!(matches!(&e, WorkerError::Vendor { place, .. } if place.graph.as_deref() == Some("backwards")), "{e}");
    assert!(!out.exists());
    // The worker is still usable.
    assert!(worker.prepare(&[&dense("n", 1, 4, 4)], &PrepareOptions::default(), &out).is_ok());
}

#[test]
fn the_ir_backend_writes_a_dlc() {
    let Some(sdk) = skip_without_sdk() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("net.dlc");
    let mut worker = Worker::spawn(options(&sdk, Backend::Ir)).unwrap();
    let g = dense("net", 1, 64, 32);
    assert!(worker.validate(&g).unwrap().iter().all(qnnc::qnn::OpVerdict::accepted));
    let prepared = worker.prepare(&[&g], &PrepareOptions::default(), &out).unwrap();
    assert!(prepared.binary_bytes > 1000);
    assert_eq!(prepared.binary_bytes, out.metadata().unwrap().len());
}

#[test]
fn weights_are_taken_from_the_models_file_and_binaries_are_reproducible() {
    let Some(sdk) = skip_without_sdk() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (rows, n) = (2, 256usize);
    let values: Vec<f32> = (0..n * n).map(|k| ((k / n + k % n) % 5) as f32 - 2.0).collect();
    // At an odd offset, as in a protobuf file.
    let path = dir.path().join("weights");
    std::fs::write(&path, [&b"abc"[..], &f32_bytes(&values)].concat()).unwrap();
    let mapped = qnnc::onnx::map::map(&path).unwrap();
    let in_file = Tensor::from_raw(DataType::F32, vec![n, n], mapped.slice(3..)).unwrap();
    let graph = |value: Tensor| {
        let mut g = Graph::new("net");
        let x = g.tensor("x", TensorKind::AppWrite, QnnType::FLOAT_32, &[rows, n as u32]);
        let w = g.constant("w", QnnType::FLOAT_32, value, None);
        let y = g.tensor("y", TensorKind::AppRead, QnnType::FLOAT_32, &[rows, n as u32]);
        g.op("fc", "FullyConnected", &[x, w], &[y], &[]);
        g.0
    };
    let prepared = |g: &QnnGraph, idle: u64| {
        let mut worker = Worker::spawn(options(&sdk, Backend::Htp).soc(SOC)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(idle));
        let out = dir.path().join("net.bin");
        worker.prepare(&[g], &PrepareOptions::default(), &out).unwrap();
        let first = std::fs::read(&out).unwrap();
        worker.prepare(&[g], &PrepareOptions::default(), &out).unwrap();
        assert!(first == std::fs::read(&out).unwrap());
        first
    };
    let copied = prepared(&graph(Tensor::from_f32(vec![n, n], &values)), 0);
    // The second worker had the time to warm up.
    assert!(copied == prepared(&graph(in_file.clone()), 1000));

    if !sdk.join(Backend::Cpu.library()).exists() {
        println!("skipped: this SDK has no CPU backend");
        return;
    }
    let mut cpu = Worker::spawn(options(&sdk, Backend::Cpu)).unwrap();
    let x: Vec<f32> = (0..rows as usize * n).map(|i| (i % 9) as f32 - 4.0).collect();
    let made = cpu.run(&graph(in_file), &PrepareOptions::default(), &[("x", &f32_bytes(&x))]).unwrap();
    let expected: Vec<f32> = x
        .chunks(n)
        .flat_map(|row| (0..n).map(|o| row.iter().zip(&values[o * n..]).map(|(a, b)| a * b).sum::<f32>()))
        .collect();
    assert_eq!(f32_values(&made[0].1), expected);
}
