//! What a link has asked of its server and not been told yet.
//!
//! A call stays here until it is answered, whether it was sent or not. So a fresh connection sends
//! whatever is here, in order of arrival, and that is all there is to replaying. What must not be
//! sent twice is taken out before, and so is what nobody waits for any more, or has waited for too
//! long: it would come after what others were answered meanwhile.
//!
//! A cookie names a place in the table and how often that place was used, so an answer to an old
//! call never passes for one to a new.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::id::ServerId;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::Unit;
use evenkeel_engine::lease::Sending;
use evenkeel_wire::nbd::proto::{Command, Errno, Extent};
use evenkeel_wire::nbd::reply::ReadCoverage;
use evenkeel_wire::nbd::request::Request;
use tokio::sync::oneshot;

use crate::buffer::Buf;
use crate::client::{Client, Standing};
use crate::clock::since_boot;
use crate::op::Data;
use crate::underway::Noted;

/// One request to the server.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) purpose: Purpose,
    /// The client that waits for it; none if the gate itself does.
    pub(super) requester: Option<Rc<Client>>,
    /// When it was placed, by the clock that counts suspended time.
    pub(super) placed_at: Nanos,
    /// As it goes over the wire.
    pub(super) request: Request,
    /// Data of a write.
    pub(super) payload: Option<(Arc<Buf>, Range<usize>)>,
    /// When it was sent on the connection that stands now, by the same clock, or since when it
    /// waits there to be written.
    pub(super) sent_at: Option<Nanos>,
    /// The server has taken too long to answer it.
    pub(super) has_timed_out: bool,
    /// Connections that it was sent on, those that were lost included.
    pub(super) sent_on: u32,
    /// The server may still carry it out as it was sent on a connection that was lost.
    pub(super) may_come_late: bool,
    /// That it is under way, for the next process of this gate; if it was sent and changes content.
    pub(super) noted: Option<Noted>,
    /// Acknowledged writes when it was sent: what a flush covers.
    pub(super) covers: u64,
    /// Beats answered when it was placed: what a flush of a volume's member covers of them.
    pub(super) covers_beats: u64,
    /// Losses counted when it was placed: a flush that lived through one covers what is gone.
    pub(super) losses: u64,
    pub(super) error: Option<Errno>,
    /// The data of a read came in one chunk, which was also the end of the answer.
    pub(super) answered_whole: bool,
    /// Made when the data of a read comes in more than one chunk.
    pub(super) coverage: Option<Box<ReadCoverage>>,
}

/// On whose behalf a call is made.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The engine's.
    Unit(Unit),
    /// A client's, past the engine.
    Question(Question),
    /// The gate's own, past the engine: a look at the server's front, a claim or a beat.
    Own(Own),
}

/// What the gate asks or writes to keep its volume.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) sending: Sending,
    /// Data of a read so far.
    pub(super) data: Option<Buf>,
    pub(super) done: oneshot::Sender<Result<Option<Buf>, Errno>>,
}

/// A client's question about allocation.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) client: Rc<Client>,
    pub(super) request: Request,
    /// Contexts asked about; all negotiated ones if none.
    pub(super) wanted: Option<Vec<u32>>,
    /// Answers so far, by the server's numbers.
    pub(super) found: Vec<(u32, Vec<Extent>)>,
}

impl Call {
    /// The bytes of the server that it changes.
    pub(super) fn changes(&self) -> Option<Range<u64>> {
        let Request { command, offset, length, .. } = self.request;
        let is_change = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        is_change.then(|| offset..offset.saturating_add(length))
    }

    /// Whether it was sent on the connection that stands now, or waits there to be written.
    pub(super) fn is_sent(&self) -> bool {
        self.sent_at.is_some()
    }

    /// Whether it was placed longer ago than this.
    pub(super) fn is_older_than(&self, patience: Span) -> bool {
        since_boot().since(self.placed_at) > patience
    }

    /// Whether it would change content for a client that is gone. What others have written since
    /// must not be overwritten by it.
    pub(super) fn is_forsaken(&self) -> bool {
        let is_gone = |client: &Rc<Client>| client.standing.get() == Standing::Lost;
        self.changes().is_some() && self.requester.as_ref().is_some_and(is_gone)
    }

    /// The server has answered. What it had read from a connection that was lost it may still carry
    /// out.
    pub(super) fn answered(&mut self) {
        if let Some(noted) = self.noted.take_if(|_| !self.may_come_late) {
            noted.answered();
        }
    }
}

impl Purpose {
    /// What right it takes to send it.
    pub(super) fn sending(&self) -> Sending {
        match self {
            Self::Unit(_) | Self::Question(_) => Sending::Data,
            Self::Own(own) => own.sending,
        }
    }
}

impl Own {
    /// Takes data of a read, where it begins at `at`.
    pub(super) fn take(&mut self, at: usize, data: &Data<'_>) {
        let Some(buf) = &mut self.data else { return };
        match data {
            Data::Slice(bytes) => buf[at..at + bytes.len()].copy_from_slice(bytes),
            Data::Shared(bytes, range) => {
                buf[at..at + range.len()].copy_from_slice(&bytes[range.clone()]);
            }
            Data::Zeroes(length) => {
                let length = usize::try_from(*length).expect("within the buffer");
                buf[at..at + length].fill(0);
            }
        }
    }
}

/// The calls of one link.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
    free: Vec<u32>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Slot {
    uses: u32,
    arrival: u64,
    call: Option<Call>,
}

fn split(cookie: u64) -> (u32, usize) {
    let uses = u32::try_from(cookie >> 32).expect("32 bits are left");
    (uses, usize::try_from(cookie & u64::from(u32::MAX)).expect("32 bits fit"))
}

impl Calls {
    /// What a unit changes that may have been sent on the connection that is gone.
    pub(super) fn late(&self) -> Vec<(ServerId, Range<u64>)> {
        let calls = self.slots.iter().filter_map(|slot| slot.call.as_ref());
        let sent = calls.filter(|call| call.is_sent()).filter_map(|call| match &call.purpose {
            Purpose::Unit(unit) => Some((unit.server, call.changes()?)),
            // A late beat shows by its number.
            Purpose::Own(_) | Purpose::Question(_) => None,
        });
        sent.collect()
    }

    /// Notes that the connection on which calls were sent is gone, and whether they may still be
    /// under way at the server.
    pub(super) fn note_loss(&mut self, may_come_late: bool) {
        let calls = self.slots.iter_mut().filter_map(|slot| slot.call.as_mut());
        for call in calls {
            call.may_come_late |= call.is_sent() && may_come_late;
            call.sent_at = None;
        }
    }

    /// Marks the calls that were sent longer ago than `timeout_of` allows their command; how many.
    pub(super) fn time_out(&mut self, timeout_of: impl Fn(Command) -> Option<Span>) -> usize {
        let now = since_boot();
        let calls = self.slots.iter_mut().filter_map(|slot| slot.call.as_mut());
        // The gate's own have times of their own.
        let others = calls.filter(|call| !matches!(call.purpose, Purpose::Own(_)));
        let mut count = 0;
        for call in others {
            let timeout = timeout_of(call.request.command);
            call.has_timed_out =
                call.sent_at.zip(timeout).is_some_and(|(sent, most)| now.since(sent) > most);
            count += usize::from(call.has_timed_out);
        }
        count
    }

    /// Takes a call and gives it its cookie.
    pub(super) fn insert(&mut self, mut call: Call) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("windows bound the calls")
        });
        let slot = &mut self.slots[index as usize];
        slot.uses = slot.uses.wrapping_add(1);
        slot.arrival = self.arrivals;
        self.arrivals += 1;
        let cookie = u64::from(slot.uses) << 32 | u64::from(index);
        call.request.cookie = cookie;
        slot.call = Some(call);
        cookie
    }

    /// The call of a cookie; `None` if there is none such, now.
    pub(super) fn find(&mut self, cookie: u64) -> Option<&mut Call> {
        let (uses, index) = split(cookie);
        let slot = self.slots.get_mut(index)?;
        if slot.uses == uses { slot.call.as_mut() } else { None }
    }

    /// Takes out the call of a cookie.
    pub(super) fn remove(&mut self, cookie: u64) -> Option<Call> {
        let (uses, index) = split(cookie);
        let slot = self.slots.get_mut(index)?;
        if slot.uses != uses {
            return None;
        }
        let call = slot.call.take()?;
        self.free.push(u32::try_from(index).expect("indices are 32 bits"));
        Some(call)
    }

    /// Takes out the calls that `which` picks, oldest first.
    pub(super) fn take(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Call> {
        let mut cookies = self.in_order();
        cookies.retain(|cookie| self.find(*cookie).is_some_and(|call| which(call)));
        cookies.into_iter().filter_map(|cookie| self.remove(cookie)).collect()
    }

    /// Cookies of everything here, oldest first.
    pub(super) fn in_order(&self) -> Vec<u64> {
        let mut calls: Vec<_> = self
            .slots
            .iter()
            .filter_map(|slot| slot.call.as_ref().map(|call| (slot.arrival, call.request.cookie)))
            .collect();
        calls.sort_unstable();
        calls.into_iter().map(|(_, cookie)| cookie).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ticket::{Cost, Kind};
    use evenkeel_wire::nbd::proto::CommandFlags;

    use super::*;
    use crate::clock::Clock;
    use crate::underway::Underway;

    const UNIT: Unit = Unit {
        unit: 0,
        slot: 0,
        server: ServerId(0),
        kind: Kind::Write,
        offset: 0,
        at: 0,
        length: 512,
        cost: Cost::ONE,
    };

    fn write(placed_at: Nanos) -> Call {
        Call {
            purpose: Purpose::Unit(UNIT),
            requester: None,
            placed_at,
            request: Request {
                flags: CommandFlags::NONE,
                command: Command::Write,
                cookie: 0,
                offset: UNIT.offset,
                length: UNIT.length,
                payload_bytes: UNIT.length,
            },
            payload: None,
            sent_at: None,
            has_timed_out: false,
            sent_on: 0,
            may_come_late: false,
            noted: None,
            covers: 0,
            covers_beats: 0,
            losses: 0,
            error: None,
            answered_whole: false,
            coverage: None,
        }
    }

    #[test]
    fn what_was_sent_and_given_up_counts_as_under_way_and_what_never_was_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let late = (Span::ZERO, Span::from_secs(30));
        let names = ["s1/".to_owned()];
        let underway = Underway::open(folder.path(), "pool", &names, Clock::start(), late);
        let underway = Rc::new(underway.expect("a file in it"));
        let mut calls = Calls::default();
        let mut send = |losses: &[bool], is_answered: Option<bool>| {
            let cookie = calls.insert(write(since_boot()));
            for may_come_late in losses.iter().map(Some).chain([None]) {
                let call = calls.find(cookie).expect("just placed");
                if may_come_late.is_some() || is_answered.is_some() {
                    call.noted.get_or_insert_with(|| underway.note(0, &(0..512)));
                    call.sent_at = Some(call.placed_at);
                }
                if let Some(may_come_late) = may_come_late {
                    calls.note_loss(*may_come_late);
                }
            }
            if is_answered == Some(true) {
                calls.find(cookie).expect("just placed").answered();
            }
            assert_eq!(calls.take(|_| true).len(), 1);
            underway.late().1.len()
        };
        assert_eq!(send(&[], None), 0, "it was never sent");
        assert_eq!(send(&[], Some(true)), 0, "it was answered where it was sent");
        assert_eq!(send(&[false], Some(true)), 0, "what was lost had ended");
        assert_eq!(send(&[], Some(false)), 1, "the server may have read it");
        assert_eq!(send(&[true], Some(true)), 2, "the server may have read it twice");
        assert_eq!(send(&[true, false], Some(true)), 3, "the first time counts");
    }

    #[test]
    fn a_call_ages_from_when_it_was_placed_and_the_gates_own_are_awaited() {
        let now = since_boot();
        let second = Span::from_secs(1);
        assert!(!write(now).is_older_than(Span::from_secs(60)));
        let before = Nanos(now.0.saturating_sub(2 * second.0));
        assert!(write(before).is_older_than(second));
        assert!(!write(before).is_forsaken(), "nobody can leave who is the gate");
    }
}
