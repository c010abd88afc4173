//! Anonymise: a trace to give away, which plans as the original does.
//!
//! Every source gets a name that only the key connects with the old one. Its device is cut into
//! extents of equal size, and the extents change places by a keyed
//! [permutation](super::permutation) of the source's own.
//!
//! ```text
//! extents of the original    | 0 | 1 | 2 | 3 | 4 |
//! become                     | 3 | 0 | 4 | 1 | 2 |     a request keeps its place in its extent
//! ```
//!
//! Kept: times, kinds, lengths, response times, the share of each source, which requests touch the
//! same bytes (reuse, footprint, overwrites), and sequences within an extent. A request that
//! reaches into the next extent is moved as a whole with its first byte, so that a sequence breaks
//! once per extent; take large extents where long sequences matter.
//!
//! Hidden: names of sources, and where on the device anything lay, beyond the place within an
//! extent. The same key gives the same names and places, so that traces of several days fit
//! together; without the key neither can be computed.
//!
//! Not hidden: everything kept. Who knows part of what a source did (its times and lengths) will
//! recognise it, and a file system or database whose structures lie at known places within an
//! extent can be guessed from them. Smaller extents hide more of the latter and keep less of
//! sequences.

use std::fmt;

use crate::transform::permutation::Permutation;
use crate::transform::siphash::Key;
use crate::{Record, SourceId, Sources};

/// How to anonymise.
#[derive(Clone, Copy, Debug)]
pub struct AnonymiseOptions {
    /// The secret; who has it can find the original names and places by trying.
    pub key: Key,
    /// The size of an extent, a power of two of at least 4096.
    pub extent_bytes: u64,
    /// The size of every source's device. What lies in a last part of an extent stays there.
    pub device_bytes: u64,
}

impl AnonymiseOptions {
    /// An extent that holds all but the longest sequences.
    pub const EXTENT_BYTES_DEFAULT: u64 = 16 << 20;
}

/// Why a trace cannot be anonymised like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnonymiseError {
    /// The extent is no power of two of at least 4096 bytes.
    Extent(u64),
    /// A request reaches beyond the device.
    BeyondDevice {
        /// The request's first byte.
        offset: u64,
        /// Its length.
        length: u64,
        /// The device's bytes.
        device_bytes: u64,
    },
    /// The trace has more sources than a trace may name.
    TooManySources,
}

impl fmt::Display for AnonymiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extent(bytes) => write!(
                f,
                "an extent of {bytes} bytes is no power of two of at least 4096; take {}",
                AnonymiseOptions::EXTENT_BYTES_DEFAULT
            ),
            Self::BeyondDevice { offset, length, device_bytes } => write!(
                f,
                "a request of {length} bytes at {offset} reaches beyond the device of \
                 {device_bytes} bytes; give the size of the largest device"
            ),
            Self::TooManySources => {
                write!(f, "there are more than {} sources; cut the trace", Sources::COUNT_MAX)
            }
        }
    }
}

impl std::error::Error for AnonymiseError {}

/// Anonymises record by record. See the [module](self).
#[derive(Clone, Debug)]
pub struct Anonymise {
    options: AnonymiseOptions,
    /// By the original's source id.
    disguises: Vec<Option<Disguise>>,
    sources: Sources,
}

#[derive(Clone, Copy, Debug)]
struct Disguise {
    source: SourceId,
    extents: Permutation,
}

impl Anonymise {
    /// Checks what is asked for.
    ///
    /// # Errors
    /// [`AnonymiseError::Extent`].
    pub fn new(options: AnonymiseOptions) -> Result<Self, AnonymiseError> {
        let extent_bytes = options.extent_bytes;
        if !extent_bytes.is_power_of_two() || extent_bytes < 4096 {
            return Err(AnonymiseError::Extent(extent_bytes));
        }
        Ok(Self { options, disguises: Vec::new(), sources: Sources::default() })
    }

    /// The record under its new name and at its new place; `sources` names the original's source.
    ///
    /// # Errors
    /// [`AnonymiseError::BeyondDevice`] and [`AnonymiseError::TooManySources`].
    pub fn apply(&mut self, sources: &Sources, record: &Record) -> Result<Record, AnonymiseError> {
        let disguise = self.disguise(sources, record.source)?;
        let offset = if record.length == 0 { 0 } else { self.moved(&disguise, record)? };
        Ok(Record { source: disguise.source, offset, ..*record })
    }

    /// The new names, as far as they appeared.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn moved(&self, disguise: &Disguise, record: &Record) -> Result<u64, AnonymiseError> {
        let AnonymiseOptions { extent_bytes, device_bytes, .. } = self.options;
        let Record { offset, length, .. } = *record;
        if offset.checked_add(length).is_none_or(|end| end > device_bytes) {
            return Err(AnonymiseError::BeyondDevice { offset, length, device_bytes });
        }
        let extent = offset / extent_bytes;
        if extent >= device_bytes / extent_bytes {
            return Ok(offset);
        }
        let moved = disguise.extents.of(extent) * extent_bytes + offset % extent_bytes;
        // Only a request that leaves its extent can pass the end; it is moved down to end there.
        Ok(moved.min(device_bytes - length))
    }

    fn disguise(
        &mut self,
        sources: &Sources,
        source: SourceId,
    ) -> Result<Disguise, AnonymiseError> {
        let index = source.0 as usize;
        if let Some(&Some(disguise)) = self.disguises.get(index) {
            return Ok(disguise);
        }
        let name = sources.name(source);
        let source = self.unused_name(name)?;
        let extents = self.options.device_bytes / self.options.extent_bytes;
        let key = self.options.key.derived(b"place").derived(name.as_bytes());
        let disguise = Disguise { source, extents: Permutation::new(key, extents) };
        self.disguises.resize(self.disguises.len().max(index + 1), None);
        self.disguises[index] = Some(disguise);
        Ok(disguise)
    }

    /// Sixty-four bits of hash never meet in practice; if they did, two sources would become one.
    fn unused_name(&mut self, name: &str) -> Result<SourceId, AnonymiseError> {
        let hash = self.options.key.derived(b"name").hash(name.as_bytes());
        let mut new_name = format!("source-{hash:016x}");
        loop {
            let count = self.sources.names().len();
            let id = self.sources.intern(&new_name).ok_or(AnonymiseError::TooManySources)?;
            if id.0 as usize == count {
                return Ok(id);
            }
            new_name.push('+');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_core::ticket::Kind;
    use proptest::prelude::*;

    use super::super::testing::{records, sources_of};
    use super::*;
    use crate::statistics::{Statistics, StatisticsOptions, Summary};

    fn options(key: [u8; 16]) -> AnonymiseOptions {
        AnonymiseOptions { key: Key::new(key), extent_bytes: 4096, device_bytes: 2 << 20 }
    }

    fn summary(trace: &[Record]) -> Option<Summary> {
        let mut statistics = Statistics::new(StatisticsOptions::default());
        for record in trace {
            statistics.add(record);
        }
        statistics.summary()
    }

    fn anonymised(trace: &[Record], key: [u8; 16]) -> (Vec<Record>, Sources) {
        let mut anonymise = Anonymise::new(options(key)).unwrap();
        let sources = sources_of(trace);
        let result =
            trace.iter().map(|record| anonymise.apply(&sources, record).unwrap()).collect();
        (result, anonymise.sources().clone())
    }

    proptest! {
        #[test]
        fn extents_change_places_one_to_one(trace in records(200), key: [u8; 16]) {
            let (result, _) = anonymised(&trace, key);
            let (mut forth, mut back) = (BTreeMap::new(), BTreeMap::new());
            let pairs = trace.iter().zip(&result).filter(|(old, _)| old.kind != Kind::Flush);
            for (old, new) in pairs.filter(|(old, _)| old.offset % 4096 + old.length <= 4096) {
                prop_assert_eq!(old.offset % 4096, new.offset % 4096);
                let old_extent = (old.source, old.offset / 4096);
                let new_extent = (new.source, new.offset / 4096);
                prop_assert_eq!(*forth.entry(old_extent).or_insert(new_extent), new_extent);
                prop_assert_eq!(*back.entry(new_extent).or_insert(old_extent), old_extent);
            }
        }

        #[test]
        fn everything_but_name_and_place_is_kept(trace in records(100), key: [u8; 16]) {
            let (result, _) = anonymised(&trace, key);
            for (old, new) in trace.iter().zip(result) {
                prop_assert_eq!(Record { source: old.source, offset: old.offset, ..new }, *old);
                prop_assert!(new.offset + new.length <= 2 << 20);
            }
        }

        #[test]
        fn what_planning_needs_is_kept(trace in records(200), key: [u8; 16]) {
            let inside: Vec<Record> = trace
                .into_iter()
                .filter(|record| record.offset % 4096 + record.length <= 4096)
                .collect();
            let (result, _) = anonymised(&inside, key);
            let (Some(old), Some(new)) = (summary(&inside), summary(&result)) else {
                return Ok(());
            };
            prop_assert_eq!(old.total.footprint_blocks, new.total.footprint_blocks);
            prop_assert_eq!(old.total.overwrite_share, new.total.overwrite_share);
            prop_assert_eq!(old.total.reuse, new.total.reuse);
            prop_assert_eq!(old.total.dispersion, new.total.dispersion);
        }

        #[test]
        fn the_same_key_gives_the_same_trace_and_another_key_another_name(
            trace in records(50), key: [u8; 16]
        ) {
            let first = anonymised(&trace, key);
            prop_assert_eq!(&anonymised(&trace, key), &first);
            let other = anonymised(&trace, key.map(|byte| !byte));
            prop_assert!(other.1.names().iter().all(|name| !first.1.names().contains(name)));
        }
    }

    #[test]
    fn a_name_is_the_same_in_every_trace_under_a_key() {
        let mut sources = Sources::default();
        let (a, b) = (sources.intern("a").unwrap(), sources.intern("b").unwrap());
        let name = |order: [SourceId; 2]| {
            let mut anonymise = Anonymise::new(options([1; 16])).unwrap();
            let id = order.map(|source| anonymise.disguise(&sources, source).unwrap().source);
            let at = order.iter().position(|&source| source == a).unwrap();
            anonymise.sources().name(id[at]).to_owned()
        };
        assert_eq!(name([a, b]), name([b, a]));
    }

    #[test]
    fn a_request_beyond_the_device_is_refused() {
        let mut anonymise = Anonymise::new(options([0; 16])).unwrap();
        let record = Record {
            at: evenkeel_core::time::Nanos(0),
            source: SourceId(0),
            kind: Kind::Read,
            offset: (2 << 20) - 512,
            length: 1024,
            response: None,
        };
        let error = anonymise.apply(&Sources::default(), &record).unwrap_err();
        assert!(error.to_string().starts_with("a request of 1024 bytes at 2096640 reaches"));
        let tiny = AnonymiseOptions { extent_bytes: 512, ..options([0; 16]) };
        assert_eq!(Anonymise::new(tiny).unwrap_err(), AnonymiseError::Extent(512));
    }
}
