//! Names: resolved once a connection, all answers checked, redirects judged like any request.

mod support;

use std::sync::Arc;

use ringfence_egress::{Event, PublicOnly, Step};
use support::{Host, Setting, Stage, ask, ok, open};

fn get(name: &str, port: u16) -> String {
    format!("GET http://{name}:{port}/ HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n")
}

fn not_public(name: &str) -> (u16, String) {
    let text = "leads to an address that is not public; the proxy's owner may allow it";
    (403, format!("ringfence: host `{name}` {text}\n"))
}

#[tokio::test]
async fn a_name_is_resolved_once_and_its_address_kept() {
    let host =
        Host::plain(|_| Some("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello".into())).await;
    let mut stage = Stage::of(vec![open("rebind.test", host.port)]);
    stage.script.set("rebind.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let mut stream = stage.connect();
    // The host closes after each answer, so that each request needs a new connection to it.
    for _ in 0..3 {
        assert_eq!(ask(&mut stream, &get("rebind.test", host.port)).await.body, "hello");
    }
    assert_eq!(host.accepted(), 3);
    assert_eq!(*stage.script.asked.lock().unwrap(), ["rebind.test"]);
    // Another connection asks again, and gets the other answer.
    let reply = stage.ask(&get("rebind.test", host.port)).await;
    assert_eq!((reply.status, reply.body), not_public("rebind.test"));
    assert!(stage.tunnel(&format!("rebind.test:{}", host.port)).await.is_err());
    assert_eq!(host.accepted(), 3);
}

#[tokio::test]
async fn one_bad_answer_spoils_them_all() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("mixed.test", host.port)]);
    let table: [&[&str]; 10] = [
        &["127.0.0.1", "10.0.0.1"],
        &["10.0.0.1", "127.0.0.1"],
        &["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "169.254.169.254"],
        &["::ffff:127.0.0.1"],
        &["::ffff:127.0.0.1", "127.0.0.1"],
        &["127.0.0.1", "::1"],
        &["fd00:ec2::254"],
        &["127.0.0.1", "64:ff9b::7f00:1"],
        &["0.0.0.0"],
        &["::"],
    ];
    for answer in table {
        stage.script.set("mixed.test", &[answer]);
        let reply = stage.ask(&get("mixed.test", host.port)).await;
        assert_eq!((reply.status, reply.body), not_public("mixed.test"), "{answer:?}");
    }
    stage.script.set("mixed.test", &[&[]]);
    let reply = stage.ask(&get("mixed.test", host.port)).await;
    assert_eq!(
        (reply.status, reply.body.as_str()),
        (502, "ringfence: host `mixed.test` has no address; check the name\n")
    );
    assert_eq!(host.accepted(), 0);
    stage.script.set("mixed.test", &[&["127.0.0.1", "127.0.0.1"]]);
    assert_eq!(stage.ask(&get("mixed.test", host.port)).await.body, "hello");
}

#[tokio::test]
async fn by_default_only_public_addresses_pass() {
    let host = Host::plain(ok).await;
    let mut setting = Setting::new(vec![open("any.test", host.port)]);
    setting.hooks = Arc::new(PublicOnly);
    let mut stage = setting.stage();
    let table = [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "203.0.113.5",
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "::1",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::",
    ];
    for address in table {
        stage.script.set("any.test", &[&[address]]);
        let reply = stage.ask(&get("any.test", host.port)).await;
        assert_eq!((reply.status, reply.body), not_public("any.test"), "{address}");
    }
    assert_eq!(host.accepted(), 0);
}

#[tokio::test]
async fn a_redirect_is_the_guests_next_request() {
    let host = Host::plain(|_| {
        let to = "http://169.254.169.254/latest/meta-data/";
        Some(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"))
    })
    .await;
    let mut stage = Stage::of(vec![open("allowed.test", host.port)]);
    let mut stream = stage.connect();
    let reply = ask(&mut stream, &get("allowed.test", host.port)).await;
    assert_eq!((reply.status, reply.header("location")), (302, Some("http://169.254.169.254/latest/meta-data/")));
    let next = "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n";
    let reply = ask(&mut stream, next).await;
    let want = "ringfence: policy does not allow `169.254.169.254:80`; add the host and port to `network.allow`\n";
    assert_eq!((reply.status, reply.body.as_str()), (403, want));
    drop(stream);
    stage.finish().await;
    let want = [
        "allowed: GET allowed.test/".to_owned(),
        "ended: GET allowed.test/".to_owned(),
        "refused (policy does not allow `169.254.169.254:80`; add the host and port to `network.allow`): \
         GET 169.254.169.254/latest/meta-data/"
            .to_owned(),
    ];
    assert_eq!(stage.recorder.lines(), want);
}

#[tokio::test]
async fn events_say_all_but_the_query() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("other.test", 1), open("a.test", host.port)]);
    let port = host.port;
    let reply = stage.ask(&format!("GET http://a.test:{port}/x?token=1 HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(host.requests(), ["GET /x?token=1 HTTP/1.1"]);
    stage.finish().await;
    let events = stage.recorder.events.lock().unwrap().clone();
    let event = |step| Event {
        connection: 1,
        step,
        host: "a.test".into(),
        port: Some(port),
        method: Some("GET".into()),
        path: Some("/x".into()),
        rule: Some(1),
        secrets: Vec::new(),
        address: Some(support::LOOPBACK),
    };
    let [allowed, ended] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(*allowed, event(Step::Allowed));
    let Step::Ended { elapsed, .. } = ended.step else { panic!("{ended:?}") };
    let sent = "GET /x?token=1 HTTP/1.1\r\nhost: a.test:\r\n\r\n".len() as u64 + port.to_string().len() as u64;
    let got = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".len() as u64;
    assert_eq!(*ended, event(Step::Ended { up: sent, down: got, elapsed, fault: None }));
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    stage.recorder.deaf.store(true, std::sync::atomic::Ordering::SeqCst);
    let reply = stage.ask(&get("a.test", host.port)).await;
    let want = "ringfence: the connection could not be recorded, and was not made\n";
    assert_eq!((reply.status, reply.body.as_str()), (503, want));
    assert!(stage.tunnel(&format!("a.test:{}", host.port)).await.is_err());
    assert_eq!(host.accepted(), 0);
}
