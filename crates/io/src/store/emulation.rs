//! A drive that takes the time of another: whatever is asked of it is done, and answered when a
//! model of the other drive would have answered.
//!
//! So a chain of hard disks can be tried out where there are none. A drive that is slower than its
//! model stays so.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use evenkeel_core::device::Device;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_store::drive::motor::{self, Motor};
use tokio::task::{JoinHandle, spawn_local};

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::drive::Action;

/// Models of drives by their names, as whoever starts a gate knows them.
///
/// Takes a name, the size of the drive that is to behave like it, and a seed for what the model
/// draws; an error says what is wrong with the name or the size, and the remedy.
pub type DriveModels = fn(&str, u64, u64) -> Result<DriveModel, String>;

/// What a drive is made to behave like.
pub struct DriveModel {
    /// The times of its commands.
    pub device: Box<dyn Device>,
    /// The time from standing still to the first command.
    pub spin_up: Duration,
}

/// The times of another drive.
pub(super) struct Emulation {
    motor: Motor<RealTime>,
    task: JoinHandle<()>,
    spin_up: Duration,
}

/// The motor asks for one alarm at a time.
#[derive(Clone)]
struct RealTime {
    clock: Clock,
    alarm: Rc<Alarm>,
}

impl Emulation {
    /// On the runtime of this thread.
    pub(super) fn start(model: DriveModel) -> std::io::Result<Self> {
        let DriveModel { device, spin_up } = model;
        let alarm = Rc::new(Alarm::new()?);
        let motor =
            Motor::new(RealTime { clock: Clock::start(), alarm: Rc::clone(&alarm) }, device);
        let mut run = Box::pin(motor.clone().run());
        let task = spawn_local(poll_fn(move |context| {
            // Whether it has fired or cannot be read, the motor looks what is due.
            while alarm.poll(context).is_ready() {}
            run.as_mut().poll(context)
        }));
        Ok(Self { motor, task, spin_up })
    }

    /// How long its spindle takes to start.
    pub(super) fn spin_up(&self) -> Duration {
        self.spin_up
    }

    /// Waits as long as the other drive would take.
    pub(super) async fn spend(&self, command: Command) {
        let Command { kind, offset_bytes, length_bytes } = command;
        // A model of a drive that fails is no use here: the real one does that by itself.
        let _ = self.motor.spend(kind, offset_bytes, length_bytes).await;
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Emulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulation").field("queued", &self.motor.queued()).finish_non_exhaustive()
    }
}

impl motor::Clock for RealTime {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wake_at(&self, at: Nanos, _waker: Waker) {
        let span = Span(at.0.saturating_sub(self.now().0));
        self.alarm.set(span).expect("the kernel takes any span for a timer of ours");
    }
}

/// What a model has to know of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    kind: Kind,
    offset_bytes: u64,
    length_bytes: u64,
}

impl Command {
    pub(super) fn of(offset_bytes: u64, action: &Action) -> Self {
        let (kind, length_bytes) = match action {
            Action::Read(buf) => (Kind::Read, buf.len() as u64),
            Action::Write { data, .. } => (Kind::Write, data.len() as u64),
            Action::Gather { data, .. } => {
                (Kind::Write, data.iter().map(|buffer| buffer.len() as u64).sum())
            }
            Action::Flush => (Kind::Flush, 0),
            Action::Zero { length, .. } => (Kind::Trim, *length),
        };
        Self { kind, offset_bytes, length_bytes }
    }
}
