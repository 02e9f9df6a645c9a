//! What tests ask the kernel about processes.
//!
//! Answers to: the tests beside it. Must not: end a process.

use std::collections::BTreeSet;

/// Every process below `pid`, by the kernel's lists of children.
pub fn below(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            open.extend(children.filter(|child| found.insert(*child)));
        }
    }
    found
}
