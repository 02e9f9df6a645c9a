//! Tunnels: what the guest's TLS must say, when it is opened, and what the rules and secrets do then.

mod support;

use ringfence_egress::Roots;
use support::{Host, Setting, Stage, ask, ask_head, ok, open, rest, rule, secret, tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SECRET: &str = "s3cr3t-canary-value";

fn get(path: &str, host: &str, port: u16) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

#[tokio::test]
async fn a_tunnel_without_rules_is_left_closed() {
    let host = Host::secure("a.test", ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    assert_eq!(stage.proxy.ca_pem(), None, "nothing is to be trusted where nothing is opened");
    let stream = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
    // The guest sees the host's own certificate.
    let mut stream = tls::connect(stream, "a.test", &tls::authority().pem).await.unwrap();
    assert_eq!(ask(&mut stream, &get("/any", "whatever", 1)).await.body, "hello");
    drop(stream);
    stage.finish().await;
    assert_eq!(stage.recorder.lines(), ["allowed: CONNECT a.test", "ended: CONNECT a.test"]);
}

#[tokio::test]
async fn the_servers_name_must_be_the_tunnels() {
    let host = Host::secure("a.test", ok).await;
    let target = format!("a.test:{}", host.port);
    let rules = || vec![open("a.test", host.port), open("b.test", host.port)];
    let inspected = || vec![rule("a.test", &[host.port], &["GET"], &["/*"]), open("b.test", host.port)];
    for rules in [rules(), inspected()] {
        let mut stage = Stage::of(rules);
        for other in ["b.test", "evil.test", "a.test.evil.test"] {
            let stream = stage.tunnel(&target).await.unwrap();
            let fault = tls::connect(stream, other, &tls::authority().pem).await.unwrap_err();
            assert_eq!(fault.to_string(), "received fatal alert: AccessDenied", "{other}");
        }
        let stream = stage.tunnel(&target).await.unwrap();
        assert!(tls::connect_unnamed(stream, "a.test", &tls::authority().pem).await.is_err());
        stage.finish().await;
        let wrong = |name| {
            format!(
                "refused (TLS asks for server `{name}` in a tunnel to `a.test`; name the same host in both): CONNECT a.test"
            )
        };
        let refused: Vec<String> =
            stage.recorder.lines().into_iter().filter(|line| line.starts_with("refused")).collect();
        let unnamed = "refused (the TLS ClientHello is refused: it names no server): CONNECT a.test".to_owned();
        assert_eq!(refused, [wrong("b.test"), wrong("evil.test"), wrong("a.test.evil.test"), unnamed]);
    }
    assert_eq!(host.requests(), Vec::<String>::new());
}

/// A hello for a.test with an encrypted one inside.
fn hiding_hello() -> Vec<u8> {
    let prefixed = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("a short part").to_be_bytes(), bytes].concat();
    let name = prefixed(&[&[0][..], &prefixed(b"a.test")].concat());
    let extensions = [&[0, 0][..], &prefixed(&name), &[0xfe, 0x0d], &prefixed(&[0; 8])].concat();
    let body = [&[3, 3][..], &[9; 32], &[0, 0, 2, 0x13, 1, 1, 0], &prefixed(&extensions)].concat();
    let message = [&[1, 0][..], &prefixed(&body)].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}

#[tokio::test]
async fn only_plain_tls_goes_through_a_closed_tunnel() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let table: [(&[u8], &str); 5] = [
        (&hiding_hello(), "the TLS ClientHello is refused: it hides the server's name"),
        (b"\x00\x01\x02", "a tunnel carries TLS or HTTP/1.1, and nothing else"),
        (b"{\"jsonrpc\"", "a tunnel carries TLS or HTTP/1.1, and nothing else"),
        (b"\x16\x03\x01\x00\x00", "the TLS ClientHello is refused: its records are malformed"),
        (b"\x17\x03\x03\x00\x01a", "a tunnel carries TLS or HTTP/1.1, and nothing else"),
    ];
    for (bytes, want) in table {
        let mut stream = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 49], "{bytes:?}");
        stage.finish().await;
        let mut lines = stage.recorder.lines();
        assert_eq!(lines.pop().unwrap(), "ended: CONNECT a.test");
        assert_eq!(lines.pop().unwrap(), format!("refused ({want}): CONNECT a.test"));
    }
    // The host was connected to, and heard nothing.
    assert_eq!(host.requests(), Vec::<String>::new());
    assert_eq!(stage.proxy.traffic().up, 0);
}

#[tokio::test]
async fn plain_http_in_a_tunnel_is_judged_like_any() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![rule("a.test", &[port], &["GET"], &["/v1/*"])]);
    let mut stream = stage.tunnel(&format!("a.test:{port}")).await.unwrap();
    assert_eq!(ask(&mut stream, &get("/v1/x", "a.test", port)).await.body, "hello");
    assert_eq!(ask(&mut stream, &get("/v2/x", "a.test", port)).await.status, 403);
    assert_eq!(ask(&mut stream, &get("/v1/x", "b.test", port)).await.status, 400);
    assert_eq!(
        ask(&mut stream, &format!("GET http://a.test:{port}/v1/x HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"))
            .await
            .status,
        400
    );
    let inner = format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    assert_eq!(ask(&mut stream, &inner).await.status, 400);
    assert_eq!(host.requests(), ["GET /v1/x HTTP/1.1"]);
}

#[tokio::test]
async fn methods_and_paths_are_matched_inside_tls() {
    let host = Host::secure("a.test", ok).await;
    let port = host.port;
    let rules = vec![
        rule("a.test", &[port], &["GET", "HEAD"], &["/v1/*", "/health"]),
        rule("a.test", &[port], &["POST"], &["/v1/items"]),
    ];
    let mut stage = Stage::of(rules);
    let pem = stage.proxy.ca_pem().unwrap().to_owned();
    let stream = stage.tunnel(&format!("a.test:{port}")).await.unwrap();
    let mut stream = tls::connect(stream, "a.test", &pem).await.unwrap();
    let table = [
        ("GET /v1/x", "", 200),
        ("GET /v1/x?a=/../b", "", 200),
        ("GET /v1/%78", "", 200),
        ("GET /health", "", 200),
        ("POST /v1/items", "", 200),
        ("DELETE /v1/x", "", 403),
        ("get /v1/x", "", 403),
        ("POST /v1/x", "", 403),
        ("GET /v2/x", "", 403),
        ("GET /health/x", "", 403),
        ("GET /v1", "", 403),
        ("GET /v1/../admin", "", 403),
        ("GET /v1/%2e%2e/admin", "", 403),
        ("GET /v1/..%2fadmin", "", 403),
        ("GET /v1/..%5cadmin", "", 403),
        ("GET /v1/..\\admin", "", 403),
        ("GET /v1/%252e%252e/admin", "", 403),
        ("GET /v1/..;/admin", "", 403),
        ("GET /v1//admin", "", 403),
        ("GET //v1/x", "", 403),
        ("GET /v1/%00", "", 403),
        ("GET /V1/x", "", 403),
        ("GET /v1/x", "X-HTTP-Method-Override: DELETE\r\n", 403),
        ("GET /v1/x", "X-Original-URL: /admin\r\n", 403),
        ("GET /v1/x", "Upgrade: websocket\r\nConnection: upgrade\r\n", 403),
        ("TRACE /v1/x", "", 400),
        ("OPTIONS *", "", 400),
    ];
    for (line, extra, want) in table {
        let request = format!("{line} HTTP/1.1\r\nHost: a.test:{port}\r\n{extra}\r\n");
        assert_eq!(ask(&mut stream, &request).await.status, want, "{line} {extra}");
    }
    for other in ["b.test", "a.test:1", "a.test", "127.0.0.1"] {
        let reply = ask(&mut stream, &format!("GET /v1/x HTTP/1.1\r\nHost: {other}\r\n\r\n")).await;
        let want = format!(
            "ringfence: the `host` header does not name `a.test:{port}`; send the host that the request goes to\n"
        );
        assert_eq!((reply.status, reply.body), (400, want), "{other}");
    }
    let want = ["GET /v1/x", "GET /v1/x?a=/../b", "GET /v1/%78", "GET /health", "POST /v1/items"]
        .map(|line| format!("{line} HTTP/1.1"));
    assert_eq!(host.requests(), want);
    assert_eq!(host.accepted(), 1, "one connection serves them all");
}

/// Echoes the request's head in the body.
fn echo(head: &str) -> Option<String> {
    Some(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()))
}

#[tokio::test]
async fn a_secret_is_put_in_by_the_proxy_and_seen_by_the_host_only() {
    let host = Host::secure("a.test", ok).await;
    let port = host.port;
    let mut setting = Setting::new(vec![open("a.test", port), open("b.test", port)]);
    setting.secrets = vec![secret("example_key", "a.test", &["/v1/*"], SECRET)];
    let mut stage = setting.stage();
    let shown = format!("{:?}", stage.proxy);
    assert!(!shown.contains(SECRET), "{shown}");
    let pem = stage.proxy.ca_pem().unwrap().to_owned();
    let stream = stage.tunnel(&format!("a.test:{port}")).await.unwrap();
    let mut stream = tls::connect(stream, "a.test", &pem).await.unwrap();
    let guests = format!(
        "GET /v1/x HTTP/1.1\r\nHost: a.test:{port}\r\nAuthorization: guest\r\nConnection: authorization\r\n\r\n"
    );
    let mut seen = String::new();
    for request in
        [get("/v1/x", "a.test", port), guests, get("/v2/x", "a.test", port), get("/v1/%2e%2e/x", "a.test", port)]
    {
        let reply = ask(&mut stream, &request).await;
        assert_eq!(reply.status, 200);
        seen.push_str(&format!("{reply:?}"));
    }
    let sent: Vec<bool> = host
        .heads
        .lock()
        .unwrap()
        .iter()
        .map(|head| head.contains(&format!("authorization: Bearer {SECRET}\r\n")))
        .collect();
    assert_eq!(sent, [true, true, false, false], "bound to its paths");
    assert!(!host.heads.lock().unwrap().iter().any(|head| head.contains("guest")), "the guest's own is replaced");
    drop(stream);
    // Another host gets none, nor does plain HTTP to the same one.
    let stream = stage.tunnel(&format!("b.test:{port}")).await.unwrap();
    assert!(tls::connect(stream, "b.test", &pem).await.is_err(), "this one is left closed");
    let plain = Host::plain(ok).await;
    let mut setting = Setting::new(vec![open("a.test", plain.port)]);
    setting.secrets = vec![secret("example_key", "a.test", &["/*"], SECRET)];
    let mut open_stage = setting.stage();
    let url = format!("GET http://a.test:{0}/ HTTP/1.1\r\nHost: a.test:{0}\r\n\r\n", plain.port);
    assert_eq!(open_stage.ask(&url).await.status, 200);
    assert!(!plain.heads.lock().unwrap()[0].contains(SECRET));
    stage.finish().await;
    let events =
        format!("{seen} {:?} {:?}", stage.recorder.events.lock().unwrap(), open_stage.recorder.events.lock().unwrap());
    assert!(!events.contains(SECRET), "{events}");
    let lines = stage.recorder.lines();
    assert!(lines.contains(&"allowed: GET a.test/v1/x with example_key".to_owned()), "{lines:?}");
    assert!(lines.contains(&"allowed: GET a.test/v2/x".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn a_secret_that_a_host_gives_away_is_in_no_event() {
    let host = Host::secure("a.test", echo).await;
    let port = host.port;
    let mut setting = Setting::new(vec![open("a.test", port)]);
    setting.secrets = vec![secret("example_key", "a.test", &["/*"], SECRET)];
    let mut stage = setting.stage();
    let pem = stage.proxy.ca_pem().unwrap().to_owned();
    let stream = stage.tunnel(&format!("a.test:{port}")).await.unwrap();
    let mut stream = tls::connect(stream, "a.test", &pem).await.unwrap();
    assert!(
        ask(&mut stream, &get("/", "a.test", port)).await.body.contains(SECRET),
        "this host shows all that it gets"
    );
    assert_eq!(ask(&mut stream, &get(&format!("/{SECRET}"), "a.test", port)).await.status, 200);
    drop(stream);
    stage.finish().await;
    let events = format!("{:?}", stage.recorder.events.lock().unwrap());
    assert!(!events.contains(SECRET), "{events}");
    assert!(stage.recorder.lines().contains(&"allowed: GET a.test/*** with example_key".to_owned()));
}

#[tokio::test]
async fn upstream_certificates_are_verified() {
    let own = tls::Authority::new();
    let named_otherwise = Host::secure("other.test", ok).await;
    let foreign = Host::start(ok, Some(own.acceptor("a.test"))).await;
    let plain = Host::plain(ok).await;
    for host in [&named_otherwise, &foreign, &plain] {
        let mut setting = Setting::new(vec![rule("a.test", &[host.port], &["GET"], &["/*"])]);
        setting.secrets = vec![secret("example_key", "a.test", &["/*"], SECRET)];
        // The plain one waits for more and never answers a hello.
        setting.limits.connect_time = std::time::Duration::from_millis(300);
        let mut stage = setting.stage();
        let pem = stage.proxy.ca_pem().unwrap().to_owned();
        let stream = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
        let mut stream = tls::connect(stream, "a.test", &pem).await.unwrap();
        let reply = ask(&mut stream, &get("/", "a.test", host.port)).await;
        let want = format!("no trusted TLS with `a.test:{}`: its certificate or protocol was refused", host.port);
        assert_eq!((reply.status, reply.body), (502, format!("ringfence: {want}\n")));
        drop(stream);
        stage.finish().await;
        let ended = format!("ended ({want}): GET a.test/ with example_key");
        assert!(stage.recorder.lines().contains(&ended), "{:?}", stage.recorder.lines());
        assert_eq!(host.requests(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn nobody_is_trusted_where_there_are_no_roots() {
    let host = Host::secure("a.test", ok).await;
    let mut setting = Setting::new(vec![rule("a.test", &[host.port], &["GET"], &["/*"])]);
    setting.roots = Roots::Pem(String::new());
    let mut stage = setting.stage();
    let pem = stage.proxy.ca_pem().unwrap().to_owned();
    let stream = stage.tunnel(&format!("a.test:{}", host.port)).await.unwrap();
    let mut stream = tls::connect(stream, "a.test", &pem).await.unwrap();
    assert_eq!(ask(&mut stream, &get("/", "a.test", host.port)).await.status, 502);
    assert_eq!(host.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn each_session_has_its_own_authority() {
    let host = Host::secure("a.test", ok).await;
    let rules = || vec![rule("*.a.test", &[host.port], &["GET"], &["/*"])];
    let (mut first, second) = (Stage::of(rules()), Stage::of(rules()));
    let other = second.proxy.ca_pem().unwrap().to_owned();
    assert_ne!(first.proxy.ca_pem().unwrap(), other);
    let stream = first.tunnel(&format!("x.a.test:{}", host.port)).await.unwrap();
    assert!(tls::connect(stream, "x.a.test", &other).await.is_err());
    first.finish().await;
    let want =
        "refused (TLS with the guest failed; its programs must trust the session's certificate): CONNECT x.a.test";
    assert!(first.recorder.lines().contains(&want.to_owned()), "{:?}", first.recorder.lines());
}

#[tokio::test]
async fn a_wildcard_has_a_certificate_a_name() {
    let host = Host::secure("x.a.test", ok).await;
    let mut stage = Stage::of(vec![rule("*.a.test", &[host.port], &["GET"], &["/*"])]);
    let pem = stage.proxy.ca_pem().unwrap().to_owned();
    for (name, status) in [("x.a.test", 200), ("y.a.test", 502), ("x.a.test", 200)] {
        let stream = stage.tunnel(&format!("{name}:{}", host.port)).await.unwrap();
        let mut stream = tls::connect(stream, name, &pem).await.unwrap();
        assert_eq!(ask(&mut stream, &get("/", name, host.port)).await.status, status, "{name}");
    }
}

#[tokio::test]
async fn what_follows_connect_at_once_is_part_of_the_tunnel() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![rule("a.test", &[port], &["GET"], &["/*"])]);
    let mut stream = stage.connect();
    let both = format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n{}", get("/early", "a.test", port));
    assert_eq!(ask_head(&mut stream, &both).await.status, 200);
    assert_eq!(ask(&mut stream, "").await.body, "hello");
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
    assert_eq!(host.requests(), ["GET /early HTTP/1.1"]);
}
