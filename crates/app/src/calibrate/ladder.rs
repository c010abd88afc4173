//! Which loads to make, in which order.
//!
//! ```text
//! per direction    size     4 KiB  16 KiB  64 KiB  256 KiB  1 MiB
//!   depth 128        x
//!         64 .. 2    x                                                 latency over depth
//!         deep       x       x       x        x       x                cost at saturation
//!         1          x       x       x        x       x                latency of a lone request
//! ```
//!
//! From deep to shallow, so that a backend which saves up credit while idle (a token bucket) has
//! none left while its full rate is measured. How deep is bounded by what the backend did in a
//! first look: the queue that a load keeps must turn over several times in a step, or the step sees
//! only how it fills.

use evenkeel_core::time::Span;
use evenkeel_io::load::ExportOffer;
use evenkeel_sim::calibrate::Load;

/// Sizes of the ladder in bytes.
const SIZES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Depths at the smallest size.
const DEPTHS: [u32; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

/// Requests under way where the full rate of the larger sizes is measured.
const DEEP: u32 = 64;

/// Fewest requests under way that count as deep.
const DEEP_LEAST: u32 = 4;

/// One load of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rung {
    pub(super) load: Load,
    pub(super) size_bytes: u32,
    pub(super) depth: u32,
}

/// What the first look found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) iops: f64,
    pub(super) bytes_per_second: f64,
    /// How long the queue may be that a load keeps at the backend.
    pub(super) queue: Span,
}

/// The sizes that an export takes: at least one.
pub(super) fn sizes(offer: &ExportOffer) -> Vec<u32> {
    let usable = |size: &u32| {
        size.is_multiple_of(offer.request_bytes_min)
            && *size <= offer.request_bytes_max
            && u64::from(*size) <= offer.size_bytes
    };
    let sizes: Vec<u32> = SIZES.into_iter().filter(usable).collect();
    if sizes.is_empty() { vec![offer.request_bytes_min] } else { sizes }
}

/// The load of the first look.
pub(super) fn first_look(load: Load, sizes: &[u32]) -> Rung {
    Rung { load, size_bytes: sizes[sizes.len() / 2], depth: 16 }
}

/// The rungs of one direction, in order.
pub(super) fn rungs(load: Load, sizes: &[u32], look: Look) -> Vec<Rung> {
    let rung = |size_bytes, depth| Rung { load, size_bytes, depth };
    let Some((&smallest, larger)) = sizes.split_first() else { return Vec::new() };
    let mut rungs: Vec<Rung> =
        larger.iter().rev().map(|&size| rung(size, deep(size, look))).collect();
    let deepest = deepest(look.iops * look.queue.as_secs_f64());
    rungs.extend(DEPTHS.into_iter().filter(|&depth| depth <= deepest).map(|it| rung(smallest, it)));
    rungs.extend(larger.iter().map(|&size| rung(size, 1)));
    rungs
}

/// The mix of reads and writes, in which the two directions may hold each other up.
pub(super) fn mixed(sizes: &[u32], look: Look) -> Rung {
    let size_bytes = sizes[sizes.len() / 2];
    Rung { load: Load::Mixed, size_bytes, depth: deep(size_bytes, look) }
}

/// Whether requests or bytes bound the backend, one look does not tell: the lesser counts.
fn deep(size_bytes: u32, look: Look) -> u32 {
    let rate_iops = look.iops.min(look.bytes_per_second / f64::from(size_bytes));
    deepest(rate_iops * look.queue.as_secs_f64()).min(DEEP)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn deepest(requests: f64) -> u32 {
    (requests as u32).clamp(DEEP_LEAST, DEPTHS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: ExportOffer = ExportOffer {
        size_bytes: 1 << 30,
        is_read_only: false,
        can_flush: true,
        request_bytes_min: 1,
        request_bytes_max: 32 << 20,
    };

    #[test]
    fn a_slow_backend_is_not_buried_in_requests() {
        let queue = Span::from_millis(500);
        let slow = Look { iops: 100.0, bytes_per_second: 6e6, queue };
        let rungs = rungs(Load::Read, &sizes(&OFFER), slow);
        assert!(rungs.iter().all(|rung| rung.depth <= 50), "{rungs:?}");
        let large = rungs.iter().find(|rung| rung.size_bytes == 1 << 20).unwrap();
        assert_eq!(large.depth, DEEP_LEAST);
        assert!(rungs.is_sorted_by(|a, b| a.size_bytes != b.size_bytes || a.depth > b.depth));
    }

    #[test]
    fn only_sizes_that_the_export_takes_are_used() {
        let narrow = ExportOffer { request_bytes_max: 64 << 10, ..OFFER };
        assert_eq!(sizes(&narrow), [4 << 10, 16 << 10, 64 << 10]);
        let tiny = ExportOffer { size_bytes: 1024, request_bytes_min: 512, ..OFFER };
        assert_eq!(sizes(&tiny), [512]);
    }
}
