//! Where the time of a record comes from. Passed in, so that tests are exact.

use std::time::{SystemTime, UNIX_EPOCH};

/// Gives the time of each record.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn unix_millis(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_millis(&self) -> u64 {
        // A clock set before 1970 is written as 1970: a record without a time is worse.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}

/// A clock that stands still.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub u64);

impl Clock for FixedClock {
    fn unix_millis(&self) -> u64 {
        self.0
    }
}

/// The time now, as records have it.
pub fn now_rfc3339() -> String {
    rfc3339(SystemClock.unix_millis())
}

/// RFC 3339 in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
pub fn rfc3339(unix_millis: u64) -> String {
    // The last millisecond of the year 9999, the last that RFC 3339 can write.
    let unix_millis = unix_millis.min(253_402_300_799_999);
    let (days, millis) = (unix_millis / 86_400_000, unix_millis % 86_400_000);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1000)
}

/// Reads what [`rfc3339`] writes, and nothing else.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let of_day = ((number(11..13)? * 60 + number(14..16)?) * 60 + number(17..19)?) * 1000 + number(20..23)?;
    let millis = days_from_civil(year, month, day)?.checked_mul(86_400_000)?.checked_add(of_day)?;
    (rfc3339(millis) == text).then_some(millis)
}

/// The Gregorian date of a day counted from 1970-01-01, by eras of 400 years that start in March.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`]; absent before 1970.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march_month + 2) / 5 + day.checked_sub(1)?;
    (era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_back() {
        let check = |millis: u64, want: &str| {
            assert_eq!(rfc3339(millis), want);
            assert_eq!(parse_rfc3339(want), Some(millis));
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_799_999, "2000-02-29T23:59:59.999Z");
        check(1_767_225_600_001, "2026-01-01T00:00:00.001Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_not_such_a_time_is_refused() {
        for text in [
            "",
            "2026-02-30T00:00:00.000Z",
            "2026-01-01T00:00:00Z",
            "2026-13-01T00:00:00.000Z",
            "1969-12-31T00:00:00.000Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
