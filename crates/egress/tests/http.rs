//! Plain HTTP through the proxy: what passes, what stops at it, and what nobody may send.

mod support;

use support::{Host, Reply, Stage, ask, ask_head, body, ok, open, rest};
use tokio::io::AsyncWriteExt;

fn request(line: &str, port: u16, more: &str) -> String {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    format!("{method} http://a.test:{port}{path} HTTP/1.1\r\nHost: a.test:{port}\r\n{more}")
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port), open("b.test", host.port)]);
    let mut stream = stage.connect();
    for count in 0..3 {
        let reply = ask(&mut stream, &request(&format!("GET /{count}"), host.port, "\r\n")).await;
        assert_eq!((reply.status, reply.body.as_str()), (200, "hello"));
    }
    let post = request("POST /p", host.port, "Content-Length: 4\r\n\r\nbody");
    assert_eq!(ask(&mut stream, &post).await.body, "hello");
    assert_eq!(host.accepted(), 1);
    // Another host is another connection, also at the same address.
    let other = request("GET /b", host.port, "\r\n").replace("a.test", "b.test");
    assert_eq!(ask(&mut stream, &other).await.body, "hello");
    assert_eq!(host.accepted(), 2);
    assert_eq!(
        host.requests(),
        ["GET /0 HTTP/1.1", "GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "POST /p HTTP/1.1", "GET /b HTTP/1.1"]
    );
    assert_eq!(*host.bodies.lock().unwrap(), ["", "", "", "body", ""]);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let both = [request("GET /1", host.port, "\r\n"), request("GET /2", host.port, "\r\n")].concat();
    let mut stream = stage.connect();
    assert_eq!(ask(&mut stream, &both).await.body, "hello");
    assert_eq!(ask(&mut stream, "").await.body, "hello");
    assert_eq!(host.requests(), ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1"]);
}

#[tokio::test]
async fn chunked_bodies_go_both_ways() {
    let host = Host::plain(|_| {
        Some("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n".into())
    })
    .await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let mut stream = stage.connect();
    let post =
        request("POST /", host.port, "Transfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\n\r\n");
    let reply = ask(&mut stream, &post).await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "abcde"));
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(*host.bodies.lock().unwrap(), ["wikipedia"]);
}

#[tokio::test]
async fn a_body_that_waits_is_asked_for() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let mut stream = stage.connect();
    let head = request("POST /", host.port, "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(ask_head(&mut stream, &head).await.head, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(ask(&mut stream, "body").await.body, "hello");
    assert_eq!(*host.bodies.lock().unwrap(), ["body"]);
    assert!(!host.heads.lock().unwrap()[0].to_lowercase().contains("expect"));
    // Where the request is refused, it is not.
    let head = request("POST /", 1, "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(stage.ask(&head).await.status, 403);
}

#[tokio::test]
async fn head_and_empty_answers_have_no_body() {
    let host = Host::plain(|head| {
        let is_head = head.starts_with("HEAD");
        Some(
            if is_head { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" } else { "HTTP/1.1 204 No Content\r\n\r\n" }
                .into(),
        )
    })
    .await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let mut stream = stage.connect();
    let reply = ask_head(&mut stream, &request("HEAD /", host.port, "\r\n")).await;
    assert_eq!((reply.status, reply.header("content-length")), (200, Some("5")));
    let reply = ask_head(&mut stream, &request("GET /", host.port, "\r\n")).await;
    assert_eq!(reply.status, 204);
    let reply = ask_head(&mut stream, &request("HEAD /", host.port, "\r\n")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(host.requests().len(), 3);
}

#[tokio::test]
async fn headers_between_neighbours_stop_at_the_proxy() {
    let host = Host::plain(|_| {
        let headers = "Connection: keep-alive, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\nUpgrade: h2c";
        Some(format!("HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: 0\r\n\r\n"))
    })
    .await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let more = "Connection: x-mine, keep-alive, host, content-length\r\nX-Mine: 1\r\nProxy-Authorization: Basic eA==\r\n\
                Proxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: x\r\nKeep-Alive: 1\r\nX-Kept: 2\r\n\r\n";
    let reply = stage.ask(&request("GET /", host.port, more)).await;
    assert_eq!((reply.header("x-hop"), reply.header("x-end"), reply.header("upgrade")), (None, Some("2"), None));
    let want = format!("GET / HTTP/1.1\r\nhost: a.test:{}\r\nx-kept: 2\r\n\r\n", host.port);
    assert_eq!(*host.heads.lock().unwrap(), [want]);
}

#[tokio::test]
async fn doubtful_framing_is_refused() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![open("a.test", port)]);
    let smuggled = format!("GET http://a.test:{port}/smuggled HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    let table = [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "400"),
        ("Content-Length: 0\r\nContent-Length: 4\r\n\r\nbody", "400"),
        ("Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody", "400"),
        ("Content-Length: 4, 4\r\n\r\nbody", "400"),
        ("Content-Length: +4\r\n\r\nbody", "400"),
        ("Content-Length: -1\r\n\r\n", "400"),
        ("Content-Length: 0x4\r\n\r\nbody", "400"),
        ("Content-Length: 18446744073709551616\r\n\r\n", "400"),
        ("Content-Length : 4\r\n\r\nbody", "400"),
        ("Transfer-Encoding: xchunked\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked, identity\r\n\r\n", "400"),
        ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"),
        ("Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", "400"),
        ("X: a\r\n Transfer-Encoding: chunked\r\n\r\n", "400"),
        ("X: a\r\n\tb\r\n\r\n", "400"),
        ("X: a\rTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("X: a\nContent-Length: 4\r\n\r\nbody", "400"),
        ("X: a\n\n", "400"),
        ("X\r\n\r\n", "400"),
        ("X\0: a\r\n\r\n", "400"),
        ("X: a\0b\r\n\r\n", "400"),
        (": a\r\n\r\n", "400"),
        ("Host: a.test:{p}\r\n\r\n", "400"),
        ("Host: b.test\r\n\r\n", "400"),
        ("Upgrade: h2c\r\nConnection: upgrade\r\n\r\n", "403"),
    ];
    for (headers, want) in table {
        let text = request("POST /", port, &headers.replace("{p}", &port.to_string())) + &smuggled;
        let answer = stage.say(&text).await;
        assert_eq!(answer.split(' ').nth(1), Some(want), "{headers:?} got {answer:?}");
    }
    let lines = [
        "GET / HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nHost: b.test:{p}\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\r\nHost:\r\n\r\n",
        "GET https://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET ftp://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET a.test:{p} HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET  http://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET http://a.test:{p}/a b HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET http://a.test:{p}/\r\n\r\n",
        "\r\nGET http://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "GET http://a.test:{p}/ HTTP/1.1\nHost: a.test:{p}\n\n",
        "GET http://a.test:{p}/ HTTP/3.0\r\nHost: a.test:{p}\r\n\r\n",
        "TRACE http://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
        "CONNECT a.test:{p} HTTP/1.1\r\nHost: b.test:{p}\r\n\r\n",
        "CONNECT a.test:{p} HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody",
        "CONNECT http://a.test:{p}/ HTTP/1.1\r\nHost: a.test:{p}\r\n\r\n",
    ];
    for line in lines {
        let text = line.replace("{p}", &port.to_string()) + &smuggled;
        let answer = stage.say(&text).await;
        // A request that was refused as a whole may be followed by a sound one.
        assert_eq!(answer.split(' ').nth(1), Some("400"), "{text:?} got {answer:?}");
    }
    assert_eq!(stage.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "", "the library hangs up on HTTP/2");
    stage.finish().await;
    let reached = host.requests();
    assert!(reached.iter().all(|line| line == "GET /smuggled HTTP/1.1"), "{reached:?}");
    assert!(host.bodies.lock().unwrap().iter().all(String::is_empty));
}

#[tokio::test]
async fn broken_chunks_never_look_whole_to_the_host() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let mut stage = Stage::of(vec![open("a.test", port)]);
    let table = [
        "zz\r\nx\r\n0\r\n\r\n",
        "-1\r\nx\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nx\r\n0\r\n\r\n",
        "1\r\nxyz\r\n0\r\n\r\n",
        "1 1\r\nx\r\n0\r\n\r\n",
    ];
    for chunks in table {
        let text = request("POST /", port, &format!("Transfer-Encoding: chunked\r\n\r\n{chunks}"));
        let answer = stage.say(&text).await;
        assert_eq!(answer.split(' ').nth(1), Some("400"), "{chunks:?} got {answer:?}");
    }
    stage.finish().await;
    assert_eq!(host.requests(), Vec::<String>::new(), "no body came to its end");
}

#[tokio::test]
async fn answers_that_are_not_http_are_not_passed_on() {
    let table: [support::Answering; 5] = [
        |_| None,
        |_| Some("SSH-2.0-x\r\n\r\n".into()),
        |_| Some("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".into()),
        |_| Some("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".into()),
        |_| Some(format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(70_000))),
    ];
    for (count, answering) in table.into_iter().enumerate() {
        let host = Host::plain(answering).await;
        let mut stage = Stage::of(vec![open("a.test", host.port)]);
        let reply = stage.ask(&request("GET /", host.port, "\r\n")).await;
        let why = format!("`a.test:{}` broke off or answered with something else than HTTP", host.port);
        assert_eq!((reply.status, reply.body), (502, format!("ringfence: {why}\n")), "{count}");
        stage.finish().await;
        assert_eq!(stage.recorder.lines(), ["allowed: GET a.test/".to_owned(), format!("ended ({why}): GET a.test/")]);
    }
}

#[tokio::test]
async fn a_host_that_is_not_there_is_told_as_such() {
    let gone = Host::plain(ok).await.port;
    let mut stage = Stage::of(vec![open("a.test", gone)]);
    let want = format!("ringfence: `a.test:{gone}` can't be reached: the connection was refused; try again later\n");
    let reply = stage.ask(&request("GET /", gone, "\r\n")).await;
    assert_eq!((reply.status, reply.body), (502, want.clone()));
    let mut stream = stage.connect();
    let reply = ask(&mut stream, &format!("CONNECT a.test:{gone} HTTP/1.1\r\n\r\n")).await;
    assert_eq!((reply.status, reply.body), (502, want));
}

#[tokio::test]
async fn old_http_is_answered_and_sent_on_as_new() {
    let host = Host::plain(ok).await;
    let mut stage = Stage::of(vec![open("a.test", host.port)]);
    let port = host.port;
    let reply = stage.ask(&format!("GET http://a.test:{port}/ HTTP/1.0\r\nHost: a.test:{port}\r\n\r\n")).await;
    assert!(reply.head.starts_with("HTTP/1.0 200 OK\r\n"), "{reply:?}");
    assert_eq!(host.requests(), ["GET / HTTP/1.1"]);
    // As older Python speaks to a proxy.
    let mut stream = stage.connect();
    let reply: Reply = ask_head(&mut stream, &format!("CONNECT a.test:{port} HTTP/1.0\r\n\r\n")).await;
    assert_eq!(reply.status, 200);
    stream
        .write_all(format!("GET /in HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let head = support::until(&mut stream, "\r\n\r\n").await.unwrap();
    assert_eq!(body(&mut stream, &head).await.as_deref(), Some("hello"));
    assert_eq!(rest(&mut stream).await, "");
}
