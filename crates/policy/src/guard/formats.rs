//! The formats with companions: `email` with `domains`, `path` with `under`, `uri` with `hosts` and `schemes`.
//!
//! Answers to: `guard`. Must not: accept a spelling that two programs could read differently.
//! INVARIANT: every check here takes text or a path; bytes never pass.

use std::sync::Arc;

use jsonschema::{Keyword, Retrieve, ValidationError, ValidationOptions};
use ringfence_types::Value;
use serde_json::Value as Json;

use super::path;
use crate::check::node::{Values, View};
use crate::denial::shown;
use crate::settings::host_matches;

type Options = ValidationOptions<'static, Arc<dyn Retrieve>, Values>;

/// Adds the three formats to a guard's validator.
pub(crate) fn register(options: Options) -> Options {
    let boxed = |test: Text| -> Box<dyn for<'i> Keyword<'i, Values>> { Box::new(test) };
    options
        .with_keyword("x-email", move |_, value, _| Ok(boxed(Text::Email { domains: list(value, "domains") })))
        .with_keyword("x-path", move |_, value, _| Ok(boxed(Text::Path { under: list(value, "under") })))
        .with_keyword("x-uri", move |_, value, _| {
            Ok(boxed(Text::Uri { hosts: list(value, "hosts"), schemes: list(value, "schemes") }))
        })
}

fn list(options: &Json, name: &str) -> Option<Vec<String>> {
    let items = options.get(name)?.as_array()?;
    Some(items.iter().filter_map(Json::as_str).map(str::to_owned).collect())
}

/// Whether the companion's value is of the right form.
pub(crate) fn check_option(name: &str, value: &Json) -> Result<(), String> {
    let example = match name {
        "domains" => "[\"company.com\"]",
        "under" => "[\"/data\"]",
        "hosts" => "[\"example.com\"]",
        _ => "[\"https\"]",
    };
    let items = value.as_array().filter(|items| !items.is_empty());
    let items =
        items.ok_or_else(|| format!("`{name}` takes a list that is not empty, such as `{name} = {example}`"))?;
    for item in items {
        let text = item.as_str().ok_or_else(|| format!("`{name}` takes texts, such as `{name} = {example}`"))?;
        let right = match name {
            "domains" => is_domain(text.strip_prefix("*.").unwrap_or(text)),
            "under" => text.starts_with('/') && path::normal(text).as_deref() == Ok(text),
            "hosts" => host_and_port(text).is_some_and(|(host, _)| is_host(host.strip_prefix("*.").unwrap_or(host))),
            _ => is_scheme(text),
        };
        if !right {
            return Err(format!("`{}` cannot stand in `{name}`; write it as in `{example}`", shown(text)));
        }
    }
    Ok(())
}

enum Text {
    Email { domains: Option<Vec<String>> },
    Path { under: Option<Vec<String>> },
    Uri { hosts: Option<Vec<String>>, schemes: Option<Vec<String>> },
}

impl Text {
    fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Email { domains } => email_domain(text).is_some_and(|domain| {
                domains.as_ref().is_none_or(|domains| domains.iter().any(|pattern| host_matches(pattern, &domain)))
            }),
            Self::Path { under } => path::normal(text).is_ok_and(|path| {
                under.as_ref().is_none_or(|folders| folders.iter().any(|folder| path::is_under(&path, folder)))
            }),
            Self::Uri { hosts, schemes } => uri_is_allowed(text, hosts.as_deref(), schemes.as_deref()),
        }
    }

    fn wanted(&self) -> String {
        let or = |list: &[String]| list.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(" or ");
        match self {
            Self::Email { domains: None } => "a plain email address".to_owned(),
            Self::Email { domains: Some(domains) } => format!("a plain email address at {}", or(domains)),
            Self::Path { under: None } => "a plain path".to_owned(),
            Self::Path { under: Some(folders) } => format!("a plain path under {}", or(folders)),
            Self::Uri { hosts: None, schemes: None } => "a plain `https` or `http` address".to_owned(),
            Self::Uri { hosts: Some(hosts), .. } => format!("a plain web address at {}", or(hosts)),
            Self::Uri { hosts: None, schemes: Some(schemes) } => format!("an address with the scheme {}", or(schemes)),
        }
    }
}

impl<'i> Keyword<'i, Values> for Text {
    fn validate(&self, instance: View<'i>) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, instance) { Ok(()) } else { Err(ValidationError::custom(self.wanted())) }
    }
    fn is_valid(&self, instance: View<'i>) -> bool {
        match (self, instance) {
            (_, View::Value(Value::Str(text))) | (Self::Path { .. }, View::Value(Value::Path(text))) => {
                self.accepts(text)
            }
            _ => false,
        }
    }
}

/// The domain in lower case of an address in its plainest form: no quotes, comments, routes or lists.
fn email_domain(text: &str) -> Option<String> {
    let (local, domain) = text.split_once('@')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"#$&'*+/=?^_{}~.-".contains(&byte);
    // An encoded word is another address to mail programs that decode it.
    let encoded = local.contains("=?");
    let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    let fits = (1..=64).contains(&local.len()) && text.len() <= 254 && local.bytes().all(plain) && !dots && !encoded;
    (fits && is_domain(domain)).then(|| domain.to_ascii_lowercase())
}

fn is_domain(text: &str) -> bool {
    is_host(text) && text.contains('.')
}

pub(crate) fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (1..=253).contains(&text.len()) && text.split('.').all(label)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte))
}

fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    match authority.split_once(':') {
        None => Some((authority, None)),
        Some((host, port)) => {
            let plain = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
            Some((host, Some(port.parse().ok().filter(|_| plain)?)))
        }
    }
}

/// Whether the address is `scheme://host[:port]…` without user, odd characters or a foreign host.
fn uri_is_allowed(text: &str, hosts: Option<&[String]>, schemes: Option<&[String]>) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
    let Some((scheme, rest)) = text.split_once("://").filter(|_| text.len() <= 2048 && text.bytes().all(plain)) else {
        return false;
    };
    let scheme = scheme.to_ascii_lowercase();
    let allowed = match schemes {
        Some(schemes) => schemes.contains(&scheme),
        None => matches!(scheme.as_str(), "https" | "http"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let Some((host, port)) = host_and_port(&authority).filter(|(host, _)| is_host(host)) else { return false };
    let usual = match scheme.as_str() {
        "https" | "wss" => Some(443),
        "http" | "ws" => Some(80),
        _ => None,
    };
    let port = port.or(usual);
    let covers = |entry: &String| {
        host_and_port(entry).is_some_and(|(name, at)| host_matches(name, host) && at.or(usual) == port)
    };
    allowed && hosts.is_none_or(|hosts| hosts.iter().any(covers))
}
