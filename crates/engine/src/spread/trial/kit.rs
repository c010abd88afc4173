//! A spread volume for trials: six objects over four servers of five slots each, on drives whose
//! slots held something else before.

use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::time::{Nanos, Span};

use super::super::place::Place;
use super::super::rules::Mutant;
use super::super::{Opening, Shape, SpreadReport, Volume};
use crate::care::{Case, Reads, Report};
use crate::lease::trial::Leased;
use crate::lease::{self, Gatekeeper, Lease, Names, Witness};
use crate::notes::PartDevice;
use crate::policy::{Depth, Domain, Mode, Preference, Scheduling, Sharing, SpreadPlan};
use crate::trial::care::Cared;
use crate::trial::damage::{Broken, Damageable};
use crate::trial::disk::{Disk, SECTOR};
use crate::trial::names::{names, names_of};
use crate::trial::world::{self, Kit};
use crate::{Engine, Input};

pub(super) const OBJECT_BYTES: u64 = 64 << 10;
pub(super) const SERVERS: usize = 4;
pub(super) const SLOTS: u64 = 5;
pub(super) const OBJECTS: u32 = 6;
/// Heads, table and choices take one slot's room.
const SIZE_BYTES: u64 = (SLOTS + 1) * OBJECT_BYTES;
/// What slots held before: nothing that a client ever wrote.
const STALE: u8 = 0xd5;
/// The volume's own tenant; the clients are below.
const CLERK: TenantId = TenantId(2);

pub(super) type World = world::World<Spread>;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Spread {
    /// The server that is to leave, as it is listed.
    pub(super) leaving: Option<usize>,
    /// The server that does not answer.
    pub(super) away: Option<usize>,
    /// The rules that openings break.
    pub(super) broken: Broken<Mutant>,
    /// What the state folder knows.
    pub(super) witness: Option<Witness>,
}

impl Kit for Spread {
    type Volume = Volume;
    type Mutant = Mutant;

    fn disks() -> Vec<Disk> {
        (0..SERVERS).map(|_| used_disk()).collect()
    }

    fn open(&self, disks: &mut [Disk], asks: u64) -> Option<Result<Volume, String>> {
        let mut opening = opening_leaving(disks, "trial", self.leaving);
        opening = opening.knowing(self.witness);
        opening.rules.mutant = self.broken.own;
        opening.candidate.tenure.right.rules.mutant = self.broken.lease;
        if let Some(away) = self.away {
            opening = opening.without(away);
        }
        let opened = world::open(disks, asks, opening)?;
        Some(opened.map_err(|refusal| refusal.to_string()))
    }

    fn size_bytes(volume: &Volume) -> u64 {
        volume.size_bytes()
    }

    fn content(disks: &[Disk], volume: &Volume) -> Result<Vec<u8>, String> {
        if volume.lost_objects() > 0 {
            return Err(format!("objects {:?} are lost", volume.lost));
        }
        let object = |object: u32| match volume.places.get(object).get() {
            Some((server, slot)) => {
                disks[server].read(volume.layout.slot_offset(server, slot), OBJECT_BYTES)
            }
            // Nobody looks at what is away.
            None => vec![0; usize::try_from(OBJECT_BYTES).unwrap()],
        };
        // Of what it has grown by the oracle knows nothing.
        Ok((0..OBJECTS).map(object).collect::<Vec<_>>().concat())
    }

    fn is_there(volume: &Volume, sector: usize) -> bool {
        let object = u32::try_from(sector / World::sectors_of(0).end).unwrap();
        volume.places.get(object) != Place::AWAY
    }

    fn engine(now: Nanos, volume: Volume, mutant: Option<Mutant>) -> Engine {
        let mut engine = Engine::new(now, &domain_of(volume.layout.servers.len(), 1000));
        engine.handle(now, Input::Spread(Box::new(volume)));
        hold(&mut engine, now, Nanos(u64::MAX));
        engine.volume.as_mut().unwrap().spread_mut().unwrap().rules.mutant = mutant;
        engine
    }
}

/// The volume is this gate's until then.
pub(super) fn hold(engine: &mut Engine, now: Nanos, until: Nanos) {
    engine.handle(now, Input::Held { until });
}

impl Leased for Spread {
    type Opening = Opening;
    const NAME: &'static str = "spread";

    fn blank() -> Vec<Disk> {
        Self::disks()
    }

    fn opening(names: Names) -> Opening {
        opening_by(names, SERVERS, None)
    }

    fn right(opening: &mut Opening) -> &mut Gatekeeper {
        &mut opening.candidate.tenure.right
    }

    fn lease(volume: &Volume, server: usize) -> Lease {
        volume.lease(server)
    }
}

impl Damageable for Spread {
    fn noted(engine: &Engine, server: usize) -> Vec<Range<u64>> {
        let layout = &volume_of(engine).layout;
        vec![0..Lease::front_bytes(), layout.notes_range(server)]
    }

    fn lease(engine: &Engine, server: usize) -> Lease {
        volume_of(engine).lease(server)
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

    fn tells_loss(volume: &Volume) -> bool {
        volume.lost_objects() > 0
    }
}

impl Cared for Spread {
    type Opening = Opening;

    fn check(case: &Case, reads: &mut dyn Reads) -> Report {
        super::super::check(shape(), &[false; SERVERS], case, reads)
    }

    fn repair(disks: &[Disk]) -> Opening {
        opening(disks, "repair").repairing()
    }

    fn break_rule(opening: &mut Opening, rule: Option<lease::Mutant>) {
        opening.candidate.tenure.right.rules.mutant = rule;
    }

    fn lease_of(volume: &Volume, server: usize) -> Lease {
        volume.lease(server)
    }

    fn in_use(world: &World) -> Vec<(usize, u64)> {
        let Volume { layout, office, .. } = volume_of(&world.engine);
        let ranges = (0..SERVERS).flat_map(|server| {
            let keeps = if layout.is_keeper(server) { 3 } else { 2 };
            let ranges = layout.half_ranges(server, office.half).into_iter().take(keeps);
            ranges.map(move |range| (server, range))
        });
        let blocks =
            ranges.flat_map(|(server, range)| range.step_by(4096).map(move |at| (server, at)));
        let is_written = |(server, at): &(usize, u64)| {
            world.disks[*server].read(*at, 4096).iter().any(|byte| *byte != 0)
        };
        blocks.filter(is_written).collect()
    }
}

fn volume_of(engine: &Engine) -> &Volume {
    &engine.volume.as_ref().unwrap().spread().unwrap().volume
}

impl World {
    /// The accounts of the volume.
    pub(super) fn report(&mut self) -> SpreadReport {
        self.engine.report(self.now()).spread.unwrap()
    }

    /// Sectors of an object.
    pub(super) fn sectors_of(object: usize) -> Range<usize> {
        let sectors = usize::try_from(OBJECT_BYTES).unwrap() / SECTOR;
        object * sectors..(object + 1) * sectors
    }
}

pub(super) fn shape() -> Shape {
    Shape {
        object_bytes: OBJECT_BYTES,
        size_bytes: Some(u64::from(OBJECTS) * OBJECT_BYTES),
        candidates: 2,
    }
}

/// A drive whose slots held something else.
pub(super) fn used_disk() -> Disk {
    let mut disk = Disk::new(SIZE_BYTES);
    for offset in (OBJECT_BYTES..SIZE_BYTES).step_by(SECTOR) {
        disk.write(offset, &[STALE; SECTOR], true);
    }
    disk
}

/// Begins to open the drives; each opening has a name of its own.
pub(super) fn opening(disks: &[Disk], owner_name: &str) -> Opening {
    opening_leaving(disks, owner_name, None)
}

/// The same by a gate of this number, in this run of its process after this boot of its machine.
pub(super) fn opening_after_boot(disks: &[Disk], gate: usize, process: (u64, u64)) -> Opening {
    opening_by(names_of(gate, process), disks.len(), None)
}

/// The same with a server that is to leave.
pub(super) fn opening_leaving(disks: &[Disk], owner_name: &str, leaving: Option<usize>) -> Opening {
    opening_by(names(owner_name), disks.len(), leaving)
}

/// Begins to open so many drives under these names, one of which may be to leave.
pub(super) fn opening_by(names: Names, drives: usize, leaving: Option<usize>) -> Opening {
    let device = |server| PartDevice { name: format!("s{server}"), size_bytes: SIZE_BYTES };
    let leaving = (0..drives).map(|server| leaving == Some(server)).collect();
    Opening::new(names, shape(), (0..drives).map(device).collect(), leaving)
}

/// A policy with this ceiling, in thousandths.
pub(super) fn domain(ceiling_milli: u32) -> Domain {
    domain_of(SERVERS, ceiling_milli)
}

/// The same over so many servers.
pub(super) fn domain_of(servers: usize, ceiling_milli: u32) -> Domain {
    let scheduling =
        Scheduling { depth: Depth::Requests(4), unit_bytes: 4096, ..Scheduling::default() };
    let ids = (0..).map(ServerId).take(servers);
    Domain {
        mode: Mode::Enforce,
        sharing: Sharing::Total,
        tenants: ["a", "b", "moves"].map(|name| (name.into(), Share::default())).into(),
        servers: ids.clone().map(|id| (format!("s{}", id.0), scheduling.clone())).collect(),
        tiers: None,
        spread: Some(SpreadPlan {
            servers: ids.collect(),
            near: vec![false; servers],
            prefer: vec![Preference::Space],
            ceiling_milli,
            clerk: CLERK,
            patience: Span::from_secs(30),
        }),
        ..Domain::default()
    }
}
