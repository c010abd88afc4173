//! Who uses a member of a volume at present, be it a tier or a server: the gate that claimed it
//! last, and how often it has beaten since; and what is known of the last opening that came to its
//! end.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 48 | 16 | the owner: bytes that a gate draws at random for each opening |
//! | 64 | 8 | the generation up to whose beginning all notes are known to be durable |
//! | 72 | 4 | 1 if the owner has let go, else 0 |
//! | 76 | 4 | bytes of the owner's name, at most 256 |
//! | 80 | 256 | the owner's name for people, UTF-8; then zeroes |
//! | 336 | 16 | the opening of that generation |
//! | 352 | 4 | the number, and one more, of the server that it was made without; 0 if of none |
//! | 356 | 4 | the half that it has noted in: 0 or 1 |
//! | 360 | 16 | the last opening that came to its end with that server |
//! | 376 | 4 | the owner's lease, in milliseconds |
//! | 380 | 4 | bytes of the owner's addresses, at most 1024 |
//! | 384 | 16 | the state folder of the owner; zeroes if it has none |
//! | 400 | 16 | the run of the owner's process |
//! | 416 | 4 | the half that the owner notes in: 0 or 1 |
//! | 420 | 4 | zeroes |
//! | 424 | 8 | the generation in which an owner began to note in the half of byte 356 |
//! | 432 | 72 | how far the members are: a [`Mark`] |
//! | 504 | 8 | zeroes |
//! | 512 | 1024 | its addresses as the servers see them, separated by spaces; then zeroes |
//! | 1536 | 2560 | zeroes |
//!
//! The label's number counts the beats. The block is overwritten in place: all that ever changes of
//! it lies in its first 512 bytes, which no drive tears.

use evenkeel_core::time::Span;

use super::front::OWNER_OFFSET;
use super::half::Half;
use super::mark::Mark;
use super::{Gate, Times};
use crate::notes::VolumeId;
use crate::notes::block::{
    Block, BlockKind, Label, label, put_u32, put_u64, seal, u32_at, u64_at, volume_of,
};

/// Most members of one volume.
pub(crate) const MEMBERS_MAX: usize = 64;
/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 256;
const NAME: usize = 80;
const SETTLED_BY: usize = 336;
const ABSENT: usize = 352;
const SETTLED_HALF: usize = 356;
const KNOWN: usize = 360;
const LEASE: usize = 376;
const ADDRESSES_BYTES: usize = 380;
const STATE: usize = 384;
const RUN: usize = 400;
const HALF: usize = 416;
const SINCE: usize = 424;
const MARK: usize = 432;
const ADDRESSES: usize = 512;
/// Most bytes of addresses.
const ADDRESSES_BYTES_MAX: usize = 1024;

/// What an owner, and so an opening, is known by; each opening draws its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerId(
    /// 16 random bytes.
    pub [u8; 16],
);

/// What the block says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    pub(crate) beat: u64,
    pub(crate) settled: Settled,
    pub(crate) is_released: bool,
    /// Where it notes.
    pub(crate) half: Half,
    /// How far the members are, as the opening that came to its end last has told.
    pub(crate) mark: Mark,
    pub(crate) gate: Gate,
}

/// The last opening that came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Notes of this generation and later ones may not be durable. Zero if there was none.
    pub(crate) generation: u64,
    /// Which one it was.
    pub(crate) by: OwnerId,
    /// Where all that was noted up to then is noted.
    pub(crate) half: Half,
    /// The generation in which an owner began to note there: what is older there counts no more.
    pub(crate) since: u64,
    /// The server that was not there, if any.
    pub(crate) absent: Option<Absent>,
}

/// A server that the volume was opened without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) number: u32,
    /// The last opening that came to its end with it.
    pub(crate) known: OwnerId,
}

impl OwnerId {
    /// Whether it is that of an opening.
    pub(crate) fn is_known(self) -> bool {
        self != Self::default()
    }

    pub(crate) fn at(block: &Block, at: usize) -> Self {
        Self(std::array::from_fn(|index| block[at + index]))
    }
}

impl Owner {
    /// Whether the opening of this owner has come to its end.
    pub(crate) fn has_served(&self) -> bool {
        self.settled.by == self.id
    }

    /// Whether a block is that of a volume in use, whichever that is.
    pub(crate) fn is_of_any(block: &Block) -> bool {
        let owner = volume_of(block).and_then(|volume| Self::decode(volume, block));
        owner.is_some_and(|owner| owner.settled != Settled::default())
    }

    /// Whether a block is the claim of whoever made a volume, before that was done.
    pub(crate) fn is_of_making(block: &Block) -> bool {
        let owner = volume_of(block).and_then(|volume| Self::decode(volume, block));
        owner.is_some_and(|owner| owner.settled == Settled::default())
    }

    /// What a block says; none if it is no such block of this volume.
    pub(crate) fn decode(volume: VolumeId, block: &Block) -> Option<Self> {
        let label = label(BlockKind::Owner, block).ok()?;
        let name_bytes = u32_at(block, 76) as usize;
        let is_ours = label.volume == volume && label.offset == OWNER_OFFSET;
        if !is_ours || name_bytes > NAME_BYTES_MAX || u32_at(block, 72) > 1 {
            return None;
        }
        let number = u32_at(block, ABSENT);
        if number as usize > MEMBERS_MAX {
            return None;
        }
        let known = OwnerId::at(block, KNOWN);
        let absent = number.checked_sub(1).map(|number| Absent { number, known });
        let addresses_bytes = u32_at(block, ADDRESSES_BYTES) as usize;
        let text = |at: usize, bytes: usize| String::from_utf8(block[at..at + bytes].to_vec()).ok();
        if addresses_bytes > ADDRESSES_BYTES_MAX {
            return None;
        }
        let half = |at: usize| match u32_at(block, at) {
            0 => Some(Half::First),
            1 => Some(Half::Second),
            _ => None,
        };
        let gate = Gate {
            name: text(NAME, name_bytes)?,
            times: Times::of(Span::from_millis(u32_at(block, LEASE).into())),
            addresses: text(ADDRESSES, addresses_bytes)?,
            state: OwnerId::at(block, STATE).0,
            run: OwnerId::at(block, RUN).0,
        };
        Some(Self {
            id: OwnerId::at(block, 48),
            beat: label.number,
            settled: Settled {
                generation: u64_at(block, 64),
                by: OwnerId::at(block, SETTLED_BY),
                half: half(SETTLED_HALF)?,
                since: u64_at(block, SINCE),
                absent,
            },
            is_released: u32_at(block, 72) == 1,
            half: half(HALF)?,
            mark: Mark::decode(block, MARK)?,
            gate,
        })
    }

    /// Makes the block.
    pub(crate) fn encode(&self, volume: VolumeId, block: &mut Block) {
        block.fill(0);
        block[48..64].copy_from_slice(&self.id.0);
        put_u64(block, 64, self.settled.generation);
        put_u32(block, 72, u32::from(self.is_released));
        let mut put_text = |length_at: usize, at: usize, text: &str, bytes_max: usize| {
            let text = &text[..text.floor_char_boundary(bytes_max)];
            put_u32(block, length_at, u32::try_from(text.len()).expect("cut above"));
            block[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        let Gate { name, times, addresses, state, run } = &self.gate;
        put_text(76, NAME, name, NAME_BYTES_MAX);
        put_text(ADDRESSES_BYTES, ADDRESSES, addresses, ADDRESSES_BYTES_MAX);
        let millis = times.lease().0 / 1_000_000;
        put_u32(block, LEASE, u32::try_from(millis).expect("leases are short"));
        block[STATE..][..16].copy_from_slice(state);
        block[RUN..][..16].copy_from_slice(run);
        block[SETTLED_BY..][..16].copy_from_slice(&self.settled.by.0);
        put_u32(block, SETTLED_HALF, u32::from(self.settled.half == Half::Second));
        put_u32(block, HALF, u32::from(self.half == Half::Second));
        put_u64(block, SINCE, self.settled.since);
        self.mark.encode(block, MARK);
        if let Some(Absent { number, known }) = self.settled.absent {
            put_u32(block, ABSENT, number + 1);
            block[KNOWN..][..16].copy_from_slice(&known.0);
        }
        let label = Label { volume, number: self.beat, offset: OWNER_OFFSET };
        seal(BlockKind::Owner, &label, block);
    }
}
