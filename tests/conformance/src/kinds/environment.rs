//! Machines on which something is missing: the code runs behind its wall, or not at all.
//!
//! Answers to: `kinds`, and to `main`, which is started again under each condition. Must not: count a refusal that
//! names no reason.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ringfence::Engine;
use ringfence_audit::{Log, LogOptions, Sink};
use ringfence_policy::Policy;
use ringfence_session::{Parts, Request, SnapshotKey};
use ringfence_tier_embedded::{Config, Embedded};
use ringfence_types::{Source, Strength};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter,
};
use serde_json::{Value as Json, json};

use crate::case::Case;
use crate::seen::Seen;
use crate::stage::Stage;

/// The first argument that makes this program try one condition.
pub const HIDDEN_ARGUMENT: &str = "--under-condition";
const NOBODY: u32 = 65534;

/// Every condition of the case.
pub async fn play(stage: &Stage, case: &Case) -> Result<Seen, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let worker = readable_worker(folder.path(), &stage.worker).map_err(|error| error.to_string())?;
    let mut seen = Seen::default();
    for condition in case.names("conditions") {
        let told = under(&condition, &worker, case.text("run"))?;
        if let Err(why) = judged(&condition, &told) {
            seen.faults.push(format!("{condition}: {why}: {told}"));
        }
    }
    seen.verdicts.push("deny".to_owned());
    Ok(seen)
}

/// A copy that any user can read.
fn readable_worker(folder: &Path, worker: &Path) -> std::io::Result<PathBuf> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    let copy = folder.join("ringfence");
    std::fs::copy(worker, &copy)?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// What this program tells when it runs the code under a condition.
fn under(condition: &str, worker: &Path, code: &str) -> Result<Json, String> {
    let mut command = Command::new("/proc/self/exe");
    command.args([HIDDEN_ARGUMENT, condition, code]).arg(worker);
    if condition == "not root" && rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let output = command.output().map_err(|error| format!("{condition}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|_| {
        format!("{condition}: the program told nothing: {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Run behind a wall at least as strong as the policy's floor, or refused with a reason.
fn judged(condition: &str, told: &Json) -> Result<(), String> {
    let text = |key: &str| told.get(key).and_then(Json::as_str).unwrap_or_default();
    let must_refuse = [
        "seccomp filter refused",
        "/dev/kvm missing",
        "wasm file missing or wrong hash",
        "worker binary missing",
        "disk full",
    ];
    let ran = text("stdout").contains("ran");
    if ran && must_refuse.contains(&condition) {
        return Err("it ran although it can't be locked in".to_owned());
    }
    if ran && text("strength") != Strength::Process.as_str() {
        return Err("it ran behind something weaker than the floor".to_owned());
    }
    if !ran && text("reason").is_empty() {
        return Err("it was refused without a reason".to_owned());
    }
    Ok(())
}

/// Sets the condition on this process, runs the code, and gives what to tell. For the program that was started again.
pub fn told(condition: &str, code: &str, worker: &str) -> Json {
    if let Err(why) = set(condition) {
        return json!({"reason": "", "why": format!("the condition can't be set: {why}")});
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(condition, code, worker)),
        Err(error) => json!({"reason": "", "why": error.to_string()}),
    }
}

async fn run(condition: &str, code: &str, worker: &str) -> Json {
    let tiers = match condition {
        "/dev/kvm missing" => "microvm",
        "wasm file missing or wrong hash" => "wasm",
        _ => "embedded",
    };
    let policy = Policy::parse(&format!("version = 1\n[isolation]\ntiers = [\"{tiers}\"]\n"), "environment.toml");
    let outcome = match policy {
        Ok(policy) if condition == "disk full" => full_disk(policy, code, worker).await,
        Ok(policy) => plainly(condition, policy, code, worker).await,
        Err(errors) => Err(errors.to_string()),
    };
    match outcome {
        Ok(told) => told,
        Err(reason) => json!({"stdout": "", "reason": reason}),
    }
}

async fn plainly(condition: &str, policy: Policy, code: &str, worker: &str) -> Result<Json, String> {
    let worker = if condition == "worker binary missing" { "/nonexistent/ringfence" } else { worker };
    let engine = Engine::builder().worker(worker).build().map_err(|error| error.to_string())?;
    let mut session = engine.session(policy).map_err(|error| error.to_string())?;
    let outcome = session.run(code).await.map_err(|error| error.to_string())?;
    let strength = outcome.strength.map(Strength::as_str);
    Ok(json!({"status": outcome.status, "stdout": outcome.stdout, "strength": strength, "reason": outcome.reason}))
}

async fn full_disk(policy: Policy, code: &str, worker: &str) -> Result<Json, String> {
    let log = Log::open(Box::new(FullDisk(2)), LogOptions::default()).map_err(|error| error.to_string())?;
    let tier = Embedded::new(Config { worker: Some(worker.into()), ..Config::default() });
    let parts = Parts { tiers: vec![Arc::new(tier)], log: Arc::new(log), snapshot_key: SnapshotKey::new([0; 32]) };
    let engine = ringfence_session::Engine::new(parts);
    let mut session = engine.session(Request::new(policy)).map_err(|error| error.to_string())?;
    let outcome = session.run(Source::new(code), &mut ()).await.map_err(|error| error.to_string())?;
    Ok(json!({"status": outcome.status, "stdout": outcome.stdout, "reason": outcome.reason}))
}

/// A disk with room for so many writes.
struct FullDisk(u32);

impl Sink for FullDisk {
    fn name(&self) -> String {
        "on a full disk".to_owned()
    }
    fn append(&mut self, _: &[u8]) -> std::io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(())
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Makes this process lack what the condition says.
fn set(condition: &str) -> Result<(), String> {
    match condition {
        "no unprivileged user namespaces" => {
            refuse(always(&[libc::SYS_unshare, libc::SYS_setns]), libc::EPERM)?;
            refuse(always(&[libc::SYS_clone3]), libc::ENOSYS)
        }
        "seccomp filter refused" => {
            let is_seccomp = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 22);
            let rule = SeccompRule::new(vec![is_seccomp.map_err(|error| error.to_string())?]);
            let mut rules = always(&[libc::SYS_seccomp]);
            rules.insert(libc::SYS_prctl, vec![rule.map_err(|error| error.to_string())?]);
            refuse(rules, libc::EINVAL)
        }
        "Landlock ABI 0" => refuse(always(&[libc::SYS_landlock_create_ruleset]), libc::ENOSYS),
        "nested in Docker with default seccomp" => {
            refuse(always(&[libc::SYS_clone3]), libc::ENOSYS)?;
            refuse(always(&DOCKER), libc::EPERM)
        }
        // These are conditions of the machine that this tier does not touch, or are set elsewhere.
        "cgroup v2 not delegated" | "/dev/kvm missing" | "wasm file missing or wrong hash" => Ok(()),
        "worker binary missing" | "disk full" | "not root" => Ok(()),
        unknown => Err(format!("the suite does not know the condition `{unknown}`")),
    }
}

/// What Docker's own profile refuses to a container without more rights.
const DOCKER: [i64; 22] = [
    libc::SYS_unshare,
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
