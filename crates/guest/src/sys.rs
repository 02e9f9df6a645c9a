//! The guest's only unsafe code: its allocator's accounting, its lock, forking, and raw reads and writes.
//!
//! Answers to: `worker` and `zygote`. Must not: decide anything; each function does one thing to this process.
#![expect(unsafe_code, reason = "system calls that the safe crates do not cover; each block is argued")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_types::LimitKind;
use ringfence_wire::limit_frame;
use seccompiler::BpfProgram;

/// The descriptor of the session's socket in a locked worker: the only one open.
pub const SOCKET: RawFd = 3;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether a frame is half written: then no other may be put into the stream.
static WRITING: AtomicBool = AtomicBool::new(false);
/// Set in a worker only, so that a host that uses the allocator is never ended by it.
static LIMIT_SOCKET: AtomicI32 = AtomicI32::new(-1);

/// Counts live bytes. In a worker with a limit, going over it ends the process and names the limit.
#[derive(Debug)]
pub struct CountingAllocator;

// WHY UNSAFE: `GlobalAlloc` is an unsafe trait.
// SAFETY: every method forwards to `System` with the caller's own arguments; the counters are atomics and no method
// allocates, unwinds or keeps a pointer.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller's contract is `System`'s.
        checked(unsafe { System.alloc(layout) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller's contract is `System`'s.
        checked(unsafe { System.alloc_zeroed(layout) })
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size >= layout.size() {
            charge(size - layout.size());
        } else {
            LIVE.fetch_sub(layout.size() - size, Ordering::Relaxed);
        }
        // SAFETY: the caller's contract is `System`'s.
        checked(unsafe { System.realloc(pointer, layout, size) })
    }
}

#[inline]
fn charge(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if live > ALLOWED.load(Ordering::Relaxed) {
        over_memory(live);
    }
}

/// The kernel's own limit answers with a null pointer: the same end, named the same way.
#[inline]
fn checked(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() && ALLOWED.load(Ordering::Relaxed) != usize::MAX {
        over_memory(LIVE.load(Ordering::Relaxed));
    }
    pointer
}

/// Names the memory limit and ends the process. Runs inside the allocator, so it must not allocate.
#[cold]
fn over_memory(live: usize) {
    let above = live.saturating_sub(BASE.load(Ordering::Relaxed));
    end_with_limit(LimitKind::Memory, above as u64);
}

static BASE: AtomicUsize = AtomicUsize::new(0);

/// Lets the process allocate `bytes` more than it holds now.
pub fn allow_memory(bytes: u64) {
    let live = LIVE.load(Ordering::Relaxed);
    BASE.store(live, Ordering::Relaxed);
    ALLOWED.store(live.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)), Ordering::Relaxed);
}

/// Bytes that are allocated now, where the process uses [`CountingAllocator`]; 0 elsewhere.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Sends the limit's frame, unless another is half written, and ends the process.
pub fn end_with_limit(kind: LimitKind, reached: u64) -> ! {
    let socket = LIMIT_SOCKET.load(Ordering::Relaxed);
    if socket >= 0 && !WRITING.load(Ordering::Relaxed) {
        let frame = limit_frame(kind, reached);
        // WHY UNSAFE: runs inside the allocator or a signal handler, where std's I/O may not be used.
        // SAFETY: `frame` is on this stack and as long as said; `write` is async-signal-safe.
        while unsafe { libc::write(socket, frame.as_ptr().cast(), frame.len()) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
        {
            wait(libc::POLLOUT, None);
        }
    }
    end(65)
}

/// Ends the process at once, without running anything else.
pub fn end(code: i32) -> ! {
    // WHY UNSAFE: `_exit` has no safe wrapper.
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

extern "C" fn on_cpu_limit(_signal: libc::c_int) {
    end_with_limit(LimitKind::Cpu, 0);
}

/// Makes the kernel's processor-time signal name its limit, and a lost host end the worker.
pub fn install_signal_handlers() {
    let handler = on_cpu_limit as *const () as libc::sighandler_t;
    // WHY UNSAFE: `signal` is a raw libc call.
    // SAFETY: the handler only loads atomics, writes to a descriptor and exits: all async-signal-safe.
    unsafe {
        libc::signal(libc::SIGXCPU, handler);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Writes all of `bytes` to the session's socket. The process ends where the host is gone.
pub fn write_frame(bytes: &[u8]) {
    WRITING.store(true, Ordering::Relaxed);
    let mut rest = bytes;
    while !rest.is_empty() {
        // WHY UNSAFE: the descriptor is a plain number in the locked worker.
        // SAFETY: `rest` is valid for its length.
        let count = unsafe { libc::write(SOCKET, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(count) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => {
                    wait(libc::POLLOUT, None);
                }
                _ => end(66),
            },
        }
    }
    WRITING.store(false, Ordering::Relaxed);
}

/// Reads what the session's socket has, up to the length of `buffer`; `None` where it has nothing yet.
/// The process ends where the host is gone.
pub fn read_some(buffer: &mut [u8]) -> Option<usize> {
    // WHY UNSAFE: the descriptor is a plain number in the locked worker.
    // SAFETY: `buffer` is valid for its length and nothing else refers to it.
    let count = unsafe { libc::read(SOCKET, buffer.as_mut_ptr().cast(), buffer.len()) };
    match usize::try_from(count) {
        Ok(0) => end(0),
        Ok(count) => Some(count),
        Err(_) => match io::Error::last_os_error().kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => None,
            _ => end(66),
        },
    }
}

/// Waits until the session's socket has something to read, or `timeout` has passed. `true`: there is something.
pub fn wait_readable(timeout: Option<Duration>) -> bool {
    wait(libc::POLLIN, timeout)
}

fn wait(events: libc::c_short, timeout: Option<Duration>) -> bool {
    let millis = timeout.map_or(-1, |timeout| i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    let mut poll = libc::pollfd { fd: SOCKET, events, revents: 0 };
    // WHY UNSAFE: `poll` is a raw libc call.
    // SAFETY: one `pollfd` on this stack, and its count is 1.
    unsafe { libc::poll(&raw mut poll, 1, millis) > 0 }
}

/// Moves `socket` to its fixed number and closes every other descriptor.
pub fn keep_only(socket: OwnedFd) -> io::Result<()> {
    // WHY UNSAFE: closes descriptors that Rust objects may still believe they own.
    // SAFETY: called in a fresh worker right before its lock; nothing that owns a descriptor is used after it, and
    // `socket` is forgotten here so that it is not closed twice.
    unsafe {
        let from = socket.as_raw_fd();
        if from == SOCKET {
            check(libc::fcntl(SOCKET, libc::F_SETFD, libc::FD_CLOEXEC))?;
        } else {
            check(libc::dup3(from, SOCKET, libc::O_CLOEXEC))?;
        }
        std::mem::forget(socket);
        check(libc::close_range(0, SOCKET.cast_unsigned() - 1, 0))?;
        check(libc::close_range(SOCKET.cast_unsigned() + 1, libc::c_uint::MAX, 0))?;
    }
    LIMIT_SOCKET.store(SOCKET, Ordering::Relaxed);
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Lowers what the kernel lets this process do: no core dumps, no files, no processes, a stack of `stack` bytes.
pub fn lower_limits(stack: u64) -> io::Result<()> {
    let set = |resource, amount: u64| {
        let limit = libc::rlimit { rlim_cur: amount, rlim_max: amount };
        // WHY UNSAFE: `setrlimit` is a raw libc call.
        // SAFETY: `limit` is on this stack.
        check(unsafe { libc::setrlimit(resource, &raw const limit) }).map(drop)
    };
    set(libc::RLIMIT_CORE, 0)?;
    set(libc::RLIMIT_FSIZE, 0)?;
    set(libc::RLIMIT_NPROC, 0)?;
    set(libc::RLIMIT_STACK, stack)
}

/// The kernel's own bound on the address space, behind the allocator's: it holds for code that goes around the allocator.
pub fn bound_address_space(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // WHY UNSAFE: `setrlimit` is a raw libc call.
    // SAFETY: `limit` is on this stack.
    check(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }).map(drop)
}

/// Lets the main thread's stack grow to `bytes`.
pub fn raise_stack(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // WHY UNSAFE: `getrlimit` and `setrlimit` are raw libc calls.
    // SAFETY: `limit` is on this stack.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit))?;
        limit.rlim_cur = bytes.min(limit.rlim_max);
        check(libc::setrlimit(libc::RLIMIT_STACK, &raw const limit))?;
    }
    Ok(())
}

/// Gives up root for good: no groups, the user and group `nobody`. Does nothing for an ordinary user.
pub fn drop_root() -> io::Result<()> {
    const NOBODY: libc::uid_t = 65534;
    // WHY UNSAFE: credentials have no safe wrapper in std.
    // SAFETY: plain numbers; called while the process has one thread.
    unsafe {
        if libc::geteuid() == 0 {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
            check(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
        }
    }
    Ok(())
}

/// No new privileges by exec, and no looking into this process from outside.
pub fn harden() -> io::Result<()> {
    // WHY UNSAFE: `prctl` is a raw libc call.
    // SAFETY: plain numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0))?;
    }
    Ok(())
}

/// Asks the kernel to kill this process when its parent, `parent`, dies. `false` where it is dead already.
pub fn die_with(parent: u32) -> io::Result<bool> {
    // WHY UNSAFE: `prctl` and `getppid` are raw libc calls.
    // SAFETY: plain numbers.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        Ok(u32::try_from(libc::getppid()).is_ok_and(|now| now == parent))
    }
}

/// Puts the system-call filter on. It can't be taken off again.
pub fn lock(filter: &BpfProgram) -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter(filter)
}

/// Children are reaped by the kernel at once: a zygote has no use for their status.
pub fn ignore_children() {
    // WHY UNSAFE: `signal` is a raw libc call.
    // SAFETY: sets a constant disposition.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one: the child's number, and a handle on it that can't come to mean another process.
    Parent(i32, OwnedFd),
}

/// Forks this process.
pub fn fork() -> io::Result<Forked> {
    // WHY UNSAFE: fork is unsafe in a process with threads.
    // SAFETY: a zygote starts no thread, so every lock is free and all state is whole in the child.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: `pidfd_open` takes a number and flags and returns a new descriptor or an error.
    let handle = check(i32::try_from(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).unwrap_or(-1))?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(Forked::Parent(pid, unsafe { OwnedFd::from_raw_fd(handle) }))
}

/// The control socket, which the host gave as standard input.
pub fn control_socket() -> BorrowedFd<'static> {
    // WHY UNSAFE: std has no borrowed form of descriptor 0 with a static life.
    // SAFETY: descriptor 0 is open for as long as the zygote lives; nothing closes it.
    unsafe { BorrowedFd::borrow_raw(0) }
}
