//! A session's network at the seam: each connection is recorded before it is made, and none without its record.
//!
//! Answers to: the laws of order. The cell is a fake whose way out is a listener of the test's, which plays the guest.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_audit::{Log, LogOptions, MemorySink, Record, Sink};
use ringfence_bridge::{Hold, HoldTarget};
use ringfence_egress::{Answer, Hooks, Resolve, Roots};
use ringfence_policy::Policy;
use ringfence_session::{Engine, Outbound, Parts, Request, Session, SnapshotKey};
use ringfence_testkit::{FakeTier, Reply, Trace, TraceSink};
use ringfence_tier::{Capabilities, Event};
use ringfence_types::{Source, Strength, Tenant, TierName, Value};

/// Every name is here.
struct Here;

impl Resolve for Here {
    fn resolve<'a>(&'a self, _: &'a str) -> Answer<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}
impl Hooks for Here {
    fn allow_address(&self, address: &IpAddr) -> bool {
        address.is_loopback()
    }
}

/// A host that answers every connection once.
struct Host {
    port: u16,
    reached: Arc<AtomicUsize>,
}

impl Host {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let host = Self { port: listener.local_addr().unwrap().port(), reached: Arc::default() };
        let reached = Arc::clone(&host.reached);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                reached.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                let mut head = [0; 1024];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
            }
        });
        host
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

struct Stage {
    engine: Engine,
    session: Session,
    trace: Trace,
    /// The proxy, as the guest sees it.
    proxy: SocketAddr,
}

/// A session under a policy of these lines, whose cell says nothing until it is ended.
fn stage(policy: &str, sink: Box<dyn Sink>) -> Stage {
    let way_out = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let proxy = way_out.local_addr().unwrap();
    let trace = Trace::new();
    stage_of(policy, sink, &trace, |tier| tier.leading_out(way_out))
        .map_or_else(|error| panic!("{error}"), |(engine, session)| Stage { engine, session, trace, proxy })
}

fn stage_of(
    policy: &str,
    sink: Box<dyn Sink>,
    trace: &Trace,
    with: impl FnOnce(FakeTier) -> FakeTier,
) -> Result<(Engine, Session), String> {
    let can = Capabilities { network: true, ..Capabilities::closed(TierName::Process, 1, Strength::Process) };
    let script = vec![Reply::Event(Event::Done(Value::Int(1))), Reply::Hang];
    let tier = with(FakeTier::named(TierName::Process, can, trace).playing(None, script));
    let log = Log::open(sink, LogOptions::default()).map_err(|error| error.to_string())?;
    let snapshot_key = SnapshotKey::new([1; 32]);
    let parts = Parts { tiers: vec![Arc::new(tier)], log: Arc::new(log), snapshot_key, environments: None };
    let outbound = Outbound { resolver: Arc::new(Here), hooks: Arc::new(Here), roots: Roots::Pem(String::new()) };
    let policy = Policy::parse(&format!("version = 1\n{policy}"), "test").map_err(|error| error.to_string())?;
    let engine = Engine::with_outbound(parts, outbound);
    let session = engine.session(Request::new(policy)).map_err(|error| error.to_string())?;
    Ok((engine, session))
}

fn allowing(port: u16) -> String {
    format!("[network]\nallow = [{{ host = \"a.test\", ports = [{port}], methods = [\"*\"] }}]\n")
}

/// One request of the guest's; its status line and body.
async fn ask(proxy: SocketAddr, host: &str, port: u16) -> (String, String) {
    let asked = format!("GET http://{host}:{port}/?q=1 HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(proxy).unwrap();
        stream.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn records(sink: &MemorySink) -> Vec<Record> {
    sink.text().lines().map(|line| Record::parse(line.as_bytes()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_is_recorded_in_its_place() {
    let (host, sink) = (Host::new(), MemorySink::new());
    let Stage { mut session, proxy, engine, .. } = stage(&allowing(host.port), Box::new(sink.clone()));
    drop(engine);
    session.run(Source::new("1"), &mut ()).await.unwrap();
    let handle = session.handle();
    let port = host.port;
    let run = tokio::spawn(async move { session.run(Source::new("2"), &mut ()).await.map(|_| ()) });
    // The second run is under way: its connections come after its start.
    while records(&sink).iter().filter(|record| record.event == "run_started").count() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(proxy, "a.test", port).await, ("HTTP/1.1 200 OK".to_owned(), "hi".to_owned()));
    let want = format!("ringfence: policy does not allow `b.test:{port}`; add the host and port to `network.allow`\n");
    assert_eq!(ask(proxy, "b.test", port).await, ("HTTP/1.1 403 Forbidden".to_owned(), want));
    // One that is still open when the session ends.
    let open = TcpStream::connect(proxy).unwrap();
    (&open).write_all(format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n").as_bytes()).unwrap();
    let _ = (&open).read(&mut [0; 64]).unwrap();
    handle.kill("a test");
    run.await.unwrap().unwrap();
    assert_eq!((&open).read(&mut [0; 64]).unwrap_or_default(), 0, "the connection ends with the session");
    let names: Vec<String> = records(&sink).into_iter().map(|record| record.event).collect();
    let want = "log_opened granted tier_chosen cell_opened run_started run_closed run_started connection_permitted \
                connection_ended connection_denied connection_permitted connection_ended killed run_closed session_closed checkpoint";
    assert_eq!(names.join(" "), want);
    let detail = |event: &str| records(&sink).into_iter().find(|record| record.event == event).unwrap().detail;
    let want = serde_json::json!({"connection": 1, "host": "a.test", "port": port, "method": "GET", "path": "/",
        "rule": "network.allow[0]", "secrets": [], "address": "127.0.0.1"});
    assert_eq!(detail("connection_permitted"), want);
    let reason = format!("policy does not allow `b.test:{port}`; add the host and port to `network.allow`");
    let want = serde_json::json!({"connection": 2, "host": "b.test", "port": port, "method": "GET", "path": "/",
        "reason": reason});
    assert_eq!(detail("connection_denied"), want);
    let ended = detail("connection_ended");
    assert_eq!((ended["bytes_down"].as_u64(), ended["fault"].is_null()), (Some(59), true), "{ended}");
    let runs: Vec<_> = records(&sink).into_iter().filter(|record| record.event.starts_with("run_")).collect();
    let of_connections = records(&sink).into_iter().filter(|record| record.event.starts_with("connection_"));
    assert!(of_connections.map(|record| record.run).all(|run| run == runs[2].run), "they belong to the second run");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cant_be_recorded_is_not_done() {
    let host = Host::new();
    // The log takes what comes up to the end of the first run, or the permit of the connection too.
    for (appends, want) in [(6, "HTTP/1.1 503 Service Unavailable"), (7, "HTTP/1.1 200 OK")] {
        let trace = Trace::new();
        let sink = TraceSink::failing_after(&trace, appends);
        let Stage { mut session, proxy, .. } = stage(&allowing(host.port), Box::new(sink));
        let before = host.reached();
        session.run(Source::new("1"), &mut ()).await.unwrap();
        let (status, _) = ask(proxy, "a.test", host.port).await;
        assert_eq!(
            (status.as_str(), host.reached() - before),
            (want, usize::from(appends == 7)),
            "{:?}",
            trace.lines()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_switch_stops_new_connections() {
    let (host, sink) = (Host::new(), MemorySink::new());
    let Stage { mut session, proxy, engine, .. } = stage(&allowing(host.port), Box::new(sink.clone()));
    session.run(Source::new("1"), &mut ()).await.unwrap();
    let hold = Hold { target: HoldTarget::Tenant(Tenant::local()), by: "a test".to_owned(), reason: None };
    engine.hold(&hold).unwrap();
    assert_eq!(ask(proxy, "a.test", host.port).await.0, "HTTP/1.1 503 Service Unavailable");
    let reasons = records(&sink).into_iter().filter(|record| record.event == "connection_denied");
    let reasons: Vec<_> = reasons.map(|record| record.detail["reason"].clone()).collect();
    assert_eq!(reasons, ["a kill switch is set on `tenant:local`"]);
    engine.release(&hold).unwrap();
    assert_eq!(ask(proxy, "a.test", host.port).await.0, "HTTP/1.1 200 OK");
    assert_eq!(host.reached(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_cant_fill_the_log() {
    let sink = MemorySink::new();
    let Stage { mut session, proxy, .. } = stage(&allowing(1), Box::new(sink.clone()));
    session.run(Source::new("1"), &mut ()).await.unwrap();
    let asked = "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let flood = tokio::task::spawn_blocking(move || {
        let stream = TcpStream::connect(proxy).unwrap();
        let mut answers = std::io::BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        for _ in 0..20_010 {
            (&stream).write_all(asked.as_bytes()).unwrap();
            while !line.ends_with("network.allow`\n") {
                std::io::BufRead::read_line(&mut answers, &mut line).unwrap();
            }
            line.clear();
        }
    });
    flood.await.unwrap();
    let denied: Vec<Record> = records(&sink).into_iter().filter(|record| record.event == "connection_denied").collect();
    assert_eq!(denied.len(), 20_000);
    let last = "the session's 20,000 records of connections are used up; this and all further ones are refused";
    assert_eq!(denied.last().unwrap().detail["reason"], last);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_before_anything_is_opened() {
    let secret = |from: &str| {
        format!("{}[secrets.key]\nfrom = {from}\ninject = {{ host = \"a.test\", header = \"x-key\" }}\n", allowing(443))
    };
    let table = [
        (
            "{ env = \"RINGFENCE_NO_SUCH_VARIABLE\" }",
            "secret `key` has no value: set the environment variable `RINGFENCE_NO_SUCH_VARIABLE` of the host's process",
        ),
        (
            "{ file = \"/no/such/file\" }",
            "secret `key` can't be read from `/no/such/file`: No such file or directory (os error 2)",
        ),
        ("{ file = \"/dev/zero\" }", "secret `key` can't be read from `/dev/zero`: it is longer than 64 KiB"),
        (
            "{ file = \"/dev/null\" }",
            "secret `key` can't be put into header `x-key`: its value is empty; mend the secret or its `inject`",
        ),
    ];
    for (from, want) in table {
        let Stage { mut session, trace, .. } = stage(&secret(from), Box::new(MemorySink::new()));
        let error = session.run(Source::new("1"), &mut ()).await.unwrap_err();
        assert_eq!(error.to_string(), want);
        assert!(!trace.lines().iter().any(|line| line.starts_with("open")), "{from}: {:?}", trace.lines());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_without_a_way_out_is_no_place_for_a_network() {
    let trace = Trace::new();
    let (_engine, mut session) = stage_of(&allowing(443), Box::new(MemorySink::new()), &trace, |tier| tier).unwrap();
    let error = session.run(Source::new("1"), &mut ()).await.unwrap_err();
    let want = "the process tier could not open a cell: it has no way out for the network that was granted";
    assert_eq!(error.to_string(), want);
    assert_eq!(trace.lines().last().map(String::as_str), Some("drop"), "and the cell is gone: {:?}", trace.lines());
}
