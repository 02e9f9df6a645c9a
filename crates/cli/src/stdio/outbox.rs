//! What is due to the client, and the one task that writes it.
//!
//! Answers to: everyone who has something to say. Must not: make anyone wait; what is due is bounded by what its
//! senders may say (the output limit of a run, one answer for a request).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::fault::Fault;
use super::frames::{FrameFault, pack};

/// How many frames go into one write.
const BATCH: usize = 64;

/// Takes frames for the client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox {
    frames: UnboundedSender<Vec<u8>>,
    shut: Arc<AtomicBool>,
}

impl Outbox {
    /// An outbox, and what is due from it, for [`write`].
    pub fn new() -> (Self, UnboundedReceiver<Vec<u8>>) {
        let (frames, due) = unbounded_channel();
        (Self { frames, shut: Arc::default() }, due)
    }

    /// Sends a frame. Where nobody reads any more that is the connection's end, which others notice.
    pub fn send(&self, message: &impl Serialize) -> Result<(), FrameFault> {
        if !self.shut.load(Ordering::Acquire) {
            let _ = self.frames.send(pack(message)?);
        }
        Ok(())
    }

    /// Nothing more is sent: what is still under way has no one to be told.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    /// Waits until nothing can be written any more.
    pub async fn broken(&self) {
        self.frames.closed().await;
    }
}

/// Writes what is due until nobody can send any more; what came together goes out together.
pub(super) async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut due: UnboundedReceiver<Vec<u8>>,
) -> std::io::Result<()> {
    let mut batch = Vec::new();
    while due.recv_many(&mut batch, BATCH).await > 0 {
        match batch.as_slice() {
            [only] => output.write_all(only).await?,
            many => output.write_all(&many.concat()).await?,
        }
        output.flush().await?;
        batch.clear();
    }
    Ok(())
}

#[derive(Serialize)]
struct Answer<'a, T> {
    id: u64,
    result: &'a T,
}

#[derive(Serialize)]
struct Refusal<'a> {
    id: Option<u64>,
    error: &'a Fault,
}

/// The answer that is owed to one request. Dropped without one, it says so.
pub(super) struct Reply {
    id: u64,
    outbox: Outbox,
    owed: bool,
}

impl Reply {
    pub fn new(id: u64, outbox: Outbox) -> Self {
        Self { id, outbox, owed: true }
    }

    /// Answers with a result, which must be an object.
    pub fn result(mut self, result: &impl Serialize) {
        self.owed = false;
        if let Err(fault) = self.outbox.send(&Answer { id: self.id, result }) {
            self.refuse(&Fault::request(format!("the answer is {fault}")).hint("ask for less at once"));
        }
    }

    /// Answers with an error.
    pub fn fault(mut self, fault: &Fault) {
        self.owed = false;
        self.refuse(fault);
    }

    /// Answers with whichever it is.
    pub fn with(self, result: Result<impl Serialize, Fault>) {
        match result {
            Ok(result) => self.result(&result),
            Err(fault) => self.fault(&fault),
        }
    }

    fn refuse(&self, error: &Fault) {
        // A fault is a few lines, which fit a frame.
        let _ = self.outbox.send(&Refusal { id: Some(self.id), error });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.owed {
            self.refuse(&Fault::internal("the request was given up by a fault of the engine"));
        }
    }
}

/// Tells the client why the connection ends; the last frame.
pub(super) fn say_why(outbox: &Outbox, fault: &FrameFault) {
    let error = Fault::request(format!("the client sent {fault}"));
    let _ = outbox.send(&Refusal { id: None, error: &error });
}
