//! Raw bindings of the part of the QNN ABI that qnnc uses, and the loading of its libraries.
//!
//! `qnn.h` is our own description of the ABI, `bindings` is what bindgen makes of it. The libraries are opened at run
//! time: neither building nor linking needs the SDK. Everything here is called in qnnc's worker process only.
#![allow(unsafe_code)]

mod load;
pub mod process;

/// What bindgen makes of `qnn.h`.
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic
)]
#[rustfmt::skip]
pub mod bindings;

pub use bindings::*;
pub use load::{Interface, LoadError, SystemInterface, Version};

/// Why a call through a function table gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The table of the loaded library is too short for the function, or its entry is NULL.
    #[error("{0} does not exist in this library")]
    Absent(&'static str),
    /// The function returned an error; `code` is the low 16 bits.
    #[error("{function} returned {code}")]
    Code { function: &'static str, code: u16 },
}

impl CallError {
    /// The vendor's error code, if the function was there.
    pub fn code(self) -> Option<u16> {
        match self {
            Self::Absent(_) => None,
            Self::Code { code, .. } => Some(code),
        }
    }

    /// What an error handle means: 0 is success.
    pub fn check(function: &'static str, handle: Qnn_ErrorHandle_t) -> Result<(), Self> {
        // A nonzero handle whose low bits are 0 would still be an error.
        match (handle, (handle & 0xffff) as u16) {
            (0, _) => Ok(()),
            (_, 0) => Err(Self::Code { function, code: u16::MAX }),
            (_, code) => Err(Self::Code { function, code }),
        }
    }
}

/// Calls an entry of a function table, the only way in which qnnc calls the vendor's libraries.
///
/// `call!(interface, graphFinalize(graph, profile, signal))` is a `Result<(), CallError>`.
///
/// # Safety
/// The block that it expands to is sound when every pointer argument is null where the ABI allows it, or points to
/// initialised memory of the declared type and length for the duration of the call; handles come from the same library.
#[macro_export]
macro_rules! call {
    ($interface:expr, $name:ident ( $($arg:expr),* $(,)? )) => {
        match $interface.table().$name {
            // SAFETY: the caller vouches for its arguments as described at the macro.
            Some(function) => $crate::CallError::check(stringify!($name), unsafe { function($($arg),*) }),
            None => Err($crate::CallError::Absent(stringify!($name))),
        }
    };
}
