//! Sessions kept ready ahead of need: a jail, and a thread that forks the next session when one is done, for
//! each interpreter, policy and tenant.
//!
//! Answers to: the tier. Must not: hand the same session out twice, or one tenant's to another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_policy::Grant;
use ringfence_types::Tenant;
use ringfence_wire::jail::Plan;
use ringfence_worker::{Executable, Line, Refill};

use crate::group::{Bounds, Groups};
use crate::interpreter::Interpreter;
use crate::jail::{Jail, NoJail, Ready};
use crate::level::Walls;
use crate::plan::{lock_only_plan, plan};

/// Jails kept at once; of those without a session at work, the one that was not used for the longest time ends first.
const MOST: usize = 8;
/// A jail that nobody used for so long ends when another is asked for.
const UNUSED: Duration = Duration::from_secs(300);

type Key = (Tenant, [u8; 32], Vec<String>, String, Walls);

/// Every jail of the tier.
#[derive(Debug)]
pub struct Pools {
    executable: Executable,
    warm: usize,
    block: AtomicU32,
    shelves: Mutex<HashMap<Key, Arc<Shelf>>>,
}

impl Pools {
    pub fn new(executable: Executable, warm: usize) -> Self {
        Self { executable, warm, block: AtomicU32::new(std::process::id()), shelves: Mutex::default() }
    }

    /// Ends every jail, and waits for it.
    pub fn end(&self) {
        let ended = std::mem::take(&mut *self.shelves());
        drop(ended);
    }

    fn shelves(&self) -> MutexGuard<'_, HashMap<Key, Arc<Shelf>>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fresh session under this grant: at once where one is ready.
    pub async fn take(&self, grant: &Grant, interpreter: &Interpreter, walls: Walls) -> Result<Taken, NoJail> {
        let (tenant, packages) = (grant.tenant().clone(), grant.packages().to_vec());
        let key: Key = (tenant, grant.policy_hash(), packages, interpreter.executable.clone(), walls);
        let (shelf, at_work) = self.shelf(&key, grant, interpreter)?;
        let taken = shelf.take(at_work).await;
        if taken.is_err() {
            // What was wrong may be mended by the next time.
            self.shelves().remove(&key);
        }
        taken
    }

    /// The jail, which from here on is at work.
    fn shelf(&self, key: &Key, grant: &Grant, interpreter: &Interpreter) -> Result<(Arc<Shelf>, AtWork), NoJail> {
        let mut ended = Vec::new();
        let mut shelves = self.shelves();
        // One whose sessions are at work stays: they would end with it.
        let unused = shelves.extract_if(|found, shelf| found != key && shelf.is_idle() && shelf.unused() > UNUSED);
        ended.extend(unused.map(|(_, shelf)| shelf));
        if let Some(shelf) = shelves.get(key) {
            return Ok((Arc::clone(shelf), shelf.at_work.clone()));
        }
        if shelves.len() >= MOST {
            let idle = shelves.iter().filter(|(_, shelf)| shelf.is_idle());
            let oldest = idle.max_by_key(|(_, shelf)| shelf.unused()).map(|(key, _)| key.clone());
            ended.extend(oldest.and_then(|key| shelves.remove(&key)));
        }
        let limits = grant.limits();
        let bounds = Bounds { memory: limits.memory.bytes(), processes: limits.processes.max(1) };
        let groups = Groups::new(bounds);
        let block = self.block.fetch_add(1, Ordering::Relaxed);
        let plan = match key.4 {
            Walls::Namespaces => plan(grant, interpreter, block, groups.are_there()),
            Walls::None => lock_only_plan(grant, interpreter, block, groups.are_there()),
        };
        let shelf = Arc::new(Shelf::start(self.executable.clone(), plan, groups, self.warm)?);
        let at_work = shelf.at_work.clone();
        shelves.insert(key.clone(), Arc::clone(&shelf));
        drop(shelves);
        drop(ended);
        Ok((shelf, at_work))
    }
}

/// One jail, and the sessions of it that are ready.
#[derive(Debug)]
struct Shelf {
    line: Line<Ready, NoJail>,
    used: Mutex<Instant>,
    at_work: AtWork,
}

/// What a session at work keeps: its jail goes on as long as anybody has one.
#[derive(Debug, Clone, Default)]
pub struct AtWork(Arc<()>);

/// A session that was taken.
#[derive(Debug)]
pub struct Taken {
    pub session: Ready,
    pub refill: Refill,
    pub at_work: AtWork,
}

impl Shelf {
    fn start(executable: Executable, plan: Plan, groups: Groups, warm: usize) -> Result<Self, NoJail> {
        let mut jail = None;
        let line = Line::start("ringfence-jail".to_owned(), warm, move |want| {
            let mut current = match jail.take() {
                Some(current) => current,
                None => Jail::start(&executable, &plan)?,
            };
            let session = current.fork(&groups, want)?;
            jail = Some(current);
            Ok(session)
        })?;
        Ok(Self { line, used: Mutex::new(Instant::now()), at_work: AtWork::default() })
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.at_work.0) == 1
    }

    fn unused(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    async fn take(&self, at_work: AtWork) -> Result<Taken, NoJail> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let gone = || Err(NoJail("the thread that forks sessions is gone".to_owned()));
        let session = self.line.take().await.unwrap_or_else(gone)?;
        Ok(Taken { session, refill: self.line.refill(), at_work })
    }
}
