//! What a word may carry behind its figures: whom its gate doubts, and what it answers to those who
//! doubt it ([`evenkeel_core::control::challenge`]).
//!
//! ```text
//!  asks u8, answers u8    a word without either ends before them
//!  entry ..               gate u32, number u64: first whom the sender asks, then whom it answers
//! ```
//!
//! Entries are in order, each once, so that they too have one encoding.

use evenkeel_core::control::challenge::{ANSWERS_MAX, ASKS_MAX, Entry, Proof};
use evenkeel_core::control::summary::HostId;

use super::Malformed;
use super::varint::Varints;

const ENTRY_BYTES: usize = 12;

/// The most that it takes.
pub(super) const BYTES_MAX: usize = 2 + (ASKS_MAX + ANSWERS_MAX) * ENTRY_BYTES;

/// Appends it to a body; nothing if there is nothing in it.
///
/// # Panics
/// If it has more than [`ASKS_MAX`] questions or [`ANSWERS_MAX`] answers.
pub fn push(proof: &Proof, out: &mut Vec<u8>) {
    if proof.is_empty() {
        return;
    }
    for (entries, most) in [(&proof.asks, ASKS_MAX), (&proof.answers, ANSWERS_MAX)] {
        assert!(entries.len() <= most, "a datagram is bounded");
        out.push(u8::try_from(entries.len()).expect("few"));
    }
    for (host, number) in proof.asks.iter().chain(&proof.answers) {
        out.extend(host.0.to_be_bytes());
        out.extend(number.to_be_bytes());
    }
}

/// What follows the figures, up to the end.
pub(super) fn read(fields: &mut Varints<'_>) -> Result<Proof, Malformed> {
    if fields.end().is_ok() {
        return Ok(Proof::default());
    }
    let [asks, answers] = fields.fixed()?.map(usize::from);
    if asks + answers == 0 || asks > ASKS_MAX || answers > ANSWERS_MAX {
        return Err(Malformed::Field { name: "number of questions" });
    }
    let mut entries = |count| (0..count).map(|_| entry(fields)).collect::<Result<Vec<_>, _>>();
    let proof = Proof { asks: entries(asks)?, answers: entries(answers)? };
    let is_each_once = proof.asks.is_sorted_by(|one, other| one.0 < other.0)
        && proof.answers.is_sorted_by(|one, other| one < other);
    if !is_each_once {
        return Err(Malformed::Field { name: "order of questions" });
    }
    fields.end()?;
    Ok(proof)
}

fn entry(fields: &mut Varints<'_>) -> Result<Entry, Malformed> {
    let host = u32::from_be_bytes(fields.fixed()?);
    Ok((HostId(host), u64::from_be_bytes(fields.fixed()?)))
}
