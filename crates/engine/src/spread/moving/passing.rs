//! Objects that pass in their order: most need nothing but to be passed, the first that has to move
//! stops the others until it has.

use evenkeel_core::place::choices::PAGE_OBJECTS;
use evenkeel_core::time::{Nanos, Span};

use super::super::report::{ChangeReport, Stuck};
use super::super::serving::Serving;

/// Objects that are passed at a time, so that other things get their turn.
const PASSED_MAX: u32 = 1 << 12;

impl Serving {
    /// Counts what has to move, before anything does.
    pub(in crate::spread) fn begin_passing(&mut self) {
        self.mover.is_passing = self.volume.is_passing();
        let to_move = if self.mover.is_passing { self.volume.objects_to_move() } else { 0 };
        self.mover.to_move = u32::try_from(to_move).expect("objects are numbered by u32");
        self.is_due |= self.mover.is_passing;
    }

    /// An object was written or given up that has not passed: it may have to move, or not any more.
    pub(in crate::spread) fn count_to_move(&mut self, object: u32, is_there: bool) {
        if self.volume.must_move(object) {
            let to_move = &mut self.mover.to_move;
            *to_move = if is_there { *to_move + 1 } else { to_move.saturating_sub(1) };
        }
    }

    /// The accounts of a change, as long as there is one.
    pub(in crate::spread) fn change_report(&self, now: Nanos) -> Option<ChangeReport> {
        let mover = &self.mover;
        let until = if mover.job.is_some() { now } else { mover.worked_until };
        let is_over = !mover.is_passing
            && mover.job.is_none()
            && mover.departing.is_empty()
            && self.volume.keepers().all(|keeper| {
                let pages = self.volume.pages[keeper].iter().zip(&self.volume.versions);
                pages.into_iter().all(|(latest, version)| latest.number >= *version)
            });
        self.volume.layout.members.may_be_changing().then(|| ChangeReport {
            objects_left: self.volume.objects_left(),
            to_move: mover.to_move,
            moved: mover.moved,
            copied_bytes: mover.copied_bytes,
            given_up: mover.given_up,
            failed: mover.failed,
            elapsed: mover.began.map_or(Span::ZERO, |began| until.since(began)),
            stuck: mover.stuck.filter(|_| mover.is_passing),
            is_over,
        })
    }

    /// Passes objects until one has to move, and begins with it.
    pub(super) fn begin_next(&mut self, now: Nanos) {
        if self.mover.wake_at.is_some_and(|at| now < at) {
            return;
        }
        self.mover.wake_at = None;
        let mut passed = 0;
        self.mover.began.get_or_insert(now);
        while self.mover.page < self.volume.left.len() {
            let page = self.mover.page;
            if self.volume.left[page] == 0 {
                self.mover.page += 1;
                continue;
            }
            while self.volume.left[page] > 0 {
                let left = u64::from(self.volume.left[page]);
                let object = (page as u64 + 1) * PAGE_OBJECTS - left;
                if !self.pass(now, object) {
                    return;
                }
                passed += 1;
                if passed >= PASSED_MAX {
                    self.mover.wake_at = Some(now);
                    return;
                }
            }
            self.note_passed(page);
        }
        self.mover.is_passing = false;
    }

    /// Passes an object; false if that has to wait, or the object to move.
    fn pass(&mut self, now: Nanos, number: u64) -> bool {
        let page = usize::try_from(number / PAGE_OBJECTS).expect("few pages");
        let object = u32::try_from(number).ok().filter(|it| *it < self.volume.layout.objects);
        let Some(object) = object else {
            self.volume.left[page] = 0;
            return true;
        };
        if let Some(is_in_doubt) = self.is_on_its_way(object) {
            self.mover.stuck = is_in_doubt.then_some(Stuck::InDoubt);
            return false;
        }
        let home = match self.volume.places.get(object).get() {
            Some((server, _)) => Some(server),
            // What is lost is looked for where it was, if that can be said.
            None => {
                self.volume.choices.choice(number).and_then(|at| self.volume.candidate(object, at))
            }
        };
        let position = home.and_then(|server| {
            self.volume.new_candidates(object).position(|one| one == Some(server))
        });
        match (self.volume.places.get(object).get(), position) {
            (Some(from), None) => {
                self.begin_job(now, object, from);
                return false;
            }
            (_, Some(position)) if self.volume.choices.choice(number) != Some(position) => {
                self.volume.choices.set(number, Some(position));
            }
            _ => {}
        }
        self.volume.left[page] -= 1;
        true
    }

    /// All objects of a page have passed.
    fn note_passed(&mut self, page: usize) {
        self.note_choices(None);
        self.volume.versions[page] += 1;
        let page = u32::try_from(page).expect("pages are numbered by u32");
        for keeper in self.volume.keepers().collect::<Vec<_>>() {
            self.scribes[keeper].pages.insert(page);
        }
    }
}
