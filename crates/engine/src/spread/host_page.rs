//! One page of a host, as Prometheus' `node_exporter` writes it, read for the lines that matter.
//!
//! ```text
//! node_memory_MemTotal_bytes 1.6733212672e+10
//! node_memory_MemAvailable_bytes 1.1e+10          what the kernel would give as cache
//! node_cpu_seconds_total{cpu="0",mode="idle"} 80931.3
//! ```
//!
//! Processor counters run from boot: utilisation is their difference between two pages.

use crate::policy::HostFigures;

/// What a page says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    memory_bytes: f64,
    memory_free_bytes: f64,
    /// Processor seconds, and those of them without work.
    seconds: f64,
    idle_seconds: f64,
}

impl Sample {
    /// Reads a page, whatever it is; none if it does not say how much memory there is.
    pub fn read(text: &str) -> Option<Self> {
        let mut sample = Self::default();
        for line in text.lines().filter(|line| line.starts_with("node_")) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Some(value) = value.parse::<f64>().ok().filter(|value| *value >= 0.0) else {
                continue;
            };
            match name {
                "node_memory_MemTotal_bytes" => sample.memory_bytes = value,
                "node_memory_MemAvailable_bytes" => sample.memory_free_bytes = value,
                _ if name.starts_with("node_cpu_seconds_total{") => {
                    sample.seconds += value;
                    if ["\"idle\"", "\"iowait\""].iter().any(|mode| name.contains(mode)) {
                        sample.idle_seconds += value;
                    }
                }
                _ => {}
            }
        }
        (sample.memory_bytes > 0.0).then_some(sample)
    }

    /// What it comes to after the sample before. Without processor counters it counts as busy.
    pub fn figures(&self, before: Option<&Self>) -> HostFigures {
        // Counters that went back have begun anew. A page may say anything: what is beyond all
        // numbers saturates, and a busy part that is none counts as no work at all.
        let before = before.filter(|before| before.seconds <= self.seconds);
        let since = |of: fn(&Self) -> f64| of(self) - before.map_or(0.0, of);
        let (seconds, idle) = (since(|one| one.seconds), since(|one| one.idle_seconds));
        let busy = if seconds > 0.0 { (1.0 - idle / seconds).clamp(0.0, 1.0) } else { 1.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, parts")]
        let [memory_bytes, memory_free_bytes, milli] =
            [self.memory_bytes, self.memory_free_bytes, (busy * 1000.0).round()]
                .map(|value| value as u64);
        let cpu_milli = u32::try_from(milli).expect("a thousand at most");
        HostFigures { memory_bytes, memory_free_bytes, cpu_milli }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.\n\
        # TYPE node_cpu_seconds_total counter\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 70\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"iowait\"} 10\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 20\n\
        node_memory_MemAvailable_bytes 2.5e+09\n\
        node_memory_MemFree_bytes 1e+08\n\
        node_memory_MemTotal_bytes 1e+10\n";

    #[test]
    fn memory_is_what_could_be_had_and_processors_are_as_busy_as_since_the_last_page() {
        let sample = Sample::read(PAGE).unwrap();
        let figures = sample.figures(None);
        assert_eq!(
            (figures.memory_bytes, figures.memory_free_bytes),
            (10_u64.pow(10), 25 * 10_u64.pow(8))
        );
        assert_eq!(figures.cpu_milli, 200);
        let later = Sample { seconds: 110.0, idle_seconds: 82.0, ..sample };
        assert_eq!(later.figures(Some(&sample)).cpu_milli, 800);
        assert_eq!(sample.figures(Some(&later)).cpu_milli, 200, "the host was restarted");
    }

    #[test]
    fn what_is_no_such_page_tells_nothing() {
        for text in
            ["", "<html>", "node_memory_MemTotal_bytes NaN", "node_memory_MemTotal_bytes -1"]
        {
            assert_eq!(Sample::read(text), None, "{text}");
        }
        let memory_alone = Sample::read("node_memory_MemTotal_bytes 5").unwrap();
        assert_eq!(memory_alone.figures(None).cpu_milli, 1000);
    }
}
