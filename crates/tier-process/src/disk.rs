//! Whether a session's file systems are full, asked of the kernel.
//!
//! Answers to: `cell`. Must not: open a file of the session's, or take its word for what is full.

use std::os::fd::BorrowedFd;

use ringfence_types::{LimitHit, LimitKind};
use rustix::fs::{StatFs, fstatfs, statfs};

/// What a session writes to. Its root can't be written to, so that these are what the jail mounted there.
const PLACES: [&str; 3] = ["/workspace", "/tmp", "/dev/shm"];

/// The first that has no room, and a line that names it. `changes` is what takes changes in copy-on-write mounts.
pub fn short_of(interpreter: i32, changes: Option<BorrowedFd<'_>>) -> Option<(LimitHit, String)> {
    let places = PLACES.iter().map(|at| (format!("`{at}`"), statfs(format!("/proc/{interpreter}/root{at}"))));
    let changes = changes.map(|changes| ("what takes changes in copy-on-write mounts".to_owned(), fstatfs(changes)));
    places.chain(changes).find_map(|(name, found)| full(&name, &found.ok()?))
}

fn full(name: &str, found: &StatFs) -> Option<(LimitHit, String)> {
    // One that is not the session's own has no such bounds.
    if found.f_type != super::changes::TMPFS_MAGIC {
        return None;
    }
    let block = u64::try_from(found.f_bsize).unwrap_or_default();
    let (allowed, left) = (found.f_blocks.saturating_mul(block), found.f_bavail);
    let hit = LimitHit { kind: LimitKind::Disk, allowed, reached: allowed };
    if left == 0 {
        return Some((hit, format!("the limit on disk struck: {name} is full, {allowed} bytes are allowed")));
    }
    let files = found.f_files;
    let none_left = found.f_ffree == 0 && files > 0;
    none_left.then(|| (hit, format!("the limit on disk struck: {name} is full, {files} files and folders are allowed")))
}
