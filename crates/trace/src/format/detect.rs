//! Which format a file has, told from its first bytes, or else from its name.

use super::{Format, native};

/// What the first bytes show beats what the name says.
pub(super) fn detect(head: &[u8], file_name: &str) -> Option<Format> {
    by_content(head).or_else(|| by_name(file_name))
}

fn by_content(head: &[u8]) -> Option<Format> {
    if head.starts_with(&native::MAGIC) {
        return Some(Format::Native);
    }
    let first = head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty())?;
    let fields: Vec<_> = first.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    match fields[..] {
        [_, _, _, b"Read" | b"Write" | b"Type", _, _, _] => Some(Format::Msr),
        [_, _, _, b"r" | b"w" | b"R" | b"W", _, ..] => Some(Format::Spc),
        _ => None,
    }
}

fn by_name(file_name: &str) -> Option<Format> {
    let extension = file_name.rsplit_once('.')?.1;
    let mut named = Format::ALL.into_iter().filter(|f| f.extensions().contains(&extension));
    // A name that several formats share tells none of them.
    named.next().filter(|_| named.next().is_none())
}
