//! The exchange with other gates, family by family.

use evenkeel_io::exchange::ExchangeReport;

use super::table::{self as metric, Metric};
use super::text::Document;
use crate::status::{Exchange, Peer, SharedDevice};

/// A metric, and where its value is in an account.
type Reading<A> = (&'static Metric, fn(&A) -> f64);

/// Writes what is known of the exchange, if there is one.
pub(super) fn render(document: &mut Document, report: Option<&ExchangeReport>) {
    let Some(exchange) = report.map(Exchange::from) else { return };
    let mut silent = document.family(&metric::PEER_SILENT);
    for peer in &exchange.peers {
        if let Some(seconds) = peer.silent_seconds {
            silent.sample(&[&peer.name], seconds);
        }
    }
    let numbers: [Reading<Peer>; 4] = [
        (&metric::PEER_SKEW, |peer| peer.skew_periods as f64),
        (&metric::PEER_SENT, |peer| peer.sent as f64),
        (&metric::PEER_RECEIVED, |peer| peer.received as f64),
        (&metric::PEER_LOST, |peer| peer.lost as f64),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for peer in &exchange.peers {
            family.sample(&[&peer.name], number(peer));
        }
    }
    let mut clock = document.family(&metric::EXCHANGE_CLOCK_OFF);
    clock.sample(&[], exchange.clock_off_seconds.unwrap_or(0.0));
    let mut connected = document.family(&metric::EXCHANGE_CONNECTED);
    if let Some(server) = &exchange.server {
        connected.sample(&[&server.kind], f64::from(u8::from(server.connected)));
    }
    let mut connects = document.family(&metric::EXCHANGE_CONNECTS);
    if let Some(server) = &exchange.server {
        connects.count(&[&server.kind], server.connects);
    }
    let mut refused = document.family(&metric::EXCHANGE_REFUSED);
    for (reason, count) in exchange.refused.by_reason() {
        refused.count(&[reason], count);
    }
    let numbers: [Reading<SharedDevice>; 5] = [
        (&metric::SHARED_SLOTS, |device| f64::from(device.slots)),
        (&metric::SHARED_SLOTS_ALL, |device| f64::from(device.slots_all)),
        (&metric::SHARED_UNMET, |device| device.unmet.len() as f64),
        (&metric::SHARED_BELOW_FLOOR, |device| device.below_floor.len() as f64),
        (&metric::SHARED_DISAGREEMENTS, |device| device.disagreements.len() as f64),
    ];
    for (metric, number) in numbers {
        let mut family = document.family(metric);
        for device in &exchange.devices {
            family.sample(&[&device.backend], number(device));
        }
    }
    let mut elsewhere = document.family(&metric::SERVED_ELSEWHERE);
    for group in &exchange.groups {
        for one in &group.elsewhere {
            elsewhere.sample(&[&group.name, &one.tenant], one.service_seconds);
        }
    }
}
