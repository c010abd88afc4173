//! Opening a volume: the connection, the right to shut others out, the lock, the head, whoever had
//! it before, the choices.

use std::fmt;
use std::rc::Rc;

use evenkeel_core::place::rados::pool_map;
use evenkeel_engine::policy::{self, Fence};
use evenkeel_engine::pooled::{Head, Shape, Volume, head_name};
use rustix::rand::GetRandomFlags;

use super::CephVolume;
use super::fence::{self, try_right};
use super::guarded::{Connection, GuardedError, PoolPlace};
use super::hold::Hold;
use super::loss::Loss;
use super::opened::Opened;
use super::pages::{self, Reader};
use super::rights;
use crate::clock::duration;
use crate::rados::{PoolStatus, RadosError};

/// Why a volume is not open.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// Another gate has it, and is alive.
    InUse(String),
    /// We had it, and so did another gate since then.
    Taken(String),
    /// The cluster refuses this connection, and will refuse it for ever.
    ShutOut,
    /// The user lacks a right; what was tried.
    Forbidden(String),
    /// Something else stands in the way.
    Other(String),
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(why) | Self::Taken(why) | Self::Forbidden(why) | Self::Other(why) => {
                f.write_str(why)
            }
            Self::ShutOut => Loss::ShutOut.fmt(f),
        }
    }
}

impl From<RadosError> for NotOpened {
    fn from(error: RadosError) -> Self {
        if error.is_shut_out() {
            return Self::ShutOut;
        }
        let why = error.to_string();
        if error.is_forbidden() { Self::Forbidden(why) } else { Self::Other(why) }
    }
}

impl From<GuardedError> for NotOpened {
    fn from(error: GuardedError) -> Self {
        match error {
            GuardedError::NotHeld => Self::Other(error.to_string()),
            GuardedError::Cluster(error) => error.into(),
        }
    }
}

impl From<String> for NotOpened {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl CephVolume {
    /// Opens the volume, if that can be done now.
    pub(super) async fn attempt(&self) -> Result<Rc<Opened>, NotOpened> {
        let source = self.source.borrow().clone();
        let connection = self.connected(&source).await?;
        match self.open_on(&connection, &source).await {
            Err(NotOpened::Forbidden(why)) => {
                let lacking = rights::lacking(&connection, &source).await;
                Err(NotOpened::Forbidden(lacking.unwrap_or(why)))
            }
            outcome => outcome,
        }
    }

    async fn open_on(
        &self,
        connection: &Connection,
        source: &policy::Ceph,
    ) -> Result<Rc<Opened>, NotOpened> {
        let place = connection.place().await?;
        self.check_place(connection, &place).await?;
        if source.fence == Fence::Blocklist && !self.may_shut_out.get() {
            try_right(connection, source).await?;
            self.may_shut_out.set(true);
        }
        let hold = Hold::take(connection, &source.volume, &cookie()?).await?;
        let lease = hold.guarded().lease();
        let opened = tokio::select! {
            opened = self.open_held(connection, &hold, source) => opened,
            why = lease.until_lost() => Err(NotOpened::Other(why.to_string())),
            () = lease.until_in_doubt_for(duration(source.patience)) => {
                let why = hold.doubt().unwrap_or_else(|| "its lock is in doubt".to_owned());
                Err(NotOpened::Other(why))
            }
        };
        match opened {
            Ok(opened) => {
                self.remembered.note(place);
                Ok(opened)
            }
            Err(_) if lease.lost() == Some(&Loss::ShutOut) => Err(NotOpened::ShutOut),
            Err(why) => {
                // A lock that is not let go of ends by itself.
                let _ = hold.release().await;
                Err(why)
            }
        }
    }

    /// The pool; a connection is made once and mends itself.
    pub(super) async fn connected(&self, source: &policy::Ceph) -> Result<Connection, NotOpened> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(connection.clone());
        }
        let connection = Connection::open(source).await.map_err(|error| {
            let is_pool = matches!(error, RadosError::NoPool(_));
            let before = self.remembered.place().ok().flatten().filter(|_| is_pool);
            match before {
                Some(PoolPlace { number, .. }) => NotOpened::Other(format!(
                    "there is no pool {:?} any more; the volume was in number {number}, which was \
                     deleted or renamed",
                    source.pool
                )),
                None => error.into(),
            }
        })?;
        self.connection.replace(Some(connection.clone()));
        Ok(connection)
    }

    /// Makes sure that nothing is made where a volume is expected that was open here before: not in
    /// another pool of the same name, nor beside what is left of one whose head is lost.
    async fn check_place(
        &self,
        connection: &Connection,
        place: &PoolPlace,
    ) -> Result<(), NotOpened> {
        let Some(before) = self.remembered.place()? else { return Ok(()) };
        let source = self.source.borrow().clone();
        let (pool, head) = (&source.pool, head_name(&source.volume));
        let has_head = connection.look(&head).await?.is_some();
        if before == *place {
            let gone = || {
                format!(
                    "object {head:?} is gone from pool {pool:?}; restore it, or give the volume \
                     another name"
                )
            };
            return if has_head { Ok(()) } else { Err(gone().into()) };
        }
        let (was, is) = (before.number, place.number);
        let moved = if before.cluster == place.cluster {
            format!("pool {pool:?} was made anew (number {is}): the volume was in number {was}")
        } else {
            format!(
                "this is another cluster ({}): the volume was in {}",
                place.cluster, before.cluster
            )
        };
        let claim = if has_head {
            "opens the volume of this name that is here, such as a copy"
        } else {
            "makes a new, empty volume here"
        };
        let question = format!("{moved}; `evenkeel ctl claim {}` {claim}", self.name);
        if !self.word.ask(&question) {
            if connection.what_became().await?.is_some() {
                // Whatever has this name by the next attempt is another pool.
                self.disconnect();
            }
            return Err(question.into());
        }
        tracing::warn!(volume = self.name, moved, "opened here at the operator's word");
        Ok(())
    }

    async fn open_held(
        &self,
        connection: &Connection,
        hold: &Rc<Hold>,
        source: &policy::Ceph,
    ) -> Result<Rc<Opened>, NotOpened> {
        let found = hold.head().await?;
        if let Some(head) = &found {
            head.check(&source.shape).map_err(|error| error.to_string())?;
        }
        let before = found.as_ref().and_then(|head| head.owner.clone());
        if self.returning.borrow().as_ref().is_some_and(|ours| before.as_ref() != Some(ours)) {
            return Err(NotOpened::Taken("another gate has used the volume meanwhile".to_owned()));
        }
        let owner = hold.owner().await?;
        let status = connection.status().await?;
        if !status.is_replicated {
            let pool = connection.pool_name();
            let why =
                format!("pool {pool:?} keeps an erasure code; use one that keeps whole copies");
            return Err(why.into());
        }
        let is_new = found.is_none();
        let mut head = self.take_over(hold, found, &owner, (source, &status)).await?;
        let pool = hold.guarded();
        if is_new {
            pages::begin(pool, &source.volume).await?;
        }
        hold.write_head(&head).await?;
        let (volume, progress) = (source.volume.as_str(), &self.progress);
        let reader = Reader { pool, volume, shape: head.shape, progress };
        let (mut choices, directory) = reader.read(head.has_directory).await?;
        let is_larger = source.shape.size_bytes > head.shape.size_bytes;
        if is_larger || !head.has_directory {
            let size_bytes = head.shape.size_bytes.max(source.shape.size_bytes);
            head.shape = Shape { size_bytes, ..head.shape };
            head.has_directory = true;
            hold.write_head(&head).await?;
            choices.resize(head.shape.objects());
        }
        let groups = pool_map(&status.serving(), status.nobody());
        let groups = groups.map_err(|error| error.to_string())?;
        let volume = Volume::new(&source.volume, head.shape, (choices, directory), groups);
        let opened = Opened::new(Rc::clone(hold), source, head, volume, status, self.clock);
        opened.look().await?;
        Ok(Rc::new(opened))
    }

    /// Sees to it that no client that had the volume before writes to it any more. Returns the head
    /// that says so.
    async fn take_over(
        &self,
        hold: &Hold,
        found: Option<Head>,
        owner: &str,
        (source, status): (&policy::Ceph, &PoolStatus),
    ) -> Result<Head, NotOpened> {
        let before = found.as_ref().and_then(|head| head.owner.clone());
        let before = before.filter(|before| before != owner);
        let address_before = found.as_ref().and_then(Head::owner_address).map(str::to_owned);
        let (head, oldest) = Head::taken(found, source.shape, owner);
        if source.fence == Fence::None {
            if let Some(before) = before {
                self.ask_for_word(&before)?;
            }
            if !head.former.is_empty() {
                let addresses = head.former.join(", ");
                tracing::warn!(volume = self.name, addresses, "former owners are not shut out");
            }
            return Ok(head);
        }
        if head.former.is_empty() {
            return Ok(head);
        }
        // An entry may be there already, and about to end.
        let is_before = |address: &str| address_before.as_deref() == Some(address);
        let is_due = |one: &&String| is_before(one) || !status.shut_out.contains_key(*one);
        let due: Vec<String> = head.former.iter().filter(is_due).cloned().collect();
        let told = due.join(", ");
        fence::shut_out(hold.guarded(), source, due, oldest).await?;
        if !told.is_empty() {
            tracing::info!(volume = self.name, addresses = told, "former owners are shut out");
        }
        Ok(head)
    }

    /// Nothing keeps the predecessor from writing but the operator's word that it is gone.
    fn ask_for_word(&self, before: &str) -> Result<(), NotOpened> {
        let question = format!(
            "{before} has not let go of the volume, and with `fence = \"none\"` nothing keeps it \
             from writing; make sure that it is gone for good, then `evenkeel ctl claim {}`",
            self.name
        );
        if !self.word.ask(&question) {
            return Err(question.into());
        }
        tracing::warn!(
            volume = self.name,
            before,
            "taken at the operator's word from a gate that is not shut out"
        );
        Ok(())
    }
}

/// A word that nobody else uses, so that a lock is known to be ours.
fn cookie() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| format!("no random numbers: {error}"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
