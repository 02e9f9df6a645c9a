//! Standard input and output as a client: pipes and sockets are waited for, not read by a thread.
//!
//! Answers to: `ringfence stdio`. Must not: let anything else reach standard output.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdStream;

use ringfence_session::Engine;
use rustix::stdio::{dup2_stdout, stderr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::{Options, StdioError, serve};

type Input = Box<dyn AsyncRead + Send + Unpin>;
type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Serves the client at standard input and output. From here on standard output goes where standard error goes: a
/// line that something prints must not get between the frames.
pub async fn serve_stdio(engine: Engine, options: Options) -> Result<(), StdioError> {
    let input = input().map_err(StdioError::Read)?;
    let output = output().map_err(StdioError::Write)?;
    serve(engine, input, output, options).await
}

/// What is at the other end of a descriptor.
enum Kind {
    Pipe,
    Socket,
    Other,
}

fn kind(fd: OwnedFd) -> io::Result<(Kind, OwnedFd)> {
    let file = File::from(fd);
    let kind = file.metadata()?.file_type();
    let kind = match (kind.is_fifo(), kind.is_socket()) {
        (true, _) => Kind::Pipe,
        (_, true) => Kind::Socket,
        _ => Kind::Other,
    };
    Ok((kind, file.into()))
}

fn input() -> io::Result<Input> {
    Ok(match kind(io::stdin().as_fd().try_clone_to_owned()?)? {
        (Kind::Pipe, fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        (Kind::Socket, fd) => Box::new(stream(fd)?),
        (Kind::Other, fd) => Box::new(tokio::fs::File::from_std(fd.into())),
    })
}

fn output() -> io::Result<Output> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(stderr())?;
    Ok(match kind(fd)? {
        (Kind::Pipe, fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        (Kind::Socket, fd) => Box::new(stream(fd)?),
        (Kind::Other, fd) => Box::new(tokio::fs::File::from_std(fd.into())),
    })
}

fn stream(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
