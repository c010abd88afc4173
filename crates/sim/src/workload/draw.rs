//! The requests of one client, drawn one after the other from its seed.

use std::ops::Range;

use evenkeel_core::prng::Prng;
use evenkeel_core::ticket::Kind;

use super::zipf::Zipf;
use crate::scenario::{Pattern, Workload};

/// One request, before it has a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) kind: Kind,
    /// Within the target.
    pub(crate) offset: u64,
    pub(crate) size_bytes: u32,
}

/// Draws the requests of one client.
#[derive(Clone, Debug)]
pub(crate) struct Drawer {
    prng: Prng,
    range: Range<u64>,
    classes: Vec<Class>,
    weight_sum: u64,
    order: Order,
    read_percent: u64,
    flush_every: u32,
    /// Writes acknowledged since the last flush started.
    writes_unflushed: u32,
}

/// One size of the mix with the places where it may lie.
#[derive(Clone, Debug)]
struct Class {
    size_bytes: u32,
    weight: u64,
    /// Places within the range, `align_bytes` apart.
    places: u64,
    zipf: Option<Zipf>,
}

#[derive(Clone, Debug)]
enum Order {
    Sequential { next: u64 },
    Random { align_bytes: u64 },
}

/// A prime above 2^61: multiplying by it modulo the number of places scatters the popular ranks of
/// a Zipf distribution over the range, each to its own place.
const SCATTER: u64 = 2_305_843_009_213_693_967;

impl Drawer {
    /// The requests of one client on `range` of its target; `start` is where a sequential one
    /// begins. None if the largest request does not fit.
    pub(crate) fn new(
        workload: &Workload,
        range: Range<u64>,
        start: u64,
        seed: u64,
    ) -> Option<Self> {
        let room_bytes = range.end - range.start;
        let sizes = workload.sizes.iter().map(|size| size.size_bytes);
        let align_bytes = u64::from(sizes.clone().min()?);
        if u64::from(sizes.max()?) > room_bytes {
            return None;
        }
        let class = |size_bytes: u32, weight: u32| {
            let places = (room_bytes - u64::from(size_bytes)) / align_bytes + 1;
            let zipf = match workload.pattern {
                Pattern::Zipf { theta } => Some(Zipf::new(places, theta)),
                Pattern::Sequential | Pattern::Uniform => None,
            };
            Class { size_bytes, weight: u64::from(weight), places, zipf }
        };
        let order = match workload.pattern {
            Pattern::Sequential => Order::Sequential { next: start },
            Pattern::Uniform | Pattern::Zipf { .. } => Order::Random { align_bytes },
        };
        let classes = workload.sizes.iter().map(|size| class(size.size_bytes, size.weight));
        Some(Self {
            prng: Prng::new(seed),
            range,
            classes: classes.collect(),
            weight_sum: workload.sizes.iter().map(|size| u64::from(size.weight)).sum(),
            order,
            read_percent: u64::from(workload.read_percent),
            flush_every: workload.flush_every,
            writes_unflushed: 0,
        })
    }

    /// The next request.
    pub(crate) fn draw(&mut self) -> Draw {
        if self.flush_every > 0 && self.writes_unflushed >= self.flush_every {
            self.writes_unflushed = 0;
            return Draw { kind: Kind::Flush, offset: 0, size_bytes: 0 };
        }
        let class = self.pick_class();
        let size_bytes = self.classes[class].size_bytes;
        let offset = self.pick_offset(class);
        let kind = if self.reads() { Kind::Read } else { Kind::Write };
        Draw { kind, offset, size_bytes }
    }

    /// A write was acknowledged.
    pub(crate) fn write_acknowledged(&mut self) {
        self.writes_unflushed = self.writes_unflushed.saturating_add(1);
    }

    fn reads(&mut self) -> bool {
        match self.read_percent {
            0 => false,
            100.. => true,
            percent => self.prng.below(100) < percent,
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

/// The part of the range that belongs to one of several clients, in steps of `step_bytes`.
pub(crate) fn part_of(
    whole: &Range<u64>,
    (index, clients): (u32, u32),
    step_bytes: u64,
) -> Range<u64> {
    let steps = (whole.end - whole.start) / step_bytes;
    let edge = |index: u32| {
        let edge = u128::from(steps) * u128::from(index) / u128::from(clients);
        whole.start + u64::try_from(edge).expect("at most the number of steps") * step_bytes
    };
    edge(index)..edge(index + 1)
}

fn scatter(rank: u64, places: u64) -> u64 {
    let product = u128::from(rank) * u128::from(SCATTER);
    u64::try_from(product % u128::from(places)).expect("the remainder of a 64-bit number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::WeightedSize;

    fn drawer(workload: &Workload, range: Range<u64>) -> Drawer {
        let start = range.start;
        Drawer::new(workload, range, start, 9).unwrap()
    }

    #[test]
    fn sequential_requests_touch_and_wrap() {
        let workload = Workload { pattern: Pattern::Sequential, ..Workload::default() };
        let mut drawer = drawer(&workload, 8192..20_480);
        let offsets: Vec<u64> = (0..5).map(|_| drawer.draw().offset).collect();
        assert_eq!(offsets, [8192, 12_288, 16_384, 8192, 12_288]);
    }

    #[test]
    fn random_requests_are_aligned_and_stay_in_range() {
        let sizes = [4096, 65_536].map(|size_bytes| WeightedSize { size_bytes, weight: 1 });
        for pattern in [Pattern::Uniform, Pattern::Zipf { theta: 0.99 }] {
            let workload = Workload { pattern, sizes: sizes.to_vec(), ..Workload::default() };
            let mut drawer = drawer(&workload, 1 << 20..2 << 20);
            for _ in 0..10_000 {
                let draw = drawer.draw();
                assert_eq!(draw.offset % 4096, 0);
                assert!(draw.offset >= 1 << 20);
                assert!(draw.offset + u64::from(draw.size_bytes) <= 2 << 20);
            }
        }
    }

    #[test]
    fn mixes_have_their_proportions() {
        let sizes = vec![
            WeightedSize { size_bytes: 4096, weight: 3 },
            WeightedSize { size_bytes: 8192, weight: 1 },
        ];
        let workload = Workload { sizes, read_percent: 70, ..Workload::default() };
        let mut drawer = drawer(&workload, 0..1 << 30);
        let draws: Vec<Draw> = (0..100_000).map(|_| drawer.draw()).collect();
        let part = |hit: &dyn Fn(&Draw) -> bool| {
            draws.iter().filter(|draw| hit(draw)).count() as f64 / 100_000.0
        };
        assert!((part(&|draw| draw.size_bytes == 4096) - 0.75).abs() < 0.01);
        assert!((part(&|draw| draw.kind == Kind::Read) - 0.70).abs() < 0.01);
    }

    #[test]
    fn a_flush_follows_every_n_acknowledged_writes() {
        let workload = Workload { read_percent: 0, flush_every: 2, ..Workload::default() };
        let mut drawer = drawer(&workload, 0..1 << 20);
        let kinds: Vec<Kind> = (0..6)
            .map(|_| {
                let kind = drawer.draw().kind;
                if kind == Kind::Write {
                    drawer.write_acknowledged();
                }
                kind
            })
            .collect();
        let written = [Kind::Write, Kind::Write, Kind::Flush];
        assert_eq!(kinds, [written, written].concat());
    }

    #[test]
    fn a_request_larger_than_the_range_is_refused() {
        assert!(Drawer::new(&Workload::default(), 0..4095, 0, 1).is_none());
    }

    #[test]
    fn clients_begin_in_parts_that_cover_the_range() {
        let parts: Vec<_> = (0..3).map(|index| part_of(&(0..40_960), (index, 3), 4096)).collect();
        assert_eq!(parts, [0..12_288, 12_288..24_576, 24_576..40_960]);
    }
}
