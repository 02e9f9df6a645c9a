//! Commands in the process tier's jail, through the library and the command line: ends, bytes, limits, and what is left.
//!
//! Answers to: the promises of `SPECIFICATION.md` on commands. Where the tier does not work the tests fail and say why.

use std::io::Write;
use std::process::{Command as Process, Output, Stdio};
use std::time::{Duration, Instant};

use ringfence::{Command, Engine, LimitKind, Policy, Session, Status, Stdin, Value};

const POLICY: &str = "version = 1\n[isolation]\ntiers = [\"process\"]\n[limits]\nwall = \"20s\"\ncpu = \"10s\"\n\
                      memory = \"96MiB\"\nprocesses = 12\noutput = \"256KiB\"\n[filesystem]\nworkspace = \"8MiB\"\n";

fn engine() -> Engine {
    Engine::builder().worker(env!("CARGO_BIN_EXE_ringfence")).warm(1).build().expect("an engine")
}

fn session_of(engine: &Engine, policy: &str) -> Session {
    engine.session(Policy::parse(policy, "test").expect("a good policy")).expect("granted")
}

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script]).expect("a good command")
}

async fn exec(script: &str) -> ringfence::Outcome {
    session_of(&engine(), POLICY).exec(sh(script)).await.expect("recorded")
}

/// The script's outcome in one line: status, exit code, both outputs.
async fn check(script: &str, want: &str) {
    let outcome = exec(script).await;
    let code = outcome.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
    let reason = outcome.reason.unwrap_or_default();
    assert_eq!(
        format!("{} {code} {:?} {:?} {reason}", outcome.status.as_str(), outcome.stdout, outcome.stderr).trim_end(),
        want,
        "{script}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commands_end_is_its_exit_code() {
    check("echo out; echo err >&2; exit 7", "completed 7 \"out\\n\" \"err\\n\"").await;
    check("true", "completed 0 \"\" \"\"").await;
    check("kill -9 $$", "completed 137 \"\" \"\"").await;
    check("kill -PIPE $$", "completed 141 \"\" \"\"").await;
    // The usual dispositions of signals: this ends by one, without a word.
    check("yes | head -n 1", "completed 0 \"y\\n\" \"\"").await;
    check("pwd; echo $PWD; umask", "completed 0 \"/workspace\\n/workspace\\n0022\\n\" \"\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_unsupported_in_one_line() {
    let refused = async |name: &str, want: &str| {
        let command = Command::new([name]).expect("a name");
        let outcome = session_of(&engine(), POLICY).exec(command).await.expect("recorded");
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Unsupported, Some(want)), "{name}");
    };
    let not_there = "in the jail, which has the system's tools under /usr/bin and /bin and what the policy mounts";
    refused("no-such-tool", &format!("no command `no-such-tool` {not_there}")).await;
    refused("/no/such/tool", &format!("no command `/no/such/tool` {not_there}")).await;
    let unread = "may not be run: it is no program, or the jail does not let it be read";
    refused("/etc/passwd", &format!("`/etc/passwd` {unread}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_locked_as_a_session_is() {
    let seen =
        exec("grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status; id -u; ls /proc | grep -c '^1$'").await;
    let want = "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    assert!(seen.stdout.starts_with(want), "{}{}", seen.stdout, seen.stderr);
    check("mount -t tmpfs x /tmp 2>/dev/null; echo $?", "completed 0 \"32\\n\" \"\"").await;
    check("unshare -U true 2>/dev/null; echo $?", "completed 0 \"1\\n\" \"\"").await;
    check("(echo x > /usr/x) 2>/dev/null; echo $?", "completed 0 \"2\\n\" \"\"").await;
    // Neither variables nor descriptors of the host's.
    check("env | cut -d= -f1 | sort | tr '\\n' ' '", "completed 0 \"HOME LANG PATH PWD TZ \" \"\"").await;
    check("ls /proc/self/fd | tr '\\n' ' '", "completed 0 \"0 1 2 3 \" \"\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_comes_whole_and_output_as_it_is() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let mut written = Vec::new();
    let command = Command::new(["cat"]).expect("a command").reading(Stdin::Bytes(every_byte.clone()));
    let mut session = session_of(&engine(), POLICY);
    let outcome = session
        .exec_watched(command, |progress| {
            if let ringfence::Progress::Output(_, bytes) = progress {
                written.extend_from_slice(bytes);
            }
        })
        .await
        .expect("recorded");
    assert_eq!((outcome.status, outcome.exit_code), (Status::Completed, Some(0)));
    assert!(written == every_byte, "{} bytes of {}", written.len(), every_byte.len());
    // A command that reads nothing is no fault, and neither is a second one in the same session.
    let deaf = sh("exit 3").reading(Stdin::Bytes(every_byte));
    assert_eq!(session.exec(deaf).await.expect("recorded").exit_code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_programs_share_files_and_keep_their_state() {
    let mut session = session_of(&engine(), POLICY);
    session.put_file("/workspace/a.txt", "3\n1\n2\n").await.expect("room");
    let sorted = session.exec(sh("sort a.txt > b.txt")).await.expect("recorded");
    assert_eq!(sorted.exit_code, Some(0), "{}", sorted.stderr);
    let read = session.run("x = open('b.txt').read(); open('c.txt', 'w').write('from python'); x").await;
    assert_eq!(read.expect("recorded").value, Some(Value::from("1\n2\n3\n")));
    assert_eq!(session.exec(sh("cat c.txt")).await.expect("recorded").stdout, "from python");
    assert_eq!(session.run("x").await.expect("recorded").value, Some(Value::from("1\n2\n3\n")));
    assert_eq!(session.get_file("/workspace/b.txt").await.expect("there"), b"1\n2\n3\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_name_themselves() {
    let limited = async |policy: &str, script: &str, want: LimitKind| {
        let outcome = session_of(&engine(), policy).exec(sh(script)).await.expect("recorded");
        let kind = outcome.limit.map(|hit| hit.kind);
        assert_eq!((outcome.status, kind), (Status::Limited, Some(want)), "{script}: {:?}", outcome.reason);
    };
    let short = POLICY.replace("20s", "500ms");
    limited(&short, "sleep 60", LimitKind::Wall).await;
    limited(&POLICY.replace("\"10s\"", "\"300ms\""), "while :; do :; done", LimitKind::Cpu).await;
    // Contained by the limit on processes, ended by the clock.
    limited(&short, "f() { f | f & }; f 2>/dev/null; sleep 60", LimitKind::Wall).await;
    limited(POLICY, "cat /dev/zero", LimitKind::Output).await;
    if is_root() {
        limited(POLICY, "x=$(head -c 300000000 /dev/zero | tr '\\0' a); echo ${#x}", LimitKind::Memory).await;
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").expect("/proc").contains("\nUid:\t0\t")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_command_left_behind_outlives_its_session() {
    let mark = format!("86{}", std::process::id());
    let mut session = session_of(&engine(), POLICY);
    let started = session.exec(sh(&format!("setsid sleep {mark} >/dev/null 2>&1 & echo started"))).await;
    assert_eq!(started.expect("recorded").stdout, "started\n");
    // `setsid` becomes `sleep` in its own time.
    assert!(come_to(&mark, 1).await, "it lives on while the session does");
    drop(session);
    assert!(come_to(&mark, 0).await, "it is gone with its session");
}

/// Whether there come to be so many sleepers, within a time that no machine needs.
async fn come_to(mark: &str, count: usize) -> bool {
    let patience = Instant::now() + Duration::from_secs(10);
    while sleepers(mark) != count {
        if Instant::now() > patience {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

fn sleepers(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let line = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    entries.map(line).filter(|line| line.starts_with(format!("sleep\0{mark}\0").as_bytes())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_tier_runs_no_commands() {
    let policy = "version = 1\n[isolation]\ntiers = [\"embedded\"]\n";
    let outcome = session_of(&engine(), policy).exec(sh("true")).await.expect("recorded");
    let why = "no allowed tier can run the command (embedded: runs Python only, no commands; process: the policy does \
               not allow it)";
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Unsupported, Some(why)));
    let mut begun = session_of(&engine(), &policy.replace("\"embedded\"", "\"embedded\", \"process\""));
    assert_eq!(begun.run("1+1").await.expect("recorded").status, Status::Completed);
    let outcome = begun.exec(sh("true")).await.expect("recorded");
    let why = "this session is in the `embedded` tier, which runs Python only, no commands; begin the session with the \
               command, or name `process` alone in `[isolation] tiers` of its policy";
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Unsupported, Some(why)));
}

fn cli(arguments: &[&str], input: &[u8]) -> Output {
    let state = tempfile::tempdir().expect("a folder");
    let mut child = Process::new(env!("CARGO_BIN_EXE_ringfence"))
        .arg("exec")
        .args(arguments)
        .env("XDG_STATE_HOME", state.path())
        .env("XDG_RUNTIME_DIR", state.path())
        .env("HOST_SECRET", "not for the command")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    // A command that does not read its input closes it.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn the_command_line_passes_bytes_and_codes_on() {
    let check = |arguments: &[&str], input: &[u8], code: i32, stdout: &[u8], stderr: &str| {
        let found = cli(arguments, input);
        let told = String::from_utf8_lossy(&found.stderr).into_owned();
        assert_eq!((found.status.code(), told.as_str()), (Some(code), stderr), "{arguments:?}");
        assert!(found.stdout == stdout, "{arguments:?}: {:?}", String::from_utf8_lossy(&found.stdout));
    };
    check(&["--", "sh", "-c", "printf '\\377\\0x'; echo no >&2; exit 5"], b"", 5, b"\xff\0x", "no\n");
    check(&["--", "cat"], b"\0\xfe input", 0, b"\0\xfe input", "");
    check(&["--env", "A=b", "--", "sh", "-c", "echo $A $HOST_SECRET"], b"", 0, b"b\n", "");
    check(&["--folder", "/tmp", "--", "pwd"], b"", 0, b"/tmp\n", "");
    let cut = "ringfence: the output was cut: 6 bytes are missing; the command itself ended with 0\n\
               hint: raise it with `--output SIZE`, or `output` under `[limits]`\n";
    check(&["--output", "4B", "--", "echo", "123456789"], b"", 4, b"1234", cut);
    let wall = "ringfence: the limit on wall struck: 200 ms allowed\n\
                hint: give `--wall`, or raise `limits.wall` in the policy\n";
    check(&["--wall", "200ms", "--", "sleep", "60"], b"", 4, b"", wall);
    let none = "ringfence: no command `nothing` in the jail, which has the system's tools under /usr/bin and /bin and \
                what the policy mounts\n";
    check(&["--", "nothing"], b"", 5, b"", none);
    check(
        &["--", ""],
        b"",
        2,
        b"",
        "ringfence: no command is named; give a program and its arguments, such as `ls -l`\n",
    );
}

#[test]
fn the_outcome_as_json_has_the_exit_code() {
    let found = cli(&["--json", "--", "sh", "-c", "echo hi; exit 3"], b"");
    let outcome: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(found.status.code(), Some(3));
    assert_eq!(
        (&outcome["status"], &outcome["exit_code"], &outcome["stdout"]),
        (&"completed".into(), &3.into(), &"hi\n".into())
    );
}
