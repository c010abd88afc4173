//! The servers of a cluster as somebody described them: sizes, weights, failure domains, and what
//! they hold.
//!
//! ```text
//! --servers 44 --size 4TiB        \
//! cluster.toml                     >  Described --members--> core::place
//! ceph osd df tree, crush dump    /
//! ```
//!
//! A server's size says how much it can hold, its weight how often hashing names it; they are the
//! same unless something else is said.

mod ceph;
mod file;
mod flags;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use evenkeel_core::id::ServerId;
use evenkeel_core::place::cluster::{ClusterError, DomainId, GroupMap, GroupOptions, Member};

use crate::exit::Exit;

pub(super) use ceph::{Osd, osds};
pub(super) use flags::Flags;

/// Most servers of a cluster.
pub(super) const SERVERS_MAX: usize = 10_000;

/// The largest file that is read; `ceph osd df tree` of 10,000 OSDs has 8 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The largest server, and so the largest cluster: sums of bytes stay within 64 bits.
const CAPACITY_BYTES_MAX: u64 = 1 << 50;

/// The cluster of somebody's description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    /// Its servers, 1 to [`SERVERS_MAX`].
    pub(super) servers: Vec<Server>,
}

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    /// What people call it.
    pub(super) name: String,
    /// What it can hold.
    pub(super) capacity_bytes: u64,
    /// How often hashing names it, relative to the others; zero for never.
    pub(super) weight: u64,
    /// What it fails with.
    pub(super) domain: String,
    /// What it holds.
    pub(super) used_bytes: u64,
}

impl Described {
    /// Reads a description: TOML, or what Ceph prints as JSON; `-` is the standard input.
    /// `domain_type` is the kind of bucket that fails as one in a Ceph cluster.
    ///
    /// # Errors
    /// [`Exit::Runtime`] for a file that cannot be read, [`Exit::Invalid`] for one with mistakes.
    pub(super) fn read(path: &Path, domain_type: &str) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = read(path)?;
        let described = if text.trim_start().starts_with('{') {
            ceph::parse(&text, &name, domain_type)?
        } else {
            file::parse(&text, &name)?
        };
        described.checked(&name)
    }

    /// Refuses what cannot be a cluster.
    fn checked(self, name: &str) -> anyhow::Result<Self> {
        let count = self.servers.len();
        if !(1..=SERVERS_MAX).contains(&count) {
            let what = format!("{name} has {count} servers; 1 to {SERVERS_MAX} can be filled");
            return Err(Exit::Invalid.because(what));
        }
        if let Some(large) =
            self.servers.iter().find(|server| server.capacity_bytes > CAPACITY_BYTES_MAX)
        {
            let what = format!("{name}: {} is larger than 1024 TiB; is it one server?", large.name);
            return Err(Exit::Invalid.because(what));
        }
        if self.servers.iter().all(|server| server.capacity_bytes == 0 || server.weight == 0) {
            let what = format!("{name}: no server has both size and weight");
            return Err(Exit::Invalid.because(what));
        }
        Ok(self)
    }

    /// The servers as the algorithms take them, by position, able to hold this part of their size.
    pub(super) fn members(&self, full_part: f64) -> Vec<Member> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "parts of it")]
        let room = |server: &Server| (server.capacity_bytes as f64 * full_part) as u64;
        self.with(room)
    }

    /// The table of groups.
    ///
    /// # Errors
    /// [`Exit::Usage`] if the servers cannot hold so many replicas apart.
    pub(super) fn groups(&self, options: GroupOptions) -> anyhow::Result<GroupMap> {
        // A server without room takes part in nothing, whatever its weight.
        let weight = |server: &Server| if server.capacity_bytes > 0 { server.weight } else { 0 };
        GroupMap::new(&self.with(weight), options).map_err(|error| {
            let remedy = match error {
                ClusterError::Domains { .. } => {
                    "; ask for fewer --replicas, or for smaller failure domains"
                }
                ClusterError::Options(_) | ClusterError::Sets { .. } => "",
            };
            Exit::Usage.because(format!("{error}{remedy}"))
        })
    }

    /// What the servers hold, by position.
    pub(super) fn used_bytes(&self) -> Vec<u64> {
        self.servers.iter().map(|server| server.used_bytes).collect()
    }

    /// What all of them can hold together.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.servers.iter().map(|server| server.capacity_bytes).sum()
    }

    /// How many failure domains there are.
    pub(super) fn domains(&self) -> usize {
        self.domain_numbers().len()
    }

    fn domain_numbers(&self) -> BTreeMap<&str, u32> {
        let mut numbers = BTreeMap::new();
        for server in &self.servers {
            let next = u32::try_from(numbers.len()).expect("no more domains than servers");
            numbers.entry(server.domain.as_str()).or_insert(next);
        }
        numbers
    }

    fn with(&self, capacity: impl Fn(&Server) -> u64) -> Vec<Member> {
        let domains = self.domain_numbers();
        let member = |(number, server): (u32, &Server)| Member {
            server: ServerId(number),
            capacity_bytes: capacity(server),
            domain: DomainId(domains[server.domain.as_str()]),
        };
        (0..).zip(&self.servers).map(member).collect()
    }
}

/// A file, or the standard input for `-`.
fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let result = if path.as_os_str() == "-" {
        std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text)
    } else {
        std::fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
    };
    result.map_err(|error| {
        Exit::Runtime.because(format!("cannot read {}: {error}", path.display()))
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, capacity_bytes: u64, weight: u64, domain: &str) -> Server {
        let (name, domain) = (name.to_owned(), domain.to_owned());
        Server { name, capacity_bytes, weight, domain, used_bytes: 0 }
    }

    #[test]
    fn weights_draw_groups_and_sizes_hold_bytes() {
        let servers = vec![
            server("a", 1000, 3, "x"),
            server("b", 1000, 1, "y"),
            server("c", 0, 5, "z"),
            server("d", 1000, 0, "z"),
        ];
        let described = Described { servers }.checked("test").unwrap();
        assert_eq!((described.domains(), described.capacity_bytes()), (3, 3000));
        assert_eq!(described.members(0.9)[0].capacity_bytes, 900);
        let options = GroupOptions { group_bits: 12, replicas: 1, seed: 1 };
        let map = described.groups(options).unwrap();
        let first = map.sets().filter(|set| set[0] == ServerId(0)).count();
        assert!(first.abs_diff(3072) < 120 && map.server_rows() == 2, "{first}");
        let error = described.groups(GroupOptions { replicas: 3, ..options }).unwrap_err();
        assert!(error.to_string().contains("failure domains"), "{error}");
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        let none = Described { servers: Vec::new() }.checked("test").unwrap_err();
        assert_eq!(Exit::of(&none), Exit::Invalid);
        let servers = vec![server("a", 1 << 51, 1, "x")];
        assert!(Described { servers }.checked("test").unwrap_err().to_string().contains("a is"));
        assert!(Described { servers: vec![server("a", 5, 0, "x")] }.checked("test").is_err());
    }
}
