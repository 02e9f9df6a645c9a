//! A tunnel, once CONNECT was allowed: looked at, and then relayed as it is or opened.
//!
//! Answers to: `proxy`. Must not: send a byte to the host before it saw what the guest begins with.
//! INVARIANT: a tunnel that nobody looks into begins with a ClientHello that names the tunnel's host in clear.

use std::sync::Arc;

use bytes::Bytes;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::exchange::{Exchange, Scope, Told, Way};
use crate::hello::{self, Hello, Opening};
use crate::proxy::Shared;
use crate::refusal::Refusal;
use crate::rules::{Reach, Rules};
use crate::stream::{Meter, Rewound};
use crate::target::{Host, Target};

/// A fatal alert of TLS: access denied.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// A tunnel that was allowed, with its line open.
pub(crate) struct Tunnel {
    pub(crate) connection: u64,
    pub(crate) upgrade: OnUpgrade,
    pub(crate) target: Target,
    pub(crate) reach: Reach,
    pub(crate) way: Way,
    pub(crate) meter: Arc<Meter>,
    pub(crate) told: Told,
}

/// Serves the tunnel to its end.
pub(crate) async fn run(shared: &Arc<Shared>, tunnel: Tunnel) {
    let Tunnel { connection, upgrade, target, reach, way, meter, told } = tunnel;
    let Ok(upgraded) = upgrade.await else { return };
    let mut guest = TokioIo::new(upgraded);
    let opening = timeout(shared.limits.head_time, hello::peek(&mut guest)).await;
    let opening = opening.unwrap_or(Err(Refusal::Hello("it took too long")));
    let opening = opening.and_then(|opening| check(&shared.rules, opening, &target, reach));
    let inside = |is_secure| {
        let scope = Scope::Tunnel { target: target.clone(), is_secure };
        move |way| Exchange::inside(Arc::clone(shared), connection, scope, (way, meter))
    };
    match opening {
        Err(refusal) => {
            told.refuse(&refusal);
            drop(guest.write_all(&DENIED).await);
        }
        Ok(Seen::Http(read)) => drop(inside(false)(way).serve(Rewound::new(read, guest)).await),
        Ok(Seen::Opaque(read)) => relay(guest, read, way).await,
        Ok(Seen::Inspected(read)) => match accept(shared, &target.host, Rewound::new(read, guest)).await {
            Ok(stream) => drop(inside(true)(way).serve(stream).await),
            Err(refusal) => told.refuse(&refusal),
        },
    }
}

/// What is to be done with a tunnel, and the bytes that were read of it.
enum Seen {
    Http(Bytes),
    Opaque(Bytes),
    Inspected(Bytes),
}

fn check(rules: &Rules, opening: Opening, target: &Target, reach: Reach) -> Result<Seen, Refusal> {
    let (hello, read) = match opening {
        Opening::Http { read } => return Ok(Seen::Http(read)),
        Opening::Tls { hello, read } => (hello, read),
    };
    check_name(rules, &hello, &target.host)?;
    match reach {
        // Where TLS is opened, what hides in the hello is never answered.
        Reach::Inspected(_) => Ok(Seen::Inspected(read)),
        Reach::Opaque(_) if hello.is_hiding => Err(Refusal::Hello("it hides the server's name")),
        Reach::Opaque(_) => Ok(Seen::Opaque(read)),
    }
}

fn check_name(rules: &Rules, hello: &Hello, host: &Host) -> Result<(), Refusal> {
    match (&hello.name, host) {
        (Some(name), Host::Name(host)) if name == host => Ok(()),
        // TLS has no names for addresses.
        (None, Host::Address(_)) => Ok(()),
        (Some(name), host) => Err(Refusal::ServerName { host: host.to_string(), found: rules.shown(name) }),
        (None, Host::Name(_)) => Err(Refusal::Hello("it names no server")),
    }
}

type Guest = Rewound<TokioIo<Upgraded>>;

async fn accept(shared: &Shared, host: &Host, guest: Guest) -> Result<tokio_rustls::server::TlsStream<Guest>, Refusal> {
    let authority = shared.authority.as_ref().ok_or(Refusal::GuestTls)?;
    let config = authority.server(host).map_err(|_| Refusal::GuestTls)?;
    let accepted = timeout(shared.limits.head_time, TlsAcceptor::from(config).accept(guest)).await;
    accepted.ok().and_then(Result::ok).ok_or(Refusal::GuestTls)
}

/// Both directions as they are, until both are closed or one is broken.
async fn relay(mut guest: TokioIo<Upgraded>, read: Bytes, way: Way) {
    let Some(mut line) = way.line else { return };
    if line.write_all(&read).await.is_ok() {
        // WHY: how it ended is told with its bytes; a broken line is the end like any other.
        drop(copy_bidirectional(&mut guest, &mut line).await);
    }
}
