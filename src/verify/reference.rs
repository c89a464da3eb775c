//! ONNX Runtime's CPU provider, loaded as a shared library.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use half::{bf16, f16};
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Outlet, PrimitiveTensorElementType, Tensor as OrtTensor};

use super::Named;
use crate::Error;
use crate::ir::{DataType, Tensor};
use crate::sdk::ort::{Ort, find_ort};

/// The library that this process has loaded: it cannot be exchanged for another.
static LOADED: OnceLock<PathBuf> = OnceLock::new();

/// A session over the user's model.
pub struct Reference {
    session: Session,
    ort: Ort,
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reference").field("ort", &self.ort).finish_non_exhaustive()
    }
}

impl Reference {
    /// Loads ONNX Runtime (see [`find_ort`]) and the model.
    ///
    /// # Errors
    /// No ONNX Runtime, or an unsuitable one (3); a model that it does not load (2).
    pub fn load(library: Option<&Path>, model: &Path) -> Result<Self, Error> {
        let ort = find_ort(library)?;
        if LOADED.get_or_init(|| ort.library.clone()) != &ort.library {
            return Err(Error::environment("another library of ONNX Runtime is loaded already"));
        }
        let path = ort.library.canonicalize().unwrap_or_else(|_| ort.library.clone());
        let environment = ort::init_from(&path).map_err(|e| {
            Error::environment(format!("{} cannot be used: {e}", ort.library.display()))
                .help("pip install onnxruntime==1.27.0, or point --ort or ORT_DYLIB_PATH to libonnxruntime.so")
        })?;
        environment.with_telemetry(false).commit();
        let session = Session::builder()
            .and_then(|b| Ok(b.with_log_level(ort::logging::LogLevel::Fatal)?))
            .and_then(|mut b| b.commit_from_file(model))
            .map_err(|e| Error::input(format!("ONNX Runtime does not load {}: {e}", model.display())))?;
        Ok(Self { session, ort })
    }

    /// `ONNX Runtime 1.27.0`
    pub fn version(&self) -> String {
        format!("ONNX Runtime {}", self.ort.version.as_deref().unwrap_or("of unknown version"))
    }

    /// The outputs called `names`, in that order. Feeds that the model has no input for are ignored.
    ///
    /// # Errors
    /// Values of a type that is not compared, or a run that fails (2).
    pub fn run(&mut self, feeds: &[Named], names: &[String]) -> Result<Vec<Named>, Error> {
        let known: Vec<&str> = self.session.inputs().iter().map(Outlet::name).collect();
        let mut inputs: Vec<(String, SessionInputValue<'_>)> = vec![];
        for (name, t) in feeds.iter().filter(|(n, _)| known.contains(&n.as_str())) {
            inputs.push((name.clone(), to_ort(name, t)?.into()));
        }
        let outputs =
            self.session.run(inputs).map_err(|e| Error::input(format!("ONNX Runtime cannot run the model: {e}")))?;
        names
            .iter()
            .map(|name| {
                let value = outputs
                    .get(name)
                    .ok_or_else(|| Error::input(format!("ONNX Runtime's session has no output {name:?}")))?;
                Ok((name.clone(), from_ort(name, value)?))
            })
            .collect()
    }
}

/// Calls `$f::<T>` with the Rust type of an element type.
macro_rules! by_type {
    ($dtype:expr, $f:ident($($arg:expr),*), $otherwise:expr) => {
        match $dtype {
            DataType::F32 => $f::<f32>($($arg),*),
            DataType::F64 => $f::<f64>($($arg),*),
            DataType::F16 => $f::<f16>($($arg),*),
            DataType::BF16 => $f::<bf16>($($arg),*),
            DataType::I8 => $f::<i8>($($arg),*),
            DataType::I16 => $f::<i16>($($arg),*),
            DataType::I32 => $f::<i32>($($arg),*),
            DataType::I64 => $f::<i64>($($arg),*),
            DataType::U8 => $f::<u8>($($arg),*),
            DataType::U16 => $f::<u16>($($arg),*),
            DataType::U32 => $f::<u32>($($arg),*),
            DataType::U64 => $f::<u64>($($arg),*),
            DataType::Bool => $f::<bool>($($arg),*),
            _ => $otherwise,
        }
    };
}

/// An element as bytes, little-endian.
trait Element: PrimitiveTensorElementType + Copy + std::fmt::Debug + 'static {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            fn read(bytes: &[u8]) -> Self {
                <$t>::from_le_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

element!(f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64);

impl Element for bool {
    fn read(bytes: &[u8]) -> Self {
        bytes.first().is_some_and(|b| *b != 0)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
}

fn to_ort(name: &str, t: &Tensor) -> Result<DynValue, Error> {
    let unfit = || Error::input(format!("input {name:?}: {} cannot be given to ONNX Runtime", t.dtype()));
    by_type!(t.dtype(), make(t), return Err(unfit()))
        .map_err(|e| Error::input(format!("input {name:?}: ONNX Runtime does not take it: {e}")))
}

fn make<T: Element>(t: &Tensor) -> ort::Result<DynValue> {
    let values: Vec<T> = t.bytes().chunks_exact(size_of::<T>()).map(T::read).collect();
    let shape: Vec<i64> = t.shape().iter().map(|&d| d as i64).collect();
    Ok(OrtTensor::from_array((shape, values))?.into_dyn())
}

fn from_ort(name: &str, value: &DynValue) -> Result<Tensor, Error> {
    use ort::value::TensorElementType as E;
    let unfit = || Error::input(format!("output {name:?} of ONNX Runtime is {}, which is not compared", value.dtype()));
    let dtype = match value.dtype().tensor_type().ok_or_else(unfit)? {
        E::Float32 => DataType::F32,
        E::Float64 => DataType::F64,
        E::Float16 => DataType::F16,
        E::Bfloat16 => DataType::BF16,
        E::Int8 => DataType::I8,
        E::Int16 => DataType::I16,
        E::Int32 => DataType::I32,
        E::Int64 => DataType::I64,
        E::Uint8 => DataType::U8,
        E::Uint16 => DataType::U16,
        E::Uint32 => DataType::U32,
        E::Uint64 => DataType::U64,
        E::Bool => DataType::Bool,
        _ => return Err(unfit()),
    };
    by_type!(dtype, take(dtype, value), return Err(unfit())).ok_or_else(unfit)
}

fn take<T: Element>(dtype: DataType, value: &DynValue) -> Option<Tensor> {
    let (shape, elements) = value.try_extract_tensor::<T>().ok()?;
    let shape = shape.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<usize>>>()?;
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    for e in elements {
        e.write(&mut bytes);
    }
    Tensor::from_raw(dtype, shape, bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, Attrs, Graph, Node, TensorType, Value, ValueType};
    use crate::onnx::{Header, encode};

    const TYPES: [DataType; 7] =
        [DataType::F32, DataType::F16, DataType::I64, DataType::U8, DataType::Bool, DataType::I32, DataType::F64];

    /// Identity of a value of each type, and the sum of two constants.
    fn model() -> Graph {
        let mut g = Graph::default();
        g.opsets.insert(String::new(), 17);
        let add = |g: &mut Graph, op: &str, inputs, output| {
            g.add_node(Node {
                name: format!("{op}_{}", g.node_count()),
                op_type: op.into(),
                version: 17,
                inputs,
                outputs: vec![Some(output)],
                ..Node::default()
            });
        };
        for d in TYPES {
            let ty = || ValueType::Tensor(TensorType::new(d, vec![2i64.into()]));
            let value = |name: String| Value { name, ty: ty(), ..Value::default() };
            let x = g.add_value(value(format!("x_{d}")));
            let y = g.add_value(value(format!("y_{d}")));
            add(&mut g, "Identity", vec![Some(x)], y);
            g.inputs.push(x);
            g.outputs.push(y);
        }
        g
    }

    #[test]
    fn values_of_every_type_pass_through_onnx_runtime() {
        let Err(e) = find_ort(None) else { return values_pass() };
        eprintln!("skipped: {e}");
    }

    fn values_pass() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.onnx");
        std::fs::write(&path, encode(&model(), &Header { ir_version: 8, ..Header::default() }).unwrap()).unwrap();
        let feeds: Vec<Named> = TYPES
            .iter()
            .map(|&d| (format!("x_{d}"), Tensor::from_f64(d, vec![2], &[1.0, 0.0]).unwrap()))
            .chain([("unknown".to_string(), Tensor::from_f32(vec![], &[1.0]))])
            .collect();
        let names: Vec<String> = TYPES.iter().map(|d| format!("y_{d}")).collect();
        let mut r = Reference::load(None, &path).unwrap();
        assert!(r.version().starts_with("ONNX Runtime 1."), "{}", r.version());
        let got = r.run(&feeds, &names).unwrap();
        for ((_, x), (name, y)) in feeds.iter().zip(&got) {
            assert_eq!(x, y, "{name}");
        }
        let e = r.run(&feeds, &["nothing".into()]).unwrap_err();
        assert!(e.to_string().contains("\"nothing\""), "{e}");
        let e = r.run(&feeds[1..], &names).unwrap_err();
        assert_eq!(e.exit_code(), 2);

        std::fs::write(&path, b"not a model").unwrap();
        let e = Reference::load(None, &path).unwrap_err();
        assert!(e.exit_code() == 2 && e.to_string().contains("m.onnx"), "{e}");
        let mut odd = model();
        let (y, ty) = (odd.outputs[0], odd.value(odd.inputs[0]).ty.clone());
        let z = odd.add_value(Value { name: "z".into(), ty, ..Value::default() });
        let mut attrs = Attrs::default();
        attrs.set("k", Attr::Int(1));
        odd.add_node(Node {
            name: "odd".into(),
            domain: "acme".into(),
            op_type: "Unfoldify".into(),
            version: 1,
            attrs,
            inputs: vec![Some(y)],
            outputs: vec![Some(z)],
            ..Node::default()
        });
        odd.opsets.insert("acme".into(), 1);
        odd.outputs.push(z);
        std::fs::write(&path, encode(&odd, &Header { ir_version: 8, ..Header::default() }).unwrap()).unwrap();
        let e = Reference::load(None, &path).unwrap_err();
        assert!(e.to_string().contains("Unfoldify"), "{e}");
    }
}
