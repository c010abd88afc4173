//! What another policy would bring, from what a gate recorded that holds nobody back.
//!
//! ```text
//! recording --> clients    which wait for answers, how many places they have
//!           --> devices    that may have served it, several that explain it
//!                  |
//!                  +-- the present policy, played on each --> which of them come out as recorded
//!                  +-- the present policy, played on each --> those that explain the recording
//!                  +-- the other policy, played on those  --> the forecast, and how they differ
//!
//! The code that forecasts is the code that enforces. No figure of the storage is needed, and none
//! is believed: a device counts as far as the present comes out on it as it was recorded. What
//! several of them say, and by how much the best of them misses the present, is the error bar.
//!
//! A forecast says what the same clients would have got over the same time. It does not know what
//! clients will do tomorrow, nor what a device does that no queue of servers does, such as a cache
//! that other requests would have filled.

mod figures;
mod play;
pub mod trial;

use evenkeel_core::time::{Nanos, Span};
use evenkeel_engine::policy::{Mode, Policy};
use evenkeel_trace::clients::{self, Client};
use evenkeel_trace::{Record, Sources};

use crate::SimError;
use crate::calibrate::{Served, candidates, varies, whole};
use crate::device::spec::{ConstantSpec, DeviceSpec};
use crate::link::LinkSpec;
use crate::scenario::{BackendDevice, Route};

pub use figures::{Expected, Figures, TenantForecast};
use figures::{Slice, misses, tenants};
use play::Play;

/// What is not counted at the beginning: an automatic depth is found meanwhile.
const SETTLING: Span = Span::from_secs(5);

/// At most this part of a recording.
const SETTLING_PART: u64 = 6;

/// A device explains a recording as well as the best if it misses it by so much more at most, as
/// the mean of the logarithms of how far rates and response times are off,
const AS_GOOD: f64 = 0.03;

/// or by so many times as much.
const AS_GOOD_TIMES: f64 = 1.5;

/// Requests that a server takes at once of those that one client's connections bring, where no
/// device explains a recording without. NBD servers have sixteen threads for each connection, as
/// nbdkit's `--threads` and qemu's `MAX_NBD_REQUESTS` say; a gate has a few connections.
const WINDOWS: [Option<u32>; 4] = [None, Some(16), Some(32), Some(64)];

/// Devices that are played with the other policy, at most,
const PLAYED_MAX: usize = 5;

/// and how often it is played at least: a depth that is found is found otherwise each time.
const PLAYED_MIN: usize = 4;

/// Of the work, what the search for devices takes.
const TRYING_PART: f64 = 0.5;

/// Devices are as quick as they were found to be but for this part, from play to play: what depends
/// on less than that cannot be foretold.
const NUDGES: [f64; PLAYED_MAX] = [1.0, 1.02, 0.98, 1.01, 0.99];

/// A recording is explained if its best device misses it by no more, as the mean of the logarithms
/// of how far rates and response times are off. Disks and what else orders requests by itself are
/// mostly beyond that, and forecasts of them are wrong.
pub const EXPLAINED: f64 = 0.09;

/// What a gate recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'r> {
    /// Who made the requests.
    pub sources: &'r Sources,
    /// In the order of arrival, with response times.
    pub records: &'r [Record],
    /// Since the first instant.
    pub length: Span,
}

/// A policy, and where the requests of each source go under it, by [`evenkeel_trace::SourceId`].
#[derive(Clone, Copy, Debug)]
pub struct Under<'p> {
    /// What the gate enforces, or does not.
    pub policy: &'p Policy,
    /// Each with its tenant.
    pub routes: &'p [Route],
}

/// What would become of each tenant.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Those that asked for anything, in the order of their first requests.
    pub tenants: Vec<TenantForecast>,
    /// How the requests of each source come, by its id.
    pub clients: Vec<Client>,
    /// The storage that explains best what was recorded.
    pub devices: Vec<Explanation>,
    /// The part of the recording that was counted.
    pub counted: Span,
}

/// The storage behind one backend, as far as the recording tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The backend's name in the policy.
    pub backend: String,
    /// What comes nearest.
    pub device: DeviceSpec,
    /// By how much the present comes out otherwise on it: the mean of the logarithms of how far
    /// rates and response times are off.
    pub misses: f64,
    /// How many others explain it as well.
    pub others: usize,
    /// Whether now more and now less was asked of it. Else it cannot be told from others.
    pub is_told_apart: bool,
}

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum ForecastError {
    /// Nothing was answered in it that reads or writes.
    #[error("nothing was read or written while it was recorded")]
    Nothing,
    /// Its bytes lie on several devices.
    #[error("backend {0:?} is a volume over several; a recording does not say where its bytes lie")]
    Volume(String),
    /// The policies cannot be played.
    #[error(transparent)]
    Run(#[from] SimError),
}

/// The storage behind each backend that was asked for anything, as far as a recording tells.
/// `observe` hears which part of the work is done, 0 to 1.
///
/// # Errors
/// [`ForecastError`].
pub fn explain(
    recorded: &Recorded<'_>,
    present: Under<'_>,
    observe: &mut dyn FnMut(f64),
) -> Result<Vec<Explanation>, ForecastError> {
    let clients = clients::of(recorded.records.iter(), recorded.sources, recorded.length);
    let play = Play::new(recorded, &clients, settling(recorded));
    let backends = backends(recorded, present)?;
    let kept = tried(&play, present, &backends, observe);
    Ok(explanations(&backends, &kept?))
}

/// What the `proposed` policy would have brought while this was recorded under the `present` one.
/// `observe` hears which part of the work is done, 0 to 1.
///
/// # Errors
/// [`ForecastError`].
pub fn forecast(
    recorded: &Recorded<'_>,
    present: Under<'_>,
    proposed: Under<'_>,
    observe: &mut dyn FnMut(f64),
) -> Result<Forecast, ForecastError> {
    let clients = clients::of(recorded.records.iter(), recorded.sources, recorded.length);
    let play = Play::new(recorded, &clients, settling(recorded));
    let backends = backends(recorded, present)?;
    let kept = tried(&play, present, &backends, &mut |part| observe(part * TRYING_PART))?;
    let most = kept.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
    let plays = most.clamp(PLAYED_MIN, PLAYED_MAX);
    let (mut nows, mut thens) = (Vec::new(), Vec::new());
    for (place, nudge) in NUDGES.into_iter().enumerate().take(plays) {
        let supposed: Vec<Supposition<'_>> = backends
            .iter()
            .zip(&kept)
            .map(|(backend, kept)| backend.at(kept.rounds[place % kept.rounds.len()]))
            .collect();
        let both = backends.iter().zip(&supposed);
        let devices: Vec<_> =
            both.map(|(backend, one)| backend.device(&nudged(one.device, nudge))).collect();
        let seed = place as u64 + 1;
        let windows = windows(recorded.sources.names().len(), &backends, &supposed);
        nows.push(play.run(present, &devices, &windows, seed)?);
        // A gate that orders requests keeps fewer of them with a server than it takes at once.
        let then = match proposed.policy.mode {
            Mode::Enforce => vec![None; windows.len()],
            Mode::Observe | Mode::Shadow => windows,
        };
        thens.push(play.run(proposed, &devices, &then, seed)?);
        observe(TRYING_PART + (1.0 - TRYING_PART) * (place + 1) as f64 / plays as f64);
    }
    let devices = explanations(&backends, &kept);
    let is_good = |route: &Route| {
        let backend = backend_of(present.policy, &route.target);
        devices.iter().all(|device| device.backend != backend || device.is_good())
    };
    let is_explained = |name: &str| {
        let routes = proposed.routes.iter().zip(present.routes);
        let own = routes.filter(|(then, _)| then.tenant.as_deref() == Some(name));
        own.map(|(_, now)| now).all(is_good)
    };
    let figures = (&play.recorded()[..], &nows[..], &thens[..]);
    let tenants = tenants(proposed.routes, figures, play.counted(), is_explained);
    Ok(Forecast { tenants, devices, counted: play.counted(), clients })
}

impl Forecast {
    /// Whether the storage is understood that any tenant uses.
    pub fn is_explained(&self) -> bool {
        self.tenants.iter().all(|tenant| tenant.is_explained)
    }
}

impl Explanation {
    /// Whether forecasts on it are worth anything.
    pub fn is_good(&self) -> bool {
        self.is_told_apart && self.misses <= EXPLAINED
    }
}

fn settling(recorded: &Recorded<'_>) -> Span {
    SETTLING.min(Span(recorded.length.0 / SETTLING_PART))
}

/// Plays the present on every device that it may be; what explains each backend.
fn tried(
    play: &Play<'_>,
    present: Under<'_>,
    backends: &[Backend],
    observe: &mut dyn FnMut(f64),
) -> Result<Vec<Kept>, SimError> {
    let recorded = sliced(play.recorded());
    let most = backends.iter().map(|one| one.candidates.len()).max().unwrap_or(0);
    let mut tried: Vec<Result<Vec<Vec<Slice>>, SimError>> = Vec::new();
    let mut kept = Vec::new();
    for (place, window) in WINDOWS.into_iter().enumerate() {
        for number in 0..most {
            let devices: Vec<_> = backends.iter().map(|one| one.device(one.nth(number))).collect();
            // A device that never answers what was asked of it explains nothing.
            let played = play.run(present, &devices, &vec![window; recorded.len()], 1);
            tried.push(played.map(sliced));
            observe((place * most + number + 1) as f64 / (WINDOWS.len() * most) as f64);
        }
        if tried.iter().all(Result::is_err) {
            // It is the policy or the recording that cannot be played.
            return tried.swap_remove(0).map(|_| Vec::new());
        }
        kept = backends.iter().map(|backend| backend.kept(most, &tried, &recorded)).collect();
        // What was hardly asked for anything is explained by no window either.
        if kept.iter().all(|one| one.misses <= EXPLAINED || one.misses.is_infinite()) {
            break;
        }
    }
    observe(1.0);
    Ok(kept)
}

/// What is compared, without what takes room.
fn sliced(figures: Vec<Figures>) -> Vec<Vec<Slice>> {
    figures.into_iter().map(|figures| figures.slices).collect()
}

/// The window of each source.
fn windows(sources: usize, backends: &[Backend], supposed: &[Supposition<'_>]) -> Vec<Option<u32>> {
    let mut windows = vec![None; sources];
    for (backend, one) in backends.iter().zip(supposed) {
        backend.sources.iter().for_each(|source| windows[*source] = one.window);
    }
    windows
}

/// What explains best the requests of those that had any.
fn explanations(backends: &[Backend], kept: &[Kept]) -> Vec<Explanation> {
    let asked = backends.iter().zip(kept).filter(|(backend, _)| backend.is_asked);
    let explained = asked.map(|(backend, kept)| Explanation {
        backend: backend.name.clone(),
        device: backend.at(kept.rounds[0]).device.clone(),
        misses: kept.misses,
        others: kept.rounds.len() - 1,
        is_told_apart: backend.is_told_apart,
    });
    explained.collect()
}

/// A backend, and the devices that it may be.
struct Backend {
    name: String,
    candidates: Vec<DeviceSpec>,
    /// Sources whose requests go to it.
    sources: Vec<usize>,
    /// Whether it served any reads or writes.
    is_asked: bool,
    is_told_apart: bool,
}

/// A device that takes so many times as long.
fn nudged(device: &DeviceSpec, times: f64) -> DeviceSpec {
    let mut nudged = device.clone();
    match &mut nudged {
        DeviceSpec::Measured(spec) => spec.slow_down(times),
        DeviceSpec::Rate(spec) => {
            spec.rate_bits = whole(spec.rate_bits as f64 / times);
            spec.service.overhead = Span(whole(spec.service.overhead.0 as f64 * times));
        }
        _ => {}
    }
    nudged
}

/// Which of the suppositions.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Of [`WINDOWS`].
    window: usize,
    /// Of the candidates.
    number: usize,
}

/// What the storage behind a backend may be.
struct Supposition<'b> {
    device: &'b DeviceSpec,
    window: Option<u32>,
}

/// What explains the requests of a backend.
struct Kept {
    /// The best first.
    rounds: Vec<Round>,
    /// Of the best.
    misses: f64,
}

impl Backend {
    fn nth(&self, number: usize) -> &DeviceSpec {
        &self.candidates[number.min(self.candidates.len() - 1)]
    }

    /// What was supposed in a round, with so many rounds for each window.
    fn at(&self, round: Round) -> Supposition<'_> {
        Supposition { device: self.nth(round.number), window: WINDOWS[round.window] }
    }

    fn device(&self, spec: &DeviceSpec) -> BackendDevice {
        let (backend, device) = (self.name.clone(), spec.clone());
        BackendDevice { backend, device, link: LinkSpec::default() }
    }

    /// What explains what was recorded, of all that was tried, `most` devices for each window.
    fn kept(
        &self,
        most: usize,
        tried: &[Result<Vec<Vec<Slice>>, SimError>],
        recorded: &[Vec<Slice>],
    ) -> Kept {
        let misses = |figures: &Vec<Vec<Slice>>| {
            misses(recorded, figures, |source| self.sources.contains(&source))
        };
        let rounds = tried.iter().enumerate().map(|(round, figures)| {
            let round = Round { window: round / most, number: round % most };
            (round, figures.as_ref().map_or(f64::INFINITY, misses))
        });
        let mut rounds: Vec<_> =
            rounds.filter(|(round, _)| round.number < self.candidates.len()).collect();
        rounds.sort_by(|one, other| one.1.total_cmp(&other.1));
        let (_, best) = rounds[0];
        let limit = (best + AS_GOOD).max(best * AS_GOOD_TIMES);
        rounds.retain(|(_, misses)| *misses <= limit || misses.total_cmp(&best).is_eq());
        Kept { rounds: rounds.into_iter().map(|(round, _)| round).collect(), misses: best }
    }
}

/// The backends, each with what it may be; those that nobody asked for anything are any device.
fn backends(recorded: &Recorded<'_>, under: Under<'_>) -> Result<Vec<Backend>, ForecastError> {
    let of = |name: &str| {
        let goes_here = |route: &Route| backend_of(under.policy, &route.target) == name;
        let routes = under.routes.iter().enumerate();
        let sources: Vec<usize> =
            routes.filter(|(_, route)| goes_here(route)).map(|(source, _)| source).collect();
        let mut is_here = vec![false; under.routes.len()];
        for source in &sources {
            is_here[*source] = true;
        }
        let is_asked = |record: &&Record| is_here[record.source.0 as usize];
        let records = recorded.records.iter().filter(is_asked);
        let served: Vec<Served> = records.filter_map(served).collect();
        let mut candidates = candidates(&served);
        let is_asked = !candidates.is_empty();
        if !is_asked {
            candidates.push(DeviceSpec::Constant(ConstantSpec::default()));
        }
        let is_told_apart = varies(&served);
        Backend { name: name.to_owned(), candidates, sources, is_asked, is_told_apart }
    };
    let mut backends = Vec::new();
    for backend in &under.policy.backends {
        if backend.is_volume() {
            return Err(ForecastError::Volume(backend.name.clone()));
        }
        backends.push(of(&backend.name));
    }
    if backends.iter().all(|backend| !backend.is_asked) {
        return Err(ForecastError::Nothing);
    }
    Ok(backends)
}

fn served(record: &Record) -> Option<Served> {
    let Record { at, kind, length, response, .. } = *record;
    Some(Served { at, response: response?, kind, length })
}

/// The backend of an export, or the one that is meant as a whole.
fn backend_of<'p>(policy: &'p Policy, target: &'p str) -> &'p str {
    let export = policy.exports.iter().find(|export| export.name == target);
    export.map_or(target, |export| &export.backend)
}

/// An instant as what has passed until then.
fn since_start(at: Nanos) -> Span {
    at.since(Nanos::ZERO)
}
