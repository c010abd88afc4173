//! Opening a volume: the connection, the lock, the head, whoever had it before, the choices.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_core::place::choices::{ChoiceMap, PAGE_BYTES, PAGE_OBJECTS};
use evenkeel_core::place::rados::pool_map;
use evenkeel_engine::policy;
use evenkeel_engine::pooled::{Head, Volume, load_page, object_name, page_name};
use rustix::rand::GetRandomFlags;

use super::hold::Hold;
use super::opened::Opened;
use super::{CephVolume, blocking};
use crate::rados::{Access, Cluster, Pool, RadosError, Whom, aside};

impl CephVolume {
    /// Opens the volume, if that can be done now.
    pub(super) async fn attempt(&self) -> Result<Rc<Opened>, String> {
        let source = self.source.borrow().clone();
        let pool = self.connected(&source).await?;
        let hold = Hold::take(&pool, &source.volume, &cookie()?).await?;
        match self.open_held(&pool, &hold, &source).await {
            Ok(opened) => Ok(opened),
            Err(why) => {
                // A lock that is not let go of ends by itself.
                let _ = hold.release().await;
                Err(why)
            }
        }
    }

    /// The pool; a connection is made once and mends itself.
    async fn connected(&self, source: &policy::Ceph) -> Result<Arc<Pool>, String> {
        if let Some(pool) = &*self.pool.borrow() {
            return Ok(Arc::clone(pool));
        }
        let access = Access {
            conf: Some(source.conf.clone()),
            monitors: None,
            user: source.user.clone(),
            keyring: source.keyring.clone(),
            key: None,
            patience: source.patience,
        };
        let name = source.pool.clone();
        let opening = aside(move || {
            let cluster = Cluster::connect(&access)?;
            Pool::open(&cluster, &name)
        });
        let pool = opening.await.map_err(|error| error.to_string())?;
        let pool = Arc::new(pool);
        self.pool.replace(Some(Arc::clone(&pool)));
        Ok(pool)
    }

    async fn open_held(
        &self,
        pool: &Arc<Pool>,
        hold: &Rc<Hold>,
        source: &policy::Ceph,
    ) -> Result<Rc<Opened>, String> {
        let told = |error: RadosError| error.to_string();
        let found = hold.head().await?;
        if let Some(head) = &found {
            head.check(&source.shape).map_err(|error| error.to_string())?;
        }
        let owner = hold.owner().await?;
        let before = found.as_ref().and_then(Head::owner_address).map(str::to_owned);
        if let Some(address) = before.filter(|address| !owner.starts_with(address.as_str())) {
            tracing::info!(volume = self.name, address, "the predecessor is shut out");
            shut_out(pool, address).await?;
        }
        let mut choices = ChoiceMap::new(source.shape.objects());
        if found.is_none() {
            make_pages(pool, source, &choices).await?;
        }
        hold.write_head(&Head { shape: source.shape, owner: Some(owner) }).await.map_err(told)?;
        if found.is_some() {
            load_pages(pool, source, &mut choices).await?;
        }
        let number = pool.id();
        let status = blocking(pool, move |pool| pool.cluster().pool_status(number)).await;
        let status = status.map_err(told)?;
        if !status.is_replicated {
            return Err(format!(
                "pool {:?} keeps an erasure code; use one that keeps whole copies",
                pool.name()
            ));
        }
        let groups = pool_map(&status.serving(), status.nobody());
        let groups = groups.map_err(|error| error.to_string())?;
        let volume = Volume::new(&source.volume, source.shape, choices, groups);
        let ours = (Rc::clone(hold), Arc::clone(pool));
        let opened = Opened::new(ours, source, volume, status, self.clock);
        opened.look().await?;
        Ok(Rc::new(opened))
    }
}

/// A word that nobody else uses, so that a lock is known to be ours.
fn cookie() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| format!("no random numbers: {error}"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Has the OSDs refuse whatever else comes from an address. They know of it before they serve
/// anything that we ask from then on.
async fn shut_out(pool: &Arc<Pool>, address: String) -> Result<(), String> {
    let command = serde_json::json!({
        "prefix": "osd blocklist", "blocklistop": "add", "addr": address,
    });
    let done = blocking(pool, move |pool| {
        pool.cluster().command(Whom::Monitor, &command.to_string())?;
        pool.cluster().wait_for_latest_map()
    });
    done.await.map_err(|error| {
        format!(
            "the gate that had the volume before cannot be shut out: {error}; the user needs \
             `mon 'profile rbd'`"
        )
    })
}

/// Stores the choices of a new volume, of which there is none.
async fn make_pages(
    pool: &Arc<Pool>,
    source: &policy::Ceph,
    choices: &ChoiceMap,
) -> Result<(), String> {
    for number in 0..choices.pages() {
        let name = page_name(&source.volume, number);
        match pool.create(&name, choices.page(number)).await {
            Ok(()) => {}
            Err(error) if error.is_there_already() => {
                // Of an attempt that was cut short there are pages without any choice.
                let (page, _) = pool
                    .read(&name, 0, vec![0; PAGE_BYTES])
                    .await
                    .map_err(|error| error.to_string())?;
                if page.iter().any(|byte| *byte != 0) {
                    return Err(format!(
                        "object {name:?} tells of a volume whose head is lost; restore the head, \
                         or give the volume another name"
                    ));
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

async fn load_pages(
    pool: &Arc<Pool>,
    source: &policy::Ceph,
    choices: &mut ChoiceMap,
) -> Result<(), String> {
    for number in 0..choices.pages() {
        let name = page_name(&source.volume, number);
        match pool.read(&name, 0, vec![0; PAGE_BYTES + 1]).await {
            Ok((bytes, count)) if load_page(choices, number, &bytes[..count]) => {}
            Ok((_, count)) => {
                return Err(format!(
                    "object {name:?} has {count} bytes, not {PAGE_BYTES}; restore it, or \
                                    remove it to have it made anew from what is there"
                ));
            }
            Err(error) if error.is_missing() => {
                tracing::warn!(name, "a page of the choices is lost, and made anew");
                probe_page(pool, source, choices, number)
                    .await
                    .map_err(|error| error.to_string())?;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Makes a lost page anew: an object that is there is where its choice was.
async fn probe_page(
    pool: &Arc<Pool>,
    source: &policy::Ceph,
    choices: &mut ChoiceMap,
    number: u32,
) -> Result<(), RadosError> {
    let first = u64::from(number) * PAGE_OBJECTS;
    for object in first..choices.objects().min(first + PAGE_OBJECTS) {
        for candidate in 0..source.shape.candidates {
            match pool.size_of(&object_name(&source.volume, object, candidate)).await {
                Ok(_) => {
                    choices.set(object, Some(candidate));
                    break;
                }
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
    }
    while choices.take_changed().is_some() {}
    pool.write_full(&page_name(&source.volume, number), choices.page(number)).await
}
