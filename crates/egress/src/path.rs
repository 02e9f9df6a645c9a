//! What a path means, where it has one meaning.
//!
//! Answers to: `rules`. Must not: change what is sent on: a path that is matched goes out byte for byte as it came.
//! INVARIANT: a path that two servers may read in two ways matches nothing but a rule for every path.

/// Whether the pattern stands for every path.
pub(crate) fn is_any(pattern: &str) -> bool {
    pattern == "/*" || pattern == "*"
}

/// The path with its escapes resolved, or why it has more than one meaning.
pub(crate) fn read(raw: &str) -> Result<String, &'static str> {
    let Some(rest) = raw.strip_prefix('/') else { return Err("it does not start with `/`") };
    let mut segments = rest.split('/').peekable();
    let mut plain = String::with_capacity(raw.len());
    while let Some(segment) = segments.next() {
        // Only the last may be empty: `/a/`.
        if segment.is_empty() && segments.peek().is_some() {
            return Err("it has a double slash");
        }
        plain.push('/');
        plain.push_str(&read_segment(segment)?);
    }
    Ok(plain)
}

fn read_segment(raw: &str) -> Result<String, &'static str> {
    let segment = decode(raw)?;
    if segment == "." || segment == ".." {
        return Err("it has a dot segment");
    }
    if segment.contains(['/', '\\']) {
        return Err("it has a backslash or an escaped slash");
    }
    if segment.contains(';') {
        return Err("it has a `;`, which some servers cut at");
    }
    if segment.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    // `%252e` is a dot to a server that decodes twice.
    if decode(&segment).ok().is_none_or(|again| again != segment) {
        return Err("it is escaped twice");
    }
    Ok(segment)
}

fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return Err("it has a broken escape") };
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| "it is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_one_meaning_are_read() {
        let table = [
            ("/", "/"),
            ("/v1/items", "/v1/items"),
            ("/v1/items/", "/v1/items/"),
            ("/v1/%61dmin", "/v1/admin"),
            ("/v1/a%20b", "/v1/a b"),
            ("/v1/caf%C3%A9", "/v1/café"),
            ("/v1/...", "/v1/..."),
            ("/v1/a:b@c,d=e", "/v1/a:b@c,d=e"),
        ];
        for (raw, want) in table {
            assert_eq!(read(raw), Ok(want.to_owned()), "{raw}");
        }
    }

    #[test]
    fn paths_with_two_meanings_are_not() {
        let table = [
            ("*", "it does not start with `/`"),
            ("v1", "it does not start with `/`"),
            ("/v1/../admin", "it has a dot segment"),
            ("/v1/./x", "it has a dot segment"),
            ("/v1/..", "it has a dot segment"),
            ("/v1/%2e%2e/admin", "it has a dot segment"),
            ("/v1/.%2E/admin", "it has a dot segment"),
            ("/v1/%2e/x", "it has a dot segment"),
            ("//v1/x", "it has a double slash"),
            ("/v1//x", "it has a double slash"),
            ("/v1/a%2fb", "it has a backslash or an escaped slash"),
            ("/v1/..%5cadmin", "it has a backslash or an escaped slash"),
            ("/v1/..\\admin", "it has a backslash or an escaped slash"),
            ("/v1/..;/admin", "it has a `;`, which some servers cut at"),
            ("/v1/x;a=b", "it has a `;`, which some servers cut at"),
            ("/v1/x%3ba=b", "it has a `;`, which some servers cut at"),
            ("/v1/%00", "it has a control character"),
            ("/v1/%0d%0a", "it has a control character"),
            ("/v1/%252e%252e/admin", "it is escaped twice"),
            ("/v1/100%25", "it is escaped twice"),
            ("/v1/%c0%ae%c0%ae/admin", "it is not UTF-8"),
            ("/v1/%", "it has a broken escape"),
            ("/v1/%2", "it has a broken escape"),
            ("/v1/%zz", "it has a broken escape"),
        ];
        for (raw, want) in table {
            assert_eq!(read(raw), Err(want), "{raw}");
        }
    }
}
