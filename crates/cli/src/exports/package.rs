//! The Python package, carried in the executable and laid out where the Python process finds it.
//!
//! Answers to: `exports`. Must not: leave a file out; a test holds the list against the folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use tempfile::TempDir;

macro_rules! package {
    ($($name:literal),* $(,)?) => {
        /// Every file of the package: its name and its text.
        pub const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../python/ringfence/", $name)))),*];
    };
}

package![
    "__init__.py",
    "async_sandbox.py",
    "background.py",
    "binary.py",
    "connection.py",
    "constraints.py",
    "engines.py",
    "errors.py",
    "exports.py",
    "files.py",
    "frames.py",
    "functions.py",
    "hints.py",
    "options.py",
    "policy.py",
    "py.typed",
    "records.py",
    "result.py",
    "sandbox.py",
    "transport.py",
    "values.py",
    "waiters.py",
];

/// Lays the package out in a new folder that only this user can enter; the folder goes when it is dropped.
pub fn lay_out() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("ringfence-python-").tempdir()?;
    let package = folder.path().join("ringfence");
    DirBuilder::new().mode(0o700).create(&package)?;
    for (name, text) in FILES {
        std::fs::write(package.join(name), text)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_package_is_carried() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/ringfence");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .expect("the package is in the tree")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".py") || name == "py.typed")
            .collect();
        found.sort();
        assert_eq!(FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), found);
    }
}
