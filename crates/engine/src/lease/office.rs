//! What an opening that has come to its end says of itself on the members of its volume.

use super::mark::Mark;
use super::member::{Identity, Lease};
use super::owner::{Absent, Owner, OwnerId, Settled};
use super::witness::Witness;
use super::{Gate, Half};
use crate::notes::VolumeId;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Office {
    /// The opening.
    pub(crate) owner: OwnerId,
    pub(crate) gate: Gate,
    pub(crate) generation: u64,
    /// Where this owner notes.
    pub(crate) half: Half,
    /// The generation in which an owner began to note there.
    pub(crate) since: u64,
    /// By member: how often the owner has beaten there.
    pub(crate) beats: Vec<u64>,
    /// The last move that is durable.
    pub(crate) noted: u64,
}

impl Office {
    /// What is known from now on of the last opening that came to its end.
    pub(crate) fn settled(&self, absent: Option<Absent>) -> Settled {
        let Self { owner, generation, half, since, .. } = *self;
        Settled { generation, by: owner, half, since, absent }
    }

    /// What this gate is to remember of the volume.
    pub(crate) fn witness(&self, volume: VolumeId) -> Witness {
        let mark = Mark { noted: self.noted, ..Mark::default() };
        Witness { volume, generation: self.generation, by: self.owner, mark }
    }

    /// The lease on this member, which is the one of this identity and has a head of this
    /// generation.
    pub(crate) fn lease(
        &self,
        (identity, generation): (Identity, u64),
        member: usize,
        absent: Option<Absent>,
    ) -> Lease {
        let owner = Owner {
            id: self.owner,
            beat: self.beats[member],
            settled: self.settled(absent),
            is_released: false,
            half: self.half,
            mark: Mark { noted: self.noted, ..Mark::default() },
            gate: self.gate.clone(),
        };
        Lease::new(identity, generation, owner)
    }
}
