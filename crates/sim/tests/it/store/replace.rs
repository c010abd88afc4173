//! Drives that vanish for good, one of a mirror at a time: a new one takes the place of each, with
//! the power cut at any command of it, and clients lose nothing.
//!
//! The operator of these tests knows one thing: a drive that is no member of the store is new, and
//! is to replace the one that is missing. So a replacement that was cut is simply begun again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_sim::disk::{CrashDisk, Fate, Rack, SimDrive, Tearing};
use evenkeel_sim::executor::Clock;
use evenkeel_store::{DriveIndex, OpenError, Replacement, Store, Uuid, create, read_superblock};

use super::crash::{Machine, Scene, format, recover, scenes};
use super::cuts::points;
use super::faults::Vanishing;
use super::history::{History, World};
use super::random::{Ordeal, Script, endure_from};
use super::real::{Real, Setup};
use super::short::cuts_of;
use super::subject::{Act, Answer, Subject};

/// A store, and names for the drives to come.
#[derive(Clone)]
struct Workshop {
    setup: Setup,
    next_name: Rc<Cell<u64>>,
}

impl Workshop {
    fn new(drives: usize) -> Self {
        let setup = Setup { allow_missing: true, spare_segments: 8, ..Setup::tiny(drives, 2) };
        Self { setup, next_name: Rc::default() }
    }

    fn draw_name(&self) -> Uuid {
        let name = self.next_name.get() + 1;
        self.next_name.set(name);
        Uuid((u128::from(name) << 64).to_le_bytes())
    }
}

/// The store itself, with an operator who replaces drives.
struct Restored(Rc<Real>);

/// The place that none of these drives has.
async fn missing(drives: &[SimDrive], count: usize) -> Result<DriveIndex, String> {
    let mut is_here = vec![false; count];
    for drive in drives {
        let known = read_superblock(drive).await.map_err(text)?.map_err(text)?;
        is_here[known.drive.index()] = true;
    }
    let place = is_here.iter().position(|is_here| !is_here).ok_or("no drive is missing")?;
    Ok(DriveIndex(u8::try_from(place).map_err(text)?))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Subject for Restored {
    type Setup = Workshop;

    async fn format(shop: Workshop, drives: Vec<SimDrive>) -> Result<(), String> {
        create(&drives, &shop.setup.options()).await.map_err(text)
    }

    async fn open(
        shop: Workshop,
        mut drives: Vec<SimDrive>,
        clock: Clock,
    ) -> Result<Rc<Self>, String> {
        let options = shop.setup.open_options();
        let store = match Store::open(drives.clone(), options).await {
            Err(OpenError::NotAMember { position, .. }) => {
                let drive = drives.remove(position);
                let lost = missing(&drives, shop.setup.drives).await?;
                let replacement = Replacement { lost, drive, name: shop.draw_name() };
                Store::open_replacing(drives, replacement, options).await
            }
            outcome => outcome,
        };
        Ok(Rc::new(Self(Real::start(store.map_err(text)?, &shop.setup, &clock))))
    }

    async fn perform(&self, act: &Act) -> Result<Answer, String> {
        self.0.perform(act).await
    }

    async fn contents(&self) -> Result<World, String> {
        self.0.contents().await
    }

    fn blank(shop: &Workshop) -> World {
        Real::blank(&shop.setup)
    }

    fn atomic_cells(shop: &Workshop) -> u32 {
        Real::atomic_cells(&shop.setup)
    }

    fn drives(shop: &Workshop) -> Vec<CrashDisk> {
        Real::drives(&shop.setup)
    }
}

/// A client, and drives that vanish one after the other; some come back, most are replaced.
struct Worn {
    vanishing: Vanishing,
    prng: Prng,
}

impl Script<Restored> for Worn {
    fn act(&mut self, history: &History) -> Act {
        Script::<Real>::act(&mut self.vanishing, history)
    }

    fn befall(&mut self, store: &Restored, rack: &Rack) {
        self.vanishing.befall(&store.0, rack);
    }

    fn recall(&mut self, disk: &mut CrashDisk) {
        match self.prng.below(4) {
            0 => {}
            1 => disk.attach(),
            _ => *disk = CrashDisk::new(disk.size_bytes() + 4096 * self.prng.below(9)),
        }
    }
}

#[test]
fn drives_of_a_mirror_are_replaced_one_at_a_time_and_nothing_is_lost() {
    let ordeal = Ordeal { cuts: 12, commands_max: 150, tearing: Tearing::Sectors };
    let mut replaced = 0;
    for seed in 0..points(20) / u64::from(ordeal.cuts) {
        for drives in [2, 3, 4] {
            let shop = Workshop::new(drives);
            let worn = Worn { vanishing: Vanishing::new(seed), prng: Prng::new(seed) };
            let start = format::<Restored>(&shop);
            assert_eq!(endure_from::<Restored>(&shop, start, ordeal, seed, worn), Ok(()));
            replaced += shop.next_name.get();
        }
    }
    assert!(replaced > 0, "no drive was ever replaced");
}

/// A store with work done, and a blank disk in the place of one of its drives.
fn bereft(shop: &Workshop, place: usize) -> Scene {
    let act = Act::Paint { space: 0, first: 0, cells: 64, author: 9, is_forced: true };
    let acts = [act.clone(), Act::Tidy, act];
    let work = scenes::<Restored>(shop, &format::<Restored>(shop), &acts);
    let mut scene = work.expect("a good store").pop().expect("the end of the work");
    lose_caches(&mut scene);
    scene.disks[place] = CrashDisk::new(scene.disks[place].size_bytes());
    scene
}

fn lose_caches(scene: &mut Scene) {
    scene.disks.iter_mut().for_each(|disk| disk.power_cut(|_| Fate::Lost));
}

/// Replaces a drive and mends the store; shows each scene in which the power may be cut meanwhile,
/// the last of them when all is done.
fn scenes_of_replacing(shop: &Workshop, start: Scene) -> Result<Vec<Scene>, String> {
    let mut machine = Machine::boot(start.disks, 0);
    let pictures = Rc::new(RefCell::new(Vec::new()));
    let (camera, history) = (Rc::clone(&pictures), start.history.clone());
    machine.rack.observe(move |disks| {
        camera.borrow_mut().push(Scene { disks, history: history.clone() });
    });
    let (shop, drives, clock) = (shop.clone(), machine.drives.clone(), machine.executor.clock());
    let replaced = machine.executor.block_on(async move {
        let restored = Restored::open(shop, drives, clock).await?;
        while restored.0.store.status().thin_segments > 0 {
            restored.0.store.checkpoint().await.map_err(text)?;
        }
        Ok::<_, String>(())
    });
    replaced.map_err(text)??;
    let end = Scene { disks: machine.rack.disks(), history: start.history };
    drop(machine);
    let mut scenes = pictures.take();
    scenes.push(end);
    Ok(scenes)
}

#[test]
fn a_replacement_cut_at_any_command_is_simply_begun_again() {
    let mut prng = Prng::new(1);
    for place in [0, 1] {
        let shop = Workshop::new(2);
        let scenes = scenes_of_replacing(&shop, bereft(&shop, place)).expect("no cut");
        for scene in &scenes {
            for disks in cuts_of(&scene.disks, points(1) / 2, &mut prng) {
                let mut after = Scene { disks, history: scene.history.clone() };
                assert_eq!(recover::<Restored>(&shop, &mut after), Ok(()));
            }
        }
    }
}

#[test]
fn behind_a_replacement_the_store_can_do_without_the_drives_that_were_there_before() {
    let shop = Workshop::new(2);
    let mut end = scenes_of_replacing(&shop, bereft(&shop, 0)).expect("no cut").pop();
    let scene = end.as_mut().expect("the end");
    lose_caches(scene);
    scene.disks[1].detach(|_| Fate::Lost);
    assert_eq!(recover::<Restored>(&shop, scene), Ok(()));
}
