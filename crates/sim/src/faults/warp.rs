//! A device's own time, which runs slower than the world's while it is slow, and stands while it is
//! stuck. Whatever the device does inside, everything takes longer by the same factor.
//!
//! ```text
//! device time                          ___/   full speed again
//!      |                 _____________/       stuck: time stands
//!      |          __----                      slow, 200 %: half the speed
//!      |       /
//!      |____/______________________________ world time
//! ```
//!
//! Device time never runs faster than the world's, so every device instant is met exactly by some
//! world instant, and a device that asks to be polled then is polled then.

use std::ops::Range;

use evenkeel_core::time::{Nanos, Span};

/// World time to device time and back.
#[derive(Clone, Debug)]
pub(crate) struct Warp {
    /// In order of their starts; the last one never ends.
    pieces: Vec<Piece>,
}

/// From `world` on, device time starts at `device` and takes `time_percent` hundredths of a world
/// nanosecond for each of its own; `None` stands.
#[derive(Clone, Copy, Debug)]
struct Piece {
    world: Nanos,
    device: Nanos,
    time_percent: Option<u64>,
}

/// A window in which device time is slow (percent of the usual time, at least 100) or stands
/// (`None`).
#[derive(Clone, Debug)]
pub(crate) struct Slowness {
    pub(crate) window: Range<Nanos>,
    pub(crate) time_percent: Option<u64>,
}

impl Warp {
    /// The device time of these windows. Where they overlap, their factors multiply.
    pub(crate) fn new(windows: &[Slowness]) -> Self {
        let ends = windows.iter().flat_map(|one| [one.window.start, one.window.end]);
        let mut edges: Vec<Nanos> = ends.chain([Nanos::ZERO]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut pieces: Vec<Piece> = Vec::new();
        for world in edges {
            let device = pieces.last().map_or(Nanos::ZERO, |piece| piece.device_at(world));
            let mut inside = windows.iter().filter(|one| one.window.contains(&world));
            let time_percent = inside.try_fold(100, |percent: u64, one| {
                Some((percent.saturating_mul(one.time_percent?.max(100)) / 100).max(100))
            });
            pieces.push(Piece { world, device, time_percent });
        }
        Self { pieces }
    }

    /// The device time of a world instant.
    pub(crate) fn device_at(&self, world: Nanos) -> Nanos {
        let index = self.pieces.partition_point(|piece| piece.world <= world);
        self.pieces[index - 1].device_at(world)
    }

    /// The first world instant of a device time; none if the device stands for ever before it.
    pub(crate) fn world_at(&self, device: Nanos) -> Option<Nanos> {
        // The last piece that begins before that device time, or the first of all.
        let index = self.pieces.partition_point(|piece| piece.device < device).max(1) - 1;
        let piece = self.pieces[index];
        let ahead_ns = u128::from(device.since(piece.device).0);
        let Some(percent) = piece.time_percent else {
            return (ahead_ns == 0).then_some(piece.world);
        };
        let world_ns = (ahead_ns * u128::from(percent)).div_ceil(100);
        Some(piece.world + Span(u64::try_from(world_ns).unwrap_or(u64::MAX)))
    }
}

impl Piece {
    fn device_at(&self, world: Nanos) -> Nanos {
        let Some(percent) = self.time_percent else { return self.device };
        let world_ns = u128::from(world.since(self.world).0);
        let device_ns = world_ns * 100 / u128::from(percent);
        self.device + Span(u64::try_from(device_ns).expect("device time is the slower one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warp(windows: &[(Range<u64>, Option<u64>)]) -> Warp {
        let slowness = |(window, time_percent): &(Range<u64>, Option<u64>)| Slowness {
            window: Nanos(window.start)..Nanos(window.end),
            time_percent: *time_percent,
        };
        Warp::new(&windows.iter().map(slowness).collect::<Vec<_>>())
    }

    #[test]
    fn slow_time_and_standing_time_add_up() {
        let warp = warp(&[(100..200, Some(200)), (200..300, None)]);
        let device = [0, 100, 150, 151, 200, 299, 300, 400].map(|at| warp.device_at(Nanos(at)).0);
        assert_eq!(device, [0, 100, 125, 125, 150, 150, 150, 250]);
    }

    #[test]
    fn every_device_instant_is_met_exactly_and_at_once() {
        let windows = [(100..200, Some(250)), (150..180, Some(300)), (190..260, None)];
        let warp = warp(&windows);
        for device in 0..400 {
            let world = warp.world_at(Nanos(device)).unwrap();
            assert_eq!(warp.device_at(world), Nanos(device));
            assert!(world == Nanos(0) || warp.device_at(world - Span(1)) < Nanos(device));
        }
    }

    #[test]
    fn a_device_that_stands_for_ever_meets_nothing_more() {
        let warp = warp(&[(100..u64::MAX, None)]);
        assert_eq!(warp.world_at(Nanos(100)), Some(Nanos(100)));
        assert_eq!(warp.world_at(Nanos(101)), Some(Nanos(u64::MAX)), "until time ends");
    }
}
