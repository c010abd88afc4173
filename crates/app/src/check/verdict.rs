//! Whether the floors fit, device by device, for people and for programs.
//!
//! ```text
//! DEVICE      CAPACITY     RESERVED    LEFT  FLOORS
//! scratch      3k iops       16.7 %  83.3 %  hold                            build 16.7 %
//! ssd      device time    1 to 4 %     96 %  hold                            db 1 to 4 %
//! hdd      device time  up to 204 %       -  hold while at most 49 % of ..   db up to 204 %
//! array   not measured            -       -  not provable yet                web
//! ```
//!
//! Where the policy leaves costs to the gate, device time is what was measured last; the verdict is
//! provisional until enough load was seen.

use evenkeel_engine::policy::Policy;
use evenkeel_engine::policy::admission::{
    Admission, Capacity, Device, Outcome, Pool, PoolId, Range,
};
use serde::Serialize;

use crate::ctl::seconds;
use crate::human;
use crate::measured::WhenMeasured;
use crate::terminal;
use crate::units::{Amount, print_rate};

/// Most tenants that a row names.
const SHOWN_MAX: usize = 4;

/// The verdict on all floors of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    outcome: Word,
    devices: Vec<DeviceRow>,
    pools: Vec<PoolRow>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct DeviceRow {
    backend: String,
    /// The tiered volume, or the group with total shares, whose floors it serves with others.
    pool: Option<String>,
    /// Requests per second; absent where the capacity is one second of service per second.
    capacity_iops: Option<u64>,
    /// Whether what requests take is left to the gate ..
    #[serde(skip)]
    is_left_to_the_gate: bool,
    /// .. and nothing was measured yet.
    is_unmeasured: bool,
    /// When what is left to the gate was measured, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<WhenMeasured>,
    reserved: Part,
    /// What no floor takes at the most.
    left: f64,
    outcome: Word,
    tenants: Vec<TenantPart>,
}

/// Devices over which a floor counts once, as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct PoolRow {
    name: String,
    /// How busy the floors make its busiest device at least.
    least: f64,
    outcome: Word,
}

/// What one tenant's floor takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TenantPart {
    tenant: String,
    #[serde(flatten)]
    part: Part,
}

/// Parts of a device: 1 is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Part {
    least: f64,
    most: f64,
}

/// An [`Outcome`] as documents spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Holds,
    Depends,
    Unknown,
    Fails,
}

impl Verdict {
    /// The verdict for people and programs; none if the policy promises no floor.
    pub(crate) fn new(policy: &Policy, admission: &Admission) -> Option<Self> {
        if !policy.tenants.iter().any(evenkeel_engine::policy::Tenant::has_floor) {
            return None;
        }
        Some(Self {
            outcome: admission.outcome().into(),
            devices: admission.devices.iter().map(|one| DeviceRow::new(policy, one)).collect(),
            pools: admission.pools.iter().map(|one| PoolRow::new(policy, admission, one)).collect(),
        })
    }

    /// With the time at which each device was measured.
    pub(crate) fn with_ages(mut self, age: impl Fn(&str) -> Option<WhenMeasured>) -> Self {
        for device in self.devices.iter_mut().filter(|device| device.is_left_to_the_gate) {
            device.measured = age(&device.backend);
        }
        self
    }

    /// Whether no floor is sure to be broken.
    pub(crate) fn may_hold(&self) -> bool {
        self.outcome != Word::Fails
    }

    /// What becomes of the floors, to follow "they".
    pub(crate) fn words(&self) -> &'static str {
        self.outcome.words()
    }

    /// The verdict as a table.
    pub(crate) fn render(&self) -> String {
        let header = ["DEVICE", "CAPACITY", "RESERVED", "LEFT", "<FLOORS", "<WHOSE"];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for device in self.devices.iter().filter(|device| device.pool.is_none()) {
            rows.push(device.cells(&device.backend));
        }
        for pool in &self.pools {
            rows.push(pool.cells());
            let is_member = |device: &&DeviceRow| device.pool.as_ref() == Some(&pool.name);
            for device in self.devices.iter().filter(is_member) {
                rows.push(device.cells(&format!("  {}", device.backend)));
            }
        }
        terminal::table(&header, &rows)
    }
}

impl DeviceRow {
    fn new(policy: &Policy, device: &Device) -> Self {
        let name = |backend: usize| policy.backends[backend].name.clone();
        let capacity_iops = match device.capacity {
            Capacity::Requests(iops) => Some(iops),
            Capacity::DeviceTime | Capacity::Unknown | Capacity::Unmeasured => None,
        };
        let tenants = device.reservations.iter().map(|one| TenantPart {
            tenant: policy.tenants[one.tenant].name.clone(),
            part: one.part.into(),
        });
        let reserved = Part::from(device.reserved());
        Self {
            backend: name(device.backend),
            pool: device.pool.map(|pool| pool_name(policy, pool)),
            capacity_iops,
            is_left_to_the_gate: policy.backends[device.backend].scheduling.is_cost_learned,
            is_unmeasured: device.capacity == Capacity::Unmeasured,
            measured: None,
            reserved,
            left: (1.0 - reserved.most).max(0.0),
            outcome: device.outcome().into(),
            tenants: tenants.collect(),
        }
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let capacity = match (self.capacity_iops, self.measured, self.outcome) {
            (Some(iops), ..) => print_rate(Amount::Requests(iops)),
            (None, Some(age), _) => age.words(),
            (None, None, _) if self.is_unmeasured => "not measured".to_owned(),
            (None, None, Word::Unknown) => "unknown".to_owned(),
            (None, None, _) => "device time".to_owned(),
        };
        let mut floors = match (self.outcome, &self.pool) {
            _ if self.tenants.is_empty() => "none".to_owned(),
            (Word::Depends, Some(_)) => {
                let part = percent((100.0 / self.reserved.most).floor() / 100.0);
                format!("hold while at most {part} of the requests fall here")
            }
            (Word::Depends, None) => "hold in the cheaper direction only".to_owned(),
            (outcome, _) => outcome.words().to_owned(),
        };
        let provisional = self.measured.filter(|age| !age.is_proven && !self.tenants.is_empty());
        if let Some(WhenMeasured { load_seconds, .. }) = provisional {
            let load = human::duration(seconds(load_seconds.ceil()));
            floors += &format!(" (provisional: seen for {load})");
        }
        let is_told = !self.is_unmeasured || self.tenants.is_empty();
        let left = if self.left > 0.0 && is_told { percent(self.left) } else { "-".to_owned() };
        let reserved = if is_told { self.reserved.words() } else { "-".to_owned() };
        vec![name.to_owned(), capacity, reserved, left, floors, self.whose()]
    }

    fn whose(&self) -> String {
        let shown = self.tenants.iter().take(SHOWN_MAX);
        let one = |one: &TenantPart| {
            let TenantPart { tenant, part } = one;
            if self.is_unmeasured { tenant.clone() } else { format!("{tenant} {}", part.words()) }
        };
        let mut shown: Vec<String> = shown.map(one).collect();
        if self.tenants.len() > SHOWN_MAX {
            shown.push(format!("and {} more", self.tenants.len() - SHOWN_MAX));
        }
        shown.join(", ")
    }
}

/// Volumes and groups with the same name would be two domains of it, which the policy may not have.
fn pool_name(policy: &Policy, pool: PoolId) -> String {
    match pool {
        PoolId::Volume(index) => policy.backends[index].name.clone(),
        PoolId::Group(index) => policy.groups[index].name.clone(),
    }
}

impl PoolRow {
    fn new(policy: &Policy, admission: &Admission, pool: &Pool) -> Self {
        let name = pool_name(policy, pool.id);
        let unknown = |device: &Device| device.outcome() == Outcome::Unknown;
        let outcome = match pool.outcome() {
            Outcome::Holds if admission.members(pool.id).any(unknown) => Outcome::Unknown,
            outcome => outcome,
        };
        Self { name, least: pool.least, outcome: outcome.into() }
    }

    fn cells(&self) -> Vec<String> {
        let least = match self.outcome {
            Word::Unknown => "-".to_owned(),
            _ => format!("at least {}", percent(self.least)),
        };
        let capacity = "in all";
        let floors = match self.outcome {
            Word::Fails => "do not hold, wherever the requests fall",
            Word::Unknown => self.outcome.words(),
            _ => "can hold",
        };
        let left = String::new();
        vec![self.name.clone(), capacity.into(), least, left, floors.into(), String::new()]
    }
}

impl Part {
    fn words(self) -> String {
        let (least, most) = (percent(self.least), percent(self.most));
        match () {
            () if least == most => most,
            () if self.least == 0.0 => format!("up to {most}"),
            () => format!("{} to {most}", least.trim_end_matches(" %")),
        }
    }
}

impl From<Range> for Part {
    fn from(range: Range) -> Self {
        Self { least: range.least, most: range.most }
    }
}

impl Word {
    fn words(self) -> &'static str {
        match self {
            Self::Holds => "hold",
            Self::Depends => "depend on the requests",
            Self::Unknown => "not provable yet",
            Self::Fails => "do not hold",
        }
    }
}

impl From<Outcome> for Word {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Holds => Self::Holds,
            Outcome::Depends => Self::Depends,
            Outcome::Unknown => Self::Unknown,
            Outcome::Fails => Self::Fails,
        }
    }
}

/// `12.3 %`; no fraction where it would be zero or the number is large.
fn percent(part: f64) -> String {
    let hundredths = part * 100.0;
    let text =
        if hundredths < 99.95 { format!("{hundredths:.1}") } else { format!("{hundredths:.0}") };
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_engine::cost::Line;
    use evenkeel_engine::cost::measured::{Measured, MeasuredLine};
    use evenkeel_engine::policy::admission::Measurements;

    use super::*;

    fn verdict(floor: &str) -> Verdict {
        let text = format!(
            "[[backend]]\nname = \"hdd\"\nfile = \"a\"\n\
             cost = \"request\"\ncapacity = \"100 iops\"\n\
             [[backend]]\nname = \"ssd\"\nfile = \"b\"\n\
             cost = \"request\"\ncapacity = \"5k iops\"\n\
             [[backend]]\nname = \"v\"\ntiers = [\"hdd\", \"ssd\"]\n\
             [[backend]]\nname = \"scratch\"\nfile = \"c\"\n\
             cost.read = {{ fixed = \"100 us\", rate = \"400 MiB/s\" }}\n\
             cost.write = {{ fixed = \"200 us\", rate = \"400 MiB/s\" }}\n\
             [[backend]]\nname = \"idle\"\nfile = \"d\"\n\
             [[export]]\nname = \"db\"\nbackend = \"v\"\n\
             [[export]]\nname = \"build\"\nbackend = \"scratch\"\n\
             [[export]]\nname = \"rest\"\nbackend = \"idle\"\n\
             [[tenant]]\nname = \"db\"\nmatch = {{ export = \"db\" }}\nfloor = \"{floor}\"\n\
             [[tenant]]\nname = \"build\"\nmatch = {{ export = \"build\" }}\nfloor = \"1k iops\"\n"
        );
        let text = format!("listen = [\"unix:s\"]\n{text}");
        let policy = crate::config::parse_all(&text, "p").draft.unwrap();
        Verdict::new(&policy, &policy.admission(&[], &Measurements::new())).unwrap()
    }

    #[test]
    fn every_device_has_its_row_and_tiers_stand_below_their_volume() {
        let expected = [
            "DEVICE       CAPACITY      RESERVED   LEFT  FLOORS                                    \
             \x20        WHOSE",
            "scratch   device time    11 to 21 %   79 %  hold                                      \
             \x20        build 11 to 21 %",
            "idle     not measured           0 %  100 %  none",
            "v              in all  at least 2 %         can hold",
            "  hdd        100 iops   up to 102 %      -  hold while at most 98 % of the requests \
             fall here  db up to 102 %",
            "  ssd         5k iops     up to 2 %   98 %  hold                                      \
             \x20        db up to 2 %",
        ];
        assert_eq!(verdict("102 iops").render().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_manual_shows_what_is_printed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/promises.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let block = |kind: &str| {
            let (_, rest) = manual.split_once(&format!("```{kind}\n")).unwrap();
            rest.split_once("```").unwrap().0
        };
        let parsed = crate::config::parse_all(block("toml"), "docs/promises.md");
        assert_eq!(parsed.diagnostics.render(false), "", "no warning either");
        let policy = parsed.policy.unwrap();
        let verdict = Verdict::new(&policy, &policy.admission(&[], &Measurements::new())).unwrap();
        assert_eq!(block("text"), verdict.render());
    }

    /// A floor of 100 iops at a backend whose costs are left to the gate.
    fn left_to_the_gate(age: Option<WhenMeasured>) -> Verdict {
        let text = "listen = [\"unix:s\"]\n[[backend]]\nname = \"a\"\nfile = \"a\"\n\
             [[export]]\nname = \"db\"\n[[tenant]]\nname = \"db\"\n\
             match = { export = \"db\" }\nfloor = \"100 iops\"\n";
        let policy = crate::config::parse(text, "p").unwrap();
        let line = Line { fixed: Span::from_millis(5), rate_bytes: u64::MAX };
        let side = MeasuredLine { line, size_bytes: Some(4096) };
        let measured = Measured {
            read: side,
            write: side,
            flush: Span::ZERO,
            at_once: 1,
            load: Span::from_secs(8),
        };
        let known = age.map(|_| ("a".to_owned(), measured)).into_iter().collect();
        Verdict::new(&policy, &policy.admission(&[], &known)).unwrap().with_ages(|_| age)
    }

    #[test]
    fn nothing_is_provable_before_it_was_measured_and_soon_after_it_is_provisional() {
        let row = |age| left_to_the_gate(age).render().lines().nth(1).unwrap().to_owned();
        let cells = |row: String| row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells(row(None)), "a not measured - - not provable yet db");
        let age = |is_proven| WhenMeasured { age_seconds: 7200.0, load_seconds: 8.0, is_proven };
        let measured = "a measured 2h00m ago 50 % 50 % hold";
        assert_eq!(cells(row(Some(age(true)))), format!("{measured} db 50 %"));
        let provisional = format!("{measured} (provisional: seen for 8 s) db 50 %");
        assert_eq!(cells(row(Some(age(false)))), provisional);
        assert!(left_to_the_gate(None).may_hold(), "it may be put in force");
    }

    #[test]
    fn what_cannot_hold_wherever_requests_fall_is_said_of_the_volume() {
        let text = verdict("6k iops").render();
        assert!(text.contains("do not hold, wherever the requests fall"), "{text}");
        assert!(!verdict("6k iops").may_hold() && verdict("5k iops").may_hold());
    }

    #[test]
    fn programs_read_the_same_in_numbers() {
        let document = serde_json::to_value(verdict("50 iops")).unwrap();
        assert_eq!(document["outcome"], "holds");
        let hdd = &document["devices"][0];
        assert_eq!((&hdd["backend"], &hdd["pool"]), (&"hdd".into(), &"v".into()));
        assert_eq!((&hdd["capacity_iops"], &hdd["left"]), (&100.into(), &0.5.into()));
        assert_eq!(hdd["tenants"][0]["most"], 0.5);
    }
}
