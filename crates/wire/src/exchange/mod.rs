//! The exchange between gates: one word in one datagram, a summary of what happened at a device
//! that gates share, or ([`service`]) what one has served where shares count over several gates. In
//! large sites there are sums of such summaries ([`sum`]), and who is in them ([`roster`]).
//!
//! ```text
//!  0        2         3       4          8        12
//!  | "EX"   | version | flows | device   | host   | incarnation | period | terms | depth | flow ..
//!    u16      u8        u8      u32        u32      varint        varint   varint  varint
//!
//!  flows:  128 more for a part of a word; before its flows it says
//!          parts of the word u8, first tenant u32, last tenant u32
//!  terms:  controller + 8 x length of a period in milliseconds
//!  flow:   tenant u32, weight, target, arrivals, completions, late, cost, device time, response
//!          time, slot time, outstanding, queued, backlogged u8, queued age, expected
//!  target: 0 | 1 latency window | 2 late latency window | 3 latency | 4 late latency
//!          8 more, and a floor behind it, where there is one
//! ```
//!
//! A sum begins with "EA", and says before its flows, and behind its part, of whom it is.
//!
//! Behind the flows there may be what requests take of the device (`array_cost`), and behind that
//! what the gate's policy says of some tenants (`promises`).
//!
//! Numbers without a width are varints. Backlogged is in percent, and 128 more for a tenant at its
//! limit. Costs, and floors in cost per second, are in units of 1,024 ns, latencies, windows and
//! times in microseconds; targets of the kinds 3 and 4 have a window of a second. The tag of 16
//! bytes follows. What asks whether another gate speaks now, and what answers that ([`proof`]),
//! stands before the tag of any kind, where there is any.
//!
//! Fixed fields are big-endian, varints are LEB128 in their shortest form, so that every summary
//! has one encoding. Times are whole microseconds ([`FlowSummary::in_microseconds`]). With one flow
//! a datagram has some 75 bytes, with [`PART_FLOWS_MAX`] some 1,100, which fits an unfragmented
//! packet of Ethernet, and at most [`DATAGRAM_BYTES_MAX`]. A gate with more tenants says a word in
//! several datagrams, each with a tag of its own: none needs another one to be read or believed.
//!
//! The tag authenticates all before it. It is made and checked by whoever has the key; here it is
//! 16 bytes behind the body ([`sealed`], [`opened`]).
//!
//! Decoding checks the form alone. Whether figures are plausible and whether they are news is for
//! [`evenkeel_core::control::peers`] to say.

mod array_cost;
mod head;
mod promises;
pub mod proof;
pub mod recording;
pub mod roster;
pub mod service;
pub mod sum;
mod varint;

use std::fmt;

use evenkeel_core::control::array_cost::ArrayCost;
use evenkeel_core::control::challenge::Proof;
use evenkeel_core::control::member::Method;
use evenkeel_core::control::name::{DeviceId, TenantNumber};
use evenkeel_core::control::promise::Told;
use evenkeel_core::control::summary::{
    COST_UNIT, FlowSummary, HostId, PART_FLOWS_MAX, PARTS_MAX, Part, Summary,
};
use evenkeel_core::control::sums::Shard;
use evenkeel_core::control::target::{Bounds, Target};
use evenkeel_core::sched::GOAL_WINDOW;
use evenkeel_core::ticket::Cost;
use evenkeel_core::time::Span;
use head::{HEAD_BYTES, Head};
use roster::RosterDatagram;
use service::ServiceDatagram;
use varint::Varints;

/// What every summary begins with.
pub const MAGIC: u16 = u16::from_be_bytes(*b"EX");

/// The version that is spoken here. Before 4 there were no sums, and over a server each gate heard
/// all words; before 3 a word was one datagram, before 2 tenants had no names in common, and no
/// costs were told.
pub const VERSION: u8 = 4;

/// Size of the tag behind the body.
pub const TAG_BYTES: usize = 16;

/// No datagram of this version is longer.
pub const DATAGRAM_BYTES_MAX: usize =
    HEAD_BYTES_MAX + PART_FLOWS_MAX * FLOW_BYTES_MAX + MORE_BYTES_MAX + TAG_BYTES;

/// What may follow the flows.
const MORE_BYTES_MAX: usize = array_cost::BYTES_MAX + promises::BYTES_MAX + proof::BYTES_MAX;

const HEAD_BYTES_MAX: usize =
    HEAD_BYTES + 3 * varint::BYTES_MAX_64 + varint::BYTES_MAX_32 + PART_BYTES_MAX + sum::BYTES_MAX;

/// A byte, and two tenants.
const PART_BYTES_MAX: usize = 9;

/// Eight counts of 32 bits, four times, a cost, a floor and a target of two times, a short number
/// and its kind, and a byte.
const FLOW_BYTES_MAX: usize = 8 * varint::BYTES_MAX_32 + 8 * varint::BYTES_MAX_64 + 4;

/// In the byte of the backlog: something waits for the tenant's own limit.
const LIMITED: u8 = 0x80;

/// Added to the kind of a target where a floor follows.
const WITH_FLOOR: u8 = 8;

/// A gate, and in which life it speaks.
pub type Speaker = (HostId, u64);

/// One datagram without its tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// The device that it is about.
    pub device: DeviceId,
    /// How the host decides.
    pub terms: Terms,
    /// What a host says of it.
    pub summary: Summary,
    /// What requests take of it, as far as the host knows; it says so now and then.
    pub cost: Option<ArrayCost>,
    /// What its policy says of some tenants; it says so now and then.
    pub told: Option<Told>,
    /// The gate that tells the summary, where that is a sum of several hosts' words. Costs and the
    /// policy are this gate's.
    pub collector: Option<Speaker>,
}

impl Datagram {
    /// The gate that speaks, and in which life.
    pub fn speaker(&self) -> Speaker {
        self.collector.unwrap_or((self.summary.host, self.summary.incarnation))
    }
}

/// How a host decides. Hosts before one device have these in common, or somebody hears of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its controller.
    pub method: Method,
    /// The length of a period, in whole milliseconds.
    pub period_ms: u32,
}

impl Terms {
    /// Of a controller and its period.
    pub fn new(method: Method, period: Span) -> Self {
        Self { method, period_ms: u32::try_from(period.0 / 1_000_000).unwrap_or(u32::MAX) }
    }

    fn number(self) -> u64 {
        u64::from(self.method.number()) + METHODS_MAX * u64::from(self.period_ms)
    }

    fn of(number: u64) -> Option<Self> {
        let method = u8::try_from(number % METHODS_MAX).ok()?;
        let period_ms = u32::try_from(number / METHODS_MAX).ok()?;
        Some(Self { method: Method::of_number(method)?, period_ms })
    }
}

/// The most controllers that a datagram can tell apart.
const METHODS_MAX: u64 = 8;

/// What a datagram is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A device that gates share.
    Summary(Datagram),
    /// Servers whose shares count together.
    Service(ServiceDatagram),
    /// Who is in the sum of a shard.
    Roster(RosterDatagram),
}

impl Word {
    /// Who speaks, and in which life.
    pub fn speaker(&self) -> Speaker {
        match self {
            Self::Summary(datagram) => datagram.speaker(),
            Self::Service(ServiceDatagram { service, .. }) => (service.host, service.incarnation),
            Self::Roster(datagram) => datagram.collector,
        }
    }
}

/// Why bytes are no datagram of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Malformed {
    /// Longer than any can be.
    Oversized,
    /// It ends before it is complete.
    Short,
    /// It does not begin as it should.
    Magic,
    /// It is of a version that is not known here.
    Version {
        /// Which.
        found: u8,
    },
    /// It tells of more tenants than a datagram may.
    Flows {
        /// How many.
        found: u8,
        /// How many it may.
        most: usize,
    },
    /// A field lies beyond its range, or is not in its shortest form.
    Field {
        /// Which.
        name: &'static str,
    },
    /// Something follows that does not belong to it.
    Trailing,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversized => write!(f, "it is longer than {DATAGRAM_BYTES_MAX} bytes"),
            Self::Short => write!(f, "it ends too soon"),
            Self::Magic => write!(f, "it is no datagram of the exchange"),
            Self::Version { found } => {
                write!(f, "it is of version {found}; this gate speaks version {VERSION}")
            }
            Self::Flows { found, most } => {
                write!(f, "it tells of {found} tenants; {most} are the most")
            }
            Self::Field { name } => write!(f, "its {name} is out of range"),
            Self::Trailing => write!(f, "more follows than its tenants"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Appends the body of a datagram; times are rounded down to whole microseconds.
///
/// # Panics
/// If the summary names more than [`PART_FLOWS_MAX`] tenants, is the only part of a word and does
/// not name all, or is a sum that nobody tells.
pub fn encode(datagram: &Datagram, out: &mut Vec<u8>) {
    let Summary { period, depth, part, sum, flows, .. } = &datagram.summary;
    assert_eq!(sum.is_some(), datagram.collector.is_some(), "a sum comes from a gate");
    assert!(flows.len() <= PART_FLOWS_MAX, "a part is bounded");
    let is_part = part.count != 1;
    let magic = if sum.is_some() { sum::MAGIC } else { MAGIC };
    let (host, incarnation) = datagram.speaker();
    Head { count: flows.len(), is_part, device: datagram.device, host }.push(magic, out);
    varint::push(out, incarnation);
    varint::push(out, *period);
    varint::push(out, datagram.terms.number());
    varint::push(out, u64::from(*depth));
    if is_part {
        encode_part(*part, out);
    } else {
        assert_eq!(*part, Part::WHOLE, "the only part tells of all");
    }
    if let Some(sum) = *sum {
        sum::push(&datagram.summary, sum, out);
    }
    for flow in flows {
        encode_flow(flow, out);
    }
    if let Some(cost) = &datagram.cost {
        array_cost::push(cost, out);
    }
    if let Some(told) = &datagram.told {
        promises::push(told, out);
    }
}

/// Reads the body of a datagram.
///
/// # Errors
/// [`Malformed`]: every byte has to be as [`encode`] writes it.
pub fn decode(body: &[u8]) -> Result<Datagram, Malformed> {
    let (datagram, rest) = figures(body)?;
    rest.end().map(|()| datagram)
}

/// A datagram, and what follows its figures.
fn figures(body: &[u8]) -> Result<(Datagram, Varints<'_>), Malformed> {
    let is_sum = body.starts_with(&sum::MAGIC.to_be_bytes());
    let magic = if is_sum { sum::MAGIC } else { MAGIC };
    let (head, mut fields) = Head::read(body, magic, PART_FLOWS_MAX)?;
    let speaker = (head.host, fields.u64("incarnation")?);
    let period = fields.u64("period")?;
    let name = "controller";
    let terms = Terms::of(fields.u64(name)?).ok_or(Malformed::Field { name })?;
    let depth = fields.u32("depth")?;
    let part = if head.is_part { decode_part(&mut fields)? } else { Part::WHOLE };
    let sum = if is_sum { Some(sum::read(&mut fields)?) } else { None };
    let flows = (0..head.count).map(|_| decode_flow(&mut fields)).collect::<Result<_, _>>()?;
    let cost = array_cost::read(&mut fields)?;
    let told = promises::read(&mut fields)?;
    let ((host, incarnation), sum, collector) = match sum {
        Some((counted_as, sum)) => (counted_as, Some(sum), Some(speaker)),
        // No gate has the number of a sum.
        None if Shard::of_sum(head.host).is_some() => {
            return Err(Malformed::Field { name: "host" });
        }
        None => (speaker, None, None),
    };
    let summary = Summary { host, incarnation, period, depth, part, sum, flows };
    Ok((Datagram { device: head.device, terms, summary, cost, told, collector }, fields))
}

/// Reads a body of any kind, and what it carries beside its figures.
///
/// # Errors
/// [`Malformed`]: every byte has to be as [`encode`], [`service::encode`], [`roster::encode`] and
/// [`proof::push`] write it.
pub fn read(body: &[u8]) -> Result<(Word, Proof), Malformed> {
    if body.starts_with(&service::MAGIC.to_be_bytes()) {
        let (datagram, mut rest) = service::figures(body)?;
        return Ok((Word::Service(datagram), proof::read(&mut rest)?));
    }
    if body.starts_with(&roster::MAGIC.to_be_bytes()) {
        let (datagram, mut rest) = roster::figures(body)?;
        return Ok((Word::Roster(datagram), proof::read(&mut rest)?));
    }
    let (datagram, mut rest) = figures(body)?;
    Ok((Word::Summary(datagram), proof::read(&mut rest)?))
}

/// Whose body of another version this is, if it is a gate's: versions have their head in common.
pub fn host_of(body: &[u8]) -> Option<HostId> {
    let host = body.get(8..HEAD_BYTES)?;
    Some(HostId(u32::from_be_bytes(host.try_into().ok()?)))
}

/// Appends the tag to a body.
pub fn sealed(mut body: Vec<u8>, tag: [u8; TAG_BYTES]) -> Vec<u8> {
    body.extend(tag);
    body
}

/// The body of what came in, and its tag.
///
/// # Errors
/// If it is too short or too long to be a datagram at all: nobody has to compute a tag for it.
pub fn opened(bytes: &[u8]) -> Result<(&[u8], &[u8; TAG_BYTES]), Malformed> {
    if bytes.len() > DATAGRAM_BYTES_MAX {
        return Err(Malformed::Oversized);
    }
    let (body, tag) = bytes.split_last_chunk().ok_or(Malformed::Short)?;
    if body.len() < HEAD_BYTES {
        return Err(Malformed::Short);
    }
    Ok((body, tag))
}

fn encode_part(part: Part, out: &mut Vec<u8>) {
    let Part { first, last, count } = part;
    out.push(count);
    out.extend(first.0.to_be_bytes());
    out.extend(last.0.to_be_bytes());
}

fn decode_part(fields: &mut Varints<'_>) -> Result<Part, Malformed> {
    let [count] = fields.fixed()?;
    let (first, last) = (u32::from_be_bytes(fields.fixed()?), u32::from_be_bytes(fields.fixed()?));
    if !(2..=PARTS_MAX).contains(&usize::from(count)) || first > last {
        return Err(Malformed::Field { name: "part" });
    }
    Ok(Part { first: TenantNumber(first), last: TenantNumber(last), count })
}

fn encode_flow(flow: &FlowSummary, out: &mut Vec<u8>) {
    out.extend(flow.tenant.0.to_be_bytes());
    varint::push(out, u64::from(flow.weight_milli));
    encode_promises(flow, out);
    for count in [flow.arrivals, flow.completions, flow.late] {
        varint::push(out, u64::from(count));
    }
    varint::push(out, flow.cost.0 / COST_UNIT);
    for time in [flow.device_time, flow.response_time, flow.slot_time] {
        varint::push(out, microseconds(time));
    }
    varint::push(out, u64::from(flow.outstanding));
    varint::push(out, u64::from(flow.queued));
    out.push(flow.backlogged_percent & !LIMITED | if flow.is_limited { LIMITED } else { 0 });
    varint::push(out, microseconds(flow.queued_age));
    varint::push(out, u64::from(flow.expected_per_s));
}

fn decode_flow(fields: &mut Varints<'_>) -> Result<FlowSummary, Malformed> {
    let tenant = TenantNumber(u32::from_be_bytes(fields.fixed()?));
    let weight_milli = fields.u32("weight")?;
    let (target, floor) = decode_promises(fields)?;
    let mut flow = FlowSummary {
        tenant,
        weight_milli,
        floor,
        target,
        arrivals: fields.u32("arrivals")?,
        completions: fields.u32("completions")?,
        late: fields.u32("late completions")?,
        cost: cost(fields, "cost")?,
        device_time: span(fields, "device time")?,
        response_time: span(fields, "response time")?,
        slot_time: span(fields, "slot time")?,
        outstanding: fields.u32("outstanding requests")?,
        queued: fields.u32("queued requests")?,
        ..FlowSummary::default()
    };
    let [backlogged] = fields.fixed()?;
    flow.backlogged_percent = backlogged & !LIMITED;
    flow.is_limited = backlogged & LIMITED != 0;
    flow.queued_age = span(fields, "age of the queue")?;
    flow.expected_per_s = fields.u32("expected arrivals")?;
    Ok(flow)
}

/// What was promised to a flow: its kind, and what the kind says that follows.
fn encode_promises(flow: &FlowSummary, out: &mut Vec<u8>) {
    let kind = flow.target.as_ref().map_or(0, kind);
    let has_floor = flow.floor.0 >= COST_UNIT;
    out.push(kind + if has_floor { WITH_FLOOR } else { 0 });
    if let Some(target) = &flow.target {
        encode_target(target, out);
    }
    if has_floor {
        varint::push(out, flow.floor.0 / COST_UNIT);
    }
}

/// What follows the kind of a target.
fn encode_target(target: &Target, out: &mut Vec<u8>) {
    let Target { bounds, latency_max, window } = *target;
    if let Bounds::AllBut { late_milli } = bounds {
        varint::push(out, u64::from(late_milli));
    }
    varint::push(out, microseconds(latency_max));
    if kind(target) <= 2 {
        varint::push(out, microseconds(window));
    }
}

/// Which bounds, and whether the window is the usual one.
fn kind(target: &Target) -> u8 {
    let is_usual = microseconds(target.window) == microseconds(GOAL_WINDOW);
    match (target.bounds, is_usual) {
        (Bounds::Mean, false) => 1,
        (Bounds::AllBut { .. }, false) => 2,
        (Bounds::Mean, true) => 3,
        (Bounds::AllBut { .. }, true) => 4,
    }
}

fn decode_promises(fields: &mut Varints<'_>) -> Result<(Option<Target>, Cost), Malformed> {
    let [byte] = fields.fixed()?;
    let target = decode_target(byte % WITH_FLOOR, fields)?;
    let floor = match byte / WITH_FLOOR {
        0 => Cost(0),
        1 => cost(fields, "floor")?,
        _ => return Err(Malformed::Field { name: "target" }),
    };
    // A floor of nothing is left out.
    if byte >= WITH_FLOOR && floor.0 == 0 {
        return Err(Malformed::Field { name: "floor" });
    }
    Ok((target, floor))
}

fn decode_target(kind: u8, fields: &mut Varints<'_>) -> Result<Option<Target>, Malformed> {
    let name = "target";
    let bounds = match kind {
        0 => return Ok(None),
        1 | 3 => Bounds::Mean,
        2 | 4 => {
            let late_milli = u16::try_from(fields.u32(name)?).unwrap_or(u16::MAX);
            if !(1..=999).contains(&late_milli) {
                return Err(Malformed::Field { name });
            }
            Bounds::AllBut { late_milli }
        }
        _ => return Err(Malformed::Field { name }),
    };
    let latency_max = span(fields, name)?;
    let window = if kind > 2 { GOAL_WINDOW } else { span(fields, name)? };
    // The usual window has a shorter form.
    if kind <= 2 && window == GOAL_WINDOW {
        return Err(Malformed::Field { name });
    }
    Ok(Some(Target { bounds, latency_max, window }))
}

fn cost(fields: &mut Varints<'_>, name: &'static str) -> Result<Cost, Malformed> {
    let units = fields.u64(name)?;
    units.checked_mul(COST_UNIT).map(Cost).ok_or(Malformed::Field { name })
}

fn microseconds(span: Span) -> u64 {
    span.0 / 1_000
}

fn span(fields: &mut Varints<'_>, name: &'static str) -> Result<Span, Malformed> {
    let us = fields.u64(name)?;
    us.checked_mul(1_000).map(Span).ok_or(Malformed::Field { name })
}
