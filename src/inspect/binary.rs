//! Context binaries, read by the vendor's library in a worker process.

use std::path::Path;

use serde::Serialize;

use crate::Error;
use crate::qnn::graph::Quant;
use crate::qnn::protocol::{GraphInfo, TensorInfo};
use crate::qnn::{WorkerError, inspect_binary};
use crate::sdk;

/// A context binary and what the library says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BinaryReport {
    pub file: String,
    pub bytes: u64,
    /// Build of the SDK that made it.
    pub sdk_build: String,
    /// Versions of the interfaces that it was made with.
    pub core_api: String,
    pub backend_api: String,
    /// The SDK's number of the SoC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soc_id: Option<u32>,
    /// Hexagon architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<u32>,
    pub graphs: Vec<GraphDesc>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GraphDesc {
    pub name: String,
    pub inputs: Vec<TensorDesc>,
    pub outputs: Vec<TensorDesc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vtcm_bytes: Option<u32>,
    /// Size of the buffer in DDR for what does not fit the VTCM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_fill_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorDesc {
    pub name: String,
    /// `FLOAT_32`
    pub dtype: String,
    pub dims: Vec<u32>,
    #[serde(skip_serializing_if = "is_none")]
    pub quant: Quant,
}

fn is_none(q: &Quant) -> bool {
    *q == Quant::None
}

impl From<TensorInfo> for TensorDesc {
    fn from(t: TensorInfo) -> Self {
        Self { name: t.name, dtype: t.dtype.to_string(), dims: t.dims, quant: t.quant }
    }
}

impl From<GraphInfo> for GraphDesc {
    fn from(g: GraphInfo) -> Self {
        Self {
            name: g.name,
            inputs: g.inputs.into_iter().map(Into::into).collect(),
            outputs: g.outputs.into_iter().map(Into::into).collect(),
            vtcm_bytes: g.vtcm_bytes,
            spill_fill_bytes: g.spill_fill_bytes,
        }
    }
}

/// Context binaries of HTP begin with big-endian counts (QAIRT 2.47: 2, 3, 0, 1), an ONNX model with a field tag,
/// which is not zero.
pub(super) fn looks_like(head: &[u8]) -> bool {
    head.len() >= 16 && head.starts_with(&[0, 0, 0]) && head[4..7] == [0, 0, 0]
}

pub(super) fn inspect(path: &Path, sdk: Option<&str>) -> Result<BinaryReport, Error> {
    let bytes = std::fs::metadata(path).map_err(|e| Error::unreadable(path, &e))?.len();
    let sdk = sdk::find(sdk)?;
    let info = inspect_binary(&sdk.lib_dir, path).map_err(|e| match &e {
        // A file that the library does not read is the user's turn; one that it crashes on is the vendor's.
        WorkerError::Vendor { message, .. } => Error::input(format!(
            "{} is not a context binary that QAIRT {} reads: {message}",
            path.display(),
            sdk.version
        )),
        _ => e.into(),
    })?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(BinaryReport {
        file,
        bytes,
        sdk_build: info.build_id,
        core_api: info.core_version,
        backend_api: info.backend_version,
        soc_id: info.soc_model,
        arch: info.dsp_arch,
        graphs: info.graphs.into_iter().map(Into::into).collect(),
    })
}
