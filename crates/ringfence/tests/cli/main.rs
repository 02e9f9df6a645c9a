//! The command line as a person meets it: arguments and standard input, exit code and exact text.
//!
//! Answers to: the promises of the command line. Must not: test what a library test can.

mod audit;
mod bad_input;
mod changes;
mod environments;
mod exports;
mod holds;
mod home;
mod lost_output;
mod repl;
mod run;
mod shown;
mod top;
