//! Branches: sessions that are forked from one, with all of its state, and go on apart.
//!
//! Answers to: the front doors. Must not: let a branch have more than the session that it comes from, or begin a branch
//! that was not recorded.

use std::sync::Arc;

use ringfence_audit::Event;
use ringfence_audit::event::SessionForked;
use ringfence_bridge::{Approve, Bridge, Registry};
use ringfence_tier::{Cell, Event as CellEvent, Forked, OPEN_PATIENCE, TierFault, Turn};
use ringfence_types::{Engine as Interpreter, SessionId, Status};

use crate::engine::{granted, random, scope_of};
use crate::error::SessionError;
use crate::opening;
use crate::run::{GIVEN_UP, plain};
use crate::seal::Bound;
use crate::session::{Open, Opening, Session};

/// The most branches of one fork.
pub const MOST_BRANCHES: usize = 100;

/// What a branch has of its own: how its host functions are carried out, and who is asked.
#[derive(Clone)]
pub struct Branch {
    /// The functions, declared as those of the session that is forked.
    pub functions: Registry,
    /// How a person is asked, where the policy wants that.
    pub approve: Option<Arc<dyn Approve>>,
}

impl Session {
    /// So many sessions from this one, each with all of its state and the same host functions; this one goes on as it
    /// was. All of them, or none. Their limits count from here. Dropping the future ends this session.
    pub async fn fork(&mut self, count: usize) -> Result<Vec<Session>, SessionError> {
        let (functions, approve) = self.bridge.offered();
        self.fork_into(vec![Branch { functions, approve }; count]).await
    }

    /// The same, with host functions for each.
    pub async fn fork_into(&mut self, branches: Vec<Branch>) -> Result<Vec<Session>, SessionError> {
        self.usable()?;
        if !(1..=MOST_BRANCHES).contains(&branches.len()) {
            return Err(SessionError::Branches(branches.len()));
        }
        if self.ice.is_frozen() {
            return Err(SessionError::Frozen);
        }
        let here = self.open.as_ref().map(|open| (open.engine, open.home.here().fork));
        match here {
            None => Err(SessionError::Unsupported("a session that ran nothing has no state to fork".to_owned())),
            Some((Some(engine), _)) => self.fork_by_snapshot(engine, branches).await,
            Some((None, true)) => self.fork_cell(branches).await,
            Some((None, false)) => Err(self.cannot_fork("its tier can't fork a session here; open new sessions")),
        }
    }

    fn cannot_fork(&self, why: &str) -> SessionError {
        SessionError::Unsupported(format!("the session can't be forked: {}", plain(why)))
    }

    /// Where an engine writes its state down: once, and each branch takes it up in a cell of its own.
    async fn fork_by_snapshot(
        &mut self,
        engine: Interpreter,
        branches: Vec<Branch>,
    ) -> Result<Vec<Session>, SessionError> {
        let state = match self.step(Turn::Snapshot).await? {
            CellEvent::Snapshotted(state) => state,
            CellEvent::Unsupported(feature, _) => return Err(self.lacks(&feature)),
            _ => return Err(self.broken("it answered a snapshot with something else")),
        };
        let mut made = Vec::new();
        for branch in branches {
            let mut session = self.recorded_branch(branch)?;
            session.wanted = Some(engine);
            let (tenant, policy) = (self.grant.tenant().clone(), self.grant.policy_hash());
            session.take_up(Bound { engine, mid_run: false, tenant, policy }, state.clone()).await?;
            made.push(session);
        }
        Ok(made)
    }

    /// Where the cell itself forks.
    async fn fork_cell(&mut self, branches: Vec<Branch>) -> Result<Vec<Session>, SessionError> {
        if self.grant.needs().network {
            let why = "its branches would share one line out, and no record could tell whose a connection is; fork under \
                       a policy without `[network]`";
            return Err(self.cannot_fork(why));
        }
        let made = branches.into_iter().map(|branch| self.recorded_branch(branch)).collect::<Result<Vec<_>, _>>();
        let mut made = made?;
        let forked = self.ask_cell(made.len()).await;
        let cells = match forked {
            Ok(Forked::Cells(cells)) if cells.len() == made.len() => cells,
            Ok(Forked::Cells(_)) => return Err(self.broken("it forked another number of cells than it was asked to")),
            Ok(Forked::Refused(why)) => {
                let refused = self.cannot_fork(&why);
                made.iter_mut().for_each(|branch| branch.end(Status::Unsupported, None, refused.to_string()));
                return Err(refused);
            }
            Err(error) => {
                made.iter_mut().for_each(|branch| branch.end(Status::Crashed, None, error.to_string()));
                return Err(error);
            }
        };
        for (branch, cell) in made.iter_mut().zip(cells) {
            self.settle(branch, cell)?;
        }
        Ok(made)
    }

    /// Asks the cell, for as long as opening one may take.
    async fn ask_cell(&mut self, count: usize) -> Result<Forked, SessionError> {
        let mut asking = Asking { session: self, is_over: false };
        let forked = match asking.session.open.as_mut() {
            Some(open) => {
                let asked = open.cell.fork(u32::try_from(count).unwrap_or(u32::MAX));
                tokio::time::timeout(OPEN_PATIENCE, asked).await.unwrap_or_else(|_| {
                    Err(TierFault::Protocol { tier: open.tier, why: "it did not fork in time".to_owned() })
                })
            }
            None => return Err(SessionError::Ended("it has no cell".to_owned())),
        };
        asking.is_over = true;
        drop(asking);
        forked.map_err(|fault| self.after(fault))
    }

    /// A session that has no cell yet: recorded, and granted what this one was.
    fn recorded_branch(&self, branch: Branch) -> Result<Session, SessionError> {
        let engine = self.engine.clone();
        if let Some(target) = engine.holds().on_tenant(self.grant.tenant()) {
            return Err(SessionError::Held(target));
        }
        let grant = self.grant.for_branch(SessionId::from_random(random()?));
        let from = SessionForked { from: self.id().clone(), runs: self.runs };
        engine.record(&scope_of(&grant), Event::SessionForked(from))?;
        engine.record(&scope_of(&grant), granted(&grant))?;
        let bridge = Bridge::new(grant.clone(), branch.functions, engine.0.host.clone(), branch.approve)?;
        let (switch, ice) = engine.0.table.add(grant.session(), grant.tenant());
        let opening = Opening { bridge: Arc::new(bridge), engine: self.wanted, switch, ice };
        let mut session = Session::new(engine, grant, opening);
        session.names = self.names.clone();
        session.choice = self.choice.clone();
        Ok(session)
    }

    /// Gives a branch its cell, and records what holds in it.
    fn settle(&self, branch: &mut Session, cell: Box<dyn Cell>) -> Result<(), SessionError> {
        let Some(open) = &self.open else { return Err(SessionError::Ended("it has no cell".to_owned())) };
        let enforced = cell.enforced().clone();
        branch.switch.arm(cell.killer());
        branch.differ = cell.differ();
        branch.ice.arm(cell.freezer());
        branch.engine.record(&branch.scope, opening::record(open.tier, &enforced))?;
        let meter = cell.meter();
        branch.engine.0.table.set_tier(branch.id(), open.tier, meter.clone());
        branch.history.give_up();
        branch.open = Some(Open {
            meter,
            home: Arc::clone(&open.home),
            tier: open.tier,
            engine: open.engine,
            strength: enforced.strength,
            _serving: None,
            cell,
        });
        branch.rest();
        Ok(())
    }
}

/// A fork under way. Dropped before its end, it leaves a cell that nobody may use.
struct Asking<'a> {
    session: &'a mut Session,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.end(Status::Cancelled, None, GIVEN_UP.to_owned());
        }
    }
}
