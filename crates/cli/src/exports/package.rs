//! The Python package, carried in the executable and handed to the Python process through a pipe.
//! INVARIANT: nothing of it is written to a disk, so that no end of this process, a kill included, leaves anything there.
//!
//! Answers to: `exports`. Must not: leave a file out; a test holds the list against the folder.

use serde_json::{Map, Value as Json};

/// What Python is started with: it takes the package from its standard input, and leaves the rest there.
pub const BOOT: &str = include_str!("boot.py");

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

/// The modules of the package: the text of each under its full name.
pub fn modules() -> Json {
    let module = |(name, text): &(&str, &str)| {
        let name = name.strip_suffix(".py")?;
        let full = if name == "__init__" { "ringfence".to_owned() } else { format!("ringfence.{name}") };
        Some((full, Json::from(*text)))
    };
    Json::Object(FILES.iter().filter_map(module).collect::<Map<String, Json>>())
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
