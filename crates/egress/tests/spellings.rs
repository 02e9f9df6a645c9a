//! Forbidden targets in every spelling: none reaches the listener, though every name would lead there.

mod support;

use support::targets::{FORBIDDEN, PORTS};
use support::{Host, Stage, ok, open, rule};

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
