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
//! | the same, and one server away | in use without it, if [`absent`] allows that |
//! | anything else | refused |
//!
//! The newest head says who the members are. Whoever is none has left.

use super::absent;
use super::format::head::Head;
use super::layout::{KEEPERS_MAX, Layout, OBJECT_BYTES, SERVERS_MAX, ServerLayout, Shape};
use super::members::Members;
use super::refusal::{Needed, Refusal, RefusalReason, WrongServers};
use super::rules::{Mutant, Rules};
use super::volume::Volume;
use crate::lease::{self, Absent, Front, OwnerId, Settled};
use crate::notes::block::Block;
use crate::notes::head::head_offset;
use crate::notes::{PartDevice, Unfit, VolumeId};

/// What to do with the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Make a volume, of this name if one was begun.
    Make(Option<VolumeId>),
    /// Use the volume.
    Use(Box<Usable>),
}

/// A volume that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) volume: VolumeId,
    pub(super) layout: Layout,
    /// What to count all heads up to.
    pub(super) generation: u64,
    /// Servers that are blank, and are to join.
    pub(super) joining: Vec<usize>,
    /// Members that are not listed, by number. Nothing is placed on them, but objects may still lie
    /// there.
    pub(super) missing: u64,
    /// The last opening that came to its end.
    pub(super) settled: Settled,
    /// The server that it was made without, and that is back.
    pub(super) returning: Option<usize>,
    /// The server that the volume is to be opened without.
    pub(super) left_out: Option<Absent>,
    /// Whether it was opened without one before.
    pub(super) was_parted: bool,
}

/// What there is to judge.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) shape: &'a Shape,
    pub(super) devices: &'a [PartDevice],
    /// By server.
    pub(super) fronts: &'a [Front<Head>],
    /// A server of which there is no front.
    pub(super) away: Option<usize>,
    pub(super) rules: Rules,
}

impl Case<'_> {
    fn refuse(&self, server: usize, reason: impl Into<RefusalReason>) -> Refusal {
        Refusal { server: self.devices[server].name.clone(), reason: reason.into() }
    }

    fn heads(&self) -> impl Iterator<Item = (usize, Head)> {
        self.fronts.iter().enumerate().filter_map(|(at, front)| Some((at, front.head?)))
    }

    fn blanks(&self) -> impl Iterator<Item = usize> {
        let is_blank = |at: &usize| self.fronts[*at].head.is_none() && Some(*at) != self.away;
        (0..self.fronts.len()).filter(is_blank)
    }

    /// Judges all fronts.
    pub(super) fn judge(&self) -> Result<Verdict, Refusal> {
        let settled = lease::settled(self.fronts);
        let returning = absent::returning(self.fronts, &settled);
        // Who was away does not know what was said since.
        let heads = || self.heads().filter(|(at, _)| Some(*at) != returning);
        let newest = heads().map(|(_, head)| head).max_by_key(|head| head.generation);
        let Some(newest) = newest.filter(|head| head.generation > 0) else {
            return match self.away {
                Some(server) if !self.rules.is_broken(Mutant::MakeWithout) => {
                    Err(self.refuse(server, RefusalReason::Needed(Needed::New)))
                }
                _ => Ok(Verdict::Make(None)),
            };
        };
        let missing = self.check_members(&newest)?;
        if newest.generation == 1 && heads().any(|(_, head)| head.generation == 0) {
            if let Some(server) = self.away {
                return Err(self.refuse(server, RefusalReason::Needed(Needed::New)));
            }
            return match self.blanks().next() {
                Some(server) => Err(self.refuse(server, Unfit::Blank)),
                None => Ok(Verdict::Make(Some(newest.volume))),
            };
        }
        let left_out = self.away.map(|server| {
            let number = missing.trailing_zeros();
            let left_out = absent::without(number, &newest, &settled, self.rules);
            left_out.map_err(|why| self.refuse(server, RefusalReason::Needed(why)))
        });
        let left_out = left_out.transpose()?;
        self.check_heads(&newest, &settled, returning)?;
        let mut layout = self.layout(&newest, &settled, left_out)?;
        let joining: Vec<usize> = self.blanks().collect();
        for &server in &joining {
            let number = layout.free_number();
            let no_number = RefusalReason::Servers(WrongServers::NoNumber);
            let number = number.ok_or_else(|| self.refuse(server, no_number))?;
            let joined = layout.join(server, number, self.devices[server].size_bytes);
            joined.map_err(|error| self.refuse(server, RefusalReason::Layout(error)))?;
        }
        // An opening that was cut short is gone on with, unless it may have met other servers.
        let counts_up = self.away.or(returning).is_some()
            || heads().all(|(_, head)| head.generation == newest.generation);
        let ahead = self.heads().map(|(_, head)| head.generation).max().unwrap_or(0);
        let generation = (newest.generation + u64::from(counts_up)).max(ahead);
        Ok(Verdict::Use(Box::new(Usable {
            volume: newest.volume,
            layout,
            generation,
            joining,
            missing: if self.away.is_some() { 0 } else { missing },
            settled,
            returning,
            left_out,
            was_parted: self.heads().any(|(_, head)| head.is_parted),
        })))
    }

    /// Whether every server is as it was left.
    fn check_heads(
        &self,
        newest: &Head,
        settled: &Settled,
        returning: Option<usize>,
    ) -> Result<(), Refusal> {
        let newest = newest.generation;
        // An opening that came to its end has left no head behind, and says so. Others after it may
        // have met now these servers, now those.
        let oldest = match settled.generation {
            0 => newest - 1,
            settled => settled.min(newest),
        };
        for (server, head) in self.heads() {
            let absent = settled.absent.filter(|_| Some(server) == returning);
            let own = self.fronts[server].owner.as_ref();
            // Of one whose newer head is damaged the owner tells that it was there.
            let was_there = settled.by.is_known() && absent::knows(own, settled.by);
            let counts = absent.is_some() || was_there || self.rules.is_broken(Mutant::AcceptOlder);
            let oldest = if counts { 0 } else { oldest };
            let said = (&head, own);
            let result = fits(&head, (oldest, newest), &self.devices[server]);
            let result = result.and_then(|()| match absent {
                Some(absent) => absent::check_return(said, &absent, newest, self.rules),
                None if self.rules.is_broken(Mutant::AcceptSplit) => Ok(()),
                None => absent::check_stay(said, settled, newest),
            });
            result.map_err(|reason| self.refuse(server, reason))?;
        }
        Ok(())
    }

    /// What lies where, on the server that is away too.
    fn layout(
        &self,
        newest: &Head,
        settled: &Settled,
        left_out: Option<Absent>,
    ) -> Result<Layout, Refusal> {
        let found: Vec<Head> = self.heads().map(|(_, head)| head).collect();
        let damaged = || self.refuse(self.away.unwrap_or(0), Unfit::HeadDamaged);
        // Owners that nobody can read have said who was away.
        if found.iter().any(|head| head.is_parted) && !settled.by.is_known() {
            return Err(damaged());
        }
        let mut layout = layout(&found, newest.members).ok_or_else(damaged)?;
        check_shape(self.shape, &mut layout).map_err(|reason| self.refuse(0, reason))?;
        if let (Some(server), Some(Absent { number, .. })) = (self.away, left_out) {
            let slots = newest.all_slots[number as usize];
            layout.leave_out(server, number, slots).ok_or_else(damaged)?;
        }
        Ok(layout)
    }

    /// Whether these heads are those of one volume, each of another server of it, and nobody is
    /// missing on whom objects are placed but the server that is away. Returns those that are
    /// missing, by number: objects may still lie on them.
    fn check_members(&self, newest: &Head) -> Result<u64, Refusal> {
        let members = newest.members;
        let (mut listed, mut first) = (0, None);
        for (server, head) in self.heads() {
            let expected = *first.get_or_insert(head.volume);
            if head.volume != expected {
                let reason = Unfit::OtherVolume { found: head.volume, expected };
                return Err(self.refuse(server, reason));
            }
            let is_number = (head.number as usize) < SERVERS_MAX;
            if !is_number || members.all() >> head.number & 1 == 0 {
                let reason = RefusalReason::Servers(WrongServers::HasLeft);
                return Err(self.refuse(server, reason));
            }
            if listed >> head.number & 1 == 1 {
                let reason = RefusalReason::Servers(WrongServers::Twice { number: head.number });
                return Err(self.refuse(server, reason));
            }
            listed |= 1 << head.number;
        }
        let missing = members.all() & !listed;
        match (self.blanks().next(), self.away) {
            // Whoever is missing is the one that is away.
            (None, Some(_)) if missing.is_power_of_two() => Ok(missing),
            (blank, Some(server)) if missing == 0 || blank.is_some() => {
                Err(self.refuse(server, RefusalReason::Needed(Needed::Changing)))
            }
            (_, None) if missing & members.after == 0 => Ok(missing),
            (None, None) if self.rules.is_broken(Mutant::TakeOut) => Ok(missing),
            (Some(server), _) => Err(self.refuse(server, Unfit::Blank)),
            (None, _) => {
                let [found, listed] = [members.all(), listed].map(u64::count_ones);
                let reason = RefusalReason::Servers(WrongServers::ServerCount { found, listed });
                Err(self.refuse(0, reason))
            }
        }
    }
}

/// Whether a volume is as the policy says. It grows to what that says, and never shrinks by it.
fn check_shape(shape: &Shape, layout: &mut Layout) -> Result<(), RefusalReason> {
    let is_wanted =
        layout.object_bytes == shape.object_bytes && layout.candidates as usize == shape.candidates;
    if !is_wanted {
        let found = (layout.object_bytes, layout.size_bytes(), layout.candidates);
        return Err(RefusalReason::Shape { found });
    }
    let wanted = shape.size_bytes.map_or(0, |bytes| bytes.div_ceil(layout.object_bytes));
    let wanted = u32::try_from(wanted).ok().filter(|wanted| *wanted <= layout.objects_max());
    // What it cannot grow to is no reason not to serve it.
    layout.objects = layout.objects.max(wanted.unwrap_or(0));
    Ok(())
}

/// Whether a server is as it was left.
fn fits(head: &Head, (oldest, newest): (u64, u64), device: &PartDevice) -> Result<(), Unfit> {
    if head.generation < oldest {
        return Err(Unfit::Stale { found: head.generation, expected: newest });
    }
    if !head.object_bytes.is_power_of_two() || !OBJECT_BYTES.contains(&head.object_bytes) {
        return Err(Unfit::HeadDamaged);
    }
    let used = u64::from(head.slots) * head.object_bytes;
    Unfit::check_room(device, head.data_offset, used)
}

/// What lies where, if the heads agree on something that can be.
fn layout(heads: &[Head], members: Members) -> Option<Layout> {
    let first = heads[0];
    let common = |head: &Head| (head.object_bytes, head.pages, head.candidates);
    // They differ where a change of the size was cut short.
    let objects = heads.iter().map(|head| head.objects).max()?;
    let layout = Layout {
        object_bytes: first.object_bytes,
        objects,
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

/// The head of a server at this generation, as this opening writes it; `after` is the last one that
/// came to its end with the server.
pub(super) fn head(volume: &Volume, server: usize, (generation, after): (u64, OwnerId)) -> Head {
    let layout = &volume.layout;
    let mut all_slots = [0; SERVERS_MAX];
    for one in &layout.servers {
        all_slots[one.number as usize] = one.slots;
    }
    Head {
        volume: volume.id,
        generation,
        features_optional: 0,
        number: layout.servers[server].number,
        members: layout.members,
        object_bytes: layout.object_bytes,
        data_offset: layout.servers[server].data_offset,
        slots: layout.servers[server].slots,
        objects: volume.wanted_objects.unwrap_or(layout.objects),
        pages: layout.pages,
        candidates: layout.candidates,
        is_parted: volume.is_parted,
        all_slots,
        opening: volume.office.owner,
        after,
    }
}

/// Makes the head that a server has by now, with the size that the volume is to get; returns where
/// it stands. All that it says lies within what no drive tears.
pub(super) fn encode_again(volume: &Volume, server: usize, block: &mut Block) -> u64 {
    let generation = volume.office.generation;
    let offset = head_offset(generation);
    head(volume, server, (generation, volume.afters[server])).encode(offset, block);
    offset
}

const _: () = assert!(KEEPERS_MAX >= 2, "the choices outlive a bad block");
