//! What a session changed in folders of the host's that it saw copy-on-write: the host's folder stays as it was.

use serde::{Deserialize, Serialize};

use crate::files::GuestPath;

/// The difference between the host's folders and what a session made of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Changes {
    /// What was added, changed or removed, in the order of the paths.
    pub changes: Vec<Change>,
    /// What is not collected, and why: links, sockets, what is too large or too deep.
    pub skipped: Vec<Skipped>,
    /// Whether everything was looked at; if not, there was more than is collected.
    pub complete: bool,
}

/// One path that is not as it is on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Change {
    /// Its path, as the guest sees it.
    pub path: GuestPath,
    /// What became of it.
    pub kind: ChangeKind,
    /// Whether it is a folder. What was in a folder that was removed is not listed.
    pub folder: bool,
    /// Bytes; 0 for a folder, and for what was removed.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal; of files that are there.
    pub sha256: Option<String>,
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The host does not have it.
    Added,
    /// The host has it with another content.
    Changed,
    /// The host has it, and the session does not any more.
    Removed,
}

impl ChangeKind {
    /// The name as it appears in outcomes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// Something that is not collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Skipped {
    /// Its path; where it is no text, with marks for what can't be shown.
    pub path: String,
    /// Why.
    pub why: String,
}

impl Changes {
    /// How many there are of one kind.
    pub fn count(&self, kind: ChangeKind) -> usize {
        self.changes.iter().filter(|change| change.kind == kind).count()
    }
    /// The files that have a content of their own.
    pub fn files(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.sha256.is_some())
    }
}
