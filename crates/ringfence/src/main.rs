//! The program `ringfence`: a worker where an engine started it as one, the command line where a person did.
//!
//! Answers to: nobody. Must not: hold logic.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ringfence::CountingAllocator = ringfence::CountingAllocator;

fn main() -> ExitCode {
    ringfence::become_worker_if_asked();
    ringfence_cli::main(&ringfence::root())
}
