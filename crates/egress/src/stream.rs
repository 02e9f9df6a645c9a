//! Streams that count, that end when idle, and that give back bytes already read.
//!
//! Answers to: `dial`, `proxy` and `tunnel`. Must not: look at a byte.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::{Hooks, Traffic};
use crate::refusal::Refusal;

/// Bytes of one connection and of the whole cell.
pub(crate) struct Meter {
    up: AtomicU64,
    down: AtomicU64,
    total: Arc<Totals>,
    hooks: Arc<dyn Hooks>,
    fault: OnceLock<Refusal>,
}

/// Bytes of the whole cell.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    up: AtomicU64,
    down: AtomicU64,
}

impl Totals {
    pub(crate) fn read(&self) -> Traffic {
        Traffic { up: self.up.load(Ordering::Relaxed), down: self.down.load(Ordering::Relaxed) }
    }
}

impl Meter {
    pub(crate) fn new(total: Arc<Totals>, hooks: Arc<dyn Hooks>) -> Arc<Self> {
        Arc::new(Self { up: AtomicU64::new(0), down: AtomicU64::new(0), total, hooks, fault: OnceLock::new() })
    }
    pub(crate) fn read(&self) -> Traffic {
        Traffic { up: self.up.load(Ordering::Relaxed), down: self.down.load(Ordering::Relaxed) }
    }
    /// Why the connection was ended by a bound, if it was.
    pub(crate) fn fault(&self) -> Option<Refusal> {
        self.fault.get().cloned()
    }
    fn count(&self, up: usize, down: usize) -> io::Result<()> {
        let (up, down) = (up as u64, down as u64);
        self.up.fetch_add(up, Ordering::Relaxed);
        self.down.fetch_add(down, Ordering::Relaxed);
        self.total.up.fetch_add(up, Ordering::Relaxed);
        self.total.down.fetch_add(down, Ordering::Relaxed);
        if self.hooks.allow_traffic(self.total.read()) {
            return Ok(());
        }
        Err(self.fail(Refusal::Traffic, io::ErrorKind::QuotaExceeded))
    }
    fn fail(&self, refusal: Refusal, kind: io::ErrorKind) -> io::Error {
        drop(self.fault.set(refusal));
        kind.into()
    }
}

/// A stream that ends when no byte moves for too long; one with a meter counts too.
pub(crate) struct Guarded<S> {
    inner: S,
    meter: Option<Arc<Meter>>,
    idle: Duration,
    moved: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, idle: Duration, meter: Option<Arc<Meter>>) -> Self {
        Self { inner, meter, idle, moved: Instant::now(), alarm: Box::pin(sleep(idle)) }
    }

    fn count(&mut self, up: usize, down: usize) -> io::Result<()> {
        self.moved = Instant::now();
        self.meter.as_ref().map_or(Ok(()), |meter| meter.count(up, down))
    }

    /// Wakes the task when the stream has been idle for too long, and says so then.
    fn watch(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let end = self.moved + self.idle;
            if end <= Instant::now() {
                let kind = io::ErrorKind::TimedOut;
                return Poll::Ready(match &self.meter {
                    Some(meter) => meter.fail(Refusal::Idle, kind),
                    None => kind.into(),
                });
            }
            // Bytes moved since it was set.
            self.alarm.as_mut().reset(end);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.inner).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(this.count(0, buf.filled().len() - before)),
            Poll::Ready(Err(fault)) => Poll::Ready(Err(fault)),
            Poll::Pending => this.watch(cx).map(Err),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.inner).poll_write(cx, bytes) {
            Poll::Ready(Ok(count)) => Poll::Ready(this.count(count, 0).map(|()| count)),
            Poll::Ready(Err(fault)) => Poll::Ready(Err(fault)),
            Poll::Pending => this.watch(cx).map(Err),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

/// A stream that first gives what was already read from it.
pub(crate) struct Rewound<S> {
    read: Bytes,
    inner: S,
}

impl<S> Rewound<S> {
    pub(crate) fn new(read: Bytes, inner: S) -> Self {
        Self { read, inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        let count = this.read.len().min(buf.remaining());
        buf.put_slice(this.read.get(..count).unwrap_or_default());
        this.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
