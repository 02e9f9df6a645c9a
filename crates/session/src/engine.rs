//! The engine: what all sessions share, and the door to a session.
//!
//! Answers to: the composition root, which builds it, and the front doors. Must not: open anything by itself.

use std::path::PathBuf;
use std::sync::Arc;

use ringfence_analysis::analyze;
use ringfence_audit::event::{GrantDenied, Granted, Hold as HoldDetail, Killed as KilledDetail, Locked, Snapshot};
use ringfence_audit::{AuditError, Entry, Event, Log, Scope, sha256_hex};
use ringfence_bridge::{Approve, Bridge, Hold, Holds, Host, Rates, Registry};
use ringfence_policy::{Ask, Grant, Policy};
use ringfence_tier::{Capabilities, Probe, Tier};
use ringfence_types::{Engine as Interpreter, SessionId, Tenant, TierName};

use crate::choose::{Choice, Reach, Wish, choose};
use crate::environment;
use crate::error::SessionError;
use crate::idle::Resting;
use crate::kill::{Killing, Running, Table, Target};
use crate::network::Outbound;
use crate::seal::{self, SnapshotError, SnapshotKey};
use crate::session::{Opening, Session};

/// What an engine is built from.
pub struct Parts {
    /// The tiers of this build.
    pub tiers: Vec<Arc<dyn Tier>>,
    /// Where everything is recorded.
    pub log: Arc<Log>,
    /// Seals snapshots.
    pub snapshot_key: SnapshotKey,
    /// The folder of locked environments, which policies name; `None`: there are none.
    pub environments: Option<PathBuf>,
}

/// What a caller wants for one session.
pub struct Request {
    /// What the code may do.
    pub policy: Policy,
    /// Whose work it is.
    pub tenant: Tenant,
    /// The host functions on offer.
    pub functions: Registry,
    /// How a person is asked, where the policy wants that.
    pub approve: Option<Arc<dyn Approve>>,
    /// The engine that the caller insists on; `None` picks by the program.
    pub engine: Option<Interpreter>,
}

impl Request {
    /// A session of the local tenant without functions.
    pub fn new(policy: Policy) -> Self {
        Self { policy, tenant: Tenant::local(), functions: Registry::new(), approve: None, engine: None }
    }
}

/// What came of making sessions stand still, or go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frozen {
    /// How many do now that did not before.
    pub count: usize,
    /// Why others do not, each with its session.
    pub faults: Vec<String>,
}

/// What `doctor` shows of one tier.
#[derive(Debug, Clone)]
pub struct TierReport {
    /// The tier.
    pub tier: TierName,
    /// What it declares.
    pub capabilities: Capabilities,
    /// What the probe found.
    pub probe: Probe,
}

/// Runs sessions. Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) tiers: Vec<Arc<dyn Tier>>,
    pub(crate) host: Host,
    pub(crate) key: SnapshotKey,
    environments: Option<PathBuf>,
    pub(crate) table: Table,
    pub(crate) resting: Resting,
    pub(crate) outbound: Outbound,
}

impl Engine {
    /// An engine of these parts, whose sessions reach public addresses where their policies allow any.
    pub fn new(parts: Parts) -> Self {
        Self::with_outbound(parts, Outbound::default())
    }

    /// An engine of these parts, whose sessions reach hosts as `outbound` says.
    pub fn with_outbound(parts: Parts, outbound: Outbound) -> Self {
        let host = Host { log: parts.log, rates: Rates::default(), holds: Holds::default() };
        let (table, resting) = (Table::default(), Resting::default());
        let (key, environments) = (parts.snapshot_key, parts.environments);
        Self(Arc::new(Shared { tiers: parts.tiers, host, key, environments, table, resting, outbound }))
    }

    /// A session, where the policy grants one. Nothing is opened before the first snippet.
    pub fn session(&self, request: Request) -> Result<Session, SessionError> {
        let (grant, opening) = self.grant(request)?;
        Ok(Session::new(self.clone(), grant, opening))
    }

    /// A session that goes on from a snapshot. One taken in the middle of a run goes on at `Session::resume`.
    pub async fn restore(&self, request: Request, snapshot: &[u8]) -> Result<Session, SessionError> {
        let request = Request { policy: self.found(request.policy)?, ..request };
        let policy = request.policy.hash();
        let (bound, state) = seal::open(&self.0.key, &request.tenant, &policy, snapshot)?;
        if let Some(asked) = request.engine.filter(|asked| *asked != bound.engine) {
            let (wrote, asked) = (bound.engine.as_str(), asked.as_str());
            return Err(SnapshotError::Engine { wrote, asked }.into());
        }
        let (grant, opening) = self.grant(Request { engine: Some(bound.engine), ..request })?;
        let taken_up = Snapshot { sha256: sha256_hex(snapshot), bytes: snapshot.len() as u64 };
        self.record(&scope_of(&grant), Event::SnapshotRestored(taken_up))?;
        let mut session = Session::new(self.clone(), grant, opening);
        session.take_up(bound, state.to_vec()).await?;
        Ok(session)
    }

    fn grant(&self, request: Request) -> Result<(Grant, Opening), SessionError> {
        let session = SessionId::from_random(random()?);
        if let Some(target) = self.0.host.holds.on_tenant(&request.tenant) {
            let scope = Scope::session(request.tenant, session);
            let reason = format!("a kill switch is set on `{target}`");
            self.record(&scope, Event::GrantDenied(GrantDenied { policy: request.policy.name().to_owned(), reason }))?;
            return Err(SessionError::Held(target));
        }
        let ask = Ask { tenant: request.tenant.clone(), session, functions: request.functions.specs() };
        let name = request.policy.name().to_owned();
        let policy = match self.found(request.policy) {
            Ok(policy) => policy,
            Err(error) => return Err(self.refused(&ask, &name, error)?),
        };
        let grant = match policy.decide(&ask) {
            Ok(grant) => grant,
            Err(denial) => return Err(self.refused(&ask, &name, SessionError::Denied(denial))?),
        };
        self.record(&scope_of(&grant), granted(&grant))?;
        let host = self.0.host.clone();
        let bridge = Bridge::new(grant.clone(), request.functions, host, request.approve)?;
        let (switch, ice) = self.0.table.add(grant.session(), grant.tenant());
        Ok((grant, Opening { bridge: Arc::new(bridge), engine: request.engine, switch, ice }))
    }

    /// The policy with the environment that it names.
    fn found(&self, policy: Policy) -> Result<Policy, SessionError> {
        match policy.environment() {
            Some(name) => {
                let found = environment::find(self.0.environments.as_deref(), name)?;
                Ok(policy.with_environment(found))
            }
            None => Ok(policy),
        }
    }

    fn refused(&self, ask: &Ask, policy: &str, why: SessionError) -> Result<SessionError, SessionError> {
        let scope = Scope::session(ask.tenant.clone(), ask.session.clone());
        let detail = GrantDenied { policy: policy.to_owned(), reason: why.to_string() };
        self.record(&scope, Event::GrantDenied(detail))?;
        Ok(why)
    }

    pub(crate) fn record(&self, scope: &Scope, event: Event) -> Result<u64, ringfence_audit::AuditError> {
        self.0.host.log.record(Entry::new(scope, event))
    }

    /// Which tier would run this program under this policy, and why not the others. Opens nothing but probes.
    pub async fn explain(&self, request: Request, code: &str) -> Result<Choice, SessionError> {
        let session = SessionId::from_random(random()?);
        let ask = Ask { tenant: request.tenant, session, functions: request.functions.specs() };
        let grant = self.found(request.policy)?.decide(&ask)?;
        let program = analyze(code).map_err(|fault| SessionError::Unsupported(fault.to_string()))?;
        let wish = Wish { grant: &grant, program: Some(&program), engine: request.engine, command: false, staged: &[] };
        Ok(choose(&self.0.tiers, wish, Reach::All).await)
    }

    /// What the tiers of this build declare, in order of cost.
    pub fn capabilities(&self) -> Vec<&Capabilities> {
        let mut found: Vec<&Capabilities> = self.0.tiers.iter().map(|tier| tier.capabilities()).collect();
        found.sort_by_key(|can| can.cost);
        found
    }

    /// Gets every tier ready ahead of the first session. Does not wait.
    pub fn warm_up(&self) {
        self.0.tiers.iter().for_each(|tier| tier.warm_up());
    }

    /// Every tier of this build, really tried.
    pub async fn probe(&self) -> Vec<TierReport> {
        let mut reports = Vec::new();
        for tier in &self.0.tiers {
            let (name, capabilities) = (tier.name(), tier.capabilities().clone());
            reports.push(TierReport { tier: name, capabilities, probe: tier.probe().await });
        }
        reports
    }

    /// Ends the sessions that `target` names, at once; gives how many.
    pub fn kill(&self, target: &Target, by: impl Into<Killing>) -> usize {
        self.0.table.kill(target, by)
    }

    /// Makes the sessions that `target` names stand still, or go on, with their wall and idle clocks. Recorded. Blocks for
    /// moments.
    pub fn freeze(&self, target: &Target, still: bool, by: impl Into<Killing>) -> Result<Frozen, AuditError> {
        let by = by.into();
        let mut done = Frozen::default();
        for (scope, session, ice) in self.0.table.to_freeze(target) {
            match if still { ice.freeze() } else { ice.thaw() } {
                Ok(false) => {}
                Ok(true) => {
                    done.count += 1;
                    self.0.resting.stand_still(&session, still);
                    let detail = KilledDetail { by: by.by.clone(), reason: by.reason.clone() };
                    let event = if still { Event::SessionFrozen(detail) } else { Event::SessionThawed(detail) };
                    self.record(&scope, event)?;
                }
                Err(error) => done.faults.push(format!("{session}: {error}")),
            }
        }
        Ok(done)
    }

    /// The sessions that exist now.
    pub fn list(&self) -> Vec<Running> {
        self.0.table.list()
    }

    /// The kill switches that are set.
    pub fn holds(&self) -> &Holds {
        &self.0.host.holds
    }

    /// Sets a kill switch that stays: no new grant and no new permit from now on. Recorded.
    pub fn hold(&self, hold: &Hold) -> Result<(), SessionError> {
        self.0.host.holds.set(hold.target.clone());
        self.record(&Scope::host(), Event::HoldSet(hold_detail(hold)))?;
        Ok(())
    }

    /// Releases a kill switch. Recorded.
    pub fn release(&self, hold: &Hold) -> Result<(), SessionError> {
        self.record(&Scope::host(), Event::HoldReleased(hold_detail(hold)))?;
        self.0.host.holds.release(&hold.target);
        Ok(())
    }

    /// The audit log.
    pub fn log(&self) -> &Arc<Log> {
        &self.0.host.log
    }
}

fn hold_detail(hold: &Hold) -> HoldDetail {
    HoldDetail { target: hold.target.to_string(), by: hold.by.clone(), reason: hold.reason.clone() }
}

pub(crate) fn scope_of(grant: &Grant) -> Scope {
    Scope::session(grant.tenant().clone(), grant.session().clone())
}

pub(crate) fn granted(grant: &Grant) -> Event {
    Event::Granted(Box::new(Granted {
        policy: grant.policy_name().to_owned(),
        policy_sha256: grant.policy_hash().iter().map(|byte| format!("{byte:02x}")).collect(),
        floor: grant.floor(),
        functions: grant.functions().iter().map(|spec| spec.name.clone()).collect(),
        limits: grant.limits().clone(),
        environment: grant.environment().map(|found| Locked { name: found.name.clone(), sha256: found.digest.clone() }),
    }))
}

pub(crate) fn random() -> Result<[u8; 16], SessionError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(SessionError::Random)?;
    Ok(bits)
}
