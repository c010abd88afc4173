//! The clients of two gates. Every block says who wrote it, when, and where it belongs, so that
//! whatever is found later tells its story.
//!
//! ```text
//! block of 4 KiB = 256 times | writer (4) | sequence (4) | block number (8) |
//! ```

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_core::prng::Prng;

use crate::harness::nbd::{self, Client, FLUSH, READ, Request, WRITE};
use crate::harness::target::Target;

pub(super) const BLOCK: u64 = 4096;

/// Who writes.
pub(super) const OF_A: u32 = 0xAAAA_AAAA;
pub(super) const OF_B: u32 = 0xBBBB_BBBB;
/// What the first gate's client flushed before anything happened.
pub(super) const KEPT: u32 = 0xCCCC_CCCC;

/// For so long a client waits for an answer.
const ANSWER: Duration = Duration::from_mins(3);
/// The gate that takes over has to answer in this time. A flush of the machine's disk may take some
/// seconds while other tests write to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one question waits, whether it has taken over.
const LOOK: Duration = Duration::from_secs(2);

/// What a block holds after a write.
fn stamp(writer: u32, sequence: u32, block: u64) -> Vec<u8> {
    let mut stamp = writer.to_le_bytes().to_vec();
    stamp.extend(sequence.to_le_bytes());
    stamp.extend(block.to_le_bytes());
    stamp.repeat(256)
}

/// So many bytes from this offset, as a write has them.
fn content(writer: u32, sequence: u32, offset: u64, bytes: u64) -> Vec<u8> {
    let blocks = offset / BLOCK..(offset + bytes) / BLOCK;
    blocks.flat_map(|block| stamp(writer, sequence, block)).collect()
}

pub(super) fn write_of(cookie: u64, offset: u64, length: u64) -> Request {
    let length = u32::try_from(length).expect("writes are short");
    Request { command: WRITE, cookie, offset, length, ..Request::default() }
}

/// Writes one block at each offset and flushes; so that their objects have a place, and so that
/// somebody's flushed data is there.
pub(super) fn keep(target: &Target, offsets: impl Iterator<Item = u64>) {
    let mut client = Client::open(target);
    for offset in offsets {
        assert_eq!(client.write(offset, &stamp(KEPT, 0, offset / BLOCK)), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
}

/// What the client of the gate that goes away writes, and what came of it.
pub(super) struct Hammer {
    pub(super) seed: u64,
    /// Where its addresses start, and over how many bytes.
    pub(super) from: u64,
    pub(super) range_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) depth: usize,
    /// From now on one request at a time, reads and writes by turns, with rests.
    pub(super) is_calm: AtomicBool,
    pub(super) stop: AtomicBool,
    pub(super) acknowledged: AtomicU64,
    /// Requests that were sent after the other gate had begun to serve, and that this one answered
    /// with success all the same.
    pub(super) served_after: AtomicU64,
    /// When the last success came, in nanoseconds since `epoch`.
    last_success_ns: AtomicU64,
    epoch: Instant,
}

impl Hammer {
    pub(super) fn new(seed: u64, from: u64, range_bytes: u64, of: (u64, usize)) -> Self {
        Self {
            seed,
            from,
            range_bytes,
            write_bytes: of.0,
            depth: of.1,
            is_calm: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            served_after: AtomicU64::new(0),
            last_success_ns: AtomicU64::new(0),
            epoch: Instant::now(),
        }
    }

    /// Writes until it is told to stop, over new connections where one breaks.
    pub(super) fn run(&self, target: &Target, other_serves: &OnceLock<Instant>) {
        let mut prng = Prng::new(self.seed);
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(client) = Client::try_open_for(target, ANSWER) {
                self.write_until_cut(client, &mut prng, other_serves);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn write_until_cut(
        &self,
        mut client: Client,
        prng: &mut Prng,
        other_serves: &OnceLock<Instant>,
    ) {
        let (mut sent, mut sequence) = (BTreeMap::new(), 0);
        while !self.stop.load(Ordering::Relaxed) {
            let is_calm = self.is_calm.load(Ordering::Relaxed);
            while sent.len() < if is_calm { 1 } else { self.depth } {
                sequence += 1;
                let place = prng.below(self.range_bytes / self.write_bytes);
                let offset = self.from + place * self.write_bytes;
                let is_read = is_calm && sequence % 2 == 0;
                sent.insert(u64::from(sequence), (Instant::now(), is_read));
                if !client.throw(&self.request(is_read, sequence, offset)) {
                    return;
                }
            }
            let Ok(reply) = client.try_take(16) else { return };
            let answered = sent.remove(&nbd::be64(&reply[8..16]));
            let (sent_at, is_read) = answered.expect("an answer to a request");
            if nbd::be32(&reply[4..8]) == 0 {
                if is_read && client.try_take(4096).is_err() {
                    return;
                }
                self.note_success(sent_at, other_serves);
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
            if is_calm {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn request(&self, is_read: bool, sequence: u32, offset: u64) -> Vec<u8> {
        let cookie = u64::from(sequence);
        if is_read {
            let length = 4096;
            return Request { command: READ, cookie, offset, length, ..Request::default() }.bytes();
        }
        let write = write_of(cookie, offset, self.write_bytes);
        [write.bytes(), content(OF_A, sequence, offset, self.write_bytes)].concat()
    }

    fn note_success(&self, sent_at: Instant, other_serves: &OnceLock<Instant>) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        let since = u64::try_from(self.epoch.elapsed().as_nanos()).expect("some minutes");
        self.last_success_ns.store(since, Ordering::Relaxed);
        let is_too_late = other_serves.get().is_some_and(|since| sent_at > *since);
        self.served_after.fetch_add(u64::from(is_too_late), Ordering::Relaxed);
    }

    /// Whether a request was answered with success since then.
    pub(super) fn has_succeeded_since(&self, instant: Instant) -> bool {
        let last = Duration::from_nanos(self.last_success_ns.load(Ordering::Relaxed));
        self.epoch + last > instant
    }
}

/// Whether the gate serves the volume by now.
fn is_served(target: &Target) -> bool {
    let client = Client::try_open_for(target, LOOK);
    client.is_some_and(|mut client| client.try_read(0, 4096).is_some())
}

/// What is known of a chunk that a client wrote.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The write that was flushed last.
    flushed: Option<u32>,
    /// Those that were sent since.
    possible: Vec<u32>,
}

/// What the client of the gate that takes over wrote and flushed, and how it fared.
pub(super) struct Work {
    chunk_bytes: u64,
    /// Offsets in the order of writing; the first half is written once.
    chunks: Vec<u64>,
    known: BTreeMap<u64, Known>,
    sequence: u32,
    /// Whether the first half has been flushed.
    is_settled: bool,
    /// Errors after it was served for the first time: when, since then.
    pub(super) errors: Vec<Duration>,
}

/// What was lost of flushed data, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// The other gate's data.
    pub(super) of_other: u64,
    /// Older data of its own.
    pub(super) older: u64,
    pub(super) zeros: u64,
    /// Of another place, or a mixture.
    pub(super) foreign: u64,
    /// Not served, with an error.
    pub(super) unreadable: u64,
    pub(super) checked: u64,
}

impl Loss {
    pub(super) fn blocks(&self) -> u64 {
        self.of_other + self.older + self.zeros + self.foreign + self.unreadable
    }

    fn note(&mut self, found: &[u8], block: u64, writer: u32) {
        let number =
            |from: usize| u32::from_le_bytes(found[from..from + 4].try_into().expect("four bytes"));
        let is_whole = *found == stamp(number(0), number(4), block);
        let count = match number(0) {
            0 if found.iter().all(|byte| *byte == 0) => &mut self.zeros,
            OF_A if is_whole && writer != OF_A => &mut self.of_other,
            found if is_whole && found == writer => &mut self.older,
            _ => &mut self.foreign,
        };
        *count += 1;
    }
}

impl Work {
    /// Chunks of this size at random places of the first `range_bytes`, `total_bytes` together.
    pub(super) fn new(seed: u64, range_bytes: u64, chunk_bytes: u64, total_bytes: u64) -> Self {
        let mut prng = Prng::new(seed ^ 0xB);
        let mut places: Vec<u64> = (0..range_bytes / chunk_bytes).collect();
        let count = usize::try_from(total_bytes / chunk_bytes).expect("some thousands");
        for place in 0..count {
            let left = (places.len() - place) as u64;
            let other = place + usize::try_from(prng.below(left)).expect("a place in the list");
            places.swap(place, other);
        }
        places.truncate(count);
        Self {
            chunk_bytes,
            chunks: places.iter().map(|place| place * chunk_bytes).collect(),
            known: BTreeMap::new(),
            sequence: 0,
            is_settled: false,
            errors: Vec::new(),
        }
    }

    /// Waits until the gate serves, and works until it is told to stop. Once it is served it comes
    /// to the end of its first pass whatever it is told.
    pub(super) fn run(&mut self, target: &Target, stop: &AtomicBool, served: &OnceLock<Instant>) {
        let has_to_go = |work: &Self| {
            stop.load(Ordering::Relaxed)
                && (served.get().is_none() || work.is_settled || work.errors.len() > 200)
        };
        while !has_to_go(self) {
            if served.get().is_none() && is_served(target) {
                served.get_or_init(Instant::now);
            }
            if let Some(since) = served.get()
                && let Some(mut client) = Client::try_open_for(target, PATIENCE)
            {
                while !has_to_go(self) {
                    if self.pass(&mut client).is_none() {
                        self.errors.push(since.elapsed());
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes what is to be written, eight writes at a time, and flushes; nothing if anything of it
    /// failed.
    fn pass(&mut self, client: &mut Client) -> Option<()> {
        self.sequence += 1;
        let from = if self.is_settled { self.chunks.len() / 2 } else { 0 };
        let chunks = self.chunks[from..].to_vec();
        let mut waiting = 0;
        for chunk in &chunks {
            self.known.entry(*chunk).or_default().possible.push(self.sequence);
            let bytes = content(OF_B, self.sequence, *chunk, self.chunk_bytes);
            let write = write_of(*chunk, *chunk, self.chunk_bytes);
            client.throw(&[write.bytes(), bytes].concat()).then_some(())?;
            waiting += 1;
            while waiting >= 8 {
                waiting -= 1;
                success(client)?;
            }
        }
        for _ in 0..waiting {
            success(client)?;
        }
        client.throw(&Request { command: FLUSH, ..Request::default() }.bytes()).then_some(())?;
        success(client)?;
        for chunk in chunks {
            let flushed = Some(self.sequence);
            self.known.insert(chunk, Known { flushed, possible: Vec::new() });
        }
        self.is_settled = true;
        Some(())
    }

    /// Reads all that was flushed, and says what is not there.
    pub(super) fn check(&self, target: &Target) -> Loss {
        let (mut loss, mut reader) = (Loss::default(), Reader::new(target));
        for (chunk, known) in &self.known {
            let Some(flushed) = known.flushed else { continue };
            let found = reader.read(*chunk, self.chunk_bytes);
            loss.checked += self.chunk_bytes / BLOCK;
            let Some(found) = found else {
                loss.unreadable += self.chunk_bytes / BLOCK;
                continue;
            };
            for (place, found) in found.chunks_exact(4096).enumerate() {
                let block = chunk / BLOCK + place as u64;
                let mut good = std::iter::once(&flushed).chain(&known.possible);
                if !good.any(|sequence| *found == stamp(OF_B, *sequence, block)) {
                    loss.note(found, block, OF_B);
                }
            }
        }
        loss
    }
}

/// Reads what [`keep`] wrote, and says what is not there.
pub(super) fn check_kept(target: &Target, offsets: impl Iterator<Item = u64>) -> Loss {
    let (mut loss, mut reader) = (Loss::default(), Reader::new(target));
    for offset in offsets {
        loss.checked += 1;
        match reader.read(offset, BLOCK) {
            Some(found) if found == stamp(KEPT, 0, offset / BLOCK) => {}
            Some(found) => loss.note(&found, offset / BLOCK, KEPT),
            None => loss.unreadable += 1,
        }
    }
    loss
}

/// Reads over connections that are made when there is none.
struct Reader<'a> {
    target: &'a Target,
    client: Option<Client>,
    /// Until then what is refused is asked for again: a gate may be out of office for a moment.
    patient_until: Instant,
}

impl<'a> Reader<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, client: None, patient_until: Instant::now() + Duration::from_secs(10) }
    }

    fn read(&mut self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let length = u32::try_from(bytes).expect("chunks are short");
        loop {
            if self.client.is_none() {
                self.client = Client::try_open_for(self.target, Duration::from_secs(20));
            }
            let found = self.client.as_mut().and_then(|client| client.try_read(offset, length));
            if found.is_some() {
                return found;
            }
            self.client = None;
            if Instant::now() > self.patient_until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn success(client: &mut Client) -> Option<()> {
    let reply = client.try_take(16).ok()?;
    (nbd::be32(&reply[4..8]) == 0).then_some(())
}

impl Client {
    /// The bytes, if the gate gives them.
    fn try_read(&mut self, offset: u64, length: u32) -> Option<Vec<u8>> {
        let read = Request { command: READ, offset, length, ..Request::default() };
        self.throw(&read.bytes()).then_some(())?;
        success(self)?;
        self.try_take(length as usize).ok()
    }
}
