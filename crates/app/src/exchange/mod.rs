//! `evenkeel exchange`: what a gate decided with others, decided once more from its recording.
//!
//! The controllers are the gate's own, and all that they decide from is in the file. So every
//! decision has to come out as it did; and with `--control` one sees what another controller would
//! have decided from the same, as far as that did not change what came next.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use evenkeel_core::control::member::{Member, Method, Rules};
use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::{FlowSummary, HostId, Part, Summary};
use evenkeel_wire::exchange::recording::{Event, Events};
use serde::Serialize;

use crate::exit::Exit;
use crate::terminal;

/// Arguments of `evenkeel exchange`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel exchange exchange.rec
  evenkeel exchange exchange.rec --json
  evenkeel exchange exchange.rec --control parda

Ends with 1 if a decision comes out otherwise than it did.")]
pub struct Args {
    /// What `record` in [exchange] of the policy wrote.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Decide by this controller in place of the recorded one.
    #[arg(long, value_parser = method)]
    control: Option<Method>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn method(word: &str) -> Result<Method, String> {
    let known = Method::ALL.into_iter().find(|method| method.name() == word);
    known.ok_or_else(|| "choose shares, slack, drg, parda or window".to_owned())
}

/// What came of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Replayed {
    device: String,
    control: String,
    heard: u64,
    refused: u64,
    decisions: u64,
    otherwise: u64,
    recorded_slots: u64,
    new_slots: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// A file that cannot be read, or is no recording.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = args.recording.display();
    let bytes = std::fs::read(&args.recording).with_context(|| format!("cannot read {name}"))?;
    let replayed = replay(&bytes, args.control)
        .with_context(|| format!("{name} is no recording of an exchange, or damaged"))?;
    if args.json {
        terminal::json(&replayed)?;
    } else {
        terminal::data(&table(&replayed))?;
    }
    let is_same = args.control.is_some() || replayed.iter().all(|device| device.otherwise == 0);
    Ok(if is_same { Exit::Success } else { Exit::Failed })
}

/// Decides all that is in a recording once more.
fn replay(bytes: &[u8], control: Option<Method>) -> anyhow::Result<Vec<Replayed>> {
    let mut seats: BTreeMap<DeviceId, (Member, Replayed)> = BTreeMap::new();
    let mut told: BTreeMap<DeviceId, Vec<FlowSummary>> = BTreeMap::new();
    let mut events = Events::of(bytes)?;
    while let Some(event) = events.next_event()? {
        match event {
            Event::Seat { device, own, rules, members } => {
                let rules = Rules { method: control.unwrap_or(rules.method), ..rules };
                sit_down(&mut seats, (device, own), &members, rules);
            }
            Event::Heard { period, datagram } => {
                let Some((member, replayed)) = seats.get_mut(&datagram.device) else { continue };
                replayed.heard += 1;
                replayed.refused += u64::from(member.hear(period, datagram.summary).is_err());
            }
            Event::Vouched { device, host, incarnation } => {
                if let Some((member, _)) = seats.get_mut(&device) {
                    member.vouch(host, incarnation);
                }
            }
            Event::Sums { device, hears_sums, is_counted } => {
                let Some((member, _)) = seats.get_mut(&device) else { continue };
                match (hears_sums, member.hears_sums()) {
                    (true, false) => member.hear_sums(),
                    // A seat follows, with the gates that are heard.
                    (false, true) => member.hear_words(&[]),
                    _ => {}
                }
                member.note_counted(is_counted);
            }
            Event::Told { datagram } => {
                told.entry(datagram.device).or_default().extend(datagram.summary.flows);
            }
            Event::Decided { slots, datagram } => {
                let mut flows = told.remove(&datagram.device).unwrap_or_default();
                flows.extend(&datagram.summary.flows);
                let own = Summary { flows, part: Part::WHOLE, ..datagram.summary };
                let Some((member, replayed)) = seats.get_mut(&datagram.device) else { continue };
                let decision = member.decide(own).decision;
                replayed.decisions += 1;
                replayed.otherwise += u64::from(decision.slots != slots);
                replayed.recorded_slots += u64::from(slots);
                replayed.new_slots += u64::from(decision.slots);
            }
        }
    }
    Ok(seats.into_values().map(|(_, replayed)| replayed).collect())
}

fn sit_down(
    seats: &mut BTreeMap<DeviceId, (Member, Replayed)>,
    (device, own): (DeviceId, HostId),
    members: &[HostId],
    rules: Rules,
) {
    let (member, replayed) = seats.entry(device).or_insert_with(|| {
        let replayed = Replayed { device: format!("{:08x}", device.0), ..Replayed::default() };
        (Member::new(own, members, rules), replayed)
    });
    member.change(members, rules);
    rules.method.name().clone_into(&mut replayed.control);
}

fn table(replayed: &[Replayed]) -> String {
    let mean =
        |sum: u64, device: &Replayed| format!("{:.1}", sum as f64 / device.decisions.max(1) as f64);
    let rows: Vec<_> = replayed
        .iter()
        .map(|device| {
            vec![
                device.device.clone(),
                device.control.clone(),
                device.heard.to_string(),
                device.refused.to_string(),
                device.decisions.to_string(),
                device.otherwise.to_string(),
                mean(device.recorded_slots, device),
                mean(device.new_slots, device),
            ]
        })
        .collect();
    let header = [
        "DEVICE",
        "<CONTROL",
        "HEARD",
        "REFUSED",
        "DECISIONS",
        "OTHERWISE",
        "SLOTS RECORDED",
        "REPLAYED",
    ];
    terminal::table(&header, &rows)
}

#[cfg(test)]
mod tests {
    use evenkeel_core::time::Span;
    use evenkeel_wire::exchange::Datagram;
    use evenkeel_wire::exchange::recording::{MAGIC, push};

    use super::*;

    const DEVICE: DeviceId = DeviceId(7);

    fn datagram(host: u32, period: u64) -> Datagram {
        let flow = FlowSummary {
            weight_milli: 1000,
            arrivals: 30,
            completions: 30,
            device_time: Span::from_millis(600 + 10 * (period % 7)),
            slot_time: Span::from_millis(600 + 10 * (period % 7)),
            queued: 200,
            expected_per_s: 300,
            ..FlowSummary::default()
        };
        let host = HostId(host);
        let summary =
            Summary { host, incarnation: 1, period, flows: vec![flow], ..Summary::default() };
        Datagram { device: DEVICE, summary, ..Datagram::default() }
    }

    /// What a gate would have recorded in twenty seconds.
    fn recording() -> Vec<u8> {
        let (period, threshold) = (Span::from_millis(100), Span::from_millis(20));
        let rules = Rules { method: Method::Slack, period, depth: 16, threshold };
        let members = vec![HostId(1), HostId(2)];
        let mut member = Member::new(HostId(1), &members, rules);
        let mut file = MAGIC.to_vec();
        push(&mut file, &Event::Seat { device: DEVICE, own: HostId(1), rules, members });
        for period in 1..200 {
            let heard = datagram(2, period);
            let _ = member.hear(period, heard.summary.clone());
            push(&mut file, &Event::Heard { period, datagram: heard });
            let own = datagram(1, period);
            let slots = member.decide(own.summary.clone()).decision.slots;
            push(&mut file, &Event::Decided { slots, datagram: own });
        }
        file
    }

    #[test]
    fn every_decision_comes_out_as_it_did_and_another_controller_decides_otherwise() {
        let recording = recording();
        let same = replay(&recording, None).unwrap();
        assert_eq!((same[0].decisions, same[0].heard, same[0].otherwise), (199, 199, 0));
        let other = replay(&recording, Some(Method::Window)).unwrap();
        assert!(other[0].otherwise > 0 && other[0].control == "window", "{other:?}");
        assert!(replay(b"something else", None).is_err());
    }
}
