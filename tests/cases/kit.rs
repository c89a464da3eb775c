//! Small models, the program that compiles them, and the emulation that runs what comes out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use qnnc::ir::{Attr, DataType, Dim, Graph, Node, Origin, Tensor, TensorType, Value, ValueId};
use qnnc::onnx::{DataFile, Header, write};
use qnnc::qnn::{Backend, Worker, WorkerOptions};
use qnnc::verify::{Compiled, Named, Reference};
use serde_json::Value as Json;

/// A model that is being built. Values are named; a name is made on first use.
pub struct Net {
    pub graph: Graph,
    opset: i64,
}

impl Net {
    pub fn new(opset: i64) -> Self {
        let mut graph = Graph::default();
        graph.name = "case".into();
        graph.opsets.insert(String::new(), opset);
        Self { graph, opset }
    }

    fn value(&mut self, name: &str) -> ValueId {
        let new = || Value { name: name.into(), ..Value::default() };
        self.graph.value_named(name).unwrap_or_else(|| self.graph.add_value(new()))
    }

    /// A graph input.
    pub fn typed(&mut self, name: &str, dtype: DataType, shape: &[usize]) -> &mut Self {
        let id = self.graph.add_typed(name, TensorType::new(dtype, shape.iter().map(|&d| d.into()).collect()));
        self.graph.inputs.push(id);
        self
    }

    /// A graph input of float32.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> &mut Self {
        self.typed(name, DataType::F32, shape)
    }

    /// A graph input of float32 whose dimensions are numbers or names: `batch 2 seq 8`.
    pub fn open(&mut self, name: &str, dims: &str) -> &mut Self {
        let dim = |d: &str| d.parse::<i64>().map_or_else(|_| Dim::symbol(d), Dim::Known);
        let shape = dims.split_whitespace().map(dim).collect();
        let id = self.graph.add_typed(name, TensorType::new(DataType::F32, shape));
        self.graph.inputs.push(id);
        self
    }

    pub fn constant(&mut self, name: &str, data: Tensor) -> &mut Self {
        self.graph.add_constant(name, data);
        self
    }

    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> &mut Self {
        self.constant(name, Tensor::from_f32(shape.to_vec(), values))
    }

    pub fn number(&mut self, name: &str, value: f32) -> &mut Self {
        self.floats(name, &[], &[value])
    }

    pub fn ints(&mut self, name: &str, values: &[i64]) -> &mut Self {
        self.constant(name, Tensor::from_i64(vec![values.len()], values))
    }

    /// A node named after its first output. `op` is `Add` or `com.microsoft::Gelu`; an empty name is an omitted input.
    pub fn op(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attrs: &[(&str, Attr)]) -> &mut Self {
        let (domain, op_type) = op.rsplit_once("::").unwrap_or(("", op));
        let version = if domain.is_empty() { self.opset } else { 1 };
        self.graph.opsets.insert(domain.into(), version);
        let mut of = |names: &[&str]| -> Vec<Option<ValueId>> {
            names.iter().map(|n| (!n.is_empty()).then(|| self.value(n))).collect()
        };
        let (inputs, outputs_) = (of(inputs), of(outputs));
        let name = format!("n_{}", outputs[0]);
        let mut node = Node {
            origin: Origin { nodes: vec![name.clone()], rewrites: vec![] },
            name,
            domain: domain.into(),
            op_type: op_type.into(),
            version,
            inputs,
            outputs: outputs_,
            ..Node::default()
        };
        for (k, v) in attrs {
            node.attrs.set(*k, v.clone());
        }
        self.graph.add_node(node);
        self
    }

    /// The graph's outputs.
    pub fn outputs(&mut self, names: &[&str]) -> &mut Self {
        self.graph.outputs = names.iter().map(|n| self.value(n)).collect();
        self
    }

    /// Writes the model into a new folder.
    pub fn save(&self) -> Saved {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("case.onnx");
        let header = Header { ir_version: 8, ..Header::default() };
        write(&path, &self.graph, &header, DataFile::Auto).unwrap();
        Saved { dir, path }
    }

    /// Writes and compiles the model. `None`, and a line that says so, without the vendor's runtime.
    pub fn compile(&self, arguments: &[&str]) -> Option<Run> {
        self.save().compile(arguments)
    }
}

/// Attribute values.
pub fn int(v: i64) -> Attr {
    Attr::Int(v)
}

pub fn ints(v: &[i64]) -> Attr {
    Attr::Ints(v.to_vec())
}

pub fn float(v: f32) -> Attr {
    Attr::Float(v)
}

pub fn text(v: &str) -> Attr {
    Attr::Str(v.as_bytes().to_vec().into())
}

/// Inputs to run with.
pub fn feed(name: &str, shape: &[usize], values: &[f32]) -> Named {
    (name.into(), Tensor::from_f32(shape.to_vec(), values))
}

/// `count` numbers from -1 to 1 without a pattern.
pub fn noise(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// A model file in a folder of its own.
pub struct Saved {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
}

impl Saved {
    /// Compiles for the Snapdragon 8 Gen 3.
    pub fn compile(self, arguments: &[&str]) -> Option<Run> {
        if qnnc::sdk::find(None).is_err() {
            let _ = writeln!(std::io::stderr(), "skipped: no runtime (qnnc sdk install --accept-license)");
            return None;
        }
        let out = self.dir.path().join("out");
        let output = Command::new(env!("CARGO_BIN_EXE_qnnc"))
            .arg("compile")
            .arg(&self.path)
            .arg("-o")
            .arg(&out)
            .args(["--soc", "sm8650"])
            .args(arguments)
            .stdin(Stdio::null())
            .env("NO_COLOR", "1")
            .output()
            .expect("qnnc starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let report = fs::read(out.join("placement.json")).ok().and_then(|b| serde_json::from_slice(&b).ok());
        Some(Run {
            code: output.status.code().expect("an exit code"),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            report: report.unwrap_or(Json::Null),
            out,
            model: self.path,
            _dir: self.dir,
        })
    }
}

/// What came out of a compile.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// `placement.json`; null if there is none.
    pub report: Json,
    pub out: PathBuf,
    pub model: PathBuf,
    _dir: tempfile::TempDir,
}

impl Run {
    /// The row of the node named after its output `value`.
    #[track_caller]
    pub fn node(&self, value: &str) -> &Json {
        let name = format!("n_{value}");
        let rows = self.report["nodes"].as_array().unwrap_or_else(|| panic!("no report: {}", self.stderr));
        rows.iter().find(|n| n["name"] == *name).unwrap_or_else(|| panic!("no node {name} in {rows:?}"))
    }

    #[track_caller]
    pub fn backend(&self, value: &str) -> &str {
        self.node(value)["backend"].as_str().unwrap()
    }

    /// QNN ops in the order of the report, each op once per node that stands for it.
    pub fn qnn_ops(&self, value: &str) -> Vec<String> {
        let ops = self.node(value)["qnn_ops"].as_array().cloned().unwrap_or_default();
        ops.iter().map(|o| o["op_type"].as_str().unwrap_or_default().to_string()).collect()
    }

    /// The codes and messages of the reasons of a node, a line each.
    pub fn reasons(&self, value: &str) -> String {
        let list = self.node(value)["reasons"].as_array().cloned().unwrap_or_default();
        let line = |r: &Json| format!("{} {}", r["code"].as_str().unwrap_or(""), r["message"].as_str().unwrap_or(""));
        list.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The messages of the findings and rewrites, a line each.
    pub fn notes(&self) -> String {
        let mut out = String::new();
        for list in ["findings", "rewrites"] {
            for f in self.report[list].as_array().into_iter().flatten() {
                let says = |key: &str| f[key].as_str().unwrap_or_default().to_string();
                out += &[says("code"), says("name"), " ".into(), says("message"), "\n".into()].concat();
            }
        }
        out
    }

    /// Exit code 0, nothing on the host, one partition.
    #[track_caller]
    pub fn on_npu(&self) -> &Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        let t = &self.report["totals"];
        assert_eq!((t["host"].as_u64(), t["partitions"].as_u64()), (Some(0), Some(1)), "{}", self.stdout);
        self
    }

    /// The exit code of wrong input, one `error:` line, no bundle. Gives the line.
    #[track_caller]
    pub fn refused(&self) -> &str {
        assert_eq!(self.code, 2, "{}\n{}", self.stdout, self.stderr);
        assert!(!self.out.join("placement.json").exists());
        let errors: Vec<&str> = self.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        errors[0]
    }

    /// The context binary on the HTP emulation.
    pub fn emulate(&self, feeds: &[Named]) -> Vec<Named> {
        let compiled = Compiled::open(&self.out.join("case.ctx.onnx")).unwrap();
        let sdk = qnnc::sdk::find(None).unwrap();
        let mut options = WorkerOptions::new(&sdk.lib_dir, Backend::Htp).timeout(Duration::from_secs(300));
        options.program = Some(env!("CARGO_BIN_EXE_qnnc").into());
        options.soc_id = Some(57);
        let bytes: Vec<_> = feeds.iter().map(|(n, t)| (n.as_str(), t.bytes())).collect();
        let feeds: Vec<(&str, &[u8])> = bytes.iter().map(|(n, b)| (*n, b.as_ref())).collect();
        let mut worker = Worker::spawn(options).unwrap();
        let made = worker.execute(&compiled.binary, &compiled.graph, &feeds).unwrap();
        let mut out = compiled.constants.clone();
        for (info, bytes) in made {
            let (_, ty) = compiled.outputs.iter().find(|(n, _)| *n == info.name).expect("an output of the model");
            let t = Tensor::from_raw(ty.dtype, ty.static_shape().unwrap(), bytes.into());
            out.push((info.name, t.expect("the model's own type")));
        }
        out
    }

    /// Runs the binary, and ONNX Runtime's CPU provider where it is there: all outputs must agree within `tolerance`
    /// (of 1, or of the value where that is larger). Gives the emulation's outputs by name.
    #[track_caller]
    pub fn agrees(&self, feeds: &[Named], tolerance: f64) -> Vec<Named> {
        self.on_npu();
        let got = self.emulate(feeds);
        if let Some(want) = reference(&self.model, feeds, &got) {
            for ((name, got), (_, want)) in got.iter().zip(&want) {
                assert_eq!(got.shape(), want.shape(), "{name}");
                near(&got.to_f64s().unwrap(), &want.to_f64s().unwrap(), tolerance);
            }
        }
        got
    }

    /// As [`Self::agrees`], and the only output is `expected`.
    #[track_caller]
    pub fn gives(&self, feeds: &[Named], expected: &[f64], tolerance: f64) {
        let got = self.agrees(feeds, tolerance);
        near(&got[0].1.to_f64s().unwrap(), expected, tolerance);
    }
}

/// What ONNX Runtime gives; `None` where it is not installed.
pub fn reference(model: &Path, feeds: &[Named], outputs: &[Named]) -> Option<Vec<Named>> {
    if qnnc::sdk::ort::find_ort(None).is_err() {
        let _ = writeln!(std::io::stderr(), "not compared: no ONNX Runtime (pip install onnxruntime==1.27.0)");
        return None;
    }
    let names: Vec<String> = outputs.iter().map(|(n, _)| n.clone()).collect();
    Some(Reference::load(None, model).unwrap().run(feeds, &names).unwrap())
}

/// Element by element. 16-bit numbers come out of the HTP up to one part in a million off.
#[track_caller]
pub fn near(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = (g - w).abs() <= tolerance.max(1e-6) * w.abs().max(1.0) || (g.is_nan() && w.is_nan()) || g == w;
        assert!(same, "element {i}: {g}, and {w} is expected\n{got:?}\n{want:?}");
    }
}
