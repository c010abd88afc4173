//! What took effect since the last checkpoint, as the next increment will say it.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::format::checkpoint::Item;
use crate::format::record::{Kind, RecordHeader};
use crate::units::Address;

/// Records in the order in which they took effect, encoded. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    item: Rc<[u8]>,
}

impl Journal {
    /// A record took effect, whose data starts at `data`.
    pub(crate) fn push(&mut self, header: &RecordHeader, data: Address) {
        let item: Rc<[u8]> = Rc::from(Item::encode_record(header, data));
        self.bytes += item.len();
        self.entries.push_back(Entry { kind: header.kind, item });
    }

    /// Records.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of their items.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The items of the records that `counts` accepts.
    pub(super) fn items(&self, counts: impl Fn(Kind) -> bool) -> Vec<Rc<[u8]>> {
        let entries = self.entries.iter().filter(|entry| counts(entry.kind));
        entries.map(|entry| Rc::clone(&entry.item)).collect()
    }

    /// Forgets the first so many records: a checkpoint has them.
    pub(super) fn forget(&mut self, records: usize) {
        self.bytes -= self.entries.drain(..records).map(|entry| entry.item.len()).sum::<usize>();
    }
}
