//! Draws the records of a profile, one after another, from a seed.
//!
//! Arrivals, mix and places have streams of random numbers of their own, so that a change of one
//! does not change the others: the same seed at twice the rate asks for the same places.

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use super::arrivals::ArrivalProcess;
use super::choice::Choice;
use super::places::Places;
use super::profile::{Profile, ProfileError};
use super::sizes::SizeMix;
use crate::{Record, SourceId, Sources};

/// When a generator ends; by default never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After so many records.
    pub count: Option<u64>,
    /// Before the first that would arrive at or after this time.
    pub duration: Option<Span>,
}

/// An iterator of records, a pure function of profile and seed.
#[derive(Clone, Debug)]
pub struct Generator {
    limit: Limit,
    made: u64,
    sources: Sources,
    source_choice: Choice,
    read_share: f64,
    sequential_share: f64,
    sizes: [SizeChoice; 2],
    arrivals: ArrivalProcess,
    streams: Vec<Stream>,
    mix: Prng,
    place: Prng,
}

#[derive(Clone, Debug)]
struct SizeChoice {
    sizes: Vec<u64>,
    choice: Choice,
}

/// One source's places, and what a sequence would go on from.
#[derive(Clone, Debug)]
struct Stream {
    places: Places,
    last: Option<(Kind, u64)>,
}

impl SizeChoice {
    fn new(mix: &SizeMix) -> Self {
        let sizes = mix.sizes.iter().map(|&(size_bytes, _)| size_bytes).collect();
        Self { sizes, choice: Choice::new(mix.sizes.iter().map(|&(_, weight)| weight)) }
    }

    fn draw(&self, prng: &mut Prng) -> u64 {
        self.sizes[self.choice.draw(prng)]
    }
}

impl Generator {
    /// A generator from its first record.
    ///
    /// # Errors
    /// See [`Profile::check`].
    pub fn new(profile: &Profile, seed: u64, limit: Limit) -> Result<Self, ProfileError> {
        profile.check()?;
        let mut seeds = Prng::new(seed);
        let mut next_stream = || Prng::new(seeds.next_u64());
        let (arrivals, mix, mut layout, place) =
            (next_stream(), next_stream(), next_stream(), next_stream());
        let mut sources = Sources::default();
        for source in &profile.sources {
            sources.intern(&source.name);
        }
        let new_stream =
            |source| Stream { places: Places::new(profile, source, &mut layout), last: None };
        Ok(Self {
            limit,
            made: 0,
            sources,
            source_choice: Choice::new(profile.sources.iter().map(|source| source.weight)),
            read_share: profile.read_share,
            sequential_share: profile.places.sequential_share,
            sizes: [SizeChoice::new(&profile.read_sizes), SizeChoice::new(&profile.write_sizes)],
            arrivals: ArrivalProcess::new(profile.arrivals, arrivals),
            streams: (0..profile.sources.len()).map(new_stream).collect(),
            mix,
            place,
        })
    }

    /// The names of the sources.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn draw(&mut self, at: Nanos) -> Record {
        let source = self.source_choice.draw(&mut self.mix);
        let is_read = self.mix.unit_f64() < self.read_share;
        let goes_on = self.mix.unit_f64() < self.sequential_share;
        let stream = &mut self.streams[source];
        // A sequence keeps its kind: since its length does not depend on the kind, the share of
        // reads stays what it is.
        let drawn_kind = if is_read { Kind::Read } else { Kind::Write };
        let kind = stream.last.filter(|_| goes_on).map_or(drawn_kind, |(kind, _)| kind);
        let length = self.sizes[usize::from(kind == Kind::Write)].draw(&mut self.mix);
        let next = stream
            .last
            .map(|(_, end)| end)
            .filter(|&end| goes_on && stream.places.has_room(end, length));
        let offset = next.unwrap_or_else(|| stream.places.draw(length, &mut self.place));
        stream.last = Some((kind, stream.places.aligned_up(offset + length)));
        let source = SourceId(u32::try_from(source).expect("bounded by Sources::COUNT_MAX"));
        Record { at, source, kind, offset, length, response: None }
    }
}

impl Iterator for Generator {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.limit.count.is_some_and(|count| self.made >= count) {
            return None;
        }
        let at = self.arrivals.next_arrival();
        if self.limit.duration.is_some_and(|duration| at.0 >= duration.0) {
            self.limit.count = Some(0);
            return None;
        }
        self.made += 1;
        Some(self.draw(at))
    }
}
