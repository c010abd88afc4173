//! Scale: a trace made slower or faster, and fitted to a smaller or a larger device.
//!
//! A factor of time multiplies every arrival. The rate is its inverse: twice the rate is half the
//! time, with the same requests in the same order. What a device took to answer is kept, since a
//! recorded response says something about the device that gave it and not about the new pace.
//!
//! Places are fitted in one of two ways, then aligned to the device's blocks:
//!
//! ```text
//! device of 100, requests at 30 and 250         aligned to 4: first byte down, last byte up
//! wrap:     30 and 50     locality inside 100 kept, regions folded onto each other
//! stretch:  300 -> 100: 10 and 83     regions kept apart, gaps shrunk, neighbours may overlap
//! ```

use std::fmt;

use evenkeel_core::time::Nanos;

use crate::Record;
use crate::transform::ratio::Ratio;

/// How to scale. The default changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleOptions {
    /// The factor of every arrival; above one slows the trace down.
    pub time: Ratio,
    /// How places are fitted.
    pub space: Space,
    /// Bytes that every place and length becomes a multiple of; a power of two. One keeps them.
    pub alignment_bytes: u64,
}

/// How places are fitted to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Not at all.
    Keep,
    /// Modulo the size of the device; what would pass its end is moved down to end there.
    Wrap {
        /// The size of the device.
        size_bytes: u64,
    },
    /// In proportion to the sizes; lengths are kept.
    Stretch {
        /// The size of the device that the trace was recorded on.
        from_bytes: u64,
        /// The size of the device that it is for.
        to_bytes: u64,
    },
}

impl Default for ScaleOptions {
    fn default() -> Self {
        Self { time: Ratio::ONE, space: Space::Keep, alignment_bytes: 1 }
    }
}

/// Why a trace cannot be scaled like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleError {
    /// The alignment is no power of two.
    Alignment(u64),
    /// The device holds no whole block of the alignment.
    DeviceTooSmall {
        /// The device's bytes.
        size_bytes: u64,
        /// The alignment's.
        alignment_bytes: u64,
    },
    /// The device that the trace was recorded on has no bytes.
    NoBytes,
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alignment(bytes) => {
                write!(f, "an alignment of {bytes} bytes is no power of two; take 512 or 4096")
            }
            Self::DeviceTooSmall { size_bytes, alignment_bytes } => write!(
                f,
                "a device of {size_bytes} bytes holds no block of {alignment_bytes} bytes; give \
                 its size in bytes"
            ),
            Self::NoBytes => {
                write!(f, "the recorded device has no bytes; give the size that the trace spans")
            }
        }
    }
}

impl std::error::Error for ScaleError {}

/// Scales record by record. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    options: ScaleOptions,
    /// The device's end, a multiple of the alignment.
    end_bytes: u64,
}

impl Scale {
    /// Checks what is asked for.
    ///
    /// # Errors
    /// See [`ScaleError`].
    pub fn new(options: ScaleOptions) -> Result<Self, ScaleError> {
        let alignment_bytes = options.alignment_bytes;
        if !alignment_bytes.is_power_of_two() {
            return Err(ScaleError::Alignment(alignment_bytes));
        }
        let size_bytes = match options.space {
            Space::Keep => u64::MAX,
            Space::Stretch { from_bytes: 0, .. } => return Err(ScaleError::NoBytes),
            Space::Wrap { size_bytes } | Space::Stretch { to_bytes: size_bytes, .. } => size_bytes,
        };
        if size_bytes < alignment_bytes {
            return Err(ScaleError::DeviceTooSmall { size_bytes, alignment_bytes });
        }
        Ok(Self { options, end_bytes: size_bytes & !(alignment_bytes - 1) })
    }

    /// An instant at its new time.
    pub fn instant(&self, at: Nanos) -> Nanos {
        Nanos(self.options.time.of(at.0))
    }

    /// The record at its new time and place. A flush has no place.
    pub fn apply(&self, record: &Record) -> Record {
        let at = self.instant(record.at);
        if record.length == 0 {
            return Record { at, ..*record };
        }
        let (offset, length) = self.placed(record);
        Record { at, offset, length, ..*record }
    }

    fn placed(&self, record: &Record) -> (u64, u64) {
        let moved = match self.options.space {
            Space::Keep => record.offset,
            Space::Wrap { .. } => record.offset % self.end_bytes,
            Space::Stretch { from_bytes, .. } => {
                Ratio::new(self.end_bytes, from_bytes).expect("checked above").of(record.offset)
            }
        };
        let rest = self.options.alignment_bytes - 1;
        // What the first block holds in front of the request belongs to the aligned request, as
        // far as it was there before: stretching must not lengthen.
        let in_front = match self.options.space {
            Space::Stretch { .. } => record.offset & rest,
            _ => moved & rest,
        };
        let whole = record.length.saturating_add(in_front).saturating_add(rest) & !rest;
        let length = whole.min(self.end_bytes);
        (moved.min(self.end_bytes - length) & !rest, length)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::Kind;
    use proptest::prelude::*;

    use super::super::testing::records;
    use super::*;

    fn scale(options: ScaleOptions) -> Scale {
        Scale::new(options).unwrap()
    }

    fn stretch(from_bytes: u64, to_bytes: u64) -> ScaleOptions {
        let space = Space::Stretch { from_bytes, to_bytes };
        ScaleOptions { space, alignment_bytes: 512, ..ScaleOptions::default() }
    }

    proptest! {
        #[test]
        fn slowing_down_and_speeding_up_again_changes_nothing(
            trace in records(50), factor in 1u64..1000
        ) {
            let time = Ratio::new(factor, 1).unwrap();
            let slower = scale(ScaleOptions { time, ..ScaleOptions::default() });
            let faster = scale(ScaleOptions { time: time.inverse(), ..ScaleOptions::default() });
            for record in trace {
                prop_assert_eq!(faster.apply(&slower.apply(&record)), record);
            }
        }

        #[test]
        fn stretching_to_a_multiple_and_back_changes_nothing(
            trace in records(50), factor in 1u64..50
        ) {
            let size = 2 << 20;
            for record in trace {
                let larger = scale(stretch(size, size * factor)).apply(&record);
                prop_assert_eq!(larger.offset, record.offset * factor);
                prop_assert_eq!(scale(stretch(size * factor, size)).apply(&larger), record);
            }
        }

        #[test]
        fn whatever_was_recorded_fits_the_device_and_its_blocks(
            offset in any::<u64>(), length in 1u64.., size in 4096u64.., is_wrapped: bool
        ) {
            let space = if is_wrapped {
                Space::Wrap { size_bytes: size }
            } else {
                Space::Stretch { from_bytes: u64::MAX, to_bytes: size }
            };
            let options = ScaleOptions { space, alignment_bytes: 4096, ..ScaleOptions::default() };
            let record = Record {
                at: Nanos(0),
                source: crate::SourceId(0),
                kind: Kind::Write,
                offset,
                length,
                response: None,
            };
            let fitted = scale(options).apply(&record);
            prop_assert_eq!((fitted.offset % 4096, fitted.length % 4096), (0, 0));
            prop_assert!(fitted.length > 0 && fitted.offset + fitted.length <= size);
        }

        #[test]
        fn wrapping_keeps_what_lies_inside(trace in records(50)) {
            let space = Space::Wrap { size_bytes: 2 << 20 };
            let wrap = scale(ScaleOptions { space, ..ScaleOptions::default() });
            for record in trace {
                prop_assert_eq!(wrap.apply(&record), record);
            }
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_remedy() {
        let error = |options| Scale::new(options).unwrap_err().to_string();
        let alignment = ScaleOptions { alignment_bytes: 1000, ..ScaleOptions::default() };
        assert!(error(alignment).ends_with("take 512 or 4096"));
        assert!(error(stretch(0, 4096)).contains("recorded device"));
        assert!(error(stretch(4096, 100)).contains("holds no block of 512 bytes"));
    }
}
