//! What the heads of all tiers say together: a new volume, one whose making was cut short, one that
//! is in use, or none that may be touched.
//!
//! | heads | verdict |
//! |---|---|
//! | all blank or of generation 0 | make a volume |
//! | all of one volume, some of generation 0, none above 1 | its making was cut short: go on |
//! | all of one volume, none older than the last opening that came to its end | in use |
//! | anything else | refused |
//!
//! An opening counts all heads up twice, and says that it has come to its end by the first of these
//! generations. So it has written both copies of each head, either does, and whatever was there
//! before it is older.

use super::format::VolumeId;
use super::format::head::Head;
use super::layout::{EXTENT_BYTES, Layout, RESERVE_SLOTS, TierLayout};
use super::map::SLOTS_MAX;
use super::refusal::{Refusal, RefusalReason};
use super::rules::{Mutant, Rules};
use crate::lease::{self, Front, Settled};
use crate::notes::{PartDevice, Unfit};

/// The most that a head can be behind another one: by one where an opening was cut short, and by
/// one more where the newer copy has gone bad.
const BEHIND_MAX: u64 = 2;

/// What to do with the tiers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Make a volume, of this name if one was begun.
    Make(Option<VolumeId>),
    /// Use the volume.
    Use(Usable),
}

/// A volume that can be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) volume: VolumeId,
    pub(super) layout: Layout,
    /// Each tier's generation.
    pub(super) generations: Vec<u64>,
    /// The last opening that came to its end.
    pub(super) settled: Settled,
}

/// Judges all fronts, by tier.
pub(super) fn judge(
    extent_bytes: u64,
    devices: &[PartDevice],
    fronts: &[Front<Head>],
    rules: Rules,
) -> Result<Verdict, Refusal> {
    let refuse = |tier: usize, reason| Refusal { tier: devices[tier].name.clone(), reason };
    let unfit = |tier: usize, why: Unfit| refuse(tier, why.into());
    let heads: Vec<Option<Head>> = fronts.iter().map(|front| front.head).collect();
    let newest = heads.iter().flatten().map(|head| head.generation).max().unwrap_or(0);
    if newest == 0 {
        return Ok(Verdict::Make(None));
    }
    let mut found = Vec::new();
    for (tier, head) in heads.into_iter().enumerate() {
        let head = head.ok_or_else(|| unfit(tier, Unfit::Blank))?;
        let first = found.first().unwrap_or(&head);
        belongs(tier, &head, first, devices, rules).map_err(|reason| refuse(tier, reason))?;
        found.push(head);
    }
    let volume = found[0].volume;
    if newest == 1 && found.iter().any(|head| head.generation == 0) {
        return Ok(Verdict::Make(Some(volume)));
    }
    let settled = lease::settled(fronts);
    let oldest = if settled.generation == 0 { newest - 1 } else { settled.generation };
    let oldest = oldest.max(newest.saturating_sub(BEHIND_MAX));
    for (tier, head) in found.iter().enumerate() {
        let oldest = if rules.is_broken(Mutant::AcceptOlder) { 0 } else { oldest };
        let fits = fits(head, (oldest, newest), extent_bytes, &devices[tier]);
        fits.map_err(|reason| refuse(tier, reason))?;
    }
    let layout = layout(&found).ok_or_else(|| unfit(0, Unfit::HeadDamaged))?;
    let generations = found.iter().map(|head| head.generation).collect();
    Ok(Verdict::Use(Usable { volume, layout, generations, settled }))
}

/// Whether a head is that of this tier of the first tier's volume.
fn belongs(
    tier: usize,
    head: &Head,
    first: &Head,
    devices: &[PartDevice],
    rules: Rules,
) -> Result<(), RefusalReason> {
    let expected = u32::try_from(tier).expect("few tiers");
    let count = u32::try_from(devices.len()).expect("few tiers");
    if head.volume != first.volume {
        return Err(Unfit::OtherVolume { found: head.volume, expected: first.volume }.into());
    }
    if head.tiers != count {
        return Err(RefusalReason::TierCount { found: head.tiers, expected: count });
    }
    if head.tier != expected && !rules.is_broken(Mutant::MixTiers) {
        return Err(RefusalReason::OtherTier { found: head.tier, expected });
    }
    Ok(())
}

/// Whether a tier is as it was left, and as the policy has it.
fn fits(
    head: &Head,
    (oldest, newest): (u64, u64),
    extent_bytes: u64,
    device: &PartDevice,
) -> Result<(), RefusalReason> {
    if head.generation < oldest {
        return Err(Unfit::Stale { found: head.generation, expected: newest }.into());
    }
    if !head.extent_bytes.is_power_of_two() || !EXTENT_BYTES.contains(&head.extent_bytes) {
        return Err(Unfit::HeadDamaged.into());
    }
    if head.extent_bytes != extent_bytes {
        let found = head.extent_bytes;
        return Err(RefusalReason::ExtentBytes { found, expected: extent_bytes });
    }
    let used = u64::from(head.slots) * head.extent_bytes;
    Ok(Unfit::check_room(device, head.data_offset, used)?)
}

/// What lies where, if the heads agree on something that can be.
fn layout(heads: &[Head]) -> Option<Layout> {
    let first = heads[0];
    let common = |head: &Head| (head.extents, head.checkpoint_blocks, head.journal_records);
    let layout = Layout {
        extent_bytes: first.extent_bytes,
        tiers: heads
            .iter()
            .map(|head| TierLayout { data_offset: head.data_offset, slots: head.slots })
            .collect(),
        extents: first.extents,
        checkpoint_blocks: first.checkpoint_blocks,
        journal_records: first.journal_records,
    };
    let slots: u64 = heads.iter().map(|head| u64::from(head.slots)).sum();
    let reserve = u64::from(RESERVE_SLOTS) * heads.len() as u64;
    let holds = heads.iter().all(|head| common(head) == common(&first) && head.slots > 0)
        && slots <= u64::from(SLOTS_MAX)
        && slots.checked_sub(reserve) == Some(u64::from(first.extents))
        && first.extents > 0
        && layout.is_sound();
    holds.then_some(layout)
}
