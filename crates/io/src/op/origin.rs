//! On whose behalf a request is made, and how its end gets there.
//!
//! ```text
//!                    data that came whole     the end
//! Client             into its outbox          the rest of the answer, and its place in the window
//! Errand (the gate)  gathered                 the result, with the data, to the task that waits
//! ```

use std::ops::Range;
use std::rc::Rc;

use evenkeel_wire::nbd::proto::Errno;
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::Request;
use tokio::sync::oneshot;

use super::LossesHeard;
use crate::buffer::Buf;
use crate::client::{Client, Standing};

/// On whose behalf a request is made.
#[derive(Debug)]
pub(crate) enum Origin {
    /// A client, which gets the answer over its connection.
    Client(Rc<Client>),
    /// The gate, for a volume that it keeps.
    Errand(Errand),
}

/// What the gate itself asked of a device.
#[derive(Debug)]
pub(crate) struct Errand {
    /// The losses that the gate has heard of.
    pub(crate) heard: Rc<LossesHeard>,
    /// Told of the end; with the data, if it was a read. Nobody may be waiting any more.
    pub(crate) done: oneshot::Sender<Result<Option<Buf>, Errno>>,
}

/// The end of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The data of a read has gone out already.
    Given,
    /// It failed.
    Error(Errno),
    /// The data of a read, with the parts that are known to be zeroes.
    Data(Buf, Vec<Range<u64>>),
    /// It is done; there is no data.
    Done,
}

impl Origin {
    /// The client, if it is one.
    pub(crate) fn client(&self) -> Option<&Rc<Client>> {
        match self {
            Self::Client(client) => Some(client),
            Self::Errand(_) => None,
        }
    }

    /// Whether data still has somewhere to go.
    pub(crate) fn is_there(&self) -> bool {
        self.client().is_none_or(|client| client.standing.get() != Standing::Lost)
    }

    /// The losses that it has heard of.
    pub(crate) fn heard(&self) -> &LossesHeard {
        match self {
            Self::Client(client) => &client.losses_heard,
            Self::Errand(errand) => &errand.heard,
        }
    }

    /// Tells of the end of a request.
    pub(super) fn finish(self, request: &Request, answer: Answer) {
        match self {
            Self::Client(client) => {
                match answer {
                    Answer::Given => {}
                    Answer::Error(errno) => client.answer_error(ReplyTo::from(request), errno),
                    Answer::Data(buf, holes) => client.answer_gathered(request, buf, holes),
                    Answer::Done => client.answer_done(ReplyTo::from(request)),
                }
                client.released(request);
            }
            Self::Errand(errand) => {
                let result = match answer {
                    Answer::Error(errno) => Err(errno),
                    Answer::Data(buf, _) => Ok(Some(buf)),
                    Answer::Given | Answer::Done => Ok(None),
                };
                // The volume may have been let go meanwhile.
                let _ = errand.done.send(result);
            }
        }
    }
}
