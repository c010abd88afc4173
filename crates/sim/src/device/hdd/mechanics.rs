//! How long the arm and the platters take.
//!
//! - A *seek* over d cylinders takes what was measured for d, linear between the measured points
//!   and beyond the last. A switch of heads goes on meanwhile; the longer counts.
//! - A write waits a *settle* time longer after either, since a head must not write off its track.
//!   Of some drives it was measured to be negative: a write then starts sooner than a read. No
//!   movement takes less than nothing.
//! - The platters never stop: a sector passes when the clock, modulo one revolution, is at its
//!   angle. Nothing is drawn at random.
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3),
//! 1994.

use evenkeel_core::time::{Nanos, Span};

use super::geometry::Track;
use super::parameters::MechanicsParameters;

/// What the head is to do where it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read.
    Read,
    /// Write, which needs a settled head.
    Write,
}

/// The moving parts of a drive.
#[derive(Clone, Debug)]
pub struct Mechanics {
    revolution: Span,
    head_switch: Span,
    write_settle_ns: i64,
    /// By distance in cylinders; the first entry is zero.
    seek_ns: Vec<u32>,
}

impl Mechanics {
    /// The moving parts of these parameters, which were checked when they were read, for a drive
    /// with `cylinders`.
    pub fn new(parameters: &MechanicsParameters, cylinders: u32) -> Self {
        let seek_ns = (0..cylinders).map(|cylinders| seek_ns(&parameters.seek_ns, cylinders));
        Self {
            revolution: Span(parameters.revolution_ns),
            head_switch: Span(parameters.head_switch_ns),
            write_settle_ns: parameters.write_settle_ns,
            seek_ns: seek_ns.collect(),
        }
    }

    /// One turn of the platters.
    pub fn revolution(&self) -> Span {
        self.revolution
    }

    /// How long `sectors` of a track with `sectors_per_track` take to pass. It is rounded down like
    /// the angles of sectors, so that no sector ends behind the start of the next.
    pub fn passing(&self, sectors: u32, sectors_per_track: u32) -> Span {
        Span(u64::from(sectors) * self.revolution.0 / u64::from(sectors_per_track))
    }

    /// How many sectors pass wholly in `time`: as many as [`Self::passing`] takes no longer for.
    pub fn passed(&self, time: Span, sectors_per_track: u32) -> u64 {
        ((time.0 + 1) * u64::from(sectors_per_track) - 1) / self.revolution.0
    }

    /// From one track to another, ready for `purpose`.
    pub fn reposition(&self, from: Track, to: Track, purpose: Purpose) -> Span {
        if from == to {
            return Span::ZERO;
        }
        let seek = self.seek_ns[from.cylinder.abs_diff(to.cylinder) as usize];
        let switch = if from.head == to.head { Span::ZERO } else { self.head_switch };
        let settle_ns = if purpose == Purpose::Write { self.write_settle_ns } else { 0 };
        Span(u64::from(seek).max(switch.0).saturating_add_signed(settle_ns))
    }

    /// From `at` until the angle passes next; zero if it does so right then.
    pub fn rotation(&self, at: Nanos, angle_ns: u64) -> Span {
        let now_ns = at.0 % self.revolution.0;
        let ahead = if angle_ns >= now_ns { 0 } else { self.revolution.0 };
        Span(angle_ns + ahead - now_ns)
    }
}

/// The measured curve at a distance: linear between two points and beyond the last.
fn seek_ns(points: &[(u32, u64)], cylinders: u32) -> u32 {
    if cylinders == 0 {
        return 0;
    }
    let above = points.partition_point(|point| point.0 < cylinders);
    if points.get(above).is_some_and(|point| point.0 == cylinders) || points.len() == 1 {
        return checked(points[above.min(points.len() - 1)].1);
    }
    let upper = above.min(points.len() - 1);
    let [(near, near_ns), (far, far_ns)] = [points[upper - 1], points[upper]];
    let [near, far, near_ns, far_ns] =
        [i64::from(near), i64::from(far), signed(near_ns), signed(far_ns)];
    let time_ns = near_ns + (i64::from(cylinders) - near) * (far_ns - near_ns) / (far - near);
    u32::try_from(time_ns.max(0)).unwrap_or(u32::MAX)
}

fn signed(time_ns: u64) -> i64 {
    i64::try_from(time_ns).expect("checked to be at most a second")
}

fn checked(time_ns: u64) -> u32 {
    u32::try_from(time_ns).expect("checked to be at most a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Track = Track { cylinder: 0, head: 0 };

    fn mechanics() -> Mechanics {
        settling(7)
    }

    fn settling(write_settle_ns: i64) -> Mechanics {
        let parameters = MechanicsParameters {
            revolution_ns: 1_000,
            head_switch_ns: 50,
            write_settle_ns,
            seek_ns: vec![(1, 40), (2, 60), (6, 100), (8, 90)],
        };
        Mechanics::new(&parameters, 12)
    }

    #[test]
    fn the_seek_curve_goes_through_its_points_and_straight_between_them() {
        let seeks: Vec<_> = (0..12)
            .map(|cylinder| Track { cylinder, head: 0 })
            .map(|to| mechanics().reposition(HOME, to, Purpose::Read).0)
            .collect();
        assert_eq!(seeks, [0, 40, 60, 70, 80, 90, 100, 95, 90, 85, 80, 75]);
    }

    #[test]
    fn a_head_switch_hides_behind_a_longer_seek_and_a_write_settles_after_either() {
        let to = |cylinder, purpose| {
            mechanics().reposition(HOME, Track { cylinder, head: 1 }, purpose).0
        };
        assert_eq!(
            [to(0, Purpose::Read), to(1, Purpose::Read), to(2, Purpose::Read)],
            [50, 50, 60]
        );
        assert_eq!([to(0, Purpose::Write), to(2, Purpose::Write)], [57, 67]);
        assert_eq!(mechanics().reposition(HOME, HOME, Purpose::Write), Span::ZERO);
    }

    #[test]
    fn a_negative_settle_time_shortens_a_write_and_never_below_nothing() {
        let to = |mechanics: &Mechanics, cylinder, head, purpose| {
            mechanics.reposition(HOME, Track { cylinder, head }, purpose).0
        };
        let mechanics = settling(-45);
        assert_eq!([Purpose::Read, Purpose::Write].map(|it| to(&mechanics, 6, 0, it)), [100, 55]);
        assert_eq!(to(&mechanics, 0, 1, Purpose::Write), 5);
        assert_eq!(to(&mechanics, 1, 0, Purpose::Write), 0);
        assert_eq!(mechanics.reposition(HOME, HOME, Purpose::Write), Span::ZERO);
    }

    #[test]
    fn a_sector_passes_once_per_revolution() {
        let mechanics = mechanics();
        assert_eq!(mechanics.rotation(Nanos(5_300), 300), Span(0));
        assert_eq!(mechanics.rotation(Nanos(5_300), 301), Span(1));
        assert_eq!(mechanics.rotation(Nanos(5_300), 299), Span(999));
        assert_eq!(mechanics.passing(1, 3), Span(333));
        assert_eq!(mechanics.passing(3, 3), mechanics.revolution());
        assert_eq!([332, 333, 665, 666].map(|time| mechanics.passed(Span(time), 3)), [0, 1, 1, 2]);
    }
}
