//! Dates and times between Python's `isoformat()` and monty's parts.
//!
//! Answers to: `convert`. Must not: accept anything that isn't exactly what `isoformat()` writes.

use monty_types::{MontyDate, MontyDateTime, MontyObject, MontyTime, MontyTimeDelta};

pub(super) fn date_text(date: &MontyDate) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

pub(super) fn date_time_text(moment: &MontyDateTime) -> String {
    let date = MontyDate { year: moment.year, month: moment.month, day: moment.day };
    let clock = Clock {
        hour: moment.hour,
        minute: moment.minute,
        second: moment.second,
        microsecond: moment.microsecond,
        offset: moment.offset_seconds,
    };
    format!("{}T{}", date_text(&date), clock.text())
}

pub(super) fn time_text(time: &MontyTime) -> String {
    Clock {
        hour: time.hour,
        minute: time.minute,
        second: time.second,
        microsecond: time.microsecond,
        offset: time.offset_seconds,
    }
    .text()
}

pub(super) fn date(text: &str) -> Option<MontyObject> {
    parse_date(text).map(MontyObject::Date)
}

pub(super) fn date_time(text: &str) -> Option<MontyObject> {
    let (day, clock) = text.split_once('T')?;
    let day = parse_date(day)?;
    let clock = Clock::parse(clock)?;
    Some(MontyObject::DateTime(MontyDateTime {
        year: day.year,
        month: day.month,
        day: day.day,
        hour: clock.hour,
        minute: clock.minute,
        second: clock.second,
        microsecond: clock.microsecond,
        offset_seconds: clock.offset,
        timezone_name: None,
    }))
}

pub(super) fn time(text: &str) -> Option<MontyObject> {
    let clock = Clock::parse(text)?;
    Some(MontyObject::Time(MontyTime {
        hour: clock.hour,
        minute: clock.minute,
        second: clock.second,
        microsecond: clock.microsecond,
        offset_seconds: clock.offset,
        timezone_name: None,
        fold: 0,
    }))
}

pub(super) fn time_delta(days: i64, seconds: u32, microseconds: u32) -> Option<MontyObject> {
    let days = i32::try_from(days).ok().filter(|days| (-999_999_999..=999_999_999).contains(days))?;
    let seconds = i32::try_from(seconds).ok().filter(|seconds| *seconds < 86_400)?;
    let microseconds = i32::try_from(microseconds).ok().filter(|microseconds| *microseconds < 1_000_000)?;
    Some(MontyObject::TimeDelta(MontyTimeDelta { days, seconds, microseconds }))
}

/// A moment of the Unix clock as parts of a date and a time of day: `(year, month, day, second of the day)`.
pub(super) fn civil(unix_seconds: i64) -> (i32, u8, u8, u32) {
    let days = unix_seconds.div_euclid(86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (small(year), small(month), small(day), small(unix_seconds.rem_euclid(86_400)))
}

fn small<T: TryFrom<i64> + Default>(number: i64) -> T {
    T::try_from(number).unwrap_or_default()
}

struct Clock {
    hour: u8,
    minute: u8,
    second: u8,
    microsecond: u32,
    offset: Option<i32>,
}

impl Clock {
    fn text(&self) -> String {
        let mut text = format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second);
        if self.microsecond != 0 {
            text += &format!(".{:06}", self.microsecond);
        }
        if let Some(offset) = self.offset {
            let (sign, away) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
            text += &format!("{sign}{:02}:{:02}", away / 3600, away / 60 % 60);
            if away % 60 != 0 {
                text += &format!(":{:02}", away % 60);
            }
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let (clock, offset) = match text.find(['+', '-']) {
            Some(at) => (text.get(..at)?, Some(parse_offset(text.get(at..)?)?)),
            None => (text, None),
        };
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "000000"));
        let [hour, minute, second] = three(clock)?;
        let microsecond = if fraction.len() == 6 { number(fraction)? } else { return None };
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some(Self { hour, minute, second, microsecond, offset })
    }
}

/// `+HH:MM` or `+HH:MM:SS`.
fn parse_offset(text: &str) -> Option<i32> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let away = text.get(1..)?;
    let [hours, minutes, seconds] = if away.len() == 5 { three(&format!("{away}:00"))? } else { three(away)? };
    let away = i32::from(hours) * 3600 + i32::from(minutes) * 60 + i32::from(seconds);
    (away < 86_400).then_some(sign * away)
}

/// `HH:MM:SS`, two digits each.
fn three(text: &str) -> Option<[u8; 3]> {
    let mut parts = text.split(':').map(|part| if part.len() == 2 { number(part) } else { None });
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

fn parse_date(text: &str) -> Option<MontyDate> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 || month.len() != 2 || day.len() != 2 || parts.next().is_some() {
        return None;
    }
    Some(MontyDate { year: number(year)?, month: number(month)?, day: number(day)? })
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isoformat_goes_both_ways() {
        for text in [
            "2024-02-29T01:02:03",
            "0001-01-01T23:59:59.000001",
            "2024-01-05T00:00:00+05:30",
            "1999-12-31T12:00:00-00:00:30",
        ] {
            let Some(MontyObject::DateTime(moment)) = date_time(text) else { panic!("{text}") };
            assert_eq!(date_time_text(&moment).replace("+00:00:00", "-00:00:00"), text);
        }
        for text in ["", "2024-1-1", "2024-01-01", "2024-01-01T1:2:3", "2024-01-01T24:00:00", "2024-01-01T00:00:00.1"] {
            assert!(date_time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_unix_clock_is_read_in_the_gregorian_calendar() {
        assert_eq!(civil(0), (1970, 1, 1, 0));
        assert_eq!(civil(951_782_399), (2000, 2, 28, 86_399));
        assert_eq!(civil(951_782_400), (2000, 2, 29, 0));
        assert_eq!(civil(-1), (1969, 12, 31, 86_399));
    }
}
