//! Where everything goes: chart in, shapes out.
//!
//! ```text
//! | title                                |
//! | note                                 |
//! | # series one   # series two          |   the legend, in as many rows as it needs
//! | y |            _                     |
//! |   |  _ _  /\__/                      |
//! |   +----------------------------------|
//! |      0    10    20    30             |
//! |                 x                    |
//! ```

use super::chart::{Bars, Body, Chart, Line};
use super::font;
use super::scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};
use super::ticks::{self, Ticks};

const WIDTH: f64 = 800.0;
/// Of the plotted area.
const HEIGHT: f64 = 320.0;
const EDGE: f64 = 22.0;
const TITLE_SIZE: f64 = 17.0;
const TEXT_SIZE: f64 = 12.0;
const LEGEND_ROW: f64 = 20.0;
/// Of the longest name in a legend.
const NAME_WIDTH_MAX: f64 = 300.0;
/// Between two pixels of the picture nothing could be seen.
const POINTS_PER_UNIT: f64 = 2.0;

/// Draws a chart.
pub(super) fn draw(chart: &Chart) -> Scene {
    let mut sketch = Sketch::default();
    let top = sketch.head(chart);
    let frame_top = top + 14.0;
    let has_x_label = !chart.x.label.is_empty();
    let height = frame_top + HEIGHT + if has_x_label { 58.0 } else { 40.0 };
    let paper = Shape::Rectangle { corner: (0.0, 0.0), width: WIDTH, height, paint: Paint::Paper };
    sketch.shapes.insert(0, paper);

    let (x, y) = axes(chart);
    let widest = y.marks.iter().map(|&mark| font::width(&y.label(mark), TEXT_SIZE, false));
    let left = EDGE + 20.0 + widest.fold(0.0, f64::max) + 8.0;
    let frame = Frame { left, right: WIDTH - EDGE, top: frame_top, x, y };
    sketch.grid(chart, &frame);
    match &chart.body {
        Body::Lines(lines) => lines.iter().for_each(|line| sketch.line(&frame, line)),
        Body::Bars { groups, series } => sketch.bars(&frame, groups, series),
    }
    let base = stroke(Paint::Muted, 1.0);
    let bottom = frame.top + HEIGHT;
    sketch.path(vec![(frame.left, bottom), (frame.right, bottom)], base);
    Scene { width: WIDTH, height, title: chart.title.clone(), shapes: sketch.shapes }
}

/// The two axes; that of groups of bars is of no use.
fn axes(chart: &Chart) -> (Ticks, Ticks) {
    match &chart.body {
        Body::Lines(lines) => {
            let points = || lines.iter().flat_map(|line| line.points.iter());
            let x = points().map(|point| point.0);
            let y = points().map(|point| point.1);
            (Ticks::of(x, chart.x.scale, 8, true), Ticks::of(y, chart.y.scale, 5, false))
        }
        Body::Bars { series, .. } => {
            let values = series.iter().flat_map(|bars| bars.values.iter().flatten().copied());
            // Room for the figure above the highest bar.
            let y = Ticks::of(values.map(|value| value * 1.05), chart.y.scale, 5, false);
            (Ticks::of(std::iter::empty(), chart.x.scale, 1, false), y)
        }
    }
}

/// The plotted area.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    x: Ticks,
    y: Ticks,
}

impl Frame {
    fn width(&self) -> f64 {
        self.right - self.left
    }

    fn x_of(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * self.width()
    }

    fn y_of(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.place(value)) * HEIGHT
    }
}

#[derive(Default)]
struct Sketch {
    shapes: Vec<Shape>,
}

impl Sketch {
    /// Title, note and legend; returns where they end.
    fn head(&mut self, chart: &Chart) -> f64 {
        let mut y = EDGE + 14.0;
        let title = shortened(&chart.title, TITLE_SIZE, true, WIDTH - 2.0 * EDGE);
        self.text((EDGE, y), &title, Text { size: TITLE_SIZE, is_bold: true, ..text() });
        if !chart.note.is_empty() {
            y += 20.0;
            let note = shortened(&chart.note, TEXT_SIZE, false, WIDTH - 2.0 * EDGE);
            self.text((EDGE, y), &note, Text { paint: Paint::Muted, ..text() });
        }
        y += 10.0;
        self.legend(chart, y)
    }

    fn legend(&mut self, chart: &Chart, top: f64) -> f64 {
        let entries: Vec<(&str, usize, Option<bool>)> = match &chart.body {
            Body::Lines(lines) => lines
                .iter()
                .filter(|line| !line.name.is_empty())
                .map(|line| (line.name.as_str(), line.colour, Some(line.is_dashed)))
                .collect(),
            Body::Bars { series, .. } => {
                let bars = series.iter().enumerate();
                bars.map(|(index, bars)| (bars.name.as_str(), index, None)).collect()
            }
        };
        let (mut x, mut y) = (EDGE, top);
        for (name, colour, line) in entries {
            let name = shortened(name, TEXT_SIZE, false, NAME_WIDTH_MAX);
            let width = 26.0 + font::width(&name, TEXT_SIZE, false) + 20.0;
            if x > EDGE && x + width > WIDTH - EDGE {
                (x, y) = (EDGE, y + LEGEND_ROW);
            }
            self.legend_sign((x, y), colour, line);
            self.text((x + 26.0, y + 14.0), &name, text());
            x += width;
        }
        y + LEGEND_ROW
    }

    fn legend_sign(&mut self, (x, y): Point, colour: usize, line: Option<bool>) {
        let paint = Paint::Series(colour);
        match line {
            Some(is_dashed) => {
                let dash = is_dashed.then_some(5.0);
                let stroke = Stroke { paint, width: 2.5, dash };
                self.path(vec![(x, y + 10.0), (x + 20.0, y + 10.0)], stroke);
            }
            None => self.rectangle((x + 4.0, y + 4.0), 12.0, 12.0, paint),
        }
    }

    fn grid(&mut self, chart: &Chart, frame: &Frame) {
        let bottom = frame.top + HEIGHT;
        let grey = Text { paint: Paint::Muted, ..text() };
        for &mark in &frame.y.marks {
            let y = frame.y_of(mark);
            self.path(vec![(frame.left, y), (frame.right, y)], stroke(Paint::Grid, 1.0));
            let end = Text { anchor: Anchor::End, ..grey.clone() };
            self.text((frame.left - 8.0, y + 4.0), &frame.y.label(mark), end);
        }
        let beside = (EDGE + 6.0, frame.top + HEIGHT / 2.0);
        let middle = Text { anchor: Anchor::Middle, ..text() };
        self.text(beside, &chart.y.label, Text { is_upright: true, ..middle.clone() });
        if matches!(chart.body, Body::Bars { .. }) {
            return;
        }
        for &mark in &frame.x.marks {
            let x = frame.x_of(mark);
            self.path(vec![(x, bottom), (x, bottom + 5.0)], stroke(Paint::Muted, 1.0));
            let below = Text { anchor: Anchor::Middle, ..grey.clone() };
            self.text((x, bottom + 19.0), &frame.x.label(mark), below);
        }
        let below = (frame.left + frame.width() / 2.0, bottom + 41.0);
        self.text(below, &chart.x.label, middle);
    }

    fn line(&mut self, frame: &Frame, line: &Line) {
        let finite = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let points: Vec<Point> = finite.map(|&(x, y)| (frame.x_of(x), frame.y_of(y))).collect();
        let dash = line.is_dashed.then_some(5.0);
        let stroke = Stroke { paint: Paint::Series(line.colour), width: 2.0, dash };
        self.path(thinned(&points), stroke);
    }

    fn bars(&mut self, frame: &Frame, groups: &[String], series: &[Bars]) {
        let group_width = frame.width() / groups.len().max(1) as f64;
        let bar_width = (group_width * 0.8 / series.len().max(1) as f64).min(64.0);
        let used = bar_width * series.len() as f64;
        let bottom = frame.top + HEIGHT;
        for (group, label) in groups.iter().enumerate() {
            let middle = frame.left + group_width * (group as f64 + 0.5);
            let label = shortened(label, TEXT_SIZE, false, group_width - 6.0);
            self.text((middle, bottom + 20.0), &label, Text { anchor: Anchor::Middle, ..text() });
            for (index, bars) in series.iter().enumerate() {
                let Some(value) = bars.values.get(group).copied().flatten() else { continue };
                let x = middle - used / 2.0 + bar_width * index as f64;
                let (y, width) = (frame.y_of(value), bar_width * 0.9);
                self.rectangle((x, y), width, bottom - y, Paint::Series(index));
                self.figure((x + width / 2.0, y - 4.0), value, bar_width);
            }
        }
    }

    /// The value above its bar, where it does not touch its neighbours'.
    fn figure(&mut self, at: Point, value: f64, room: f64) {
        let (content, size) = (ticks::value(value), 10.5);
        if font::width(&content, size, false) < room {
            let figure = Text { size, anchor: Anchor::Middle, paint: Paint::Muted, ..text() };
            self.text(at, &content, figure);
        }
    }

    fn rectangle(&mut self, corner: Point, width: f64, height: f64, paint: Paint) {
        self.shapes.push(Shape::Rectangle { corner, width, height, paint });
    }

    fn path(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Path { points, stroke });
    }

    fn text(&mut self, at: Point, content: &str, mut text: Text) {
        (text.at, text.content) = (at, content.to_owned());
        self.shapes.push(Shape::Text(text));
    }
}

fn text() -> Text {
    Text {
        at: (0.0, 0.0),
        content: String::new(),
        size: TEXT_SIZE,
        anchor: Anchor::Start,
        is_bold: false,
        is_upright: false,
        paint: Paint::Ink,
    }
}

fn stroke(paint: Paint, width: f64) -> Stroke {
    Stroke { paint, width, dash: None }
}

/// The text, cut where it would be wider than `room`.
fn shortened(content: &str, size: f64, is_bold: bool, room: f64) -> String {
    if font::width(content, size, is_bold) <= room {
        return content.to_owned();
    }
    let mut kept: String = content.chars().take(200).collect();
    while !kept.is_empty() && font::width(&(kept.clone() + "..."), size, is_bold) > room {
        kept.pop();
    }
    kept + "..."
}

/// At most four points for each step to the right: the first, the extremes and the last, so that no
/// peak is lost and a long trace gives no large file.
fn thinned(points: &[Point]) -> Vec<Point> {
    let column = |point: &Point| (point.0 * POINTS_PER_UNIT).floor();
    let mut kept: Vec<Point> = Vec::new();
    for same in points.chunk_by(|first, second| (column(first) - column(second)).abs() < 0.5) {
        if same.len() <= 4 {
            kept.extend(same);
            continue;
        }
        let by_height = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
        let ends = [same.first(), same.iter().min_by(by_height)];
        kept.extend(ends.into_iter().flatten());
        kept.extend([same.iter().max_by(by_height), same.last()].into_iter().flatten());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars_of(chart: &Chart) -> Vec<f64> {
        let shapes = draw(chart).shapes;
        let heights = shapes.iter().filter_map(|shape| match shape {
            Shape::Rectangle { height, paint: Paint::Series(_), .. } => Some(*height),
            _ => None,
        });
        // The legend's squares come first.
        heights.skip(2).collect()
    }

    #[test]
    fn bars_are_as_high_as_their_values_and_gaps_stay_empty() {
        let series = [("paper", vec![Some(1.0), None]), ("here", vec![Some(2.0), Some(0.5)])];
        let series = series.map(|(name, values)| Bars { name: name.to_owned(), values });
        let groups = vec!["one".to_owned(), "two".to_owned()];
        let heights = bars_of(&Chart::bars("a < b", "ratio", groups, series.into()));
        assert_eq!(heights.len(), 3);
        assert!((heights[1] / heights[0] - 2.0).abs() < 0.01, "{heights:?}");
        assert!((heights[1] / heights[2] - 4.0).abs() < 0.01, "{heights:?}");
    }

    #[test]
    fn everything_lies_within_the_picture_whatever_the_names_are() {
        let long = "a name that nobody would give ".repeat(30);
        let line = |index| Line { name: long.clone(), colour: index, ..Line::default() };
        let mut lines: Vec<Line> = (0..8).map(line).collect();
        lines[0].points = vec![(0.0, 0.0), (1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, 1e12)];
        let scene = draw(&Chart::over_time(long.clone(), "rate (MiB/s)", lines).noting(long));
        for shape in &scene.shapes {
            if let Shape::Text(text) = shape
                && text.anchor == Anchor::Start
            {
                let end = text.at.0 + font::width(&text.content, text.size, text.is_bold);
                assert!(end <= scene.width, "{} ends at {end}", text.content);
                assert!(text.at.1 < scene.height);
            }
        }
    }

    #[test]
    fn a_long_series_keeps_its_peaks_and_loses_its_length() {
        let mut points: Vec<Point> =
            (0..100_000).map(|index| (f64::from(index) / 1000.0, 5.0)).collect();
        points[77_777].1 = 9.0;
        let kept = thinned(&points);
        assert!(kept.len() < 1000, "{}", kept.len());
        assert!(kept.iter().any(|point| point.1 > 8.0), "the peak is kept");
    }

    #[test]
    fn a_chart_of_nothing_is_drawn_all_the_same() {
        for body in [Body::Lines(Vec::new()), Body::Bars { groups: vec![], series: vec![] }] {
            let chart = Chart { body, ..Chart::over_time("nothing", "rate", Vec::new()) };
            assert!(chart.png().starts_with(b"\x89PNG"));
            assert!(chart.svg().ends_with("</svg>\n"));
        }
    }

    #[test]
    fn text_is_escaped_and_pixels_hold_text_without_any_font_of_the_system() {
        let chart = Chart::over_time("a < b & \"c\"\u{7}", "rate", Vec::new());
        assert!(chart.svg().contains("a &lt; b &amp; \"c\"?"), "{}", chart.svg());
        let blank = Chart::over_time("", "rate", Vec::new());
        assert_ne!(chart.png(), blank.png(), "the title is in the pixels");
    }
}
