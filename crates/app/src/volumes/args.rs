//! The command line of volumes and snapshots, alike for a store on its drives and for one that a
//! gate has open: only where the store is, is said differently.

use std::fmt;

use clap::Subcommand;
use evenkeel_store::VolumeKind;

use super::{VolumeDocument, VolumeSpec, kind_name};
use crate::exit::Exit;
use crate::units::{parse_size, print_size};

/// Where the store is.
pub trait Place: clap::Args + fmt::Debug {
    /// What the examples in `--help` begin with.
    const COMMAND: &'static str;

    /// How they name the store, with a space behind it.
    const EXAMPLE: &'static str;
}

/// Actions on volumes.
#[derive(Debug, Subcommand)]
pub enum Volumes<P: Place> {
    /// Make an empty volume.
    Create(CreateVolume<P>),
    /// Make a volume larger or smaller.
    Resize(ResizeVolume<P>),
    /// Delete a volume. Its snapshots stay.
    Delete(DeleteVolume<P>),
    /// List the volumes, and what each takes.
    List(ListVolumes<P>),
}

/// Actions on snapshots.
#[derive(Debug, Subcommand)]
pub enum Snapshots<P: Place> {
    /// Keep what a volume holds now, in constant time.
    Create(CreateSnapshot<P>),
    /// List the snapshots, and what each takes.
    List(ListSnapshots<P>),
    /// Delete a snapshot. Volumes and clones keep what they share with it.
    Delete(DeleteSnapshot<P>),
    /// Make a volume that holds what a snapshot holds, in constant time.
    Clone(CloneSnapshot<P>),
    /// Give a volume the content and the size that a snapshot has.
    RollBack(RollBack<P>),
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The volumes, or the snapshots; those of one volume if it is named.
    List(Listed),
    /// A change.
    Change(VolumeSpec),
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// What clients can write to.
    Volumes,
    /// What never changes; if a volume is named, what was made of it.
    Snapshots(Option<u32>),
}

/// Arguments of `volume create`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&[
    "volume create {}--size '10 GiB'",
    "volume create {}--size '2 TiB' --thin",
]))]
pub struct CreateVolume<P: Place> {
    #[command(flatten)]
    place: P,
    /// Its size, a multiple of 4 KiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: u64,
    /// Promise it nothing: thin volumes may together be larger than the store, and writes fail
    /// when that is full.
    #[arg(long)]
    thin: bool,
}

/// Arguments of `volume resize`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&[
    "volume resize {}--volume 1 --size '20 GiB'",
    "volume resize {}--volume 1 --size '5 GiB' --yes",
]))]
pub struct ResizeVolume<P: Place> {
    #[command(flatten)]
    place: P,
    /// The volume's number.
    #[arg(long, value_name = "N")]
    volume: u32,
    /// Its new size, a multiple of 4 KiB. Clients see it when they connect again.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: u64,
    /// Destroy what lies beyond the new size.
    #[arg(long)]
    yes: bool,
}

/// Arguments of `volume delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["volume delete {}--volume 1 --yes"]))]
pub struct DeleteVolume<P: Place> {
    #[command(flatten)]
    place: P,
    /// The volume's number.
    #[arg(long, value_name = "N")]
    volume: u32,
    /// Destroy what it holds.
    #[arg(long)]
    yes: bool,
}

/// Arguments of `volume list`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["volume list {}", "volume list {}--json"]))]
pub struct ListVolumes<P: Place> {
    #[command(flatten)]
    place: P,
}

/// Arguments of `snapshot create`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["snapshot create {}--volume 0"]))]
pub struct CreateSnapshot<P: Place> {
    #[command(flatten)]
    place: P,
    /// The volume's number.
    #[arg(long, value_name = "N")]
    volume: u32,
}

/// Arguments of `snapshot list`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["snapshot list {}", "snapshot list {}--volume 0 --json"]))]
pub struct ListSnapshots<P: Place> {
    #[command(flatten)]
    place: P,
    /// Only those of this volume.
    #[arg(long, value_name = "N")]
    volume: Option<u32>,
}

/// Arguments of `snapshot delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["snapshot delete {}--snapshot 2 --yes"]))]
pub struct DeleteSnapshot<P: Place> {
    #[command(flatten)]
    place: P,
    /// The snapshot's number.
    #[arg(long, value_name = "N")]
    snapshot: u32,
    /// Destroy what it alone holds.
    #[arg(long)]
    yes: bool,
}

/// Arguments of `snapshot clone`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&[
    "snapshot clone {}--snapshot 2",
    "snapshot clone {}--snapshot 2 --provisioned",
]))]
pub struct CloneSnapshot<P: Place> {
    #[command(flatten)]
    place: P,
    /// The snapshot's number.
    #[arg(long, value_name = "N")]
    snapshot: u32,
    /// Promise room for all of it; else it is thin, and takes room only for what is written to it.
    #[arg(long)]
    provisioned: bool,
}

/// Arguments of `snapshot roll-back`.
#[derive(Debug, clap::Args)]
#[command(after_help = examples::<P>(&["snapshot roll-back {}--volume 0 --to 2 --yes"]))]
pub struct RollBack<P: Place> {
    #[command(flatten)]
    place: P,
    /// The volume's number.
    #[arg(long, value_name = "N")]
    volume: u32,
    /// The number of the snapshot, of this volume or of a relative.
    #[arg(long, value_name = "N")]
    to: u32,
    /// Destroy what the volume holds now, unless other snapshots hold it.
    #[arg(long)]
    yes: bool,
}

impl Listed {
    /// Those of all that are listed.
    pub fn of(self, all: Vec<VolumeDocument>) -> Vec<VolumeDocument> {
        let is_listed = |volume: &VolumeDocument| {
            let is_snapshot = volume.kind == kind_name(VolumeKind::Snapshot);
            match self {
                Self::Volumes => !is_snapshot,
                Self::Snapshots(of) => is_snapshot && (of.is_none() || of == volume.of),
            }
        };
        all.into_iter().filter(is_listed).collect()
    }
}

impl Wish {
    /// The words of `evenkeel ctl` for it.
    pub fn words(&self) -> String {
        match self {
            Self::List(Listed::Volumes) => "volume list".to_owned(),
            Self::List(Listed::Snapshots(None)) => "snapshot list".to_owned(),
            Self::List(Listed::Snapshots(Some(volume))) => {
                format!("snapshot list --volume {volume}")
            }
            Self::Change(spec) => spec.words(),
        }
    }
}

impl VolumeSpec {
    fn words(&self) -> String {
        match self {
            Self::Create { size, thin } => {
                format!("volume create --size '{size}'{}", if *thin { " --thin" } else { "" })
            }
            Self::Resize { volume, size, discard } => format!(
                "volume resize --volume {volume} --size '{size}'{}",
                if *discard { " --yes" } else { "" }
            ),
            Self::DeleteVolume { volume } => format!("volume delete --volume {volume} --yes"),
            Self::Snapshot { volume } => format!("snapshot create --volume {volume}"),
            Self::Clone { snapshot, provisioned } => format!(
                "snapshot clone --snapshot {snapshot}{}",
                if *provisioned { " --provisioned" } else { "" }
            ),
            Self::RollBack { volume, to } => {
                format!("snapshot roll-back --volume {volume} --to {to} --yes")
            }
            Self::DeleteSnapshot { snapshot } => {
                format!("snapshot delete --snapshot {snapshot} --yes")
            }
        }
    }
}

impl<P: Place> Volumes<P> {
    /// Where the store is.
    pub fn place(&self) -> &P {
        match self {
            Self::Create(args) => &args.place,
            Self::Resize(args) => &args.place,
            Self::Delete(args) => &args.place,
            Self::List(args) => &args.place,
        }
    }

    /// What is asked for.
    ///
    /// # Errors
    /// What would be destroyed without having been allowed.
    pub fn wish(&self) -> anyhow::Result<Wish> {
        Ok(Wish::Change(match self {
            Self::Create(CreateVolume { size, thin, .. }) => {
                VolumeSpec::Create { size: print_size(*size), thin: *thin }
            }
            Self::Resize(ResizeVolume { volume, size, yes, .. }) => {
                VolumeSpec::Resize { volume: *volume, size: print_size(*size), discard: *yes }
            }
            Self::Delete(DeleteVolume { volume, yes, .. }) => {
                allowed(*yes, || format!("volume {volume} and all that it holds"))?;
                VolumeSpec::DeleteVolume { volume: *volume }
            }
            Self::List(_) => return Ok(Wish::List(Listed::Volumes)),
        }))
    }
}

impl<P: Place> Snapshots<P> {
    /// Where the store is.
    pub fn place(&self) -> &P {
        match self {
            Self::Create(args) => &args.place,
            Self::List(args) => &args.place,
            Self::Delete(args) => &args.place,
            Self::Clone(args) => &args.place,
            Self::RollBack(args) => &args.place,
        }
    }

    /// What is asked for.
    ///
    /// # Errors
    /// What would be destroyed without having been allowed.
    pub fn wish(&self) -> anyhow::Result<Wish> {
        Ok(Wish::Change(match self {
            Self::Create(CreateSnapshot { volume, .. }) => VolumeSpec::Snapshot { volume: *volume },
            Self::List(ListSnapshots { volume, .. }) => {
                return Ok(Wish::List(Listed::Snapshots(*volume)));
            }
            Self::Delete(DeleteSnapshot { snapshot, yes, .. }) => {
                allowed(*yes, || format!("what snapshot {snapshot} alone holds"))?;
                VolumeSpec::DeleteSnapshot { snapshot: *snapshot }
            }
            Self::Clone(CloneSnapshot { snapshot, provisioned, .. }) => {
                VolumeSpec::Clone { snapshot: *snapshot, provisioned: *provisioned }
            }
            Self::RollBack(RollBack { volume, to, yes, .. }) => {
                allowed(*yes, || format!("what volume {volume} holds now"))?;
                VolumeSpec::RollBack { volume: *volume, to: *to }
            }
        }))
    }
}

fn allowed(yes: bool, what: impl Fn() -> String) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    let what = what();
    Err(Exit::Invalid.because(format!("{what} would be lost; nothing was done, --yes does it")))
}

/// The examples of a command; `{}` stands for the store.
fn examples<P: Place>(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let line = format!("  {} {}", P::COMMAND, line.replace("{}", P::EXAMPLE));
        format!("{}\n", line.trim_end())
    };
    format!("Examples:\n{}", lines.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, clap::Args)]
    struct Nowhere {}

    impl Place for Nowhere {
        const COMMAND: &'static str = "evenkeel ctl";
        const EXAMPLE: &'static str = "";
    }

    #[derive(Debug, Parser)]
    enum Line {
        #[command(subcommand)]
        Volume(Volumes<Nowhere>),
        #[command(subcommand)]
        Snapshot(Snapshots<Nowhere>),
    }

    fn wish(words: &str) -> anyhow::Result<Wish> {
        let quoted = words.replace("'1 GiB'", "1GiB");
        match Line::try_parse_from(["ctl"].into_iter().chain(quoted.split(' ')))? {
            Line::Volume(volumes) => volumes.wish(),
            Line::Snapshot(snapshots) => snapshots.wish(),
        }
    }

    #[test]
    fn the_words_of_a_wish_are_understood_as_the_same_wish() {
        let (size, discard) = ("1 GiB".to_owned(), true);
        let specs = [
            VolumeSpec::Create { size: size.clone(), thin: true },
            VolumeSpec::Resize { volume: 1, size, discard },
            VolumeSpec::DeleteVolume { volume: 1 },
            VolumeSpec::Snapshot { volume: 1 },
            VolumeSpec::Clone { snapshot: 2, provisioned: true },
            VolumeSpec::RollBack { volume: 1, to: 2 },
            VolumeSpec::DeleteSnapshot { snapshot: 2 },
        ];
        let listed = [Listed::Volumes, Listed::Snapshots(None), Listed::Snapshots(Some(4))];
        for known in specs.map(Wish::Change).into_iter().chain(listed.map(Wish::List)) {
            assert_eq!(wish(&known.words()).unwrap(), known, "{}", known.words());
        }
    }

    #[test]
    fn nothing_is_lost_without_yes() {
        for words in ["volume delete --volume 1", "snapshot delete --snapshot 2"] {
            let error = wish(words).unwrap_err();
            assert_eq!(Exit::of(&error), Exit::Invalid);
            assert!(error.to_string().contains("--yes"), "{error}");
        }
        assert!(wish("snapshot roll-back --volume 1 --to 2").is_err());
    }

    #[test]
    fn a_list_has_volumes_or_snapshots() {
        let row = |volume, kind: &str, of| VolumeDocument {
            volume,
            kind: kind.to_owned(),
            of,
            ..VolumeDocument::default()
        };
        let all = vec![
            row(0, "thin", None),
            row(1, "snapshot", Some(0)),
            row(2, "provisioned", Some(1)),
            row(3, "snapshot", Some(2)),
        ];
        let numbers = |listed: Listed| -> Vec<u32> {
            listed.of(all.clone()).iter().map(|row| row.volume).collect()
        };
        assert_eq!(numbers(Listed::Volumes), [0, 2]);
        assert_eq!(numbers(Listed::Snapshots(None)), [1, 3]);
        assert_eq!(numbers(Listed::Snapshots(Some(2))), [3]);
    }

    #[test]
    fn examples_name_the_store_where_it_has_to_be_named() {
        assert_eq!(
            examples::<Nowhere>(&["volume list {}"]),
            "Examples:\n  evenkeel ctl volume list\n"
        );
    }
}
