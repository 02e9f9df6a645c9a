//! The tier without isolation: plain CPython with every canary within reach.
//!
//! Answers to: `run`, which must see the escapes here. Must not: be named by a policy, or run outside a network namespace
//! of its own: the name server and the listeners of the case bank are inside it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ringfence_policy::{Ask, Grant, Policy};
use ringfence_tier::{
    Boxed, Capabilities, Cell, Enforced, Enforcement, EnforcementLine, Event, Killer, Meter, Probe, Tier, TierFault,
    Turn,
};
use ringfence_types::{
    Engine, GuestException, Outcome, RunId, SessionId, Source, Status, Stream, Strength, Tenant, TierName, Usage, Value,
};
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::case::Case;
use crate::seen::Seen;

const DRIVER: &str = include_str!("../bare/driver.py");
const FIXTURES: &str = include_str!("../../cases/fixtures/tools.py");

/// Plain CPython below a folder.
pub struct Bare {
    capabilities: Capabilities,
    folder: PathBuf,
    tools: Vec<String>,
}

impl Bare {
    /// Plain CPython with these tools in its own process, as a careless host would offer them.
    pub fn new(folder: &Path, tools: Vec<String>) -> Self {
        let capabilities = Capabilities {
            workspace: true,
            mounts_ro: true,
            mounts_rw: true,
            network: true,
            packages: true,
            mounts_bound: true,
            ..Capabilities::closed(TierName::Bare, 0, Strength::Language)
        };
        Self { capabilities, folder: folder.to_owned(), tools }
    }
}

impl Tier for Bare {
    fn name(&self) -> TierName {
        TierName::Bare
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn probe(&self) -> Boxed<'_, Probe> {
        Box::pin(async {
            match own_network().await {
                Some(_) => Probe::Ready(Strength::Language),
                None => Probe::Unusable {
                    why: "no network namespace can be made".to_owned(),
                    remedy: "run the suite as root, or allow unprivileged user namespaces".to_owned(),
                },
            }
        })
    }

    fn missing<'a>(&'a self, _: &'a Grant, _: &'a [&'a str]) -> Boxed<'a, Option<String>> {
        Box::pin(async { None })
    }

    fn open<'a>(&'a self, _: &'a Grant, _: Option<Engine>) -> Boxed<'a, Result<Box<dyn Cell>, TierFault>> {
        let nothing =
            EnforcementLine { what: "everything", level: Enforced::None("this tier is for tests".to_owned()) };
        let cell = BareCell {
            folder: self.folder.clone(),
            tools: self.tools.clone(),
            events: VecDeque::new(),
            enforcement: Enforcement { strength: Strength::Language, lines: vec![nothing] },
        };
        Box::pin(async { Ok(Box::new(cell) as Box<dyn Cell>) })
    }
}

struct BareCell {
    folder: PathBuf,
    tools: Vec<String>,
    events: VecDeque<Event>,
    enforcement: Enforcement,
}

impl Cell for BareCell {
    fn step(&mut self, turn: Turn) -> Boxed<'_, Result<Event, TierFault>> {
        Box::pin(async move {
            match turn {
                Turn::Feed(source) => self.events = self.run(source).await?.into(),
                Turn::Continue => {}
                Turn::Answer(..) | Turn::Snapshot | Turn::Restore(..) | Turn::Files(_) | Turn::Exec(_) => {
                    return Ok(Event::Unsupported("anything but running".to_owned(), None));
                }
            }
            self.events.pop_front().ok_or(TierFault::Died { tier: TierName::Bare })
        })
    }

    fn enforced(&self) -> &Enforcement {
        &self.enforcement
    }

    fn killer(&self) -> Killer {
        Killer::new(|| {})
    }

    fn meter(&self) -> Meter {
        Meter::new(|| std::time::Duration::ZERO, || 0)
    }
}

impl BareCell {
    async fn run(&self, source: Source) -> Result<Vec<Event>, TierFault> {
        let fault = |why: String| TierFault::Open { tier: TierName::Bare, why };
        let job = json!({"code": source.code, "folder": self.folder, "tools": self.tools, "fixtures": self.folder.join("fix")});
        let mut command = own_network().await.ok_or_else(|| fault("no network namespace can be made".to_owned()))?;
        let mut child = command
            .arg(self.folder.join("driver.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| fault(error.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(job.to_string().as_bytes()).await.map_err(|error| fault(error.to_string()))?;
        }
        let output = child.wait_with_output().await.map_err(|error| fault(error.to_string()))?;
        let told: Json = serde_json::from_slice(&output.stdout)
            .map_err(|_| fault(format!("the driver failed: {}", String::from_utf8_lossy(&output.stderr))))?;
        let text = |key: &str| told.get(key).and_then(Json::as_str).unwrap_or_default().as_bytes().to_vec();
        let end = match told.get("exit").and_then(Json::as_i64) {
            Some(0) => Event::Done(Value::None),
            code => Event::Raised(ended(code)),
        };
        Ok(vec![Event::Print(Stream::Stdout, text("stdout")), Event::Print(Stream::Stderr, text("stderr")), end])
    }
}

fn ended(code: Option<i64>) -> GuestException {
    GuestException {
        kind: "SystemExit".to_owned(),
        message: String::new(),
        frames: Vec::new(),
        cause: None,
        notes: Vec::new(),
        exit_code: code.and_then(|code| i32::try_from(code).ok()),
    }
}

/// The start of a command in a network namespace of its own: as root, or with a user namespace around it.
async fn own_network() -> Option<Command> {
    for flags in ["-n", "-rn"] {
        let tried = Command::new("unshare").args([flags, "true"]).stderr(Stdio::null()).status().await;
        if tried.is_ok_and(|status| status.success()) {
            let mut command = Command::new("unshare");
            command.args([flags, "python3"]);
            return Some(command);
        }
    }
    None
}

/// Plays a case without protection.
pub async fn play(case: &Case) -> Result<Seen, String> {
    let folder = tempfile::Builder::new().prefix("ringfence-bare-").tempdir().map_err(|error| error.to_string())?;
    let path = folder.path();
    let secret = format!("{}\n", crate::canary::FILE);
    std::fs::create_dir(path.join("host-canary"))
        .and_then(|()| std::fs::create_dir(path.join("workspace")))
        .and_then(|()| std::fs::write(path.join("host-canary/secret.txt"), secret))
        .and_then(|()| std::fs::create_dir(path.join("fix")))
        .and_then(|()| std::fs::write(path.join("driver.py"), DRIVER))
        .and_then(|()| std::fs::write(path.join("fix/tools.py"), FIXTURES))
        .map_err(|error| error.to_string())?;
    let tier = Bare::new(path, case.names("tools"));
    let place = |name: &str| path.join(name).display().to_string();
    let code = case.code().replace("/host-canary", &place("host-canary")).replace("/workspace", &place("workspace"));
    let session = SessionId::from_random([1; 16]);
    let ask = Ask { tenant: Tenant::local(), session: session.clone(), functions: Vec::new() };
    let grant = Policy::closed().decide(&ask).map_err(|denial| denial.to_string())?;
    let mut cell = tier.open(&grant, None).await.map_err(|fault| fault.to_string())?;
    let outcome = drive(cell.as_mut(), Source::new(code), session).await?;
    Ok(Seen { outcomes: vec![outcome], ..Seen::default() })
}

/// What the engine does with a cell, without any of its checks.
async fn drive(cell: &mut dyn Cell, source: Source, session: SessionId) -> Result<Outcome, String> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut turn = Turn::Feed(source);
    let (status, exception) = loop {
        match cell.step(turn).await.map_err(|fault| fault.to_string())? {
            Event::Print(Stream::Stdout, bytes) => stdout.extend(bytes),
            Event::Print(Stream::Stderr, bytes) => stderr.extend(bytes),
            Event::Done(_) => break (Status::Completed, None),
            Event::Raised(exception) => break (Status::Raised, Some(exception)),
            other => return Err(format!("the bare tier told {other:?}")),
        }
        turn = Turn::Continue;
    };
    Ok(Outcome {
        run_id: RunId::from_random([1; 16]),
        session,
        tier: Some(TierName::Bare),
        strength: Some(Strength::Language),
        engine: None,
        status,
        value: None,
        shown: Vec::new(),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        dropped: ringfence_types::Dropped::default(),
        exception,
        limit: None,
        reason: None,
        usage: Usage::default(),
        chosen: Vec::new(),
        exit_code: None,
        audit: None,
        changes: None,
    })
}
