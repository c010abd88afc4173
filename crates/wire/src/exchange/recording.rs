//! What a gate decided from, as bytes in a file: played again, it gives the same decisions.
//!
//! ```text
//! "EKEXREC3"  record ..          record: kind u8, length varint, body
//!
//! 1 seat     device u32, own u32, method u8, depth, period ns, threshold ns, count, member u32 ..
//! 2 heard    the newest period of this gate, then a datagram's body
//! 3 decided  the slots that followed, then the body of this gate's own, or of its last part
//! 4 vouched  device u32, gate u32, incarnation: another gate has proven that it lives in this life
//! 5 told     the body of a part of this gate's own, before the decision
//! 6 sums     device u32, flags: 1 others are heard by sums, 2 this gate is in that of its shard
//! ```
//!
//! Numbers without a width are varints. A seat begins a device anew, or goes on with other rules;
//! what follows of that device is by it. A record that is cut off ends the recording: the gate was
//! killed.

use evenkeel_core::control::member::{Method, Rules};
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::peers::HOSTS_MAX;
use evenkeel_core::control::summary::HostId;
use evenkeel_core::time::Span;

use super::varint::{self, Varints};
use super::{DATAGRAM_BYTES_MAX, Datagram, Malformed, decode, encode};

/// What a recording begins with.
pub const MAGIC: &[u8; 8] = b"EKEXREC3";

/// No record's body is longer.
const BODY_BYTES_MAX: u64 = (DATAGRAM_BYTES_MAX + 64 + 4 * HOSTS_MAX) as u64;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A gate takes part at a device, or goes on there with other rules or members.
    Seat {
        /// The device.
        device: DeviceId,
        /// The gate.
        own: HostId,
        /// What it decides by.
        rules: Rules,
        /// Who takes part, itself too.
        members: Vec<HostId>,
    },
    /// Another gate's word came in.
    Heard {
        /// The newest period of this gate.
        period: u64,
        /// Its word.
        datagram: Datagram,
    },
    /// Another gate has proven that it lives in this life.
    Vouched {
        /// The device.
        device: DeviceId,
        /// The other gate.
        host: HostId,
        /// Its life.
        incarnation: u64,
    },
    /// A part of this gate's own word of a period, before that is decided upon.
    Told {
        /// The part.
        datagram: Datagram,
    },
    /// Others are heard by the sums of their words from now on, or by their words again.
    Sums {
        /// The device.
        device: DeviceId,
        /// Which of both.
        hears_sums: bool,
        /// Whether this gate is in the sum of its shard.
        is_counted: bool,
    },
    /// A period was decided upon.
    Decided {
        /// The slots that followed.
        slots: u32,
        /// This gate's own word of the period, or the last part of it.
        datagram: Datagram,
    },
}

/// Appends a record.
pub fn push(out: &mut Vec<u8>, event: &Event) {
    let mut body = Vec::new();
    let kind = match event {
        Event::Seat { device, own, rules, members } => {
            push_seat(&mut body, (*device, *own), rules, members);
            1
        }
        Event::Heard { period, datagram } => {
            varint::push(&mut body, *period);
            encode(datagram, &mut body);
            2
        }
        Event::Decided { slots, datagram } => {
            varint::push(&mut body, u64::from(*slots));
            encode(datagram, &mut body);
            3
        }
        Event::Vouched { device, host, incarnation } => {
            for number in [u64::from(device.0), u64::from(host.0), *incarnation] {
                varint::push(&mut body, number);
            }
            4
        }
        Event::Told { datagram } => {
            encode(datagram, &mut body);
            5
        }
        Event::Sums { device, hears_sums, is_counted } => {
            let flags = u64::from(*hears_sums) + 2 * u64::from(*is_counted);
            for number in [u64::from(device.0), flags] {
                varint::push(&mut body, number);
            }
            6
        }
    };
    out.push(kind);
    varint::push(out, body.len() as u64);
    out.extend(body);
}

fn push_seat(
    body: &mut Vec<u8>,
    (device, own): (DeviceId, HostId),
    rules: &Rules,
    members: &[HostId],
) {
    let numbers = [
        u64::from(device.0),
        u64::from(own.0),
        u64::from(rules.method.number()),
        u64::from(rules.depth),
        rules.period.0,
        rules.threshold.0,
        members.len() as u64,
    ];
    let members = members.iter().map(|member| u64::from(member.0));
    numbers.into_iter().chain(members).for_each(|number| varint::push(body, number));
}

/// The records of a file, one after the other.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    rest: Varints<'a>,
}

impl<'a> Events<'a> {
    /// The records behind the magic.
    ///
    /// # Errors
    /// If it is no recording.
    pub fn of(file: &'a [u8]) -> Result<Self, Malformed> {
        let (magic, rest) = file.split_first_chunk().ok_or(Malformed::Magic)?;
        if magic == MAGIC {
            return Ok(Self { rest: Varints(rest) });
        }
        match magic.strip_prefix(b"EKEXREC") {
            Some(&[digit @ b'0'..=b'9']) => Err(Malformed::Version { found: digit - b'0' }),
            _ => Err(Malformed::Magic),
        }
    }

    /// The next record; none at the end, and at one that was cut off.
    ///
    /// # Errors
    /// If a record is not as [`push`] writes it. There is no way on.
    pub fn next_event(&mut self) -> Result<Option<Event>, Malformed> {
        let Some((&kind, rest)) = self.rest.0.split_first() else { return Ok(None) };
        let mut fields = Varints(rest);
        let length = match fields.u64("length of a record") {
            Err(Malformed::Short) => return Ok(None),
            length => length?,
        };
        if length > BODY_BYTES_MAX {
            return Err(Malformed::Oversized);
        }
        let length = usize::try_from(length).expect("checked above");
        let Some((body, rest)) = fields.0.split_at_checked(length) else { return Ok(None) };
        self.rest = Varints(rest);
        event(kind, Varints(body)).map(Some)
    }
}

fn event(kind: u8, mut body: Varints<'_>) -> Result<Event, Malformed> {
    match kind {
        1 => seat(&mut body),
        2 => {
            let period = body.u64("period")?;
            Ok(Event::Heard { period, datagram: decode(body.0)? })
        }
        3 => {
            let slots = body.u32("slots")?;
            Ok(Event::Decided { slots, datagram: decode(body.0)? })
        }
        4 => {
            let (device, host) = (DeviceId(body.u32("device")?), HostId(body.u32("gate")?));
            let incarnation = body.u64("incarnation")?;
            body.end()?;
            Ok(Event::Vouched { device, host, incarnation })
        }
        5 => Ok(Event::Told { datagram: decode(body.0)? }),
        6 => {
            let (device, name) = (DeviceId(body.u32("device")?), "flags");
            let flags = body.u32(name)?;
            if flags > 3 {
                return Err(Malformed::Field { name });
            }
            body.end()?;
            Ok(Event::Sums { device, hears_sums: flags & 1 != 0, is_counted: flags & 2 != 0 })
        }
        _ => Err(Malformed::Field { name: "kind" }),
    }
}

fn seat(body: &mut Varints<'_>) -> Result<Event, Malformed> {
    let (device, own) = (DeviceId(body.u32("device")?), HostId(body.u32("gate")?));
    let method = u8::try_from(body.u32("method")?).ok().and_then(Method::of_number);
    let method = method.ok_or(Malformed::Field { name: "method" })?;
    let depth = body.u32("depth")?;
    let (period, threshold) = (Span(body.u64("period")?), Span(body.u64("threshold")?));
    let count = usize::try_from(body.u32("members")?).unwrap_or(usize::MAX);
    if !(1..=HOSTS_MAX).contains(&count) || depth == 0 || period == Span::ZERO {
        return Err(Malformed::Field { name: "rules" });
    }
    let members = (0..count).map(|_| body.u32("member").map(HostId));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    body.end()?;
    Ok(Event::Seat { device, own, rules: Rules { method, period, depth, threshold }, members })
}

#[cfg(test)]
mod tests {
    use evenkeel_core::control::name::TenantNumber;
    use evenkeel_core::control::summary::{Part, Summary};

    use super::super::Terms;
    use super::*;

    fn events() -> Vec<Event> {
        let period = Span::from_millis(100);
        let rules = Rules { method: Method::Drg, period, depth: 16, threshold: period };
        let summary = Summary { host: HostId(2), period: 9, ..Summary::default() };
        let terms = Terms::new(Method::Drg, period);
        let datagram = Datagram { device: DeviceId(7), terms, summary, ..Datagram::default() };
        let members = vec![HostId(1), HostId(2)];
        let part = Part { first: TenantNumber(3), last: TenantNumber(9), count: 2 };
        let summary = Summary { part, ..datagram.summary.clone() };
        let part = Datagram { summary, ..datagram.clone() };
        vec![
            Event::Seat { device: DeviceId(7), own: HostId(1), rules, members },
            Event::Heard { period: 8, datagram: datagram.clone() },
            Event::Told { datagram: part },
            Event::Decided { slots: 5, datagram },
            Event::Vouched { device: DeviceId(7), host: HostId(2), incarnation: u64::MAX },
            Event::Sums { device: DeviceId(7), hears_sums: true, is_counted: false },
        ]
    }

    fn file() -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for event in &events() {
            push(&mut file, event);
        }
        file
    }

    fn read(file: &[u8]) -> Result<Vec<Event>, Malformed> {
        let mut events = Events::of(file)?;
        let mut all = Vec::new();
        while let Some(event) = events.next_event()? {
            all.push(event);
        }
        Ok(all)
    }

    #[test]
    fn what_is_recorded_is_read_back_up_to_where_it_was_cut_off() {
        let file = file();
        assert_eq!(read(&file), Ok(events()));
        for cut in MAGIC.len()..file.len() {
            let part = read(&file[..cut]).unwrap();
            assert!(part.len() < 6 && part[..] == events()[..part.len()]);
        }
    }

    #[test]
    fn damage_is_refused_and_never_more_than_a_record() {
        let file = file();
        assert_eq!(read(b"EKEXREC2"), Err(Malformed::Version { found: 2 }));
        assert_eq!(read(b"something else"), Err(Malformed::Magic));
        for position in 0..file.len() {
            let mut damaged = file.clone();
            damaged[position] ^= 0x55;
            let _ = read(&damaged);
        }
    }
}
