//! What a round is drawn to be: who goes away, how, for how long, and what the clients write.

use std::fmt;
use std::time::Duration;

use evenkeel_core::prng::Prng;

use super::stage::{B, Kind, Program, Stage, is_old};

pub(super) const MIB: u64 = 1 << 20;

/// Blocks that are flushed before anything happens, and how far apart they begin.
const KEPT_BLOCKS: u64 = 16;
const KEPT_APART: u64 = 68 << 10;

/// What lets the second gate take over from one that was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// A command that kills the loser, or takes its network away.
    Fence,
    /// Six fifths of the lease without a sign of the loser.
    Unfenced,
    /// Nobody but the operator.
    Claim,
}

/// What all rounds of a trial have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) kind: Kind,
    pub(super) right: Right,
    pub(super) lease: Duration,
    /// Writes up to 128 MiB rather than 2.
    pub(super) is_long: bool,
}

impl Setting {
    /// Where little is written, objects are small, so that there are as many as elsewhere; extents
    /// always are.
    pub(super) fn object_bytes(&self) -> u64 {
        if self.is_long && self.kind == Kind::Spread { MIB } else { 64 << 10 }
    }

    /// How long servers may carry out what a gate had sent them, after its connections have ended.
    pub(super) fn late(&self) -> Duration {
        self.lease * 2 / 5
    }
}

/// How the first gate goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// Its process is stopped, and goes on later.
    Pause,
    /// The network drops what it sends and is sent, and heals later.
    Break,
}

/// What the fence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Kill,
    Unplug,
}

/// What a round is drawn to be.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) away: Away,
    pub(super) away_for: Duration,
    /// How long after its client has begun.
    pub(super) moment: Duration,
    pub(super) act: Act,
    pub(super) program: Program,
    /// The two clients write to different addresses.
    pub(super) is_apart: bool,
    /// Every object has its place before anything happens.
    pub(super) is_placed: bool,
    /// The second gate is started before the first one goes away.
    pub(super) is_early: bool,
    pub(super) a_bytes: u64,
    pub(super) a_depth: usize,
    pub(super) b_bytes: u64,
    pub(super) b_total: u64,
    pub(super) range_bytes: u64,
}

impl Scene {
    pub(super) fn draw(seed: u64, setting: &Setting) -> Self {
        let mut prng = Prng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut flip = || prng.below(2) == 0;
        let (is_pause, is_kill, is_nbdkit) = (flip(), flip(), flip());
        let (is_apart, is_placed, is_early, is_short) = (flip(), flip(), flip(), flip());
        let mut size = || match prng.below(3) {
            0 => 4 << 10,
            1 => 64 << 10,
            _ => MIB,
        };
        let (a_bytes, b_bytes) = (size(), size());
        let fifth = setting.lease / 5;
        let part = u32::try_from(prng.below(1000)).expect("below a thousand");
        let (least, more) = if is_short { (fifth, fifth * 5) } else { (fifth * 6, fifth * 54) };
        let most_ms = if prng.below(2) == 0 { 8 } else { 150 };
        let total = MIB * if setting.is_long { 16 << prng.below(4) } else { 2 };
        Self {
            seed,
            away: if is_pause { Away::Pause } else { Away::Break },
            away_for: least + more * part / 1000,
            act: if is_kill { Act::Kill } else { Act::Unplug },
            program: if is_nbdkit { Program::Nbdkit } else { Program::QemuNbd },
            is_apart,
            is_placed,
            is_early,
            a_bytes,
            // Half of them while objects are given their first places.
            moment: Duration::from_millis(prng.below(most_ms)),
            a_depth: if prng.below(2) == 0 { 16 } else { 60 },
            b_bytes,
            b_total: total,
            // Half of it is written, so that the first gate's writes meet what is flushed.
            range_bytes: 2 * total,
        }
    }

    /// Where blocks lie that the first gate's client flushes before anything happens.
    pub(super) fn kept(&self) -> impl Iterator<Item = u64> + use<> {
        (0..KEPT_BLOCKS).map({
            let from = 2 * self.range_bytes;
            move |number| from + number * KEPT_APART
        })
    }

    /// Below this lies all that is written.
    pub(super) fn used_bytes(&self) -> u64 {
        2 * self.range_bytes + KEPT_BLOCKS * KEPT_APART
    }

    /// The keys of the volume that make this setting.
    pub(super) fn keys(&self, setting: &Setting, stage: &Stage) -> String {
        if is_old() {
            return String::new();
        }
        let lease = format!("lease = \"{} ms\"\n", setting.lease.as_millis());
        let late = match setting.kind {
            Kind::Spread => String::new(),
            // Until it is over nothing moves at the second gate.
            Kind::Tiered => format!("late = \"{} ms\"\n", setting.late().as_millis()),
        };
        let right = match setting.right {
            Right::Fence => {
                let script = stage.folder(B).join("fence.sh");
                std::fs::write(&script, self.script(stage)).expect("a script in scratch");
                format!("fence = [\"/bin/sh\", \"{}\"]\n", script.display())
            }
            Right::Unfenced => {
                let span = (setting.lease * 6 / 5).as_millis();
                format!("takeover = \"after {span} ms, unfenced\"\n")
            }
            Right::Claim => String::new(),
        };
        lease + &late + &right
    }

    /// A fence as a cluster's would be, in little. It notes what it was told.
    pub(super) fn script(&self, stage: &Stage) -> String {
        let note = stage.folder(B).join("fenced.txt");
        let tell = format!(
            "#!/bin/sh\nset -e\n\
             echo \"$EVENKEEL_VOLUME, $EVENKEEL_LOSER, $EVENKEEL_LOSER_ADDRESSES\" >> '{}'\n",
            note.display()
        );
        let act = match self.act {
            // One that is not there any more cannot be killed, and need not be.
            Act::Kill => "loser=\"${EVENKEEL_LOSER##*process }\"\n\
                          kill -9 \"$loser\" || ! kill -0 \"$loser\"\n"
                .to_owned(),
            Act::Unplug => format!(
                "test -n \"$EVENKEEL_LOSER_ADDRESSES\"\n\
                 for address in $EVENKEEL_LOSER_ADDRESSES; do\n  \
                 address=${{address%:*}}\n  {}\ndone\n",
                stage.network.fence_line()
            ),
        };
        tell + &act
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |is: bool, word: &'static str| if is { word } else { "" };
        write!(
            out,
            "seed {}: {:?} for {} ms, {:?}, A {} KiB x {}, B {} KiB to {} MiB{}{}{}",
            self.seed,
            self.away,
            self.away_for.as_millis(),
            self.program,
            self.a_bytes >> 10,
            self.a_depth,
            self.b_bytes >> 10,
            self.b_total >> 20,
            word(self.is_apart, ", apart"),
            word(self.is_placed, ", placed"),
            word(self.is_early, ", early"),
        )
    }
}
