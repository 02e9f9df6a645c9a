//! The driver of native CPython: Python files that run inside a jailed process and speak the frames of `wire`.
//!
//! Answers to: the process tier, which puts the package where its interpreter finds it. Must not: be needed by the
//! interpreters of this crate, or hold a boundary: a program can reach and change all of it.

/// The files of the package: name below its parent folder, and text.
pub const FILES: &[(&str, &str)] = &[
    ("ringfence_guest/__init__.py", include_str!("ringfence_guest/__init__.py")),
    ("ringfence_guest/branches.py", include_str!("ringfence_guest/branches.py")),
    ("ringfence_guest/display.py", include_str!("ringfence_guest/display.py")),
    ("ringfence_guest/failure.py", include_str!("ringfence_guest/failure.py")),
    ("ringfence_guest/files.py", include_str!("ringfence_guest/files.py")),
    ("ringfence_guest/forks.py", include_str!("ringfence_guest/forks.py")),
    ("ringfence_guest/functions.py", include_str!("ringfence_guest/functions.py")),
    ("ringfence_guest/link.py", include_str!("ringfence_guest/link.py")),
    ("ringfence_guest/output.py", include_str!("ringfence_guest/output.py")),
    ("ringfence_guest/processes.py", include_str!("ringfence_guest/processes.py")),
    ("ringfence_guest/runner.py", include_str!("ringfence_guest/runner.py")),
    ("ringfence_guest/session.py", include_str!("ringfence_guest/session.py")),
    ("ringfence_guest/values.py", include_str!("ringfence_guest/values.py")),
    ("ringfence_guest/wire.py", include_str!("ringfence_guest/wire.py")),
];
