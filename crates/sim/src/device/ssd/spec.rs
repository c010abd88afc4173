//! A drive in figures, read from TOML.
//!
//! ```toml
//! name = "a small drive"
//! source = "made up for this example"
//!
//! [geometry]
//! capacity_bytes = 1_073_741_824   # what the host sees; the rest is over-provisioning
//! channels = 2
//! dies_per_channel = 2
//! planes_per_die = 2
//! blocks_per_plane = 64
//! pages_per_block = 512
//! page_bytes = 16_384
//! unit_bytes = 4_096               # what the map points at
//!
//! [flash]
//! read_ns = 60_000
//! program_ns = 700_000
//! erase_ns = 5_000_000
//! channel_rate_bytes = 400_000_000
//!
//! [cache]
//! capacity_bytes = 16_777_216
//! is_protected = false             # true: a flush is done at once
//!
//! [interface]
//! rate_bytes = 550_000_000
//! half_duplex = true
//! latency_ns = 20_000
//! command_ns = 10_000
//!
//! [collection]
//! start_free_blocks = 3            # of a die; fewer start garbage collection
//! ```

use serde::Deserialize;

use super::flash::FlashSpec;
use super::geometry::Geometry;
use super::interface::InterfaceSpec;
use super::layout::Precondition;

/// Planes that a die may have.
pub const PLANES_MAX: u32 = 64;

/// Blocks of a die that are free or open at any time, beyond those that start a collection.
pub(super) const OPEN_BLOCKS: u32 = 2;

/// A drive in figures. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    /// What it is called.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// How it is divided.
    pub geometry: Geometry,
    /// How quick the flash is.
    pub flash: FlashSpec,
    /// The write cache.
    pub cache: CacheSpec,
    /// How it talks to the host.
    pub interface: InterfaceSpec,
    /// When it collects garbage.
    pub collection: CollectionSpec,
    /// The state in which it is found; fresh unless stated.
    #[serde(default)]
    pub precondition: Precondition,
    /// Determines the disorder of [`Precondition::Random`].
    #[serde(default)]
    pub seed: u64,
}

/// The write cache in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Data that it holds.
    pub capacity_bytes: u64,
    /// Whether it survives a power cut, so that a flush has nothing to wait for.
    pub is_protected: bool,
}

/// Garbage collection in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionSpec {
    /// A die with fewer free blocks collects; at least 2.
    pub start_free_blocks: u32,
}

/// Why a description of a drive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SsdSpecError {
    /// Not TOML, a key is missing, unknown or of the wrong type; the message shows the line.
    #[error("the drive file cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// The figures do not make a drive.
    #[error("`{place}` {what}")]
    Figures {
        /// The key.
        place: &'static str,
        /// What is wrong, and what would be right.
        what: String,
    },
}

impl SsdSpec {
    /// Reads a drive file.
    ///
    /// # Errors
    /// [`SsdSpecError`] names the line or the key, and what would be right.
    pub fn parse(text: &str) -> Result<Self, SsdSpecError> {
        let spec: Self = toml::from_str(text)?;
        spec.check()?;
        Ok(spec)
    }

    /// The same drive found in another state.
    #[must_use]
    pub fn preconditioned(self, precondition: Precondition) -> Self {
        Self { precondition, ..self }
    }

    /// Checks the figures.
    ///
    /// # Errors
    /// [`SsdSpecError::Figures`] with the first key that cannot be.
    pub fn check(&self) -> Result<(), SsdSpecError> {
        self.check_counts()?;
        let geometry = &self.geometry;
        let units = geometry.capacity_bytes / u64::from(geometry.unit_bytes);
        if geometry.slots() >= u64::from(u32::MAX) {
            return fault("geometry.unit_bytes", "gives more than 2^32 units; make it larger");
        }
        let kept = self.collection.start_free_blocks + OPEN_BLOCKS + 1;
        let usable = u64::from(geometry.blocks_per_plane.saturating_sub(kept))
            * u64::from(geometry.dies())
            * u64::from(geometry.units_per_block());
        if units > usable {
            let room = usable * u64::from(geometry.unit_bytes);
            return fault(
                "geometry.capacity_bytes",
                format!(
                    "leaves garbage collection no room: each die needs {kept} blocks of its own; \
                     at most {room} bytes"
                ),
            );
        }
        if self.cache.capacity_bytes < geometry.program_bytes() {
            let least = geometry.program_bytes();
            return fault(
                "cache.capacity_bytes",
                format!("is less than one program of a die; at least {least}"),
            );
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), SsdSpecError> {
        let (geometry, flash) = (&self.geometry, &self.flash);
        let positive = [
            ("geometry.channels", u64::from(geometry.channels)),
            ("geometry.dies_per_channel", u64::from(geometry.dies_per_channel)),
            ("geometry.planes_per_die", u64::from(geometry.planes_per_die)),
            ("geometry.blocks_per_plane", u64::from(geometry.blocks_per_plane)),
            ("geometry.pages_per_block", u64::from(geometry.pages_per_block)),
            ("geometry.page_bytes", u64::from(geometry.page_bytes)),
            ("geometry.unit_bytes", u64::from(geometry.unit_bytes)),
            ("geometry.capacity_bytes", geometry.capacity_bytes),
            ("flash.channel_rate_bytes", flash.channel_rate_bytes),
            ("interface.rate_bytes", self.interface.rate_bytes),
        ];
        if let Some((place, _)) = positive.into_iter().find(|&(_, count)| count == 0) {
            return fault(place, "is zero; it must be at least 1");
        }
        // No product of counts overflows below these bounds; real drives are far below them.
        let bounded = [
            ("geometry.channels", geometry.channels, 256),
            ("geometry.dies_per_channel", geometry.dies_per_channel, 256),
            ("geometry.planes_per_die", geometry.planes_per_die, PLANES_MAX),
            ("geometry.blocks_per_plane", geometry.blocks_per_plane, 1 << 15),
            ("geometry.pages_per_block", geometry.pages_per_block, 1 << 13),
            ("geometry.page_bytes", geometry.page_bytes, 1 << 20),
        ];
        if let Some((place, _, most)) = bounded.into_iter().find(|&(_, count, most)| count > most) {
            return fault(place, format!("is too large; at most {most}"));
        }
        let times = [
            ("flash.read_ns", flash.read_ns),
            ("flash.program_ns", flash.program_ns),
            ("flash.erase_ns", flash.erase_ns),
            ("interface.latency_ns", self.interface.latency_ns),
            ("interface.command_ns", self.interface.command_ns),
        ];
        if let Some((place, _)) = times.into_iter().find(|&(_, time)| time > 10_000_000_000) {
            return fault(place, "is above ten seconds; is it in nanoseconds?");
        }
        let unit = geometry.unit_bytes;
        if !geometry.page_bytes.is_multiple_of(unit)
            || geometry.page_bytes / unit > 256
            || !geometry.capacity_bytes.is_multiple_of(u64::from(unit))
        {
            return fault(
                "geometry.unit_bytes",
                "must divide `page_bytes` into at most 256 units, and divide `capacity_bytes`",
            );
        }
        if !(2..=1024).contains(&self.collection.start_free_blocks) {
            return fault("collection.start_free_blocks", "must lie within 2 to 1024");
        }
        Ok(())
    }
}

fn fault(place: &'static str, what: impl Into<String>) -> Result<(), SsdSpecError> {
    Err(SsdSpecError::Figures { place, what: what.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> String {
        let lines = include_str!("spec.rs").lines();
        let inside = lines.skip_while(|line| *line != "//! ```toml").skip(1);
        inside
            .take_while(|line| *line != "//! ```")
            .map(|line| line.trim_start_matches("//!").to_owned() + "\n")
            .collect()
    }

    #[test]
    fn the_example_above_is_a_drive() {
        let spec = SsdSpec::parse(&example()).unwrap();
        assert_eq!(spec.geometry.units(), 262_144);
        assert_eq!(spec.precondition, Precondition::Fresh);
    }

    #[test]
    fn what_makes_no_drive_is_refused_with_place_and_remedy() {
        let refusal = |from: &str, to: &str| {
            let text = example().replace(from, to);
            SsdSpec::parse(&text).unwrap_err().to_string()
        };
        let unknown = refusal("read_ns", "raed_ns");
        assert!(unknown.contains("line 15") && unknown.contains("raed_ns"), "{unknown}");
        assert!(
            refusal("channels = 2\n", "channels = 0\n").contains("`geometry.channels` is zero")
        );
        assert!(
            refusal("unit_bytes = 4_096", "unit_bytes = 5_000").contains("divide `page_bytes`")
        );
        assert!(refusal("planes_per_die = 2", "planes_per_die = 65").contains("at most 64"));
        assert!(refusal("1_073_741_824", "8_589_934_592").contains("at most"));
        assert!(refusal("16_777_216", "4_096").contains("at least 32768"));
        assert!(refusal("= 3  ", "= 1  ").contains("within 2 to 1024"));
        assert!(refusal("60_000", "60_000_000_000").contains("nanoseconds"));
    }

    #[test]
    fn hostile_figures_do_not_overflow() {
        let text = example()
            .replace("blocks_per_plane = 64", "blocks_per_plane = 32768")
            .replace("pages_per_block = 512", "pages_per_block = 8192")
            .replace("channels = 2", "channels = 256");
        assert!(SsdSpec::parse(&text).unwrap_err().to_string().contains("2^32"));
        for field in ["channels = 2", "pages_per_block = 512", "page_bytes = 16_384"] {
            let key = field.split(' ').next().unwrap();
            let text = example().replace(field, &format!("{key} = 4294967295"));
            assert!(SsdSpec::parse(&text).is_err(), "{key}");
        }
    }
}
