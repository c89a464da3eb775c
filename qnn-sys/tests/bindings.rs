//! `src/bindings.rs` is what bindgen makes of `qnn.h`. `QNN_SYS_BLESS=1` writes it anew.
//!
//! Needs the feature `bindgen` and a libclang: `LIBCLANG_PATH`, or the Python package `libclang`.
#![cfg(feature = "bindgen")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of libclang: named by the environment, or that of the Python package.
fn libclang() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return Some(path.into());
    }
    let ask = "import clang, os; print(os.path.join(os.path.dirname(clang.__file__), 'native'))";
    let out = Command::new("python3").args(["-c", ask]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(out.stdout).ok()?.trim());
    folder.join("libclang.so").exists().then_some(folder)
}

#[test]
fn bindings_are_current() {
    let Some(folder) = libclang() else {
        println!("skipped: no libclang (set LIBCLANG_PATH, or pip install libclang)");
        return;
    };
    // SAFETY: this is the only test of this program, and no thread of it reads the environment yet.
    #[allow(unsafe_code)]
    unsafe {
        std::env::set_var("LIBCLANG_PATH", folder);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = bindgen::Builder::default()
        .header(root.join("qnn.h").display().to_string())
        .clang_arg("-DQNNC_BARE")
        .clang_arg("--target=x86_64-unknown-linux-gnu")
        .allowlist_type("Qnn.*")
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: false })
        .prepend_enum_name(false)
        .layout_tests(false)
        .derive_default(false)
        .derive_debug(true)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .rust_target(bindgen::RustTarget::stable(88, 0).unwrap_or_else(|_| panic!("bindgen knows Rust 1.88")))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::None)
        .disable_header_comment()
        .raw_line("// Made by bindgen from qnn.h: see tests/bindings.rs.")
        .generate()
        .expect("bindgen reads qnn.h")
        .to_string();
    let made = rustfmt(&made, root);
    let file = root.join("src/bindings.rs");
    if std::env::var_os("QNN_SYS_BLESS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(made == committed, "src/bindings.rs is stale: run this test with QNN_SYS_BLESS=1");
}

/// bindgen prints one long line; the committed file is formatted as the rest is.
fn rustfmt(text: &str, root: &Path) -> String {
    use std::io::Write;
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root.join("../rustfmt.toml"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("rustfmt is part of the toolchain");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}
