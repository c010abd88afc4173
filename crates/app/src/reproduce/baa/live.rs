//! Slide 26 with real processes: two data servers limited to 100 and 5,000 requests per second, one
//! `evenkeel serve` with a volume over both, and the load generator as two tenants.
//!
//! ```text
//! bench, h = 0.5  --+--> gate --+--> nbdkit, 100 x 4 KiB a second
//! bench, h = 0.99 --+           +--> nbdkit, 5000 x 4 KiB a second
//! ```
//!
//! The discipline changes while everything runs, by reloads of the policy. Utilisation is what the
//! gate's accounts say was served by either tier in the measured time, over what it can do.

use std::time::{Duration, Instant};

use evenkeel_core::time::Span;
use evenkeel_io::load::{LoadPlan, LoadSpec, WeightedSize};
use evenkeel_wire::nbd::uri::NbdUri;
use indicatif::ProgressBar;

use super::super::Options;
use super::super::claim::{self, Claim, Verdict};
use super::reference::{Discipline, Reference};
use super::setup::{
    DEVICE_DEPTH, EXTENT_BYTES, Order, SIZE_BYTES, TIER_BYTES, TIERS, VOLUME, pattern,
};
use super::slides::row;
use crate::evidence::machine::Bears;
use crate::load::measure;
use crate::stage::{DataServer, GateProcess, Pace, Stage};
use crate::terminal;

/// Requests that each tenant keeps under way.
const DEPTH: u32 = 256;
/// Least part of the slow tier that is busy, whatever the discipline.
const SLOW_BUSY_MIN: f64 = 0.97;

/// How long a discipline runs before and while it is measured.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// For weights and virtual times to settle.
    settle: Duration,
    measured: Duration,
}

impl Times {
    /// The measured time is what the draw of the requests needs. One in a hundred of the second
    /// tenant's goes to the slow tier, so 40 s see 2,000 of them, and BAA's fast tier, which is
    /// busy in proportion to the rest, is 2.2 % off for the luck of the draw alone; 160 s make it
    /// 1.1 %.
    fn of(options: &Options) -> Self {
        let seconds = if options.quick { [12, 6] } else { [40, 160] };
        let [settle, measured] = seconds.map(Duration::from_secs);
        Self { settle, measured }
    }
}

/// What the tiers served in a measured time.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    at: f64,
    requests: [f64; 2],
}

/// 5,100 requests a second through load generator, gate and servers take most of a core. Each
/// tenant has 256 under way, 50 ms of work for the fast server: what ends a few milliseconds late
/// leaves neither tier idle.
const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 2.0, late_p99_ms: 10.0, uses_disks: false };

/// Carries the experiment out; a claim for each discipline.
pub(super) fn claims(reference: &Reference, options: &Options) -> anyhow::Result<Vec<Claim>> {
    claim::live(BEARS, || experiment(reference, options))
}

fn experiment(reference: &Reference, options: &Options) -> anyhow::Result<Vec<Claim>> {
    let times = Times::of(options);
    let orders = [Order::Drf, Order::Baa, Order::Fair];
    let setting = row(reference, "26", Discipline::Baa);
    let stage = Stage::new()?;
    let servers = TIERS
        .iter()
        .zip(TIER_BYTES)
        .zip(setting.capacities)
        .map(|((name, size_bytes), iops)| {
            let rate_bytes = whole(iops) * u64::from(SIZE_BYTES);
            DataServer::start(&stage, name, size_bytes, Pace::Rate { rate_bytes })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let uris = servers.iter().map(|server| server.uri("")).collect::<anyhow::Result<Vec<_>>>()?;
    let policy = |order| policy(&uris, setting.capacities, order);
    let gate = GateProcess::start(&stage, "gate", &policy(orders[0]))?;

    let all = (times.settle + times.measured) * u32::try_from(orders.len()).expect("three");
    let hit_ratios: Vec<f64> = setting.hit_ratios.iter().map(|ratio| ratio.0).collect();
    let plan = plan(&gate, &hit_ratios, all + times.settle, options.seed)?;
    let bar = bar(all);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| measure(&plan));
        let mut claims = Vec::new();
        for order in orders {
            gate.reload(&policy(order))?;
            bar.set_message(order.name());
            wait(times.settle, &bar);
            let before = served(&gate)?;
            wait(times.measured, &bar);
            let after = served(&gate)?;
            claims.push(row_of(reference, order, setting.capacities, before, after));
        }
        bar.finish_and_clear();
        drop(gate);
        // Without its gate the load ends with an error, of which nobody needs to know.
        let _ = load.join();
        Ok(claims)
    })
}

/// Shown on a terminal only.
fn bar(time: Duration) -> ProgressBar {
    ProgressBar::new(time.as_secs()).with_style(terminal::bar_style("{msg}"))
}

fn wait(time: Duration, bar: &ProgressBar) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        let step = left.min(Duration::from_secs(1));
        std::thread::sleep(step);
        bar.inc(step.as_secs());
    }
}

fn policy(tiers: &[NbdUri], capacities: [f64; 2], order: Order) -> String {
    let mut text = "mode = \"enforce\"\n".to_owned();
    for ((name, uri), iops) in TIERS.iter().zip(tiers).zip(capacities) {
        text += &format!(
            "\n[[backend]]\nname = \"{name}\"\nupstream = \"{uri}\"\ndepth = {}\n\
             cost = \"request\"\ncapacity = \"{iops} iops\"\n",
            depth(iops)
        );
    }
    let discipline = match order {
        Order::Fair => "fair",
        Order::Drf => "drf",
        Order::Baa => "baa",
        Order::PerDevice => "sfq",
    };
    let tiers = TIERS.map(|name| format!("\"{name}\"")).join(", ");
    text += &format!(
        "\n[[backend]]\nname = \"{VOLUME}\"\ntiers = [{tiers}]\ndiscipline = \"{discipline}\"\n\
         extent = \"{} KiB\"\nmoves = \"off\"\n",
        EXTENT_BYTES >> 10
    );
    for tenant in NAMES {
        text += &format!(
            "\n[[export]]\nname = \"{tenant}\"\nbackend = \"{VOLUME}\"\nread_only = true\n\
             \n[[tenant]]\nname = \"{tenant}\"\nmatch = {{ export = \"{tenant}\" }}\n"
        );
    }
    text
}

/// Exports and tenants, by the order of the hit ratios.
const NAMES: [&str; 2] = ["tenant1", "tenant2"];

/// Requests that keep a server busy over the way there and back: some milliseconds' worth.
fn depth(iops: f64) -> u64 {
    (whole(iops) / 300).max(u64::from(DEVICE_DEPTH))
}

fn plan(
    gate: &GateProcess,
    hit_ratios: &[f64],
    runtime: Duration,
    seed: u64,
) -> anyhow::Result<LoadPlan> {
    let group = |(name, hit_ratio): (&&str, &f64)| {
        Ok(LoadSpec {
            name: (*name).to_owned(),
            targets: vec![gate.uri(name)?],
            depth: DEPTH,
            sizes: vec![WeightedSize { size_bytes: SIZE_BYTES, weight: 1 }],
            pattern: pattern(*hit_ratio),
            ..LoadSpec::default()
        })
    };
    let runtime = Span(u64::try_from(runtime.as_nanos())?);
    Ok(LoadPlan {
        groups: NAMES.iter().zip(hit_ratios).map(group).collect::<anyhow::Result<_>>()?,
        runtime: Some(runtime),
        seed,
        ..LoadPlan::default()
    })
}

/// What each tier has served so far: no request is larger than a unit.
fn served(gate: &GateProcess) -> anyhow::Result<Served> {
    let status = gate.status()?;
    let servers = status.domains.iter().flat_map(|domain| &domain.servers);
    let mut served = Served { at: status.uptime_seconds, ..Served::default() };
    for server in servers {
        if let Some(tier) = TIERS.iter().position(|name| *name == server.name) {
            served.requests[tier] = server.served_units as f64;
        }
    }
    Ok(served)
}

fn row_of(
    reference: &Reference,
    order: Order,
    capacities: [f64; 2],
    before: Served,
    after: Served,
) -> Claim {
    let seconds = (after.at - before.at).max(1e-9);
    let part =
        |tier: usize| (after.requests[tier] - before.requests[tier]) / seconds / capacities[tier];
    let [slow, fast] = [part(0), part(1)];
    let discipline = match order {
        Order::Fair => Discipline::FairQueuing,
        Order::Drf => Discipline::Drf,
        Order::Baa | Order::PerDevice => Discipline::Baa,
    };
    let row = row(reference, "26", discipline);
    let (fluid, printed) = (row.utilisation[1].0, row.printed.utilisation[1]);
    Claim {
        id: format!("live-26-{}", order.name().replace(' ', "-")),
        what: format!("slide 26, {}, live", order.name()),
        paper: format!("busy 100 {:.0} %", printed * 100.0),
        measured: format!("busy {:.1} {:.1} %", slow * 100.0, fast * 100.0),
        value: fast,
        tolerance: format!(
            "slow >= {:.0} %, fast {:.1} to {:.0} points",
            SLOW_BUSY_MIN * 100.0,
            fluid * 100.0,
            reference.slide_tolerance * 100.0
        ),
        attainable: None,
        verdict: Verdict::of(
            slow >= SLOW_BUSY_MIN && (fast - fluid).abs() <= reference.slide_tolerance,
        ),
        why: None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a device")]
fn whole(iops: f64) -> u64 {
    iops.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_policy_is_valid_under_every_discipline() {
        let tiers = ["a", "b"].map(|name| format!("nbd+unix:///?socket=/tmp/{name}.sock"));
        let tiers: Vec<NbdUri> = tiers.iter().map(|uri| uri.parse().unwrap()).collect();
        for order in [Order::Fair, Order::Drf, Order::Baa, Order::PerDevice] {
            let listen = "listen = [\"unix:/tmp/gate.sock\"]\n";
            let text = listen.to_owned() + &policy(&tiers, [100.0, 5000.0], order);
            let parsed = crate::config::parse(&text, "policy").unwrap();
            assert_eq!(parsed.backends.len(), 3, "{text}");
        }
    }
}
