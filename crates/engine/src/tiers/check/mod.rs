//! Checks a tiered volume without writing: fronts, what an opening would make of it, and map and
//! journal copy by copy.

mod notes;

use evenkeel_core::bytes::Bytes;

use super::format::head::Head;
use super::opening::Opening;
use super::refusal::{PARLANCE, Refusal};
use crate::care::{Case, Fronts, Kind, Reads, Report, Verdict, names, refused, rehearse};
use notes::Notes;

const KIND: Kind = Kind { words: PARLANCE, has_both_copies: true };

/// Everything that is wrong with the volume over these tiers, the slowest first.
pub fn check(extent_bytes: u64, case: &Case, reads: &mut dyn Reads) -> Report {
    let mut report = Report::default();
    let fronts = Fronts::<Head>::read(case, reads);
    fronts.report(KIND, case, &mut report);
    if report.has_away() {
        return report;
    }
    let open = || Opening::new(names(), extent_bytes, case.devices.clone()).knowing(case.witness);
    let mut opening = open();
    let opened = rehearse(&mut opening, reads);
    report.verdict = match &opened {
        Ok(_) if fronts.are_blank(case) => Verdict::Blank,
        Ok(_) => Verdict::Opens,
        Err(why) => {
            push_refusal(why, case, &mut report);
            opening = open().repairing();
            match rehearse(&mut opening, reads) {
                Ok(_) => {
                    for tier in (0..case.devices.len()).filter(|at| opening.is_rebuilt(*at)) {
                        report.mends(tier);
                    }
                    Verdict::NeedsRepair
                }
                Err(again) => {
                    push_refusal(&again, case, &mut report);
                    Verdict::Refused
                }
            }
        }
    };
    if report.verdict != Verdict::Blank
        && let Some(known) = opening.known_notes()
    {
        let size = Bytes(known.layout.size_bytes());
        let extent = Bytes(known.layout.extent_bytes);
        report.facts.push(("size", format!("{size} in extents of {extent}")));
        Notes::read(known, reads).report(&mut report);
    }
    report
}

fn push_refusal(why: &Refusal, case: &Case, report: &mut Report) {
    let member = case.devices.iter().position(|device| device.name == why.tier);
    let finding = refused(PARLANCE.part, member.unwrap_or(0), &why.reason.to_string());
    report.push_refusal(finding);
}
