//! A progress bar over the bytes of a trace, on a terminal, once the work has taken a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::input::ReadProgress;
use crate::{human, terminal};

/// Work that ends sooner shows no bar.
const QUIET: Duration = Duration::from_secs(2);

/// How often the bar moves.
const EVERY: Duration = Duration::from_millis(100);

/// The bar of one reading.
pub(crate) struct Bar {
    drawn: ProgressBar,
    read: Vec<ReadProgress>,
    started: Instant,
    shown: Instant,
    is_visible: bool,
}

impl Bar {
    /// A bar for reading these traces; nothing is shown yet.
    pub(crate) fn new(read: Vec<ReadProgress>) -> Self {
        let now = Instant::now();
        let drawn = ProgressBar::hidden();
        Self { drawn, read, started: now, shown: now, is_visible: false }
    }

    /// Tells that `records` have been dealt with. Cheap; call it for every batch.
    pub(crate) fn tell(&mut self, records: u64) {
        let now = Instant::now();
        if now - self.shown < EVERY || now - self.started < QUIET {
            return;
        }
        self.shown = now;
        if !self.is_visible {
            self.show();
        }
        let seconds = (now - self.started).as_secs_f64();
        let rate = human::count(records as f64 / seconds);
        self.drawn.set_message(format!("{} requests, {rate}/s", human::count(records as f64)));
        self.drawn.set_position(self.read.iter().map(ReadProgress::read_bytes).sum());
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        self.drawn.finish_and_clear();
    }

    fn show(&mut self) {
        self.is_visible = true;
        let sizes: Option<Vec<u64>> = self.read.iter().map(ReadProgress::size_bytes).collect();
        let style = if let Some(sizes) = sizes {
            self.drawn = ProgressBar::new(sizes.iter().sum());
            terminal::bar_style("{msg}")
        } else {
            self.drawn = ProgressBar::new_spinner();
            let template = "{spinner} {binary_bytes}  {msg}";
            ProgressStyle::with_template(template).expect("the template is right")
        };
        self.drawn.set_style(style);
        self.drawn.set_position(0);
    }
}
