//! The proxy of one cell: its rules, its listener, its connections.
//!
//! Answers to: the code that opens a cell. Must not: outlive it: dropping a serving future ends every connection.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ringfence_policy::NetworkRule;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::authority::Authority;
use crate::event::{Event, Step, Unrecorded, Watch};
use crate::exchange::{Exchange, Scope};
use crate::limits::{Hooks, Limits, Traffic};
use crate::listen::{Listen, Serving};
use crate::refusal::Refusal;
use crate::resolve::Resolve;
use crate::roots::{self, Roots};
use crate::rules::Rules;
use crate::secret::{BoundSecret, Prepared};
use crate::stream::{Guarded, Meter, Totals};
use crate::tunnel;

/// Names of one cell that are looked up at once: each keeps a thread of the host's busy, for as long as some server of
/// names likes.
const LOOKUPS: usize = 4;

/// Before a listener that failed is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// What the proxy needs from the code around it.
#[derive(Clone)]
pub struct Outside {
    /// Turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Decides on addresses and traffic.
    pub hooks: Arc<dyn Hooks>,
    /// Hears of every connection and request.
    pub watch: Arc<dyn Watch>,
    /// Whom to trust.
    pub roots: Roots,
}

/// Why a proxy can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A secret doesn't fit its header.
    #[error("secret `{name}` can't be put into header `{header}`: {why}; mend the secret or its `inject`")]
    Secret {
        /// The secret.
        name: String,
        /// The header.
        header: String,
        /// What is wrong; never the value.
        why: String,
    },
    /// The session's certificate could not be made.
    #[error("the session's certificate could not be made; the host has no random numbers to give")]
    Certificate,
}

/// The proxy of one cell.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("rules", &self.shared.rules).finish_non_exhaustive()
    }
}

/// What all connections of a cell share.
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    pub(crate) outside: Outside,
    pub(crate) limits: Limits,
    pub(crate) authority: Option<Authority>,
    trust: OnceLock<Option<Arc<ClientConfig>>>,
    totals: Arc<Totals>,
    slots: Arc<Semaphore>,
    pub(crate) lookups: Semaphore,
    connections: AtomicU64,
}

impl Shared {
    /// The configuration of verified TLS to hosts; nothing where the host trusts nobody.
    pub(crate) fn trust(&self) -> Option<Arc<ClientConfig>> {
        self.trust.get_or_init(|| roots::trust(&self.outside.roots)).clone()
    }
    pub(crate) fn meter(&self) -> Arc<Meter> {
        Meter::new(Arc::clone(&self.totals), Arc::clone(&self.outside.hooks))
    }
    pub(crate) fn tell(&self, event: &Event) -> Result<(), Unrecorded> {
        self.outside.watch.connection(event)
    }
}

impl Proxy {
    /// A proxy for these rules and secrets, and nothing else.
    pub fn new(
        rules: Vec<NetworkRule>,
        secrets: Vec<BoundSecret>,
        outside: Outside,
        limits: Limits,
    ) -> Result<Self, SetupError> {
        let mut prepared = Vec::with_capacity(secrets.len());
        for secret in secrets {
            let (name, header) = (secret.name.clone(), secret.inject.header.clone());
            let fault = |fault: crate::secret::SecretFault| SetupError::Secret { name, header, why: fault.to_string() };
            prepared.push(Prepared::new(secret).map_err(fault)?);
        }
        let rules = Rules::new(rules, prepared);
        let authority = if rules.inspects() { Some(Authority::new()) } else { None };
        let shared = Shared {
            authority: authority.transpose().map_err(|_| SetupError::Certificate)?,
            rules,
            outside,
            limits,
            trust: OnceLock::new(),
            totals: Arc::default(),
            slots: Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS))),
            lookups: Semaphore::new(LOOKUPS),
            connections: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The certificate, in PEM, that programs in the cell must trust; none where no rule needs TLS to be opened.
    pub fn ca_pem(&self) -> Option<&str> {
        self.shared.authority.as_ref().map(Authority::pem)
    }

    /// All that programs in the cell are to trust, in PEM: the session's own authority where a rule needs TLS to be
    /// opened, and whom the proxy trusts where a tunnel is not looked into.
    pub fn trusted_pem(&self) -> String {
        let mut pem = self.ca_pem().unwrap_or_default().to_owned();
        if self.shared.rules.has_tunnels() {
            pem.push_str(&roots::pem(&self.shared.outside.roots));
        }
        pem
    }

    /// All bytes so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.totals.read()
    }

    /// Serves all connections to the listener, until the future is dropped.
    pub async fn serve(&self, listener: impl Listen) {
        // WHY: all in one future, so that dropping it ends them all, and tells their ends, before it returns.
        let mut served = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some((stream, slot)) = self.next(&listener) => {
                    served.push(connection(Arc::clone(&self.shared), stream, slot));
                }
                Some(()) = served.next(), if !served.is_empty() => {}
                else => return,
            }
        }
    }

    /// The next connection; what is more than there may be waits in the listener's queue.
    async fn next<L: Listen>(&self, listener: &L) -> Option<(L::Stream, OwnedSemaphorePermit)> {
        let slot = Arc::clone(&self.shared.slots).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok(stream) => return Some((stream, slot)),
                // WHY: the connection was gone already, or the host is short of descriptors for a moment.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// [`Proxy::serve`] in a task of its own, which ends with the returned value.
    pub fn spawn(&self, listener: impl Listen) -> Serving {
        let proxy = self.clone();
        Serving::spawn(async move { proxy.serve(listener).await })
    }

    /// Serves one connection to its end; a connection too many is refused.
    pub async fn serve_stream<S>(&self, mut stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match Arc::clone(&self.shared.slots).try_acquire_owned() {
            Ok(slot) => connection(Arc::clone(&self.shared), stream, slot).await,
            Err(_) => {
                let text = format!("ringfence: {}\n", Refusal::Connections);
                let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                // WHY: whether the guest hears of it changes nothing.
                drop(stream.write_all(answer.as_bytes()).await);
            }
        }
    }
}

/// One connection of the guest's, and the tunnel that it may become.
async fn connection<S>(shared: Arc<Shared>, stream: S, _slot: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let stream = Guarded::new(stream, shared.limits.idle_time, None);
    let exchange = Exchange::new(Arc::clone(&shared), number, Scope::Proxy);
    if let Some(tunnel) = exchange.serve(stream).await {
        tunnel::run(&shared, tunnel).await;
    }
}

/// An event about nothing yet.
pub(crate) fn blank(connection: u64) -> Event {
    Event {
        connection,
        step: Step::Allowed,
        host: String::new(),
        port: None,
        method: None,
        path: None,
        rule: None,
        secrets: Vec::new(),
        address: None,
    }
}
