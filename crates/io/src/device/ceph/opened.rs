//! An open volume at work: requests by object, choices stored, figures of the OSDs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::place::choose::NoRoom;
use evenkeel_core::place::loads::Metrics;
use evenkeel_core::place::rados::pool_map;
use evenkeel_core::time::Nanos;
use evenkeel_engine::policy::{self, Fence};
use evenkeel_engine::pooled::{
    Head, Page, Place, Unplaced, Volume, directory_name, object_name, page_name,
};
use tokio::sync::Notify;

use super::Request;
use super::failed::Failed;
use super::fence::Entries;
use super::guarded::{Guarded, GuardedError};
use super::hold::Hold;
use super::loss::Loss;
use super::osds::Osds;
use super::resizing::End;
use super::said::{Said, Sparing};
use crate::buffer::Buf;
use crate::clock::{Clock, duration};
use crate::rados::{Cluster, OsdUse, PoolStatus, RadosError};
use crate::report::PoolReport;
use crate::resize::said_less;

/// How often it is asked how full OSDs are, and where the pool's groups are.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const MAP_EVERY: Duration = Duration::from_secs(8);

/// How soon the map is looked at again if somebody waits for a change of it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// So far below the ceiling the gate begins to warn.
const EARLY: f64 = 0.05;

/// A volume that is ours.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) hold: Rc<Hold>,
    pub(super) pool: Guarded,
    source: policy::Ceph,
    /// The head as we wrote it.
    pub(super) head: RefCell<Head>,
    /// The former owners that are kept shut out; none if the policy does without.
    entries: Option<RefCell<Entries>>,
    /// Why they soon may not be.
    is_unfenced: RefCell<Option<String>>,
    clock: Clock,
    pub(super) volume: RefCell<Volume>,
    osds: RefCell<Osds>,
    ceiling_milli: Cell<u32>,
    /// The size that the policy says.
    wanted_bytes: Cell<u64>,
    /// When the manager was last heard.
    heard_at: Cell<Nanos>,
    /// Somebody waits for a change of the map, and is told when it was looked at.
    map_wanted: Notify,
    map_seen: Notify,
    /// Told when choices were stored, or could not be.
    noted: Notify,
    is_noting: Cell<bool>,
    /// How often they could not be.
    failures: Cell<u64>,
    is_short: Cell<bool>,
    is_unserved: Cell<bool>,
    is_full: Cell<bool>,
    is_refusing: Cell<bool>,
    /// What was said of figures, of maps, and of former owners.
    said: [Said; 3],
    /// Requests that failed.
    failed: Sparing,
    /// Where it ends, for requests that come now.
    pub(super) end: End,
}

/// A part of a request within one object.
struct Piece {
    object: u64,
    /// Where it begins in the object.
    within: u64,
    /// Its part of the request.
    range: Range<usize>,
}

impl Opened {
    pub(super) fn new(
        hold: Rc<Hold>,
        source: &policy::Ceph,
        head: Head,
        volume: Volume,
        status: PoolStatus,
        clock: Clock,
    ) -> Self {
        let is_fenced = source.fence == Fence::Blocklist;
        let end = End::new(head.shape.objects() * head.shape.object_bytes);
        let entries = is_fenced.then(|| RefCell::new(Entries::new(head.former.clone())));
        let opened = Self {
            pool: hold.guarded().clone(),
            hold,
            source: source.clone(),
            head: RefCell::new(head),
            entries,
            is_unfenced: RefCell::new(None),
            clock,
            volume: RefCell::new(volume),
            osds: RefCell::new(Osds::new(status)),
            ceiling_milli: Cell::new(source.ceiling_milli),
            wanted_bytes: Cell::new(source.shape.size_bytes),
            heard_at: Cell::new(clock.now()),
            map_wanted: Notify::new(),
            map_seen: Notify::new(),
            noted: Notify::new(),
            is_noting: Cell::new(false),
            failures: Cell::new(0),
            is_short: Cell::new(false),
            is_unserved: Cell::new(false),
            is_full: Cell::new(false),
            is_refusing: Cell::new(false),
            said: Default::default(),
            failed: Sparing::default(),
            end,
        };
        opened.set_ceiling(source.ceiling_milli);
        opened
    }

    pub(super) fn size_bytes(&self) -> u64 {
        let shape = *self.volume.borrow().shape();
        shape.objects() * shape.object_bytes
    }

    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<(u64, bool)> {
        self.volume.borrow().extents(offset, length)
    }

    pub(super) fn set_ceiling(&self, milli: u32) {
        self.ceiling_milli.set(milli);
        let full_part = self.osds.borrow().status().full_part;
        self.volume.borrow_mut().set_ceiling(self.ceiling(), full_part);
    }

    pub(super) fn patience(&self) -> Duration {
        duration(self.source.patience)
    }

    /// Whether a request that failed is to be told in the log; how many were not since the last.
    pub(super) fn next_line(&self) -> Option<u64> {
        self.failed.next(self.clock.now())
    }

    /// The line of the head that says that the volume is ours.
    pub(super) fn owner(&self) -> Option<String> {
        self.head.borrow().owner.clone()
    }

    /// What to say if it is not known whether the volume is ours.
    pub(super) fn doubt(&self) -> Option<String> {
        let doubt = self.hold.doubt()?;
        // Beyond its last ratio an OSD carries nothing out any more, not even locks.
        let full = self.osds.borrow().full(&self.source.pool);
        Some(full.map_or_else(|| doubt.clone(), |full| format!("{full}; {doubt}")))
    }

    /// What to say of what is not served, or of room that runs out.
    pub(super) fn trouble(&self) -> Option<String> {
        let unfenced = || self.is_unfenced.borrow().clone();
        unfenced()
            .or_else(|| self.osds.borrow().full(&self.source.pool))
            .or_else(|| self.osds.borrow().unserved())
            .or_else(|| self.shortage())
            .or_else(|| self.told_size())
    }

    /// What to say of a volume that has grown beyond what the policy says.
    fn told_size(&self) -> Option<String> {
        let has = self.head.borrow().shape.size_bytes;
        let wanted = self.wanted_bytes.get();
        (has > wanted).then(|| said_less(has, wanted))
    }

    /// The policy says another size from now on.
    pub(super) fn set_wanted(&self, size_bytes: u64) {
        self.wanted_bytes.set(size_bytes);
    }

    /// How it is doing.
    pub(super) fn report(&self) -> PoolReport {
        let (volume, osds) = (self.volume.borrow(), self.osds.borrow());
        let (placed, diverted) = volume.placed();
        let (groups, unserved) = osds.groups();
        let (osds_all, osds) = osds.report();
        PoolReport {
            placed,
            diverted,
            ceiling: self.ceiling(),
            fullest: volume.fullest().map(|(_, part)| part),
            groups,
            unserved,
            age: self.clock.now().since(self.heard_at.get()),
            osds_all,
            osds,
        }
    }

    /// Where a range of the disk is, in words: its first object that is not served, or its first.
    pub(super) fn told_place(&self, offset: u64, length: u64) -> String {
        let (volume, osds) = (self.volume.borrow(), self.osds.borrow());
        let name = |piece: Piece| match volume.place_of(piece.object) {
            Place::At(name) => name,
            Place::Unwritten | Place::Pending => object_name(&self.source.volume, piece.object, 0),
        };
        let names = || self.pieces(offset, length).map(name);
        let missing = names().find(|name| !osds.is_served(name));
        missing.or_else(|| names().next()).map_or_else(String::new, |name| osds.told_place(&name))
    }

    fn ceiling(&self) -> f64 {
        f64::from(self.ceiling_milli.get()) / 1000.0
    }

    /// What to say of room that runs out.
    pub(super) fn shortage(&self) -> Option<String> {
        let (osd, part) = self.volume.borrow().fullest()?;
        (part > self.ceiling() - EARLY).then(|| {
            format!(
                "osd.{} is {:.1} % full, and new objects have room up to {:.1} %; add OSDs",
                osd.0,
                part * 100.0,
                self.ceiling() * 100.0
            )
        })
    }

    /// Waits until the volume is not ours any more. Returns why.
    pub(super) async fn until_lost(&self) -> &Loss {
        self.pool.lease().until_lost().await
    }

    /// Keeps what is known of the OSDs fresh, and former owners out, until the volume is not ours
    /// any more. Returns why.
    pub(super) async fn look_after(self: &Rc<Self>, name: &str) -> Loss {
        // A monitor that is away must not keep from us what the manager tells.
        tokio::select! {
            loss = self.until_lost() => loss.clone(),
            () = self.keep_looking(name) => unreachable!("it never ends"),
            () = self.keep_mapping(name) => unreachable!("it never ends"),
        }
    }

    async fn keep_looking(&self, name: &str) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Placing goes on by what is known and by what we write ourselves.
            self.tell(0, name, self.look().await, "no fresh figures of the OSDs");
            let shortage = self.shortage();
            if self.is_short.replace(shortage.is_some()) != shortage.is_some() {
                if let Some(why) = shortage {
                    tracing::warn!(volume = name, why, "room runs out");
                } else {
                    tracing::info!(volume = name, "there is room again");
                }
            }
        }
    }

    async fn keep_mapping(&self, name: &str) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let regular = tokio::time::sleep(MAP_EVERY.saturating_sub(LOOK_AGAIN));
            tokio::select! {
                () = self.map_wanted.notified() => {}
                () = regular => {}
            }
            let looked = self.look_at_map().await;
            let listed = looked.as_ref().ok().cloned();
            self.tell(1, name, looked.map(drop), "no fresh map of the pool");
            if let Some(listed) = listed {
                self.keep_out(name, &listed).await;
            }
            let unserved = self.osds.borrow().unserved();
            if self.is_unserved.replace(unserved.is_some()) != unserved.is_some() {
                if let Some(why) = unserved {
                    tracing::warn!(volume = name, why, "not all is served");
                } else {
                    tracing::info!(volume = name, "all is served again");
                }
            }
            self.tell_full(name);
            self.map_seen.notify_waiters();
        }
    }

    /// Says once that nothing may take room in the pool, and once that it may again.
    fn tell_full(&self, name: &str) {
        let full = self.osds.borrow().full(&self.source.pool);
        if self.is_full.replace(full.is_some()) != full.is_some() {
            if let Some(why) = full {
                tracing::error!(volume = name, why, "the pool is full");
            } else {
                tracing::info!(volume = name, "the pool has room again");
            }
        }
    }

    /// Says once why something that is tried again and again does not go well.
    fn tell(&self, kind: usize, name: &str, result: Result<(), String>, what: &str) {
        match result {
            Ok(()) => drop(self.said[kind].is_over()),
            Err(why) if self.said[kind].is_news(&why) => {
                tracing::warn!(volume = name, why, "{what}");
            }
            Err(_) => {}
        }
    }

    /// Has former owners shut out for longer, whom the cluster lists so far.
    async fn keep_out(&self, name: &str, listed: &BTreeMap<String, String>) {
        let Some(entries) = &self.entries else { return };
        let kept = Entries::keep(entries, listed, &self.pool, &self.source).await;
        self.is_unfenced.replace(kept.as_ref().err().map(|why| {
            format!("gates that had the volume before may soon not be shut out any more: {why}")
        }));
        if let Ok(made) = &kept
            && !made.is_empty()
        {
            tracing::info!(volume = name, addresses = made.join(", "), "shut out for longer");
        }
        self.tell(2, name, kept.map(drop), "former owners are not shut out for longer");
    }

    /// Takes in how full the OSDs are.
    pub(super) async fn look(&self) -> Result<(), String> {
        let uses = self.pool.connection().ask(Cluster::osd_uses).await;
        let uses = uses.map_err(|error| error.to_string())?;
        let now = self.clock.now();
        self.heard_at.set(now);
        let (mut osds, mut volume) = (self.osds.borrow_mut(), self.volume.borrow_mut());
        for &OsdUse { osd, capacity_bytes, used_bytes, .. } in osds.take_uses(&uses) {
            volume.report(now, osd, Metrics { capacity_bytes, used_bytes, ..Metrics::default() });
        }
        Ok(())
    }

    /// Takes in where groups are; whom the OSDs refuse.
    async fn look_at_map(&self) -> Result<BTreeMap<String, String>, String> {
        let status = self.pool.connection().status().await;
        let status = status.map_err(|error| error.to_string())?;
        let mut osds = self.osds.borrow_mut();
        osds.take_status(status);
        let status = osds.status();
        let groups = pool_map(&status.serving(), status.nobody());
        let mut volume = self.volume.borrow_mut();
        volume.remap(groups.map_err(|error| error.to_string())?);
        // The number may have been an OSD's.
        volume.report(self.clock.now(), status.nobody(), Metrics::default());
        volume.set_ceiling(self.ceiling(), status.full_part);
        Ok(status.shut_out.clone())
    }

    /// Lets go of the volume.
    pub(super) async fn let_go(&self) -> Result<(), RadosError> {
        let head = self.head.borrow().clone();
        self.hold.let_go(&head).await
    }

    /// Does what a client asks.
    pub(super) async fn perform(
        self: &Rc<Self>,
        offset: u64,
        request: Request,
    ) -> Result<Option<Buf>, Failed> {
        match request {
            Request::Read { length } => self.read(offset, length).await.map(Some),
            Request::Write { data, range } => {
                let start = range.start;
                for piece in self.pieces(offset, range.len() as u64) {
                    let range = start + piece.range.start..start + piece.range.end;
                    self.write(&piece, &data[range]).await?;
                }
                Ok(None)
            }
            Request::Zero { length } => {
                for piece in self.pieces(offset, length) {
                    self.zero(&piece).await?;
                }
                Ok(None)
            }
        }
    }

    async fn read(&self, offset: u64, length: u64) -> Result<Buf, Failed> {
        let mut pieces = self.pieces(offset, length);
        let first = pieces.next().expect("a read has a length");
        if first.range.len() as u64 == length {
            return self.read_piece(&first).await;
        }
        let mut whole = Buf::take(usize::try_from(length).expect("units fit memory"));
        for piece in std::iter::once(first).chain(pieces) {
            let part = self.read_piece(&piece).await?;
            whole[piece.range].copy_from_slice(&part);
        }
        Ok(whole)
    }

    async fn read_piece(&self, piece: &Piece) -> Result<Buf, Failed> {
        let part = Buf::take(piece.range.len());
        let place = self.volume.borrow().place_of(piece.object);
        let (mut part, count) = match place {
            Place::At(name) => match self.pool.read(&name, piece.within, part).await {
                Ok(read) => read,
                // Its choice was stored, and the gate killed before the first byte was written; or
                // there is nothing any more of the whole pool.
                Err(error) if error.is_missing() && self.hold.is_there().await => {
                    (Buf::take(piece.range.len()), 0)
                }
                Err(error) => return Err(error.into()),
            },
            // Nothing was acknowledged yet of what is still being placed.
            Place::Unwritten | Place::Pending => (part, 0),
        };
        part[count..].fill(0);
        Ok(part)
    }

    async fn write(self: &Rc<Self>, piece: &Piece, data: &[u8]) -> Result<(), Failed> {
        let name = self.placed(piece.object).await?;
        let growth = self.volume.borrow().check_growth(piece.object);
        if let Err(no_room) = growth
            && !self.is_within(&name, piece).await?
        {
            return Err(self.refuse(piece.object, no_room));
        }
        match self.pool.write(&name, piece.within, data).await {
            Ok(()) => Ok(()),
            Err(GuardedError::Cluster(error)) if error.is_full() => {
                self.map_wanted.notify_one();
                Err(Failed::NoRoom)
            }
            Err(error) => {
                if error.is_missing() {
                    // A write makes its object: there is no pool.
                    self.hold.is_there().await;
                }
                Err(error.into())
            }
        }
    }

    /// Whether a piece lies within what its object has already, so that to write it takes no room.
    async fn is_within(&self, name: &str, piece: &Piece) -> Result<bool, Failed> {
        match self.pool.size_of(name).await {
            Ok(size_bytes) => Ok(piece.within + piece.range.len() as u64 <= size_bytes),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn zero(&self, piece: &Piece) -> Result<(), Failed> {
        let place = self.volume.borrow().place_of(piece.object);
        let Place::At(name) = place else { return Ok(()) };
        match self.pool.zero(&name, piece.within, piece.range.len() as u64).await {
            Err(error) if error.is_missing() && self.hold.is_there().await => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// The name of an object, which gets one if it has none.
    async fn placed(self: &Rc<Self>, object: u64) -> Result<String, Failed> {
        let failures = self.failures.get();
        loop {
            let noted = self.noted.notified();
            let place = self.volume.borrow().place_of(object);
            match place {
                Place::At(name) => return Ok(name),
                Place::Unwritten => {
                    let now = self.clock.now();
                    let chosen = self.volume.borrow_mut().choose(now, object);
                    match chosen {
                        Ok(()) => self.is_refusing.set(false),
                        Err(Unplaced::NoRoom(no_room)) => return Err(self.refuse(object, no_room)),
                        Err(Unplaced::Unknown) => {
                            self.map_wanted.notify_one();
                            self.map_seen.notified().await;
                            continue;
                        }
                    }
                }
                Place::Pending if self.failures.get() > failures => return Err(Failed::NotNoted),
                Place::Pending => {}
            }
            if !self.is_noting.replace(true) {
                tokio::task::spawn_local(Rc::clone(self).note());
            }
            noted.await;
        }
    }

    /// Stores pages of the choices until none has changed.
    async fn note(self: Rc<Self>) {
        loop {
            let page = self.volume.borrow_mut().take_page();
            let Some(Page { number, version, bytes }) = page else { break };
            let name = page_name(&self.source.volume, number);
            match self.store_page(&name, number, &bytes).await {
                Ok(()) => self.volume.borrow_mut().noted(number, version),
                Err(error) => {
                    // Why a volume is not ours any more is said once, for all that was under way.
                    if let GuardedError::Cluster(error) = error {
                        tracing::error!(name, %error, "choices cannot be stored");
                    }
                    self.volume.borrow_mut().not_noted(number);
                    self.failures.set(self.failures.get() + 1);
                    break;
                }
            }
            self.noted.notify_waiters();
        }
        self.is_noting.set(false);
        self.noted.notify_waiters();
    }

    /// Stores a page, and lists it if it is new: only then it counts.
    async fn store_page(&self, name: &str, number: u32, bytes: &[u8]) -> Result<(), GuardedError> {
        self.pool.write_full(name, bytes).await?;
        let directory = self.volume.borrow().directory_with(number);
        match directory {
            Some(directory) => {
                self.pool.write_full(&directory_name(&self.source.volume), &directory).await
            }
            None => Ok(()),
        }
    }

    /// There is no room for a write: the log says so once, until something is placed again.
    fn refuse(&self, object: u64, no_room: NoRoom) -> Failed {
        if !self.is_refusing.replace(true) {
            let NoRoom { server, used_part } = no_room;
            tracing::error!(
                volume = self.source.volume,
                object,
                "no space: osd.{} would be {:.1} % full, the ceiling is {:.1} %; add OSDs, or free \
                 some room",
                server.0,
                used_part * 100.0,
                self.ceiling() * 100.0
            );
        }
        Failed::NoRoom
    }

    /// Cuts a range at the bounds of objects.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
        let object_bytes = self.source.shape.object_bytes;
        let (mut at, end) = (offset, offset + length);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (object, within) = (at / object_bytes, at % object_bytes);
            let bytes = (object_bytes - within).min(end - at);
            let index = |at: u64| usize::try_from(at - offset).expect("requests fit memory");
            let range = index(at)..index(at + bytes);
            at += bytes;
            Some(Piece { object, within, range })
        })
    }
}
