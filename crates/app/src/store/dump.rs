//! `evenkeel store dump`: the structures on drives as they lie there, a line for each.

use std::io::{BufWriter, Write};

use evenkeel_store::dump::{DumpOptions, Entry, dump};
use evenkeel_store::format::checkpoint::{Item, Phase};
use evenkeel_store::format::record::{Change, Extent, Kind, RecordHeader};
use evenkeel_store::format::superblock::{DriveState, Superblock};
use evenkeel_store::format::volume::VolumeChange;
use evenkeel_store::units::{BLOCK_BYTES_U64, Copies};
use serde_json::{Value, json};

use super::drives::{DriveArgs, Opened};
use crate::exit::Exit;
use crate::volumes::kind_name;

/// Arguments of `evenkeel store dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store dump a.img
  evenkeel store dump a.img b.img --records
  evenkeel store dump a.img --leaves --json | grep '\"leaf\"'

Works on any file or device, and says what is no structure of a store. Data is not shown. Each line
begins with the kind of the structure; docs/store-format.md says what its fields mean.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    /// Show the map as well: where every block of every volume is.
    #[arg(long)]
    leaves: bool,
    /// Show all headers of segments and records as well.
    #[arg(long)]
    records: bool,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let opened = Opened::to_read(&args.drives.drives).await?;
    let options = DumpOptions { leaves: args.leaves, records: args.records };
    let mut output = BufWriter::new(std::io::stdout().lock());
    for (path, drive) in opened.paths.iter().zip(&opened.drives) {
        let mut written = Ok(());
        let dumped = dump(&**drive, options, |entry| {
            if written.is_ok() {
                let mut fields = describe(&entry);
                fields["path"] = json!(path);
                written = line(&mut output, &fields, args.json);
            }
        });
        let gone = |error| Exit::Runtime.because(format!("{}: {error}", path.display()));
        dumped.await.map_err(gone)?;
        written?;
    }
    output.flush()?;
    Ok(Exit::Success)
}

/// As JSON, or as the kind and then `key=value`.
fn line(output: &mut impl Write, fields: &Value, is_json: bool) -> std::io::Result<()> {
    if is_json {
        return writeln!(output, "{fields}");
    }
    let fields = fields.as_object().expect("describe gives objects");
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    write!(output, "{kind}")?;
    for (key, value) in fields.iter().filter(|(key, _)| *key != "kind") {
        match value {
            Value::String(text) if !text.contains(' ') => write!(output, " {key}={text}")?,
            value => write!(output, " {key}={value}")?,
        }
    }
    writeln!(output)
}

fn describe(entry: &Entry) -> Value {
    match entry {
        Entry::Superblock { offset_bytes, found: Ok(found) } => superblock(*offset_bytes, found),
        Entry::Superblock { offset_bytes, found: Err(defect) } => json!({
            "kind": "superblock", "offset_bytes": offset_bytes, "defect": defect.to_string(),
        }),
        Entry::Zoning(zoning) => json!({
            "kind": "zones",
            "zone_bytes": zoning.zone_bytes,
            "capacity_bytes": zoning.capacity_bytes,
            "conventional_zones": zoning.conventional_zones,
            "open_zones_max": zoning.open_zones_max,
        }),
        Entry::Zone { slot, written_bytes } => json!({
            "kind": "zone",
            "slot": slot,
            "usable": written_bytes.is_some(),
            "written_bytes": written_bytes,
        }),
        Entry::Chunk { offset_bytes, index, found } => json!({
            "kind": "chunk",
            "offset_bytes": offset_bytes,
            "index": index,
            "items": found.as_ref().ok(),
            "defect": found.as_ref().err().map(ToString::to_string),
        }),
        Entry::Item(item) => describe_item(item),
        Entry::Segment { slot, header } => json!({
            "kind": "segment-header",
            "slot": slot,
            "store": header.store.to_string(),
            "segment": header.segment.0,
            "generation": header.generation,
            "epoch": header.mount.epoch,
            "nonce": header.mount.nonce.to_string(),
            "copies": copies(header.copies),
        }),
        Entry::Record { slot, block, header } => record(*slot, *block, header),
        Entry::Unreadable { offset_bytes } => {
            json!({ "kind": "unreadable", "offset_bytes": offset_bytes })
        }
    }
}

fn superblock(offset_bytes: u64, found: &Superblock) -> Value {
    let drives = found.drives.iter().map(|row| {
        let since = match row.state {
            DriveState::InSync => None,
            DriveState::Stale { since } => Some(since.0),
        };
        json!({
            "uuid": row.uuid.to_string(),
            "slots": row.slots,
            "stale_since": since,
            "zone_bytes": row.zones.map(|zones| u64::from(zones.zone_blocks) * BLOCK_BYTES_U64),
            "conventional_zones": row.zones.map(|zones| zones.conventional_zones),
        })
    });
    json!({
        "kind": "superblock",
        "offset_bytes": offset_bytes,
        "store": found.store.to_string(),
        "drive": found.drive.0,
        "sequence": found.sequence,
        "epoch": found.mount.epoch,
        "nonce": found.mount.nonce.to_string(),
        "copies": found.copies,
        "segment_bytes": u64::from(found.segment_blocks) * BLOCK_BYTES_U64,
        "area_bytes": found.area_blocks * BLOCK_BYTES_U64,
        "checkpoint": found.checkpoint.number,
        "checkpoint_area": found.checkpoint.area,
        "checkpoint_chunks": found.checkpoint.chunks,
        "checkpoint_bytes": found.checkpoint.blocks * BLOCK_BYTES_U64,
        "checkpoint_copies": found.checkpoint.copies,
        "unix_time_s": found.unix_time_s,
        "drives": drives.collect::<Vec<_>>(),
    })
}

fn describe_item(item: &Item) -> Value {
    match item {
        Item::Root(root) => json!({
            "kind": "root",
            "lsn": root.lsn.0,
            "moved_sequence": root.moved_sequence,
            "next_generation": root.next_generation,
            "segments": root.segments,
            "volumes": root.volumes,
            "next_volume": root.next_volume,
        }),
        Item::Segment(row) => json!({
            "kind": "segment",
            "segment": row.segment.0,
            "generation": row.generation,
            "phase": if row.phase == Phase::Sealed { "sealed" } else { "replay" },
            "records": of_whom(row.kind),
            "copies": copies(row.copies),
            "born": row.born.0,
        }),
        Item::Volume(row) => json!({
            "kind": "volume",
            "volume": row.volume.0,
            "of": kind_name(row.kind),
            "family": row.family.0,
            "origin": row.origin.map(|origin| origin.0),
            "size_bytes": row.blocks * BLOCK_BYTES_U64,
            "since": row.since.0,
        }),
        Item::Share(row) => json!({
            "kind": "share",
            "volume": row.volume.0,
            "source": row.source.0,
            "first_leaf": row.first,
            "leaves": row.leaves,
        }),
        Item::Leaf(row) => json!({
            "kind": "leaf",
            "volume": row.volume.0,
            "index": row.index,
            "runs": row.runs.iter()
                .map(|run| json!([run.blocks, run.address.map(|address| address.0)]))
                .collect::<Vec<_>>(),
        }),
        Item::Increment(head) => json!({
            "kind": "increment",
            "lsn": head.lsn.0,
            "moved_sequence": head.moved_sequence,
            "next_generation": head.next_generation,
            "records": head.records,
            "freed": head.freed,
            "segments": head.segments,
        }),
        Item::Record(row) => json!({
            "kind": "checkpointed-record",
            "of": of_whom(row.kind),
            "data": row.data.0,
            "extents": extents(&row.extents),
        }),
        Item::Freed(segment) => json!({ "kind": "freed", "segment": segment.0 }),
    }
}

fn extents(extents: &[Extent]) -> Value {
    let described = extents.iter().map(|extent| {
        let (change, from) = match extent.change {
            Change::Written => ("written", None),
            Change::Unmapped => ("unmapped", None),
            Change::Moved { from } => ("moved", Some(from.0)),
            Change::Volume(change) => (volume_change_name(change), None),
        };
        json!({
            "volume": extent.volume.0,
            "block": extent.block,
            "blocks": extent.blocks,
            "change": change,
            "from": from,
        })
    });
    described.collect()
}

fn volume_change_name(change: VolumeChange) -> &'static str {
    match change {
        VolumeChange::Create { .. } => "created",
        VolumeChange::Resize { .. } => "resized",
        VolumeChange::Delete => "deleted",
        VolumeChange::Snapshot { .. } => "made_snapshot",
        VolumeChange::Clone { .. } => "made_clone",
        VolumeChange::RollBack { .. } => "rolled_back",
    }
}

fn record(slot: u32, block: u64, header: &RecordHeader) -> Value {
    json!({
        "kind": "record",
        "slot": slot,
        "block": block,
        "of": of_whom(header.kind),
        "sequence": header.sequence,
        "durable": header.durable.0,
        "moved_durable": header.moved_durable,
        "epoch": header.identity.mount.epoch,
        "nonce": header.identity.mount.nonce.to_string(),
        "generation": header.identity.generation,
        "address": header.identity.address.0,
        "data_blocks": header.checksums.len(),
        "extents": extents(&header.extents),
    })
}

fn of_whom(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "clients",
        Kind::Moved => "the-cleaner",
    }
}

/// Each as drive and slot.
fn copies(copies: Copies) -> Value {
    copies.iter().map(|copy| json!(copy.map(|slot| [u32::from(slot.drive.0), slot.slot]))).collect()
}
