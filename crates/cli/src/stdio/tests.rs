//! The protocol from the client's side: what is sent, and what comes back, frame by frame.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_session::Engine;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::frames::{Frames, MAX_FRAME, pack};
use super::{Options, StdioError, fake, listen, serve};

/// A client of a served connection.
struct Client {
    input: Option<WriteHalf<DuplexStream>>,
    frames: Frames<ReadHalf<DuplexStream>>,
    serving: JoinHandle<Result<(), StdioError>>,
    alive: Arc<AtomicUsize>,
    sessions: Vec<String>,
}

impl Client {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let (engine, alive) = fake::engine();
        Self::of(engine, alive, options)
    }

    fn of(engine: Engine, alive: Arc<AtomicUsize>, options: Options) -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let (output, input) = split(ours);
        let (their_input, their_output) = split(theirs);
        let serving = tokio::spawn(serve(engine, their_input, their_output, options));
        Self { input: Some(input), frames: Frames::new(output), serving, alive, sessions: Vec::new() }
    }

    /// A client with a session `ses1` that has the function `add`.
    async fn with_session() -> Self {
        let mut client = Self::new();
        client.check(open(json!({})), &[json!({"id": 0, "result": {"session": "ses1"}})]).await;
        client
    }

    async fn send(&mut self, frame: Json) {
        let frame = self.renamed(frame, true);
        self.send_raw(&pack(&frame).expect("it fits")).await;
    }

    async fn send_raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("not ended").write_all(bytes).await.expect("it is read");
    }

    /// The next frame, with what changes from run to run taken out.
    async fn next(&mut self) -> Option<Json> {
        let frame = self.frames.next().await.expect("a frame")?;
        Some(plain(self.renamed(Json::Object(frame), false)))
    }

    /// Sends a frame and compares all that comes back.
    async fn check(&mut self, frame: Json, want: &[Json]) {
        let shown = frame.to_string();
        self.send(frame).await;
        for want in want {
            assert_eq!(self.next().await.as_ref(), Some(want), "{shown}");
        }
    }

    /// `ses1`, `ses2` … stand for the sessions in the order in which they were named first.
    fn renamed(&mut self, json: Json, out: bool) -> Json {
        match json {
            Json::String(text) if out => match text.strip_prefix("ses").and_then(|number| number.parse::<usize>().ok())
            {
                Some(number) => Json::String(self.sessions[number - 1].clone()),
                None => Json::String(text),
            },
            Json::String(text) if text.starts_with("ses_") && text.len() == 36 => {
                let known = self.sessions.iter().position(|session| *session == text);
                let number = known.unwrap_or_else(|| {
                    self.sessions.push(text);
                    self.sessions.len() - 1
                });
                Json::String(format!("ses{}", number + 1))
            }
            Json::Array(items) => items.into_iter().map(|item| self.renamed(item, out)).collect(),
            Json::Object(map) => map.into_iter().map(|(key, item)| (key, self.renamed(item, out))).collect(),
            other => other,
        }
    }

    /// Ends the input, and gives how serving ended and what came after.
    async fn end(mut self) -> (String, Vec<Json>) {
        self.input.take().expect("ended once").shutdown().await.expect("a pipe can always be ended");
        let mut rest = Vec::new();
        while let Some(frame) = self.next().await {
            rest.push(frame);
        }
        let ended = match (&mut self.serving).await.expect("no panic") {
            Ok(()) => "served".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(self.alive.load(Ordering::SeqCst), 0, "every cell is gone");
        (ended, rest)
    }
}

/// What an outcome says that does not change from run to run.
fn plain(mut frame: Json) -> Json {
    if let Some(outcome) = frame.get_mut("result").filter(|result| result.get("run_id").is_some()) {
        let kept = ["status", "value", "stdout", "reason", "exception", "shown"];
        let kept = kept.into_iter().filter_map(|key| {
            let value = outcome.get(key)?.clone();
            let empty = value.is_null() || value == json!("") || value == json!([]);
            (!empty).then(|| (key.to_owned(), value))
        });
        *outcome = kept.collect();
    }
    frame
}

fn add() -> Json {
    let number = |name: &str| json!({"name": name, "schema": {"type": "integer"}});
    json!({"name": "add", "parameters": [number("a"), number("b")], "returns_schema": {"type": "integer"}})
}

fn open(more: Json) -> Json {
    let mut params = json!({"policy": null, "engine": "monty", "functions": [add()]});
    params.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    json!({"id": 0, "method": "open", "params": params})
}

fn run(id: u64, code: &str) -> Json {
    json!({"id": id, "method": "run", "params": {"session": "ses1", "code": code}})
}

fn of(id: u64, method: &str, more: Json) -> Json {
    let mut params = json!({"session": "ses1"});
    params.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    json!({"id": id, "method": method, "params": params})
}

fn completed(id: u64, value: Json) -> Json {
    json!({"id": id, "result": {"status": "completed", "value": value}})
}

fn cancelled(id: u64) -> Json {
    json!({"id": id, "result": {"status": "cancelled", "reason": "the caller gave the run up"}})
}

fn after_cancel(id: u64) -> Json {
    let reason = "the session has ended: the caller gave the run up; open a new one";
    json!({"id": id, "result": {"status": "cancelled", "reason": reason}})
}

fn done(id: u64) -> Json {
    json!({"id": id, "result": {}})
}

fn output(text: &str) -> Json {
    json!({"event": "output", "session": "ses1", "stream": "stdout", "text": text})
}

fn error(id: u64, code: &str, message: &str, hint: Option<&str>) -> Json {
    json!({"id": id, "error": {"code": code, "message": message, "hint": hint}})
}

#[tokio::test]
async fn every_method_answers() {
    let mut client = Client::new();
    let hello = json!({"version": 1, "ringfence": env!("CARGO_PKG_VERSION")});
    let c = &mut client;
    c.check(json!({"id": 7, "method": "hello", "params": {"version": 1}}), &[json!({"id": 7, "result": hello})]).await;
    c.check(open(json!({})), &[json!({"id": 0, "result": {"session": "ses1"}})]).await;
    c.check(run(1, "42"), &[completed(1, json!(42))]).await;
    c.check(
        of(
            2,
            "run",
            json!({"code": "x", "inputs": {"x": {"$type": "tuple", "items": [1]}}, "stdin": "", "file": "a.py"}),
        ),
        &[completed(2, json!({"$type": "tuple", "items": [1]}))],
    )
    .await;
    c.check(
        run(3, "boom()"),
        &[json!({"id": 3, "result": {"status": "raised", "exception":
            {"type": "ZeroDivisionError", "message": "division by zero", "frames": []}}})],
    )
    .await;
    let sha256 = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
    let put = json!({"id": 4, "result": {"size": 2, "sha256": sha256}});
    c.check(of(4, "put", json!({"path": "a.txt", "content": "aGk="})), &[put]).await;
    let got = json!({"id": 5, "result": {"content": "aGk=", "size": 2, "sha256": sha256}});
    c.check(of(5, "get", json!({"path": "a.txt"})), &[got]).await;
    let entries = json!([{"path": "/workspace/a.txt", "size": 2, "folder": false}]);
    c.check(of(6, "list", json!({"path": "/workspace"})), &[json!({"id": 6, "result": {"entries": entries}})]).await;
    c.check(of(7, "remove", json!({"path": "a.txt"})), &[done(7)]).await;
    c.check(of(8, "cancel", json!({})), &[done(8)]).await;
    c.check(run(9, "1"), &[completed(9, json!(1))]).await;
    c.check(of(10, "close", json!({})), &[done(10)]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn snapshots_and_forks_go_on_from_the_same_state() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    c.check(run(1, "count()"), &[completed(1, json!(1))]).await;
    c.send(of(2, "snapshot", json!({}))).await;
    let saved = c.next().await.expect("an answer")["result"]["snapshot"].clone();
    c.check(run(3, "count()"), &[completed(3, json!(2))]).await;
    c.check(of(4, "fork", json!({"count": 2})), &[json!({"id": 4, "result": {"sessions": ["ses2", "ses3"]}})]).await;
    let mut restore = open(json!({"snapshot": saved}));
    restore["method"] = json!("restore");
    c.check(restore.clone(), &[json!({"id": 0, "result": {"session": "ses4"}})]).await;
    for (session, count) in [("ses1", 3), ("ses2", 3), ("ses3", 3), ("ses4", 2)] {
        let run = json!({"id": 5, "method": "run", "params": {"session": session, "code": "count()"}});
        c.check(run, &[completed(5, json!(count))]).await;
    }
    restore["params"]["tenant"] = json!("other");
    c.send(restore.clone()).await;
    assert_eq!(c.next().await.expect("an answer")["error"]["code"], json!("snapshot_refused"));
    restore["params"]["snapshot"] = json!("AAAA");
    c.send(restore).await;
    assert_eq!(c.next().await.expect("an answer")["error"]["code"], json!("snapshot_refused"));
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn host_functions_are_called_at_the_client() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    let call =
        |number: u64| json!({"call": number, "session": "ses1", "function": "add", "args": [1, 2], "kwargs": {}});
    c.check(run(1, "add(1, b=2)"), &[call(1)]).await;
    c.check(json!({"answer": 1, "value": 3}), &[completed(1, json!(3))]).await;
    let raised = |id: u64, kind: &str, message: &str| {
        let exception = json!({"type": kind, "message": message, "frames": []});
        json!({"id": id, "result": {"status": "raised", "exception": exception}})
    };
    let answers = [
        (json!({"error": {"type": "KeyError", "message": "k"}}), "KeyError", "k"),
        (json!({"error": {"type": "KeyError"}}), "KeyError", "the host function failed"),
        (json!({"error": {"type": "no type", "message": "k"}}), "RuntimeError", "k"),
        (json!({"error": 3}), "RuntimeError", "the host function failed"),
        (json!({}), "RuntimeError", "the host function failed"),
        (json!({"value": {"$type": "nope"}}), "TypeError", "the host function failed"),
    ];
    for (number, (mut answer, kind, message)) in (2..).zip(answers) {
        c.check(run(number, "add(1, 2)"), &[call(number)]).await;
        answer["answer"] = json!(number);
        c.check(answer, &[raised(number, kind, message)]).await;
    }
    // Refused on the host: no frame goes out.
    let unknown = c.answer_to(run(20, "other(1)")).await;
    assert_eq!(unknown["result"]["exception"]["type"], json!("PermissionError"));
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

impl Client {
    async fn answer_to(&mut self, frame: Json) -> Json {
        self.send(frame).await;
        self.next().await.expect("an answer")
    }
}

#[tokio::test]
async fn answers_to_nothing_are_ignored() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    for answer in
        [json!({"answer": 1, "value": 1}), json!({"answer": "x"}), json!({"answer": null}), json!({"answer": -1})]
    {
        c.send(answer).await;
    }
    let call = json!({"call": 1, "session": "ses1", "function": "add", "args": [1, 2], "kwargs": {}});
    c.check(run(1, "add(1, 2)"), &[call]).await;
    c.check(of(2, "cancel", json!({})), &[done(2), cancelled(1)]).await;
    c.send(json!({"answer": 1, "value": 3})).await;
    c.check(of(3, "close", json!({})), &[done(3)]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn calls_are_approved_at_the_client() {
    let mut client = Client::new();
    let c = &mut client;
    let policy = json!({"text": "version = 1\n[functions.add]\napprove = 'always'\n"});
    c.check(open(json!({"policy": policy, "approvals": true})), &[json!({"id": 0, "result": {"session": "ses1"}})])
        .await;
    let ask =
        |number: u64| json!({"approve": number, "session": "ses1", "function": "add", "arguments": {"a": 1, "b": 2}});
    for (number, answer) in [(1, json!(false)), (2, json!(1)), (3, json!(null))] {
        c.check(run(1, "add(1, 2)"), &[ask(number)]).await;
        let answer = c.answer_to(json!({"answer": number, "value": answer})).await;
        assert_eq!(answer["result"]["exception"]["type"], json!("PermissionError"));
    }
    c.check(run(1, "add(1, 2)"), &[ask(4)]).await;
    let call = json!({"call": 5, "session": "ses1", "function": "add", "args": [1, 2], "kwargs": {}});
    c.check(json!({"answer": 4, "value": true}), &[call]).await;
    c.check(json!({"answer": 5, "value": 3}), &[completed(1, json!(3))]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn output_comes_in_whole_characters_where_it_is_wanted() {
    let mut client = Client::with_session().await;
    let shown = json!({"event": "shown", "session": "ses1", "bundle": {"text/plain": "aGk="}});
    let outcome =
        json!({"id": 1, "result": {"status": "completed", "stdout": "aé\u{fffd}", "shown": [{"text/plain": "aGk="}]}});
    let code = "print('a')\nbyte(195)\nbyte(169)\nshow()\nbyte(195)";
    let want = [output("a"), output("é"), shown.clone(), output("\u{fffd}"), outcome.clone()];
    client.check(run(1, code), &want).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
    for (wanted, events) in
        [(json!({"output": false}), vec![shown]), (json!({"output": false, "shown": false}), vec![])]
    {
        let mut client = Client::new();
        client.check(open(wanted), &[json!({"id": 0, "result": {"session": "ses1"}})]).await;
        let want: Vec<Json> = events.into_iter().chain([outcome.clone()]).collect();
        client.check(run(1, code), &want).await;
        assert_eq!(client.end().await, ("served".to_owned(), vec![]));
    }
}

#[tokio::test]
async fn a_cancelled_run_has_an_outcome() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    c.check(run(1, "print('x')\nforever()"), &[output("x")]).await;
    c.send(run(2, "1")).await;
    let first = json!({"id": 1, "result":
        {"status": "cancelled", "stdout": "x", "reason": "the caller gave the run up"}});
    c.check(of(3, "cancel", json!({})), &[done(3), first, after_cancel(2)]).await;
    c.check(run(4, "1"), &[after_cancel(4)]).await;
    let ended = "the session has ended: the caller gave the run up; open a new one";
    c.check(of(5, "snapshot", json!({})), &[error(5, "no_session", ended, None)]).await;
    c.check(of(6, "close", json!({})), &[done(6)]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn a_run_that_did_not_begin_is_cancelled_too() {
    let mut client = Client::with_session().await;
    client.send(run(1, "forever()")).await;
    client.check(of(2, "cancel", json!({})), &[done(2), after_cancel(1)]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn close_ends_a_run() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    c.check(run(1, "print('x')\nforever()"), &[output("x")]).await;
    let first = json!({"id": 1, "result":
        {"status": "cancelled", "stdout": "x", "reason": "the caller gave the run up"}});
    c.check(of(2, "close", json!({})), &[first, done(2)]).await;
    assert_eq!(c.alive.load(Ordering::SeqCst), 0);
    let missing = format!("there is no session `{}`", c.sessions[0]);
    c.check(run(3, "1"), &[error(3, "no_session", &missing, Some("open a new one"))]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn sessions_do_not_wait_for_each_other() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    c.check(open(json!({})), &[json!({"id": 0, "result": {"session": "ses2"}})]).await;
    c.send(run(1, "forever()")).await;
    let other = json!({"id": 2, "method": "run", "params": {"session": "ses2", "code": "2"}});
    c.check(other, &[completed(2, json!(2))]).await;
    // The same number twice is the client's affair: each request gets its answer, in order.
    for number in [5, 6] {
        let other = json!({"id": 3, "method": "run", "params": {"session": "ses2", "code": number.to_string()}});
        c.send(other).await;
    }
    assert_eq!([c.next().await, c.next().await], [Some(completed(3, json!(5))), Some(completed(3, json!(6)))]);
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn a_broken_cell_or_task_still_answers() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    let crashed = "the embedded worker died in mid-run; the session is lost, open a new one";
    c.check(run(1, "die()"), &[json!({"id": 1, "result": {"status": "crashed", "reason": crashed}})]).await;
    c.check(open(json!({})), &[json!({"id": 0, "result": {"session": "ses2"}})]).await;
    let given_up = |id| error(id, "internal", "the request was given up by a fault of the engine", None);
    for (id, code) in [(2, "panic()"), (3, "1")] {
        let run = json!({"id": id, "method": "run", "params": {"session": "ses2", "code": code}});
        c.check(run, &[given_up(id)]).await;
    }
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn the_end_of_input_destroys_every_session() {
    let mut client = Client::with_session().await;
    client.check(run(1, "print('x')\nforever()"), &[output("x")]).await;
    client.check(open(json!({})), &[json!({"id": 0, "result": {"session": "ses2"}})]).await;
    let idle = json!({"id": 2, "method": "run", "params": {"session": "ses2", "code": "2"}});
    client.check(idle, &[completed(2, json!(2))]).await;
    assert_eq!(client.alive.load(Ordering::SeqCst), 2);
    client.send_raw(b"\0\0").await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn dropping_the_server_destroys_every_session() {
    let mut client = Client::with_session().await;
    client.check(run(1, "print('x')\nforever()"), &[output("x")]).await;
    client.serving.abort();
    assert!(client.frames.next().await.expect("the end").is_none());
    while client.alive.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_refusal_says_what_is_wrong() {
    let mut client = Client::with_session().await;
    let c = &mut client;
    let methods = "use one of: hello, open, run, exec, snapshot, restore, fork, put, get, list, remove, changes, \
                   changed, freeze, thaw, cancel, close";
    let engines = "`python` is not an engine; use one of: auto, monty, rustpython";
    let span = "limit `wall`: `5 parsecs` is not a span of time; write it as `500ms`, `5s`, `10min` or `1h`";
    let tiers = "`nope` is not a tier; use one of: embedded, wasm, process, container, microvm, remote, cluster";
    let log = "the policy names the audit log `x`, and this engine records in its own";
    let add_twice = json!({"functions": [add(), add()]});
    let bad_name = json!({"functions": [{"name": "no name"}]});
    let limits = |name: &str, value: Json| open(json!({"limits": {name: value}}));
    let text = |text: &str| open(json!({"policy": {"text": text}}));
    let rows: Vec<(Json, &str, &str, Option<&str>)> = vec![
        // Before anything opened a cell.
        (of(0, "snapshot", json!({})), "unsupported", "a session that ran nothing has no state to write down", None),
        (json!({"id": 0, "method": "fly"}), "bad_request", "there is no method `fly`", Some(methods)),
        (json!({"id": 0}), "bad_request", "a request needs the text `method`", None),
        (json!({"id": 0, "method": 3}), "bad_request", "a request needs the text `method`", None),
        (json!({"id": 0, "method": "hello"}), "bad_request", "`hello`: missing field `version`", None),
        (
            json!({"id": 0, "method": "run", "params": []}),
            "bad_request",
            "`run`: invalid length 0, expected struct Run with 5 elements",
            None,
        ),
        (
            json!({"id": 0, "method": "run", "params": 3}),
            "bad_request",
            "`run`: invalid type: integer `3`, expected struct Run",
            None,
        ),
        (of(0, "run", json!({})), "bad_request", "`run`: missing field `code`", None),
        (of(0, "run", json!({"code": 3})), "bad_request", "`run`: invalid type: integer `3`, expected a string", None),
        (of(0, "close", json!({"x": 3})), "bad_request", "`close`: unknown field `x`, expected `session`", None),
        (
            of(0, "run", json!({"code": "1", "inputs": {"x": [{"$type": "nope"}]}})),
            "bad_request",
            "`x[0]` is not a value: unknown `$type` `nope`",
            None,
        ),
        (of(0, "get", json!({"path": "nope"})), "bad_request", "no such file: `/workspace/nope`", None),
        (
            of(0, "get", json!({"path": "/../x"})),
            "bad_request",
            "`/../x` is not a path inside the session; use an absolute path without `..`",
            None,
        ),
        (of(0, "put", json!({"path": "x", "content": "?"})), "bad_request", "`content` is not base64", None),
        (of(0, "fork", json!({"count": 0})), "bad_request", "`count` is 0; a fork makes 1 to 100 sessions", None),
        (of(0, "fork", json!({"count": -1})), "bad_request", "`fork`: invalid value: integer `-1`, expected u64", None),
        (json!({"id": 0, "method": "restore"}), "bad_request", "`restore`: the text `snapshot` is missing", None),
        (
            json!({"id": 0, "method": "restore", "params": {"snapshot": "?"}}),
            "bad_request",
            "`snapshot` is not base64",
            None,
        ),
        (
            json!({"id": 0, "method": "cancel", "params": {"session": "x"}}),
            "no_session",
            "there is no session `x`",
            Some("open a new one"),
        ),
        (
            json!({"id": 0, "method": "close", "params": {"session": "x"}}),
            "no_session",
            "there is no session `x`",
            Some("open a new one"),
        ),
        (
            json!({"id": 0, "method": "list", "params": {"session": "x", "path": "/"}}),
            "no_session",
            "there is no session `x`",
            Some("open a new one"),
        ),
        (open(json!({"engine": "python"})), "bad_request", engines, None),
        (open(json!({"tier": "nope"})), "bad_request", tiers, None),
        (
            open(json!({"tenant": "a b"})),
            "bad_request",
            "`a b` is not a tenant name: use 1 to 64 letters, digits, `-`, `_` or `.`",
            None,
        ),
        (open(add_twice), "bad_request", "host function `add` is declared twice; give each a name of its own", None),
        (
            open(bad_name),
            "bad_request",
            "`no name` can't be the name of a host function; use a Python identifier in ASCII",
            None,
        ),
        (limits("wal", json!("5s")), "bad_request", "`wal` is not a limit", Some("did you mean `wall`?")),
        (limits("wall", json!("5 parsecs")), "bad_request", span, None),
        (
            limits("wall", json!(5)),
            "bad_request",
            "limit `wall`: invalid type: integer `5`, expected a string",
            Some("write it with its unit, as `5s` or `64MiB`"),
        ),
        (
            text("version = 1\n[limit]\nwall = '5s'\n"),
            "bad_policy",
            "policy:2: unknown key `limit` in a policy; did you mean `limits`?",
            None,
        ),
        (
            open(json!({"policy": {"path": "/nope/p.toml"}})),
            "bad_policy",
            "the policy `/nope/p.toml` can't be read: No such file or directory (os error 2)",
            None,
        ),
        (open(json!({"policy": {"path": "/"}})), "bad_policy", "the policy `/` can't be read: it is not a file", None),
        (text("version = 1\n[audit]\nlog = 'x'\n"), "bad_policy", log, Some("take `audit.log` out of the policy")),
        (
            open(json!({"policy": {"file": "x"}})),
            "bad_request",
            "`open`: unknown variant `file`, expected `path` or `text`",
            None,
        ),
    ];
    for (request, code, message, hint) in rows {
        c.check(request, &[error(0, code, message, hint)]).await;
    }
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn a_policy_file_brings_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, "version = 1\n[audit]\nlog = 'a.jsonl'\n").expect("written");
    let (other, alive) = fake::engine();
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let options = Options {
        engine_for_log: Some(Arc::new(move |path| {
            heard.lock().expect("no panic").push(path.to_owned());
            Ok(other.clone())
        })),
        ..Options::default()
    };
    let mut client = Client::with(options);
    let policy = json!({"path": file.to_str().expect("text")});
    client.check(open(json!({"policy": policy})), &[json!({"id": 0, "result": {"session": "ses1"}})]).await;
    client.check(run(1, "1"), &[completed(1, json!(1))]).await;
    assert_eq!((client.alive.load(Ordering::SeqCst), alive.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(*asked.lock().expect("no panic"), [folder.path().join("a.jsonl")]);
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn hello_warms_the_engine_up_once() {
    let warmed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&warmed);
    let warm_up = move |_: &Engine| {
        counter.fetch_add(1, Ordering::SeqCst);
    };
    let mut client = Client::with(Options { warm_up: Some(Arc::new(warm_up)), ..Options::default() });
    for _ in 0..2 {
        client.answer_to(json!({"id": 0, "method": "hello", "params": {"version": 2}})).await;
    }
    assert_eq!((warmed.load(Ordering::SeqCst), client.end().await.0.as_str()), (1, "served"));
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection_with_one_word() {
    let body = |text: &str| [&u32::try_from(text.len()).expect("short").to_be_bytes()[..], text.as_bytes()].concat();
    let neither = "a frame that is neither an answer nor a request with a whole number as its `id`";
    let too_long = (MAX_FRAME as u32 + 1).to_be_bytes().to_vec();
    let rows = [
        (too_long, "a frame of 67108865 bytes, over the limit of 67108864 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "a frame of 1195725856 bytes, over the limit of 67108864 bytes"),
        (body("{"), "a frame that is not JSON: EOF while parsing an object at line 1 column 1"),
        (body(""), "a frame that is not JSON: EOF while parsing a value at line 1 column 0"),
        (body("{\"id\":0}x"), "a frame that is not JSON: trailing characters at line 1 column 9"),
        (body("{\"id\":NaN}"), "a frame that is not JSON: expected value at line 1 column 7"),
        (
            body(&format!("{{\"id\":0,\"x\":{}", "[".repeat(100_000))),
            "a frame that is not JSON: recursion limit exceeded at line 1 column 139",
        ),
        (
            [&[0, 0, 0, 4][..], b"\"\xff\xff\""].concat(),
            "a frame that is not JSON: invalid unicode code point at line 1 column 2",
        ),
        (body("[]"), "a frame that is not a JSON object"),
        (body("{}"), neither),
        (body("{\"method\":\"open\"}"), neither),
        (body("{\"id\":-1,\"method\":\"open\"}"), neither),
        (body("{\"id\":\"x\",\"method\":\"open\"}"), neither),
    ];
    for (bytes, why) in rows {
        let mut client = Client::with_session().await;
        client.check(run(1, "print('x')\nforever()"), &[output("x")]).await;
        client.send_raw(&bytes).await;
        let said = format!("the client sent {why}");
        let last = json!({"id": null, "error": {"code": "bad_request", "message": said, "hint": null}});
        assert_eq!(client.next().await, Some(last), "{why}");
        assert_eq!(client.next().await, None, "{why}");
        assert_eq!(client.end().await, (said, vec![]));
    }
}

#[tokio::test]
async fn large_frames_go_both_ways() {
    let mut client = Client::new();
    let wide = json!({"policy": {"text": "version = 1\n[limits]\noutput = '64MiB'\n"}});
    client.check(open(wide), &[json!({"id": 0, "result": {"session": "ses1"}})]).await;
    let text = "x".repeat(4 << 20);
    let request = of(1, "run", json!({"code": "x", "inputs": {"x": text}}));
    client.check(request, &[completed(1, json!(text))]).await;
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

#[tokio::test]
async fn a_client_that_reads_nothing_can_still_be_read() {
    let mut client = Client::with_session().await;
    // Far more than the pipe holds in both directions, and not one answer taken meanwhile.
    let count = 5_000;
    for id in 0..count {
        client.send(run(id, "1")).await;
    }
    for id in 0..count {
        assert_eq!(client.next().await, Some(completed(id, json!(1))));
    }
    assert_eq!(client.end().await, ("served".to_owned(), vec![]));
}

/// A client at a socket says hello and opens a session.
async fn greet(path: &std::path::Path) -> (Frames<ReadHalf<UnixStream>>, WriteHalf<UnixStream>) {
    let (input, mut output) = split(UnixStream::connect(path).await.expect("someone listens"));
    let mut frames = Frames::new(input);
    output.write_all(&pack(&open(json!({}))).expect("it fits")).await.expect("it is read");
    assert!(frames.next().await.expect("a frame").expect("a frame").contains_key("result"));
    (frames, output)
}

#[tokio::test]
async fn a_socket_serves_each_client_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let (engine, _) = fake::engine();
    let (server, at) = (engine.clone(), path.clone());
    let serving = tokio::spawn(async move { listen(server, &at, Options::default()).await });
    while UnixStream::connect(&path).await.is_err() {
        tokio::task::yield_now().await;
    }
    let (mut first, mut output) = greet(&path).await;
    let second = greet(&path).await;
    assert_eq!(engine.list().len(), 2);
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let again = listen(engine.clone(), &path, Options::default()).await.expect_err("refused").to_string();
    let why = "another engine listens there; give another path, or use that one";
    assert_eq!(again, format!("can't listen at `{}`: {why}", path.display()));
    output.write_all(b"GET / HTTP/1.1").await.expect("it is read");
    assert!(first.next().await.expect("a frame").expect("a frame").contains_key("error"));
    assert!(first.next().await.expect("the end").is_none());
    while engine.list().len() > 1 {
        tokio::task::yield_now().await;
    }
    serving.abort();
    while !engine.list().is_empty() || path.exists() {
        tokio::task::yield_now().await;
    }
    drop(second);
    std::fs::write(&path, "").expect("written");
    let file = listen(engine, &path, Options::default()).await.expect_err("refused").to_string();
    assert_eq!(file, format!("can't listen at `{}`: something else is there; give another path", path.display()));
    assert!(path.exists());
}
