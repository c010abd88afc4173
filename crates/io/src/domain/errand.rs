//! What the gate asks of a device on its own account: the metadata of a volume, and its moves.
//!
//! An errand is a request like a client's: the engine queues it on the account of a tenant, cuts it
//! and sends it to its server. Only its end goes elsewhere, to the task that waits for it.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::id::TenantId;
use evenkeel_core::ticket::Kind;
use evenkeel_wire::nbd::proto::{Command, CommandFlags, Errno};
use evenkeel_wire::nbd::request::Request;
use tokio::sync::oneshot;

use super::Domain;
use crate::buffer::Buf;
use crate::device::Device;
use crate::op::{Errand, LossesHeard, Op, Origin};

/// One errand, in the addressing of its device.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        data: Arc<Buf>,
    },
    Zero {
        offset: u64,
        length: u64,
    },
    Trim {
        offset: u64,
        length: u64,
    },
    Flush,
    /// What moves bytes of nobody's; the device is a turn.
    Turn {
        kind: Kind,
        length: u64,
    },
}

impl Task {
    fn request(&self) -> (Kind, Request) {
        let (kind, command, offset, length, payload_bytes) = match self {
            Self::Read { offset, length } => (Kind::Read, Command::Read, *offset, *length, 0),
            Self::Write { offset, data } => {
                let length = data.len() as u64;
                (Kind::Write, Command::Write, *offset, length, length)
            }
            Self::Zero { offset, length } => {
                (Kind::WriteZeroes, Command::WriteZeroes, *offset, *length, 0)
            }
            Self::Trim { offset, length } => (Kind::Trim, Command::Trim, *offset, *length, 0),
            Self::Flush => (Kind::Flush, Command::Flush, 0, 0, 0),
            Self::Turn { kind, length } => {
                let is_read = *kind == Kind::Read;
                let command = if is_read { Command::Read } else { Command::Write };
                (*kind, command, 0, *length, 0)
            }
        };
        let flags = CommandFlags::NONE;
        (kind, Request { flags, command, cookie: 0, offset, length, payload_bytes })
    }
}

impl Domain {
    /// Runs an errand on a tenant's account to its end, as long as that may take; a read brings its
    /// data. `heard` are the losses that the gate has heard of, as a client of the volume.
    ///
    /// # Errors
    /// What the device says, or what its server's absence beyond all patience amounts to.
    pub(crate) async fn run_errand(
        self: &Rc<Self>,
        device: &Rc<Device>,
        (tenant, heard): (TenantId, &Rc<LossesHeard>),
        task: Task,
    ) -> Result<Option<Buf>, Errno> {
        let (done, end) = oneshot::channel();
        let (kind, request) = task.request();
        let payload = if let Task::Write { data, .. } = task { Some(data) } else { None };
        let origin = Origin::Errand(Errand { heard: Rc::clone(heard), done });
        let op = Op::new(origin, Rc::clone(device), request, kind, payload);
        let now = self.worker.clock.now();
        let place = (op.device.target, op.request.offset);
        self.state.borrow_mut().arrive(now, op, tenant, place);
        self.pump();
        end.await.expect("every request that arrives is finished")
    }
}
