//! Why a request of a client was not served, in words for the log and as a number for the client.

use evenkeel_wire::nbd::proto::Errno;

use super::guarded::GuardedError;
use super::opened::Opened;
use crate::rados::RadosError;

/// Why a request was not served.
#[derive(Debug)]
pub(super) enum Failed {
    /// The volume is not ours any more.
    NotHeld,
    /// There is no room below the ceiling; told already.
    NoRoom,
    /// The choice of an object could not be stored; told already.
    NotNoted,
    /// The cluster said no.
    Cluster(RadosError),
    /// The cluster said nothing for as long as the policy is patient.
    Late,
}

impl From<GuardedError> for Failed {
    fn from(error: GuardedError) -> Self {
        match error {
            GuardedError::NotHeld => Self::NotHeld,
            GuardedError::Cluster(error) => Self::Cluster(error),
        }
    }
}

impl Failed {
    /// Whether what failed so may still be carried out.
    pub(super) fn may_take_effect(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Cluster(error) => error.is_late(),
            Self::NotHeld | Self::NoRoom | Self::NotNoted => false,
        }
    }

    /// The number for the client, once the gate's log has the words.
    pub(super) fn told(self, volume: &str, opened: &Opened, offset: u64, length: u64) -> Errno {
        let (why, errno) = match self {
            Self::NoRoom => return Errno::NoSpace,
            // Why, the log says once for all requests.
            Self::NotNoted | Self::NotHeld => return Errno::Io,
            // The library is as patient as we are, and may be the first to say so.
            Self::Cluster(error) if !error.is_late() => {
                (error.to_string(), error.errno().map_or(Errno::Io, Errno::from_linux))
            }
            Self::Cluster(_) | Self::Late => {
                let late = || format!("no answer within {:?}", opened.patience());
                (opened.doubt().unwrap_or_else(late), Errno::Io)
            }
        };
        if let Some(left_out) = opened.next_line() {
            let place = opened.told_place(offset, length);
            tracing::warn!(volume, offset, length, why, place, left_out, "request failed");
        }
        errno
    }
}
