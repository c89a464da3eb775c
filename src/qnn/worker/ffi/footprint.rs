//! Keeps the worker small.
//!
//! The HTP library brings 5.4 MB of thread-local storage for each of its eleven emulation threads, written with zeros
//! before anybody needs them (60 MB in 2.47).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

const PAGE: usize = 4096;
/// Smaller anonymous mappings are left alone.
const LARGE: usize = 4 << 20;
static ZEROS: [u8; PAGE] = [0; PAGE];
/// Name of the worker's own thread that waits for the parent's end and touches nothing.
pub const WATCHER: &str = "qnnc-watcher";

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    start: usize,
    end: usize,
    perms: &'a str,
    path: &'a str,
}

fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let perms = words.next()?;
        let path = words.nth(3).unwrap_or_default();
        let address = |s| usize::from_str_radix(s, 16).ok();
        Some(Mapping { start: address(start)?, end: address(end)?, perms, path })
    })
}

fn advise_away(start: usize, len: usize) {
    // SAFETY: the callers only pass anonymous pages that are all zeros: they come back as they were.
    let _ = unsafe { madvise(start as *mut std::ffi::c_void, len, Advice::LinuxDontNeed) };
}

/// Gives back pages of zeros in large anonymous mappings, if all other threads of the process sleep until woken: then
/// nobody can write to a page between the look at it and its return.
pub fn drop_zero_pages() {
    if !wait_until_quiet() {
        return;
    }
    let Ok(text) = std::fs::read_to_string("/proc/self/maps") else { return };
    let Ok(pagemap) = File::open("/proc/self/pagemap") else { return };
    for m in mappings(&text).filter(|m| m.perms == "rw-p" && m.path.is_empty() && m.end - m.start >= LARGE) {
        let pages = (m.end - m.start) / PAGE;
        let mut entries = vec![0u8; pages * 8];
        if pagemap.read_exact_at(&mut entries, (m.start / PAGE * 8) as u64).is_err() {
            continue;
        }
        let mut run: Option<usize> = None;
        for page in 0..=pages {
            let zero =
                entries.get(page * 8..page * 8 + 8).is_some_and(|e| e[7] & 0x80 != 0 && is_zero(m.start + page * PAGE));
            match (zero, run) {
                (true, None) => run = Some(page),
                (false, Some(first)) => {
                    advise_away(m.start + first * PAGE, (page - first) * PAGE);
                    run = None;
                }
                _ => {}
            }
        }
    }
}

/// Is the resident page at this address all zeros?
fn is_zero(address: usize) -> bool {
    // SAFETY: the page is mapped readable and resident, and nobody writes to it meanwhile.
    let page = unsafe { std::slice::from_raw_parts(address as *const u8, PAGE) };
    page == ZEROS
}

/// Waits a little for [`quiet`].
fn wait_until_quiet() -> bool {
    for _ in 0..40 {
        if quiet() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    false
}

/// Do all other threads wait in a futex without a timeout?
fn quiet() -> bool {
    let me = std::fs::read_link("/proc/thread-self").ok();
    let me = me.as_deref().and_then(Path::file_name);
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    tasks.flatten().all(|task| {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        Some(task.file_name().as_os_str()) == me || read("comm").trim() == WATCHER || waits(&read("syscall"))
    })
}

/// Reads `/proc/.../syscall`: number, then arguments; the fourth of futex is its timeout.
fn waits(line: &str) -> bool {
    const FUTEX: &str = if cfg!(target_arch = "aarch64") { "98" } else { "202" };
    let mut words = line.split_ascii_whitespace();
    words.next() == Some(FUTEX) && words.nth(3) == Some("0x0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_are_told_from_others() {
        assert!(waits("202 0x7f1 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f2\n"));
        assert!(!waits("202 0x7f1 0x189 0x0 0x7ffe 0x0 0xffffffff 0x7ffc 0x7f2\n"));
        assert!(!waits("running\n") && !waits("") && !waits("230 0x0 0x0 0x0 0x0"));
    }

    #[test]
    fn maps_are_read() {
        let text = "7f00-8f00 r-xp 00001000 08:01 1234   /lib/x.so\n8f00-9f00 rw-p 00000000 00:00 0 \nnonsense\n";
        let all: Vec<_> = mappings(text).map(|m| (m.start, m.end, m.perms, m.path)).collect();
        assert_eq!(all, [(0x7f00, 0x8f00, "r-xp", "/lib/x.so"), (0x8f00, 0x9f00, "rw-p", "")]);
    }
}
