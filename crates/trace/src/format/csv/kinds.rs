//! What a value of the kind's column means.
//!
//! Words and letters speak for themselves, so do operation codes of SCSI in hexadecimal. `0` and
//! `1` do not: in one trace 1 is a read, in the next a write.

use std::borrow::Cow;

use evenkeel_core::ticket::Kind;

use crate::format::scsi;
use crate::text::{Cursor, quoted};

/// The kind that a word or letter names, in upper or lower case; that of blktrace's flags as well
/// (`WS`, `RA`, `FWS`).
pub(super) fn word(text: &[u8]) -> Option<Kind> {
    let is = |name: &str| text.eq_ignore_ascii_case(name.as_bytes());
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| is(kind.name())) {
        return Some(kind);
    }
    Some(match text.to_ascii_lowercase().as_slice() {
        b"r" | b"rd" | b"reads" => Kind::Read,
        b"w" | b"wr" | b"writes" => Kind::Write,
        b"fsync" | b"sync" => Kind::Flush,
        b"d" | b"discard" | b"unmap" => Kind::Trim,
        b"prefetch" => Kind::Cache,
        b"write zeroes" | b"writezeroes" | b"zeroes" => Kind::WriteZeroes,
        _ => return flags(text),
    })
}

/// What blktrace's flags say: F for a flush before, the operation, then how.
fn flags(text: &[u8]) -> Option<Kind> {
    let operation = text.strip_prefix(b"F").unwrap_or(text);
    let (first, how) = operation.split_first()?;
    if !how.iter().all(|flag| b"SAMF".contains(flag)) {
        return None;
    }
    match first {
        b'R' => Some(Kind::Read),
        b'W' => Some(Kind::Write),
        b'D' => Some(Kind::Trim),
        b'F' => Some(Kind::Flush),
        _ => None,
    }
}

/// The kind that a SCSI operation code stands for: `2a`, `0x28`.
pub(super) fn scsi_kind(text: &[u8]) -> Option<Kind> {
    let is_marked = text.starts_with(b"0x") || text.starts_with(b"0X");
    let digits = if is_marked { &text[2..] } else { text };
    if digits.len() != 2 {
        return None;
    }
    let mut cursor = Cursor::new(digits);
    let code = cursor.hexadecimal().filter(|_| cursor.is_at_end())?;
    scsi::kind(u16::try_from(code).ok()?)
}

/// Two digits that are one operation in hexadecimal and another in decimal.
pub(super) fn is_ambiguous_scsi(text: &[u8]) -> bool {
    let in_decimal = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let in_decimal = in_decimal.and_then(scsi::kind);
    in_decimal.is_some() && in_decimal != scsi_kind(text)
}

/// How the values of one column are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    /// The column's title.
    pub(super) title: String,
    /// What is stated of its values.
    pub(super) stated: Vec<(String, Kind)>,
    /// What `1`, `true` and `yes` mean, and what `0`, `false` and `no`, where the title says so.
    pub(super) truth: Option<(Kind, Kind)>,
    /// The kind of values that nothing else tells.
    pub(super) assume: Option<Kind>,
}

impl Kinds {
    /// The kind that a value means; what is assumed is left aside.
    pub(super) fn understood(&self, value: &[u8]) -> Option<Kind> {
        let stated =
            self.stated.iter().find(|(known, _)| value.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(&(_, kind)) = stated {
            return Some(kind);
        }
        if let Some((yes, no)) = self.truth {
            match value.to_ascii_lowercase().as_slice() {
                b"1" | b"true" | b"yes" | b"y" | b"t" => return Some(yes),
                b"0" | b"false" | b"no" | b"n" | b"f" => return Some(no),
                _ => {}
            }
        }
        word(value).or_else(|| scsi_kind(value))
    }

    /// The kind that a value means.
    ///
    /// # Errors
    /// What to add where nothing tells.
    pub(super) fn of(&self, value: &[u8]) -> Result<Kind, String> {
        let kind = self.understood(value).or(self.assume);
        kind.ok_or_else(|| self.unclear(&[value]))
    }

    /// What is wrong with values that are not understood, and what to add.
    #[cold]
    pub(super) fn unclear(&self, values: &[&[u8]]) -> String {
        let title = column(&self.title);
        let shown: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        let shown = shown.join(", ");
        let are_bits = values.iter().all(|value| matches!(**value, [b'0' | b'1']));
        if are_bits {
            let flag = |pairs: &str| option("--column op=", &format!("{}:{pairs}", self.title));
            return format!(
                "op: {title} has {shown}; 0 and 1 mean opposite things in different traces: add \
                 {} or {}",
                flag("0=read,1=write"),
                flag("0=write,1=read")
            );
        }
        let example = |value: &&[u8]| format!("{}=write", String::from_utf8_lossy(value));
        let pairs: Vec<String> = values
            .iter()
            .filter(|value| {
                value.iter().all(|byte| byte.is_ascii_graphic() && !b",=".contains(byte))
            })
            .map(example)
            .collect();
        let pairs = if pairs.is_empty() { "VALUE=write".to_owned() } else { pairs.join(",") };
        format!(
            "op: {title} has {shown}, which is no kind of request; say what each is, as in {} \
             (known are read, write, flush, trim, cache, write_zeroes), or that all such are reads \
             by --assume read",
            option("--column op=", &format!("{}:{pairs}", self.title))
        )
    }
}

/// A title for people.
pub(super) fn column(title: &str) -> String {
    format!("column {}", quoted(title.as_bytes()))
}

/// An option as a shell takes it.
pub(super) fn option(name: &str, value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,:=/%+@".contains(&byte);
    let value: Cow<'_, str> = if value.bytes().all(is_plain) {
        Cow::Borrowed(value)
    } else if value.bytes().any(|byte| byte == b'\'' || byte.is_ascii_control()) {
        Cow::Owned(quoted(value.as_bytes()))
    } else {
        // The whole argument is quoted, not the name of the option.
        return match name.split_once(' ') {
            Some((flag, start)) => format!("{flag} '{start}{value}'"),
            None => format!("{name}'{value}'"),
        };
    };
    format!("{name}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_letters_flags_and_codes_are_understood() {
        let kinds = Kinds::default();
        for (value, kind) in [
            ("Read", Kind::Read),
            ("w", Kind::Write),
            ("WR", Kind::Write),
            ("WS", Kind::Write),
            ("RAM", Kind::Read),
            ("FWS", Kind::Write),
            ("FF", Kind::Flush),
            ("Discard", Kind::Trim),
            ("write_zeroes", Kind::WriteZeroes),
            ("2a", Kind::Write),
            ("0x88", Kind::Read),
        ] {
            assert_eq!(kinds.understood(value.as_bytes()), Some(kind), "{value}");
        }
        for value in ["0", "1", "a", "8", "true", "", "F", "RX", "WAIT", "40", "12"] {
            assert_eq!(kinds.understood(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn an_operation_that_decimal_reads_otherwise_is_ambiguous() {
        assert!(is_ambiguous_scsi(b"42"));
        assert!(is_ambiguous_scsi(b"40"));
        for value in ["28", "2a", "0x42", "88", "35", "read"] {
            assert!(!is_ambiguous_scsi(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn zero_and_one_mean_what_is_stated_and_nothing_else() {
        let mut kinds = Kinds { title: "rw flag".to_owned(), ..Kinds::default() };
        let reason = kinds.of(b"1").unwrap_err();
        assert!(reason.contains("--column 'op=rw flag:0=read,1=write'"), "{reason}");
        assert!(reason.contains("--column 'op=rw flag:0=write,1=read'"), "{reason}");
        kinds.stated = vec![("0".to_owned(), Kind::Write)];
        assert_eq!(kinds.of(b"0"), Ok(Kind::Write));
        assert!(kinds.of(b"1").is_err());
        kinds.assume = Some(Kind::Read);
        assert_eq!(kinds.of(b"1"), Ok(Kind::Read));
        let truth = Kinds { truth: Some((Kind::Write, Kind::Read)), ..Kinds::default() };
        assert_eq!((truth.of(b"True"), truth.of(b"0")), (Ok(Kind::Write), Ok(Kind::Read)));
    }
}
