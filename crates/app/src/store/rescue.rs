//! `evenkeel store rescue`: says what of a damaged log is lost, and gives it up if told to.

use std::fmt::Write as _;

use evenkeel_io::store::{beside, fresh_nonce};
use evenkeel_store::check::survey_known;
use evenkeel_store::{Damage, OpenError, OpenOptions, Store};
use serde_json::json;

use super::drives::{DriveArgs, Opened, RememberedArgs, stopped};
use crate::exit::Exit;
use crate::terminal;

/// Ranges that are named at most.
const NAMED_MAX: usize = 20;

/// Arguments of `evenkeel store rescue`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel store rescue a.img
  evenkeel store rescue a.img --accept-loss
  evenkeel store rescue a.img --data /var/lib/evenkeel

A store is refused while records of its log are damaged that were flushed. This says what would be
lost without them: they, and all that was written behind them. Nothing is written without
--accept-loss. First make an image of the drive, and bring the other copy if there is one.
Ends with 0 if nothing is damaged, or what was is given up, with 1 if something is damaged.")]
pub(super) struct Args {
    #[command(flatten)]
    drives: DriveArgs,
    #[command(flatten)]
    remembered: RememberedArgs,
    /// Give up the damaged records and all behind them, and make the store whole without.
    #[arg(long)]
    accept_loss: bool,
    /// Go on without drives that are missing.
    #[arg(long)]
    without_missing: bool,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(super) async fn run(args: &Args) -> anyhow::Result<Exit> {
    let opened = if args.accept_loss {
        Opened::to_write(&args.drives.drives).await?
    } else {
        Opened::to_read(&args.drives.drives).await?
    };
    let known = args.remembered.of(&opened.drives).await?;
    let damage = match survey_known(opened.drives.clone(), known).await {
        Ok(_) => None,
        Err(OpenError::Damaged(damage)) => Some(damage),
        Err(error) => return Err(opened.explain(&error)),
    };
    let gives_up = args.accept_loss && damage.is_some();
    if gives_up {
        give_up(args, &opened).await?;
    }
    tell(args, damage.as_deref(), gives_up)?;
    Ok(if damage.is_none() || gives_up { Exit::Success } else { Exit::Failed })
}

async fn give_up(args: &Args, opened: &Opened) -> anyhow::Result<()> {
    let options = OpenOptions {
        allow_missing: args.without_missing,
        accepts_loss: true,
        ..OpenOptions::new(fresh_nonce()?)
    };
    let store = Store::open(opened.drives.clone(), options).await;
    let store = store.map_err(|error| opened.explain(&error))?;
    beside(&store, store.close()).await.map_err(stopped)
}

fn tell(args: &Args, damage: Option<&Damage>, is_given_up: bool) -> anyhow::Result<()> {
    if args.json {
        let damage = damage.map(|it| {
            json!({
                "first_missing_record": it.missing.0,
                "last_durable_record": it.durable.0,
                "drive": it.drive.map(|drive| drive.0),
                "whole_records": it.whole,
                "ranges": ranges(it).map(|(volume, block, blocks)| {
                    json!({ "volume": volume, "block": block, "blocks": blocks })
                }).collect::<Vec<_>>(),
            })
        });
        return terminal::json(&json!({ "damage": damage, "is_given_up": is_given_up }));
    }
    Ok(terminal::data(&text(damage, is_given_up))?)
}

/// Volume, first block and blocks of what the records behind the damage changed.
fn ranges(damage: &Damage) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
    let changed = damage.extents.iter().filter(|extent| extent.blocks > 0);
    changed.map(|extent| (extent.volume.0, extent.block, extent.blocks))
}

fn text(damage: Option<&Damage>, is_given_up: bool) -> String {
    let Some(damage) = damage else { return "no record of the log is damaged\n".to_owned() };
    let Damage { missing, durable, whole, .. } = damage;
    let verb = if is_given_up { "were given up" } else { "would be lost" };
    let mut text = format!(
        "record {missing} of the log is damaged, and all up to record {durable} were flushed\n\
         the records from {missing} on {verb}: what the damaged ones changed is not known, and \
         {whole} that are whole changed (blocks of 4 KiB):\n"
    );
    for (volume, block, blocks) in ranges(damage).take(NAMED_MAX) {
        let last = block + u64::from(blocks) - 1;
        let _ = writeln!(text, "  volume {volume}, blocks {block} to {last}");
    }
    let rest = ranges(damage).count().saturating_sub(NAMED_MAX);
    if rest > 0 {
        let _ = writeln!(text, "  and {rest} ranges more (--json has them all)");
    }
    if !is_given_up {
        text += "nothing was changed; --accept-loss gives them up\n";
    }
    text
}
