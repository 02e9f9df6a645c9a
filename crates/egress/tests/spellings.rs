//! Forbidden targets in every spelling: none reaches the listener, though every name would lead there.

mod support;

use support::{Host, Stage, ok, open, rule};

/// What follows `http://` or CONNECT; `{p}` is the listener's port.
const FORBIDDEN: [&str; 92] = [
    // The listener's address, in all ways of writing it.
    "127.0.0.1:{p}",
    "127.1:{p}",
    "127.0.1:{p}",
    "2130706433:{p}",
    "017700000001:{p}",
    "0x7f000001:{p}",
    "0x7F000001:{p}",
    "0x7f.1:{p}",
    "0x7f.0x0.0x0.0x1:{p}",
    "0177.0.0.1:{p}",
    "0177.0.0.01:{p}",
    "127.0.0.001:{p}",
    "00127.0.0.1:{p}",
    "127.0.0.1.:{p}",
    "127.0.0.0x1:{p}",
    "127.0.0.0x:{p}",
    "0:{p}",
    "0.0.0.0:{p}",
    "0x0:{p}",
    "127.0.0.2:{p}",
    "127.255.255.255:{p}",
    "1.0.0.127:{p}",
    "127.0.0.1%2e:{p}",
    "%31%32%37.0.0.1:{p}",
    // IPv6, and IPv4 inside of it.
    "[::1]:{p}",
    "[0:0:0:0:0:0:0:1]:{p}",
    "[::0001]:{p}",
    "[::]:{p}",
    "[::127.0.0.1]:{p}",
    "[::7f00:1]:{p}",
    "[::ffff:127.0.0.1]:{p}",
    "[::ffff:7f00:1]:{p}",
    "[::FFFF:7F00:1]:{p}",
    "[0:0:0:0:0:ffff:127.0.0.1]:{p}",
    "[::ffff:0:127.0.0.1]:{p}",
    "[64:ff9b::127.0.0.1]:{p}",
    "[64:ff9b::7f00:1]:{p}",
    "[64:ff9b:1::7f00:1]:{p}",
    "[2002:7f00:1::]:{p}",
    "[2001:0:7f00:1::]:{p}",
    "[fe80::1]:{p}",
    "[fe80::1%25lo]:{p}",
    "[::1%25lo]:{p}",
    "[::1%lo]:{p}",
    "[fd00:ec2::254]:{p}",
    "::1:{p}",
    "[127.0.0.1]:{p}",
    "[v7.1]:{p}",
    // Metadata services.
    "169.254.169.254:{p}",
    "169.254.169.254",
    "2852039166:{p}",
    "0xa9fea9fe:{p}",
    "0251.0376.0251.0376:{p}",
    "169.254.43518:{p}",
    "[::ffff:a9fe:a9fe]:{p}",
    "169.254.170.2:{p}",
    "100.100.100.200:{p}",
    "metadata.google.internal:{p}",
    // Names that aren't allowed, however near.
    "localhost:{p}",
    "LOCALHOST:{p}",
    "localhost.:{p}",
    "evil.test:{p}",
    "allowed.test.evil.test:{p}",
    "evilallowed.test:{p}",
    "allowed.testing:{p}",
    "sub.allowed.test:{p}",
    "wild.test:{p}",
    "evilwild.test:{p}",
    "*.wild.test:{p}",
    "127.0.0.1.nip.io:{p}",
    // The allowed name, spelled so that another program may read another.
    "allowed.test.:{p}",
    "allowed..test:{p}",
    ".allowed.test:{p}",
    ".wild.test:{p}",
    "a..wild.test:{p}",
    "allowed%2etest:{p}",
    "allowed.test%00.evil.test:{p}",
    "allowed.test%2eevil.test:{p}",
    "allowed\u{3002}test:{p}",
    "allowed\u{ff0e}test:{p}",
    "\u{ff41}llowed.test:{p}",
    "\u{430}llowed.test:{p}",
    "127\u{3002}0\u{3002}0\u{3002}1:{p}",
    "\u{2460}\u{2461}\u{2466}.0.0.1:{p}",
    "xn--llowed-2nf.test:{p}",
    "allowed.test@127.0.0.1:{p}",
    "user:pass@allowed.test:{p}",
    "allowed.test:{p}@evil.test:{p}",
    "allowed.test\\@evil.test:{p}",
    "-a.wild.test:{p}",
    "allowed.test\t:{p}",
    "allowed_test:{p}",
];

/// Ports of the allowed host that aren't its port.
const PORTS: [&str; 11] = ["0", "1", "22", "65536", "65616", "99999999999", "+{p}", "0{p}", "0x50", "{p}{p}", "-1"];

async fn is_refused(stage: &mut Stage, request: &str) {
    let answer = stage.say(request).await;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    assert!(matches!(status, "400" | "403"), "{request:?} got {answer:?}");
}

#[tokio::test]
async fn no_spelling_of_a_forbidden_target_reaches_a_listener() {
    let host = Host::plain(ok).await;
    let port = host.port.to_string();
    let rules = || vec![open("allowed.test", host.port), open("*.wild.test", host.port)];
    let mut stage = Stage::of(rules());
    let ports = PORTS.iter().map(|text| format!("allowed.test:{text}"));
    for target in FORBIDDEN.iter().map(|text| (*text).to_owned()).chain(ports) {
        let target = target.replace("{p}", &port);
        is_refused(&mut stage, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        is_refused(&mut stage, &format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        // The address counts, whatever the Host header says.
        is_refused(&mut stage, &format!("GET http://{target}/ HTTP/1.1\r\nHost: allowed.test:{port}\r\n\r\n")).await;
    }
    for target in ["", ":", "/", "//", "allowed.test", &port, "http://", "@", "[]", "[", "?", "#"] {
        is_refused(&mut stage, &format!("CONNECT {target} HTTP/1.1\r\nHost: allowed.test:{port}\r\n\r\n")).await;
    }
    stage.finish().await;
    assert_eq!(host.accepted(), 0, "a forbidden target was reached: {:?}", host.requests());
    assert_eq!(*stage.script.asked.lock().unwrap(), Vec::<String>::new(), "no forbidden name is even resolved");
    let lines = stage.recorder.lines();
    assert!(lines.iter().all(|line| line.starts_with("refused (")), "{lines:?}");
    assert_eq!(lines.len(), 3 * (FORBIDDEN.len() + PORTS.len()) + 12, "each is told");

    // The same listener is there for whoever is allowed.
    for name in ["allowed.test", "ALLOWED.Test", "a.wild.test", "a.b.wild.test", "xn--bcher-kva.wild.test"] {
        let target = format!("{name}:{port}");
        let reply = stage.ask(&format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "hello"), "{name}");
        assert!(stage.tunnel(&target).await.is_ok(), "{name}");
    }
    assert_eq!(host.accepted(), 10);
}

#[tokio::test]
async fn an_address_is_allowed_where_the_policy_names_it() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![open("127.0.0.1", port)]);
    let reply = stage.ask(&format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")).await;
    assert_eq!(reply.body, "hello");
    for other in ["127.1", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1.", "localhost"] {
        is_refused(&mut stage, &format!("GET http://{other}:{port}/ HTTP/1.1\r\nHost: {other}:{port}\r\n\r\n")).await;
    }
    assert_eq!(host.accepted(), 1);
}

#[tokio::test]
async fn a_named_address_is_still_checked() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut setting = support::Setting::new(vec![open("127.0.0.1", port), open("localhost", port)]);
    setting.hooks = std::sync::Arc::new(ringfence_egress::PublicOnly);
    let mut stage = setting.stage();
    for name in ["127.0.0.1", "localhost"] {
        let reply = stage.ask(&format!("GET http://{name}:{port}/ HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n")).await;
        let want = format!(
            "ringfence: host `{name}` leads to an address that is not public; the proxy's owner may allow it\n"
        );
        assert_eq!((reply.status, reply.body), (403, want));
    }
    assert_eq!(host.accepted(), 0);
}

#[tokio::test]
async fn no_network_is_no_network() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(Vec::new());
    let reply = stage.ask(&format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")).await;
    let want = format!("ringfence: policy does not allow `a.test:{port}`; add the host and port to `network.allow`\n");
    assert_eq!((reply.status, reply.body), (403, want));
    let closed = rule("a.test", &[port], &[], &[]);
    let mut stage = Stage::of(vec![closed]);
    let reply = stage.ask(&format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")).await;
    let want =
        format!("ringfence: policy does not allow method `GET` at `a.test:{port}`; add it to the rule's `methods`\n");
    assert_eq!((reply.status, reply.body), (403, want));
    assert_eq!(host.accepted(), 0);
}
