//! HTTP with the guest: each request is read, judged, told, and only then sent on.
//!
//! Answers to: `proxy` (the guest's connections) and `tunnel` (what is inside of them). Must not: parse HTTP itself.
//! INVARIANT: [`Step::Allowed`] is told before a connection is made; whatever was allowed also gets its end told.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::dial::{self, GuestBody, Line, Upstream};
use crate::event::{Event, Step};
use crate::headers;
use crate::limits::Traffic;
use crate::proxy::{Shared, blank};
use crate::refusal::Refusal;
use crate::resolve;
use crate::screen::{Fault, Screened};
use crate::stream::Meter;
use crate::target::Target;
use crate::tunnel::Tunnel;

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Where the requests of a connection may go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scope {
    /// Wherever the policy lets them, by absolute address or CONNECT.
    Proxy,
    /// To the tunnel's target only.
    Tunnel {
        target: Target,
        /// Whether TLS was opened on the way.
        is_secure: bool,
    },
}

/// The requests of one connection.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    connection: u64,
    scope: Scope,
    fault: Fault,
    meter: Arc<Meter>,
    way: tokio::sync::Mutex<Way>,
    tunnel: Mutex<Option<Tunnel>>,
}

/// The way to the host of the last request, kept for the next.
#[derive(Default)]
pub(crate) struct Way {
    pub(crate) pinned: Option<(Target, Vec<IpAddr>)>,
    pub(crate) line: Option<Line>,
    upstream: Option<Upstream>,
}

/// What a request asks for.
struct Wanted {
    target: Target,
    is_secure: bool,
    method: Method,
    path: String,
}

impl Exchange {
    pub(crate) fn new(shared: Arc<Shared>, connection: u64, scope: Scope) -> Self {
        let meter = shared.meter();
        Self::inside(shared, connection, scope, (Way::default(), meter))
    }

    /// One that goes on with a way that was already opened.
    pub(crate) fn inside(shared: Arc<Shared>, connection: u64, scope: Scope, way: (Way, Arc<Meter>)) -> Self {
        let (way, meter) = way;
        let (fault, way) = (Fault::default(), tokio::sync::Mutex::new(way));
        Self { shared, connection, scope, fault, meter, way, tunnel: Mutex::default() }
    }

    /// Serves the stream to its end, or until it becomes a tunnel.
    pub(crate) async fn serve<S>(self, stream: S) -> Option<Tunnel>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.shared.limits;
        let head_bytes = limits.head_bytes.max(8 * 1024);
        let io = TokioIo::new(Screened::new(stream, head_bytes, Arc::clone(&self.fault)));
        let this = Arc::new(self);
        let service = service_fn(|request| {
            let this = Arc::clone(&this);
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
        builder.max_headers(limits.headers).max_header_size(head_bytes).max_buf_size(head_bytes);
        let served = builder.serve_connection(io, service).with_upgrades().await;
        if let Err(fault) = served
            && (fault.is_parse() || fault.is_parse_too_large())
        {
            let why = what_fault(&this.fault, fault.is_parse_too_large());
            this.refuse(blank(this.connection), &Refusal::Malformed(why));
        }
        this.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Reply> {
        let mut event = blank(self.connection);
        event.method = Some(self.shown(request.method().as_str()));
        let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let is_connect = request.method() == Method::CONNECT;
        let answered =
            if is_connect { self.connect(request, &mut event).await } else { self.forward(request, &mut event).await };
        let is_refused = answered.is_err();
        let mut response = answered.unwrap_or_else(|refused| match refused {
            Refused::Before(refusal) => {
                self.refuse(event, &refusal);
                say(&refusal)
            }
            Refused::After(refusal) => say(&refusal),
        });
        // WHY: the bytes after these are not screened.
        if is_chunked || (is_connect && is_refused) || self.fault.get().is_some() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn refuse(&self, event: Event, refusal: &Refusal) {
        // WHY: what was refused stays refused, recorded or not.
        let _ = self.shared.tell(&Event { step: Step::Refused(refusal.clone()), ..event });
    }

    fn screened(&self) -> Result<(), Refusal> {
        self.fault.get().map_or(Ok(()), |why| Err(Refusal::Malformed(why)))
    }

    /// CONNECT: checks the target, opens a line to it, and leaves a tunnel behind.
    async fn connect(&self, request: Request<Incoming>, event: &mut Event) -> Result<Response<Reply>, Refused> {
        self.screened()?;
        if self.scope != Scope::Proxy {
            return Err(Refusal::Malformed("it is a CONNECT inside a tunnel").into());
        }
        let target = self.connect_target(&request)?;
        self.name(event, &target);
        let reach = self.shared.rules.reach(&target)?;
        event.rule = Some(reach.rule());
        let addresses = self.pin(&target).await?;
        event.address = addresses.first().copied();
        let meter = self.shared.meter();
        let mut told = Told::allow(&self.shared, event.clone(), &meter)?;
        let line = dial::connect(&target, &addresses, &self.shared.limits, &meter).await;
        let line = line.map_err(|refusal| told.fail(refusal))?;
        let upgrade = hyper::upgrade::on(request);
        let way = Way { pinned: Some((target.clone(), addresses)), line: Some(line), upstream: None };
        let tunnel = Tunnel { connection: self.connection, upgrade, target, reach, way, meter, told };
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        Ok(Response::new(Reply::Text(None)))
    }

    async fn pin(&self, target: &Target) -> Result<Vec<IpAddr>, Refusal> {
        let outside = &self.shared.outside;
        let _turn = self.shared.lookups.acquire().await;
        resolve::pin(&*outside.resolver, &*outside.hooks, &self.shared.limits, target).await
    }

    /// A request: checks all that can be seen of it, puts secrets in, and sends it on.
    async fn forward(&self, mut request: Request<Incoming>, event: &mut Event) -> Result<Response<Reply>, Refused> {
        self.screened()?;
        let wanted = self.wanted(&request)?;
        self.name(event, &wanted.target);
        event.path = Some(self.shown(&wanted.path));
        self.check_shape(&request, &wanted)?;
        let rules = &self.shared.rules;
        event.rule = Some(rules.permit(&wanted.target, &wanted.method, &wanted.path, request.headers())?);
        let mut way = self.way.lock().await;
        let addresses = self.turn(&mut way, &wanted.target).await?;
        event.address = addresses.first().copied();
        rewrite(&mut request, &wanted)?;
        self.inject(&mut request, &wanted, event)?;
        let mut told = Told::allow(&self.shared, event.clone(), &self.meter)?;
        let sent = self.send(&mut way, request, &wanted, &addresses).await;
        let response = sent.map_err(|refusal| told.fail(refusal))?;
        if response.status().is_informational() {
            way.upstream = None;
            return Err(told.fail(Refusal::BadAnswer { target: wanted.target.to_string() }));
        }
        Ok(reply(response, told))
    }

    /// Puts the secrets in, in place of what the guest put there.
    fn inject(&self, request: &mut Request<Incoming>, wanted: &Wanted, event: &mut Event) -> Result<(), Refusal> {
        if !wanted.is_secure && !self.shared.limits.secrets_in_plain_http {
            return Ok(());
        }
        for secret in self.shared.rules.secrets(&wanted.target, &wanted.path) {
            let value = secret.header_value().ok_or(Refusal::Unrecorded)?;
            request.headers_mut().insert(secret.header.clone(), value);
            event.secrets.push(secret.name.clone());
        }
        Ok(())
    }

    /// The checked addresses of the target: those of the last request where it went to the same target.
    async fn turn(&self, way: &mut Way, target: &Target) -> Result<Vec<IpAddr>, Refusal> {
        if let Some((pinned, addresses)) = &way.pinned
            && pinned == target
        {
            return Ok(addresses.clone());
        }
        let addresses = self.pin(target).await?;
        *way = Way { pinned: Some((target.clone(), addresses.clone())), ..Way::default() };
        Ok(addresses)
    }

    async fn send(
        &self,
        way: &mut Way,
        request: Request<Incoming>,
        wanted: &Wanted,
        addresses: &[IpAddr],
    ) -> Result<Response<Incoming>, Refusal> {
        let broken = Arc::new(AtomicBool::new(false));
        let mut request = request.map(|body| GuestBody::new(body, Arc::clone(&broken)));
        let bad = || match self.meter.fault() {
            Some(fault) => fault,
            None if broken.load(Ordering::Acquire) => Refusal::Malformed("its body is broken"),
            None => Refusal::BadAnswer { target: wanted.target.to_string() },
        };
        if let Some(upstream) = way.upstream.as_mut().filter(|upstream| upstream.is_open()) {
            match upstream.send(request).await {
                Ok(response) => return Ok(response),
                // It was closed meanwhile, and the request is whole.
                Err(Some(unsent)) => request = unsent,
                Err(None) => return Err(bad()),
            }
        }
        let mut upstream = self.open(way, wanted, addresses).await?;
        let response = upstream.send(request).await.map_err(|_| bad())?;
        way.upstream = Some(upstream);
        Ok(response)
    }

    async fn open(&self, way: &mut Way, wanted: &Wanted, addresses: &[IpAddr]) -> Result<Upstream, Refusal> {
        let limits = &self.shared.limits;
        let line = match way.line.take() {
            Some(line) => line,
            None => dial::connect(&wanted.target, addresses, limits, &self.meter).await?,
        };
        let bad = || Refusal::BadAnswer { target: wanted.target.to_string() };
        if !wanted.is_secure {
            return Upstream::open(line, limits).await.ok_or_else(bad);
        }
        let trust = self.shared.trust().ok_or_else(|| Refusal::Tls { target: wanted.target.to_string() })?;
        let stream = dial::secure(&wanted.target, line, trust, limits).await?;
        Upstream::open(stream, limits).await.ok_or_else(bad)
    }

    fn wanted(&self, request: &Request<Incoming>) -> Result<Wanted, Refusal> {
        let uri = request.uri();
        let (target, is_secure) = match (&self.scope, uri.scheme_str(), uri.authority()) {
            (Scope::Tunnel { target, is_secure }, None, None) => (target.clone(), *is_secure),
            (Scope::Tunnel { .. }, ..) => return Err(Refusal::Malformed("its address is not a path")),
            (Scope::Proxy, Some("http"), Some(authority)) => (self.read_target(authority.as_str(), Some(HTTP))?, false),
            (Scope::Proxy, Some(_), Some(_)) => return Err(Refusal::Scheme),
            (Scope::Proxy, ..) => return Err(Refusal::Malformed("its address does not begin with `http://`")),
        };
        Ok(Wanted { target, is_secure, method: request.method().clone(), path: uri.path().to_owned() })
    }

    fn shown(&self, text: &str) -> String {
        self.shared.rules.shown(text)
    }

    fn name(&self, event: &mut Event, target: &Target) {
        event.host = self.shown(&target.host.to_string());
        event.port = Some(target.port);
    }

    fn read_target(&self, text: &str, default: Option<u16>) -> Result<Target, Refusal> {
        Target::read(text, default).map_err(|fault| Refusal::Spelling { host: self.shown(text), fault })
    }

    fn connect_target(&self, request: &Request<Incoming>) -> Result<Target, Refusal> {
        let uri = request.uri();
        let Some(authority) = uri.authority().filter(|_| uri.scheme().is_none() && uri.path_and_query().is_none())
        else {
            return Err(Refusal::Malformed("CONNECT takes a host and a port"));
        };
        if request.headers().contains_key(header::CONTENT_LENGTH)
            || request.headers().contains_key(header::TRANSFER_ENCODING)
        {
            return Err(Refusal::Malformed("CONNECT takes no body"));
        }
        let target = self.read_target(authority.as_str(), None)?;
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let is_same = |host: &HeaderValue| {
            let read = |default| host.to_str().ok().and_then(|host| Target::read(host, Some(default)).ok());
            // Without a port, it is the target's.
            read(target.port).is_some_and(|host| host == target)
        };
        match (hosts.next(), hosts.next()) {
            (None, _) => Ok(target),
            (Some(host), None) if is_same(host) => Ok(target),
            _ => Err(Refusal::HostHeader { target: self.shown(&target.to_string()) }),
        }
    }

    /// What may stand in no request: another host, a change of protocol, an echo of its headers.
    fn check_shape(&self, request: &Request<Incoming>, wanted: &Wanted) -> Result<(), Refusal> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let default = if wanted.is_secure { HTTPS } else { HTTP };
        let is_same = |host: &HeaderValue| {
            let host = host.to_str().ok().and_then(|host| Target::read(host, Some(default)).ok());
            host.is_some_and(|host| host == wanted.target)
        };
        if !matches!((hosts.next(), hosts.next()), (Some(host), None) if is_same(host)) {
            return Err(Refusal::HostHeader { target: self.shown(&wanted.target.to_string()) });
        }
        if request.headers().contains_key(header::UPGRADE) {
            return Err(Refusal::Upgrade);
        }
        if wanted.method == Method::TRACE {
            return Err(Refusal::Malformed("TRACE would show what the proxy put in"));
        }
        if !wanted.path.starts_with('/') || !wanted.path.is_ascii() {
            return Err(Refusal::Malformed("its path is not a path"));
        }
        Ok(())
    }
}

fn what_fault(fault: &Fault, is_too_large: bool) -> &'static str {
    fault.get().copied().unwrap_or(if is_too_large { "its head is too large" } else { "it is not HTTP" })
}

/// The request as it goes out: a path, the checked host, and nothing that is between the guest and the proxy only.
fn rewrite(request: &mut Request<Incoming>, wanted: &Wanted) -> Result<(), Refusal> {
    let malformed = |()| Refusal::Malformed("its address is not a path");
    let path = request.uri().path_and_query().cloned().ok_or(()).map_err(malformed)?;
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_11;
    headers::strip(request.headers_mut());
    let host = wanted.target.header(if wanted.is_secure { HTTPS } else { HTTP });
    let host = HeaderValue::from_str(&host).map_err(|_| ()).map_err(malformed)?;
    request.headers_mut().insert(header::HOST, host);
    Ok(())
}

fn reply(response: Response<Incoming>, told: Told) -> Response<Reply> {
    let (mut parts, body) = response.into_parts();
    headers::strip(&mut parts.headers);
    parts.version = Version::HTTP_11;
    // WHY: what the library keeps beside the answer belongs to the other connection.
    parts.extensions.clear();
    Response::from_parts(parts, Reply::Relay { body, _told: Box::new(told) })
}

fn say(refusal: &Refusal) -> Response<Reply> {
    let mut response = Response::new(Reply::Text(Some(Bytes::from(format!("ringfence: {refusal}\n")))));
    *response.status_mut() = refusal.status();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// Whether the end of it is told elsewhere.
enum Refused {
    /// Nothing was allowed yet: the refusal is still to be told.
    Before(Refusal),
    /// It was allowed and came to nothing, which is told as its end.
    After(Refusal),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Before(refusal)
    }
}

/// Something allowed and told; its end is told when this is dropped.
pub(crate) struct Told {
    shared: Arc<Shared>,
    event: Event,
    meter: Arc<Meter>,
    before: Traffic,
    since: Instant,
    fault: Option<Refusal>,
}

impl Told {
    fn allow(shared: &Arc<Shared>, event: Event, meter: &Arc<Meter>) -> Result<Self, Refusal> {
        shared.tell(&event).map_err(|_| Refusal::Unrecorded)?;
        let (before, since) = (meter.read(), Instant::now());
        Ok(Self { shared: Arc::clone(shared), event, meter: Arc::clone(meter), before, since, fault: None })
    }

    fn fail(&mut self, refusal: Refusal) -> Refused {
        self.fault = Some(refusal.clone());
        Refused::After(refusal)
    }

    /// Nothing of it goes out after all.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        let _ = self.shared.tell(&Event { step: Step::Refused(refusal.clone()), ..self.event.clone() });
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let now = self.meter.read();
        let step = Step::Ended {
            up: now.up - self.before.up,
            down: now.down - self.before.down,
            elapsed: self.since.elapsed(),
            fault: self.fault.take().or_else(|| self.meter.fault()),
        };
        let _ = self.shared.tell(&Event { step, ..self.event.clone() });
    }
}

/// A body for the guest.
pub(crate) enum Reply {
    /// The proxy's own words.
    Text(Option<Bytes>),
    /// The host's.
    Relay { body: Incoming, _told: Box<Told> },
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Relay { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }
    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Relay { body, .. } => body.is_end_stream(),
        }
    }
    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Relay { body, .. } => body.size_hint(),
        }
    }
}
