//! Pieces of a trace that are no records: refused, or counted and left out.

use evenkeel_trace::codec::Defect;

use crate::exit::Exit;
use crate::terminal;

/// Defects whose place and reason are kept.
const SHOWN_MAX: usize = 5;

/// What becomes of defects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDefect {
    /// The first one ends the work.
    #[default]
    Refuse,
    /// They are left out and counted.
    Skip,
}

/// The defects of one trace.
#[derive(Clone, Debug, Default)]
pub struct Defects {
    on_defect: OnDefect,
    count: u64,
    first: Vec<String>,
    /// Parts of classes that only a newer program knows, which may be left out.
    passed_over: u64,
}

impl Defects {
    /// No defects so far.
    pub fn new(on_defect: OnDefect) -> Self {
        Self { on_defect, ..Self::default() }
    }

    /// Notes what is wrong in the trace `name`.
    ///
    /// # Errors
    /// [`Exit::Invalid`] with the place, the reason and the remedy, unless defects are skipped.
    pub fn note(&mut self, name: &str, defect: &Defect) -> anyhow::Result<()> {
        self.add(format!("{name}:{defect}"))
    }

    /// Notes that a record cannot be written to the trace `name`.
    ///
    /// # Errors
    /// As [`Self::note`].
    pub fn note_unwritable(&mut self, name: &str, number: u64, why: &str) -> anyhow::Result<()> {
        self.add(format!("request {number} does not fit {name}: {why}"))
    }

    /// Notes how many parts were passed over so far; see [`Decoder::passed_over`].
    ///
    /// [`Decoder::passed_over`]: evenkeel_trace::codec::Decoder::passed_over
    pub fn note_passed_over(&mut self, count: u64) {
        self.passed_over = count;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Place and reason of the first few.
    pub fn first(&self) -> &[String] {
        &self.first
    }

    /// Says on stderr how many there were, and which came first.
    pub fn tell(&self) {
        if self.passed_over > 0 {
            terminal::say(&format!(
                "passed over {} parts that this program does not know; a newer evenkeel knows \
                 them, requests may be among them",
                self.passed_over
            ));
        }
        if self.count == 0 {
            return;
        }
        terminal::say(&format!("left out {} bad entries:", self.count));
        self.first.iter().for_each(|defect| terminal::say(&format!("  {defect}")));
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            terminal::say(&format!("  and {more} more"));
        }
    }

    /// The same for programs.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "count": self.count,
            "first": self.first,
            "passed_over": self.passed_over,
        })
    }

    fn add(&mut self, what: String) -> anyhow::Result<()> {
        if self.on_defect == OnDefect::Refuse {
            let remedy = "with --skip-bad such entries are left out and counted";
            return Err(Exit::Invalid.because(format!("{what}; {remedy}")));
        }
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_trace::codec::Place;

    use super::*;

    #[test]
    fn a_defect_is_refused_with_place_and_remedy_or_counted() {
        let defect = Defect { place: Place::Line(12), reason: "no kind".to_owned() };
        let mut refusing = Defects::new(OnDefect::Refuse);
        let error = refusing.note("web.csv", &defect).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Invalid);
        assert!(error.to_string().starts_with("web.csv:12: no kind; with --skip-bad"), "{error}");
        let mut skipping = Defects::new(OnDefect::Skip);
        for _ in 0..9 {
            skipping.note("web.csv", &defect).unwrap();
        }
        assert_eq!((skipping.count(), skipping.first().len()), (9, SHOWN_MAX));
    }
}
