//! What an opening mends beyond what it needs to: a head is made anew from what the other servers
//! say, both heads of all servers are written, and so are both copies of every block of tables and
//! choices in the half that is written to.

use evenkeel_core::time::Nanos;

use super::super::format::head::Head;
use super::super::layout::{Note, OBJECT_BYTES, ServerLayout, place_slots};
use super::super::members::numbers;
use super::super::refusal::Refusal;
use super::super::volume::Volume;
use super::{Opening, Phase, Task};
use crate::lease::{Rebuilding, settled};
use crate::notes::{Answer, Unfit, Unproven};

impl Opening {
    /// Mends what can be mended without a loss. A volume is opened, or refused, by the same rules;
    /// but one server may have lost both its heads.
    #[must_use]
    pub fn repairing(mut self) -> Self {
        self.rebuilding = Some(Rebuilding::new(self.devices.len()));
        self
    }

    /// Whether the head of a server is made anew.
    pub(in crate::spread) fn is_rebuilt(&self, server: usize) -> bool {
        self.rebuilding.as_ref().is_some_and(|heads| heads.is_given(server))
    }

    /// The volume as far as it is known after a refusal; none if the fronts did not tell.
    pub(in crate::spread) fn take_claimed(&mut self) -> Option<Box<Volume>> {
        self.opened.take().filter(|_| !self.candidate.is_new)
    }

    /// Makes the head of a server anew that has lost both.
    pub(super) fn rebuild(&mut self) -> Result<(), Refusal> {
        let Some(rebuilding) = &self.rebuilding else { return Ok(()) };
        let lost = rebuilding.lost(&self.candidate.fronts, self.candidate.rules());
        let lost = lost.map_err(|obstacle| self.obstructed(obstacle))?;
        let Some((server, owner)) = lost else { return Ok(()) };
        let unproven = || self.refusal_of(server, Unfit::Unproven { why: Unproven::Layout }.into());
        let head = self.head_from_others(server).ok_or_else(unproven)?;
        let rebuilding = self.rebuilding.as_mut().expect("looked at above");
        self.candidate.fronts[server] = rebuilding.give(server, head, owner);
        Ok(())
    }

    /// The head of a server by what all others say; none if they do not say enough. The others tell
    /// its number, since no other one is missing, and its slots; where these begin follows from its
    /// size, which must be what it was.
    fn head_from_others(&self, server: usize) -> Option<Head> {
        let heads = self.candidate.fronts.iter().filter_map(|front| front.head);
        let newest = heads.clone().max_by_key(|head| head.generation)?;
        let listed = heads.fold(0, |set, head| set | 1_u64.wrapping_shl(head.number));
        let mut missing = numbers(newest.members.all() & !listed);
        let number = missing.next().filter(|_| missing.next().is_none())?;
        let settled = settled(&self.candidate.fronts);
        let slots = newest.all_slots[number as usize];
        let device = &self.devices[server];
        let place = place(&newest, device.size_bytes).filter(|place| place.slots == slots)?;
        Some(Head {
            generation: settled.generation,
            number,
            data_offset: place.data_offset,
            slots,
            opening: settled.by,
            after: settled.by,
            ..newest
        })
    }

    /// Writes the other copy of each head, behind the one that counts: either does.
    pub(super) fn push_other_heads(&mut self, generation: u64) {
        self.push_old(|server| Task::WriteHead { server, generation: generation - 1 });
        self.push_old(|server| Task::Flush { server });
    }

    /// Writes everything once more that was written, into the other copies of this half.
    pub(super) fn mend_again(&mut self) {
        self.push_old(|server| Task::Flush { server });
        let again = std::mem::take(&mut self.again);
        let volume = self.opened.as_mut().expect("made by the claim");
        volume.versions.iter_mut().filter(|number| **number > 0).for_each(|number| *number += 1);
        for (server, note) in &again {
            let latest = volume.latest_mut(*server, *note).next();
            *volume.latest_mut(*server, *note) = latest;
        }
        // All keepers count alike.
        for (server, note) in &again {
            if let Note::Page(page) = note {
                let number = volume.versions[*page as usize];
                volume.latest_mut(*server, *note).number = number;
            }
        }
        self.push_notes(again);
        self.push_old(|server| Task::Flush { server });
        self.phase = Phase::Mend;
    }

    /// A front could not be read: it is read block by block, since one head of two may do.
    pub(super) fn look_at_blocks(&mut self, server: usize, since: Nanos) {
        for block in (0..self.front.len()).rev() {
            self.tasks.push_front(Task::LookAt { server, block, since });
        }
    }

    /// A block of a front was read; with the last one all is known that can be.
    pub(super) fn looked_at(
        &mut self,
        (server, block): (usize, usize),
        since: Nanos,
        answer: Answer<'_>,
    ) {
        self.front[block] = answer.blocks(1).map(|blocks| Box::new(blocks[0]));
        if block + 1 == self.front.len() {
            let blocks = std::mem::take(&mut self.front);
            self.has_failed |= blocks.iter().all(Option::is_none);
            let rebuilding = self.rebuilding.as_mut().expect("only a repair looks so closely");
            let front = rebuilding.front(server, blocks.each_ref().map(Option::as_deref));
            self.take_front(server, since, front);
        }
    }
}

/// What lies where on a server of this size that belongs to the volume of a head.
fn place(head: &Head, size_bytes: u64) -> Option<ServerLayout> {
    let is_sound = head.object_bytes.is_power_of_two() && OBJECT_BYTES.contains(&head.object_bytes);
    let place = || place_slots(0, size_bytes, head.object_bytes, head.pages.into());
    is_sound.then(place)?.ok()
}
