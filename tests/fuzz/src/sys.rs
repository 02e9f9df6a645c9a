//! An allocator that counts: how much memory an input made its target take.
//!
//! Answers to: the replayer. Must not: change what the system's allocator does.
#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes and hands on to the system's allocator.
#[derive(Debug)]
pub struct Counting;

/// Runs `work`, and gives the most bytes that it had beyond those of before.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed).saturating_sub(before)
}

fn more(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

// WHY UNSAFE: `GlobalAlloc` is how a program counts its own memory.
// SAFETY: every call goes to `System` unchanged; the counters are atomic and never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while bytes are moved.
        more(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise about all three is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
