//! From the file as written to the policy as meant: defaults, units, guards and contradictions.
//!
//! Answers to: `Policy::parse`. Must not: stop at the first fault.
//! Cross-checks run only where the sections they compare had no fault, so that one mistake is told once.

mod functions;
mod reach;

use std::ops::Range;
use std::str::FromStr;

use ringfence_types::{Limits, Strength, TierName};
use serde::Deserialize;

use crate::error::{PolicyError, PolicyErrorKind};
use crate::file::{
    AnomalyFile, At, AuditFile, IsolationFile, LimitsFile, MonitorFile, PolicyFile, PythonFile, ThresholdsFile,
    TypesFile,
};
use crate::grant::redaction;
use crate::policy::{Policy, unreachable_floor, zero_limits};
use crate::settings::{
    Anomaly, AnomalyAction, Audit, Isolation, Monitor, Python, Settings, Thresholds, TypeCheck, Types,
};
use crate::shape::{self, suggestion};
use crate::source;

/// The shortest time between two looks at a running cell, in milliseconds.
const SHORTEST_LOOK: u64 = 10;

/// Reads a whole policy; every fault of it.
pub(crate) fn policy(text: &str) -> Result<Policy, Vec<PolicyError>> {
    let mut table = source::read(text)?;
    let mut faults = Faults(shape::prune(&mut table, &Policy::schema()));
    let file = PolicyFile::deserialize(toml::Deserializer::from(table));
    let file = match file {
        Ok(file) => file,
        // What was taken out of the tree left a required key missing: it has been told already.
        Err(_) if !faults.0.is_empty() => return Err(faults.0),
        Err(error) => {
            faults.add(PolicyErrorKind::WrongType, error.span().unwrap_or(0..0), error.message());
            return Err(faults.0);
        }
    };
    let mut settings = settings(&file, &mut faults);
    let guards = functions::functions(file.functions.as_ref(), &mut settings.functions, &mut faults);
    if faults.0.is_empty() { Ok(Policy::from_settings(settings, guards)) } else { Err(faults.0) }
}

/// Faults, as they are found.
pub(crate) struct Faults(Vec<PolicyError>);

impl Faults {
    pub fn add(&mut self, kind: PolicyErrorKind, span: Range<usize>, message: impl Into<String>) {
        self.0.push(PolicyError::new(kind, Some(span), message));
    }
    pub fn value(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.add(PolicyErrorKind::WrongValue, span, message);
    }
    pub fn contradiction(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.add(PolicyErrorKind::Contradiction, span, message);
    }
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The text read as `T`; a fault where it can't be.
    pub fn read<T: FromStr<Err: std::fmt::Display>>(&mut self, key: &str, text: &At<String>) -> Option<T> {
        match text.get().parse() {
            Ok(value) => Some(value),
            Err(why) => {
                self.value(text.span(), format!("`{key}`: {why}"));
                None
            }
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, key: &str, text: &At<String>, choices: &[(&str, T)]) -> Option<T> {
        let found = choices.iter().find(|(word, _)| word == text.get()).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let near = suggestion(text.get(), &words);
            self.value(text.span(), format!("`{key}` cannot be `{}`; {near}", crate::denial::shown(text.get())));
        }
        found
    }
}

fn settings(file: &PolicyFile, faults: &mut Faults) -> Settings {
    let mut settings = Settings::closed();
    if *file.version.get() != 1 {
        faults.value(
            file.version.span(),
            format!("policy version {} is not known; use `version = 1`", file.version.get()),
        );
    }
    "policy".clone_into(&mut settings.name);
    if let Some(name) = &file.name {
        if name.get().is_empty() || name.get().len() > 64 || name.get().chars().any(char::is_control) {
            faults.value(name.span(), "`name` is 1 to 64 bytes of text without control characters");
        }
        settings.name.clone_from(name.get());
    }
    if let Some(isolation) = &file.isolation {
        isolation_of(isolation, &mut settings.isolation, faults);
        floor_is_reachable(isolation, &settings, faults);
    }
    let disk_given = file.limits.as_ref().is_some_and(|limits| limits.get().disk.is_some());
    if let Some(limits) = &file.limits {
        limits_of(limits, &mut settings.limits, faults);
    }
    settings.python = file.python.as_ref().map(|python| python_of(python.get(), faults)).unwrap_or_default();
    if let Some(filesystem) = &file.filesystem {
        settings.filesystem = reach::filesystem(filesystem.get(), faults);
        if let Some(workspace) = settings.filesystem.workspace {
            if !disk_given {
                settings.limits.disk = workspace;
            } else if settings.limits.disk < workspace {
                let disk = settings.limits.disk;
                faults.contradiction(filesystem.span(), format!("`filesystem.workspace` is `{workspace}` but `limits.disk` is `{disk}`; raise the limit to at least `{workspace}`"));
            }
        }
    }
    let before = faults.count();
    settings.network = file.network.as_ref().map(|network| reach::network(network.get(), faults)).unwrap_or_default();
    let network_is_sound = faults.count() == before;
    if let Some(secrets) = &file.secrets {
        let network = network_is_sound.then_some(&settings.network);
        settings.secrets = reach::secrets(secrets, network, faults);
    }
    settings.types = file.types.as_ref().map(|types| types_of(types.get(), faults)).unwrap_or_default();
    settings.audit = file.audit.as_ref().map(|audit| audit_of(audit.get(), faults)).unwrap_or_default();
    settings.monitor = file.monitor.as_ref().map(|monitor| monitor_of(monitor.get(), faults)).unwrap_or_default();
    settings.anomaly = file.anomaly.as_ref().map(|anomaly| anomaly_of(anomaly.get(), faults)).unwrap_or_default();
    settings
}

fn isolation_of(file: &At<IsolationFile>, isolation: &mut Isolation, faults: &mut Faults) {
    if let Some(floor) = &file.get().floor {
        let known = Strength::ALL.map(|strength| (strength.as_str(), strength));
        isolation.floor = faults.choice("isolation.floor", floor, &known).unwrap_or(isolation.floor);
    }
    isolation.exec = file.get().exec.as_ref().is_none_or(|flag| *flag.get());
    let Some(tiers) = &file.get().tiers else { return };
    let known = TierName::ALL.map(|tier| (tier.as_str(), tier));
    let mut named = Vec::new();
    for tier in tiers.get() {
        match faults.choice("isolation.tiers", tier, &known) {
            Some(name) if named.contains(&name) => {
                faults.value(tier.span(), format!("tier `{name}` is named twice; name it once"));
            }
            Some(name) => named.push(name),
            None => {}
        }
    }
    if tiers.get().is_empty() {
        faults.value(
            tiers.span(),
            "`isolation.tiers` is empty, so nothing could run; name at least one, such as `embedded`",
        );
    }
    named.sort();
    isolation.tiers = named;
}

fn floor_is_reachable(file: &At<IsolationFile>, settings: &Settings, faults: &mut Faults) {
    let floor = file.get().floor.as_ref();
    if let Some(message) = unreachable_floor(settings) {
        faults.contradiction(floor.map_or_else(|| file.span(), At::span), message);
    }
}

fn limits_of(file: &At<LimitsFile>, limits: &mut Limits, faults: &mut Faults) {
    macro_rules! read {
        ($($key:ident),*) => {$(
            if let Some(text) = &file.get().$key {
                limits.$key = faults.read(concat!("limits.", stringify!($key)), text).unwrap_or(limits.$key);
            }
        )*};
    }
    macro_rules! count {
        ($($key:ident),*) => {$(
            if let Some(number) = &file.get().$key {
                let value = count(faults, concat!("limits.", stringify!($key)), number);
                limits.$key = value.unwrap_or(limits.$key);
            }
        )*};
    }
    read!(wall, cpu, memory, output, disk, call, idle, lifetime);
    count!(processes, open_files, host_calls);
    if let Some(flag) = &file.get().wall_includes_calls {
        limits.wall_includes_calls = *flag.get();
    }
    for (key, message) in zero_limits(limits) {
        faults.contradiction(span_of(file.get(), key).unwrap_or_else(|| file.span()), message);
    }
    if limits.idle > limits.lifetime {
        let (idle, lifetime) = (limits.idle, limits.lifetime);
        let span = span_of(file.get(), "idle").or_else(|| span_of(file.get(), "lifetime"));
        let message = format!("`limits.idle` is `{idle}`, longer than `limits.lifetime`, `{lifetime}`; lower it");
        faults.contradiction(span.unwrap_or_else(|| file.span()), message);
    }
}

fn span_of(limits: &LimitsFile, key: &str) -> Option<Range<usize>> {
    let text = |value: &Option<At<String>>| value.as_ref().map(At::span);
    let number = |value: &Option<At<i64>>| value.as_ref().map(At::span);
    match key {
        "wall" => text(&limits.wall),
        "cpu" => text(&limits.cpu),
        "memory" => text(&limits.memory),
        "output" => text(&limits.output),
        "processes" => number(&limits.processes),
        "open_files" => number(&limits.open_files),
        "call" => text(&limits.call),
        "idle" => text(&limits.idle),
        "lifetime" => text(&limits.lifetime),
        _ => None,
    }
}

/// A whole number of 32 bits.
pub(crate) fn count(faults: &mut Faults, key: &str, number: &At<i64>) -> Option<u32> {
    let value = u32::try_from(*number.get()).ok();
    if value.is_none() {
        faults.value(number.span(), format!("`{key}` cannot be {}; use a number from 0 to {}", number.get(), u32::MAX));
    }
    value
}

fn python_of(file: &PythonFile, faults: &mut Faults) -> Python {
    let mut packages = Vec::new();
    for package in file.packages.iter().flatten() {
        let name = package.get();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > 100 || !name.bytes().all(plain) {
            let message = format!(
                "`{}` is not the name of a package; write it as `numpy`, without a version",
                crate::denial::shown(name)
            );
            faults.value(package.span(), message);
        }
        packages.push(name.clone());
    }
    let env = file.env.as_ref().and_then(|env| faults.read("python.env", env));
    if let (Some(env), Some(_)) = (&file.env, &file.venv) {
        faults.contradiction(env.span(), "`python.env` and `python.venv` name two environments; keep one of them");
    }
    Python { packages, env, venv: file.venv.as_ref().map(|venv| venv.get().clone()) }
}

fn types_of(file: &TypesFile, faults: &mut Faults) -> Types {
    let words = [("off", TypeCheck::Off), ("warn", TypeCheck::Warn), ("error", TypeCheck::Error)];
    let check = file.check.as_ref().and_then(|check| faults.choice("types.check", check, &words));
    Types { check: check.unwrap_or_default(), inject: file.inject.as_ref().is_some_and(|flag| *flag.get()) }
}

fn audit_of(file: &AuditFile, faults: &mut Faults) -> Audit {
    let mut redact = Vec::new();
    for pattern in file.redact.iter().flatten() {
        if redaction(pattern.get()).is_none() {
            let message = format!(
                "`{}` is not a redaction; write it as `functions.*.arguments.password`",
                crate::denial::shown(pattern.get())
            );
            faults.value(pattern.span(), message);
        }
        redact.push(pattern.get().clone());
    }
    if let Some(log) = file.log.as_ref().filter(|log| log.get() == "-") {
        faults.value(
            log.span(),
            "an audit log is read back and signed, so it can't be `-`; name a file, as in `audit.jsonl`",
        );
    }
    let sample = file.sample.as_ref().and_then(|sample| faults.read("audit.sample", sample));
    let sample = sample.unwrap_or(Audit::default().sample);
    Audit { log: file.log.as_ref().map(|log| log.get().clone()), sample, redact }
}

fn monitor_of(file: &MonitorFile, faults: &mut Faults) -> Monitor {
    let usual = Monitor::default();
    let every = file.every.as_ref().and_then(|every| faults.read("monitor.every", every)).unwrap_or(usual.every);
    if let Some(at) = file.every.as_ref().filter(|_| every.millis() < SHORTEST_LOOK) {
        faults.value(at.span(), format!("`monitor.every` is at least `{SHORTEST_LOOK}ms`"));
    }
    let mut thresholds = |name: &str, file: &Option<At<ThresholdsFile>>| {
        let Some(file) = file else { return Thresholds::default() };
        let file = file.get();
        let key = |measure: &str| format!("monitor.{name}.{measure}");
        Thresholds {
            memory: file.memory.as_ref().and_then(|size| faults.read(&key("memory"), size)),
            cpu: file.cpu.as_ref().and_then(|number| count(faults, &key("cpu"), number)),
            processes: file.processes.as_ref().and_then(|number| count(faults, &key("processes"), number)),
            io: file.io.as_ref().and_then(|size| faults.read(&key("io"), size)),
        }
    };
    Monitor { every, warn: thresholds("warn", &file.warn), kill: thresholds("kill", &file.kill) }
}

fn anomaly_of(file: &AnomalyFile, faults: &mut Faults) -> Anomaly {
    let words = [
        ("alert", AnomalyAction::Alert),
        ("kill", AnomalyAction::Kill),
        ("suspend-function", AnomalyAction::SuspendFunction),
    ];
    let action = file.action.as_ref().and_then(|action| faults.choice("anomaly.action", action, &words));
    Anomaly {
        rules: file.rules.iter().flatten().map(|rule| rule.get().clone()).collect(),
        action: action.unwrap_or_default(),
    }
}
