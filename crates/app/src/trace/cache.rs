//! `evenkeel trace cache`: how much of a trace a cache would serve, by policy and size.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use evenkeel_core::ticket::Kind;
use evenkeel_trace::cache::{Algorithm, BLOCK_BYTES, Blocks, CAPACITY_MAX, Counts, Simulation};
use evenkeel_trace::{Record, SourceId};
use serde_json::json;

use super::files::{InputArgs, read_all};
use crate::exit::Exit;
use crate::terminal;
use crate::units::{parse_size, print_size};

/// Sizes unless the command line says otherwise.
const SIZES_DEFAULT: [u64; 4] = [16 << 20, 64 << 20, 256 << 20, 1 << 30];

/// Caches that are simulated at once.
const CACHES_MAX: usize = 256;

/// Arguments of `evenkeel trace cache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel trace cache web_0.csv.gz
  evenkeel trace cache day.ektrace --policy lru,s3-fifo --size '1 GiB' --size '8 GiB'
  evenkeel trace cache day.ektrace --kind read --block '64 KiB' --json")]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Policies to simulate [default: all].
    #[arg(long, value_name = "POLICIES", value_delimiter = ',', value_parser = policy_parser())]
    policy: Vec<Algorithm>,
    /// Size of the cache; several for several [default: 16 MiB, 64 MiB, 256 MiB, 1 GiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Vec<u64>,
    /// Size of what is cached as one.
    #[arg(long, default_value = "4 KiB", value_name = "SIZE", value_parser = parse_size)]
    block: u64,
    /// Kinds of requests that use the cache.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "read,write")]
    #[arg(value_parser = super::cut::kind)]
    kind: Vec<Kind>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One cache.
struct Case {
    algorithm: Algorithm,
    size_bytes: u64,
    simulation: Simulation,
}

impl Case {
    fn to_json(&self) -> serde_json::Value {
        let counts = self.simulation.counts();
        json!({
            "policy": self.algorithm.name(),
            "size_bytes": self.size_bytes,
            "accesses": counts.accesses,
            "hits": counts.hits,
            "hit_ratio": hit_ratio(counts),
        })
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Sizes that make no sense, a trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut cases = args.cases()?;
    let blocks = Blocks::new(args.block).expect("checked with the cases");
    let mut uses = [false; Kind::ALL.len()];
    args.kind.iter().for_each(|kind| uses[kind.index()] = true);
    let mut reader = args.input.open()?;
    let requests = read_all(&mut reader, |_, record| {
        if uses[record.kind.index()] {
            access(&mut cases, blocks, record);
        }
        Ok(())
    })?;
    if args.json {
        let rows: Vec<_> = cases.iter().map(Case::to_json).collect();
        return terminal::json(&json!({
            "trace": reader.name(),
            "requests": requests,
            "block_bytes": args.block,
            "bad": reader.defects().to_json(),
            "caches": rows,
        }));
    }
    reader.defects().tell();
    Ok(terminal::data(&table(&cases))?)
}

impl Args {
    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let policies = if self.policy.is_empty() { &Algorithm::ALL[..] } else { &self.policy };
        let sizes = if self.size.is_empty() { &SIZES_DEFAULT[..] } else { &self.size };
        if self.block == 0 {
            let usual = print_size(BLOCK_BYTES);
            return Err(Exit::Usage.because(format!("blocks have no bytes; {usual} is customary")));
        }
        if policies.len() * sizes.len() > CACHES_MAX {
            let message = format!("more than {CACHES_MAX} caches; ask for fewer sizes or policies");
            return Err(Exit::Usage.because(message));
        }
        let mut cases = Vec::new();
        for &algorithm in policies {
            for &size_bytes in sizes {
                let capacity = self.capacity(size_bytes)?;
                let simulation = Simulation::new(algorithm, capacity);
                cases.push(Case { algorithm, size_bytes, simulation });
            }
        }
        Ok(cases)
    }

    fn capacity(&self, size_bytes: u64) -> anyhow::Result<usize> {
        let blocks = usize::try_from(size_bytes / self.block).unwrap_or(usize::MAX);
        if (1..=CAPACITY_MAX).contains(&blocks) {
            return Ok(blocks);
        }
        let (size, block) = (print_size(size_bytes), print_size(self.block));
        let message = format!(
            "a cache of {size} holds {blocks} blocks of {block}, which is not within 1 to \
             {CAPACITY_MAX}; choose another --size or --block"
        );
        Err(Exit::Usage.because(message))
    }
}

fn policy_parser() -> impl TypedValueParser<Value = Algorithm> {
    let names: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
    PossibleValuesParser::new(names)
        .map(|name| Algorithm::from_name(&name).expect("only known names pass"))
}

fn access(cases: &mut [Case], blocks: Blocks, record: &Record) {
    let salt = salt(record.source);
    for case in cases {
        for block in blocks.of(record) {
            case.simulation.access(block ^ salt);
        }
    }
}

/// Keeps the blocks of sources apart: each source has its own upper bits, since no disk has 2^40
/// blocks.
fn salt(source: SourceId) -> u64 {
    u64::from(source.0) << 40
}

fn hit_ratio(counts: Counts) -> f64 {
    counts.miss_ratio().map_or(0.0, |misses| 1.0 - misses)
}

/// A row for every size, a column for every policy.
fn table(cases: &[Case]) -> String {
    let mut policies: Vec<Algorithm> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for case in cases {
        if !policies.contains(&case.algorithm) {
            policies.push(case.algorithm);
        }
        if !sizes.contains(&case.size_bytes) {
            sizes.push(case.size_bytes);
        }
    }
    let cell = |size: u64, algorithm: Algorithm| {
        let same = |case: &&Case| case.size_bytes == size && case.algorithm == algorithm;
        let case = cases.iter().find(same).expect("every policy has every size");
        format!("{:.2}%", 100.0 * hit_ratio(case.simulation.counts()))
    };
    let row = |&size: &u64| {
        let cells = policies.iter().map(|&algorithm| cell(size, algorithm));
        std::iter::once(print_size(size)).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
    let names: Vec<String> = policies.iter().map(|policy| policy.name().to_uppercase()).collect();
    let header: Vec<&str> =
        std::iter::once("HITS").chain(names.iter().map(String::as_str)).collect();
    terminal::table(&header, &rows)
}
