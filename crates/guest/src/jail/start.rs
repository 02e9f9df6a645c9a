//! Starting the zygote: an ordinary CPython, isolated, with the first filters on and nothing open but its sockets.
//!
//! Answers to: `init` and `lock_only`. Must not: hand on a descriptor or a variable that the plan does not name.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_wire::jail::{Plan, Users};
use seccompiler::apply_filter;

use super::filter::{Filters, bytes_of};
use super::{Failed, Step, errand, sys};
use crate::cpython;
use crate::sys::control_socket;

/// The zygote's descriptors: the host's control socket, and the init, which makes places.
const CONTROL: i32 = 3;
const PLACES: i32 = 4;

/// The files of the driver and of the zygote: name below their folder, and text.
pub fn driver() -> impl Iterator<Item = (&'static str, &'static str)> {
    cpython::FILES.iter().copied().chain([("ringfence_zygote.py", include_str!("zygote.py"))])
}

/// Becomes the interpreter, whose driver lies in the folder `driver`; `places` is whoever makes places, where there are
/// any. Gives back only why it could not.
pub fn interpreter(plan: &Plan, filters: &Filters, driver: &str, places: Option<BorrowedFd<'_>>) -> Failed {
    match ready_for_exec(plan, filters, driver, places) {
        Err(failed) => failed,
        Ok((program, arguments, environment)) => {
            let error = sys::exec(&program, &arguments, &environment);
            // The host is told of it where it always is.
            let _ = sys::place(errand::descriptor(&CONTROL), 0);
            Failed::new(format!("`{}` can't be started: {error}", plan.program))
        }
    }
}

/// At a number that none of the zygote's descriptors has.
fn null() -> std::io::Result<OwnedFd> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    Ok(rustix::io::fcntl_dupfd_cloexec(null, PLACES + 1)?)
}

type Execution = (CString, Vec<CString>, Vec<CString>);

fn ready_for_exec(
    plan: &Plan,
    filters: &Filters,
    driver: &str,
    places: Option<BorrowedFd<'_>>,
) -> Result<Execution, Failed> {
    let text = |text: &str| CString::new(text).map_err(std::io::Error::from).step(|| "a NUL in the plan".into());
    let program = text(&plan.program)?;
    let settings = serde_json::json!({
        "preload": plan.preload,
        "functions": plan.functions,
        "session": plan.session,
        "lock_only": plan.lock_only,
        "range": matches!(plan.users, Users::Range { .. }),
        "filters": filters.session.iter().map(bytes_of).collect::<Vec<_>>(),
    });
    // Isolated: no user folder, no environment, nothing of the current folder; with the site of its own prefix.
    let start = format!("import sys; sys.path.insert(0, {driver:?}); import ringfence_zygote; ringfence_zygote.main()");
    let arguments = [plan.program.as_str(), "-I", "-X", "utf8", "-c", &start, &settings.to_string()];
    let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>()?;
    let environment = plan.environment.iter().map(|(name, value)| text(&format!("{name}={value}")));
    let environment = environment.collect::<Result<_, _>>()?;
    let null = null().step(|| "no `/dev/null`".into())?;
    if plan.users == Users::Own && plan.lock_only.is_none() {
        sys::keep_rights().step(|| "the rights inside can't be kept".into())?;
    }
    // While the host can still be told why not.
    for program in &filters.zygote {
        apply_filter(program).map_err(|error| Failed::new(format!("the filter can't be put on: {error}")))?;
    }
    let last = if places.is_some() { PLACES } else { CONTROL };
    let placed = places
        .map_or(Ok(()), |places| sys::place(places, PLACES))
        .and_then(|()| sys::place(control_socket(), CONTROL))
        .and_then(|()| sys::place(null.as_fd(), 0))
        .and_then(|()| sys::place(null.as_fd(), 1))
        .and_then(|()| sys::place(null.as_fd(), 2))
        .and_then(|()| sys::close_from(last.unsigned_abs() + 1));
    // It is closed, and its number is nobody's.
    std::mem::forget(null);
    placed.step(|| "descriptors can't be put in place".into())?;
    Ok((program, arguments, environment))
}
