//! The system calls of a jail, in two stages: the zygote's filter holds the long list and what setting a session up
//! needs; a session puts a short one on top that takes the latter away.
//!
//! Answers to: `init`, which puts the first on and hands the second to the zygote as bytes. Must not: allow a call that
//! reaches a namespace, a key, another process's memory or the kernel's own state.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::Failed;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What a full CPython with its packages makes use of, and what is harmless beside it.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_sigaltstack,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_sched_yield,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_uname,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_umask,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_capget,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getattr,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_futex,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_utimensat,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_sync_file_range,
    libc::SYS_getrandom,
    libc::SYS_memfd_create,
    libc::SYS_close_range,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_restart_syscall,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// The older spellings of some of these, which only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_creat,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_fork,
    libc::SYS_futimesat,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_inotify_init,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_setrlimit,
    libc::SYS_signalfd,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

const EXEC: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// What the zygote does to a session before its code: the session takes these away from itself at the end.
const SETTING_UP: &[i64] = &[
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_seccomp,
];

/// Kinds of socket: local, and the internet's in a namespace that has none. Not `AF_VSOCK`, which no namespace holds.
const SOCKETS: &[u64] = &[1, 2, 10];
const LOCAL: u64 = 1;
const INTERNET: &[u64] = &[2, 10];
const STREAM: u64 = 1;
const TCP: u64 = 6;
/// What of a socket's type is not a flag.
const SOCKET_KIND: u64 = 0xf;
/// Questions about descriptors, and making them blocking or inherited. Not what types into a terminal.
const IOCTLS: &[u64] = &[0x5401, 0x540f, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];
/// The signal at a parent's death, names, and questions.
const PRCTLS: &[u64] = &[1, 3, 15, 16, 23, 38, 39, 0x5356_4d41];
/// What reaches files by their names and is not Landlock's: their attributes, and what happens to them.
const BY_NAME: &[i64] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
];
/// What changes the owner, mode or times of whatever belongs to this user, and is not Landlock's either.
const OF_OWNERS: &[i64] =
    &[libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_utimensat];
#[cfg(target_arch = "x86_64")]
const OLDER_OF_OWNERS: &[i64] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_OF_OWNERS: &[i64] = &[];
/// What names another process of the same user; and which argument does.
const OF_PROCESSES: &[(i64, u8)] =
    &[(libc::SYS_prlimit64, 0), (libc::SYS_setpriority, 1), (libc::SYS_sched_setaffinity, 0)];
/// Every namespace that `clone` can make.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// The filters of a jail, each in the order in which it is put on.
pub struct Filters {
    /// The zygote's.
    pub zygote: Vec<BpfProgram>,
    /// What a session adds.
    pub session: Vec<BpfProgram>,
}

/// What stands around a session beside its filters, and with that what the filters have to hold by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Around {
    /// Namespaces, with no network in them.
    Walls,
    /// Namespaces, with a network of the session's own that leads to the proxy.
    WallsWithNetwork,
    /// Nothing but Landlock; `own_user`: the session has a user who owns nothing of the host's.
    LockOnly {
        /// Whether the user is the sessions' own.
        own_user: bool,
    },
}

/// The filters; `exec`: whether programs may be started.
pub fn filters(exec: bool, around: Around) -> Result<Filters, Failed> {
    build(exec, around).map_err(|error| Failed::new(format!("the system-call filter can't be made: {error}")))
}

fn build(exec: bool, around: Around) -> Result<Filters, BackendError> {
    let mut allowed: Rules = ALLOWED.iter().chain(OLDER).chain(EXEC).map(|call| (*call, Vec::new())).collect();
    let no_namespaces = condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(NEW_NAMESPACES), 0)?;
    allowed.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespaces])?]);
    match around {
        Around::Walls => allowed.insert(libc::SYS_socket, one_of(0, SOCKETS)?),
        Around::WallsWithNetwork => allowed.insert(libc::SYS_socket, streams()?),
        // The network is the host's, and so are the sockets that lie among its files.
        Around::LockOnly { .. } => None,
    };
    allowed.insert(libc::SYS_socketpair, pairs(around)?);
    allowed.insert(libc::SYS_ioctl, one_of(1, IOCTLS)?);
    let question = condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0xffff_ffff)?;
    allowed.insert(libc::SYS_personality, vec![SeccompRule::new(vec![question])?]);
    allowed.extend(SETTING_UP.iter().chain(&[libc::SYS_prctl]).map(|call| (*call, Vec::new())));
    // These are asked for by number: the library then does without.
    let absent = [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_openat2].map(|call| (call, Vec::new()));
    let missing = refuse(absent.into_iter().collect(), libc::ENOSYS)?;
    // `clone3` and the like get past the list first, for their own answer.
    allowed.extend([libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_openat2].map(|call| (call, Vec::new())));
    let list = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, arch()?)?.try_into()?;

    let mut taken: Rules = SETTING_UP.iter().map(|call| (*call, Vec::new())).collect();
    taken.extend(of_processes()?);
    if !exec {
        taken.extend(EXEC.iter().map(|call| (*call, Vec::new())));
    }
    taken.insert(libc::SYS_prctl, vec![none_of(0, PRCTLS)?]);
    let mut session = vec![refuse(taken, libc::EPERM)?];
    if let Around::LockOnly { own_user } = around {
        session.insert(0, refuse(among_others(own_user)?, libc::EPERM)?);
    }
    Ok(Filters { zygote: vec![missing, list], session })
}

/// Pairs of local sockets. Datagrams of one can be sent to any path, so where the host's files are in sight there are
/// streams only.
fn pairs(around: Around) -> Result<Vec<SeccompRule>, BackendError> {
    let local = condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, LOCAL)?;
    let streams = condition(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(SOCKET_KIND), STREAM)?;
    let conditions = match around {
        Around::Walls | Around::WallsWithNetwork => vec![local],
        Around::LockOnly { .. } => vec![local, streams],
    };
    Ok(vec![SeccompRule::new(conditions)?])
}

/// What is refused to a session that is among the host's files and processes, where Landlock does not hold it.
fn among_others(own_user: bool) -> Result<Rules, BackendError> {
    let owners: &[&[i64]] = if own_user { &[] } else { &[OF_OWNERS, OLDER_OF_OWNERS] };
    let refused = BY_NAME.iter().chain(owners.iter().copied().flatten());
    Ok(refused.map(|call| (*call, Vec::new())).collect())
}

/// What another process of the same user is refused: its limits, its priority and its processors, which Landlock does
/// not hold. 0 is the process itself, and its kind of number.
fn of_processes() -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for (call, argument) in OF_PROCESSES {
        rules.insert(*call, vec![none_of(*argument, &[0])?]);
    }
    rules.entry(libc::SYS_setpriority).or_default().push(none_of(0, &[0])?);
    Ok(rules)
}

/// Where loopback is up: local sockets, and TCP. No datagrams, hence no names and no tunnel through them; no raw
/// packets, and no other protocol of the internet's.
fn streams() -> Result<Vec<SeccompRule>, BackendError> {
    let mut rules = one_of(0, &[LOCAL])?;
    for (family, protocol) in INTERNET.iter().flat_map(|family| [(*family, 0), (*family, TCP)]) {
        rules.push(SeccompRule::new(vec![
            condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family)?,
            condition(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(SOCKET_KIND), STREAM)?,
            condition(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, protocol)?,
        ])?);
    }
    Ok(rules)
}

fn arch() -> Result<TargetArch, BackendError> {
    TargetArch::try_from(std::env::consts::ARCH)
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

fn refuse(rules: Rules, number: i32) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, SeccompAction::Allow, errno(number), arch()?)?.try_into()
}

fn condition(
    argument: u8,
    width: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, width, operator, value)
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule =
        |value: &u64| SeccompRule::new(vec![condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value)?]);
    values.iter().map(rule).collect()
}

fn none_of(argument: u8, values: &[u64]) -> Result<SeccompRule, BackendError> {
    let not = |value: &u64| condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *value);
    SeccompRule::new(values.iter().map(not).collect::<Result<_, _>>()?)
}

/// A filter as the kernel reads it: eight bytes an instruction.
pub fn bytes_of(program: &BpfProgram) -> Vec<u8> {
    program
        .iter()
        .flat_map(|step| {
            let [a, b] = step.code.to_ne_bytes();
            let [w, x, y, z] = step.k.to_ne_bytes();
            [a, b, step.jt, step.jf, w, x, y, z]
        })
        .collect()
}
