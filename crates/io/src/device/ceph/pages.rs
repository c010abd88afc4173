//! The choices of a volume, read from its pool: the pages that its directory lists, many at a time.
//!
//! | what is found | what it means |
//! |---|---|
//! | listed, and there | the choices of its objects |
//! | listed, and not there | it is lost: its objects are looked for, under all their names |
//! | not listed | none of its objects was written, whatever there is |
//! | no directory, in a volume of a program that made none | all pages are listed |
//! | no directory in another | it is lost: pages that are there are listed again |

use std::cell::Cell;
use std::future::Future;

use evenkeel_core::place::choices::{ChoiceMap, PAGE_BYTES, PAGE_OBJECTS};
use evenkeel_engine::pooled::{
    Directory, Shape, directory_name, load_page, object_name, page_name,
};
use tokio::task::JoinSet;

use super::guarded::{Guarded, GuardedError};
use super::opening::NotOpened;

/// Reads that are under way at a time: enough for an OSD or two to be busy, and few beside what
/// clients of other volumes ask.
const AT_ONCE: usize = 64;

/// How many pages of how many were read.
pub(super) type Progress = Cell<Option<(usize, usize)>>;

/// Reads the choices of a volume that is there. See the [module](self).
pub(super) struct Reader<'a> {
    pub(super) pool: &'a Guarded,
    pub(super) volume: &'a str,
    pub(super) shape: Shape,
    pub(super) progress: &'a Progress,
}

/// What a pool has of a page.
enum Found {
    Page(Vec<u8>),
    Nothing,
}

impl Reader<'_> {
    /// The choices, and the pages that are to be listed. `has_directory` says whether the volume is
    /// of a program that lists them. The directory is stored if it is not what the pool has.
    ///
    /// # Errors
    /// What the pool has and no program of ours writes, or what the cluster said.
    pub(super) async fn read(
        &self,
        has_directory: bool,
    ) -> Result<(ChoiceMap, Directory), NotOpened> {
        let mut choices = ChoiceMap::new(self.shape.objects());
        let known = if has_directory { self.directory().await? } else { None };
        let is_known = known.is_some();
        let all = || Directory::of(0..choices.pages());
        let listed = known.unwrap_or_else(all);
        let missing = self.load(&listed, &mut choices).await?;
        if has_directory && !is_known {
            tracing::warn!(
                object = directory_name(self.volume),
                "the list of pages is lost, and made anew"
            );
        } else {
            for page in &missing {
                self.rebuild(*page, &mut choices).await?;
            }
        }
        if is_known {
            return Ok((choices, listed));
        }
        let is_blank = |page: &u32| choices.page(*page).iter().all(|byte| *byte == 0);
        let listed = Directory::of(listed.pages().filter(|page| !is_blank(page)));
        self.pool.write_full(&directory_name(self.volume), &listed.encode()).await?;
        Ok((choices, listed))
    }

    async fn directory(&self) -> Result<Option<Directory>, NotOpened> {
        let name = directory_name(self.volume);
        match self.pool.read(&name, 0, vec![0; Directory::BYTES_MAX + 1]).await {
            Ok((bytes, count)) => {
                let directory = Directory::decode(&bytes[..count]).map_err(|error| {
                    format!(
                        "object {name:?}: {error}; restore it, or remove it to have it made anew"
                    )
                })?;
                let pages = ChoiceMap::pages_of(self.shape.objects());
                // Of a volume that was larger before.
                Ok(Some(Directory::of(directory.pages().filter(|page| *page < pages))))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Loads these pages; returns which are not there.
    async fn load(
        &self,
        listed: &Directory,
        choices: &mut ChoiceMap,
    ) -> Result<Vec<u32>, NotOpened> {
        let (mut missing, mut count, all) = (Vec::new(), 0, listed.count());
        let read = |number: u32| {
            let (pool, name) = (self.pool.clone(), page_name(self.volume, number));
            async move {
                match pool.read(&name, 0, vec![0; PAGE_BYTES + 1]).await {
                    Ok((mut bytes, length)) => {
                        bytes.truncate(length);
                        Ok((number, Found::Page(bytes)))
                    }
                    Err(error) if error.is_missing() => Ok((number, Found::Nothing)),
                    Err(error) => Err(NotOpened::from(error)),
                }
            }
        };
        let take = |(number, found)| {
            count += 1;
            self.progress.set(Some((count, all)));
            match found {
                Found::Nothing => missing.push(number),
                Found::Page(bytes) if load_page(choices, number, &bytes) => {}
                Found::Page(bytes) => {
                    return Err(NotOpened::Other(format!(
                        "object {:?} has {} bytes, not {PAGE_BYTES}; restore it, or remove it to \
                         have it made anew from what is there",
                        page_name(self.volume, number),
                        bytes.len()
                    )));
                }
            }
            Ok(())
        };
        side_by_side(listed.pages(), read, take).await?;
        self.progress.set(None);
        Ok(missing)
    }

    /// Makes a lost page anew: an object that is there is where its choice was.
    async fn rebuild(&self, number: u32, choices: &mut ChoiceMap) -> Result<(), NotOpened> {
        let page = page_name(self.volume, number);
        tracing::warn!(page, "a page of the choices is lost, and made anew");
        let first = u64::from(number) * PAGE_OBJECTS;
        let objects = first..choices.objects().min(first + PAGE_OBJECTS);
        let candidates = 0..self.shape.candidates;
        let names = objects.flat_map(|object| candidates.clone().map(move |at| (object, at)));
        let look = |(object, candidate): (u64, usize)| {
            let (pool, name) = (self.pool.clone(), object_name(self.volume, object, candidate));
            async move {
                match pool.size_of(&name).await {
                    Ok(_) => Ok(Some((object, candidate))),
                    Err(error) if error.is_missing() => Ok(None),
                    Err(error) => Err(NotOpened::from(error)),
                }
            }
        };
        let take = |found: Option<(u64, usize)>| {
            if let Some((object, candidate)) = found {
                choices.set(object, Some(candidate));
            }
            Ok(())
        };
        side_by_side(names, look, take).await?;
        while choices.take_changed().is_some() {}
        Ok(self.pool.write_full(&page, choices.page(number)).await?)
    }
}

/// Lists the pages of a new volume, of which there are none.
///
/// # Errors
/// If there is something of a volume already, or what the cluster said.
pub(super) async fn begin(pool: &Guarded, volume: &str) -> Result<(), NotOpened> {
    let lost = |object: &str| {
        NotOpened::Other(format!(
            "object {object:?} tells of a volume whose head is lost; restore the head, or give the \
             volume another name"
        ))
    };
    // A program that listed none made all of them with the volume.
    let first = page_name(volume, 0);
    match pool.read(&first, 0, vec![0; PAGE_BYTES]).await {
        Ok((page, _)) if page.iter().any(|byte| *byte != 0) => return Err(lost(&first)),
        Ok(_) => {}
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error.into()),
    }
    let name = directory_name(volume);
    let blank = Directory::default().encode();
    match pool.create(&name, &blank).await {
        Ok(()) => Ok(()),
        Err(GuardedError::Cluster(error)) if error.is_there_already() => {
            // Of an attempt that was cut short.
            let (bytes, count) = pool.read(&name, 0, vec![0; Directory::BYTES_MAX + 1]).await?;
            if bytes[..count] == blank { Ok(()) } else { Err(lost(&name)) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Does something for each item, a bounded number at a time, and takes the outcomes as they come.
/// Stops at the first error.
pub(super) async fn side_by_side<T, R, F>(
    items: impl IntoIterator<Item = T>,
    start: impl Fn(T) -> F,
    mut take: impl FnMut(R) -> Result<(), NotOpened>,
) -> Result<(), NotOpened>
where
    R: 'static,
    F: Future<Output = Result<R, NotOpened>> + 'static,
{
    let (mut items, mut under_way) = (items.into_iter(), JoinSet::new());
    loop {
        while under_way.len() < AT_ONCE
            && let Some(item) = items.next()
        {
            under_way.spawn_local(start(item));
        }
        let Some(outcome) = under_way.join_next().await else { return Ok(()) };
        take(outcome.expect("it does not panic")?)?;
    }
}
