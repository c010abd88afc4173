//! Opening the tiers of a volume: what is accepted, what is refused and with which words.

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::lease::{Gate, Names, OwnerId};
use evenkeel_engine::notes::{Answer, Ask, Opens, PartDevice, VolumeId};
use evenkeel_engine::policy::{Discipline, Domain, Mode, Moves, Scheduling, Sharing, TierPlan};
use evenkeel_engine::tiers::{Opening, Refusal, Volume};
use evenkeel_engine::{Engine, Input, Output, Request, Target};

const EXTENT_BYTES: u64 = 64 << 10;
const BLOCK: usize = 4096;
/// Heads and owner.
const FRONT: usize = 3 * BLOCK;

/// A device in memory, of which some blocks cannot be read.
#[derive(Clone)]
struct Device {
    bytes: Vec<u8>,
    unreadable: Vec<usize>,
}

#[derive(Clone)]
struct Tiers {
    id: VolumeId,
    extent_bytes: u64,
    names: Vec<&'static str>,
    devices: Vec<Device>,
    /// Writes and flushes in their order.
    log: Vec<String>,
    openings: u8,
}

impl Device {
    fn read(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let [from, to] = [offset, offset + length].map(|at| usize::try_from(at).unwrap());
        let blocks = from / BLOCK..to / BLOCK;
        let is_whole = !self.unreadable.iter().any(|block| blocks.contains(block));
        is_whole.then(|| self.bytes[from..to].to_vec())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let from = usize::try_from(offset).unwrap();
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.unreadable.retain(|block| *block != from / BLOCK);
    }
}

impl Tiers {
    fn blank() -> Self {
        let device = |extents: u64| Device {
            bytes: vec![0; usize::try_from(extents * EXTENT_BYTES).unwrap()],
            unreadable: Vec::new(),
        };
        Self {
            id: VolumeId([5; 16]),
            extent_bytes: EXTENT_BYTES,
            names: vec!["disk", "flash", "memory"],
            devices: [9, 5, 22].map(device).into(),
            log: Vec::new(),
            openings: 0,
        }
    }

    /// A volume that was opened a few times.
    fn used() -> Self {
        let mut tiers = Self::blank();
        for _ in 0..3 {
            tiers.open().unwrap();
        }
        tiers
    }

    fn open(&mut self) -> Result<Volume, Refusal> {
        self.open_until(usize::MAX).expect("no end was set")
    }

    /// Opens, but writes and flushes only so many times; none if that was too few.
    fn open_until(&mut self, steps: usize) -> Option<Result<Volume, Refusal>> {
        self.log.clear();
        let device = |(name, device): (&&str, &Device)| PartDevice {
            name: (*name).to_owned(),
            size_bytes: device.bytes.len() as u64,
        };
        let devices = self.names.iter().zip(&self.devices).map(device).collect();
        let mut opening = Opening::new(self.names(), self.extent_bytes, devices);
        let mut now = Nanos::ZERO;
        loop {
            let bytes;
            let answer = match opening.poll(now) {
                Ask::Read { part: tier, offset, length } => {
                    bytes = self.devices[tier].read(offset, length);
                    bytes.as_deref().map_or(Answer::Failed, Answer::Read)
                }
                Ask::Write { .. } | Ask::Flush { .. } if self.log.len() == steps => return None,
                Ask::Write { part: tier, offset, bytes } => {
                    self.log.push(format!("write {} {offset}", self.names[tier]));
                    self.devices[tier].write(offset, bytes);
                    Answer::Done
                }
                Ask::Flush { part: tier } => {
                    self.log.push(format!("flush {}", self.names[tier]));
                    Answer::Done
                }
                Ask::Wait(span) => {
                    now += span;
                    Answer::Done
                }
                Ask::Fence(_) => Answer::Done,
                Ask::Ready(volume) => return Some(Ok(*volume)),
                Ask::Refused(refusal) => return Some(Err(refusal)),
            };
            opening.answer(answer);
        }
    }

    /// Names for the next opening by one gate, which knows that those before are over.
    fn names(&mut self) -> Names {
        let id = |opening: u8| OwnerId([opening; 16]);
        let before = (1..=self.openings).map(id).collect();
        self.openings += 1;
        let gate = Gate { name: "one gate".to_owned(), ..Gate::default() };
        Names { volume: self.id, owner: id(self.openings), gate, before }
    }

    /// Changes a byte.
    fn damage(&mut self, tier: usize, at: usize) {
        self.devices[tier].bytes[at] ^= 0x40;
    }

    fn refusal(&mut self) -> String {
        let before = self.devices.iter().map(|device| device.bytes.clone()).collect::<Vec<_>>();
        let refusal = self.open().unwrap_err().to_string();
        let after = self.devices.iter().map(|device| device.bytes.clone()).collect::<Vec<_>>();
        let notes = |devices: Vec<Vec<u8>>| {
            devices
                .into_iter()
                .map(|bytes| bytes[FRONT.min(bytes.len())..].to_vec())
                .collect::<Vec<_>>()
        };
        assert!(notes(before) == notes(after), "who refuses writes nothing but fronts");
        refusal
    }
}

#[test]
fn blank_devices_become_a_volume_that_is_found_again() {
    let mut tiers = Tiers::blank();
    let made = tiers.open().unwrap();
    // 8, 4 and 5 slots, each tier keeping one free.
    assert_eq!(made.size_bytes(), 14 * EXTENT_BYTES);
    // A head, then this gate's name, on each.
    let begin = ["write disk 0", "write disk 8192", "write flash 0", "write flash 8192"];
    assert_eq!(tiers.log[..4], begin);
    assert_eq!(tiers.log.last().unwrap(), "flush memory");
    tiers.id = VolumeId([6; 16]);
    let found = tiers.open().unwrap();
    assert_eq!((found.id(), found.map()), (VolumeId([5; 16]), made.map()));
    assert_eq!(tiers.log[..2], ["write disk 8192", "write flash 8192"]);
}

#[test]
fn making_may_be_cut_short_anywhere() {
    for cut in 0.. {
        let mut tiers = Tiers::blank();
        if tiers.open_until(cut).is_some() {
            assert_eq!(cut, 33, "every write and flush was the last once");
            break;
        }
        tiers.id = VolumeId([9; 16]);
        let opened = tiers.open().unwrap_or_else(|refusal| panic!("after {cut}: {refusal}"));
        assert_eq!(opened.size_bytes(), 14 * EXTENT_BYTES);
        tiers.open().unwrap();
    }
}

#[test]
fn an_opening_may_be_cut_short_anywhere() {
    for cut in 0..40 {
        let mut tiers = Tiers::used();
        for _ in 0..3 {
            let cut_short = tiers.open_until(cut);
            assert!(cut_short.is_none_or(|opened| opened.is_ok()));
        }
        tiers.open().unwrap_or_else(|refusal| panic!("after {cut}: {refusal}"));
    }
}

#[test]
fn one_damaged_head_is_made_up_for_by_the_other() {
    for copy in [0, 1] {
        for tier in 0..3 {
            let mut tiers = Tiers::used();
            tiers.damage(tier, copy * BLOCK + 70);
            tiers.open().unwrap_or_else(|refusal| panic!("{refusal}"));
            let mut tiers = Tiers::used();
            tiers.devices[tier].unreadable.push(copy);
            tiers.open().unwrap_or_else(|refusal| panic!("{refusal}"));
        }
    }
}

#[test]
fn devices_that_do_not_fit_are_refused_by_name() {
    let mut tiers = Tiers::used();
    tiers.devices.swap(0, 1);
    assert_eq!(
        tiers.refusal(),
        "tier \"disk\": it is tier 1 of the volume, counted from 0 for the slowest, and listed as \
         tier 0; list it there"
    );

    let mut tiers = Tiers::used();
    let mut others = Tiers::blank();
    others.id = VolumeId([0xab; 16]);
    others.open().unwrap();
    tiers.devices[1] = others.devices[1].clone();
    assert_eq!(
        tiers.refusal(),
        "tier \"flash\": it belongs to volume abababababababababababababababab, the first tier to \
         05050505050505050505050505050505; list the tiers of one volume"
    );

    let mut tiers = Tiers::used();
    tiers.devices[2].bytes.fill(0);
    assert!(tiers.refusal().starts_with("tier \"memory\": it is blank, but other tiers"));

    let mut tiers = Tiers::used();
    tiers.devices[0].bytes[..FRONT].fill(0x11);
    assert!(tiers.refusal().starts_with("tier \"disk\": it holds something else than a part"));

    let mut tiers = Tiers::used();
    tiers.devices[0].bytes[..2 * BLOCK].fill(0x11);
    assert!(tiers.refusal().starts_with("tier \"disk\": its heads are damaged"));

    let mut tiers = Tiers::used();
    tiers.damage(1, 20);
    tiers.damage(1, BLOCK + 20);
    assert!(tiers.refusal().starts_with("tier \"flash\": its heads are damaged"));

    let mut tiers = Tiers::used();
    tiers.devices[1].unreadable.extend([0, 1]);
    assert!(tiers.refusal().starts_with("tier \"flash\": it answers with errors"));

    let mut tiers = Tiers::used();
    let old = tiers.devices[1].clone();
    tiers.open().unwrap();
    tiers.devices[1] = old;
    assert!(tiers.refusal().starts_with("tier \"flash\": it is an older copy (generation 6,"));

    let mut tiers = Tiers::used();
    tiers.devices[0].bytes.truncate(BLOCK * 100);
    assert!(tiers.refusal().starts_with("tier \"disk\": it has 400 KiB, but the volume uses"));

    let mut tiers = Tiers::used();
    tiers.extent_bytes *= 2;
    assert!(tiers.refusal().contains("extents of 64 KiB, but the policy says 128 KiB"));

    let mut tiers = Tiers::used();
    tiers.devices.remove(1);
    tiers.names.remove(1);
    assert!(tiers.refusal().contains("its volume has 3 tiers, but 2 are listed"));

    let mut tiers = Tiers::used();
    tiers.devices[1].bytes[BLOCK + 12] = 3;
    assert!(tiers.refusal().contains("version 3 of the format; use a newer evenkeel"));

    let mut tiers = Tiers::blank();
    tiers.devices[0].bytes.truncate(2 * BLOCK);
    assert!(tiers.refusal().starts_with("tier \"disk\": it is too small: it needs at least"));
}

/// As no opening leaves it: what counts heads up to the newest would never come to its end.
#[test]
fn a_head_that_is_far_ahead_of_the_others_is_refused() {
    let mut tiers = Tiers::used();
    let head = &mut tiers.devices[1].bytes[..BLOCK];
    head[32..40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let checksum = evenkeel_core::crc32c::crc32c(&head[12..]);
    head[8..12].copy_from_slice(&checksum.to_le_bytes());
    assert!(
        tiers.refusal().contains("it is an older copy (generation 6, others have 1099511627776)")
    );
}

#[test]
fn a_device_that_has_grown_serves_as_before() {
    let mut tiers = Tiers::used();
    let size_bytes = tiers.open().unwrap().size_bytes();
    let bytes = &mut tiers.devices[1].bytes;
    bytes.resize(2 * bytes.len(), 0);
    assert_eq!(tiers.open().unwrap().size_bytes(), size_bytes);
}

#[test]
fn without_a_whole_map_there_is_no_volume() {
    let mut tiers = Tiers::used();
    tiers.damage(2, 3 * BLOCK + 100);
    assert!(tiers.refusal().starts_with("tier \"memory\": neither copy of the map is whole"));
}

/// What cannot be read together is read block by block, from the first one on.
#[test]
fn an_unreadable_block_of_the_journal_is_read_around() {
    let mut tiers = Tiers::used();
    let size_bytes = tiers.open().unwrap().size_bytes();
    tiers.devices[2].unreadable.push(9);
    assert_eq!(tiers.open().unwrap().size_bytes(), size_bytes);
}

/// An engine that serves the volume and moves nothing.
fn engine(volume: Volume) -> Engine {
    let mut engine = opening_engine();
    mount(&mut engine, volume);
    engine
}

fn mount(engine: &mut Engine, volume: Volume) {
    engine.handle(Nanos::ZERO, Input::Volume(Box::new(volume)));
    engine.handle(Nanos::ZERO, Input::Held { until: Nanos(u64::MAX) });
}

/// An engine whose volume is not open yet.
fn opening_engine() -> Engine {
    let domain = Domain {
        mode: Mode::Observe,
        sharing: Sharing::Local,
        tenants: vec![("default".into(), Share::default())],
        servers: ["disk", "flash", "memory"]
            .map(|name| (name.into(), Scheduling { unit_bytes: 1 << 20, ..Scheduling::default() }))
            .into(),
        tiers: Some(TierPlan {
            discipline: Discipline::Sfq,
            servers: [0, 1, 2].map(ServerId).into(),
            extent_bytes: EXTENT_BYTES,
            moves: Moves::Off,
            mover: TenantId(0),
            patience: Span::from_secs(30),
            late: Span::from_secs(30),
        }),
        ..Domain::default()
    };
    Engine::new(Nanos::ZERO, &domain)
}

/// Server, offset, place in the request and length of the units that a request becomes.
fn units(engine: &mut Engine, kind: Kind, offset: u64, length: u64) -> Vec<(u32, u64, u64, u64)> {
    let (slot, tenant, target) = (0, TenantId(0), Target::Volume);
    let keeps_room = false;
    let request = Request { slot, tenant, target, disk: 0, kind, offset, length, keeps_room };
    engine.handle(Nanos::ZERO, Input::Arrive(request));
    let mut units = Vec::new();
    let mut handles = Vec::new();
    loop {
        match engine.poll(Nanos::ZERO) {
            Output::Submit(unit) => {
                assert_eq!(unit.kind, kind);
                units.push((unit.server.0, unit.offset, unit.at, unit.length));
                handles.push(unit.unit);
            }
            Output::Finish { ok, .. } => {
                assert!(ok);
                return units;
            }
            other => match handles.pop() {
                Some(unit) => engine.handle(Nanos::ZERO, Input::Done { unit, ok: true }),
                None => panic!("the request is stuck: {other:?}"),
            },
        }
    }
}

#[test]
fn what_an_opening_has_in_doubt_the_volume_keeps_off_too() {
    let volume = Tiers::blank().open().unwrap();
    let slot = volume.layout().slot_offset(2, 0);
    let mut engine = opening_engine();
    let until = Nanos(1_000_000);
    let (server, range) = (ServerId(2), slot..slot + 4096);
    engine.handle(Nanos::ZERO, Input::Late { server, disk: 5, range, until });
    mount(&mut engine, volume);
    let (tenant, target, kind) = (TenantId(0), Target::Volume, Kind::Write);
    let (offset, length, keeps_room) = (0, 4096, false);
    let request = Request { slot: 0, tenant, target, disk: 0, kind, offset, length, keeps_room };
    engine.handle(Nanos::ZERO, Input::Arrive(request));
    assert_eq!(engine.poll(Nanos::ZERO), Output::WaitUntil(until));
    assert!(matches!(engine.poll(until), Output::Submit(unit) if unit.offset == slot));
}

#[test]
fn requests_are_cut_by_where_their_bytes_lie() {
    let volume = Tiers::blank().open().unwrap();
    let mut engine = engine(volume.clone());
    // Extents 0 to 3 lie in memory, 4 to 6 on the flash, the rest on the disk.
    let start = |tier: usize, slot| volume.layout().slot_offset(tier, slot);
    let extent = EXTENT_BYTES;
    for kind in [Kind::Read, Kind::Write, Kind::Trim, Kind::WriteZeroes, Kind::Cache] {
        let whole = units(&mut engine, kind, 3 * extent + 4096, 2 * extent);
        assert_eq!(
            whole,
            [
                (2, start(2, 3) + 4096, 0, extent - 4096),
                (1, start(1, 0), extent - 4096, extent),
                (1, start(1, 1), 2 * extent - 4096, 4096),
            ],
            "{kind:?}"
        );
    }
    let last = units(&mut engine, Kind::Read, volume.size_bytes() - 512, 512);
    assert_eq!(last, [(0, start(0, 6) + extent - 512, 0, 512)]);
    let empty = units(&mut engine, Kind::Trim, volume.size_bytes(), 0);
    assert_eq!(empty.len(), 1);
    let report = engine.report(Nanos::ZERO).volume.unwrap();
    assert_eq!(report.hits[0][..3], [1, 4, 2], "units of reads and writes, by tier");
    let used: Vec<_> = report.tiers.iter().map(|tier| (tier.used_slots, tier.free_slots)).collect();
    assert_eq!(used, [(7, 1), (3, 1), (4, 1)]);
}

#[test]
fn a_flush_goes_to_every_tier() {
    let mut engine = engine(Tiers::blank().open().unwrap());
    let flush = units(&mut engine, Kind::Flush, 0, 0);
    assert_eq!(flush, [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]);
}
