//! `qnnc sdk`: the vendor's runtime.

use super::progress::Drawing;
use super::{CLEAN, Run, out};
use clap::{Args, Subcommand, ValueEnum};
use qnnc::Error;
use qnnc::sdk::doctor::{Diagnosis, Status, diagnose};
use qnnc::sdk::{self, DEFAULT_VERSION, Found, RELEASES, Source};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

/// Install, list or check the vendor's runtime (QAIRT)
#[derive(Debug, Args)]
pub struct Sdk {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch a pinned runtime through pip
    ///
    /// The runtime is in the package onnxruntime-qnn on the Python package index, under Qualcomm's licence. It is
    /// fetched with your pip and its settings, checked against a pinned hash, and unpacked under the cache folder
    /// (QNNC_CACHE, else XDG_CACHE_HOME/qnnc, else ~/.cache/qnnc).
    #[command(
        after_help = "Examples:\n  qnnc sdk install --accept-license\n  qnnc sdk install --version 2.51 --accept-license"
    )]
    Install {
        /// Version of QAIRT: 2.47 or 2.51
        #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
        version: String,
        #[command(flatten)]
        licence: Licence,
        /// Draw no progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Which runtimes are here
    List {
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Check the runtime and what goes with it; say what is wrong and what to do
    #[command(after_help = "Exit codes: 0 everything needed works, 3 something needed is missing or broken")]
    Doctor {
        /// Version of QAIRT to check
        #[arg(long, value_name = "VERSION")]
        sdk: Option<String>,
        /// Library of ONNX Runtime, or the folder that holds it
        #[arg(long, value_name = "PATH")]
        ort: Option<PathBuf>,
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
}

/// The licence flag, shared by the commands that may install.
#[derive(Clone, Copy, Debug, Args)]
pub struct Licence {
    /// Accept Qualcomm's licence of the runtime
    #[arg(long = "accept-license", visible_alias = "accept-licence")]
    pub accept: bool,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

impl Sdk {
    pub fn run(self) -> Run {
        match self.action {
            Action::Install { version, licence, quiet } => install(&version, licence, quiet),
            Action::List { format } => list(format),
            Action::Doctor { sdk, ort, format } => doctor(&diagnose(sdk.as_deref(), ort.as_deref()), format),
        }
    }
}

fn install(version: &str, licence: Licence, quiet: bool) -> Run {
    let drawing = Drawing::new(quiet);
    let installed = sdk::install::install(version, licence.accept, &|event| drawing.show(event))?;
    drop(drawing);
    if !quiet {
        let verb = if installed.fresh { "installed" } else { "already installed:" };
        let sdk = installed.sdk;
        out::print(&format!("{verb} QAIRT {} in {}\n", sdk.build_id, sdk.root.display()))?;
    }
    Ok(CLEAN)
}

fn list(format: Format) -> Run {
    let found = sdk::list()?;
    let available: Vec<&str> = RELEASES.iter().map(|r| r.version).collect();
    match format {
        Format::Json => {
            let runtimes: Vec<_> = found
                .iter()
                .map(|Found { path, sdk }| match sdk {
                    Ok(sdk) => json!({
                        "version": sdk.version, "build_id": sdk.build_id, "root": sdk.root, "lib_dir": sdk.lib_dir,
                        "source": sdk.source, "error": null,
                    }),
                    Err(e) => json!({ "root": path, "error": e.to_string() }),
                })
                .collect();
            out::print_json(&json!({ "runtimes": runtimes, "available": available, "default": DEFAULT_VERSION }))?;
        }
        Format::Text => {
            let mut text = String::new();
            for Found { path, sdk } in &found {
                // Writing to a String cannot fail.
                let _ = match sdk {
                    Ok(sdk) => {
                        let note = if sdk.source == Source::Environment { "  (QNN_SDK_ROOT)" } else { "" };
                        writeln!(text, "{:<6} {:<22} {}{note}", sdk.version, sdk.build_id, path.display())
                    }
                    Err(e) => writeln!(text, "broken {e}"),
                };
            }
            if found.is_empty() {
                text.push_str("no runtime is installed\n");
            }
            let _ = writeln!(text, "to install: qnnc sdk install --version {} --accept-license", available.join("|"));
            out::print(&text)?;
        }
    }
    Ok(CLEAN)
}

fn doctor(diagnosis: &Diagnosis, format: Format) -> Run {
    match format {
        Format::Json => out::print_json(diagnosis)?,
        Format::Text => out::print(&render(diagnosis))?,
    }
    Ok(if diagnosis.healthy { CLEAN } else { Error::environment("").exit_code() })
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for check in &diagnosis.checks {
        let mark = match check.status {
            Status::Ok => "\x1b[32mok\x1b[0m     ",
            Status::Warning => "\x1b[33mwarning\x1b[0m",
            Status::Failed => "\x1b[1;31mfailed\x1b[0m ",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark}  {:<16}  {}", check.name, check.detail);
        if let (Some(help), true) = (&check.help, check.status != Status::Ok) {
            let _ = writeln!(text, "         {:<16}  -> {help}", "");
        }
    }
    text
}
