//! The driver of native CPython, run by the machine's `python3` and spoken to by its frames alone.
//!
//! Answers to: the contract of `crates/wire` and of the other engines, whose exact texts it repeats. Must not: be run
//! in a jail; that is the tier's. `RINGFENCE_TEST_PYTHON` names another interpreter.

mod basics;
mod support;
