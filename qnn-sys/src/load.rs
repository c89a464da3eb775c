//! Opening a library and choosing its function table by version.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use crate::bindings::{
    Qnn_ErrorHandle_t, Qnn_Version_t, QnnInterface_Provider_t, QnnInterface_Table_t, QnnSystemInterface_Provider_t,
    QnnSystemInterface_Table_t,
};

/// Entries of the table up to core API 2.38; from 2.39 on it has [`ENTRIES`].
const ENTRIES_BEFORE_2_39: usize = 72;
/// Entries that `qnn.h` describes.
const ENTRIES: usize = size_of::<QnnInterface_Table_t>() / size_of::<usize>();
/// Where the table begins, from the start of the provider.
const TABLE_OFFSET: usize = size_of::<QnnInterface_Provider_t>();
/// Core API minor versions that were tried, all of major version 2.
const KNOWN_MINORS: std::ops::RangeInclusive<u32> = 36..=40;

/// A version as the libraries give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<Qnn_Version_t> for Version {
    fn from(v: Qnn_Version_t) -> Self {
        Self { major: v.major, minor: v.minor, patch: v.patch }
    }
}

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{} does not exist; install the runtime with `qnnc sdk install`, or point QNN_SDK_ROOT at one", .path.display())]
    Missing { path: PathBuf },
    #[error("{} cannot be loaded: {detail}; check that it is an x86_64 Linux library and that its folder is complete", .path.display())]
    Unloadable { path: PathBuf, detail: String },
    #[error("{} is not a QNN library: it has no {symbol}", .path.display())]
    NotQnn { path: PathBuf, symbol: &'static str },
    #[error("{} offers no QNN interface (it answered {code}, {count} providers)", .path.display())]
    NoProvider { path: PathBuf, code: u64, count: u32 },
    #[error(
        "{} has QNN core API {found}; this qnnc works with 2.36 to 2.40 (QAIRT 2.47 to 2.51): install one of these with `qnnc sdk install`",
        .path.display()
    )]
    Version { path: PathBuf, found: Version },
}

/// The loaded library of a backend. It stays loaded until the process ends: unloading is not safe with its threads.
#[derive(Debug)]
pub struct Interface {
    table: QnnInterface_Table_t,
    pub backend_id: u32,
    pub provider: String,
    pub core: Version,
    pub backend: Version,
}

impl Interface {
    /// Opens the backend library at `path`.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: the symbol has this type in every QNN backend library.
        let (library, first) = unsafe { first_provider::<QnnInterface_Provider_t>(path, "QnnInterface_getProviders")? };
        // SAFETY: the provider lives as long as the library; these members have not moved since 2.7.
        let head = unsafe { *first };
        let core = Version::from(head.apiVersion.coreApiVersion);
        if core.major != 2 || !KNOWN_MINORS.contains(&core.minor) {
            return Err(LoadError::Version { path: path.into(), found: core });
        }
        let entries = if core.minor < 39 { ENTRIES_BEFORE_2_39 } else { ENTRIES };
        // SAFETY: the table of this version has `entries` pointers at this offset; NULL entries become `None`, and so do
        // the ones that it does not have. `library` is leaked below, so the functions stay mapped.
        let table = unsafe {
            let mut table: QnnInterface_Table_t = std::mem::zeroed();
            std::ptr::copy_nonoverlapping(
                first.cast::<u8>().add(TABLE_OFFSET),
                (&raw mut table).cast::<u8>(),
                entries * size_of::<usize>(),
            );
            table
        };
        let provider = text(head.providerName);
        std::mem::forget(library);
        Ok(Self {
            table,
            backend_id: head.backendId,
            provider,
            core,
            backend: Version::from(head.apiVersion.backendApiVersion),
        })
    }

    pub fn table(&self) -> &QnnInterface_Table_t {
        &self.table
    }
}

/// The loaded libQnnSystem.
#[derive(Debug)]
pub struct SystemInterface {
    table: QnnSystemInterface_Table_t,
    pub version: Version,
}

impl SystemInterface {
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: the symbol has this type in every libQnnSystem.
        let (library, provider) =
            unsafe { first_provider::<QnnSystemInterface_Provider_t>(path, "QnnSystemInterface_getProviders")? };
        // SAFETY: the provider lives as long as the library; the first eight entries of the table exist in every version
        // from 1.11 on.
        let (version, table) = unsafe { (Version::from((*provider).systemApiVersion), (*provider).table) };
        if version.major != 1 || version.minor < 11 {
            return Err(LoadError::Version { path: path.into(), found: version });
        }
        std::mem::forget(library);
        Ok(Self { table, version })
    }

    pub fn table(&self) -> &QnnSystemInterface_Table_t {
        &self.table
    }
}

/// Opens the library at `path` and asks its function `symbol` for its providers: the first of them, never NULL. It lives
/// as long as the library.
///
/// # Safety
/// The function must take a list of providers of type `P` and their number to fill in, and return an error code.
unsafe fn first_provider<P>(
    path: &Path,
    symbol: &'static str,
) -> Result<(libloading::os::unix::Library, *const P), LoadError> {
    type GetProviders<P> = Option<unsafe extern "C" fn(*mut *mut *const P, *mut u32) -> Qnn_ErrorHandle_t>;
    let library = open(path)?;
    // SAFETY: the caller says that this is the symbol's type.
    let get = unsafe { library.get::<GetProviders<P>>(symbol.as_bytes()) }
        .map_err(|_| LoadError::NotQnn { path: path.into(), symbol })?;
    let absent = |code, count| LoadError::NoProvider { path: path.into(), code, count };
    let get = (*get).ok_or_else(|| absent(0, 0))?;
    let (mut list, mut count) = (std::ptr::null_mut(), 0u32);
    // SAFETY: both pointers are to live locals.
    let code = unsafe { get(&raw mut list, &raw mut count) };
    if code != 0 || count == 0 || list.is_null() {
        return Err(absent(code, count));
    }
    // SAFETY: the list has `count` pointers to providers.
    let first = unsafe { *list };
    if first.is_null() {
        return Err(absent(code, count));
    }
    Ok((library, first))
}

fn open(path: &Path) -> Result<libloading::os::unix::Library, LoadError> {
    use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
    if !path.is_file() {
        return Err(LoadError::Missing { path: path.into() });
    }
    // SAFETY: its initialisers run in the worker process, which exists to contain them.
    unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.map_err(|e| LoadError::Unloadable {
        path: path.into(),
        detail: std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string),
    })
}

/// A copy of a C string; empty for NULL.
fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the library hands out NUL-terminated names.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
