//! The setting of PARDA's experiments: virtual machines on hosts that share an array, each of which
//! reads 16 KiB at random and has as many requests under way as it may.
//!
//! ```text
//!   machine (share 20) --+
//!   machine (share 10) --+-> host 0: queue by share --window--+
//!   machine (share 10) ----> host 1: queue by share --window--+--> 16 KiB reads on many drives
//! ```
//!
//! Source: Gulati, Ahmad and Waldspurger, "PARDA: proportional allocation of resources for
//! distributed storage access", FAST 2009, section 5.
//!
//! # What the paper leaves open, and how it was settled
//!
//! - *The array.* It is a product of 2006, of which nobody has a model. [`DRIVES`] Cheetah 9LP as
//!   RAID 0 do as many requests a second as the paper's four hosts get without control.
//! - *The databases.* Its OLTP machines are measured in operations of theirs. Here all read.
//! - *Beta.* A host's is a fifth of the shares of its machines that are active, as in the paper's
//!   table 6.

use std::ops::Range;

use evenkeel_core::control::member::Method;
use evenkeel_core::sched::Share;
use evenkeel_core::time::{Nanos, Span};

use super::{Asks, Client, Fleet, Hosts, Record};
use crate::control::exchange::Way;
use crate::device::array::{Array, Layout};
use crate::device::hdd::{Hdd, Parameters, Policy};

/// Drives of the array.
pub const DRIVES: usize = 24;

/// Requests that a host has at the array without control: the depth of its adapter's queue.
const QUEUE: u32 = 32;

/// Requests that a machine has under way: more than the array and its host ever have room for.
const REQUESTS: u32 = 256;

/// Length of the stripe units.
const STRIPE_UNIT_BYTES: u64 = 64 << 10;

/// Size of the requests.
const SIZE_BYTES: u64 = 16 << 10;

/// The product's PARDA adds 8 requests a step for a weight of one, the paper's a fifth of a
/// machine's share: thousandths of a weight for each of its share.
const MILLI_PER_SHARE: u32 = 1000 / 8 / 5;

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// On which host, from zero on.
    pub host: u32,
    /// Its share.
    pub share: u32,
    /// Seconds in which it asks for nothing.
    pub idle: Range<u64>,
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Nobody: every host has `QUEUE` requests at the array.
    None,
    /// PARDA, with start-time fair queuing inside a host.
    Parda,
    /// DRG repaired, with borrowing.
    Drg,
    /// Shares over all hosts.
    Shares,
    /// The same, with PARDA's threshold as every machine's latency goal.
    SharesGoal,
}

/// Machines before the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The machines.
    pub machines: Vec<Machine>,
    /// The latency that PARDA holds the array at.
    pub threshold: Span,
    /// How long it runs, in seconds.
    pub seconds: u64,
    /// Determines the addresses.
    pub seed: u64,
}

impl Machine {
    /// One that always asks.
    pub fn busy(host: u32, share: u32) -> Self {
        Self { host, share, idle: 0..0 }
    }

    /// Its requests, before and after it is idle.
    fn clients(&self, tenant: u32) -> Vec<Client> {
        let at_s = |seconds| Nanos::ZERO + Span::from_secs(seconds);
        let client = |from, until| Client {
            size_bytes: SIZE_BYTES,
            from,
            until,
            ..Client::reads(self.host, tenant, Asks::Closed(REQUESTS))
        };
        if self.idle.is_empty() {
            return vec![client(Nanos::ZERO, Nanos(u64::MAX))];
        }
        let Range { start, end } = self.idle;
        vec![client(Nanos::ZERO, at_s(start)), client(at_s(end), Nanos(u64::MAX))]
    }
}

impl Control {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Parda, Self::Drg, Self::Shares, Self::SharesGoal];

    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "no control",
            Self::Parda => "PARDA",
            Self::Drg => "DRG",
            Self::Shares => "shares",
            Self::SharesGoal => "shares with a goal",
        }
    }

    fn method(self) -> Method {
        match self {
            Self::None => Method::Window,
            Self::Parda => Method::Parda,
            Self::Drg => Method::Drg,
            Self::Shares | Self::SharesGoal => Method::Shares,
        }
    }
}

impl Setting {
    /// Runs it.
    pub fn run(&self, control: Control) -> Record {
        let gates = self.machines.iter().map(|machine| machine.host + 1).max().unwrap_or(1);
        let weight = |machine: &Machine| machine.share * MILLI_PER_SHARE;
        let has_goal = control == Control::SharesGoal;
        let latency_goal = if has_goal { self.threshold } else { Span::ZERO };
        let share =
            |machine| Share { weight_milli: weight(machine), latency_goal, ..Share::default() };
        let hosts = Hosts {
            threshold: self.threshold,
            depth: if control == Control::None { gates * QUEUE } else { QUEUE },
            is_fair_inside: control != Control::Drg,
        };
        let fleet = Fleet {
            gates,
            tenants: self.machines.iter().map(share).collect(),
            clients: (0..)
                .zip(&self.machines)
                .flat_map(|(tenant, one)| one.clients(tenant))
                .collect(),
            method: control.method(),
            hosts,
            length: Span::from_secs(self.seconds),
            hears_sums: false,
            way: Way { delay: Span::from_millis(1), ..Way::default() },
            cuts: Vec::new(),
            clocks: Vec::new(),
            seed: self.seed,
        };
        fleet.run(array())
    }
}

/// The array at rest.
pub fn array() -> Array<Hdd> {
    let parameters = Parameters::built_in("cheetah-9lp").expect("a built-in drive");
    let drives = (0..DRIVES).map(|_| Hdd::new(&parameters, Policy::Sptf)).collect();
    let layout = Layout::Striped { unit_bytes: STRIPE_UNIT_BYTES };
    Array::new(layout, drives).expect("drives and a stripe unit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(shares: [u32; 4], threshold_ms: u64) -> Setting {
        let machines = (0..).zip(shares).map(|(host, share)| Machine::busy(host, share));
        let threshold = Span::from_millis(threshold_ms);
        Setting { machines: machines.collect(), threshold, seconds: 30, seed: 1 }
    }

    /// Requests per second from the tenth second on, and the mean time at the array.
    fn rates(record: &Record) -> ([f64; 4], f64) {
        let sums = [0, 1, 2, 3].map(|machine| record.sum(machine, 10, 30));
        let all: u64 = sums.iter().map(|sum| sum.completions).sum();
        let device_s: f64 = sums.iter().map(|sum| sum.device.as_secs_f64()).sum();
        (sums.map(|sum| sum.completions as f64 / 20.0), 1e3 * device_s / all as f64)
    }

    #[test]
    fn without_control_the_array_does_what_the_papers_does() {
        let (rates, latency_ms) = rates(&setting([10; 4], 30).run(Control::None));
        let all: f64 = rates.iter().sum();
        assert!((all / 3_360.0 - 1.0).abs() < 0.03, "{all} requests per second");
        assert!((latency_ms / 37.0 - 1.0).abs() < 0.05, "{latency_ms} ms");
    }

    #[test]
    fn an_idle_machine_leaves_its_part_to_the_others() {
        let mut setting = setting([10; 4], 25);
        setting.machines[0].idle = 10..20;
        let record = setting.run(Control::Shares);
        let part = |machine, from| record.part(machine, from, from + 5);
        assert_eq!(record.sum(0, 12, 20).completions, 0);
        assert!((part(1, 15) - 1.0 / 3.0).abs() < 0.02 && (part(0, 25) - 0.25).abs() < 0.02);
        assert_eq!(record, setting.run(Control::Shares), "the same seed gives the same run");
    }
}
