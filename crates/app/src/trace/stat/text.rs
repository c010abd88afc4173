//! What a trace is like, for people.

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::Span;
use evenkeel_trace::cache::BLOCK_BYTES;
use evenkeel_trace::statistics::{Distinct, Figures, KindFigures, Sizes, Summary};

use super::{Found, name_of, policies};
use crate::{human, spark, terminal};

/// Sources of the table.
const SOURCES_SHOWN: usize = 50;

/// Bars of the rate over time.
const BARS: usize = 60;

/// Sizes of caches in the table of miss ratios.
const CACHES: [u64; 6] = [1 << 20, 16 << 20, 128 << 20, 1 << 30, 8 << 30, 64 << 30];

pub(super) fn render(found: &Found<'_>, with_sources: bool) -> String {
    let Summary { duration, stepped_back, total, sources, others } = &found.summary;
    let count = sources.len() + usize::from(others.is_some());
    let mut text = format!(
        "{} ({}): {} requests of {count} sources over {}\n\n",
        found.trace.name(),
        found.trace.format().name(),
        total.requests,
        human::duration(*duration),
    );
    text += &kinds(total, *duration);
    text.push('\n');
    text += &sizes(total);
    text.push('\n');
    text += &arrivals(total);
    text += &rate(found);
    text.push('\n');
    text += &places(total);
    text += &reuse(total);
    text += &policies::lines(found.trace);
    if *stepped_back > 0 {
        text += &format!("{stepped_back} requests stepped back in time\n");
    }
    if with_sources {
        text.push('\n');
        text += &source_table(found);
    }
    text
}

fn kinds(total: &Figures, duration: Span) -> String {
    let seconds = duration.as_secs_f64();
    let rate = |value: u64, show: fn(f64) -> String| {
        if seconds > 0.0 { show(value as f64 / seconds) } else { "-".to_owned() }
    };
    let row = |(kind, figures): (Kind, &KindFigures)| {
        let responses = &figures.responses;
        let quantile = |q| responses.quantile(q).map_or_else(|| "-".to_owned(), human::duration);
        vec![
            kind.name().to_owned(),
            figures.requests.to_string(),
            share(Some(figures.requests as f64 / total.requests.max(1) as f64)),
            rate(figures.requests, human::count),
            human::size(figures.bytes as f64),
            rate(figures.bytes, human::byte_rate),
            human::duration(responses.mean()),
            quantile(0.50),
            quantile(0.99),
        ]
    };
    let used = Kind::ALL.into_iter().zip(&total.kinds).filter(|(_, kind)| kind.requests > 0);
    let rows: Vec<_> = used.map(row).collect();
    let header =
        ["KIND", "REQUESTS", "PART", "PER S", "BYTES", "RATE", "RESPONSE MEAN", "P50", "P99"];
    terminal::table(&header, &rows)
}

fn sizes(total: &Figures) -> String {
    let row = |(name, sizes): (&str, &Sizes)| {
        let quantile = |q| size(sizes.quantile(q).map(|bytes| bytes as f64));
        vec![
            name.to_owned(),
            size(sizes.tally().mean()),
            quantile(0.10),
            quantile(0.50),
            quantile(0.90),
            quantile(0.99),
            size(Some(sizes.tally().max as f64)),
        ]
    };
    let both = [("read", &total.read_sizes), ("write", &total.write_sizes)];
    let used = both.into_iter().filter(|(_, sizes)| sizes.tally().count > 0);
    let rows: Vec<_> = used.map(row).collect();
    terminal::table(&["SIZE", "MEAN", "P10", "P50", "P90", "P99", "MAX"], &rows)
}

fn arrivals(total: &Figures) -> String {
    let mut text = format!(
        "arrivals    {}/s on average, {}/s in the busiest second\n",
        number(total.rate_per_second, human::count),
        human::count(total.peak_per_second as f64),
    );
    if let (Some(mean), Some(variation)) = (total.gap_mean_ns, total.gap_variation) {
        text += &format!(
            "gaps        {} on average, coefficient of variation {variation:.2} (1 for Poisson)\n",
            human::duration(span(mean)),
        );
    }
    let known = total.dispersion.iter().filter_map(|window| Some((window, window.index?)));
    let windows: Vec<String> = known
        .map(|(window, index)| format!("{index:.1} at {}", human::duration(window.window)))
        .collect();
    if !windows.is_empty() {
        let windows = windows.join(", ");
        text += &format!("burstiness  {windows} (index of dispersion, 1 for Poisson)\n");
    }
    text
}

fn rate(found: &Found<'_>) -> String {
    let intervals = found.over_time.intervals();
    let step = intervals.len().div_ceil(BARS).max(1);
    let sums: Vec<u64> = intervals
        .chunks(step)
        .map(|chunk| chunk.iter().map(|interval| interval.requests()).sum())
        .collect();
    let top = sums.iter().copied().max().unwrap_or(0);
    let line: String = sums.iter().map(|&sum| spark::bar(sum as f64 / top.max(1) as f64)).collect();
    let width = Span(found.over_time.width().0 * step as u64);
    let highest = human::count(top as f64 / width.as_secs_f64().max(1e-9));
    let width = human::duration(width);
    format!("over time   {line}  (one bar is {width}, the highest {highest}/s)\n")
}

fn places(total: &Figures) -> String {
    format!(
        "footprint   {} of a span of {}, {} of it written\n\
         sequential  {} of reads and writes begin where the last one ended\n\
         rewritten   {} of the blocks written had been written before\n",
        blocks(total.footprint_blocks),
        human::size(total.span_bytes as f64),
        blocks(total.written_blocks),
        share(total.sequential_share),
        share(total.overwrite_share),
    )
}

fn reuse(total: &Figures) -> String {
    if total.reuse.accesses == 0 {
        return String::new();
    }
    let footprint_bytes = total.footprint_blocks.count.saturating_mul(BLOCK_BYTES);
    // Larger caches than the first that holds everything tell nothing more.
    let useful = CACHES.iter().position(|&bytes| bytes >= footprint_bytes);
    let caches = &CACHES[..useful.map_or(CACHES.len(), |last| last + 1)];
    let ratios: Vec<String> = caches
        .iter()
        .map(|&bytes| {
            let misses = total.reuse.at(bytes / BLOCK_BYTES);
            format!("{} at {}", share(Some(misses)), human::size(bytes as f64))
        })
        .collect();
    format!("LRU misses  {}\n", ratios.join(", "))
}

fn source_table(found: &Found<'_>) -> String {
    let Summary { sources, others, total, .. } = &found.summary;
    let row = |name: &str, figures: &Figures| {
        vec![
            name.to_owned(),
            figures.requests.to_string(),
            share(Some(figures.requests as f64 / total.requests.max(1) as f64)),
            number(figures.rate_per_second, human::count),
            number(figures.bytes_per_second, human::byte_rate),
            share(figures.read_share),
            share(figures.sequential_share),
            blocks(figures.footprint_blocks),
            human::size(figures.span_bytes as f64),
        ]
    };
    let mut sorted: Vec<_> = sources.iter().collect();
    sorted.sort_by_key(|source| std::cmp::Reverse(source.figures.requests));
    let names = found.trace.sources();
    let mut rows: Vec<_> = sorted
        .iter()
        .take(SOURCES_SHOWN)
        .map(|source| row(name_of(names, source.source), &source.figures))
        .collect();
    rows.extend(others.iter().map(|figures| row("(others)", figures)));
    let header =
        ["SOURCE", "REQUESTS", "PART", "PER S", "RATE", "READ", "SEQUENTIAL", "FOOTPRINT", "SPAN"];
    let more = sorted.len().saturating_sub(SOURCES_SHOWN);
    let table = terminal::table(&header, &rows);
    if more > 0 { table + &format!("and {more} more; --json tells of all\n") } else { table }
}

fn blocks(blocks: Distinct) -> String {
    let bytes = blocks.count.saturating_mul(BLOCK_BYTES);
    let about = if blocks.is_exact() { "" } else { "about " };
    format!("{about}{}", human::size(bytes as f64))
}

fn share(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}%", part * 100.0))
}

fn size(bytes: Option<f64>) -> String {
    number(bytes, human::size)
}

fn number(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
fn span(ns: f64) -> Span {
    Span(ns.max(0.0) as u64)
}
