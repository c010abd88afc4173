//! What the gate's accounts say of the tenants and of moving, and of the time between two looks.

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

/// The accounts at one instant, or what came to them between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Accounts {
    pub(super) seconds: f64,
    pub(super) small: Served,
    pub(super) big: Served,
    pub(super) moves: Served,
    /// Extents that have moved; nothing while no volume is open.
    pub(super) moved_extents: Option<u64>,
    /// Moves that came to nothing.
    pub(super) given_up: u64,
}

/// What a tenant was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Served {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Device time, as measured.
    pub(super) service_seconds: f64,
}

impl Accounts {
    /// # Errors
    /// If a status has not what every gate's has.
    pub(super) fn of(status: &Value) -> Result<Self> {
        let seconds = status["uptime_seconds"].as_f64().context("the status has no time")?;
        let domains = status["domains"].as_array().context("the status has no domains")?;
        let mut sum = Self { seconds, ..Self::default() };
        for domain in domains {
            for tenant in domain["tenants"].as_array().into_iter().flatten() {
                let served = match tenant["name"].as_str() {
                    Some("small") => &mut sum.small,
                    Some("big") => &mut sum.big,
                    Some("moves") => &mut sum.moves,
                    _ => continue,
                };
                let count = |key: &str| tenant["delivered"][key].as_u64();
                served.requests += count("requests").context("a tenant has no requests")?;
                served.bytes += count("bytes").context("a tenant has no bytes")?;
                let service = tenant["service_seconds"].as_f64();
                served.service_seconds += service.context("a tenant has no service")?;
            }
            let moves = &domain["volume"]["moves"];
            sum.moved_extents = sum.moved_extents.or_else(|| moves["done"].as_u64());
            sum.given_up += moves["given_up"].as_u64().unwrap_or(0);
        }
        Ok(sum)
    }

    /// Whether the volume serves.
    pub(super) fn is_open(&self) -> bool {
        self.moved_extents.is_some()
    }

    /// What has come to them since an earlier look.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            seconds: self.seconds - before.seconds,
            small: self.small.since(&before.small),
            big: self.big.since(&before.big),
            moves: self.moves.since(&before.moves),
            moved_extents: self
                .moved_extents
                .map(|moved| moved - before.moved_extents.unwrap_or(0)),
            given_up: self.given_up - before.given_up,
        }
    }

    /// What moving was given of what it and the big tenant were given.
    pub(super) fn moves_part(&self) -> f64 {
        let (moves, big) = (self.moves.service_seconds, self.big.service_seconds);
        moves / (moves + big)
    }
}

impl Served {
    fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            bytes: self.bytes - before.bytes,
            service_seconds: self.service_seconds - before.service_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(seconds: f64, requests: u64, extents: u64) -> Value {
        let tenant = |name: &str, requests: u64| {
            let delivered = json!({ "requests": requests, "bytes": 4096 * requests });
            json!({ "name": name, "delivered": delivered, "service_seconds": seconds })
        };
        let tenants =
            [tenant("small", requests), tenant("big", 4 * requests), tenant("default", 0)];
        let moves = json!({ "done": extents, "given_up": 1 });
        let domain = json!({ "tenants": tenants, "volume": { "moves": moves } });
        json!({ "uptime_seconds": seconds, "domains": [domain] })
    }

    #[test]
    fn accounts_are_what_came_between_two_looks() {
        let look =
            |seconds, requests, extents| Accounts::of(&status(seconds, requests, extents)).unwrap();
        let between = look(5.0, 300, 9).since(&look(3.0, 100, 4));
        assert_eq!((between.small.requests, between.big.bytes), (200, 4 * 4096 * 200));
        assert_eq!((between.moved_extents, between.given_up), (Some(5), 0));
        assert!((between.seconds - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_gate_without_an_open_volume_is_known() {
        let status = json!({ "uptime_seconds": 1.0, "domains": [{ "tenants": [] }] });
        assert!(!Accounts::of(&status).unwrap().is_open());
        assert!(Accounts::of(&json!({})).is_err());
    }

    #[test]
    fn the_part_of_moving_is_of_what_it_and_the_big_tenant_have() {
        let served = |service_seconds| Served { service_seconds, ..Served::default() };
        let accounts = Accounts {
            small: served(9.0),
            big: served(3.0),
            moves: served(1.0),
            ..Accounts::default()
        };
        assert!((accounts.moves_part() - 0.25).abs() < 1e-9);
    }
}
