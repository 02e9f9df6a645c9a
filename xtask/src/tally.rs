//! How many tests passed and failed, told from what a test program prints.
//!
//! Answers to: `stage`. Must not: take silence for success: where no count is found, that is a failure.

/// Counts of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Passed.
    pub passed: u64,
    /// Failed, timed out, or could not be run.
    pub failed: u64,
    /// Not run.
    pub skipped: u64,
}

impl Tally {
    fn add(&mut self, number: u64, word: &str) {
        match word {
            "passed" => self.passed += number,
            "failed" | "timed" | "exec" | "error" | "errors" => self.failed += number,
            "skipped" | "ignored" | "deselected" | "xfailed" => self.skipped += number,
            _ => {}
        }
    }

    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// Counts of one line: every number with the word after it.
fn of_line(line: &str) -> Tally {
    let mut tally = Tally::default();
    let mut number = None;
    for word in line.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty()) {
        if let Some(number) = number.take() {
            tally.add(number, word);
        }
        number = word.parse().ok();
    }
    tally
}

/// The last line of `cargo nextest`: `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out`.
pub fn nextest(output: &str) -> Option<Tally> {
    let summary = output.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    summary.split_once(" run: ").map(|(_, counts)| of_line(counts))
}

/// Every `test result:` line of `cargo test`.
pub fn cargo_test(output: &str) -> Option<Tally> {
    let lines = output.lines().filter(|line| line.starts_with("test result:"));
    lines.map(of_line).reduce(Tally::and)
}

/// The last line of pytest: `3 failed, 140 passed, 2 skipped in 7.1s`.
pub fn pytest(output: &str) -> Option<Tally> {
    let is_summary = |line: &&str| line.contains(" in ") && of_line(line) != Tally::default();
    output.lines().rev().find(is_summary).map(of_line)
}

/// The closing line `N passed, N failed`.
pub fn closing(output: &str) -> Option<Tally> {
    let last = output.lines().rev().find(|line| !line.trim().is_empty())?;
    (last.contains(" passed, ") && last.trim_end().ends_with(" failed")).then(|| of_line(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        #[track_caller]
        fn check(read: fn(&str) -> Option<Tally>, output: &str, want: Option<[u64; 3]>) {
            let want = want.map(|[passed, failed, skipped]| Tally { passed, failed, skipped });
            assert_eq!(read(output), want, "{output}");
        }
        check(nextest, "     Summary [   1.200s] 3 tests run: 3 passed, 0 skipped\n", Some([3, 0, 0]));
        check(
            nextest,
            "Summary [ 1s] 9 tests run: 7 passed (1 slow, 2 leaky), 1 failed, 1 timed out, 4 skipped",
            Some([7, 2, 4]),
        );
        check(
            nextest,
            "Summary [ 1s] 2/9 tests run: 1 passed, 1 exec failed, 0 skipped\nerror: test run failed",
            Some([1, 1, 0]),
        );
        check(nextest, "error: could not compile", None);
        let two = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.5s\n\
                   test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured";
        check(cargo_test, two, Some([4, 2, 1]));
        check(cargo_test, "", None);
        check(pytest, "== 3 failed, 140 passed, 2 skipped, 1 error in 7.13s ==\n", Some([140, 4, 2]));
        check(pytest, "no tests ran in 0.01s", None);
        check(closing, "a: pass\n112 passed, 0 failed\n", Some([112, 0, 0]));
        check(closing, "112 passed, 0 failed\nthread panicked", None);
    }
}
