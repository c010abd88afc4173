//! A progress bar over bytes or segments, on a terminal, once the work has taken a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal;

/// Work that ends sooner shows no bar.
const QUIET: Duration = Duration::from_secs(2);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Segments,
}

/// The bar of one piece of work.
pub(crate) struct Bar {
    drawn: ProgressBar,
    unit: Unit,
    started: Instant,
    is_visible: bool,
}

impl Bar {
    /// Nothing is shown yet.
    pub(crate) fn new(unit: Unit) -> Self {
        let drawn = ProgressBar::hidden();
        Self { drawn, unit, started: Instant::now(), is_visible: false }
    }

    /// Tells how much is done of how much. Cheap; it is drawn at most some times a second.
    pub(crate) fn tell(&mut self, done: u64, total: u64) {
        if !self.is_visible {
            if self.started.elapsed() < QUIET {
                return;
            }
            self.is_visible = true;
            self.drawn = ProgressBar::new(total).with_style(style(self.unit));
        }
        self.drawn.set_length(total);
        self.drawn.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.drawn.finish_and_clear();
    }
}

fn style(unit: Unit) -> ProgressStyle {
    terminal::bar_style(match unit {
        Unit::Bytes => "{binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}",
        Unit::Segments => "{pos} of {len} segments",
    })
}
