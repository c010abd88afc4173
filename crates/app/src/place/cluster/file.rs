//! A cluster from a file (TOML), each mistake shown where it was made:
//!
//! ```toml
//! [[servers]]
//! count = 40               # so many alike (1)
//! size = "4 TiB"
//! per_domain = 4           # of which so many fail as one (1)
//!
//! [[servers]]
//! name = "archive"         # archive-0, archive-1, .. if there are several
//! count = 2
//! size = "16 TiB"
//! weight = 8               # how often hashing names it; the size in TiB if left out
//! domain = "cellar"        # all of them fail as one
//! used = "1 TiB"           # what each holds (nothing)
//! ```

use toml::Spanned;
use toml::de::DeTable;

use super::{Described, SERVERS_MAX, Server};
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::Fields;
use crate::config::values;
use crate::exit::Exit;

/// Bytes of a weight of one thousandth: a weight of 1 is that of a TiB.
const WEIGHT_STEP: u64 = (1 << 40) / 1000;

/// Parses a description; `name` is what findings call the file.
pub(super) fn parse(text: &str, name: &str) -> anyhow::Result<Described> {
    let mut out = Diagnostics::new(name, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let message = error.message().trim().replace('\n', ", ");
        out.error(error.span().unwrap_or(0..0), message, "");
    }
    let mut fields = Fields::new("the cluster", table.get_ref(), 0..0);
    let kinds = fields.tables("servers", kind, &mut out);
    fields.finish(&mut out);
    if kinds.is_empty() && !out.has_errors() {
        out.error(0..0, "no servers are described", "write `[[servers]]` with `size = ..`");
    }
    if out.has_errors() {
        out.sort();
        return Err(Exit::Invalid.because(out));
    }
    let mut servers = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        servers.extend((0..kind.count).map(|index| kind.server(number, index)));
    }
    Ok(Described { servers })
}

/// Servers that are alike.
struct Kind {
    name: Option<String>,
    count: u32,
    size_bytes: u64,
    weight: Option<u64>,
    per_domain: u32,
    domain: Option<String>,
    used_bytes: u64,
}

impl Kind {
    fn server(&self, number: usize, index: u32) -> Server {
        let name = match (&self.name, self.count) {
            (Some(name), 1) => name.clone(),
            (Some(name), _) => format!("{name}-{index}"),
            (None, _) => format!("s{number}-{index}"),
        };
        let domain = match &self.domain {
            Some(domain) => domain.clone(),
            None => format!("{number}/{}", index / self.per_domain),
        };
        Server {
            name,
            capacity_bytes: self.size_bytes,
            weight: self.weight.unwrap_or(self.size_bytes),
            domain,
            used_bytes: self.used_bytes,
        }
    }
}

fn kind(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Kind> {
    let name = fields.optional("name", values::text, out);
    let count = fields.optional("count", values::whole, out);
    let size = fields.required("size", values::size, out);
    let weight = fields.optional("weight", values::thousandths, out);
    let per_domain = fields.optional("per_domain", values::whole, out);
    let domain = fields.optional("domain", values::text, out);
    let used = fields.optional("used", values::size, out);
    if let Some(count) = &count
        && !(1..=SERVERS_MAX).contains(&(*count.get_ref() as usize))
    {
        out.error(count.span(), "so many servers cannot be filled", "write 1 to 10000");
    }
    if let Some(per_domain) = &per_domain
        && *per_domain.get_ref() == 0
    {
        out.error(per_domain.span(), "no server at all fails as one", "write 1 or more");
    }
    let size_bytes = size?.into_inner();
    if let Some(used) = &used
        && *used.get_ref() > size_bytes
    {
        out.error(used.span(), "a server holds more than its size", "lower it, or raise `size`");
    }
    Some(Kind {
        name: name.map(Spanned::into_inner),
        count: count.map_or(1, Spanned::into_inner),
        size_bytes,
        weight: weight.map(|milli| u64::from(milli.into_inner()) * WEIGHT_STEP),
        per_domain: per_domain.map_or(1, |number| number.into_inner().max(1)),
        domain: domain.map(Spanned::into_inner),
        used_bytes: used.map_or(0, Spanned::into_inner),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_servers() {
        let text = "[[servers]]\ncount = 3\nsize = \"4 TiB\"\nper_domain = 2\n\
                    [[servers]]\nname = \"big\"\nsize = \"16 TiB\"\nweight = 8\n\
                    domain = \"cellar\"\nused = \"1 TiB\"\n";
        let cluster = parse(text, "cluster.toml").unwrap();
        let names: Vec<_> =
            cluster.servers.iter().map(|one| (one.name.as_str(), one.domain.as_str())).collect();
        assert_eq!(names, [("s0-0", "0/0"), ("s0-1", "0/0"), ("s0-2", "0/1"), ("big", "cellar")]);
        let big = &cluster.servers[3];
        assert_eq!((big.capacity_bytes, big.used_bytes), (16 << 40, 1 << 40));
        assert!((big.weight as f64 / (8u64 << 40) as f64 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let text = "[[servers]]\nsize = \"4 TiB\"\nused = \"5 TiB\"\ncuont = 3\ncount = 0\n";
        let error = parse(text, "cluster.toml").unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Invalid);
        let shown = error.to_string();
        for part in ["cluster.toml:3:8", "did you mean `count`?", "cluster.toml:5:9"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(parse("", "x").unwrap_err().to_string().contains("no servers"));
    }
}
