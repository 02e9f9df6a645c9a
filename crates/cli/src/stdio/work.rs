//! One session's task: opens it, does what it is asked one after the other, and answers.
//!
//! Answers to: `connection`. Must not: leave a request without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_api::OutcomeView;
use ringfence_audit::sha256_hex;
use ringfence_session::changes::Destination;
use ringfence_session::{Branch, Handle, Request, Session, SessionError};
use ringfence_types::{Command, Source};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::Connection;
use super::events::Events;
use super::fault::Fault;
use super::open::Plan;
use super::outbox::Reply;
use super::remote::Link;
use super::request::{Open, Task};

/// Where a session's work is handed in.
pub(super) struct Place {
    tasks: UnboundedSender<(Reply, Task)>,
    runs: Arc<AtomicUsize>,
    handle: Handle,
}

impl Place {
    /// Hands a task in. Where the session's task is gone, the reply says so as it is dropped.
    pub fn hand(&self, reply: Reply, task: Task) {
        if matches!(task, Task::Run(_) | Task::Exec(_)) {
            self.runs.fetch_add(1, Ordering::AcqRel);
        }
        let _ = self.tasks.send((reply, task));
    }

    /// What makes it stand still and go on.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the session where a run of it is under way or waits for its turn; each gets its outcome.
    pub fn cancel(&self) {
        if self.runs.load(Ordering::Acquire) > 0 {
            self.handle.cancel();
        }
    }
}

/// What a run does.
enum Work {
    Program(Source),
    Command(Command),
}

/// A session and what it needs to answer.
pub(super) struct Worker {
    connection: Arc<Connection>,
    plan: Arc<Plan>,
    link: Arc<Link>,
    session: Session,
    runs: Arc<AtomicUsize>,
}

impl Worker {
    /// Opens a session, answers with its name, and works for it to its end.
    pub async fn open(connection: Arc<Connection>, reply: Reply, open: Box<Open>, snapshot: Option<Vec<u8>>) {
        let opened = match Plan::new(&connection.engine, &connection.options, &connection.policies, *open) {
            Ok(plan) => Self::begin(&connection, &Arc::new(plan), snapshot.as_deref()).await,
            Err(fault) => Err(fault),
        };
        match opened {
            Ok(worker) => {
                let tasks = worker.take_place();
                reply.result(&json!({"session": worker.link.session()}));
                worker.work(tasks).await;
            }
            Err(fault) => reply.fault(&fault),
        }
    }

    async fn begin(connection: &Arc<Connection>, plan: &Arc<Plan>, snapshot: Option<&[u8]>) -> Result<Self, Fault> {
        let link = Link::new(Arc::clone(&connection.questions), connection.outbox.clone());
        let request = plan.request(&link)?;
        let session = match snapshot {
            Some(snapshot) => plan.engine.restore(request, snapshot).await?,
            None => plan.engine.session(request)?,
        };
        link.belongs_to(session.id().as_str());
        let (connection, plan) = (Arc::clone(connection), Arc::clone(plan));
        Ok(Self { connection, plan, link, session, runs: Arc::default() })
    }

    /// From here on the session can be asked by its name.
    fn take_place(&self) -> UnboundedReceiver<(Reply, Task)> {
        let (sender, tasks) = unbounded_channel();
        let place = Place { tasks: sender, runs: Arc::clone(&self.runs), handle: self.session.handle() };
        self.connection.add(self.link.session(), place);
        tasks
    }

    /// Works in a task of its own.
    fn start(self) {
        let (connection, tasks) = (Arc::clone(&self.connection), self.take_place());
        connection.spawn(Box::pin(self.work(tasks)));
    }

    async fn work(mut self, mut tasks: UnboundedReceiver<(Reply, Task)>) {
        while let Some((reply, task)) = tasks.recv().await {
            match task {
                Task::Run(source) => self.run(reply, Work::Program(*source)).await,
                Task::Exec(command) => self.run(reply, Work::Command(*command)).await,
                Task::Close => {
                    drop(self);
                    return reply.result(&json!({}));
                }
                other => reply.with(self.task(other).await),
            }
        }
    }

    async fn run(&mut self, reply: Reply, work: Work) {
        let mut events = Events::new(self.link.outbox(), self.link.session(), self.plan.wanted);
        let ended = match work {
            Work::Program(source) => self.session.run(source, &mut events).await,
            Work::Command(command) => self.session.exec(command, &mut events).await,
        };
        events.finish();
        self.runs.fetch_sub(1, Ordering::AcqRel);
        match &ended {
            Ok(outcome) => reply.result(&OutcomeView::of(outcome)),
            Err(_) => reply.with(ended.map(|_| ()).map_err(Fault::from)),
        }
    }

    async fn task(&mut self, task: Task) -> Result<Json, Fault> {
        let session = &mut self.session;
        Ok(match task {
            Task::Snapshot => json!({"snapshot": STANDARD.encode(session.snapshot().await?)}),
            Task::Fork(count) => json!({"sessions": self.fork(count).await?}),
            Task::Put(path, content) => {
                let told = told(&content);
                session.put_file(path, content).await.map(|()| json!(told))?
            }
            Task::Get(path) => whole(&session.get_file(path).await?),
            Task::Changed(path) => whole(&session.changed_file(path).await?),
            Task::Changes(None) => json!(session.changes().await?),
            Task::Changes(Some(folder)) => {
                let destination = Destination::new(&folder).map_err(SessionError::Save)?;
                json!(session.save_changes(destination).await?)
            }
            Task::List(path) => json!({"entries": session.list_files(path).await?}),
            Task::Remove(path) => session.remove_file(path).await.map(|()| json!({}))?,
            Task::Run(_) | Task::Exec(_) | Task::Close => json!({}),
        })
    }

    /// Copies of the session as it is now, each on its own from then on. All of them, or none.
    async fn fork(&mut self, count: usize) -> Result<Vec<String>, Fault> {
        let link = || Link::new(Arc::clone(&self.connection.questions), self.connection.outbox.clone());
        let links: Vec<Arc<Link>> = std::iter::repeat_with(link).take(count).collect();
        let branch = |link| {
            let Request { functions, approve, .. } = self.plan.request(link)?;
            Ok(Branch { functions, approve })
        };
        let branches = links.iter().map(branch).collect::<Result<Vec<_>, Fault>>()?;
        let mut copies = Vec::new();
        for (session, link) in self.session.fork_into(branches).await?.into_iter().zip(links) {
            link.belongs_to(session.id().as_str());
            let (connection, plan) = (Arc::clone(&self.connection), Arc::clone(&self.plan));
            copies.push(Self { connection, plan, link, session, runs: Arc::default() });
        }
        let names = copies.iter().map(|copy| copy.link.session().to_owned()).collect();
        copies.into_iter().for_each(Self::start);
        Ok(names)
    }
}

/// What goes in or comes out, so that the other side can compare.
fn told(content: &[u8]) -> Json {
    json!({"size": content.len(), "sha256": sha256_hex(content)})
}

fn whole(content: &[u8]) -> Json {
    json!({"content": STANDARD.encode(content), "size": content.len(), "sha256": sha256_hex(content)})
}
