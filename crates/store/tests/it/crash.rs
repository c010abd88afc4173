//! Power cuts: whatever the instant, recovery finds a prefix of what was written, and all of what
//! was flushed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_store::{Durability, OpenError, Store, StoreError, VolumeId, create};

use crate::support::drive::{CrashDrive, Power};
use crate::support::executor::{End, Spawner, block_on, run};
use crate::support::model::{Change, Image, values};
use crate::support::{options, usual};

const VOLUME: VolumeId = VolumeId(0);
const BLOCKS: u64 = 24;

/// What a test may find.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Violation {
    Open(OpenError),
    Read(StoreError),
    Lost,
}

/// A store and what it must hold.
struct Case {
    power: Power,
    drives: Vec<CrashDrive>,
    /// The image that the volume started this mount with.
    before: Image,
    /// Changes of this mount in the order in which they were asked for.
    changes: Rc<RefCell<Vec<Change>>>,
    /// How many of them had been acknowledged when the last good flush began.
    flushed: Rc<Cell<usize>>,
    next_value: Cell<u64>,
    /// Whether a drive fails at some time in each mount, and is back at the next.
    has_failures: bool,
}

impl Case {
    fn new(seed: u64, drives: u8, copies: u8) -> Self {
        // Tight drives are cleaned all the time; roomy ones make checkpoints more rarely.
        let blocks = if seed.is_multiple_of(2) { 220 } else { 360 };
        let power = Power::new(seed);
        let drives: Vec<_> = (0..drives).map(|_| CrashDrive::new(blocks, &power)).collect();
        let count = u8::try_from(drives.len()).unwrap();
        block_on(create(&drives, &options(count, copies, BLOCKS))).unwrap();
        Self {
            power,
            drives,
            before: vec![0; 24],
            changes: Rc::default(),
            flushed: Rc::default(),
            next_value: Cell::new(1),
            has_failures: false,
        }
    }

    /// Works until the power is cut.
    fn work_until_cut(&self) -> Result<(), Violation> {
        let store = block_on(Store::open(self.drives.clone(), usual()));
        let store = Rc::new(store.map_err(Violation::Open)?);
        let operations = [20 + self.power.below(100), 100 + self.power.below(1500)];
        self.power.cut_after(operations[usize::from(self.power.below(2) == 1)]);
        let spawner = Spawner::default();
        let background = Rc::clone(&store);
        spawner.spawn(async move {
            background.run().await;
        });
        let failed = Rc::new(RefCell::new(None));
        let main = self.clients(store, spawner.clone(), Rc::clone(&failed));
        let end = run(&spawner, main, || self.power.is_off() || failed.borrow().is_some());
        assert_eq!(end, End::Cut);
        let failed = failed.borrow_mut().take();
        match failed {
            None => Ok(()),
            // With a drive gone while another one is not whole yet, stopping is right.
            Some(_) if self.drives.iter().any(|drive| drive.is_gone.get()) => Ok(()),
            Some(error) => Err(Violation::Read(error)),
        }
    }

    fn fail_a_drive(&self) {
        let is_gone = |drive: &CrashDrive| drive.is_gone.get();
        if self.has_failures && !self.drives.iter().any(is_gone) {
            let index = self.power.below(self.drives.len() as u64);
            self.drives[usize::try_from(index).unwrap()].is_gone.set(true);
        }
    }

    async fn clients<'a>(
        &'a self,
        store: Rc<Store<CrashDrive>>,
        spawner: Spawner<'a>,
        failed: Rc<RefCell<Option<StoreError>>>,
    ) {
        let under_way: Rc<RefCell<Vec<Change>>> = Rc::default();
        loop {
            let store = Rc::clone(&store);
            let failed = Rc::clone(&failed);
            match self.power.below(100) {
                0..80 => {
                    let change = self.change();
                    // The order of overlapping changes would be the store's to choose.
                    while under_way.borrow().len() > 4
                        || under_way.borrow().iter().any(|other| other.overlaps(&change))
                    {
                        turn().await;
                    }
                    self.changes.borrow_mut().push(change.clone());
                    under_way.borrow_mut().push(change.clone());
                    let under_way = Rc::clone(&under_way);
                    spawner.spawn(async move {
                        let outcome = perform(&store, &change).await;
                        under_way.borrow_mut().retain(|other| !other.overlaps(&change));
                        note(&failed, outcome);
                    });
                    turn().await;
                }
                80..90 => {
                    while !under_way.borrow().is_empty() {
                        turn().await;
                    }
                    let target = self.changes.borrow().len();
                    let flushed = Rc::clone(&self.flushed);
                    spawner.spawn(async move {
                        let outcome = store.flush().await;
                        if outcome.is_ok() {
                            flushed.set(flushed.get().max(target));
                        }
                        note(&failed, outcome);
                    });
                }
                90..93 => note(&failed, store.checkpoint().await),
                93 => self.fail_a_drive(),
                _ => {
                    let block = self.power.below(BLOCKS);
                    note(&failed, store.read(VOLUME, block * 4096, 4096).await.map(|_| ()));
                }
            }
            turn().await;
        }
    }

    fn change(&self) -> Change {
        let lengths: [u64; 6] = [1, 1, 1, 2, 4, 9];
        let index = usize::try_from(self.power.below(6)).unwrap();
        let block = self.power.below(BLOCKS);
        let length = lengths[index].min(BLOCKS - block);
        let is_trim = self.power.below(100) < 12;
        let first = self.next_value.get();
        self.next_value.set(first + length);
        let values = (0..length).map(|offset| if is_trim { 0 } else { first + offset }).collect();
        Change { block, values }
    }

    /// The power is back; recovery may be cut as well. Then all must be there.
    fn recover(&mut self) -> Result<(), Violation> {
        self.lose_caches();
        while self.power.below(100) < 30 {
            self.power.cut_after(1 + self.power.below(60));
            let drives = self.drives.clone();
            let failed = Rc::new(RefCell::new(None));
            let outcome = Rc::clone(&failed);
            let main = async {
                *outcome.borrow_mut() = Store::open(drives, usual()).await.err();
            };
            let end = run(&Spawner::default(), main, || self.power.is_off());
            if let (End::Done, Some(error)) = (end, failed.borrow_mut().take()) {
                return Err(Violation::Open(error));
            }
            self.lose_caches();
        }
        let store = block_on(Store::open(self.drives.clone(), usual()));
        let store = store.map_err(Violation::Open)?;
        let bytes = block_on(store.read(VOLUME, 0, 24 * 4096)).map_err(Violation::Read)?;
        self.check(&values(&bytes))
    }

    fn lose_caches(&self) {
        self.power.cut_after(u64::MAX);
        let percent = [0, 20, 50, 80, 95][usize::try_from(self.power.below(5)).unwrap()];
        for drive in &self.drives {
            drive.lose_cache(percent);
            drive.is_gone.set(false);
        }
    }

    /// Whether the image is that after some change, the last flushed one or a later one.
    fn check(&mut self, found: &Image) -> Result<(), Violation> {
        let changes = self.changes.take();
        let mut image = self.before.clone();
        let mut is_prefix = self.flushed.get() == 0 && image == *found;
        for (index, change) in changes.iter().enumerate() {
            change.apply(&mut image);
            is_prefix |= index + 1 >= self.flushed.get() && image == *found;
        }
        self.flushed.set(0);
        self.before.clone_from(found);
        if is_prefix { Ok(()) } else { Err(Violation::Lost) }
    }
}

async fn perform(store: &Store<CrashDrive>, change: &Change) -> Result<(), StoreError> {
    let offset = change.block * 4096;
    if change.values[0] == 0 {
        let length = change.values.len() as u64 * 4096;
        store.write_zeroes(VOLUME, offset, length, Durability::Volatile).await
    } else {
        store.write(VOLUME, offset, change.data(), Durability::Volatile).await
    }
}

fn note(failed: &RefCell<Option<StoreError>>, outcome: Result<(), StoreError>) {
    if let Err(error) = outcome {
        failed.borrow_mut().get_or_insert(error);
    }
}

/// Lets everybody else run.
async fn turn() {
    let mut is_second = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Five mounts that end in power cuts.
fn five_cuts(mut case: Case) -> Result<(), Violation> {
    for _ in 0..5 {
        case.work_until_cut()?;
        case.recover()?;
    }
    Ok(())
}

fn no_violation(drives: u8, copies: u8) {
    for seed in 0..60 {
        assert_eq!(five_cuts(Case::new(seed, drives, copies)), Ok(()), "seed {seed}");
    }
}

#[test]
fn nothing_flushed_is_lost_on_one_drive() {
    no_violation(1, 1);
}

#[test]
fn nothing_flushed_is_lost_on_a_chain() {
    no_violation(3, 1);
}

#[test]
fn nothing_flushed_is_lost_on_a_pair() {
    no_violation(2, 2);
}

#[test]
fn nothing_flushed_is_lost_on_rotating_pairs() {
    no_violation(3, 2);
}

#[test]
fn nothing_flushed_is_lost_when_drives_fail_and_return_as_well() {
    for seed in 0..80 {
        let drives = if seed % 4 < 2 { 2 } else { 3 };
        let mut case = Case::new(seed, drives, 2);
        case.has_failures = true;
        assert_eq!(five_cuts(case), Ok(()), "seed {seed}");
    }
}
