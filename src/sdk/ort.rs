//! ONNX Runtime, the reference that results are compared with: where its library is.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable that names the library, as other programs use it.
pub const ORT_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The library of ONNX Runtime and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ort {
    pub library: PathBuf,
    /// Such as `1.27.0`, when the file name says it.
    pub version: Option<String>,
    /// `--ort`, `ORT_DYLIB_PATH`, `python3` or a system folder.
    pub found_by: String,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrtError {
    #[error("{by}: there is no ONNX Runtime library at {}", path.display())]
    NotThere { by: String, path: PathBuf },
    #[error("ONNX Runtime was not found")]
    NotFound,
}

impl OrtError {
    pub fn help(&self) -> &'static str {
        "pip install onnxruntime==1.27.0, or point --ort or ORT_DYLIB_PATH to libonnxruntime.so"
    }
}

impl From<OrtError> for crate::Error {
    fn from(error: OrtError) -> Self {
        let help = error.help();
        Self::environment(error.to_string()).help(help)
    }
}

/// The library that `explicit` (`--ort`) or `ORT_DYLIB_PATH` names (a file, or a folder that holds it); else the one in
/// Python's onnxruntime package; else one in a system folder.
pub fn find_ort(explicit: Option<&Path>) -> Result<Ort, OrtError> {
    let variable = env::var_os(ORT_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
    let named = explicit.map(|p| ("--ort", p.to_owned())).or_else(|| variable.map(|p| (ORT_VARIABLE, p)));
    if let Some((by, path)) = named {
        let library = if path.is_dir() { in_folder(&path) } else { path.is_file().then(|| path.clone()) };
        return match library {
            Some(library) => Ok(describe(library, by)),
            None => Err(OrtError::NotThere { by: by.to_owned(), path }),
        };
    }
    for python in ["python3", "python"] {
        if let Some(library) = package_folder(python).and_then(|dir| in_folder(&dir.join("capi"))) {
            return Ok(describe(library, python));
        }
    }
    for dir in ["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"] {
        if let Some(library) = in_folder(Path::new(dir)) {
            return Ok(describe(library, dir));
        }
    }
    Err(OrtError::NotFound)
}

/// The folder of Python's onnxruntime package; the package itself is not imported.
fn package_folder(python: &str) -> Option<PathBuf> {
    let code = "import importlib.util as u; s = u.find_spec('onnxruntime'); \
                print(list(s.submodule_search_locations)[0] if s else '')";
    let output = Command::new(python).args(["-c", code]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let path = text.trim();
    (output.status.success() && !path.is_empty()).then(|| PathBuf::from(path))
}

/// `libonnxruntime.so`, or the newest `libonnxruntime.so.<version>`.
fn in_folder(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .filter_map(|path| {
            let rest = path.file_name().and_then(OsStr::to_str)?.strip_prefix("libonnxruntime.so")?.to_owned();
            let numbers: Vec<u32> = rest.split('.').filter_map(|p| p.parse().ok()).collect();
            (rest.is_empty() || (rest.starts_with('.') && !numbers.is_empty())).then_some((numbers, path))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path)
}

fn describe(library: PathBuf, found_by: &str) -> Ort {
    let real = fs::canonicalize(&library).unwrap_or_else(|_| library.clone());
    let version = real
        .file_name()
        .and_then(OsStr::to_str)
        .and_then(|n| n.split_once(".so."))
        .map(|(_, v)| v.to_owned())
        .filter(|v| v.contains('.'));
    Ort { library, version, found_by: found_by.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(in_folder(dir.path()), None);
        for name in ["libonnxruntime.so.1.9.0", "libonnxruntime.so.1.27.0", "libonnxruntime_providers_shared.so"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let ort = find_ort(Some(dir.path())).unwrap();
        assert_eq!(ort.version.as_deref(), Some("1.27.0"));
        assert_eq!(ort.found_by, "--ort");
    }

    #[test]
    fn a_wrong_path_is_named() {
        let error = find_ort(Some(Path::new("/nonexistent/libonnxruntime.so"))).unwrap_err();
        assert_eq!(error.to_string(), "--ort: there is no ONNX Runtime library at /nonexistent/libonnxruntime.so");
    }
}
