//! What can go wrong with a cluster.

use std::ffi::c_int;

use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Error)]
pub enum RadosError {
    /// The library is not there, or is none that we know.
    #[error(
        "the client library of Ceph cannot be loaded: {0}; install it (`apt install librados2` on \
         Debian and Ubuntu, `dnf install librados2` on Fedora and RHEL)"
    )]
    Library(String),
    /// The cluster or its library said no.
    #[error("{what}: {}{}", std::io::Error::from_raw_os_error(*errno), detail(said))]
    Failed {
        /// What was tried.
        what: String,
        /// The system's number of the error.
        errno: i32,
        /// What the cluster said besides; often empty.
        said: String,
    },
    /// There is no such pool.
    #[error("there is no pool {0:?}; `ceph osd pool ls` names those that there are")]
    NoPool(String),
    /// What a monitor or manager answered is not what we know.
    #[error("{what}: the answer is not understood: {why}")]
    Answer {
        /// What was asked.
        what: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
    /// The system gives no thread to wait for the cluster.
    #[error("there is no thread to wait for the cluster: {0}")]
    Thread(String),
    /// A name that cannot be passed on.
    #[error("{0:?} has a zero byte in it")]
    Name(String),
}

impl RadosError {
    /// The system's number of the error, if it was the cluster's.
    pub fn errno(&self) -> Option<i32> {
        if let Self::Failed { errno, .. } = self { Some(*errno) } else { None }
    }

    /// Whether the object or lock is not there; also where the pool that it was in is not.
    pub fn is_missing(&self) -> bool {
        self.is(rustix::io::Errno::NOENT)
    }

    /// Whether somebody else has it.
    pub fn is_busy(&self) -> bool {
        self.is(rustix::io::Errno::BUSY)
    }

    /// Whether it is there already.
    pub fn is_there_already(&self) -> bool {
        self.is(rustix::io::Errno::EXIST)
    }

    /// Whether the OSDs refuse whatever this client asks: they say so with `EBLOCKLISTED`, which
    /// has this number.
    pub fn is_shut_out(&self) -> bool {
        self.is(rustix::io::Errno::SHUTDOWN)
    }

    /// Whether the user lacks the right.
    pub fn is_forbidden(&self) -> bool {
        self.is(rustix::io::Errno::ACCESS) || self.is(rustix::io::Errno::PERM)
    }

    /// Whether nobody answered in time.
    pub fn is_late(&self) -> bool {
        self.is(rustix::io::Errno::TIMEDOUT)
    }

    /// Whether there is no room, in the pool or by a quota.
    pub fn is_full(&self) -> bool {
        self.is(rustix::io::Errno::NOSPC) || self.is(rustix::io::Errno::DQUOT)
    }

    fn is(&self, errno: rustix::io::Errno) -> bool {
        self.errno() == Some(errno.raw_os_error())
    }
}

fn detail(said: &str) -> String {
    let said = said.trim();
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

/// What the library returns, as a result: what is below zero is an error.
pub(super) fn check(result: c_int, what: impl FnOnce() -> String) -> Result<c_int, RadosError> {
    check_with(result, what, String::new)
}

/// As [`check`], with what the cluster said.
pub(super) fn check_with(
    result: c_int,
    what: impl FnOnce() -> String,
    said: impl FnOnce() -> String,
) -> Result<c_int, RadosError> {
    if result >= 0 {
        return Ok(result);
    }
    Err(RadosError::Failed { what: what(), errno: -result, said: said() })
}
