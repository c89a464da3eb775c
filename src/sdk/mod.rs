//! The vendor's runtime (QAIRT): where it is, which version it is, how it gets here.
//!
//! qnnc ships none of it. [`install::install`] fetches a pinned wheel through the user's pip and keeps the few libraries
//! that the worker loads under the cache folder; `QNN_SDK_ROOT` points to a full SDK instead. [`find`] only looks at
//! names, sizes and build ids: no library is loaded in this process.

mod answers;
pub mod doctor;
mod error;
pub mod install;
mod library;
pub mod ort;
mod release;

pub use error::SdkError;
pub use release::{DEFAULT_VERSION, LICENCE_FILE, PACKAGE, RELEASES, Release, release};

use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Libraries without which nothing is compiled: the HTP backend, the reader of binaries, the writer of DLCs.
pub const REQUIRED: [&str; 3] = ["libQnnHtp.so", "libQnnSystem.so", "libQnnIr.so"];
/// Libraries of further backends; a release may lack one.
pub const OPTIONAL: [&str; 2] = ["libQnnCpu.so", "libQnnGpu.so"];
/// Environment variable that points to a full SDK.
pub const ROOT_VARIABLE: &str = "QNN_SDK_ROOT";
/// Environment variable that moves the cache folder.
pub const CACHE_VARIABLE: &str = "QNNC_CACHE";

/// How a runtime came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `qnnc sdk install`.
    Installed,
    /// `QNN_SDK_ROOT`.
    Environment,
}

/// A runtime on this machine whose required libraries are all there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sdk {
    /// Major and minor, such as `2.47`.
    pub version: String,
    /// Full version with the build number, such as `2.47.0.260601114230`.
    pub build_id: String,
    pub root: PathBuf,
    /// The folder with `libQnnHtp.so`.
    pub lib_dir: PathBuf,
    pub source: Source,
}

impl Sdk {
    /// Path of a library such as `libQnnHtp.so`, whether or not this runtime has it.
    pub fn library(&self, name: &str) -> PathBuf {
        self.lib_dir.join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.library(name).is_file()
    }
}

/// What an installation wrote about itself: `sdk.json` beside `lib/`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub version: String,
    pub build_id: String,
    pub package: String,
    pub package_version: String,
    pub wheel_sha256: String,
    /// Libraries and their sizes in bytes.
    pub files: Vec<(String, u64)>,
}

pub(crate) const RECORD: &str = "sdk.json";

/// The runtime of `version` (`"2.47"`; None: what `QNN_SDK_ROOT` has, else [`DEFAULT_VERSION`]).
///
/// `QNN_SDK_ROOT` wins when its version fits; with another version asked for, the installed ones are looked at.
pub fn find(version: Option<&str>) -> Result<Sdk, SdkError> {
    let wanted = version.map(major_minor).transpose()?;
    let root = root_variable();
    let mut other = None;
    if let Some(root) = &root {
        let sdk = at_root(root)?;
        match &wanted {
            Some(wanted) if *wanted != sdk.version => other = Some(sdk.version),
            _ => return Ok(sdk),
        }
    }
    let wanted = wanted.unwrap_or_else(|| DEFAULT_VERSION.to_owned());
    let folder = cache_dir()?.join("sdk").join(&wanted);
    match installed(&folder) {
        Err(SdkError::NotInstalled { version, .. }) => Err(SdkError::NotInstalled { version, root_version: other }),
        found => found,
    }
}

/// The runtime in `folder`, checked against its own record.
pub(crate) fn installed(folder: &Path) -> Result<Sdk, SdkError> {
    let version = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let Ok(text) = fs::read_to_string(folder.join(RECORD)) else {
        return Err(SdkError::NotInstalled { version, root_version: None });
    };
    let broken = |what: String| SdkError::Broken { version: version.clone(), folder: folder.to_owned(), what };
    let record: Record =
        serde_json::from_str(&text).map_err(|e| broken(format!("{RECORD} is not what was written ({e})")))?;
    let lib_dir = folder.join("lib");
    for (name, size) in &record.files {
        match fs::metadata(lib_dir.join(name)) {
            Ok(m) if m.len() == *size => {}
            Ok(m) => return Err(broken(format!("{name} has {} bytes instead of {size}", m.len()))),
            Err(_) => return Err(broken(format!("{name} is missing"))),
        }
    }
    if let Some(name) = REQUIRED.iter().find(|name| !lib_dir.join(name).is_file()) {
        return Err(broken(format!("{name} is missing")));
    }
    Ok(Sdk {
        version: record.version,
        build_id: record.build_id,
        root: folder.to_owned(),
        lib_dir,
        source: Source::Installed,
    })
}

/// The runtime in a full SDK, or in a folder that holds the libraries themselves.
fn at_root(root: &Path) -> Result<Sdk, SdkError> {
    let bad = |what: String| SdkError::Root { root: root.to_owned(), what };
    if !root.is_dir() {
        return Err(bad("there is no such folder".into()));
    }
    let lib_dir = ["lib/x86_64-linux-clang", "lib", ""]
        .into_iter()
        .map(|sub| if sub.is_empty() { root.to_owned() } else { root.join(sub) })
        .find(|dir| dir.join("libQnnHtp.so").is_file())
        .ok_or_else(|| bad("lib/x86_64-linux-clang/libQnnHtp.so is missing".into()))?;
    for name in REQUIRED {
        let path = lib_dir.join(name);
        if !path.is_file() {
            return Err(bad(format!("{name} is missing")));
        }
        library::check_elf(&path).map_err(|what| bad(format!("{name} {what}")))?;
    }
    let build_id = library::build_id(&lib_dir.join("libQnnIr.so"))
        .or_else(|| library::build_id(&lib_dir.join("libQnnHtp.so")))
        .ok_or_else(|| bad("its libraries carry no QAIRT build id".into()))?;
    let version = major_minor(&build_id).map_err(|_| bad(format!("its build id is {build_id:?}")))?;
    Ok(Sdk { version, build_id, root: root.to_owned(), lib_dir, source: Source::Environment })
}

/// A runtime, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub sdk: Result<Sdk, SdkError>,
}

/// Every runtime that [`find`] could answer with, `QNN_SDK_ROOT` first, then the installed ones from old to new.
/// A broken one is listed with what is wrong.
pub fn list() -> Result<Vec<Found>, SdkError> {
    let mut found = Vec::new();
    if let Some(root) = root_variable() {
        let sdk = at_root(&root);
        found.push(Found { path: root, sdk });
    }
    let mut folders: Vec<PathBuf> = match fs::read_dir(cache_dir()?.join("sdk")) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect(),
        Err(_) => Vec::new(),
    };
    folders.retain(|f| f.file_name().is_some_and(|n| major_minor(&n.to_string_lossy()).is_ok()));
    folders.sort_by_key(|f| version_key(&f.file_name().unwrap_or_default().to_string_lossy()));
    found.extend(folders.into_iter().map(|folder| {
        let sdk = installed(&folder);
        Found { path: folder, sdk }
    }));
    Ok(found)
}

/// `$QNNC_CACHE`, else `$XDG_CACHE_HOME/qnnc`, else `~/.cache/qnnc`. Relative values of the latter two are ignored.
pub fn cache_dir() -> Result<PathBuf, SdkError> {
    let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = variable(CACHE_VARIABLE) {
        return std::path::absolute(dir).map_err(|_| SdkError::NoCache);
    }
    if let Some(dir) = variable("XDG_CACHE_HOME").filter(|d| d.is_absolute()) {
        return Ok(dir.join("qnnc"));
    }
    match variable("HOME").filter(|d| d.is_absolute()) {
        Some(home) => Ok(home.join(".cache").join("qnnc")),
        None => Err(SdkError::NoCache),
    }
}

fn root_variable() -> Option<PathBuf> {
    env::var_os(ROOT_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The first two numbers of a version: `2.47` of `2.47`, `2.47.0` or `v2.47.0.260601114230`.
fn major_minor(version: &str) -> Result<String, SdkError> {
    let unknown = || SdkError::Version(version.to_owned());
    let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
    let mut number = || -> Option<u32> { parts.next()?.parse().ok() };
    let (major, minor) = (number().ok_or_else(unknown)?, number().ok_or_else(unknown)?);
    Ok(format!("{major}.{minor}"))
}

fn version_key(version: &str) -> Vec<u32> {
    version.split('.').map(|p| p.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(major_minor("2.47").unwrap(), "2.47");
        assert_eq!(major_minor("v2.51.0.260929181845").unwrap(), "2.51");
        assert!(major_minor("2").is_err());
        assert!(major_minor("../x").is_err());
        assert!(version_key("2.9") < version_key("2.47"));
    }

    #[test]
    fn an_installation_is_checked_against_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("2.47");
        assert!(matches!(installed(&folder), Err(SdkError::NotInstalled { version, .. }) if version == "2.47"));
        fs::create_dir_all(folder.join("lib")).unwrap();
        let files: Vec<(String, u64)> = REQUIRED.iter().map(|n| ((*n).to_owned(), 3)).collect();
        for (name, _) in &files {
            fs::write(folder.join("lib").join(name), "abc").unwrap();
        }
        let record = Record {
            version: "2.47".into(),
            build_id: "2.47.0.1".into(),
            package: "p".into(),
            package_version: "1".into(),
            wheel_sha256: "0".into(),
            files,
        };
        fs::write(folder.join(RECORD), serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(installed(&folder).unwrap().build_id, "2.47.0.1");
        fs::write(folder.join("lib/libQnnIr.so"), "ab").unwrap();
        let error = installed(&folder).unwrap_err();
        assert!(error.to_string().contains("libQnnIr.so has 2 bytes instead of 3"), "{error}");
    }

    #[test]
    fn a_root_without_libraries_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = at_root(dir.path()).unwrap_err().to_string();
        assert!(error.contains("libQnnHtp.so is missing"), "{error}");
    }
}
