//! Plays a recording's clients under a policy, on devices.
//!
//! Those who do not wait ask when they asked. Those who do have their places, in the phases in
//! which they were there, and ask for what they asked for then, over again where it does not last.

use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::clients::{Client, Phase};
use evenkeel_trace::{Record, SourceId};

use super::figures::{Figures, SLICES};
use super::{Recorded, Under, since_start};
use crate::link::LinkSpec;
use crate::result::Summary;
use crate::scenario::{BackendDevice, DEPTH_MAX, Replay, ReplayTiming, Scenario};
use crate::{SimError, Stream, run_observed};

/// The shortest that a scenario may have.
const INTERVAL_MIN: Span = Span::from_millis(1);

/// A recording to be played as often as is asked.
pub(super) struct Play<'r> {
    recorded: &'r Recorded<'r>,
    /// By source.
    clients: &'r [Client],
    /// By source; each as the only source of a stream.
    records: Vec<Vec<Record>>,
    settling: Span,
}

impl<'r> Play<'r> {
    pub(super) fn new(recorded: &'r Recorded<'r>, clients: &'r [Client], settling: Span) -> Self {
        let mut records = vec![Vec::new(); clients.len()];
        for record in recorded.records.iter().filter(|record| record.response.is_some()) {
            records[record.source.0 as usize].push(Record { source: SourceId(0), ..*record });
        }
        Self { recorded, clients, records, settling }
    }

    /// The part that counts.
    pub(super) fn counted(&self) -> Span {
        Span(self.recorded.length.0.saturating_sub(self.settling.0))
    }

    /// What was recorded of each source.
    pub(super) fn recorded(&self) -> Vec<Figures> {
        let start = Nanos::ZERO + self.settling;
        let end = Nanos::ZERO + self.recorded.length;
        self.records.iter().map(|records| Figures::recorded(records, start..end)).collect()
    }

    /// What becomes of each source under a policy; `windows` are what a server takes of each at
    /// once.
    pub(super) fn run(
        &self,
        under: Under<'_>,
        devices: &[BackendDevice],
        windows: &[Option<u32>],
        seed: u64,
    ) -> Result<Vec<Figures>, SimError> {
        let mut replays = Vec::new();
        let mut owners = Vec::new();
        let mut streams: Vec<Stream<'_>> = Vec::new();
        for (source, client) in self.clients.iter().enumerate() {
            let records = &self.records[source];
            let name = self.recorded.sources.name(id(source));
            if client.is_closed {
                let mut continues = false;
                for (index, phase) in client.phases.iter().enumerate() {
                    let asked = asked(records, phase);
                    if asked.is_empty() {
                        continue;
                    }
                    let name = format!("{name}#{index}");
                    replays.push(phase_of(name, (under, source), (phase, continues)));
                    owners.push(source);
                    streams.push(Box::new(asked.iter().copied().cycle()));
                    continues = true;
                }
            } else if !records.is_empty() {
                let timing = ReplayTiming::default();
                replays.push(replay_of(name.to_owned(), (under, source), timing));
                owners.push(source);
                streams.push(Box::new(records.iter().copied()));
            }
        }
        for (replay, owner) in replays.iter_mut().zip(&owners) {
            replay.window = windows[*owner];
        }
        let scenario = Scenario { seed, ..self.scenario(under, devices, replays) };
        let summary = run_observed(&scenario, streams, &mut |_| ())?;
        Ok(self.figures(&summary, &owners))
    }

    fn scenario(
        &self,
        under: Under<'_>,
        devices: &[BackendDevice],
        replays: Vec<Replay>,
    ) -> Scenario {
        let length = self.counted();
        Scenario {
            policy: under.policy.clone(),
            devices: devices.to_vec(),
            replays,
            warm_up: self.settling,
            length,
            interval: Span(length.0 / SLICES).max(INTERVAL_MIN),
            ..Scenario::default()
        }
    }

    fn figures(&self, summary: &Summary, owners: &[usize]) -> Vec<Figures> {
        let mut figures = vec![Figures::default(); self.clients.len()];
        for (group, owner) in summary.groups.iter().zip(owners) {
            figures[*owner].add(&group.traffic);
        }
        figures
    }
}

/// A source as a whole.
fn replay_of(name: String, (under, source): (Under<'_>, usize), timing: ReplayTiming) -> Replay {
    let routes = vec![under.routes[source].clone()];
    let (start, link) = (Span::ZERO, LinkSpec::default());
    Replay {
        name,
        routes,
        otherwise: None,
        timing,
        start,
        stop: None,
        continues: false,
        window: None,
        link,
    }
}

/// A source in one of its phases.
fn phase_of(name: String, of: (Under<'_>, usize), (phase, continues): (&Phase, bool)) -> Replay {
    // More than a client may have is as good as that.
    let depth = phase.depth.clamp(1, DEPTH_MAX);
    let timing = ReplayTiming::Closed { depth, think: phase.think };
    let (start, stop) = (phase.start, Some(phase.end));
    Replay { start, stop, continues, ..replay_of(name, of, timing) }
}

/// What a source asked for in a phase.
fn asked<'r>(records: &'r [Record], phase: &Phase) -> &'r [Record] {
    let from = records.partition_point(|record| since_start(record.at) < phase.start);
    let to = records.partition_point(|record| since_start(record.at) <= phase.end);
    &records[from..to]
}

fn id(source: usize) -> SourceId {
    SourceId(u32::try_from(source).expect("sources are numbered by u32"))
}
