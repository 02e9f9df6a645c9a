//! What this process holds, and what it has left behind, as the system says.
//!
//! Answers to: the measurements of many sessions. Must not: count what somebody else made.

use std::fs;

/// Resident memory of this process in KiB.
pub fn resident() -> u64 {
    kib(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmRSS:")
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map(Iterator::count).unwrap_or_default()
}

/// Child processes of this one.
pub fn children() -> usize {
    let own = std::process::id();
    processes().filter(|process| process.parent == own).count()
}

/// Control groups that this process made.
pub fn groups() -> usize {
    let prefix = format!("ringfence-{}-", std::process::id());
    let roots = ["memory", "pids", "cpuacct", "cpu,cpuacct", ""].map(|name| format!("/sys/fs/cgroup/{name}"));
    let entries = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// The memory that each waiting session of this process's jails adds, in KiB: what is shared counts in part for each.
pub fn waiting_sessions() -> Vec<u64> {
    let zygotes: Vec<Process> = processes().filter(|process| process.is_jailed_python()).collect();
    let sessions = zygotes.iter().filter(|process| zygotes.iter().any(|other| other.pid == process.parent));
    let rollup = |process: &Process| fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok();
    sessions.filter_map(rollup).map(|text| kib(&text, "Pss:")).collect()
}

struct Process {
    pid: u32,
    parent: u32,
}

impl Process {
    fn is_jailed_python(&self) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("ringfence_zygote") && self.is_below(std::process::id())
    }

    fn is_below(&self, ancestor: u32) -> bool {
        let mut parent = self.parent;
        while parent > 1 && parent != ancestor {
            parent = parent_of(parent).unwrap_or_default();
        }
        parent == ancestor
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some(Process { pid, parent: parent_of(pid)? }))
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
