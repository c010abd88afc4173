//! Changes to the policy in force: what each means, held against the same rules as the file.

use std::net::IpAddr;
use std::path::PathBuf;

use evenkeel_core::sched::{Floor, Limit, Share};
use evenkeel_engine::policy::{DEFAULT_TENANT, Export, Match, Mode, Policy, Tenant};
use serde::{Deserialize, Serialize};

use crate::config::{self, Diagnostics};
use crate::units::{self, Amount, UnitError};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// How far the gate may go.
    Mode(Mode),
    /// Adds a tenant or changes it; what is not said stays.
    PutTenant(String, TenantSpec),
    /// Removes a tenant; its connections go to whoever matches them now.
    RemoveTenant(String),
    /// Adds an export or changes it; what is not said stays.
    PutExport(String, ExportSpec),
    /// Removes an export. Its data stays where it is.
    RemoveExport(String),
}

/// The body of `PUT /v1/mode`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeSpec {
    /// `observe`, `shadow` or `enforce`.
    pub mode: ModeName,
}

/// The body of `PUT /v1/recording`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingSpec {
    /// Where the trace goes, on the gate's machine.
    pub file: PathBuf,
}

/// A mode as the API spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ModeName {
    /// Count and attribute; delay nothing.
    Observe,
    /// Compute what would be held; hold nothing.
    Shadow,
    /// Hold.
    Enforce,
}

/// The body of `PUT /v1/tenants/{name}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Its weight, with up to three decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its floors, such as `500 iops` or `50 MiB/s`; an empty list takes them away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Vec<String>>,
    /// The goal for its response time, such as `10 ms`; `0 s` takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Its limits, such as `200 MiB/s` or `500 iops`; an empty list takes them away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Vec<String>>,
    /// Its bursts, such as `4 MiB` or `100 requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Vec<String>>,
    /// Which connections are its own: any of these.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<MatchSpec>>,
    /// Its connections may not write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Add the tenant even if no match gives it connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub add: bool,
}

/// One way to know a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchSpec {
    /// A name in the client's certificate.
    TlsName(String),
    /// The export's name.
    Export(String),
    /// The listener's name.
    Listener(String),
    /// The client's network.
    Peer(String),
}

/// The body of `PUT /v1/exports/{name}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSpec {
    /// The backend that holds it; may be left out where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Its name there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// First byte, such as `0 B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// Size, such as `10 GiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Refuse writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tenants that may open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Why a change makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// There is nothing of that name.
    #[error("there is no {what} `{name}`")]
    Unknown {
        /// What was meant.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An amount that cannot be read.
    #[error("{error}; write it like {}", error.examples)]
    Unit {
        /// What is wrong with it.
        #[from]
        error: UnitError,
    },
    /// A value out of range, with the remedy.
    #[error("{0}")]
    Value(String),
    /// The policy would not be valid.
    #[error("{0}")]
    Invalid(Diagnostics),
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Observe => Self::Observe,
            ModeName::Shadow => Self::Shadow,
            ModeName::Enforce => Self::Enforce,
        }
    }
}

impl Change {
    /// Changes `policy` if the result is valid, and gives the warnings.
    ///
    /// # Errors
    /// [`ChangeError`]; `policy` is then of no use.
    pub fn apply(self, policy: &mut Policy) -> Result<Diagnostics, ChangeError> {
        // A discipline that follows from the promises goes on following from them.
        let follows = policy.has_default_discipline();
        match self {
            Self::Mode(mode) => policy.mode = mode,
            Self::PutTenant(name, spec) => put_tenant(policy, name, spec)?,
            Self::RemoveTenant(name) => {
                remove(&mut policy.tenants, "tenant", name, |tenant| &tenant.name)?;
            }
            Self::PutExport(name, spec) => put_export(policy, name, spec)?,
            Self::RemoveExport(name) => {
                remove(&mut policy.exports, "export", name, |export| &export.name)?;
            }
        }
        policy.settle_disciplines(|backend| follows[backend]);
        let mut found = Diagnostics::new("the changed policy", "");
        for problem in policy.check() {
            found.push(config::unlocated(&problem));
        }
        if found.has_errors() { Err(ChangeError::Invalid(found)) } else { Ok(found) }
    }
}

fn remove<T>(
    all: &mut Vec<T>,
    what: &'static str,
    name: String,
    name_of: fn(&T) -> &String,
) -> Result<(), ChangeError> {
    let Some(index) = all.iter().position(|one| *name_of(one) == name) else {
        return Err(ChangeError::Unknown { what, name });
    };
    all.remove(index);
    Ok(())
}

/// Refuses a new tenant that would have no connections: most likely a typo.
fn check_is_meant(policy: &Policy, name: &str, spec: &TenantSpec) -> Result<(), ChangeError> {
    let has_matches = spec.matches.as_ref().is_some_and(|matches| !matches.is_empty());
    let is_known = policy.tenants.iter().any(|tenant| tenant.name == name)
        || name == DEFAULT_TENANT
        || policy.own_tenants().any(|own| own == name);
    if is_known || has_matches || spec.add {
        return Ok(());
    }
    let names: Vec<_> = policy.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    Err(ChangeError::Value(format!(
        "there is no tenant `{name}` (tenants: {}), and it would have no connections; correct the \
         name, give it a match, or add it all the same with `--add` (JSON: `\"add\": true`)",
        names.join(", ")
    )))
}

fn put_tenant(policy: &mut Policy, name: String, spec: TenantSpec) -> Result<(), ChangeError> {
    check_is_meant(policy, &name, &spec)?;
    let index = policy.tenants.iter().position(|tenant| tenant.name == name).unwrap_or_else(|| {
        policy.tenants.push(Tenant {
            name,
            matches: Vec::new(),
            read_only: false,
            share: Share::default(),
        });
        policy.tenants.len() - 1
    });
    let tenant = &mut policy.tenants[index];
    if let Some(share) = spec.share {
        tenant.share.weight_milli = weight_milli(share)?;
    }
    if let Some(rates) = spec.floor {
        tenant.share.floor = floor(&rates)?;
    }
    if let Some(goal) = spec.latency {
        tenant.share.latency_goal = units::parse_duration(&goal)?;
    }
    let limit = &mut tenant.share.limit;
    if let Some(rates) = spec.limit {
        // A burst belongs to the limit that it was made for.
        *limit = Limit::default();
        for rate in rates {
            match units::parse_rate(&rate)? {
                Amount::Bytes(bytes) => limit.rate_bytes = bytes,
                Amount::Requests(requests) => limit.rate_iops = requests,
            }
        }
    }
    for burst in spec.burst.unwrap_or_default() {
        match units::parse_burst(&burst)? {
            Amount::Bytes(bytes) => limit.burst_bytes = bytes,
            Amount::Requests(requests) => limit.burst_requests = requests,
        }
    }
    config::default_bursts(limit);
    if let Some(matches) = spec.matches {
        tenant.matches = matches.into_iter().map(Match::try_from).collect::<Result<_, _>>()?;
    }
    tenant.read_only = spec.read_only.unwrap_or(tenant.read_only);
    Ok(())
}

fn floor(rates: &[String]) -> Result<Floor, ChangeError> {
    let mut floor = Floor::default();
    for rate in rates {
        match units::parse_rate(rate)? {
            Amount::Bytes(bytes) => floor.rate_bytes = bytes,
            Amount::Requests(requests) => floor.rate_iops = requests,
        }
    }
    Ok(floor)
}

fn weight_milli(share: f64) -> Result<u32, ChangeError> {
    let milli = share * 1000.0;
    let whole = milli.round();
    // A decimal fraction is not exact in binary; what is not within its rounding has more digits.
    let fits = (1.0..=1e9).contains(&whole) && (milli - whole).abs() < 1e-4;
    if !fits {
        let remedy = "use a number from 0.001 to 1000000 with up to three decimals";
        return Err(ChangeError::Value(format!("a share of {share} does not fit: {remedy}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    Ok(whole as u32)
}

impl TryFrom<MatchSpec> for Match {
    type Error = ChangeError;

    fn try_from(spec: MatchSpec) -> Result<Self, ChangeError> {
        Ok(match spec {
            MatchSpec::TlsName(pattern) => Self::TlsName(pattern),
            MatchSpec::Export(pattern) => Self::Export(pattern),
            MatchSpec::Listener(name) => Self::Listener(name),
            MatchSpec::Peer(network) => {
                let parsed: Option<(IpAddr, u8)> = config::parse_network(&network);
                let (network, prefix) = parsed.ok_or_else(|| {
                    ChangeError::Value(format!(
                        "`{network}` is no network; write it like `10.1.0.0/16`"
                    ))
                })?;
                Self::Peer { network, prefix }
            }
        })
    }
}

fn put_export(policy: &mut Policy, name: String, spec: ExportSpec) -> Result<(), ChangeError> {
    let known = policy.exports.iter().position(|export| export.name == name);
    let index = known.unwrap_or(policy.exports.len());
    if known.is_none() {
        policy.exports.push(new_export(policy, name, spec.backend.as_deref())?);
    }
    let export = &mut policy.exports[index];
    if let Some(backend) = spec.backend {
        export.backend = backend;
    }
    if let Some(offset) = spec.offset {
        export.offset_bytes = units::parse_size(&offset)?;
    }
    if let Some(size) = spec.size {
        export.size_bytes = Some(units::parse_size(&size)?);
    }
    export.source = spec.source.or_else(|| export.source.take());
    export.description = spec.description.or_else(|| export.description.take());
    export.read_only = spec.read_only.unwrap_or(export.read_only);
    export.allow = spec.allow.or_else(|| export.allow.take());
    Ok(())
}

fn new_export(policy: &Policy, name: String, backend: Option<&str>) -> Result<Export, ChangeError> {
    let backend = match (backend, policy.only_backend()) {
        (Some(backend), _) => backend.to_owned(),
        (None, Some(only)) => only.name.clone(),
        (None, None) => {
            let message = "a new export names its backend where there is more than one";
            return Err(ChangeError::Value(message.to_owned()));
        }
    };
    Ok(Export {
        name,
        backend,
        source: None,
        offset_bytes: 0,
        size_bytes: None,
        read_only: false,
        allow: None,
        description: None,
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::policy::Discipline;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::sample_policy;

    fn tenant_after(name: &str, spec: TenantSpec) -> Result<Tenant, ChangeError> {
        let mut policy = sample_policy();
        Change::PutTenant(name.to_owned(), spec).apply(&mut policy)?;
        Ok(policy.tenants.into_iter().find(|tenant| tenant.name == name).unwrap())
    }

    #[test]
    fn what_is_not_said_of_a_tenant_stays() {
        let spec =
            TenantSpec { limit: Some(vec!["200 MiB/s".to_owned()]), ..TenantSpec::default() };
        let tenant = tenant_after("alice", spec).unwrap();
        assert_eq!((tenant.share.weight_milli, tenant.matches.len()), (3000, 1));
        assert_eq!(tenant.share.limit.rate_bytes, 200 << 20);
        assert_eq!(tenant.share.limit.burst_bytes, 20 << 20);
    }

    #[test]
    fn a_tenant_that_nothing_matches_is_added_only_if_that_is_meant() {
        let set = |name, spec| tenant_after(name, TenantSpec { share: Some(2.0), ..spec });
        let refused = set("alcie", TenantSpec::default()).unwrap_err().to_string();
        assert!(refused.contains("`alcie`") && refused.contains("alice"), "{refused}");
        assert!(refused.contains("--add"), "{refused}");
        let matches = Some(vec![MatchSpec::Export("x".to_owned())]);
        assert!(set("carol", TenantSpec { matches, ..TenantSpec::default() }).is_ok());
        assert!(set("carol", TenantSpec { add: true, ..TenantSpec::default() }).is_ok());
        assert!(set("default", TenantSpec::default()).is_ok());
        let device = set("(device)", TenantSpec { add: true, ..TenantSpec::default() });
        let refused = device.unwrap_err().to_string();
        assert!(refused.contains("reserved for the device"), "{refused}");
    }

    #[test]
    fn an_empty_list_of_limits_takes_them_away_with_their_bursts() {
        let mut policy = sample_policy();
        policy.tenants[0].share.limit =
            Limit { rate_iops: 5, burst_requests: 9, ..Limit::default() };
        let spec = TenantSpec { limit: Some(Vec::new()), ..TenantSpec::default() };
        Change::PutTenant("alice".to_owned(), spec).apply(&mut policy).unwrap();
        assert_eq!(policy.tenants[0].share.limit, Limit::default());
    }

    #[test]
    fn a_discipline_that_follows_from_the_promises_goes_on_following() {
        let mut policy = sample_policy();
        policy.backends[0].scheduling.is_cost_learned = false;
        let mut change = |spec| {
            Change::PutTenant("alice".to_owned(), spec).apply(&mut policy)?;
            Ok::<_, ChangeError>(policy.backends[0].scheduling.discipline)
        };
        let floor = |floor| TenantSpec { floor: Some(floor), ..TenantSpec::default() };
        assert_eq!(change(floor(vec!["500 iops".to_owned()])), Ok(Discipline::Mclock));
        assert_eq!(change(floor(Vec::new())), Ok(Discipline::Sfq));
        let goal = |goal: &str| TenantSpec { latency: Some(goal.into()), ..TenantSpec::default() };
        assert_eq!(change(goal("10 ms")), Ok(Discipline::Edf));
        assert_eq!(change(goal("0 s")), Ok(Discipline::Sfq));
        let refused = change(floor(vec!["1M iops".to_owned()])).unwrap_err();
        assert!(refused.to_string().contains("the floor of \"alice\" takes"), "{refused}");
    }

    #[test]
    fn shares_have_up_to_three_decimals() {
        let share = |share| TenantSpec { share: Some(share), ..TenantSpec::default() };
        let weight =
            |value| tenant_after("bob", share(value)).map(|tenant| tenant.share.weight_milli);
        assert_eq!(weight(1.005), Ok(1005));
        assert_eq!(weight(1e6), Ok(1_000_000_000));
        for bad in [0.0, -1.0, 0.0001, 1.0005, 2e6, f64::NAN, f64::INFINITY] {
            assert!(weight(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_new_export_finds_the_only_backend_and_is_held_against_the_file_s_rules() {
        let put = |spec| Change::PutExport("carol".to_owned(), spec).apply(&mut sample_policy());
        let size = Some("2 GiB".to_owned());
        assert!(put(ExportSpec { size: size.clone(), ..ExportSpec::default() }).is_ok());
        let backend = Some("nowhere".to_owned());
        let refused = put(ExportSpec { backend, size, ..ExportSpec::default() }).unwrap_err();
        assert!(matches!(&refused, ChangeError::Invalid(_)), "{refused:?}");
        assert!(refused.to_string().contains("nowhere"), "{refused}");
    }

    /// What each part of a change may be.
    fn specs() -> impl Strategy<Value = TenantSpec> {
        let some =
            |of: &'static [&'static str]| {
                proptest::option::of(proptest::sample::subsequence(of, 0..=of.len()).prop_map(
                    |picked| picked.into_iter().map(str::to_owned).collect::<Vec<String>>(),
                ))
            };
        let parts = (
            proptest::option::of((1_u32..5_000_000).prop_map(|milli| f64::from(milli) / 1000.0)),
            some(&["10 iops", "1 MiB/s"]),
            proptest::option::of(proptest::sample::select(vec!["10 ms", "1.5 s", "0 s"])),
            some(&["500 iops", "20.5 MiB/s"]),
            some(&["4 MiB", "100 requests"]),
            proptest::option::of(proptest::sample::subsequence(
                vec![
                    MatchSpec::Export("db-\"*".to_owned()),
                    MatchSpec::TlsName("caf\u{e9}.example".to_owned()),
                    MatchSpec::Peer("10.1.0.0/16".to_owned()),
                ],
                0..3,
            )),
        );
        parts.prop_map(|(share, floor, latency, limit, burst, matches)| TenantSpec {
            read_only: None,
            add: true,
            share,
            floor,
            latency: latency.map(str::to_owned),
            limit,
            burst,
            matches,
        })
    }

    proptest! {
        /// What a recording keeps, and `GET /v1/policy` gives.
        #[test]
        fn a_changed_policy_is_printed_as_a_file_that_means_the_same(
            changes in proptest::collection::vec(("alice|bob|carol", specs()), 1..4),
            mode in proptest::sample::select(vec![Mode::Observe, Mode::Shadow, Mode::Enforce]),
        ) {
            let mut policy = sample_policy();
            let changes = changes.into_iter().map(|(name, spec)| Change::PutTenant(name, spec));
            for change in std::iter::once(Change::Mode(mode)).chain(changes) {
                let mut changed = policy.clone();
                if change.apply(&mut changed).is_ok() {
                    policy = changed;
                }
            }
            prop_assert_eq!(config::parse(&config::print(&policy), "printed"), Ok(policy));
        }
    }

    #[test]
    fn what_is_not_there_cannot_be_removed() {
        let gone = Change::RemoveExport("carol".to_owned()).apply(&mut sample_policy());
        assert_eq!(gone.unwrap_err().to_string(), "there is no export `carol`");
    }

    #[test]
    fn an_unknown_field_of_a_body_is_refused_by_name() {
        let error = serde_json::from_str::<TenantSpec>("{\"shrae\": 4}").unwrap_err().to_string();
        assert!(error.contains("shrae") && error.contains("share"), "{error}");
        let matches: TenantSpec =
            serde_json::from_str("{\"match\": [{\"peer\": \"10.0.0.0/8\"}]}").unwrap();
        assert_eq!(matches.matches, Some(vec![MatchSpec::Peer("10.0.0.0/8".to_owned())]));
    }
}
