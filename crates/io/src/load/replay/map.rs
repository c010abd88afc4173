//! From a request of a trace to a request that an export can serve, and when it is due.
//!
//! ```text
//! export of 100 blocks          exact          wrap           scale, extent 400
//! offset 250, length 10         left out       50             62
//! offset  95, length 10         left out       90 (moved)     23
//! offset  40, length 10         40             40             10
//! ```

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::Record;
use evenkeel_wire::nbd::client::ClientSession;
use evenkeel_wire::nbd::proto::TransmissionFlags;

use super::{Fit, LeftOut, ReplayPace, Routed, Think, Writes};
use crate::load::spec::SIZE_BYTES_MAX;
use crate::load::workload::Draw;

/// Scaled offsets stay multiples of this where the recorded ones are.
const ALIGN_BYTES_MAX: u64 = 4096;

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
    exports: Vec<Export>,
    pace: ReplayPace,
    fit: Fit,
    writes: Writes,
    /// When the first request of the trace arrived.
    first: Option<Nanos>,
    /// By export: when, in recorded time, its latest request so far had ended.
    idle_since: Vec<Option<Nanos>>,
    left_out: LeftOut,
}

impl Mapper {
    pub(super) fn new(
        exports: Vec<Export>,
        (pace, fit, writes): (ReplayPace, Fit, Writes),
    ) -> Self {
        let idle_since = vec![None; exports.len()];
        let left_out = LeftOut::default();
        Self { exports, pace, fit, writes, first: None, idle_since, left_out }
    }

    /// The request to make, unless it is left out.
    pub(super) fn map(&mut self, routed: &Routed) -> Option<Step> {
        let Routed { target, record } = routed;
        // What is left out has taken its time all the same.
        let after = self.after(*target, record);
        let kind = self.kind(record.kind)?;
        let draw = self.draw(*target, kind, record)?;
        Some(Step { draw, after })
    }

    /// What was left out so far.
    pub(super) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn after(&mut self, target: usize, record: &Record) -> Span {
        let first = *self.first.get_or_insert(record.at);
        match self.pace {
            ReplayPace::Recorded { speed, .. } => scaled(record.at.since(first), speed),
            ReplayPace::Closed { think: Think::Dropped, .. } => Span::ZERO,
            ReplayPace::Closed { think: Think::Kept, .. } => {
                let ended = record.at + record.response.unwrap_or(Span::ZERO);
                let idle_since = &mut self.idle_since[target];
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

    fn draw(&mut self, target: usize, kind: Kind, record: &Record) -> Option<Draw> {
        let export = self.exports[target];
        if !export.offers(kind) {
            self.left_out.unsupported += 1;
            return None;
        }
        if kind == Kind::Flush {
            return Some(Draw { kind, offset: 0, size_bytes: 0, fua: false });
        }
        if record.length == 0 {
            self.left_out.empty += 1;
            return None;
        }
        // Blocks that it touches in part are touched as a whole.
        let lead = record.offset % export.block_bytes;
        let length = record.length.saturating_add(lead);
        let length = length.checked_next_multiple_of(export.block_bytes).unwrap_or(u64::MAX);
        let has_payload = matches!(kind, Kind::Read | Kind::Write);
        let bound = if has_payload { export.payload_bytes_max } else { u64::from(u32::MAX) };
        let bound = bound.min(export.size_bytes);
        let Some(size_bytes) = u32::try_from(length).ok().filter(|_| length <= bound) else {
            self.left_out.too_long += 1;
            return None;
        };
        let Some(offset) = self.place(&export, record.offset - lead, length) else {
            self.left_out.outside += 1;
            return None;
        };
        Some(Draw { kind, offset, size_bytes, fua: false })
    }

    /// Where in the export a request goes; `offset` and `length` are whole blocks.
    fn place(&self, export: &Export, offset: u64, length: u64) -> Option<u64> {
        let last = export.size_bytes - length;
        match self.fit {
            Fit::Exact => (offset <= last).then_some(offset),
            Fit::Wrap => Some((offset % export.size_bytes).min(last)),
            Fit::Scale { extent_bytes } => {
                let product = u128::from(offset) * u128::from(export.size_bytes);
                let scaled = u64::try_from(product / u128::from(extent_bytes)).unwrap_or(u64::MAX);
                let recorded = 1u64.checked_shl(offset.trailing_zeros()).unwrap_or(u64::MAX);
                let align = recorded.min(ALIGN_BYTES_MAX).max(export.block_bytes);
                let scaled = scaled.min(last);
                Some(scaled - scaled % align)
            }
        }
    }
}

impl Export {
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

/// A recorded span, as long as it is at `speed`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, saturates")]
fn scaled(span: Span, speed: f64) -> Span {
    // Exactly 1 must not round instants beyond 2^53 ns, which is 104 days.
    let is_plain = (speed - 1.0).abs() < f64::EPSILON;
    if is_plain { span } else { Span((span.0 as f64 / speed) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_trace::SourceId;

    const OPEN: ReplayPace = ReplayPace::Recorded { speed: 2.0, depth: 1 };

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
        let mut mapper = Mapper::new(vec![export()], (OPEN, fit, Writes::LeaveOut));
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
        // 62.5, 23.75 and 10 blocks; the first and the last were multiples of 2 and of 4 KiB.
        assert_eq!(scaled, [Some(62), Some(23), Some(8)]);
    }

    #[test]
    fn blocks_that_are_touched_in_part_are_touched_as_a_whole() {
        let mut mapper = Mapper::new(vec![export()], (OPEN, Fit::Exact, Writes::LeaveOut));
        let draw = mapper.map(&record(0, Kind::Read, 1500, 600)).unwrap().draw;
        assert_eq!((draw.offset, draw.size_bytes), (1024, 2048));
    }

    #[test]
    fn what_is_left_out_is_counted_by_reason() {
        let mut mapper = Mapper::new(vec![export()], (OPEN, Fit::Exact, Writes::LeaveOut));
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
        let mut mapper = Mapper::new(vec![export()], (OPEN, Fit::Wrap, Writes::Read));
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
        let mut mapper = Mapper::new(vec![export()], (pace, Fit::Wrap, Writes::LeaveOut));
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
