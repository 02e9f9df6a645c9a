//! Who is meant: a host and a port, in the one spelling that has one meaning.
//!
//! Answers to: `exchange` and `tunnel`, for CONNECT authorities, absolute addresses and Host headers.
//! Must not: repair, decode or resolve anything. What is not spelled plainly is refused, not understood.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a spelling is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpellingFault {
    /// `user@host`.
    #[error("a user name before the host is not allowed")]
    UserInfo,
    /// `%`, a zone or an escape.
    #[error("percent signs in a host are not allowed")]
    Percent,
    /// Anything outside ASCII letters, digits, `-`, `_` and `.`.
    #[error("a host name is made of ASCII letters, digits, hyphens and dots")]
    Character,
    /// `a..b`, `.a`.
    #[error("a host name has no empty label")]
    EmptyLabel,
    /// `a.`.
    #[error("a host name has no final dot")]
    FinalDot,
    /// A label or name that is too long, or a hyphen at a label's edge.
    #[error("a label has 1 to 63 characters and no hyphen at its edge, a name at most 253")]
    Label,
    /// `127.1`, `0x7f000001`, `0177.0.0.1`.
    #[error("a host that ends in a number is an IPv4 address, written as four decimal numbers")]
    Number,
    /// A broken or not canonical bracketed address.
    #[error("an IPv6 address stands in brackets, in its shortest form, without a zone")]
    Bracket,
    /// No port where one is needed, or one that isn't 1 to 65535.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// Nothing at all.
    #[error("a host is missing")]
    Empty,
}

/// A host: a name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address, given as such.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Target {
    /// Reads `host:port`; `default` is the port where none stands there.
    pub fn read(text: &str, default: Option<u16>) -> Result<Self, SpellingFault> {
        if text.contains('@') {
            return Err(SpellingFault::UserInfo);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port {
            Some(port) => read_port(port)?,
            None => default.ok_or(SpellingFault::Port)?,
        };
        Ok(Self { host: Host::read(host)?, port })
    }

    /// The Host header: without the port where it is the scheme's own.
    pub fn header(&self, default: u16) -> String {
        if self.port == default { self.host.to_string() } else { self.to_string() }
    }
}

fn read_port(text: &str) -> Result<u16, SpellingFault> {
    let plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || text.starts_with('0') {
        return Err(SpellingFault::Port);
    }
    text.parse().map_err(|_| SpellingFault::Port)
}

impl Host {
    /// Reads a host: a name in any case, four decimal numbers, or a bracketed IPv6 address in canonical form.
    pub fn read(text: &str) -> Result<Self, SpellingFault> {
        if text.is_empty() {
            return Err(SpellingFault::Empty);
        }
        if text.contains('%') {
            return Err(SpellingFault::Percent);
        }
        if text.contains(['[', ']', ':']) {
            return read_bracketed(text);
        }
        read_name(text)
    }
}

fn read_bracketed(text: &str) -> Result<Host, SpellingFault> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(SpellingFault::Bracket)?;
    let address: Ipv6Addr = inner.parse().map_err(|_| SpellingFault::Bracket)?;
    // WHY: one address has many spellings, and only one of them is compared with the policy.
    if address.to_string() != inner.to_ascii_lowercase() {
        return Err(SpellingFault::Bracket);
    }
    Ok(Host::Address(IpAddr::V6(address)))
}

fn read_name(text: &str) -> Result<Host, SpellingFault> {
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(SpellingFault::Character);
    }
    if text.ends_with('.') {
        return Err(SpellingFault::FinalDot);
    }
    if text.split('.').any(str::is_empty) {
        return Err(SpellingFault::EmptyLabel);
    }
    let is_label = |label: &str| label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-');
    if text.len() > 253 || !text.split('.').all(is_label) {
        return Err(SpellingFault::Label);
    }
    let name = text.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    if is_number(last) {
        return name.parse::<Ipv4Addr>().map(|ip| Host::Address(IpAddr::V4(ip))).map_err(|_| SpellingFault::Number);
    }
    Ok(Host::Name(name))
}

/// Whether some program would read the label as a number: decimal, octal, or `0x…`, also without digits.
fn is_number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").map(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits.unwrap_or_else(|| label.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_spellings_are_read() {
        let table = [
            ("api.example.com:443", "api.example.com:443"),
            ("API.Example.COM:8443", "api.example.com:8443"),
            ("localhost", "localhost:80"),
            ("a_b.example.com", "a_b.example.com:80"),
            ("xn--bcher-kva.example:1", "xn--bcher-kva.example:1"),
            ("127.0.0.1:65535", "127.0.0.1:65535"),
            ("[::1]:80", "[::1]:80"),
            ("[2606:4700::1111]", "[2606:4700::1111]:80"),
            ("0xyz.example.com", "0xyz.example.com:80"),
            ("127.0.0.1.example.com", "127.0.0.1.example.com:80"),
        ];
        for (text, want) in table {
            assert_eq!(Target::read(text, Some(80)).map(|target| target.to_string()), Ok(want.to_owned()), "{text}");
        }
        assert_eq!(Target::read("api.example.com", None), Err(SpellingFault::Port));
    }

    #[test]
    fn odd_spellings_are_refused() {
        use SpellingFault::*;
        let long = format!("{}.com", "a".repeat(64));
        let table = [
            ("", Empty),
            (":80", Empty),
            ("2130706433", Number),
            ("017700000001", Number),
            ("0x7f000001", Number),
            ("0x7f.1", Number),
            ("127.1", Number),
            ("127.0.1", Number),
            ("0177.0.0.1", Number),
            ("0x7f.0.0.0x1", Number),
            ("127.0.0.01", Number),
            ("127.0.0.256", Number),
            ("127.0.0.0x", Number),
            ("a.0x", Number),
            ("1.2.3.4.5", Number),
            ("127.0.0.1.", FinalDot),
            ("api.example.com.", FinalDot),
            ("api..example.com", EmptyLabel),
            (".example.com", EmptyLabel),
            ("api.example.com:0", Port),
            ("api.example.com:00080", Port),
            ("api.example.com:+80", Port),
            ("api.example.com:65536", Port),
            ("api.example.com:99999999999", Port),
            ("api.example.com:", Port),
            ("api.example.com:80:80", Bracket),
            ("::1", Bracket),
            ("[::1", Bracket),
            ("[0:0:0:0:0:0:0:1]", Bracket),
            ("[::1%25lo]", Percent),
            ("[::ffff:7f00:1]", Bracket),
            ("[::0001]", Bracket),
            ("[127.0.0.1]", Bracket),
            ("[v1.abc]", Bracket),
            ("api%2eexample.com", Percent),
            ("user@api.example.com", UserInfo),
            ("api.example.com@127.0.0.1", UserInfo),
            ("api.example.com#.evil", Character),
            ("api.example.com\\.evil", Character),
            ("api.example.com/", Character),
            ("api.example.com\t", Character),
            ("api\u{ff0e}example.com", Character),
            ("api\u{3002}example.com", Character),
            ("\u{ff41}pi.example.com", Character),
            ("①②⑦.0.0.1", Character),
            ("аpi.example.com", Character),
            ("-a.example.com", Label),
            ("a-.example.com", Label),
            (long.as_str(), Label),
        ];
        for (text, want) in table {
            assert_eq!(Target::read(text, Some(80)), Err(want), "{text}");
        }
    }

    proptest::proptest! {
        /// What is read is written as one spelling, which reads as the same.
        #[test]
        fn there_is_one_spelling(text in "[a-zA-Z0-9.:%@\\[\\]_x-]{0,40}") {
            if let Ok(target) = Target::read(&text, Some(80)) {
                let shown = target.to_string();
                proptest::prop_assert_eq!(Target::read(&shown, None), Ok(target));
                let lower = text.to_ascii_lowercase();
                proptest::prop_assert!(shown == lower || shown == format!("{lower}:80"), "{} {}", text, shown);
            }
        }
    }
}
