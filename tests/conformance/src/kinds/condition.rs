//! The inside of one condition: what this program does when it is started again under it.
//!
//! Answers to: `main`, for `environment`. Must not: run the code where the condition does not hold: each is proven first.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence::{AuditTo, Engine};
use ringfence_policy::Policy;
use ringfence_types::{Strength, TierName};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};
use serde_json::{Value as Json, json};

use super::python::ran_on;

/// The first argument that makes this program try one condition.
pub const HIDDEN_ARGUMENT: &str = "--under-condition";
/// Runs that a nearly full disk may still have room for.
const RUNS_UNTIL_FULL: usize = 200;

/// What is tried, as `environment` hands it on.
struct Trial<'a> {
    asked: TierName,
    condition: &'a str,
    code: &'a str,
    worker: &'a str,
    folder: PathBuf,
}

/// Sets the condition on this process, runs the code, and gives what to tell. For the program that was started again.
pub fn told(arguments: [&str; 5]) -> Json {
    let [asked, condition, code, worker, folder] = arguments;
    let asked = match asked.parse() {
        Ok(asked) => asked,
        Err(error) => return json!({"reason": "", "why": format!("{error}")}),
    };
    let trial = Trial { asked, condition, code, worker, folder: folder.into() };
    if let Err(why) = set(condition).and_then(|()| proven(&trial)) {
        return json!({"not_set": why});
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let told = match runtime {
        Ok(runtime) => runtime.block_on(run(&trial)),
        Err(error) => Err(error.to_string()),
    };
    told.unwrap_or_else(|reason| json!({"stdout": "", "reason": reason}))
}

async fn run(trial: &Trial<'_>) -> Result<Json, String> {
    let worker = if trial.condition == "worker binary missing" { "/nonexistent/ringfence" } else { trial.worker };
    let is_disk = trial.condition == "disk full";
    let audit = if is_disk { AuditTo::File(trial.folder.join("audit.jsonl")) } else { AuditTo::Memory };
    let engine = Engine::builder().worker(worker).audit(audit).build().map_err(|error| error.to_string())?;
    if !is_disk {
        return once(&engine, trial).await;
    }
    let before = once(&engine, trial).await?;
    if before.get("status") != Some(&json!("completed")) {
        return Ok(json!({"not_set": format!("it does not run before the disk is full either: {before}")}));
    }
    fill(&trial.folder.join("filler")).map_err(|error| error.to_string())?;
    for _ in 0..RUNS_UNTIL_FULL {
        let told = once(&engine, trial).await?;
        if told.get("status") != Some(&json!("completed")) {
            return Ok(told);
        }
    }
    Ok(json!({"not_set": "the disk does not get full"}))
}

async fn once(engine: &Engine, trial: &Trial<'_>) -> Result<Json, String> {
    let packages = match trial.condition {
        "named package missing" => "[python]\npackages = [\"no_such_package_xyz\"]\n",
        _ => "",
    };
    let text = format!("version = 1\n[isolation]\ntiers = [\"{}\"]\n{packages}", trial.asked);
    let policy = Policy::parse(&text, "environment.toml").map_err(|errors| errors.to_string())?;
    let mut session = engine.session(policy).map_err(|error| error.to_string())?;
    let outcome = session.run(trial.code).await.map_err(|error| error.to_string())?;
    ran_on(trial.asked, &outcome)?;
    Ok(json!({
        "status": outcome.status,
        "stdout": outcome.stdout,
        "tier": outcome.tier,
        "strength": outcome.strength.map(Strength::as_str),
        "reason": outcome.reason,
    }))
}

/// Writes until there is no room.
fn fill(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    loop {
        match file.write_all(&[0; 512]) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            done => done?,
        }
    }
}

/// Shows that the condition holds, by trying what it takes away.
fn proven(trial: &Trial<'_>) -> Result<(), String> {
    let call = |code: &str| {
        let start = "import ctypes; c = ctypes.CDLL(None, use_errno=True); e = ctypes.get_errno; ";
        quiet("python3", &["-I", "-S", "-c", &format!("{start}{code}")])
    };
    let holds = match trial.condition {
        "no unprivileged user namespaces" => !quiet("unshare", &["-U", "true"])? && quiet("true", &[])?,
        "seccomp filter refused" => call("c.prctl(22, 2, 0, 0, 0); raise SystemExit(e() != 22)")?,
        "Landlock ABI 0" => call("c.syscall(444, 0, 0, 1); raise SystemExit(e() != 38)")?,
        "nested in Docker with default seccomp" => {
            !quiet("unshare", &["-U", "true"])? && call("c.syscall(165, 0, 0, 0, 0, 0); raise SystemExit(e() != 1)")?
        }
        "cgroup v2 not delegated" => !quiet("mkdir", &["/sys/fs/cgroup/ringfence-proof"])?,
        "not root" => !rustix::process::geteuid().is_root(),
        "worker binary missing" => !Path::new("/nonexistent/ringfence").exists(),
        "disk full" => std::fs::read_dir(&trial.folder).is_ok_and(|mut entries| entries.next().is_none()),
        // The build has not these tiers, or the interpreter not this package: that is the condition.
        _ => true,
    };
    if holds { Ok(()) } else { Err("it was set, and what it takes away is still there".to_owned()) }
}

/// Whether a program ends well; what it prints is thrown away.
fn quiet(program: &str, arguments: &[&str]) -> Result<bool, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(|status| status.success()).map_err(|error| format!("`{program}` can't be started: {error}"))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Makes this process lack what the condition says.
fn set(condition: &str) -> Result<(), String> {
    match condition {
        "no unprivileged user namespaces" => {
            refuse(always(&[libc::SYS_clone3]), libc::ENOSYS)?;
            refuse(namespaces(&[CLONE_NEWUSER])?, libc::EPERM)
        }
        "seccomp filter refused" => {
            let mut rules = always(&[libc::SYS_seccomp]);
            rules.insert(libc::SYS_prctl, vec![rule(0, SeccompCmpOp::Eq, PR_SET_SECCOMP)?]);
            refuse(rules, libc::EINVAL)
        }
        "Landlock ABI 0" => refuse(always(&LANDLOCK), libc::ENOSYS),
        "nested in Docker with default seccomp" => {
            refuse(always(&[libc::SYS_clone3]), libc::ENOSYS)?;
            let mut rules = namespaces(&NAMESPACES)?;
            rules.extend(always(&DOCKER));
            refuse(rules, libc::EPERM)
        }
        // These are set from outside, or by what is asked for.
        "cgroup v2 not delegated" | "/dev/kvm missing" | "wasm file missing or wrong hash" => Ok(()),
        "worker binary missing" | "disk full" | "not root" | "named package missing" => Ok(()),
        unknown => Err(format!("the suite does not know the condition `{unknown}`")),
    }
}

const PR_SET_SECCOMP: u64 = 22;
const CLONE_NEWUSER: u64 = 0x1000_0000;
/// Every flag of `clone` and `unshare` that makes a namespace.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, CLONE_NEWUSER, 0x2000_0000, 0x4000_0000];
const LANDLOCK: [i64; 3] =
    [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];

fn rule(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())
}

/// `clone` and `unshare` with any of these flags.
fn namespaces(flags: &[u64]) -> Result<Rules, String> {
    let with = |flag: &u64| rule(0, SeccompCmpOp::MaskedEq(*flag), *flag);
    let rules: Vec<SeccompRule> = flags.iter().map(with).collect::<Result<_, _>>()?;
    Ok(BTreeMap::from([(libc::SYS_clone, rules.clone()), (libc::SYS_unshare, rules)]))
}

/// What Docker's own profile refuses to a container without more rights.
const DOCKER: [i64; 21] = [
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_io_uring_setup,
];

fn always(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn refuse(rules: Rules, errno: i32) -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let action = SeccompAction::Errno(u32::try_from(errno).unwrap_or(1));
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(|error| error.to_string())?;
    let program: seccompiler::BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    apply_filter(&program).map_err(|error| error.to_string())
}
