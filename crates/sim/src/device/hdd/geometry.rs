//! Where a sector lies: logical block number to cylinder, head and angle.
//!
//! A drive numbers its sectors along the track, then head by head, then cylinder by cylinder, from
//! the outer edge inwards. Outer zones have more sectors on a track. The first sector of a track
//! lies *skewed* behind that of the one before, so that the head arrives in time for it:
//!
//! ```text
//!   track 0, head 0    0   1   2   3   4   5   6   7
//!   track 1, head 1   14  15   8   9  10  11  12  13      skew of a head switch: 2 sectors
//!   track 2, head 0   19  20  21  22  23  16  17  18      of a cylinder switch: 3 more
//!                    angle 0 --------------> one revolution
//! ```
//!
//! An angle is the time at which a sector passes under its head, in nanoseconds from the start of
//! the revolution. Sectors that were found bad after manufacture, a few in a million, are not
//! modelled. Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer
//! 27(3), 1994.

use super::parameters::GeometryParameters;

/// A track: where the arm stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// From the outer edge.
    pub cylinder: u32,
    /// The surface.
    pub head: u32,
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its track.
    pub track: Track,
    /// When it begins to pass under the head, from the start of a revolution.
    pub angle_ns: u64,
    /// Sectors per track here.
    pub sectors_per_track: u32,
    /// Sectors with data before it on its track.
    pub before: u32,
    /// Sectors with data from it to the end of its track, itself included.
    pub left: u32,
}

/// The map of a drive.
#[derive(Clone, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    surfaces: u32,
    serpentine: bool,
    revolution_ns: u64,
    sectors: u64,
}

#[derive(Clone, Debug)]
struct Zone {
    first_lbn: u64,
    end_lbn: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    track_skew: u32,
    cylinder_skew: u32,
    reserved: u32,
    offset: u32,
    /// Sectors with data in a range, of all its sectors.
    range_lbns: u32,
    range_sectors: u32,
}

impl Geometry {
    /// The map of these parameters, which were checked when they were read, on platters that turn
    /// once in `revolution_ns`.
    pub fn new(parameters: &GeometryParameters, revolution_ns: u64) -> Self {
        let mut zones = Vec::with_capacity(parameters.zones.len());
        let mut next_lbn = 0;
        for zone in &parameters.zones {
            let cylinders = zone.cylinders[1] - zone.cylinders[0] + 1;
            let range = parameters.spare_range.unwrap_or(cylinders).min(cylinders);
            let range_sectors = range * parameters.surfaces * zone.sectors;
            // Cylinders that do not fill a range have no spares.
            let is_whole = parameters.spare_range.is_none_or(|range| range <= cylinders);
            let spares = if is_whole { zone.spares } else { 0 };
            let end_lbn = next_lbn + zone.room(parameters);
            zones.push(Zone {
                first_lbn: next_lbn,
                end_lbn,
                first_cylinder: zone.cylinders[0],
                sectors_per_track: zone.sectors,
                track_skew: zone.skew[0],
                cylinder_skew: zone.skew[1],
                reserved: zone.reserved,
                offset: zone.offset,
                range_lbns: range_sectors - spares,
                range_sectors,
            });
            next_lbn = end_lbn;
        }
        Self {
            zones,
            surfaces: parameters.surfaces,
            serpentine: parameters.serpentine,
            revolution_ns,
            sectors: parameters.sectors.min(next_lbn),
        }
    }

    /// How many sectors hold data.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where sector `lbn`, below [`Self::sectors`], lies.
    pub fn locate(&self, lbn: u64) -> Place {
        assert!(lbn < self.sectors, "sector {lbn} lies beyond the end of the drive");
        let zone = &self.zones[self.zones.partition_point(|zone| zone.end_lbn <= lbn)];
        let within = u32::try_from(lbn - zone.first_lbn).expect("a zone's sectors were counted");
        let within = within + zone.reserved;
        let (range, in_range) = (within / zone.range_lbns, within % zone.range_lbns);
        let physical = range * zone.range_sectors + in_range;
        let (track, sector) = divided(physical, zone.sectors_per_track);
        let (cylinder, order) = divided(track, self.surfaces);
        let backwards = self.serpentine && cylinder % 2 == 1;
        let end = zone.end_lbn.min(self.sectors);
        let lbns_left = u64::from(zone.range_lbns - in_range).min(end - lbn);
        let left = u64::from(zone.sectors_per_track - sector).min(lbns_left);
        Place {
            track: Track {
                cylinder: zone.first_cylinder + cylinder,
                head: if backwards { self.surfaces - 1 - order } else { order },
            },
            angle_ns: self.angle_ns(zone, track - cylinder, cylinder, sector),
            sectors_per_track: zone.sectors_per_track,
            before: sector.min(within - zone.reserved),
            left: u32::try_from(left).expect("no more than a track"),
        }
    }

    fn angle_ns(&self, zone: &Zone, switches: u32, cylinders: u32, sector: u32) -> u64 {
        let skew = u64::from(zone.track_skew) * u64::from(switches)
            + u64::from(zone.cylinder_skew) * u64::from(cylinders);
        let sectors = u64::from(zone.sectors_per_track);
        let from_start = (skew + u64::from(zone.offset) + u64::from(sector)) % sectors;
        from_start * self.revolution_ns / sectors
    }
}

fn divided(number: u32, by: u32) -> (u32, u32) {
    (number / by, number % by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::hdd::parameters::{BUILT_IN, Parameters, ZoneParameters};

    fn small(serpentine: bool, spare_range: Option<u32>, spares: u32) -> Geometry {
        let zone = ZoneParameters {
            cylinders: [0, 3],
            sectors: 8,
            skew: [2, 3],
            spares,
            reserved: 0,
            offset: 0,
        };
        let inner = ZoneParameters { cylinders: [5, 5], sectors: 4, ..zone.clone() };
        let zones = vec![zone, inner];
        let sectors = u64::MAX;
        let parameters =
            GeometryParameters { sectors, surfaces: 2, serpentine, spare_range, zones };
        Geometry::new(&parameters, 800)
    }

    #[test]
    fn the_drawing_of_the_module_is_right() {
        let geometry = small(false, None, 0);
        let at = |lbn| (geometry.locate(lbn).track.head, geometry.locate(lbn).angle_ns / 100);
        assert_eq!(
            [at(0), at(7), at(8), at(14), at(16), at(19)],
            [(0, 0), (0, 7), (1, 2), (1, 0), (0, 5), (0, 0)]
        );
        assert_eq!(geometry.locate(64).track, Track { cylinder: 5, head: 0 });
        assert_eq!(geometry.sectors(), 4 * 2 * 8 + 2 * 4);
    }

    #[test]
    fn a_serpentine_drive_stays_on_its_surface_between_cylinders() {
        let geometry = small(true, None, 0);
        let heads: Vec<_> = (0..4).map(|track| geometry.locate(track * 8).track.head).collect();
        assert_eq!(heads, [0, 1, 1, 0]);
    }

    #[test]
    fn spares_are_left_out_at_the_end_of_their_range() {
        let geometry = small(false, Some(1), 3);
        assert_eq!(geometry.sectors(), 4 * (2 * 8 - 3) + (2 * 4 - 3));
        let last = geometry.locate(12);
        assert_eq!((last.track, last.before, last.left), (Track { cylinder: 0, head: 1 }, 4, 1));
        assert_eq!(geometry.locate(13).track, Track { cylinder: 1, head: 0 });
    }

    #[test]
    fn a_zone_that_does_not_fill_a_range_of_spares_has_none() {
        let geometry = small(false, Some(9), 3);
        assert_eq!(geometry.sectors(), 4 * 2 * 8 + 2 * 4);
        assert_eq!(geometry.locate(63).track, Track { cylinder: 3, head: 1 });
        assert_eq!(geometry.locate(71).track, Track { cylinder: 5, head: 1 });
    }

    #[test]
    fn every_sector_has_its_own_place_and_knows_its_track() {
        for geometry in [small(false, None, 3), small(true, Some(2), 5)] {
            let places: Vec<_> = (0..geometry.sectors()).map(|lbn| geometry.locate(lbn)).collect();
            for (index, place) in places.iter().enumerate() {
                let same =
                    |other: &&Place| (other.track, other.angle_ns) == (place.track, place.angle_ns);
                assert_eq!(places.iter().filter(same).count(), 1, "{index}: {place:?}");
                let first = index - place.before as usize;
                let end = index + place.left as usize;
                assert!(places[first..end].iter().all(|other| other.track == place.track));
                assert!(places.get(end).is_none_or(|other| other.track != place.track));
                assert!(first == 0 || places[first - 1].track != place.track);
            }
        }
    }

    #[test]
    fn the_built_in_drives_hold_what_their_makers_say() {
        let sectors = BUILT_IN.map(|name| {
            let parameters = Parameters::built_in(name).unwrap();
            Geometry::new(&parameters.geometry, parameters.mechanics.revolution_ns).sectors()
        });
        assert_eq!(sectors, [17_783_240, 17_938_986, 4_110_000, 2_054_864]);
    }
}
