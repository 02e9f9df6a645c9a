//! Descriptors by a worker's own socket, and who sent the first bytes on a new one, as the kernel tells it.
//!
//! Answers to: tiers whose workers fork. Must not: believe what a worker says of itself, or wait.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// The most descriptors at once.
const DESCRIPTORS: usize = 3;

/// The longest greeting: what is said instead of one, and why.
const LONGEST: usize = 1 << 10;

/// What came first on a new socket.
#[derive(Debug)]
pub struct Greeting {
    /// The bytes; none where the other side is gone.
    pub bytes: Vec<u8>,
    /// The process that sent them, as numbered here.
    pub sender: Option<i32>,
}

/// Sends one byte, with descriptors where there are any.
pub(crate) fn lend(socket: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// From now on the kernel tells with all that comes by this socket who sent it.
pub fn tell_senders(socket: &UnixStream, tell: bool) -> io::Result<()> {
    Ok(set_socket_passcred(socket.as_fd(), tell)?)
}

/// What is there, without waiting; `None`: nothing yet. Descriptors that come with it are closed.
pub fn greeting(socket: &UnixStream) -> io::Result<Option<Greeting>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = [0; LONGEST];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let count = match recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, flags) {
        Ok(message) => message.bytes,
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get()),
        _ => None,
    });
    Ok(Some(Greeting { bytes: buffer.get(..count).unwrap_or_default().to_vec(), sender }))
}
