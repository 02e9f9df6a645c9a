//! From a grant to the plan of a jail: what it sees of the host, and what each session gets.
//!
//! Answers to: `pool`. Must not: show anything of the host's that neither the interpreter needs nor the grant names.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use ringfence_policy::{Grant, MountMode};
use ringfence_wire::jail::{CHANGES, EGRESS, LockOnly, Node, Plan, SessionPlan, Users};

use ringfence_wire::declarations;

use crate::interpreter::Interpreter;
use crate::{users, way_out};

/// Folders of the host that programs need: a system's libraries and tools.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// What of `/etc` programs need and anybody may know.
const SETTINGS: &[&str] = &[
    "ld.so.cache",
    "ssl/certs",
    "ca-certificates",
    "localtime",
    "timezone",
    "mime.types",
    "magic",
    "alternatives",
    "fonts",
];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// `/tmp` and `/dev/shm`, where the policy says nothing of disk.
const SCRATCH: u64 = 64 << 20;
/// The longest declarations that are made before a session asks for them.
const FUNCTIONS: usize = 32 << 10;
/// Files and folders in each.
const INODES: u64 = 16_384;

/// A session and its branches, whose processes the kernel counts by their user, where each has a group that counts for
/// itself.
const SESSIONS_OF_ONE_USER: u64 = 128;

/// The plan of a jail for sessions under this grant. `block` tells jails apart by their users; `grouped`: each session
/// has a control group.
pub fn plan(grant: &Grant, interpreter: &Interpreter, block: u32, grouped: bool) -> Plan {
    Plan {
        users: users::range(block).map_or(Users::Own, |first| Users::Range { first, count: users::BLOCK }),
        root: root(grant, interpreter),
        program: interpreter.executable.clone(),
        environment: environment(grant, interpreter),
        preload: preload(grant, interpreter),
        functions: functions(grant),
        session: session(grant, grouped),
        lock_only: None,
    }
}

/// The plan where there are no namespaces.
pub fn lock_only_plan(grant: &Grant, interpreter: &Interpreter, block: u32, grouped: bool) -> Plan {
    let plan = plan(grant, interpreter, block, grouped);
    let user = users::unused(block);
    let there = |path: &String| Path::new(path).exists();
    let folders = interpreter.folders();
    let readable = SYSTEM.iter().map(|path| (*path).to_owned());
    let readable = readable.chain(SETTINGS.iter().map(|name| format!("/etc/{name}")));
    let readable = readable.chain(folders.iter().filter_map(|path| path.to_str()).map(str::to_owned));
    let devices = DEVICES.iter().map(|name| format!("/dev/{name}"));
    let lock = LockOnly {
        folder: cells_folder(user.is_some()),
        user,
        readable: readable.filter(there).collect(),
        devices: devices.filter(there).collect(),
    };
    Plan { root: Vec::new(), lock_only: Some(lock), ..plan }
}

/// A folder of this user's, named by chance: for root among those that every user can reach.
fn cells_folder(is_root: bool) -> String {
    let runtime = std::env::var("XDG_RUNTIME_DIR").ok().filter(|path| !is_root && Path::new(path).is_absolute());
    let above = runtime.map(PathBuf::from).filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
    let chance = RandomState::new().build_hasher().finish();
    above.join(format!("ringfence-cells-{chance:016x}")).display().to_string()
}

fn root(grant: &Grant, interpreter: &Interpreter) -> Vec<Node> {
    let mut nodes = Vec::new();
    SYSTEM.iter().for_each(|path| nodes.extend(system(path)));
    let there = |path: String| Path::new(&path).exists().then_some(path);
    nodes.extend(SETTINGS.iter().filter_map(|name| there(format!("/etc/{name}"))).map(seen));
    nodes.extend(written());
    nodes.extend(grant.needs().network.then(|| Node::Folder { at: EGRESS.to_owned() }));
    nodes.extend(grant.needs().mounts_cow.then(|| Node::Folder { at: CHANGES.to_owned() }));
    nodes.extend(DEVICES.iter().map(|name| format!("/dev/{name}")).map(|path| Node::Bind {
        host: path.clone(),
        at: path,
        writable: true,
        device: true,
        exec: false,
    }));
    let folders = interpreter.folders().into_iter();
    nodes.extend(folders.filter_map(|path| path.to_str().map(str::to_owned)).map(seen));
    nodes.extend(grant.mounts().iter().map(|mount| {
        let (host, at) = (mount.host.clone(), mount.at.to_string());
        match mount.mode {
            // Packages may lie there, which hold machine code.
            MountMode::Ro => Node::Bind { host, at, writable: false, device: false, exec: true },
            MountMode::Rw => Node::Bind { host, at, writable: true, device: false, exec: grant.may_exec() },
            MountMode::Cow => Node::Cow { host, at },
        }
    }));
    nodes
}

/// A part of the system: a link as it is on the host, a folder bound.
fn system(path: &str) -> Option<Node> {
    let kind = std::fs::symlink_metadata(path).ok()?;
    if kind.is_symlink() {
        let to = std::fs::read_link(path).ok()?.to_str()?.to_owned();
        return Some(Node::Link { at: path.to_owned(), to });
    }
    kind.is_dir().then(|| seen(path.to_owned()))
}

fn seen(path: String) -> Node {
    Node::Bind { host: path.clone(), at: path, writable: false, device: false, exec: true }
}

/// The files of `/etc` that tell of this machine, in a form that tells nothing.
fn written() -> Vec<Node> {
    let file = |at: &str, content: &str| Node::File { at: at.to_owned(), content: content.to_owned() };
    let link = |at: &str, to: &str| Node::Link { at: at.to_owned(), to: to.to_owned() };
    vec![
        file("/etc/passwd", "root:x:0:0:root:/tmp:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n"),
        file("/etc/group", "root:x:0:\nuser:x:1000:\n"),
        file("/etc/hosts", "127.0.0.1 localhost jail\n::1 localhost\n"),
        file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        file("/etc/resolv.conf", ""),
        link("/dev/fd", "/proc/self/fd"),
        link("/dev/stdin", "/proc/self/fd/0"),
        link("/dev/stdout", "/proc/self/fd/1"),
        link("/dev/stderr", "/proc/self/fd/2"),
    ]
}

fn environment(grant: &Grant, interpreter: &Interpreter) -> Vec<(String, String)> {
    let bin = Path::new(&interpreter.executable).parent().map_or_else(String::new, |bin| format!("{}:", bin.display()));
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut all = vec![
        set("PATH", &format!("{bin}/usr/local/bin:/usr/bin:/bin")),
        set("HOME", "/tmp"),
        set("LANG", "C.UTF-8"),
        set("TZ", "UTC"),
        set("MPLBACKEND", "Agg"),
        set("MPLCONFIGDIR", "/tmp"),
        // Threads that are started by an import are lost in a fork.
        set("OPENBLAS_NUM_THREADS", "1"),
        set("OMP_NUM_THREADS", "1"),
        set("MKL_NUM_THREADS", "1"),
        set("NUMEXPR_NUM_THREADS", "1"),
    ];
    if grant.needs().network {
        all.extend(way_out::environment());
    }
    all
}

fn preload(grant: &Grant, interpreter: &Interpreter) -> Vec<String> {
    let common = ["json", "re", "math", "datetime", "random", "collections", "itertools", "functools", "dataclasses"];
    let packages = grant.packages().iter().filter_map(|name| interpreter.modules.get(name)).flatten().cloned();
    common.into_iter().map(str::to_owned).chain(packages).collect()
}

/// Those that fit beside the rest of a plan.
fn functions(grant: &Grant) -> String {
    let text = String::from_utf8(declarations(grant.functions())).unwrap_or_default();
    if text.len() <= FUNCTIONS { text } else { "[]".to_owned() }
}

/// What a session may write to each of `/tmp`, `/dev/shm` and copy-on-write mounts.
pub fn scratch(grant: &Grant) -> u64 {
    match grant.limits().disk.bytes() {
        0 => SCRATCH,
        bytes => bytes,
    }
}

fn session(grant: &Grant, grouped: bool) -> SessionPlan {
    let limits = grant.limits();
    let mounts = || grant.mounts().iter();
    let mut writable: Vec<String> = vec!["/tmp".to_owned(), "/dev/shm".to_owned()];
    writable.extend(grant.workspace().map(|_| "/workspace".to_owned()));
    writable.extend(mounts().filter(|mount| mount.mode != MountMode::Ro).map(|mount| mount.at.to_string()));
    let cow = mounts().filter(|mount| mount.mode == MountMode::Cow);
    let cow: Vec<String> = cow.map(|mount| mount.at.to_string()).collect();
    let scratch = scratch(grant);
    let largest_file = scratch.max(grant.workspace().map_or(0, |quota| quota.bytes()));
    let mut amounts = vec![
        ("RLIMIT_NOFILE".to_owned(), limits.open_files.max(16).into()),
        ("RLIMIT_FSIZE".to_owned(), largest_file),
        ("RLIMIT_CORE".to_owned(), 0),
        ("RLIMIT_MEMLOCK".to_owned(), 0),
        ("RLIMIT_MSGQUEUE".to_owned(), 0),
        ("RLIMIT_SIGPENDING".to_owned(), 256),
    ];
    // The kernel counts by user, and sessions with copy-on-write mounts share theirs: their groups count for each.
    if cow.is_empty() || !grouped {
        // Branches of a session share theirs too.
        let sessions = if grouped { SESSIONS_OF_ONE_USER } else { 1 };
        amounts.push(("RLIMIT_NPROC".to_owned(), u64::from(limits.processes.max(1)).saturating_mul(sessions)));
    }
    SessionPlan {
        tmp: scratch,
        workspace: grant.workspace().map(|quota| quota.bytes()),
        inodes: INODES,
        cow,
        changes: scratch,
        limits: amounts,
        writable,
        exec: grant.may_exec(),
        network: grant.needs().network.then_some(way_out::PORT),
    }
}
