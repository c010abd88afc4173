//! From a request of a trace to a request that an export can serve, and when it is due.
//!
//! ```text
//! export of 100 blocks          exact          wrap           scale, extent 400
//! offset 250, length 10         left out       50             62
//! offset  95, length 10         left out       90 (moved)     23
//! offset  40, length 10         40             40             10
//! ```
//!
//! Times and places are scaled as everywhere, by [`Scale`].

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::Draw;
use evenkeel_trace::Record;
use evenkeel_trace::transform::ratio::Ratio;
use evenkeel_trace::transform::scale::{Scale, ScaleError, ScaleOptions, Space};
use evenkeel_wire::nbd::client::ClientSession;
use evenkeel_wire::nbd::proto::TransmissionFlags;

use super::{Fit, LeftOut, ReplayPace, Routed, Think, Writes};
use crate::load::SIZE_BYTES_MAX;

const SECTOR_BYTES: u64 = 512;

/// A request, ready to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) draw: Draw,
    /// Open loop: when it is due, since the start. Closed loop: how long the client thinks.
    pub(super) after: Span,
}

/// What has to be known of an export.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub(super) size_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) payload_bytes_max: u64,
    pub(super) flags: TransmissionFlags,
}

impl From<&ClientSession> for Export {
    fn from(session: &ClientSession) -> Self {
        let block_bytes = u64::from(session.block_size.minimum.max(1));
        Self {
            size_bytes: session.size_bytes - session.size_bytes % block_bytes,
            block_bytes,
            payload_bytes_max: u64::from(session.block_size.maximum_payload.min(SIZE_BYTES_MAX)),
            flags: session.flags,
        }
    }
}

/// Maps a trace to exports.
#[derive(Debug)]
pub(super) struct Mapper {
    lanes: Vec<Lane>,
    pace: ReplayPace,
    writes: Writes,
    /// When the first request of the trace arrives.
    first: Option<Nanos>,
    left_out: LeftOut,
}

/// One export, and how requests are fitted to it.
#[derive(Debug)]
struct Lane {
    export: Export,
    scale: Scale,
    /// When, in recorded time, its latest request so far had ended.
    idle_since: Option<Nanos>,
}

impl Mapper {
    pub(super) fn new(
        exports: &[Export],
        (pace, fit, writes): (ReplayPace, Fit, Writes),
    ) -> Result<Self, ScaleError> {
        let lane = |export: &Export| {
            let options = ScaleOptions {
                time: pace.time(),
                space: export.space(fit),
                alignment_bytes: match fit {
                    Fit::Exact | Fit::Wrap => export.block_bytes,
                    // What is stretched falls between the sectors.
                    Fit::Scale { .. } => export.block_bytes.max(SECTOR_BYTES),
                },
            };
            Ok(Lane { export: *export, scale: Scale::new(options)?, idle_since: None })
        };
        let lanes = exports.iter().map(lane).collect::<Result<_, _>>()?;
        Ok(Self { lanes, pace, writes, first: None, left_out: LeftOut::default() })
    }

    /// The request to make, unless it is left out.
    pub(super) fn map(&mut self, routed: &Routed) -> Option<Step> {
        let fitted = self.lanes[routed.target].scale.apply(&routed.record);
        // What is left out has taken its time all the same.
        let after = self.after(routed.target, &fitted);
        let kind = self.kind(fitted.kind)?;
        let draw = self.draw(routed.target, kind, &fitted)?;
        Some(Step { draw, after })
    }

    /// What was left out so far.
    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn after(&mut self, target: usize, record: &Record) -> Span {
        let first = *self.first.get_or_insert(record.at);
        match self.pace {
            ReplayPace::Recorded { .. } => record.at.since(first),
            ReplayPace::Closed { think: Think::Dropped, .. } => Span::ZERO,
            ReplayPace::Closed { think: Think::Kept, .. } => {
                let ended = record.at + record.response.unwrap_or(Span::ZERO);
                let idle_since = &mut self.lanes[target].idle_since;
                let thought = idle_since.map_or(Span::ZERO, |since| record.at.since(since));
                *idle_since = (*idle_since).max(Some(ended));
                thought
            }
        }
    }

    fn kind(&mut self, kind: Kind) -> Option<Kind> {
        let changes = matches!(kind, Kind::Write | Kind::Trim | Kind::WriteZeroes);
        match (changes, self.writes) {
            (false, _) | (true, Writes::Write) => Some(kind),
            (true, Writes::Read) => Some(Kind::Read),
            (true, Writes::LeaveOut) => {
                self.left_out.writes += 1;
                None
            }
        }
    }

    /// The request itself; `record` has been fitted.
    fn draw(&mut self, target: usize, kind: Kind, record: &Record) -> Option<Draw> {
        let export = self.lanes[target].export;
        let left_out = &mut self.left_out;
        if !export.offers(kind) {
            left_out.unsupported += 1;
            return None;
        }
        if kind == Kind::Flush {
            return Some(Draw { kind, offset: 0, size_bytes: 0, fua: false });
        }
        let length = record.length;
        let Some(size_bytes) = u32::try_from(length).ok().filter(|_| export.takes(kind, length))
        else {
            left_out.too_long += 1;
            return None;
        };
        if length == 0 {
            left_out.empty += 1;
            return None;
        }
        if record.offset > export.size_bytes - length {
            left_out.outside += 1;
            return None;
        }
        Some(Draw { kind, offset: record.offset, size_bytes, fua: false })
    }
}

impl Export {
    fn space(&self, fit: Fit) -> Space {
        let size_bytes = self.size_bytes;
        match fit {
            Fit::Exact => Space::Keep,
            Fit::Wrap => Space::Wrap { size_bytes },
            Fit::Scale { extent_bytes } => {
                Space::Stretch { from_bytes: extent_bytes, to_bytes: size_bytes }
            }
        }
    }

    fn takes(&self, kind: Kind, length: u64) -> bool {
        let has_payload = matches!(kind, Kind::Read | Kind::Write);
        length <= self.size_bytes && (!has_payload || length <= self.payload_bytes_max)
    }

    fn offers(&self, kind: Kind) -> bool {
        let has = |flag| self.flags.contains(flag);
        match kind {
            Kind::Read => true,
            Kind::Write => !has(TransmissionFlags::READ_ONLY),
            Kind::Flush => has(TransmissionFlags::SEND_FLUSH),
            Kind::Trim => has(TransmissionFlags::SEND_TRIM),
            Kind::Cache => has(TransmissionFlags::SEND_CACHE),
            Kind::WriteZeroes => has(TransmissionFlags::SEND_WRITE_ZEROES),
        }
    }
}

impl ReplayPace {
    /// The factor of every recorded instant.
    fn time(self) -> Ratio {
        match self {
            Self::Recorded { speed, .. } => speed.inverse(),
            Self::Closed { .. } => Ratio::ONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_trace::SourceId;

    fn open() -> ReplayPace {
        ReplayPace::Recorded { speed: "2".parse().unwrap(), depth: 1 }
    }

    fn mapper(terms: (ReplayPace, Fit, Writes)) -> Mapper {
        Mapper::new(&[export()], terms).unwrap()
    }

    fn export() -> Export {
        Export {
            size_bytes: 100 << 10,
            block_bytes: 1 << 10,
            payload_bytes_max: 32 << 10,
            flags: TransmissionFlags::SEND_FLUSH,
        }
    }

    fn record(at_ns: u64, kind: Kind, offset: u64, length: u64) -> Routed {
        let (at, source) = (Nanos(at_ns), SourceId(0));
        Routed { target: 0, record: Record { at, source, kind, offset, length, response: None } }
    }

    fn places(fit: Fit) -> Vec<Option<u64>> {
        let mut mapper = mapper((open(), fit, Writes::LeaveOut));
        [250u64, 95, 40]
            .map(|block| {
                let routed = record(0, Kind::Read, block << 10, 10 << 10);
                mapper.map(&routed).map(|step| step.draw.offset >> 10)
            })
            .to_vec()
    }

    #[test]
    fn requests_are_left_out_wrapped_or_scaled_as_asked() {
        assert_eq!(places(Fit::Exact), [None, None, Some(40)]);
        assert_eq!(places(Fit::Wrap), [Some(50), Some(90), Some(40)]);
        let scaled = places(Fit::Scale { extent_bytes: 400 << 10 });
        assert_eq!(scaled, [Some(62), Some(23), Some(10)]);
    }

    #[test]
    fn blocks_that_are_touched_in_part_are_touched_as_a_whole() {
        let mut mapper = mapper((open(), Fit::Exact, Writes::LeaveOut));
        let draw = mapper.map(&record(0, Kind::Read, 1500, 600)).unwrap().draw;
        assert_eq!((draw.offset, draw.size_bytes), (1024, 2048));
    }

    #[test]
    fn what_is_left_out_is_counted_by_reason() {
        let mut mapper = mapper((open(), Fit::Exact, Writes::LeaveOut));
        for routed in [
            record(0, Kind::Write, 0, 1024),
            record(0, Kind::Cache, 0, 1024),
            record(0, Kind::Read, 99 << 10, 2048),
            record(0, Kind::Read, 0, 64 << 10),
            record(0, Kind::Read, 0, 0),
            record(0, Kind::Read, u64::MAX, u64::MAX),
        ] {
            assert_eq!(mapper.map(&routed), None, "{routed:?}");
        }
        let expected = LeftOut { writes: 1, unsupported: 1, outside: 1, too_long: 2, empty: 1 };
        assert_eq!((mapper.left_out(), mapper.left_out().sum()), (expected, 6));
    }

    #[test]
    fn deadlines_count_from_the_first_request_and_shrink_with_the_speed() {
        let mut mapper = mapper((open(), Fit::Wrap, Writes::Read));
        let after = [500, 900, 2500].map(|at_ns| {
            mapper
                .map(&record(at_ns, Kind::Write, 0, 1024))
                .map(|step| (step.after, step.draw.kind))
        });
        let read = |ns| Some((Span(ns), Kind::Read));
        assert_eq!(after, [read(0), read(200), read(1000)]);
    }

    #[test]
    fn think_time_counts_from_the_latest_end_where_responses_are_known() {
        let pace = ReplayPace::Closed { depth: 1, think: Think::Kept };
        let mut mapper = mapper((pace, Fit::Wrap, Writes::LeaveOut));
        let mut think = |at_ns, response_ns: Option<u64>| {
            let mut routed = record(at_ns, Kind::Read, 0, 1024);
            routed.record.response = response_ns.map(Span);
            mapper.map(&routed).unwrap().after.0
        };
        assert_eq!(think(100, Some(50)), 0, "nothing came before");
        assert_eq!(think(200, Some(500)), 50, "answered at 150");
        assert_eq!(think(300, Some(10)), 0, "the second was still under way");
        assert_eq!(think(1000, None), 300, "the second ended at 700");
        assert_eq!(think(1400, None), 400, "no response known: from its arrival");
    }
}
