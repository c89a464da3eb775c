//! What can be said about a library without loading it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Is this a 64-bit x86 shared object? Else what it is.
pub(crate) fn check_elf(path: &Path) -> Result<(), String> {
    let mut head = [0u8; 20];
    File::open(path).and_then(|mut f| f.read_exact(&mut head)).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => "is cut short".to_owned(),
        _ => format!("cannot be read ({})", crate::error::reason(&e)),
    })?;
    let machine = u16::from_le_bytes([head[18], head[19]]);
    match head {
        [0x7f, b'E', b'L', b'F', 2, ..] if machine == 62 => Ok(()),
        [0x7f, b'E', b'L', b'F', ..] => Err("is for another processor".to_owned()),
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', ..] => Err("is a Git LFS pointer, not a library".to_owned()),
        _ => Err("is not a library".to_owned()),
    }
}

/// The build id, such as `2.47.0.260601114230`, that QAIRT libraries carry as a string.
pub(crate) fn build_id(path: &Path) -> Option<String> {
    const CHUNK: usize = 1 << 20;
    const KEEP: usize = 64;
    let mut file = File::open(path).ok()?;
    let mut buffer = Vec::with_capacity(CHUNK + KEEP);
    loop {
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut buffer).ok()?;
        if let Some(id) = build_id_in(&buffer) {
            return Some(id);
        }
        if read == 0 {
            return None;
        }
        let cut = buffer.len().saturating_sub(KEEP);
        buffer.drain(..cut);
    }
}

/// The first `v2.<minor>.<patch>.<build>` with a zero byte before and after.
fn build_id_in(bytes: &[u8]) -> Option<String> {
    bytes.windows(4).enumerate().filter(|(_, w)| *w == b"\0v2.").find_map(|(at, _)| {
        let rest = bytes.get(at + 2..)?;
        let len = rest.iter().take(40).position(|&b| b == 0)?;
        let text = std::str::from_utf8(rest.get(..len)?).ok()?;
        let parts: Vec<&str> = text.split('.').collect();
        let numbers = parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
        (parts.len() == 4 && numbers).then(|| text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_build_id() {
        assert_eq!(build_id_in(b"x\0v2.47.0.260601114230\0y").as_deref(), Some("2.47.0.260601114230"));
        assert_eq!(build_id_in(b"\0v2.47.0.26060_x\0\0v2.x"), None);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        let mut bytes = vec![1u8; (1 << 20) - 5];
        bytes.extend_from_slice(b"\0v2.51.0.123456\0");
        bytes.extend(vec![1u8; 100]);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(build_id(&path).as_deref(), Some("2.51.0.123456"));
    }

    #[test]
    fn knows_what_is_no_library() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lib.so");
        std::fs::write(&path, "version https://git-lfs.github.com/spec/v1").unwrap();
        assert_eq!(check_elf(&path), Err("is a Git LFS pointer, not a library".into()));
        std::fs::write(&path, "short").unwrap();
        assert_eq!(check_elf(&path), Err("is cut short".into()));
        assert_eq!(check_elf(&std::env::current_exe().unwrap()), Ok(()));
    }
}
