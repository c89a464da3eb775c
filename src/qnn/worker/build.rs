//! Builds a graph in a context: tensors, then ops, with the weights mapped one at a time.

use std::collections::HashMap;
use std::fs::File;

use qnn_sys::{
    Qnn_Precision_t, Qnn_Tensor_t, QnnHtpGraph_ConfigOption_t, QnnHtpGraph_CustomConfig_t,
    QnnHtpGraph_CustomConfig_t__bindgen_ty_1, QnnHtpGraph_OptimizationOption_t, QnnHtpGraph_OptimizationType_t,
};

use super::ffi::{Graph, Mapped, punch};
use super::marshal::{Op, Store, tensor};
use super::state::{Fault, Tracker};
use crate::qnn::graph::TensorKind;
use crate::qnn::protocol::{Blob, MEMORY, PrepareOptions, Stage, WireGraph};

/// The HTP options of a graph.
pub fn htp_options(options: &PrepareOptions) -> Vec<QnnHtpGraph_CustomConfig_t> {
    use QnnHtpGraph_ConfigOption_t as O;
    use QnnHtpGraph_CustomConfig_t__bindgen_ty_1 as U;
    let number = |v: u64| U { otherMembers: [v, 0, 0, 0, 0, 0] };
    let mut out = vec![QnnHtpGraph_CustomConfig_t {
        option: O::QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB,
        u: number(u64::from(options.vtcm_mb.unwrap_or(0))),
    }];
    if options.float16 {
        out.push(QnnHtpGraph_CustomConfig_t {
            option: O::QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION,
            u: number(u64::from(Qnn_Precision_t::QNN_PRECISION_FLOAT16.0)),
        });
    }
    if let Some(level) = options.optimisation {
        let option = QnnHtpGraph_OptimizationOption_t {
            type_: QnnHtpGraph_OptimizationType_t::QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG,
            floatValue: f32::from(level.clamp(1, 3)),
        };
        let mut u = number(0);
        u.optimizationOption = option;
        out.push(QnnHtpGraph_CustomConfig_t { option: O::QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION, u });
    }
    if let Some(threads) = options.hvx_threads {
        out.push(QnnHtpGraph_CustomConfig_t {
            option: O::QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS,
            u: number(u64::from(threads)),
        });
    }
    out
}

/// How often each part of the memory file is still needed: after its last use it is given back.
#[derive(Debug)]
pub struct Uses(HashMap<u64, u32>);

impl Uses {
    pub fn of(graphs: &[WireGraph]) -> Self {
        let mut uses = HashMap::new();
        for blob in graphs.iter().flat_map(|g| &g.tensors).filter_map(|t| t.data).filter(|b| b.file == MEMORY) {
            *uses.entry(blob.offset).or_default() += 1;
        }
        Self(uses)
    }

    fn done(&mut self, files: &[File], blob: Blob) {
        let Some(left) = self.0.get_mut(&blob.offset).filter(|_| blob.file == MEMORY) else { return };
        *left -= 1;
        if let (0, Some(file)) = (*left, files.first()) {
            punch(file, blob.offset, blob.len);
        }
    }
}

/// The tensors of a built graph; what they point to lives as long as this.
pub struct Built {
    pub tensors: Vec<Qnn_Tensor_t>,
    _store: Store,
}

/// Creates the tensors and adds the ops. `files` are the request's.
pub fn build(
    graph: Graph<'_>,
    index: usize,
    wire: &WireGraph,
    files: &[File],
    uses: &mut Uses,
    tracker: &mut Tracker,
) -> Result<Built, Fault> {
    let mut store = Store::default();
    let mut tensors = Vec::with_capacity(wire.tensors.len());
    tracker.at(Stage::Tensors, index, 0);
    for t in &wire.tensors {
        let mut raw = tensor(&mut store, t)?;
        let named = |e: Fault| e.about(&format!("tensor `{}`", t.name));
        match (t.kind, &t.data) {
            (TensorKind::Null, _) => {}
            (TensorKind::Static, Some(blob)) => {
                let mapped = map(files, *blob)?;
                graph.create_tensor(&mut raw, Some(mapped.bytes())).map_err(|e| named(e.into()))?;
                drop(mapped);
                uses.done(files, *blob);
            }
            _ => graph.create_tensor(&mut raw, None).map_err(|e| named(e.into()))?,
        }
        tensors.push(raw);
    }
    for (i, op) in wire.ops.iter().enumerate() {
        tracker.at(Stage::Ops, index, i);
        let mut raw = Op::new(op, &tensors)?;
        graph.add(&mut raw)?;
    }
    Ok(Built { tensors, _store: store })
}

/// Maps the elements that a message names.
pub fn map(files: &[File], blob: Blob) -> Result<Mapped, Fault> {
    let file = files
        .get(blob.file as usize)
        .ok_or_else(|| Fault::request(format!("the request has no file {}", blob.file)))?;
    Mapped::part(file, blob.offset, blob.len).map_err(|e| Fault::file("mapping the weights", &e))
}
