//! Control groups, version 1, hybrid or 2: limits that hold for a session's processes together, and what they used.
//!
//! Answers to: `jail` and `cell`. Must not: touch a group that it did not make.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringfence_tier::Held;
use ringfence_types::Io;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

const MOUNTED: &str = "/sys/fs/cgroup";
/// What processes may take to stand still.
const PATIENCE: Duration = Duration::from_secs(3);
const PREFIX: &str = "ringfence-";

/// What a group may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u32,
}

/// How this machine keeps its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A folder for each controller.
    Apart { memory: PathBuf, processes: PathBuf, time: PathBuf },
    /// One folder for all.
    Together(PathBuf),
}

/// Makes groups with the same bounds.
#[derive(Debug, Clone)]
pub struct Groups {
    kind: Option<Kind>,
    bounds: Bounds,
    made: Arc<AtomicU64>,
}

/// Rounds in which processes of a group are ended that may start no other.
const ROUNDS: usize = 50;

/// Whether groups can be made here, tried out; the reason where not.
pub fn probe() -> Result<(), String> {
    let kind = find()?;
    let groups = Groups { kind: Some(kind), bounds: Bounds { memory: 1 << 30, processes: 64 }, made: Arc::default() };
    groups.make().map(drop).map_err(|error| format!("a control group can't be made: {error}"))
}

fn find() -> Result<Kind, String> {
    let mounted = Path::new(MOUNTED);
    let folder = |name: &str| Some(mounted.join(name)).filter(|path| path.join("cgroup.procs").exists());
    if let (Some(memory), Some(processes)) = (folder("memory"), folder("pids")) {
        let time = folder("cpuacct").or_else(|| folder("cpu,cpuacct"));
        let time = time.ok_or_else(|| format!("`{MOUNTED}` has no control groups for processor time"))?;
        return Ok(Kind::Apart { memory, processes, time });
    }
    let controllers = std::fs::read_to_string(mounted.join("cgroup.controllers"));
    let controllers = controllers.map_err(|_| format!("`{MOUNTED}` has no control groups"))?;
    let missing = ["memory", "pids"].into_iter().find(|name| !controllers.split_whitespace().any(|has| has == *name));
    match missing {
        None => Ok(Kind::Together(mounted.to_owned())),
        Some(name) => Err(format!("the control groups in `{MOUNTED}` have no controller `{name}`")),
    }
}

impl Groups {
    /// Groups with these bounds; none where this user may make none, which is tried.
    pub fn new(bounds: Bounds) -> Self {
        let groups = Self { kind: find().ok(), bounds, made: Arc::default() };
        match groups.make() {
            Ok(_) => groups,
            Err(_) => Self { kind: None, ..groups },
        }
    }

    /// What a group may hold.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether this machine has any.
    pub fn are_there(&self) -> bool {
        self.kind.is_some()
    }

    /// A new group; `None` where this machine has none.
    pub fn make(&self) -> io::Result<Option<Group>> {
        let Some(kind) = &self.kind else { return Ok(None) };
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{:p}-{number}", std::process::id(), Arc::as_ptr(&self.made));
        let mut group = Group {
            memory: PathBuf::new(),
            time: None,
            peak: None,
            ended: None,
            doors: Vec::new(),
            folders: Vec::new(),
            together: false,
            freezer: Mutex::default(),
            maker: self.clone(),
        };
        match kind {
            Kind::Apart { memory, processes, time } => {
                group.memory = group.add_folder(memory.join(&name))?;
                group.time = File::open(group.add_folder(time.join(&name))?.join("cpuacct.usage")).ok();
                group.peak = File::open(group.memory.join("memory.max_usage_in_bytes")).ok();
                group.ended = File::open(group.memory.join("memory.oom_control")).ok();
                let processes = group.add_folder(processes.join(&name))?;
                let door = |folder: &PathBuf| File::options().write(true).open(folder.join("tasks"));
                group.doors = group.folders.iter().map(door).collect::<io::Result<_>>()?;
                std::fs::write(group.memory.join("memory.limit_in_bytes"), self.bounds.memory.to_string())?;
                std::fs::write(processes.join("pids.max"), self.bounds.processes.to_string())?;
            }
            Kind::Together(root) => {
                // Harmless where it is set already.
                let _ = std::fs::write(root.join("cgroup.subtree_control"), "+memory +pids +cpu");
                // Where it can't be had, what processes say of themselves to the kernel is read.
                let _ = std::fs::write(root.join("cgroup.subtree_control"), "+io");
                let folder = group.add_folder(root.join(&name))?;
                std::fs::write(folder.join("memory.max"), self.bounds.memory.to_string())?;
                std::fs::write(folder.join("pids.max"), self.bounds.processes.to_string())?;
                let _ = std::fs::write(folder.join("memory.oom.group"), "1");
                let _ = std::fs::write(folder.join("memory.swap.max"), "0");
                group.time = File::open(folder.join("cpu.stat")).ok();
                group.peak = File::open(folder.join("memory.peak")).ok();
                group.ended = File::open(folder.join("memory.events")).ok();
                (group.memory, group.together) = (folder, true);
            }
        }
        Ok(Some(group))
    }
}

/// One session's group. Dropping it removes it, once its processes are gone.
#[derive(Debug)]
pub struct Group {
    memory: PathBuf,
    /// Processor time, peak memory, and how many the kernel ended for their memory, opened ahead of need: a session's end
    /// is no time to look for files.
    time: Option<File>,
    peak: Option<File>,
    ended: Option<File>,
    /// Where a process of one thread goes in by itself: to move another one the kernel stops every fork of the machine,
    /// for up to 15 ms. Version 2 has no such files.
    doors: Vec<File>,
    folders: Vec<PathBuf>,
    together: bool,
    /// Where its processes are made to stand still, once they were.
    freezer: Mutex<Option<PathBuf>>,
    maker: Groups,
}

impl Group {
    fn add_folder(&mut self, path: PathBuf) -> io::Result<PathBuf> {
        std::fs::create_dir(&path)?;
        self.folders.push(path.clone());
        Ok(path)
    }

    /// Where its first process goes in by writing `0` to each. None: it must be put in.
    pub fn doors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.doors.iter().map(AsFd::as_fd)
    }

    /// Puts its first process in, which is there, where that has not gone in by itself.
    pub fn begin(&mut self, pid: i32) -> io::Result<()> {
        let doors = std::mem::take(&mut self.doors);
        if doors.is_empty() { self.add(pid) } else { Ok(()) }
    }

    /// Puts a process in; its children will be in it too.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| std::fs::write(folder.join("cgroup.procs"), pid.to_string()))
    }

    /// Processor time of all its processes, those that are gone too.
    pub fn cpu(&self) -> Option<Duration> {
        let text = whole(self.time.as_ref()?)?;
        if self.together {
            return number_after(&text, "usage_usec ").map(Duration::from_micros);
        }
        text.trim().parse().ok().map(Duration::from_nanos)
    }

    /// The most memory that its processes held together, in bytes.
    pub fn peak(&self) -> Option<u64> {
        whole(self.peak.as_ref()?)?.trim().parse().ok()
    }

    /// What its processes hold now; threads count as processes, as the kernel counts them.
    pub fn held(&self) -> Option<Held> {
        let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let name = if self.together { "memory.current" } else { "memory.usage_in_bytes" };
        let processes = self.folders.iter().find_map(|folder| number(folder.join("pids.current")))?;
        let memory = number(self.memory.join(name))?;
        Some(Held { memory, processes: u32::try_from(processes).ok()?, io: self.io() })
    }

    /// Its processes, as the host numbers them.
    pub fn processes(&self) -> Vec<i32> {
        pids(&self.memory)
    }

    /// Whether it can make its processes stand still.
    pub fn has_freezer(&self) -> bool {
        let is_own = || self.memory.join("cgroup.freeze").exists();
        if self.together { is_own() } else { Path::new(MOUNTED).join("freezer/cgroup.procs").exists() }
    }

    /// Makes all its processes stand still; returns when they do.
    pub fn freeze(&self) -> io::Result<()> {
        if self.together {
            std::fs::write(self.memory.join("cgroup.freeze"), "1")?;
            return until(|| holds(&self.memory.join("cgroup.events"), "frozen 1"));
        }
        let folder = self.freezer_made()?;
        std::fs::write(folder.join("freezer.state"), "FROZEN")?;
        // What comes into a frozen group is frozen, and starts nothing more.
        until(|| {
            let inside: BTreeSet<i32> = pids(&folder).into_iter().collect();
            let outside = self.processes().into_iter().filter(|pid| !inside.contains(pid));
            let mut all_inside = true;
            for pid in outside {
                all_inside = false;
                // One that is gone by now need not be moved.
                let _ = std::fs::write(folder.join("cgroup.procs"), pid.to_string());
            }
            all_inside && holds(&folder.join("freezer.state"), "FROZEN")
        })
    }

    /// A fresh one with the same bounds, into which processes are put.
    pub fn another(&self) -> io::Result<Option<Self>> {
        let mut group = self.maker.make()?;
        group.iter_mut().for_each(|group| group.doors.clear());
        Ok(group)
    }

    /// Ends every process in it. None can start another meanwhile.
    pub fn end(&self) {
        if let Some(folder) = self.folders.iter().find(|folder| folder.join("pids.max").exists()) {
            let _ = std::fs::write(folder.join("pids.max"), "0");
        }
        // One write where the kernel is new enough, which also ends what stands still.
        if self.together && std::fs::write(self.memory.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        for _ in 0..ROUNDS {
            let there: Vec<i32> = self.processes();
            if there.is_empty() {
                return;
            }
            there.into_iter().for_each(|pid| self.end_one(pid));
            std::thread::yield_now();
        }
    }

    /// By a handle: the number may come to mean another process before it is there, and not after.
    fn end_one(&self, number: i32) {
        let Some(pid) = Pid::from_raw(number) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.processes().contains(&number) {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    /// Lets them go on.
    pub fn thaw(&self) -> io::Result<()> {
        match &*self.freezer() {
            _ if self.together => std::fs::write(self.memory.join("cgroup.freeze"), "0"),
            Some(folder) => std::fs::write(folder.join("freezer.state"), "THAWED"),
            None => Ok(()),
        }
    }

    /// Ends every process of a group that stands still: what stands could not end by itself.
    pub fn end_frozen(&self) {
        let is_frozen =
            self.freezer().is_some() || (self.together && holds(&self.memory.join("cgroup.events"), "frozen 1"));
        if !is_frozen {
            return;
        }
        // They stand, so that their numbers are still theirs.
        for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.thaw();
    }

    fn freezer(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.freezer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group of the freezer's, which few sessions ever need.
    fn freezer_made(&self) -> io::Result<PathBuf> {
        let mut freezer = self.freezer();
        if let Some(folder) = &*freezer {
            return Ok(folder.clone());
        }
        let name = self.memory.file_name().ok_or(io::ErrorKind::NotFound)?;
        let folder = Path::new(MOUNTED).join("freezer").join(name);
        std::fs::create_dir(&folder)?;
        Ok(freezer.insert(folder).clone())
    }

    /// Bytes to and from disks, where groups count them: in version 1 they know nothing of what is written later, on the
    /// kernel's own time.
    fn io(&self) -> Option<Io> {
        if !self.together {
            return None;
        }
        std::fs::read_to_string(self.memory.join("io.stat")).ok().map(|text| io_of(&text))
    }

    /// Whether the kernel ended one of its processes for its memory.
    pub fn ran_out_of_memory(&self) -> bool {
        let text = self.ended.as_ref().and_then(whole);
        text.and_then(|text| number_after(&text, "oom_kill ")).is_some_and(|count| count > 0)
    }

    /// Removes the group. Whether it is gone: it stays while it has a process.
    pub fn remove(&self) -> bool {
        self.folders.iter().chain(self.freezer().iter()).all(|folder| match std::fs::remove_dir(folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end_frozen();
        if !self.remove() {
            let mut folders = std::mem::take(&mut self.folders);
            folders.extend(self.freezer().take());
            crate::remains::remove_later(folders);
        }
    }
}

fn pids(folder: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Whether a line of one of the kernel's files is this.
fn holds(path: &Path, line: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|found| found == line))
}

/// Looks until it is so.
fn until(mut is_so: impl FnMut() -> bool) -> io::Result<()> {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// What one of the kernel's small files says now.
fn whole(file: &File) -> Option<String> {
    let mut buffer = [0; 1024];
    let count = file.read_at(&mut buffer, 0).ok()?;
    buffer.get(..count).and_then(|text| std::str::from_utf8(text).ok()).map(str::to_owned)
}

/// The sum over all disks: `8:0 rbytes=1 wbytes=2 rios=1 …` each.
fn io_of(text: &str) -> Io {
    let sum = |name: &str| {
        text.split_whitespace()
            .filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok())
            .fold(0, u64::saturating_add)
    };
    Io { read: sum("rbytes="), written: sum("wbytes=") }
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// Groups that a host which is gone has left. Their processes are gone with it.
pub fn sweep() {
    let roots = ["memory", "pids", "cpuacct", "cpu,cpuacct", "freezer", ""].map(|name| Path::new(MOUNTED).join(name));
    for root in roots {
        let Ok(entries) = std::fs::read_dir(&root) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let host = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split('-').next());
            let Some(host) = host.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
            if !Path::new(&format!("/proc/{host}")).exists() {
                // One that still holds a process stays for the next time.
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_the_sum_over_all_disks() {
        let text = "8:0 rbytes=100 wbytes=20 rios=1 wios=2 dbytes=9 dios=0\n253:1 rbytes=1 wbytes=2 rios=3 wios=4\n";
        assert_eq!(io_of(text), Io { read: 101, written: 22 });
        assert_eq!(io_of(""), Io::default());
    }
}
