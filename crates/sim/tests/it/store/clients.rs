//! Many clients at once, on the same blocks: what they read meanwhile, and what a crash leaves.
//!
//! Each client asks, waits for the answer, thinks, and asks again. All of them write in the same
//! few places, so that nearly everything is contended.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;
use evenkeel_sim::disk::CutOptions;
use evenkeel_sim::executor::Clock;

use super::crash::{Machine, Scene, cut, format, is_cut};
use super::order::Orders;
use super::real::{Real, Setup};
use super::register::Register;
use super::stamp::Author;
use super::subject::{Act, Subject};

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) clients: u64,
    /// Power cuts in a row on the same drives.
    pub(crate) cuts: u32,
    /// Drive commands between two cuts at most.
    pub(crate) commands_max: u64,
    /// Whether they write parts of blocks, and zeroes. Then reads are not checked, since zeroes
    /// do not tell who wrote them.
    pub(crate) is_ragged: bool,
}

/// What was asked and answered, between two cuts.
struct Book {
    orders: Orders,
    reads: Vec<Read>,
}

struct Read {
    block: u32,
    author: Author,
    asked: u64,
    answered: u64,
}

const CELLS: u32 = 8;

/// Has the crowd at a new store; gives how many reads were checked.
///
/// # Errors
/// The first violation.
pub(crate) fn gather(setup: &Setup, crowd: Crowd, seed: u64) -> Result<usize, String> {
    let Scene { mut disks, history } = format::<Real>(setup);
    let mut prng = Prng::new(seed);
    let authors = Rc::new(RefCell::new(0));
    let book = Book { orders: Orders::new(history.now().spaces[&0].to_vec()), reads: Vec::new() };
    let book = Rc::new(RefCell::new(book));
    let mut reads = 0;
    for round in 0..crowd.cuts {
        let mut machine = Machine::boot(std::mem::take(&mut disks), prng.next_u64() | 1);
        machine.rack.cut_after(Some(1 + prng.below(crowd.commands_max)));
        let (drives, clock) = (machine.drives.clone(), machine.executor.clock());
        let party = Party { book: Rc::clone(&book), authors: Rc::clone(&authors), crowd };
        let (setup, work_seed) = (setup.clone(), prng.next_u64());
        let end = machine.executor.block_on(async move {
            let store = Real::open(setup, drives, clock.clone()).await?;
            party.recover(&store).await?;
            party.work(store, &clock, work_seed).await
        });
        let context = |error| format!("seed {seed}, after {round} cuts: {error}");
        is_cut(end).map_err(context)?;
        disks = machine.rack.disks();
        drop(machine);
        if !crowd.is_ragged {
            reads += book.borrow().check_reads().map_err(context)?;
        }
        book.borrow_mut().reads.clear();
        cut(&mut disks, prng.next_u64(), CutOptions::default());
    }
    Ok(reads)
}

impl Book {
    /// Holds the reads against the writes, block by block.
    fn check_reads(&self) -> Result<usize, String> {
        for block in 0..u32::try_from(self.orders.cells()).expect("a small volume") / CELLS {
            let mut register = Register::new(self.orders.initial(block * CELLS));
            for (author, asked, answered) in self.orders.writes(block * CELLS) {
                register.write(author, asked, answered);
            }
            for read in self.reads.iter().filter(|read| read.block == block) {
                register.read(read.author, read.asked, read.answered)?;
            }
            register.check().map_err(|error| format!("block {block}: {error}"))?;
        }
        Ok(self.reads.len())
    }
}

/// What the clients share.
#[derive(Clone)]
struct Party {
    book: Rc<RefCell<Book>>,
    authors: Rc<RefCell<Author>>,
    crowd: Crowd,
}

impl Party {
    /// Checks what is there after a crash, from where the book begins anew.
    async fn recover(&self, store: &Real) -> Result<(), String> {
        let found = store.contents().await?.spaces[&0].to_vec();
        let mut book = self.book.borrow_mut();
        book.orders.explain(&found)?;
        book.orders = Orders::new(found);
        Ok(())
    }

    async fn work(&self, store: Rc<Real>, clock: &Clock, seed: u64) -> Result<(), String> {
        let mut prng = Prng::new(seed);
        let failure = Rc::new(RefCell::new(None));
        for _ in 0..self.crowd.clients {
            let (party, store) = (self.clone(), Rc::clone(&store));
            let (clock, failure) = (clock.clone(), Rc::clone(&failure));
            let mut prng = Prng::new(prng.next_u64());
            clock.clone().spawn(async move {
                while failure.borrow().is_none() {
                    if let Err(error) = party.turn(&store, &mut prng).await {
                        *failure.borrow_mut() = Some(error);
                    }
                    clock.sleep(prng.exponential(Span::from_micros(100))).await;
                }
            });
        }
        loop {
            clock.sleep(Span::from_millis(1)).await;
            if let Some(error) = failure.borrow_mut().take() {
                return Err(error);
            }
        }
    }

    /// One question of one client.
    async fn turn(&self, store: &Real, prng: &mut Prng) -> Result<(), String> {
        match prng.below(10) {
            0..5 => self.write(store, prng).await,
            5 => {
                let flush = self.book.borrow_mut().orders.ask_flush();
                store.perform(&Act::Flush).await?;
                self.book.borrow_mut().orders.answer_flush(flush);
                Ok(())
            }
            _ if self.crowd.is_ragged => self.write(store, prng).await,
            _ => self.read(store, prng).await,
        }
    }

    async fn write(&self, store: &Real, prng: &mut Prng) -> Result<(), String> {
        let Range { start, end } = self.range(prng);
        let (first, cells, space) = (start, end - start, 0);
        let is_forced = prng.below(8) == 0;
        let is_zero = self.crowd.is_ragged && prng.below(6) == 0;
        let author = {
            let mut authors = self.authors.borrow_mut();
            *authors += 1;
            if is_zero { 0 } else { *authors }
        };
        let act = Act::Paint { space, first, cells, author, is_forced };
        let handle = self.book.borrow_mut().orders.ask(start..end, author);
        store.perform(&act).await?;
        self.book.borrow_mut().orders.answer(handle, is_forced);
        Ok(())
    }

    /// A few cells of the first few blocks. Zeroes and whole blocks happen at once, as one change.
    fn range(&self, prng: &mut Prng) -> Range<u32> {
        let below = |prng: &mut Prng, bound| u32::try_from(prng.below(bound)).expect("small");
        let block = below(prng, 6);
        let first = block * CELLS;
        if self.crowd.is_ragged && prng.below(2) == 0 {
            let cell = below(prng, 8);
            return first + cell..first + cell + 1 + below(prng, 8 - u64::from(cell));
        }
        first..first + (1 + below(prng, 3)) * CELLS
    }

    async fn read(&self, store: &Real, prng: &mut Prng) -> Result<(), String> {
        let Range { start, end } = self.range(prng);
        let asked = self.book.borrow_mut().orders.tick();
        let cells = store.read(start, end - start).await?;
        let mut book = self.book.borrow_mut();
        let answered = book.orders.tick();
        for (block, cells) in (start / CELLS..).zip(cells.chunks_exact(CELLS as usize)) {
            let author = cells[0];
            if cells.iter().any(|cell| *cell != author) {
                return Err(format!("block {block} was read half old, half new: {cells:?}"));
            }
            book.reads.push(Read { block, author, asked, answered });
        }
        Ok(())
    }
}
