//! Features that a build may be without, and what it says to whoever asks for one.

/// What only some builds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Words between gates over NATS.
    Nats,
    /// Lists of gates and policies in etcd.
    Etcd,
}

impl Feature {
    /// Whether this build has it.
    pub const fn is_built(self) -> bool {
        match self {
            Self::Nats => cfg!(feature = "nats"),
            Self::Etcd => cfg!(feature = "etcd"),
        }
    }

    /// What a build without it says.
    pub fn lack(self) -> String {
        let name = match self {
            Self::Nats => "NATS",
            Self::Etcd => "etcd",
        };
        format!("this evenkeel was built without {name}")
    }

    /// How to get it.
    pub fn remedy(self) -> String {
        match self {
            Self::Nats => "build it without `--no-default-features`".to_owned(),
            Self::Etcd => "build it with `cargo build --release --features etcd`".to_owned(),
        }
    }

    /// Refuses what this build cannot do.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn require(self) -> Result<(), String> {
        if self.is_built() { Ok(()) } else { Err(format!("{}; {}", self.lack(), self.remedy())) }
    }
}
