//! What the heads of all servers say together: a new volume, one whose making was cut short, one
//! that is in use, or none that may be touched.
//!
//! | heads | verdict |
//! |---|---|
//! | all blank or of generation 0 | make a volume |
//! | all of one volume, some of generation 0, none above 1 | its making was cut short: go on |
//! | all of one volume, of one generation | in use |
//! | all of one volume, generations g and g - 1 | in use, if the opening to g was cut short |
//! | the same, and others blank | in use; the others are to join |
//! | anything else | refused |
//!
//! The newest head says who the members are. Whoever is none has left.

use super::format::head::Head;
use super::format::owner::Owner;
use super::layout::{KEEPERS_MAX, Layout, OBJECT_BYTES, SERVERS_MAX, ServerLayout, Shape};
use super::members::Members;
use super::refusal::{Refusal, RefusalReason, WrongServers};
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
        /// Servers that are blank, and are to join.
        joining: Vec<usize>,
        /// Members that are not listed, by number. Nothing is placed on them, but objects may still
        /// lie there.
        missing: u64,
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
    let heads = || fronts.iter().enumerate().filter_map(|(at, front)| Some((at, front.head?)));
    let Some((_, newest)) = heads().max_by_key(|(_, head)| head.generation) else {
        return Ok(Verdict::Make(None));
    };
    if newest.generation == 0 {
        return Ok(Verdict::Make(None));
    }
    let blank = fronts.iter().position(|front| front.head.is_none());
    let missing = check_members(&newest, heads(), devices, blank)?;
    if newest.generation == 1 && heads().any(|(_, head)| head.generation == 0) {
        return match blank {
            Some(server) => Err(refuse(server, RefusalReason::Blank)),
            None => Ok(Verdict::Make(Some(newest.volume))),
        };
    }
    // An opening that came to its end has left no head behind, and says so.
    let settled = |front: &Front| front.owner.as_ref().map_or(0, |owner| owner.settled);
    let was_complete = fronts.iter().any(|front| settled(front) >= newest.generation);
    let oldest = if was_complete { newest.generation } else { newest.generation - 1 };
    for (server, head) in heads() {
        let span = (oldest, newest.generation);
        fits(&head, span, &devices[server]).map_err(|reason| refuse(server, reason))?;
    }
    let found: Vec<Head> = heads().map(|(_, head)| head).collect();
    let layout = layout(&found, newest.members);
    let mut layout = layout.ok_or_else(|| refuse(0, RefusalReason::HeadDamaged))?;
    let is_wanted = layout.object_bytes == shape.object_bytes
        && layout.candidates as usize == shape.candidates
        && shape
            .size_bytes
            .is_none_or(|bytes| u64::from(layout.objects) == bytes.div_ceil(layout.object_bytes));
    if !is_wanted {
        let found = (layout.object_bytes, layout.size_bytes(), layout.candidates);
        return Err(refuse(0, RefusalReason::Shape { found }));
    }
    let blanks = fronts.iter().enumerate().filter(|(_, front)| front.head.is_none());
    let joining: Vec<usize> = blanks.map(|(server, _)| server).collect();
    for &server in &joining {
        let number = layout.free_number();
        let number =
            number.ok_or_else(|| refuse(server, RefusalReason::Servers(WrongServers::NoNumber)))?;
        let joined = layout.join(server, number, devices[server].size_bytes);
        joined.map_err(|error| refuse(server, RefusalReason::Layout(error)))?;
    }
    // An opening that was cut short is gone on with: nobody may fall behind by two.
    let is_even = found.iter().all(|head| head.generation == newest.generation);
    let generation = newest.generation + u64::from(is_even);
    Ok(Verdict::Use { volume: newest.volume, layout, generation, joining, missing })
}

/// Whether these heads are those of one volume, each of another server of it, and nobody is missing
/// on whom objects are placed. Returns those that are missing, by number: objects may still lie on
/// them.
fn check_members(
    newest: &Head,
    heads: impl Iterator<Item = (usize, Head)>,
    devices: &[PartDevice],
    blank: Option<usize>,
) -> Result<u64, Refusal> {
    let refuse = |server: usize, reason| Refusal { server: devices[server].name.clone(), reason };
    let members = newest.members;
    let (mut listed, mut first) = (0, None);
    for (server, head) in heads {
        let expected = *first.get_or_insert(head.volume);
        if head.volume != expected {
            let reason = RefusalReason::OtherVolume { found: head.volume, expected };
            return Err(refuse(server, reason));
        }
        let is_number = (head.number as usize) < SERVERS_MAX;
        if !is_number || members.all() >> head.number & 1 == 0 {
            return Err(refuse(server, RefusalReason::Servers(WrongServers::HasLeft)));
        }
        if listed >> head.number & 1 == 1 {
            return Err(refuse(
                server,
                RefusalReason::Servers(WrongServers::Twice { number: head.number }),
            ));
        }
        listed |= 1 << head.number;
    }
    let missing = members.all() & !listed;
    match blank {
        _ if missing & members.after == 0 => Ok(missing),
        Some(server) => Err(refuse(server, RefusalReason::Blank)),
        None => {
            let [found, listed] = [members.all(), listed].map(u64::count_ones);
            Err(refuse(0, RefusalReason::Servers(WrongServers::ServerCount { found, listed })))
        }
    }
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
fn layout(heads: &[Head], members: Members) -> Option<Layout> {
    let first = heads[0];
    let common = |head: &Head| (head.object_bytes, head.objects, head.pages, head.candidates);
    let layout = Layout {
        object_bytes: first.object_bytes,
        objects: first.objects,
        candidates: first.candidates,
        pages: first.pages,
        servers: heads
            .iter()
            .map(|head| {
                let Head { number, data_offset, slots, .. } = *head;
                ServerLayout { number, data_offset, slots }
            })
            .collect(),
        members,
    };
    let is_sound = heads.iter().all(|head| common(head) == common(&first)) && layout.is_sound();
    is_sound.then_some(layout)
}

/// The head of a server at this generation.
pub(super) fn head(volume: VolumeId, layout: &Layout, server: usize, generation: u64) -> Head {
    Head {
        volume,
        generation,
        features_optional: 0,
        number: layout.servers[server].number,
        members: layout.members,
        object_bytes: layout.object_bytes,
        data_offset: layout.servers[server].data_offset,
        slots: layout.servers[server].slots,
        objects: layout.objects,
        pages: layout.pages,
        candidates: layout.candidates,
    }
}

const _: () = assert!(KEEPERS_MAX >= 2, "the choices outlive a bad block");
