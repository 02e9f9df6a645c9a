//! Medians, the table, and the JSON.
//!
//! Answers to: `main`. Must not: judge.

use std::time::Duration;

use serde::Serialize;

/// The samples of one contender, summed up, in microseconds.
#[derive(Debug, Serialize)]
pub struct Row {
    name: String,
    samples: usize,
    median_us: f64,
    p95_us: f64,
    note: String,
}

impl Row {
    /// Sums up.
    pub fn new(name: String, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |share: usize| samples.get(samples.len() * share / 100).copied().unwrap_or_default();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        Self { name, samples: samples.len(), median_us: micros(at(50)), p95_us: micros(at(95)), note: String::new() }
    }

    /// Adds a remark.
    pub fn noted(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

fn shown(micros: f64) -> String {
    if micros < 1e3 {
        format!("{micros:.1} us")
    } else if micros < 1e6 {
        format!("{:.3} ms", micros / 1e3)
    } else {
        format!("{:.3} s", micros / 1e6)
    }
}

/// The table; `ratio` is to the first row.
pub fn table(rows: &[Row]) -> String {
    let first = rows.first().map_or(1.0, |row| row.median_us);
    let mut text =
        String::from("| what | samples | median | p95 | ratio | |\n| --- | ---: | ---: | ---: | ---: | --- |\n");
    for row in rows {
        let ratio = row.median_us / first;
        let times = if row.samples == 0 {
            "| | |".to_owned()
        } else {
            format!("{} | {} | {ratio:.2}", shown(row.median_us), shown(row.p95_us))
        };
        text += &format!("| {} | {} | {times} | {} |\n", row.name, row.samples, row.note);
    }
    text
}

/// The same as JSON.
pub fn json(rows: &[Row]) -> String {
    // Rows are texts and finite numbers, which always serialize.
    serde_json::to_string_pretty(rows).unwrap_or_default() + "\n"
}
