//! The requests of one client, drawn one after the other from its seed.

use std::ops::Range;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;

use super::LoadError;
use super::spec::{LoadSpec, Pattern};
use super::zipf::Zipf;

/// One request, before it has a place in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) size_bytes: u32,
    pub(super) fua: bool,
}

/// Draws the requests of one client.
#[derive(Debug)]
pub(super) struct Workload {
    prng: Prng,
    range: Range<u64>,
    classes: Vec<Class>,
    weight_sum: u64,
    order: Order,
    read_percent: u64,
    fua_percent: u64,
    flush_every: u32,
    /// Writes acknowledged since the last flush started.
    writes_unflushed: u32,
}

/// One size of the mix with the places where it may lie.
#[derive(Debug)]
struct Class {
    size_bytes: u32,
    weight: u64,
    /// Places within the range, `align_bytes` apart.
    places: u64,
    zipf: Option<Zipf>,
}

#[derive(Debug)]
enum Order {
    Sequential {
        next: u64,
    },
    /// At random; places are `align_bytes` apart.
    Random {
        align_bytes: u64,
    },
}

/// A prime above 2^61: multiplying by it modulo the number of places scatters the popular ranks of
/// a Zipf distribution over the range, each to its own place.
const SCATTER: u64 = 2_305_843_009_213_693_967;

impl Workload {
    /// The workload of one client on `range` of its export; `start` is where a sequential one
    /// begins.
    pub(super) fn new(
        spec: &LoadSpec,
        range: Range<u64>,
        start: u64,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let room_bytes = range.end - range.start;
        if u64::from(spec.size_bytes_max()) > room_bytes {
            let what = format!(
                "a request of {} bytes does not fit the {room_bytes} bytes of the range",
                spec.size_bytes_max()
            );
            return Err(spec.fault(what));
        }
        let align_bytes = u64::from(spec.size_bytes_min());
        let class = |size_bytes: u32, weight: u32| {
            let places = (room_bytes - u64::from(size_bytes)) / align_bytes + 1;
            let zipf = match spec.pattern {
                Pattern::Zipf { theta } => Some(Zipf::new(places, theta)),
                Pattern::Sequential | Pattern::Uniform => None,
            };
            Class { size_bytes, weight: u64::from(weight), places, zipf }
        };
        let order = match spec.pattern {
            Pattern::Sequential => Order::Sequential { next: start },
            Pattern::Uniform | Pattern::Zipf { .. } => Order::Random { align_bytes },
        };
        Ok(Self {
            prng: Prng::new(seed),
            range,
            classes: spec.sizes.iter().map(|size| class(size.size_bytes, size.weight)).collect(),
            weight_sum: spec.sizes.iter().map(|size| u64::from(size.weight)).sum(),
            order,
            read_percent: u64::from(spec.read_percent),
            fua_percent: u64::from(spec.fua_percent),
            flush_every: spec.flush_every,
            writes_unflushed: 0,
        })
    }

    /// The next request.
    pub(super) fn draw(&mut self) -> Draw {
        if self.flush_every > 0 && self.writes_unflushed >= self.flush_every {
            self.writes_unflushed = 0;
            return Draw { kind: Kind::Flush, offset: 0, size_bytes: 0, fua: false };
        }
        let class = self.pick_class();
        let size_bytes = self.classes[class].size_bytes;
        let offset = self.pick_offset(class);
        let reads = self.chance(self.read_percent);
        let kind = if reads { Kind::Read } else { Kind::Write };
        let fua = !reads && self.chance(self.fua_percent);
        Draw { kind, offset, size_bytes, fua }
    }

    /// A write was acknowledged.
    pub(super) fn write_acknowledged(&mut self) {
        self.writes_unflushed = self.writes_unflushed.saturating_add(1);
    }

    fn chance(&mut self, percent: u64) -> bool {
        match percent {
            0 => false,
            100.. => true,
            _ => self.prng.below(100) < percent,
        }
    }

    fn pick_class(&mut self) -> usize {
        if self.classes.len() == 1 {
            return 0;
        }
        let mut ticket = self.prng.below(self.weight_sum);
        let chosen = self.classes.iter().position(|class| {
            let hit = ticket < class.weight;
            ticket = ticket.saturating_sub(class.weight);
            hit
        });
        chosen.expect("the ticket lies below the sum of the weights")
    }

    fn pick_offset(&mut self, class: usize) -> u64 {
        let class = &self.classes[class];
        match &mut self.order {
            Order::Sequential { next } => {
                if *next + u64::from(class.size_bytes) > self.range.end {
                    *next = self.range.start;
                }
                let offset = *next;
                *next += u64::from(class.size_bytes);
                offset
            }
            Order::Random { align_bytes } => {
                let place = match &class.zipf {
                    Some(zipf) => scatter(zipf.draw(&mut self.prng), class.places),
                    None => self.prng.below(class.places),
                };
                self.range.start + place * *align_bytes
            }
        }
    }
}

fn scatter(rank: u64, places: u64) -> u64 {
    let product = u128::from(rank) * u128::from(SCATTER);
    u64::try_from(product % u128::from(places)).expect("the remainder of a 64-bit number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::spec::WeightedSize;

    fn workload(spec: &LoadSpec, range: Range<u64>) -> Workload {
        let start = range.start;
        Workload::new(spec, range, start, 9).unwrap()
    }

    #[test]
    fn sequential_requests_touch_and_wrap() {
        let spec = LoadSpec { pattern: Pattern::Sequential, ..LoadSpec::default() };
        let mut workload = workload(&spec, 8192..20_480);
        let offsets: Vec<u64> = (0..5).map(|_| workload.draw().offset).collect();
        assert_eq!(offsets, [8192, 12_288, 16_384, 8192, 12_288]);
    }

    #[test]
    fn random_requests_are_aligned_and_stay_in_range() {
        let sizes = [4096, 65_536].map(|size_bytes| WeightedSize { size_bytes, weight: 1 });
        for pattern in [Pattern::Uniform, Pattern::Zipf { theta: 0.99 }] {
            let spec = LoadSpec { pattern, sizes: sizes.to_vec(), ..LoadSpec::default() };
            let mut workload = workload(&spec, 1 << 20..2 << 20);
            for _ in 0..10_000 {
                let draw = workload.draw();
                assert_eq!(draw.offset % 4096, 0);
                assert!(draw.offset >= 1 << 20);
                assert!(draw.offset + u64::from(draw.size_bytes) <= 2 << 20);
            }
        }
    }

    #[test]
    fn every_zipf_rank_has_its_own_place() {
        let mut places: Vec<u64> = (1..=1000).map(|rank| scatter(rank, 1000)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 1000);
    }

    #[test]
    fn mixes_have_their_proportions() {
        let sizes = vec![
            WeightedSize { size_bytes: 4096, weight: 3 },
            WeightedSize { size_bytes: 8192, weight: 1 },
        ];
        let spec = LoadSpec { sizes, read_percent: 70, fua_percent: 50, ..LoadSpec::default() };
        let mut workload = workload(&spec, 0..1 << 30);
        let draws: Vec<Draw> = (0..100_000).map(|_| workload.draw()).collect();
        let part = |hit: &dyn Fn(&Draw) -> bool| {
            draws.iter().filter(|draw| hit(draw)).count() as f64 / 100_000.0
        };
        assert!((part(&|draw| draw.size_bytes == 4096) - 0.75).abs() < 0.01);
        assert!((part(&|draw| draw.kind == Kind::Read) - 0.70).abs() < 0.01);
        assert!((part(&|draw| draw.fua) - 0.15).abs() < 0.01);
    }

    #[test]
    fn a_flush_follows_every_n_acknowledged_writes() {
        let spec = LoadSpec { read_percent: 0, flush_every: 2, ..LoadSpec::default() };
        let mut workload = workload(&spec, 0..1 << 20);
        let kinds: Vec<Kind> = (0..6)
            .map(|_| {
                let kind = workload.draw().kind;
                if kind == Kind::Write {
                    workload.write_acknowledged();
                }
                kind
            })
            .collect();
        let written = [Kind::Write, Kind::Write, Kind::Flush];
        assert_eq!(kinds, [written, written].concat());
    }

    #[test]
    fn a_request_larger_than_the_range_is_refused() {
        let error = Workload::new(&LoadSpec::default(), 0..4095, 0, 1).unwrap_err();
        assert!(error.to_string().contains("does not fit"));
    }
}
