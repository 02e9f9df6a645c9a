//! The way from a native function of the interpreter back to the [`Host`] that the current snippet was given.
//!
//! Answers to: the native functions. Must not: let the host be reached outside of [`with_host`], or twice at once.
#![expect(unsafe_code, reason = "a borrowed host passes through an interpreter whose functions must be 'static")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::engine::Host;

thread_local! {
    static HOST: Cell<Option<NonNull<dyn Host>>> = const { Cell::new(None) };
}

/// Puts back what was there before, even where the code between panics.
struct Restore(Option<NonNull<dyn Host>>);

impl Drop for Restore {
    fn drop(&mut self) {
        HOST.set(self.0);
    }
}

/// Makes `host` reachable through [`host`] while `run` runs.
pub fn with_host<R>(host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
    let raw: NonNull<dyn Host + '_> = NonNull::from(host);
    // WHY UNSAFE: the interpreter's native functions are 'static, so the borrow can't be named in their type.
    // SAFETY: only the lifetime changes. The pointer is taken out of the cell by `Restore` before this function
    // returns, and `host` stays mutably borrowed by this frame until then.
    let raw: NonNull<dyn Host> = unsafe { std::mem::transmute(raw) };
    let _restore = Restore(HOST.replace(Some(raw)));
    run()
}

/// The host of the snippet that runs, or `None` outside of one and while another borrow of it is alive.
pub fn host<R>(run: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    let mut raw = HOST.take()?;
    let _restore = Restore(Some(raw));
    // WHY UNSAFE: see `with_host`.
    // SAFETY: the pointer is in the cell only while `with_host` holds the mutable borrow it came from, and it is
    // taken out of the cell for as long as this reference lives, so there is never a second one.
    Some(run(unsafe { raw.as_mut() }))
}
