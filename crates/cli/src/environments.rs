//! Making a locked environment: resolve, fetch, hash, install from exactly that, and write down what came of it.
//!
//! Answers to: `commands::env`. Must not: run a package's own code: wheels only, which are unpacked and not executed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_audit::sha256_hex;
use ringfence_session::environment::{LOCK, MANIFEST, Manifest, VENV, folder};
use ringfence_types::EnvironmentName;

use crate::fault::Fault;
use crate::progress::Steps;

/// What of this user's own settings would put packages elsewhere.
const DISTURBING: &[&str] =
    &["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIRE_HASHES", "PIP_REPORT"];
/// The tools that a fresh virtual environment holds, and a locked one does not need.
const TOOLS: &[&str] = &["pip", "setuptools", "wheel"];
/// The last lines of a tool that failed.
const LAST_LINES: usize = 8;

/// What an environment is made of.
pub struct Wanted {
    /// Its name.
    pub name: EnvironmentName,
    /// What it holds: a file of requirements as pip reads it.
    pub requirements: PathBuf,
    /// The one place where packages are taken from; `None`: the registry that pip is set up for.
    pub wheels: Option<PathBuf>,
    /// The CPython that it is made from.
    pub python: String,
}

/// Makes it below `root`, in place of one that is there. Where that fails, what was there stays.
pub fn make(root: &Path, wanted: &Wanted, made: String, steps: &Steps) -> Result<Manifest, Fault> {
    let place = folder(root, &wanted.name);
    let old = root.join(format!(".{}.old", wanted.name));
    remove(&old)?;
    let replaces = place.exists();
    if replaces {
        std::fs::rename(&place, &old).map_err(|error| Fault::file(&place, "moved", &error))?;
    }
    let manifest = Making { place: &place, wanted, steps }.make(made);
    match (&manifest, replaces) {
        (Ok(_), _) => remove(&old)?,
        (Err(_), true) => {
            remove(&place)?;
            std::fs::rename(&old, &place).map_err(|error| Fault::file(&place, "moved back", &error))?;
        }
        (Err(_), false) => remove(&place)?,
    }
    manifest
}

/// Removes a folder with all in it; one that is not there is no fault.
pub fn remove(path: &Path) -> Result<(), Fault> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Fault::file(path, "removed", &error)),
        _ => Ok(()),
    }
}

struct Making<'a> {
    place: &'a Path,
    wanted: &'a Wanted,
    steps: &'a Steps,
}

impl Making<'_> {
    fn make(&self, made: String) -> Result<Manifest, Fault> {
        std::fs::create_dir_all(self.place).map_err(|error| Fault::file(self.place, "made", &error))?;
        self.steps.next("making the virtual environment");
        let pip = self.virtual_environment()?;
        self.steps.next("fetching packages");
        let fetched = self.place.join("wheels");
        self.fetch(&pip, &fetched)?;
        let lock = lock(&fetched)?;
        let lock_file = self.place.join(LOCK);
        std::fs::write(&lock_file, lock.text()).map_err(|error| Fault::file(&lock_file, "written", &error))?;
        self.steps.next("installing packages");
        self.install(&pip, &lock, &lock_file, &fetched)?;
        remove(&fetched)?;
        self.steps.next("hashing what was installed");
        let python = self.version()?;
        let digest = digest(&self.venv(), &python, &lock.text())?;
        let packages = lock.0.iter().map(|(name, (version, _))| format!("{name}=={version}")).collect();
        let manifest = Manifest::new(self.wanted.name.clone(), python, packages, digest, made);
        // Last: a folder without it is no environment.
        let file = self.place.join(MANIFEST);
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        std::fs::write(&file, text).map_err(|error| Fault::file(&file, "written", &error))?;
        Ok(manifest)
    }

    /// Makes it, without a pip of its own where the interpreter's can work on it: that is ten times as fast.
    fn virtual_environment(&self) -> Result<Pip, Fault> {
        let python = &self.wanted.python;
        let told = Command::new(python).args(["-I", "-m", "pip", "--version"]).output();
        let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let pip = if works_on_others(&told) { Pip::Interpreters } else { Pip::Own };
        let mut venv = Command::new(python);
        venv.args(["-I", "-m", "venv"]).args((pip == Pip::Interpreters).then_some("--without-pip")).arg(self.venv());
        let made = self.run(&mut venv, "`venv`");
        let hint = "the interpreter needs its `venv` module (Debian: `python3-venv`); name another by `--python`";
        made.map_err(|fault| fault.hint(hint)).map(|()| pip)
    }

    fn install(&self, pip: &Pip, lock: &Lock, lock_file: &Path, fetched: &Path) -> Result<(), Fault> {
        if !lock.0.is_empty() {
            let mut install = self.pip(pip, true);
            install.args([
                "install",
                "--no-deps",
                "--no-index",
                "--require-hashes",
                "--ignore-installed",
                "--find-links",
            ]);
            self.run(install.arg(fetched).arg("-r").arg(lock_file), "pip")?;
        }
        if *pip == Pip::Own {
            let unneeded = TOOLS.iter().copied().filter(|tool| !lock.0.contains_key(*tool));
            self.run(self.pip(pip, true).args(["uninstall", "--yes"]).args(unneeded), "pip")?;
        }
        Ok(())
    }

    fn venv(&self) -> PathBuf {
        self.place.join(VENV)
    }

    fn fetch(&self, pip: &Pip, into: &Path) -> Result<(), Fault> {
        std::fs::create_dir_all(into).map_err(|error| Fault::file(into, "made", &error))?;
        let mut fetch = self.pip(pip, self.wanted.wheels.is_some());
        fetch.args(["download", "--only-binary", ":all:", "--dest"]).arg(into);
        if let Some(wheels) = &self.wanted.wheels {
            fetch.args(["--no-index", "--find-links"]).arg(wheels);
        }
        let fetched = self.run(fetch.arg("-r").arg(&self.wanted.requirements), "pip");
        fetched.map_err(|fault| match &self.wanted.wheels {
            Some(_) => fault.hint("the folder of `--wheels` must hold a wheel of every package that is needed"),
            None => fault
                .hint("only packages with wheels can be taken: a source package runs its own code when it is built"),
        })
    }

    /// A pip that works on the environment; `offline`: without this user's settings, which may name other places.
    fn pip(&self, pip: &Pip, offline: bool) -> Command {
        let own = self.venv().join("bin/python");
        let mut command = match pip {
            Pip::Interpreters => Command::new(&self.wanted.python),
            Pip::Own => Command::new(&own),
        };
        command.args(["-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]);
        if *pip == Pip::Interpreters {
            command.arg("--python").arg(own);
        }
        if offline {
            command.arg("--isolated").env("PIP_CONFIG_FILE", "/dev/null");
        }
        command
    }

    /// Runs a tool, shows what it is at, and tells its last lines where it fails.
    fn run(&self, command: &mut Command, what: &str) -> Result<(), Fault> {
        let program = command.get_program().to_string_lossy().into_owned();
        for name in DISTURBING {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot =
            |error: &std::io::Error| Fault::usage(format!("`{program}` can't be run: {}", crate::fault::plain(error)));
        let mut child = command.spawn().map_err(|error| cannot(&error))?;
        let errors = child.stderr.take().map(|pipe| std::thread::spawn(move || last_lines(pipe)));
        let mut last = String::new();
        for line in
            child.stdout.take().map(|pipe| BufReader::new(pipe).lines()).into_iter().flatten().map_while(Result::ok)
        {
            self.steps.at(&line);
            last = line;
        }
        let status = child.wait().map_err(|error| cannot(&error))?;
        let errors = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let said = if errors.is_empty() { last } else { errors };
        Err(Fault::usage(format!("{what} failed: {said}")))
    }

    fn version(&self) -> Result<String, Fault> {
        let mut python = Command::new(self.venv().join("bin/python"));
        python.args(["-I", "-c", "import platform; print(platform.python_version())"]);
        let output = python.output().map_err(|error| Fault::file(&self.venv(), "run", &error))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Which pip works on an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pip {
    /// The interpreter's.
    Interpreters,
    /// One in the environment, which is taken out at the end.
    Own,
}

/// Whether this is a pip that can work on another environment: `pip 22.3 from …` or newer.
fn works_on_others(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("pip ").split(['.', ' ']).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (22, 3))
}

fn last_lines(pipe: impl Read) -> String {
    let mut kept = std::collections::VecDeque::new();
    for line in BufReader::new(pipe).lines().map_while(Result::ok).filter(|line| !line.trim().is_empty()) {
        if kept.len() == LAST_LINES {
            kept.pop_front();
        }
        kept.push_back(line.trim().chars().take(300).collect::<String>());
    }
    Vec::from(kept).join("; ")
}

/// Name to version and hash.
#[derive(Debug, PartialEq, Eq)]
struct Lock(BTreeMap<String, (String, String)>);

impl Lock {
    /// In the form that pip takes with `--require-hashes`.
    fn text(&self) -> String {
        let line =
            |(name, (version, hash)): (&String, &(String, String))| format!("{name}=={version} --hash=sha256:{hash}\n");
        self.0.iter().map(line).collect()
    }
}

/// What was fetched, by the names of its files and their hashes.
fn lock(fetched: &Path) -> Result<Lock, Fault> {
    let mut found = BTreeMap::new();
    let unreadable = |error: &std::io::Error| Fault::file(fetched, "read", error);
    for entry in std::fs::read_dir(fetched).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some((package, version)) = wheel(name) else {
            return Err(Fault::usage(format!("`{name}` is no wheel; only wheels can be locked")));
        };
        let content = std::fs::read(&path).map_err(|error| unreadable(&error))?;
        found.insert(package, (version, sha256_hex(&content)));
    }
    Ok(Lock(found))
}

/// The package and version of a wheel's file name: `name-version(-build)-python-abi-platform.whl`.
fn wheel(file: &str) -> Option<(String, String)> {
    let mut parts = file.strip_suffix(".whl")?.split('-');
    let (name, version) = (parts.next()?, parts.next()?);
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+!".contains(&byte))
    };
    let normal = name.to_ascii_lowercase().replace(['_', '.'], "-");
    (plain(name) && plain(version) && parts.count() >= 3).then(|| (normal, version.to_owned()))
}

/// Over the interpreter's version, the lock, and the path and content of every installed file.
fn digest(venv: &Path, python: &str, lock: &str) -> Result<String, Fault> {
    let mut lines = vec![format!("ringfence environment 1\npython {python}\n{lock}")];
    let mut open = vec![venv.join("lib")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| Fault::file(&folder, "read", &error))?;
        for entry in entries.flatten() {
            match entry.file_type() {
                // Compiled files hold times.
                Ok(kind) if kind.is_dir() && entry.file_name() != "__pycache__" => open.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    for file in files {
        let content = std::fs::read(&file).map_err(|error| Fault::file(&file, "read", &error))?;
        let name = file.strip_prefix(venv).unwrap_or(&file).display();
        lines.push(format!("{} {name}\n", sha256_hex(&content)));
    }
    Ok(sha256_hex(lines.concat().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pip_that_is_too_old_is_told() {
        for (version, want) in [
            ("pip 23.2.1 from /usr/lib (python 3.11)\n", true),
            ("pip 22.3 from /x", true),
            ("pip 22.2.2 from /x", false),
            ("pip 9.0.1 from /x", false),
            ("", false),
        ] {
            assert_eq!(works_on_others(version), want, "{version}");
        }
    }

    #[test]
    fn wheels_are_told_by_their_names() {
        let check = |file: &str, want: Option<(&str, &str)>| {
            assert_eq!(wheel(file), want.map(|(name, version)| (name.to_owned(), version.to_owned())), "{file}");
        };
        check("Tiny_Pkg-1.0-py3-none-any.whl", Some(("tiny-pkg", "1.0")));
        check("a-1.0+local-1-cp311-cp311-linux_x86_64.whl", Some(("a", "1.0+local")));
        check("a-1.0.tar.gz", None);
        check("a-1.0-py3.whl", None);
        check("a b-1.0-py3-none-any.whl", None);
    }
}
