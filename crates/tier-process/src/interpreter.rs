//! Finding a CPython on the host, and what of the host it needs to be seen inside.
//!
//! Answers to: `plan` and `probe`. Must not: run anything but an interpreter that the operator named, with a program of
//! our own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// What each session has of its own, over whatever the host has there.
const SESSIONS_OWN: [&str; 4] = ["/tmp", "/dev/shm", "/workspace", "/proc"];

/// A CPython of the host's, described by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interpreter {
    /// What was run, with its links: a virtual environment is known by the path of its interpreter.
    pub executable: String,
    /// `3.11.7`.
    pub version: String,
    /// Where its own library is, and where its environment is.
    pub base_prefix: String,
    /// The same as `base_prefix` outside of a virtual environment.
    pub prefix: String,
    /// Every folder that it imports from, and the file behind its executable.
    pub paths: Vec<String>,
    /// Every top-level name that an import finds.
    pub importable: BTreeSet<String>,
    /// Names that can be imported from each named package that is there.
    pub modules: BTreeMap<String, Vec<String>>,
}

/// Why there is no interpreter.
#[derive(Debug, thiserror::Error)]
pub enum NoInterpreter {
    /// It can't be started.
    #[error("`{path}` can't be started: {cause}")]
    Start {
        /// What was tried.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It did not describe itself.
    #[error("`{path}` is no CPython that works: {said}")]
    Strange {
        /// What was tried.
        path: String,
        /// Its last line.
        said: String,
    },
    /// It lies where a session would not find it.
    #[error("`{path}` needs `{folder}`, which sessions can't see: each has a `{hidden}` of its own; move it elsewhere")]
    Hidden {
        /// What was tried.
        path: String,
        /// What it needs.
        folder: String,
        /// The folder that is hidden.
        hidden: &'static str,
    },
    /// It is too old: handing descriptors over and handles on processes came with 3.9.
    #[error("`{path}` is Python {version}; 3.9 is the oldest that this tier can use")]
    Old {
        /// What was tried.
        path: String,
        /// Its version.
        version: String,
    },
}

impl Interpreter {
    /// The interpreter at `path` (or found by that name), asked which of `packages` it has.
    pub fn find(path: &str, packages: &[String]) -> Result<Self, NoInterpreter> {
        let start = |cause| NoInterpreter::Start { path: path.to_owned(), cause };
        let mut command = Command::new(path);
        command.args(["-I", "-c", include_str!("describe.py")]).args(packages);
        let output =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().map_err(start)?;
        let found: Option<Self> = serde_json::from_slice(&output.stdout).ok();
        let strange = || NoInterpreter::Strange { path: path.to_owned(), said: last_line(&output.stderr) };
        let found = found.filter(|_| output.status.success()).ok_or_else(strange)?;
        let mut numbers = found.version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        if version < (3, 9) {
            return Err(NoInterpreter::Old { path: path.to_owned(), version: found.version });
        }
        match found.hidden() {
            Some((folder, hidden)) => Err(NoInterpreter::Hidden { path: path.to_owned(), folder, hidden }),
            None => Ok(found),
        }
    }

    /// The first of its folders that a session's own folders would hide, and the one that hides it.
    fn hidden(&self) -> Option<(String, &'static str)> {
        let hides = |folder: &PathBuf| SESSIONS_OWN.iter().find(|own| folder.starts_with(own)).copied();
        self.folders().iter().find_map(|folder| Some((folder.display().to_string(), hides(folder)?)))
    }

    /// The named packages that it does not have.
    pub fn missing<'p>(&self, packages: &'p [String]) -> Vec<&'p str> {
        packages.iter().filter(|name| !self.modules.contains_key(*name)).map(String::as_str).collect()
    }

    /// Folders of the host that it needs, none within another, without those that every jail has.
    pub fn folders(&self) -> Vec<PathBuf> {
        let named = [&self.base_prefix, &self.prefix].into_iter().chain(&self.paths).map(PathBuf::from);
        let mut folders: Vec<PathBuf> = named.filter(|path| path.is_absolute() && path.is_dir()).collect();
        folders.sort();
        folders.dedup();
        let common = |path: &Path| path.starts_with("/usr") || path.starts_with("/lib") || path == Path::new("/");
        let mut kept: Vec<PathBuf> = Vec::new();
        for folder in folders.into_iter().filter(|path| !common(path)) {
            if !kept.last().is_some_and(|above| folder.starts_with(above)) {
                kept.push(folder);
            }
        }
        kept
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().last().unwrap_or("it said nothing");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_machines_interpreter_describes_itself() {
        let found = Interpreter::find("python3", &["pip".to_owned(), "no-such-package".to_owned()]).unwrap();
        assert!(Path::new(&found.executable).is_absolute());
        assert_eq!(found.missing(&["no-such-package".to_owned()]), ["no-such-package"]);
    }

    #[test]
    fn what_is_no_interpreter_is_named() {
        let check = |path: &str, want: &str| {
            assert_eq!(Interpreter::find(path, &[]).unwrap_err().to_string(), want);
        };
        check("/no/such/python", "`/no/such/python` can't be started: No such file or directory (os error 2)");
        check("/bin/true", "`/bin/true` is no CPython that works: it said nothing");
    }

    #[test]
    fn folders_within_folders_are_not_named_twice() {
        let found = Interpreter {
            executable: "/x/bin/python".to_owned(),
            version: "3.12.0".to_owned(),
            base_prefix: "/usr".to_owned(),
            prefix: "/proc".to_owned(),
            paths: vec!["/proc/self".to_owned(), "/dev".to_owned(), "relative".to_owned()],
            importable: BTreeSet::new(),
            modules: BTreeMap::new(),
        };
        assert_eq!(found.folders(), [Path::new("/dev"), Path::new("/proc")]);
    }

    #[test]
    fn an_interpreter_that_sessions_would_not_find_is_told() {
        let found = Interpreter {
            executable: "/usr/bin/python3".to_owned(),
            version: "3.12.0".to_owned(),
            base_prefix: "/usr".to_owned(),
            prefix: "/dev".to_owned(),
            paths: vec!["/dev/shm".to_owned()],
            importable: BTreeSet::new(),
            modules: BTreeMap::new(),
        };
        assert_eq!(found.hidden(), None, "a folder above is not hidden");
        let hidden = Interpreter { prefix: "/dev/shm".to_owned(), ..found };
        assert_eq!(hidden.hidden(), Some(("/dev/shm".to_owned(), "/dev/shm")));
    }
}
