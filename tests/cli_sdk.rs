//! `qnnc sdk` and the command line as a whole: exit codes, one-line messages, nothing fetched.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// qnnc with an empty environment besides what is needed, and a cache folder of its own.
fn qnnc(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qnnc"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("QNN") || name.starts_with("PIP_") || name.starts_with("ORT_") {
            command.env_remove(name);
        }
    }
    command.env("QNNC_CACHE", cache).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("qnnc starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// Exit code and message of a failure: stdout is empty, stderr is `error:` and perhaps `help:`, each one line.
#[track_caller]
fn fails(command: &mut Command) -> (i32, String) {
    let (code, stdout, stderr) = run(command);
    assert_eq!(stdout, "", "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{stderr}");
    assert!(lines.get(1).is_none_or(|l| l.starts_with("help: ")), "{stderr}");
    (code, stderr)
}

#[test]
fn help_has_examples_and_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(qnnc(dir.path()).arg("--help"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for part in ["Usage: qnnc", "Examples:", "Exit codes:", "sdk install --accept-license"] {
        assert!(stdout.contains(part), "{part} is not in\n{stdout}");
    }
    let (code, stdout, _) = run(qnnc(dir.path()).arg("--version"));
    assert_eq!((code, stdout.trim()), (0, concat!("qnnc ", env!("CARGO_PKG_VERSION"))));
    let (code, _, stderr) = run(&mut qnnc(dir.path()));
    assert_eq!(code, 2);
    assert!(stderr.contains("Usage: qnnc"));
}

#[test]
fn wrong_flags_are_the_users() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in
        [&["nonsense"][..], &["sdk"], &["sdk", "install", "--verson", "2.47"], &["sdk", "list", "--format", "xml"]]
    {
        let (code, stdout, stderr) = run(qnnc(dir.path()).args(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
        assert!(!stderr.is_empty());
    }
}

#[test]
fn list_of_an_empty_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "list"]));
    assert_eq!(code, 0);
    assert!(stdout.contains("no runtime is installed") && stdout.contains("2.47"), "{stdout}");
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "list", "--format", "json"]));
    let value: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(code, 0);
    assert_eq!(value["runtimes"].as_array().map(Vec::len), Some(0));
    assert_eq!(value["default"], "2.47");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "looking must not write");
}

#[test]
fn doctor_of_an_empty_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, stderr) = run(qnnc(dir.path()).args(["sdk", "doctor"]));
    assert_eq!((code, stderr.as_str()), (3, ""));
    assert!(stdout.contains("the QAIRT 2.47 runtime is not installed"), "{stdout}");
    assert!(stdout.contains("qnnc sdk install --version 2.47 --accept-license"), "{stdout}");
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "doctor", "--sdk", "2.51", "--format", "json"]));
    let value: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((code, &value["healthy"]), (3, &serde_json::Value::Bool(false)));
}

#[test]
fn a_damaged_runtime_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sdk/2.47");
    fs::create_dir_all(folder.join("lib")).unwrap();
    let record = r#"{"version":"2.47","build_id":"2.47.0.1","package":"p","package_version":"1","wheel_sha256":"0",
        "files":[["libQnnHtp.so",3]]}"#;
    fs::write(folder.join("sdk.json"), record).unwrap();
    fs::write(folder.join("lib/libQnnHtp.so"), "ab").unwrap();
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "doctor"]));
    assert_eq!(code, 3);
    assert!(stdout.contains("libQnnHtp.so has 2 bytes instead of 3"), "{stdout}");
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "list"]));
    assert_eq!(code, 0);
    assert!(stdout.contains("broken"), "{stdout}");
}

#[test]
fn a_wrong_root_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (code, stdout, _) = run(qnnc(dir.path()).args(["sdk", "doctor"]).env("QNN_SDK_ROOT", "/nonexistent/sdk"));
    assert_eq!(code, 3);
    assert!(stdout.contains("QNN_SDK_ROOT=/nonexistent/sdk: there is no such folder"), "{stdout}");
}

#[test]
fn installing_needs_the_licence() {
    let dir = tempfile::tempdir().unwrap();
    let (code, message) = fails(qnnc(dir.path()).args(["sdk", "install"]));
    assert_eq!(code, 2);
    for part in ["licence", "Qualcomm", "Qualcomm_LICENSE.pdf", "onnxruntime-qnn 2.3.0", "--accept-license"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn installing_an_unknown_version() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["1.2", "../../x", ""] {
        let (code, message) =
            fails(qnnc(dir.path()).args(["sdk", "install", "--accept-license", "--version", version]));
        assert_eq!(code, 2, "{message}");
        assert!(message.contains("2.47 or 2.51"), "{message}");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod installing {
    use super::*;

    fn install(cache: &Path) -> Command {
        let mut command = qnnc(cache);
        command.args(["sdk", "install", "--accept-license"]).env("PIP_CONFIG_FILE", "/dev/null");
        command
    }

    /// Nothing is left behind after a failure.
    fn assert_clean(cache: &Path) {
        let left: Vec<_> = fs::read_dir(cache.join("sdk")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn without_pip() {
        let dir = tempfile::tempdir().unwrap();
        let (code, message) = fails(install(dir.path()).env("PATH", "/nonexistent"));
        assert_eq!(code, 3);
        assert!(message.contains("no Python with pip was found"), "{message}");
        assert_clean(dir.path());
    }

    #[test]
    fn without_network() {
        let dir = tempfile::tempdir().unwrap();
        let (code, message) = fails(
            install(dir.path())
                .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
                .env("PIP_RETRIES", "0")
                .env("PIP_TIMEOUT", "2"),
        );
        assert_eq!(code, 3);
        assert!(message.contains("pip could not fetch the runtime from the package index"), "{message}");
        assert_clean(dir.path());
    }

    #[test]
    fn with_another_wheel_of_the_same_name() {
        let dir = tempfile::tempdir().unwrap();
        let wheels = dir.path().join("wheels");
        fs::create_dir(&wheels).unwrap();
        fs::write(wheels.join("onnxruntime_qnn-2.3.0-cp311-cp311-manylinux_2_35_x86_64.whl"), "something else")
            .unwrap();
        let cache = dir.path().join("cache");
        let (code, message) = fails(install(&cache).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &wheels));
        assert_eq!(code, 3);
        assert!(message.contains("is not the pinned one") && message.contains("nothing was installed"), "{message}");
        assert_clean(&cache);
    }

    #[test]
    fn into_a_folder_that_cannot_be_written() {
        let (code, message) = fails(&mut install(Path::new("/dev/null/cache")));
        assert_eq!(code, 3);
        assert!(message.contains("cannot write /dev/null/cache/sdk") && message.contains("QNNC_CACHE"), "{message}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = qnnc(dir.path())
        .args(["sdk", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qnnc starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("qnnc ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
