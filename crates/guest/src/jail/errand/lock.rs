//! The lock of a command: the same limits, Landlock rules, rights and filters that the zygote puts on a session.
//!
//! Answers to: `errand`, in the process that becomes the command. Must not: leave a step out; where one can't be done
//! the command does not run. `zygote.py` has the same steps in the same order.

use std::io;

use ringfence_wire::jail::SessionPlan;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::apply_filter;

use super::sys;
use crate::jail::filter::Filters;
use crate::jail::init::own_users;
use crate::jail::{Failed, Step, rules};

/// Puts the whole lock on this process, which is in its place already.
pub fn lock(session: &SessionPlan, filters: &Filters, user: Option<u32>) -> Result<(), Failed> {
    if user.is_none() {
        own_users()?;
    }
    for (name, amount) in &session.limits {
        let resource = resource(name).ok_or_else(|| Failed::new(format!("`{name}` is no limit")))?;
        let limit = Rlimit { current: Some(*amount), maximum: Some(*amount) };
        setrlimit(resource, limit).map_err(io::Error::from).step(|| format!("`{name}` can't be set"))?;
    }
    let rules = rules::of(session)?;
    sys::no_new_privileges().step(|| "privileges can be gained".into())?;
    rules::put_on(&rules)?;
    drop(rules);
    sys::give_up_rights(user).step(|| "capabilities can't be given up".into())?;
    for program in filters.zygote.iter().chain(&filters.session) {
        apply_filter(program).map_err(|error| Failed::new(format!("a filter can't be put on: {error}")))?;
    }
    Ok(())
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "RLIMIT_NOFILE" => Resource::Nofile,
        "RLIMIT_NPROC" => Resource::Nproc,
        "RLIMIT_FSIZE" => Resource::Fsize,
        "RLIMIT_CORE" => Resource::Core,
        "RLIMIT_MEMLOCK" => Resource::Memlock,
        "RLIMIT_MSGQUEUE" => Resource::Msgqueue,
        "RLIMIT_SIGPENDING" => Resource::Sigpending,
        "RLIMIT_AS" => Resource::As,
        "RLIMIT_DATA" => Resource::Data,
        "RLIMIT_STACK" => Resource::Stack,
        _ => return None,
    })
}
