//! How source names get into a trace and out of it.
//!
//! A decoder meets the same few sources again and again: [`Interner`] remembers the bytes that
//! named them, so that the common case is one comparison. Formats that know numbers only get them
//! from a [`Numbering`].

use std::collections::BTreeSet;

use super::trouble::{OrField, Trouble};
use crate::{SourceId, Sources};

const SLOTS: usize = 512;

/// From the bytes that name a source in a trace to its id. A direct-mapped cache before
/// [`Sources`]: colliding names merely take the long way.
#[derive(Debug)]
pub(crate) struct Interner {
    slots: Vec<(Vec<u8>, SourceId)>,
}

impl Default for Interner {
    /// One that remembers nothing yet.
    fn default() -> Self {
        Self { slots: vec![(Vec::new(), SourceId(0)); SLOTS] }
    }
}

impl Interner {
    /// The source that `key` names; `name` makes its name when it is not remembered.
    #[inline]
    pub(crate) fn source(
        &mut self,
        sources: &mut Sources,
        key: &[u8],
        name: impl FnOnce(&[u8]) -> Result<String, Trouble>,
    ) -> Result<SourceId, Trouble> {
        let slot = &mut self.slots[slot(key)];
        if slot.0 == key && !key.is_empty() {
            return Ok(slot.1);
        }
        let id = intern(sources, &name(key)?)?;
        key.clone_into(&mut slot.0);
        slot.1 = id;
        Ok(id)
    }
}

/// Length, first byte and the last eight tell most names apart; names share their beginning.
#[inline]
fn slot(key: &[u8]) -> usize {
    let tail = &key[key.len().saturating_sub(8)..];
    let mut word = [0; 8];
    word[..tail.len()].copy_from_slice(tail);
    let mixed =
        (u64::from_le_bytes(word) ^ (key.len() as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 55).expect("nine bits")
}

/// The id of a name, or that there are too many.
pub(crate) fn intern(sources: &mut Sources, name: &str) -> Result<SourceId, Trouble> {
    sources.intern(name).ok_or_else(|| {
        Trouble::Text(format!(
            "too many sources: a trace may name {} of them, with {} bytes in all",
            Sources::COUNT_MAX,
            Sources::NAMES_BYTES_MAX
        ))
    })
}

/// Bytes as a name: UTF-8 of at least one character, and none that is a control character.
pub(crate) fn printable(field: &'static str, bytes: &[u8]) -> Result<String, Trouble> {
    let name = str::from_utf8(bytes).ok();
    name.filter(|name| !name.is_empty() && !name.chars().any(char::is_control))
        .map(str::to_owned)
        .or_field(field, "a name in printable UTF-8")
}

/// The name of a source that is a number, of whatever length.
pub(crate) fn numbered(name: &'static str, source: &[u8]) -> Result<String, Trouble> {
    let is_number = source.iter().all(u8::is_ascii_digit);
    is_number.then_some(()).or_field(name, "a whole number")?;
    printable(name, source)
}

/// Numbers for the sources of a format that has no names: a name that is a number keeps it, as
/// long as it is free; any other gets the smallest free one.
#[derive(Debug)]
pub(crate) struct Numbering {
    numbers: Vec<Option<u32>>,
    taken: BTreeSet<u32>,
    own: fn(&str) -> Option<u32>,
    free_from: u32,
}

impl Default for Numbering {
    fn default() -> Self {
        Self::new(canonical, 0)
    }
}

impl Numbering {
    /// `own` tells the number that a name is; names that are none get numbers from `free_from` on.
    pub(crate) fn new(own: fn(&str) -> Option<u32>, free_from: u32) -> Self {
        Self { numbers: Vec::new(), taken: BTreeSet::new(), own, free_from }
    }

    pub(crate) fn number(&mut self, sources: &Sources, source: SourceId) -> u32 {
        let index = source.0 as usize;
        if let Some(&Some(number)) = self.numbers.get(index) {
            return number;
        }
        let number = (self.own)(sources.name(source))
            .filter(|number| !self.taken.contains(number))
            .unwrap_or_else(|| self.smallest_free());
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, None);
        }
        self.numbers[index] = Some(number);
        self.taken.insert(number);
        number
    }

    /// The number of a source that has one.
    pub(crate) fn known(&self, source: SourceId) -> u32 {
        self.numbers[source.0 as usize].expect("the source was numbered when its record came")
    }

    fn smallest_free(&mut self) -> u32 {
        while self.taken.contains(&self.free_from) {
            self.free_from += 1;
        }
        self.free_from
    }
}

/// The number that a name is, written the usual way.
pub(crate) fn canonical(name: &str) -> Option<u32> {
    name.parse().ok().filter(|number: &u32| number.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remembered_name_is_not_made_again() {
        let (mut interner, mut sources) = (Interner::default(), Sources::default());
        let name = |bytes: &[u8]| printable("name", bytes);
        let first = interner.source(&mut sources, b"hm,1", name).unwrap();
        let again = interner.source(&mut sources, b"hm,1", |_| panic!("known")).unwrap();
        assert_eq!(first, again);
        for number in 0..2_000 {
            let key = format!("volume{number}");
            let id = interner.source(&mut sources, key.as_bytes(), name).unwrap();
            assert_eq!(sources.name(id), key);
        }
    }

    #[test]
    fn names_are_printable() {
        for bytes in [&b""[..], b"a\x07", b"\xff"] {
            assert!(printable("name", bytes).is_err());
        }
    }

    #[test]
    fn numbers_are_kept_and_never_shared() {
        let (mut numbering, mut sources) = (Numbering::default(), Sources::default());
        let mut number = |name: &str| {
            let id = sources.intern(name).unwrap();
            numbering.number(&sources, id)
        };
        let numbers = ["7", "db", "0", "web", "07", "7", "1"].map(&mut number);
        assert_eq!(numbers, [7, 0, 1, 2, 3, 7, 4]);
    }
}
