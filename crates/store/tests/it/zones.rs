//! Which drives with zones a store can be made on, and how large its volumes can be there.

use evenkeel_store::{
    CreateOptions, DriveShape, FormatError, Uuid, ZoneProblem, Zoning, possible_bytes,
};

const ZONE: u64 = 256 << 20;

/// A shingled disk of 1,000 zones.
const DISK: Zoning = Zoning {
    zone_bytes: ZONE,
    capacity_bytes: ZONE,
    conventional_zones: 10,
    open_zones_max: Some(128),
};

fn options(volume_bytes: u64) -> CreateOptions {
    CreateOptions {
        store: Uuid([1; 16]),
        drives: vec![Uuid([2; 16])],
        copies: 1,
        segment_bytes: ZONE,
        over_provisioning_percent: 15,
        volume_bytes: vec![volume_bytes],
    }
}

fn possible(zoning: Zoning) -> Result<u64, FormatError> {
    let shape = DriveShape { size_bytes: 1000 * ZONE, zoning: Some(zoning) };
    possible_bytes(&[shape], &options(0))
}

fn problem(zoning: Zoning) -> ZoneProblem {
    match possible(zoning) {
        Err(FormatError::Zones(_, problem)) => problem,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn a_disk_with_one_conventional_zone_in_a_hundred_holds_almost_what_a_plain_one_does() {
    let zoned = possible(DISK).unwrap();
    let plain = possible_bytes(&[1000 * ZONE], &options(0)).unwrap();
    assert!(zoned * 100 / plain >= 97, "{zoned} of {plain}");
}

#[test]
fn what_checkpoints_can_hold_bounds_the_volumes() {
    let few = possible(Zoning { conventional_zones: 2, ..DISK }).unwrap();
    let many = possible(Zoning { conventional_zones: 4, ..DISK }).unwrap();
    assert!(few > 0 && (1.9..2.1).contains(&(many as f64 / few as f64)), "{few} {many}");
}

#[test]
fn zones_that_suit_no_store_are_refused_with_the_reason() {
    let none = problem(Zoning { conventional_zones: 0, ..DISK });
    assert!(matches!(none, ZoneProblem::Conventional { have_bytes: 0, needed_bytes: 1.. }));
    let capacity_bytes = ZONE - 4096;
    assert_eq!(
        problem(Zoning { capacity_bytes, ..DISK }),
        ZoneProblem::Capacity { capacity_bytes }
    );
    let open = problem(Zoning { open_zones_max: Some(3), ..DISK });
    assert_eq!(open, ZoneProblem::Open { zones: 3 });
    assert!(possible(Zoning { open_zones_max: None, ..DISK }).is_ok());
    assert_eq!(problem(Zoning { zone_bytes: ZONE + 1, ..DISK }), ZoneProblem::Odd);
}
