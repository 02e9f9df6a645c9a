//! A session's network: the egress proxy that stands at its cell's way out, the secrets that it puts in, and the
//! records of every connection.
//!
//! Answers to: `session`, which opens cells. Must not: let a cell have any other way out, or a secret's value stand in an
//! error, a record or a cell.
//! INVARIANT: a connection is recorded before it is made, and not made where it can't be.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ringfence_audit::event::{Connection, ConnectionDenied, ConnectionEnded, ConnectionPermitted};
use ringfence_audit::{Event, Scope};
use ringfence_bridge::HoldTarget;
use ringfence_egress::{
    BoundSecret, Event as Told, Hooks, Limits, Outside, Proxy, PublicOnly, Refusal, Resolve, Roots, SecretValue,
    Serving, SetupError, Step, SystemResolver, Unrecorded, Watch,
};
use ringfence_policy::{Grant, SecretSource};
use ringfence_tier::{Cell, TierFault};
use ringfence_types::TierName;
use tokio::net::TcpListener;

use crate::engine::{Engine, scope_of};
use crate::error::SessionError;

/// The most records of connections that one session may cause, ends not counted: a program can ask without end, and
/// the log is on the host's disk. What is asked after that is refused.
const RECORDS: u32 = 20_000;
const USED_UP: &str = "the session's 20,000 records of connections are used up; this and all further ones are refused";

/// The longest file of a secret.
const LONGEST: u64 = 64 << 10;

/// How sessions reach hosts: decided once, for an engine.
#[derive(Clone)]
pub struct Outbound {
    /// Turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Decides on addresses and traffic.
    pub hooks: Arc<dyn Hooks>,
    /// Whom to trust.
    pub roots: Roots,
}

impl Default for Outbound {
    /// The host's resolver and certificates, public addresses only.
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver), hooks: Arc::new(PublicOnly), roots: Roots::Platform }
    }
}

/// Why a session can't have its network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The variable is not there, or is no text.
    #[error("secret `{name}` has no value: set the environment variable `{variable}` of the host's process")]
    Variable {
        /// The secret.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The file can't be read, or is no text of at most 64 KiB.
    #[error("secret `{name}` can't be read from `{path}`: {cause}")]
    File {
        /// The secret.
        name: String,
        /// The file.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// The proxy can't be made.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// The proxy of a session that has a network, ready before its cell is.
pub(crate) struct Network {
    proxy: Proxy,
}

impl Network {
    /// The proxy of this grant; `None` where it has no network. Secrets are read now, and kept out of the log from now on.
    pub fn prepare(engine: &Engine, grant: &Grant) -> Result<Option<Self>, SessionError> {
        if !grant.needs().network {
            return Ok(None);
        }
        let mut secrets = Vec::new();
        for (name, secret) in grant.secrets() {
            let value = read(name, &secret.from)?;
            engine.log().keep_out([&value])?;
            let value = SecretValue::new(value);
            secrets.push(BoundSecret { name: name.clone(), inject: secret.inject.clone(), value });
        }
        let Outbound { resolver, hooks, roots } = engine.0.outbound.clone();
        let recorder = Recorder { engine: engine.clone(), scope: scope_of(grant), left: AtomicU32::new(RECORDS) };
        let outside = Outside { resolver, hooks, watch: Arc::new(recorder), roots };
        let proxy = Proxy::new(grant.network().to_vec(), secrets, outside, Limits::default());
        Ok(Some(Self { proxy: proxy.map_err(NetworkError::from)? }))
    }

    /// Puts the proxy at the cell's way out.
    pub async fn serve(self, cell: &mut dyn Cell, tier: TierName) -> Result<Serving, TierFault> {
        let no_way = |why: String| TierFault::Open { tier, why };
        let listener = cell.way_out(self.proxy.trusted_pem()).await?;
        let listener =
            listener.ok_or_else(|| no_way("it has no way out for the network that was granted".to_owned()))?;
        let usable = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        Ok(self.proxy.spawn(usable.map_err(|error| no_way(error.to_string()))?))
    }
}

fn read(name: &str, from: &SecretSource) -> Result<String, NetworkError> {
    match from {
        SecretSource::Env(variable) => std::env::var(variable)
            .map_err(|_| NetworkError::Variable { name: name.to_owned(), variable: variable.clone() }),
        SecretSource::File(path) => {
            read_file(path).map_err(|cause| NetworkError::File { name: name.to_owned(), path: path.clone(), cause })
        }
    }
}

/// The file's text without the line end that editors put there.
fn read_file(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 64 KiB"));
    }
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}

/// Writes what the proxy tells into the log.
struct Recorder {
    engine: Engine,
    scope: Scope,
    left: AtomicU32,
}

impl Watch for Recorder {
    fn connection(&self, told: &Told) -> Result<(), Unrecorded> {
        let run = self.scope.session.as_ref().and_then(|session| self.engine.0.table.run(session));
        let scope = run.map_or_else(|| self.scope.clone(), |run| self.scope.in_run(run));
        let (event, answer) = match &told.step {
            Step::Ended { .. } => (event(told), Ok(())),
            // The proxy tells the refusal next, and it is recorded then.
            Step::Allowed if self.hold().is_some() => return Err(Unrecorded),
            Step::Allowed | Step::Refused(_) => match self.take() {
                0 => return Err(Unrecorded),
                1 => (denied(told, USED_UP.to_owned()), Err(Unrecorded)),
                _ => match self.hold().filter(|_| told.step == Step::Refused(Refusal::Unrecorded)) {
                    Some(target) => (denied(told, format!("a kill switch is set on `{target}`")), Ok(())),
                    None => (event(told), Ok(())),
                },
            },
        };
        self.engine.record(&scope, event).map_err(|_| Unrecorded)?;
        answer
    }
}

impl Recorder {
    /// The kill switch that stops this tenant's effects, where one is set.
    fn hold(&self) -> Option<HoldTarget> {
        self.scope.tenant.as_ref().and_then(|tenant| self.engine.holds().on_tenant(tenant))
    }

    /// How many records were left before this one.
    fn take(&self) -> u32 {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.unwrap_or_default()
    }
}

fn event(told: &Told) -> Event {
    let to = connection(told);
    let rule = told.rule.map(|index| format!("network.allow[{index}]"));
    match &told.step {
        Step::Allowed => Event::ConnectionPermitted(ConnectionPermitted {
            to,
            rule,
            secrets: told.secrets.clone(),
            address: told.address.map(|address| address.to_string()),
        }),
        Step::Refused(refusal) => denied(told, refusal.to_string()),
        Step::Ended { up, down, elapsed, fault } => Event::ConnectionEnded(ConnectionEnded {
            to,
            bytes_up: *up,
            bytes_down: *down,
            duration_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            fault: fault.as_ref().map(ToString::to_string),
        }),
    }
}

fn denied(told: &Told, reason: String) -> Event {
    Event::ConnectionDenied(ConnectionDenied { to: connection(told), reason })
}

fn connection(told: &Told) -> Connection {
    Connection {
        connection: told.connection,
        host: told.host.clone(),
        port: told.port,
        method: told.method.clone(),
        path: told.path.clone(),
    }
}
