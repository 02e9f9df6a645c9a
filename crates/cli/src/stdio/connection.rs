//! One client: reads its frames, answers what can be answered at once, and hands the rest to the sessions' tasks.
//!
//! Answers to: `serve`. Must not: wait for a session: an answer to a call, and `cancel`, must get through.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use ringfence_session::Engine;
use serde_json::{Value as Json, json};
use tokio::io::AsyncRead;
use tokio::task::JoinSet;

use super::fault::Fault;
use super::frames::Frames;
use super::open::Policies;
use super::outbox::{Outbox, Reply, say_why};
use super::remote::Questions;
use super::request::{Frame, Method, Task};
use super::work::{Place, Worker};
use super::{Options, StdioError, VERSION};

/// What the tasks of one client share.
pub(super) struct Connection {
    pub engine: Engine,
    pub options: Options,
    pub outbox: Outbox,
    pub questions: Arc<Questions>,
    pub policies: Policies,
    sessions: Mutex<HashMap<String, Place>>,
    tasks: Mutex<JoinSet<()>>,
    greeted: Once,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Serves the client until its input ends; then every session is destroyed.
    pub async fn serve<R: AsyncRead + Unpin>(
        engine: Engine,
        input: R,
        outbox: Outbox,
        options: Options,
    ) -> Result<(), StdioError> {
        let connection = Ending(Arc::new(Self {
            engine,
            options,
            outbox,
            questions: Arc::default(),
            policies: Policies::default(),
            sessions: Mutex::default(),
            tasks: Mutex::default(),
            greeted: Once::new(),
        }));
        let end = connection.0.read(Frames::new(input)).await;
        if let Err(StdioError::Frame(fault)) = &end {
            say_why(&connection.0.outbox, fault);
        }
        connection.0.outbox.shut();
        connection.0.end().await;
        end
    }

    async fn read<R: AsyncRead + Unpin>(self: &Arc<Self>, mut frames: Frames<R>) -> Result<(), StdioError> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = frames.next() => frame?,
                () = self.outbox.broken() => return Ok(()),
            };
            let Some(frame) = frame else { return Ok(()) };
            match Frame::read(frame)? {
                Frame::Answer { number: Some(number), body } => self.questions.answered(number, body),
                Frame::Answer { number: None, .. } => {}
                Frame::Request { id, method, params } => {
                    self.request(Reply::new(id, self.outbox.clone()), method.as_deref(), params);
                }
            }
        }
    }

    /// The sessions go, and with them their cells.
    async fn end(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *locked(&self.tasks));
            if tasks.is_empty() {
                break;
            }
            tasks.shutdown().await;
        }
        locked(&self.sessions).clear();
    }

    fn request(self: &Arc<Self>, reply: Reply, method: Option<&str>, given: Json) {
        match Method::read(method, given) {
            Ok(Method::Hello) => reply.result(&self.hello()),
            Ok(Method::Open(open, snapshot)) => {
                self.spawn(Box::pin(Worker::open(Arc::clone(self), reply, open, snapshot)));
            }
            Ok(Method::Cancel(session)) => reply.with(self.cancel(&session)),
            Ok(Method::Still(session, still)) => self.stand_still(reply, &session, still),
            Ok(Method::Close(session)) => self.close(reply, &session),
            Ok(Method::Task(session, task)) => self.hand(reply, &session, task),
            Err(fault) => reply.fault(&fault),
        }
    }

    fn hello(&self) -> Json {
        self.greeted.call_once(|| {
            if let Some(warm_up) = &self.options.warm_up {
                warm_up(&self.engine);
            }
        });
        json!({"version": VERSION, "ringfence": env!("CARGO_PKG_VERSION")})
    }

    fn hand(&self, reply: Reply, session: &str, task: Task) {
        match locked(&self.sessions).get(session) {
            Some(place) => place.hand(reply, task),
            None => reply.fault(&Fault::no_session(session)),
        }
    }

    /// Ends the runs that were asked for so far. Where there are none, there is nothing to do.
    fn cancel(&self, session: &str) -> Result<Json, Fault> {
        locked(&self.sessions).get(session).ok_or_else(|| Fault::no_session(session))?.cancel();
        Ok(json!({}))
    }

    /// Not in the session's turn: it may be at work.
    fn stand_still(&self, reply: Reply, session: &str, still: bool) {
        let Some(handle) = locked(&self.sessions).get(session).map(Place::handle) else {
            return reply.fault(&Fault::no_session(session));
        };
        self.spawn(Box::pin(async move {
            let asked = move || if still { handle.freeze() } else { handle.thaw() };
            match tokio::task::spawn_blocking(asked).await {
                Ok(done) => reply.with(done.map(|()| json!({})).map_err(Fault::from)),
                // The reply says so as it is dropped.
                Err(_) => drop(reply),
            }
        }));
    }

    /// The session is gone for later requests at once, and answers when its cell is.
    fn close(&self, reply: Reply, session: &str) {
        let place = locked(&self.sessions).remove(session);
        match place {
            Some(place) => {
                place.cancel();
                place.hand(reply, Task::Close);
            }
            None => reply.fault(&Fault::no_session(session)),
        }
    }

    /// Adds a session under its name.
    pub fn add(&self, session: &str, place: Place) {
        locked(&self.sessions).insert(session.to_owned(), place);
    }

    /// Runs a session's work beside the others.
    pub fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }
}

/// Ends the sessions also where the connection is dropped: its tasks hold it, and it holds them.
struct Ending(Arc<Connection>);

impl Drop for Ending {
    fn drop(&mut self) {
        locked(&self.0.tasks).abort_all();
    }
}
