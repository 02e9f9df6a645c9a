//! Whether the tier works here: a worker is really started, and its lock is read from outside.
//!
//! Answers to: the tier. Must not: take the worker's word for its own lock.

use std::time::Duration;

use ringfence_tier::{Enforced, Enforcement, EnforcementLine, Probe, TierFault};
use ringfence_types::Strength;
use ringfence_worker::status_field;

use crate::pool::Pool;
use crate::zygote::Worker;

/// How long a first worker may take: it is far under a second where the machine is not overloaded.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts one worker and reads from the kernel whether it is locked.
pub async fn probe(pool: &Pool) -> Probe {
    match tokio::time::timeout(PATIENCE, pool.take()).await {
        Ok(Ok((worker, _refill))) => {
            if locked(&worker).await {
                Probe::Ready(Strength::Process)
            } else {
                unusable(
                    "the worker can't put its system-call filter on",
                    "use a kernel built with CONFIG_SECCOMP_FILTER",
                )
            }
        }
        Ok(Err(TierFault::Unusable { why, remedy, .. })) => Probe::Unusable { why, remedy },
        Ok(Err(fault)) => unusable(&fault.to_string(), "see the reason above"),
        Err(_) => {
            unusable("the worker did not start within 20 s", "look for a machine that is out of memory or overloaded")
        }
    }
}

fn unusable(why: &str, remedy: &str) -> Probe {
    Probe::Unusable { why: why.to_owned(), remedy: remedy.to_owned() }
}

/// A fresh worker puts its lock on within moments; it is asked for a while. A filter may be there that is not its own,
/// so that it must have lived to speak too.
async fn locked(worker: &Worker) -> bool {
    for _ in 0..200 {
        let is = |field, want| status_field(worker.process.pid(), field).as_deref() == Some(want);
        if is("Seccomp:", "2") && is("NoNewPrivs:", "1") && worker.has_spoken() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    false
}

/// What holds in every worker of this tier.
pub fn enforcement() -> Enforcement {
    let full = |what| EnforcementLine { what, level: Enforced::Full };
    Enforcement {
        strength: Strength::Process,
        lines: vec![
            full("system calls"),
            full("network"),
            full("file system"),
            full("environment"),
            full("wall clock"),
            full("processor time"),
            full("memory"),
            full("output"),
            full("host calls"),
            full("processes"),
            full("starting programs"),
        ],
    }
}
