//! The command line of `evenkeel bench`.

use std::ops::Range;

use clap::ValueEnum;
use evenkeel_core::time::Span;
use evenkeel_io::load::{Arrivals, Layout, LoadPlan, LoadSpec, Pattern, WeightedSize};
use evenkeel_wire::nbd::uri::NbdUri;

use crate::exit::Exit;
use crate::units::{Amount, parse_duration, parse_rate, parse_size};

/// Arguments of `evenkeel bench`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  evenkeel bench nbd://127.0.0.1/disk --depth 32
  evenkeel bench 'nbd+unix:///?socket=/run/disk.sock' --read 70 --flush-every 8 --json
  evenkeel bench nbd://a nbd://b nbd://c --striped --clients 32 --size 256KiB --read 0
  evenkeel bench nbd://127.0.0.1/disk --rate 5000iops --arrivals poisson --depth 256")]
pub struct Args {
    /// Servers and exports, as NBD URIs.
    #[arg(required = true, value_name = "ADDRESS")]
    targets: Vec<NbdUri>,
    /// Clients, each with its own connections.
    #[arg(long, default_value_t = 1, value_name = "N")]
    clients: u32,
    /// Requests that each client keeps under way.
    #[arg(long, default_value_t = 1, value_name = "N")]
    depth: u32,
    /// Request size, or sizes with weights: 4KiB, or 4KiB:3,64KiB:1.
    #[arg(long, default_value = "4KiB", value_name = "SIZES", value_parser = sizes)]
    size: Sizes,
    /// Offsets: seq, random, zipf with an optional skew, as in zipf:0.99, or hot:90%:1GiB, where
    /// 90 % of the requests lie within the first GiB and the others behind it.
    #[arg(long, default_value = "random", value_name = "PATTERN", value_parser = pattern)]
    pattern: Pattern,
    /// Part of the requests that read; the others write.
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    read: u8,
    /// Flush after every so many acknowledged writes.
    #[arg(long, default_value_t = 0, value_name = "N")]
    flush_every: u32,
    /// Part of the writes that carry FUA.
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    fua: u8,
    /// Part of the export to use, as in 1GiB..2GiB.
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    range: Option<Range<u64>>,
    /// Open loop: requests start at this rate whatever the server does, over all clients.
    #[arg(long, value_name = "IOPS", value_parser = rate)]
    rate: Option<f64>,
    /// Distances between requests of an open loop.
    #[arg(long, value_enum, default_value_t = Spacing::Constant, requires = "rate")]
    arrivals: Spacing,
    /// Each request goes to every address and ends with its last part, as on striped files.
    #[arg(long)]
    striped: bool,
    /// Write marked content, check what is read, and read everything back at the end.
    #[arg(long)]
    verify: bool,
    /// Stop after so many requests.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Measured time [default: 10s, or none with --requests].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    runtime: Option<Span>,
    /// Time at the start that is not measured.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = parse_duration)]
    ramp: Span,
    /// Width of one entry of the time series.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_duration)]
    interval: Span,
    /// Determines every offset, size, kind and arrival.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of the job in the output.
    #[arg(long, default_value = "load")]
    name: String,
    /// Print JSON with the structure of fio's.
    #[arg(long)]
    pub(super) json: bool,
}

/// Distances between requests of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spacing {
    /// All equal.
    Constant,
    /// Random and memoryless.
    Poisson,
}

/// The sizes of a mix; a type of its own, or the parser would take it for several values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes(Vec<WeightedSize>);

impl Args {
    /// What is asked for, as a plan.
    ///
    /// # Errors
    /// [`Exit::Usage`] if nothing can be read and something is to be verified.
    pub(super) fn plan(&self) -> anyhow::Result<LoadPlan> {
        if self.verify && self.read == 100 {
            return Err(Exit::Usage.because("--verify needs writes: give --read below 100"));
        }
        let arrivals = match (self.rate, self.arrivals) {
            (None, _) => Arrivals::Closed,
            (Some(per_second), Spacing::Constant) => Arrivals::Constant { per_second },
            (Some(per_second), Spacing::Poisson) => Arrivals::Poisson { per_second },
        };
        let spec = LoadSpec {
            name: self.name.clone(),
            targets: self.targets.clone(),
            layout: if self.striped { Layout::Striped } else { Layout::Spread },
            clients: self.clients,
            depth: self.depth,
            arrivals,
            sizes: self.size.0.clone(),
            pattern: self.pattern,
            read_percent: self.read,
            flush_every: self.flush_every,
            fua_percent: self.fua,
            range: self.range.clone(),
            requests: self.requests,
            verify: self.verify,
            idle: Vec::new(),
        };
        let runtime = match (self.runtime, self.requests) {
            (None, None) => Some(Span::from_secs(10)),
            (runtime, _) => runtime,
        };
        Ok(LoadPlan {
            groups: vec![spec],
            ramp: self.ramp,
            runtime,
            interval: self.interval,
            seed: self.seed,
            ends_on_interrupt: true,
        })
    }
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let one = |part: &str| {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        let bytes = parse_size(size).map_err(|error| error.to_string())?;
        let size_bytes = u32::try_from(bytes).map_err(|_| format!("`{size}` is above 32 MiB"))?;
        let weight = weight.parse().map_err(|_| format!("`{weight}` is no whole weight"))?;
        Ok(WeightedSize { size_bytes, weight })
    };
    text.split(',').map(one).collect::<Result<_, String>>().map(Sizes)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (name, figures) = text.split_once(':').unwrap_or((text, ""));
    match (name, figures) {
        ("seq", "") => Ok(Pattern::Sequential),
        ("random", "") => Ok(Pattern::Uniform),
        ("zipf", "") => Ok(Pattern::Zipf { theta: 0.99 }),
        ("zipf", skew) => match skew.parse() {
            Ok(theta) => Ok(Pattern::Zipf { theta }),
            Err(_) => Err(format!("`{skew}` is no skew; 0.99 is customary")),
        },
        ("hot", figures) => hot(figures),
        _ => Err("known are seq, random, zipf and hot".to_owned()),
    }
}

/// `90%:1GiB`.
fn hot(figures: &str) -> Result<Pattern, String> {
    let (percent, size) = figures.split_once("%:").ok_or("write it as hot:90%:1GiB")?;
    let hot_bytes = parse_size(size).map_err(|error| error.to_string())?;
    let parsed = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let percent = parsed.ok_or_else(|| format!("`{percent}` is no part; write 0 to 100"))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let requests_ppm = (percent * 10_000.0).round() as u32;
    Ok(Pattern::Hot { hot_bytes, requests_ppm })
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write it as 1GiB..2GiB")?;
    let size = |part: &str| parse_size(part).map_err(|error| error.to_string());
    let range = size(from)?..size(to)?;
    if range.is_empty() { Err("it is empty".to_owned()) } else { Ok(range) }
}

fn rate(text: &str) -> Result<f64, String> {
    match parse_rate(text).map_err(|error| error.to_string())? {
        Amount::Requests(per_second) => Ok(per_second as f64),
        Amount::Bytes(_) => Err("give it in requests, as in 2k iops".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: Args,
    }

    fn plan(line: &str) -> anyhow::Result<LoadPlan> {
        let words = std::iter::once("bench").chain(line.split(' '));
        Command::try_parse_from(words)?.bench.plan()
    }

    #[test]
    fn a_command_line_becomes_a_plan() {
        let line = "nbd://a nbd://b --striped --size 4KiB:3,64KiB --pattern zipf:1.1 --read 0 \
                    --rate 2kiops --arrivals poisson --range 1MiB..2MiB --requests 9";
        let plan = plan(line).unwrap();
        let group = &plan.groups[0];
        assert_eq!(plan.runtime, None, "the number of requests ends it");
        assert_eq!((group.targets.len(), group.layout), (2, Layout::Striped));
        assert_eq!(group.sizes[0], WeightedSize { size_bytes: 4096, weight: 3 });
        assert_eq!(group.sizes[1], WeightedSize { size_bytes: 65_536, weight: 1 });
        assert_eq!(group.pattern, Pattern::Zipf { theta: 1.1 });
        assert_eq!(group.arrivals, Arrivals::Poisson { per_second: 2000.0 });
        assert_eq!(group.range, Some(1 << 20..2 << 20));
    }

    #[test]
    fn a_hot_part_has_its_percentage_and_its_size() {
        let group = &plan("nbd://a --pattern hot:99.95%:64MiB").unwrap().groups[0];
        assert_eq!(group.pattern, Pattern::Hot { hot_bytes: 64 << 20, requests_ppm: 999_500 });
    }

    #[test]
    fn a_command_line_that_makes_no_sense_says_why() {
        let refusal = |line: &str| plan(line).unwrap_err().to_string();
        assert!(refusal("nbd://a --size 4096").contains("no unit"));
        assert!(refusal("nbd://a --pattern spiral").contains("seq, random, zipf and hot"));
        assert!(refusal("nbd://a --pattern hot:90").contains("hot:90%:1GiB"));
        assert!(refusal("nbd://a --pattern hot:101%:1GiB").contains("0 to 100"));
        assert!(refusal("nbd://a --range 2MiB..1MiB").contains("empty"));
        assert!(refusal("nbd://a --rate 3MiB/s").contains("in requests"));
        assert!(refusal("nbd://a --verify").contains("--read below 100"));
        assert!(refusal("nbd://a --arrivals poisson").contains("--rate"));
    }
}
