//! Why a volume is not ours any more. That is for good: what comes after it is another opening.

use std::fmt;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// We let go of it ourselves.
    LetGo,
    /// The OSDs refuse whatever this gate asks.
    ShutOut,
    /// Another gate has the volume.
    Taken,
    /// Another gate had it while it was not known whose it was.
    Used,
    /// The volume is not there any more: what has become of it.
    Gone(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LetGo => "let go of",
            Self::ShutOut => {
                "the cluster refuses this gate: another one has taken the volume, or somebody has \
                 blocklisted it"
            }
            Self::Taken => "another gate has taken the volume",
            Self::Used => "another gate has used the volume meanwhile",
            Self::Gone(what) => what,
        })
    }
}
