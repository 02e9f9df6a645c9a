//! The library's face: an engine, its sessions, and host functions from closures.
//!
//! Answers to: Rust programs. Must not: do what `session` does; it only makes it pleasant to call.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use ringfence_audit::event::ThresholdCrossed;
use ringfence_bridge::{Approve, HostError, HostFunction, Registry, RegistryError, typed, typed_async};
use ringfence_policy::Policy;
use ringfence_session::changes::Destination;
use ringfence_session::{Killing, Paused, Request, RunError, SessionError, Target, Watch};
use ringfence_types::{
    Changes, Command, Engine as Interpreter, FileEntry, GuestPath, MimeBundle, Outcome, Source, Stream, Tenant,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Builder;

/// Runs sessions. Cheap to clone.
#[derive(Clone)]
pub struct Engine(ringfence_session::Engine);

impl Engine {
    /// An engine to be configured; [`Builder::build`] makes it.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(inner: ringfence_session::Engine) -> Self {
        Self(inner)
    }

    /// A session under this policy, without host functions.
    pub fn session(&self, policy: Policy) -> Result<Session, SessionError> {
        self.session_with(policy).open()
    }

    /// A session to be configured: host functions, tenant, engine, approvals.
    pub fn session_with(&self, policy: Policy) -> SessionBuilder {
        SessionBuilder { engine: self.0.clone(), request: Request::new(policy), fault: None }
    }

    /// Ends the sessions that `target` names; gives how many.
    pub fn kill(&self, target: &Target, by: impl Into<Killing>) -> usize {
        self.0.kill(target, by)
    }

    /// The engine below, for front doors.
    pub fn inner(&self) -> &ringfence_session::Engine {
        &self.0
    }
}

/// A session to be opened.
pub struct SessionBuilder {
    engine: ringfence_session::Engine,
    request: Request,
    fault: Option<RegistryError>,
}

impl SessionBuilder {
    /// Whose work it is; `local` where nothing is said.
    #[must_use]
    pub fn tenant(mut self, tenant: Tenant) -> Self {
        self.request.tenant = tenant;
        self
    }

    /// The engine to use; by the program where nothing is said.
    #[must_use]
    pub fn engine(mut self, engine: Interpreter) -> Self {
        self.request.engine = Some(engine);
        self
    }

    /// How a person is asked, where the policy wants that.
    #[must_use]
    pub fn approve(mut self, hook: Arc<dyn Approve>) -> Self {
        self.request.approve = Some(hook);
        self
    }

    /// Offers a host function. The policy must list it too.
    #[must_use]
    pub fn host_function(mut self, function: Arc<dyn HostFunction>) -> Self {
        if let Err(fault) = self.request.functions.add(function) {
            self.fault.get_or_insert(fault);
        }
        self
    }

    /// Offers a closure: the fields of `A` are its parameters.
    #[must_use]
    pub fn function<A, R, F>(self, name: &str, doc: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Result<R, HostError> + Send + Sync + 'static,
    {
        self.host_function(typed(name, doc, function))
    }

    /// Offers an async closure, which guests await.
    #[must_use]
    pub fn async_function<A, R, F, Fut>(self, name: &str, doc: &str, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Serialize + JsonSchema + 'static,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HostError>> + Send + 'static,
    {
        self.host_function(typed_async(name, doc, function))
    }

    /// The functions of a registry, in place of those given so far.
    #[must_use]
    pub fn functions(mut self, functions: Registry) -> Self {
        self.request.functions = functions;
        self
    }

    fn request(self) -> Result<(ringfence_session::Engine, Request), SessionError> {
        match self.fault {
            Some(fault) => Err(SessionError::Unsupported(fault.to_string())),
            None => Ok((self.engine, self.request)),
        }
    }

    /// The session, where the policy grants one.
    pub fn open(self) -> Result<Session, SessionError> {
        let (engine, request) = self.request()?;
        Ok(Session(engine.session(request)?))
    }

    /// A session that goes on from a snapshot.
    pub async fn restore(self, snapshot: &[u8]) -> Result<Session, SessionError> {
        let (engine, request) = self.request()?;
        Ok(Session(engine.restore(request, snapshot).await?))
    }
}

/// What happens while a run goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The guest printed this; it may end in the middle of a character.
    Output(Stream, &'a [u8]),
    /// The guest showed a rich result.
    Shown(&'a MimeBundle),
    /// It uses more than a threshold of its policy's.
    Crossed(&'a ThresholdCrossed),
}

struct Watcher<F>(F);

impl<F: FnMut(Progress<'_>) + Send> Watch for Watcher<F> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        (self.0)(Progress::Output(stream, bytes));
    }
    fn shown(&mut self, bundle: &MimeBundle) {
        (self.0)(Progress::Shown(bundle));
    }
    fn crossed(&mut self, threshold: &ThresholdCrossed) {
        (self.0)(Progress::Crossed(threshold));
    }
}

/// One user's line of work. State persists between snippets; dropping it destroys its cell.
pub struct Session(ringfence_session::Session);

impl Session {
    /// Runs one snippet. Dropping the future cancels the run and ends the session.
    pub async fn run(&mut self, code: impl Into<String>) -> Result<Outcome, RunError> {
        self.0.run(Source::new(code), &mut ()).await
    }

    /// Runs one snippet with inputs, standard input and a file name.
    pub async fn run_source(&mut self, source: Source) -> Result<Outcome, RunError> {
        self.0.run(source, &mut ()).await
    }

    /// Runs one snippet and tells what happens while it goes on.
    pub async fn run_watched(
        &mut self,
        source: Source,
        watch: impl FnMut(Progress<'_>) + Send,
    ) -> Result<Outcome, RunError> {
        self.0.run(source, &mut Watcher(watch)).await
    }

    /// Runs a command that is not Python, where the session's tier has any; how it ended is in the outcome's `exit_code`.
    pub async fn exec(&mut self, command: Command) -> Result<Outcome, RunError> {
        self.0.exec(command, &mut ()).await
    }

    /// Runs a command and tells what it writes while it goes on.
    pub async fn exec_watched(
        &mut self,
        command: Command,
        watch: impl FnMut(Progress<'_>) + Send,
    ) -> Result<Outcome, RunError> {
        self.0.exec(command, &mut Watcher(watch)).await
    }

    /// Runs up to the first call of `function`, and writes the session down there instead of calling.
    pub async fn run_until(&mut self, code: impl Into<String>, function: &str) -> Result<Paused, RunError> {
        self.0.run_until(Source::new(code), function, &mut ()).await
    }

    /// Goes on with the run in whose middle the snapshot was taken.
    pub async fn resume(&mut self) -> Result<Outcome, RunError> {
        self.0.resume(&mut ()).await
    }

    /// The state as bytes, under seal.
    pub async fn snapshot(&mut self) -> Result<Vec<u8>, SessionError> {
        self.0.snapshot().await
    }

    /// Writes a file into the session.
    pub async fn put_file(&mut self, path: &str, content: impl Into<Vec<u8>>) -> Result<(), SessionError> {
        self.0.put_file(GuestPath::resolve(path)?, content.into()).await
    }

    /// Reads a file of the session.
    pub async fn get_file(&mut self, path: &str) -> Result<Vec<u8>, SessionError> {
        self.0.get_file(GuestPath::resolve(path)?).await
    }

    /// Lists a folder of the session.
    pub async fn list_files(&mut self, path: &str) -> Result<Vec<FileEntry>, SessionError> {
        self.0.list_files(GuestPath::resolve(path)?).await
    }

    /// What differs from the host's folders in copy-on-write mounts; also when the session has ended.
    pub async fn changes(&mut self) -> Result<Changes, SessionError> {
        self.0.changes().await
    }

    /// The same, with the content of added and changed files written to a new or empty folder, and the list beside it.
    pub async fn save_changes(&mut self, folder: impl AsRef<Path>) -> Result<Changes, SessionError> {
        let destination = Destination::new(folder.as_ref()).map_err(SessionError::Save)?;
        self.0.save_changes(destination).await
    }

    /// A file that the session added or changed in a copy-on-write mount; also when the session has ended.
    pub async fn changed_file(&mut self, path: &str) -> Result<Vec<u8>, SessionError> {
        self.0.changed_file(GuestPath::resolve(path)?).await
    }

    /// Makes it stand still: no processor time, wall and idle clocks stopped, until [`Session::thaw`]. While it runs, the
    /// session's handle does it. Blocks for moments.
    pub fn freeze(&self) -> Result<(), SessionError> {
        self.0.freeze()
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<(), SessionError> {
        self.0.thaw()
    }

    /// So many sessions from this one, each with all of its state, which go on apart from it and from each other; between
    /// two snippets. All of them, or none. What each shares with the others, `limitations/process.md` says.
    pub async fn fork(&mut self, count: usize) -> Result<Vec<Self>, SessionError> {
        Ok(self.0.fork(count).await?.into_iter().map(Self).collect())
    }

    /// Ends the session from elsewhere.
    pub fn handle(&self) -> ringfence_session::Handle {
        self.0.handle()
    }

    /// The session below, for front doors.
    pub fn inner(&mut self) -> &mut ringfence_session::Session {
        &mut self.0
    }
}
