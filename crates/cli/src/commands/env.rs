//! `ringfence env`: locked environments, made once, named by policies, told by their digest.
//!
//! Answers to: `lib`. Must not: touch a folder that is no environment.

use std::path::PathBuf;

use ringfence_session::environment::{EnvironmentError, Manifest, folder};
use ringfence_types::EnvironmentName;
use serde_json::json;

use crate::args::{EnvCommand, EnvCreateArgs};
use crate::environments::{Wanted, make, remove};
use crate::fault::Fault;
use crate::folders;
use crate::printer::Printer;
use crate::progress::Steps;
use crate::table::table;

/// How many steps making an environment has.
const STEPS: u64 = 4;
/// What of a digest is shown to a person.
const SHORT: usize = 12;

/// Runs it and gives the exit code.
pub fn env(command: EnvCommand, printer: &mut Printer) -> Result<u8, Fault> {
    match command {
        EnvCommand::Create(args) => create(args, printer),
        EnvCommand::List(args) => list(args.json, printer),
        EnvCommand::Remove { name } => remove_one(&name, printer),
    }
}

fn create(args: EnvCreateArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let root = folders::environments_made()?;
    match Manifest::read(&root, &args.name) {
        Err(EnvironmentError::NotMade { .. }) => {}
        _ if args.replace => {}
        _ => {
            let fault = Fault::usage(format!("there is an environment `{}` already", args.name));
            return Err(fault.hint("give `--replace` to make it anew; what runs in it now may fail"));
        }
    }
    for (path, is_good) in [(Some(&args.requirements), args.requirements.is_file()), (args.wheels.as_ref(), true)] {
        let Some(path) = path else { continue };
        if !is_good || !path.exists() {
            return Err(Fault::usage(format!("`{}` is not there", path.display())));
        }
    }
    let full = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let wanted = Wanted {
        name: args.name,
        requirements: full(args.requirements),
        wheels: args.wheels.map(full),
        python: args.python,
    };
    let steps = Steps::new(STEPS);
    let made = make(&root, &wanted, ringfence_audit::now_rfc3339(), &steps);
    steps.end();
    let manifest = made?;
    let count = manifest.packages.len();
    let what = if count == 1 { "1 package".to_owned() } else { format!("{count} packages") };
    let digest = &manifest.digest;
    printer.line(&format!("environment `{}`: Python {}, {what}, sha256 {digest}", manifest.name, manifest.python));
    printer.line(&format!("a policy names it as `env = \"{}\"` under `[python]`", manifest.name));
    Ok(0)
}

fn list(as_json: bool, printer: &mut Printer) -> Result<u8, Fault> {
    let root = folders::environments_made()?;
    let mut names: Vec<EnvironmentName> = std::fs::read_dir(&root)
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
        .map_err(|error| Fault::file(&root, "read", &error))?;
    names.sort();
    let found = names.iter().map(|name| (name, Manifest::read(&root, name)));
    if as_json {
        let row = |(name, manifest): (&EnvironmentName, Result<Manifest, EnvironmentError>)| match manifest {
            Ok(manifest) => json!(manifest),
            Err(error) => json!({"name": name, "error": error.to_string()}),
        };
        printer.line(&json!(found.map(row).collect::<Vec<_>>()).to_string());
        return Ok(0);
    }
    let row = |(name, manifest): (&EnvironmentName, Result<Manifest, EnvironmentError>)| match manifest {
        Ok(manifest) => {
            let digest = manifest.digest.get(..SHORT).unwrap_or_default().to_owned();
            vec![name.to_string(), manifest.python, manifest.packages.len().to_string(), digest, manifest.made]
        }
        Err(_) => vec![name.to_string(), "-".to_owned(), "-".to_owned(), "-".to_owned(), "not whole".to_owned()],
    };
    printer.text(&table(&["NAME", "PYTHON", "PACKAGES", "SHA256", "MADE"], found.map(row).collect()));
    Ok(0)
}

fn remove_one(name: &EnvironmentName, printer: &mut Printer) -> Result<u8, Fault> {
    let root = folders::environments_made()?;
    let place = folder(&root, name);
    if !place.exists() {
        return Err(Fault::usage(format!("there is no environment `{name}`")).hint("`ringfence env list` lists them"));
    }
    // Out of sight at once: what is left of a removal that was broken off is no environment.
    let old = root.join(format!(".{name}.old"));
    remove(&old)?;
    std::fs::rename(&place, &old).map_err(|error| Fault::file(&place, "removed", &error))?;
    remove(&old)?;
    printer.line(&format!("removed: {name}"));
    Ok(0)
}
