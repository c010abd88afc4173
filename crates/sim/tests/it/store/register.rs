//! The oracle for reads beside writes: each cell is a register, and every history of it must be
//! that of some order in which questions and answers do not cross.
//!
//! Since each write has an author of its own, this is decided by zones (Gibbons and Korach, SIAM
//! Journal on Computing 1997). The zone of a write and its reads spans from the first answer to the
//! last question among them:
//!
//! ```text
//!   write 1 |---|                   answered at 4, last asked at 6: a forward zone 4..6, in which
//!   read: 1       |---|             the register held 1 without a doubt
//!   write 2       |-----|           answered at 10, asked at 6: a backward zone 6..10; somewhere
//!                                   within, the register took the value
//! ```
//!
//! There is such an order if no two forward zones overlap, and no backward zone lies wholly within
//! a forward one.

use std::collections::BTreeMap;

use super::stamp::Author;

/// Questions and answers about one cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    zones: BTreeMap<Author, Zone>,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    written_from: u64,
    first_answer: u64,
    last_question: u64,
}

impl Register {
    /// A cell that holds this from the beginning.
    pub(crate) fn new(author: Author) -> Self {
        let zone = Zone { written_from: 0, first_answer: 0, last_question: 0 };
        Self { zones: [(author, zone)].into() }
    }

    /// A write from its question to its answer; without one, it may yet take effect.
    pub(crate) fn write(&mut self, author: Author, asked: u64, answered: Option<u64>) {
        let first_answer = answered.unwrap_or(u64::MAX);
        let zone = Zone { written_from: asked, first_answer, last_question: asked };
        assert!(self.zones.insert(author, zone).is_none(), "each author writes once");
    }

    /// A read that gave this author. All writes are known before the first read is.
    ///
    /// # Errors
    /// If nobody had written that when the read was answered.
    pub(crate) fn read(&mut self, author: Author, asked: u64, answered: u64) -> Result<(), String> {
        match self.zones.get_mut(&author) {
            Some(zone) if zone.written_from <= answered => {
                zone.first_answer = zone.first_answer.min(answered);
                zone.last_question = zone.last_question.max(asked);
                Ok(())
            }
            _ => Err(format!("a read at {asked}..{answered} gave {author}, which nobody wrote")),
        }
    }

    /// Whether there is an order.
    ///
    /// # Errors
    /// If there is none; names two writes that contradict each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (one, forward) in &self.zones {
            if forward.first_answer >= forward.last_question {
                continue;
            }
            let within = forward.first_answer..forward.last_question;
            for (other, zone) in self.zones.iter().filter(|(other, _)| *other != one) {
                // To overlap, of a forward zone, and to lie within, of a backward one, come to the
                // same, since the ends of the latter are the other way round.
                let is_wrong = zone.first_answer < within.end && within.start < zone.last_question;
                if is_wrong {
                    return Err(format!("{other} was written while {one} was there ({within:?})"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_beside_a_write_sees_the_old_or_the_new() {
        for seen in [0, 1] {
            let mut register = Register::new(0);
            register.write(1, 5, Some(9));
            register.read(seen, 6, 8).unwrap();
            register.read(1, 10, 11).unwrap();
            assert_eq!(register.check(), Ok(()));
        }
    }

    #[test]
    fn a_read_after_a_write_does_not_see_the_old() {
        let mut register = Register::new(0);
        register.write(1, 5, Some(9));
        register.read(0, 10, 11).unwrap();
        assert!(register.check().is_err());
    }

    #[test]
    fn what_one_read_saw_the_next_does_not_unsee() {
        let mut register = Register::new(0);
        register.write(1, 5, None);
        register.read(1, 6, 7).unwrap();
        register.read(0, 8, 9).unwrap();
        assert!(register.check().is_err());
    }

    #[test]
    fn two_writes_at_once_have_one_order_for_everybody() {
        let mut register = Register::new(0);
        register.write(1, 1, Some(9));
        register.write(2, 2, Some(8));
        register.read(1, 10, 11).unwrap();
        assert_eq!(register.clone().check(), Ok(()));
        register.read(2, 12, 13).unwrap();
        assert!(register.check().is_err());
        assert!(register.read(3, 14, 15).is_err(), "of nobody");
    }
}
