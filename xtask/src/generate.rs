//! `cargo xtask generate`: the text that comes from code, written or, with `--check`, compared.
//!
//! Answers to: people and CI. Must not: hold a table of its own; every line here is what a built program says.

use std::path::Path;
use std::process::Command;

use crate::arguments::Arguments;
use crate::fault::Fault;
use crate::say;
use crate::workspace::Workspace;

const NOTE: &str = "<!-- Written by `cargo xtask generate`. Change the code, not this file. -->";
/// Deeper than any command is.
const MAX_DEPTH: usize = 4;

/// Writes or checks every file; whether none has drifted.
pub fn run(workspace: &Workspace, typed: &[String]) -> Result<bool, Fault> {
    let mut arguments = Arguments::new(typed);
    let check = arguments.flag("--check");
    arguments.finish()?;
    workspace.build_programs()?;
    let mut files = vec![("docs/exit-codes.md", exit_codes(workspace)?)];
    if workspace.has("crates/cli") {
        files.push(("docs/cli.md", command_line(workspace)?));
        files.push(("docs/policy.md", format!("{NOTE}\n\n{}", said(workspace, &["policy", "reference"])?)));
        files.push(("docs/policy.schema.json", said(workspace, &["policy", "schema"])?));
    } else {
        say::progress(
            "there is no `crates/cli` in this tree: docs/cli.md, docs/policy.md and docs/policy.schema.json are left alone",
        );
    }
    let mut is_good = true;
    for (name, text) in files {
        is_good &= if check { is_current(workspace, name, &text)? } else { write(workspace, name, &text)? };
    }
    Ok(is_good)
}

fn write(workspace: &Workspace, name: &str, text: &str) -> Result<bool, Fault> {
    let path = workspace.path(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Fault::writing(folder))?;
    }
    std::fs::write(&path, text).map_err(Fault::writing(&path))?;
    say::progress(&format!("wrote {name}"));
    Ok(true)
}

fn is_current(workspace: &Workspace, name: &str, text: &str) -> Result<bool, Fault> {
    let path = workspace.path(name);
    let there = match std::fs::read_to_string(&path) {
        Ok(there) => there,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Fault::reading(path)(error)),
    };
    match first_difference(&there, text) {
        None => {
            say::progress(&format!("{name} is as the code says"));
            Ok(true)
        }
        Some(line) => {
            say::error(&format!("{name}:{line} is not what the code says; run `cargo xtask generate` and commit it"));
            Ok(false)
        }
    }
}

/// The first line, from 1, in which two texts differ.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one == other {
        return None;
    }
    let same = one.lines().zip(other.lines()).take_while(|(left, right)| left == right).count();
    Some(same + 1)
}

fn exit_codes(workspace: &Workspace) -> Result<String, Fault> {
    let table = output(workspace.command(workspace.program("examples/exit_codes")))?;
    Ok(format!("{NOTE}\n\n# Statuses, errors and exit codes\n\n{table}"))
}

fn command_line(workspace: &Workspace) -> Result<String, Fault> {
    let mut text = format!("{NOTE}\n\n# Command line\n");
    describe(workspace, &mut Vec::new(), &mut text)?;
    Ok(text)
}

/// One command's help, then those of its subcommands.
fn describe(workspace: &Workspace, path: &mut Vec<String>, text: &mut String) -> Result<(), Fault> {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = said(workspace, &arguments)?;
    let name = std::iter::once("ringfence").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    text.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim()));
    if path.len() < MAX_DEPTH {
        for command in subcommands(&help) {
            path.push(command);
            describe(workspace, path, text)?;
            path.pop();
        }
    }
    Ok(())
}

/// The names under `Commands:`, each two spaces in; `help` describes nothing of its own.
fn subcommands(help: &str) -> Vec<String> {
    let section = help.lines().skip_while(|line| line.trim_end() != "Commands:").skip(1);
    let names = section.take_while(|line| !line.trim().is_empty()).filter_map(|line| {
        let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        rest.split_whitespace().next().filter(|name| *name != "help").map(str::to_owned)
    });
    names.collect()
}

/// What the built program prints.
fn said(workspace: &Workspace, arguments: &[&str]) -> Result<String, Fault> {
    let mut command = workspace.command(workspace.program("ringfence"));
    command.args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100").env("TERM", "dumb");
    output(command)
}

fn output(mut command: Command) -> Result<String, Fault> {
    let program = Path::new(command.get_program()).to_path_buf();
    let output = command.output().map_err(Fault::reading(&program))?;
    let text = String::from_utf8(output.stdout).ok();
    let shown = || {
        let arguments = command.get_args().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ");
        format!("{} {arguments}", program.display()).trim_end().to_owned()
    };
    match text {
        Some(text) if output.status.success() && !text.is_empty() => Ok(text.trim_end().to_owned() + "\n"),
        _ => {
            say::error(String::from_utf8_lossy(&output.stderr).trim());
            Err(Fault::Unclear { program: shown(), expected: "text to take over" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_found() {
        let help = "Runs Python\n\nUsage: ringfence COMMAND\n\nCommands:\n  run     Runs a file\n          and shows\n  \
                    policy  Looks at policies\n  help    Prints this\n\nOptions:\n  -h, --help\n";
        assert_eq!(subcommands(help), ["run", "policy"]);
        assert_eq!(subcommands("Usage: ringfence run\n\nOptions:\n  -h"), Vec::<String>::new());
    }

    #[test]
    fn drift_is_found_by_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
        assert_eq!(first_difference("a\n", "a"), Some(2));
    }
}
