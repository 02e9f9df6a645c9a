//! What is kept of an exception: as much text as of any other output.
//!
//! Answers to: `run`. Must not: let an exception carry past the output limit what `print` could not.

use ringfence_types::{GuestException, TraceFrame};

/// The most text of an exception, its causes and notes included, whatever the output limit.
const MOST: usize = 64 << 10;
/// What a name or a line counts beside its bytes, so that empty ones count too.
const EACH: usize = 16;

/// The exception with at most `limit` bytes of text: its message first, then notes and frames, then its causes.
pub fn bounded(exception: GuestException, limit: u64) -> GuestException {
    let mut left = usize::try_from(limit).unwrap_or(MOST).min(MOST);
    cut_exception(exception, &mut left)
}

fn cut_exception(exception: GuestException, left: &mut usize) -> GuestException {
    let GuestException { kind, message, frames, cause, notes, exit_code } = exception;
    let kind = cut(kind, left);
    let message = cut(message, left);
    let notes = some(notes, left, cut);
    let frames = some(frames, left, |frame, left| TraceFrame {
        file: cut(frame.file, left),
        line: frame.line,
        function: cut(frame.function, left),
        source: frame.source.map(|source| cut(source, left)),
    });
    let cause = cause.filter(|_| *left > 0).map(|cause| Box::new(cut_exception(*cause, left)));
    GuestException { kind, message, frames, cause, notes, exit_code }
}

/// Items as long as there is room.
fn some<T>(items: Vec<T>, left: &mut usize, cut: impl Fn(T, &mut usize) -> T) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if *left == 0 {
            break;
        }
        *left = left.saturating_sub(EACH);
        kept.push(cut(item, left));
    }
    kept
}

fn cut(mut text: String, left: &mut usize) -> String {
    if text.len() > *left {
        let end = (0..=*left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    *left = left.saturating_sub(text.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(message: &str, notes: &[&str], cause: Option<GuestException>) -> GuestException {
        GuestException {
            kind: "E".to_owned(),
            message: message.to_owned(),
            frames: Vec::new(),
            cause: cause.map(Box::new),
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            exit_code: None,
        }
    }

    #[track_caller]
    fn check(limit: u64, given: GuestException, want: GuestException) {
        assert_eq!(bounded(given, limit), want);
    }

    #[test]
    fn the_message_comes_first_and_the_rest_as_room_is_left() {
        let whole = raised("abc", &["n"], Some(raised("cause", &[], None)));
        check(1000, whole.clone(), whole);
        check(4, raised("éééé", &[], Some(raised("cause", &[], None))), raised("é…", &[], None));
        check(10, raised("abc", &["note", "more"], None), raised("abc", &["…"], None));
        let long = bounded(raised(&"A".repeat(1 << 20), &[], None), u64::MAX).message;
        assert_eq!(long.len(), (64 << 10) - 1 + '…'.len_utf8());
    }
}
