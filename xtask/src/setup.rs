//! Installs what tests need and the machine lacks, asking nothing.
//!
//! Answers to: `test` and `bench`. Must not: install what is there already, or anything outside the target folder but
//! cargo's own programs and, for root on Debian, `python3-venv`.

use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::say;
use crate::stage::{self, Counted, Stage};
use crate::workspace::Workspace;

/// The test runner, at the version that its output is read by.
const NEXTEST: [&str; 5] = ["install", "--locked", "cargo-nextest", "--version", "0.9.143"];

/// The test runner, built where it is missing. That takes minutes, once.
pub fn nextest(workspace: &Workspace) -> Result<(), Fault> {
    if works(workspace.cargo(&["nextest", "--version"])) {
        return Ok(());
    }
    let report = stage::run(Stage::new("install cargo-nextest", workspace.cargo(&NEXTEST), Counted::Nothing));
    if report.is_good() {
        return Ok(());
    }
    Err(Fault::Missing {
        tool: "cargo nextest".to_owned(),
        why: report.note,
        remedy: "install it with `cargo install --locked cargo-nextest`".to_owned(),
    })
}

/// Whether the command starts and succeeds; what it prints is not shown.
pub fn works(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs a Debian package where this is root on Debian. Whether it is there afterwards is for the caller to try.
pub fn debian_package(workspace: &Workspace, package: &str) {
    let mut apt = workspace.command("apt-get");
    apt.arg("--version");
    if !is_root() || !works(apt) {
        return;
    }
    say::progress(&format!("installing the Debian package {package}"));
    let mut update = workspace.command("apt-get");
    update.args(["update", "--quiet"]);
    let mut install = workspace.command("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "--yes", "--no-install-recommends", package]);
    // A package index that can't be refreshed may still hold the package.
    let _ = works(update);
    let _ = works(install);
}

/// Whether this process is root's: it owns its own folder below `/proc`.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
