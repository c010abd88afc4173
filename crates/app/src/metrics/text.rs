//! The text format of Prometheus, version 0.0.4: families of samples, each with its HELP and TYPE
//! lines, labels escaped.

use std::fmt::Write;

use evenkeel_core::histogram::Histogram;

use super::table::Metric;

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of histogram buckets: in nanoseconds, and in seconds as the label says it.
pub const BOUNDS: [(u64, &str); 19] = [
    (10_000, "0.00001"),
    (25_000, "0.000025"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

/// A document that is being written.
#[derive(Debug, Default)]
pub struct Document {
    text: String,
}

/// One family of samples that is being written.
#[derive(Debug)]
pub struct Family<'d> {
    metric: &'static Metric,
    text: &'d mut String,
}

impl Document {
    /// Begins a family. Its samples follow, all of them.
    pub fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        let (name, kind) = (metric.name, metric.kind.name());
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { metric, text: &mut self.text }
    }

    /// The document.
    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// A sample; one value for each label of the metric.
    pub fn sample(&mut self, labels: &[&str], value: f64) {
        self.line("", labels, None, value);
    }

    /// A count.
    pub fn count(&mut self, labels: &[&str], value: u64) {
        self.sample(labels, value as f64);
    }

    /// A histogram: cumulative buckets, sum and count.
    ///
    /// A bucket of the histogram that straddles a bound counts above it, so that no quantile looks
    /// better than it was; the buckets are narrower than 4 %.
    pub fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        let mut buckets = histogram.buckets().peekable();
        let mut below = 0;
        for (bound, label) in BOUNDS {
            while let Some((_, count)) = buckets.next_if(|(upper, _)| upper.0 <= bound) {
                below += count;
            }
            self.line("_bucket", labels, Some(label), below as f64);
        }
        self.line("_bucket", labels, Some("+Inf"), histogram.count() as f64);
        self.line("_sum", labels, None, histogram.sum().as_secs_f64());
        self.line("_count", labels, None, histogram.count() as f64);
    }

    fn line(&mut self, suffix: &str, values: &[&str], bound: Option<&str>, number: f64) {
        assert_eq!(values.len(), self.metric.labels.len(), "labels of {}", self.metric.name);
        let labels = self.metric.labels.iter().copied().zip(values.iter().copied());
        self.text.push_str(self.metric.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (label, value) in labels.chain(bound.map(|bound| ("le", bound))) {
            self.text.push(separator);
            separator = ',';
            let _ = write!(self.text, "{label}=\"");
            escape(value, self.text);
            self.text.push('"');
        }
        if separator == ',' {
            self.text.push('}');
        }
        // Display of a float is the shortest text that reads back the same; never an exponent.
        let _ = writeln!(self.text, " {number}");
    }
}

fn escape(value: &str, text: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table;
    use evenkeel_core::time::Span;

    #[test]
    fn label_values_are_escaped() {
        let mut document = Document::default();
        document.family(&table::EXPORT_SIZE).count(&["a\\b\"c\nd"], 5);
        assert!(document.finish().ends_with("{export=\"a\\\\b\\\"c\\nd\"} 5\n"));
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let mut histogram = Histogram::default();
        for ns in [1_000, 40_000, 30_000_000, 20_000_000_000] {
            histogram.record(Span(ns));
        }
        let mut document = Document::default();
        document.family(&table::QUEUE).histogram(&["d", "t"], &histogram);
        let text = document.finish();
        let bucket = |le: &str| {
            let key = format!("le=\"{le}\"}} ");
            text.split_once(&key).and_then(|(_, rest)| rest.lines().next()).unwrap().to_owned()
        };
        let counts = ["0.00001", "0.00005", "0.025", "0.05", "10", "+Inf"].map(bucket);
        assert_eq!(counts, ["1", "2", "2", "3", "3", "4"]);
        assert!(text.contains("evenkeel_queue_seconds_count{domain=\"d\",tenant=\"t\"} 4\n"));
        assert!(text.contains("evenkeel_queue_seconds_sum{domain=\"d\",tenant=\"t\"} 20.030041\n"));
    }
}
