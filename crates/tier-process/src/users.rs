//! Which users of the host can stand for those of a session: as many as the process's own user namespace has.
//!
//! Answers to: `plan`. Must not: give a user that an account may have, where another can be had.

/// Users of the host that no account has, in blocks of 65,536.
const FIRST: u32 = 0x7c00_0000;
/// How many a jail gets.
pub const BLOCK: u32 = 1 << 16;
const BLOCKS: u32 = 512;

/// The first user of a jail's own range; `None` for an ordinary user, and for a root who has no such range.
pub fn range(block: u32) -> Option<u32> {
    let first = FIRST + (block % BLOCKS) * BLOCK;
    let last = first + (BLOCK - 1);
    (is_root() && mapped().iter().any(|(from, to)| (*from..=*to).contains(&first) && *to >= last)).then_some(first)
}

/// A user who most likely owns nothing, for a root who can become one.
pub fn unused(block: u32) -> Option<u32> {
    let highest = || mapped().iter().map(|(_, to)| *to).max().filter(|last| is_root() && *last > 0);
    range(block).or_else(highest)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The users that there are here, first and last.
fn mapped() -> Vec<(u32, u32)> {
    spans(&std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
}

fn spans(map: &str) -> Vec<(u32, u32)> {
    let span = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, count) = (numbers.next()?.ok()?, numbers.nth(1)?.ok()?);
        Some((first, first.checked_add(count.checked_sub(1)?)?))
    };
    map.lines().filter_map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_map_is_read() {
        assert_eq!(spans("         0          0 4294967295\n"), [(0, 4_294_967_294)]);
        assert_eq!(spans("0 1000 1\n1 100000 65536\n"), [(0, 0), (1, 65_536)]);
        assert_eq!(spans("0 1000\nx y z\n0 0 0\n"), []);
    }
}
