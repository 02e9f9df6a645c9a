//! Reads what the command line names: programs, inputs, files, policies.
//!
//! Answers to: the commands. Must not: read without bound, or panic on anything that a file holds.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use ringfence_analysis::{InputNameFault, input_name};
use ringfence_policy::Policy;
use ringfence_types::exact::parse_exact;
use ringfence_types::json::from_json;
use ringfence_types::{GuestPath, Source, Value};

use crate::args::{ProgramArgs, SessionArgs};
use crate::fault::{Fault, plain};

/// The most bytes of a program or of its standard input.
const TEXT_MAX: u64 = 16 << 20;
/// The most bytes of a policy file.
const POLICY_MAX: u64 = 1 << 20;
/// The most bytes of a file that is put into a session.
const FILE_MAX: u64 = 64 << 20;

/// The program as a source.
pub fn program(args: &ProgramArgs) -> Result<Source, Fault> {
    if let Some(code) = &args.code {
        return Ok(Source::new(code.clone()));
    }
    let Some(file) = &args.file else { return Err(Fault::usage("name a program: a file, `-` or `-c CODE`")) };
    if file.as_os_str() == "-" {
        return Ok(Source::new(text(file, "standard input")?));
    }
    let code = text(file, "the program")?;
    let code = code.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(code);
    // The file's name alone: where it lies on the host is not the guest's business.
    let name = file.file_name().map_or_else(|| "main.py".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Source { file: name, ..Source::new(code) })
}

/// A whole text in UTF-8; `-` is standard input.
pub fn text(path: &Path, what: &str) -> Result<String, Fault> {
    let bytes = bytes(path, TEXT_MAX)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let name = if path.as_os_str() == "-" { what.to_owned() } else { format!("`{}`", path.display()) };
        Fault::usage(format!("{name} is not UTF-8 (line {line})")).hint("save it as UTF-8")
    })
}

fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, Fault> {
    let mut content = Vec::new();
    if path.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // Whoever typed `-` by hand sees what is waited for.
            crate::printer::Printer::default().note("reading standard input up to Ctrl-D");
        }
        let read = stdin.lock().take(most + 1).read_to_end(&mut content);
        read.map_err(|error| Fault::usage(format!("standard input can't be read: {}", plain(&error))))?;
    } else {
        let unreadable = |error: io::Error| Fault::file(path, "read", &error);
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(Fault::usage(format!("`{}` is a folder; name a file", path.display())));
        }
        file.take(most + 1).read_to_end(&mut content).map_err(unreadable)?;
    }
    if content.len() as u64 > most {
        return Err(Fault::usage(format!("`{}` is larger than {} MiB", path.display(), most >> 20)));
    }
    Ok(content)
}

/// What a program reads as its standard input.
pub fn stdin(path: Option<&Path>) -> Result<String, Fault> {
    path.map_or_else(|| Ok(String::new()), |path| text(path, "standard input"))
}

/// `NAME=JSON`, each.
pub fn inputs(given: &[String]) -> Result<Vec<(String, Value)>, Fault> {
    let mut inputs: Vec<(String, Value)> = Vec::new();
    for item in given {
        let (name, value) = input(item)?;
        if inputs.iter().any(|(other, _)| *other == name) {
            return Err(Fault::usage(format!("the input `{name}` is given twice")));
        }
        inputs.push((name, value));
    }
    Ok(inputs)
}

fn input(item: &str) -> Result<(String, Value), Fault> {
    let shown: String = item.chars().take(80).collect();
    let Some((name, json)) = item.split_once('=') else {
        return Err(Fault::usage(format!("the input `{shown}` has no `=`")).hint("write it as `--input days=3`"));
    };
    let as_read = input_name(name).map_err(|why| name_fault(name, why))?;
    let json = parse_exact(json).map_err(|error| {
        let message = format!("the input `{name}` is not JSON: {error}");
        Fault::usage(message).hint(format!("write text in quotes: `--input '{name}=\"text\"'`"))
    })?;
    let value = from_json(&json, name).map_err(Fault::usage)?;
    Ok((as_read, value))
}

/// Why a name can't be an input's; it may be as long as an argument can be.
fn name_fault(name: &str, why: InputNameFault) -> Fault {
    let shown: String = name.chars().take(80).collect();
    Fault::usage(format!("the input `{shown}` {why}")).hint("an input is a variable of the program, such as `days`")
}

/// Files to put into a session: where, and what.
pub fn files(given: &[String]) -> Result<Vec<(GuestPath, Vec<u8>)>, Fault> {
    given.iter().map(|item| file(item)).collect()
}

fn file(item: &str) -> Result<(GuestPath, Vec<u8>), Fault> {
    let Some((host, guest)) = item.rsplit_once(':').filter(|(host, guest)| !host.is_empty() && !guest.is_empty())
    else {
        let fault = Fault::usage(format!("`{item}` does not say where the file goes"));
        return Err(fault.hint("write it as `--file data.csv:/workspace/data.csv`"));
    };
    let guest = GuestPath::resolve(guest).map_err(Fault::usage)?;
    Ok((guest, bytes(Path::new(host), FILE_MAX)?))
}

/// The policy that the options make: the file's, or the closed one.
pub fn policy(args: &SessionArgs) -> Result<Policy, Fault> {
    let mut policy = match &args.policy {
        Some(path) => policy_file(path)?,
        None if args.exports.is_some() => Policy::closed().allowing_declared_functions(),
        None => Policy::closed(),
    };
    policy = policy.with_limits(args.limits.overrides())?;
    if let Some(tier) = args.tier {
        policy = policy.with_tier(tier)?;
    }
    Ok(rebased(policy, args.policy.as_deref()))
}

/// A policy file, its paths as they are written.
pub fn policy_file(path: &Path) -> Result<Policy, Fault> {
    let bytes = bytes(path, POLICY_MAX)?;
    let origin = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|_| Fault::usage(format!("`{origin}` is not UTF-8")))?;
    Ok(Policy::parse(&text, &origin)?)
}

/// The policy with its paths taken from where its file is. In full, so that the policy is the same one, and its
/// snapshots can be taken up, from whatever folder the command is given.
pub fn rebased(policy: Policy, file: Option<&Path>) -> Policy {
    let full = file.and_then(|file| std::path::absolute(file).ok());
    match full.as_deref().and_then(Path::parent) {
        Some(folder) => policy.with_paths_from(folder),
        None => policy,
    }
}

/// The policy's own audit log, where it names one.
pub fn policy_log(policy: &Policy) -> Option<PathBuf> {
    policy.audit_log().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_names_and_json() {
        let check = |item: &str, want: Result<(&str, Value), &str>| {
            let found = input(item).map_err(|fault| fault.to_string());
            assert_eq!(found, want.map(|(name, value)| (name.to_owned(), value)).map_err(str::to_owned));
        };
        check("days=3", Ok(("days", Value::Int(3))));
        check("größe=\"a=b\"", Ok(("größe", Value::from("a=b"))));
        check("days", Err("the input `days` has no `=`"));
        check("n=100000000000000000001", Ok(("n", Value::int(10_u128.pow(20).wrapping_add(1).into()))));
        check("ﬁx=3", Ok(("fix", Value::Int(3))));
        check("match=3", Ok(("match", Value::Int(3))));
        check("1x=3", Err("the input `1x` is no name of Python's: letters, digits and `_`, no digit first"));
        check("x²=3", Err("the input `x²` is no name of Python's: letters, digits and `_`, no digit first"));
        check("=3", Err("the input `` is no name of Python's: letters, digits and `_`, no digit first"));
        check("x.y=3", Err("the input `x.y` is no name of Python's: letters, digits and `_`, no digit first"));
        check("class=3", Err("the input `class` is a keyword of Python"));
        check("None=3", Err("the input `None` is a keyword of Python"));
        check("x=abc", Err("the input `x` is not JSON: expected value at line 1 column 1"));
        check("x={\"$type\":\"odd\"}", Err("`x` is not a value: unknown `$type` `odd`"));
    }
}
