//! The requests of one client, drawn one after the other from its seed.

use std::ops::Range;

use super::hot::Hot;
use super::zipf::Zipf;
use super::{Mix, Pattern};
use crate::prng::Prng;
use crate::ticket::Kind;

/// One request, before it has a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// What for.
    pub kind: Kind,
    /// First byte, within the target.
    pub offset: u64,
    /// Bytes; zero for a flush.
    pub size_bytes: u32,
    /// Whether a write is to be durable when it is answered.
    pub fua: bool,
}

/// Draws the requests of one client.
#[derive(Clone, Debug)]
pub struct Drawer {
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
#[derive(Clone, Debug)]
struct Class {
    size_bytes: u32,
    weight: u64,
    /// Places within the range, `align_bytes` apart.
    places: u64,
    preference: Preference,
}

/// Which places are drawn more often than others.
#[derive(Clone, Debug)]
enum Preference {
    None,
    Zipf(Zipf),
    Hot(Hot),
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
    /// begins. None if the largest request does not fit, into the range or a part of it.
    pub fn new(mix: &Mix<'_>, range: Range<u64>, start: u64, seed: u64) -> Option<Self> {
        let room_bytes = range.end - range.start;
        let sizes = mix.sizes.iter().map(|size| size.size_bytes);
        let align_bytes = u64::from(sizes.clone().min()?);
        if u64::from(sizes.max()?) > room_bytes {
            return None;
        }
        let class = |size_bytes: u32, weight: u32| {
            let places = (room_bytes - u64::from(size_bytes)) / align_bytes + 1;
            let preference = match mix.pattern {
                Pattern::Sequential | Pattern::Uniform => Preference::None,
                Pattern::Zipf { theta } => Preference::Zipf(Zipf::new(places, theta)),
                Pattern::Hot { hot_bytes, requests_ppm } => Preference::Hot(Hot::new(
                    (hot_bytes, requests_ppm),
                    room_bytes,
                    (u64::from(size_bytes), align_bytes),
                )?),
            };
            Some(Class { size_bytes, weight: u64::from(weight), places, preference })
        };
        let order = match mix.pattern {
            Pattern::Sequential => Order::Sequential { next: start },
            Pattern::Uniform | Pattern::Zipf { .. } | Pattern::Hot { .. } => {
                Order::Random { align_bytes }
            }
        };
        let classes = mix.sizes.iter().map(|size| class(size.size_bytes, size.weight));
        Some(Self {
            prng: Prng::new(seed),
            range,
            classes: classes.collect::<Option<_>>()?,
            weight_sum: mix.sizes.iter().map(|size| u64::from(size.weight)).sum(),
            order,
            read_percent: u64::from(mix.read_percent),
            fua_percent: u64::from(mix.fua_percent),
            flush_every: mix.flush_every,
            writes_unflushed: 0,
        })
    }

    /// The next request.
    pub fn draw(&mut self) -> Draw {
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
    pub fn write_acknowledged(&mut self) {
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
                let place = match &class.preference {
                    Preference::None => self.prng.below(class.places),
                    Preference::Zipf(zipf) => scatter(zipf.draw(&mut self.prng), class.places),
                    Preference::Hot(hot) => hot.draw(&mut self.prng),
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
    use crate::workload::WeightedSize;

    const READS: Mix<'_> = Mix {
        sizes: &[WeightedSize { size_bytes: 4096, weight: 1 }],
        pattern: Pattern::Uniform,
        read_percent: 100,
        fua_percent: 0,
        flush_every: 0,
    };

    fn drawer(mix: &Mix<'_>, range: Range<u64>) -> Drawer {
        let start = range.start;
        Drawer::new(mix, range, start, 9).unwrap()
    }

    #[test]
    fn sequential_requests_touch_and_wrap() {
        let mix = Mix { pattern: Pattern::Sequential, ..READS };
        let mut drawer = drawer(&mix, 8192..20_480);
        let offsets: Vec<u64> = (0..5).map(|_| drawer.draw().offset).collect();
        assert_eq!(offsets, [8192, 12_288, 16_384, 8192, 12_288]);
    }

    #[test]
    fn random_requests_are_aligned_and_stay_in_range() {
        let sizes = [4096, 65_536].map(|size_bytes| WeightedSize { size_bytes, weight: 1 });
        let hot = Pattern::Hot { hot_bytes: 100_000, requests_ppm: 300_000 };
        for pattern in [Pattern::Uniform, Pattern::Zipf { theta: 0.99 }, hot] {
            let mix = Mix { pattern, sizes: &sizes, ..READS };
            let mut drawer = drawer(&mix, 1 << 20..2 << 20);
            for _ in 0..10_000 {
                let draw = drawer.draw();
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
        let sizes = [
            WeightedSize { size_bytes: 4096, weight: 3 },
            WeightedSize { size_bytes: 8192, weight: 1 },
        ];
        let mix = Mix { sizes: &sizes, read_percent: 70, fua_percent: 50, ..READS };
        let mut drawer = drawer(&mix, 0..1 << 30);
        let draws: Vec<Draw> = (0..100_000).map(|_| drawer.draw()).collect();
        let part = |hit: &dyn Fn(&Draw) -> bool| {
            draws.iter().filter(|draw| hit(draw)).count() as f64 / 100_000.0
        };
        assert!((part(&|draw| draw.size_bytes == 4096) - 0.75).abs() < 0.01);
        assert!((part(&|draw| draw.kind == Kind::Read) - 0.70).abs() < 0.01);
        assert!((part(&|draw| draw.fua) - 0.15).abs() < 0.01);
    }

    #[test]
    fn a_flush_follows_every_n_acknowledged_writes() {
        let mix = Mix { read_percent: 0, flush_every: 2, ..READS };
        let mut drawer = drawer(&mix, 0..1 << 20);
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
    fn a_request_larger_than_the_range_or_its_part_is_refused() {
        assert!(Drawer::new(&READS, 0..4095, 0, 1).is_none());
        let pattern = Pattern::Hot { hot_bytes: 4096, requests_ppm: 500_000 };
        assert!(Drawer::new(&Mix { pattern, ..READS }, 0..4096, 0, 1).is_none());
        assert!(Drawer::new(&Mix { pattern, ..READS }, 0..8192, 0, 1).is_some());
    }
}
