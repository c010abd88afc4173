//! What a gate has seen under one policy: its requests, in memory.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_trace::codec::RecordedPolicy;
use evenkeel_trace::{Record, Sources};
use tempfile::NamedTempFile;

use crate::control::client::Client;
use crate::ctl::block_on;
use crate::exit::Exit;
use crate::trace::defects::OnDefect;
use crate::trace::input::{ReadOptions, TraceFile};
use crate::{config, human};

/// Requests that are kept in memory, each in several forms of some 50 bytes.
const REQUESTS_MAX: usize = 5_000_000;

/// What is shorter tells nothing,
const LENGTH_MIN: Span = Span::from_secs(10);

/// and neither do fewer requests.
const REQUESTS_MIN: usize = 200;

/// What a gate has seen.
pub(crate) struct Observed {
    pub(crate) sources: Sources,
    /// In the order of arrival, from the instant at which the policy came into force.
    pub(crate) records: Vec<Record>,
    pub(crate) length: Span,
    /// How long ago the last of them arrived; zero if that is not known, or of a file.
    pub(crate) age: Span,
    /// When that was, in nanoseconds since 1970.
    ended_ns: Option<u64>,
    /// The policy under which that was.
    pub(crate) policy: Policy,
}

impl Observed {
    /// The last minutes of a running gate.
    ///
    /// # Errors
    /// A gate that does not answer, or answers with what is no recording.
    pub(crate) fn of_gate(client: &Client) -> anyhow::Result<Self> {
        let file = last_minutes(client)?;
        let options = ReadOptions { on_defect: OnDefect::Refuse, ..ReadOptions::default() };
        let file = TraceFile { path: file.path().to_path_buf(), options };
        // A gate that has just started has recorded nothing yet, not even its policy.
        let text = block_on(client.text("/v1/policy"))?;
        let mut observed = Self::read_under(&file, Some(&text))?;
        observed.age = observed.ended_ns.map_or(Span::ZERO, age);
        // What is in force now is recorded within a second.
        let in_force = config::parse(&text, "the gate's policy")
            .map_err(|found| Exit::Runtime.because(found))?;
        refuse_mode(in_force.mode)?;
        Ok(observed)
    }

    /// A recording, from the last change of its policy on.
    ///
    /// # Errors
    /// [`Exit::Invalid`] for what is no recording of a gate, has too many requests, or lost its
    /// policy.
    pub(crate) fn read(trace: &TraceFile) -> anyhow::Result<Self> {
        Self::read_under(trace, None)
    }

    /// The same; `otherwise` is the policy where it tells none.
    fn read_under(trace: &TraceFile, otherwise: Option<&str>) -> anyhow::Result<Self> {
        let mut reader = trace.open()?;
        let mut records = Vec::new();
        reader.each(|_, record| {
            if records.len() == REQUESTS_MAX {
                let message = format!(
                    "it has more than {REQUESTS_MAX} requests: take a part of it with `evenkeel \
                     trace cut`"
                );
                return Err(Exit::Invalid.because(message));
            }
            records.push(*record);
            Ok(ControlFlow::Continue(()))
        })?;
        reader.defects().tell();
        let mut policies = reader.policies().to_vec();
        if let (true, Some(text)) = (policies.is_empty(), otherwise) {
            policies.push(RecordedPolicy { at: Nanos::ZERO, text: Some(text.to_owned()) });
        }
        let (since, policy) = policy(&policies).map_err(|why| Exit::Invalid.because(why))?;
        let last = records.last().map(|last| last.at.0);
        let ended_ns = reader.origin_ns().zip(last).map(|(origin, last)| origin + last);
        records.retain(|record| record.at >= since);
        let sources = renumbered(reader.sources(), &mut records);
        for record in &mut records {
            record.at = Nanos(record.at.0 - since.0);
        }
        // What arrives at the very end belongs to it.
        let length = records.last().map_or(Span::ZERO, |last| Span(last.at.0.saturating_add(1)));
        Ok(Self { sources, records, length, age: Span::ZERO, ended_ns, policy })
    }

    /// Only the last requests of it: so many at most, over so long at most.
    pub(crate) fn keep_last(&mut self, length: Span, requests: usize) {
        let from = self.records.len().saturating_sub(requests);
        let since = self.records.get(from).map_or(Nanos::ZERO, |first| first.at);
        let since = since.max(Nanos(self.length.0.saturating_sub(length.0)));
        self.records.retain(|record| record.at >= since);
        for record in &mut self.records {
            record.at = Nanos(record.at.0 - since.0);
        }
        self.length = Span(self.length.0 - since.0);
    }

    /// While a gate enforces, it shows what its policy does, not what it would change.
    pub(crate) fn refuse_enforcing(&self) -> anyhow::Result<()> {
        refuse_mode(self.policy.mode)
    }

    /// Too little was seen to say anything.
    pub(crate) fn refuse_what_tells_nothing(&self) -> anyhow::Result<()> {
        self.refuse_enforcing()?;
        let (count, length) = (self.records.len(), self.length);
        if length < LENGTH_MIN || count < REQUESTS_MIN {
            let message = format!(
                "{} in {} under this policy tell too little: {REQUESTS_MIN} in {} are the least; \
                 does any client use the gate?",
                human::counted(count, "request"),
                human::duration(length),
                human::duration(LENGTH_MIN)
            );
            return Err(Exit::Invalid.because(message));
        }
        Ok(())
    }
}

/// Since an instant, in nanoseconds since 1970.
fn age(ended_ns: u64) -> Span {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    Span(now_ns.saturating_sub(ended_ns))
}

fn refuse_mode(mode: Mode) -> anyhow::Result<()> {
    if mode != Mode::Enforce {
        return Ok(());
    }
    Err(Exit::Invalid.because(
        "the policy was enforced while this was seen, which hides what clients and storage do by \
         themselves; `evenkeel prove` says whether it is kept, and `evenkeel ctl mode observe` \
         goes back to looking",
    ))
}

/// What a running gate has recorded of its last minutes, in a file that goes with the value.
///
/// # Errors
/// A gate that does not answer, or no room for the file.
pub(crate) fn last_minutes(client: &Client) -> anyhow::Result<NamedTempFile> {
    let bytes = block_on(client.recording())?;
    let mut file = tempfile::Builder::new().suffix(".ektrace").tempfile()?;
    file.write_all(&bytes).context("cannot keep what the gate recorded")?;
    Ok(file)
}

/// The sources that have records; others are gone, and the policy need not know them.
fn renumbered(sources: &Sources, records: &mut [Record]) -> Sources {
    let mut used = Sources::default();
    for record in records {
        let id = used.intern(sources.name(record.source));
        record.source = id.expect("fewer than the recording has");
    }
    used
}

/// The last policy of a recording, and from when on it was in force.
fn policy(policies: &[RecordedPolicy]) -> Result<(Nanos, Policy), String> {
    let last = policies.last().ok_or(
        "it does not say under which policy it was recorded: only recordings of a gate do, made by \
         `evenkeel serve --record` or `evenkeel ctl record`",
    )?;
    let text = last.text.as_ref().ok_or("it lost the policy under which it was recorded")?;
    let policy = config::parse(text, "the policy in the recording")
        .map_err(|error| format!("the policy in the recording cannot be read ({error})"))?;
    Ok((last.at, policy))
}
