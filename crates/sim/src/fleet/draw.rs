//! Fleets drawn by a seed: gates, tenants, who asks where for what, and what happens to words.
//!
//! Every tenant asks for more than it can have, at some of the gates, so that its due is its part
//! of the shares, whatever the device: requests of 4 to 256 KiB, one to three tenants at a gate,
//! up to half of the words lost.

use evenkeel_core::control::member::Method;
use evenkeel_core::prng::Prng;
use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;

use super::{Asks, Client, Fleet, Hosts};
use crate::control::exchange::Way;
use crate::depths::device::Drawn;
use crate::device::Device;

/// Clients of a tenant over all its gates, at least.
const CLIENTS: u64 = 600;

/// A fleet and its device.
pub fn draw(seed: u64, method: Method, length: Span) -> (Fleet, impl Device + use<>) {
    let mut prng = Prng::new(seed);
    let gates = u32::try_from([2, 3, 5, 10, 30][pick(&mut prng, 5)]).expect("few");
    let tenants: Vec<Share> = (0..2 + prng.below(3)).map(|_| share(&mut prng)).collect();
    let mut clients = Vec::new();
    for tenant in (0..).zip(&tenants).map(|(tenant, _)| tenant) {
        clients.extend(clients_of(&mut prng, tenant, gates));
    }
    let lost_milli = [0, 0, 50, 200, 500][pick(&mut prng, 5)];
    let way = Way { delay: Span::from_millis(prng.below(40)), lost_milli, twice_milli: 20 };
    let device = Drawn::draw(&mut prng);
    let (hosts, cuts, clocks) = (Hosts::default(), Vec::new(), Vec::new());
    let fleet = Fleet {
        gates,
        tenants,
        clients,
        method,
        hosts,
        length,
        hears_sums: false,
        way,
        cuts,
        clocks,
        seed,
    };
    (fleet, device)
}

fn pick(prng: &mut Prng, count: u64) -> usize {
    usize::try_from(prng.below(count)).expect("few")
}

fn share(prng: &mut Prng) -> Share {
    Share { weight_milli: [1000, 2000, 3000, 10_000][pick(prng, 4)], ..Share::default() }
}

/// A tenant's clients, at one gate, at some, or at all.
fn clients_of(prng: &mut Prng, tenant: u32, gates: u32) -> Vec<Client> {
    let least = prng.below(u64::from(gates));
    let mut at: Vec<u32> = (0..gates).filter(|_| prng.below(u64::from(gates)) <= least).collect();
    if at.is_empty() {
        at.push(u32::try_from(least).expect("a gate"));
    }
    let size_bytes = 4096 << [0, 0, 2, 4, 6][pick(prng, 5)];
    let kind = if prng.below(4) == 0 { Kind::Write } else { Kind::Read };
    let each = CLIENTS.div_ceil(at.len() as u64);
    let mut client = |gate| {
        let requests = u32::try_from(each + prng.below(each)).expect("few");
        Client { size_bytes, kind, ..Client::reads(gate, tenant, Asks::Closed(requests)) }
    };
    at.into_iter().map(&mut client).collect()
}
