//! A socket between host and zygote: whole messages, and descriptors with them.
//!
//! Answers to: the pools of the tiers. Must not: be given to a process that runs guest code.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The most descriptors that come with one message.
const DESCRIPTORS: usize = 8;

/// The longest message that is read whole.
const LONGEST: usize = 4 << 10;

/// One end of the socket.
#[derive(Debug)]
pub struct Control(OwnedFd);

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What came: bytes and descriptors. No bytes: the other side is gone.
#[derive(Debug)]
pub struct Message {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What came with them.
    pub descriptors: Vec<OwnedFd>,
}

impl From<OwnedFd> for Control {
    /// The host's end of a socket that was made elsewhere.
    fn from(ours: OwnedFd) -> Self {
        Self(ours)
    }
}

impl Control {
    /// A new socket: the host's end, and the one to be given away.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(ours), theirs))
    }

    /// From now on nothing is waited for longer than this, neither to send nor to receive.
    pub fn be_patient_for(&self, patience: Duration) -> io::Result<()> {
        for way in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.0, way, Some(patience))?;
        }
        Ok(())
    }

    /// Sends one message.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for one message.
    pub fn receive(&self) -> io::Result<Message> {
        self.receive_by(RecvFlags::CMSG_CLOEXEC)
    }

    /// One message, where it is there already.
    pub fn receive_now(&self) -> io::Result<Option<Message>> {
        match self.receive_by(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received.map(Some),
        }
    }

    fn receive_by(&self, flags: RecvFlags) -> io::Result<Message> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; LONGEST];
        let message = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
        let descriptors = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(handles) => handles.collect(),
            _ => Vec::new(),
        });
        Ok(Message {
            descriptors: descriptors.collect(),
            bytes: bytes.get(..message.bytes).unwrap_or_default().to_vec(),
        })
    }
}
