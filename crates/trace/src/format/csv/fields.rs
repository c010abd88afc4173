//! Cuts a line at its commas. A field may stand in quotes, with commas in it and quotes doubled.
//!
//! ```text
//! 12, "a ""b"", c",7   ->   12   "a ""b"", c"   7
//! ```

use std::borrow::Cow;

use crate::format::trouble::{Trouble, field};

/// The fields of a line as they stand: without blanks around, with their quotes.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// The fields of a line.
    pub(super) fn of(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }

    fn quoted(&mut self, line: &'a [u8]) -> Result<&'a [u8], Trouble> {
        let mut end = 1;
        loop {
            let quote = line[end..].iter().position(|&byte| byte == b'"');
            end += quote.ok_or_else(unended)? + 1;
            match line.get(end) {
                Some(b'"') => end += 1,
                _ => break,
            }
        }
        let behind = line[end..].trim_ascii_start();
        self.rest = match behind.split_first() {
            None => None,
            Some((b',', rest)) => Some(rest),
            Some(_) => return Err(unended()),
        };
        Ok(&line[..end])
    }
}

#[cold]
fn unended() -> Trouble {
    field("field", "a comma behind the quotes that end it, and such quotes")
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<&'a [u8], Trouble>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.take()?.trim_ascii_start();
        if line.first() == Some(&b'"') {
            return Some(self.quoted(line));
        }
        let comma = line.iter().position(|&byte| byte == b',');
        self.rest = comma.map(|comma| &line[comma + 1..]);
        Some(Ok(line[..comma.unwrap_or(line.len())].trim_ascii_end()))
    }
}

/// What a field says, without its quotes.
#[inline]
pub(super) fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Cow::Borrowed(field);
    };
    if !inner.contains(&b'"') {
        return Cow::Borrowed(inner);
    }
    let mut plain = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(byte);
        if byte == b'"' {
            bytes.next();
        }
    }
    Cow::Owned(plain)
}

/// Appends a text so that [`unquoted`] gives it back.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    let needs_quotes = text.contains([',', '"']) || text.trim_ascii() != text;
    if !needs_quotes {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        out.push(byte);
        if byte == b'"' {
            out.push(byte);
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<String> {
        let text = |field: Result<&[u8], Trouble>| match field {
            Ok(field) => String::from_utf8(unquoted(field).into_owned()).unwrap(),
            Err(_) => "?".to_owned(),
        };
        Fields::of(line.as_bytes()).map(text).collect()
    }

    #[test]
    fn commas_in_quotes_part_nothing() {
        assert_eq!(fields("12, \"a \"\"b\"\", c\" ,7"), ["12", "a \"b\", c", "7"]);
        assert_eq!(fields("a,,\"\", b c "), ["a", "", "", "b c"]);
        assert_eq!(fields(""), [""]);
        assert_eq!(fields("a,"), ["a", ""]);
        assert_eq!(fields("\"a\",\"b"), ["a", "?"]);
        assert_eq!(fields("\"a\"b,c"), ["?"]);
    }

    #[test]
    fn every_name_returns() {
        for name in ["a", "a,b", "say \"x\"", "\"", ",\",\"\",", " #1 "] {
            let mut line = Vec::new();
            push_quoted(&mut line, name);
            line.extend_from_slice(b",7");
            assert_eq!(fields(str::from_utf8(&line).unwrap()), [name, "7"]);
        }
    }
}
