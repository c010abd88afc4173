//! What `top` shows, worked out from two status documents: rates, times of the interval alone, who
//! waited because of whom meanwhile. Pure; [`super::view`] draws it.

use evenkeel_core::time::Span;

use crate::status::{
    Backend, Domain, Interference, SharedDevice, SharingTenant, Status, Tenant, Times,
};

/// Fewer requests waiting on average are not worth a line.
const WAITING_MIN: f64 = 0.05;

/// One picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Version of the gate.
    pub version: String,
    /// Its mode.
    pub mode: String,
    /// Time since it started.
    pub uptime_seconds: f64,
    /// Open connections.
    pub connections: u64,
    /// Payload held, and the bound.
    pub memory_bytes: (u64, u64),
    /// One row for each tenant that did anything in a domain.
    pub rows: Vec<Row>,
    /// One line for each backend.
    pub backends: Vec<BackendLine>,
    /// What tenants had of arrays that several gates divide, most first within an array.
    pub parts: Vec<Part>,
    /// Who waited because of whom, most first.
    pub pairs: Vec<Pair>,
    /// Why tenants get less than they are due, a sentence for each.
    pub findings: Vec<String>,
}

/// A tenant in a domain, over the interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name; with the domain's if there are several domains.
    pub name: String,
    /// Its weight.
    pub share: f64,
    /// What arrived, per second.
    pub offered: Rate,
    /// What was answered, per second.
    pub delivered: Rate,
    /// Part of the service that its weight gives.
    pub entitled: f64,
    /// Part that it got.
    pub got: f64,
    /// Part that it could have had with the work that it offered.
    pub attainable: f64,
    /// 99 of 100 waited less in the gate.
    pub queue_p99: Option<Span>,
    /// 99 of 100 took less at the backend.
    pub device_p99: Option<Span>,
    /// Requests held by its own limit, on average.
    pub limited: f64,
    /// Whom it waited for most, and which part of its waits that was.
    pub waits_for: Option<(String, f64)>,
}

/// Requests and bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests.
    pub requests: f64,
    /// Bytes.
    pub bytes: f64,
}

/// One backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendLine {
    /// Its name.
    pub name: String,
    /// Whether it serves.
    pub up: bool,
    /// Why not, or where it is.
    pub remark: String,
    /// Part of the interval with something at the backend.
    pub busy: f64,
    /// Units with it.
    pub in_service: u64,
    /// Units queued for it.
    pub queued: u64,
    /// Its depth: what an automatic one has found, or that in force.
    pub depth: u64,
    /// It is automatic, and has found this.
    pub is_depth_found: bool,
}

/// A tenant's part of what an array did in the last period, 0 to 1, by cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Whose.
    pub tenant: String,
    /// What all gates before the array call it.
    pub array: String,
    /// Through all gates.
    pub all: f64,
    /// Of that, what came through this gate.
    pub here: f64,
}

/// One pair of who waited because of whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Who waited.
    pub victim: String,
    /// Because of whom.
    pub culprit: String,
    /// Requests that waited so, on average.
    pub waiting: f64,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most bytes delivered first.
    #[default]
    Delivered,
    /// Most bytes offered first.
    Offered,
    /// Longest queue time first.
    Queue,
    /// By name.
    Name,
}

impl Order {
    /// The order after this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Delivered => Self::Offered,
            Self::Offered => Self::Queue,
            Self::Queue => Self::Name,
            Self::Name => Self::Delivered,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Offered => "offered",
            Self::Queue => "queue time",
            Self::Name => "name",
        }
    }
}

impl Picture {
    /// The picture of what happened between two documents; since the start, if there is no earlier
    /// one.
    pub fn between(earlier: Option<&Status>, later: &Status) -> Self {
        // A gate that was restarted in between counts from zero again.
        let earlier = earlier.filter(|earlier| earlier.uptime_seconds < later.uptime_seconds);
        let since = earlier.map_or(0.0, |earlier| earlier.uptime_seconds);
        let seconds = (later.uptime_seconds - since).max(1e-3);
        let mut picture = Self {
            version: later.version.clone(),
            mode: later.mode.clone(),
            uptime_seconds: later.uptime_seconds,
            connections: later.connections.open,
            memory_bytes: (later.memory.bytes, later.memory.bound_bytes),
            ..Self::default()
        };
        let several = later.domains.len() > 1;
        for domain in &later.domains {
            let before = earlier
                .and_then(|status| status.domains.iter().find(|old| old.name == domain.name));
            let interval = Interval { seconds, before, domain };
            picture.pairs.extend(interval.pairs());
            let below = domain.tenants.iter().filter(|tenant| tenant.finding.is_below());
            picture.findings.extend(below.map(|tenant| tenant.finding.sentence.clone()));
            let busy = domain.tenants.iter().filter(|tenant| tenant.offered.requests > 0);
            for tenant in busy {
                let row = interval.row(tenant);
                let name = if several { format!("{}@{}", row.name, domain.name) } else { row.name };
                picture.rows.push(Row { name, ..row });
            }
        }
        picture.pairs.sort_by(|a, b| b.waiting.total_cmp(&a.waiting));
        picture.backends =
            later.backends.iter().map(|it| backend(it, earlier, later, seconds)).collect();
        picture.parts = divided(later).flat_map(parts).collect();
        picture
    }

    /// Puts the rows in an order.
    pub fn sort(&mut self, order: Order) {
        self.rows.sort_by(|a, b| {
            let by_name = a.name.cmp(&b.name);
            match order {
                Order::Delivered => b.delivered.bytes.total_cmp(&a.delivered.bytes).then(by_name),
                Order::Offered => b.offered.bytes.total_cmp(&a.offered.bytes).then(by_name),
                Order::Queue => b.queue_p99.cmp(&a.queue_p99).then(by_name),
                Order::Name => by_name,
            }
        });
    }
}

/// One domain over the interval.
struct Interval<'a> {
    seconds: f64,
    before: Option<&'a Domain>,
    domain: &'a Domain,
}

impl Interval<'_> {
    fn row(&self, tenant: &Tenant) -> Row {
        let none = Tenant::default();
        let old = self
            .before
            .and_then(|domain| domain.tenants.iter().find(|old| old.name == tenant.name))
            .unwrap_or(&none);
        let rate = |now: crate::status::Amount, then: crate::status::Amount| Rate {
            requests: now.requests.saturating_sub(then.requests) as f64 / self.seconds,
            bytes: now.bytes.saturating_sub(then.bytes) as f64 / self.seconds,
        };
        Row {
            name: tenant.name.clone(),
            share: tenant.share,
            offered: rate(tenant.offered, old.offered),
            delivered: rate(tenant.delivered, old.delivered),
            entitled: tenant.window.entitled,
            got: tenant.window.delivered,
            attainable: tenant.window.attainable,
            queue_p99: quantile_between(&old.queue_time, &tenant.queue_time, 0.99),
            device_p99: quantile_between(&old.device_time, &tenant.device_time, 0.99),
            limited: (tenant.throttled_seconds - old.throttled_seconds).max(0.0) / self.seconds,
            waits_for: self.waits_for(tenant, tenant.waited_seconds - old.waited_seconds),
        }
    }

    fn waited(&self, pair: &Interference) -> f64 {
        let same = |old: &&Interference| old.victim == pair.victim && old.culprit == pair.culprit;
        let old = self.before.and_then(|domain| domain.interference.iter().find(same));
        (pair.waited_seconds - old.map_or(0.0, |old| old.waited_seconds)).max(0.0)
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.domain.interference.iter().filter_map(|pair| {
            let waiting = self.waited(pair) / self.seconds;
            (waiting >= WAITING_MIN).then(|| Pair {
                victim: pair.victim.clone(),
                culprit: pair.culprit.clone(),
                waiting,
            })
        })
    }

    /// Whom a tenant waited for most, and which part of its waits that was.
    fn waits_for(&self, victim: &Tenant, waited_seconds: f64) -> Option<(String, f64)> {
        let pairs = self.pairs().filter(|pair| pair.victim == victim.name);
        let most = pairs.max_by(|a, b| a.waiting.total_cmp(&b.waiting))?;
        let part = most.waiting * self.seconds / waited_seconds;
        Some((most.culprit, part.clamp(0.0, 1.0)))
    }
}

fn backend(
    backend: &Backend,
    earlier: Option<&Status>,
    later: &Status,
    seconds: f64,
) -> BackendLine {
    let servers = |status: &Status| {
        let mut all = status.domains.iter().flat_map(|domain| &domain.servers);
        all.find(|server| server.name == backend.name).cloned()
    };
    let server = servers(later).unwrap_or_default();
    let before = earlier.and_then(servers).map_or(0.0, |old| old.busy_seconds);
    BackendLine {
        name: backend.name.clone(),
        up: backend.up,
        remark: remark(backend, later),
        busy: ((server.busy_seconds - before) / seconds).clamp(0.0, 1.0),
        in_service: server.in_service,
        queued: server.queued,
        depth: server.depth_found.map_or(server.depth, u64::from),
        is_depth_found: server.depth_found.is_some(),
    }
}

/// What is wrong with a backend, how it stands with other gates, or where it is.
fn remark(backend: &Backend, status: &Status) -> String {
    let shared = divided(status).find(|device| device.backend == backend.name).map(shared_remark);
    backend.trouble.clone().or(shared).unwrap_or_else(|| backend.source.clone())
}

/// The devices that several gates divide now.
fn divided(status: &Status) -> impl Iterator<Item = &SharedDevice> {
    let devices = status.exchange.iter().flat_map(|exchange| &exchange.devices);
    devices.filter(|device| device.is_divided)
}

/// What each tenant had of a device over all gates, those that had most first.
fn parts(device: &SharedDevice) -> Vec<Part> {
    let part = |one: &SharingTenant| Part {
        tenant: one.name.clone(),
        array: device.array.clone(),
        all: one.part_of_all,
        here: one.part_here,
    };
    let mut parts: Vec<Part> = device.tenants.iter().map(part).collect();
    parts.sort_by(|a, b| b.all.total_cmp(&a.all).then_with(|| a.tenant.cmp(&b.tenant)));
    parts
}

fn shared_remark(device: &SharedDevice) -> String {
    let SharedDevice { slots, slots_all, gates, unmet, below_floor, reason, .. } = device;
    let named = |what, names: &[String]| {
        if names.is_empty() { String::new() } else { format!("{what}: {}; ", names.join(", ")) }
    };
    let missed = named("targets missed", unmet) + &named("below their floor", below_floor);
    format!("{missed}{slots} of {slots_all} slots, {} gates; {reason}", gates.len())
}

/// The quantile of what came between two documents; nothing if nothing came, or if the documents
/// carry no buckets.
fn quantile_between(earlier: &Times, later: &Times, q: f64) -> Option<Span> {
    // The last bucket's bound is the maximum so far and may move, so counts are compared below a
    // bound rather than bucket by bucket.
    let mut old = earlier.buckets.iter().peekable();
    let (mut seen, mut old_seen) = (0, 0);
    let mut grown = Vec::with_capacity(later.buckets.len());
    for &(bound, count) in &later.buckets {
        seen += count;
        while let Some((_, count)) = old.next_if(|(old_bound, _)| *old_bound <= bound) {
            old_seen += count;
        }
        grown.push((bound, u64::saturating_sub(seen, old_seen)));
    }
    let total = grown.last().map_or(0, |(_, count)| *count);
    if total == 0 {
        return None;
    }
    let rank = q * total as f64;
    let found = grown.iter().find(|(_, count)| *count as f64 >= rank)?;
    Some(Span(found.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Detail;
    use crate::testing::{later_report, sample_policy, sample_report};

    fn picture() -> Picture {
        let document = |report| Status::new(&report, &sample_policy(), Detail::Buckets);
        Picture::between(Some(&document(sample_report())), &document(later_report(2)))
    }

    #[test]
    fn rates_are_of_the_interval_and_idle_tenants_are_left_out() {
        let picture = picture();
        let names: Vec<_> = picture.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["alice", "bob"]);
        assert_eq!(picture.rows[0].delivered, Rate { requests: 1000.0, bytes: 4_096_000.0 });
        assert!((picture.rows[1].limited - 0.025).abs() < 1e-9);
        assert_eq!(picture.rows[0].waits_for, Some(("bob".to_owned(), 42.0 / 43.0)));
        assert_eq!((picture.pairs[0].culprit.as_str(), picture.pairs[0].waiting), ("bob", 0.7));
    }

    #[test]
    fn a_shared_backend_tells_its_slots_and_whose_target_is_missed() {
        let document = || Status::new(&sample_report(), &sample_policy(), Detail::Buckets);
        let backend = document().backends[0].clone();
        assert_eq!(remark(&backend, &document()), backend.source);
        let device = SharedDevice {
            backend: backend.name.clone(),
            is_divided: true,
            slots: 5,
            slots_all: 17,
            reason: "short".to_owned(),
            unmet: vec!["db".to_owned()],
            below_floor: vec!["web".to_owned()],
            ..SharedDevice::default()
        };
        let exchange = crate::status::Exchange { devices: vec![device], ..Default::default() };
        let status = Status { exchange: Some(exchange), ..document() };
        let shown = remark(&backend, &status);
        assert_eq!(
            shown,
            "targets missed: db; below their floor: web; 5 of 17 slots, 0 gates; short"
        );
    }

    #[test]
    fn parts_are_of_the_arrays_that_are_divided_and_most_comes_first() {
        let tenant = |name: &str, part_of_all, part_here| SharingTenant {
            name: name.to_owned(),
            part_of_all,
            part_here,
        };
        let device = |is_divided| SharedDevice {
            array: "vault".to_owned(),
            is_divided,
            tenants: vec![tenant("batch", 0.25, 0.25), tenant("db", 0.75, 0.0)],
            ..SharedDevice::default()
        };
        let shown = |device| {
            let exchange = crate::status::Exchange { devices: vec![device], ..Default::default() };
            let status = Status::new(&sample_report(), &sample_policy(), Detail::Buckets);
            Picture::between(None, &Status { exchange: Some(exchange), ..status }).parts
        };
        let part = |tenant: &str, all, here| Part {
            tenant: tenant.to_owned(),
            array: "vault".to_owned(),
            all,
            here,
        };
        assert_eq!(shown(device(true)), [part("db", 0.75, 0.0), part("batch", 0.25, 0.25)]);
        assert_eq!(shown(device(false)), []);
    }

    #[test]
    fn quantiles_are_of_the_interval_even_when_the_longest_time_moved() {
        let times =
            |buckets: &[(u64, u64)]| Times { buckets: buckets.to_vec(), ..Times::default() };
        let earlier = times(&[(10, 100), (95, 1)]);
        let later = times(&[(10, 100), (99, 3), (500, 100)]);
        assert_eq!(quantile_between(&earlier, &later, 0.5), Some(Span(500)));
        assert_eq!(quantile_between(&earlier, &later, 0.01), Some(Span(99)));
        assert_eq!(quantile_between(&later, &later, 0.5), None);
        assert_eq!(quantile_between(&Times::default(), &earlier, 0.5), Some(Span(10)));
    }

    #[test]
    fn a_restarted_gate_is_counted_from_its_start() {
        let document = |report| Status::new(&report, &sample_policy(), Detail::Buckets);
        let (old, new) = (document(later_report(3)), document(sample_report()));
        assert_eq!(Picture::between(Some(&old), &new), Picture::between(None, &new));
    }

    #[test]
    fn every_order_comes_round() {
        let mut picture = picture();
        let mut order = Order::default();
        let mut first = Vec::new();
        for _ in 0..4 {
            picture.sort(order);
            first.push(picture.rows[0].name.clone());
            order = order.next();
        }
        assert_eq!(first, ["bob", "bob", "bob", "alice"]);
        assert_eq!(order, Order::default());
    }
}
