//! From a scenario to a world at time zero.

use std::ops::Range;

use evenkeel_core::id::{ServerId, TenantId};
use evenkeel_core::prng::Prng;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_core::workload::{Drawer, Schedule, part_of};
use evenkeel_engine::Input;
use evenkeel_engine::notes::PartDevice;
use evenkeel_engine::policy::matching::Identity;
use evenkeel_engine::policy::{
    Backend, Domain as DomainPolicy, Member, Policy, ServerTable, TenantTable,
};

use super::clients::{Client, Group};
use super::gate::{Domain, Gate};
use super::policy::Change;
use super::replays::{Places, Replayer};
use super::stall::Stall;
use super::storage::{Medium, Server};
use super::tables::{Home, Slab, Target};
use super::volume::Tiers;
use super::{TenantTimes, World};
use crate::checkers::Conservation;
use crate::device::Device;
use crate::events::{Event, Events};
use crate::faults::{FaultKind, Faulty, LinkPlace};
use crate::link::{Disturbance, Link, LinkSpec};
use crate::result::{Book, LogHash, Steady};
use crate::run::Stream;
use crate::scenario::{Arrivals, Layout, PolicyChange, Route, Scenario, ScenarioFault, Workload};

/// What a random stream is for, so that no two are alike.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Device = 1,
    Faults = 2,
    DeviceLink = 3,
    ClientLink = 4,
    ReplayLink = 5,
}

/// The seed of one of the run's random streams.
pub(crate) fn seed_of(scenario: &Scenario, purpose: Purpose, index: usize) -> u64 {
    Prng::new(scenario.seed ^ ((purpose as u64) << 56) ^ index as u64).next_u64()
}

/// The world of a checked scenario. `devices` stand behind the [`stores`], in their order, and
/// `streams` are the records of the replays.
///
/// # Errors
/// If a target reaches beyond its device, or a request does not fit its target.
pub(crate) fn build<'s>(
    scenario: &Scenario,
    devices: Vec<Box<dyn Device>>,
    streams: Vec<Stream<'s>>,
) -> Result<World<'s>, ScenarioFault> {
    let start = Nanos::ZERO + scenario.warm_up;
    let measured = start..start + scenario.length;
    let mut tenants = TenantTable::new();
    tenants.update(&scenario.opening_policy());
    let (domains, servers) = storage(scenario, devices, &tenants, &measured);
    let groups = scenario.workloads.len() + scenario.replays.len();
    let count = tenants.rows().len();
    let mut world = World {
        now: Nanos::ZERO,
        events: Events::default(),
        hash: LogHash::new(scenario.seed),
        book: Book::new(measured.clone(), scenario.interval, (groups, count)),
        measured,
        gate: Gate::new(domains, scenario.gate.request_time),
        servers,
        targets: Vec::new(),
        target_names: Vec::new(),
        groups: Vec::new(),
        clients: Vec::new(),
        replays: Vec::new(),
        places: Vec::new(),
        changes: changes(scenario, &tenants),
        requests: Slab::default(),
        flights: Slab::default(),
        calls: Slab::default(),
        sequence: 0,
        stirred: std::collections::VecDeque::new(),
        replies: std::collections::VecDeque::new(),
        conservation: Conservation::new(count),
        tenants: vec![TenantTimes::default(); count],
        requests_in_all: 0,
        stall: Stall::new(not_before(scenario)),
        recording: None,
    };
    world.open_volumes(scenario)?;
    for index in 0..scenario.workloads.len() {
        world.add_workload(scenario, &tenants, index)?;
    }
    for (index, stream) in streams.into_iter().enumerate() {
        world.add_replay(scenario, &tenants, index, stream)?;
    }
    for fault in scenario.faults.iter().filter(|fault| fault.what == FaultKind::GateRestart) {
        world.events.push(fault.window().start, Event::GateDown);
        world.events.push(fault.window().end, Event::GateUp);
    }
    for (index, change) in (0..).zip(&scenario.changes) {
        world.events.push(Nanos::ZERO + change.at, Event::Policy(index));
    }
    Ok(world)
}

/// The end of the measured time and of the last fault.
fn not_before(scenario: &Scenario) -> Nanos {
    let end = Nanos::ZERO + scenario.warm_up + scenario.length;
    scenario.faults.iter().map(|fault| fault.window().end).fold(end, Nanos::max)
}

/// What later policies bring each domain.
fn changes(scenario: &Scenario, tenants: &TenantTable) -> Vec<Change> {
    let mut tenants = tenants.clone();
    let policy = &scenario.policy;
    let table = |domain: &(String, Vec<usize>)| {
        let mut servers = ServerTable::new();
        policy.domain(domain, &tenants, &mut servers);
        (domain.0.clone(), servers)
    };
    let mut tables: Vec<(String, ServerTable)> = policy.domains().iter().map(table).collect();
    let change = |change: &PolicyChange| {
        tenants.update(&change.policy);
        let mut domains = change.policy.domains();
        let part = |(name, servers): &mut (String, ServerTable)| {
            let index = domains.iter().position(|(one, _)| one == name);
            let domain = domains.swap_remove(index.expect("the check wants the same domains"));
            change.policy.domain(&domain, &tenants, servers)
        };
        Change { domains: tables.iter_mut().map(part).collect(), owners: Vec::new() }
    };
    scenario.changes.iter().map(change).collect()
}

/// Whose the requests of a route are under a policy.
fn owner(policy: &Policy, tenants: &TenantTable, route: &Route) -> TenantId {
    match &route.tenant {
        Some(name) if policy.has_tenant(name) => {
            tenants.id(name).expect("the table holds every tenant")
        }
        _ => {
            let identity = Identity { export: &route.target, ..Identity::default() };
            tenants.identify(&policy.tenants, &identity)
        }
    }
}

/// Engines and servers, the latter in the order of [`stores`].
fn storage(
    scenario: &Scenario,
    devices: Vec<Box<dyn Device>>,
    tenants: &TenantTable,
    measured: &Range<Nanos>,
) -> (Vec<Domain>, Vec<Server>) {
    let policy = &scenario.policy;
    let mut domains = Vec::new();
    let names: Vec<&str> = stores(policy).map(|backend| backend.name.as_str()).collect();
    let mut seats: Vec<Option<(u32, ServerId)>> = vec![None; names.len()];
    for (index, domain) in (0..).zip(policy.domains()) {
        let of = |&backend: &usize| {
            let name = policy.backends[backend].name.as_str();
            names.iter().position(|one| *one == name).expect("domains are made of stores")
        };
        let members: Vec<usize> = domain.1.iter().map(of).collect();
        for (id, &server) in (0..).map(ServerId).zip(&members) {
            seats[server] = Some((index, id));
        }
        let servers = members.into_iter().map(small).collect();
        let part: DomainPolicy = policy.domain(&domain, tenants, &mut ServerTable::new());
        domains.push(Domain::new(part, servers));
    }
    let seated = stores(policy).zip(seats).zip(devices).enumerate();
    let servers = seated.map(|(index, ((backend, seat), device))| {
        let (domain, id) = seat.expect("every backend is in exactly one domain");
        let seed = seed_of(scenario, Purpose::Faults, index);
        let device = match Faulty::new(device, &backend.name, &scenario.faults, seed) {
            Ok(faulty) => Medium::Faulty(faulty),
            Err(sound) => Medium::Sound(sound),
        };
        let spec = scenario.devices.iter().find(|one| one.backend == backend.name);
        let spec = spec.expect("the check wants a device for each store").link;
        let place = LinkPlace::Backend(backend.name.clone());
        let link = link(scenario, spec, &place, seed_of(scenario, Purpose::DeviceLink, index));
        let seat = (domain, id, &domains[domain as usize].policy);
        Server::new(backend.name.clone(), device, link, seat, measured.clone())
    });
    let servers = servers.collect();
    (domains, servers)
}

fn link(scenario: &Scenario, spec: LinkSpec, place: &LinkPlace, seed: u64) -> Link {
    let disturbances = scenario.faults.iter().filter_map(|fault| match &fault.what {
        FaultKind::Link { place: one, loss_ppm, delay } if one == place => {
            let (loss_ppm, delay) = (*loss_ppm, *delay);
            Some(Disturbance { window: fault.window(), loss_ppm, delay })
        }
        _ => None,
    });
    Link::new(spec, disturbances.collect(), seed)
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("the scenario bounds what there is")
}

/// The backends that devices stand behind: all but volumes, which are made of others.
pub(crate) fn stores(policy: &Policy) -> impl Iterator<Item = &Backend> {
    policy.backends.iter().filter(|backend| !backend.is_volume())
}

impl<'s> World<'s> {
    /// Adds the target of a route, used by a group.
    fn add_target(
        &mut self,
        scenario: &Scenario,
        tenants: &TenantTable,
        group: usize,
        route: &Route,
    ) -> Result<u32, ScenarioFault> {
        let policy = &scenario.policy;
        let export = policy.exports.iter().find(|export| export.name == route.target);
        let backend = export.map_or(&route.target, |export| &export.backend);
        let (domain, home, device_bytes) = self.home_of(policy, backend);
        let base_bytes = export.map_or(0, |export| export.offset_bytes);
        let wanted_bytes = export.and_then(|export| export.size_bytes);
        let room_bytes = device_bytes.saturating_sub(base_bytes);
        let size_bytes = wanted_bytes.unwrap_or(room_bytes);
        if size_bytes > room_bytes || size_bytes == 0 {
            return Err(ScenarioFault {
                place: format!("target {:?}", route.target),
                what: format!("it does not fit its device of {device_bytes} bytes"),
            });
        }
        let tenant = owner(policy, tenants, route);
        let row = self.book.row(Some(small(group)), tenant);
        for (change, later) in self.changes.iter_mut().zip(&scenario.changes) {
            let tenant = owner(&later.policy, tenants, route);
            change.owners.push((tenant, self.book.row(Some(small(group)), tenant)));
        }
        let (name, _) = &tenants.rows()[tenant.index()];
        self.target_names.push(format!("{name}/{}", route.target));
        self.targets.push(Target { domain, home, tenant, row, base_bytes, size_bytes });
        Ok(small(self.targets.len() - 1))
    }

    /// Domain, home and size of a backend.
    fn home_of(&self, policy: &Policy, backend: &str) -> (u32, Home, u64) {
        if policy.volumes().any(|(one, _)| one.name == backend) {
            let mut domains = policy.domains().into_iter();
            let domain = domains.position(|(name, _)| name == backend).expect("a volume has one");
            let tiers = self.gate.domains[domain].tiers.as_ref().expect("volumes are opened first");
            return (small(domain), Home::Volume, tiers.size_bytes());
        }
        let server = stores(policy).position(|one| one.name == backend);
        let server = server.expect("the check knows every target");
        let one = &self.servers[server];
        (one.domain, Home::Server(small(server)), one.size_bytes())
    }

    /// Makes the tiered volumes of the policy, on blank devices.
    fn open_volumes(&mut self, scenario: &Scenario) -> Result<(), ScenarioFault> {
        let policy = &scenario.policy;
        for (domain, (name, _)) in policy.domains().iter().enumerate() {
            let Some((_, volume)) = policy.volumes().find(|(one, _)| one.name == *name) else {
                continue;
            };
            let one = &mut self.gate.domains[domain];
            let plan = one.policy.tiers.as_ref().expect("the domain of a volume has a plan");
            let row = self.book.row(None, plan.mover);
            let device = |(tier, server): (&Member, &u32)| PartDevice {
                name: tier.backend.clone(),
                size_bytes: tier
                    .size_bytes
                    .unwrap_or(u64::MAX)
                    .min(self.servers[*server as usize].size_bytes()),
            };
            let devices = volume.tiers.iter().zip(&one.servers).map(device).collect();
            let mut tiers = Tiers::new(volume.extent_bytes, devices, row);
            let opened = tiers.open().map_err(|refusal| ScenarioFault {
                place: format!("volume {name:?}"),
                what: refusal.to_string(),
            })?;
            one.engine.handle(Nanos::ZERO, Input::Volume(opened));
            one.engine.handle(Nanos::ZERO, Input::Held { until: Nanos(u64::MAX) });
            one.tiers = Some(tiers);
        }
        Ok(())
    }

    fn add_workload(
        &mut self,
        scenario: &Scenario,
        tenants: &TenantTable,
        index: usize,
    ) -> Result<(), ScenarioFault> {
        let workload = &scenario.workloads[index];
        let first = small(self.targets.len());
        for target in &workload.targets {
            let route = Route { tenant: workload.tenant.clone(), target: target.clone() };
            self.add_target(scenario, tenants, index, &route)?;
        }
        self.groups.push(group(workload, self.measured.end));
        for client in 0..workload.clients {
            let count = small(self.targets.len()) - first;
            let targets = match workload.layout {
                Layout::Striped => first..first + count,
                Layout::Spread => first + client % count..first + client % count + 1,
            };
            self.add_client(scenario, (index, client), targets)?;
        }
        Ok(())
    }

    fn add_client(
        &mut self,
        scenario: &Scenario,
        (group, index): (usize, u32),
        targets: Range<u32>,
    ) -> Result<(), ScenarioFault> {
        let workload = &scenario.workloads[group];
        let sizes = targets.clone().map(|target| self.targets[target as usize].size_bytes);
        let size_bytes = sizes.min().expect("a workload has targets");
        let whole = workload.range.clone().unwrap_or(0..size_bytes);
        let fault = |what: String| {
            Err(ScenarioFault { place: format!("workload {:?}", workload.name), what })
        };
        if whole.end > size_bytes {
            return fault(format!(
                "its range {}..{} leaves its target of {size_bytes} bytes",
                whole.start, whole.end
            ));
        }
        let largest = workload.sizes.iter().map(|size| size.size_bytes).max().unwrap_or(1);
        let part = part_of(&whole, (index, workload.clients), u64::from(largest));
        let mixed = scenario.seed ^ (group as u64) << 32 ^ u64::from(index);
        let seed = Prng::new(mixed).next_u64();
        let Some(drawer) = Drawer::new(&workload.mix(), whole, part.start, seed) else {
            return fault(format!(
                "a request of {largest} bytes does not fit its range, or the hot part or the rest"
            ));
        };
        let start = self.groups[group].schedule.active.start;
        let pace = workload.pace(start, index, seed ^ u64::MAX);
        let own_link = LinkPlace::Workload(workload.name.clone());
        let link_seed = seed_of(scenario, Purpose::ClientLink, self.clients.len());
        self.clients.push(Client {
            group: small(group),
            targets,
            drawer,
            pace,
            free: workload.depth,
            depth: workload.depth,
            link: link(scenario, workload.link, &own_link, link_seed),
            wake_at: None,
            steady: Steady::default(),
        });
        Ok(())
    }

    fn add_replay(
        &mut self,
        scenario: &Scenario,
        tenants: &TenantTable,
        index: usize,
        stream: Stream<'s>,
    ) -> Result<(), ScenarioFault> {
        let replay = &scenario.replays[index];
        let group = scenario.workloads.len() + index;
        let first = small(self.targets.len());
        for route in &replay.routes {
            self.add_target(scenario, tenants, group, route)?;
        }
        let routes = first..small(self.targets.len());
        let otherwise = match &replay.otherwise {
            Some(route) => Some(self.add_target(scenario, tenants, group, route)?),
            None => None,
        };
        let place = LinkPlace::Workload(replay.name.clone());
        let seed = seed_of(scenario, Purpose::ReplayLink, index);
        let link = link(scenario, replay.link, &place, seed);
        if !replay.continues || self.places.is_empty() {
            self.places.push(Places::new(small(index)));
        }
        let places = small(self.places.len() - 1);
        self.replays.push(Replayer::new(replay, stream, (routes, otherwise), places, link));
        Ok(())
    }
}

fn group(workload: &Workload, end: Nanos) -> Group {
    let start = Nanos::ZERO + workload.start;
    let stop = workload.stop.map_or(end, |stop| (Nanos::ZERO + stop).min(end));
    let idle = workload.idle.iter();
    let think = match workload.arrivals {
        Arrivals::Closed { think } => think,
        Arrivals::Constant { .. } | Arrivals::Poisson { .. } | Arrivals::OnOff { .. } => Span::ZERO,
    };
    Group {
        name: workload.name.clone(),
        schedule: Schedule {
            active: start..stop,
            idle: idle.map(|one| Nanos::ZERO + one.start..Nanos::ZERO + one.end).collect(),
        },
        think,
        requests_left: workload.requests.unwrap_or(u64::MAX),
    }
}
