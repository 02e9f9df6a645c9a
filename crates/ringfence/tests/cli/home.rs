//! A home of its own for the program under test, and the one function that every line of the tables calls.
//!
//! Answers to: the tests of the command line. Must not: touch the home of whoever runs the tests.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder with `state`, `run` and `work` in it; the program runs in `work`.
pub struct Home(TempDir);

/// What a command came to, with ids and the home's path masked.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub exit: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A home below this folder: an interpreter in `/tmp` would be hidden by a session's own.
    pub fn below(folder: &Path) -> Self {
        let home = Self(tempfile::tempdir_in(folder).expect("a temporary folder"));
        for folder in ["state", "run", "work"] {
            DirBuilder::new().mode(0o700).create(home.0.path().join(folder)).expect("a new folder");
        }
        home
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn work(&self, name: &str) -> PathBuf {
        self.0.path().join("work").join(name)
    }

    /// Writes a file into the folder that the program runs in.
    pub fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.work(name), content).expect("own folder");
        self
    }

    /// The program with this home and nothing else of the environment but the path.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
        command.args(arguments).env_clear().current_dir(self.0.path().join("work"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.0.path()).env("USER", "ada");
        command.env("XDG_STATE_HOME", self.0.path().join("state"));
        command.env("XDG_RUNTIME_DIR", self.0.path().join("run"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn say(&self, arguments: &[&str], stdin: &str) -> Said {
        let mut child = self.command(arguments).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("piped");
        // A program that ends without reading is no fault of the test.
        let _ = input.write_all(stdin.as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        Said { exit: output.status.code(), stdout: self.masked(&output.stdout), stderr: self.masked(&output.stderr) }
    }

    fn masked(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).replace(&self.0.path().display().to_string(), "HOME");
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some(at) = ["run_", "ses_"].iter().filter_map(|prefix| rest.find(prefix)).min() {
            let (before, from) = rest.split_at(at);
            let (prefix, after) = from.split_at(4);
            let hex = after.bytes().take_while(u8::is_ascii_hexdigit).count();
            out.push_str(before);
            out.push_str(prefix);
            out.push_str(if hex == 32 { "ID" } else { &after[..hex] });
            rest = &after[hex..];
        }
        out + rest
    }

    /// One line of a table.
    #[track_caller]
    pub fn check(&self, arguments: &[&str], want: (i32, &str, &str)) {
        self.check_with(arguments, "", want);
    }

    /// One line of a table, with standard input.
    #[track_caller]
    pub fn check_with(&self, arguments: &[&str], stdin: &str, (exit, stdout, stderr): (i32, &str, &str)) {
        let want = Said { exit: Some(exit), stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        assert_eq!(self.say(arguments, stdin), want, "ringfence {}", arguments.join(" "));
    }
}
