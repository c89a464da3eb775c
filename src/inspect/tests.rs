use std::path::{Path, PathBuf};

use super::{Inspection, inspect, refuse_precompiled};
use crate::ir::{Attr, Attrs, DataType, Graph, Node, TensorType};
use crate::onnx::{Header, encode};
use crate::report::golden;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// An EPContext model over `binary`, as a compile writes it.
fn context(dir: &Path, binary: &str, embed: i64) -> PathBuf {
    let mut g = Graph::default();
    g.opsets.extend([(String::new(), 17), ("com.microsoft".to_string(), 1)]);
    let ty = || TensorType::new(DataType::F32, vec![1i64.into(), 4i64.into()]);
    let (x, y) = (g.add_typed("x", ty()), g.add_typed("y", ty()));
    let mut attrs = Attrs::default();
    let text = |s: &str| Attr::Str(bytes::Bytes::copy_from_slice(s.as_bytes()));
    attrs.set("source", text("QNN"));
    attrs.set("embed_mode", Attr::Int(embed));
    attrs.set("main_context", Attr::Int(1));
    attrs.set("ep_cache_context", text(binary));
    attrs.set("ep_sdk_version", text("2.30"));
    g.add_node(Node {
        name: "net".into(),
        domain: "com.microsoft".into(),
        op_type: "EPContext".into(),
        version: 1,
        attrs,
        inputs: vec![Some(x)],
        outputs: vec![Some(y)],
        ..Node::default()
    });
    g.inputs = vec![x];
    g.outputs = vec![y];
    let path = dir.join("net.ctx.onnx");
    let header = Header { ir_version: 8, producer_name: "qnnc".into(), ..Header::default() };
    std::fs::write(&path, encode(&g, &header).unwrap()).unwrap();
    path
}

#[test]
fn plain_models() {
    for name in ["conditional", "external"] {
        let i = inspect(&fixture(&format!("{name}.onnx")), None).unwrap();
        assert_eq!(i.error(), None);
        golden(&format!("src/inspect/golden/{name}.txt"), &i.text());
        golden(&format!("src/inspect/golden/{name}.json"), &i.json());
    }
}

#[test]
fn external_data_need_not_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.onnx");
    std::fs::copy(fixture("external.onnx"), &path).unwrap();
    let i = inspect(&path, None).unwrap();
    let e = i.error().unwrap();
    assert_eq!(e.exit_code(), 2);
    assert!(e.to_string().contains("\"external.bin\"") && e.to_string().contains("missing"), "{e}");
    assert!(i.text().contains("problem: "));
    std::fs::write(dir.path().join("external.bin"), b"short").unwrap();
    let e = inspect(&path, None).unwrap().error().unwrap();
    assert!(e.to_string().contains("has 5 bytes, and its tensors need"), "{e}");
}

#[test]
fn a_missing_binary_is_named_after_what_the_node_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = context(dir.path(), "./missing.bin", 0);
    let i = inspect(&path, None).unwrap();
    assert!(matches!(&i, Inspection::Context(c) if c.contexts[0].sdk_version == "2.30"));
    golden("src/inspect/golden/missing.ctx.txt", &i.text());
    golden("src/inspect/golden/missing.ctx.json", &i.json());
    let e = i.error().unwrap();
    assert_eq!(e.exit_code(), 2);
    assert_eq!(e.to_string(), "node \"net\" points to \"./missing.bin\", which is missing");

    let loaded = crate::onnx::load(&path).unwrap();
    let e = refuse_precompiled(&path, &loaded.graph).unwrap_err();
    assert!(
        e.to_string().ends_with(
            "is compiled already: node \"net\" is an EPContext node (source QNN, SDK 2.30) \
             that points to \"./missing.bin\", which is missing"
        ),
        "{e}"
    );
    let plain = crate::onnx::load(&fixture("conditional.onnx")).unwrap();
    assert!(refuse_precompiled(&fixture("conditional.onnx"), &plain.graph).is_ok());
}

#[test]
fn a_binary_outside_of_the_folder_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let e = inspect(&context(dir.path(), "../x.bin", 0), None).unwrap().error().unwrap();
    assert!(e.to_string().contains("outside of the model's folder"), "{e}");
}

#[test]
fn files_of_other_kinds_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, data: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, data).unwrap();
        path
    };
    for (path, words) in [
        (dir.path().join("nothing.onnx"), "nothing.onnx"),
        (dir.path().to_path_buf(), "is a folder"),
        (write("m.dlc", b"PK\x03\x04"), "is a DLC"),
        (write("a.txt", b"hello, this is text\n"), "not an ONNX model but a text file"),
        (write("empty.onnx", b""), "empty"),
    ] {
        let e = inspect(&path, None).unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().contains(words), "{e}");
    }
}
