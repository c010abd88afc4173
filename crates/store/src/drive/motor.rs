//! Lets commands take the time that a model says.
//!
//! A model of a drive knows when a command is done, and nothing of futures; a drive of the store is
//! futures. The motor stands between the two, in any kind of time:
//!
//! ```text
//!   spend(command) --submit--> model --Done--> the future is ready
//!                                |
//!                                +--WaitUntil--> the clock's alarm --> the motor turns
//! ```
//!
//! The simulator's clock jumps from alarm to alarm. A real one goes off late, by what the machine
//! is busy with; the model is then led through the instants that were missed, so that what a
//! command takes does not depend on it, and only its answer comes late.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_core::device::{Device, Op, Outcome, Step};
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

/// What the motor asks of time.
pub trait Clock {
    /// The present instant; it never goes back.
    fn now(&self) -> Nanos;

    /// Wakes somebody at this instant, or as soon as possible behind it.
    fn wake_at(&self, at: Nanos, waker: Waker);
}

/// The motor of one drive. Clones are handles to it.
pub struct Motor<C> {
    clock: C,
    gear: Rc<RefCell<Gear>>,
}

struct Gear {
    model: Box<dyn Device>,
    /// The instant up to which the model has been led.
    at: Nanos,
    next_tag: u32,
    waiting: BTreeMap<u32, Waiting>,
    /// The task of [`Motor::run`].
    task: Option<Waker>,
    /// The earliest instant for which an alarm is set that is still to come.
    alarm: Option<Nanos>,
}

enum Waiting {
    For(Option<Waker>),
    Done(Outcome),
}

impl<C: Clone> Clone for Motor<C> {
    fn clone(&self) -> Self {
        Self { clock: self.clock.clone(), gear: Rc::clone(&self.gear) }
    }
}

impl<C: Clock> Motor<C> {
    /// A motor for this model. Nothing ends before somebody polls [`Self::run`].
    pub fn new(clock: C, model: Box<dyn Device>) -> Self {
        let gear = Gear {
            model,
            at: clock.now(),
            next_tag: 0,
            waiting: BTreeMap::new(),
            task: None,
            alarm: None,
        };
        Self { clock, gear: Rc::new(RefCell::new(gear)) }
    }

    /// Ends commands when their time has come. It never ends itself: give it a task, and drop that
    /// together with the drive.
    pub async fn run(self) {
        poll_fn(|context| {
            self.turn(context.waker());
            Poll::<()>::Pending
        })
        .await;
    }

    /// Gives the model a command and waits until its time is over.
    pub async fn spend(&self, kind: Kind, offset: u64, length: u64) -> Outcome {
        let tag = self.gear.borrow_mut().submit(self.clock.now(), kind, offset, length);
        let _claim = Claim { gear: &self.gear, tag };
        poll_fn(|context| {
            match self.gear.borrow_mut().waiting.get_mut(&tag) {
                Some(Waiting::Done(outcome)) => return Poll::Ready(*outcome),
                Some(Waiting::For(waker)) => *waker = Some(context.waker().clone()),
                None => unreachable!("the claim on the answer still stands"),
            }
            Poll::Pending
        })
        .await
    }

    /// Commands that have not ended.
    pub fn queued(&self) -> usize {
        self.gear.borrow().waiting.len()
    }

    /// Answers what is due, and sets an alarm for what is not.
    fn turn(&self, waker: &Waker) {
        let now = self.clock.now();
        let gear = &mut *self.gear.borrow_mut();
        gear.task = Some(waker.clone());
        if gear.alarm.is_some_and(|alarm| alarm <= now) {
            gear.alarm = None;
        }
        if let Some(at) = gear.lead(now)
            && gear.alarm.is_none_or(|alarm| alarm > at)
        {
            gear.alarm = Some(at);
            self.clock.wake_at(at, waker.clone());
        }
    }
}

impl Gear {
    fn submit(&mut self, now: Nanos, kind: Kind, offset: u64, length: u64) -> u32 {
        // What the model would have done meanwhile comes first.
        if let Some(before) = now.0.checked_sub(1).map(Nanos).filter(|before| *before > self.at) {
            self.lead(before);
        }
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.model.submit(now, Op { tag, kind, offset, length });
        self.at = now;
        self.waiting.insert(tag, Waiting::For(None));
        self.task.iter().for_each(Waker::wake_by_ref);
        tag
    }

    /// Leads the model to an instant, from one of its events to the next; the first that lies
    /// beyond, if there is one.
    fn lead(&mut self, to: Nanos) -> Option<Nanos> {
        loop {
            match self.model.poll(self.at) {
                Step::Done { tag, outcome } => self.answer(tag, outcome),
                Step::WaitUntil(at) if at <= to => self.at = at,
                Step::WaitUntil(at) => {
                    self.at = to;
                    return Some(at);
                }
                Step::Idle => {
                    self.at = to;
                    return None;
                }
            }
        }
    }

    fn answer(&mut self, tag: u32, outcome: Outcome) {
        // Whoever has lost interest has taken the claim away.
        if let Some(waiting) = self.waiting.get_mut(&tag)
            && let Waiting::For(Some(waker)) = std::mem::replace(waiting, Waiting::Done(outcome))
        {
            waker.wake();
        }
    }
}

/// Somebody's interest in an answer; dropped with the future that waits for it.
struct Claim<'a> {
    gear: &'a RefCell<Gear>,
    tag: u32,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.gear.borrow_mut().waiting.remove(&self.tag);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    /// Takes one command after the other, 100 ns each.
    #[derive(Default)]
    struct OneByOne {
        queue: Vec<u32>,
        free_at: Option<Nanos>,
    }

    impl Device for OneByOne {
        fn submit(&mut self, now: Nanos, op: Op) {
            self.queue.push(op.tag);
            self.free_at.get_or_insert(Nanos(now.0 + 100));
        }

        fn poll(&mut self, now: Nanos) -> Step {
            let Some(at) = self.free_at else { return Step::Idle };
            if now < at {
                return Step::WaitUntil(at);
            }
            let tag = self.queue.remove(0);
            self.free_at = (!self.queue.is_empty()).then_some(Nanos(now.0 + 100));
            Step::Done { tag, outcome: Outcome::Good }
        }

        fn size_bytes(&self) -> u64 {
            1 << 20
        }
    }

    /// A clock without alarms, moved by hand.
    #[derive(Clone, Default)]
    struct ByHand(Rc<Cell<u64>>);

    impl Clock for ByHand {
        fn now(&self) -> Nanos {
            Nanos(self.0.get())
        }

        fn wake_at(&self, _at: Nanos, _waker: Waker) {}
    }

    #[test]
    fn an_alarm_that_goes_off_late_does_not_make_the_next_command_later() {
        let clock = ByHand::default();
        let motor = Motor::new(clock.clone(), Box::new(OneByOne::default()));
        let context = &mut Context::from_waker(Waker::noop());
        let mut run = pin!(motor.clone().run());
        let mut commands: Vec<_> =
            (0..3).map(|_| Box::pin(motor.spend(Kind::Read, 0, 4096))).collect();
        let mut done = |now: u64| {
            clock.0.set(now);
            commands.retain_mut(|command| command.as_mut().poll(context).is_pending());
            assert!(run.as_mut().poll(context).is_pending());
            commands.retain_mut(|command| command.as_mut().poll(context).is_pending());
            3 - commands.len()
        };
        assert_eq!(done(0), 0);
        assert_eq!(done(99), 0);
        // Two are due by now: the second began when the first was done, not when that was noticed.
        assert_eq!(done(200), 2);
        assert_eq!(done(299), 2);
        assert_eq!(done(300), 3);
        assert_eq!(motor.queued(), 0);
    }

    #[test]
    fn a_command_given_late_waits_behind_what_was_done_meanwhile() {
        let clock = ByHand::default();
        let motor = Motor::new(clock.clone(), Box::new(OneByOne::default()));
        let context = &mut Context::from_waker(Waker::noop());
        let mut first = Box::pin(motor.spend(Kind::Read, 0, 4096));
        assert!(first.as_mut().poll(context).is_pending());
        clock.0.set(150);
        let mut second = Box::pin(motor.spend(Kind::Write, 0, 4096));
        assert!(second.as_mut().poll(context).is_pending());
        assert_eq!(first.as_mut().poll(context), Poll::Ready(Outcome::Good));
        let mut run = pin!(motor.clone().run());
        clock.0.set(249);
        assert!(run.as_mut().poll(context).is_pending());
        assert!(second.as_mut().poll(context).is_pending());
        clock.0.set(250);
        assert!(run.as_mut().poll(context).is_pending());
        assert!(second.as_mut().poll(context).is_ready());
    }
}
