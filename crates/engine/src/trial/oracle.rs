//! What a client may read, sector by sector: the naive truth.
//!
//! Every write has a number, and its sectors hold nothing but that. A read may bring any write that
//! began before the read ended, unless another one both began after that one had ended and was
//! itself over (or seen) before the read began. After a power cut only what was forced or flushed
//! counts as over.

use std::ops::Range;

/// A write of one sector; it is over at `ended`, and durable if it was forced or flushed.
#[derive(Clone, Copy, Debug)]
struct Write {
    value: u64,
    began: u64,
    ended: Option<u64>,
    is_durable: bool,
    /// Whether a flush that should have made it durable has failed: no other one makes up for it.
    is_dropped: bool,
    /// Whether it need not happen at all, though it is over.
    is_optional: bool,
}

impl Write {
    /// A write that begins.
    fn new(value: u64, began: u64) -> Self {
        Self { value, began, ended: None, is_durable: false, is_dropped: false, is_optional: false }
    }
}

/// All that was written.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    writes: Vec<Write>,
    /// By sector of the volume: the writes to it.
    sectors: Vec<Vec<usize>>,
    clock: u64,
}

impl Oracle {
    /// A volume full of zeroes.
    pub(crate) fn new(sectors: usize) -> Self {
        let zero = Write { ended: Some(0), is_durable: true, ..Write::new(0, 0) };
        Self { writes: vec![zero], sectors: vec![vec![0]; sectors], clock: 1 }
    }

    /// An instant later than all before.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A write of a new value, or of zeroes, begins; its handles and value. Its sectors are writes
    /// of their own, since one that fails may have been done in part.
    pub(crate) fn begin(&mut self, sectors: Range<usize>, is_zero: bool) -> (Range<usize>, u64) {
        let began = self.tick();
        let (first, value) = (self.writes.len(), if is_zero { 0 } else { began });
        for sector in sectors {
            self.sectors[sector].push(self.writes.len());
            self.writes.push(Write::new(value, began));
        }
        (first..self.writes.len(), value)
    }

    /// A write went well.
    pub(crate) fn end(&mut self, handles: Range<usize>, is_forced: bool) {
        let ended = self.tick();
        for write in &mut self.writes[handles] {
            write.ended = Some(ended);
            write.is_durable |= is_forced;
        }
    }

    /// Whoever was writing is gone: what is not over may happen or not, and must not happen any
    /// more once another write to its place is over that begins from now on.
    pub(crate) fn abandon(&mut self) {
        let now = self.tick();
        for write in self.writes.iter_mut().filter(|write| write.ended.is_none()) {
            (write.ended, write.is_optional) = (Some(now), true);
        }
    }

    /// A flush that began then went well.
    pub(crate) fn flushed(&mut self, began: u64) {
        let covered = |write: &&mut Write| {
            write.ended.is_some_and(|ended| ended < began) && !write.is_dropped
        };
        self.writes.iter_mut().filter(covered).for_each(|write| write.is_durable = true);
    }

    /// A flush failed: of what is not durable yet, nobody knows.
    pub(crate) fn flush_failed(&mut self) {
        let lost = self.writes.iter_mut().filter(|write| !write.is_durable);
        lost.for_each(|write| (write.ended, write.is_dropped) = (None, true));
    }

    /// Checks what a read that began then found.
    pub(crate) fn read(&mut self, sector: usize, value: u64, began: u64) -> Result<(), String> {
        let is_over = |write: &Write| write.ended.is_some_and(|ended| ended < began);
        let seen = self.find(sector, value, is_over)?;
        // Whoever reads later must not read anything older; of zeroes nobody knows whose they are.
        if value > 0 {
            let ended = self.tick();
            self.writes[seen].ended.get_or_insert(ended);
            self.writes[seen].is_optional = false;
        }
        Ok(())
    }

    /// Checks what a sector would hold after a power cut now.
    pub(crate) fn check_after_cut(&self, sector: usize, value: u64) -> Result<(), String> {
        self.find(sector, value, |write| write.is_durable).map(drop)
    }

    /// Checks what a sector holds after a power cut. From then on that is all there ever was.
    pub(crate) fn read_after_cut(&mut self, sector: usize, value: u64) -> Result<(), String> {
        let seen = self.find(sector, value, |write| write.is_durable)?;
        let (value, now) = (self.writes[seen].value, self.tick());
        self.sectors[sector] = vec![self.writes.len()];
        self.writes.push(Write { ended: Some(now), is_durable: true, ..Write::new(value, now) });
        Ok(())
    }

    /// The newest write of this value, if nothing that is over came after it had ended.
    fn find(
        &self,
        sector: usize,
        value: u64,
        is_over: impl Fn(&Write) -> bool,
    ) -> Result<usize, String> {
        let all = || self.sectors[sector].iter().map(|handle| (*handle, self.writes[*handle]));
        let is_current = |write: &Write| {
            let hides = |later: &Write| {
                is_over(later)
                    && !later.is_optional
                    && write.ended.is_some_and(|ended| ended < later.began)
            };
            !all().any(|(_, later)| hides(&later))
        };
        let fits = |(_, write): &(usize, Write)| write.value == value && is_current(write);
        let found = all().rev().find(fits);
        found.map(|(handle, _)| handle).ok_or_else(|| {
            let writes: Vec<_> = all().map(|(_, write)| write).collect();
            format!("sector {sector} holds {value}, of {writes:?}")
        })
    }
}
