//! The zygote where no namespaces can be made. Its sessions have Landlock, filters and resource limits, and nothing else
//! stands between them and the host: `zygote.py` puts those on.
//!
//! Answers to: `init`. Must not: let the host's root become an interpreter, or go on where a step could not be done.

use std::fs::{DirBuilder, create_dir_all, remove_dir_all, write};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::Path;

use ringfence_wire::jail::{LockOnly, Plan};

use super::filter::{Around, filters};
use super::{Failed, Step, errand, start};

/// Becomes the interpreter. Gives back only why it could not; nothing is left then.
pub fn begin(plan: &Plan, lock: &LockOnly) -> Failed {
    let folder = Path::new(&lock.folder);
    if let Err(failed) = make_folder(folder, lock.user) {
        return failed;
    }
    let failed = match prepared(plan, lock, folder) {
        Ok((filters, driver)) => start::interpreter(plan, &filters, &driver, None),
        Err(failed) => failed,
    };
    // It holds the driver only: no session was forked.
    let _ = remove_dir_all(folder);
    failed
}

/// The folder of the sessions' folders. It must not be there yet: whoever made it could read along.
fn make_folder(folder: &Path, user: Option<u32>) -> Result<(), Failed> {
    let what = || format!("the folder `{}` can't be made", folder.display());
    DirBuilder::new().mode(0o700).create(folder).step(what)?;
    chown(folder, user, user).step(what)
}

fn prepared(plan: &Plan, lock: &LockOnly, folder: &Path) -> Result<(super::filter::Filters, String), Failed> {
    if lock.user.is_none() && rustix::process::geteuid().is_root() {
        return Err(Failed::new("there is no user here but root".to_owned()));
    }
    if lock.user.is_some() {
        errand::give_up_rights(lock.user).step(|| "root can't be given up".into())?;
    }
    let driver = folder.join("driver");
    for (name, text) in start::driver() {
        let file = driver.join(name);
        let made = file.parent().map_or(Ok(()), create_dir_all).and_then(|()| write(&file, text));
        made.step(|| format!("`{}` can't be written", file.display()))?;
    }
    let filters = filters(plan.session.exec, Around::LockOnly { own_user: lock.user.is_some() })?;
    Ok((filters, driver.display().to_string()))
}
