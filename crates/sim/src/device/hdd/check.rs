//! What figures a drive can have.
//!
//! Figures come from outside. Each has a bound, so that no sum of them overflows, no table grows
//! beyond what a drive needs, and whoever has a figure wrong hears its key and what would be right.

use super::parameters::{
    CacheParameters, GeometryParameters, InterfaceParameters, MechanicsParameters, ParameterError,
    Parameters, ReadAhead, Writes, ZoneParameters,
};

const CYLINDERS_MAX: u32 = 1_000_000;
const SECTORS_PER_TRACK_MAX: u32 = 100_000;
const TIME_NS_MAX: u64 = 1_000_000_000;
const SECTOR_NS_MAX: u64 = 10_000_000;
const SEGMENTS_MAX: usize = 65_536;
const SEGMENT_SECTORS_MAX: u64 = 1 << 32;

/// 512 TiB.
const SECTORS_MAX: u64 = 1 << 40;

/// A key and what is wrong with it.
type Problem = (&'static str, &'static str);

impl Parameters {
    /// Looks at every figure.
    ///
    /// # Errors
    ///
    /// The first that contradicts itself or another, with its key.
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        match self.problem() {
            None => Ok(()),
            Some((place, problem)) => {
                Err(ParameterError::Value { drive: self.name.clone(), place, problem })
            }
        }
    }

    fn problem(&self) -> Option<(String, &'static str)> {
        let in_table = |table: &'static str| {
            move |(key, problem): Problem| (format!("{table}.{key}"), problem)
        };
        self.geometry
            .zones_problem()
            .or_else(|| self.geometry.problem().map(in_table("geometry")))
            .or_else(|| self.mechanics.problem().map(in_table("mechanics")))
            .or_else(|| self.interface.problem().map(in_table("interface")))
            .or_else(|| self.cache.problem().map(in_table("cache")))
    }
}

impl GeometryParameters {
    fn zones_problem(&self) -> Option<(String, &'static str)> {
        if !(1..=256).contains(&self.surfaces) {
            return Some(("geometry.surfaces".to_owned(), "must lie between 1 and 256"));
        }
        if self.spare_range == Some(0) {
            return Some(("geometry.spare_range".to_owned(), "must be at least one cylinder"));
        }
        let mut next_cylinder = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            if let Some(problem) = zone.problem(self, next_cylinder) {
                return Some((format!("geometry.zones[{index}]"), problem));
            }
            next_cylinder = zone.cylinders[1] + 1;
        }
        None
    }

    /// What is wrong with the drive as a whole, its zones being right.
    fn problem(&self) -> Option<Problem> {
        if self.zones.is_empty() {
            return Some(("zones", "needs a zone"));
        }
        (!(1..=self.room().min(SECTORS_MAX)).contains(&self.sectors))
            .then_some(("sectors", "must fit into the zones, and be at most 2^40"))
    }
}

impl ZoneParameters {
    fn problem(&self, geometry: &GeometryParameters, next_cylinder: u32) -> Option<&'static str> {
        let [first, last] = self.cylinders;
        if first < next_cylinder {
            return Some("must begin behind the zone before it");
        }
        if last < first || last >= CYLINDERS_MAX {
            return Some("must end where it begins or behind, below cylinder 1,000,000");
        }
        if !(1..=SECTORS_PER_TRACK_MAX).contains(&self.sectors) {
            return Some("must have between 1 and 100,000 sectors per track");
        }
        let track = u64::from(geometry.surfaces) * u64::from(self.sectors);
        let all = u64::from(last - first + 1);
        if all * track > u64::from(u32::MAX) {
            return Some("must have less than 2^32 sectors; cut it in two");
        }
        let range = geometry.spare_range.map_or(all, u64::from);
        let spares = u64::from(self.spares);
        if spares >= range.min(all) * track
            || spares * (all / range) + u64::from(self.reserved) >= all * track
        {
            return Some("must keep more sectors than it spares and reserves");
        }
        (self.offset >= self.sectors || self.skew.iter().any(|skew| *skew >= self.sectors))
            .then_some("must have an offset and skews below its sectors per track")
    }
}

impl MechanicsParameters {
    fn problem(&self) -> Option<Problem> {
        if !(1..=TIME_NS_MAX).contains(&self.revolution_ns) {
            return Some(("revolution_ns", "must lie between 1 ns and 1 s"));
        }
        if self.head_switch_ns > TIME_NS_MAX {
            return Some(("head_switch_ns", "must not exceed 1 s"));
        }
        if self.write_settle_ns.unsigned_abs() > TIME_NS_MAX {
            return Some(("write_settle_ns", "must lie between -1 s and 1 s"));
        }
        if self.seek_ns.first().is_none_or(|point| point.0 != 1) {
            return Some(("seek_ns", "must begin with a distance of one cylinder"));
        }
        if self.seek_ns.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Some(("seek_ns", "must rise in distance from point to point"));
        }
        let is_long = |point: &(u32, u64)| point.1 > TIME_NS_MAX;
        self.seek_ns.iter().any(is_long).then_some(("seek_ns", "must not exceed 1 s"))
    }
}

impl InterfaceParameters {
    fn problem(&self) -> Option<Problem> {
        for (key, time_ns) in
            [("read_sector_ns", self.read_sector_ns), ("write_sector_ns", self.write_sector_ns)]
        {
            if time_ns > SECTOR_NS_MAX {
                return Some((key, "must not exceed 10 ms for a sector"));
            }
        }
        for (key, overhead) in [
            ("read_hit_ns", self.read_hit_ns),
            ("read_miss_ns", self.read_miss_ns),
            ("write_ns", self.write_ns),
        ] {
            if overhead.after_read.max(overhead.after_write) > TIME_NS_MAX {
                return Some((key, "must not exceed 1 s"));
            }
        }
        for (key, time_ns) in [
            ("transfer_setup_ns", self.transfer_setup_ns),
            ("reselect_ns", self.reselect_ns),
            ("read_completion_ns", self.read_completion_ns),
            ("write_completion_ns", self.write_completion_ns),
            ("least_write_seek_ns", self.least_write_seek_ns),
        ] {
            if time_ns > TIME_NS_MAX {
                return Some((key, "must not exceed 1 s"));
            }
        }
        (self.read_watermark_percent > 100)
            .then_some(("read_watermark_percent", "must not exceed 100"))
    }
}

impl CacheParameters {
    fn problem(&self) -> Option<Problem> {
        if !(1..=SEGMENTS_MAX).contains(&self.segments) {
            return Some(("segments", "must lie between 1 and 65,536"));
        }
        if !(1..=SEGMENT_SECTORS_MAX).contains(&self.segment_sectors) {
            return Some(("segment_sectors", "must lie between 1 and 2^32"));
        }
        if matches!(self.read_ahead, ReadAhead::Sectors(sectors) if sectors > SEGMENT_SECTORS_MAX) {
            return Some(("read_ahead", "must not exceed 2^32 sectors"));
        }
        (self.writes == Writes::ThroughOwnSegment && self.segments == 1)
            .then_some(("writes", "leave no segment for reads"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEETAH: &str = include_str!("../../../drives/cheetah-9lp.toml");

    fn with(old: &str, new: &str) -> String {
        assert!(CHEETAH.contains(old), "{old}");
        Parameters::parse(&CHEETAH.replacen(old, new, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_figure_is_named_with_its_place() {
        let drive = "drive \"Seagate Cheetah 9LP (ST39102LW)\": ";
        let huge = u64::MAX >> 1;
        for (old, new, message) in [
            ("surfaces = 12", "surfaces = 0", "geometry.surfaces: must lie between 1 and 256"),
            ("[848,", "[846,", "geometry.zones[1]: must begin behind the zone before it"),
            (
                "6961], sectors = 167",
                "999999], sectors = 1000",
                "geometry.zones[10]: must have less",
            ),
            ("[1, 831_000]", "[0, 0]", "mechanics.seek_ns: must begin with a distance of one"),
            ("[3, 1_089_000]", "[2, 0]", "mechanics.seek_ns: must rise in distance"),
            ("= 461_000", "= -1_000_000_001", "mechanics.write_settle_ns: must lie between -1 s"),
            ("segments = 3", "segments = 0", "cache.segments: must lie between 1 and 65,536"),
            ("segments = 3", &format!("segments = {huge}"), "cache.segments: must lie between 1"),
            ("\"tracks\"", &format!("{{ sectors = {huge} }}"), "cache.read_ahead: must not exceed"),
            ("= 66_000", &format!("= {huge}"), "interface.read_hit_ns: must not exceed 1 s"),
            ("= 105_000", "= 10_000_001", "interface.read_sector_ns: must not exceed 10 ms"),
        ] {
            let error = with(old, new);
            assert!(error.starts_with(&format!("{drive}{message}")), "{error}");
        }
    }

    #[test]
    fn a_negative_settle_time_is_a_figure_that_a_drive_can_have() {
        let text = CHEETAH.replacen("= 461_000", "= -642_000", 1);
        assert_eq!(Parameters::parse(&text).unwrap().mechanics.write_settle_ns, -642_000);
    }
}
