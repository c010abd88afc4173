//! What holds at servers that this gate divides with others, whatever the policy says of it alone.

use std::collections::BTreeMap;
use std::rc::Rc;

use evenkeel_engine::cost::CostModel;
use evenkeel_engine::cost::measured::Measured;
use evenkeel_engine::policy::{self, Control, Joint};

use super::{Domain, ServerId};

/// By server. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Together {
    joints: BTreeMap<ServerId, Joint>,
    costs: BTreeMap<ServerId, CostModel>,
}

impl Together {
    /// Puts it over a policy.
    pub(super) fn apply(&self, policy: &mut policy::Domain) {
        for (server, joint) in &self.joints {
            let (_, scheduling) = &mut policy.servers[server.index()];
            if scheduling.control == Control::Automatic {
                *scheduling = joint.scheduling(scheduling);
            }
        }
        for (server, cost) in &self.costs {
            let (_, scheduling) = &mut policy.servers[server.index()];
            *scheduling = scheduling.clone().with_cost_of_array(*cost);
        }
    }
}

impl Domain {
    /// From now on a server is divided with other gates: with what, and what was measured of it by
    /// this one alone. Again, it goes on as it began.
    pub(crate) fn join(self: &Rc<Self>, server: ServerId) -> (Joint, Option<Measured>) {
        let known = self.together.borrow().joints.get(&server).copied();
        if let Some(joint) = known {
            return (joint, None);
        }
        let report = self.state.borrow_mut().engine.report(self.worker.clock.now());
        let report = &report.servers[server.index()];
        let joint = Joint::found(report);
        self.together.borrow_mut().joints.insert(server, joint);
        self.enforce();
        (joint, report.measured.filter(|_| report.is_cost_learned))
    }

    /// From now on this gate is alone at a server.
    pub(crate) fn part(self: &Rc<Self>, server: ServerId) {
        if self.together.borrow_mut().joints.remove(&server).is_some() {
            self.enforce();
        }
    }

    /// The gates before a server agree on what requests cost there, or no longer.
    pub(crate) fn agree_on_cost(self: &Rc<Self>, server: ServerId, cost: Option<CostModel>) {
        let before = {
            let costs = &mut self.together.borrow_mut().costs;
            match cost {
                Some(cost) => costs.insert(server, cost),
                None => costs.remove(&server),
            }
        };
        if before != cost {
            self.enforce();
        }
    }
}
