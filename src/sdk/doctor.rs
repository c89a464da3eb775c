//! Is everything here that compiling and verifying need? What is wrong, and what to do.

use super::install::{find_pip, free_bytes};
use super::ort::find_ort;
use super::{OPTIONAL, REQUIRED, SdkError, Source, answers, cache_dir, find, library, release};
use crate::Error;
use crate::error::reason;
use crate::qnn::Backend;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Something optional is missing.
    Warning,
    /// Something needed is broken.
    Failed,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub status: Status,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// All checks, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub healthy: bool,
    pub checks: Vec<Check>,
}

impl Diagnosis {
    fn add(&mut self, name: &str, status: Status, detail: impl Into<String>, help: Option<String>) {
        self.healthy &= status != Status::Failed;
        self.checks.push(Check { name: name.to_owned(), status, detail: detail.into(), help });
    }

    fn fail(&mut self, name: &str, error: impl Into<Error>) {
        let error = error.into();
        self.add(name, Status::Failed, error.to_string(), error.trouble().help.clone());
    }
}

/// Room that compiling a large model may take in the temporary folder, in bytes.
const WORKING_ROOM: u64 = 2_000_000_000;

/// Looks at the machine for runtime `version` (None: the default), and for the ONNX Runtime that `ort` names.
pub fn diagnose(version: Option<&str>, ort: Option<&Path>) -> Diagnosis {
    let mut d = Diagnosis { healthy: true, checks: Vec::new() };
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        d.add("platform", Status::Ok, "Linux on x86_64", None);
    } else {
        let platform = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
        d.fail("platform", SdkError::Platform(platform));
    }
    cache(&mut d);
    room(&mut d);
    match find(version) {
        Ok(sdk) => {
            let how = match sdk.source {
                Source::Installed => "installed",
                Source::Environment => super::ROOT_VARIABLE,
            };
            let detail = format!("QAIRT {} in {} ({how})", sdk.build_id, sdk.lib_dir.display());
            d.add("runtime", Status::Ok, detail, None);
            if release(&sdk.version).is_none() {
                let tested = super::release::versions();
                d.add(
                    "version",
                    Status::Warning,
                    format!("QAIRT {} is not a version that qnnc was tested with", sdk.version),
                    Some(format!("tested: {tested}")),
                );
            }
            libraries(&mut d, &sdk);
            backends(&mut d, &sdk);
        }
        Err(error) => {
            d.fail("runtime", error);
            match find_pip() {
                Ok(_) => d.add("pip", Status::Ok, "pip answers", None),
                Err(error) => d.fail("pip", error),
            }
        }
    }
    match find_ort(ort) {
        Ok(ort) => {
            let version = ort.version.map_or_else(String::new, |v| format!(" {v}"));
            let detail = format!("ONNX Runtime{version} at {} ({})", ort.library.display(), ort.found_by);
            d.add("onnxruntime", Status::Ok, detail, None);
        }
        Err(error) => {
            let detail = format!("{error}; only verify needs it");
            d.add("onnxruntime", Status::Warning, detail, Some(error.help().to_owned()));
        }
    }
    d
}

fn cache(d: &mut Diagnosis) {
    let dir = match cache_dir() {
        Ok(dir) => dir,
        Err(error) => return d.fail("cache", error),
    };
    // The closest folder that exists decides whether it can be made.
    let existing = dir.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    match tempfile::Builder::new().prefix(".qnnc-doctor-").tempfile_in(existing) {
        Ok(_) => {
            let free = free_bytes(existing).map_or_else(String::new, |b| format!(", {} MB free", b / 1_000_000));
            d.add("cache", Status::Ok, format!("{} is writable{free}", dir.display()), None);
        }
        Err(e) => {
            // An installed runtime works from a read-only cache.
            let detail = format!("{} is not writable ({})", dir.display(), reason(&e));
            d.add("cache", Status::Warning, detail, Some("set QNNC_CACHE to a writable folder".to_owned()));
        }
    }
}

fn room(d: &mut Diagnosis) {
    let dir = std::env::temp_dir();
    match free_bytes(&dir) {
        Some(free) if free < WORKING_ROOM => d.add(
            "temporary folder",
            Status::Warning,
            format!("{} has {} MB free; large models need more", dir.display(), free / 1_000_000),
            Some("free some room, or set TMPDIR to another folder".to_owned()),
        ),
        Some(free) => {
            d.add("temporary folder", Status::Ok, format!("{}, {} MB free", dir.display(), free / 1_000_000), None);
        }
        None => {
            let detail = format!("{} does not answer", dir.display());
            d.add("temporary folder", Status::Failed, detail, Some("set TMPDIR to a folder that exists".to_owned()));
        }
    }
}

fn libraries(d: &mut Diagnosis, sdk: &super::Sdk) {
    for name in REQUIRED {
        let path = sdk.library(name);
        let bytes = fs::metadata(&path).map_or(0, |m| m.len());
        match library::check_elf(&path) {
            Ok(()) => d.add(name, Status::Ok, format!("{} MB", bytes.div_ceil(1_000_000)), None),
            Err(what) => d.fail(
                name,
                SdkError::Broken {
                    version: sdk.version.clone(),
                    folder: sdk.lib_dir.clone(),
                    what: format!("{name} {what}"),
                },
            ),
        }
    }
    for name in OPTIONAL {
        let path = sdk.library(name);
        if !path.is_file() {
            d.add(name, Status::Ok, format!("not part of this QAIRT {}", sdk.version), None);
            continue;
        }
        match library::check_elf(&path) {
            Ok(()) => d.add(name, Status::Ok, "there", None),
            Err(what) => d.add(name, Status::Warning, what, Some("install the runtime again".to_owned())),
        }
    }
}

/// Needed ones that do not answer are failures; the CPU backend is optional.
fn backends(d: &mut Diagnosis, sdk: &super::Sdk) {
    for backend in answers::BACKENDS {
        if !sdk.has(backend.library()) {
            continue;
        }
        let name = format!("{} backend", backend.name());
        match answers::ask(sdk, backend) {
            Ok(answer) => d.add(&name, Status::Ok, answer, None),
            Err(error) => {
                let error = Error::from(error);
                let status = if backend == Backend::Cpu { Status::Warning } else { Status::Failed };
                d.add(&name, status, error.to_string(), Some(answers::help(&error.to_string())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_makes_it_unhealthy() {
        let mut d = Diagnosis { healthy: true, checks: Vec::new() };
        d.add("a", Status::Warning, "x", None);
        assert!(d.healthy);
        d.fail("b", SdkError::NoCache);
        assert!(!d.healthy);
        assert!(d.checks[1].help.as_deref().is_some_and(|h| h.contains("QNNC_CACHE")));
    }

    #[test]
    fn an_unknown_version_is_reported() {
        let d = diagnose(Some("nonsense"), None);
        assert!(!d.healthy);
        assert!(d.checks.iter().any(|c| c.name == "runtime" && c.status == Status::Failed));
    }
}
