//! `ringfence stdio`: the engine behind the Python package, over pipes or a unix socket.
//!
//! Answers to: `lib`. Must not: print; standard output carries frames and nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_session::Engine;

use crate::fault::Fault;
use crate::folders;
use crate::keys::snapshot_key;
use crate::opened::{Opened, default_log};
use crate::printer::Printer;
use crate::root::{EngineOptions, Root};
use crate::stdio::{self, Options};

/// Workers of each engine that are kept ready for the sessions of one Python process.
const WARM: usize = 4;

/// Serves until the client is gone.
pub async fn stdio(root: &Root, listen: Option<&Path>, printer: &mut Printer) -> Result<u8, Fault> {
    let key = snapshot_key()?;
    let build = root.build;
    let engine = move |audit: PathBuf| EngineOptions {
        audit: Some(audit),
        snapshot_key: Some(key),
        warm: WARM,
        warm_up: Vec::new(),
        python: None,
        environments: folders::environments().ok(),
    };
    let opened = Opened::new(root, engine(default_log(folders::state_made()?)), printer)?;
    let options = Options {
        // The first probe and the first session start the pools; a hello comes well before either.
        warm_up: Some(Arc::new(|engine: &Engine| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.warm_up() });
        })),
        engine_for_log: Some(Arc::new(move |path: &Path| {
            (build)(engine(path.to_owned())).map_err(|error| error.to_string())
        })),
    };
    let served = match listen {
        Some(path) => stdio::listen(opened.engine.clone(), path, options).await,
        None => stdio::serve_stdio(opened.engine.clone(), options).await,
    };
    served.map_err(|error| Fault::usage(error.to_string()))?;
    opened.close()?;
    Ok(0)
}
