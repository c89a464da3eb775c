//! What the user asked for, free of any command-line parser.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Where ops may run besides the host's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The NPU.
    Htp,
    Gpu,
    /// The vendor's CPU backend (not ONNX Runtime's CPU, which is the host).
    Cpu,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Htp, Self::Gpu, Self::Cpu];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Htp => "htp",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|b| b.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| format!("unknown backend {s:?} (htp, gpu or cpu)"))
    }
}

/// Everything that decides what `compile` writes.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The ONNX file.
    pub model: PathBuf,
    /// As the user wrote it; see `tables::soc::find_soc`.
    pub soc: String,
    /// Folder of the bundle.
    pub out: PathBuf,
    /// Backends that may be used, in order of preference, without repeats.
    pub backends: Vec<Backend>,
    /// `--dim name=value`: values of symbolic dimensions.
    pub dims: Vec<(String, i64)>,
    /// `--input-shape name:1,3,224,224`: full shapes of inputs.
    pub input_shapes: Vec<(String, Vec<i64>)>,
    /// The gate: more nodes than this on the host's CPU and the binary is not written. None: no gate.
    pub max_cpu_nodes: Option<usize>,
    /// Version of the vendor's runtime, such as `2.47`. None: the default one.
    pub sdk: Option<String>,
    /// Longest time that one call into the vendor's backend may take.
    pub timeout: Duration,
    /// Allow lowerings that are not exact.
    pub allow_approximate: bool,
    /// A file of quantisation encodings for a float model; see `encodings`.
    pub encodings: Option<PathBuf>,
}

impl CompileOptions {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

    /// Options with everything but the three required ones at its default.
    pub fn new(model: impl Into<PathBuf>, soc: impl Into<String>, out: impl Into<PathBuf>) -> Self {
        Self {
            model: model.into(),
            soc: soc.into(),
            out: out.into(),
            backends: vec![Backend::Htp],
            dims: Vec::new(),
            input_shapes: Vec::new(),
            max_cpu_nodes: None,
            sdk: None,
            timeout: Self::DEFAULT_TIMEOUT,
            allow_approximate: false,
            encodings: None,
        }
    }
}

/// Parses `name=value` of `--dim`; the value is a positive integer.
pub fn parse_dim(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.rsplit_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE, such as batch=1"))?;
    if name.is_empty() {
        return Err(format!("{text:?} has no name before the ="));
    }
    Ok((name.to_owned(), positive(value)?))
}

/// Parses `name:1,3,224,224` of `--input-shape`; `name:` alone is a scalar.
pub fn parse_input_shape(text: &str) -> Result<(String, Vec<i64>), String> {
    let (name, dims) =
        text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not NAME:DIM,DIM,..., such as x:1,3,224,224"))?;
    if name.is_empty() {
        return Err(format!("{text:?} has no name before the :"));
    }
    if dims.trim().is_empty() {
        return Ok((name.to_owned(), Vec::new()));
    }
    let dims = dims.split([',', 'x']).map(positive).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), dims))
}

fn positive(text: &str) -> Result<i64, String> {
    match text.trim().parse::<i64>() {
        Ok(v) if v > 0 => Ok(v),
        _ => Err(format!("{text:?} is not a positive integer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims() {
        assert_eq!(parse_dim("batch=1"), Ok(("batch".into(), 1)));
        assert_eq!(parse_dim("a=b=2"), Ok(("a=b".into(), 2)));
        assert!(parse_dim("batch").is_err());
        assert!(parse_dim("=1").is_err());
        assert!(parse_dim("batch=0").is_err());
        assert!(parse_dim("batch=99999999999999999999").is_err());
    }

    #[test]
    fn input_shapes() {
        assert_eq!(parse_input_shape("x:1,3,2"), Ok(("x".into(), vec![1, 3, 2])));
        assert_eq!(parse_input_shape("x:0:1x3"), Ok(("x:0".into(), vec![1, 3])));
        assert_eq!(parse_input_shape("x:"), Ok(("x".into(), vec![])));
        assert!(parse_input_shape("x").is_err());
        assert!(parse_input_shape("x:1,,2").is_err());
        assert!(parse_input_shape("x:-1").is_err());
    }

    #[test]
    fn backends() {
        assert_eq!("HTP".parse(), Ok(Backend::Htp));
        assert!("dsp".parse::<Backend>().is_err());
    }
}
