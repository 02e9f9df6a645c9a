//! Host functions and approvals whose body is the client's: asked by a frame, answered by a frame.
//!
//! Answers to: the bridge, which calls them. Must not: wait for an answer that nobody wants any more: what was given
//! up is forgotten, and an answer to it is ignored.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ringfence_bridge::{ApprovalRequest, Approve, Boxed, HostError, HostFunction, Permitted, Verdict};
use ringfence_types::json::{from_json, to_json};
use ringfence_types::{FunctionSpec, Value};
use serde::Serialize;
use serde_json::Value as Json;
use tokio::sync::oneshot;

use super::frames::Object;
use super::outbox::Outbox;

/// The questions of one connection that the client has not answered yet.
#[derive(Default)]
pub(super) struct Questions {
    last: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Object>>>,
}

impl Questions {
    /// Takes an answer in. One to nothing is ignored: the call may have ended meanwhile.
    pub fn answered(&self, number: u64, body: Object) {
        if let Some(asker) = self.forget(number) {
            let _ = asker.send(body);
        }
    }

    fn ask(self: &Arc<Self>) -> Question {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, sender);
        Question { questions: Arc::clone(self), number, answer }
    }

    fn forget(&self, number: u64) -> Option<oneshot::Sender<Object>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

/// One question. Dropped, it is forgotten.
struct Question {
    questions: Arc<Questions>,
    number: u64,
    answer: oneshot::Receiver<Object>,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.questions.forget(self.number);
    }
}

/// One session's way to ask its client.
pub(super) struct Link {
    questions: Arc<Questions>,
    outbox: Outbox,
    session: OnceLock<String>,
}

#[derive(Serialize)]
struct CallFrame<'a> {
    call: u64,
    session: &'a str,
    function: &'a str,
    args: Vec<Json>,
    kwargs: Object,
}

#[derive(Serialize)]
struct ApproveFrame<'a> {
    approve: u64,
    session: &'a str,
    function: &'a str,
    arguments: Object,
}

impl Link {
    pub fn new(questions: Arc<Questions>, outbox: Outbox) -> Arc<Self> {
        Arc::new(Self { questions, outbox, session: OnceLock::new() })
    }

    /// Gives the link the name of its session, which exists only after its functions.
    pub fn belongs_to(&self, session: &str) {
        self.session.get_or_init(|| session.to_owned());
    }

    pub fn session(&self) -> &str {
        self.session.get().map_or("", String::as_str)
    }

    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    async fn call(&self, call: Permitted) -> Result<Value, HostError> {
        let mut question = self.questions.ask();
        let function = call.function().to_owned();
        let (args, kwargs) = call.into_python();
        let frame = CallFrame {
            call: question.number,
            session: self.session(),
            function: &function,
            args: args.iter().map(to_json).collect(),
            kwargs: object(&kwargs),
        };
        self.outbox.send(&frame).map_err(|_| HostError::public("ValueError", "the arguments are too large"))?;
        let answer = (&mut question.answer).await.map_err(|_| HostError::hidden("ConnectionError"))?;
        result(&answer)
    }

    async fn approve(&self, request: ApprovalRequest) -> Verdict {
        let mut question = self.questions.ask();
        let frame = ApproveFrame {
            approve: question.number,
            session: self.session(),
            function: &request.function,
            arguments: object(&request.arguments),
        };
        if self.outbox.send(&frame).is_err() {
            return Verdict::Deny { reason: Some("the arguments are too large to be shown".to_owned()) };
        }
        match (&mut question.answer).await {
            Ok(answer) if answer.get("value") == Some(&Json::Bool(true)) => Verdict::Approve { by: None },
            _ => Verdict::Deny { reason: None },
        }
    }
}

fn object(named: &[(String, Value)]) -> Object {
    named.iter().map(|(name, value)| (name.clone(), to_json(value))).collect()
}

/// What the client says of a call: a value, or an error whose message is meant for the guest.
fn result(answer: &Object) -> Result<Value, HostError> {
    if let Some(value) = answer.get("value") {
        return from_json(value, "result").map_err(|_| HostError::hidden("TypeError"));
    }
    let text = |name: &str| answer.get("error").and_then(|error| error.get(name)).and_then(Json::as_str);
    let exception = text("type").unwrap_or("RuntimeError");
    Err(match text("message") {
        Some(message) => HostError::public(exception, message),
        None => HostError::hidden(exception),
    })
}

/// A host function whose body is the client's.
pub(super) struct RemoteFunction {
    pub spec: FunctionSpec,
    pub link: Arc<Link>,
}

impl HostFunction for RemoteFunction {
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }

    fn call(&self, call: Permitted) -> Boxed<'_, Result<Value, HostError>> {
        Box::pin(self.link.call(call))
    }
}

/// The client's user, who is asked before a call goes ahead.
pub(super) struct RemoteApproval(pub Arc<Link>);

impl Approve for RemoteApproval {
    fn ask(&self, request: ApprovalRequest) -> Boxed<'_, Verdict> {
        Box::pin(self.0.approve(request))
    }
}
