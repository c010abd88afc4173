//! What is to be known of a drive: a text in TOML, and four drives built in. `super::check` says
//! what figures a drive can have.
//!
//! Every figure of a built-in drive was measured on the real one; its file names the source. Times
//! are in nanoseconds, lengths in sectors of 512 bytes.

use serde::Deserialize;

/// The bytes of a sector.
pub const SECTOR_BYTES: u64 = 512;

/// The drives that are built in, with the names that [`Parameters::built_in`] knows.
pub const BUILT_IN: [&str; 4] = ["cheetah-9lp", "atlas-10k", "barracuda", "hp-c2247a"];

/// A drive's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// What people call the drive.
    pub name: String,
    /// Where its sectors lie.
    pub geometry: GeometryParameters,
    /// How its arm and its platters move.
    pub mechanics: MechanicsParameters,
    /// What its electronics and its bus take.
    pub interface: InterfaceParameters,
    /// What it keeps.
    pub cache: CacheParameters,
}

/// Where the sectors of a drive lie.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometryParameters {
    /// Sectors that hosts can use; the zones may have room for more.
    pub sectors: u64,
    /// Recording surfaces, each with a head.
    pub surfaces: u32,
    /// Whether odd cylinders of a zone count their heads backwards, so that the step to the next
    /// cylinder stays on its surface.
    pub serpentine: bool,
    /// Spares lie at the end of every so many cylinders; without it, at the end of the zone.
    pub spare_range: Option<u32>,
    /// From the outermost inwards.
    pub zones: Vec<ZoneParameters>,
}

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneParameters {
    /// The first cylinder and the last.
    pub cylinders: [u32; 2],
    /// Sectors per track.
    pub sectors: u32,
    /// By how many sectors the first sector of a track lies behind that of the track before: after
    /// a switch of heads, and after a switch of cylinders.
    pub skew: [u32; 2],
    /// Sectors at the end of the zone, or of each range of it, that hold no data.
    pub spares: u32,
    /// Sectors at the front of the zone that hold no data.
    #[serde(default)]
    pub reserved: u32,
    /// The angle of the zone's first sector, in its sectors.
    #[serde(default)]
    pub offset: u32,
}

/// How the arm and the platters of a drive move.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsParameters {
    /// One revolution.
    pub revolution_ns: u64,
    /// The switch to another head of the same cylinder.
    pub head_switch_ns: u64,
    /// What a write waits longer than a read after the arm or the head changed. Negative where
    /// writes were measured to start sooner; no movement takes less than nothing.
    pub write_settle_ns: i64,
    /// The measured seek curve: cylinders and time, by rising distance from one cylinder on.
    pub seek_ns: Vec<(u32, u64)>,
}

/// A time that depends on the request before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// After a read.
    pub after_read: u64,
    /// After a write.
    pub after_write: u64,
}

/// What the electronics and the bus of a drive take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceParameters {
    /// The bus, for each sector that goes to the host.
    pub read_sector_ns: u64,
    /// The bus, for each sector that comes from the host.
    pub write_sector_ns: u64,
    /// From the arrival of a read to its transfer, when the cache holds its first sector.
    pub read_hit_ns: Overhead,
    /// From the arrival of a read to the first movement of the arm.
    pub read_miss_ns: Overhead,
    /// From the arrival of a write to its transfer and to the first movement of the arm.
    pub write_ns: Overhead,
    /// From having the bus to the first sector of a transfer.
    #[serde(default)]
    pub transfer_setup_ns: u64,
    /// Regaining the bus for a request that let it go for the sake of the platters.
    #[serde(default)]
    pub reselect_ns: u64,
    /// From the last sector of a read to the word that it is done.
    #[serde(default)]
    pub read_completion_ns: u64,
    /// The same of a write.
    #[serde(default)]
    pub write_completion_ns: u64,
    /// The least time that a write takes for seek and settle.
    #[serde(default)]
    pub least_write_seek_ns: u64,
    /// How many sectors of a write, or all if it has fewer, are in the buffer before the first is
    /// written to the platter.
    #[serde(default)]
    pub write_after_sectors: u64,
    /// How much of a read is in the buffer before it takes the bus, in percent of the request; one
    /// sector at least.
    #[serde(default)]
    pub read_watermark_percent: u32,
}

/// What a drive's buffer does.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// Segments, each with a run of consecutive sectors.
    pub segments: usize,
    /// Sectors in a segment.
    pub segment_sectors: u64,
    /// When a write is done.
    pub writes: Writes,
    /// How far a read runs on.
    pub read_ahead: ReadAhead,
    /// Whether a read that the buffer serves whole makes the drive read on.
    #[serde(default)]
    pub read_ahead_on_hit: bool,
    /// Whether a read also keeps what passes under the head before the first sector wanted.
    pub whole_track: bool,
}

/// When a write is done, and where its sectors lie until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Once it lies in the buffer.
    Back,
    /// Once it lies on the platter.
    Through,
    /// The same; writes have one segment of the buffer for themselves, which reads do not see.
    ThroughOwnSegment,
}

/// How far a drive reads on after a request, while nobody else wants the arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// To the end of the track, and of the next one when the reading already crossed a track.
    Tracks,
    /// So many sectors.
    Sectors(u64),
}

/// Why a text is no drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Not TOML, or not these keys.
    #[error("{0}")]
    Syntax(String),
    /// No such drive is built in.
    #[error("no drive \"{0}\" is built in; there are {known}", known = BUILT_IN.join(", "))]
    Unknown(String),
    /// A figure that no drive can have.
    #[error("drive \"{drive}\": {place}: {problem}")]
    Value {
        /// The drive's name.
        drive: String,
        /// The key.
        place: String,
        /// What is wrong, and what would be right.
        problem: &'static str,
    },
}

impl Parameters {
    /// Reads a drive from its text.
    ///
    /// # Errors
    ///
    /// A text that is not TOML, lacks a key or has one too many, with the line; or a figure that
    /// contradicts itself, with its key.
    pub fn parse(text: &str) -> Result<Self, ParameterError> {
        let parameters: Self =
            toml::from_str(text).map_err(|error| ParameterError::Syntax(error.to_string()))?;
        parameters.check()?;
        Ok(parameters)
    }

    /// A drive that is built in; [`BUILT_IN`] lists the names.
    ///
    /// # Errors
    ///
    /// Another name.
    pub fn built_in(name: &str) -> Result<Self, ParameterError> {
        let text = match name {
            "cheetah-9lp" => include_str!("../../../drives/cheetah-9lp.toml"),
            "atlas-10k" => include_str!("../../../drives/atlas-10k.toml"),
            "barracuda" => include_str!("../../../drives/barracuda.toml"),
            "hp-c2247a" => include_str!("../../../drives/hp-c2247a.toml"),
            _ => return Err(ParameterError::Unknown(name.to_owned())),
        };
        Self::parse(text)
    }
}

impl GeometryParameters {
    /// How many sectors the zones have room for, spares left out.
    pub(super) fn room(&self) -> u64 {
        self.zones.iter().map(|zone| zone.room(self)).sum()
    }
}

impl ZoneParameters {
    /// How many sectors of the zone can hold data. Cylinders that do not fill a range of spares
    /// have none.
    pub(super) fn room(&self, geometry: &GeometryParameters) -> u64 {
        let cylinders = self.cylinders[1] - self.cylinders[0] + 1;
        let ranges = geometry.spare_range.map_or(1, |range| cylinders / range);
        let all = u64::from(cylinders) * u64::from(geometry.surfaces * self.sectors);
        all - u64::from(ranges) * u64::from(self.spares) - u64::from(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_drive_reads() {
        for name in BUILT_IN {
            let parameters = Parameters::built_in(name).unwrap();
            assert!(!parameters.name.is_empty());
        }
    }

    #[test]
    fn an_unknown_drive_is_told_the_known_ones() {
        let error = Parameters::built_in("cheetah").unwrap_err().to_string();
        assert_eq!(
            error,
            "no drive \"cheetah\" is built in; there are cheetah-9lp, atlas-10k, barracuda, \
             hp-c2247a"
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let text = include_str!("../../../drives/cheetah-9lp.toml");
        let text = text.replacen("head_switch_ns", "head_swich_ns", 1);
        let error = Parameters::parse(&text).unwrap_err().to_string();
        assert!(error.contains("line ") && error.contains("head_swich_ns"), "{error}");
    }
}
