//! Questions about allocation: passed on unscheduled, as every message that moves no data.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_wire::nbd::check::{Fault, check_status_range};
use evenkeel_wire::nbd::proto::{Errno, Extent};
use evenkeel_wire::nbd::reply::ReplyTo;
use evenkeel_wire::nbd::request::{Request, decode_status_query};

use crate::client::Client;
use crate::device::{Medium, file};

/// Answers `request` now or later; its place in the client's window is given back then.
pub(super) fn ask(client: &Rc<Client>, request: Request, query: Option<&crate::buffer::Buf>) {
    let (length, wanted) = match query {
        None => (request.length, None),
        Some(payload) => match client.status_query(request.offset, payload) {
            Ok((length, wanted)) => (length, Some(wanted)),
            Err(errno) => return refuse(client, &request, errno),
        },
    };
    let offset = client.export.base_bytes + request.offset;
    match &client.export.device.medium {
        Medium::Memory(disk) => {
            let extents = disk.borrow().extents(offset, length);
            let extents = extents.into_iter().map(|(length, hole)| Extent {
                length,
                flags: if hole { Extent::HOLE | Extent::ZERO } else { 0 },
            });
            answer_local(client, &request, wanted.as_deref(), extents.collect());
        }
        Medium::File(disk) => {
            let file = Arc::clone(disk.for_control());
            let client = Rc::clone(client);
            tokio::task::spawn_local(async move {
                let found =
                    tokio::task::spawn_blocking(move || file::extents(&file, offset, length)).await;
                match found {
                    Ok(extents) => answer_local(&client, &request, wanted.as_deref(), extents),
                    Err(_) => refuse(&client, &request, Errno::Io),
                }
            });
        }
        Medium::Store(volume) => match volume.extents(offset, length) {
            Ok(extents) => answer_local(client, &request, wanted.as_deref(), extents),
            Err(errno) => refuse(client, &request, errno),
        },
        Medium::Ceph(volume) => match volume.extents(offset, length) {
            Ok(extents) => answer_local(client, &request, wanted.as_deref(), extents),
            Err(errno) => refuse(client, &request, errno),
        },
        Medium::Remote(remote) => remote.ask(client, request, length, wanted),
        // Volumes offer no context, so that nobody can ask in earnest.
        Medium::Tiered(_) | Medium::Turn(_) => refuse(client, &request, Errno::NotSupported),
    }
}

fn answer_local(
    client: &Rc<Client>,
    request: &Request,
    wanted: Option<&[u32]>,
    extents: Vec<Extent>,
) {
    let allocation = client.selected(wanted).next();
    let status: Vec<_> = allocation.map(|context| (context.id, extents)).into_iter().collect();
    client.answer_status(request, &status);
    client.released(request);
}

fn refuse(client: &Rc<Client>, request: &Request, errno: Errno) {
    client.answer_error(ReplyTo::from(request), errno);
    client.released(request);
}

impl Client {
    /// Reads the payload of a question: the length and the contexts that it asks about.
    fn status_query(&self, offset: u64, payload: &[u8]) -> Result<(u64, Vec<u32>), Errno> {
        let query = decode_status_query(payload, &self.contexts).ok_or(Errno::Invalid)?;
        match check_status_range(offset, query.length, &self.promise) {
            Ok(()) => Ok((query.length, query.contexts().to_vec())),
            Err(Fault::Refuse { errno, .. }) => Err(errno),
            Err(Fault::Disconnect { .. }) => Err(Errno::Invalid),
        }
    }
}
