//! A session's own network: loopback, and one listener on it that only the host gets.
//!
//! Answers to: `init`, inside a place whose network namespace is new and empty. Must not: accept a connection, or carry
//! a byte of one: whoever has the listener does, and that is the host's proxy.
//! INVARIANT: no session's process ever holds the listener or the line, and nothing else leads out of the namespace.

use std::fs::{Permissions, set_permissions};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use ringfence_wire::jail::TRUSTED;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::{Failed, Step, sys};
use crate::message;

/// Connections that wait to be accepted; what is more waits in its program.
const WAITING: i32 = 64;
/// The most bytes of certificates.
const MOST: u64 = 4 << 20;

/// A new line between host and place: the host's end, and the place's.
pub fn line() -> Result<(OwnedFd, OwnedFd), Failed> {
    UnixStream::pair().map(|(host, place)| (host.into(), place.into())).step(|| "no socket".into())
}

/// Puts the namespace's loopback up, and listens there.
pub fn listener(port: u16) -> Result<OwnedFd, Failed> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .map_err(std::io::Error::from)
        .step(|| "no socket".into())?;
    sys::put_loopback_up(socket.as_fd()).step(|| "the session's loopback can't be put up".into())?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
        .and_then(|()| listen(&socket, WAITING))
        .map_err(std::io::Error::from)
        .step(|| "the session's way out can't be opened".into())?;
    Ok(socket)
}

/// Answers the host's one question on the line: certificates come, and the listener goes. Closes every other descriptor.
pub fn hand_over(line: OwnedFd, listener: OwnedFd) {
    let Ok([line, listener]) = sys::keep_two(line, listener) else { return };
    let mut line = UnixStream::from(line);
    let mut trusted = Vec::new();
    if Read::by_ref(&mut line).take(MOST).read_to_end(&mut trusted).is_err() || trusted.is_empty() {
        return;
    }
    let written =
        std::fs::write(TRUSTED, &trusted).and_then(|()| set_permissions(TRUSTED, Permissions::from_mode(0o444)));
    let _ = match written {
        Ok(()) => message::send(line.as_fd(), b"open", &[listener.as_fd()]),
        Err(error) => message::send(line.as_fd(), format!("certificates can't be written: {error}").as_bytes(), &[]),
    };
}
