//! Which losses of acknowledged writes somebody has been told of.
//!
//! A device counts how often acknowledged writes may have been lost. Everybody who was there at the
//! time hears of it once, with the failure of a flush, as `fsync` tells after a lost write-back. A
//! tiered volume counts on each tier by itself: a flush has a unit on each, and what one tier loses
//! after its unit is done belongs to the next flush, however long the other units take.

use std::cell::Cell;

use evenkeel_core::id::ServerId;

/// The losses that one client, or the gate itself, has heard of; by server.
#[derive(Debug)]
pub(crate) struct LossesHeard {
    by_server: Vec<(ServerId, Cell<u64>)>,
}

impl LossesHeard {
    /// Of somebody who has just come: what was lost before is none of his concern.
    pub(crate) fn new(lost: Vec<(ServerId, u64)>) -> Self {
        let heard = |(server, losses)| (server, Cell::new(losses));
        Self { by_server: lost.into_iter().map(heard).collect() }
    }

    /// Tells of all `losses` of a server up to now; true if some of them are news.
    pub(crate) fn hear(&self, server: ServerId, losses: u64) -> bool {
        let known = self.by_server.iter().find(|(known, _)| *known == server);
        let (_, heard) = known.expect("the servers of a device do not change");
        heard.replace(losses) < losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_for_each_server_and_only_to_those_who_were_there() {
        let [slow, fast] = [ServerId(0), ServerId(1)];
        let heard = LossesHeard::new(vec![(slow, 3), (fast, 0)]);
        assert!(!heard.hear(slow, 3), "lost before anybody was there");
        assert!(heard.hear(fast, 1));
        assert!(!heard.hear(fast, 1), "told already");
        assert!(heard.hear(slow, 4), "what another tier lost is another matter");
    }
}
