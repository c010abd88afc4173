//! `evenkeel ctl volume` and `evenkeel ctl snapshot`: volumes of a store that the gate has open,
//! while clients use them.

use hyper::Method;
use serde_json::Value;

use crate::control::client::Client;
use crate::control::volumes::{StoreVolumes, VolumeRequest};
use crate::exit::Exit;
use crate::terminal;
use crate::volumes::args::{Listed, Place, Wish};
use crate::volumes::{self, VolumeSpec};

/// A store of the gate.
#[derive(Debug, clap::Args)]
pub(super) struct OfGate {
    /// The backend that is the store; may be left out where there is one.
    #[arg(long, value_name = "NAME")]
    pub(super) store: Option<String>,
}

impl Place for OfGate {
    const COMMAND: &'static str = "evenkeel ctl";
    const EXAMPLE: &'static str = "";
}

/// Runs one of the subcommands.
pub(super) async fn run(
    client: &Client,
    place: &OfGate,
    wish: Wish,
    json: bool,
) -> anyhow::Result<()> {
    match wish {
        Wish::List(listed) => list(client, place, listed, json).await,
        Wish::Change(spec) => change(client, place, spec, json).await,
    }
}

async fn list(client: &Client, place: &OfGate, listed: Listed, json: bool) -> anyhow::Result<()> {
    let mut stores: Vec<StoreVolumes> = client.get("/v1/volumes").await?;
    stores.retain(|known| place.store.as_ref().is_none_or(|store| known.store == *store));
    if let (true, Some(store)) = (stores.is_empty(), &place.store) {
        return Err(Exit::Usage.because(format!("the policy has no store `{store}`")));
    }
    for store in &mut stores {
        store.volumes = listed.of(std::mem::take(&mut store.volumes));
    }
    if json {
        return terminal::json(&stores);
    }
    let text = |store: &StoreVolumes| match &store.trouble {
        Some(trouble) => format!("{}: {trouble}\n", store.store),
        None => format!("{}\n{}", store.store, volumes::table(&store.volumes)),
    };
    let texts: Vec<String> = stores.iter().map(text).collect();
    Ok(terminal::data(&texts.join("\n"))?)
}

async fn change(
    client: &Client,
    place: &OfGate,
    spec: VolumeSpec,
    json: bool,
) -> anyhow::Result<()> {
    let request = VolumeRequest { store: place.store.clone(), order: spec };
    let body = serde_json::to_value(&request)?;
    let answer: Value = client.ask(Method::POST, "/v1/volumes", Some(&body)).await?;
    if json {
        return terminal::json(&answer["volume"]);
    }
    let volume = serde_json::from_value(answer["volume"].clone())?;
    Ok(terminal::data(&format!("{}\n", request.order.told(&volume)))?)
}
