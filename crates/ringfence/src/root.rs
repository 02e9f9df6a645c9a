//! How the command line gets its engine: the tiers of this build, put together.
//!
//! Answers to: `main`. Must not: hold a default of its own; `builder` has them.

use ringfence_cli::{BuildError, EngineOptions, Root};

use crate::{AuditTo, Engine};

/// What the command line is handed.
pub fn root() -> Root {
    Root { build, version: env!("CARGO_PKG_VERSION") }
}

fn build(options: EngineOptions) -> Result<ringfence_session::Engine, BuildError> {
    let audit = options.audit.map_or(AuditTo::Memory, AuditTo::File);
    let mut builder = Engine::builder().audit(audit).warm(options.warm);
    if options.warm == 1 {
        builder = builder.one_shot();
    }
    if let Some(key) = options.snapshot_key {
        builder = builder.snapshot_key(key);
    }
    if let Some(folder) = options.environments {
        builder = builder.environments(folder);
    }
    if let Some(python) = options.python {
        builder = builder.python(python);
    }
    for engine in options.warm_up {
        builder = builder.warm_up(engine);
    }
    let engine = builder.build().map_err(|error| match error {
        crate::BuildError::Audit(error) => BuildError::Audit(error),
        crate::BuildError::Random(error) => BuildError::Random(error.to_string()),
    })?;
    Ok(engine.inner().clone())
}
