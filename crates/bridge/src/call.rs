//! One call through the bridge: decide, record, do, check, record. The order is written down only here.
//!
//! Answers to: `session`. Must not: answer a guest before the record of the answer is written.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use ringfence_audit::event::{ApprovalAnswered, ApprovalAsked, CallAnswered, CallDenied, CallOutcome, CallPermitted};
use ringfence_audit::{AuditError, Entry, Event, Log, REDACTED, Scope};
use ringfence_policy::{ApprovalNeed, ArgumentFault, Effect, Grant, Permit, SchemaFault, SchemaSet, bind};
use ringfence_types::json::{MAX_DIGITS, is_long, to_json};
use ringfence_types::{Call, CallId, GuestError, Span, Value, ValueBudget};
use serde_json::{Map, Value as Json};

use crate::approve::{ApprovalRequest, Approve, Verdict};
use crate::function::{HostError, Permitted, Registry};
use crate::hold::Holds;
use crate::rate::Rates;

/// What all sessions of an engine share.
#[derive(Clone)]
pub struct Host {
    /// Where it is recorded.
    pub log: Arc<Log>,
    /// Rates, kept by tenant.
    pub rates: Rates,
    /// Kill switches that are set.
    pub holds: Holds,
}

/// The bridge of one session.
pub struct Bridge {
    grant: Grant,
    functions: Registry,
    schemas: SchemaSet,
    host: Host,
    approve: Option<Arc<dyn Approve>>,
    used: Mutex<Used>,
}

/// What the session has used up.
#[derive(Default)]
struct Used {
    calls: HashMap<String, u32>,
    approved: HashSet<String>,
    /// Functions whose first call somebody is asked about now: whoever comes meanwhile waits for that answer.
    asking: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

/// Why a bridge can't go on: the session ends, since nothing may happen unrecorded.
#[derive(Debug, thiserror::Error)]
pub enum BridgeFault {
    /// The audit log can't be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// The guest's answer to a call.
pub type Answered = (CallId, Result<Value, GuestError>);

/// Why a call does not go ahead: what the guest sees, and the part of the policy that says so.
struct Refused {
    exception: &'static str,
    message: String,
    rule: Option<String>,
}

impl Refused {
    fn policy(message: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { exception: "PermissionError", message: message.into(), rule: Some(rule.into()) }
    }
    fn arguments(message: impl Into<String>) -> Self {
        Self { exception: "TypeError", message: message.into(), rule: None }
    }
}

impl Bridge {
    /// A bridge for one session. Fails where a declaration's schema is none.
    pub fn new(
        grant: Grant,
        functions: Registry,
        host: Host,
        approve: Option<Arc<dyn Approve>>,
    ) -> Result<Self, SchemaFault> {
        let schemas = SchemaSet::compile(grant.functions())?;
        Ok(Self { grant, functions, schemas, host, approve, used: Mutex::default() })
    }

    /// What is offered to the session, and who is asked.
    pub fn offered(&self) -> (Registry, Option<Arc<dyn Approve>>) {
        (self.functions.clone(), self.approve.clone())
    }

    /// Carries a call out, or refuses it.
    pub async fn call(&self, scope: &Scope, call: Call) -> Result<Answered, BridgeFault> {
        let (id, name) = (call.id, call.function.clone());
        if call.args.iter().chain(call.kwargs.iter().map(|(_, value)| value)).any(has_long_int) {
            // Writing it down would take the host longer than the guest took to make it.
            let refused =
                Refused::arguments(format!("an int of more than {MAX_DIGITS} digits can't cross to the host"));
            return self.refuse(scope, id, &name, Json::Object(Map::new()), refused);
        }
        let given = self.redacted_call(&call);
        let (function, permit) = match self.decide(call) {
            Ok(decided) => decided,
            Err(refused) => return self.refuse(scope, id, &name, given, refused),
        };
        let arguments = self.redacted(&name, permit.arguments());
        if let Err(refused) = self.approved(scope, id, &name, &permit, &arguments).await? {
            return self.refuse(scope, id, &name, given, refused);
        }
        self.record(scope, Event::CallPermitted(CallPermitted { call: id.0, function: name.clone(), arguments }))?;
        let started = Instant::now();
        let spec = function.spec().clone();
        let limit = self.grant.call_limit(&name);
        let mut unanswered = Unanswered { bridge: self, scope, call: id, function: &name, started, answered: false };
        let answer = {
            let running = AssertUnwindSafe(function.call(Permitted::new(spec, permit))).catch_unwind();
            tokio::time::timeout(limit.duration(), running).await
        };
        unanswered.answered = true;
        drop(unanswered);
        let (result, outcome) = match answer {
            Ok(result) => {
                let result = self.checked(&name, result.unwrap_or_else(|_| Err(HostError::hidden("RuntimeError"))));
                let outcome = result.as_ref().map_or_else(|error| failed(&error.exception), |_| CallOutcome::Ok);
                (result, outcome)
            }
            Err(_) => (Err(too_slow(&name, limit)), failed("timeout")),
        };
        self.answered(scope, id, &name, started, outcome, size(&result))?;
        Ok((id, result))
    }

    fn decide(&self, call: Call) -> Result<(&Arc<dyn crate::HostFunction>, Permit), Refused> {
        let name = call.function.as_str();
        if let Some(hold) = self.host.holds.on_call(self.grant.tenant(), name) {
            return Err(Refused::policy(format!("a kill switch is set on `{hold}`"), "hold"));
        }
        let (Some(function), Some(spec)) = (self.functions.get(name), self.grant.function(name)) else {
            let nothing = self.grant.permit(&Effect::Call { function: name, arguments: &[] });
            let message =
                nothing.err().map_or_else(|| format!("there is no host function `{name}`"), |no| no.to_string());
            return Err(Refused::policy(message, "functions"));
        };
        let bound = bind(spec, call.args, call.kwargs).map_err(|fault| Refused::arguments(fault.to_string()))?;
        self.schemas.check_arguments(name, &bound).map_err(|fault| self.wrong_argument(name, fault))?;
        let permit = self
            .grant
            .permit(&Effect::Call { function: name, arguments: &bound })
            .map_err(|denial| Refused::policy(denial.to_string(), format!("functions.{name}")))?;
        self.use_up(name)?;
        Ok((function, permit))
    }

    /// What is wrong with an argument, without its value where the policy keeps that out of the log.
    fn wrong_argument(&self, name: &str, fault: ArgumentFault) -> Refused {
        let redacted = self.grant.redact(name, fault.argument());
        let fault = if redacted { fault.without_value() } else { fault };
        Refused::arguments(fault.to_string())
    }

    /// Counts a call that is allowed otherwise against the session's number and the tenant's rate.
    fn use_up(&self, name: &str) -> Result<(), Refused> {
        let mut used = self.used();
        let calls = used.calls.entry(name.to_owned()).or_default();
        if let Some(allowed) = self.grant.max_calls(name)
            && *calls >= allowed
        {
            let message = format!("host function `{name}` may be called {allowed} times in a session");
            return Err(Refused::policy(message, format!("functions.{name}.max_calls")));
        }
        if let Some(rate) = self.grant.rate(name)
            && !self.host.rates.take(self.grant.tenant(), name, rate)
        {
            let message = format!("host function `{name}` may be called {} times in {}", rate.count, rate.per);
            return Err(Refused::policy(message, format!("functions.{name}.rate")));
        }
        *calls += 1;
        Ok(())
    }

    /// Asks where the policy wants it. Where there is nobody to ask, the answer is no.
    async fn approved(
        &self,
        scope: &Scope,
        id: CallId,
        name: &str,
        permit: &Permit,
        arguments: &Json,
    ) -> Result<Result<(), Refused>, BridgeFault> {
        let turn = match permit.approval() {
            ApprovalNeed::None => return Ok(Ok(())),
            ApprovalNeed::Each => None,
            ApprovalNeed::First => Some(self.used().asking.entry(name.to_owned()).or_default().clone()),
        };
        let _turn = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        if turn.is_some() && self.used().approved.contains(name) {
            return Ok(Ok(()));
        }
        let (call, function) = (id.0, name.to_owned());
        let asked = ApprovalAsked { call, function: function.clone(), arguments: arguments.clone() };
        self.record(scope, Event::ApprovalAsked(asked))?;
        let verdict = match &self.approve {
            Some(approve) => approve.ask(self.request(name, permit)).await,
            None => Verdict::Deny { reason: Some("there is no approval hook".to_owned()) },
        };
        let (approved, by, reason) = match verdict {
            Verdict::Approve { by } => (true, by, None),
            Verdict::Deny { reason } => (false, None, reason),
        };
        self.record(scope, Event::ApprovalAnswered(ApprovalAnswered { call, function, approved, by, reason }))?;
        if approved {
            self.used().approved.insert(name.to_owned());
            return Ok(Ok(()));
        }
        let message = format!("the call of host function `{name}` was not approved");
        Ok(Err(Refused::policy(message, format!("functions.{name}.approve"))))
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, name: &str, permit: &Permit) -> ApprovalRequest {
        ApprovalRequest {
            tenant: self.grant.tenant().clone(),
            session: self.grant.session().clone(),
            function: name.to_owned(),
            arguments: permit.arguments().to_vec(),
        }
    }

    /// The result as the guest gets it: checked against the declaration, the error cleaned.
    fn checked(&self, name: &str, result: Result<Value, HostError>) -> Result<Value, GuestError> {
        let value = result.map_err(|error| GuestError {
            exception: error.exception().to_owned(),
            message: error.message().to_owned(),
        })?;
        if over([&value], ValueBudget::DEFAULT).is_some() {
            let message =
                format!("the result of `{name}` is too large to cross: 4 MiB, 64 levels and 200,000 values at most");
            return Err(GuestError { exception: "ValueError".to_owned(), message });
        }
        match self.schemas.check_result(name, &value) {
            Ok(()) => Ok(value),
            Err(fault) => Err(GuestError { exception: "TypeError".to_owned(), message: fault.to_string() }),
        }
    }

    fn refuse(
        &self,
        scope: &Scope,
        id: CallId,
        name: &str,
        arguments: Json,
        refused: Refused,
    ) -> Result<Answered, BridgeFault> {
        let Refused { exception, message, rule } = refused;
        let denied = CallDenied { call: id.0, function: name.to_owned(), arguments, reason: message.clone(), rule };
        self.record(scope, Event::CallDenied(denied))?;
        Ok((id, Err(GuestError { exception: exception.to_owned(), message })))
    }

    fn answered(
        &self,
        scope: &Scope,
        id: CallId,
        name: &str,
        started: Instant,
        outcome: CallOutcome,
        result_bytes: u64,
    ) -> Result<(), BridgeFault> {
        let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let answered = CallAnswered { call: id.0, function: name.to_owned(), outcome, duration_us, result_bytes };
        self.record(scope, Event::CallAnswered(answered))
    }

    fn record(&self, scope: &Scope, event: Event) -> Result<(), BridgeFault> {
        self.host.log.record(Entry::new(scope, event))?;
        Ok(())
    }

    fn redacted(&self, function: &str, arguments: &[(String, Value)]) -> Json {
        let one = |(name, value): &(String, Value)| {
            let shown = if self.grant.redact(function, name) { REDACTED.into() } else { to_json(value) };
            (name.clone(), shown)
        };
        Json::Object(arguments.iter().map(one).collect())
    }

    /// The arguments of a call that is not bound yet: by name where they have one, by place otherwise.
    fn redacted_call(&self, call: &Call) -> Json {
        let spec = self.grant.function(&call.function);
        let place = |index: usize| {
            let name = spec.and_then(|spec| spec.parameters.get(index)).map(|parameter| parameter.name.clone());
            name.unwrap_or_else(|| index.to_string())
        };
        let placed = call.args.iter().enumerate().map(|(index, value)| (place(index), value.clone()));
        let all: Vec<(String, Value)> = placed.chain(call.kwargs.iter().cloned()).collect();
        match self.redacted(&call.function, &all) {
            Json::Object(map) => Json::Object(map),
            _ => Json::Object(Map::new()),
        }
    }
}

/// Records a call that was given up while it ran, so that no effect is without its end.
struct Unanswered<'a> {
    bridge: &'a Bridge,
    scope: &'a Scope,
    call: CallId,
    function: &'a str,
    started: Instant,
    answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // A log that can't be written has failed for good, and the run's closing record will tell.
            let _ = self.bridge.answered(self.scope, self.call, self.function, self.started, CallOutcome::Cancelled, 0);
        }
    }
}

fn failed(kind: &str) -> CallOutcome {
    CallOutcome::Error { kind: kind.to_owned() }
}

/// What the guest sees of a call that was given up.
fn too_slow(name: &str, limit: Span) -> GuestError {
    let message = format!("host function `{name}` did not answer within {limit}");
    GuestError { exception: "TimeoutError".to_owned(), message }
}

fn size(result: &Result<Value, GuestError>) -> u64 {
    match result {
        Ok(value) => weigh(value),
        Err(error) => error.message.len() as u64,
    }
}

/// What of a host's own values is more than a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// `bytes`, `levels` or `values`.
    pub what: &'static str,
    /// How many there may be.
    pub allowed: u64,
    /// How many were counted: counting ends at the first that is too many.
    pub reached: u64,
}

/// What of these values together is more than the budget, if anything is. Takes no more time than the budget allows.
pub fn over<'v>(values: impl IntoIterator<Item = &'v Value>, budget: ValueBudget) -> Option<Over> {
    let too_many = |what, allowed: usize, reached: u64| Some(Over { what, allowed: allowed as u64, reached });
    let (mut nodes, mut bytes) = (0, 0);
    let mut open: Vec<(&Value, usize)> = Vec::new();
    for value in values {
        open.push((value, 1));
        while let Some((value, depth)) = open.pop() {
            nodes += 1;
            if nodes > budget.nodes {
                return too_many("values", budget.nodes, nodes as u64);
            }
            if depth > budget.depth {
                return too_many("levels", budget.depth, depth as u64);
            }
            match value {
                Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                    open.extend(items.iter().map(|item| (item, depth + 1)));
                }
                Value::Dict(pairs) => {
                    open.extend(pairs.iter().flat_map(|(key, value)| [(key, depth + 1), (value, depth + 1)]));
                }
                Value::Record(record) => open.extend(record.fields.iter().map(|(_, value)| (value, depth + 1))),
                _ => {}
            }
        }
        bytes += weigh(value);
    }
    if bytes > budget.bytes as u64 { too_many("bytes", budget.bytes, bytes) } else { None }
}

/// Whether a whole number in it has more than [`MAX_DIGITS`] digits.
fn has_long_int(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::BigInt(number) if is_long(number) => return true,
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                open.extend(items)
            }
            Value::Dict(pairs) => open.extend(pairs.iter().flat_map(|(key, value)| [key, value])),
            Value::Record(record) => open.extend(record.fields.iter().map(|(_, value)| value)),
            _ => {}
        }
    }
    false
}

/// Bytes of a value, about.
pub fn weigh(value: &Value) -> u64 {
    let all = |items: &[Value]| items.iter().map(weigh).sum::<u64>() + 5;
    match value {
        Value::Str(text) | Value::Decimal(text) | Value::Path(text) => text.len() as u64 + 5,
        Value::Bytes(bytes) => bytes.len() as u64 + 5,
        Value::BigInt(number) => number.bits() / 8 + 6,
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => all(items),
        Value::Dict(pairs) => pairs.iter().map(|(key, value)| weigh(key) + weigh(value)).sum::<u64>() + 5,
        Value::Record(record) => record.fields.iter().map(|(name, value)| name.len() as u64 + weigh(value)).sum(),
        _ => 9,
    }
}
