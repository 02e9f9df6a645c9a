//! Why something was refused, in words for the guest, the log and whoever keeps the policy.
//!
//! Answers to: every part that refuses. Must not: hold a secret, a query, or a resolved address: the guest reads this.

use hyper::StatusCode;

use crate::target::SpellingFault;

/// Why a connection or a request was refused, or why it ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are not the HTTP that this proxy speaks.
    #[error("the request is malformed: {0}; send plain HTTP/1.1")]
    Malformed(&'static str),
    /// The host is spelled in a way that could mean another.
    #[error("host `{host}` is not spelled plainly: {fault}")]
    Spelling {
        /// As it came, cut and escaped.
        host: String,
        /// What is wrong with it.
        fault: SpellingFault,
    },
    /// No rule names the host and port.
    #[error("policy does not allow `{target}`; add the host and port to `network.allow`")]
    Target {
        /// Host and port.
        target: String,
    },
    /// The host is allowed, the method isn't.
    #[error("policy does not allow method `{method}` at `{target}`; add it to the rule's `methods`")]
    Method {
        /// Host and port.
        target: String,
        /// The method.
        method: String,
    },
    /// The host is allowed, the path isn't.
    #[error("policy does not allow path `{path}` at `{target}`; add it to the rule's `paths`")]
    Path {
        /// Host and port.
        target: String,
        /// The path without its query.
        path: String,
    },
    /// The path has more than one meaning.
    #[error("path `{path}` could be read in two ways: {why}; write it plainly")]
    AmbiguousPath {
        /// The path without its query.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A header would make the server act on another method or path than the one that was checked.
    #[error("header `{0}` would change what the policy checked; leave it out")]
    Override(&'static str),
    /// The Host header and the address of the request name different hosts.
    #[error("the `host` header does not name `{target}`; send the host that the request goes to")]
    HostHeader {
        /// Host and port of the request.
        target: String,
    },
    /// An absolute address that isn't `http://`.
    #[error("only `http://` addresses are forwarded; reach `https://` through CONNECT")]
    Scheme,
    /// `Upgrade`.
    #[error("a change of protocol is not forwarded; leave out the `upgrade` header")]
    Upgrade,
    /// The name has no address.
    #[error("host `{host}` has no address; check the name")]
    Unresolved {
        /// The name.
        host: String,
    },
    /// At least one of the host's addresses may not be reached.
    #[error("host `{host}` leads to an address that is not public; the proxy's owner may allow it")]
    Address {
        /// The name or address.
        host: String,
    },
    /// No connection.
    #[error("`{target}` can't be reached: {why}; try again later")]
    Unreachable {
        /// Host and port.
        target: String,
        /// What happened.
        why: &'static str,
    },
    /// The server's certificate doesn't hold, or it doesn't speak TLS.
    #[error("no trusted TLS with `{target}`: its certificate or protocol was refused")]
    Tls {
        /// Host and port.
        target: String,
    },
    /// The server's answer is not HTTP, or broke off.
    #[error("`{target}` broke off or answered with something else than HTTP")]
    BadAnswer {
        /// Host and port.
        target: String,
    },
    /// The bytes in a tunnel are neither TLS nor HTTP.
    #[error("a tunnel carries TLS or HTTP/1.1, and nothing else")]
    NotTls,
    /// A broken, oversized or doubtful ClientHello.
    #[error("the TLS ClientHello is refused: {0}")]
    Hello(&'static str),
    /// TLS names another server than CONNECT did.
    #[error("TLS asks for server `{found}` in a tunnel to `{host}`; name the same host in both")]
    ServerName {
        /// The tunnel's host.
        host: String,
        /// The name in the ClientHello.
        found: String,
    },
    /// The guest didn't trust the session's certificate, or broke off.
    #[error("TLS with the guest failed; its programs must trust the session's certificate")]
    GuestTls,
    /// All connections of the cell are in use.
    #[error("too many connections at once; close some and try again")]
    Connections,
    /// The traffic hook said no.
    #[error("the session's traffic is used up")]
    Traffic,
    /// Nothing moved for too long.
    #[error("the connection was idle for too long")]
    Idle,
    /// The record of it could not be written, hence it was not done.
    #[error("the connection could not be recorded, and was not made")]
    Unrecorded,
}

impl Refusal {
    /// The status that the guest sees.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) | Self::HostHeader { .. } | Self::Scheme | Self::Hello(_) => StatusCode::BAD_REQUEST,
            Self::Spelling { .. }
            | Self::Target { .. }
            | Self::Method { .. }
            | Self::Path { .. }
            | Self::AmbiguousPath { .. }
            | Self::Override(_)
            | Self::Upgrade
            | Self::Address { .. }
            | Self::NotTls
            | Self::ServerName { .. }
            | Self::Traffic => StatusCode::FORBIDDEN,
            Self::Unresolved { .. } | Self::Unreachable { .. } | Self::Tls { .. } | Self::BadAnswer { .. } => {
                StatusCode::BAD_GATEWAY
            }
            Self::GuestTls | Self::Idle => StatusCode::REQUEST_TIMEOUT,
            Self::Connections | Self::Unrecorded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The most characters of the guest's that a message or an event holds of one thing.
const SHOWN: usize = 256;

/// The guest's text as it may stand in a message: cut, and without control or non-ASCII characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_default).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_text_is_cut_and_escaped() {
        assert_eq!(shown("a\u{202e}b\nc"), "a\\u{202e}b\\nc");
        assert_eq!(shown(&"x".repeat(300)), format!("{}...", "x".repeat(256)));
    }
}
