//! What a server says in the handshake, of its exports and of one of them: for whoever must choose
//! a load that suits it, or a policy.

use evenkeel_wire::nbd::client::{ClientOptions, Goal};
use evenkeel_wire::nbd::proto::TransmissionFlags;
use evenkeel_wire::nbd::uri::NbdUri;

use super::LoadError;
use super::link::{Link, address};
use crate::device::remote::connect::Route;

/// What an export offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOffer {
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// The server refuses writes.
    pub is_read_only: bool,
    /// The server takes FLUSH.
    pub can_flush: bool,
    /// Requests are multiples of this.
    pub request_bytes_min: u32,
    /// Requests carry at most this.
    pub request_bytes_max: u32,
}

/// Connects to an export, asks what it offers, and leaves.
///
/// # Errors
/// [`LoadError::Connect`] if there is no session, [`LoadError::System`] if the system refuses
/// what a connection needs.
pub fn probe(target: &NbdUri) -> Result<ExportOffer, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let link = Link::connect(target, 1).await?;
        let session = &link.session;
        let has = |flag| session.flags.contains(flag);
        let offer = ExportOffer {
            size_bytes: session.size_bytes,
            is_read_only: has(TransmissionFlags::READ_ONLY),
            can_flush: has(TransmissionFlags::SEND_FLUSH),
            request_bytes_min: session.block_size.minimum,
            request_bytes_max: session.block_size.maximum_payload,
        };
        link.disconnect().await;
        Ok(offer)
    })
}

/// The names of the exports that a server lists, whatever export the URI names. Over plain
/// connections alone.
///
/// # Errors
/// [`LoadError::Connect`] if it does not answer, or lists none to anybody; [`LoadError::System`] if
/// the system refuses what a connection needs.
pub fn list(target: &NbdUri) -> Result<Vec<String>, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let route = Route { address: address(target), tls: None };
    let options = ClientOptions { goal: Goal::List, ..ClientOptions::default() };
    let listed = runtime.block_on(route.list(options));
    let listed = listed.map_err(|error| LoadError::Connect {
        target: target.to_string(),
        what: error.to_string(),
    })?;
    Ok(listed.into_iter().map(|export| export.name).collect())
}
