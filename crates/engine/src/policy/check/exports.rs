//! Exports: each with a backend that has room for it, and nobody writing where another writes.

use std::ops::Range;

use super::{Findings, Place, check_names, known};
use crate::policy::{Export, FIRST_VOLUME, Policy, Source};

/// Positions in a file are signed 64-bit numbers.
const LARGEST_POSITION: u64 = i64::MAX as u64;
/// Bytes of the longest export name of the protocol.
const NAME_BYTES: usize = 4096;
/// What direct I/O aligns to on every common device.
const DIRECT_ALIGNMENT_BYTES: u64 = 4096;

pub(super) fn check(policy: &Policy, found: &mut Findings) {
    let place = |index, field| Place::Export { index, field };
    let passes_on = |source: &Source| matches!(source, Source::Upstream(up) if up.passthrough);
    if policy.exports.is_empty() && !policy.backends.iter().any(|one| passes_on(&one.source)) {
        found.error(
            Place::Policy { field: "exports" },
            "no export, and no upstream that passes its own through: clients would see nothing",
            "declare an export, or set passthrough on an upstream",
        );
    }
    let names = policy.exports.iter().map(|export| export.name.as_str());
    // The empty name is the protocol's default export.
    check_names("export", names, true, |index| place(index, "name"), found);
    for (index, export) in policy.exports.iter().enumerate() {
        if export.name.len() > NAME_BYTES {
            found.error(
                place(index, "name"),
                format!("an export name of {} bytes", export.name.len()),
                format!("use at most {NAME_BYTES} bytes"),
            );
        }
        let Some(backend) = policy.backends.iter().find(|one| one.name == export.backend) else {
            let names = known(policy.backends.iter().map(|backend| backend.name.as_str()));
            let message = format!("there is no backend {:?}", export.backend);
            found.error(place(index, "backend"), message, names);
            continue;
        };
        check_range(index, export, found);
        check_source(index, export, &backend.source, found);
        check_overlap(policy, index, &backend.source, found);
    }
}

fn check_range(index: usize, export: &Export, found: &mut Findings) {
    let place = |field| Place::Export { index, field };
    if export.size_bytes == Some(0) {
        found.error(place("size_bytes"), "a size of 0", "set a size, or leave it to the source");
    }
    let end = export.offset_bytes.checked_add(export.size_bytes.unwrap_or(0));
    if end.is_none_or(|end| end > LARGEST_POSITION) {
        found.error(
            place("size_bytes"),
            "offset and size reach beyond the largest position, 8 EiB",
            "make one of them smaller",
        );
    }
}

fn check_source(index: usize, export: &Export, source: &Source, found: &mut Findings) {
    let place = |field| Place::Export { index, field };
    match source {
        Source::Memory if export.size_bytes.is_none() => {
            found.error(place("size_bytes"), "a memory export without a size", "set its size");
        }
        Source::File { direct: true, .. } => {
            let ends = [export.offset_bytes, export.size_bytes.unwrap_or(0)];
            if ends.iter().any(|bytes| bytes % DIRECT_ALIGNMENT_BYTES != 0) {
                found.warning(
                    place("offset_bytes"),
                    "offset or size is not a multiple of 4 KiB, which direct I/O may need",
                    "align both to 4 KiB",
                );
            }
        }
        Source::Directory { .. } => check_file_name(index, export, found),
        Source::Store(_) => check_volume_number(index, export, found),
        Source::Upstream(_)
        | Source::File { .. }
        | Source::Memory
        | Source::Tiered(_)
        | Source::Spread(_)
        | Source::Ceph(_) => {}
    }
    let is_named =
        matches!(source, Source::Upstream(_) | Source::Directory { .. } | Source::Store(_));
    if export.source.is_some() && !is_named {
        found.warning(
            place("source"),
            "a source name has no meaning on this kind of backend",
            "remove it, or put the export on an upstream, a directory or a store",
        );
    }
    if export.offset_bytes > 0 && matches!(source, Source::Memory) {
        found.warning(
            place("offset_bytes"),
            "an offset into memory that nothing else uses",
            "remove the offset",
        );
    }
}

/// A name must not lead out of the folder.
fn check_file_name(index: usize, export: &Export, found: &mut Findings) {
    let name = file_name(export);
    if !is_file_name(name) {
        let field = if export.source.is_some() { "source" } else { "name" };
        found.error(
            Place::Export { index, field },
            format!("{name:?} is not the name of a file in the backend's folder"),
            "set a source that is a plain file name, with no dot in front",
        );
    }
}

/// Whether this can name a file of a folder: nothing that leads elsewhere, and nothing hidden.
pub(super) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

fn file_name(export: &Export) -> &str {
    export.source.as_deref().unwrap_or(&export.name)
}

fn check_volume_number(index: usize, export: &Export, found: &mut Findings) {
    let volume = volume_number(export);
    if !is_volume_number(volume) {
        found.error(
            Place::Export { index, field: "source" },
            format!("{volume:?} is not the number of a volume in a store"),
            "name the volume by its number: the first is \"0\", the next one \"1\"",
        );
    }
}

fn volume_number(export: &Export) -> &str {
    export.source.as_deref().unwrap_or(FIRST_VOLUME)
}

/// Whether this is how volumes of a store are named. One volume has one name.
pub(super) fn is_volume_number(name: &str) -> bool {
    name.parse::<u32>().is_ok_and(|number| number.to_string() == name)
}

fn check_overlap(policy: &Policy, index: usize, source: &Source, found: &mut Findings) {
    let export = &policy.exports[index];
    if export.read_only || matches!(source, Source::Memory) {
        return;
    }
    let is_same_device = |other: &Export| match source {
        Source::File { .. } | Source::Tiered(_) | Source::Ceph(_) => true,
        Source::Store(_) => volume_number(other) == volume_number(export),
        _ => file_name(other) == file_name(export),
    };
    let shares_bytes = |other: &&Export| {
        other.backend == export.backend
            && !other.read_only
            && is_same_device(other)
            && overlap(&range(other), &range(export))
    };
    if let Some(other) = policy.exports[..index].iter().find(shares_bytes) {
        found.warning(
            Place::Export { index, field: "offset_bytes" },
            format!("it can write bytes that export {:?} can write too", other.name),
            "move it, give both a size, or make one of them read-only",
        );
    }
}

fn range(export: &Export) -> Range<u64> {
    let end = export.size_bytes.map_or(u64::MAX, |size| export.offset_bytes.saturating_add(size));
    export.offset_bytes..end
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
