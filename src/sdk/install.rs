//! Fetching a release: pip downloads the pinned wheel, the libraries are taken out, and the folder appears at once.

use super::library::build_id;
use super::release::WHEEL_TAGS;
use super::{LICENCE_FILE, OPTIONAL, PACKAGE, RECORD, REQUIRED, Record, Release, Sdk, SdkError};
use super::{cache_dir, installed, release};
use crate::error::reason;
use crate::progress::{Event, Progress};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `install` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub sdk: Sdk,
    /// False when it was there already.
    pub fresh: bool,
}

/// Makes sure that release `version` is installed under the cache folder.
///
/// A release that is there and whole is left alone. The licence must be accepted before anything is fetched.
pub fn install(version: &str, accept_licence: bool, progress: Progress<'_>) -> Result<Installed, SdkError> {
    let version = super::major_minor(version)?;
    let release = release(&version).ok_or(SdkError::NoRelease(version))?;
    let home = cache_dir()?.join("sdk");
    let folder = home.join(release.version);
    if let Ok(sdk) = installed(&folder) {
        return Ok(Installed { sdk, fresh: false });
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(SdkError::Platform(format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH)));
    }
    if !accept_licence {
        return Err(SdkError::Licence {
            version: release.version.to_owned(),
            package_version: release.package_version.to_owned(),
        });
    }
    fs::create_dir_all(&home).map_err(|e| unwritable(&home, &e))?;
    let need = release.wheel_bytes.saturating_mul(2).saturating_add(release.unpacked_bytes);
    check_room(&home, need)?;
    // On the same file system as the target, so that the rename at the end is atomic.
    let scratch = tempfile::Builder::new().prefix(".install-").tempdir_in(&home).map_err(|e| unwritable(&home, &e))?;

    progress(Event::Stage(&format!(
        "fetching {PACKAGE} {} with pip ({} MB)",
        release.package_version,
        release.wheel_bytes / 1_000_000
    )));
    let wheel = download(release, scratch.path())?;
    progress(Event::Stage("checking the wheel"));
    check_hash(release, &wheel)?;
    progress(Event::Stage("taking the libraries out"));
    let fresh = scratch.path().join("new");
    unpack(release, &wheel, &fresh)?;
    put_in_place(&fresh, &folder, scratch.path())?;
    let sdk = installed(&folder)?;
    Ok(Installed { sdk, fresh: true })
}

fn unwritable(path: &Path, error: &io::Error) -> SdkError {
    SdkError::Write { path: path.to_owned(), reason: reason(error) }
}

/// Free bytes in the file system of `path`, if it says.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn check_room(path: &Path, need: u64) -> Result<(), SdkError> {
    const MB: u64 = 1_000_000;
    match free_bytes(path) {
        Some(free) if free < need => {
            Err(SdkError::Space { path: path.to_owned(), need_mb: need / MB, free_mb: free / MB })
        }
        _ => Ok(()),
    }
}

/// The wheel, fetched by name and hash with the first pip that answers.
fn download(release: &Release, scratch: &Path) -> Result<PathBuf, SdkError> {
    let requirements = scratch.join("requirements.txt");
    let line = format!("{PACKAGE}=={} --hash=sha256:{}\n", release.package_version, release.wheel_sha256);
    fs::write(&requirements, line).map_err(|e| unwritable(&requirements, &e))?;
    let into = scratch.join("wheel");
    let temporary = scratch.join("tmp");
    fs::create_dir(&temporary).map_err(|e| unwritable(&temporary, &e))?;

    let mut pip = find_pip()?;
    pip.args(["download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input"]);
    for (flag, value) in WHEEL_TAGS {
        pip.arg(format!("--{flag}")).arg(value);
    }
    pip.arg("--progress-bar=off").arg("--disable-pip-version-check").arg("--requirement").arg(&requirements);
    pip.arg("--dest").arg(&into).env("TMPDIR", &temporary).stdin(Stdio::null());
    let output = pip.output().map_err(|e| SdkError::Pip(reason(&e)))?;
    if !output.status.success() {
        return Err(pip_failure(release, &String::from_utf8_lossy(&output.stderr), scratch));
    }
    let wheels: Vec<PathBuf> =
        fs::read_dir(&into).map_err(|e| unwritable(&into, &e))?.flatten().map(|e| e.path()).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(SdkError::Pip(format!("it said it was done, but left {} files", wheels.len()))),
    }
}

/// A command that starts pip.
pub(crate) fn find_pip() -> Result<Command, SdkError> {
    const CANDIDATES: [&[&str]; 4] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];
    for candidate in CANDIDATES {
        let [program, arguments @ ..] = candidate else { continue };
        let mut probe = Command::new(program);
        probe.args(arguments).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if probe.status().is_ok_and(|s| s.success()) {
            let mut pip = Command::new(program);
            pip.args(arguments);
            return Ok(pip);
        }
    }
    let tried = CANDIDATES.map(|c| c.join(" ")).join(", ");
    Err(SdkError::NoPip { tried })
}

/// What pip's messages mean.
fn pip_failure(release: &Release, stderr: &str, scratch: &Path) -> SdkError {
    let has = |needles: &[&str]| needles.iter().any(|n| stderr.contains(n));
    let last = stderr.lines().rev().map(str::trim).find(|l| l.starts_with("ERROR:"));
    let last = last.or_else(|| stderr.lines().map(str::trim).rfind(|l| !l.is_empty()));
    let last = last.unwrap_or("it said nothing").trim_start_matches("ERROR:").trim().to_owned();
    if has(&["DO NOT MATCH THE HASHES"]) {
        let got = stderr.lines().find_map(|l| l.trim().strip_prefix("Got").map(|v| v.trim().to_owned()));
        return SdkError::Hash {
            package: PACKAGE.to_owned(),
            version: release.package_version.to_owned(),
            expected: release.wheel_sha256.to_owned(),
            found: got.unwrap_or_else(|| "unknown".into()),
        };
    }
    if has(&["No space left on device"]) {
        return SdkError::Write { path: scratch.to_owned(), reason: "no space left on device".into() };
    }
    let network = [
        "NewConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "Failed to establish a new connection",
        "name resolution",
        "Network is unreachable",
        "Connection refused",
        "ProxyError",
        "CERTIFICATE_VERIFY_FAILED",
        "SSLError",
        "ConnectionError",
        // Nothing at all under that name: without retries pip says no more when the index is out of reach.
        "(from versions: none)",
    ];
    if has(&network) { SdkError::Network(last) } else { SdkError::Pip(last) }
}

fn check_hash(release: &Release, wheel: &Path) -> Result<(), SdkError> {
    let unreadable = |e: io::Error| SdkError::Wheel {
        package: PACKAGE.to_owned(),
        version: release.package_version.to_owned(),
        what: format!("it cannot be read ({})", reason(&e)),
    };
    let mut file = File::open(wheel).map_err(unreadable)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let read = file.read(&mut buffer).map_err(unreadable)?;
        match buffer.get(..read) {
            Some(chunk) if read > 0 => hasher.update(chunk),
            _ => break,
        }
    }
    let found = hasher.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    if found == release.wheel_sha256 {
        return Ok(());
    }
    Err(SdkError::Hash {
        package: PACKAGE.to_owned(),
        version: release.package_version.to_owned(),
        expected: release.wheel_sha256.to_owned(),
        found,
    })
}

/// Takes what qnnc uses out of the wheel into `folder`: `lib/`, `licences/` and the record.
fn unpack(release: &Release, wheel: &Path, folder: &Path) -> Result<(), SdkError> {
    let odd = |what: String| SdkError::Wheel {
        package: PACKAGE.to_owned(),
        version: release.package_version.to_owned(),
        what,
    };
    let file = File::open(wheel).map_err(|e| odd(reason(&e)))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| odd(e.to_string()))?;
    let (lib, licences) = (folder.join("lib"), folder.join("licences"));
    for dir in [&lib, &licences] {
        fs::create_dir_all(dir).map_err(|e| unwritable(dir, &e))?;
    }
    let mut files = Vec::new();
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).map_err(|e| odd(e.to_string()))?;
        let member_name = member.name().map_err(|e| odd(e.to_string()))?.into_owned();
        let Some((name, is_library)) = wanted(&member_name) else { continue };
        let path = if is_library { lib.join(&name) } else { licences.join(&name) };
        let mut out = File::create(&path).map_err(|e| unwritable(&path, &e))?;
        let size = copy(&mut member, &mut out).map_err(|e| match e {
            Copy::Read(e) => odd(format!("{name}: {e}")),
            Copy::Write(e) => unwritable(&path, &e),
        })?;
        if is_library {
            files.push((name, size));
        }
    }
    let missing = REQUIRED.iter().chain(release.optional).find(|n| !files.iter().any(|(f, _)| f == *n));
    if let Some(name) = missing {
        return Err(odd(format!("{name} is not in it")));
    }
    let found = build_id(&lib.join("libQnnIr.so")).unwrap_or_default();
    if found != release.build_id {
        return Err(odd(format!("its build id is {found:?}, expected {:?}", release.build_id)));
    }
    files.sort();
    let record = Record {
        version: release.version.to_owned(),
        build_id: release.build_id.to_owned(),
        package: PACKAGE.to_owned(),
        package_version: release.package_version.to_owned(),
        wheel_sha256: release.wheel_sha256.to_owned(),
        files,
    };
    let path = folder.join(RECORD);
    let text = serde_json::to_string_pretty(&record).map_err(|e| odd(e.to_string()))?;
    fs::write(&path, text + "\n").map_err(|e| unwritable(&path, &e))
}

/// The file name under which a member of the wheel is kept, and whether it is a library. None: it is left out.
///
/// The C++ runtime that the wheel carries in `onnxruntime_qnn.libs/` lies beside the libraries here: they look in
/// their own folder first.
fn wanted(member: &str) -> Option<(String, bool)> {
    let (dir, name) = member.split_once('/')?;
    let plain = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
    let library = REQUIRED.contains(&name) || OPTIONAL.contains(&name);
    let notice = member == LICENCE_FILE || ["LICENSE", "ThirdPartyNotices.txt"].contains(&name);
    match dir {
        "onnxruntime_qnn" if library => Some((name.to_owned(), true)),
        "onnxruntime_qnn" if notice => Some((name.to_owned(), false)),
        "onnxruntime_qnn.libs" if plain => Some((name.to_owned(), true)),
        _ => None,
    }
}

enum Copy {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<u64, Copy> {
    let mut buffer = vec![0u8; 1 << 18];
    let mut total = 0u64;
    loop {
        let read = from.read(&mut buffer).map_err(Copy::Read)?;
        match buffer.get(..read) {
            Some(chunk) if read > 0 => to.write_all(chunk).map_err(Copy::Write)?,
            _ => return Ok(total),
        }
        total = total.saturating_add(read as u64);
    }
}

/// Moves `fresh` to `folder`. What was there before (broken, else we would not be here) goes into `scratch`.
fn put_in_place(fresh: &Path, folder: &Path, scratch: &Path) -> Result<(), SdkError> {
    if folder.exists() {
        fs::rename(folder, scratch.join("old")).map_err(|e| unwritable(folder, &e))?;
    }
    match fs::rename(fresh, folder) {
        Ok(()) => Ok(()),
        // Another process was faster: its result is as good.
        Err(_) if installed(folder).is_ok() => Ok(()),
        Err(e) => Err(unwritable(folder, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_used_is_kept() {
        assert_eq!(wanted("onnxruntime_qnn/libQnnHtp.so"), Some(("libQnnHtp.so".into(), true)));
        assert_eq!(wanted("onnxruntime_qnn/libGenie.so"), None);
        assert_eq!(wanted("onnxruntime_qnn.libs/libc++-1.so"), Some(("libc++-1.so".into(), true)));
        assert_eq!(wanted("onnxruntime_qnn.libs/../x"), None);
        assert_eq!(wanted(LICENCE_FILE), Some(("Qualcomm_LICENSE.pdf".into(), false)));
    }

    #[test]
    fn pip_messages() {
        let r = &super::super::RELEASES[0];
        let at = Path::new("/x");
        let text = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM\n  Expected sha256 aa\n       Got        bb\n";
        assert!(matches!(pip_failure(r, text, at), SdkError::Hash { found, .. } if found == "bb"));
        let text = "WARNING: Retrying ... NewConnectionError('...')\nERROR: No matching distribution found for x\n";
        assert_eq!(pip_failure(r, text, at), SdkError::Network("No matching distribution found for x".into()));
        assert_eq!(pip_failure(r, "", at), SdkError::Pip("it said nothing".into()));
    }

    #[test]
    fn a_wheel_that_is_not_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let wheel = dir.path().join("x.whl");
        fs::write(&wheel, "not a zip").unwrap();
        let r = &super::super::RELEASES[0];
        assert!(matches!(unpack(r, &wheel, &dir.path().join("new")), Err(SdkError::Wheel { .. })));
        assert!(matches!(check_hash(r, &wheel), Err(SdkError::Hash { .. })));
    }

    #[test]
    fn a_broken_installation_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (fresh, folder) = (dir.path().join("new"), dir.path().join("2.47"));
        fs::create_dir_all(fresh.join("lib")).unwrap();
        fs::create_dir_all(folder.join("junk")).unwrap();
        put_in_place(&fresh, &folder, dir.path()).unwrap();
        assert!(folder.join("lib").is_dir() && !folder.join("junk").exists());
    }
}
