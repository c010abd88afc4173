//! What the heads of all servers say together: a new volume, one whose making was cut short, one
//! that is in use, or none that may be touched.
//!
//! | heads | verdict |
//! |---|---|
//! | all blank or of generation 0 | make a volume |
//! | all of one volume, some of generation 0, none above 1 | its making was cut short: go on |
//! | all of one volume, of one generation | in use |
//! | all of one volume, generations g and g - 1 | in use, if the opening to g was cut short |
//! | anything else | refused |

use super::format::head::Head;
use super::format::owner::Owner;
use super::layout::{KEEPERS_MAX, Layout, OBJECT_BYTES, ServerLayout, Shape};
use super::refusal::{Refusal, RefusalReason};
use crate::notes::block::Block;
use crate::notes::head::HeadError;
use crate::notes::{PartDevice, VolumeId};

/// The front of a server, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    /// The newer head that is whole.
    pub(super) head: Option<Head>,
    /// Who claimed it last, if that can be read.
    pub(super) owner: Option<Owner>,
}

/// What to do with the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Make a volume, of this name if one was begun.
    Make(Option<VolumeId>),
    /// Use the volume.
    Use {
        volume: VolumeId,
        layout: Layout,
        /// What to count all heads up to.
        generation: u64,
    },
}

impl Front {
    /// What three blocks say: two heads and the owner.
    ///
    /// # Errors
    /// Why they cannot be touched.
    pub(super) fn read(blocks: &[Block]) -> Result<Self, RefusalReason> {
        let copies = [Head::decode(&blocks[0]), Head::decode(&blocks[1])];
        for copy in copies {
            match copy {
                // Whatever the other copy says, a newer program was here since.
                Err(HeadError::Newer(version)) => return Err(RefusalReason::Newer(version)),
                Err(HeadError::Features(bits)) => return Err(RefusalReason::Features(bits)),
                _ => {}
            }
        }
        let head = copies.iter().flatten().max_by_key(|head| head.generation).copied();
        match (head, copies) {
            (None, [Err(HeadError::Blank), Err(HeadError::Blank)]) => Ok(Self::default()),
            (None, copies) if copies.contains(&Err(HeadError::Damaged)) => {
                Err(RefusalReason::HeadDamaged)
            }
            (None, _) => Err(RefusalReason::Foreign),
            (Some(head), _) => {
                let owner = Owner::decode(head.volume, &blocks[2]);
                Ok(Self { head: Some(head), owner })
            }
        }
    }
}

/// Judges all fronts, by server.
pub(super) fn judge(
    shape: &Shape,
    devices: &[PartDevice],
    fronts: &[Front],
) -> Result<Verdict, Refusal> {
    let refuse = |server: usize, reason| Refusal { server: devices[server].name.clone(), reason };
    let heads = || fronts.iter().map(|front| front.head);
    let newest = heads().flatten().map(|head| head.generation).max().unwrap_or(0);
    if newest == 0 {
        return Ok(Verdict::Make(None));
    }
    let mut found: Vec<Head> = Vec::new();
    for (server, head) in heads().enumerate() {
        let head = head.ok_or(RefusalReason::Blank).map_err(|reason| refuse(server, reason))?;
        let first = found.first().unwrap_or(&head);
        belongs(server, &head, first, devices).map_err(|reason| refuse(server, reason))?;
        found.push(head);
    }
    let volume = found[0].volume;
    if newest == 1 && found.iter().any(|head| head.generation == 0) {
        return Ok(Verdict::Make(Some(volume)));
    }
    // An opening that came to its end has left no head behind, and says so.
    let settled = |front: &Front| front.owner.as_ref().map_or(0, |owner| owner.settled);
    let was_complete = fronts.iter().any(|front| settled(front) >= newest);
    let oldest = if was_complete { newest } else { newest - 1 };
    for (server, head) in found.iter().enumerate() {
        fits(head, (oldest, newest), &devices[server]).map_err(|reason| refuse(server, reason))?;
    }
    let layout = layout(&found).ok_or_else(|| refuse(0, RefusalReason::HeadDamaged))?;
    let is_wanted = layout.object_bytes == shape.object_bytes
        && layout.candidates as usize == shape.candidates
        && shape
            .size_bytes
            .is_none_or(|bytes| u64::from(layout.objects) == bytes.div_ceil(layout.object_bytes));
    if !is_wanted {
        let found = (layout.object_bytes, layout.size_bytes(), layout.candidates);
        return Err(refuse(0, RefusalReason::Shape { found }));
    }
    // An opening that was cut short is gone on with: nobody may fall behind by two.
    let is_even = found.iter().all(|head| head.generation == newest);
    Ok(Verdict::Use { volume, layout, generation: newest + u64::from(is_even) })
}

/// Whether a head is that of this server of the first server's volume.
fn belongs(
    server: usize,
    head: &Head,
    first: &Head,
    devices: &[PartDevice],
) -> Result<(), RefusalReason> {
    let [expected, count] =
        [server, devices.len()].map(|count| u32::try_from(count).expect("few servers"));
    if head.volume != first.volume {
        return Err(RefusalReason::OtherVolume { found: head.volume, expected: first.volume });
    }
    if head.servers != count {
        return Err(RefusalReason::ServerCount { found: head.servers, expected: count });
    }
    if head.server != expected {
        return Err(RefusalReason::OtherServer { found: head.server, expected });
    }
    Ok(())
}

/// Whether a server is as it was left.
fn fits(
    head: &Head,
    (oldest, newest): (u64, u64),
    device: &PartDevice,
) -> Result<(), RefusalReason> {
    if head.generation < oldest {
        return Err(RefusalReason::Stale { found: head.generation, expected: newest });
    }
    if !head.object_bytes.is_power_of_two() || !OBJECT_BYTES.contains(&head.object_bytes) {
        return Err(RefusalReason::HeadDamaged);
    }
    let used = u64::from(head.slots) * head.object_bytes;
    let needed_bytes = head.data_offset.saturating_add(used);
    if needed_bytes > device.size_bytes {
        return Err(RefusalReason::Shrunk { needed_bytes, found_bytes: device.size_bytes });
    }
    Ok(())
}

/// What lies where, if the heads agree on something that can be.
fn layout(heads: &[Head]) -> Option<Layout> {
    let first = heads[0];
    let common = |head: &Head| (head.object_bytes, head.objects, head.pages, head.candidates);
    let layout = Layout {
        object_bytes: first.object_bytes,
        objects: first.objects,
        candidates: first.candidates,
        pages: first.pages,
        servers: heads
            .iter()
            .map(|head| ServerLayout { data_offset: head.data_offset, slots: head.slots })
            .collect(),
    };
    let is_sound = heads.iter().all(|head| common(head) == common(&first)) && layout.is_sound();
    is_sound.then_some(layout)
}

/// The head of a server at this generation.
pub(super) fn head(volume: VolumeId, layout: &Layout, server: usize, generation: u64) -> Head {
    let [index, servers] =
        [server, layout.servers.len()].map(|count| u32::try_from(count).expect("few servers"));
    Head {
        volume,
        generation,
        features_optional: 0,
        server: index,
        servers,
        object_bytes: layout.object_bytes,
        data_offset: layout.servers[server].data_offset,
        slots: layout.servers[server].slots,
        objects: layout.objects,
        pages: layout.pages,
        candidates: layout.candidates,
    }
}

const _: () = assert!(KEEPERS_MAX >= 2, "the choices outlive a bad block");
