//! Volumes in pools of Ceph in the policy file.
//!
//! ```toml
//! [[backend]]
//! name = "disks"
//! ceph = "/etc/ceph/ceph.conf"
//! user = "evenkeel"                # "admin" if left out
//! keyring = "/etc/evenkeel.keyring" # where the configuration says if left out
//! pool = "objects"
//! volume = "db"                    # the backend's name if left out
//! size = "10 TiB"
//! object = "4 MiB"
//! candidates = 2
//! ceiling = 0.93
//! patience = "30 s"
//! fence = "blocklist"              # or "none": see docs/ceph.md
//! ```

use evenkeel_engine::policy::{Ceph, Fence};
use evenkeel_engine::pooled::Shape;
use toml::Spanned;

use super::diagnostic::Diagnostics;
use super::print::{Text, path, quoted, size, thousandths};
use super::raw::RawBackend;
use super::resolve::PATIENCE_DEFAULT;
use super::spread::{CANDIDATES_DEFAULT, OBJECT_DEFAULT, ceiling_default};
use super::takeover::RawFence;
use crate::units::print_duration;

/// Ceph's own name for who may do everything.
const USER_DEFAULT: &str = "admin";

/// The volume that the backend is.
pub(super) fn volume(raw: RawBackend, out: &mut Diagnostics) -> Option<Ceph> {
    let conf = raw.ceph?;
    let missing = |key: &str, example: &str, out: &mut Diagnostics| {
        let message = format!("a volume in Ceph needs `{key}`");
        out.error(conf.span(), message, format!("add {example}"));
    };
    if raw.pool.is_none() {
        missing("pool", "`pool = \"..\"`, the pool that holds its objects", out);
    }
    if raw.size.is_none() {
        missing("size", "`size = \"1 TiB\"`; room is taken by what is written alone", out);
    }
    let candidates = raw.candidates.map_or(CANDIDATES_DEFAULT, Spanned::into_inner);
    Some(Ceph {
        user: raw.user.map_or_else(|| USER_DEFAULT.to_owned(), Spanned::into_inner),
        keyring: raw.keyring.map(Spanned::into_inner),
        pool: raw.pool?.into_inner(),
        volume: raw.volume.map_or_else(|| raw.name.into_inner(), Spanned::into_inner),
        shape: Shape {
            object_bytes: raw.object.map_or(OBJECT_DEFAULT, Spanned::into_inner),
            size_bytes: raw.size?.into_inner(),
            candidates: usize::try_from(candidates).unwrap_or(usize::MAX),
        },
        ceiling_milli: raw.ceiling.map_or_else(ceiling_default, Spanned::into_inner),
        patience: raw.patience.map_or(PATIENCE_DEFAULT, Spanned::into_inner),
        fence: fence(raw.fence, out),
        conf: conf.into_inner(),
    })
}

/// The keys as they would be written.
pub(super) fn print(volume: &Ceph, text: &mut Text) {
    text.key("ceph", path(&volume.conf));
    text.key("user", quoted(&volume.user));
    if let Some(keyring) = &volume.keyring {
        text.key("keyring", path(keyring));
    }
    text.key("pool", quoted(&volume.pool));
    text.key("volume", quoted(&volume.volume));
    text.key("size", size(volume.shape.size_bytes));
    text.key("object", size(volume.shape.object_bytes));
    text.key("candidates", volume.shape.candidates.to_string());
    text.key("ceiling", thousandths(volume.ceiling_milli));
    text.key("patience", quoted(&print_duration(volume.patience)));
    text.key("fence", quoted(name_of(volume.fence)));
}

/// How a predecessor is kept from writing.
fn fence(written: Option<Spanned<RawFence>>, out: &mut Diagnostics) -> Fence {
    let Some(written) = written else { return Fence::default() };
    let known = [Fence::Blocklist, Fence::None];
    let is_it = |one: &Fence| *written.get_ref() == RawFence::Named(name_of(*one).to_owned());
    known.into_iter().find(is_it).unwrap_or_else(|| {
        let message = "there is no fence of this kind in Ceph";
        out.error(written.span(), message, "use \"blocklist\", or \"none\"");
        Fence::default()
    })
}

fn name_of(fence: Fence) -> &'static str {
    match fence {
        Fence::Blocklist => "blocklist",
        Fence::None => "none",
    }
}
