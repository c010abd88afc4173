//! A volume over several members and its clients: served, paused, lost to another gate, let go of.

use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::id::ServerId;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Nanos;
use evenkeel_engine::lease::{Fenced, Lease};
use evenkeel_engine::policy::HostFigures;
use evenkeel_engine::{Input, Refused, Target, Unit, spread, tiers};
use evenkeel_wire::nbd::proto::Errno;

use super::Domain;
use crate::device::{Device, Medium};
use crate::lease::VolumeLease;
use crate::op::Op;
use crate::resize::{self, ResizeError};

/// Between two looks whether all that was asked for is over.
const LOOK: Duration = Duration::from_millis(2);

/// How long clients of a lost volume have to read their answers before their connections are cut.
const DISMISS_TIME: Duration = Duration::from_secs(2);

/// The bit of a member; there are no more than bits.
fn bit(server: ServerId) -> u64 {
    1 << (server.index() % 64)
}

/// A volume as its opening has found it.
pub(crate) enum OpenVolume {
    Tiered(Box<tiers::Volume>),
    Spread(Box<spread::Volume>),
}

impl Domain {
    /// Serves the volume that the members turned out to hold, once it is [held](Self::held).
    pub(crate) fn serve(self: &Rc<Self>, volume: OpenVolume, device: Rc<Device>) {
        self.tell(match volume {
            OpenVolume::Tiered(volume) => Input::Volume(volume),
            OpenVolume::Spread(volume) => Input::Spread(volume),
        });
        self.volume().expect("its domain has a volume").open(device);
    }

    /// Holds back whatever is asked of the volume until it is served anew; returns once nothing is
    /// noted on its servers any more, beats included. False if another gate has it.
    pub(crate) async fn pause_spread(self: &Rc<Self>, lease: &VolumeLease) -> bool {
        self.tell(Input::Pause);
        while !lease.is_out() && !self.state.borrow().engine.is_at_rest() {
            tokio::time::sleep(LOOK).await;
        }
        self.leave.end();
        while self.leave.pulses.get() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        !lease.is_out()
    }

    /// Serves the volume that was opened anew; its pulses are the caller's to start.
    pub(crate) fn resume_spread(self: &Rc<Self>, volume: Box<spread::Volume>) {
        self.leave.is_over.set(false);
        self.tell(Input::Spread(volume));
    }

    /// The size that the policy in force says, or zero, in whole objects, and the one that the open
    /// volume has, in bytes.
    pub(crate) fn spread_sizes(&self) -> Option<(u64, u64)> {
        let plan = self.worker.plan();
        let shape = plan.backend(&self.name)?.spread()?.shape;
        let wanted = shape.size_bytes.unwrap_or(0).next_multiple_of(shape.object_bytes);
        Some((wanted, self.volume()?.device()?.features()?.size_bytes))
    }

    /// What to say of a volume that has another size than the policy says.
    pub(crate) fn told_size(&self) -> Option<String> {
        match self.spread_sizes()? {
            (0, _) => None,
            (wanted, has) if wanted < has => Some(resize::said_less(has, wanted)),
            (wanted, has) if wanted > has => Some(resize::said_more(has, wanted)),
            _ => None,
        }
    }

    /// Gives the open volume another size, in whole objects; returns it.
    ///
    /// # Errors
    /// Why it keeps the one it has.
    pub(crate) async fn resize_spread(
        self: &Rc<Self>,
        size_bytes: u64,
    ) -> Result<u64, ResizeError> {
        let not_open = || ResizeError::NotOpen(self.name.clone());
        let volume = self.volume().ok_or_else(not_open)?;
        let device = volume.device().ok_or_else(not_open)?;
        let Medium::Tiered(disk) = &device.medium else { return Err(not_open()) };
        let Some(_resizing) = volume.begin_resize() else {
            return Err(ResizeError::Refused("it is being resized already".to_owned()));
        };
        self.tell(Input::Resize { size_bytes });
        let result = loop {
            let resized = self.state.borrow_mut().engine.take_resized();
            if let Some(result) = resized {
                break result;
            }
            if !volume.device().is_some_and(|now| Rc::ptr_eq(&now, &device)) {
                return Err(not_open());
            }
            tokio::time::sleep(LOOK).await;
        };
        let after = result.map_err(|why| ResizeError::Refused(self.words_for_size(why)))?;
        let before = disk.size_bytes();
        disk.set_size(after);
        if after != before {
            tracing::info!(volume = self.name, before, after, "the volume has another size");
        }
        Ok(after)
    }

    fn words_for_size(&self, why: spread::ResizeRefusal) -> String {
        match why {
            spread::ResizeRefusal::Away(server) => {
                format!("{why}, and {:?} does not", self.server_name(server))
            }
            _ => why.to_string(),
        }
    }

    /// The volume is ours until then.
    pub(crate) fn held(self: &Rc<Self>, until: Nanos) {
        self.tell(Input::Held { until });
    }

    /// Another gate has the volume, or has had it: everything stops at once, and clients go.
    pub(crate) fn leave_office(self: &Rc<Self>, lease: &VolumeLease, by: &str) {
        if lease.is_out() {
            return;
        }
        tracing::error!(
            volume = self.name,
            by,
            "another gate has claimed the volume: nothing is sent or served any more"
        );
        lease.leave_office();
        self.leave.end();
        self.tell(Input::Fenced { server: None });
        self.dismiss();
        let volume = self.volume().expect("its domain has a volume");
        volume.lose(by);
    }

    /// Waits until nothing of the volume is under way any more and its clients have gone, and
    /// forgets it.
    pub(crate) async fn forget_volume(self: &Rc<Self>) {
        let began = tokio::time::Instant::now();
        let is_busy = || {
            let is_late = began.elapsed() >= DISMISS_TIME;
            let left = self.dismiss_some(|_| true, is_late);
            left > 0 || self.leave.pulses.get() > 0 || !self.state.borrow().ops.is_empty()
        };
        while is_busy() {
            tokio::time::sleep(LOOK).await;
        }
        self.leave.is_over.set(false);
        self.refused.borrow_mut().clear();
        self.tell(Input::Unmount);
        self.steps.clear();
    }

    /// A server is not what it has to be: nothing of it is served.
    pub(crate) fn fence_server(self: &Rc<Self>, server: ServerId, why: &Fenced) {
        let name = self.server_name(server);
        tracing::error!(server = name, "{why}; nothing of it is served");
        self.refused.borrow_mut().clear();
        self.tell(Input::Fenced { server: Some(server) });
    }

    /// A server is served from behind this server's address from now on.
    pub(crate) fn tell_place(&self, server: ServerId, address: ServerId) {
        let [server, address] = [server, address].map(|one| self.server_name(one));
        if server == address {
            tracing::info!(server, "it is behind its own address again");
        } else {
            tracing::warn!(
                server,
                address,
                "it is served from behind the address of another server"
            );
        }
    }

    /// A server is again what it has to be.
    pub(crate) fn clear_server(self: &Rc<Self>, server: ServerId) {
        tracing::info!(server = self.server_name(server), "it is what it has to be again");
        self.refused.borrow_mut().clear();
        self.tell(Input::Cleared { server });
    }

    /// The server that the volume was opened without is back, with older content.
    pub(crate) fn refuse_server(self: &Rc<Self>, server: ServerId) {
        self.tell(Input::Fenced { server: Some(server) });
    }

    /// Notes that a member is written to, beats and claims apart.
    pub(super) fn note_change(&self, unit: &Unit) {
        let is_change = matches!(unit.kind, Kind::Write | Kind::WriteZeroes | Kind::Trim);
        if is_change && unit.offset >= Lease::front_bytes() {
            self.changed.set(self.changed.get() | bit(unit.server));
        }
    }

    /// Whether a member was written to since this was asked last.
    pub(super) fn take_change(&self, server: ServerId) -> bool {
        let changed = self.changed.get();
        self.changed.set(changed & !bit(server));
        changed & bit(server) != 0
    }

    /// The number of the last move of the volume that is durable.
    pub(super) fn noted(&self) -> u64 {
        self.state.borrow().engine.noted()
    }

    /// Lets go of a volume that nobody uses any more; at once if there is none.
    pub(crate) async fn let_go(&self) {
        self.leave.is_wanted.set(true);
        self.leave.news.notify_waiters();
        loop {
            let news = self.leave.news.notified();
            if self.leave.pulses.get() == 0 {
                return;
            }
            news.await;
        }
    }

    /// Whether its servers are those of a spread volume.
    pub(crate) fn is_spread(&self) -> bool {
        self.policy.borrow().spread.is_some()
    }

    /// The host of a server has told of itself, or has not for long.
    pub(crate) fn host_told(self: &Rc<Self>, server: ServerId, host: Option<HostFigures>) {
        self.tell(Input::HostTold { server, host });
    }

    pub(super) fn tell(self: &Rc<Self>, input: Input<'_>) {
        let now = self.worker.clock.now();
        self.state.borrow_mut().engine.handle(now, input);
        self.pump();
    }

    pub(super) fn server_name(&self, server: ServerId) -> String {
        self.policy.borrow().servers[server.index()].0.clone()
    }

    /// A request of the volume is not served. Why is told where the gate's words go, once until
    /// something changes.
    pub(super) fn refuse(&self, op: &mut Op, why: Refused) {
        let is_write = matches!(op.kind, Kind::Write | Kind::WriteZeroes);
        op.fail(match why {
            Refused::NoRoom(_) => Errno::NoSpace,
            Refused::Beyond if is_write => Errno::NoSpace,
            Refused::Beyond => Errno::Invalid,
            _ => Errno::Io,
        });
        let mut refused = self.refused.borrow_mut();
        if refused.contains(&why) || op.device.target != Target::Volume {
            return;
        }
        refused.push(why);
        let (offset, length, kind) = (op.request.offset, op.request.length, op.kind.name());
        let why = self.words_for(why);
        tracing::error!(volume = self.name, kind, offset, length, "{why}");
    }

    fn words_for(&self, why: Refused) -> String {
        let name = |server| self.server_name(server);
        match why {
            Refused::InDoubt => "notes of the volume cannot be written".to_owned(),
            Refused::NoRoom(server) => format!(
                "no candidate server has room below the ceiling, the emptiest is {:?}; free some \
                 or raise the ceiling",
                name(server)
            ),
            Refused::Away(server) => {
                format!("no candidate server can be written to, one is {:?}", name(server))
            }
            Refused::Lost(server) => {
                format!("written, and not on server {:?} any more; restore it", name(server))
            }
            Refused::Stale(server) => format!(
                "server {:?} does not hold what was used last; attach that, at its own address",
                name(server)
            ),
            Refused::Absent(server) => format!(
                "server {:?} does not answer since the volume was opened; start it",
                name(server)
            ),
            Refused::Claimed => "another gate has claimed the volume".to_owned(),
            Refused::Lapsed => "no server tells whether the volume is still this gate's".to_owned(),
            Refused::Beyond => "the volume has shrunk since its client came, and ends before it; \
                                let the client connect anew"
                .to_owned(),
        }
    }
}
