//! Calls that are under way in the Python process, by number, and the host functions that make them.
//!
//! Answers to: `exports`. Must not: mix answers up, or leave a caller waiting when the process is gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_bridge::{Boxed, HostError, HostFunction, Permitted};
use ringfence_types::json::{from_json, to_json};
use ringfence_types::{FunctionSpec, Value};
use serde_json::{Map, Value as Json, json};
use tokio::sync::{mpsc, oneshot};

use crate::exports::frames::FRAME_MAX;

type Answer = Result<Value, HostError>;

/// Who waits for which answer.
pub struct Switchboard {
    calls: mpsc::UnboundedSender<Vec<u8>>,
    next: AtomicU64,
    /// `None` once the process is gone.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
}

impl Switchboard {
    /// A board that hands calls to `calls`.
    pub fn new(calls: mpsc::UnboundedSender<Vec<u8>>) -> Self {
        Self { calls, next: AtomicU64::new(1), waiting: Mutex::new(Some(HashMap::new())) }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Answer>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer in. One that nobody waits for any more is dropped.
    pub fn answered(&self, frame: &Json) {
        let Some(number) = frame.get("answer").and_then(Json::as_u64) else { return };
        let waiter = self.waiting().as_mut().and_then(|waiting| waiting.remove(&number));
        if let Some(waiter) = waiter {
            // The caller may have given up.
            let _ = waiter.send(answer(frame));
        }
    }

    /// The process is gone: nobody waits any longer.
    pub fn hang_up(&self) {
        self.waiting().take();
    }

    async fn call(&self, function: &str, args: &[Value], kwargs: &[(String, Value)]) -> Answer {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let kwargs: Map<String, Json> = kwargs.iter().map(|(name, value)| (name.clone(), to_json(value))).collect();
        let args: Vec<Json> = args.iter().map(to_json).collect();
        let frame = json!({"call": number, "function": function, "args": args, "kwargs": kwargs}).to_string();
        if frame.len() > FRAME_MAX {
            return Err(HostError::public("ValueError", "the arguments are too large"));
        }
        let (sender, receiver) = oneshot::channel();
        match self.waiting().as_mut() {
            Some(waiting) => waiting.insert(number, sender),
            None => return Err(gone()),
        };
        let _forget = Forget { board: self, number };
        self.calls.send(frame.into_bytes()).map_err(|_| gone())?;
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Takes a caller that gave up off the board.
struct Forget<'a> {
    board: &'a Switchboard,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.board.waiting().as_mut() {
            waiting.remove(&self.number);
        }
    }
}

fn gone() -> HostError {
    HostError::public("RuntimeError", "the process of the host functions has ended")
}

/// The package sends only messages that are safe to show.
fn answer(frame: &Json) -> Answer {
    if let Some(error) = frame.get("error") {
        let text = |key: &str| error.get(key).and_then(Json::as_str);
        let kind = text("type").unwrap_or("RuntimeError");
        return Err(match text("message") {
            Some(message) => HostError::public(kind, message),
            None => HostError::hidden(kind),
        });
    }
    let value = frame.get("value").unwrap_or(&Json::Null);
    from_json(value, "result").map_err(|_| HostError::public("TypeError", "the result is not plain data"))
}

/// One function of the file.
pub struct Exported {
    spec: FunctionSpec,
    board: Arc<Switchboard>,
}

impl Exported {
    /// The function that this declares.
    pub fn new(spec: FunctionSpec, board: Arc<Switchboard>) -> Self {
        Self { spec, board }
    }
}

impl HostFunction for Exported {
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }

    fn call(&self, call: Permitted) -> Boxed<'_, Result<Value, HostError>> {
        Box::pin(async move {
            let function = call.function().to_owned();
            let (args, kwargs) = call.into_python();
            self.board.call(&function, &args, &kwargs).await
        })
    }
}
