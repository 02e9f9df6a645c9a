//! Kill switches that stay set, and `ps` where nothing runs.

use crate::home::Home;

#[test]
fn a_hold_stays_until_it_is_released() {
    let home = Home::new();
    let run = ["run", "-c", "1"];
    home.check(&["ps"], (0, "PID  SESSION  RUN  TENANT  TIER  AGE  CALLS\n", ""));
    home.check(&["ps", "--json"], (0, "[]\n", ""));
    home.check(&["kill", "--all"], (0, "0 sessions ended\n", ""));
    home.check(
        &["kill", "--tenant", "local", "--hold", "--reason", "a test"],
        (0, "0 sessions ended\nheld: tenant:local; `ringfence resume tenant:local` releases it\n", ""),
    );
    home.check(&["holds"], (0, "TARGET        BY   REASON\ntenant:local  ada  a test\n", ""));
    home.check(
        &run,
        (3, "", "ringfence: a kill switch is set on `tenant:local`; `ringfence resume tenant:local` releases it\n"),
    );
    home.check(&["run", "--tenant", "other", "-c", "1"], (0, "1\n", ""));
    home.check(&["resume", "tenant:local"], (0, "released: tenant:local\n", ""));
    home.check(&run, (0, "1\n", ""));
    home.check(&["resume", "--all"], (0, "nothing is held\n", ""));
}

#[test]
fn what_cannot_be_killed_or_held_is_said() {
    let home = Home::new();
    home.check(
        &["kill", "nobody"],
        (2, "", "ringfence: `nobody` is neither a run (`run_…`) nor a session (`ses_…`); `ringfence ps` lists them\n"),
    );
    home.check(
        &["kill", "run_0"],
        (2, "0 sessions ended\n", "ringfence: no process has that run or session\nhint: `ringfence ps` lists them\n"),
    );
    home.check(&["resume", "x"], (2, "", "ringfence: a hold is on `all`, `tenant:NAME` or `function:NAME`\n"));
}

#[test]
fn kill_switches_that_cannot_be_read_stop_everything() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("state/ringfence")).expect("own folder");
    std::fs::write(home.path().join("state/ringfence/holds.json"), "{").expect("own folder");
    std::fs::set_permissions(home.path().join("state/ringfence"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("own folder");
    home.check(
        &["run", "-c", "1"],
        (2, "", "ringfence: `HOME/state/ringfence/holds.json` does not hold kill switches: invalid type: map, expected a sequence at line 1 column 0; mend or remove it, nothing runs until then\n"),
    );
}
