//! A cluster from the command line: so many servers, of sizes in turn, so many to a domain.

use super::{Described, Server};
use crate::exit::Exit;
use crate::units;

/// A cluster in few words.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::place) struct Flags {
    /// How many servers there are, where no file describes them.
    #[arg(long, value_name = "N", conflicts_with = "cluster")]
    servers: Option<u32>,
    /// Their size; several sizes with commas between them are taken in turn.
    #[arg(long, value_name = "SIZE,..", default_value = "4TiB", conflicts_with = "cluster")]
    #[arg(value_delimiter = ',', value_parser = units::parse_size)]
    size: Vec<u64>,
    /// How often hashing names them, in turn as the sizes; by their size if left out.
    #[arg(long, value_name = "W,..", value_delimiter = ',', conflicts_with = "cluster")]
    weight: Vec<u32>,
    /// How many of them fail as one; replicas lie in different domains.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "cluster")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    per_domain: u32,
}

impl Flags {
    /// The cluster; none if the flags do not speak of one.
    ///
    /// # Errors
    /// [`Exit::Invalid`] if it has too many servers, or none.
    pub(in crate::place) fn cluster(&self) -> anyhow::Result<Option<Described>> {
        let Some(count) = self.servers else { return Ok(None) };
        if count as usize > super::SERVERS_MAX {
            let what = format!("--servers {count} is more than {} can be", super::SERVERS_MAX);
            return Err(Exit::Usage.because(what));
        }
        let servers = (0..count).map(|number| self.server(number)).collect();
        Described { servers }.checked("the command line").map(Some)
    }

    /// Another server like those that are there, with a number of its own and in a domain of its
    /// own kind.
    fn server(&self, number: u32) -> Server {
        let turn = number as usize;
        let capacity_bytes = self.size[turn % self.size.len()];
        let weight = match self.weight.len() {
            0 => capacity_bytes,
            count => u64::from(self.weight[turn % count]),
        };
        Server {
            name: format!("s{number}"),
            capacity_bytes,
            weight,
            domain: format!("d{}", number / self.per_domain),
            used_bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_weights_are_taken_in_turn() {
        let flags = Flags { servers: Some(5), size: vec![4, 8], weight: vec![], per_domain: 2 };
        let cluster = flags.cluster().unwrap().unwrap();
        let shown: Vec<_> = cluster
            .servers
            .iter()
            .map(|one| (one.name.as_str(), one.capacity_bytes, one.weight, one.domain.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("s0", 4, 4, "d0"),
                ("s1", 8, 8, "d0"),
                ("s2", 4, 4, "d1"),
                ("s3", 8, 8, "d1"),
                ("s4", 4, 4, "d2"),
            ]
        );
        let flags = Flags { weight: vec![1], ..flags };
        assert_eq!(flags.cluster().unwrap().unwrap().servers[1].weight, 1);
        assert!(Flags { servers: None, ..flags.clone() }.cluster().unwrap().is_none());
        assert!(Flags { servers: Some(10_001), ..flags }.cluster().is_err());
    }
}
