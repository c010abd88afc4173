//! Faults made on purpose: each checker must find the one that it is there for.

use evenkeel_core::sched::Share;
use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{
    Backend, Depth, Discipline, Domain, Mode, Policy, Scheduling, Source, Tenant,
};

use super::{Stop, World, build};
use crate::checkers::{Bounds, Fairness, Limits, Rule};
use crate::device::simple::Constant;
use crate::device::spec::{ConstantSpec, DeviceSpec};
use crate::device::{Device, Op, Step};
use crate::link::LinkSpec;
use crate::scenario::{BackendDevice, Scenario, Workload};

/// What a crooked device does once, with its hundredth request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crime {
    None,
    Loses,
    AnswersTwice,
    AnswersWhatItNeverHad,
    WantsToBeWokenInThePast,
}

struct Crooked {
    honest: Constant,
    crime: Crime,
    submitted: u32,
    again: Option<u32>,
}

impl Device for Crooked {
    fn submit(&mut self, now: Nanos, op: Op) {
        self.submitted += 1;
        match self.crime {
            Crime::Loses if self.submitted == 100 => {}
            _ => self.honest.submit(now, op),
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        if self.submitted >= 100 {
            match self.crime {
                Crime::WantsToBeWokenInThePast => return Step::WaitUntil(now),
                Crime::AnswersWhatItNeverHad => {
                    let outcome = crate::device::Outcome::Good;
                    return Step::Done { tag: 77, outcome };
                }
                Crime::AnswersTwice if self.again.is_some() => {
                    let tag = self.again.take().expect("just seen");
                    return Step::Done { tag, outcome: crate::device::Outcome::Good };
                }
                _ => {}
            }
        }
        let step = self.honest.poll(now);
        if let (Step::Done { tag, .. }, Crime::AnswersTwice) = (step, self.crime) {
            self.again = Some(tag);
        }
        step
    }

    fn size_bytes(&self) -> u64 {
        self.honest.size_bytes()
    }
}

/// Two tenants of equal weight with a backlog, at a device of 100 us.
fn scenario() -> Scenario {
    let names = ["a", "b"].map(str::to_owned);
    let tenant = |name: &String| {
        let share = Share::default();
        Tenant { read_only: false, name: name.clone(), matches: Vec::new(), share }
    };
    let workload = |name: &String| Workload {
        name: name.clone(),
        tenant: Some(name.clone()),
        targets: vec!["disk".to_owned()],
        depth: 8,
        read_percent: 50,
        ..Workload::default()
    };
    let scheduling = Scheduling { depth: Depth::Requests(4), ..Scheduling::default() };
    Scenario {
        policy: Policy {
            mode: Mode::Enforce,
            backends: vec![Backend { name: "disk".to_owned(), source: Source::Memory, scheduling }],
            tenants: names.iter().map(tenant).collect(),
            ..Policy::default()
        },
        devices: vec![BackendDevice {
            backend: "disk".to_owned(),
            device: DeviceSpec::Constant(ConstantSpec::default()),
            link: LinkSpec::default(),
        }],
        workloads: names.iter().map(workload).collect(),
        length: Span::from_millis(200),
        interval: Span::from_millis(20),
        ..Scenario::default()
    }
}

/// What stops the run when the device is crooked, or the world is tampered with.
fn broken_rule(crime: Crime, tamper: impl FnOnce(&mut World<'_>)) -> Option<Rule> {
    let honest = Constant::new(ConstantSpec::default());
    let device = Crooked { honest, crime, submitted: 0, again: None };
    let scenario = scenario();
    scenario.check().unwrap();
    let mut world = build(&scenario, vec![Box::new(device)], Vec::new()).unwrap();
    tamper(&mut world);
    match world.run(&mut |_| ()) {
        Ok(_) => None,
        Err(Stop::Violation(violation)) => Some(violation.rule),
        Err(Stop::Endless(fault)) => panic!("{fault}"),
    }
}

#[test]
fn an_honest_world_breaks_no_rule() {
    assert_eq!(broken_rule(Crime::None, |_| ()), None);
}

#[test]
fn a_device_that_loses_doubles_or_invents_an_answer_is_caught() {
    for crime in [Crime::Loses, Crime::AnswersTwice, Crime::AnswersWhatItNeverHad] {
        assert_eq!(broken_rule(crime, |_| ()), Some(Rule::NothingIsLostOrDoubled), "{crime:?}");
    }
}

#[test]
fn a_wake_up_in_the_past_is_caught() {
    assert_eq!(broken_rule(Crime::WantsToBeWokenInThePast, |_| ()), Some(Rule::TimeIsMonotone));
}

/// The policy of the world's only domain, changed behind the engine's back.
fn other_policy(world: &World<'_>, change: impl FnOnce(&mut Domain)) -> Domain {
    let mut policy = world.gate.domains[0].policy.clone();
    change(&mut policy);
    policy
}

#[test]
fn an_engine_that_follows_other_weights_is_caught() {
    let rule = broken_rule(Crime::None, |world| {
        let policy = other_policy(world, |policy| {
            policy.tenants.last_mut().unwrap().1.weight_milli = 4000;
        });
        world.servers[0].fairness = Fairness::new(&policy, &policy.servers[0].1);
    });
    assert_eq!(rule, Some(Rule::LagIsBounded));
}

#[test]
fn an_engine_that_exceeds_its_depth_is_caught() {
    let rule = broken_rule(Crime::None, |world| {
        let policy = other_policy(world, |policy| {
            policy.servers[0].1.depth = Depth::Requests(3);
        });
        world.servers[0].bounds = Bounds::new(policy.mode, &policy.servers[0].1);
    });
    assert_eq!(rule, Some(Rule::QueuesAreBounded));
}

#[test]
fn an_engine_that_exceeds_a_limit_is_caught() {
    let rule = broken_rule(Crime::None, |world| {
        let policy = other_policy(world, |policy| {
            policy.servers[0].1.discipline = Discipline::Mclock;
            policy.tenants.last_mut().unwrap().1.limit.rate_iops = 100;
        });
        world.servers[0].limits = Limits::new(&policy, &policy.servers[0].1);
    });
    assert_eq!(rule, Some(Rule::LimitsHold));
}

#[test]
fn a_request_that_slips_out_of_the_books_is_caught() {
    let rule = broken_rule(Crime::None, |world| {
        let tenant = world.targets[0].tenant;
        world.conservation.sent(tenant, 4096);
    });
    assert_eq!(rule, Some(Rule::RequestsAreConserved));
}

#[test]
fn a_request_whose_bytes_do_not_all_come_back_is_caught() {
    let rule = broken_rule(Crime::None, |world| {
        world.begin().unwrap();
        let mut requests = 0..u32::try_from(world.requests.entries().len()).unwrap();
        let queued = requests.find(|&slot| !world.requests[slot].custody.has_begun()).unwrap();
        // The engine knows of 4 KiB, the client asked for 8.
        let custody = &mut world.requests[queued].custody;
        *custody = crate::checkers::Custody::send(8192);
        custody.reach(Nanos(0)).unwrap();
        assert_ne!(world.requests[queued].kind, Kind::Flush);
    });
    assert_eq!(rule, Some(Rule::BytesAreConserved));
}
