//! `evenkeel store create`: makes drives into a store, unless something is on them.

use std::path::{Path, PathBuf};

use evenkeel_io::store::{EmulatedZoning, FileDrive, OpenDrive, fresh_uuid};
use evenkeel_store::{
    BLOCK_BYTES, CreateOptions, Drive, DriveShape, Uuid, Zoning, create, possible_bytes,
};
use serde_json::json;

use super::drives::{DriveArgs, Opened, zones_of};
use super::signature::what_is_on;
use crate::exit::Exit;
use crate::units::{parse_size, print_size};
use crate::{human, terminal};

/// The smallest and the largest segment that is chosen by default.
const SEGMENT_BYTES: (u64, u64) = (1 << 20, 64 << 20);

/// No segment is longer; of a longer zone the rest stays empty.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Emulated drives have no more zones: real ones of today have some 100,000.
const ZONES_MAX: u32 = 1_000_000;

/// Segments that a drive gets by default at least.
const SEGMENTS_WANTED: u64 = 256;

/// Arguments of `evenkeel store create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store create a.img b.img c.img --size '10 GiB'
  evenkeel store create /dev/sdb /dev/sdc --copies 2 --volume '500 GiB' --volume '200 GiB'
  evenkeel store create old.img --copies 1 --yes
  evenkeel store create a.img b.img --size '10 GiB' --zones '64 MiB'

On drives with zones (host-managed SMR, ZNS) each segment is a zone.
If there is anything on a drive, the command says what, and does nothing without --yes.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// Make drives that are not there as sparse files of this size.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Divide the files that are made into zones of this size, as shingled disks are: emulated.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "size")]
    zones: Option<u64>,
    /// Copies of everything, on different drives: 1 or 2 [default: 2, or 1 on a single drive].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    copies: Option<u8>,
    /// The size of a volume; again for another one [default: one volume of all that is possible].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    volume: Vec<u64>,
    /// The size of a segment, 64 KiB to 1 GiB [default: 64 MiB, less on drives below 16 GiB; a
    /// zone, if there are zones].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    segment: Option<u64>,
    /// Percent of the room that volumes do not get: the more, the less cleaning.
    #[arg(long, value_name = "PERCENT", default_value_t = 20,
          value_parser = clap::value_parser!(u8).range(10..=90))]
    over_provisioning: u8,
    /// Destroy what is on the drives.
    #[arg(long)]
    yes: bool,
    /// Print what was made as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let paths = &args.drives.drives;
    let is_new = |path: &&PathBuf| args.size.is_some() && !path.exists();
    let made: Vec<&PathBuf> = paths.iter().filter(is_new).collect();
    let outcome = make(args).await;
    if outcome.is_err() {
        // Files that were made for a store that could not be made are of no use.
        for path in made {
            drop(std::fs::remove_file(path));
        }
    }
    outcome
}

async fn make(args: &Args) -> anyhow::Result<Exit> {
    let create_zones = match (args.zones, args.size) {
        (Some(zone_bytes), Some(size_bytes)) => Some(division(args, zone_bytes, size_bytes)?),
        _ => None,
    };
    let how = OpenDrive { create_bytes: args.size, create_zones, ..OpenDrive::default() };
    let opened = Opened::open(&args.drives.drives, &how).await?;
    let drives = opened.paths.iter().zip(&opened.drives);
    let drives: Vec<(&Path, &FileDrive)> =
        drives.map(|(path, drive)| (path.as_path(), &**drive)).collect();
    refuse_data(&drives, args.yes).await?;
    let shapes: Vec<DriveShape> = drives.iter().map(|(_, drive)| DriveShape::of(*drive)).collect();
    let mut options = options(args, &shapes)?;
    let possible = possible_bytes(&shapes, &options).map_err(|error| opened.unmakeable(&error))?;
    if args.volume.is_empty() {
        options.volume_bytes = vec![possible];
    }
    if possible == 0 {
        let message = "the drives are too small for a store; give larger ones, or --segment 64KiB";
        return Err(Exit::Usage.because(message));
    }
    create(&opened.drives, &options).await.map_err(|error| opened.unmakeable(&error))?;
    tell(args, &options, &drives)?;
    Ok(Exit::Success)
}

/// How many conventional zones emulated drives begin with: as many as give volumes most room.
fn division(args: &Args, zone_bytes: u64, size_bytes: u64) -> anyhow::Result<EmulatedZoning> {
    if !zone_bytes.is_multiple_of(BLOCK_BYTES as u64) || zone_bytes == 0 {
        return Err(
            Exit::Usage.because("--zones: a zone has a multiple of 4 KiB; choose such a size")
        );
    }
    let count = size_bytes / zone_bytes;
    if count == 0 {
        let [zone, drive] = [zone_bytes, size_bytes].map(print_size);
        let what = format!("--zones: a zone of {zone} does not fit a drive of {drive}");
        return Err(Exit::Usage.because(format!("{what}; choose smaller zones")));
    }
    let count = u32::try_from(count).ok().filter(|count| *count <= ZONES_MAX).ok_or_else(|| {
        let what = format!("--zones: {count} zones; a drive has {ZONES_MAX} at most");
        Exit::Usage.because(format!("{what}: choose larger zones"))
    })?;
    let shape = |conventional_zones| {
        let (capacity_bytes, open_zones_max) = (zone_bytes, None);
        let zoning = Zoning { zone_bytes, capacity_bytes, conventional_zones, open_zones_max };
        let size_bytes = size_bytes - size_bytes % zone_bytes;
        vec![DriveShape { size_bytes, zoning: Some(zoning) }; args.drives.drives.len()]
    };
    let options = options(args, &shape(1))?;
    let mut best = (0, 1);
    for zones in 1..=count {
        let possible = possible_bytes(&shape(zones), &options).unwrap_or(0);
        if possible < best.0 {
            break;
        }
        best = if possible > best.0 { (possible, zones) } else { best };
    }
    Ok(EmulatedZoning { zone_bytes, conventional_zones: best.1 })
}

/// Refuses drives that hold something, unless that may be destroyed.
pub(super) async fn refuse_data(drives: &[(&Path, &FileDrive)], yes: bool) -> anyhow::Result<()> {
    let mut held = Vec::new();
    for (path, drive) in drives {
        let found = what_is_on(drive).await;
        let found = found.map_err(|error| Exit::Runtime.because(named(path, error)))?;
        held.extend(found.map(|what| named(path, format!("holds {what}"))));
    }
    if held.is_empty() || yes {
        return Ok(());
    }
    let held = held.join("\n");
    Err(Exit::Invalid.because(format!("{held}\nnothing was written; --yes destroys what is there")))
}

fn named(path: &Path, what: impl std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

fn options(args: &Args, shapes: &[DriveShape]) -> anyhow::Result<CreateOptions> {
    let smallest = shapes.iter().map(|shape| shape.size_bytes).min().unwrap_or(0);
    let zones = shapes.iter().filter_map(|shape| shape.zoning);
    let of_zones = zones.map(|zoning| zoning.capacity_bytes.min(SEGMENT_BYTES_MAX)).min();
    let drives: Result<Vec<Uuid>, _> = shapes.iter().map(|_| fresh_uuid()).collect();
    Ok(CreateOptions {
        store: fresh_uuid()?,
        drives: drives?,
        copies: args.copies.unwrap_or(if shapes.len() > 1 { 2 } else { 1 }),
        segment_bytes: args.segment.or(of_zones).unwrap_or_else(|| segment_bytes(smallest)),
        over_provisioning_percent: args.over_provisioning,
        volume_bytes: if args.volume.is_empty() { vec![0] } else { args.volume.clone() },
    })
}

/// A power of two that gives the smallest drive enough segments.
fn segment_bytes(smallest_bytes: u64) -> u64 {
    let (least, most) = SEGMENT_BYTES;
    let fitting = (smallest_bytes / SEGMENTS_WANTED).max(1);
    (1 << fitting.ilog2()).clamp(least, most)
}

fn tell(
    args: &Args,
    options: &CreateOptions,
    drives: &[(&Path, &FileDrive)],
) -> anyhow::Result<()> {
    if args.json {
        let drives: Vec<_> = drives
            .iter()
            .zip(&options.drives)
            .map(|((path, drive), uuid)| {
                json!({
                    "path": path,
                    "uuid": uuid.to_string(),
                    "size_bytes": drive.geometry().size_bytes,
                    "zone_bytes": drive.zoning().map(|zoning| zoning.zone_bytes),
                    "zones_emulated": drive.has_emulated_zones(),
                })
            })
            .collect();
        return terminal::json(&json!({
            "store": options.store.to_string(),
            "copies": options.copies,
            "segment_bytes": options.segment_bytes,
            "volumes": options.volume_bytes.iter().map(|bytes| json!({ "size_bytes": bytes }))
                .collect::<Vec<_>>(),
            "drives": drives,
        }));
    }
    let volumes: Vec<String> =
        options.volume_bytes.iter().map(|&bytes| human::size(bytes as f64)).collect();
    let copies = if options.copies == 1 { "1 copy" } else { "2 copies" };
    let zones: String = drives
        .iter()
        .filter_map(|(path, drive)| Some(named(path, zones_of(drive)?) + "\n"))
        .collect();
    Ok(terminal::data(&format!(
        "store {}: {}, {copies} of everything, segments of {}, volumes of {}\n{zones}",
        options.store,
        human::counted(options.drives.len(), "drive"),
        print_size(options.segment_bytes),
        volumes.join(", "),
    ))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_suit_the_smallest_drive() {
        assert_eq!(segment_bytes(0), 1 << 20);
        assert_eq!(segment_bytes(1 << 30), 4 << 20);
        assert_eq!(segment_bytes((10 << 30) + 5), 32 << 20);
        assert_eq!(segment_bytes(1 << 44), 64 << 20);
    }
}
