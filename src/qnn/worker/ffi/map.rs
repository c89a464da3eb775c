//! Mappings of weights and of the output file. Pages leave memory as soon as a mapping is dropped.

use std::fs::File;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::mm::{Advice, madvise};

/// A part of a file, read only.
#[derive(Debug)]
pub struct Mapped {
    map: Option<Mmap>,
}

impl Mapped {
    /// Maps `len` bytes from `offset`; they must lie inside the file.
    pub fn part(file: &File, offset: u64, len: u64) -> io::Result<Self> {
        let end = offset.checked_add(len).filter(|&end| file.metadata().is_ok_and(|m| end <= m.len()));
        if end.is_none() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was"));
        }
        if len == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: nobody writes to the parent's weights any more once they are sent; a user who truncates the model
        // meanwhile gets a worker that dies of SIGBUS, which the parent reports.
        let map = unsafe { MmapOptions::new().offset(offset).len(len as usize).map(file)? };
        let _ = map.advise(memmap2::Advice::Sequential);
        Ok(Self { map: Some(map) })
    }

    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

/// A whole file, written through the mapping.
#[derive(Debug)]
pub struct MappedMut {
    map: MmapMut,
}

impl MappedMut {
    /// Makes the file `len` bytes long and maps it. The room is taken now: on a full disk a write through the mapping
    /// would end the process.
    pub fn whole(file: &File, len: u64) -> io::Result<Self> {
        file.set_len(len)?;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            // Some network file systems cannot say.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(e) => return Err(e.into()),
        }
        // SAFETY: the file was made for this; nobody else has it open for writing.
        Ok(Self { map: unsafe { MmapOptions::new().len(len as usize).map_mut(file)? } })
    }

    /// Runs `fill` on the bytes, and meanwhile keeps what was written out of this process's memory: it is in the file.
    pub fn fill<T>(&mut self, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        const PAUSE: Duration = Duration::from_millis(5);
        let (start, len) = (self.map.as_mut_ptr() as usize, self.map.len());
        let (done, finished) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while finished.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // SAFETY: the mapping is shared with the file and outlives this scope; dropped pages come back
                    // from the file as they were written.
                    let _ = unsafe { madvise(start as *mut _, len, Advice::LinuxDontNeed) };
                }
            });
            let result = fill(&mut self.map);
            drop(done);
            result
        })
    }
}

/// Gives the memory of `len` bytes at `offset` of a memory file back to the system; they are not needed any more.
pub fn punch(file: &File, offset: u64, len: u64) {
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let _ = rustix::fs::fallocate(file, flags, offset, len);
}
