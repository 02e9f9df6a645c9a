//! What lies outside the cell: mounts, hosts and secrets.
//!
//! Answers to: `resolve`. Must not: look whether a folder, a host or a variable is there.

use std::collections::BTreeMap;

use ringfence_types::GuestPath;

use super::Faults;
use crate::denial::shown;
use crate::error::PolicyErrorKind;
use crate::file::{
    At, FilesystemFile, InjectFile, MountFile, NetworkFile, NetworkRuleFile, SecretFile, SecretSourceFile,
};
use crate::settings::{Filesystem, Inject, Mount, MountMode, Network, NetworkRule, Secret, SecretSource};

pub(super) fn filesystem(file: &FilesystemFile, faults: &mut Faults) -> Filesystem {
    let workspace = file.workspace.as_ref().and_then(|size| faults.read("filesystem.workspace", size));
    let mut mounts: Vec<Mount> = Vec::new();
    for entry in file.mounts.iter().flatten() {
        let Some(mount) = mount(entry.get(), faults) else { continue };
        let span = entry.get().at.span();
        if mounts.iter().any(|other| other.at == mount.at) {
            faults.contradiction(span, format!("two mounts are at `{}`; give each a place of its own", mount.at));
        } else if workspace.is_some() && mount.at.is_under("/workspace") {
            let message = format!(
                "the mount at `{}` lies in the private workspace; mount it elsewhere, such as `/data`",
                mount.at
            );
            faults.contradiction(span, message);
        }
        if let Some(other) = mounts.iter().find(|other| nested(other, &mount)) {
            let message = format!(
                "the mounts at `{}` and `{}` lie in each other, and one is copy-on-write; give each a place of its own",
                other.at, mount.at
            );
            faults.contradiction(entry.get().at.span(), message);
        }
        mounts.push(mount);
    }
    Filesystem { workspace, mounts }
}

/// Whether one of them is copy-on-write and would hide, or be hidden by, the other.
fn nested(one: &Mount, other: &Mount) -> bool {
    let lies_in = |inner: &Mount, outer: &Mount| inner.at != outer.at && inner.at.is_under(outer.at.as_str());
    (one.mode == MountMode::Cow || other.mode == MountMode::Cow) && (lies_in(one, other) || lies_in(other, one))
}

fn mount(file: &MountFile, faults: &mut Faults) -> Option<Mount> {
    let at = file.at.get();
    let place = GuestPath::resolve(at).ok().filter(|place| at.starts_with('/') && place.as_str() != "/");
    if place.is_none() {
        let right = GuestPath::resolve(&format!("/{at}")).ok().filter(|right| right.as_str() != "/");
        let right = right.map_or_else(|| "/data".to_owned(), String::from);
        let message = format!(
            "a mount cannot be at `{}`; use an absolute path below the root, such as `{}`",
            shown(at),
            shown(&right)
        );
        faults.value(file.at.span(), message);
    }
    if file.host.get().is_empty() || file.host.get().contains('\0') {
        faults.value(file.host.span(), "`host` names no folder; write it as `host = \"data\"`");
    }
    let words = [("ro", MountMode::Ro), ("rw", MountMode::Rw), ("cow", MountMode::Cow)];
    let mode = file.mode.as_ref().map_or(Some(MountMode::Ro), |mode| faults.choice("mode", mode, &words));
    Some(Mount { host: file.host.get().clone(), at: place?, mode: mode? })
}

pub(super) fn network(file: &NetworkFile, faults: &mut Faults) -> Network {
    Network { allow: file.allow.iter().flatten().map(|rule| rule_of(rule.get(), faults)).collect() }
}

fn rule_of(file: &NetworkRuleFile, faults: &mut Faults) -> NetworkRule {
    let host = host(&file.host, faults);
    let mut ports = Vec::new();
    for port in file.ports.iter().flatten() {
        match u16::try_from(*port.get()).ok().filter(|port| *port > 0) {
            Some(port) => ports.push(port),
            None => faults.value(port.span(), format!("{} is not a port; use a number from 1 to 65535", port.get())),
        }
    }
    let mut methods = Vec::new();
    for method in file.methods.iter().flatten() {
        let name = method.get().to_ascii_uppercase();
        if name != "*" && (name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase())) {
            let message = format!("`{}` is not an HTTP method; write it as `GET`", shown(method.get()));
            faults.value(method.span(), message);
        }
        methods.push(name);
    }
    let paths = paths(file.paths.as_deref(), faults);
    let ports = if file.ports.is_some() { ports } else { vec![443] };
    let methods = if file.methods.is_some() { methods } else { vec!["GET".to_owned(), "HEAD".to_owned()] };
    NetworkRule { host, ports, methods, paths }
}

fn paths(file: Option<&[At<String>]>, faults: &mut Faults) -> Vec<String> {
    let Some(patterns) = file else { return vec!["/*".to_owned()] };
    for pattern in patterns.iter().filter(|pattern| !pattern.get().starts_with('/')) {
        let right = shown(&format!("/{}", pattern.get()));
        faults.value(pattern.span(), format!("a path starts with `/`; write it as `{right}`"));
    }
    patterns.iter().map(|pattern| pattern.get().clone()).collect()
}

fn host(text: &At<String>, faults: &mut Faults) -> String {
    let name = text.get().to_ascii_lowercase();
    let plain = name.strip_prefix("*.").unwrap_or(&name);
    if !crate::guard::is_host(plain) {
        let bare = name.split("://").last().unwrap_or_default();
        let bare = bare.split(['/', ':']).next().unwrap_or_default();
        let right = if crate::guard::is_host(bare) { bare } else { "api.example.com" };
        faults.value(text.span(), format!("`{}` is not a host name; write it as `{right}`", shown(text.get())));
    }
    name
}

/// The secrets; `network` is absent where it had faults of its own.
pub(super) fn secrets(
    file: &BTreeMap<String, At<SecretFile>>,
    network: Option<&Network>,
    faults: &mut Faults,
) -> BTreeMap<String, Secret> {
    let mut secrets = BTreeMap::new();
    for (name, secret) in file {
        let Some(from) = source_of(name, &secret.get().from, faults) else { continue };
        let inject = inject_of(name, secret.get().inject.get(), network, faults);
        secrets.insert(name.clone(), Secret { from, inject });
    }
    secrets
}

fn source_of(name: &str, from: &At<SecretSourceFile>, faults: &mut Faults) -> Option<SecretSource> {
    let source = match (&from.get().env, &from.get().file) {
        (Some(variable), None) => Some((variable, SecretSource::Env(variable.get().clone()))),
        (None, Some(path)) => Some((path, SecretSource::File(path.get().clone()))),
        _ => None,
    };
    let Some((text, source)) = source else {
        let message = format!(
            "`secrets.{}.from` takes one of `env` and `file`, as in `from = {{ env = \"EXAMPLE_KEY\" }}`",
            shown(name)
        );
        faults.add(PolicyErrorKind::WrongValue, from.span(), message);
        return None;
    };
    if text.get().is_empty() || text.get().contains(['\0', '=']) {
        faults.value(text.span(), "a secret comes from a named variable or file, such as `EXAMPLE_KEY`");
    }
    Some(source)
}

fn inject_of(name: &str, file: &InjectFile, network: Option<&Network>, faults: &mut Faults) -> Inject {
    let before = faults.count();
    let host = host(&file.host, faults);
    if let Some(network) = network.filter(|_| faults.count() == before)
        && !network.allow.iter().any(|rule| rule.host == host || rule.covers_host(&host))
    {
        let known: Vec<&str> = network.allow.iter().map(|rule| rule.host.as_str()).collect();
        let near = if known.is_empty() {
            format!("add `{{ host = \"{host}\" }}` to it")
        } else {
            crate::shape::suggestion(&host, &known)
        };
        let message = format!("secret `{}` goes to `{host}`, which `network.allow` does not list; {near}", shown(name));
        faults.contradiction(file.host.span(), message);
    }
    let header = file.header.get().to_ascii_lowercase();
    if header.is_empty() || !header.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        let message = format!("`{}` is not a header; write it as `authorization`", shown(file.header.get()));
        faults.value(file.header.span(), message);
    }
    let format = file.format.as_ref().map_or("{}", |format| format.get());
    if let Some(at) = &file.format
        && (format.matches("{}").count() != 1 || format.chars().any(char::is_control))
    {
        faults.value(at.span(), "`format` holds `{}` once, in the secret's place, as in `Bearer {}`");
    }
    Inject { host, paths: paths(file.paths.as_deref(), faults), header, format: format.to_owned() }
}
