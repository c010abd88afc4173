//! The oracle for many clients at once: after a crash, there is an order of what they asked, true
//! to who waited for whom, such that what is found is the effect of a prefix of it.
//!
//! ```text
//!   A |-----|            A was answered before B was asked: A comes before B in any order.
//!   B          |-----|   C crosses both and may come before, between or behind them.
//!   C    |--------|      Found: B's cells, C's cells over A's. Then A, C and B are in the prefix,
//!                        A before C; had C and B a cell in common, its author would come last.
//! ```
//!
//! The smallest prefix is built: the authors found, what a flush made durable, and whatever comes
//! before one of those. A larger one would only be harder to satisfy. It has to have an order in
//! which each cell's author is the last of the prefix to write that cell.

use std::collections::BTreeSet;
use std::ops::Range;

use super::stamp::Author;

/// One change that a client asked for.
#[derive(Clone, Debug)]
struct Ask {
    cells: Range<u32>,
    /// What the cells hold afterwards: its author or 0.
    content: Author,
    asked: u64,
    answered: Option<u64>,
    /// Whether it is durable for certain.
    is_durable: bool,
}

/// The changes of many clients to one volume. See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    initial: Vec<Author>,
    asks: Vec<Ask>,
    /// Questions and answers so far.
    events: u64,
}

/// A flush under way: what it will have made durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    asked: u64,
}

impl Orders {
    pub(crate) fn new(initial: Vec<Author>) -> Self {
        Self { initial, asks: Vec::new(), events: 0 }
    }

    /// Now, after all that was asked and answered, and before what is to come.
    pub(crate) fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// How many cells there are.
    pub(crate) fn cells(&self) -> usize {
        self.initial.len()
    }

    /// What a cell held in the beginning.
    pub(crate) fn initial(&self, cell: u32) -> Author {
        self.initial[cell as usize]
    }

    /// The changes of a cell: what it was to hold, when that was asked and when answered.
    pub(crate) fn writes(&self, cell: u32) -> impl Iterator<Item = (Author, u64, Option<u64>)> {
        let asks = self.asks.iter().filter(move |ask| ask.cells.contains(&cell));
        asks.map(|ask| (ask.content, ask.asked, ask.answered))
    }

    /// A client asks for a change; gives its handle.
    pub(crate) fn ask(&mut self, cells: Range<u32>, content: Author) -> usize {
        let asked = self.tick();
        self.asks.push(Ask { cells, content, asked, answered: None, is_durable: false });
        self.asks.len() - 1
    }

    /// It is answered, and durable if it was forced.
    pub(crate) fn answer(&mut self, handle: usize, is_forced: bool) {
        let now = self.tick();
        self.asks[handle].answered = Some(now);
        self.asks[handle].is_durable |= is_forced;
    }

    /// A client asks for a flush.
    pub(crate) fn ask_flush(&mut self) -> Flush {
        Flush { asked: self.tick() }
    }

    /// The flush is answered.
    pub(crate) fn answer_flush(&mut self, flush: Flush) {
        self.tick();
        for ask in &mut self.asks {
            ask.is_durable |= ask.answered.is_some_and(|answered| answered < flush.asked);
        }
    }

    /// Whether a crash may leave these contents, by cell.
    ///
    /// # Errors
    /// If no order explains them; says why.
    pub(crate) fn explain(&self, found: &[Author]) -> Result<(), String> {
        let mut seeds = BTreeSet::new();
        for (index, ask) in self.asks.iter().enumerate() {
            let shows = ask.content != 0
                && ask.cells.clone().any(|cell| found[cell as usize] == ask.content);
            if ask.is_durable || shows {
                seeds.insert(index);
            }
        }
        self.strangers(found)?;
        self.explain_with(found, &seeds, 4)
    }

    /// Authors that nobody of this history is.
    fn strangers(&self, found: &[Author]) -> Result<(), String> {
        for (cell, author) in (0..).zip(found) {
            let by = |ask: &Ask| ask.content == *author && ask.cells.contains(&cell);
            let is_known = *author == 0 || self.initial[cell as usize] == *author;
            if !is_known && !self.asks.iter().any(by) {
                return Err(format!("cell {cell} holds {author}, which was lost or never asked"));
            }
        }
        Ok(())
    }

    /// Tries the prefix of these and what comes before them. A cell of zeroes that this does not
    /// explain may be of a zeroing that has not shown otherwise; such are added, `more` at most.
    fn explain_with(
        &self,
        found: &[Author],
        seeds: &BTreeSet<usize>,
        more: u32,
    ) -> Result<(), String> {
        let prefix = self.prefix(seeds);
        let mut before = Vec::new();
        for (cell, author) in (0..).zip(found) {
            let writers: Vec<usize> =
                prefix.iter().copied().filter(|at| self.asks[*at].cells.contains(&cell)).collect();
            let last: Vec<usize> =
                writers.iter().copied().filter(|at| self.asks[*at].content == *author).collect();
            let is_possible = |last: usize| {
                let mut others = writers.iter().filter(|other| **other != last);
                !others.any(|other| {
                    self.asks[*other].content != *author && self.precedes(last, *other)
                })
            };
            let is_untouched = writers.is_empty() && self.initial[cell as usize] == *author;
            if is_untouched {
                continue;
            }
            if !last.iter().any(|last| is_possible(*last)) {
                let error = format!(
                    "cell {cell} holds {author}, though {} is newer",
                    self.newest(&writers)
                );
                return if *author == 0 && more > 0 {
                    self.add_zeroing(found, &prefix, cell, more).map_err(|()| error)
                } else {
                    Err(error)
                };
            }
            if let [last] = last[..]
                && *author != 0
            {
                before.extend(writers.iter().filter(|at| **at != last).map(|at| (*at, last)));
            }
        }
        self.find_order(&prefix, &before)
    }

    fn add_zeroing(
        &self,
        found: &[Author],
        prefix: &BTreeSet<usize>,
        cell: u32,
        more: u32,
    ) -> Result<(), ()> {
        let zeroings = self.asks.iter().enumerate().filter(|(at, ask)| {
            ask.content == 0 && ask.cells.contains(&cell) && !prefix.contains(at)
        });
        for (at, _) in zeroings {
            let mut seeds = prefix.clone();
            seeds.insert(at);
            if self.explain_with(found, &seeds, more - 1).is_ok() {
                return Ok(());
            }
        }
        Err(())
    }

    /// These, and all that were answered before one of these was asked.
    fn prefix(&self, seeds: &BTreeSet<usize>) -> BTreeSet<usize> {
        let last_asked = seeds.iter().map(|at| self.asks[*at].asked).max().unwrap_or(0);
        let is_before = |ask: &Ask| ask.answered.is_some_and(|answered| answered < last_asked);
        let before = self.asks.iter().enumerate().filter(|(_, ask)| is_before(ask));
        before.map(|(at, _)| at).chain(seeds.iter().copied()).collect()
    }

    fn precedes(&self, one: usize, other: usize) -> bool {
        self.asks[one].answered.is_some_and(|answered| answered < self.asks[other].asked)
    }

    fn newest(&self, writers: &[usize]) -> Author {
        let newest = writers.iter().max_by_key(|at| self.asks[**at].asked);
        newest.map_or(0, |at| self.asks[*at].content)
    }

    /// Whether the prefix has an order that respects `before` and who waited for whom.
    fn find_order(
        &self,
        prefix: &BTreeSet<usize>,
        before: &[(usize, usize)],
    ) -> Result<(), String> {
        let mut left = prefix.clone();
        let mut edges: BTreeSet<(usize, usize)> = before.iter().copied().collect();
        while !left.is_empty() {
            let blocked: BTreeSet<usize> = edges.iter().map(|(_, later)| *later).collect();
            let first_answer = left.iter().filter_map(|at| self.asks[*at].answered).min();
            let is_free = |at: &usize| {
                let asked = self.asks[*at].asked;
                !blocked.contains(at) && first_answer.is_none_or(|answered| asked < answered)
            };
            let free: Vec<usize> = left.iter().copied().filter(is_free).collect();
            if free.is_empty() {
                let authors: Vec<_> = left.iter().map(|at| self.asks[*at].content).collect();
                return Err(format!("no order has all of {authors:?} as they were found"));
            }
            for at in free {
                left.remove(&at);
                edges.retain(|(earlier, _)| *earlier != at);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A then B, one behind the other, and C that crosses both.
    fn crossing(a: Range<u32>, b: Range<u32>, c: Range<u32>) -> Orders {
        let mut orders = Orders::new(vec![0; 3]);
        let a = orders.ask(a, 1);
        let c = orders.ask(c, 3);
        orders.answer(a, false);
        let b = orders.ask(b, 2);
        orders.answer(c, false);
        orders.answer(b, false);
        orders
    }

    #[test]
    fn who_waited_comes_later() {
        let orders = crossing(0..1, 1..2, 2..3);
        for found in [[0, 0, 0], [1, 0, 0], [1, 2, 0], [0, 0, 3], [1, 2, 3]] {
            assert_eq!(orders.explain(&found), Ok(()), "{found:?}");
        }
        assert!(orders.explain(&[0, 2, 3]).is_err(), "B without A");
    }

    #[test]
    fn of_two_that_cross_either_is_the_last_but_everywhere_the_same() {
        let orders = crossing(0..1, 1..3, 0..3);
        for found in [[3, 3, 3], [1, 0, 0], [3, 2, 2], [1, 2, 2], [1, 3, 3]] {
            assert_eq!(orders.explain(&found), Ok(()), "{found:?}");
        }
        assert!(orders.explain(&[3, 2, 3]).is_err(), "each is before the other");
        assert!(orders.explain(&[1, 0, 3]).is_err(), "a part of C");
    }

    #[test]
    fn what_was_flushed_or_forced_is_there() {
        let mut orders = Orders::new(vec![0; 2]);
        let a = orders.ask(0..1, 1);
        orders.answer(a, false);
        let flush = orders.ask_flush();
        let b = orders.ask(1..2, 2);
        orders.answer(b, false);
        assert_eq!(orders.explain(&[0, 0]), Ok(()), "the flush is not answered yet");
        orders.answer_flush(flush);
        assert_eq!(orders.explain(&[1, 0]), Ok(()), "B was answered after the flush was asked");
        assert!(orders.explain(&[0, 0]).is_err());
        let c = orders.ask(1..2, 3);
        orders.answer(c, true);
        assert_eq!(orders.explain(&[1, 3]), Ok(()));
        assert!(orders.explain(&[1, 2]).is_err());
    }

    #[test]
    fn zeroes_are_of_a_zeroing_or_of_the_beginning() {
        let mut orders = Orders::new(vec![9; 1]);
        assert!(orders.explain(&[0]).is_err(), "nobody wrote zeroes");
        let a = orders.ask(0..1, 1);
        orders.answer(a, true);
        let zero = orders.ask(0..1, 0);
        assert_eq!(orders.explain(&[0]), Ok(()), "asked for, though not answered");
        assert_eq!(orders.explain(&[1]), Ok(()));
        orders.answer(zero, true);
        assert!(orders.explain(&[1]).is_err());
        assert!(orders.explain(&[7]).is_err(), "a stranger");
    }
}
