//! What an opening mends beyond what it needs to: a head is made anew from what the other tiers
//! say, and the map that is not used is written once more.

use super::super::format::VolumeId;
use super::super::format::head::Head;
use super::super::journal::Checkpoint;
use super::super::layout::{Layout, RESERVE_SLOTS};
use super::super::refusal::Refusal;
use super::Opening;
use crate::lease::{FRONT_BYTES, Rebuilding, Settled, settled};
use crate::notes::{Unfit, Unproven};

/// What an opening knows of the notes of its volume, for whoever looks at them more closely.
#[derive(Clone, Debug)]
pub(in crate::tiers) struct KnownNotes {
    pub(in crate::tiers) volume: VolumeId,
    pub(in crate::tiers) layout: Layout,
    /// The last opening that had come to its end.
    pub(in crate::tiers) settled: Settled,
    /// The last move that is durable, as far as any tier knows.
    pub(in crate::tiers) noted: u64,
    /// The map that is used, and the last record behind it; none if no map can be used.
    pub(in crate::tiers) map_used: Option<Checkpoint>,
    pub(in crate::tiers) last: Option<u64>,
}

impl Opening {
    /// What it knows of the notes; none if the fronts did not tell.
    pub(in crate::tiers) fn known_notes(&self) -> Option<KnownNotes> {
        let claimed = self.claimed.as_ref().filter(|_| !self.candidate.is_new)?;
        Some(KnownNotes {
            volume: claimed.volume,
            layout: claimed.layout.clone(),
            settled: claimed.settled,
            noted: self.noted,
            map_used: self.map_used,
            last: self.map_used.map(|_| self.candidate.noted),
        })
    }

    /// Mends what can be mended without a loss. A volume is opened, or refused, by the same rules;
    /// but one tier may have lost both its heads.
    #[must_use]
    pub fn repairing(mut self) -> Self {
        self.rebuilding = Some(Rebuilding::new(self.devices.len()));
        self
    }

    /// Whether it was asked to mend.
    pub(super) fn is_repair(&self) -> bool {
        self.rebuilding.is_some()
    }

    /// Whether the head of a tier is made anew.
    pub(in crate::tiers) fn is_rebuilt(&self, tier: usize) -> bool {
        self.rebuilding.as_ref().is_some_and(|heads| heads.is_given(tier))
    }

    /// Makes the head of a tier anew that has lost both.
    pub(super) fn rebuild(&mut self) -> Result<(), Refusal> {
        let Some(rebuilding) = &self.rebuilding else { return Ok(()) };
        let lost = rebuilding.lost(&self.candidate.fronts, self.candidate.rules());
        let lost = lost.map_err(|obstacle| self.obstructed(obstacle))?;
        let Some((tier, owner)) = lost else { return Ok(()) };
        let unproven = || self.refusal_of(tier, Unfit::Unproven { why: Unproven::Layout }.into());
        let head = self.head_from_others(tier).ok_or_else(unproven)?;
        let rebuilding = self.rebuilding.as_mut().expect("looked at above");
        self.candidate.fronts[tier] = rebuilding.give(tier, head, owner);
        Ok(())
    }

    /// The head of a tier by what all others say; none if they do not say enough.
    fn head_from_others(&self, tier: usize) -> Option<Head> {
        let fronts = self.candidate.fronts.iter().enumerate();
        let others = fronts.filter(|(other, _)| *other != tier).map(|(_, front)| front.head);
        let others: Vec<Head> = others.collect::<Option<_>>()?;
        let first = *others.first()?;
        let known: u64 = others.iter().map(|head| u64::from(head.slots)).sum();
        let reserve = u64::from(RESERVE_SLOTS) * u64::from(first.tiers);
        let slots = (u64::from(first.extents) + reserve).checked_sub(known)?;
        let layout = Layout {
            extent_bytes: first.extent_bytes,
            tiers: Vec::new(),
            extents: first.extents,
            checkpoint_blocks: first.checkpoint_blocks,
            journal_records: first.journal_records,
        };
        let is_fastest = tier + 1 == self.devices.len();
        let used = if is_fastest { layout.checked_metadata_end()? } else { FRONT_BYTES };
        let data_offset = used.checked_next_multiple_of(first.extent_bytes)?;
        let newest = others.iter().map(|head| head.generation).max()?;
        let settled = settled(&self.candidate.fronts);
        Some(Head {
            generation: settled.generation.max(newest.checked_sub(1)?),
            tier: u32::try_from(tier).ok()?,
            data_offset,
            slots: u32::try_from(slots).ok()?,
            opening: settled.by,
            ..first
        })
    }
}
