//! `evenkeel-bench exchange`: what gates that share a device cost each other, by the processor time
//! of their threads.
//!
//! All gates run in this process, each with a thread for the exchange and one for its data path,
//! and every word crosses the loopback interface. A gate on a host of its own does as much.

use std::fs;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use evenkeel_app::evidence::machine::Bears;
use evenkeel_core::control::member::Method;
use evenkeel_core::sched::Share;
use evenkeel_core::time::Span;
use evenkeel_engine::policy::{
    Backend, Control, Discipline, Exchange, Export, Match, Meeting, Mode, Policy, Scheduling,
    Source, Tenant,
};
use evenkeel_io::gate::{DriveKind, Gate, Options};

use crate::common::Common;
use crate::conclusion::{Aim, Conclusion, Kind};
use crate::cpu;
use crate::machine::{self, Machine};

/// Part of a core that the exchange of a gate may take.
const AIM: f64 = 0.01;

/// Until all gates have heard each other.
const WARM_UP: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-bench exchange
  evenkeel-bench exchange --gates 30 --period 100
  evenkeel-bench exchange --smoke")]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// How many share the device
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=500))]
    gates: u32,
    /// Time between two summaries, in milliseconds
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=10_000))]
    period: u64,
    /// How long each round lasts
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = super::seconds)]
    seconds: f64,
}

/// Processor time is counted, on a core that the gates share.
const BEARS: Bears =
    Bears { cores: 1.0, late_median_ms: 10.0, late_p99_ms: 50.0, uses_disks: false };

impl Arguments {
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }
}

/// Runs the gates, and prints what they take.
pub(crate) fn exchange(arguments: &Arguments) -> Result<ExitCode> {
    let is_smoke = arguments.common.smoke;
    let (count, seconds) = if is_smoke { (4, 0.5) } else { (arguments.gates, arguments.seconds) };
    let mut machine = Machine::look();
    let folder = arguments.common.folder()?;
    let key = folder.path().join("key");
    fs::write(&key, [b'k'; 44]).context("cannot write the key")?;
    let addresses = addresses(count)?;
    let start = |own: &String| {
        let period = Span::from_millis(arguments.period);
        let meeting = Meeting::Listed { listen: own.clone(), peers: addresses.clone() };
        let exchange = Exchange {
            name: "bench".to_owned(),
            own: own.clone(),
            meeting,
            key: key.clone(),
            period,
            record: None,
        };
        let drive_models = |_: &str, _, _| Err("no drive of this benchmark is emulated".to_owned());
        let options = Options {
            cores: 1,
            drive: DriveKind::default(),
            drive_models,
            recorder: None,
            flight: None,
            state: None,
        };
        Gate::start(policy(exchange), &options)
    };
    let gates = addresses.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(WARM_UP);
    hear_each_other(&gates)?;
    let watch = machine::watch(is_smoke, BEARS)?;
    let mut parts = Vec::new();
    for _ in 0..arguments.common.rounds() {
        parts.push(round(count, seconds)?);
    }
    parts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (exchange, whole) = parts[parts.len() / 2];
    println!("{}", render(count, arguments.period, (exchange, whole), is_smoke));
    for gate in gates {
        gate.stop(Span::ZERO);
    }
    machine.look_at_end(watch);
    let figure = format!("{:.2} % of a core, aim at most {} %", 100.0 * exchange, 100.0 * AIM);
    let id = "exchange-of-a-gate".to_owned();
    let aim = Aim::of(id, Kind::Bound, exchange, exchange <= AIM, figure);
    let aims = if is_smoke { Vec::new() } else { vec![aim] };
    let conclusion = Conclusion::of("exchange", &machine, aims, &[]);
    print!("{}", conclusion.text());
    Ok(conclusion.code())
}

/// The result for people; of a toy no figure, which would be worthless.
fn render(count: u32, period_ms: u64, (exchange, whole): (f64, f64), is_smoke: bool) -> String {
    if is_smoke {
        return format!("smoke exchange, ran: {count} gates that heard each other");
    }
    let verdict = if exchange <= AIM { "reached" } else { "missed" };
    format!(
        "{count} gates, a summary each {period_ms} ms: {:.2} % of a core for the exchange of each \
         (aim: {} %, {verdict}), {:.2} % for a gate in all",
        100.0 * exchange,
        100.0 * AIM,
        100.0 * whole,
    )
}

/// A device that they share, and a tenant with a target.
fn policy(exchange: Exchange) -> Policy {
    let scheduling = Scheduling {
        discipline: Discipline::Shared,
        control: Control::By(Method::Slack),
        ..Scheduling::default()
    };
    let export = Export {
        allow: None,
        name: "disk".to_owned(),
        backend: "array".to_owned(),
        source: None,
        offset_bytes: 0,
        size_bytes: Some(1 << 20),
        read_only: false,
        description: None,
    };
    let share = Share { latency_goal: Span::from_millis(20), ..Share::default() };
    let matches = vec![Match::Export("disk".to_owned())];
    Policy {
        mode: Mode::Enforce,
        backends: vec![Backend { name: "array".to_owned(), source: Source::Memory, scheduling }],
        exports: vec![export],
        tenants: vec![Tenant { name: "strict".to_owned(), matches, read_only: false, share }],
        exchange: Some(exchange),
        ..Policy::default()
    }
}

/// So many addresses that were free a moment ago.
fn addresses(count: u32) -> Result<Vec<String>> {
    let sockets = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>();
    let sockets = sockets.context("no free port")?;
    let address = |socket: &UdpSocket| Ok(socket.local_addr()?.to_string());
    sockets.iter().map(address).collect()
}

fn hear_each_other(gates: &[Gate]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for gate in gates {
        let report = runtime.block_on(gate.handle().report()).exchange;
        let report = report.context("a gate without an exchange")?;
        let heard = report.peers.iter().filter(|peer| peer.silent_for.is_some()).count();
        ensure!(heard + 1 == gates.len(), "a gate hears {heard} of {}", gates.len() - 1);
    }
    Ok(())
}

/// The parts of a core that the exchange of a gate takes, and the gate in all.
fn round(count: u32, seconds: f64) -> Result<(f64, f64)> {
    let (begin, threads, all) =
        (Instant::now(), cpu::time_of_threads("exchange")?, cpu::time_of(std::process::id())?);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (threads, all) = (
        cpu::time_of_threads("exchange")?.saturating_sub(threads),
        cpu::time_of(std::process::id())?.saturating_sub(all),
    );
    let part =
        |time: Duration| time.as_secs_f64() / begin.elapsed().as_secs_f64() / f64::from(count);
    Ok((part(threads), part(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smoke_run_of_the_exchange_prints_no_figure() {
        let text = render(4, 200, (0.004, 0.006), true);
        assert_eq!(text, "smoke exchange, ran: 4 gates that heard each other");
        let text = render(100, 200, (0.004, 0.006), false);
        assert!(text.contains("0.40 % of a core") && text.contains("reached"), "{text}");
    }
}
