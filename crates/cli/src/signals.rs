//! The signals by which a person or a service manager ends a command: Ctrl-C, `SIGTERM`, and a terminal that goes away.
//!
//! Answers to: `loading` and `run`, which give up in order. Must not: take up a signal that this process was started to
//! ignore, as by `nohup` or as a job in the background.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for any of them.
pub struct Ends(Vec<Signal>);

impl Ends {
    /// From now on none of them ends the process by itself.
    pub fn watch() -> Self {
        let ignored = ignored();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = |kind: &SignalKind| ignored & (1 << (kind.as_raw_value() - 1)) == 0;
        Self(kinds.into_iter().filter(heard).filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Comes back when one has arrived.
    pub async fn received(&mut self) {
        std::future::poll_fn(|context| match self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        })
        .await;
    }
}

/// The signals that this process ignores, one bit each, as it was found at its start: a handler set here changes it.
fn ignored() -> u64 {
    static FOUND: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
    })
}
