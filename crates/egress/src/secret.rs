//! Secrets on their way into one header.
//!
//! Answers to: `rules` and `exchange`. Must not: show a value, also in part, or keep it after it is dropped.

use std::fmt;

use hyper::header::{HeaderName, HeaderValue};
use ringfence_policy::Inject;
use zeroize::Zeroizing;

use crate::headers::is_framing;

/// A secret's value. It has no Debug content and is wiped when dropped.
#[derive(Clone)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    /// Takes the value over.
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue")
    }
}

/// A secret with its value, and where it goes.
#[derive(Debug, Clone)]
pub struct BoundSecret {
    /// Its name in the policy.
    pub name: String,
    /// Host, paths, header and format.
    pub inject: Inject,
    /// What replaces `{}` in the format.
    pub value: SecretValue,
}

/// Why a secret can't be put into a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretFault {
    #[error("its value is empty")]
    Empty,
    #[error("its value or format has characters that no header may have")]
    Value,
    #[error("its header is one that HTTP itself uses")]
    Header,
}

/// A secret that was seen to fit its header.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) inject: Inject,
    pub(crate) header: HeaderName,
    value: SecretValue,
}

impl Prepared {
    pub(crate) fn new(secret: BoundSecret) -> Result<Self, SecretFault> {
        let header = HeaderName::from_bytes(secret.inject.header.as_bytes()).map_err(|_| SecretFault::Header)?;
        if is_framing(&header) {
            return Err(SecretFault::Header);
        }
        if secret.value.0.is_empty() {
            return Err(SecretFault::Empty);
        }
        let prepared = Self { name: secret.name, inject: secret.inject, header, value: secret.value };
        prepared.header_value().ok_or(SecretFault::Value)?;
        Ok(prepared)
    }

    /// The header's value, marked as sensitive.
    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        let text = Zeroizing::new(self.inject.format.replacen("{}", &self.value.0, 1));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without the secret.
    pub(crate) fn mask(&self, text: &str) -> String {
        text.replace(self.value.0.as_str(), "***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(header: &str, value: &str) -> BoundSecret {
        let inject = Inject {
            host: "api.example.com".into(),
            paths: vec!["/*".into()],
            header: header.into(),
            format: "Bearer {}".into(),
        };
        BoundSecret { name: "key".into(), inject, value: SecretValue::new(value.into()) }
    }

    #[test]
    fn a_value_is_never_shown() {
        let prepared = Prepared::new(secret("authorization", "hush-hush")).unwrap();
        let shown = format!("{:?} {:?}", prepared, prepared.header_value());
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(prepared.mask("/a/hush-hush/b"), "/a/***/b");
    }

    #[test]
    fn what_would_break_a_request_is_refused() {
        let table = [
            ("authorization", "a\r\nhost: evil", SecretFault::Value),
            ("authorization", "a\nb", SecretFault::Value),
            ("authorization", "", SecretFault::Empty),
            ("host", "a", SecretFault::Header),
            ("content-length", "1", SecretFault::Header),
            ("transfer-encoding", "chunked", SecretFault::Header),
            ("connection", "close", SecretFault::Header),
            ("bad header", "a", SecretFault::Header),
        ];
        for (header, value, want) in table {
            assert_eq!(Prepared::new(secret(header, value)).unwrap_err(), want, "{header} {value:?}");
        }
    }
}
