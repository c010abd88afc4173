//! Which pool a volume was in when it was last open here.
//!
//! ```text
//! ceph-VOLUME-HASH   in the state folder: "evenkeel ceph volume 1", cluster UUID, pool NUMBER
//! ```
//!
//! A name says nothing: a pool that was deleted and made anew has its name and none of its data,
//! and a volume that is not there is otherwise made, new and empty, when it is first opened.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_engine::policy;

use super::guarded::PoolPlace;
use crate::state::file_of;
use crate::text_file::{self, TextFile};

/// What the file begins with; the number is the version of the format.
const TITLE: &str = "evenkeel ceph volume 1";

/// What is remembered of one volume; without a folder for as long as the process lives.
#[derive(Debug)]
pub(super) struct Remembered {
    file: Option<PathBuf>,
    place: RefCell<Option<PoolPlace>>,
}

impl Remembered {
    /// What the folder knows of a volume.
    pub(super) fn new(folder: Option<&Path>, source: &policy::Ceph) -> Self {
        let name = format!("{}/{} {}", source.pool, source.volume, source.conf.display());
        let file = folder.map(|folder| file_of(folder, "ceph", &name));
        Self { file, place: RefCell::new(None) }
    }

    /// Where the volume was; none if it was never open here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn place(&self) -> Result<Option<PoolPlace>, String> {
        if let Some(place) = &*self.place.borrow() {
            return Ok(Some(place.clone()));
        }
        let Some(file) = &self.file else { return Ok(None) };
        let place = read(file).map_err(|error| {
            let file = file.display();
            format!(
                "{file} is to say which pool the volume is in, and cannot be read ({error}); \
                 remove it if the pool is the right one"
            )
        })?;
        Ok(place)
    }

    /// The volume is open there.
    pub(super) fn note(&self, place: PoolPlace) {
        if self.place().is_ok_and(|before| before.as_ref() == Some(&place)) {
            self.place.replace(Some(place));
            return;
        }
        if let Some(file) = &self.file
            && let Err(error) = TextFile::create(file, &render(&place))
        {
            let file = file.display();
            tracing::warn!(
                %file, %error,
                "not kept which pool the volume is in: after a restart one of that name that was \
                 made anew would not be noticed"
            );
        }
        self.place.replace(Some(place));
    }
}

fn read(file: &Path) -> io::Result<Option<PoolPlace>> {
    let Some(text) = text_file::read(file)? else { return Ok(None) };
    let damaged = || io::Error::other("it is damaged, or of a newer evenkeel");
    parse(&text).map(Some).ok_or_else(damaged)
}

fn render(place: &PoolPlace) -> String {
    format!("{TITLE}\ncluster {}\npool {}\n", place.cluster, place.number)
}

fn parse(text: &str) -> Option<PoolPlace> {
    let mut lines = text.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let cluster = lines.next()?.strip_prefix("cluster ")?.to_owned();
    let number = lines.next()?.strip_prefix("pool ")?.parse().ok()?;
    Some(PoolPlace { cluster, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: i64) -> PoolPlace {
        PoolPlace { cluster: "0e4b6d4c-8f0e-4f0e-9a52-3f1f1c8f5d11".to_owned(), number }
    }

    #[test]
    fn where_a_volume_was_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ceph-db");
        let of = |file: Option<&Path>| Remembered {
            file: file.map(Path::to_owned),
            place: RefCell::new(None),
        };
        let first = of(Some(&file));
        assert_eq!(first.place(), Ok(None));
        first.note(place(3));
        assert_eq!(of(Some(&file)).place(), Ok(Some(place(3))));
        first.note(place(7));
        assert_eq!(of(Some(&file)).place(), Ok(Some(place(7))));
        std::fs::write(&file, "evenkeel ceph volume 2\n").unwrap();
        assert!(of(Some(&file)).place().unwrap_err().contains("remove it"));
        let forgetful = of(None);
        forgetful.note(place(3));
        assert_eq!(forgetful.place(), Ok(Some(place(3))), "until the process ends");
    }
}
