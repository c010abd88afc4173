//! What a check has found, for people and for scripts.

use std::fmt::Write;

use evenkeel_engine::care::{Doubt, Finding, Report, Severity, Verdict};
use serde_json::{Value, json};

use crate::{human, terminal};

/// What no check can tell, whatever it has found.
const NOT_TOLD: &str = "\
no check can tell: a member that was put back to a copy younger than the last durable mark that
others have of it; all members put back together, unless the data folder of the gate remembers more
";

/// All of it.
pub(super) fn report(volume: &str, report: &Report) -> String {
    let mut text = format!("{volume}: {}\n", verdict(report));
    if let Some(id) = report.volume {
        let _ = writeln!(text, "volume {id}");
    }
    text.push('\n');
    text += &members(report);
    text.push('\n');
    for owner in &report.owners {
        let _ = writeln!(text, "owner: {}; {}", owner.name, standing(report, owner.is_released));
    }
    if report.is_in_use {
        text += "in use: what is found may be of the moment; only what was found twice is said\n";
    }
    for (name, value) in &report.facts {
        let _ = writeln!(text, "{name}: {value}");
    }
    text.push('\n');
    text += &findings(report);
    text += NOT_TOLD;
    text
}

/// The findings, and their count.
pub(super) fn findings(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let place = place(report, finding);
        let _ = writeln!(text, "{}: {place}: {}", finding.severity, finding.what);
        let _ = writeln!(text, "  {}", finding.consequence);
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "  {}", finding.remedy);
        }
    }
    if report.omitted > 0 {
        let _ = writeln!(text, "and {} more", report.omitted);
    }
    let count = |severity, name| {
        let of_it = report.findings.iter().filter(|one| one.severity == severity);
        human::counted(of_it.count(), name)
    };
    let _ = writeln!(
        text,
        "{}, {}, {}",
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note")
    );
    text
}

/// Where something was found.
pub(super) fn place(report: &Report, finding: &Finding) -> String {
    let name = finding.member.and_then(|member| report.members.get(member));
    let mut words = name.map(|member| format!("{}: ", member.name)).unwrap_or_default();
    words += &finding.part;
    if let Some(offset) = finding.offset {
        let _ = write!(words, ", at byte {offset}");
    }
    words
}

fn verdict(report: &Report) -> &'static str {
    match report.verdict {
        Verdict::Unknown => "whether it opens cannot be told, since members are missing",
        Verdict::Blank => "there is no volume yet; the gate makes it when it opens the members",
        Verdict::Opens => "it opens",
        Verdict::NeedsRepair => "it is not opened, and opens after evenkeel volume repair",
        Verdict::Refused => "it is not opened",
    }
}

fn standing(report: &Report, is_released: bool) -> &'static str {
    match (is_released, report.is_in_use) {
        (true, _) => "it has let go",
        (false, true) => "it is at work",
        (false, false) => "it has not let go, and was silent while the check went on",
    }
}

fn members(report: &Report) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let rows = report.members.iter().map(|member| {
        let owner = match (&member.away, member.is_released) {
            (Some(_), _) => "cannot be reached",
            (None, Some(true)) => "has let go",
            (None, Some(false)) => "has not let go",
            (None, None) => "unknown",
        };
        vec![
            member.name.clone(),
            number(member.number.map(u64::from)),
            number(member.generation),
            number(member.count),
            owner.to_owned(),
        ]
    });
    let header = ["MEMBER", "NUMBER", "GENERATION", "COUNT", "<OWNER"];
    terminal::table(&header, &rows.collect::<Vec<_>>())
}

/// The same for scripts.
pub(super) fn document(volume: &str, report: &Report) -> Value {
    let verdict = match report.verdict {
        Verdict::Unknown => "unknown",
        Verdict::Blank => "blank",
        Verdict::Opens => "opens",
        Verdict::NeedsRepair => "needs_repair",
        Verdict::Refused => "refused",
    };
    json!({
        "volume": volume,
        "id": report.volume.map(|id| id.to_string()),
        "verdict": verdict,
        "in_use": report.is_in_use,
        "owners": report.owners.iter().map(|owner| json!({
            "name": owner.name,
            "has_let_go": owner.is_released,
            "has_served": owner.has_served,
        })).collect::<Vec<_>>(),
        "members": report.members.iter().map(|member| json!({
            "name": member.name,
            "unreachable": member.away,
            "volume": member.volume.map(|id| id.to_string()),
            "number": member.number,
            "generation": member.generation,
            "count": member.count,
            "has_let_go": member.is_released,
        })).collect::<Vec<_>>(),
        "facts": report.facts.iter().map(|(name, value)| json!({
            "name": name,
            "value": value,
        })).collect::<Vec<_>>(),
        "findings": report.findings.iter()
            .map(|finding| finding_document(report, finding))
            .collect::<Vec<_>>(),
        "omitted": report.omitted,
    })
}

/// One finding for scripts.
pub(super) fn finding_document(report: &Report, finding: &Finding) -> Value {
    let member = finding.member.and_then(|member| report.members.get(member));
    json!({
        "severity": finding.severity.to_string(),
        "member": member.map(|member| &member.name),
        "byte": finding.offset,
        "part": finding.part,
        "what": finding.what,
        "consequence": finding.consequence,
        "remedy": finding.remedy,
        "may_hide_a_loss": finding.doubt == Doubt::MayBeOlder,
    })
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::care::MemberReport;

    use super::*;

    fn sample() -> Report {
        Report {
            members: vec![MemberReport { name: "slow".to_owned(), ..MemberReport::default() }],
            findings: vec![Finding {
                severity: Severity::Warning,
                member: Some(0),
                offset: Some(4096),
                part: "head B".to_owned(),
                what: "it is damaged".to_owned(),
                consequence: "the other copy is the only one".to_owned(),
                remedy: "mend it".to_owned(),
                doubt: Doubt::None,
            }],
            verdict: Verdict::Opens,
            ..Report::default()
        }
    }

    #[test]
    fn a_finding_is_told_with_place_consequence_and_remedy() {
        let text = report("shelf", &sample());
        let expected = "warning: slow: head B, at byte 4096: it is damaged\n  the other copy is \
                        the only one\n  mend it\n0 errors, 1 warning, 0 notes\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn scripts_are_told_the_same() {
        let document = document("shelf", &sample());
        assert_eq!(document["findings"][0]["byte"], 4096);
        assert_eq!(document["findings"][0]["member"], "slow");
        assert_eq!(document["verdict"], "opens");
    }
}
