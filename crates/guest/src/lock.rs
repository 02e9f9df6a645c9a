//! The system calls that a worker may still make once it is locked: read, write, memory, exit and clock.
//!
//! Answers to: `zygote`, which compiles the filter once. Must not: allow a call that can reach a file, a socket, a
//! process or a descriptor other than the session's own.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::sys::SOCKET;

/// Why the filter can't be made; the kernel or the processor is not one that is known.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not a processor that the filter is written for.
    #[error("system-call filters are not written for this processor: {0}")]
    Processor(String),
    /// The filter could not be compiled.
    #[error("the system-call filter could not be made: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Calls that touch memory, time, randomness or this process's own end, and nothing else.
const PLAIN: &[i64] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
];

/// Everything that is not allowed answers `EPERM`, which the guest sees as an exception.
pub fn filter() -> Result<BpfProgram, LockError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| LockError::Processor(error.to_string()))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = PLAIN.iter().map(|call| (*call, Vec::new())).collect();
    let socket = u64::try_from(SOCKET).unwrap_or_default();
    for call in [libc::SYS_read, libc::SYS_write] {
        rules.insert(call, vec![only_if(0, SeccompCmpOp::Eq, socket)?]);
    }
    // No executable memory, ever; `poll` on one descriptor, which is checked by its count only.
    let no_exec = SeccompCmpOp::MaskedEq(u64::try_from(libc::PROT_EXEC).unwrap_or_default());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![only_if(2, no_exec.clone(), 0)?]);
    }
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_poll, vec![only_if(1, SeccompCmpOp::Eq, 1)?]);
    rules.insert(libc::SYS_ppoll, vec![only_if(1, SeccompCmpOp::Eq, 1)?]);
    // A worker lowers the bound on its own address space, and can't raise it again; nobody else's, and no other bound.
    let bound = u64::from(libc::RLIMIT_AS);
    rules.insert(libc::SYS_prlimit64, vec![both((0, 0), (1, bound))?]);
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).unwrap_or_default());
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch)?.try_into()?)
}

/// Two arguments are these numbers.
fn both(first: (u8, u64), second: (u8, u64)) -> Result<SeccompRule, seccompiler::BackendError> {
    let is = |(argument, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    SeccompRule::new(vec![is(first)?, is(second)?])
}

fn only_if(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}
