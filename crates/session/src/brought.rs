//! The modules that a caller brings himself: files that are put into the session, and what lies in its mounts.
//!
//! Answers to: `choose`, which asks a tier for packages. Must not: promise that an import finds them; that is the
//! program's matter, which may change where it looks.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_policy::Grant;
use ringfence_types::FileOp;

/// Names in one mount that are looked at.
const MOST_NAMES: usize = 5_000;

/// Every top-level name that an import may find among the caller's own files.
pub(crate) fn modules(grant: &Grant, staged: &[FileOp]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for op in staged {
        if let FileOp::Put { path, .. } = op {
            // Any folder of the path may be the one that is imported from.
            let parts: Vec<&str> = path.as_str().split('/').filter(|part| !part.is_empty()).collect();
            let (folders, file) = parts.split_at(parts.len().saturating_sub(1));
            found.extend(folders.iter().map(|folder| (*folder).to_owned()));
            found.extend(file.iter().filter_map(|file| module(file)).map(str::to_owned));
        }
    }
    for mount in grant.mounts() {
        let entries = std::fs::read_dir(Path::new(&mount.host)).into_iter().flatten().flatten().take(MOST_NAMES);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            found.extend(if folder { Some(name) } else { module(&name).map(str::to_owned) });
        }
    }
    found
}

/// The module in a file of this name.
fn module(file: &str) -> Option<&str> {
    let (name, rest) = file.split_once('.')?;
    (rest == "py" || rest == "pyc" || rest.ends_with("so")).then_some(name)
}
