//! What becomes of a volume whose members do not bring back what was written to them: a block has
//! rotted, cannot be read, or was never written; a member is an older copy of itself, a blank one,
//! or another one. Whatever it is, the volume is refused by name or comes up with all that was
//! written; it is never wrong without a word, and never made anew.
//!
//! A life of a volume is work with beats between, then a stop or a kill. Damage comes after the
//! first life, the second or the third: a young volume is as safe as an old one.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use evenkeel_core::prng::Prng;

use super::disk::{Cut, Disk, SECTOR, index};
use super::names::as_another;
use super::world::{Act, Kit, World};
use crate::Engine;
use crate::lease::{self, Durable, Lease, Mark, Witness};

/// A block of what a volume notes.
const BLOCK_BYTES: u64 = 4096;
/// Asks after which an opening is cut short at the latest, if it is.
const CUT_ASKS_MAX: u64 = 60;
/// Seeds after which a rule counts as not needed.
const SEEDS_MAX: u64 = 120;

/// A kind of volume that can be damaged.
pub(crate) trait Damageable: Kit {
    /// Areas of a member in which the volume notes, its front among them.
    fn noted(engine: &Engine, member: usize) -> Vec<Range<u64>>;

    /// The lease that the volume was opened with, on this member.
    fn lease(engine: &Engine, member: usize) -> Lease;

    /// A volume whose openings break these rules.
    fn breaking(broken: Broken<Self::Mutant>) -> Self;

    /// What the state folder would know of the volume.
    fn witness(engine: &Engine) -> Witness;

    /// From now on the state folder knows this of the volume.
    fn know(&mut self, witness: Witness);

    /// Whether the volume says itself that it has lost something.
    fn tells_loss(_: &Self::Volume) -> bool {
        false
    }

    /// Something moves, if that is what it does.
    fn stir(_: &mut World<Self>, _: &mut Prng) {}
}

/// Rules that a trial breaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken<M> {
    /// Of those of the kind of volume.
    pub(crate) own: Option<M>,
    /// Of those of all kinds.
    pub(crate) lease: Option<lease::Mutant>,
}

impl<M> Default for Broken<M> {
    fn default() -> Self {
        Self { own: None, lease: None }
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A byte of a note is another one.
    Rot,
    /// A block of notes cannot be read, at one opening.
    Unreadable,
    /// A block of notes is as it was some time ago: writes to it were lost.
    Lost,
    /// A block of notes is a new one up to a sector, and an old one from there on.
    Torn,
    /// A member is as it was some time ago, in the same life.
    RolledBack,
    /// A member is as it was in an earlier life; in the first one as it was made.
    Stale,
    /// A member is blank.
    Empty,
    /// Two members are in each other's place.
    Exchanged,
    /// A member is that of another volume.
    Foreign,
}

impl Fault {
    pub(crate) const ALL: [Self; 9] = [
        Self::Rot,
        Self::Unreadable,
        Self::Lost,
        Self::Torn,
        Self::RolledBack,
        Self::Stale,
        Self::Empty,
        Self::Exchanged,
        Self::Foreign,
    ];

    /// Whether it is a whole member that is not what it was.
    fn is_of_member(self) -> bool {
        !matches!(self, Self::Rot | Self::Unreadable | Self::Lost | Self::Torn)
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) refused: u32,
    /// Why, if it was.
    why: String,
    /// It came up, with all that was written.
    pub(crate) served: u32,
    /// It came up, and names what it has lost.
    pub(crate) told: u32,
}

/// A trial of one kind of fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damage {
    pub(crate) fault: Fault,
    /// Lives before.
    pub(crate) age: u32,
    /// Whether the owner has let go, or was killed.
    pub(crate) is_clean: bool,
    /// After so many asks an opening was cut short before; there was none if 0.
    pub(crate) cut_after: u64,
}

/// What is wrong with all members at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plight {
    /// They have lost all heads, and say nothing of owners.
    Headless,
    /// All heads are damaged.
    Rotten,
    /// No head can be read, at one opening.
    Unreadable,
    /// They are blank; the state folder knows the volume.
    Empty,
    /// They are those of another volume; the state folder knows this one.
    Foreign,
    /// They are as they were some time ago; the state folder knows that there was more.
    RolledBack,
    /// They are as they were in an earlier life; the state folder knows that there was a later one.
    Stale,
}

impl Plight {
    pub(crate) const ALL: [Self; 7] = [
        Self::Headless,
        Self::Rotten,
        Self::Unreadable,
        Self::Empty,
        Self::Foreign,
        Self::RolledBack,
        Self::Stale,
    ];
}

/// Members as they were.
pub(super) struct Copies {
    /// In an earlier life, or as they were made.
    made: Vec<Disk>,
    /// Some time ago.
    before: Vec<Disk>,
    /// Those of another volume.
    other: Vec<Disk>,
}

/// A volume at work, with the beats of its owner.
pub(super) struct Scene<K: Damageable> {
    pub(super) world: World<K>,
    leases: Vec<Lease>,
    count: u64,
    /// The rule that its gate breaks while it serves.
    check: Option<lease::Mutant>,
}

impl<K: Damageable> Scene<K> {
    fn new(broken: Broken<K::Mutant>, seed: u64) -> Self {
        let world = World::with(K::breaking(broken), seed, None);
        let mut scene = Self { world, leases: Vec::new(), count: 0, check: broken.lease };
        scene.take_office();
        scene
    }

    /// So many lives, and one more; with copies of its members as they were.
    pub(super) fn live(seed: u64, age: u32, prng: &mut Prng) -> Result<(Self, Copies), String> {
        Self::live_breaking(Broken::default(), seed, age, prng)
    }

    /// The same where rules are broken.
    fn live_breaking(
        broken: Broken<K::Mutant>,
        seed: u64,
        age: u32,
        prng: &mut Prng,
    ) -> Result<(Self, Copies), String> {
        let mut scene = Self::new(broken, seed);
        let mut copies =
            Copies { made: scene.world.disks.clone(), before: Vec::new(), other: Vec::new() };
        for life in 0..=age {
            if life > 0 {
                scene.stop(prng.below(2) == 0);
                scene.world.restart(None)?;
                scene.take_office();
                // Of the last life but one, so that nothing of it is as it was.
                copies.made.clone_from(&copies.before);
            }
            scene.work(prng)?;
            scene.beat();
            copies.before = scene.world.disks.clone();
        }
        copies.other = as_another(|| Self::new(broken, seed).world.disks);
        scene.work(prng)?;
        // The second one records that the first is durable.
        scene.beat();
        scene.beat();
        Ok((scene, copies))
    }

    fn take_office(&mut self) {
        let members = 0..self.world.disks.len();
        self.leases = members.map(|member| K::lease(&self.world.engine, member)).collect();
        self.leases.iter_mut().for_each(|lease| lease.rules.mutant = self.check);
        self.count = 0;
    }

    fn mark(&self) -> Mark {
        let counts = self.leases.iter().map(|lease| (lease.number(), lease.durable()));
        Mark::new(self.world.engine.noted(), self.count, Durable::of(counts))
    }

    /// A beat on every member, made durable.
    fn beat(&mut self) {
        self.count += 1;
        for member in 0..self.leases.len() {
            let mark = self.mark();
            let (lease, disk) = (&mut self.leases[member], &mut self.world.disks[member]);
            lease.look(&front(disk)).expect("it is what it was");
            lease.mark(mark);
            let (offset, bytes) = lease.beat();
            disk.write(offset, &bytes, false);
            lease.beaten();
            disk.flush(disk.acknowledged());
            lease.flushed(lease.beats());
        }
    }

    /// Clients write, and all of it becomes durable.
    fn work(&mut self, prng: &mut Prng) -> Result<(), String> {
        let world = &mut self.world;
        for _ in 0..30 {
            if prng.below(3) == 0 {
                K::stir(world, prng);
            }
            let acts = [Act::Write, Act::Write, Act::Zero, Act::Read];
            world.act(acts[index(prng, acts.len())], world.sectors());
            world.drain()?;
            for _ in 0..prng.below(12) {
                world.complete_one()?;
            }
        }
        world.settle()?;
        let all = world.sectors();
        world.act(Act::Flush, all);
        world.drain()?;
        world.settle()
    }

    /// The gate stops: it lets go, or is killed.
    pub(super) fn stop(&mut self, is_clean: bool) {
        for member in 0..self.leases.len() {
            let mark = self.mark();
            let (lease, disk) = (&mut self.leases[member], &mut self.world.disks[member]);
            if is_clean {
                lease.mark(mark);
                let (offset, bytes) = lease.release();
                disk.write(offset, &bytes, false);
            }
        }
        self.world.die(None);
    }

    /// A block of notes of a member.
    pub(super) fn note(&self, member: usize, prng: &mut Prng) -> u64 {
        let areas = K::noted(&self.world.engine, member);
        let area = areas[index(prng, areas.len())].clone();
        area.start + prng.below((area.end - area.start) / BLOCK_BYTES) * BLOCK_BYTES
    }
}

fn front(disk: &Disk) -> Vec<u8> {
    disk.read(0, Lease::front_bytes())
}

impl Damage {
    /// Lives, then damage, then an opening, and another one.
    ///
    /// # Errors
    /// What is wrong without a word.
    pub(crate) fn run<K: Damageable>(
        self,
        broken: Broken<K::Mutant>,
        seed: u64,
    ) -> Result<Outcome, String> {
        let mut prng = Prng::new(seed ^ 0xda3a_6e00);
        let (mut scene, copies) = Scene::<K>::live_breaking(broken, seed, self.age, &mut prng)?;
        let member = index(&mut prng, scene.world.disks.len());
        let note = scene.note(member, &mut prng);
        if self.fault.is_of_member() {
            let mut disks = scene.world.disks.clone();
            self.apply(&mut disks, &copies, (member, note), &mut prng);
            if scene.leases[member].look(&front(&disks[member])).is_ok() {
                return Err(format!("member {member} is served from, while the gate runs"));
            }
        }
        scene.stop(self.is_clean);
        if self.cut_after > 0 {
            let opened = scene.world.kit.open(&mut scene.world.disks, self.cut_after);
            opened.transpose().map_err(|why| format!("before anything is wrong: {why}"))?;
        }
        let whole = scene.world.disks.clone();
        self.apply(&mut scene.world.disks, &copies, (member, note), &mut prng);
        let outcome = open(&mut scene.world)?;
        let says = || format!("member {member}, note at {note}");
        if self.fault.is_of_member() && outcome.told > 0 {
            return Err(format!("what another member may have is given up, {}", says()));
        }
        if self.fault == Fault::Unreadable || outcome.refused == 1 {
            scene.world.disks.iter_mut().for_each(Disk::heal);
            if self.fault.is_of_member() {
                // The operator attaches what was used last.
                scene.world.disks = whole;
            }
            let again =
                open(&mut scene.world).map_err(|why| format!("again: {why}, {}", says()))?;
            let must_serve = self.fault == Fault::Unreadable || self.fault.is_of_member();
            if must_serve && again.served == 0 {
                let why = format!("{} after {:?}", again.why, outcome.why);
                return Err(format!("the right members are refused: {why}, {}", says()));
            }
        }
        Ok(outcome)
    }

    pub(super) fn apply(
        self,
        disks: &mut [Disk],
        copies: &Copies,
        (member, note): (usize, u64),
        prng: &mut Prng,
    ) {
        match self.fault {
            Fault::Rot => {
                let mut block = disks[member].read(note, BLOCK_BYTES);
                let at = index(prng, block.len());
                block[at] ^= 1 << prng.below(8);
                disks[member].write(note, &block, true);
            }
            Fault::Unreadable => disks[member].lose(note, BLOCK_BYTES),
            Fault::Lost => {
                let block = copies.before[member].read(note, BLOCK_BYTES);
                disks[member].write(note, &block, true);
            }
            Fault::Torn => {
                let new = disks[member].read(note, BLOCK_BYTES);
                let mut block = copies.before[member].read(note, BLOCK_BYTES);
                let sectors = 1 + index(prng, block.len() / SECTOR - 1);
                block[..sectors * SECTOR].copy_from_slice(&new[..sectors * SECTOR]);
                disks[member].write(note, &block, true);
            }
            Fault::RolledBack => disks[member] = copies.before[member].clone(),
            Fault::Stale => disks[member] = copies.made[member].clone(),
            Fault::Empty => disks[member] = Disk::new(disks[member].size_bytes()),
            Fault::Exchanged => {
                let other = (member + 1) % disks.len();
                disks.swap(member, other);
            }
            Fault::Foreign => disks[member] = copies.other[member].clone(),
        }
    }
}

/// Opens a volume, and looks at all of it.
fn open<K: Damageable>(world: &mut World<K>) -> Result<Outcome, String> {
    let opened = world.kit.open(&mut world.disks, u64::MAX).expect("asks without end");
    let volume = match opened {
        Ok(volume) => volume,
        Err(why) => return Ok(Outcome { refused: 1, why, ..Outcome::default() }),
    };
    if K::tells_loss(&volume) {
        return Ok(Outcome { told: 1, ..Outcome::default() });
    }
    world.check_all(&volume, false)?;
    Ok(Outcome { served: 1, ..Outcome::default() })
}

/// Lives, then all members are not what they were, and an opening.
///
/// # Errors
/// It comes up.
fn run_plight<K: Damageable>(
    plight: Plight,
    age: u32,
    broken: Broken<K::Mutant>,
    seed: u64,
) -> Result<(), String> {
    let mut prng = Prng::new(seed ^ 0x0a11);
    let (mut scene, copies) = Scene::<K>::live_breaking(broken, seed, age, &mut prng)?;
    let opened = K::witness(&scene.world.engine);
    // Of another life the opening alone tells. Without a beat the state folder knows no more.
    let is_of_life = plight == Plight::RolledBack || age == 0;
    let knows_beats = is_of_life && plight != Plight::Foreign;
    let witness = if knows_beats { opened.at(scene.mark()) } else { opened };
    scene.stop(seed.is_multiple_of(2));
    let world = &mut scene.world;
    let heads = 0..2 * BLOCK_BYTES;
    for (member, disk) in world.disks.iter_mut().enumerate() {
        match plight {
            Plight::Headless => disk.write(0, &vec![0; front(disk).len()], true),
            Plight::Rotten => {
                for offset in heads.clone().step_by(4096) {
                    let mut block = disk.read(offset, BLOCK_BYTES);
                    block[100] ^= 1;
                    disk.write(offset, &block, true);
                }
            }
            Plight::Unreadable => disk.lose(0, heads.end),
            Plight::Empty => *disk = Disk::new(disk.size_bytes()),
            Plight::Foreign => *disk = copies.other[member].clone(),
            Plight::RolledBack => *disk = copies.before[member].clone(),
            Plight::Stale => *disk = copies.made[member].clone(),
        }
    }
    if !matches!(plight, Plight::Headless | Plight::Rotten | Plight::Unreadable) {
        world.kit.know(witness);
    }
    match world.kit.open(&mut world.disks, u64::MAX).expect("asks without end") {
        Ok(_) => Err("it comes up".to_owned()),
        Err(_) => Ok(()),
    }
}

/// Tries everything that can be wrong with all members at every age, so many times each.
pub(crate) fn survey_plights<K: Damageable>(times: u64) {
    for plight in Plight::ALL {
        for seed in 0..times {
            let age = u32::try_from(seed % 3).expect("small");
            run_plight::<K>(plight, age, Broken::default(), seed)
                .unwrap_or_else(|why| panic!("{plight:?} at age {age}, seed {seed}: {why}"));
        }
    }
}

/// A volume is let go of while these blocks of its notes, by member and offset, lie in the drives'
/// caches alone. It is opened and written to; later the power is cut.
///
/// # Errors
/// What was promised is lost.
pub(crate) fn reread<K: Damageable>(
    world: &mut World<K>,
    cached: &[(usize, u64)],
) -> Result<(), String> {
    for (member, offset) in cached {
        world.disks[*member].give_up(*offset, BLOCK_BYTES);
    }
    for member in 0..world.disks.len() {
        let (offset, bytes) = K::lease(&world.engine, member).release();
        world.disks[member].write(offset, &bytes, true);
    }
    world.restart(None)?;
    world.act_on(Act::Force, world.sectors());
    world.drain()?;
    world.settle()?;
    world.restart(Some(Cut::LoseAll))
}

/// What a trial of broken rules does to a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Harm {
    /// To a member, or a block of its notes.
    One(Fault),
    /// The same after an opening that was cut short.
    AfterCut(Fault),
    /// To all members.
    All(Plight),
}

impl Harm {
    fn run<K: Damageable>(self, broken: Broken<K::Mutant>, seed: u64) -> Result<(), String> {
        let age = u32::try_from(seed % 3).expect("small");
        let damage = |fault, cut_after| {
            let damage = Damage { fault, age, is_clean: seed.is_multiple_of(2), cut_after };
            damage.run::<K>(broken, seed).map(drop)
        };
        match self {
            Self::One(fault) => damage(fault, 0),
            Self::AfterCut(fault) => damage(fault, 1 + seed % CUT_ASKS_MAX),
            Self::All(plight) => run_plight::<K>(plight, age, broken, seed),
        }
    }
}

/// Harm is noticed that is done to volumes whose openings break a rule.
pub(crate) fn assert_noticed<K: Damageable>(broken: Broken<K::Mutant>, harm: Harm)
where
    K::Mutant: std::fmt::Debug,
{
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let run = || harm.run::<K>(broken, seed);
        // Who trusts a wrong member may look for something behind its end.
        let result = catch_unwind(AssertUnwindSafe(run));
        Some((seed, result.unwrap_or_else(|_| Err("it panics".to_owned())).err()?))
    });
    let (seed, why) = found.unwrap_or_else(|| panic!("{broken:?} goes unnoticed with {harm:?}"));
    println!("{broken:?}: seed {seed}: {why}");
}

/// Each rule of openings of all kinds that is broken is noticed.
pub(crate) fn notices_each_rule_of_the_lease<K: Damageable>()
where
    K::Mutant: std::fmt::Debug,
{
    use lease::Mutant;
    for (rule, harm) in [
        (Mutant::MakeOver, Harm::All(Plight::Headless)),
        (Mutant::BlankIfDamaged, Harm::All(Plight::Rotten)),
        (Mutant::ForgetVolume, Harm::All(Plight::Empty)),
        (Mutant::TakeOther, Harm::All(Plight::Foreign)),
        (Mutant::ForgetOpening, Harm::All(Plight::Stale)),
        (Mutant::ForgetCount, Harm::All(Plight::RolledBack)),
        (Mutant::TrustRolledBack, Harm::One(Fault::RolledBack)),
        (Mutant::DropMarks, Harm::AfterCut(Fault::RolledBack)),
        (Mutant::TrustReturn, Harm::One(Fault::RolledBack)),
        (Mutant::TrustPlace, Harm::One(Fault::Exchanged)),
        (Mutant::TrustPlace, Harm::One(Fault::Foreign)),
    ] {
        assert_noticed::<K>(Broken { own: None, lease: Some(rule) }, harm);
    }
}

/// Tries every fault at every age, so many times each; returns what came of each fault.
pub(crate) fn survey<K: Damageable>(times: u64) -> Vec<(Fault, Outcome)> {
    let mut found = Vec::new();
    for fault in Fault::ALL {
        let mut sum = Outcome::default();
        for seed in 0..times {
            let (age, is_clean) = (u32::try_from(seed % 3).expect("small"), seed % 2 == 0);
            // Every other one after an opening that was cut short.
            let cut_after = if seed / 2 % 2 == 0 { 0 } else { 1 + seed % CUT_ASKS_MAX };
            let damage = Damage { fault, age, is_clean, cut_after };
            let outcome = damage.run::<K>(Broken::default(), seed).unwrap_or_else(|why| {
                panic!("{damage:?}, seed {seed}: {why}");
            });
            sum.refused += outcome.refused;
            sum.served += outcome.served;
            sum.told += outcome.told;
        }
        println!("{fault:?}: {sum:?}");
        found.push((fault, sum));
    }
    found
}

/// How often each fault is tried: `EVENKEEL_DAMAGE` times, where that is set.
#[expect(clippy::disallowed_methods, reason = "how many there are is said from outside")]
pub(crate) fn times() -> u64 {
    let wanted = std::env::var("EVENKEEL_DAMAGE").ok().and_then(|text| text.parse().ok());
    wanted.unwrap_or(60)
}
