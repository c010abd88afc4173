//! The list of gates in etcd, where they meet by one.

use std::collections::BTreeSet;

use evenkeel_engine::policy;
use tokio::sync::mpsc::UnboundedSender;

use super::report::ServerReport;

/// This gate's place on the list, and what is on it. Dropping it lets the place lapse.
#[derive(Debug)]
pub(super) struct List {
    #[cfg(feature = "etcd")]
    membership: crate::etcd::members::Membership,
}

impl List {
    /// Takes a place if the gates meet so; names of all gates come in whenever they change.
    #[cfg(feature = "etcd")]
    pub(super) fn join(
        settings: &policy::Exchange,
        tell: UnboundedSender<BTreeSet<String>>,
    ) -> Option<Self> {
        use crate::etcd::members::{Membership, Registry};
        let policy::Meeting::Etcd { servers, .. } = &settings.meeting else { return None };
        let registry = Registry {
            servers: servers.clone(),
            exchange: settings.name.clone(),
            own: settings.own.clone(),
        };
        Some(Self { membership: Membership::start(registry, tell) })
    }

    /// There is none in this build.
    #[cfg(not(feature = "etcd"))]
    pub(super) fn join(
        _settings: &policy::Exchange,
        _tell: UnboundedSender<BTreeSet<String>>,
    ) -> Option<Self> {
        None
    }

    /// For people.
    #[cfg(feature = "etcd")]
    pub(super) fn report(&self) -> ServerReport {
        self.membership.report()
    }

    /// There is none in this build.
    #[cfg(not(feature = "etcd"))]
    #[expect(clippy::unused_self, reason = "asked alike in every build")]
    pub(super) fn report(&self) -> ServerReport {
        ServerReport::default()
    }
}
