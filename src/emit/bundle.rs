//! The folder of files that a compile writes: whole or not at all.
//!
//! Files are written into a hidden folder on the same file system and moved in with renames at the end. Whatever fails
//! before or during the moves is undone. The files of an earlier bundle of the same stem go in the same step.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::manifest::Manifest;
use crate::Error;
use crate::ir::Graph;
use crate::onnx::{DataFile, Header, WriteError};

const MANIFEST: &str = "manifest.json";
/// How hidden folders are called; the id of the process and a number follow.
const PREFIX: &str = ".qnnc-";

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

/// A bundle being written. Dropped without [`Bundle::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Bundle {
    out: PathBuf,
    stem: String,
    temp: Temp,
    files: Vec<FileEntry>,
    /// Canonical paths that must not be replaced.
    sources: Vec<PathBuf>,
}

impl Bundle {
    /// Begins the bundle `stem` in the folder `out`, which need not exist. Nothing is visible in `out` yet.
    pub fn create(out: &Path, stem: &str) -> Result<Self, Error> {
        let fail = |e: io::Error| Error::unwritable(out, &e);
        let meta = fs::metadata(out);
        if meta.as_ref().is_ok_and(|m| !m.is_dir()) {
            return Err(Error::input(format!("cannot write {}: it is not a folder", out.display())));
        }
        // Beside a folder that is yet to be made, within one that is there: the file system is the same for sure.
        let mut made = vec![];
        let place = if meta.is_ok() {
            out.to_path_buf()
        } else {
            let parent = match out.parent() {
                Some(p) if !p.as_os_str().is_empty() => p.to_path_buf(),
                _ => PathBuf::from("."),
            };
            made = create_folders(&parent).map_err(fail)?;
            parent
        };
        sweep(&place);
        let temp = Temp::create(&place, made).map_err(fail)?;
        Ok(Self { out: out.to_path_buf(), stem: stem.into(), temp, files: vec![], sources: vec![] })
    }

    /// Names files that the bundle must never replace: the model and its external data. An error if the context binary
    /// would.
    pub fn protect(&mut self, sources: &[PathBuf]) -> Result<(), Error> {
        self.sources.extend(sources.iter().filter_map(|p| p.canonicalize().ok()));
        self.check_name(&format!("{}.bin", self.stem))
    }

    /// A plain file name that is not the way to a source.
    fn check_name(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let path = self.out.join(name);
        match path.canonicalize() {
            Ok(p) if self.sources.contains(&p) => {
                Err(Error::input(format!("{} belongs to the model and would be replaced", path.display()))
                    .help("choose another output folder"))
            }
            _ => Ok(()),
        }
    }

    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Where the file `name` is to be written by someone else (a worker process) before [`Bundle::seal`].
    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path.join(name)
    }

    /// Where the file `name` will be.
    pub fn final_path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// Writes a file.
    pub fn write(&mut self, name: &str, data: &[u8]) -> Result<(), Error> {
        self.write_parts(name, &[data])
    }

    /// Writes a file that lies in several pieces.
    pub fn write_parts(&mut self, name: &str, parts: &[&[u8]]) -> Result<(), Error> {
        let fail = |e: io::Error| Error::unwritable(&self.out.join(name), &e);
        self.check_name(name)?;
        let mut file = fs::File::create(self.temp.path.join(name)).map_err(fail)?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for part in parts {
            file.write_all(part).map_err(fail)?;
            hash.update(part);
            bytes += part.len() as u64;
        }
        self.add(FileEntry { name: name.into(), bytes, sha256: hex(&hash.finalize()) });
        Ok(())
    }

    /// Takes in a file that someone else wrote at [`Bundle::path`].
    pub fn seal(&mut self, name: &str) -> Result<&FileEntry, Error> {
        self.check_name(name)?;
        let (bytes, sha256) =
            hash_file(&self.temp.path.join(name)).map_err(|e| Error::unwritable(&self.out.join(name), &e))?;
        Ok(self.add(FileEntry { name: name.into(), bytes, sha256 }))
    }

    /// Writes a model, with a data file beside it if its initializers are large.
    pub fn write_model(&mut self, name: &str, graph: &Graph, header: &Header) -> Result<(), Error> {
        self.check_name(name)?;
        let written = crate::onnx::write(&self.path(name), graph, header, DataFile::Auto).map_err(|e| match e {
            // The hidden folder is nothing that the user knows of.
            WriteError::Io { path, error } => {
                Error::unwritable(&self.out.join(path.file_name().unwrap_or_default()), &error)
            }
            e => e.into(),
        })?;
        for path in written {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.seal(&name)?;
        }
        Ok(())
    }

    fn add(&mut self, entry: FileEntry) -> &FileEntry {
        self.files.retain(|f| f.name != entry.name);
        self.files.push(entry);
        &self.files[self.files.len() - 1]
    }

    /// The files so far, in the order in which they were written.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// Writes the manifest over all files so far. It is the last file to be written.
    pub fn write_manifest(&mut self, mut manifest: Manifest) -> Result<(), Error> {
        manifest.files.clone_from(&self.files);
        self.write(MANIFEST, manifest.render().as_bytes())
    }

    /// Moves the files to where they belong, and removes those of an earlier bundle of this stem that were not replaced.
    /// Returns the paths of the files in the order in which they were written.
    pub fn commit(self) -> Result<Vec<PathBuf>, Error> {
        let Self { out, stem, mut temp, files, .. } = self;
        let paths: Vec<PathBuf> = files.iter().map(|f| out.join(&f.name)).collect();
        if !out.exists() {
            fs::rename(&temp.path, &out).map_err(|e| Error::unwritable(&out, &e))?;
            temp.keep();
            return Ok(paths);
        }
        let old = temp.path.join("old");
        fs::create_dir(&old).map_err(|e| Error::unwritable(&out, &e))?;
        let mut moves = Moves::default();
        let leaving = earlier_files(&out, &stem);
        for name in leaving.iter().chain(files.iter().map(|f| &f.name)) {
            let (from, to) = (out.join(name), old.join(name));
            if to.symlink_metadata().is_err() && from.symlink_metadata().is_ok() {
                moves.rename(&from, &to).map_err(|e| Error::unwritable(&from, &e))?;
            }
        }
        for f in &files {
            let to = out.join(&f.name);
            moves.rename(&temp.path.join(&f.name), &to).map_err(|e| Error::unwritable(&to, &e))?;
        }
        moves.done = true;
        Ok(paths)
    }
}

/// Renames that are taken back unless `done`.
#[derive(Debug, Default)]
struct Moves {
    made: Vec<(PathBuf, PathBuf)>,
    done: bool,
}

impl Moves {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if from.is_dir() || to.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder has this name"));
        }
        fs::rename(from, to)?;
        self.made.push((from.into(), to.into()));
        Ok(())
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        if !self.done {
            for (from, to) in self.made.iter().rev() {
                // Nothing better can be done about a rename that cannot be undone.
                let _ = fs::rename(to, from);
            }
        }
    }
}

/// A hidden folder that goes when it is dropped, with the parents that were made for it.
#[derive(Debug)]
struct Temp {
    path: PathBuf,
    /// Folders that were made, outermost first.
    made: Vec<PathBuf>,
}

impl Temp {
    fn create(place: &Path, made: Vec<PathBuf>) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut guard = Self { path: PathBuf::new(), made };
        loop {
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{PREFIX}{}-{n}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    guard.path = path;
                    return Ok(guard);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The folder is somewhere else now, and so are its parents of use.
    fn keep(&mut self) {
        self.path.clear();
        self.made.clear();
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.path);
        }
        for dir in self.made.iter().rev() {
            // Fails where somebody else has put a file meanwhile, and so it should.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Removes hidden folders that processes left which were killed.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else { continue };
        let gone = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
        if gone && entry.file_type().is_ok_and(|t| t.is_dir()) {
            // Another process may be sweeping too, or may not be allowed to.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Creates `dir` with its parents; returns those that were not there, outermost first.
fn create_folders(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<PathBuf> = dir
        .ancestors()
        .filter(|p| !p.as_os_str().is_empty())
        .take_while(|p| !p.exists())
        .map(Path::to_path_buf)
        .collect();
    let mut made = Temp { path: PathBuf::new(), made: vec![] };
    for p in missing.iter().rev() {
        match fs::create_dir(p) {
            Ok(()) => made.made.push(p.clone()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && p.is_dir() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(std::mem::take(&mut made.made))
}

/// Names of the files that the manifest in `out` lists, if it is one of this stem; itself included.
fn earlier_files(out: &Path, stem: &str) -> Vec<String> {
    let Ok(text) = fs::read_to_string(out.join(MANIFEST)) else { return vec![] };
    match serde_json::from_str::<Manifest>(&text) {
        Ok(m) if m.stem == stem => {
            let names = m.files.into_iter().map(|f| f.name).chain([MANIFEST.to_string()]);
            // The file may have been edited: only plain names of plain files are touched.
            names.filter(|n| check_name(n).is_ok() && out.join(n).is_file()).collect()
        }
        _ => vec![],
    }
}

/// A plain file name: no folder, no `..`.
fn check_name(name: &str) -> Result<(), Error> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(p)), None) if p == name => Ok(()),
        _ => Err(Error::input(format!("{name:?} cannot be the name of an output file"))),
    }
}

/// Length and SHA-256 of a file, read in pieces.
pub fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hex(&hash.finalize()))),
            n => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut s, b| {
        // Writing to a String cannot fail.
        let _ = write!(s, "{b:02x}");
        s
    })
}
