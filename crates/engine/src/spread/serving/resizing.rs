//! Another size for a volume in service.
//!
//! ```text
//! grow     heads of all servers, flushed -> the volume ends further on
//! shrink   nothing lies beyond? -> nothing begins there any more -> heads of all servers, flushed
//! ```
//!
//! A cut in between leaves heads that differ. The greatest size counts then: what was promised is
//! there, and where it shrinks, nothing lies beyond.

use std::fmt;

use evenkeel_core::bytes::Bytes;
use evenkeel_core::id::ServerId;
use evenkeel_core::time::Nanos;

use super::Serving;

/// A volume on its way to another size.
#[derive(Debug)]
pub(super) struct Resizing {
    objects: u32,
    /// The servers whose heads are yet to say so, by index.
    left: u64,
}

/// Why a volume keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeRefusal {
    /// The head of this server cannot be written now.
    Away(ServerId),
    /// There would be no object, or more than the volume has room to note.
    Beyond {
        /// The greatest size.
        most_bytes: u64,
    },
    /// Something was written beyond the new end.
    Data {
        /// Where the first of it is, in bytes.
        offset: u64,
    },
    /// Something beyond the new end is on its way, or the volume is being resized already.
    Busy,
    /// It is not this gate's for now.
    NotHeld,
}

impl fmt::Display for ResizeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(_) => f.write_str("all its servers must be there and take writes"),
            Self::Beyond { most_bytes } => write!(
                f,
                "this volume has at least one object, and can note {} at most; copy it to a new \
                 one for more",
                Bytes(*most_bytes)
            ),
            Self::Data { offset } => write!(
                f,
                "there is data beyond that end, at {}; copy it elsewhere and discard it there",
                Bytes(*offset)
            ),
            Self::Busy => f.write_str("what is beyond that end is changing: try it again"),
            Self::NotHeld => {
                f.write_str("nobody knows whether the volume is this gate's: try it again")
            }
        }
    }
}

impl std::error::Error for ResizeRefusal {}

impl Serving {
    /// Begins to give the volume another size; [`Self::take_resized`] says what came of it.
    pub(crate) fn resize(&mut self, now: Nanos, size_bytes: u64) {
        self.resized = None;
        if let Err(why) = self.begin_resize(now, size_bytes) {
            self.resized = Some(Err(why));
        }
    }

    fn begin_resize(&mut self, now: Nanos, size_bytes: u64) -> Result<(), ResizeRefusal> {
        let (layout, most) = (&self.volume.layout, self.volume.layout.objects_max());
        let beyond = ResizeRefusal::Beyond { most_bytes: u64::from(most) * layout.object_bytes };
        let objects =
            u32::try_from(size_bytes.div_ceil(layout.object_bytes)).map_err(|_| beyond)?;
        if !(1..=most).contains(&objects) {
            return Err(beyond);
        }
        if !self.may_begin(now) {
            return Err(ResizeRefusal::NotHeld);
        }
        if self.resizing.is_some() {
            return Err(ResizeRefusal::Busy);
        }
        let is_there = |index: &usize| {
            self.volume.away != Some(*index)
                && !self.is_stale[*index]
                && now >= self.rest_until[*index]
        };
        if let Some(index) = (0..self.scribes.len()).find(|index| !is_there(index)) {
            return Err(ResizeRefusal::Away(self.server_id(index)));
        }
        if objects < layout.objects {
            self.check_beyond(objects)?;
            self.end = objects;
        }
        self.volume.wanted_objects = Some(objects);
        self.scribes.iter_mut().for_each(|scribe| scribe.is_head_due = true);
        let left = (0..self.scribes.len()).fold(0, |left, index| left | 1 << index);
        self.resizing = Some(Resizing { objects, left });
        self.is_due = true;
        Ok(())
    }

    /// Whether nothing lies beyond an end, nor is on its way there.
    fn check_beyond(&self, objects: u32) -> Result<(), ResizeRefusal> {
        let placed = self.volume.places.known_from(objects).map(|(object, _)| object);
        let lost = self.volume.lost.range(objects..).copied();
        if let Some(object) = placed.chain(lost).min() {
            let offset = u64::from(object) << self.object_bits;
            return Err(ResizeRefusal::Data { offset });
        }
        let is_changing = self.grants.range(objects..).next().is_some()
            || self.freeings.range(objects..).next().is_some()
            || self.later.iter().any(|(_, one)| one.object >= objects)
            || self.mover.is_busy_beyond(objects);
        if is_changing { Err(ResizeRefusal::Busy) } else { Ok(()) }
    }

    /// A server's head says the new size, or could not be written.
    pub(super) fn head_written(&mut self, index: usize, ok: bool) {
        // That round began before this size was asked for.
        if self.scribes[index].is_head_due {
            return;
        }
        let Some(resizing) = &mut self.resizing else { return };
        resizing.left &= !(1 << index);
        let (objects, is_over) = (resizing.objects, resizing.left == 0);
        if !ok {
            // Some say the new size. At the next opening the greater one counts.
            self.end = self.volume.layout.objects;
            self.end_resize(Err(ResizeRefusal::Away(self.server_id(index))));
        } else if is_over {
            self.end = objects;
            self.volume.layout.objects = objects;
            self.volume.places.resize(objects);
            self.end_resize(Ok(self.volume.size_bytes()));
        }
    }

    /// The volume, or a server of it, is not ours any more.
    pub(super) fn abandon_resize(&mut self) {
        if self.resizing.is_some() {
            self.end = self.volume.layout.objects;
            self.end_resize(Err(ResizeRefusal::NotHeld));
        }
    }

    fn end_resize(&mut self, result: Result<u64, ResizeRefusal>) {
        self.resizing = None;
        self.volume.wanted_objects = None;
        self.scribes.iter_mut().for_each(|scribe| scribe.is_head_due = false);
        self.resized = Some(result);
    }

    /// What came of another size, once it is known: the size, in bytes, or why it has not changed.
    pub(crate) fn take_resized(&mut self) -> Option<Result<u64, ResizeRefusal>> {
        self.resized.take()
    }
}
