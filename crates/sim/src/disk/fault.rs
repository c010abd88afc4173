//! What goes wrong with single commands, by a seed or by a script.
//!
//! Rates are drawn per command; a script names the command. Both together are a plan. The same
//! plan over the same commands gives the same faults.

use std::collections::BTreeMap;

use evenkeel_core::prng::Prng;
use evenkeel_core::time::Span;

use super::command::{Command, CommandId};

/// A fault of one command. `salt` settles what is open about it. A fault that makes no sense for a
/// command (a misdirected flush) does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The drive reports an error. A write was done in part, at most; a flush has dropped some of
    /// what it was to save.
    Failed {
        /// What was done, what dropped.
        salt: u64,
    },
    /// A write or a flush that the drive acknowledges and never does.
    Ignored,
    /// A write that the drive acknowledges, and does in another place that is in use.
    Misdirected {
        /// Where.
        salt: u64,
    },
    /// A write of which the drive does the first sectors, and acknowledges all.
    Shorn {
        /// How many.
        salt: u64,
    },
    /// One bit of what a read covers has turned over, and stays so.
    Rot {
        /// Which.
        salt: u64,
    },
    /// The first sector of what a read covers has gone bad, until it is written again.
    Unreadable,
    /// The drive holds the command back.
    Stuck(Stall),
}

impl Fault {
    /// As it shows in a sequential zone: there a write that is not done is an error, since the
    /// pointer gives it away.
    pub(super) fn honest_if(self, is_sequential: bool) -> Self {
        match self {
            Self::Ignored if is_sequential => Self::Failed { salt: 0 },
            Self::Misdirected { salt } | Self::Shorn { salt } if is_sequential => {
                Self::Failed { salt }
            }
            other => other,
        }
    }
}

/// How long a drive holds a command back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// This long beyond its usual time.
    For(Span),
    /// It never answers.
    Forever,
}

/// How often commands meet faults, in commands per million. All zero by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// [`Fault::Failed`], of reads.
    pub failed_reads: u64,
    /// [`Fault::Failed`], of writes, zeroes and discards.
    pub failed_writes: u64,
    /// [`Fault::Failed`], of flushes.
    pub failed_flushes: u64,
    /// [`Fault::Ignored`], of writes.
    pub lost_writes: u64,
    /// [`Fault::Ignored`], of flushes.
    pub lost_flushes: u64,
    /// [`Fault::Ignored`], of discards; a drive need not heed them.
    pub lost_discards: u64,
    /// [`Fault::Misdirected`].
    pub misdirected_writes: u64,
    /// [`Fault::Shorn`].
    pub shorn_writes: u64,
    /// [`Fault::Rot`], of reads.
    pub rotten_reads: u64,
    /// [`Fault::Unreadable`], of reads.
    pub unreadable: u64,
    /// [`Fault::Stuck`] for a while, of any command.
    pub stuck: u64,
    /// How long that while is on average; exponentially distributed.
    pub stuck_for: Span,
}

const MILLION: u64 = 1_000_000;

/// Which command meets which fault. None by default.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    rates: FaultRates,
    prng: Prng,
    script: BTreeMap<CommandId, Fault>,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::seeded(FaultRates::default(), 0)
    }
}

impl FaultPlan {
    /// Faults at these rates.
    pub fn seeded(rates: FaultRates, seed: u64) -> Self {
        Self { rates, prng: Prng::new(seed), script: BTreeMap::new() }
    }

    /// The plan with this fault for this command, whatever the rates say.
    #[must_use]
    pub fn with(mut self, command: CommandId, fault: Fault) -> Self {
        self.script.insert(command, fault);
        self
    }

    /// The fault of a command, if any.
    pub(super) fn draw(&mut self, id: CommandId, command: &Command) -> Option<Fault> {
        let dice = self.prng.below(MILLION);
        let salt = self.prng.next_u64();
        let stuck_for = self.prng.exponential(self.rates.stuck_for);
        let scripted = self.script.get(&id).copied();
        scripted.or_else(|| self.by_rate(command, dice, salt, stuck_for))
    }

    fn by_rate(&self, command: &Command, dice: u64, salt: u64, stuck_for: Span) -> Option<Fault> {
        let rates = &self.rates;
        let stuck = (rates.stuck, Fault::Stuck(Stall::For(stuck_for)));
        let table = match command {
            Command::Read { .. } => [
                stuck,
                (rates.failed_reads, Fault::Failed { salt }),
                (rates.rotten_reads, Fault::Rot { salt }),
                (rates.unreadable, Fault::Unreadable),
                (0, Fault::Ignored),
            ],
            Command::Flush => [
                stuck,
                (rates.failed_flushes, Fault::Failed { salt }),
                (rates.lost_flushes, Fault::Ignored),
                (0, Fault::Ignored),
                (0, Fault::Ignored),
            ],
            Command::ResetZone { .. } | Command::FinishZone { .. } => [
                stuck,
                (rates.failed_writes, Fault::Failed { salt }),
                (0, Fault::Ignored),
                (0, Fault::Ignored),
                (0, Fault::Ignored),
            ],
            Command::Discard { .. } => [
                stuck,
                (rates.failed_writes, Fault::Failed { salt }),
                (rates.lost_discards, Fault::Ignored),
                (0, Fault::Ignored),
                (0, Fault::Ignored),
            ],
            Command::Write { .. } | Command::WriteZeroes { .. } => [
                stuck,
                (rates.failed_writes, Fault::Failed { salt }),
                (rates.lost_writes, Fault::Ignored),
                (rates.misdirected_writes, Fault::Misdirected { salt }),
                (rates.shorn_writes, Fault::Shorn { salt }),
            ],
        };
        let mut reached = 0;
        table.into_iter().find_map(|(rate, fault)| {
            reached += rate;
            (dice < reached).then_some(fault)
        })
    }
}

/// The `index`th coin that a salt throws.
pub(super) fn coin(salt: u64, index: usize) -> bool {
    Prng::new(salt ^ index as u64).next_u64() & 1 == 1
}
