//! What an opening asks of the members of a volume, one thing after the other.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::id::TenantId;
use evenkeel_core::time::Span;
use evenkeel_engine::lease::Sending;
use evenkeel_engine::notes::{Answer, Ask, Opens};
use evenkeel_wire::nbd::proto::Errno;

use super::ahead::{AHEAD, Ahead, Read};
use super::{Keeper, OpenMember};
use crate::buffer::Buf;
use crate::clock::duration;
use crate::device::Medium;
use crate::domain::errand::Task;
use crate::lease::VolumeLease;
use crate::op::LossesHeard;

/// Who pays for what is asked, and what losses it has heard of.
type Account<'a> = (TenantId, &'a Rc<LossesHeard>);

/// What has become of it; a read brings its data.
type Asked = Result<Option<Buf>, Errno>;

impl Keeper {
    /// Reads what the members say of themselves, and makes a volume of them if they are blank.
    pub(super) async fn open<O: Opens>(
        &self,
        members: &[OpenMember],
        mut opening: O,
        account: Account<'_>,
        lease: &Rc<VolumeLease>,
    ) -> Result<Box<O::Volume>, O::Refusal> {
        let mut ahead = Ahead::new();
        loop {
            let now = self.worker.clock.now();
            let (part, task) = match opening.poll(now) {
                Ask::Read { part, offset, length } => {
                    let read = (part, offset, length);
                    let next = opening.reads_ahead(AHEAD);
                    if !next.is_empty() {
                        for read in [read].into_iter().chain(next) {
                            ahead.begin(read, || {
                                Box::pin(self.read(&members[read.0], read, account))
                            });
                        }
                    }
                    if let Some(result) = ahead.take(read).await {
                        self.answered(&mut opening, &result, lease);
                        continue;
                    }
                    (part, Task::Read { offset, length })
                }
                Ask::Write { part, offset, bytes } => {
                    (part, Task::Write { offset, data: Arc::new(Buf::copy_of(bytes)) })
                }
                Ask::Flush { part } => (part, Task::Flush),
                Ask::Wait(Span::ZERO) => {
                    tokio::task::yield_now().await;
                    opening.answer(Answer::Done);
                    continue;
                }
                Ask::Wait(span) => {
                    tokio::time::sleep(duration(span)).await;
                    opening.answer(Answer::Done);
                    continue;
                }
                Ask::Fence(losers) => {
                    let is_fenced = self.fence(&losers, &lease.addresses()).await;
                    opening.answer(if is_fenced { Answer::Done } else { Answer::Failed });
                    continue;
                }
                Ask::Ready(volume) => return Ok(volume),
                Ask::Refused(refusal) => return Err(refusal),
            };
            let result = self.ask(&members[part], task, opening.sending(), account).await;
            self.answered(&mut opening, &result, lease);
        }
    }

    /// Tells an opening what has become of what it asked for.
    fn answered<O: Opens>(&self, opening: &mut O, result: &Asked, lease: &Rc<VolumeLease>) {
        opening.answer(match result {
            Ok(Some(data)) => Answer::Read(data),
            Ok(None) => Answer::Done,
            Err(_) => Answer::Failed,
        });
        if let Some(volume) = self.domain.volume() {
            volume.note_progress(opening.progress());
        }
        if let Some(right) = opening.right() {
            lease.opening(right, |part| opening.identity(part));
        }
    }

    /// Reads what is noted on a member.
    async fn read(&self, member: &OpenMember, read: Read, account: Account<'_>) -> Asked {
        let (_, offset, length) = read;
        self.ask(member, Task::Read { offset, length }, Sending::Data, account).await
    }

    /// Asks one member. What takes no right, or the right of a look, goes past all queues.
    async fn ask(
        &self,
        member: &OpenMember,
        task: Task,
        sending: Sending,
        account: Account<'_>,
    ) -> Asked {
        if let Medium::Remote(remote) = &member.device.medium {
            match (&task, sending) {
                (Task::Read { offset, length }, Sending::Look) => {
                    return remote.look(*offset, *length).await.map(Some);
                }
                (Task::Write { offset, data }, Sending::Claim) => {
                    return remote.claim(*offset, data).await.map(|()| None);
                }
                (Task::Flush, Sending::Look) => return remote.flush_claim().await.map(|()| None),
                _ => {}
            }
        }
        self.domain.run_errand(&member.device, account, task).await
    }
}
