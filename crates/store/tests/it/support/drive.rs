//! A drive with a volatile cache, and a power switch that several drives share.
//!
//! Each operation takes a few turns of the executor, so that operations overtake each other. The
//! power fails at a chosen operation; of the writes since the last flush, an arbitrary subset then
//! survives, some of it torn.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use evenkeel_core::prng::Prng;
use evenkeel_store::{Buffer, BufferMut, Drive, DriveError, Durability, Geometry};

const BLOCK: u64 = 4096;

/// Counts operations down to the power cut.
#[derive(Clone)]
pub(crate) struct Power {
    left: Rc<Cell<u64>>,
    prng: Rc<RefCell<Prng>>,
}

impl Power {
    pub(crate) fn new(seed: u64) -> Self {
        Self { left: Rc::new(Cell::new(u64::MAX)), prng: Rc::new(RefCell::new(Prng::new(seed))) }
    }

    /// Cuts the power at the operation after so many.
    pub(crate) fn cut_after(&self, operations: u64) {
        self.left.set(operations);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.left.get() == 0
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.prng.borrow_mut().below(bound)
    }

    /// Passes some turns; never returns when the power is off.
    async fn work(&self) {
        let mut turns = self.below(6);
        poll_fn(|context| {
            if turns == 0 {
                return Poll::Ready(());
            }
            turns -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.left.set(self.left.get().saturating_sub(1));
        if self.is_off() {
            pending::<()>().await;
        }
    }
}

type Block = Rc<[u8]>;

/// What survives the process: the medium, and what the cache holds.
#[derive(Default)]
struct Content {
    medium: BTreeMap<u64, Block>,
    /// Writes of whole blocks since the last flush, in the order of their completion.
    cached: Vec<(u64, Block)>,
    /// What is read: the medium under the cache.
    visible: BTreeMap<u64, Block>,
}

/// A medium as it was.
pub(crate) struct Image(BTreeMap<u64, Block>);

/// A drive that forgets. See the [module](self). Clones are the same drive.
#[derive(Clone)]
pub(crate) struct CrashDrive {
    geometry: Geometry,
    content: Rc<RefCell<Content>>,
    pub(crate) power: Power,
    /// Every operation fails from now on.
    pub(crate) is_gone: Rc<Cell<bool>>,
    /// Writes to these blocks are lost without a word.
    pub(crate) deaf: Rc<RefCell<BTreeSet<u64>>>,
    /// Reads of these blocks fail, as where the medium is bad.
    pub(crate) unreadable: Rc<RefCell<BTreeSet<u64>>>,
    /// Reads, and their bytes.
    pub(crate) reads: Rc<Cell<(u64, u64)>>,
    /// It is gone after so many operations of its own.
    pub(crate) lasts: Rc<Cell<u64>>,
    /// Of a thousand blocks written, so many are lost without a word.
    pub(crate) lost_per_mille: Rc<Cell<u64>>,
}

impl CrashDrive {
    pub(crate) fn new(blocks: u64, power: &Power) -> Self {
        let size_bytes = blocks * BLOCK;
        Self {
            geometry: Geometry { size_bytes, block_bytes: 512, atomic_bytes: 512 },
            content: Rc::default(),
            power: power.clone(),
            is_gone: Rc::default(),
            deaf: Rc::default(),
            unreadable: Rc::default(),
            reads: Rc::default(),
            lasts: Rc::new(Cell::new(u64::MAX)),
            lost_per_mille: Rc::default(),
        }
    }

    /// The power fails now: of the cached writes, each survives with this probability.
    pub(crate) fn lose_cache(&self, survivors_percent: u64) {
        let content = &mut *self.content.borrow_mut();
        for (block, bytes) in content.cached.drain(..) {
            if self.power.below(100) >= survivors_percent {
                continue;
            }
            let old = content.medium.get(&block).map_or_else(|| vec![0; 4096], |old| old.to_vec());
            let sectors = if self.power.below(100) < 5 { self.power.below(9) } else { 8 };
            let torn = usize::try_from(sectors * 512).unwrap();
            content.medium.insert(block, [&bytes[..torn], &old[torn..]].concat().into());
        }
        content.visible.clone_from(&content.medium);
    }

    /// What lies on the medium now.
    pub(crate) fn image(&self) -> Image {
        Image(self.content.borrow().medium.clone())
    }

    /// Has the medium hold what it held once.
    pub(crate) fn put_back(&self, image: Image) {
        let Image(medium) = image;
        let visible = medium.clone();
        *self.content.borrow_mut() = Content { medium, cached: Vec::new(), visible };
    }

    /// Changes a block behind everybody's back.
    pub(crate) fn tamper(&self, block: u64, change: impl FnOnce(&mut [u8])) {
        let content = &mut *self.content.borrow_mut();
        let mut bytes = content.visible.get(&block).map_or_else(|| vec![0; 4096], |it| it.to_vec());
        change(&mut bytes);
        content.cached.push((block, bytes.into()));
        let (block, bytes) = content.cached.last().unwrap();
        content.visible.insert(*block, Rc::clone(bytes));
    }

    /// Makes its superblocks those of another version, which keeps its seals elsewhere.
    pub(crate) fn become_version(&self, version: u8) {
        for block in self.blocks_with(b"\xe9kSB") {
            self.tamper(block, |bytes| {
                bytes[4] = version;
                bytes[4092..].fill(0);
            });
        }
    }

    /// All blocks that were ever written, as they read.
    pub(crate) fn content(&self) -> BTreeMap<u64, Rc<[u8]>> {
        self.content.borrow().visible.clone()
    }

    /// The blocks that begin with these bytes.
    pub(crate) fn blocks_with(&self, start: &[u8]) -> Vec<u64> {
        let content = self.content.borrow();
        let blocks = content.visible.iter().filter(|(_, bytes)| bytes.starts_with(start));
        blocks.map(|(&block, _)| block).collect()
    }

    async fn begin(&self) -> Result<(), DriveError> {
        self.power.work().await;
        self.lasts.set(self.lasts.get().saturating_sub(1));
        let is_gone = self.is_gone.get() || self.lasts.get() == 0;
        if is_gone { Err(DriveError::Gone) } else { Ok(()) }
    }

    fn put(&self, offset_bytes: u64, data: &[Buffer]) {
        let bytes: Vec<u8> = data.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        let blocks = (offset_bytes / BLOCK..).zip(bytes.chunks_exact(4096));
        let content = &mut *self.content.borrow_mut();
        for (block, bytes) in blocks {
            let is_lost = self.power.below(1000) < self.lost_per_mille.get();
            if is_lost || self.deaf.borrow().contains(&block) {
                continue;
            }
            let bytes: Block = bytes.into();
            content.visible.insert(block, Rc::clone(&bytes));
            content.cached.push((block, bytes));
        }
    }
}

impl Drive for CrashDrive {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset_bytes: u64, length_bytes: usize) -> Result<Buffer, DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes as u64)?;
        self.begin().await?;
        let (commands, bytes) = self.reads.get();
        self.reads.set((commands + 1, bytes + length_bytes as u64));
        let content = self.content.borrow();
        let mut buffer = BufferMut::zeroed(length_bytes);
        let first = offset_bytes / BLOCK;
        for (block, target) in (first..).zip(buffer.chunks_exact_mut(4096)) {
            if self.unreadable.borrow().contains(&block) {
                return Err(DriveError::Medium);
            }
            match content.visible.get(&block) {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0xbd),
            }
        }
        Ok(buffer.freeze())
    }

    async fn write(
        &self,
        offset_bytes: u64,
        data: Vec<Buffer>,
        durability: Durability,
    ) -> Result<(), DriveError> {
        self.geometry.check_write(offset_bytes, &data)?;
        assert_eq!(durability, Durability::Volatile);
        // The power may fail before or after the cache has it.
        if self.power.below(2) == 0 {
            self.put(offset_bytes, &data);
            self.begin().await
        } else {
            self.begin().await?;
            self.put(offset_bytes, &data);
            Ok(())
        }
    }

    async fn flush(&self) -> Result<(), DriveError> {
        let covered = self.content.borrow().cached.len();
        self.begin().await?;
        let content = &mut *self.content.borrow_mut();
        for (block, bytes) in content.cached.drain(..covered) {
            content.medium.insert(block, bytes);
        }
        Ok(())
    }

    async fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DriveError> {
        self.geometry.check_range(offset_bytes, length_bytes)?;
        self.begin().await
    }
}
