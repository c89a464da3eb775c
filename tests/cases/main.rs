//! Cases from public bug reports of converters and runtimes, each as a small model that goes through `qnnc compile`:
//! exit code, report, and where numbers matter the numbers on the HTP emulation against those of ONNX Runtime's CPU
//! provider. Without the vendor's runtime they are skipped, and say so.
#![allow(clippy::unwrap_used, clippy::panic)]

mod attention;
mod conv_transpose;
mod convolution;
mod einsum;
mod encodings;
mod files;
mod fusion;
mod int64;
mod kit;
mod normalise;
mod partitions;
mod quant;
mod rank;
mod shapes;
mod slice;
