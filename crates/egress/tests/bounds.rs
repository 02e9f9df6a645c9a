//! Bounds: heads, connections, time, bytes; and nothing that outlives the proxy.

mod support;

use std::sync::Arc;
use std::time::Duration;

use ringfence_egress::{BoundSecret, Limits, Outside, Proxy, PublicOnly, Roots, SetupError, SystemResolver};
use support::{Host, Loopback, Setting, Stage, ask, ok, open, rest, rule, secret, tls, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

const SHORT: Duration = Duration::from_millis(50);

fn get(port: u16) -> String {
    format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")
}

#[tokio::test]
async fn heads_are_bounded() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![open("a.test", port)]);
    let line = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n");
    let long_header = format!("{line}X: {}\r\n\r\n", "x".repeat(70_000));
    let many_headers = format!("{line}{}\r\n", "X: y\r\n".repeat(101));
    let long_line = format!("GET http://a.test:{port}/{} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n", "x".repeat(70_000));
    let endless = "x".repeat(200_000);
    for (text, statuses) in [
        (long_header, ["400", "431"]),
        (many_headers, ["400", "431"]),
        (long_line, ["414", "431"]),
        (endless, ["400", "431"]),
    ] {
        let answer = stage.say_lossy(&text).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(statuses.contains(&status), "{} bytes got {answer:?}", text.len());
    }
    assert_eq!(host.accepted(), 0);
    assert_eq!(stage.recorder.lines().len(), 4);
}

#[tokio::test]
async fn slow_heads_are_cut_off() {
    let host = Host::plain(ok).await;
    let mut setting = Setting::new(vec![open("a.test", host.port)]);
    setting.limits = Limits { head_time: SHORT, ..Limits::default() };
    let mut stage = setting.stage();
    let mut stream = stage.connect();
    stream.write_all(b"GET http://a.test/ HT").await.unwrap();
    rest(&mut stream).await;
    // Nor does a tunnel stay open for a guest that says nothing, or not enough.
    for start in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
        stream.write_all(start).await.unwrap();
        rest(&mut stream).await;
    }
    stage.finish().await;
    let refused: Vec<String> =
        stage.recorder.lines().into_iter().filter(|line| line.contains("took too long")).collect();
    let want = "refused (the TLS ClientHello is refused: it took too long): CONNECT a.test";
    assert_eq!(refused, [want, want]);
    assert_eq!(host.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn idle_connections_end() {
    // A host that takes requests and never answers.
    let listener = TcpListener::bind((support::LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut setting = Setting::new(vec![open("a.test", port)]);
    setting.limits = Limits { idle_time: SHORT, ..Limits::default() };
    let mut stage = setting.stage();
    let mut stream = stage.connect();
    stream.write_all(get(port).as_bytes()).await.unwrap();
    let (mut upstream, _) = listener.accept().await.unwrap();
    let mut sent = String::new();
    upstream.read_to_string(&mut sent).await.unwrap();
    assert!(sent.starts_with("GET / HTTP/1.1\r\n"), "{sent}");
    rest(&mut stream).await;
    stage.finish().await;
    assert_eq!(stage.recorder.lines()[0], "allowed: GET a.test/");
    assert!(stage.recorder.lines()[1].starts_with("ended"), "{:?}", stage.recorder.lines());
}

#[tokio::test]
async fn connections_are_bounded() {
    let host = Host::plain(ok).await;
    let mut setting = Setting::new(vec![open("a.test", host.port)]);
    setting.limits = Limits { connections: 2, ..Limits::default() };
    let mut stage = setting.stage();
    let (mut first, mut second) = (stage.connect(), stage.connect());
    assert_eq!(ask(&mut first, &get(host.port)).await.status, 200);
    assert_eq!(ask(&mut second, &get(host.port)).await.status, 200);
    let mut third = stage.connect();
    let answer = rest(&mut third).await;
    let end = "\r\n\r\nringfence: too many connections at once; close some and try again\n";
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with(end), "{answer}");
    drop((first, second));
    stage.finish().await;
    assert_eq!(stage.ask(&get(host.port)).await.status, 200);
}

#[tokio::test]
async fn a_listener_lets_the_others_wait() {
    let host = Host::plain(ok).await;
    let mut setting = Setting::new(vec![open("a.test", host.port)]);
    setting.limits = Limits { connections: 1, ..Limits::default() };
    let stage = setting.stage();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress");
    let serving = stage.proxy.spawn(UnixListener::bind(&path).unwrap());
    let mut first = UnixStream::connect(&path).await.unwrap();
    let mut second = UnixStream::connect(&path).await.unwrap();
    second.write_all(get(host.port).as_bytes()).await.unwrap();
    assert_eq!(ask(&mut first, &get(host.port)).await.status, 200);
    assert_eq!(host.accepted(), 1);
    drop(first);
    assert_eq!(ask(&mut second, "").await.status, 200);
    drop(serving);
    assert_eq!(rest(&mut second).await, "");
    assert!(UnixStream::connect(&path).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn bytes_are_counted_both_ways() {
    let listener = TcpListener::bind((support::LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = Host::secure("a.test", ok).await;
    let mut stage = Stage::of(vec![open("a.test", port), open("a.test", host.port)]);
    let mut stream = stage.connect();
    stream.write_all(get(port).as_bytes()).await.unwrap();
    let (mut upstream, _) = listener.accept().await.unwrap();
    let head = until(&mut upstream, "\r\n\r\n").await.unwrap();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    upstream.write_all(answer.as_bytes()).await.unwrap();
    assert_eq!(ask(&mut stream, "").await.body.len(), 100_000);
    let traffic = stage.proxy.traffic();
    assert_eq!((traffic.up, traffic.down), (head.len() as u64, answer.len() as u64));
    drop((stream, upstream));
    // A tunnel's bytes are counted as they cross the network.
    let tunnel = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
    let mut tunnel = tls::connect(tunnel, "a.test", &tls::authority().pem).await.unwrap();
    ask(&mut tunnel, &get(port)).await;
    drop(tunnel);
    stage.finish().await;
    let ended = stage.recorder.events.lock().unwrap().last().cloned().unwrap();
    let ringfence_egress::Step::Ended { up, down, .. } = ended.step else { panic!("{ended:?}") };
    let after = stage.proxy.traffic();
    assert_eq!((up, down), (after.up - traffic.up, after.down - traffic.down));
    assert!(up > 200 && down > 500, "a handshake, a request and an answer: {up} {down}");
}

#[tokio::test]
async fn traffic_ends_where_the_hook_says_so() {
    let host =
        Host::plain(|_| Some(format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000))))
            .await;
    let mut setting = Setting::new(vec![open("a.test", host.port)]);
    setting.hooks = Arc::new(Loopback { most: 50_000 });
    let mut stage = setting.stage();
    let mut stream = stage.connect();
    stream.write_all(get(host.port).as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.len() < 60_000, "{} bytes came through", answer.len());
    let answer = stage.ask(&get(host.port)).await;
    assert_eq!((answer.status, answer.body.as_str()), (403, "ringfence: the session's traffic is used up\n"));
    stage.finish().await;
    let ended = "ended (the session's traffic is used up): GET a.test/";
    assert_eq!(stage.recorder.lines(), ["allowed: GET a.test/", ended, "allowed: GET a.test/", ended]);
}

#[tokio::test]
async fn dropping_the_proxy_ends_every_connection() {
    let listener = TcpListener::bind((support::LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stage = Stage::of(vec![open("a.test", port), open("b.test", port)]);
    let watch = Arc::downgrade(&stage.recorder);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("egress");
    let serving = stage.proxy.spawn(UnixListener::bind(&path).unwrap());
    drop(stage);
    let mut waiting = UnixStream::connect(&path).await.unwrap();
    waiting.write_all(get(port).as_bytes()).await.unwrap();
    let (mut first, _) = listener.accept().await.unwrap();
    until(&mut first, "\r\n\r\n").await.unwrap();
    let mut tunnel = UnixStream::connect(&path).await.unwrap();
    tunnel.write_all(format!("CONNECT b.test:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    until(&mut tunnel, "\r\n\r\n").await.unwrap();
    let (mut second, _) = listener.accept().await.unwrap();
    let mut idle = UnixStream::connect(&path).await.unwrap();
    assert!(watch.upgrade().is_some());
    drop(serving);
    for stream in [&mut waiting, &mut tunnel, &mut idle] {
        assert_eq!(rest(stream).await, "");
    }
    for stream in [&mut first, &mut second] {
        assert_eq!(rest(stream).await, "");
    }
    while watch.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_end_is_told_before_the_drop_returns() {
    let host = TcpListener::bind((support::LOOPBACK, 0)).await.unwrap();
    let stage = Stage::of(vec![open("a.test", host.local_addr().unwrap().port())]);
    let inside = TcpListener::bind((support::LOOPBACK, 0)).await.unwrap();
    let address = inside.local_addr().unwrap();
    let serving = stage.proxy.spawn(inside);
    let mut guest = TcpStream::connect(address).await.unwrap();
    guest.write_all(get(host.local_addr().unwrap().port()).as_bytes()).await.unwrap();
    let (mut reached, _) = host.accept().await.unwrap();
    until(&mut reached, "\r\n\r\n").await.unwrap();
    drop(serving);
    assert_eq!(stage.recorder.lines(), ["allowed: GET a.test/", "ended: GET a.test/"]);
    assert_eq!(rest(&mut guest).await, "");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn what_is_trusted_fits_what_is_opened() {
    let host = tls::authority().pem.clone();
    let check = |rules: Vec<ringfence_policy::NetworkRule>, own: bool, hosts: bool| {
        let stage = Stage::of(rules);
        let trusted = stage.proxy.trusted_pem();
        let ca = stage.proxy.ca_pem().unwrap_or("none");
        assert_eq!((trusted.contains(ca), trusted.contains(&host)), (own, hosts));
    };
    check(vec![open("a.test", 443)], false, true);
    check(vec![rule("a.test", &[443], &["GET"], &["/*"])], true, false);
    check(vec![rule("a.test", &[443], &["GET"], &["/*"]), open("b.test", 443)], true, true);
}

#[tokio::test]
async fn a_secret_that_fits_no_header_is_refused_without_its_value() {
    let outside = Outside {
        resolver: Arc::new(SystemResolver),
        hooks: Arc::new(PublicOnly),
        watch: Arc::new(support::Recorder::default()),
        roots: Roots::Platform,
    };
    let make = |secret: BoundSecret| Proxy::new(Vec::new(), vec![secret], outside.clone(), Limits::default());
    let fault = make(secret("key", "a.test", &["/*"], "line\nbreak")).unwrap_err();
    let text = "secret `key` can't be put into header `authorization`: \
                its value or format has characters that no header may have; mend the secret or its `inject`";
    assert_eq!(fault.to_string(), text);
    assert!(matches!(fault, SetupError::Secret { .. }));
    let mut framing = secret("key", "a.test", &["/*"], "x");
    framing.inject.header = "host".into();
    assert!(make(framing).unwrap_err().to_string().contains("its header is one that HTTP itself uses"));
}

#[tokio::test]
async fn the_hosts_resolver_knows_the_host() {
    use ringfence_egress::Resolve;
    let found = SystemResolver.resolve("localhost").await.unwrap();
    assert!(found.iter().all(std::net::IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
}
