//! Words that never came: gaps in the numbers of those that did, over the last minute.
//!
//! ```text
//!   numbers that came   7  8     10 11       15     9 came after 10, and did not count
//!   lost                      1         3           4 of 9
//! ```
//!
//! Only words that were taken are noted. One that was overtaken is as good as lost. A word of
//! several parts is lost if one of them is, which is known with the next. A gate that is silent is
//! seen as silent; what it lost is known when it is heard again. A gate that starts anew begins at
//! its first word.

use std::collections::{BTreeMap, VecDeque};

use super::name::DeviceId;
use crate::time::{Nanos, Span};

/// Counts are kept for so long ..
const KEPT: Span = Span::from_secs(60);
/// .. in steps of this.
const STEP: Span = Span::from_secs(5);

/// Words of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Those that never came.
    pub lost: u64,
    /// All that should have come.
    pub all: u64,
}

impl Words {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, all: self.all + other.all }
    }
}

/// A word, or a part of one, that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The life of its gate.
    pub incarnation: u64,
    /// Its number, which grows by one with each word on that device.
    pub number: u64,
    /// How many parts the word has.
    pub parts: u8,
}

/// The last word on a device.
#[derive(Clone, Copy, Debug)]
struct Last {
    incarnation: u64,
    number: u64,
    /// Parts of it that have not come.
    missing: u8,
}

/// What was lost of one gate's words. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Loss {
    last: BTreeMap<DeviceId, Last>,
    /// By step, the newest last.
    steps: VecDeque<(u64, Words)>,
    /// Since the start.
    ever: Words,
}

impl Loss {
    /// A part of a word was taken; there is at most one word in `period`.
    pub fn note(&mut self, now: Nanos, device: DeviceId, taken: Taken, period: Span) {
        let Taken { incarnation, number, parts } = taken;
        let missing = parts.saturating_sub(1);
        let before = self.last.get_mut(&device).filter(|last| last.incarnation == incarnation);
        let (gap, cut) = match before {
            Some(last) if number <= last.number => {
                last.missing = last.missing.saturating_sub(u8::from(number == last.number));
                return;
            }
            Some(last) => (number - last.number - 1, u64::from(last.missing > 0)),
            None => (0, 0),
        };
        self.last.insert(device, Last { incarnation, number, missing });
        // Nobody asks for more than a minute.
        let gap = gap.min(KEPT.0 / period.0.max(1));
        let fresh = Words { lost: gap + cut, all: gap + 1 };
        self.ever = self.ever.and(fresh);
        let step = now.0 / STEP.0;
        match self.steps.back_mut() {
            Some((newest, words)) if *newest == step => *words = words.and(fresh),
            _ => self.steps.push_back((step, fresh)),
        }
        while self.steps.front().is_some_and(|(first, _)| !is_kept(*first, now)) {
            self.steps.pop_front();
        }
    }

    /// Of the last minute, to five seconds.
    pub fn last_minute(&self, now: Nanos) -> Words {
        let kept = self.steps.iter().filter(|(step, _)| is_kept(*step, now));
        kept.fold(Words::default(), |sum, (_, words)| sum.and(*words))
    }

    /// Since the start.
    pub fn ever(&self) -> Words {
        self.ever
    }
}

fn is_kept(step: u64, now: Nanos) -> bool {
    now.0 / STEP.0 < step + KEPT.0 / STEP.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_millis(200);
    const ARRAY: DeviceId = DeviceId(1);

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    fn words(lost: u64, all: u64) -> Words {
        Words { lost, all }
    }

    fn word(incarnation: u64, number: u64) -> Taken {
        Taken { incarnation, number, parts: 1 }
    }

    #[test]
    fn a_word_is_lost_if_a_part_of_it_is() {
        let mut loss = Loss::default();
        let mut part = |number| {
            loss.note(at(1), ARRAY, Taken { incarnation: 1, number, parts: 3 }, PERIOD);
            loss.last_minute(at(1))
        };
        assert_eq!([7, 7, 7, 8].map(&mut part)[3], words(0, 2));
        assert_eq!([8, 8, 9, 9].map(&mut part)[3], words(0, 3));
        assert_eq!(part(10), words(1, 4), "a part of 9 has not come");
        assert_eq!(part(9), words(1, 4), "too late");
        assert_eq!(part(12), words(3, 6), "11, and parts of 10");
    }

    #[test]
    fn gaps_are_what_was_lost_by_device_and_life() {
        let mut loss = Loss::default();
        for number in [7, 8, 10, 11, 15] {
            loss.note(at(1), ARRAY, word(1, number), PERIOD);
        }
        assert_eq!(loss.last_minute(at(1)), words(4, 9));
        loss.note(at(2), DeviceId(2), word(1, 900), PERIOD);
        loss.note(at(2), ARRAY, word(2, 90_000), PERIOD);
        loss.note(at(2), ARRAY, word(2, 90_002), PERIOD);
        assert_eq!(loss.last_minute(at(2)), words(5, 13));
    }

    #[test]
    fn a_minute_is_remembered_and_a_long_silence_is_no_more_than_one() {
        let mut loss = Loss::default();
        loss.note(at(1), ARRAY, word(1, 1), PERIOD);
        loss.note(at(3), ARRAY, word(1, 11), PERIOD);
        assert_eq!(loss.last_minute(at(59)), words(9, 11));
        assert_eq!(loss.last_minute(at(60)), Words::default());
        loss.note(at(4_000), ARRAY, word(1, 20_000), PERIOD);
        assert_eq!(loss.last_minute(at(4_000)), words(300, 301));
        assert_eq!(loss.ever(), words(309, 312));
        assert_eq!(loss.steps.len(), 1);
    }
}
