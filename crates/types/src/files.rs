//! Files in a session: paths as the guest sees them, and the operations of the host on them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An absolute, normalised path inside the guest: no `.`, no `..`, no NUL, at most 1,024 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct GuestPath(String);

/// Why a path or an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FileFault {
    /// Not of the form that [`GuestPath`] takes.
    #[error("`{0}` is not a path inside the session; use an absolute path without `..`")]
    BadPath(String),
    /// Nothing there.
    #[error("no such file: `{0}`")]
    NotFound(String),
    /// A folder where a file was wanted.
    #[error("`{0}` is a folder")]
    IsFolder(String),
    /// A file where a folder was wanted.
    #[error("`{0}` is not a folder")]
    NotFolder(String),
    /// Not writable, or outside every mount.
    #[error("permission denied: `{0}`")]
    Denied(String),
    /// The workspace's quota is used up.
    #[error("no space left in the workspace for `{0}`")]
    NoSpace(String),
}

impl GuestPath {
    /// Normalises `text` lexically against `/workspace`; `..` above the root is refused.
    pub fn resolve(text: &str) -> Result<Self, FileFault> {
        let bad = || FileFault::BadPath(text.chars().take(120).collect());
        if text.is_empty() || text.len() > 1024 || text.contains('\0') {
            return Err(bad());
        }
        let mut parts: Vec<&str> = if text.starts_with('/') { Vec::new() } else { vec!["workspace"] };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or_else(bad)?;
                }
                name => parts.push(name),
            }
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    /// The place in `/workspace` of an uploaded file or archive entry called `name`. Whatever two systems could read
    /// differently is refused: absolute paths, `..`, backslashes, drive letters.
    pub fn of_upload(name: &str) -> Result<Self, FileFault> {
        let drive = name.as_bytes().get(1) == Some(&b':');
        let climbs = name.split('/').any(|part| part == "..");
        if name.starts_with('/') || name.ends_with('/') || name.contains('\\') || drive || climbs {
            return Err(FileFault::BadPath(name.chars().take(120).collect()));
        }
        match Self::resolve(name)? {
            Self(path) if path == "/workspace" => Err(FileFault::BadPath(name.chars().take(120).collect())),
            path => Ok(path),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `folder` or lies under it.
    pub fn is_under(&self, folder: &str) -> bool {
        let folder = folder.trim_end_matches('/');
        self.0 == folder || self.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl TryFrom<String> for GuestPath {
    type Error = FileFault;
    fn try_from(text: String) -> Result<Self, FileFault> {
        Self::resolve(&text)
    }
}
impl From<GuestPath> for String {
    fn from(path: GuestPath) -> Self {
        path.0
    }
}
impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the host may ask of a session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// Writes a file, replacing it, making its folders.
    Put {
        /// Where.
        path: GuestPath,
        /// Its whole content.
        content: Vec<u8>,
        /// Refuse the guest's own writes to it (a file of a read-only mount).
        read_only: bool,
    },
    /// Reads a file whole.
    Get {
        /// Which.
        path: GuestPath,
    },
    /// Lists a folder.
    List {
        /// Which.
        path: GuestPath,
    },
    /// Removes a file, or a folder and all in it.
    Remove {
        /// Which.
        path: GuestPath,
    },
}

/// One row of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FileEntry {
    /// Its path.
    pub path: GuestPath,
    /// Bytes; 0 for a folder.
    pub size: u64,
    /// Whether it is a folder.
    pub folder: bool,
}

/// The answer to a [`FileOp`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileReply {
    /// Written or removed.
    Done,
    /// The content asked for.
    Content(Vec<u8>),
    /// The folder asked for.
    Entries(Vec<FileEntry>),
    /// Refused, and why.
    Fault(FileFault),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_before_they_are_compared() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(GuestPath::resolve(text).ok().map(String::from).as_deref(), want, "{text}");
        };
        check("a.txt", Some("/workspace/a.txt"));
        check("/data/../etc/x", Some("/etc/x"));
        check("/data//./x/", Some("/data/x"));
        check("/..", None);
        check("../../x", None);
        check("a\0b", None);
        check("", None);
        let upload = |name: &str, want: Option<&str>| {
            assert_eq!(GuestPath::of_upload(name).ok().map(String::from).as_deref(), want, "{name}");
        };
        upload("ok/a.csv", Some("/workspace/ok/a.csv"));
        upload("a..b.csv", Some("/workspace/a..b.csv"));
        for refused in ["", ".", "/etc/x", "../x", "ok/../x", "..\\x", "C:\\x", "C:x", "a/", "a\0b"] {
            upload(refused, None);
        }
        assert!(GuestPath::resolve("/data/x").expect("good").is_under("/data"));
        assert!(!GuestPath::resolve("/database/x").expect("good").is_under("/data"));
    }
}
