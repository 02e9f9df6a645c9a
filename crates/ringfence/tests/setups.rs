//! The process tier on machines that lack something: which level is reached, what is told of it, and what is refused.
//!
//! Answers to: the levels of `limitations/process.md`. Each machine is this one with something taken away: by a filter on
//! the thread that starts the program, or by mounts in namespaces of its own. Nothing of the machine itself is changed.
//! Without namespaces root's Python may lie where nobody else can read it, so all of these use the system's.

mod support;

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use support::is_root;
use tempfile::TempDir;

/// What of the machine is taken away.
#[derive(Clone, Copy)]
enum Without {
    /// System calls, or some uses of them.
    Calls(fn() -> Vec<BpfProgram>),
    /// Whatever these words of the shell hide, in namespaces of which these are the words for `unshare`.
    Mounts(&'static str, &'static str),
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_ringfence");

fn filter(rules: Vec<(i64, Vec<SeccompRule>)>, errno: i32) -> BpfProgram {
    let arch = std::env::consts::ARCH.try_into().expect("a known processor");
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let rules: BTreeMap<_, _> = rules.into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).expect("a good filter");
    filter.try_into().expect("it compiles")
}

fn with_flag(flag: i32) -> SeccompRule {
    let flag = u64::from(flag.unsigned_abs());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag);
    SeccompRule::new(vec![condition.expect("good")]).expect("good")
}

const CLONE3: i64 = libc::SYS_clone3;

fn no_user_namespaces() -> Vec<BpfProgram> {
    let rules = || vec![with_flag(libc::CLONE_NEWUSER)];
    let refused = vec![(libc::SYS_clone, rules()), (libc::SYS_unshare, rules())];
    vec![filter(vec![(CLONE3, Vec::new())], libc::ENOSYS), filter(refused, libc::EPERM)]
}

/// What Docker's own profile refuses to a container without further rights.
fn in_docker() -> Vec<BpfProgram> {
    let all = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let rules = || all.into_iter().map(with_flag).collect::<Vec<_>>();
    let calls = [
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_mount_setattr,
        libc::SYS_fsopen,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
    ];
    let mut refused = vec![(libc::SYS_clone, rules()), (libc::SYS_unshare, rules())];
    refused.extend(calls.map(|call| (call, Vec::new())));
    vec![filter(vec![(CLONE3, Vec::new())], libc::ENOSYS), filter(refused, libc::EPERM)]
}

fn no_landlock() -> Vec<BpfProgram> {
    let calls = [libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];
    vec![filter(calls.map(|call| (call, Vec::new())).into(), libc::ENOSYS)]
}

fn neither() -> Vec<BpfProgram> {
    no_user_namespaces().into_iter().chain(no_landlock()).collect()
}

/// A folder for everything that the program writes, which other users can pass through.
fn home() -> TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let open = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).expect("changed");
    for name in ["state", "run", "tmp"] {
        std::fs::create_dir(home.path().join(name)).expect("made");
    }
    open(home.path(), 0o711);
    open(&home.path().join("tmp"), 0o1777);
    open(&home.path().join("run"), 0o700);
    home
}

/// Runs the program with these arguments on such a machine.
fn ringfence(without: Option<Without>, home: &Path, arguments: &[&str]) -> Output {
    on(without, home, arguments, |command| command.output().expect("started"))
}

/// Starts the program there as `start` does.
fn on<T: Send>(
    without: Option<Without>,
    home: &Path,
    arguments: &[&str],
    start: impl FnOnce(&mut Command) -> T + Send,
) -> T {
    let mut command = match without {
        Some(Without::Mounts(namespaces, words)) => {
            let mut command = Command::new("unshare");
            command.args([namespaces, "sh", "-c", &format!("{words} && exec \"$@\""), "sh", PROGRAM]);
            command
        }
        _ => Command::new(PROGRAM),
    };
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("HOME", home);
    for (name, folder) in [("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "run"), ("TMPDIR", "tmp")] {
        command.env(name, home.join(folder));
    }
    command.current_dir(home);
    // A filter is its thread's, and of what the thread starts.
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            if let Some(Without::Calls(filters)) = without {
                filters().iter().for_each(|filter| apply_filter(filter).expect("put on"));
            }
            start(&mut command)
        });
        started.join().expect("it ends")
    })
}

/// `state: detail; remedy` of the process tier, as `doctor` tells it.
fn doctor(without: Option<Without>) -> String {
    let home = home();
    let output = ringfence(without, home.path(), &["doctor", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let rows = found.as_array().cloned().unwrap_or_default();
    let row = rows.into_iter().find(|row| row["what"] == "tier process");
    let Some(row) = row else { return format!("no row: {text}{}", String::from_utf8_lossy(&output.stderr)) };
    let of = |key: &str| row.get(key).and_then(|text| text.as_str()).unwrap_or_default().to_owned();
    format!("{}: {}; {}", of("state"), of("detail"), of("remedy"))
}

/// `exit code: standard output, or the first line of standard error` of a run under this policy.
fn run(without: Option<Without>, policy: &str, code: &str) -> String {
    let home = home();
    let policy = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n{policy}");
    std::fs::write(home.path().join("policy.toml"), policy).expect("written");
    let output = ringfence(without, home.path(), &["run", "--policy", "policy.toml", "-c", code]);
    assert_eq!(folders(home.path()), Vec::<String>::new());
    let said = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    let said = String::from_utf8_lossy(said);
    format!("{}: {}", output.status.code().unwrap_or(-1), said.lines().next().unwrap_or_default())
}

/// Folders of sessions that are there.
fn folders(home: &Path) -> Vec<String> {
    let in_both = ["run", "tmp"].map(|name| std::fs::read_dir(home.join(name)).expect("there").flatten());
    let names = in_both.into_iter().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("cells")).collect()
}

/// Processes of this machine whose first words are these.
fn processes(words: &str) -> usize {
    let lines = std::fs::read_dir("/proc").expect("there").flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").starts_with(words)).count()
}

const ALLOW_NAMESPACES: &str = "allow user namespaces (sysctl user.max_user_namespaces, \
    kernel.apparmor_restrict_unprivileged_userns); in a container, run it with them allowed (Docker: --security-opt \
    seccomp=unconfined)";
const LOCK_ALONE: &str = "Landlock, filters and resource limits alone, with no workspace, mounts, network or commands";
const NO_GROUPS: &str = "memory is limited for each process alone; run as root, on a machine that has control groups \
    for memory and processes in `/sys/fs/cgroup`";
const FLOOR: &str = "floor = \"language\"\n";

#[test]
fn level_a_has_everything() {
    let told = doctor(None);
    let want = if is_root() {
        "ready: strength `process`; level A: namespaces, Landlock, filters and control groups; CPython of this machine; "
            .to_owned()
    } else {
        format!(
            "degraded: strength `process`; level B: a control group can't be made: Permission denied (os error 13): {NO_GROUPS}"
        )
    };
    assert_eq!(told, want);
    assert_eq!(run(None, "", "print(6 * 7)"), "0: 42");
}

#[test]
fn level_b_has_no_control_groups() {
    let none = "mount -t tmpfs -o ro,mode=755 none /sys/fs/cgroup";
    let without = Some(Without::Mounts(if is_root() { "-m" } else { "-Urm" }, none));
    let want = format!("degraded: strength `process`; level B: `/sys/fs/cgroup` has no control groups: {NO_GROUPS}");
    assert_eq!(doctor(without), want);
    assert_eq!(run(without, "", "print(6 * 7)"), "0: 42");
    let memory = run(without, "[limits]\nmemory = \"32MiB\"\n", "x = bytearray(400 << 20)");
    assert_eq!(memory, "4: ringfence: the limit on memory struck: 33554432 bytes allowed");
}

/// Where version 1 holds the controllers, as on a hybrid machine, those of version 2 are none that help.
#[test]
fn level_b_where_the_groups_of_version_2_have_no_controllers() {
    let words = "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/x && mount -t cgroup2 none /sys/fs/cgroup/x \
                 && mount --bind /sys/fs/cgroup/x /sys/fs/cgroup && ! grep -q memory /sys/fs/cgroup/cgroup.controllers";
    if !is_root() {
        // An ordinary user can't mount them: what he has without is level B too.
        return level_a_has_everything();
    }
    let without = Some(Without::Mounts("-m", words));
    let want = "degraded: strength `process`; level B: the control groups in `/sys/fs/cgroup` have no controller \
                `memory`: ";
    assert_eq!(doctor(without), format!("{want}{NO_GROUPS}"));
    assert_eq!(run(without, "", "print(6 * 7)"), "0: 42");
}

#[test]
fn level_c_has_the_lock_alone() {
    let docker = if is_root() { "mount" } else { "user" };
    for (without, refused) in [(no_user_namespaces as fn() -> _, "user"), (in_docker, docker)] {
        let why = format!("{refused} namespaces can't be made: Operation not permitted (os error 1)");
        let without = Some(Without::Calls(without));
        let told = format!("level C: {why}: {LOCK_ALONE}; {ALLOW_NAMESPACES}");
        assert_eq!(doctor(without), format!("degraded: strength `language`; {told}"));
        assert_eq!(
            run(without, "", "print('ran')"),
            format!(
                "5: ringfence: no allowed tier can run the program (embedded: the policy does not allow it; process: reaches strength `language` here, and the \
                 policy's floor is `process`; degraded: {told})"
            )
        );
        assert_eq!(run(without, FLOOR, "print(6 * 7)"), "0: 42");
    }
}

/// The outcome and the log say what a session at level C really had.
#[test]
fn level_c_is_told() {
    let home = home();
    let policy = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n{FLOOR}");
    std::fs::write(home.path().join("policy.toml"), policy).expect("written");
    let without = Some(Without::Calls(no_user_namespaces));
    let arguments = ["run", "--policy", "policy.toml", "--audit", "log.jsonl", "--json", "-c", "1"];
    let output = ringfence(without, home.path(), &arguments);
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!((&outcome["tier"], &outcome["strength"]), (&"process".into(), &"language".into()), "{output:?}");
    let log = std::fs::read_to_string(home.path().join("log.jsonl")).expect("there is a log");
    for line in ["by Landlock alone: whether a path exists, its size and its times can be seen", "for each file alone"]
    {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

/// Docker lets user namespaces be made where its filter is off, but covers parts of `/proc`: no other can be mounted then.
#[test]
fn level_c_where_proc_is_covered() {
    let without = Some(Without::Mounts(if is_root() { "-m" } else { "-Urm" }, "mount -t tmpfs none /proc/fs"));
    let why = "`/proc` can't be mounted: Operation not permitted (os error 1)";
    let remedy = "let this container see all of /proc (Docker: --security-opt systempaths=unconfined)";
    let want = match is_root() {
        true => format!("degraded: strength `language`; level C: {why}: {LOCK_ALONE}; {remedy}"),
        // Root of a namespace with nobody else in it.
        false => {
            format!("unusable: level D: {why}; and with the lock alone: there is no user here but root; {remedy}")
        }
    };
    assert_eq!(doctor(without), want);
}

/// At level C a program is among the host's files and processes, and the lock has to hold by itself.
#[test]
fn level_c_holds() {
    let without = Some(Without::Calls(no_user_namespaces));
    let victim = tempfile::NamedTempFile::new().expect("a file");
    set_permissions(victim.path(), Permissions::from_mode(0o666)).expect("changed");
    let attempts = format!(
        r#"
import ctypes, os, resource, signal, socket, subprocess, sys
victim, host = {victim:?}, {host}
def call(*numbers):
    if ctypes.CDLL(None, use_errno=True).syscall(*numbers) < 0:
        raise OSError(ctypes.get_errno(), '')
ways = {{
    'read': lambda: open(victim).read(),
    'write': lambda: open(victim, 'w'),
    'a folder': lambda: os.listdir('/'),
    'the home': lambda: os.listdir(os.path.dirname(victim)),
    'a device': lambda: open('/dev/ptmx'),
    'environment': lambda: open(f'/proc/{{host}}/environ').read(),
    'its own environment': lambda: open('/proc/self/environ').read(),
    'processes': lambda: os.listdir('/proc'),
    'signal': lambda: os.kill(host, 0),
    'its parent': lambda: os.kill(os.getppid(), 0),
    'everybody': lambda: os.kill(-1, signal.SIGCONT) or os.kill(host, 0),
    'trace': lambda: call(101, 16, host, 0, 0),
    'limits': lambda: resource.prlimit(host, resource.RLIMIT_NOFILE, (64, 64)),
    'priority': lambda: os.setpriority(os.PRIO_PROCESS, host, 19),
    'processors': lambda: os.sched_setaffinity(host, [0]),
    'network': lambda: socket.socket(),
    'local socket': lambda: socket.socket(socket.AF_UNIX),
    'datagrams': lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    'attributes': lambda: os.listxattr(victim),
    'watch': lambda: call(294, 0),
    'namespaces': lambda: call(272, 0x10000000),
}}
if os.getuid() < 0x10000:
    ways['mode'] = lambda: os.chmod(victim, 0o600)
    ways['times'] = lambda: os.utime(victim)
through = []
for way, go in ways.items():
    try:
        go()
        through.append(way)
    except OSError:
        pass
here = os.getcwd()
open('x', 'w').write('kept')
home = here == os.environ['HOME'] == os.environ['TMPDIR'] and os.listdir('.') == ['x']
child = subprocess.run(['sh', '-c', 'cat x; ls / 2>/dev/null; exit 3'], capture_output=True, text=True)
print(through, home, os.getuid() != 0, child.stdout, child.returncode)
"#,
        victim = victim.path(),
        host = std::process::id()
    );
    assert_eq!(run(without, FLOOR, &attempts), "0: [] True True kept 3");
}

/// Processes below this one that a signal has stopped.
fn stopped(pid: u32) -> usize {
    let state = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    support::below(pid).iter().filter(|pid| state(pid).contains(") T ")).count()
}

/// Where there are no control groups, or none that freezes, each process of a session gets a signal; no other does.
#[test]
fn a_session_is_frozen_by_signals_where_there_is_no_freezer() {
    let mut machines = vec![None];
    if is_root() {
        machines = vec![Some(Without::Mounts("-m", "mount -t tmpfs -o ro,mode=755 none /sys/fs/cgroup"))];
        if Path::new("/sys/fs/cgroup/freezer").exists() {
            machines.push(Some(Without::Mounts("-m", "mount -t tmpfs -o ro none /sys/fs/cgroup/freezer")));
        }
    }
    let code = "import os\nfor n in range(3):\n    if os.fork() == 0:\n        if n == 1: os.setsid()\n        break\n\
                else: print('up', flush=True)\nwhile True: pass";
    for without in machines {
        let home = home();
        let policy = "version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nwall = \"60s\"\ncpu = \"60s\"\n";
        std::fs::write(home.path().join("policy.toml"), policy).expect("written");
        let start = |command: &mut Command| command.stdout(Stdio::piped()).spawn().expect("started");
        let mut host = on(without, home.path(), &["run", "--policy", "policy.toml", "-c", code], start);
        let mut said = String::new();
        BufReader::new(host.stdout.take().expect("a pipe")).read_line(&mut said).expect("read");
        let tell = |word: &str| {
            let output = ringfence(None, home.path(), &[word, "--all"]);
            let (said, heard) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{said}{heard}{}", stopped(host.id()))
        };
        assert_eq!((said.as_str(), stopped(host.id())), ("up\n", 0));
        assert_eq!(tell("freeze"), "1 session frozen\n4");
        assert_eq!(tell("thaw"), "1 session thawed\n0");
        assert_eq!(tell("freeze"), "1 session frozen\n4");
        assert_eq!(tell("kill"), "1 session ended\n0");
        assert_eq!(host.wait().expect("it is ours").code(), Some(130));
    }
}

/// A policy under which no program is started holds by the filter alone. What the session wrote can be loaded all the
/// same: its folder lies on a file system of the host's.
#[test]
fn level_c_starts_no_program_where_the_policy_says_so() {
    let without = Some(Without::Calls(no_user_namespaces));
    let code = r#"
import errno, mmap, os, subprocess
def told(body):
    try:
        body()
    except OSError as error:
        return errno.errorcode[error.errno]
    return 'ran'
def in_memory():
    fd = os.memfd_create('x')
    os.write(fd, open('/bin/true', 'rb').read())
    os.execve(fd, ['true'], {})
def mapped():
    with open('code', 'w+b') as file:
        file.write(bytes(4096))
        file.flush()
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
pid = os.fork()
if pid == 0:
    os._exit(7)
forked = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
ways = [lambda: subprocess.run(['/bin/true']), mapped] + WAYS
print(*map(told, ways), forked)
"#;
    // Those that take the place of the program itself where they are not refused.
    let closed = code.replace("WAYS", "[lambda: os.execv('/bin/true', ['true']), in_memory]");
    assert_eq!(run(without, &format!("{FLOOR}exec = false\n"), &closed), "0: EPERM ran EPERM EPERM 7");
    assert_eq!(run(without, FLOOR, &code.replace("WAYS", "[]")), "0: ran ran 7");
}

/// Nothing lives on, and no folder is left, also where a program did its best: the folders are looked at by `run`.
#[test]
fn level_c_leaves_nothing() {
    let without = Some(Without::Calls(no_user_namespaces));
    let code = r#"
import os, subprocess
for n in range(3):
    subprocess.Popen(['sleep', '45654'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sleep', ['sleep', '45654'])
    os._exit(0)
os.wait()
top = os.getcwd()
for n in range(1200):
    os.mkdir('d')
    os.chdir('d')
os.chdir(top)
os.symlink('/', 'root')
os.mkdir('locked')
open('locked/x', 'w')
print('done')
"#;
    assert_eq!(run(without, &format!("{FLOOR}[limits]\nprocesses = 16\n"), code), "0: done");
    assert_eq!(processes("sleep 45654"), 0);
}

#[test]
fn level_c_leaves_nothing_of_a_host_that_is_killed() {
    let home = home();
    let policy = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n{FLOOR}[limits]\nwall = \"60s\"\n");
    std::fs::write(home.path().join("policy.toml"), policy).expect("written");
    let code = "import subprocess, time\nfor n in range(3): subprocess.Popen(['sleep', '56765'], start_new_session=True)\n\
                print('up', flush=True)\ntime.sleep(50)";
    let without = Some(Without::Calls(no_user_namespaces));
    let arguments = ["run", "--policy", "policy.toml", "-c", code];
    let start = |command: &mut Command| command.stdout(Stdio::piped()).spawn().expect("started");
    let mut host = on(without, home.path(), &arguments, start);
    let mut said = String::new();
    BufReader::new(host.stdout.take().expect("a pipe")).read_line(&mut said).expect("read");
    assert_eq!((said.as_str(), folders(home.path()).is_empty()), ("up\n", false));
    let patience = Instant::now() + Duration::from_secs(20);
    // The program goes on when the last of them is executed, a moment before it can be seen by its arguments.
    while processes("sleep 56765") < 3 {
        assert!(Instant::now() < patience, "only {} are there", processes("sleep 56765"));
        std::thread::yield_now();
    }
    host.kill().expect("it is ours");
    host.wait().expect("it is ours");
    let patience = Instant::now() + Duration::from_secs(20);
    while processes("sleep 56765") > 0 || !folders(home.path()).is_empty() {
        assert!(Instant::now() < patience, "{:?}", folders(home.path()));
        std::thread::yield_now();
    }
}

#[test]
fn level_c_names_what_it_cannot_do() {
    let without = Some(Without::Calls(no_user_namespaces));
    let check = |policy: &str, what: &str| {
        let told = run(without, &format!("{FLOOR}{policy}"), "print('ran')");
        let start = format!(
            "5: ringfence: no allowed tier can run the program (embedded: the policy does not allow it; process: can't enforce here what is asked for: {what}; \
             degraded: level C: "
        );
        assert!(told.starts_with(&start), "{policy}: {told}");
    };
    check("[filesystem]\nworkspace = \"1MiB\"\n", "a workspace");
    check("[filesystem]\nmounts = [{ host = \"/usr/share\", at = \"/data\", mode = \"ro\" }]\n", "mounts");
    check("[network]\nallow = [{ host = \"example.com\", ports = [443] }]\n", "filtered network");
    let home = home();
    let policy = format!("version = 1\n[isolation]\ntiers = [\"process\"]\n{FLOOR}");
    std::fs::write(home.path().join("policy.toml"), policy).expect("written");
    let output = ringfence(without, home.path(), &["exec", "--policy", "policy.toml", "--", "true"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("process: can't enforce here what is asked for: commands; degraded: level C: "), "{told}");
}

#[test]
fn level_d_is_refused() {
    let landlock = "landlock is missing: Function not implemented (os error 38)";
    let newer = "use a kernel of version 5.13 or newer with Landlock enabled";
    let none = Some(Without::Calls(no_landlock));
    assert_eq!(doctor(none), format!("unusable: level D: {landlock}; {newer}"));
    assert_eq!(
        run(none, FLOOR, "print('ran')"),
        format!(
            "5: ringfence: no allowed tier can run the program (embedded: the policy does not allow it; process: not usable here: level D: {landlock}; {newer})"
        )
    );
    let users = "user namespaces can't be made: Operation not permitted (os error 1)";
    let alone = "the interpreter can't be warmed: landlock is missing: Function not implemented";
    let want = format!("level D: {users}; and with the lock alone: {alone}; {ALLOW_NAMESPACES}; or {newer}");
    assert_eq!(doctor(Some(Without::Calls(neither))), format!("unusable: {want}"));
}

/// A root who has no other user, and may make no further namespaces: the sysctl is set to 0 in a namespace of the test's.
#[test]
fn level_d_where_there_is_nobody_but_root() {
    let without = Some(Without::Mounts("-Ur", "echo 0 > /proc/sys/user/max_user_namespaces"));
    let users = "user namespaces can't be made: No space left on device (os error 28)";
    let want = format!("level D: {users}; and with the lock alone: there is no user here but root; {ALLOW_NAMESPACES}");
    assert_eq!(doctor(without), format!("unusable: {want}"));
}

#[test]
fn an_interpreter_without_a_named_package_is_refused_by_name() {
    let told = run(None, "[python]\npackages = [\"no-such-package\"]\n", "print('ran')");
    assert_eq!(
        told,
        "5: ringfence: the process tier could not open a cell: `/usr/bin/python3` does not have no-such-package"
    );
}
