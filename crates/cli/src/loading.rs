//! What is read and loaded before anything runs: bounded in time, and given up at Ctrl-C, `SIGTERM` or `SIGHUP`.
//!
//! Answers to: the commands. Must not: wait for a file or a Python process without end. Standard input alone may take
//! as long as it likes: whoever writes to it is waited for, as by any other tool.
//! INVARIANT: once this was called, Ctrl-C no longer ends the process by itself; all that waits must go through here
//! or through the run's own watch.

use std::future::Future;

use ringfence_api::Code;
use ringfence_types::Span;

use crate::fault::Fault;
use crate::signals::Ends;

/// How long loading may take where no option says so.
pub const USUAL: Span = Span::from_secs(30);

/// Waits for `work`, at most for `limit`. `what` is what takes that long.
pub async fn within<T>(
    limit: Option<Span>,
    what: &str,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut ends = Ends::watch();
    let over = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit.duration()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        () = ends.received() => Err(Fault::given_up(what)),
        () = over => Err(Fault::too_slow(what, limit.unwrap_or(USUAL))),
    }
}

/// The same for what blocks: it runs in a thread, which is left behind where it is given up.
pub async fn read<T: Send + 'static>(
    limit: Option<Span>,
    what: &str,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let reading = tokio::task::spawn_blocking(work);
    let failed = |error| Fault::new(Code::Internal, format!("{what} failed: {error}"));
    within(limit, what, async { reading.await.map_err(failed)? }).await
}
