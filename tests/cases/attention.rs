//! The standard's own Attention.

use crate::kit::*;

fn attend(attrs: &[(&str, qnnc::ir::Attr)]) -> Option<Run> {
    let mut net = Net::new(23);
    net.input("q", &[1, 8, 64]).input("k", &[1, 8, 64]).input("v", &[1, 8, 64]);
    let heads = [("q_num_heads", int(4)), ("kv_num_heads", int(4))];
    let attrs: Vec<_> = heads.into_iter().chain(attrs.iter().cloned()).collect();
    net.op("Attention", &["q", "k", "v"], &["y"], &attrs).outputs(&["y"]);
    let run = net.compile(&["--max-cpu-nodes", "0"])?;
    let n = 8 * 64;
    let of = |name: &str, from: usize| feed(name, &[1, 8, 64], &noise(n + from)[from..]);
    run.agrees(&[of("q", 0), of("k", 100), of("v", 200)], 6e-3);
    Some(run)
}

#[test]
fn attention_is_one_partition_and_every_op_is_its() {
    let Some(run) = attend(&[("is_causal", int(1))]) else { return };
    let nodes = run.report["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0]["name"].as_str(), nodes[0]["op_type"].as_str()), (Some("n_y"), Some("Attention")));
    let ops = run.qnn_ops("y");
    assert!(ops.iter().filter(|o| *o == "MatMul").count() == 2 && ops.iter().any(|o| o == "Softmax"), "{ops:?}");
    // The casts at the edges belong to it, too.
    assert_eq!(run.report["totals"]["qnn_ops"].as_u64(), Some(ops.len() as u64));
}

#[test]
fn attention_with_other_scales() {
    attend(&[]);
    attend(&[("is_causal", int(1)), ("scale", float(0.5))]);
    attend(&[("softcap", float(2.0))]);
}
