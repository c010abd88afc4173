//! `evenkeel explain`: why each tenant gets no more than it does, in one sentence each, and what
//! enforcing would bring where nobody is held back yet.

use evenkeel_engine::policy::Mode;
use serde::Serialize;

use crate::advise;
use crate::config;
use crate::control::client::{Client, ControlArgs};
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::status::{Domain, Finding, Status, Tenant};
use crate::terminal;

/// Arguments of `evenkeel explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel explain                       every tenant that has asked for something lately
  evenkeel explain db
  evenkeel explain --json | jq '.[] | select(.standing == \"below_its_due\")'

It covers the last five to ten seconds. The causes are listed in docs/status.md. Where the policy is
not enforced and a tenant has less than it is due, it foretells from the last minute what enforcing
would bring; `evenkeel advise` has more, and JSON.")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Only this tenant.
    tenant: Option<String>,
    /// Print JSON: an array with an object for each tenant and domain.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A gate that does not answer, or has no such tenant.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.control.client();
    let status: Status = block_on(client.get("/v1/status"))?;
    let rows = rows(&status, args.tenant.as_deref());
    if let (Some(name), true) = (&args.tenant, rows.is_empty()) {
        let message = format!("the gate knows no tenant `{name}`: `evenkeel explain` lists all");
        return Err(Exit::Invalid.because(message));
    }
    let text = if args.json { as_json(&rows)? } else { as_text(&status, &rows) };
    terminal::data(&text)?;
    if !args.json
        && status.mode != config::mode_name(Mode::Enforce)
        && rows.iter().any(|(_, one)| one.finding.is_below())
    {
        foretell(&client, args.tenant.as_deref())?;
    }
    Ok(Exit::Success)
}

/// What enforcing would bring, where it would bring something.
fn foretell(client: &Client, tenant: Option<&str>) -> anyhow::Result<()> {
    match advise::in_short(client, tenant) {
        Ok(table) => terminal::data(&format!("\nif the policy were enforced:\n{table}"))?,
        Err(why) => terminal::say(&format!("what enforcing would bring is not known yet: {why:#}")),
    }
    Ok(())
}

/// A tenant in a domain.
type Row<'a> = (&'a Domain, &'a Tenant);

/// This tenant, or all that have asked for something lately or are kept from it.
fn rows<'a>(status: &'a Status, name: Option<&str>) -> Vec<Row<'a>> {
    let tenants = status
        .domains
        .iter()
        .flat_map(|domain| domain.tenants.iter().map(move |tenant| (domain, tenant)));
    let named: Vec<_> =
        tenants.filter(|(_, one)| name.is_none_or(|name| one.name == name)).collect();
    let busy: Vec<_> = named.iter().copied().filter(|(_, one)| !one.finding.is_idle()).collect();
    if name.is_some() && busy.is_empty() { named.into_iter().take(1).collect() } else { busy }
}

/// A row for programs.
#[derive(Serialize)]
struct Object<'a> {
    domain: &'a str,
    tenant: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

fn as_json(rows: &[Row<'_>]) -> anyhow::Result<String> {
    let objects = rows.iter().map(|(domain, tenant)| Object {
        domain: &domain.name,
        tenant: &tenant.name,
        finding: &tenant.finding,
    });
    Ok(serde_json::to_string_pretty(&objects.collect::<Vec<_>>())? + "\n")
}

fn as_text(status: &Status, rows: &[Row<'_>]) -> String {
    if rows.is_empty() {
        return "nobody has asked for anything in the last seconds\n".to_owned();
    }
    let several = status.domains.len() > 1;
    let mut text = String::new();
    for (domain, tenant) in rows {
        let finding = &tenant.finding;
        let place = if several { format!(" ({})", domain.name) } else { String::new() };
        let mark = if finding.is_below() { "!" } else { " " };
        text += &format!("{mark} {}{place}\n", finding.sentence);
        if !finding.remedy.is_empty() {
            text += &format!("    -> {}\n", finding.remedy);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let finding = |standing: &str, sentence: &str, remedy: &str| Finding {
            standing: standing.to_owned(),
            sentence: sentence.to_owned(),
            remedy: remedy.to_owned(),
            ..Finding::default()
        };
        let tenant =
            |name: &str, finding| Tenant { name: name.to_owned(), finding, ..Tenant::default() };
        let tenants = vec![
            tenant("default", finding("idle", "default has asked for nothing lately", "")),
            tenant("db", finding("below_its_due", "db has little", "do something")),
            tenant("backup", finding("has_its_due", "backup has much", "")),
        ];
        let domain = Domain { name: "array".to_owned(), tenants, ..Domain::default() };
        Status { domains: vec![domain], ..Status::default() }
    }

    #[test]
    fn who_is_below_its_due_is_marked_and_who_asks_for_nothing_left_out() {
        let status = status();
        let text = as_text(&status, &rows(&status, None));
        assert_eq!(text, "! db has little\n    -> do something\n  backup has much\n");
        let text = as_text(&status, &rows(&status, Some("default")));
        assert_eq!(text, "  default has asked for nothing lately\n");
        assert!(rows(&status, Some("nobody")).is_empty());
    }

    #[test]
    fn programs_get_an_object_for_each() {
        let status = status();
        let text = as_json(&rows(&status, Some("db"))).unwrap();
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(all[0]["tenant"], "db");
        assert_eq!(all[0]["domain"], "array");
        assert_eq!(all[0]["standing"], "below_its_due");
        assert_eq!(all[0]["remedy"], "do something");
    }
}
