//! Own hosts on the loopback interface, a resolver with a script, and raw clients.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ringfence_egress::{
    Answer, BoundSecret, Event, Hooks, Limits, Outside, Proxy, Resolve, Roots, SecretValue, Step, Traffic, Unrecorded,
    Watch,
};
use ringfence_policy::{Inject, NetworkRule};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;

pub mod targets;
pub mod tls;

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers by name; a name without a script is at 127.0.0.1, so that whatever gets through reaches the listener.
#[derive(Default)]
pub struct Script {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub asked: Mutex<Vec<String>>,
}

impl Script {
    /// One list after the other; the last stays.
    pub fn set(&self, host: &str, answers: &[&[&str]]) {
        let read = |list: &&[&str]| list.iter().map(|text| text.parse().expect("an address")).collect();
        self.answers.lock().unwrap().insert(host.to_owned(), answers.iter().map(read).collect());
    }
}

impl Resolve for Script {
    fn resolve<'a>(&'a self, host: &'a str) -> Answer<'a> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(host) {
            None => vec![LOOPBACK],
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list.first().cloned().unwrap_or_default(),
        };
        Box::pin(async move { io::Result::Ok(answer) })
    }
}

/// Lets 127.0.0.1 through and no other address; bytes up to a cap.
pub struct Loopback {
    pub most: u64,
}

impl Hooks for Loopback {
    fn allow_address(&self, address: &IpAddr) -> bool {
        *address == LOOPBACK
    }
    fn allow_traffic(&self, traffic: Traffic) -> bool {
        traffic.up + traffic.down <= self.most
    }
}

/// Keeps every event.
#[derive(Default)]
pub struct Recorder {
    pub events: Mutex<Vec<Event>>,
    pub deaf: std::sync::atomic::AtomicBool,
}

impl Watch for Recorder {
    fn connection(&self, event: &Event) -> Result<(), Unrecorded> {
        if self.deaf.load(Ordering::SeqCst) {
            return Err(Unrecorded);
        }
        self.events.lock().unwrap().push(event.clone());
        Ok(())
    }
}

impl Recorder {
    /// Each event as a line, without times.
    pub fn lines(&self) -> Vec<String> {
        self.events.lock().unwrap().iter().map(line).collect()
    }
}

fn line(event: &Event) -> String {
    let step = match &event.step {
        Step::Allowed => "allowed".to_owned(),
        Step::Refused(why) => format!("refused ({why})"),
        Step::Ended { fault: None, .. } => "ended".to_owned(),
        Step::Ended { fault: Some(why), .. } => format!("ended ({why})"),
    };
    let method = event.method.as_deref().unwrap_or("-");
    let path = event.path.as_deref().unwrap_or("");
    let secrets = if event.secrets.is_empty() { String::new() } else { format!(" with {}", event.secrets.join(" ")) };
    format!("{step}: {method} {}{path}{secrets}", event.host)
}

pub fn rule(host: &str, ports: &[u16], methods: &[&str], paths: &[&str]) -> NetworkRule {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    NetworkRule { host: host.to_owned(), ports: ports.to_vec(), methods: owned(methods), paths: owned(paths) }
}

/// Every method and path.
pub fn open(host: &str, port: u16) -> NetworkRule {
    rule(host, &[port], &["*"], &["/*"])
}

pub fn secret(name: &str, host: &str, paths: &[&str], value: &str) -> BoundSecret {
    let inject = Inject {
        host: host.to_owned(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        header: "authorization".to_owned(),
        format: "Bearer {}".to_owned(),
    };
    BoundSecret { name: name.to_owned(), inject, value: SecretValue::new(value.to_owned()) }
}

/// A proxy with its script and recorder.
pub struct Stage {
    pub proxy: Proxy,
    pub script: Arc<Script>,
    pub recorder: Arc<Recorder>,
    tasks: JoinSet<()>,
}

pub struct Setting {
    pub rules: Vec<NetworkRule>,
    pub secrets: Vec<BoundSecret>,
    pub hooks: Arc<dyn Hooks>,
    pub limits: Limits,
    pub roots: Roots,
}

impl Setting {
    pub fn new(rules: Vec<NetworkRule>) -> Self {
        let hooks = Arc::new(Loopback { most: u64::MAX });
        let roots = Roots::Pem(tls::authority().pem.clone());
        Self { rules, secrets: Vec::new(), hooks, limits: Limits::default(), roots }
    }

    pub fn stage(self) -> Stage {
        let (script, recorder) = (Arc::new(Script::default()), Arc::new(Recorder::default()));
        let outside = Outside {
            resolver: Arc::clone(&script) as Arc<dyn Resolve>,
            hooks: self.hooks,
            watch: Arc::clone(&recorder) as Arc<dyn Watch>,
            roots: self.roots,
        };
        let proxy = Proxy::new(self.rules, self.secrets, outside, self.limits).expect("a proxy");
        Stage { proxy, script, recorder, tasks: JoinSet::new() }
    }
}

impl Stage {
    pub fn of(rules: Vec<NetworkRule>) -> Self {
        Setting::new(rules).stage()
    }

    /// A guest's connection.
    pub fn connect(&mut self) -> UnixStream {
        let (guest, host) = UnixStream::pair().expect("a pair");
        let proxy = self.proxy.clone();
        self.tasks.spawn(async move { proxy.serve_stream(host).await });
        guest
    }

    /// Sends the text, and reads the head of the first answer.
    pub async fn say(&mut self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).await.expect("the proxy listens");
        until(&mut stream, "\r\n\r\n").await.unwrap_or_default()
    }

    /// Sends the text to a proxy that may hang up before it read all, and reads until it does.
    pub async fn say_lossy(&mut self, text: &str) -> String {
        let (mut read, mut write) = self.connect().into_split();
        let sent = async {
            let _ = write.write_all(text.as_bytes()).await;
            // Not closed: the proxy must not wait for more.
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = sent => String::new(),
            answer = rest(&mut read) => answer,
        }
    }

    /// Sends the text, and reads one answer.
    pub async fn ask(&mut self, text: &str) -> Reply {
        let mut stream = self.connect();
        ask(&mut stream, text).await
    }

    /// A tunnel through CONNECT, or the status of its refusal.
    pub async fn tunnel(&mut self, target: &str) -> Result<UnixStream, Reply> {
        let mut stream = self.connect();
        let reply = ask_head(&mut stream, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        if reply.status == 200 { Ok(stream) } else { Err(reply) }
    }

    /// Waits until all connections are served to their end.
    pub async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Drops all connections.
    pub fn abort(&mut self) {
        self.tasks.abort_all();
    }
}

pub async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer, read as plainly as can be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().filter_map(|line| line.split_once(':'));
        found.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

/// Reads up to and with `end`.
pub async fn until<S: AsyncRead + Unpin>(stream: &mut S, end: &str) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        bytes.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub async fn ask_head<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, text: &str) -> Reply {
    stream.write_all(text.as_bytes()).await.expect("the proxy listens");
    let head = until(stream, "\r\n\r\n").await.unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Reply { status, head, body: String::new() }
}

/// Sends a request and reads its answer with the body.
pub async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, text: &str) -> Reply {
    let mut reply = ask_head(stream, text).await;
    reply.body = body(stream, &reply.head).await.unwrap_or_default();
    reply
}

/// The body that belongs to the head; nothing where it broke off.
pub async fn body<S: AsyncRead + Unpin>(stream: &mut S, head: &str) -> Option<String> {
    let head = head.to_ascii_lowercase();
    let mut body = String::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let size = usize::from_str_radix(until(stream, "\r\n").await?.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await.ok()?;
            if size == 0 {
                return Some(body);
            }
            body.push_str(&String::from_utf8_lossy(&chunk[..size]));
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map(|text| text.trim().parse());
    let mut bytes = vec![0; length.and_then(Result::ok).unwrap_or(0)];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A host on the loopback interface, which keeps what it was sent.
pub struct Host {
    pub port: u16,
    pub accepted: Arc<AtomicUsize>,
    pub heads: Arc<Mutex<Vec<String>>>,
    pub bodies: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

/// What a host answers to a request's head; nothing closes the connection.
pub type Answering = fn(&str) -> Option<String>;

pub fn ok(_: &str) -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned())
}

impl Host {
    pub async fn plain(answering: Answering) -> Self {
        Self::start(answering, None).await
    }

    /// One that speaks TLS, with a certificate for `name` of the tests' own authority.
    pub async fn secure(name: &str, answering: Answering) -> Self {
        Self::start(answering, Some(tls::authority().acceptor(name))).await
    }

    pub async fn start(answering: Answering, acceptor: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((LOOPBACK, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (heads, bodies) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let seen = (Arc::clone(&heads), Arc::clone(&bodies));
        let counter = Arc::clone(&accepted);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut served = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                served.spawn(async move {
                    match acceptor {
                        None => serve(stream, answering, seen).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, answering, seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, accepted, heads, bodies, _task: task }
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The request lines so far.
    pub fn requests(&self) -> Vec<String> {
        self.heads.lock().unwrap().iter().map(|head| head.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

type Seen = (Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<String>>>);

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answering: Answering, (heads, bodies): Seen) {
    while let Some(head) = until(&mut stream, "\r\n\r\n").await {
        let Some(sent) = body(&mut stream, &head).await else { return };
        let answer = answering(&head);
        heads.lock().unwrap().push(head);
        bodies.lock().unwrap().push(sent);
        let Some(answer) = answer else { return };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
