//! What a gate has under way with the servers of a volume: kept in a file that is mapped to memory,
//! so that the next process knows of it when this one is killed.
//!
//! ```text
//! call is queued -> its range takes a slot -> sent .. answered -> the slot is free
//!                                               \ killed: the slot stays taken
//! ```
//!
//! To note a range takes three stores and no system call. The file outlives the process, as a part
//! of the page cache, and not a power cut: after one it says nothing.
//!
//! | bytes | meaning; numbers have 8 bytes and are little-endian |
//! |---|---|
//! | 0 | `evenkeel underway 1` and a line feed, filled up with zeroes to 32 |
//! | 32 | the boot of the host in which it was written: 36 characters, zeroes up to 48 |
//! | 128 | for each of 64 servers a hash of its name in the policy, 0 where there is none |
//! | 640 | for each of 64 servers how many calls are under way that have no slot |
//! | 4096 | 4096 slots: the server's place + 1, or 0 if the slot is free; offset; length; 0 |
//!
//! A range is stored before the number of its server, which makes it count. So whenever the process
//! ends, every call that was sent is there. A range may be there that was not sent.

#![expect(unsafe_code, reason = "a file is mapped to memory")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::time::{Nanos, Span};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::clock::{Clock, boot_id, since_boot};
use crate::state::{file_of, hash};

const TITLE: &[u8] = b"evenkeel underway 1\n";
const TITLE_BYTES: usize = 32;
const BOOT: Range<usize> = 32..80;
const NAMES_WORD: usize = 128 / WORD;
const WHOLE_WORD: usize = NAMES_WORD + SERVERS_MAX;
const SLOTS_WORD: usize = 4096 / WORD;
const WORD: usize = 8;
const SLOT_WORDS: usize = 4;
const SERVERS_MAX: usize = evenkeel_engine::spread::layout::SERVERS_MAX;
/// Ranges that are known one by one. Depths bound what is under way to less; with more it is only
/// known on which server.
const SLOTS: usize = 4096;
const FILE_BYTES: usize = 4096 + SLOTS * SLOT_WORDS * WORD;

/// A range of a server, by its place in the order of the policy.
pub(crate) type ServerRange = (usize, Range<u64>);

/// Ranges under way of one volume. See the [module](self).
#[derive(Debug)]
pub(crate) struct Underway {
    clock: Clock,
    map: Map,
    free: RefCell<Vec<usize>>,
    /// By server: calls that have no slot.
    whole: RefCell<[u64; SERVERS_MAX]>,
    /// What servers may still carry out though nobody waits for it; oldest first.
    lingering: RefCell<VecDeque<Lingering>>,
    late: Span,
}

/// A call that nobody waits for any more.
#[derive(Debug)]
struct Lingering {
    /// Until when a server may carry it out.
    until: Nanos,
    place: Place,
    range: ServerRange,
}

/// Where a call that is under way is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Slot(usize),
    /// Only that there is one on this server.
    Whole(usize),
}

/// A call that is noted. It is taken to be carried out for a while after this is gone, unless
/// [`Noted::answered`] has said that it is over.
#[derive(Debug)]
pub(crate) struct Noted {
    underway: Rc<Underway>,
    place: Place,
    range: ServerRange,
    is_over: bool,
}

/// A file in memory, as words.
#[derive(Debug)]
struct Map {
    words: NonNull<AtomicU64>,
}

/// Why a file says nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Unknown {
    #[error("it is damaged, or of another version of evenkeel")]
    Damaged,
    #[error("the host was started since")]
    OtherBoot,
}

/// What a file tells of the process that wrote it.
type Told = Result<Vec<(u64, Range<u64>)>, Unknown>;

impl Map {
    /// Maps a file, which has the size that it must have.
    fn new(file: &File) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let address = std::ptr::null_mut();
        // SAFETY: the kernel chooses the address, so nothing else is mapped there.
        let words = unsafe { mmap(address, FILE_BYTES, access, MapFlags::SHARED, file, 0)? };
        let words = NonNull::new(words.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { words })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < FILE_BYTES / WORD, "words are counted by their table");
        // SAFETY: the mapping has that many words, is aligned to a page, lives as long as `self`,
        // and is reached by atomic operations alone. The file's blocks were allocated, and it is in
        // a folder that no other process writes to, so that its pages stay.
        unsafe { self.words.add(index).as_ref() }
    }

    fn slot(&self, slot: usize) -> [&AtomicU64; 3] {
        let first = SLOTS_WORD + slot * SLOT_WORDS;
        [self.word(first), self.word(first + 1), self.word(first + 2)]
    }

    /// Notes a range; it counts from the last store on.
    fn fill(&self, slot: usize, server: usize, range: &Range<u64>) {
        let [tag, offset, length] = self.slot(slot);
        offset.store(range.start.to_le(), Ordering::Relaxed);
        length.store((range.end - range.start).to_le(), Ordering::Relaxed);
        tag.store((server as u64 + 1).to_le(), Ordering::Release);
    }

    fn empty(&self, slot: usize) {
        self.word(SLOTS_WORD + slot * SLOT_WORDS).store(0, Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.words.as_ptr().cast(), FILE_BYTES) };
        debug_assert!(unmapped.is_ok(), "it is mapped");
    }
}

impl Underway {
    /// Takes up the file of a volume in the state folder: reads what the process before has left,
    /// and begins anew with that. `names` are those of the servers, in the order of the policy; a
    /// server's connection ends `unacknowledged` after its gate at the latest.
    ///
    /// # Errors
    /// The file cannot be made; then nothing would be known after a crash.
    pub(crate) fn open(
        folder: &Path,
        volume: &str,
        names: &[String],
        clock: Clock,
        (unacknowledged, late): (Span, Span),
    ) -> io::Result<Self> {
        let path = file_of(folder, "underway", volume);
        let boot = boot();
        let told = read(&path, &boot)?;
        if let Err(why) = &told {
            let file = path.display();
            tracing::warn!(%file, %why, "nobody knows what was under way: the volume waits");
        }
        let now = clock.now();
        let until = match &told {
            _ if late == Span::ZERO => now,
            // Whatever was sent had been read by the time that the host was started again.
            Err(Unknown::OtherBoot) => now + Span(late.0.saturating_sub(since_boot().0)),
            _ => now + unacknowledged + late,
        };
        let hashes: Vec<u64> = names.iter().map(|name| hash(name)).collect();
        let mut left = by_server(told, &hashes);
        if until <= now {
            left.clear();
        }
        let map = Map::new(&make(&path, &boot, &hashes, &left)?)?;
        let free = (0..SLOTS).rev().filter(|slot| map.slot(*slot)[0].load(Ordering::Relaxed) == 0);
        let free = RefCell::new(free.collect());
        let whole = RefCell::new(count_whole(&left));
        let places: Vec<Place> = places(&left).collect();
        let lingering = places.into_iter().zip(left);
        let lingering = lingering.map(|(place, range)| Lingering { until, place, range });
        let lingering = RefCell::new(lingering.collect());
        Ok(Self { clock, map, free, whole, lingering, late })
    }

    /// What servers may still carry out of calls that nobody waits for any more, of the process
    /// before or of this one, and until when.
    pub(crate) fn late(&self) -> (Nanos, Vec<ServerRange>) {
        self.reclaim();
        let lingering = self.lingering.borrow();
        let until = lingering.iter().map(|one| one.until).max().unwrap_or(Nanos::ZERO);
        (until, lingering.iter().map(|one| one.range.clone()).collect())
    }

    /// Notes a call that is about to be sent.
    pub(crate) fn note(self: &Rc<Self>, server: usize, range: &Range<u64>) -> Noted {
        self.reclaim();
        let free = self.free.borrow_mut().pop();
        let place = if let Some(slot) = free {
            self.map.fill(slot, server, range);
            Place::Slot(slot)
        } else {
            self.count_whole(server, 1);
            Place::Whole(server)
        };
        let range = match place {
            Place::Slot(_) => range.clone(),
            Place::Whole(_) => 0..u64::MAX,
        };
        Noted { underway: Rc::clone(self), place, range: (server, range), is_over: false }
    }

    /// Forgets what servers have let go of by now.
    fn reclaim(&self) {
        let mut lingering = self.lingering.borrow_mut();
        if lingering.is_empty() {
            return;
        }
        let now = self.clock.now();
        while let Some(one) = lingering.pop_front_if(|one| one.until <= now) {
            self.release(one.place);
        }
    }

    fn release(&self, place: Place) {
        match place {
            Place::Slot(slot) => {
                self.map.empty(slot);
                self.free.borrow_mut().push(slot);
            }
            Place::Whole(server) => self.count_whole(server, -1),
        }
    }

    fn count_whole(&self, server: usize, change: i64) {
        let count = &mut self.whole.borrow_mut()[server];
        *count = count.checked_add_signed(change).expect("what is released was counted");
        self.map.word(WHOLE_WORD + server).store(count.to_le(), Ordering::Release);
    }
}

impl Noted {
    /// The server has answered, on the only connection that the call was sent on.
    pub(crate) fn answered(mut self) {
        self.is_over = true;
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let Underway { clock, lingering, late, .. } = &*self.underway;
        if self.is_over {
            self.underway.release(self.place);
        } else {
            let (until, place) = (clock.now() + *late, self.place);
            let range = std::mem::take(&mut self.range);
            lingering.borrow_mut().push_back(Lingering { until, place, range });
        }
    }
}

/// The boot of the host as the file has it.
fn boot() -> Vec<u8> {
    let mut boot = boot_id().into_bytes();
    boot.resize(BOOT.len(), 0);
    boot
}

/// What the file tells; nothing if there is none.
fn read(path: &Path, boot: &[u8]) -> io::Result<Told> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Vec::new())),
        Err(error) => return Err(error),
    };
    Ok(decode(&bytes, boot))
}

/// What the bytes of a file tell: hashes of servers' names, with ranges.
fn decode(bytes: &[u8], boot: &[u8]) -> Told {
    let (words, rest) = bytes.as_chunks::<WORD>();
    let word = |index: usize| u64::from_le_bytes(words[index]);
    let is_ours = bytes.len() == FILE_BYTES
        && rest.is_empty()
        && bytes.starts_with(TITLE)
        && bytes[TITLE.len()..TITLE_BYTES].iter().all(|byte| *byte == 0);
    if !is_ours {
        return Err(Unknown::Damaged);
    }
    if bytes[BOOT] != *boot {
        return Err(Unknown::OtherBoot);
    }
    let name = |server: usize| word(NAMES_WORD + server);
    let whole = (0..SERVERS_MAX).filter(|server| word(WHOLE_WORD + server) > 0);
    let mut told: Vec<_> = whole.map(|server| (name(server), 0..u64::MAX)).collect();
    for slot in 0..SLOTS {
        let [tag, offset, length] = [0, 1, 2].map(|at| word(SLOTS_WORD + slot * SLOT_WORDS + at));
        if tag > 0 {
            let server = usize::try_from(tag - 1).ok().filter(|server| *server < SERVERS_MAX);
            let server = server.ok_or(Unknown::Damaged)?;
            told.push((name(server), offset..offset.saturating_add(length)));
        }
    }
    if told.iter().any(|(name, _)| *name == 0) { Err(Unknown::Damaged) } else { Ok(told) }
}

/// The same by servers as the policy has them now. What was under way with a server whose name is
/// not there any more may concern any that has a new one; nobody knows which.
fn by_server(told: Told, hashes: &[u64]) -> Vec<ServerRange> {
    let all = || (0..hashes.len()).map(|server| (server, 0..u64::MAX));
    let Ok(told) = told else { return all().collect() };
    if told.iter().any(|(name, _)| !hashes.contains(name)) {
        return all().collect();
    }
    let server = |name| hashes.iter().position(|hash| *hash == name);
    let ranges = told.into_iter().filter_map(|(name, range)| Some((server(name)?, range)));
    ranges.collect()
}

/// Where ranges are noted that a process has left.
fn places(left: &[ServerRange]) -> impl Iterator<Item = Place> {
    let mut slots = 0..SLOTS;
    left.iter().map(move |(server, range)| match range {
        Range { start: 0, end: u64::MAX } => Place::Whole(*server),
        _ => Place::Slot(slots.next().expect("they were in as many slots")),
    })
}

/// Writes a new file with these ranges, and puts it in the place of the one that there was.
fn make(path: &Path, boot: &[u8], hashes: &[u64], left: &[ServerRange]) -> io::Result<File> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&temporary)?;
    // Without its blocks a store could meet a full disk, which ends a process.
    fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES as u64)?;
    file.write_all_at(&encode(boot, hashes, left), 0)?;
    std::fs::rename(&temporary, path)?;
    Ok(file)
}

fn encode(boot: &[u8], hashes: &[u64], left: &[ServerRange]) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    bytes[..TITLE.len()].copy_from_slice(TITLE);
    bytes[BOOT].copy_from_slice(boot);
    let (words, _) = bytes.as_chunks_mut::<WORD>();
    for (at, hash) in hashes.iter().enumerate() {
        words[NAMES_WORD + at] = hash.to_le_bytes();
    }
    for (place, (server, range)) in places(left).zip(left) {
        let Place::Slot(slot) = place else { continue };
        let numbers = [*server as u64 + 1, range.start, range.end - range.start];
        for (at, number) in numbers.into_iter().enumerate() {
            words[SLOTS_WORD + slot * SLOT_WORDS + at] = number.to_le_bytes();
        }
    }
    for (server, count) in count_whole(left).into_iter().enumerate() {
        words[WHOLE_WORD + server] = count.to_le_bytes();
    }
    bytes
}

/// By server: of what a process has left, how much has no slot.
fn count_whole(left: &[ServerRange]) -> [u64; SERVERS_MAX] {
    let mut whole = [0; SERVERS_MAX];
    for place in places(left) {
        if let Place::Whole(server) = place {
            whole[server] += 1;
        }
    }
    whole
}

#[cfg(test)]
mod tests;
