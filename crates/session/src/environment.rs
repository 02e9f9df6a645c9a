//! Locked environments that were made ahead of need: found by the name that a policy gives.
//!
//! Answers to: `engine`, for each grant, and to whoever makes environments. Must not: make one, or run anything of it.

use std::io;
use std::path::{Path, PathBuf};

use ringfence_types::{Environment, EnvironmentName};
use serde::{Deserialize, Serialize};

/// The file that makes a folder an environment. It is written last.
pub const MANIFEST: &str = "environment.json";
/// The list of what was installed, with hashes.
pub const LOCK: &str = "requirements.lock";
/// The virtual environment itself.
pub const VENV: &str = "venv";

/// The version of the manifest.
const FORMAT: u32 = 1;
/// The longest manifest.
const LONGEST: u64 = 1 << 20;

/// What is on file of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this form: 1.
    pub format: u32,
    /// Its name.
    pub name: EnvironmentName,
    /// The version of its CPython.
    pub python: String,
    /// What was installed, as `name==version`, sorted.
    pub packages: Vec<String>,
    /// SHA-256 of the lock file, the interpreter's version and every installed file, in hexadecimal.
    pub digest: String,
    /// When it was made, in RFC 3339.
    pub made: String,
}

/// Why an environment can't be used.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// Nobody made it, or its making was broken off.
    #[error("the environment `{name}` is not made; `ringfence env create {name} --requirements FILE` makes it")]
    NotMade {
        /// Which.
        name: EnvironmentName,
    },
    /// This engine was built without a folder for them.
    #[error("this engine has no folder of environments, so `{name}` can't be found; build it with one")]
    NoFolder {
        /// Which.
        name: EnvironmentName,
    },
    /// Its file is none.
    #[error(
        "the environment `{name}` can't be read: {why}; make it again with `ringfence env create {name} --replace`"
    )]
    Broken {
        /// Which.
        name: EnvironmentName,
        /// What is wrong with it.
        why: String,
    },
}

impl Manifest {
    /// A manifest of this version.
    pub fn new(name: EnvironmentName, python: String, packages: Vec<String>, digest: String, made: String) -> Self {
        Self { format: FORMAT, name, python, packages, digest, made }
    }

    /// What is on file of the environment `name` below `root`.
    pub fn read(root: &Path, name: &EnvironmentName) -> Result<Self, EnvironmentError> {
        let path = folder(root, name).join(MANIFEST);
        let broken = |why: String| EnvironmentError::Broken { name: name.clone(), why };
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(EnvironmentError::NotMade { name: name.clone() });
            }
            Err(error) => return Err(broken(error.to_string())),
            Ok(about) if about.len() > LONGEST => return Err(broken("its file is too long".to_owned())),
            Ok(_) => {}
        }
        let text = std::fs::read(&path).map_err(|error| broken(error.to_string()))?;
        let found: Self = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        let sound = found.format == FORMAT && found.name == *name;
        if sound { Ok(found) } else { Err(broken("its file belongs to another version or name".to_owned())) }
    }
}

/// The folder of one environment.
pub fn folder(root: &Path, name: &EnvironmentName) -> PathBuf {
    root.join(name.as_str())
}

/// The environment that a policy names.
pub(crate) fn find(root: Option<&Path>, name: &EnvironmentName) -> Result<Environment, EnvironmentError> {
    let root = root.ok_or_else(|| EnvironmentError::NoFolder { name: name.clone() })?;
    let manifest = Manifest::read(root, name)?;
    let venv = folder(root, name).join(VENV);
    if !venv.join("bin/python").exists() {
        let why = "its interpreter is gone".to_owned();
        return Err(EnvironmentError::Broken { name: name.clone(), why });
    }
    Ok(Environment { name: manifest.name, digest: manifest.digest, venv: venv.to_string_lossy().into_owned() })
}
