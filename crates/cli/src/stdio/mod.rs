//! The engine's end of the Python package's protocol: frames over pipes or a unix socket.
//!
//! A frame is a length of 4 bytes, big endian, and one JSON object in UTF-8, at most 64 MiB. The client asks
//! (`id`, `method`, `params`), the engine answers (`id`, and `result` or `error`); while a run goes on, the engine
//! asks (`call`, `approve`) and tells (`event`) with the session's name, and the client answers (`answer`).
//!
//! Answers to: `ringfence stdio`. Must not: write anything but frames, or outlive its input: at its end every session
//! is destroyed. INVARIANT: reading never waits for writing, so that two full pipes can't hold each other up.

mod connection;
mod events;
mod fault;
mod frames;
mod listen;
mod open;
mod outbox;
mod pipes;
mod remote;
mod request;
mod work;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_session::Engine;
use tokio::io::{AsyncRead, AsyncWrite};

use connection::Connection;
pub use frames::FrameFault;
pub use listen::listen;
use outbox::Outbox;
pub use pipes::serve_stdio;

/// The version of the protocol.
pub const VERSION: u64 = 1;

/// How long the last frames may take to be read by a client that has closed its end.
const PATIENCE: Duration = Duration::from_millis(250);

/// Called with the engine when a client says hello.
pub type WarmUp = Arc<dyn Fn(&Engine) + Send + Sync>;

/// Gives the engine that records in the log that a policy names; one line where there is none.
pub type EngineForLog = Arc<dyn Fn(&Path) -> Result<Engine, String> + Send + Sync>;

/// What the front door may be given beside its engine.
#[derive(Clone, Default)]
pub struct Options {
    /// Gets workers ready before the first session needs one. It must not block.
    pub warm_up: Option<WarmUp>,
    /// Serves policies that name an audit log of their own; without it they are refused.
    pub engine_for_log: Option<EngineForLog>,
}

/// Why a connection ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client sent what is no frame.
    #[error("the client sent {0}")]
    Frame(#[from] FrameFault),
    /// The input can't be read.
    #[error("the client can't be read from: {0}")]
    Read(std::io::Error),
    /// The output can't be written.
    #[error("the client can't be written to: {0}")]
    Write(std::io::Error),
    /// The socket can't be listened at.
    #[error("can't listen at `{path}`: {why}")]
    Listen {
        /// Where.
        path: String,
        /// Why not, and the next step.
        why: String,
    },
}

/// Serves one client until its input ends, and destroys its sessions. Must be called within a tokio runtime.
pub async fn serve<R, W>(engine: Engine, input: R, output: W, options: Options) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (outbox, due) = Outbox::new();
    // Tasks of the runtime's own threads: whoever they wake runs next on the same thread.
    let mut writing = AbortOnDrop(tokio::spawn(outbox::write(output, due)));
    let mut reading = AbortOnDrop(tokio::spawn(Connection::serve(engine, input, outbox, options)));
    let read = (&mut reading.0).await.unwrap_or_else(|panic| Err(StdioError::Read(std::io::Error::other(panic))));
    match tokio::time::timeout(PATIENCE, &mut writing.0).await {
        Ok(Ok(Err(error))) if read.is_ok() && !is_gone(&error) => Err(StdioError::Write(error)),
        _ => read,
    }
}

/// A client that went away without a word is at its end, not at fault.
fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// A task that does not outlive whoever waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
