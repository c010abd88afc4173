//! What holds for a tenant, as a sentence with the figure that shows it, and what can be done.

use evenkeel_core::id::TenantId;
use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_core::time::Span;

use super::rules::{Due, Parts, STALLED_MIN, Verdict, mean_in_flight};
use super::{Cause, Recent, Scene, Standing};
use crate::policy::Mode;
use crate::report::ServerReport;

/// The sentence and the remedy.
pub(super) fn say(scene: &Scene<'_>, tenant: TenantId, verdict: &Verdict) -> (String, String) {
    let told = Case {
        scene,
        tenant,
        verdict,
        recent: &scene.recent[tenant.index()],
        parts: Parts::of(scene, tenant),
    };
    if verdict.standing == Standing::Idle {
        return (format!("{} has asked for nothing lately", told.name()), String::new());
    }
    if told.recent.window.is_none() {
        return (format!("it is too early to tell how {} stands", told.name()), String::new());
    }
    let Some(cause) = verdict.cause else {
        let rate = per_second(told.recent);
        return (format!("{} has all that it asks for: {rate}", told.name()), String::new());
    };
    (format!("{}: {}", told.has(), told.because(cause)), told.remedy(cause))
}

/// A tenant with a cause.
struct Case<'a> {
    scene: &'a Scene<'a>,
    tenant: TenantId,
    verdict: &'a Verdict,
    recent: &'a Recent,
    parts: Parts,
}

impl Case<'_> {
    fn name(&self) -> &str {
        &self.scene.tenants[self.tenant.index()].0
    }

    fn share(&self) -> &Share {
        &self.scene.tenants[self.tenant.index()].1
    }

    fn other(&self) -> &str {
        self.verdict.behind.map_or("others", |one| &self.scene.tenants[one.index()].0)
    }

    fn others_part(&self) -> String {
        let delivered = self.verdict.behind.map(|one| self.scene.window(one).delivered);
        delivered.map_or_else(|| "the rest".to_owned(), percent)
    }

    /// What is shared.
    fn device(&self) -> &str {
        match self.scene.servers {
            [ServerReport { name, .. }] => name,
            _ => "the servers",
        }
    }

    fn is_stalled(&self) -> bool {
        self.parts.part(self.parts.stalls) >= STALLED_MIN
    }

    /// What it has, beside what it is due.
    fn has(&self) -> String {
        let (name, window) = (self.name(), self.scene.window(self.tenant));
        let has = percent(window.delivered);
        match self.verdict.missed {
            Some(Due::Floor) => {
                let (rate, floor) = (per_second(self.recent), floor_in_words(self.share().floor));
                format!("{name} gets {rate}, where its floor is {floor}")
            }
            Some(Due::Goal) => {
                let mean =
                    Span(self.recent.gained.answer_time.0 / self.recent.gained.answered.max(1));
                let late = self.recent.gained.late_requests as f64
                    / self.recent.gained.answered.max(1) as f64;
                let goal = self.share().latency_goal;
                format!(
                    "{name} is late: {} of its answers took longer than {goal}, {mean} on average",
                    percent(late)
                )
            }
            Some(Due::Share) => {
                let due = percent(window.entitled);
                format!("{name} has {has} of {}, where its share gives {due}", self.device())
            }
            None if self.scene.is_by_weight => {
                format!("{name} has {has} of {}, no less than its share gives", self.device())
            }
            None => format!("{name} has {has} of {}", self.device()),
        }
    }

    /// Why it has no more.
    fn because(&self, cause: Cause) -> String {
        let part = |time| percent(self.parts.part(time));
        match cause {
            Cause::OwnLimit => format!(
                "it is at its own limit of {}, which held its requests for {} of their time",
                limit_in_words(&self.share().limit),
                part(self.parts.limit)
            ),
            Cause::OthersFloors => format!(
                "the floor of {} goes first, with {} of it",
                self.other(),
                self.others_part()
            ),
            Cause::OthersShares => self.because_of_others(),
            Cause::OthersDeadlines => format!(
                "the requests of {} have earlier deadlines, and take {} of it",
                self.other(),
                self.others_part()
            ),
            Cause::OwnQueue => format!(
                "its requests wait behind each other for {} of their time, {:.0} at once",
                part(self.parts.itself),
                mean_in_flight(self.recent)
            ),
            Cause::Depth => {
                let depth = self.scene.servers.iter().map(|server| server.depth).max();
                let at_once = self.scene.servers.iter().filter_map(|server| server.measured);
                let at_once = at_once.map(|measured| measured.at_once).min().unwrap_or(1);
                format!(
                    "the depth of {} lets requests wait in the device, which serves {at_once} at \
                     once",
                    depth.unwrap_or(0)
                )
            }
            Cause::SlowExport => self.because_of_slow_export(),
            Cause::InternalWork => format!(
                "the gate's own work ({}) held its requests for {} of their time",
                self.other(),
                part(self.parts.internal)
            ),
            Cause::Device if self.is_stalled() => format!(
                "{} held everybody up for {} of the time of its requests",
                self.device(),
                part(self.parts.stalls)
            ),
            Cause::Device => format!("{} can do no more: nobody else is in the way", self.device()),
            Cause::AsksTooLittle => self.because_it_asks_too_little(),
            // Said where they are found.
            Cause::Memory | Cause::Connections | Cause::Upstream | Cause::Errors => String::new(),
        }
    }

    fn because_of_others(&self) -> String {
        let (other, has) = (self.other(), self.others_part());
        let waits = percent(self.parts.part(self.parts.waits()));
        match (self.scene.mode, self.verdict.behind) {
            (Mode::Enforce, Some(_)) => {
                format!("it would use more, but {other} holds {has} by its share")
            }
            (Mode::Enforce, None) => {
                "it would use more, but others hold the rest by theirs".to_owned()
            }
            (_, Some(_)) => format!(
                "its requests wait for {waits} of their time, mostly for those of {other}, which \
                 has {has}"
            ),
            (_, None) => {
                format!("its requests wait for {waits} of their time, for those of several others")
            }
        }
    }

    fn because_of_slow_export(&self) -> String {
        let servers = self.scene.servers.iter();
        let hanging = servers.flat_map(|server| &server.hanging);
        let oldest = hanging.filter(|one| one.tenant == self.tenant).map(|one| one.oldest).max();
        match oldest {
            Some(oldest) => {
                format!("an export of its own has not answered it for {oldest}")
            }
            None => format!(
                "an export of its own is slower than others of {}, and took {} of the time of its \
                 requests",
                self.device(),
                percent(self.parts.part(self.parts.slots))
            ),
        }
    }

    fn because_it_asks_too_little(&self) -> String {
        let at_once = mean_in_flight(self.recent);
        let active =
            self.recent.gained.active.as_secs_f64() / self.recent.length.as_secs_f64().max(1e-9);
        let rest = if active < 0.95 {
            format!(", and nothing for {} of the time", percent(1.0 - active))
        } else {
            String::new()
        };
        format!("it asks for {at_once:.1} requests at once{rest}")
    }

    /// What can be done.
    fn remedy(&self, cause: Cause) -> String {
        let name = self.name();
        match cause {
            Cause::OwnLimit => {
                format!("raise the limit: `evenkeel ctl tenant set {name} --limit RATE`")
            }
            Cause::OthersFloors => {
                format!("lower the floor of {}, or give {name} one too", self.other())
            }
            Cause::OthersShares if self.scene.mode != Mode::Enforce => {
                "let shares hold: `evenkeel ctl mode enforce`".to_owned()
            }
            Cause::OthersShares => {
                format!("raise its share: `evenkeel ctl tenant set {name} --share N`")
            }
            Cause::OthersDeadlines => {
                format!("give {name} a shorter goal, or {} a longer one", self.other())
            }
            Cause::OwnQueue => format!("have the clients of {name} ask for less at once"),
            Cause::Depth => {
                "leave `depth` out of the policy: the gate finds what the device needs".to_owned()
            }
            Cause::SlowExport => format!("look at the storage behind that export of {name}"),
            Cause::InternalWork => {
                "give that work a smaller share, or let it happen at another time".to_owned()
            }
            Cause::Device if self.is_stalled() => {
                format!("look at {}: it holds up everybody", self.device())
            }
            Cause::Device => "promise less, or use quicker storage".to_owned(),
            Cause::AsksTooLittle => {
                format!("have the clients of {name} keep more requests under way")
            }
            Cause::Memory | Cause::Connections | Cause::Upstream | Cause::Errors => String::new(),
        }
    }
}

fn per_second(recent: &Recent) -> String {
    let seconds = recent.length.as_secs_f64().max(1e-9);
    let requests = recent.gained.requests as f64 / seconds;
    format!(
        "{} requests/s, {}",
        rounded(requests),
        bytes_per_second(recent.gained.bytes as f64 / seconds)
    )
}

fn limit_in_words(limit: &Limit) -> String {
    rates_in_words(limit.rate_iops, limit.rate_bytes)
}

fn floor_in_words(floor: Floor) -> String {
    rates_in_words(floor.rate_iops, floor.rate_bytes)
}

fn rates_in_words(requests: u64, bytes: u64) -> String {
    let requests = (requests > 0).then(|| format!("{requests} requests/s"));
    let bytes = (bytes > 0).then(|| bytes_per_second(bytes as f64));
    requests.into_iter().chain(bytes).collect::<Vec<_>>().join(" and ")
}

fn bytes_per_second(rate: f64) -> String {
    format!("{} MiB/s", rounded(rate / f64::from(1 << 20)))
}

/// Small figures with a decimal.
fn rounded(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
