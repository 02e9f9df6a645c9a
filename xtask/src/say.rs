//! What is printed.
//!
//! Answers to: every module here. Must not: be gone around; nothing else in this program prints.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the printer")]

use std::time::Duration;

/// A line for people.
pub fn line(text: &str) {
    println!("{text}");
}

/// A line about what goes on.
pub fn progress(text: &str) {
    eprintln!("xtask: {text}");
}

/// Why the command ends.
pub fn error(text: &str) {
    eprintln!("error: {text}");
}

/// A time as people read it: `4.2s`, `3m07s`.
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{:.1}s", time.as_secs_f64()) } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}
