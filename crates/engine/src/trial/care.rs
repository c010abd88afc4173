//! Checks and repairs on trial: a healthy volume is found to be so; whatever block that is in use
//! is damaged, it is found; and a repair that says nothing of a loss leaves a volume that serves
//! just what was written.

use super::damage::{Damage, Damageable, Fault, Scene};
use super::disk::{Disk, index};
use super::world::{self, World};
use crate::care::{Case, Reads, Report, Severity, Verdict};
use crate::lease::{Lease, Mutant};
use crate::notes::{Opens, PartDevice};
use evenkeel_core::prng::Prng;

const BLOCK_BYTES: u64 = 4096;

/// A kind of volume that can be checked and repaired.
pub(crate) trait Cared: Damageable {
    type Opening: Opens<Volume = Self::Volume>;

    fn check(case: &Case, reads: &mut dyn Reads) -> Report;

    /// The opening that a repair is.
    fn repair(disks: &[Disk]) -> Self::Opening;

    /// Breaks a rule of it.
    fn break_rule(opening: &mut Self::Opening, rule: Option<Mutant>);

    fn lease_of(volume: &Self::Volume, member: usize) -> Lease;

    /// Blocks beside the fronts that a reader may need, by member and offset.
    fn in_use(world: &World<Self>) -> Vec<(usize, u64)>;
}

struct Drives<'a>(&'a [Disk]);

impl Reads for Drives<'_> {
    fn read(&mut self, member: usize, offset: u64, length: u64) -> Option<Vec<u8>> {
        let disk = &self.0[member];
        disk.is_readable(offset, length).then(|| disk.read(offset, length))
    }
}

pub(crate) fn check<K: Cared>(disks: &[Disk]) -> Report {
    let device = |(at, disk): (usize, &Disk)| PartDevice {
        name: format!("m{at}"),
        size_bytes: disk.size_bytes(),
    };
    let devices = disks.iter().enumerate().map(device).collect();
    let case = Case { devices, away: vec![None; disks.len()], witness: None };
    K::check(&case, &mut Drives(disks))
}

/// A repair, after which the volume is let go of.
pub(crate) fn repair<K: Cared>(disks: &mut [Disk]) -> Result<K::Volume, String> {
    repair_breaking::<K>(None, disks)
}

/// The same where a rule is broken.
fn repair_breaking<K: Cared>(
    rule: Option<Mutant>,
    disks: &mut [Disk],
) -> Result<K::Volume, String> {
    let mut opening = K::repair(disks);
    K::break_rule(&mut opening, rule);
    let opened = world::open(disks, u64::MAX, opening).expect("asks without end");
    let volume = opened.map_err(|why| why.to_string())?;
    for (member, disk) in disks.iter_mut().enumerate() {
        let (offset, bytes) = K::lease_of(&volume, member).release();
        disk.write(offset, &bytes, true);
    }
    Ok(volume)
}

/// A volume at rest after so many lives.
fn lived<K: Cared>(seed: u64, is_clean: bool) -> (Scene<K>, Prng) {
    let mut prng = Prng::new(seed ^ 0xca5e);
    let age = u32::try_from(seed % 3).expect("small");
    let (mut scene, _) = Scene::<K>::live(seed, age, &mut prng).expect("nothing is wrong");
    scene.stop(is_clean);
    (scene, prng)
}

/// A healthy volume is found to be healthy.
pub(crate) fn finds_nothing<K: Cared>(seeds: u64) {
    for seed in 0..seeds {
        for is_clean in [true, false] {
            let (scene, _) = lived::<K>(seed, is_clean);
            let before = scene.world.disks.clone();
            let report = check::<K>(&scene.world.disks);
            assert_eq!(report.verdict, Verdict::Opens, "seed {seed}");
            assert_eq!(report.findings, [], "seed {seed}, clean {is_clean}");
            assert_eq!(report.owners.iter().all(|owner| owner.is_released), is_clean);
            let is_same =
                |(a, b): (&Disk, &Disk)| a.read(0, a.size_bytes()) == b.read(0, b.size_bytes());
            assert!(before.iter().zip(&scene.world.disks).all(is_same), "nothing is written");
        }
    }
}

/// Every block that is in use is found when it is damaged.
pub(crate) fn finds_damage<K: Cared>(seeds: u64) {
    let mut tried = 0;
    for seed in 0..seeds {
        let (scene, mut prng) = lived::<K>(seed, seed % 2 == 0);
        let fronts = (0..scene.world.disks.len())
            .flat_map(|member| [0, 1, 2].map(|block| (member, block * BLOCK_BYTES)));
        for (member, offset) in fronts.chain(K::in_use(&scene.world)) {
            for is_rot in [true, false] {
                let mut disks = scene.world.disks.clone();
                if is_rot {
                    rot(&mut disks[member], offset, &mut prng);
                } else {
                    disks[member].lose(offset, BLOCK_BYTES);
                }
                let report = check::<K>(&disks);
                let is_it = |member_: Option<usize>, at: Option<u64>| {
                    member_ == Some(member) && at.is_none_or(|at| at == offset)
                };
                let mut findings = report.findings.iter();
                assert!(
                    findings
                        .any(|one| is_it(one.member, one.offset)
                            && one.severity >= Severity::Warning),
                    "seed {seed}: member {member}, block at {offset}, rot {is_rot}: {:?}",
                    report.findings
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried} blocks were damaged");
}

fn rot(disk: &mut Disk, offset: u64, prng: &mut Prng) {
    let mut block = disk.read(offset, BLOCK_BYTES);
    let at = index(prng, block.len());
    block[at] ^= 1 << prng.below(8);
    disk.write(offset, &block, true);
}

/// Whatever is wrong, a repair that says nothing of a loss serves all that was written, is clean
/// afterwards, and the volume opens as ever.
pub(crate) fn repairs<K: Cared>(seeds: u64) {
    for fault in Fault::ALL {
        let (mut mended, mut refused, mut told) = (0, 0, 0);
        for seed in 0..seeds {
            let (age, is_clean) = (u32::try_from(seed % 3).expect("small"), seed % 2 == 0);
            let damage = Damage { fault, age, is_clean, cut_after: 0 };
            let mut prng = Prng::new(seed ^ 0x9e9a);
            let (mut scene, copies) = Scene::<K>::live(seed, age, &mut prng).expect("it lives");
            let member = index(&mut prng, scene.world.disks.len());
            let note = scene.note(member, &mut prng);
            scene.stop(is_clean);
            damage.apply(&mut scene.world.disks, &copies, (member, note), &mut prng);
            let says = || format!("{damage:?}, seed {seed}, member {member}, note at {note}");
            let before = check::<K>(&scene.world.disks);
            if before.has_doubt() {
                told += 1;
                continue;
            }
            match repair::<K>(&mut scene.world.disks) {
                Err(_) => {
                    assert_eq!(before.verdict, Verdict::Refused, "{}: {before:?}", says());
                    refused += 1;
                }
                Ok(volume) => {
                    assert_ne!(before.verdict, Verdict::Refused, "{}", says());
                    scene.world.disks.iter_mut().for_each(Disk::heal);
                    if K::tells_loss(&volume) {
                        assert!(!before.is_well(), "{}", says());
                        told += 1;
                        continue;
                    }
                    let check_all = |world: &mut World<K>, volume: &K::Volume| {
                        let found = world.check_all(volume, false);
                        found.unwrap_or_else(|why| panic!("{}: {why}", says()));
                    };
                    check_all(&mut scene.world, &volume);
                    let after = check::<K>(&scene.world.disks);
                    assert_eq!(after.findings, [], "{}: before {:?}", says(), before.findings);
                    let opened = scene.world.kit.open(&mut scene.world.disks, u64::MAX);
                    let opened = opened.expect("asks without end").expect("it was repaired");
                    check_all(&mut scene.world, &opened);
                    mended += 1;
                }
            }
        }
        println!("{fault:?}: mended {mended}, refused {refused}, told {told}");
    }
}

/// What becomes of both heads of a member.
#[derive(Clone, Copy, Debug)]
enum Heads {
    Rotten,
    Blank,
    Overwritten,
    Unreadable,
}

/// A member that has lost both heads gets them back, unless nothing proves what it is.
pub(crate) fn mends_heads<K: Cared>(seeds: u64) {
    for seed in 0..seeds {
        for heads in [Heads::Rotten, Heads::Blank, Heads::Overwritten, Heads::Unreadable] {
            let mut prng = Prng::new(seed);
            let age = u32::try_from(seed % 3).expect("small");
            let (mut scene, _) = Scene::<K>::live(seed, age, &mut prng).expect("it lives");
            scene.stop(seed % 2 == 0);
            let member = index(&mut prng, scene.world.disks.len());
            let says = || format!("seed {seed}, {heads:?} of member {member}");
            let whole = scene.world.disks.clone();
            ruin(&mut scene.world.disks[member], heads, 2, &mut prng);
            let refused = scene.world.kit.open(&mut scene.world.disks.clone(), u64::MAX);
            assert!(refused.expect("asks without end").is_err(), "{}", says());
            let report = check::<K>(&scene.world.disks);
            assert_eq!(report.verdict, Verdict::NeedsRepair, "{}: {report:?}", says());
            let volume = repair::<K>(&mut scene.world.disks);
            let volume = volume.unwrap_or_else(|why| panic!("{}: {why}", says()));
            scene.world.disks.iter_mut().for_each(Disk::heal);
            scene.world.check_all(&volume, false).unwrap_or_else(|why| panic!("{}: {why}", says()));
            assert_eq!(check::<K>(&scene.world.disks).findings, [], "{}", says());

            let mut without_owner = whole.clone();
            ruin(&mut without_owner[member], heads, 3, &mut prng);
            assert_refused::<K>(without_owner, &says);
            let mut two = whole.clone();
            for member in [member, (member + 1) % whole.len()] {
                ruin(&mut two[member], heads, 2, &mut prng);
            }
            assert_refused::<K>(two, &says);
        }
    }
}

/// A member without heads that is an older copy, or another volume's, is nothing to mend.
pub(crate) fn mends_no_other<K: Cared>(seeds: u64) {
    let mut repaired = 0;
    for seed in 0..seeds {
        for fault in [Fault::Stale, Fault::Foreign, Fault::Empty, Fault::RolledBack] {
            let mut prng = Prng::new(seed);
            let age = u32::try_from(1 + seed % 2).expect("small");
            let (mut scene, copies) = Scene::<K>::live(seed, age, &mut prng).expect("it lives");
            scene.stop(seed % 2 == 0);
            let member = index(&mut prng, scene.world.disks.len());
            let damage = Damage { fault, age, is_clean: true, cut_after: 0 };
            damage.apply(&mut scene.world.disks, &copies, (member, 0), &mut prng);
            ruin(&mut scene.world.disks[member], Heads::Rotten, 2, &mut prng);
            let says = || format!("seed {seed}, {fault:?}");
            if fault == Fault::Stale {
                let mut disks = scene.world.disks.clone();
                repaired +=
                    u32::from(repair_breaking::<K>(Some(Mutant::MendOlder), &mut disks).is_ok());
            }
            assert_refused::<K>(scene.world.disks, &says);
        }
    }
    assert!(repaired > 0, "{:?} goes unnoticed", Mutant::MendOlder);
}

fn assert_refused<K: Cared>(mut disks: Vec<Disk>, says: &dyn Fn() -> String) {
    let report = check::<K>(&disks);
    assert_eq!(report.verdict, Verdict::Refused, "{}: {report:?}", says());
    assert!(repair::<K>(&mut disks).is_err(), "{}", says());
}

/// Ruins so many blocks of a front.
fn ruin(disk: &mut Disk, heads: Heads, blocks: u64, prng: &mut Prng) {
    for offset in (0..blocks).map(|block| block * BLOCK_BYTES) {
        match heads {
            Heads::Rotten => {
                let mut block = disk.read(offset, BLOCK_BYTES);
                let at = 48 + index(prng, block.len() - 48);
                block[at] ^= 1 << prng.below(8);
                disk.write(offset, &block, true);
            }
            Heads::Blank => disk.write(offset, &[0; 4096], true),
            Heads::Overwritten => disk.write(offset, &[0x5a; 4096], true),
            Heads::Unreadable => disk.lose(offset, BLOCK_BYTES),
        }
    }
}
