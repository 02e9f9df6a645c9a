//! A policy under which no program may start another, and what the same attempts come to without it.
//!
//! Answers to: `isolation.exec` of `docs/policy.md`. Where the tier does not work the tests fail and say why.

mod support;

use ringfence::{Command, Engine, Policy, Session, Status, Value};

fn engine() -> Engine {
    Engine::builder().worker(support::program()).warm(1).build().expect("an engine")
}

/// A session of the process tier with a workspace and a writable folder of the host's.
fn session(engine: &Engine, exec: &str, folder: &std::path::Path) -> Session {
    let text = format!(
        "version = 1\nname = \"closed-in\"\n[isolation]\ntiers = [\"process\"]\n{exec}\n[limits]\nwall = \"20s\"\n\
         memory = \"128MiB\"\n[filesystem]\nworkspace = \"16MiB\"\n\
         mounts = [{{ host = {folder:?}, at = \"/data\", mode = \"rw\" }}]\n"
    );
    engine.session(Policy::parse(&text, "test").expect("a good policy")).expect("granted")
}

/// Every way to a program that was found, each with how it ended.
const WAYS: &str = r#"
import ctypes, errno, mmap, os, shutil, subprocess

def told(body):
    try:
        body()
    except OSError as error:
        return type(error).__name__ + (' ' + errno.errorcode[error.errno] if error.errno else '')
    return 'ran'

def in_a_child(body):
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except OSError as error:
            os._exit(error.errno)
        finally:
            os._exit(255)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, '')

def in_memory():
    fd = os.memfd_create('x')
    os.write(fd, open('/bin/true', 'rb').read())
    os.execve(fd, ['true'], {})

def script():
    with open('/tmp/script', 'w') as file:
        file.write('#!/bin/sh\nexit 0\n')
    os.chmod('/tmp/script', 0o755)
    os.execv('/tmp/script', ['script'])

def spawn():
    pid = os.posix_spawn('/bin/true', ['true'], {})
    os.waitpid(pid, 0)

def mapped(folder):
    with open(folder + '/code', 'w+b') as file:
        file.write(bytes(4096))
        file.flush()
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()

def library(folder):
    import _struct
    path = shutil.copy(getattr(_struct, '__file__', None) or '/lib/x86_64-linux-gnu/libdl.so.2', folder + '/library.so')
    ctypes.PyDLL(path)

ways = {
    'subprocess': lambda: subprocess.run(['/bin/true'], check=True),
    'a shell': lambda: os.system('true') and in_a_child(lambda: os.execv('/bin/sh', ['sh'])),
    'execv': lambda: in_a_child(lambda: os.execv('/bin/true', ['true'])),
    'memory': lambda: in_a_child(in_memory),
    'a script': lambda: in_a_child(script),
    'spawn': spawn,
}
for folder in FOLDERS:
    ways['map ' + folder] = lambda folder=folder: mapped(folder)
    ways['load ' + folder] = lambda folder=folder: library(folder)
for name, body in ways.items():
    print(name + ':', told(body))
"#;

const FOLDERS: [&str; 4] = ["/tmp", "/dev/shm", "/workspace", "/data"];

fn ways() -> String {
    format!("FOLDERS = {FOLDERS:?}\n{WAYS}")
}

/// What is printed where each way to start a program ends so, and each way to load machine code so.
fn all(start: &str, map: &str, load: &str) -> String {
    let started = ["subprocess", "a shell", "execv", "memory", "a script", "spawn"];
    let mut text: String = started.iter().map(|way| format!("{way}: {start}\n")).collect();
    for folder in FOLDERS {
        text.push_str(&format!("map {folder}: {map}\nload {folder}: {load}\n"));
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_starts_where_the_policy_says_so_and_each_does_otherwise() {
    let engine = engine();
    let cases = [
        ("", all("ran", "ran", "ran")),
        ("exec = true", all("ran", "ran", "ran")),
        ("exec = false", all("PermissionError EPERM", "PermissionError EPERM", "OSError")),
    ];
    for (exec, want) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("changed");
        let outcome = session(&engine, exec, folder.path()).run(ways()).await.expect("recorded");
        assert_eq!((outcome.stdout.as_str(), outcome.status), (want.as_str(), Status::Completed), "{exec} {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_run_the_code_itself_are_forked_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = "import multiprocessing\n\
                def work(end): end.send(6 * 7)\n\
                fork = multiprocessing.get_context('fork')\nours, theirs = fork.Pipe()\n\
                child = fork.Process(target=work, args=(theirs,))\nchild.start()\nfound = ours.recv()\nchild.join()\nfound";
    let outcome = session(&engine(), "exec = false", folder.path()).run(code).await.expect("recorded");
    assert_eq!(outcome.value, Some(Value::Int(42)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine();
    let mut session = session(&engine, "exec = false", folder.path());
    let outcome = session.exec(Command::new(["true"]).expect("a command")).await.expect("recorded");
    let why = "the policy `closed-in` lets no program be started; take `exec = false` out of its `[isolation]`";
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Denied, Some(why)));
    assert_eq!(outcome.tier, None, "no cell was opened");
    // The session goes on: it was asked for what it may not do, and did nothing.
    assert_eq!(session.run("1 + 1").await.expect("recorded").value, Some(Value::Int(2)));
}

/// Without control groups, and with his own rights.
#[test]
fn the_same_as_an_ordinary_user() {
    support::again_as_an_ordinary_user("the_same_as_an_ordinary_user");
}
