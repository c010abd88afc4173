//! Checks a spread volume without writing: fronts, what an opening would make of it, and tables and
//! choices copy by copy.

mod notes;

use evenkeel_core::bytes::Bytes;

use super::format::head::Head;
use super::layout::{Layout, Shape};
use super::opening::Opening;
use super::refusal::{PARLANCE, Refusal};
use super::volume::Volume;
use crate::care::{
    Case, Doubt, Finding, Fronts, Kind, Reads, Report, Severity, Verdict, names, refused, rehearse,
};
use crate::lease::settled;
use notes::{Known, Notes};

const KIND: Kind = Kind { words: PARLANCE, has_both_copies: false };

/// Everything that is wrong with the volume over these servers. `leaving` says, server by server,
/// which ones the policy wants to be left by their objects.
pub fn check(shape: Shape, leaving: &[bool], case: &Case, reads: &mut dyn Reads) -> Report {
    let mut report = Report::default();
    let fronts = Fronts::<Head>::read(case, reads);
    fronts.report(KIND, case, &mut report);
    let mut away = (0..case.devices.len()).filter(|server| case.away[*server].is_some());
    let first_away = away.next();
    if away.next().is_some() {
        return report;
    }
    let open = || {
        let opening = Opening::new(names(), shape, case.devices.clone(), leaving.to_vec());
        let opening = opening.knowing(case.witness);
        first_away.into_iter().fold(opening, Opening::without)
    };
    let mut opening = open();
    let mut opened = rehearse(&mut opening, reads);
    report.verdict = match &opened {
        Ok(_) if fronts.are_blank(case) => Verdict::Blank,
        Ok(_) => Verdict::Opens,
        Err(why) => {
            push_refusal(why, case, &mut report);
            opening = open().repairing();
            opened = rehearse(&mut opening, reads);
            match &opened {
                Ok(_) => {
                    for server in (0..case.devices.len()).filter(|at| opening.is_rebuilt(*at)) {
                        report.mends(server);
                    }
                    Verdict::NeedsRepair
                }
                Err(again) => {
                    push_refusal(again, case, &mut report);
                    Verdict::Refused
                }
            }
        }
    };
    if report.verdict == Verdict::Blank {
        return report;
    }
    let volume = opened.ok().or_else(|| opening.take_claimed());
    let Some(volume) = volume else { return report };
    let is_member: Vec<bool> = (0..case.devices.len())
        .map(|server| fronts.by_member[server].head.is_some() || opening.is_rebuilt(server))
        .collect();
    let heads = fronts.by_member.iter().filter_map(|front| front.head);
    let members = heads.max_by_key(|head| head.generation).map(|head| head.members);
    let layout =
        Layout { members: members.unwrap_or(volume.layout.members), ..volume.layout.clone() };
    let known = Known {
        volume: &volume,
        layout,
        half: settled(&fronts.of_volume()).half,
        is_there: is_member,
    };
    Notes::read(known, reads).report(&mut report);
    report_volume(&volume, &mut report);
    report
}

/// Tells what the volume is, and which of its objects are lost.
fn report_volume(volume: &Volume, report: &mut Report) {
    let layout = &volume.layout;
    let [size, object] = [layout.size_bytes(), layout.object_bytes].map(Bytes);
    report.facts.push(("size", format!("{size} in objects of {object}")));
    let written = volume.places.known().filter(|(_, place)| place.get().is_some()).count();
    report.facts.push(("objects written", written.to_string()));
    if volume.objects_left() > 0 {
        report
            .facts
            .push(("objects that pass to other servers", volume.objects_left().to_string()));
    }
    for &object in &volume.lost {
        let start = u64::from(object) * layout.object_bytes;
        let chosen = volume.choices.choice(u64::from(object));
        report.push(Finding {
            severity: Severity::Error,
            member: chosen.and_then(|position| volume.candidate(object, position)),
            offset: None,
            part: format!("object {object}"),
            what: "its choice names the server, and no slot there is noted for it".to_owned(),
            consequence: format!(
                "bytes {start} to {} of the volume are lost; reads and writes of them fail",
                start + layout.object_bytes - 1
            ),
            remedy: "restore them from a backup".to_owned(),
            doubt: Doubt::None,
        });
    }
}

fn push_refusal(why: &Refusal, case: &Case, report: &mut Report) {
    let member = case.devices.iter().position(|device| device.name == why.server);
    let finding = refused(PARLANCE.part, member.unwrap_or(0), &why.reason.to_string());
    report.push_refusal(finding);
}
