//! A session's way out: the listener on its own loopback, which its place hands over for the certificates that its
//! programs are to trust; and what tells its programs of both.
//!
//! Answers to: `cell` and `plan`. Must not: accept a connection, or know what a proxy allows.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringfence_wire::jail::TRUSTED;
use ringfence_worker::Control;

/// The proxy's port inside: each session has a loopback of its own, so all of them use the same.
pub const PORT: u16 = 3128;

/// What a place may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Programs look for a proxy under these names, in small letters and in capitals.
const PROXIES: [&str; 3] = ["http_proxy", "https_proxy", "all_proxy"];
/// And for certificates under these: OpenSSL and Python, `requests`, `curl`, Node, `pip`, `git`, the clients of a cloud.
const CERTIFICATES: [&str; 7] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
];

/// What programs of a session with a network find in their environment.
pub fn environment() -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PORT}");
    let local = ("no_proxy", "localhost,127.0.0.1,::1".to_owned());
    let proxies = PROXIES.map(|name| (name, proxy.clone())).into_iter().chain([local]);
    let both = proxies.flat_map(|(name, value)| [(name.to_owned(), value.clone()), (name.to_ascii_uppercase(), value)]);
    both.chain(CERTIFICATES.map(|name| (name.to_owned(), TRUSTED.to_owned()))).collect()
}

/// Tells the place what is trusted, and gets the listener. Blocks for moments.
pub fn open(line: OwnedFd, trusted: &str) -> io::Result<TcpListener> {
    let mut line = UnixStream::from(line);
    line.set_write_timeout(Some(PATIENCE))?;
    line.set_read_timeout(Some(PATIENCE))?;
    line.write_all(trusted.as_bytes())?;
    // Not even where nobody is trusted does the place hear nothing: that would be a host that is gone.
    line.write_all(b"\n")?;
    line.shutdown(Shutdown::Write)?;
    let answer = Control::from(OwnedFd::from(line)).receive()?;
    match answer.descriptors.into_iter().next() {
        Some(listener) => Ok(TcpListener::from(listener)),
        None => Err(io::Error::other(String::from_utf8_lossy(&answer.bytes).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_proxy_and_what_to_trust() {
        let found = environment();
        let of = |name: &str| found.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            assert_eq!(of(name), Some("http://127.0.0.1:3128"), "{name}");
        }
        assert_eq!((of("no_proxy"), of("NO_PROXY")), (of("NO_PROXY"), Some("localhost,127.0.0.1,::1")));
        assert_eq!(of("SSL_CERT_FILE"), Some("/run/egress/trusted.pem"));
    }
}
