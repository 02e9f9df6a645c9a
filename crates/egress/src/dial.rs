//! Connections to hosts: to an address that was checked, with TLS that is verified.
//!
//! Answers to: `exchange` and `tunnel`. Must not: resolve again, or accept a certificate that doesn't hold.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::stream::{Guarded, Meter};
use crate::target::{Host, Target};

/// A counted connection to a host.
pub(crate) type Line = Guarded<TcpStream>;

/// The cryptography of both sides, named so that no process-wide default is needed.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// Connects to the first of the checked addresses that answers.
pub(crate) async fn connect(
    target: &Target,
    addresses: &[IpAddr],
    limits: &Limits,
    meter: &Arc<Meter>,
) -> Result<Line, Refusal> {
    let share = limits.connect_time / u32::try_from(addresses.len()).unwrap_or(1).max(1);
    let mut why = "no address answered";
    for address in addresses {
        match attempt(*address, target.port, share).await {
            Ok(stream) => return Ok(Guarded::new(stream, limits.idle_time, Some(Arc::clone(meter)))),
            Err(found) => why = found,
        }
    }
    Err(Refusal::Unreachable { target: target.to_string(), why })
}

async fn attempt(address: IpAddr, port: u16, share: Duration) -> Result<TcpStream, &'static str> {
    let stream = match timeout(share, TcpStream::connect((address, port))).await {
        Err(_) => return Err("it took too long"),
        Ok(Err(fault)) if fault.kind() == std::io::ErrorKind::ConnectionRefused => {
            return Err("the connection was refused");
        }
        Ok(Err(_)) => return Err("the network does not lead there"),
        Ok(Ok(stream)) => stream,
    };
    // WHY: small requests must not wait for an acknowledgement.
    stream.set_nodelay(true).map_err(|_| "the connection broke off")?;
    Ok(stream)
}

/// Verified TLS over the connection.
pub(crate) async fn secure(
    target: &Target,
    line: Line,
    config: Arc<ClientConfig>,
    limits: &Limits,
) -> Result<TlsStream<Line>, Refusal> {
    let refusal = || Refusal::Tls { target: target.to_string() };
    let name = match &target.host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| refusal())?,
        Host::Address(address) => ServerName::from(*address),
    };
    let handshake = TlsConnector::from(config).connect(name, line);
    timeout(limits.connect_time, handshake).await.ok().and_then(Result::ok).ok_or_else(refusal)
}

/// The guest's body on its way out, which keeps in mind whether it broke.
pub(crate) struct GuestBody {
    inner: Incoming,
    broken: Arc<AtomicBool>,
}

impl GuestBody {
    pub(crate) fn new(inner: Incoming, broken: Arc<AtomicBool>) -> Self {
        Self { inner, broken }
    }
}

impl Body for GuestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        if let Poll::Ready(Some(Err(_))) = &polled {
            this.broken.store(true, Ordering::Release);
        }
        polled
    }
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// HTTP/1.1 over a connection; its driver ends with it.
pub(crate) struct Upstream {
    sender: SendRequest<GuestBody>,
    _driver: JoinSet<()>,
}

/// A request that came back unsent, for another connection; or none, where some of it may have gone out.
pub(crate) type Unsent = Option<hyper::Request<GuestBody>>;

impl Upstream {
    pub(crate) async fn open<S>(stream: S, limits: &Limits) -> Option<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        let head_bytes = limits.head_bytes.max(8 * 1024);
        builder.max_headers(limits.headers).max_header_size(head_bytes).max_buf_size(head_bytes);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.await) });
        Some(Self { sender, _driver: driver })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    pub(crate) async fn send(&mut self, request: hyper::Request<GuestBody>) -> Result<Response<Incoming>, Unsent> {
        if self.sender.ready().await.is_err() {
            return Err(Some(request));
        }
        self.sender.try_send_request(request).await.map_err(|mut fault| fault.take_message())
    }
}
