//! What runs in a session of a native CPython: the driver, as files that the jail's init writes down.
//!
//! Answers to: `jail`. Must not: be a boundary; the program can reach and change all of it.

/// Each file's path below the driver's folder, and its text.
pub const FILES: &[(&str, &str)] =
    &[("ringfence_guest/__init__.py", ""), ("ringfence_guest/session.py", include_str!("standin.py"))];
