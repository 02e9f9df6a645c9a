//! `ringfence audit`: show, verify and export logs.
//!
//! Answers to: `lib`. Must not: write to a log, or print a record's bytes as they are.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ringfence_api::Code;
use ringfence_audit::{
    PublicKey, Record, Report, Verdict, escape, record, render, to_ocsf, verify_file, verify_file_unanchored,
};
use serde_json::json;

use crate::args::{AuditCommand, AuditShowArgs};
use crate::fault::{Fault, plain};
use crate::folders;
use crate::opened::default_log;
use crate::printer::Printer;

/// The longest line that is read; the log's writer keeps far below.
const LINE_MAX: u64 = 1 << 20;

/// Runs it and gives the exit code.
pub fn audit(command: AuditCommand, printer: &mut Printer) -> Result<u8, Fault> {
    match command {
        AuditCommand::Show(args) => show(&args, printer),
        AuditCommand::Verify { file, key, unanchored, json } => {
            let path = path(file)?;
            let report = checked(&path, key.as_deref(), unanchored)?;
            Ok(tell(&path, &report, unanchored, json, printer))
        }
        AuditCommand::Export { file, format: crate::args::ExportFormat::Ocsf } => export(&path(file)?, printer),
    }
}

fn path(given: Option<PathBuf>) -> Result<PathBuf, Fault> {
    given.map_or_else(|| Ok(default_log(folders::state()?)), Ok)
}

/// What is read of a log: a record, or lines that are none, from one number to another.
enum Found {
    Record(Box<Record>),
    Strange(u64, u64),
}

/// Calls `each` for every record, and once for lines behind one another that are none. A file without a record is no log.
fn each_record(path: &Path, mut each: impl FnMut(Found)) -> Result<(), Fault> {
    let unreadable = |error: std::io::Error| Fault::file(path, "read", &error);
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(Fault::usage(format!("`{}` is a folder; name a log", path.display())));
    }
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let (mut records, mut strange) = (0_u64, None);
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
        let record = Record::parse(line.strip_suffix(b"\n").unwrap_or(&line));
        if let Some((first, last)) = strange.filter(|_| record.is_some() || (read == 0 && records > 0)) {
            each(Found::Strange(first, last));
            strange = None;
        }
        match record {
            Some(record) => {
                records += 1;
                each(Found::Record(Box::new(record)));
            }
            None if read == 0 => break,
            None => strange = Some((strange.map_or(number, |(first, _)| first), number)),
        }
    }
    if strange.is_some() { Err(Fault::usage(no_log(path))) } else { Ok(()) }
}

fn no_log(path: &Path) -> String {
    format!("`{}` is not an audit log: none of its lines is a record", path.display())
}

fn show(args: &AuditShowArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let path = path(args.file.clone())?;
    let wanted = |record: &Record| {
        let is = |id: &Option<String>, run: &String| id.as_ref() == Some(run);
        args.run.as_ref().is_none_or(|run| is(&record.run, run) || is(&record.session, run))
            && args.event.as_ref().is_none_or(|event| record.event == *event)
    };
    let filtered = args.run.is_some() || args.event.is_some();
    let mut last: VecDeque<String> = VecDeque::new();
    let most = args.tail.unwrap_or(usize::MAX);
    let mut found = false;
    each_record(&path, |read| {
        let text = match read {
            Found::Record(record) if !wanted(&record) => return,
            Found::Record(record) if args.json => record::to_line(&record).unwrap_or_default(),
            Found::Record(record) => render(&record),
            Found::Strange(..) if args.json || filtered => return,
            Found::Strange(first, last) => strange(first, last),
        };
        found = true;
        if args.tail.is_none() {
            printer.line(&text);
            return;
        }
        last.push_back(text);
        if last.len() > most {
            last.pop_front();
        }
    })?;
    last.iter().for_each(|text| printer.line(text));
    if filtered && !found {
        printer.note("no record of this log is of that kind");
    }
    Ok(0)
}

fn strange(first: u64, last: u64) -> String {
    let lines = if first == last {
        format!("line {first} is not a record")
    } else {
        format!("lines {first} to {last} are not records")
    };
    format!("{lines}; `ringfence audit verify` tells more")
}

/// The verifier's report. A file that is no log has none.
fn checked(path: &Path, key: Option<&str>, unanchored: bool) -> Result<Report, Fault> {
    File::open(path).map_err(|error| Fault::file(path, "read", &error))?;
    let verify = if unanchored { verify_file_unanchored } else { verify_file };
    let report = verify(path, key.map(public_key).transpose()?)?;
    match report.is_no_log() {
        // Something was signed for here: the log was overwritten.
        true if report.key_checked => Err(Fault::new(Code::AuditFailed, no_log(path))),
        true => Err(Fault::usage(no_log(path))),
        false => Ok(report),
    }
}

/// Prints the report and gives the exit code.
fn tell(path: &Path, report: &Report, unanchored: bool, as_json: bool, printer: &mut Printer) -> u8 {
    let verdict = report.verdict();
    if as_json {
        let mut answer = json!(report);
        if let Some(members) = answer.as_object_mut() {
            members.insert("verdict".to_owned(), json!(verdict));
        }
        printer.line(&answer.to_string());
    } else {
        report.findings.iter().for_each(|finding| printer.line(&escape(&finding.to_string(), 1000)));
        printer.line(&format!("{}: {report}", path.display()));
    }
    match verdict {
        Verdict::Intact | Verdict::Unfinished => 0,
        Verdict::Unanchored if unanchored => 0,
        Verdict::Unanchored => {
            printer.note("put the log's `.pub` and `.head` back beside it, or take what is there by `--unanchored`");
            Code::AuditUnanchored.row().exit
        }
        Verdict::Broken => Code::AuditFailed.row().exit,
    }
}

/// The key itself in hexadecimal, or a file that holds it.
fn public_key(given: &str) -> Result<PublicKey, Fault> {
    if let Ok(key) = given.parse() {
        return Ok(key);
    }
    let mut text = String::new();
    let read = File::open(given).and_then(|file| file.take(1000).read_to_string(&mut text));
    read.map_err(|error| {
        let shown = escape(given, 100);
        Fault::usage(format!("`{shown}` is neither a public key nor a file that holds one: {}", plain(&error)))
    })?;
    text.parse().map_err(Fault::usage)
}

fn export(path: &Path, printer: &mut Printer) -> Result<u8, Fault> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut bad = 0_u64;
    each_record(path, |read| match read {
        Found::Record(record) => printer.line(&to_ocsf(&record, &host).to_string()),
        Found::Strange(first, last) => bad += last - first + 1,
    })?;
    if bad > 0 {
        printer.note(&format!("{bad} lines are not records and were left out; `ringfence audit verify` tells more"));
    }
    Ok(0)
}
