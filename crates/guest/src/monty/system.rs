//! What monty asks of the operating system, answered from the session's private files and the clock.
//!
//! Answers to: the engine, when monty stops at an OS call. Must not: touch a real file, the environment or a time zone.
//! The environment is empty and local time is UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use monty_types::{
    ExcType, ExtFunctionResult, FileMode, MontyDate, MontyDateTime, MontyException, MontyFileHandle, MontyObject,
    MontyTimeZone, OsFunctionCall, dir_stat, file_stat,
};
use ringfence_types::{FileFault, GuestPath};

use super::dates;
use crate::files::Files;

/// Carries out one OS call.
pub(super) fn answer(call: &OsFunctionCall, files: &mut Files) -> ExtFunctionResult {
    match try_answer(call, files) {
        Ok(object) => ExtFunctionResult::Return(object),
        Err(fault) => ExtFunctionResult::Error(fault.exception(call.fs_primary_path().unwrap_or_default())),
    }
}

/// Why an OS call failed, by its error number.
enum Failure {
    Refused(FileFault),
    Errno(ExcType, u8, &'static str),
    NotText,
}

impl From<FileFault> for Failure {
    fn from(fault: FileFault) -> Self {
        Self::Refused(fault)
    }
}

const EXISTS: Failure = Failure::Errno(ExcType::FileExistsError, 17, "File exists");
const MISSING: Failure = Failure::Errno(ExcType::FileNotFoundError, 2, "No such file or directory");
const IS_FOLDER: Failure = Failure::Errno(ExcType::IsADirectoryError, 21, "Is a directory");
const NOT_FOLDER: Failure = Failure::Errno(ExcType::NotADirectoryError, 20, "Not a directory");
const NOT_EMPTY: Failure = Failure::Errno(ExcType::OSError, 39, "Directory not empty");

fn try_answer(call: &OsFunctionCall, files: &mut Files) -> Result<MontyObject, Failure> {
    let resolve = |path: &str| GuestPath::resolve(path);
    Ok(match call {
        OsFunctionCall::Exists(path) => MontyObject::Bool(resolve(path.as_str()).is_ok_and(|path| files.exists(&path))),
        OsFunctionCall::IsDir(path) => {
            MontyObject::Bool(resolve(path.as_str()).is_ok_and(|path| files.is_folder(&path)))
        }
        OsFunctionCall::IsFile(path) => {
            MontyObject::Bool(resolve(path.as_str()).is_ok_and(|path| files.exists(&path) && !files.is_folder(&path)))
        }
        OsFunctionCall::IsSymlink(_) => MontyObject::Bool(false),
        OsFunctionCall::ReadText(path) => {
            let text = std::str::from_utf8(files.read(&resolve(path.as_str())?)?).map_err(|_| Failure::NotText)?;
            MontyObject::String(text.replace("\r\n", "\n").replace('\r', "\n"))
        }
        OsFunctionCall::ReadBytes(path) => MontyObject::Bytes(files.read(&resolve(path.as_str())?)?.to_vec()),
        OsFunctionCall::Stat(path) => stat(&resolve(path.as_str())?, files)?,
        OsFunctionCall::Iterdir(path) => list(path.as_str(), files)?,
        OsFunctionCall::Resolve(path) | OsFunctionCall::Absolute(path) => {
            MontyObject::Path(resolve(path.as_str())?.to_string())
        }
        OsFunctionCall::WriteText(write) => {
            store(files, &resolve(write.path.as_str())?, write.data.as_bytes(), false)?;
            length(write.data.chars().count())
        }
        OsFunctionCall::AppendText(write) => {
            store(files, &resolve(write.path.as_str())?, write.data.as_bytes(), true)?;
            length(write.data.chars().count())
        }
        OsFunctionCall::WriteBytes(write) => {
            store(files, &resolve(write.path.as_str())?, &write.data, false)?;
            length(write.data.len())
        }
        OsFunctionCall::AppendBytes(write) => {
            store(files, &resolve(write.path.as_str())?, &write.data, true)?;
            length(write.data.len())
        }
        OsFunctionCall::Open(open) => open_file(open.path.as_str(), open.mode, files)?,
        OsFunctionCall::Mkdir(make) => make_folder(&resolve(make.path.as_str())?, make.parents, make.exist_ok, files)?,
        OsFunctionCall::Unlink(path) => remove(&resolve(path.as_str())?, false, files)?,
        OsFunctionCall::Rmdir(path) => remove(&resolve(path.as_str())?, true, files)?,
        OsFunctionCall::Rename(rename) => move_file(rename.src.as_str(), rename.dst.as_str(), files)?,
        OsFunctionCall::Getenv(get) => get.default.clone(),
        OsFunctionCall::GetEnviron => MontyObject::dict(Vec::new()),
        OsFunctionCall::DateToday => {
            let (year, month, day, _) = dates::civil(now().0);
            MontyObject::Date(MontyDate { year, month, day })
        }
        OsFunctionCall::DateTimeNow(zone) => date_time_now(zone.as_ref()),
    })
}

fn open_file(path: &str, mode: FileMode, files: &mut Files) -> Result<MontyObject, Failure> {
    let at = GuestPath::resolve(path)?;
    let mut position = 0;
    if mode.truncate() {
        files.write(&at, Vec::new())?;
    } else if mode.is_append() {
        store(files, &at, &[], true)?;
        position = files.read(&at)?.len() as u64;
    } else {
        files.read(&at)?;
    }
    Ok(MontyObject::FileHandle(MontyFileHandle { path: path.to_owned(), mode, position }))
}

fn store(files: &mut Files, path: &GuestPath, data: &[u8], append: bool) -> Result<(), Failure> {
    let mut content = if append && files.exists(path) { files.read(path)?.to_vec() } else { Vec::new() };
    content.extend_from_slice(data);
    Ok(files.write(path, content)?)
}

fn stat(path: &GuestPath, files: &Files) -> Result<MontyObject, Failure> {
    if files.is_folder(path) {
        return Ok(dir_stat(0o755, 0.0));
    }
    Ok(file_stat(0o644, i64::try_from(files.read(path)?.len()).unwrap_or(i64::MAX), 0.0))
}

/// The children of a folder, spelled as the folder was.
fn list(path: &str, files: &Files) -> Result<MontyObject, Failure> {
    let entries = files.list(&GuestPath::resolve(path)?)?;
    let folder = match path.trim_end_matches('/') {
        "." => String::new(),
        trimmed => format!("{trimmed}/"),
    };
    let names = entries.iter().map(|entry| entry.path.as_str().rsplit('/').next().unwrap_or_default());
    Ok(MontyObject::List(names.map(|name| MontyObject::Path(format!("{folder}{name}"))).collect()))
}

fn make_folder(path: &GuestPath, parents: bool, exist_ok: bool, files: &mut Files) -> Result<MontyObject, Failure> {
    if files.exists(path) {
        return if exist_ok && files.is_folder(path) { Ok(MontyObject::None) } else { Err(EXISTS) };
    }
    let parent = GuestPath::resolve(&format!("{path}/.."))?;
    if !files.is_folder(&parent) {
        if files.exists(&parent) {
            return Err(NOT_FOLDER);
        }
        if !parents {
            return Err(MISSING);
        }
        make_folder(&parent, true, true, files)?;
    }
    files.make_folder(path)?;
    Ok(MontyObject::None)
}

fn remove(path: &GuestPath, folder: bool, files: &mut Files) -> Result<MontyObject, Failure> {
    match (files.exists(path), files.is_folder(path)) {
        (false, _) => return Err(MISSING),
        (true, true) if !folder => return Err(IS_FOLDER),
        (true, false) if folder => return Err(NOT_FOLDER),
        (true, true) if !files.list(path)?.is_empty() => return Err(NOT_EMPTY),
        _ => {}
    }
    files.remove(path)?;
    Ok(MontyObject::None)
}

/// Moves a file; folders can't be moved.
fn move_file(from: &str, to: &str, files: &mut Files) -> Result<MontyObject, Failure> {
    let (from, into) = (GuestPath::resolve(from)?, GuestPath::resolve(to)?);
    let content = files.read(&from)?.to_vec();
    if from != into {
        files.write(&into, content)?;
        files.remove(&from)?;
    }
    Ok(MontyObject::Path(to.to_owned()))
}

fn length(count: usize) -> MontyObject {
    MontyObject::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn now() -> (i64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(0), since.subsec_micros())
}

fn date_time_now(zone: Option<&MontyTimeZone>) -> MontyObject {
    let (seconds, microsecond) = now();
    let offset_seconds = zone.map(|zone| zone.offset_seconds);
    let (year, month, day, rest) = dates::civil(seconds + i64::from(offset_seconds.unwrap_or(0)));
    let part = |number: u32| u8::try_from(number).unwrap_or(0);
    MontyObject::DateTime(MontyDateTime {
        year,
        month,
        day,
        hour: part(rest / 3600),
        minute: part(rest / 60 % 60),
        second: part(rest % 60),
        microsecond,
        offset_seconds,
        timezone_name: zone.and_then(|zone| zone.name.clone()),
    })
}

impl Failure {
    /// The exception CPython raises, naming the path as the guest wrote it.
    fn exception(self, path: &str) -> MontyException {
        let Self::Errno(kind, number, text) = self.errno() else {
            let text = format!("'utf-8' codec can't decode the content of '{path}'");
            return MontyException::new(ExcType::UnicodeDecodeError, Some(text));
        };
        if path.contains('\0') {
            return MontyException::new(ExcType::ValueError, Some("embedded null byte".to_owned()));
        }
        let quoted = MontyObject::String(path.to_owned()).py_repr();
        MontyException::new(kind, Some(format!("[Errno {number}] {text}: {quoted}")))
    }

    fn errno(self) -> Self {
        match self {
            Self::Refused(FileFault::NotFound(_) | FileFault::BadPath(_)) => MISSING,
            Self::Refused(FileFault::IsFolder(_)) => IS_FOLDER,
            Self::Refused(FileFault::NotFolder(_)) => NOT_FOLDER,
            Self::Refused(FileFault::Denied(_)) => Self::Errno(ExcType::PermissionError, 13, "Permission denied"),
            Self::Refused(FileFault::NoSpace(_)) => Self::Errno(ExcType::OSError, 28, "No space left on device"),
            other => other,
        }
    }
}
