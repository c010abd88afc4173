//! Grouped bar charts as SVG: as much of a plotting library as a paper's figures need.
//!
//! ```text
//! axis |        _
//!      |  _ _  | |         one group per label,
//!      | | | | | |_        one bar per series in it
//!      +--label--label--
//! ```

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 60.0;

/// Colours that stay apart in print and for most colour-blind readers (Okabe and Ito, 2008).
const COLOURS: [&str; 5] = ["#999999", "#E69F00", "#0072B2", "#009E73", "#CC79A7"];

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chart {
    /// Above it.
    pub(super) title: String,
    /// Beside the vertical axis, with the unit.
    pub(super) axis: String,
    /// Under each group.
    pub(super) groups: Vec<String>,
    /// What the bars mean, and one value per group; `None` leaves a gap.
    pub(super) series: Vec<(String, Vec<Option<f64>>)>,
}

impl Chart {
    /// The chart as an SVG document.
    pub(super) fn svg(&self) -> String {
        let values = self.series.iter().flat_map(|(_, values)| values.iter().flatten());
        let top = ceiling(values.copied().fold(0.0, f64::max));
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        text(&mut out, (WIDTH / 2.0, 24.0), "middle", &self.title, "font-size=\"16\"");
        self.grid(&mut out, top);
        self.bars(&mut out, top);
        self.legend(&mut out);
        out + "</svg>\n"
    }

    fn grid(&self, out: &mut String, top: f64) {
        for step in 0..=5 {
            let value = top * f64::from(step) / 5.0;
            let y = y_of(value, top);
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>",
                WIDTH - RIGHT
            );
            text(out, (LEFT - 8.0, y + 4.0), "end", &number(value), "");
        }
        let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
        let turned = format!("transform=\"rotate(-90 18 {middle})\"");
        text(out, (18.0, middle), "middle", &self.axis, &turned);
    }

    fn bars(&self, out: &mut String, top: f64) {
        let group_width = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let bar_width = group_width * 0.8 / self.series.len().max(1) as f64;
        for (group, label) in self.groups.iter().enumerate() {
            let start = LEFT + group_width * group as f64;
            text(out, (start + group_width / 2.0, HEIGHT - BOTTOM + 20.0), "middle", label, "");
            for (index, (_, values)) in self.series.iter().enumerate() {
                let Some(value) = values.get(group).copied().flatten() else { continue };
                let x = start + group_width * 0.1 + bar_width * index as f64;
                let y = y_of(value, top);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"/>",
                    bar_width * 0.92,
                    (HEIGHT - BOTTOM - y).max(0.0),
                    COLOURS[index % COLOURS.len()]
                );
                let middle = (x + bar_width * 0.46, y - 4.0);
                text(out, middle, "middle", &number(value), "font-size=\"11\"");
            }
        }
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for (index, (name, _)) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
            );
            text(out, (x + 17.0, 49.0), "start", name, "");
            x += 17.0 + 7.5 * name.chars().count() as f64 + 18.0;
        }
    }
}

fn y_of(value: f64, top: f64) -> f64 {
    let height = HEIGHT - TOP - BOTTOM;
    HEIGHT - BOTTOM - height * (value / top).clamp(0.0, 1.0)
}

/// A round number at or above `value`, some room over the highest bar included.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let wanted = value * 1.05;
    let magnitude = 10f64.powf(wanted.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * magnitude >= wanted);
    step.unwrap_or(10.0) * magnitude
}

fn number(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, content: &str, more: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{content}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values_and_gaps_stay_empty() {
        let chart = Chart {
            title: "a < b".to_owned(),
            axis: "ratio".to_owned(),
            groups: vec!["one".to_owned(), "two".to_owned()],
            series: vec![
                ("paper".to_owned(), vec![Some(1.0), None]),
                ("here".to_owned(), vec![Some(2.0), Some(0.5)]),
            ],
        };
        let svg = chart.svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b"), "text is escaped");
        let bars = svg.lines().filter(|line| line.contains("height") && line.contains(" fill=\"#"));
        let heights: Vec<f64> = bars
            .filter(|line| !line.contains("height=\"12\""))
            .map(|line| line.split("height=\"").nth(1).unwrap().split('"').next().unwrap())
            .map(|height| height.parse().unwrap())
            .collect();
        assert_eq!(heights.len(), 3);
        assert!((heights[1] / heights[0] - 2.0).abs() < 0.01, "{heights:?}");
        assert!((heights[1] / heights[2] - 4.0).abs() < 0.01, "{heights:?}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0.0, 0.9, 5.8, 16.1, 112.0].map(|value| number(ceiling(value)));
        assert_eq!(ends, ["1", "1", "8", "20", "150"]);
        assert_eq!([0.5, 1.0, 15.25, 120.4].map(number), ["0.5", "1", "15.25", "120"]);
    }
}
