//! Where a cell's connections come in, and a serving that ends at once.
//!
//! Answers to: `proxy`, and whoever opens a cell. Must not: look at a byte.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;

/// Where a cell's connections come in.
pub trait Listen: Send + Sync + 'static {
    /// One connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one. Nothing is lost where the future is dropped.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        Ok(Self::accept(self).await?.0)
    }
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = Self::accept(self).await?;
        // WHY: small answers must not wait for an acknowledgement. One that is gone already fails at its first read.
        drop(stream.set_nodelay(true));
        Ok(stream)
    }
}

type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until it is dropped; by then every connection is closed and its end is told.
#[must_use = "dropping it ends the serving"]
pub struct Serving {
    /// Shared with the task that drives it, so that dropping does not have to wait for the task.
    served: Arc<Mutex<Option<Served>>>,
    task: AbortHandle,
}

impl Serving {
    pub(crate) fn spawn(served: impl Future<Output = ()> + Send + 'static) -> Self {
        let served: Arc<Mutex<Option<Served>>> = Arc::new(Mutex::new(Some(Box::pin(served))));
        let driven = Arc::clone(&served);
        let task = tokio::spawn(poll_fn(move |cx| match locked(&driven).as_mut() {
            Some(served) => served.as_mut().poll(cx),
            None => Poll::Ready(()),
        }));
        Self { served, task: task.abort_handle() }
    }
}

fn locked(served: &Mutex<Option<Served>>) -> MutexGuard<'_, Option<Served>> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let served = locked(&self.served).take();
        drop(served);
        self.task.abort();
    }
}
