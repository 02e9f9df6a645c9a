//! Choosing and opening: what is looked at, what a failure is told as, and that nothing half-filled is left.
//!
//! Answers to: `choose.rs` and `session.rs`.

use ringfence_testkit::{FakeTier, Reply, Trace};
use ringfence_tier::{Event, Probe, TierFault};
use ringfence_types::{Considered, FileFault, FileReply, GuestPath, Source, Strength, TierName};

use crate::stage::{Stage, considered, cpython, done, embedded, run, told};

async fn explained(stage: &Stage, code: &str) -> String {
    let choice = stage.engine.explain(stage.request(""), code).await.unwrap();
    let row = |row: &Considered| format!("{} {}: {}\n", row.tier, if row.fit { "fits" } else { "no" }, row.why);
    choice.considered.iter().map(row).collect()
}

#[tokio::test]
async fn a_tier_without_a_package_is_passed_over() {
    let trace = Trace::new();
    let tiers = || {
        vec![
            embedded(&trace),
            cpython(TierName::Process, &trace).lacking("numpy"),
            cpython(TierName::Container, &trace).playing(None, vec![done(1)]),
        ]
    };
    let stage = Stage::new(&trace, tiers());
    let outcome = stage.session("").run(Source::new("import numpy"), &mut ()).await.unwrap();
    assert_eq!(told(&outcome), "completed container Int(1)");
    let monty = "monty: module numpy (line 1); rustpython: module numpy: not in the standard library (line 1)";
    let want = format!(
        "embedded no: can't run the program; {monty}\nprocess no: package `numpy` is not in the fake interpreter\n\
         container fits: runs CPython itself\n"
    );
    assert_eq!(considered(&outcome), want);
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).lacking("numpy")]);
    let optional = "try:\n    import numpy\nexcept ImportError:\n    numpy = None";
    let want = "process fits: runs CPython itself\nembedded no: not in this build\ncontainer no: not in this build\n";
    assert_eq!(explained(&stage, optional).await, want);
}

/// What the caller brings himself is not looked for in the interpreter; whether an import finds it, the run shows.
#[tokio::test]
async fn modules_that_the_caller_brings_are_not_missed() {
    let trace = Trace::new();
    let process = || {
        let script = vec![Reply::Event(Event::Filed(FileReply::Done)), done(1)];
        let lacking = cpython(TierName::Process, &trace).lacking("mymod").lacking("pack").lacking("native");
        lacking.lacking("other").playing(None, script)
    };
    for (file, code, want) in [
        ("/workspace/mymod.py", "import mymod", "completed process Int(1)"),
        ("/workspace/pack/inner.py", "import pack.inner", "completed process Int(1)"),
        ("/workspace/native.cpython-312-x86_64-linux-gnu.so", "import native", "completed process Int(1)"),
        (
            "/workspace/other.txt",
            "import other",
            "unsupported: no allowed tier can run the program (process: package `other` is not in the fake interpreter; \
             embedded: not in this build; container: not in this build)",
        ),
    ] {
        let stage = Stage::new(&trace, vec![process()]);
        let mut session = stage.session("[filesystem]\nworkspace = \"1MiB\"\n");
        session.put_file(GuestPath::resolve(file).unwrap(), Vec::new()).await.unwrap();
        assert_eq!(run(&mut session, code).await, want, "{file}");
    }
}

#[tokio::test]
async fn explain_looks_at_all_tiers() {
    let trace = Trace::new();
    let stage = Stage::new(&trace, vec![embedded(&trace), cpython(TierName::Process, &trace)]);
    let want = "embedded fits: engine `monty`\nprocess fits: runs CPython itself\ncontainer no: not in this build\n";
    assert_eq!(explained(&stage, "1").await, want);
    assert_eq!(stage.done(), "probe embedded; probe process");
}

#[tokio::test]
async fn what_is_missing_in_a_degraded_tier_is_told() {
    let trace = Trace::new();
    let probe = Probe::Degraded {
        strength: Strength::Process,
        missing: "no cgroups".to_owned(),
        remedy: "delegate a cgroup".to_owned(),
    };
    let stage =
        Stage::new(&trace, vec![cpython(TierName::Process, &trace).probing(probe).playing(None, vec![done(1)])]);
    let outcome = stage.session("").run(Source::new("1"), &mut ()).await.unwrap();
    let why = "runs CPython itself; degraded: no cgroups; delegate a cgroup";
    assert_eq!(outcome.chosen[0].why, why);
    assert_eq!(stage.details("tier_chosen")[0]["considered"][0]["why"], why);
    assert!(explained(&stage, "1").await.starts_with(&format!("process fits: {why}\n")));
}

#[tokio::test]
async fn a_tier_that_opens_no_cell_is_unavailable_and_the_session_stays() {
    let trace = Trace::new();
    let fault = TierFault::Open { tier: TierName::Process, why: "no memory".to_owned() };
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).failing(fault)]);
    let mut session = stage.session("");
    for _ in 0..2 {
        assert_eq!(run(&mut session, "1").await, "error: the process tier could not open a cell: no memory");
    }
    let once = "tier_chosen run_closed";
    assert_eq!(stage.log(), format!("{once} {once}"));
    assert_eq!(stage.details("run_closed")[0]["status"], "unsupported");
}

#[tokio::test]
async fn a_kill_reaches_a_tier_that_hangs_while_it_opens() {
    let trace = Trace::new();
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).hanging()]);
    let mut session = stage.session("");
    let handle = session.handle();
    let killer = async {
        crate::stage::until(&trace, "open process", 1).await;
        handle.kill("a test");
    };
    let (outcome, ()) = tokio::join!(run(&mut session, "1"), killer);
    assert_eq!(outcome, "killed: ended by a test");
    assert_eq!(stage.log(), "tier_chosen killed run_closed");
    let mut session = stage.session("");
    let handle = session.handle();
    let killer = async {
        crate::stage::until(&trace, "open process", 2).await;
        handle.kill("a test");
    };
    let (listed, ()) = tokio::join!(session.list_files(GuestPath::resolve("/").unwrap()), killer);
    assert_eq!(listed.unwrap_err().to_string(), "the session has ended: ended by a test; open a new one");
}

#[tokio::test]
async fn a_cell_that_could_not_be_filled_is_not_kept() {
    let trace = Trace::new();
    let refused = || Reply::Event(Event::Filed(FileReply::Fault(FileFault::NoSpace("/a".to_owned()))));
    let stage = Stage::new(&trace, vec![cpython(TierName::Process, &trace).playing(None, vec![refused(), done(1)])]);
    let mut session = stage.session("");
    session.put_file(GuestPath::resolve("/a").unwrap(), vec![1]).await.unwrap();
    for _ in 0..2 {
        let told = run(&mut session, "1").await;
        assert_eq!(told, format!("error: {}", FileFault::NoSpace("/a".to_owned())));
    }
    assert_eq!(stage.done(), ["probe process; open process; turn files; drop"; 2].join("; "));
}

#[tokio::test]
async fn mounts_are_copied_only_where_the_tier_does_not_bind_them() {
    let folder = std::env::temp_dir().join(format!("ringfence-seam-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "a").unwrap();
    let policy = format!("[filesystem]\nmounts = [{{ host = {folder:?}, at = \"/data\" }}]\n");
    let filed = || Reply::Event(Event::Filed(FileReply::Done));
    let story = |bound: bool| {
        let (policy, filed) = (policy.clone(), filed());
        async move {
            let trace = Trace::new();
            let mut capabilities = ringfence_tier::Tier::capabilities(&cpython(TierName::Process, &trace)).clone();
            capabilities.mounts_bound = bound;
            let tier = FakeTier::named(TierName::Process, capabilities, &trace);
            let stage = Stage::new(&trace, vec![tier.playing(None, vec![filed, done(1)])]);
            run(&mut stage.session(&policy), "1").await;
            stage.done()
        }
    };
    let copied = story(false).await;
    let bound = story(true).await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(copied, "probe process; open process; turn files; turn feed; drop");
    assert_eq!(bound, "probe process; open process; turn feed; drop");
}
