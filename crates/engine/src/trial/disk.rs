//! A drive with a volatile cache, to the letter of what drives promise: an acknowledged write is
//! seen by reads; a flush makes durable what had been acknowledged when it was sent; a power cut
//! keeps or loses each sector of anything else. A flush that fails tells of its loss once: what it
//! should have made durable stays in the cache, and some of it is never written.

use std::rc::Rc;

use evenkeel_core::prng::Prng;

/// The unit that nothing tears.
pub(crate) const SECTOR: usize = 512;

/// A drive.
#[derive(Clone)]
pub(crate) struct Disk {
    /// By sector: what a power cut leaves for certain.
    medium: Vec<Sector>,
    /// By sector: what reads see.
    view: Vec<Sector>,
    /// Sectors written since, oldest first.
    cache: Vec<Cached>,
    acknowledged: u64,
    /// Sectors that cannot be read until they are written.
    unreadable: Vec<std::ops::Range<usize>>,
}

type Sector = Option<Rc<[u8; SECTOR]>>;

#[derive(Clone)]
struct Cached {
    sector: usize,
    bytes: Sector,
    /// Which acknowledged write it is of.
    number: u64,
    /// Whether a flush that failed has dropped it.
    is_dropped: bool,
}

/// What a power cut does with what is not durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    KeepAll,
    LoseAll,
    /// Each sector, block of 4 KiB or write by itself.
    Any(u64),
}

impl Disk {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let sectors = usize::try_from(size_bytes).unwrap() / SECTOR;
        let (medium, view) = (vec![None; sectors], vec![None; sectors]);
        Self { medium, view, cache: Vec::new(), acknowledged: 0, unreadable: Vec::new() }
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> u64 {
        (self.view.len() * SECTOR) as u64
    }

    /// How many writes were acknowledged up to now: what a flush that is sent now covers.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(crate) fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        // Whole sectors at a time: by the byte, trials would do little else.
        let bytes = |sector| Sector::as_deref(sector).unwrap_or(&[0; SECTOR]).as_slice();
        self.view[sectors(offset, length)].iter().map(bytes).collect::<Vec<_>>().concat()
    }

    /// These bytes cannot be read any more.
    pub(crate) fn lose(&mut self, offset: u64, length: u64) {
        self.unreadable.push(sectors(offset, length));
    }

    /// What these bytes hold is read until the power is cut, and no flush makes it durable: the
    /// drive has given up writing it, and has said so to somebody else.
    pub(crate) fn give_up(&mut self, offset: u64, length: u64) {
        let given_up = sectors(offset, length);
        self.cache.retain(|cached| !given_up.contains(&cached.sector));
        self.medium[given_up].fill(None);
    }

    /// All can be read again.
    pub(crate) fn heal(&mut self) {
        self.unreadable.clear();
    }

    /// Whether these bytes can be read.
    pub(crate) fn is_readable(&self, offset: u64, length: u64) -> bool {
        let wanted = sectors(offset, length);
        !self.unreadable.iter().any(|lost| lost.start < wanted.end && wanted.start < lost.end)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) {
        self.acknowledged += 1;
        // A drive puts what is written over a bad sector elsewhere.
        let written = sectors(offset, bytes.len() as u64);
        let is_left =
            |lost: &std::ops::Range<usize>| lost.start < written.start || lost.end > written.end;
        self.unreadable.retain(is_left);
        for (sector, part) in sectors(offset, bytes.len() as u64).zip(bytes.chunks(SECTOR)) {
            let bytes: Sector = Some(Rc::new(part.try_into().unwrap()));
            self.view[sector].clone_from(&bytes);
            if fua {
                self.cache.retain(|cached| cached.sector != sector);
                self.medium[sector] = bytes;
            } else {
                let number = self.acknowledged;
                self.cache.push(Cached { sector, bytes, number, is_dropped: false });
            }
        }
    }

    /// Makes durable what had been acknowledged when the flush was sent.
    pub(crate) fn flush(&mut self, acknowledged: u64) {
        for cached in std::mem::take(&mut self.cache) {
            if cached.number > acknowledged {
                self.cache.push(cached);
            } else if !cached.is_dropped {
                self.medium[cached.sector] = cached.bytes;
            }
        }
    }

    /// A flush that fails.
    pub(crate) fn fail_flush(&mut self, acknowledged: u64, prng: &mut Prng) {
        let covered = self.cache.iter_mut().filter(|cached| cached.number <= acknowledged);
        covered.for_each(|cached| cached.is_dropped |= prng.below(2) == 0);
    }

    /// Cuts the power; writes that were under way count as the youngest in the cache.
    pub(crate) fn power_cut(&mut self, cut: Cut) {
        let mut prng = Prng::new(if let Cut::Any(seed) = cut { seed } else { 0 });
        let (unit, percent) = ([1, 8, 1 << 20][index(&mut prng, 3)], prng.below(101));
        let mut last = None;
        let mut is_kept = false;
        for cached in std::mem::take(&mut self.cache) {
            let this = (cached.number, cached.sector / unit);
            if last != Some(this) {
                (last, is_kept) = (Some(this), prng.below(100) < percent);
            }
            let is_kept = match cut {
                Cut::KeepAll => true,
                Cut::LoseAll => false,
                Cut::Any(_) => is_kept,
            };
            if is_kept && !cached.is_dropped {
                self.medium[cached.sector] = cached.bytes;
            }
        }
        self.view.clone_from(&self.medium);
    }
}

pub(crate) fn index(prng: &mut Prng, bound: usize) -> usize {
    usize::try_from(prng.below(bound as u64)).unwrap()
}

fn sectors(offset: u64, length: u64) -> std::ops::Range<usize> {
    let [start, end] = [offset, offset + length].map(|at| usize::try_from(at).unwrap());
    assert!(start.is_multiple_of(SECTOR) && end.is_multiple_of(SECTOR), "sectors are whole");
    start / SECTOR..end / SECTOR
}
