//! What runs now, and how it is ended from outside.
//!
//! Answers to: `kill`, `ps`, and the holds. Must not: wait for a guest.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::Scope;
use ringfence_tier::{CellUsage, Held, Killer, Meter};
use ringfence_types::{Measure, RunId, SessionId, Tenant, TierName};
use tokio::sync::Notify;

use crate::ice::Ice;

/// Who ends a session, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killing {
    /// Who: `` `ringfence kill` ``, a tenant's administrator, a rule.
    pub by: String,
    /// Why, in one line.
    pub reason: Option<String>,
}

impl From<&str> for Killing {
    fn from(by: &str) -> Self {
        Self { by: by.to_owned(), reason: None }
    }
}
impl fmt::Display for Killing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        write!(f, "ended by {}{reason}", self.by)
    }
}

/// Ends one session: its cell, and the run that waits for it.
#[derive(Debug, Default)]
pub struct KillSwitch {
    killed: AtomicBool,
    given_up: AtomicBool,
    by: Mutex<Option<Killing>>,
    cell: Mutex<Option<Killer>>,
    notify: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KillSwitch {
    /// Ends the session. The first to do so is remembered.
    pub fn kill(&self, by: impl Into<Killing>) {
        locked(&self.by).get_or_insert_with(|| by.into());
        self.killed.store(true, Ordering::SeqCst);
        if let Some(cell) = locked(&self.cell).as_ref() {
            cell.kill();
        }
        self.notify.notify_waiters();
        self.notify.notify_one();
    }

    /// Ends the session for the caller, who gives its run up: that is no kill.
    pub fn give_up(&self) {
        if !self.is_killed() {
            self.given_up.store(true, Ordering::SeqCst);
            self.kill("the caller");
        }
    }

    /// Whether it was the caller who gave the run up.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// Gives the switch the cell that it ends.
    pub fn arm(&self, cell: Killer) {
        if self.is_killed() {
            cell.kill();
        }
        *locked(&self.cell) = Some(cell);
    }

    /// Whether it was pulled.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Who pulled it, and why.
    pub fn by(&self) -> Killing {
        locked(&self.by).clone().unwrap_or_else(|| "the host".into())
    }

    /// What comes of `work`; `None` where the switch is pulled first.
    pub async fn unless_pulled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.pulled() => None,
            done = work => Some(done),
        }
    }

    /// Waits until it is pulled.
    pub async fn pulled(&self) {
        while !self.is_killed() {
            self.notify.notified().await;
        }
    }
}

/// One session as others see it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The session.
    pub session: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The run that is under way, if one is.
    pub run: Option<RunId>,
    /// Where it runs.
    pub tier: Option<TierName>,
    /// Host functions that are being called.
    pub calls: Vec<String>,
    /// How long the session has existed.
    pub age: Duration,
    /// Whether it stands still.
    pub frozen: bool,
    /// Of what its run uses more than a threshold of its policy's.
    pub crossed: Vec<Measure>,
    /// What its cell used so far and holds now, where it has one.
    pub usage: Option<(CellUsage, Held)>,
}

#[derive(Debug)]
struct Entry {
    tenant: Tenant,
    run: Option<RunId>,
    tier: Option<TierName>,
    calls: Vec<String>,
    since: Instant,
    switch: Arc<KillSwitch>,
    meter: Option<Meter>,
    crossed: Vec<Measure>,
    ice: Arc<Ice>,
}

/// Which sessions are to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All.
    All,
    /// Those of a tenant.
    Tenant(Tenant),
    /// One session.
    Session(SessionId),
    /// The session of one run.
    Run(RunId),
    /// Those that are in a call of this host function.
    Function(String),
}

/// The sessions of one engine.
#[derive(Debug, Clone, Default)]
pub struct Table(Arc<Mutex<HashMap<SessionId, Entry>>>);

impl Table {
    /// Adds a session.
    pub fn add(&self, session: &SessionId, tenant: &Tenant) -> (Arc<KillSwitch>, Arc<Ice>) {
        let (switch, ice) = (Arc::new(KillSwitch::default()), Arc::new(Ice::default()));
        let entry = Entry {
            tenant: tenant.clone(),
            run: None,
            tier: None,
            calls: Vec::new(),
            since: Instant::now(),
            switch: Arc::clone(&switch),
            meter: None,
            crossed: Vec::new(),
            ice: Arc::clone(&ice),
        };
        locked(&self.0).insert(session.clone(), entry);
        (switch, ice)
    }

    /// Removes a session.
    pub fn remove(&self, session: &SessionId) {
        locked(&self.0).remove(session);
    }

    fn change(&self, session: &SessionId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = locked(&self.0).get_mut(session) {
            change(entry);
        }
    }

    /// Says which run is under way.
    pub fn set_run(&self, session: &SessionId, run: Option<RunId>) {
        self.change(session, |entry| {
            entry.run = run;
            entry.calls.clear();
            entry.crossed.clear();
        });
    }

    /// Which run of the session is under way.
    pub fn run(&self, session: &SessionId) -> Option<RunId> {
        locked(&self.0).get(session)?.run.clone()
    }

    /// Says where it runs, and what reads what it uses there.
    pub fn set_tier(&self, session: &SessionId, tier: TierName, meter: Meter) {
        self.change(session, |entry| (entry.tier, entry.meter) = (Some(tier), Some(meter)));
    }

    /// Says that its cell is gone.
    pub fn has_no_cell(&self, session: &SessionId) {
        self.change(session, |entry| entry.meter = None);
    }

    /// Says that a threshold is crossed.
    pub fn crossed(&self, session: &SessionId, measure: Measure) {
        self.change(session, |entry| {
            if !entry.crossed.contains(&measure) {
                entry.crossed.push(measure);
            }
        });
    }

    /// Says that a host function is being called.
    pub fn enter_call(&self, session: &SessionId, function: &str) {
        self.change(session, |entry| entry.calls.push(function.to_owned()));
    }

    /// Says that a call is over.
    pub fn leave_call(&self, session: &SessionId, function: &str) {
        self.change(session, |entry| {
            if let Some(at) = entry.calls.iter().position(|name| name == function) {
                entry.calls.swap_remove(at);
            }
        });
    }

    /// Ends every session that `target` names; gives how many.
    pub fn kill(&self, target: &Target, by: impl Into<Killing>) -> usize {
        let by = by.into();
        let switches = self.meant(target, |_, entry| Arc::clone(&entry.switch));
        switches.iter().for_each(|switch| switch.kill(by.clone()));
        switches.len()
    }

    /// The sessions that `target` names, with their scopes and what makes them stand still.
    pub fn to_freeze(&self, target: &Target) -> Vec<(Scope, SessionId, Arc<Ice>)> {
        self.meant(target, |session, entry| {
            let scope = Scope::session(entry.tenant.clone(), session.clone());
            let scope = entry.run.clone().map_or_else(|| scope.clone(), |run| scope.in_run(run));
            (scope, session.clone(), Arc::clone(&entry.ice))
        })
    }

    fn meant<T>(&self, target: &Target, take: impl Fn(&SessionId, &Entry) -> T) -> Vec<T> {
        let table = locked(&self.0);
        let meant = table.iter().filter(|(session, entry)| match target {
            Target::All => true,
            Target::Tenant(tenant) => entry.tenant == *tenant,
            Target::Session(wanted) => *session == wanted,
            Target::Run(run) => entry.run.as_ref() == Some(run),
            Target::Function(function) => entry.calls.contains(function),
        });
        meant.map(|(session, entry)| take(session, entry)).collect()
    }

    /// Every session, oldest first.
    pub fn list(&self) -> Vec<Running> {
        let row = |(session, entry): (&SessionId, &Entry)| {
            let row = Running {
                session: session.clone(),
                tenant: entry.tenant.clone(),
                run: entry.run.clone(),
                tier: entry.tier,
                calls: entry.calls.clone(),
                age: entry.since.elapsed(),
                frozen: entry.ice.is_frozen(),
                crossed: entry.crossed.clone(),
                usage: None,
            };
            (row, entry.meter.clone())
        };
        let found: Vec<(Running, Option<Meter>)> = locked(&self.0).iter().map(row).collect();
        // Reading the kernel's books takes its time: the table is not held meanwhile.
        let read = |(row, meter): (Running, Option<Meter>)| Running {
            usage: meter.map(|meter| (meter.read(), meter.held())),
            ..row
        };
        let mut rows: Vec<Running> = found.into_iter().map(read).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.age));
        rows
    }
}
