//! The volume is opened anew while clients wait: a server that was away is taken up.
//!
//! ```text
//! pause: nothing begins -> what is under way ends -> opened anew, as after a restart -> goes on
//! ```
//!
//! Requests that have gone to their servers need not be waited for: no object is elsewhere
//! afterwards. Notes are, since an opening reads and mends them.

use evenkeel_core::time::Nanos;

use super::super::volume::Volume;
use super::Serving;
use super::granting::Stage;
use crate::lease::Possession;
use crate::spread::freeing;

impl Serving {
    /// From now on nothing begins, until another volume takes the place of this one.
    pub(crate) fn pause(&mut self) {
        self.is_pausing = true;
    }

    /// Whether nothing is noted any more, nor is about to be.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_pausing
            && self.released.is_empty()
            && self.vacatings.is_empty()
            && self.mover.object().is_none()
            && self.scribes.iter().all(super::Scribe::is_at_rest)
            && self.grants.values().all(|grant| grant.stage == Stage::InDoubt)
            && self.freeings.values().all(|one| one.stage == freeing::Stage::InDoubt)
    }

    /// The same volume, opened anew. Whatever was in doubt is known again; who waited goes on.
    ///
    /// # Panics
    /// Unless [`Self::is_at_rest`], or if it is another volume.
    pub(crate) fn opened_anew(mut self, volume: Volume) -> Self {
        assert!(self.is_at_rest(), "an opening reads what was noted");
        assert!(self.volume.id == volume.id, "clients stay with their volume");
        // All find out by themselves what stands in the way.
        self.possession.waiting.append(&mut self.late_waiters);
        let next = Self::new(volume, &self.plan, self.unheard.tenants());
        let waiting = self.possession.waiting;
        let mut anew = Self {
            gauges: self.gauges,
            loads: self.loads,
            unheard: self.unheard,
            diverted: self.diverted,
            freed: self.freed,
            full: self.full,
            rules: self.rules,
            resized: self.resized,
            possession: Possession { waiting, ..Possession::default() },
            ..next
        };
        (0..anew.scribes.len()).for_each(|server| anew.report_load(server, Nanos::ZERO));
        anew
    }
}
