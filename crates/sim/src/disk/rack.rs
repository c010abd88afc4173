//! Drives at work in virtual time: content from a [`CrashDisk`], timing from any device model, and
//! a fuse that stops the world at a chosen command.
//!
//! ```text
//!   execute(bay, command) --> disk.submit --> timing model --> disk.complete --> the answer
//!                                 |                  (a task of its own, the bay's motor)
//!                                 +-- nth command of all drives: halt; the power is cut
//! ```
//!
//! A command goes on although whoever asked for it has lost interest, as on a real drive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;

use super::command::{Answer, Command, CommandId, DiskError};
use super::crash_disk::CrashDisk;
use super::fault::Stall;
use crate::device::{Device, Op, Outcome, Step};
use crate::executor::Clock;

/// Where a drive sits in its rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BayId(pub usize);

/// Drives in one world. Clones are handles to the same rack.
#[derive(Clone)]
pub struct Rack {
    clock: Clock,
    bays: Rc<RefCell<Vec<Bay>>>,
    fuse: Rc<Fuse>,
}

#[derive(Default)]
struct Fuse {
    /// Commands given to any drive so far.
    commands: Cell<u64>,
    /// The command with which the world stops.
    last: Cell<Option<u64>>,
    observer: RefCell<Option<Observer>>,
}

type Observer = Box<dyn FnMut(Vec<CrashDisk>)>;

struct Bay {
    disk: CrashDisk,
    timing: Box<dyn Device>,
    waiting: BTreeMap<CommandId, Waiting>,
    /// Commands whose time is up but which a fault holds back, by when it lets them go.
    held: BTreeMap<(Nanos, CommandId), Outcome>,
    motor: Option<Waker>,
    /// The earliest instant for which the motor has set a timer that is still to come.
    alarm: Option<Nanos>,
}

enum Waiting {
    For(Option<Waker>),
    Answered(Answer),
}

impl Rack {
    /// An empty rack.
    pub fn new(clock: Clock) -> Self {
        Self { clock, bays: Rc::default(), fuse: Rc::default() }
    }

    /// Puts a drive into the next bay. `timing` says how long its commands take.
    pub fn install(&self, disk: CrashDisk, timing: Box<dyn Device>) -> BayId {
        let waiting = BTreeMap::new();
        let held = BTreeMap::new();
        let bay = Bay { disk, timing, waiting, held, motor: None, alarm: None };
        self.bays.borrow_mut().push(bay);
        let id = BayId(self.bays.borrow().len() - 1);
        let rack = self.clone();
        self.clock.spawn(poll_fn(move |context| {
            rack.turn(id, context.waker());
            Poll::Pending
        }));
        id
    }

    /// Stops the world as soon as so many further commands were given to drives; the last of them
    /// is under way then. Without a number, never.
    pub fn cut_after(&self, commands: Option<u64>) {
        self.fuse.last.set(commands.map(|more| self.fuse.commands.get() + more));
    }

    /// How many commands all drives together were given.
    pub fn commands(&self) -> u64 {
        self.fuse.commands.get()
    }

    /// Shows the drives to `observer` whenever a command was given to one of them, the command
    /// included: a picture of every state in which the power can be cut.
    pub fn observe(&self, observer: impl FnMut(Vec<CrashDisk>) + 'static) {
        *self.fuse.observer.borrow_mut() = Some(Box::new(observer));
    }

    /// Does something to, or asks something of, a disk.
    pub fn with_disk<T>(&self, bay: BayId, what: impl FnOnce(&mut CrashDisk) -> T) -> T {
        what(&mut self.bays.borrow_mut()[bay.0].disk)
    }

    /// Copies of all disks as they stand, commands under way included.
    pub fn disks(&self) -> Vec<CrashDisk> {
        self.bays.borrow().iter().map(|bay| bay.disk.clone()).collect()
    }

    /// The clock of this world.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Gives a drive a command now, and waits for the answer. In a halted world there is none.
    ///
    /// # Errors
    /// What the drive reports.
    pub async fn execute(&self, bay: BayId, command: Command) -> Answer {
        if self.clock.is_halted() {
            return std::future::pending().await;
        }
        let id = self.submit(bay, command);
        let _claim = Claim { rack: self, bay, id };
        self.blow_fuse();
        poll_fn(|context| {
            let waiting = &mut self.bays.borrow_mut()[bay.0].waiting;
            match waiting.get_mut(&id) {
                Some(Waiting::For(waker)) => *waker = Some(context.waker().clone()),
                Some(Waiting::Answered(answer)) => {
                    return Poll::Ready(std::mem::replace(answer, Ok(Vec::new())));
                }
                None => unreachable!("the claim on the answer still stands"),
            }
            Poll::Pending
        })
        .await
    }

    fn submit(&self, bay: BayId, command: Command) -> CommandId {
        let bay = &mut self.bays.borrow_mut()[bay.0];
        let (offset, length) = command.range();
        let kind = kind(&command);
        let id = bay.disk.submit(command);
        bay.timing.submit(self.clock.now(), Op { tag: tag(id), kind, offset, length });
        bay.waiting.insert(id, Waiting::For(None));
        bay.motor.iter().for_each(Waker::wake_by_ref);
        id
    }

    fn blow_fuse(&self) {
        let commands = self.fuse.commands.get() + 1;
        self.fuse.commands.set(commands);
        if let Some(observer) = &mut *self.fuse.observer.borrow_mut() {
            observer(self.disks());
        }
        if self.fuse.last.get().is_some_and(|last| commands >= last) {
            self.clock.halt();
        }
    }

    /// Completes what is due in a bay, and sets an alarm for what is not.
    fn turn(&self, id: BayId, waker: &Waker) {
        let now = self.clock.now();
        let bay = &mut self.bays.borrow_mut()[id.0];
        bay.motor = Some(waker.clone());
        if bay.alarm.is_some_and(|alarm| alarm <= now) {
            bay.alarm = None;
        }
        let mut next = loop {
            match bay.timing.poll(now) {
                Step::Done { tag, outcome } => bay.due(now, tag, outcome),
                Step::WaitUntil(at) => break Some(at),
                Step::Idle => break None,
            }
        };
        while let Some(entry) = bay.held.first_entry() {
            let (at, command) = *entry.key();
            if at > now {
                next = Some(next.map_or(at, |next| next.min(at)));
                break;
            }
            let outcome = entry.remove();
            bay.complete(command, outcome);
        }
        if let Some(at) = next
            && bay.alarm.is_none_or(|alarm| alarm > at)
        {
            bay.alarm = Some(at);
            self.clock.wake_at(at, waker.clone());
        }
    }
}

impl Bay {
    /// The time of a command is up, unless a fault holds it back.
    fn due(&mut self, now: Nanos, due: u32, outcome: Outcome) {
        let id = self.disk.under_way().find(|id| tag(*id) == due);
        let Some(id) = id else {
            // A power cut of this drive alone has taken it.
            return;
        };
        match self.disk.stall(id) {
            None => self.complete(id, outcome),
            Some(Stall::For(span)) => drop(self.held.insert((now + span, id), outcome)),
            Some(Stall::Forever) => {}
        }
    }

    fn complete(&mut self, id: CommandId, outcome: Outcome) {
        let answer = self.disk.complete(id);
        let answer = match outcome {
            Outcome::Good => answer,
            Outcome::Failed => Err(DiskError::Failed),
        };
        if let Some(waiting) = self.waiting.get_mut(&id)
            && let Waiting::For(Some(waker)) = std::mem::replace(waiting, Waiting::Answered(answer))
        {
            waker.wake();
        }
    }
}

/// Somebody's interest in an answer; dropped with the future that waits for it.
struct Claim<'a> {
    rack: &'a Rack,
    bay: BayId,
    id: CommandId,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.rack.bays.borrow_mut()[self.bay.0].waiting.remove(&self.id);
    }
}

fn tag(id: CommandId) -> u32 {
    u32::try_from(id.0 & u64::from(u32::MAX)).expect("32 bits were kept")
}

fn kind(command: &Command) -> Kind {
    match command {
        Command::Read { .. } => Kind::Read,
        Command::Write { .. } => Kind::Write,
        Command::WriteZeroes { .. } => Kind::WriteZeroes,
        Command::Discard { .. } | Command::ResetZone { .. } | Command::FinishZone { .. } => {
            Kind::Trim
        }
        Command::Flush => Kind::Flush,
    }
}
