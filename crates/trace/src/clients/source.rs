//! One source: its requests as they come and go, cut into pieces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use evenkeel_core::time::{Nanos, Span};

use super::Client;
use super::phase::{Piece, joined};

/// Gaps between arrivals whose spread is below this part of their mean are a pace.
const REGULAR: f64 = 0.2;

/// Watches one source.
#[derive(Debug)]
pub(super) struct Watch {
    piece_length: Span,
    pause: Span,
    pieces: Vec<Piece>,
    /// When those under way end.
    under_way: BinaryHeap<Reverse<Nanos>>,
    gaps: Spread,
    responses: Spread,
    last: Option<Nanos>,
}

/// Mean and variance of durations.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Watch {
    pub(super) fn new(piece_length: Span, pause: Span) -> Self {
        Self {
            piece_length,
            pause,
            pieces: Vec::new(),
            under_way: BinaryHeap::new(),
            gaps: Spread::default(),
            responses: Spread::default(),
            last: None,
        }
    }

    /// A request arrived, not before those that arrived earlier.
    pub(super) fn arrived(&mut self, at: Nanos, response: Option<Span>) {
        self.pass(at);
        let is_back = self
            .pieces
            .last()
            .is_none_or(|piece| self.under_way.is_empty() && at.since(piece.end) >= self.pause);
        let is_full =
            self.pieces.last().is_some_and(|piece| at.since(piece.start) >= self.piece_length);
        if is_back {
            self.pieces.push(Piece::new(at));
        } else {
            self.wait_until(at);
            if is_full {
                self.pieces.push(Piece::new(at));
            }
        }
        let under_way = self.count();
        let piece = self.pieces.last_mut().expect("one was begun");
        if is_back {
            piece.arrived_after_a_pause();
        } else {
            piece.arrived(under_way);
        }
        if let Some(last) = self.last.replace(at).filter(|_| !is_back) {
            self.gaps.add(at.since(last));
        }
        if let Some(response) = response {
            self.responses.add(response);
            self.under_way.push(Reverse(at + response));
        }
    }

    pub(super) fn finish(mut self) -> Client {
        self.pass(Nanos(u64::MAX));
        let evidence: f64 = self.pieces.iter().map(Piece::evidence).sum();
        let requests: u64 = self.pieces.iter().map(Piece::arrivals).sum();
        // A pace is kept by a clock, unless it is that of the answers.
        let is_paced = self.gaps.is_regular() && !self.responses.is_regular();
        Client {
            is_closed: evidence > 0.0 && !is_paced,
            evidence: evidence.abs() / requests.max(1) as f64,
            phases: joined(self.pieces.iter().map(Piece::phase)),
        }
    }

    /// Requests come back until `at`, those of that very instant included.
    fn pass(&mut self, at: Nanos) {
        while let Some(Reverse(ended)) = self.under_way.peek().copied().filter(|one| one.0 <= at) {
            self.wait_until(ended);
            self.under_way.pop();
        }
    }

    /// What is under way was so until now.
    fn wait_until(&mut self, now: Nanos) {
        let under_way = self.count();
        if let Some(piece) = self.pieces.last_mut() {
            piece.passed(now, under_way);
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.under_way.len()).unwrap_or(u32::MAX)
    }
}

impl Spread {
    fn add(&mut self, value: Span) {
        let value = value.0 as f64;
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn is_regular(&self) -> bool {
        if self.count < 2.0 {
            return false;
        }
        let mean = self.sum / self.count;
        let variance = (self.squares / self.count - mean * mean).max(0.0);
        variance.sqrt() < REGULAR * mean
    }
}
