//! `ringfence audit`: show, verify and export logs.
//!
//! Answers to: `lib`. Must not: write to a log, or print a record's bytes as they are.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ringfence_api::Code;
use ringfence_audit::{PublicKey, Record, Verdict, escape, record, render, to_ocsf, verify_file};
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
        AuditCommand::Verify { file, key, json } => verify(&path(file)?, key.as_deref(), json, printer),
        AuditCommand::Export { file, format: crate::args::ExportFormat::Ocsf } => export(&path(file)?, printer),
    }
}

fn path(given: Option<PathBuf>) -> Result<PathBuf, Fault> {
    given.map_or_else(|| Ok(default_log(folders::state()?)), Ok)
}

/// Calls `each` for every line; a line that is no record comes as `None`.
fn each_record(path: &Path, mut each: impl FnMut(u64, Option<Record>)) -> Result<(), Fault> {
    let unreadable = |error: std::io::Error| Fault::file(path, "read", &error);
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(Fault::usage(format!("`{}` is a folder; name a log", path.display())));
    }
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        each(number, Record::parse(line.strip_suffix(b"\n").unwrap_or(&line)));
    }
    Ok(())
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
    each_record(&path, |number, found| {
        let text = match found {
            Some(record) if !wanted(&record) => return,
            Some(record) if args.json => record::to_line(&record).unwrap_or_default(),
            Some(record) => render(&record),
            None if args.json || filtered => return,
            None => format!("line {number} is not a record; `ringfence audit verify` tells more"),
        };
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
    Ok(0)
}

fn verify(path: &Path, key: Option<&str>, as_json: bool, printer: &mut Printer) -> Result<u8, Fault> {
    File::open(path).map_err(|error| Fault::file(path, "read", &error))?;
    let report = verify_file(path, key.map(public_key).transpose()?)?;
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
    Ok(match verdict {
        Verdict::Intact | Verdict::Unfinished => 0,
        Verdict::Broken => Code::AuditFailed.row().exit,
    })
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
    each_record(path, |_, found| match found {
        Some(record) => printer.line(&to_ocsf(&record, &host).to_string()),
        None => bad += 1,
    })?;
    if bad > 0 {
        printer.note(&format!("{bad} lines are not records and were left out; `ringfence audit verify` tells more"));
    }
    Ok(0)
}
