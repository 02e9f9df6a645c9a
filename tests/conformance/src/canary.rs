//! What a guest must never reach: a file, the host's environment, listeners, a name server.
//!
//! Answers to: `stage`. Must not: be told to the guest, or be taken for set up before it was reached from here: a dead
//! canary proves nothing.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The text of the file.
pub const FILE: &str = "CANARY-FILE-5f2e91";
/// The value of `CANARY_TOKEN` in the environment of the supervisor.
pub const ENVIRONMENT: &str = "CANARY-ENV-a81c77";
/// The variable that holds it.
pub const VARIABLE: &str = "CANARY_TOKEN";
const PORT: u16 = 48123;
const ABSTRACT: &[u8] = b"bank-canary";

/// The canaries of one suite.
#[derive(Debug)]
pub struct Canaries {
    folder: PathBuf,
    name_port: u16,
    has_ipv6: bool,
    connections: Arc<AtomicUsize>,
    queries: Arc<AtomicUsize>,
}

impl Canaries {
    /// Sets them up below `folder` and reaches each of them once.
    pub fn set_up(folder: &Path) -> Result<Self, String> {
        let fault = |what: &str, error: std::io::Error| format!("the canary `{what}` can't be set up: {error}");
        let secret = folder.join("host-canary");
        std::fs::create_dir_all(&secret).map_err(|error| fault("folder", error))?;
        std::fs::write(secret.join("secret.txt"), format!("{FILE}\n")).map_err(|error| fault("file", error))?;
        let connections = Arc::new(AtomicUsize::new(0));
        let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
        let listener = TcpListener::bind(("127.0.0.1", PORT)).map_err(|error| fault("127.0.0.1:48123", error))?;
        count(Arc::clone(&connections), move || listener.accept().map(drop));
        if has_ipv6 {
            let listener = TcpListener::bind(("::1", PORT)).map_err(|error| fault("[::1]:48123", error))?;
            count(Arc::clone(&connections), move || listener.accept().map(drop));
        }
        let address = SocketAddr::from_abstract_name(ABSTRACT).map_err(|error| fault("abstract socket", error))?;
        let listener = UnixListener::bind_addr(&address).map_err(|error| fault("abstract socket", error))?;
        count(Arc::clone(&connections), move || listener.accept().map(drop));
        let listener = UnixListener::bind(secret.join("host.sock")).map_err(|error| fault("path socket", error))?;
        count(Arc::clone(&connections), move || listener.accept().map(drop));
        let names = UdpSocket::bind(("127.0.0.53", 53))
            .or_else(|_| UdpSocket::bind(("127.0.0.53", 0)))
            .map_err(|error| fault("name server", error))?;
        let name_port = names.local_addr().map_err(|error| fault("name server", error))?.port();
        let queries = Arc::new(AtomicUsize::new(0));
        count(Arc::clone(&queries), move || {
            let mut packet = [0; 512];
            let (length, peer) = names.recv_from(&mut packet)?;
            names.send_to(packet.get(..length).unwrap_or_default(), peer).map(drop)
        });
        let canaries = Self { folder: secret, name_port, has_ipv6, connections, queries };
        canaries.reach()?;
        Ok(canaries)
    }

    /// Reaches each canary as an unprotected program would.
    fn reach(&self) -> Result<(), String> {
        let dead = |what: &str| format!("the canary `{what}` is dead: it can't be reached without protection either");
        let text = std::fs::read_to_string(self.folder.join("secret.txt")).unwrap_or_default();
        let alive = [
            ("file", text.contains(FILE)),
            ("environment", std::env::var(VARIABLE).is_ok_and(|value| value == ENVIRONMENT)),
            ("127.0.0.1:48123", TcpStream::connect(("127.0.0.1", PORT)).is_ok()),
            ("[::1]:48123", !self.has_ipv6 || TcpStream::connect(("::1", PORT)).is_ok()),
            ("path socket", UnixStream::connect(self.folder.join("host.sock")).is_ok()),
            ("abstract socket", abstract_socket_answers()),
            ("name server", self.name_server_answers()),
        ];
        if let Some((what, _)) = alive.into_iter().find(|(_, alive)| !alive) {
            return Err(dead(what));
        }
        let mine = 3 + usize::from(self.has_ipv6);
        for _ in 0..200 {
            if self.connections.load(Ordering::SeqCst) == mine && self.queries.load(Ordering::SeqCst) == 1 {
                self.forget();
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(dead("counter of connections"))
    }

    fn name_server_answers(&self) -> bool {
        let ask = || {
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            socket.send_to(b"query", ("127.0.0.53", self.name_port))?;
            socket.recv(&mut [0; 16])
        };
        ask().is_ok()
    }

    /// Starts the counts anew.
    pub fn forget(&self) {
        self.connections.store(0, Ordering::SeqCst);
        self.queries.store(0, Ordering::SeqCst);
    }

    /// Connections to any canary since [`Canaries::forget`].
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Queries to the name server since [`Canaries::forget`].
    pub fn queries(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }

    /// Whether the file is as it was.
    pub fn is_untouched(&self) -> bool {
        let text = std::fs::read_to_string(self.folder.join("secret.txt"));
        text.is_ok_and(|text| text == format!("{FILE}\n"))
            && crate::measure::entries(&self.folder.to_string_lossy()) == 2
    }

    /// A program with the places of this suite in it: the cases name `/host-canary` and port 53.
    pub fn placed(&self, code: &str) -> String {
        let code = code.replace("/host-canary", &self.folder.to_string_lossy());
        if self.name_port == 53 { code } else { code.replace("(ns, 53)", &format!("(ns, {})", self.name_port)) }
    }
}

fn abstract_socket_answers() -> bool {
    SocketAddr::from_abstract_name(ABSTRACT).and_then(|address| UnixStream::connect_addr(&address)).is_ok()
}

/// Counts what comes in, on a thread that ends with the program.
fn count(counter: Arc<AtomicUsize>, mut next: impl FnMut() -> std::io::Result<()> + Send + 'static) {
    std::thread::spawn(move || {
        while next().is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
}
