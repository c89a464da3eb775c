//! Safe wrappers over `qnn-sys`: the only module of qnnc besides the file mapping that has `unsafe` in it.
//!
//! Nothing but contexts is ever freed, and those only when the next request comes: the process ends instead, which is
//! faster and cannot crash.
#![allow(unsafe_code)]

mod footprint;
mod log;
mod map;
mod system;

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};

use qnn_sys::{
    CallError, Interface, LoadError, Qnn_BackendHandle_t, Qnn_ContextHandle_t, Qnn_DeviceHandle_t, Qnn_GraphHandle_t,
    Qnn_LogHandle_t, Qnn_ParamType_t, Qnn_Tensor_t, QnnContext_Config_t, QnnContext_Config_t__bindgen_ty_1,
    QnnContext_ConfigOption_t, QnnDevice_Config_t, QnnDevice_Config_t__bindgen_ty_1, QnnDevice_ConfigOption_t,
    QnnGraph_Config_t, QnnGraph_Config_t__bindgen_ty_1, QnnGraph_ConfigOption_t, QnnHtpContext_ConfigOption_t,
    QnnHtpContext_CustomConfig_t, QnnHtpContext_CustomConfig_t__bindgen_ty_1, QnnHtpDevice_ConfigOption_t,
    QnnHtpDevice_CustomConfig_t, QnnHtpDevice_CustomConfig_t__bindgen_ty_1, QnnHtpGraph_CustomConfig_t,
    QnnIrGraph_ConfigOption_t, QnnIrGraph_CustomConfig_t, QnnIrGraph_CustomConfig_t__bindgen_ty_1,
    QnnIrGraph_SerializationOption_t, QnnIrGraph_SerializationType_t, QnnLog_Level_t, call,
};

pub use footprint::{WATCHER, drop_zero_pages};
pub use log::{Level, take_log};
pub use map::{Mapped, MappedMut, punch};
pub use system::System;

use super::marshal::{Data, Op, with_data};

/// A loaded backend with its device.
#[derive(Debug)]
pub struct Vendor {
    interface: Interface,
    log: Qnn_LogHandle_t,
    backend: Qnn_BackendHandle_t,
    device: Qnn_DeviceHandle_t,
    /// Contexts that nobody needs any more.
    dropped: RefCell<Vec<Qnn_ContextHandle_t>>,
}

impl Vendor {
    pub fn load(library: &Path) -> Result<Interface, LoadError> {
        Interface::load(library)
    }

    /// Makes the backend and, for a SoC, the device: validation depends on it although it does not take it.
    pub fn start(interface: Interface, soc: Option<u32>) -> Result<Self, CallError> {
        let (log, backend, device) = (null_mut(), null_mut(), null_mut());
        let mut this = Self { interface, log, backend, device, dropped: RefCell::default() };
        let level = Level::Error.raw();
        // Without a logger the libraries print errors to standard output; that is captured too.
        let _ = call!(this.interface, logCreate(Some(log::callback), level, &raw mut this.log));
        call!(this.interface, backendCreate(this.log, null_mut(), &raw mut this.backend))?;
        if let Some(soc) = soc {
            let mut custom = QnnHtpDevice_CustomConfig_t {
                option: QnnHtpDevice_ConfigOption_t::QNN_HTP_DEVICE_CONFIG_OPTION_SOC,
                u: QnnHtpDevice_CustomConfig_t__bindgen_ty_1 { otherMembers: [u64::from(soc)] },
            };
            let config = QnnDevice_Config_t {
                option: QnnDevice_ConfigOption_t::QNN_DEVICE_CONFIG_OPTION_CUSTOM,
                u: QnnDevice_Config_t__bindgen_ty_1 { customConfig: (&raw mut custom).cast() },
            };
            let mut list = [&raw const config, null()];
            call!(this.interface, deviceCreate(this.log, list.as_mut_ptr(), &raw mut this.device))?;
        }
        Ok(this)
    }

    /// Makes the library do now what it does once per process when the first graph is made (65 ms in 2.47).
    pub fn warm_up(&self) {
        if let Ok(context) = self.context(false) {
            let _ = context.graph("warm-up", &mut [], None);
        }
    }

    /// Frees the contexts that were dropped since the last call.
    pub fn free_dropped(&self) {
        for context in self.dropped.take() {
            let _ = call!(self.interface, contextFree(context, null_mut()));
        }
    }

    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    pub fn build_id(&self) -> String {
        let mut text = null();
        match call!(self.interface, backendGetBuildId(&raw mut text)) {
            // SAFETY: on success a NUL-terminated string of the library's.
            Ok(()) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }

    pub fn register_package(&self, path: &str, provider: &str, target: Option<&str>) -> Result<(), CallError> {
        let refused = CallError::Code { function: "backendRegisterOpPackage", code: u16::MAX };
        let c = |s: &str| CString::new(s).map_err(|_| refused);
        let (path, provider, target) = (c(path)?, c(provider)?, target.map(c).transpose()?);
        let target = target.as_ref().map_or(null(), |t| t.as_ptr());
        call!(self.interface, backendRegisterOpPackage(self.backend, path.as_ptr(), provider.as_ptr(), target))
    }

    pub fn set_log_level(&self, level: Level) {
        if !self.log.is_null() {
            let _ = call!(self.interface, logSetLogLevel(self.log, level.raw()));
        }
    }

    pub fn validate(&self, op: &mut Op) -> Result<(), CallError> {
        call!(self.interface, backendValidateOpConfig(self.backend, op.raw()))
    }

    pub fn context(&self, weight_sharing: bool) -> Result<Context<'_>, CallError> {
        let mut custom = QnnHtpContext_CustomConfig_t {
            option: QnnHtpContext_ConfigOption_t::QNN_HTP_CONTEXT_CONFIG_OPTION_WEIGHT_SHARING_ENABLED,
            u: QnnHtpContext_CustomConfig_t__bindgen_ty_1 { otherMembers: [u64::from(weight_sharing), 0] },
        };
        let config = QnnContext_Config_t {
            option: QnnContext_ConfigOption_t::QNN_CONTEXT_CONFIG_OPTION_CUSTOM,
            u: QnnContext_Config_t__bindgen_ty_1 { customConfig: (&raw mut custom).cast() },
        };
        let mut list = [&raw const config, null()];
        let configs = if weight_sharing { list.as_mut_ptr() } else { null_mut() };
        let mut handle = null_mut();
        call!(self.interface, contextCreate(self.backend, self.device, configs, &raw mut handle))?;
        Ok(Context { vendor: self, handle })
    }

    pub fn context_from_binary(&self, binary: &[u8]) -> Result<Context<'_>, CallError> {
        let mut handle = null_mut();
        let (data, len) = (binary.as_ptr().cast(), binary.len() as u64);
        call!(
            self.interface,
            contextCreateFromBinary(self.backend, self.device, null_mut(), data, len, &raw mut handle, null_mut())
        )?;
        Ok(Context { vendor: self, handle })
    }
}

/// A context: the graphs of one binary.
#[derive(Debug)]
pub struct Context<'a> {
    vendor: &'a Vendor,
    handle: Qnn_ContextHandle_t,
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        self.vendor.dropped.borrow_mut().push(self.handle);
    }
}

impl<'a> Context<'a> {
    /// `dlc` is where the IR backend writes the graph when it is finalised.
    pub fn graph(
        &self,
        name: &str,
        htp: &mut [QnnHtpGraph_CustomConfig_t],
        dlc: Option<&Path>,
    ) -> Result<Graph<'a>, CallError> {
        let refused = CallError::Code { function: "graphCreate", code: u16::MAX };
        let c_name = CString::new(name).map_err(|_| refused)?;
        // The IR backend reads its option only when it writes: the option and the path in it must stay.
        let path: Option<&'static std::ffi::CStr> = dlc
            .map(|p| CString::new(std::os::unix::ffi::OsStrExt::as_bytes(p.as_os_str())))
            .transpose()
            .map_err(|_| refused)?
            .map(|p| &*Box::leak(p.into_boxed_c_str()));
        let ir = path.map(|path| {
            Box::leak(Box::new(QnnIrGraph_CustomConfig_t {
                option: QnnIrGraph_ConfigOption_t::QNN_IR_GRAPH_CONFIG_OPTION_SERIALIZATION,
                u: QnnIrGraph_CustomConfig_t__bindgen_ty_1 {
                    serializationOption: QnnIrGraph_SerializationOption_t {
                        serializationType: QnnIrGraph_SerializationType_t::QNN_IR_GRAPH_SERIALIZATION_TYPE_FLAT_BUFFER,
                        outputPath: path.as_ptr(),
                    },
                },
            }))
        });
        let customs =
            htp.iter_mut().map(|c| std::ptr::from_mut(c).cast()).chain(ir.map(|c| std::ptr::from_mut(c).cast()));
        let configs: Vec<QnnGraph_Config_t> = customs
            .map(|custom| QnnGraph_Config_t {
                option: QnnGraph_ConfigOption_t::QNN_GRAPH_CONFIG_OPTION_CUSTOM,
                u: QnnGraph_Config_t__bindgen_ty_1 { customConfig: custom },
            })
            .collect();
        let mut list: Vec<*const QnnGraph_Config_t> = configs.iter().map(std::ptr::from_ref).chain([null()]).collect();
        let list = if configs.is_empty() { null_mut() } else { list.as_mut_ptr() };
        let mut handle = null_mut();
        call!(self.vendor.interface, graphCreate(self.handle, c_name.as_ptr(), list, &raw mut handle))?;
        Ok(Graph { vendor: self.vendor, handle })
    }

    pub fn retrieve(&self, name: &str) -> Result<Graph<'a>, CallError> {
        let refused = CallError::Code { function: "graphRetrieve", code: u16::MAX };
        let name = CString::new(name).map_err(|_| refused)?;
        let mut handle = null_mut();
        call!(self.vendor.interface, graphRetrieve(self.handle, name.as_ptr(), &raw mut handle))?;
        Ok(Graph { vendor: self.vendor, handle })
    }

    pub fn binary_size(&self) -> Result<u64, CallError> {
        let mut size = 0;
        call!(self.vendor.interface, contextGetBinarySize(self.handle, &raw mut size))?;
        Ok(size)
    }

    /// Writes the binary and says how long it is.
    pub fn binary(&self, into: &mut [u8]) -> Result<u64, CallError> {
        let mut written = 0;
        let (data, len) = (into.as_mut_ptr().cast(), into.len() as u64);
        call!(self.vendor.interface, contextGetBinary(self.handle, data, len, &raw mut written))?;
        Ok(written.min(len))
    }
}

/// A graph under construction or ready to run.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'a> {
    vendor: &'a Vendor,
    handle: Qnn_GraphHandle_t,
}

impl Graph<'_> {
    /// Creates a tensor, with elements if it is static, and puts the id that it got into `tensor`. The library copies.
    pub fn create_tensor(&self, tensor: &mut Qnn_Tensor_t, elements: Option<&[u8]>) -> Result<(), CallError> {
        // SAFETY: tensors here are always of version 1.
        let v1 = unsafe { tensor.u.v1 };
        let data = elements.map_or(Data::NONE, |e| Data { pointer: e.as_ptr().cast_mut().cast(), len: e.len() as u32 });
        let mut with = with_data(v1, data);
        call!(self.vendor.interface, tensorCreateGraphTensor(self.handle, &raw mut with))?;
        // SAFETY: as above; writing a plain member of the active variant.
        unsafe { tensor.u.v1.id = with.u.v1.id };
        Ok(())
    }

    /// Creates the tensors of an op's parameters, then adds it.
    pub fn add(&self, op: &mut Op) -> Result<(), CallError> {
        for param in &mut op.params {
            if param.paramType == Qnn_ParamType_t::QNN_PARAMTYPE_TENSOR {
                let tensor = &raw mut param.u.tensorParam;
                call!(self.vendor.interface, tensorCreateGraphTensor(self.handle, tensor))?;
            }
        }
        call!(self.vendor.interface, graphAddNode(self.handle, op.raw()))
    }

    pub fn finalise(&self) -> Result<(), CallError> {
        call!(self.vendor.interface, graphFinalize(self.handle, null_mut(), null_mut()))
    }

    /// Runs the graph on this machine. Every buffer has its tensor's size.
    pub fn execute(
        &self,
        inputs: &mut [(Qnn_Tensor_t, &[u8])],
        outputs: &mut [(Qnn_Tensor_t, Vec<u8>)],
    ) -> Result<(), CallError> {
        let data = |pointer: *const u8, len: usize| Data { pointer: pointer.cast_mut().cast(), len: len as u32 };
        // SAFETY: tensors here are always of version 1.
        let v1 = |t: &Qnn_Tensor_t| unsafe { t.u.v1 };
        let ins: Vec<_> = inputs.iter().map(|(t, b)| with_data(v1(t), data(b.as_ptr(), b.len()))).collect();
        let mut outs: Vec<_> =
            outputs.iter_mut().map(|(t, b)| with_data(v1(t), data(b.as_mut_ptr(), b.len()))).collect();
        call!(
            self.vendor.interface,
            graphExecute(
                self.handle,
                ins.as_ptr(),
                ins.len() as u32,
                outs.as_mut_ptr(),
                outs.len() as u32,
                null_mut(),
                null_mut()
            )
        )
    }
}

/// Gives a tensor the id that it has in a loaded graph.
pub fn set_id(tensor: &mut Qnn_Tensor_t, id: u32) {
    tensor.u.v1.id = id;
}

impl Level {
    fn raw(self) -> QnnLog_Level_t {
        match self {
            Self::Error => QnnLog_Level_t::QNN_LOG_LEVEL_ERROR,
            Self::Info => QnnLog_Level_t::QNN_LOG_LEVEL_INFO,
        }
    }
}
