//! Copy-on-write mounts of the process tier: the host's folder stays as it is, and the difference is told.
//!
//! Answers to: the promises of `limitations/process.md` on them. Where the tier does not work the tests fail and say why.

mod support;

use std::fmt::Write as _;
use std::path::Path;

use ringfence::{Changes, Engine, Policy, Session, SessionError, Status};

fn engine() -> Engine {
    Engine::builder().worker(support::program()).warm(1).build().expect("an engine")
}

/// A folder of the host's with a file of each fate.
fn stage() -> tempfile::TempDir {
    let stage = tempfile::tempdir().expect("a temporary folder");
    let data = stage.path().join("data");
    for folder in ["sub", "gone", "again"] {
        std::fs::create_dir_all(data.join(folder)).expect("a new folder");
    }
    for (name, text) in [("a", "a"), ("same", "s"), ("sub/b", "b"), ("gone/c", "c"), ("again/d", "d"), ("again/e", "e")]
    {
        std::fs::write(data.join(name), text).expect("a new file");
    }
    stage
}

fn text(stage: &Path, tier: &str, more: &str) -> String {
    let host = stage.join("data");
    format!(
        "version = 1\n[isolation]\ntiers = [\"{tier}\"]\n[limits]\nwall = \"20s\"\nmemory = \"96MiB\"\n\
         disk = \"1MiB\"\n{more}\n[filesystem]\nmounts = [{{ host = {host:?}, at = \"/data\", mode = \"cow\" }}]\n"
    )
}

fn policy(stage: &Path, more: &str) -> Policy {
    Policy::parse(&text(stage, "process", more), "test").expect("a good policy")
}

fn session(engine: &Engine, stage: &Path) -> Session {
    engine.session(policy(stage, "")).expect("granted")
}

/// Runs what must go well.
async fn run(session: &mut Session, code: &str) {
    let outcome = session.run(code).await.expect("recorded");
    assert_eq!(outcome.status, Status::Completed, "{:?} {:?}", outcome.exception, outcome.reason);
}

/// `kind path size hash` a line, and what is left out.
fn told(changes: &Changes) -> String {
    let mut text = String::new();
    for change in &changes.changes {
        let (folder, hash) = (if change.folder { "/" } else { "" }, change.sha256.as_deref().unwrap_or("-"));
        let hash = hash.get(..8).unwrap_or(hash);
        let _ = writeln!(text, "{} {}{folder} {} {hash}", change.kind.as_str(), change.path, change.size);
    }
    for skipped in &changes.skipped {
        let _ = writeln!(text, "skipped {:?}: {}", skipped.path, skipped.why);
    }
    text
}

/// Every file below a folder with its text, in order.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).expect("below").display().to_string();
            match entry.file_type().expect("a kind").is_dir() {
                true => folders.push(path),
                false => found.push(format!("{name}={}", std::fs::read_to_string(&path).expect("text"))),
            }
        }
    }
    found.sort();
    found
}

const FATES: &str = "
import os, shutil
open('/data/a', 'a').write('more')
open('/data/same', 'a').close(); os.chmod('/data/same', 0o600)
open('/data/new', 'w').write('x')
os.remove('/data/sub/b')
shutil.rmtree('/data/gone')
shutil.rmtree('/data/again'); os.makedirs('/data/again/deep'); open('/data/again/d', 'w').write('n')
open('/data/fleeting', 'w').write('x'); os.remove('/data/fleeting')
";

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_folder_stays_and_the_difference_is_told() {
    let (engine, stage) = (engine(), stage());
    let before = files(stage.path());
    let mut session = session(&engine, stage.path());
    assert_eq!(told(&session.changes().await.expect("recorded")), "", "nothing ran yet");
    run(&mut session, FATES).await;
    let want = "\
changed /data/a 5 4c270de0
changed /data/again/d 1 1b16b1df
added /data/again/deep/ 0 -
removed /data/again/e 0 -
removed /data/gone/ 0 -
added /data/new 1 2d711642
removed /data/sub/b 0 -
";
    let changes = session.changes().await.expect("recorded");
    assert_eq!((told(&changes).as_str(), changes.complete), (want, true));
    assert_eq!(files(stage.path()), before);
    assert_eq!(session.changed_file("/data/a").await.expect("it is there"), b"amore");
    for missing in ["/data/same2", "/data/sub/b", "/etc/passwd", "/data"] {
        let refused = session.changed_file(missing).await.map_err(|error| error.to_string());
        assert_eq!(refused, Err(format!("no such file: `{missing}`")));
    }
    let other = self::session(&engine, stage.path()).run("open('/data/a').read()").await.expect("recorded");
    assert_eq!(other.value, Some(ringfence::Value::from("a")), "another session sees the host's");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_outlive_what_ended_the_session() {
    let (engine, stage) = (engine(), stage());
    let mut session = engine.session(policy(stage.path(), "cpu = \"100ms\"")).expect("granted");
    let code = "open('/data/new', 'w').write('x')\nwhile True: pass";
    let outcome = session.run(code).await.expect("recorded");
    assert_eq!(outcome.status, Status::Limited, "{:?}", outcome.reason);
    assert_eq!(told(&session.changes().await.expect("recorded")), "added /data/new 1 2d711642\n");
    assert_eq!(session.changed_file("/data/new").await.expect("it is there"), b"x");
}

const HOSTILE: &str = "
import os, socket
os.chdir('/data')
os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root')
os.link('a', 'twin')
socket.socket(socket.AF_UNIX).bind('/data/socket')
with open('sparse', 'wb') as f: f.truncate(1 << 20)
open('holes', 'wb').close(); os.truncate('holes', 900 << 10)
open(b'\\xff', 'w').write('x')
open('new\\nline', 'w').write('x'); open('\\x1b[31mred', 'w').write('x')
os.makedirs('/'.join(['d'] * 70)); open('/'.join(['d'] * 60) + '/f', 'w').write('x')
long = 'x' * 200
path = ''
for _ in range(6): path += long + '/'
os.makedirs(path)
try: os.mkfifo('pipe')
except PermissionError: pass
";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_trees_are_told_and_written_down_safely() {
    let (engine, stage) = (engine(), stage());
    let mut session = session(&engine, stage.path());
    run(&mut session, HOSTILE).await;
    let out = stage.path().join("out");
    let changes = session.save_changes(&out).await.expect("written");
    let skipped: Vec<String> =
        changes.skipped.iter().map(|skipped| format!("{}: {}", short(&skipped.path), skipped.why)).collect();
    let want = [
        "\"/data/\u{fffd}\": a name that is no text",
        "\"/data/a\": a file with several names",
        "\"/data/d/d*65\": deeper than 64 folders",
        "\"/data/link\": a symbolic link",
        "\"/data/root\": a symbolic link",
        "\"/data/socket\": neither a file nor a folder",
        "\"/data/sparse\": more than the limit on disk, holes included",
        "\"/data/twin\": a file with several names",
        "\"/data/x*1018\": a path longer than 1,024 bytes",
        "\"/data/\\u{1b}[31mred\": a name with control characters",
        "\"/data/new\\nline\": a name with control characters",
    ];
    assert_eq!(skipped, want);
    let deep = format!("files/data/{}f=x", "d/".repeat(60));
    let written: Vec<String> =
        files(&out).into_iter().filter(|file| !file.starts_with("changes.json") && !file.contains("holes")).collect();
    assert_eq!(written, [deep]);
    let list = std::fs::read_to_string(out.join("changes.json")).expect("a list");
    assert!(list.is_ascii() && !list.contains('\u{1b}'), "{list}");
    let read: Changes = serde_json::from_str(&list).expect("JSON");
    assert_eq!(read, changes);
}

/// A path with runs of one letter made short.
fn short(path: &str) -> String {
    let deep = "/d".repeat(65);
    let path = path.replace(&deep, "/d/d*65");
    let tail = path.trim_start_matches("/data/");
    match tail.starts_with("xxx") {
        true => format!("\"/data/x*{}\"", tail.len()),
        false => format!("{path:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_in_use_takes_no_changes() {
    let (engine, stage) = (engine(), stage());
    let mut session = session(&engine, stage.path());
    run(&mut session, "open('/data/new', 'w').write('x')").await;
    let taken = stage.path().join("data");
    let refused = session.save_changes(&taken).await.map(|_| ()).map_err(|error| error.to_string());
    let want = format!("`{}` is not empty; name a new or an empty folder for the changes", taken.display());
    assert_eq!(refused, Err(want));
    let missing = stage.path().join("none/out");
    assert!(matches!(session.save_changes(&missing).await, Err(SessionError::Save(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_full_is_named() {
    let (engine, stage) = (engine(), stage());
    let check = async |code: &str, want: &str| {
        let mut session = session(&engine, stage.path());
        let outcome = session.run(code).await.expect("recorded");
        let told = outcome.limit.map(|hit| format!("{} {} {}", hit.kind, hit.allowed, hit.reached));
        let told = format!("{} {told:?} {}", outcome.status.as_str(), outcome.reason.unwrap_or_default());
        assert_eq!(told, want, "{code}: {:?}", outcome.exception);
    };
    let full = |name: &str| {
        format!(
            "raised Some(\"disk 1048576 1048576\") the limit on disk struck: {name} is full, 1048576 bytes are allowed"
        )
    };
    let fill = |at: &str| format!("for n in range(3): open(f'{at}/{{n}}', 'wb').write(bytes(700 << 10))");
    check(&fill("/tmp"), &full("`/tmp`")).await;
    check(&fill("/data"), &full("what takes changes in copy-on-write mounts")).await;
    check(
        "for n in range(20000): open(f'/tmp/{n}', 'w').close()",
        "raised Some(\"disk 1048576 1048576\") \
        the limit on disk struck: `/tmp` is full, 16384 files and folders are allowed",
    )
    .await;
    // What the program says alone is not believed.
    check("raise OSError(28, 'No space left on device')", "raised None ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_that_cant_are_unfit_by_name() {
    let stage = stage();
    let text = text(stage.path(), "embedded", "");
    let policy = Policy::parse(&text, "test").expect("a good policy");
    let outcome = engine().session(policy).expect("granted").run("1").await.expect("recorded");
    let want = "no allowed tier can run the program (embedded: can't enforce what the policy asks for: copy-on-write \
                mounts; process: the policy does not allow it)";
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Unsupported, Some(want)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_such_a_mount_says_so() {
    let policy = Policy::parse("version = 1", "test").expect("a good policy");
    let refused =
        engine().session(policy).expect("granted").changes().await.map(|_| ()).map_err(|error| error.to_string());
    let want = "the policy mounts no folder copy-on-write; write `mode = \"cow\"` at one of `filesystem.mounts`";
    assert_eq!(refused, Err(want.to_owned()));
}

/// Without control groups, and with his own rights.
#[test]
fn the_same_as_an_ordinary_user() {
    support::again_as_an_ordinary_user("the_same_as_an_ordinary_user");
}
