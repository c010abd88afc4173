//! What a log costs that is cleaned first in, first out, by theory: the least that anybody would
//! accept of a better policy.
//!
//! Segments are cleaned in the order in which they were filled. Let W be the writes of clients
//! while the log goes round once, and p the part of them that goes to one block. A copy of the
//! block is alive when its segment's turn comes unless the block was written meanwhile, so for each
//! write of clients, the cleaner moves it
//!
//! ```text
//! p e / (1 - e) times, with e = exp(-p W);  A = 1 + the sum of that over all blocks
//! W A = blocks / U                          the log goes round once
//! ```
//!
//! For uniform writes that is the known U = (x - 1) / ln x, A = 1 / (1 - x), with
//! x = exp(-W / blocks).
//! Headers and checkpoints are not in it.

use super::Load;

/// Write amplification of a log of this load, of whose blocks so many percent are alive.
pub fn fifo(load: Load, blocks: u64, full_percent: u64) -> f64 {
    let parts = load.parts(blocks);
    let log_blocks = blocks as f64 * 100.0 / full_percent as f64;
    let amplification = |writes: f64| {
        let moves = parts.iter().map(|&(count, part)| {
            let alive = (-part * writes).exp();
            count * part * alive / (1.0 - alive)
        });
        1.0 + moves.sum::<f64>()
    };
    // The more clients write in a round, the more the log takes in.
    let (mut low, mut high) = (1e-6, log_blocks);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if middle * amplification(middle) < log_blocks { low = middle } else { high = middle }
    }
    amplification(low)
}

impl Load {
    /// Kinds of blocks: how many, and the part of the writes that each of them gets.
    fn parts(self, blocks: u64) -> Vec<(f64, f64)> {
        let count = blocks as f64;
        match self {
            Self::Uniform => vec![(count, 1.0 / count)],
            Self::Hot(percent) => {
                let hot = f64::from(percent) / 100.0;
                let (hot_blocks, cold_blocks) = (count * (1.0 - hot), count * hot);
                vec![(hot_blocks, hot / hot_blocks), (cold_blocks, (1.0 - hot) / cold_blocks)]
            }
            Self::Zipf(theta) => {
                let weight = |rank: u64| (rank as f64).powf(-theta);
                let sum: f64 = (1..=blocks).map(weight).sum();
                (1..=blocks).map(|rank| (1.0, weight(rank) / sum)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_writes_cost_what_the_closed_form_says() {
        for (full_percent, closed_form) in [(70, 1.88), (80, 2.69), (90, 5.18)] {
            let amplification = fifo(Load::Uniform, 16_384, full_percent);
            assert!((amplification - closed_form).abs() < 0.01, "{amplification}");
        }
    }

    #[test]
    fn skew_costs_a_log_that_does_not_sort_more() {
        let of = |load| fifo(load, 10_000, 80);
        assert!(of(Load::Hot(50)) - of(Load::Uniform) < 0.01, "no skew");
        assert!(of(Load::Uniform) < of(Load::Hot(80)) && of(Load::Hot(80)) < of(Load::Hot(90)));
        assert!(of(Load::Zipf(0.99)) > of(Load::Uniform));
    }
}
