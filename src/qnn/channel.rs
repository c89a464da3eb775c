//! How messages travel between the parent and the worker.
//!
//! A frame is a header of 8 bytes (magic, number of attached files, payload length), then the payload in postcard form.
//! Files are attached to the header (`SCM_RIGHTS`). A payload over [`INLINE`] bytes lies in the last attached file, so
//! that the sender never waits for a reader that is still loading a library.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest payload that goes through the socket itself.
const INLINE: usize = 64 << 10;
/// Largest payload at all; a longer one is garbage.
const LIMIT: usize = 1 << 30;
/// Most files that one frame can carry.
pub const MAX_FILES: usize = 200;
const MAGIC: [u8; 2] = *b"qW";
/// Set in the file count when the payload lies in the last file.
const IN_FILE: u16 = 0x8000;

/// An anonymous file in memory.
pub fn memory_file(name: &str) -> io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Sends a message with files attached.
pub fn send<T: Serialize>(socket: &UnixStream, message: &T, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let payload = postcard::to_stdvec(message).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let large = if payload.len() > INLINE {
        let file = memory_file("qnnc-message")?;
        file.write_all_at(&payload, 0)?;
        Some(file)
    } else {
        None
    };
    let mut files = files.to_vec();
    files.extend(large.as_ref().map(AsFd::as_fd));
    if files.len() > MAX_FILES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} files in one message", files.len())));
    }
    let count = files.len() as u16 | if large.is_some() { IN_FILE } else { 0 };
    let mut header = [0u8; 8];
    header[..2].copy_from_slice(&MAGIC);
    header[2..4].copy_from_slice(&count.to_le_bytes());
    header[4..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("too many files in one message"));
    }
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[io::IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    let mut writer = socket;
    writer.write_all(&header[sent..])?;
    if large.is_none() {
        writer.write_all(&payload)?;
    }
    Ok(())
}

/// Receives a message and its files. `UnexpectedEof` when the other side is gone, `InvalidData` when what came is not a
/// message, `WouldBlock` when nothing came before the socket's read timeout.
pub fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut header = [0u8; 8];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [io::IoSliceMut::new(&mut header)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds);
        }
    }
    read_all(socket, &mut header[got.bytes..])?;
    let count = u16::from_le_bytes([header[2], header[3]]);
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if header[..2] != MAGIC || len > LIMIT || files.len() != (count & !IN_FILE) as usize {
        return Err(bad(format!("{:?} is not the header of a message", String::from_utf8_lossy(&header))));
    }
    let mut payload = vec![0; len];
    if count & IN_FILE == 0 {
        read_all(socket, &mut payload)?;
    } else {
        let file = files.pop().ok_or_else(|| bad("a message without its file".into()))?;
        std::fs::File::from(file).read_exact_at(&mut payload, 0)?;
    }
    let message = postcard::from_bytes(&payload).map_err(|e| bad(format!("a message that cannot be read: {e}")))?;
    Ok((message, files))
}

/// As `read_exact`, but a timeout inside a message is not the same as none having come.
fn read_all(mut socket: &UnixStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    let mut patience = 300;
    while at < buffer.len() {
        match socket.read(&mut buffer[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && patience > 0 => patience -= 1,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "half a message"));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_files_arrive() {
        let (a, b) = UnixStream::pair().unwrap();
        let file = memory_file("test").unwrap();
        file.write_all_at(b"weights", 0).unwrap();
        for size in [0, INLINE * 3] {
            let sent = vec![7u8; size];
            send(&a, &sent, &[file.as_fd()]).unwrap();
            let (got, files): (Vec<u8>, _) = receive(&b).unwrap();
            assert_eq!(got, sent);
            let mut text = [0; 7];
            std::fs::File::from(files.into_iter().next().unwrap()).read_exact_at(&mut text, 0).unwrap();
            assert_eq!(&text, b"weights");
        }
    }

    #[test]
    fn garbage_is_not_a_message() {
        let (a, b) = UnixStream::pair().unwrap();
        (&a).write_all(b"hello, world: not a frame").unwrap();
        let error = receive::<Vec<u8>>(&b).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(a);
    }
}
