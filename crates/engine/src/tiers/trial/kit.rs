//! A tiered volume for trials: four slots of a slow drive, three of a fast one.

use std::cell::RefCell;
use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::time::{Nanos, Span};

use super::super::choice::Choice;
use super::super::format::checkpoint;
use super::super::format::journal::Record;
use super::super::report::{Stopped, VolumeReport};
use super::super::rules::Mutant;
use super::super::{Opening, Volume};
use crate::care::{Case, Reads, Report};
use crate::lease::trial::Leased;
use crate::lease::{self, Gatekeeper, Half, Lease, Names, OwnerId, Witness};
use crate::notes::PartDevice;
use crate::notes::block::Block;
use crate::policy::{Depth, Domain, Mode, Moves, Scheduling, Sharing, TierPlan};
use crate::trial::care::Cared;
use crate::trial::damage::{Broken, Damageable};
use crate::trial::disk::{Disk, SECTOR, index};
use crate::trial::names::names;
use crate::trial::world::{self, Kit};
use crate::{Engine, Input};

pub(super) const EXTENT_BYTES: u64 = 64 << 10;
/// Slots of the slow and of the fast tier.
const SLOTS: [u64; 2] = [4, 3];
/// The moves' tenant; the clients are below.
const MOVER: TenantId = TenantId(2);

pub(super) type World = world::World<Tiers>;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Tiers {
    /// Whether all openings are of one process, which knows that those before are over.
    pub(super) is_one_process: bool,
    /// The rules that openings break.
    pub(super) broken: Broken<Mutant>,
    /// What the state folder knows.
    witness: Option<Witness>,
    openings: RefCell<Vec<OwnerId>>,
}

impl Kit for Tiers {
    type Volume = Volume;
    type Mutant = Mutant;

    fn disks() -> Vec<Disk> {
        sizes().map(Disk::new).into()
    }

    fn open(&self, disks: &mut [Disk], asks: u64) -> Option<Result<Volume, String>> {
        let mut names = names("trial");
        let mut openings = self.openings.borrow_mut();
        if self.is_one_process {
            names.before.clone_from(&openings);
        }
        openings.push(names.owner);
        let mut opening = opening(names).knowing(self.witness);
        opening.rules.mutant = self.broken.own;
        opening.candidate.tenure.right.rules.mutant = self.broken.lease;
        let opened = world::open(disks, asks, opening)?;
        Some(opened.map_err(|refusal| refusal.to_string()))
    }

    fn size_bytes(volume: &Volume) -> u64 {
        volume.size_bytes()
    }

    fn content(disks: &[Disk], volume: &Volume) -> Result<Vec<u8>, String> {
        let extent = |extent| {
            let place = volume.map().place(extent);
            let offset = volume.layout().slot_offset(place.tier(), place.slot());
            disks[place.tier()].read(offset, EXTENT_BYTES)
        };
        Ok((0..volume.map().extents()).map(extent).collect::<Vec<_>>().concat())
    }

    fn engine(now: Nanos, volume: Volume, mutant: Option<Mutant>) -> Engine {
        let mut engine = Engine::new(now, &domain(Mode::Enforce, 4));
        engine.handle(now, Input::Volume(Box::new(volume)));
        engine.handle(now, Input::Held { until: Nanos(u64::MAX) });
        engine.volume.as_mut().unwrap().tiered_mut().mover.rules.mutant = mutant;
        engine
    }
}

impl Leased for Tiers {
    type Opening = Opening;
    const NAME: &'static str = "tiered";

    fn blank() -> Vec<Disk> {
        Self::disks()
    }

    fn opening(names: Names) -> Opening {
        opening(names)
    }

    fn right(opening: &mut Opening) -> &mut Gatekeeper {
        &mut opening.candidate.tenure.right
    }

    fn lease(volume: &Volume, tier: usize) -> Lease {
        volume.lease(tier)
    }
}

impl Damageable for Tiers {
    fn noted(engine: &Engine, tier: usize) -> Vec<Range<u64>> {
        let layout = volume_of(engine).layout();
        let halves = [Half::First, Half::Second].map(|half| layout.half_range(half));
        let noted = halves.into_iter().filter(|_| tier == layout.fastest());
        std::iter::once(0..Lease::front_bytes()).chain(noted).collect()
    }

    fn lease(engine: &Engine, tier: usize) -> Lease {
        volume_of(engine).lease(tier)
    }

    fn breaking(broken: Broken<Mutant>) -> Self {
        Self { broken, ..Self::default() }
    }

    fn witness(engine: &Engine) -> Witness {
        volume_of(engine).witness()
    }

    fn know(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    fn stir(world: &mut World, prng: &mut Prng) {
        if world.engine.volume.as_ref().unwrap().tiered().unwrap().mover.is_idle(world.now()) {
            world.begin_move(u32::try_from(index(prng, 5)).unwrap());
        }
    }
}

impl Cared for Tiers {
    type Opening = Opening;

    fn check(case: &Case, reads: &mut dyn Reads) -> Report {
        super::super::check(EXTENT_BYTES, case, reads)
    }

    fn repair(_: &[Disk]) -> Opening {
        opening(names("repair")).repairing()
    }

    fn break_rule(opening: &mut Opening, rule: Option<lease::Mutant>) {
        opening.candidate.tenure.right.rules.mutant = rule;
    }

    fn lease_of(volume: &Volume, tier: usize) -> Lease {
        volume.lease(tier)
    }

    fn in_use(world: &World) -> Vec<(usize, u64)> {
        let volume = volume_of(&world.engine);
        let fastest = volume.layout.fastest();
        let range = volume.layout.half_range(volume.office.half);
        let blocks: Vec<(u64, Block)> = range
            .step_by(4096)
            .map(|at| (at, world.disks[fastest].read(at, 4096).try_into().unwrap()))
            .collect();
        let maps = blocks.iter().filter_map(|(at, block)| {
            let (head, _) = checkpoint::decode(volume.id(), *at, block)?;
            (head.term >= volume.office.since).then_some((*at, head.sequence))
        });
        let maps: Vec<_> = maps.collect();
        let first = maps.iter().map(|(_, sequence)| *sequence).min().unwrap();
        let is_needed = |(at, block): &&(u64, Block)| {
            let record = Record::decode(volume.id(), *at, block);
            record.is_some_and(|one| one.sequence > first && one.term >= volume.office.since)
        };
        let records = blocks.iter().filter(is_needed).map(|(at, _)| *at);
        maps.iter().map(|(at, _)| *at).chain(records).map(|at| (fastest, at)).collect()
    }
}

fn volume_of(engine: &Engine) -> &Volume {
    engine.volume.as_ref().unwrap().tiered().unwrap().volume()
}

impl World {
    /// Begins to move an extent, if nothing else moves and there is a slot.
    pub(super) fn begin_move(&mut self, extent: u32) {
        let now = self.now();
        let volume = self.engine.volume.as_mut().unwrap().tiered_mut();
        let tier = 1 - volume.volume().map().place(extent).tier();
        volume.begin_move(now, Choice { extent, tier });
    }

    /// Whether writes to an extent are held.
    pub(super) fn is_holding(&self) -> bool {
        self.engine.volume.as_ref().unwrap().tiered().unwrap().mover.is_holding()
    }

    /// How many records the journal ever had.
    pub(super) fn journal_sequence(&self) -> u64 {
        self.engine.volume.as_ref().unwrap().tiered().unwrap().volume().journal.last()
    }

    /// The accounts of the volume.
    pub(super) fn report(&mut self) -> VolumeReport {
        self.engine.report(self.now()).volume.unwrap()
    }

    /// Whether moving has stopped, with which extent in doubt.
    pub(super) fn in_doubt(&mut self) -> Option<u32> {
        match self.report().moves.stopped {
            Some(Stopped::InDoubt { extent }) => Some(extent),
            _ => None,
        }
    }

    /// Sectors of an extent.
    pub(super) fn sectors_of(extent: u32) -> Range<usize> {
        let sectors = usize::try_from(EXTENT_BYTES).unwrap() / SECTOR;
        extent as usize * sectors..(extent as usize + 1) * sectors
    }
}

/// Begins to open the drives.
pub(super) fn opening(names: Names) -> Opening {
    let device = |(name, size_bytes): (&str, u64)| PartDevice { name: name.into(), size_bytes };
    let devices = ["slow", "fast"].into_iter().zip(sizes()).map(device).collect();
    Opening::new(names, EXTENT_BYTES, devices)
}

fn sizes() -> [u64; 2] {
    // The front, four maps and two journals take 17 extents of the fast tier.
    [(SLOTS[0] + 1) * EXTENT_BYTES, (SLOTS[1] + 17) * EXTENT_BYTES]
}

/// A policy in which so many units are with each drive.
pub(super) fn domain(mode: Mode, depth: u32) -> Domain {
    let scheduling =
        Scheduling { depth: Depth::Requests(depth), unit_bytes: 4096, ..Scheduling::default() };
    Domain {
        mode,
        sharing: Sharing::Local,
        tenants: ["a", "b", "moves"].map(|name| (name.into(), Share::default())).into(),
        servers: ["slow", "fast"].map(|name| (name.into(), scheduling.clone())).into(),
        tiers: Some(TierPlan {
            discipline: scheduling.discipline,
            servers: vec![ServerId(0), ServerId(1)],
            extent_bytes: EXTENT_BYTES,
            moves: Moves::ByHeat,
            mover: MOVER,
            patience: Span::from_secs(30),
            late: Span::from_millis(10),
        }),
        spread: None,
        ..Domain::default()
    }
}
