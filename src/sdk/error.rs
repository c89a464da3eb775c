//! What goes wrong with the runtime, each with what to do.

use super::release::{LICENCE_FILE, PACKAGE, versions};
use super::{CACHE_VARIABLE, ROOT_VARIABLE};
use crate::error::{Error, one_line};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdkError {
    /// `root_version`: what `QNN_SDK_ROOT` has instead.
    #[error("the QAIRT {version} runtime is not installed{}", root_version.as_ref().map_or_else(String::new, |v| format!(" (QNN_SDK_ROOT has {v})")))]
    NotInstalled { version: String, root_version: Option<String> },
    #[error("the QAIRT {version} runtime in {} is broken: {what}", folder.display())]
    Broken { version: String, folder: PathBuf, what: String },
    #[error("QNN_SDK_ROOT={}: {what}", root.display())]
    Root { root: PathBuf, what: String },
    #[error("{0:?} is not a version of QAIRT")]
    Version(String),
    #[error("QAIRT {0} is not one of the releases that qnnc can install")]
    NoRelease(String),
    #[error("the licence of the QAIRT {version} runtime is not accepted")]
    Licence { version: String, package_version: String },
    #[error("the QAIRT runtime does not run here: it needs Linux on x86_64, this is {0}")]
    Platform(String),
    #[error("no folder for the cache: neither QNNC_CACHE nor XDG_CACHE_HOME nor HOME names one")]
    NoCache,
    #[error("no Python with pip was found (tried {tried})")]
    NoPip { tried: String },
    #[error("pip could not fetch the runtime from the package index: {0}")]
    Network(String),
    #[error("pip failed: {0}")]
    Pip(String),
    #[error("the wheel of {package} {version} is not the pinned one: sha256 {found}, expected {expected}")]
    Hash { package: String, version: String, expected: String, found: String },
    #[error("the wheel of {package} {version} is not as expected: {what}")]
    Wheel { package: String, version: String, what: String },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
    #[error("not enough room in {}: {need_mb} MB are needed, {free_mb} MB are free", path.display())]
    Space { path: PathBuf, need_mb: u64, free_mb: u64 },
}

impl SdkError {
    fn help(&self) -> String {
        match self {
            Self::NotInstalled { version, .. } | Self::Broken { version, .. } => {
                if super::release(version).is_some() {
                    format!("qnnc sdk install --version {version} --accept-license")
                } else {
                    format!("point {ROOT_VARIABLE} to a QAIRT {version} SDK, or use --sdk {}", versions())
                }
            }
            Self::Root { .. } => {
                format!("point {ROOT_VARIABLE} to the folder of a QAIRT SDK, or unset it to use an installed runtime")
            }
            Self::Version(_) | Self::NoRelease(_) => {
                format!("use {}, or point {ROOT_VARIABLE} to a full SDK", versions())
            }
            Self::Licence { package_version, .. } => format!(
                "it is Qualcomm's, not qnnc's: read {LICENCE_FILE} in the wheel of {PACKAGE} {package_version} \
                 on the Python package index, then add --accept-license"
            ),
            Self::Platform(_) => "compile on such a machine, or in a container of that platform".into(),
            Self::NoCache => format!("set {CACHE_VARIABLE} to a folder"),
            Self::NoPip { .. } => "install Python 3 with pip (Debian, Ubuntu: apt install python3-pip)".into(),
            Self::Network(_) => {
                "check the connection and pip's settings (index-url, proxy, cert): pip config list".into()
            }
            Self::Pip(_) => format!("pip itself must work: python3 -m pip download {PACKAGE}"),
            Self::Hash { .. } | Self::Wheel { .. } => {
                "nothing was installed; pip may be set to an index with other files: pip config list".into()
            }
            Self::Write { .. } | Self::Space { .. } => {
                format!("set {CACHE_VARIABLE} to a folder that is writable and has room")
            }
        }
    }
}

impl From<SdkError> for Error {
    /// Exit code 2 for what the user typed, 3 for the rest.
    fn from(error: SdkError) -> Self {
        let message = one_line(&error.to_string());
        let kind = match error {
            SdkError::Version(_) | SdkError::NoRelease(_) | SdkError::Licence { .. } => Self::input(message),
            _ => Self::environment(message),
        };
        kind.help(error.help())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_is_not_accepted_is_the_users_turn() {
        let error = Error::from(SdkError::Licence { version: "2.47".into(), package_version: "2.3.0".into() });
        assert_eq!(error.exit_code(), 2);
        assert!(error.trouble().help.as_ref().unwrap().contains("Qualcomm_LICENSE.pdf"));
    }

    #[test]
    fn a_missing_runtime_says_how_to_get_it() {
        let error = Error::from(SdkError::NotInstalled { version: "2.51".into(), root_version: Some("2.40".into()) });
        assert_eq!(error.exit_code(), 3);
        assert_eq!(error.to_string(), "the QAIRT 2.51 runtime is not installed (QNN_SDK_ROOT has 2.40)");
        assert_eq!(error.trouble().help.as_deref(), Some("qnnc sdk install --version 2.51 --accept-license"));
    }
}
