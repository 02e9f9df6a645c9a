//! A line that shows that something is going on, on a terminal, and only where it takes over a second.
//!
//! Answers to: `run` and `repl`. Must not: write to anything but a terminal's standard error.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// One line of progress. Cheap to clone: the clones share the line.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    since: Instant,
    bar: Option<ProgressBar>,
    over: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { since: Instant::now(), bar: None, over: false })))
    }
}

/// Words and a sign of life: there is nothing to count.
fn line(what: &'static str, target: ProgressDrawTarget) -> ProgressBar {
    ProgressBar::with_draw_target(None, target).with_style(ProgressStyle::default_spinner()).with_message(what)
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the line, where it has taken over a second.
    pub fn after_a_second(&self, what: &'static str) {
        let mut state = self.state();
        let late = !state.over && state.bar.is_none() && state.since.elapsed() >= PATIENCE;
        if late && std::io::stderr().is_terminal() {
            let bar = line(what, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(100));
            state.bar = Some(bar);
        }
    }

    /// Takes the line away for good.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Steps that are counted, with what the step under way is at. Nothing is shown where no terminal is.
#[derive(Debug)]
pub struct Steps(ProgressBar);

impl Steps {
    /// So many steps.
    pub fn new(count: u64) -> Self {
        Self::on(count, ProgressDrawTarget::stderr())
    }

    fn on(count: u64, target: ProgressDrawTarget) -> Self {
        let style = ProgressStyle::with_template("[{pos}/{len}] {prefix}{msg}");
        let bar = ProgressBar::with_draw_target(Some(count), target);
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// The next step begins.
    pub fn next(&self, what: &'static str) {
        self.0.set_prefix(what);
        self.0.set_message("");
        self.0.inc(1);
    }

    /// What the step is at: a line of a tool's.
    pub fn at(&self, line: &str) {
        let line: String = line.trim().chars().filter(|c| !c.is_control()).take(60).collect();
        if !line.is_empty() {
            self.0.set_message(format!(": {line}"));
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that remembers what was written to it.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl indicatif::TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> std::io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn steps_are_counted_and_say_what_they_are_at() {
        let screen = Screen::default();
        let steps = Steps::on(4, ProgressDrawTarget::term_like(Box::new(screen.clone())));
        steps.next("fetching packages");
        steps.at("Collecting\u{1b}[31m numpy==2.0\n");
        steps.0.tick();
        let shown = screen.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(shown.trim_end().ends_with("[1/4] fetching packages: Collecting[31m numpy==2.0"), "{shown:?}");
    }

    #[test]
    fn the_line_is_words_and_a_sign_of_life() {
        let screen = Screen::default();
        line("starting a worker", ProgressDrawTarget::term_like(Box::new(screen.clone()))).tick();
        let shown = screen.0.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        assert_eq!(shown.split_once(' ').map(|(_, words)| words), Some("starting a worker"), "{shown}");
    }
}
