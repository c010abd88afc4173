//! Stores: drives that are each given once, in one backend.
//!
//! Volumes of one store are exports of one backend. Two backends on the same drives would open the
//! store twice, and whoever writes to a drive behind its store's back destroys it.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Findings, Place};
use crate::policy::{Policy, STORE_DRIVES_MAX, Source, Store};

pub(super) fn check(policy: &Policy, index: usize, store: &Store, found: &mut Findings) {
    let place = Place::Backend { index, field: "source.drives" };
    if !(1..=STORE_DRIVES_MAX).contains(&store.drives.len()) {
        found.error(
            place,
            format!("a store of {} drives", store.drives.len()),
            format!("name all its drives, 1 to {STORE_DRIVES_MAX}"),
        );
    }
    let mut known = BTreeSet::new();
    for drive in &store.drives {
        if drive.as_os_str().is_empty() {
            found.error(place, "an empty path", "name the file or block device");
        } else if !known.insert(drive) {
            let message = format!("drive {} is named twice", drive.display());
            found.error(place, message, "name every drive once");
        }
    }
    for (other, backend) in policy.backends.iter().enumerate() {
        // Of two stores, the later one is shown.
        let is_reported = matches!(backend.source, Source::Store(_)) && other >= index;
        let shared = store.drives.iter().find(|drive| stands_on(&backend.source, drive));
        if let (Some(drive), false) = (shared, is_reported) {
            found.error_at_both(
                place,
                Place::Backend { index: other, field: "source" },
                format!("backend {:?} stands on drive {} too", backend.name, drive.display()),
                "give the store drives of its own; volumes of one store are exports of one \
                 backend, which name them by `source`",
            );
        }
    }
}

fn stands_on(source: &Source, drive: &Path) -> bool {
    match source {
        Source::Store(store) => store.drives.iter().any(|own| own == drive),
        Source::File { path, .. } => path == drive,
        _ => false,
    }
}
