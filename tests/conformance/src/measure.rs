//! What the host itself uses: memory, processes, descriptors, folders, mounts.
//!
//! Answers to: the oracles about the host. Must not: count what other programs of the machine do.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A number of `/proc/self/status`, in bytes.
fn status(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Resident memory of this process, in bytes.
pub fn memory() -> u64 {
    status("VmRSS")
}

/// The highest resident memory since [`forget_peak`].
pub fn peak() -> u64 {
    status("VmHWM")
}

/// Starts the count of the highest memory anew.
pub fn forget_peak() {
    // Where the kernel does not let us, the peak of the whole life is read, which is the stricter check.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map(|entries| entries.count()).unwrap_or_default()
}

/// Mounts that this process sees.
pub fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().count()
}

/// Entries of a folder.
pub fn entries(folder: &str) -> usize {
    fs::read_dir(folder).map(|entries| entries.count()).unwrap_or_default()
}

/// Entries of a shared folder that are Ringfence's by name.
pub fn own_entries(folder: &str) -> usize {
    let own = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("ringfence");
    fs::read_dir(folder).into_iter().flatten().flatten().filter(own).count()
}

/// Processes below this one, zombies too.
pub fn descendants() -> usize {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut below = vec![std::process::id()];
    let mut at = 0;
    while let Some(pid) = below.get(at).copied() {
        below.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        at += 1;
    }
    below.len() - 1
}

/// Waits until `count` gives at most `most`, for at most two seconds. Gives the last count.
pub async fn settle(most: usize, count: impl Fn() -> usize) -> usize {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        let now = count();
        if now <= most || Instant::now() > end {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `count` gave the same number ten times in a row, for at most two seconds.
pub async fn steady(count: impl Fn() -> usize) {
    let end = Instant::now() + Duration::from_secs(2);
    let (mut last, mut times) = (count(), 0);
    while times < 10 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = count();
        times = if now == last { times + 1 } else { 0 };
        last = now;
    }
}

/// Bytes of every file below a folder.
pub fn bytes_below(folder: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map(|data| data.len()).unwrap_or_default(),
        _ => 0,
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}
