//! What a store's host knows of its scrub.

use evenkeel_store::{ScrubReport, ScrubStep};

use super::StoreHost;
use crate::store::{Progress, ScrubError, ScrubStatus};

impl StoreHost {
    /// Notes that a scrub begins, and gives its number.
    ///
    /// # Errors
    /// [`ScrubError`] if there is one, or the store is not open.
    pub(crate) fn begin_scrub(&self) -> Result<u64, ScrubError> {
        let report = self.open_store()?.scrub().report().clone();
        let last = &mut *self.scrub.borrow_mut();
        if last.as_ref().is_some_and(|last| last.progress == Progress::Running) {
            return Err(ScrubError::Twice);
        }
        let number = last.as_ref().map_or(0, |last| last.number) + 1;
        *last = Some(ScrubStatus::new(number, report));
        Ok(number)
    }

    /// Has the scrub end.
    ///
    /// # Errors
    /// [`ScrubError::None`] if there is none.
    pub(crate) fn stop_scrub(&self) -> Result<(), ScrubError> {
        match &mut *self.scrub.borrow_mut() {
            Some(last) if last.progress == Progress::Running => {
                last.progress = Progress::Stopped;
                Ok(())
            }
            _ => Err(ScrubError::None),
        }
    }

    /// Notes what a step found; false if the scrub was to end meanwhile.
    pub(crate) fn note_scrub(&self, number: u64, step: &ScrubStep, report: &ScrubReport) -> bool {
        self.change_scrub(number, |status| status.note(step, report))
    }

    /// Notes that a scrub is over.
    pub(crate) fn finish_scrub(&self, number: u64, progress: Progress, report: &ScrubReport) {
        self.change_scrub(number, |status| {
            status.progress = progress;
            status.report = report.clone();
        });
    }

    /// Changes what is known of a scrub if it is still under way.
    fn change_scrub(&self, number: u64, change: impl FnOnce(&mut ScrubStatus)) -> bool {
        let last = &mut *self.scrub.borrow_mut();
        let is_it =
            |last: &&mut ScrubStatus| last.number == number && last.progress == Progress::Running;
        last.as_mut().filter(is_it).map(change).is_some()
    }
}
